/*
 * What is tested: advisor/rule/rulebook.h, advisor/store/policy_version_rows.h and
 * advisor/store/writer_calls.h: which policy is in force, after installs, rollbacks, restarts,
 * changed files and settings, and without memory. How: a folder that is closed and opened again,
 * against what the header says; random changes against an array of versions; every allocation of
 * an install made to fail in turn.
 */
#include <dlfcn.h>
#include <errno.h>
#include <lmdb.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "advisor/rule/rulebook.h"
#include "advisor/store/writer_calls.h"
#include "base/core/alloc.h"
#include "base/core/buffer.h"
#include "base/core/clock.h"
#include "base/core/file.h"
#include "base/core/random.h"

#include "policy/file/policy_parse.h"
#include "policy/file/policy_rows.h"
#include "tests/support/seed.h"

enum {
    STEPS = 300,
    TEXTS = 5,
    TEXT_MAX_BYTES = 512,
    FILE_MODE = 0644,
    READERS = 3,
    CHANGES = 60,
};

struct scene {
    char folder[256];
    char file[300];
    bool has_file;
    struct advisor_rulebook_settings settings;
    struct advisor_store *store;
    struct advisor_rulebook *book;
    struct policy_problems problems;
    struct kvt_error err;
};

static const struct advisor_rulebook_settings as_shipped = {.ordering = "rhi",
                                                            .hot_start_ppm = 850000,
                                                            .hot_stop_ppm = 700000,
                                                            .cold_start_ppm = 950000,
                                                            .cold_stop_ppm = 900000,
                                                            .promotes = true};

/* A policy of its own for each number. */
static const char *
text_of(unsigned number, char text[TEXT_MAX_BYTES])
{
    (void)snprintf(text, TEXT_MAX_BYTES,
                   "version: 1\ntiers:\n  hot: {level: G3}\n  cold: {level: G4}\nrules:\n"
                   "  - {id: down, from: hot, to: cold, trigger: {start: 80%%, stop: %u%%}}\n",
                   10 + number);
    return text;
}

static enum kvt_err
reopen(struct scene *scene)
{
    const struct advisor_store_options store = {.path = scene->folder, .map_bytes = 64u << 20};
    struct advisor_rulebook_options options;

    advisor_rulebook_free(scene->book);
    scene->book = NULL;
    advisor_store_close(scene->store);
    assert_int_equal(advisor_store_open(&scene->store, &store, &scene->err), KVT_OK);
    options = (struct advisor_rulebook_options){.store = scene->store,
                                                .settings = scene->settings,
                                                .file = scene->has_file ? scene->file : NULL};
    return advisor_rulebook_open(&scene->book, &options, &scene->err);
}

static struct scene *
scene_new(void)
{
    struct scene *scene = kvt_calloc(1, sizeof(*scene));

    assert_non_null(scene);
    (void)test_folder_make(scene->folder, sizeof(scene->folder));
    (void)snprintf(scene->file, sizeof(scene->file), "%s/policy.yaml", scene->folder);
    scene->settings = as_shipped;
    assert_int_equal(reopen(scene), KVT_OK);
    return scene;
}

static void
scene_free(struct scene *scene)
{
    advisor_rulebook_free(scene->book);
    advisor_store_close(scene->store);
    test_folder_remove(scene->folder);
    kvt_free(scene);
}

/* What LMDB says of a sync; 0: what it says by itself. */
static int sync_code;

int
mdb_env_sync(MDB_env *env, int force)
{
    int (*real)(MDB_env *, int);

    if (sync_code != 0)
        return sync_code;
    *(void **)&real = dlsym(RTLD_NEXT, "mdb_env_sync");
    assert_non_null(real);
    return real(env, force);
}

static enum kvt_err
install(struct scene *scene, const char *text, uint64_t expected)
{
    const struct advisor_rulebook_change change = {
        .text = text, .size = strlen(text), .source = "api", .expected = expected};
    uint64_t version;

    return advisor_rulebook_install(scene->book, NULL, &change, &scene->problems, &version,
                                    &scene->err);
}

