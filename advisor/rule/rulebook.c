#include "advisor/rule/rulebook.h"

#include <assert.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "advisor/store/writer_calls.h"
#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/core/file.h"
#include "base/core/log.h"

#include "policy/file/policy_parse.h"

/* A version in memory: in force, or somebody still looks at it. */
struct version {
    struct advisor_rules rules; /* first: who takes it is given this */
    struct policy *policy;
    char *text;
    uint64_t *prefixes;
    size_t count; /* takes, and one while it is in force; under the rulebook's lock */
};

struct advisor_rulebook {
    struct advisor_store *store;
    uint64_t newest;      /* version in the store; the writing thread's */
    pthread_mutex_t lock; /* a leaf: guards `current` and every count */
    struct version *current;
    struct kvt_error file_error; /* when it was read again; under the lock */
};

/* ---- a version ---- */

static void
version_free(struct version *version)
{
    if (version == NULL)
        return;
    policy_free(version->policy);
    kvt_free(version->text);
    kvt_free(version->prefixes);
    kvt_free(version);
}

static bool
has_prefix(const struct version *version, uint64_t hash)
{
    for (size_t i = 0; i < version->rules.prefix_count; i++)
        if (version->prefixes[i] == hash)
            return true;
    return false;
}

static enum kvt_err
add_prefixes(struct version *version, const struct policy_expression *when)
{
    uint64_t hash;

    for (size_t i = 0; when != NULL && policy_expression_prefix(when, i, &hash); i++) {
        if (has_prefix(version, hash))
            continue;
        if (version->rules.prefix_count == ADVISOR_RULES_PREFIXES_MAX)
            return KVT_RANGE;
        version->prefixes[version->rules.prefix_count++] = hash;
    }
    return KVT_OK;
}

static enum kvt_err
find_prefixes(struct version *version, struct kvt_error *err)
{
    const struct policy *policy = version->policy;
    enum kvt_err rc = KVT_OK;

    version->prefixes = kvt_calloc(ADVISOR_RULES_PREFIXES_MAX, sizeof(*version->prefixes));
    if (version->prefixes == NULL)
        return kvt_error_set(err, KVT_NOMEM, "policy: out of memory");
    for (size_t i = 0; i < policy->classes.count && rc == KVT_OK; i++)
        rc = add_prefixes(version, policy_class_at(policy, i)->when);
    for (size_t i = 0; i < policy->rules.count && rc == KVT_OK; i++)
        rc = add_prefixes(version, policy_rule_at(policy, i)->when);
    return rc == KVT_OK ? KVT_OK
                        : kvt_error_set(err, rc, "policy: more than %d hashes in prefix()",
                                        ADVISOR_RULES_PREFIXES_MAX);
}

/* Read `text`; number, time and source are the caller's to set. */
static enum kvt_err
version_new(struct version **out, const char *name, const char *text, size_t size,
            struct policy_problems *problems, struct kvt_error *err)
{
    struct version *version;
    enum kvt_err rc;

    *out = NULL;
    *problems = (struct policy_problems){.count = 0};
    if (size > KVT_YAML_FILE_MAX)
        return kvt_error_set(err, KVT_RANGE, "%s: %zu bytes; a policy has at most %u", name, size,
                             KVT_YAML_FILE_MAX);
    version = kvt_calloc(1, sizeof(*version));
    if (version == NULL)
        return kvt_error_set(err, KVT_NOMEM, "%s: out of memory", name);
    rc = policy_parse(&version->policy, name, text, size, problems, err);
    if (rc == KVT_OK)
        rc = find_prefixes(version, err);
    if (rc != KVT_OK)
        goto fail;
    version->text = kvt_calloc(size + 1, 1);
    if (version->text == NULL ||
        advisor_rulebook_digest(text, size, version->rules.digest) != KVT_OK) {
        rc = kvt_error_set(err, KVT_NOMEM, "%s: out of memory", name);
        goto fail;
    }
    memcpy(version->text, text, size);
    version->text[size] = '\0';
    version->rules.policy = version->policy;
    version->rules.text = version->text;
    version->rules.size = size;
    version->rules.prefixes = version->prefixes;
    version->count = 1;
    *out = version;
    return KVT_OK;

fail:
    version_free(version);
    return rc;
}

/* ---- any thread ---- */

enum kvt_err
advisor_rules_new(struct advisor_rules **out, const char *text, size_t size,
                  struct policy_problems *problems, struct kvt_error *err)
{
    struct version *version;
    const enum kvt_err rc = version_new(&version, "policy", text, size, problems, err);

    *out = version == NULL ? NULL : &version->rules;
    return rc;
}

void
advisor_rules_free(struct advisor_rules *rules)
{
    version_free((struct version *)rules); /* its first member */
}

const struct advisor_rules *
advisor_rulebook_take(struct advisor_rulebook *book)
{
    struct version *version;

    (void)pthread_mutex_lock(&book->lock);
    version = book->current;
    version->count++;
    (void)pthread_mutex_unlock(&book->lock);
    return &version->rules;
}

static void
let_go(struct advisor_rulebook *book, struct version *version)
{
    bool last;

    (void)pthread_mutex_lock(&book->lock);
    assert(version->count > 0);
    last = --version->count == 0;
    (void)pthread_mutex_unlock(&book->lock);
    if (last)
        version_free(version);
}

void
advisor_rulebook_give(struct advisor_rulebook *book, const struct advisor_rules *rules)
{
    if (rules != NULL)
        let_go(book, (struct version *)(uintptr_t)rules);
}

int32_t
advisor_rules_tier(const struct advisor_rules *rules, const char *holder)
{
    return policy_tier_of_holder(rules->policy, holder);
}

enum advisor_mode
advisor_rules_mode(const struct advisor_rules *rules, enum advisor_mode allowed)
{
    const enum advisor_mode own = (enum advisor_mode)rules->policy->modes.mode;

    return own < allowed ? own : allowed;
}

_Static_assert((int)ADVISOR_MODE_OFF == (int)POLICY_MODE_OFF &&
                   (int)ADVISOR_MODE_OBSERVE == (int)POLICY_MODE_OBSERVE &&
                   (int)ADVISOR_MODE_ENFORCE == (int)POLICY_MODE_ENFORCE,
               "modes have one order");

/* ---- putting a version in force ---- */

/* Only the thread that writes changes `current`, so it may look without the lock. */
static void
put_in_force(struct advisor_rulebook *book, struct version *version)
{
    struct version *former;

    (void)pthread_mutex_lock(&book->lock);
    former = book->current;
    book->current = version;
    (void)pthread_mutex_unlock(&book->lock);
    if (former != NULL)
        let_go(book, former);
    kvt_log_info("advisor.rulebook", "policy", "policy version %" PRIu64 " is in force, from %s",
                 version->rules.version, version->rules.source);
}

static enum kvt_err
write_rows(const struct advisor_txn *txn, const struct advisor_policy_row *row, const char *text,
           bool is_file)
{
    const enum kvt_err rc = advisor_store_put_policy(txn, row, text);

    return rc == KVT_OK && is_file ? advisor_store_put_policy_file(txn, row->digest) : rc;
}

/* In a transaction of its own: a policy that has no room must not hold up events. */
static enum kvt_err
write_version(struct advisor_rulebook *book, const struct version *version, struct kvt_error *err)
{
    struct advisor_policy_row row = {.version = version->rules.version,
                                     .since_ms = version->rules.since_ms,
                                     .size = version->rules.size};
    struct advisor_txn txn;
    enum kvt_err rc = advisor_store_write(book->store, &txn, err);

    if (rc != KVT_OK)
        return rc;
    memcpy(row.source, version->rules.source, sizeof(row.source));
    memcpy(row.digest, version->rules.digest, ADVISOR_POLICY_DIGEST_MAX);
    rc = write_rows(&txn, &row, version->text, strcmp(row.source, "file") == 0);
    if (rc != KVT_OK) {
        advisor_store_end(&txn);
        return kvt_error_set(err, rc, "write the policy: %s", kvt_err_text(rc));
    }
    return advisor_store_commit(&txn, err);
}

/* Durable also against a power cut; that it is written is true by now in any case. */
static enum kvt_err
sync_version(struct advisor_rulebook *book, uint64_t version, struct kvt_error *err)
{
    struct kvt_error why = {.text = ""};
    const enum kvt_err rc = advisor_store_sync(book->store, &why);

    return rc == KVT_OK ? KVT_OK
                        : kvt_error_set(err, rc,
                                        "policy version %" PRIu64
                                        " is in force, not yet proof against a power cut: %.120s",
                                        version, why.text);
}