static void
write_file(struct scene *scene, const char *text)
{
    scene->has_file = true;
    assert_int_equal(kvt_file_write(scene->file, text, strlen(text), FILE_MODE, &scene->err),
                     KVT_OK);
}

static void
assert_in_force(struct scene *scene, uint64_t version, const char *source, const char *text)
{
    const struct advisor_rules *rules = advisor_rulebook_take(scene->book);

    assert_int_equal(rules->version, version);
    assert_string_equal(rules->source, source);
    if (text != NULL)
        assert_string_equal(rules->text, text);
    assert_int_equal(rules->size, strlen(rules->text));
    assert_int_equal(strlen(rules->digest), 64);
    assert_int_not_equal(rules->since_ms, 0);
    advisor_rulebook_give(scene->book, rules);
}

/* ---- what is in force ---- */

static void
settings_make_the_policy_that_comes_with_it(void **state)
{
    struct policy_problems problems;
    struct policy_difference difference;
    const struct advisor_rules *rules;
    struct scene *scene = scene_new();
    struct policy_rows shipped = {.list = NULL};
    struct policy_rows made = {.list = NULL};
    struct policy *policy;
    size_t cursor = 0;
    char *text;
    size_t size;

    (void)state;
    assert_int_equal(
        kvt_file_read(&text, &size, KVTIER_DEFAULT_POLICY, KVT_YAML_FILE_MAX, &scene->err), KVT_OK);
    assert_int_equal(policy_parse(&policy, "default", text, size, &problems, &scene->err), KVT_OK);
    rules = advisor_rulebook_take(scene->book);
    assert_int_equal(policy_rows_make(&shipped, policy), KVT_OK);
    assert_int_equal(policy_rows_make(&made, rules->policy), KVT_OK);
    while (policy_rows_differ(&shipped, &made, &cursor, &difference)) {
        const char *path =
            difference.before == NULL ? difference.after->path : difference.before->path;

        if (strncmp(path, "tests", 5) != 0)
            assert_string_equal(path, "modes.mode");
    }
    assert_int_equal(advisor_rules_mode(rules, ADVISOR_MODE_OBSERVE), ADVISOR_MODE_OBSERVE);
    assert_int_equal(advisor_rules_mode(rules, ADVISOR_MODE_ENFORCE), ADVISOR_MODE_ENFORCE);
    assert_int_equal(advisor_rules_tier(rules, "hot@gw0"), 0);
    assert_int_equal(advisor_rules_tier(rules, "cold@b"), 1);
    assert_int_equal(advisor_rules_tier(rules, "w0"), -1);
    advisor_rulebook_give(scene->book, rules);
    policy_rows_release(&shipped);
    policy_rows_release(&made);
    policy_free(policy);
    kvt_free(text);
    scene_free(scene);
}

static void
any_settings_make_a_policy(void **state)
{
    struct scene *scene = scene_new();

    (void)state;
    scene->settings = (struct advisor_rulebook_settings){.ordering = "idle",
                                                         .hot_start_ppm = 10000,
                                                         .hot_stop_ppm = 10000,
                                                         .cold_start_ppm = 1000000,
                                                         .cold_stop_ppm = 0};
    assert_int_equal(reopen(scene), KVT_OK);
    assert_in_force(scene, 2, "settings", NULL);
    assert_int_equal(reopen(scene), KVT_OK);
    assert_in_force(scene, 2, "settings", NULL);
    scene_free(scene);
}

static void
an_install_lasts_and_settings_no_longer_count(void **state)
{
    struct scene *scene = scene_new();
    char text[TEXT_MAX_BYTES];

    (void)state;
    assert_in_force(scene, 1, "settings", NULL);
    assert_int_equal(install(scene, text_of(0, text), 0), KVT_OK);
    assert_in_force(scene, 2, "api", text);
    scene->settings.hot_start_ppm = 800000;
    assert_int_equal(reopen(scene), KVT_OK);
    assert_in_force(scene, 2, "api", text);
    /* Said again it is no new version; a version that was passed by is none to build on. */
    assert_int_equal(install(scene, text, 2), KVT_OK);
    assert_in_force(scene, 2, "api", text);
    assert_int_equal(install(scene, text_of(1, text), 1), KVT_PRECONDITION);
    assert_non_null(strstr(scene->err.text, "version 2 is in force"));
    assert_in_force(scene, 2, "api", NULL);
    scene_free(scene);
}

static void
a_wrong_policy_changes_nothing(void **state)
{
    static const char wrong[] = "version: 1\ntires: {}\nrules: [{}]\n";
    struct scene *scene = scene_new();
    char *huge = kvt_calloc(KVT_YAML_FILE_MAX + 2, 1);

    (void)state;
    assert_non_null(huge);
    assert_int_equal(install(scene, wrong, 0), KVT_INVALID);
    assert_true(scene->problems.count >= 2);
    assert_int_equal(scene->problems.list[0].mark.line, 1);
    assert_int_equal(install(scene, "", 0), KVT_INVALID);
    memset(huge, '#', KVT_YAML_FILE_MAX + 1);
    assert_int_equal(install(scene, huge, 0), KVT_RANGE);
    huge[KVT_YAML_FILE_MAX] = '\0';
    assert_int_equal(install(scene, huge, 0), KVT_INVALID); /* read, and empty */
    assert_in_force(scene, 1, "settings", NULL);
    kvt_free(huge);
    scene_free(scene);
}

static void
the_largest_policy_is_taken(void **state)
{
    struct scene *scene = scene_new();
    char *text = kvt_calloc(KVT_YAML_FILE_MAX + 1, 1);
    size_t size;

    (void)state;
    assert_non_null(text);
    size = strlen(text_of(3, text));
    memset(text + size, '#', KVT_YAML_FILE_MAX - size);
    assert_int_equal(install(scene, text, 0), KVT_OK);
    assert_int_equal(reopen(scene), KVT_OK);
    assert_in_force(scene, 2, "api", text);
    kvt_free(text);
    scene_free(scene);
}

static void
what_is_held_stays(void **state)
{
    struct scene *scene = scene_new();
    const struct advisor_rules *held = advisor_rulebook_take(scene->book);
    char text[TEXT_MAX_BYTES];

    (void)state;
    assert_int_equal(install(scene, text_of(0, text), 0), KVT_OK);
    assert_int_equal(install(scene, text_of(1, text), 0), KVT_OK);
    assert_int_equal(held->version, 1);
    assert_non_null(strstr(held->text, "bring-back"));
    advisor_rulebook_give(scene->book, held);
    assert_in_force(scene, 3, "api", text);
    scene_free(scene);
}

/* What is committed is in force, also where the disk did not say that it has it; what comes next is
 * another version. */
static void
a_failed_sync_hides_no_version(void **state)
{
    struct scene *scene = scene_new();
    char first[TEXT_MAX_BYTES];
    char second[TEXT_MAX_BYTES];

    (void)state;
    sync_code = EIO;
    assert_int_equal(install(scene, text_of(0, first), 0), KVT_IO);
    sync_code = 0;
    assert_non_null(strstr(scene->err.text, "version 2 is in force, not yet proof"));
    assert_in_force(scene, 2, "api", first);
    assert_int_equal(install(scene, text_of(1, second), 2), KVT_OK);
    assert_in_force(scene, 3, "api", second);
    assert_int_equal(reopen(scene), KVT_OK);
    assert_in_force(scene, 3, "api", second);
    scene_free(scene);
}

/* ---- the file ---- */