/* The file says what is in force already: that is not to be installed again either. */
static enum kvt_err
write_file(struct advisor_rulebook *book, const char digest[ADVISOR_POLICY_DIGEST_MAX],
           struct kvt_error *err)
{
    struct advisor_txn txn;
    enum kvt_err rc = advisor_store_write(book->store, &txn, err);

    if (rc != KVT_OK)
        return rc;
    rc = advisor_store_put_policy_file(&txn, digest);
    if (rc == KVT_OK)
        return advisor_store_commit(&txn, err);
    advisor_store_end(&txn);
    return kvt_error_set(err, rc, "write the policy: %s", kvt_err_text(rc));
}

struct installation {
    struct advisor_rulebook *book;
    struct version *version; /* NULL once it is in force */
    const char *source;
    uint64_t expected;
    uint64_t in_force; /* then */
};

/* On the thread that writes. */
static enum kvt_err
install(void *arg, struct kvt_error *err)
{
    struct installation *job = arg;
    struct advisor_rulebook *book = job->book;
    const struct advisor_rules *now = book->current == NULL ? NULL : &book->current->rules;
    struct advisor_rules *next = &job->version->rules;
    enum kvt_err rc;

    job->in_force = now == NULL ? 0 : now->version;
    if (job->expected != 0 && job->expected != job->in_force)
        return kvt_error_set(err, KVT_PRECONDITION,
                             "version %" PRIu64 " is in force, not %" PRIu64
                             "; look at it: kvtier policy show",
                             job->in_force, job->expected);
    if (now != NULL && strcmp(now->digest, next->digest) == 0)
        return strcmp(job->source, "file") == 0 ? write_file(book, next->digest, err) : KVT_OK;
    next->version = book->newest + 1;
    next->since_ms = kvt_clock_unix_ms();
    (void)snprintf(next->source, sizeof(next->source), "%s", job->source);
    rc = write_version(book, job->version, err);
    if (rc != KVT_OK)
        return rc;
    put_in_force(book, job->version);
    job->version = NULL;
    book->newest = job->in_force = next->version;
    return sync_version(book, next->version, err);
}

static enum kvt_err
hand_over(struct installation *job, struct advisor_writer_calls *calls, uint64_t *version,
          struct kvt_error *err)
{
    const enum kvt_err rc =
        calls == NULL
            ? install(job, err)
            : advisor_writer_calls_do(calls, install, job, ADVISOR_WRITER_CALLS_WAIT_MS, err);

    *version = job->in_force;
    version_free(job->version);
    return rc;
}

enum kvt_err
advisor_rulebook_install(struct advisor_rulebook *book, struct advisor_writer_calls *calls,
                         const struct advisor_rulebook_change *change,
                         struct policy_problems *problems, uint64_t *version, struct kvt_error *err)
{
    struct installation job = {
        .book = book, .source = change->source, .expected = change->expected};
    enum kvt_err rc;

    *version = 0;
    rc = version_new(&job.version, "policy", change->text, change->size, problems, err);
    return rc == KVT_OK ? hand_over(&job, calls, version, err) : rc;
}

/* ---- rollback ---- */

/* A copy of what a version said; 0 is the newest, and `found` which that is. */
static enum kvt_err
read_version(struct advisor_rulebook *book, uint64_t number, struct version **out, uint64_t *found,
             struct kvt_error *err)
{
    struct policy_problems *problems = kvt_calloc(1, sizeof(*problems));
    struct advisor_policy_row row;
    struct advisor_txn txn = {.handle = NULL};
    const char *text;
    enum kvt_err rc;

    *out = NULL;
    *found = 0;
    if (problems == NULL)
        return kvt_error_set(err, KVT_NOMEM, "policy: out of memory");
    rc = advisor_store_read(book->store, &txn, err);
    if (rc != KVT_OK)
        goto done;
    rc = advisor_store_policy(&txn, number, &row, &text);
    *found = row.version;
    if (rc == KVT_OK)
        rc = version_new(out, "policy", text, row.size, problems, err);
    else
        (void)kvt_error_set(err, rc, "policy version %" PRIu64 ": %s", number,
                            rc == KVT_NOTFOUND ? "not kept; see kvtier policy history"
                                               : kvt_err_text(rc));
    if (rc != KVT_OK)
        goto done;
    (*out)->rules.version = row.version;
    (*out)->rules.since_ms = row.since_ms;
    memcpy((*out)->rules.source, row.source, sizeof(row.source));

done:
    advisor_store_end(&txn);
    kvt_free(problems);
    return rc;
}

enum kvt_err
advisor_rulebook_rollback(struct advisor_rulebook *book, struct advisor_writer_calls *calls,
                          uint64_t to, uint64_t expected, uint64_t *version, struct kvt_error *err)
{
    struct installation job = {.book = book, .expected = expected};
    const struct advisor_rules *now = advisor_rulebook_take(book);
    char source[ADVISOR_POLICY_SOURCE_MAX];
    uint64_t found;
    enum kvt_err rc;

    *version = 0;
    if (to == 0) {
        to = now->version - 1;
        /* What "the one before" means must not change until it is written. */
        if (job.expected == 0)
            job.expected = now->version;
    }
    advisor_rulebook_give(book, now);
    if (to == 0)
        return kvt_error_set(err, KVT_NOTFOUND, "there is no policy before this one");
    rc = read_version(book, to, &job.version, &found, err);
    if (rc != KVT_OK)
        return rc;
    (void)snprintf(source, sizeof(source), "rollback of %" PRIu64, to);
    job.source = source;
    return hand_over(&job, calls, version, err);
}

/* ---- the start ---- */

static void
log_problems(const char *path, const struct policy_problems *problems)
{
    for (size_t i = 0; i < problems->count; i++)
        kvt_log_error("advisor.rulebook", "policy", "%s:%zu:%zu: %s", path,
                      problems->list[i].mark.line, problems->list[i].mark.column,
                      problems->list[i].text);
    if (problems->left_out > 0)
        kvt_log_error("advisor.rulebook", "policy", "and %zu more", problems->left_out);
}

static enum kvt_err
read_file_digest(struct advisor_rulebook *book, char digest[ADVISOR_POLICY_DIGEST_MAX],
                 struct kvt_error *err)
{
    struct advisor_txn txn;
    enum kvt_err rc = advisor_store_read(book->store, &txn, err);

    digest[0] = '\0';
    if (rc != KVT_OK)
        return rc;
    rc = advisor_store_policy_file(&txn, digest);
    advisor_store_end(&txn);
    return rc == KVT_OK ? KVT_OK : kvt_error_set(err, rc, "read the policy: %s", kvt_err_text(rc));
}

/* The file, where it is another than the last that was installed. */
static enum kvt_err
install_file(struct advisor_rulebook *book, struct advisor_writer_calls *calls, const char *path,
             struct kvt_error *err)
{
    struct policy_problems *problems = kvt_calloc(1, sizeof(*problems));
    struct installation job = {.book = book, .source = "file"};
    char digest[ADVISOR_POLICY_DIGEST_MAX];
    char *text = NULL;
    size_t size = 0;
    uint64_t version;
    enum kvt_err rc;

    if (problems == NULL)
        return kvt_error_set(err, KVT_NOMEM, "%s: out of memory", path);
    rc = kvt_file_read(&text, &size, path, KVT_YAML_FILE_MAX, err);
    if (rc == KVT_OK)
        rc = read_file_digest(book, digest, err);
    /* Also where it was installed before: what is wrong by now is said. */
    if (rc == KVT_OK)
        rc = version_new(&job.version, path, text, size, problems, err);
    if (rc == KVT_INVALID) {
        log_problems(path, problems);
        rc = kvt_error_set(err, rc,
                           "%s: %zu mistakes, the first in line %zu; see them: kvtier "
                           "policy validate %s",
                           path, problems->count + problems->left_out, problems->list[0].mark.line,
                           path);
    }
    if (rc == KVT_OK && (book->current == NULL || strcmp(job.version->rules.digest, digest) != 0))
        rc = hand_over(&job, calls, &version, err);
    else
        version_free(job.version);
    kvt_free(text);
    kvt_free(problems);
    return rc;
}