static void
a_file_is_installed_when_it_changes(void **state)
{
    struct scene *scene = scene_new();
    char other[TEXT_MAX_BYTES];
    char text[TEXT_MAX_BYTES];

    (void)state;
    write_file(scene, text_of(0, text));
    assert_int_equal(reopen(scene), KVT_OK);
    assert_in_force(scene, 2, "file", text);
    assert_int_equal(reopen(scene), KVT_OK);
    assert_in_force(scene, 2, "file", text);
    /* What the API said stays over restarts with the same file. */
    assert_int_equal(install(scene, text_of(1, other), 0), KVT_OK);
    assert_int_equal(reopen(scene), KVT_OK);
    assert_in_force(scene, 3, "api", other);
    write_file(scene, text_of(2, text));
    assert_int_equal(reopen(scene), KVT_OK);
    assert_in_force(scene, 4, "file", text);
    /* A file that says what the API said is no change, and is not installed later either. */
    assert_int_equal(install(scene, text_of(3, other), 0), KVT_OK);
    write_file(scene, other);
    assert_int_equal(reopen(scene), KVT_OK);
    assert_in_force(scene, 5, "api", other);
    assert_int_equal(install(scene, text_of(4, text), 0), KVT_OK);
    assert_int_equal(reopen(scene), KVT_OK);
    assert_in_force(scene, 6, "api", text);
    /* Without the setting what was installed stays. */
    scene->has_file = false;
    assert_int_equal(reopen(scene), KVT_OK);
    assert_in_force(scene, 6, "api", text);
    scene_free(scene);
}

static void
a_file_is_read_again_when_asked(void **state)
{
    struct scene *scene = scene_new();
    struct kvt_error why;
    char text[TEXT_MAX_BYTES];

    (void)state;
    write_file(scene, text_of(0, text));
    assert_int_equal(reopen(scene), KVT_OK);
    assert_int_equal(advisor_rulebook_reload(scene->book, NULL, scene->file, &why), KVT_OK);
    assert_in_force(scene, 2, "file", text);
    write_file(scene, text_of(1, text));
    assert_int_equal(advisor_rulebook_reload(scene->book, NULL, scene->file, &why), KVT_OK);
    assert_in_force(scene, 3, "file", text);
    /* One that is wrong changes nothing, and is said until it is right. */
    write_file(scene, "version: 1\ntiers: {hot: {level: G9}}\nrules: []\n");
    assert_int_equal(advisor_rulebook_reload(scene->book, NULL, scene->file, &why), KVT_INVALID);
    assert_in_force(scene, 3, "file", text);
    advisor_rulebook_file_error(scene->book, &why);
    assert_non_null(strstr(why.text, "kvtier policy validate"));
    assert_int_equal(unlink(scene->file), 0);
    assert_int_not_equal(advisor_rulebook_reload(scene->book, NULL, scene->file, &why), KVT_OK);
    assert_in_force(scene, 3, "file", text);
    write_file(scene, text);
    assert_int_equal(advisor_rulebook_reload(scene->book, NULL, scene->file, &why), KVT_OK);
    advisor_rulebook_file_error(scene->book, &why);
    assert_string_equal(why.text, "");
    assert_in_force(scene, 3, "file", text);
    scene_free(scene);
}

static void
a_wrong_file_is_no_start(void **state)
{
    struct scene *scene = scene_new();
    char text[TEXT_MAX_BYTES];

    (void)state;
    write_file(scene, "version: 1\ntiers: {hot: {level: G9}}\nrules: []\nhuh: 1\n");
    assert_int_equal(reopen(scene), KVT_INVALID);
    assert_non_null(strstr(scene->err.text, "kvtier policy validate"));
    assert_null(scene->book);
    assert_int_equal(unlink(scene->file), 0);
    assert_int_equal(reopen(scene), KVT_NOTFOUND);
    write_file(scene, text_of(0, text));
    assert_int_equal(reopen(scene), KVT_OK);
    assert_in_force(scene, 2, "file", text);
    scene_free(scene);
}

/* A store of a program that knew more than this one. */
static void
a_policy_that_cannot_be_read_any_more(void **state)
{
    static const char later[] = "version: 2\n";
    const struct advisor_policy_row row = {
        .version = 2, .since_ms = 5, .size = sizeof(later) - 1, .source = "api", .digest = "d"};
    struct scene *scene = scene_new();
    char text[TEXT_MAX_BYTES];
    struct advisor_txn txn;

    (void)state;
    assert_int_equal(advisor_store_write(scene->store, &txn, NULL), KVT_OK);
    assert_int_equal(advisor_store_put_policy(&txn, &row, later), KVT_OK);
    assert_int_equal(advisor_store_commit(&txn, NULL), KVT_OK);
    assert_int_equal(reopen(scene), KVT_INVALID);
    assert_non_null(strstr(scene->err.text, "policy.file"));
    write_file(scene, text_of(0, text));
    assert_int_equal(reopen(scene), KVT_OK);
    assert_in_force(scene, 3, "file", text);
    scene_free(scene);
}