/* The settings as a policy, where nothing but settings was ever in force. */
static enum kvt_err
install_settings(struct advisor_rulebook *book, const struct advisor_rulebook_settings *settings,
                 struct kvt_error *err)
{
    struct advisor_rulebook_change change = {.source = "settings"};
    struct policy_problems *problems;
    struct kvt_buffer text;
    uint64_t version;
    enum kvt_err rc;

    if (book->current != NULL && strcmp(book->current->rules.source, "settings") != 0)
        return KVT_OK;
    problems = kvt_calloc(1, sizeof(*problems));
    kvt_buffer_init(&text, KVT_YAML_FILE_MAX);
    advisor_rulebook_text(settings, &text);
    change.text = kvt_buffer_text(&text);
    change.size = text.size;
    rc = problems == NULL || !kvt_buffer_ok(&text)
             ? kvt_error_set(err, KVT_NOMEM, "policy: out of memory")
             : advisor_rulebook_install(book, NULL, &change, problems, &version, err);
    kvt_buffer_release(&text);
    kvt_free(problems);
    return rc;
}

/* What was in force before.  One that this program cannot read is no reason to stop where the file
 * says what to do instead. */
static enum kvt_err
load(struct advisor_rulebook *book, bool has_file, struct kvt_error *err)
{
    struct kvt_error why = {.text = ""};
    struct version *version;
    enum kvt_err rc = read_version(book, 0, &version, &book->newest, &why);

    if (rc == KVT_NOTFOUND)
        return KVT_OK;
    if (rc == KVT_OK) {
        put_in_force(book, version);
        return KVT_OK;
    }
    rc = kvt_error_set(err, rc,
                       "version %" PRIu64 " of the policy cannot be read: %.160s; put the "
                       "right one into a file and set policy.file",
                       book->newest, why.text);
    if (rc != KVT_INVALID || !has_file)
        return rc;
    kvt_log_warn("advisor.rulebook", "policy", "%s", err == NULL ? why.text : err->text);
    return KVT_OK;
}

enum kvt_err
advisor_rulebook_open(struct advisor_rulebook **out, const struct advisor_rulebook_options *options,
                      struct kvt_error *err)
{
    struct advisor_rulebook *book = kvt_calloc(1, sizeof(*book));
    const bool has_file = options->file != NULL && options->file[0] != '\0';
    enum kvt_err rc;

    *out = NULL;
    if (book == NULL)
        return kvt_error_set(err, KVT_NOMEM, "policy: out of memory");
    book->store = options->store;
    if (pthread_mutex_init(&book->lock, NULL) != 0) {
        kvt_free(book);
        return kvt_error_set(err, KVT_NOMEM, "policy: no lock");
    }
    rc = load(book, has_file, err);
    if (rc == KVT_OK && has_file)
        rc = install_file(book, NULL, options->file, err);
    if (rc == KVT_OK)
        rc = install_settings(book, &options->settings, err);
    if (rc != KVT_OK) {
        advisor_rulebook_free(book);
        return rc;
    }
    *out = book;
    return KVT_OK;
}

enum kvt_err
advisor_rulebook_reload(struct advisor_rulebook *book, struct advisor_writer_calls *calls,
                        const char *path, struct kvt_error *err)
{
    struct kvt_error why = {.text = ""};
    const enum kvt_err rc = install_file(book, calls, path, &why);

    if (rc == KVT_OK)
        kvt_log_info("advisor.rulebook", "reloaded", "%s was read again", path);
    else
        kvt_log_error("advisor.rulebook", "reload_failed", "%s; what was in force stays", why.text);
    (void)pthread_mutex_lock(&book->lock);
    book->file_error = why;
    (void)pthread_mutex_unlock(&book->lock);
    if (err != NULL)
        *err = why;
    return rc;
}

void
advisor_rulebook_file_error(struct advisor_rulebook *book, struct kvt_error *why)
{
    (void)pthread_mutex_lock(&book->lock);
    *why = book->file_error;
    (void)pthread_mutex_unlock(&book->lock);
}

void
advisor_rulebook_free(struct advisor_rulebook *book)
{
    if (book == NULL)
        return;
    if (book->current != NULL) {
        assert(book->current->count == 1); /* all were given back */
        version_free(book->current);
    }
    (void)pthread_mutex_destroy(&book->lock);
    kvt_free(book);
}