/* ---- rollback ---- */

static void
a_rollback_is_a_new_version(void **state)
{
    struct scene *scene = scene_new();
    char first[TEXT_MAX_BYTES];
    char text[TEXT_MAX_BYTES];
    uint64_t version;

    (void)state;
    assert_int_equal(advisor_rulebook_rollback(scene->book, NULL, 0, 0, &version, &scene->err),
                     KVT_NOTFOUND);
    assert_int_equal(install(scene, text_of(0, first), 0), KVT_OK);
    assert_int_equal(install(scene, text_of(1, text), 0), KVT_OK);
    assert_int_equal(advisor_rulebook_rollback(scene->book, NULL, 0, 0, &version, &scene->err),
                     KVT_OK);
    assert_int_equal(version, 4);
    assert_in_force(scene, 4, "rollback of 2", first);
    assert_int_equal(reopen(scene), KVT_OK);
    assert_in_force(scene, 4, "rollback of 2", first);
    assert_int_equal(advisor_rulebook_rollback(scene->book, NULL, 1, 3, &version, &scene->err),
                     KVT_PRECONDITION);
    assert_int_equal(advisor_rulebook_rollback(scene->book, NULL, 9, 0, &version, &scene->err),
                     KVT_NOTFOUND);
    assert_non_null(strstr(scene->err.text, "kvtier policy history"));
    assert_int_equal(advisor_rulebook_rollback(scene->book, NULL, 1, 4, &version, &scene->err),
                     KVT_OK);
    assert_in_force(scene, 5, "rollback of 1", NULL);
    scene_free(scene);
}

/* ---- many changes ---- */

struct history {
    uint64_t versions[2 * ADVISOR_POLICIES_KEPT];
    size_t count;
};

static enum kvt_err
note(void *arg, const struct advisor_policy_row *row)
{
    struct history *history = arg;

    history->versions[history->count++] = row->version;
    return KVT_OK;
}

static void
assert_history(struct scene *scene, uint64_t newest)
{
    const uint64_t kept = newest < ADVISOR_POLICIES_KEPT ? newest : ADVISOR_POLICIES_KEPT;
    struct history history = {.count = 0};
    struct advisor_txn txn;

    assert_int_equal(advisor_store_read(scene->store, &txn, NULL), KVT_OK);
    assert_int_equal(advisor_store_policies(&txn, note, &history), KVT_OK);
    advisor_store_end(&txn);
    assert_int_equal(history.count, kept);
    for (size_t i = 0; i < history.count; i++)
        assert_int_equal(history.versions[i], newest - i);
}

/* Which text each version has, against a store that is closed now and then. */
static void
random_changes_against_an_array(void **state)
{
    unsigned texts[STEPS + 2] = {[1] = UINT32_MAX}; /* of the settings */
    uint64_t random = test_seed();
    struct scene *scene = scene_new();
    char text[TEXT_MAX_BYTES];
    uint64_t newest = 1;

    (void)state;
    for (int i = 0; i < STEPS; i++) {
        const uint64_t what = kvt_random_below(&random, 10);
        const unsigned number = (unsigned)kvt_random_below(&random, TEXTS);
        uint64_t version;

        if (what == 0) {
            assert_int_equal(reopen(scene), KVT_OK);
        } else if (what < 4) {
            const uint64_t to = 1 + kvt_random_below(&random, newest);
            const bool kept = to + ADVISOR_POLICIES_KEPT > newest;

            assert_int_equal(
                advisor_rulebook_rollback(scene->book, NULL, to, newest, &version, &scene->err),
                kept ? KVT_OK : KVT_NOTFOUND);
            if (kept && texts[to] != texts[newest])
                texts[++newest] = texts[to];
        } else {
            assert_int_equal(install(scene, text_of(number, text), newest), KVT_OK);
            if (number != texts[newest])
                texts[++newest] = number;
        }
        if (texts[newest] != UINT32_MAX) {
            const struct advisor_rules *rules = advisor_rulebook_take(scene->book);

            assert_int_equal(rules->version, newest);
            assert_string_equal(rules->text, text_of(texts[newest], text));
            advisor_rulebook_give(scene->book, rules);
        }
    }
    assert_true(newest > ADVISOR_POLICIES_KEPT);
    assert_history(scene, newest);
    scene_free(scene);
}

/* ---- while others look ---- */

struct reader {
    struct advisor_rulebook *book;
    atomic_bool *stopping;
    uint64_t looks;
};

/* What is taken is of one version, and none is older than the one before. */
static void *
read_versions(void *arg)
{
    struct reader *reader = arg;
    char digest[ADVISOR_POLICY_DIGEST_MAX];
    uint64_t former = 0;

    while (!atomic_load(reader->stopping) || reader->looks == 0) {
        const struct advisor_rules *rules = advisor_rulebook_take(reader->book);

        assert_true(rules->version >= former);
        former = rules->version;
        assert_int_equal(advisor_rulebook_digest(rules->text, rules->size, digest), KVT_OK);
        assert_string_equal(digest, rules->digest);
        assert_true(advisor_rules_tier(rules, "hot@gw0") == 0);
        advisor_rulebook_give(reader->book, rules);
        reader->looks++;
    }
    return NULL;
}

static void
versions_change_while_others_look(void **state)
{
    struct scene *scene = scene_new();
    struct reader readers[READERS];
    pthread_t threads[READERS];
    atomic_bool stopping = false;
    char text[TEXT_MAX_BYTES];

    (void)state;
    for (size_t i = 0; i < READERS; i++) {
        readers[i] = (struct reader){.book = scene->book, .stopping = &stopping};
        assert_int_equal(pthread_create(&threads[i], NULL, read_versions, &readers[i]), 0);
    }
    for (unsigned i = 0; i < CHANGES; i++)
        assert_int_equal(install(scene, text_of(i % TEXTS, text), i + 1), KVT_OK);
    atomic_store(&stopping, true);
    for (size_t i = 0; i < READERS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_in_force(scene, CHANGES + 1, "api", text);
    scene_free(scene);
}

/* ---- without memory, without room ---- */

/* A start, with the file or with an install behind it. */
static bool
start_and_install(void *arg)
{
    struct scene *scene = arg;
    const struct advisor_rulebook_options options = {
        .store = scene->store,
        .settings = as_shipped,
        .file = scene->has_file ? scene->file : NULL,
    };
    char text[TEXT_MAX_BYTES];
    enum kvt_err rc = advisor_rulebook_open(&scene->book, &options, &scene->err);

    assert_true(rc == KVT_OK || (rc == KVT_NOMEM && scene->book == NULL));
    if (rc == KVT_OK && !scene->has_file) {
        rc = install(scene, text_of(0, text), 0);
        assert_true(rc == KVT_OK || rc == KVT_NOMEM);
        assert_in_force(scene, rc == KVT_OK ? 2 : 1, rc == KVT_OK ? "api" : "settings", NULL);
    }
    advisor_rulebook_free(scene->book);
    scene->book = NULL;
    return rc == KVT_OK;
}

static void
every_allocation_may_fail(void **state)
{
    struct scene *scene = scene_new();
    char text[TEXT_MAX_BYTES];

    (void)state;
    advisor_rulebook_free(scene->book);
    scene->book = NULL;
    assert_true(test_sweep_allocations(start_and_install, scene) > 5);
    write_file(scene, text_of(1, text));
    assert_true(test_sweep_allocations(start_and_install, scene) > 5);
    assert_int_equal(reopen(scene), KVT_OK);
    assert_in_force(scene, 3, "file", text);
    scene_free(scene);
}

static void
a_full_store_keeps_what_is_in_force(void **state)
{
    const struct advisor_store_options store = {.map_bytes = 1u << 20};
    struct advisor_rulebook_options options = {.settings = as_shipped};
    struct advisor_store_options small = store;
    struct scene *scene = kvt_calloc(1, sizeof(*scene));
    char *text = kvt_calloc(KVT_YAML_FILE_MAX + 1, 1);
    size_t size;

    (void)state;
    assert_non_null(scene);
    assert_non_null(text);
    small.path = test_folder_make(scene->folder, sizeof(scene->folder));
    assert_int_equal(advisor_store_open(&scene->store, &small, &scene->err), KVT_OK);
    options.store = scene->store;
    assert_int_equal(advisor_rulebook_open(&scene->book, &options, &scene->err), KVT_OK);
    size = strlen(text_of(0, text));
    memset(text + size, '#', KVT_YAML_FILE_MAX - size);
    assert_int_equal(install(scene, text, 0), KVT_FULL);
    assert_in_force(scene, 1, "settings", NULL);
    text[size] = '\0';
    assert_int_equal(install(scene, text, 0), KVT_OK);
    assert_in_force(scene, 2, "api", text);
    kvt_free(text);
    scene_free(scene);
}

/* ---- errands ---- */

struct errand {
    struct advisor_writer_calls *errands;
    uint64_t wait_ms;
    enum kvt_err rc;
    struct kvt_error err;
    int runs;
};

static enum kvt_err
run_errand(void *arg, struct kvt_error *err)
{
    struct errand *errand = arg;

    errand->runs++;
    return kvt_error_set(err, KVT_EXISTS, "done");
}

static void *
send_errand(void *arg)
{
    struct errand *errand = arg;

    errand->rc =
        advisor_writer_calls_do(errand->errands, run_errand, errand, errand->wait_ms, &errand->err);
    return NULL;
}

static void
an_errand_is_done_by_who_serves(void **state)
{
    struct errand errands[8];
    struct advisor_writer_calls *box;
    pthread_t threads[8];
    size_t served = 0;

    (void)state;
    assert_int_equal(advisor_writer_calls_new(&box), KVT_OK);
    assert_int_equal(advisor_writer_calls_serve(box), 0);
    for (size_t i = 0; i < 8; i++) {
        errands[i] = (struct errand){.errands = box, .wait_ms = 60000};
        assert_int_equal(pthread_create(&threads[i], NULL, send_errand, &errands[i]), 0);
    }
    while (served < 8) {
        served += advisor_writer_calls_serve(box);
        kvt_clock_sleep_ms(1);
    }
    for (size_t i = 0; i < 8; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_int_equal(errands[i].rc, KVT_EXISTS);
        assert_string_equal(errands[i].err.text, "done");
        assert_int_equal(errands[i].runs, 1);
    }
    advisor_writer_calls_free(box);
}

static void
an_errand_whose_turn_does_not_come_is_never_done(void **state)
{
    struct errand errand = {.wait_ms = 5};

    (void)state;
    assert_int_equal(advisor_writer_calls_new(&errand.errands), KVT_OK);
    (void)send_errand(&errand);
    assert_int_equal(errand.rc, KVT_TIMEOUT);
    assert_int_equal(advisor_writer_calls_serve(errand.errands), 0);
    assert_int_equal(errand.runs, 0);
    advisor_writer_calls_free(errand.errands);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(settings_make_the_policy_that_comes_with_it),
        cmocka_unit_test(any_settings_make_a_policy),
        cmocka_unit_test(an_install_lasts_and_settings_no_longer_count),
        cmocka_unit_test(a_wrong_policy_changes_nothing),
        cmocka_unit_test(a_failed_sync_hides_no_version),
        cmocka_unit_test(the_largest_policy_is_taken),
        cmocka_unit_test(what_is_held_stays),
        cmocka_unit_test(a_file_is_installed_when_it_changes),
        cmocka_unit_test(a_file_is_read_again_when_asked),
        cmocka_unit_test(a_wrong_file_is_no_start),
        cmocka_unit_test(a_policy_that_cannot_be_read_any_more),
        cmocka_unit_test(a_rollback_is_a_new_version),
        cmocka_unit_test(random_changes_against_an_array),
        cmocka_unit_test(versions_change_while_others_look),
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(a_full_store_keeps_what_is_in_force),
        cmocka_unit_test(an_errand_is_done_by_who_serves),
        cmocka_unit_test(an_errand_whose_turn_does_not_come_is_never_done),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
