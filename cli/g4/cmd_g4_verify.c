#include <inttypes.h>
#include <json-c/json.h>
#include <semaphore.h>
#include <string.h>

#include "base/core/alloc.h"
#include "cli/frame/cli_settings.h"
#include "cli/frame/options.h"
#include "cli/g4/cmd_g4.h"
#include "cli/g4/g4_commands.h"
#include "cli/g4/progress_file.h"
#include "cli/output/cli_json.h"
#include "cli/output/cli_table.h"
#include "cli/remote/admin_client.h"
#include "cli/remote/cli_bucket.h"
#include "g4/object/check.h"
#include "g4/object/kind.h"

enum { PROGRESS_EVERY = 1000, FLIGHT_MAX = 8 /* objects read at once */ };

/* Of them in memory; a larger object is counted as not checked. */
#define FLIGHT_BYTES_MAX (UINT64_C(256) << 20)

/* One object of the bucket on its way. */
struct flight {
    struct g4_request request;
    char key[KVT_KEY_MAX];
    uint64_t size;
    bool skipped; /* too large to be read */
    sem_t done;
};

struct verification {
    const struct cli_context *context;
    struct kvt_error err;            /* of the first question that failed */
    struct cli_progress_file resume; /* counts of this run and the ones before */
    const char *prefix;
    uint64_t copies;
    uint64_t unchecked;     /* nothing travels beside them that they could be checked against */
    char last[KVT_KEY_MAX]; /* a key with two copies is listed twice, side by side */

    struct g4_store *store;
    struct flight flights[FLIGHT_MAX]; /* a ring */
    size_t first;
    size_t count;
    uint64_t bytes; /* of all that are on their way */
};

static void
print_copy(const struct verification *verification, const char *word, const char *tier,
           const char *key, const char *reason)
{
    FILE *out = verification->context->out;

    (void)fprintf(out, "%-4s  %-6s  ", word, tier);
    cli_table_text(out, key);
    (void)fprintf(out, "%s", reason[0] == '\0' ? "" : ": ");
    cli_table_text(out, reason);
    (void)fputc('\n', out);
}

/* The key is done; false when the walk has to end. */
static bool
finish_key(struct verification *verification, const char *key, bool bad)
{
    if (cli_progress_file_done(&verification->resume, key, bad, &verification->err) != KVT_OK)
        return false;
    if (verification->resume.done % PROGRESS_EVERY == 0 &&
        cli_context_interactive(verification->context))
        (void)fprintf(verification->context->err, "\r%" PRIu64 " objects checked, %" PRIu64 " bad ",
                      verification->resume.done, verification->resume.bad);
    return ferror(verification->context->out) == 0;
}

/* ---- through the gateway ---- */

static bool
verify_key(struct verification *verification, const char *key)
{
    const struct cli_context *context = verification->context;
    struct json_object *body = json_object_new_object();
    struct json_object *answer = NULL;
    bool bad = false;
    enum kvt_err rc;

    (void)json_object_object_add(body, "key", json_object_new_string(key));
    rc = cli_admin_ask(context, CLI_ADMIN_GATEWAY, "/v1/verify", body, true, &answer,
                       &verification->err);
    (void)json_object_put(body);
    if (rc != KVT_OK)
        return false;
    if (context->json)
        cli_json_print(context->out, answer);
    for (size_t i = 0; i < cli_json_count(answer, "copies"); i++) {
        struct json_object *copy = cli_json_item(answer, "copies", i);
        const bool ok = cli_json_bool(copy, "ok");

        verification->copies++;
        bad |= !ok;
        if (!context->json && (!ok || verification->prefix[0] != '\0'))
            print_copy(verification, ok ? "ok" : "BAD", cli_json_text(copy, "tier"), key,
                       ok ? "" : cli_json_text(copy, "reason"));
    }
    (void)json_object_put(answer);
    return finish_key(verification, key, bad);
}

static bool
verify_line(void *arg, struct json_object *line)
{
    struct verification *verification = arg;
    const char *key = cli_json_text(line, "key");

    if (strcmp(key, verification->last) == 0 ||
        strncmp(key, verification->prefix, strlen(verification->prefix)) != 0)
        return true;
    (void)snprintf(verification->last, sizeof(verification->last), "%s", key);
    if (verify_key(verification, key))
        return true;
    if (verification->err.code != KVT_NOTFOUND)
        return false;
    verification->err.code = KVT_OK; /* it went away in the meantime: no failure */
    return true;
}

static enum kvt_err
verify_catalog(struct verification *verification)
{
    const struct cli_g4_walk walk = {
        .prefix = verification->prefix, .after = verification->resume.after, .each = verify_line};
    struct kvt_error err = {0};

    if (cli_g4_walk(verification->context, &walk, verification, &err) != KVT_OK)
        verification->err = err;
    return verification->err.code;
}

/* ---- from the bucket ---- */

/* "" = good; `unchecked`: there is nothing to check it against. */
static void
judge(struct flight *flight, char reason[KVT_ERROR_TEXT_MAX], bool *unchecked)
{
    const struct g4_request *request = &flight->request;
    const enum g4_kind kind = g4_kind_of_object(request);
    struct kvt_error err = {0};
    const char *head;

    reason[0] = '\0';
    *unchecked = flight->skipped || kind == G4_KIND_TOMBSTONE ||
                 (request->status == KVT_OK && !request->meta.present);
    if (flight->skipped)
        return;
    if (request->status != KVT_OK) {
        (void)snprintf(reason, KVT_ERROR_TEXT_MAX, "%s", request->error.text);
        return;
    }
    head = kind == G4_KIND_BLOCK && request->meta.present ? g4_kind_judge_block(request) : NULL;
    if (g4_check_body(&request->meta, NULL, request->buffer, request->buffer_size, &err) != KVT_OK)
        (void)snprintf(reason, KVT_ERROR_TEXT_MAX, "%s", err.text);
    else if (head != NULL)
        (void)snprintf(reason, KVT_ERROR_TEXT_MAX, "%s", head);
}

static void
print_flight(const struct verification *verification, const struct flight *flight,
             const char *reason, bool unchecked)
{
    const struct cli_context *context = verification->context;
    struct json_object *line;

    if (!context->json) {
        if (reason[0] != '\0')
            print_copy(verification, "BAD", "bucket", flight->key, reason);
        return;
    }
    line = json_object_new_object();
    (void)json_object_object_add(line, "schema_version", json_object_new_int(1));
    (void)json_object_object_add(line, "key", json_object_new_string(flight->key));
    (void)json_object_object_add(line, "tier", json_object_new_string("bucket"));
    (void)json_object_object_add(line, "ok", json_object_new_boolean(reason[0] == '\0'));
    (void)json_object_object_add(line, "checked", json_object_new_boolean(!unchecked));
    (void)json_object_object_add(line, "reason", json_object_new_string(reason));
    cli_json_print(context->out, line);
    (void)json_object_put(line);
}

/* Wait for the oldest; false when the walk has to end. */
static bool
land(struct verification *verification)
{
    struct flight *flight = &verification->flights[verification->first];
    char reason[KVT_ERROR_TEXT_MAX];
    const struct g4_request *request = &flight->request;
    bool unchecked;
    bool more = true;

    while (sem_wait(&flight->done) != 0)
        continue;
    verification->first = (verification->first + 1) % FLIGHT_MAX;
    verification->count--;
    verification->bytes -= flight->size;
    /* One that went away in the meantime is no failure; a store that went away is not its fault. */
    if (request->status != KVT_OK && request->status != KVT_CORRUPT &&
        request->status != KVT_NOTFOUND && request->status != KVT_RANGE) {
        if (verification->err.code == KVT_OK)
            verification->err = request->error;
        more = false;
    } else if (verification->err.code == KVT_OK && request->status != KVT_NOTFOUND) {
        judge(flight, reason, &unchecked);
        verification->copies++;
        verification->unchecked += unchecked;
        print_flight(verification, flight, reason, unchecked);
        more = finish_key(verification, flight->key, reason[0] != '\0');
    }
    kvt_free(flight->request.buffer);
    flight->request.buffer = NULL;
    return more;
}

static void
on_done(struct g4_request *request, void *arg)
{
    struct flight *flight = arg;

    (void)request;
    (void)sem_post(&flight->done);
}

static bool
launch(void *arg, const struct g4_listed *row)
{
    struct verification *verification = arg;
    const enum g4_kind kind = g4_kind_of_key(row->key, NULL);
    struct flight *flight;
    enum kvt_err rc;

    if (kind != G4_KIND_BLOCK && kind != G4_KIND_OPAQUE)
        return true;
    while (verification->count == FLIGHT_MAX ||
           (verification->count > 0 && verification->bytes + row->size > FLIGHT_BYTES_MAX))
        if (!land(verification))
            return false;
    flight = &verification->flights[(verification->first + verification->count) % FLIGHT_MAX];
    (void)snprintf(flight->key, sizeof(flight->key), "%s", row->key);
    flight->skipped = row->size > FLIGHT_BYTES_MAX;
    flight->size = flight->skipped ? 0 : row->size;
    flight->request = (struct g4_request){.verb = G4_GET,
                                          .key = flight->key,
                                          .buffer_capacity = FLIGHT_BYTES_MAX,
                                          .done = on_done,
                                          .arg = flight};
    verification->count++;
    verification->bytes += flight->size;
    rc = flight->skipped ? KVT_OK : g4_store_submit(verification->store, &flight->request);
    if (rc != KVT_OK)
        flight->request.status = kvt_error_set(&flight->request.error, rc, "%s", kvt_err_text(rc));
    if (rc != KVT_OK || flight->skipped)
        (void)sem_post(&flight->done);
    return true;
}

static enum kvt_err
verify_bucket(struct verification *verification)
{
    struct kvt_error err = {0};
    enum kvt_err rc;

    rc = cli_bucket_open(verification->context, CLI_G4_VERIFY_S3, &verification->store,
                         &verification->err);
    if (rc != KVT_OK)
        return rc;
    for (size_t i = 0; i < FLIGHT_MAX; i++)
        (void)sem_init(&verification->flights[i].done, 0, 0);
    rc = cli_bucket_walk(verification->store, verification->prefix, verification->resume.after,
                         launch, verification, &err);
    while (verification->count > 0)
        (void)land(verification);
    if (rc != KVT_OK && verification->err.code == KVT_OK)
        verification->err = err;
    for (size_t i = 0; i < FLIGHT_MAX; i++)
        (void)sem_destroy(&verification->flights[i].done);
    g4_store_close(verification->store);
    return verification->err.code;
}

/* ---- the command ---- */

static void
print_summary(const struct verification *verification, bool bucket)
{
    const struct cli_context *context = verification->context;
    const struct cli_progress_file *resume = &verification->resume;

    if (cli_context_interactive(context))
        (void)fputc('\r', context->err);
    (void)fprintf(context->err, "%" PRIu64 " object%s, %" PRIu64 " copies read, %" PRIu64 " bad",
                  resume->done, resume->done == 1 ? "" : "s", verification->copies, resume->bad);
    if (bucket && verification->unchecked > 0)
        (void)fprintf(context->err, ", %" PRIu64 " with nothing to check against",
                      verification->unchecked);
    (void)fputc('\n', context->err);
}

static enum cli_exit
report(struct verification *verification, bool bucket)
{
    const struct cli_context *context = verification->context;
    const enum kvt_err code = verification->err.code;
    struct kvt_error err = {0};
    enum cli_exit status = verification->resume.bad > 0 ? CLI_EXIT_INTEGRITY : CLI_EXIT_DONE;

    if (cli_progress_file_end(&verification->resume, code == KVT_OK && ferror(context->out) == 0,
                              &err) != KVT_OK &&
        code == KVT_OK)
        return cli_context_fail(context, &err);
    if (code == KVT_OK && verification->resume.done == 0 && verification->prefix[0] != '\0') {
        (void)kvt_error_set(&err, KVT_NOTFOUND, "no object's key begins with %.100s",
                            verification->prefix);
        return cli_context_fail(context, &err);
    }
    if (code != KVT_OK)
        status = bucket ? cli_bucket_fail(context, CLI_G4_VERIFY_S3, &verification->err)
                        : cli_admin_fail(context, CLI_ADMIN_GATEWAY, &verification->err);
    if (code != KVT_OK && verification->resume.after[0] != '\0')
        (void)fprintf(context->err, "  go on from there: kvtier g4 verify --after %s\n",
                      verification->resume.after);
    if (!context->json && (verification->resume.done > 0 || code == KVT_OK))
        print_summary(verification, bucket);
    return status;
}

/* Which walk this is, so that the state of another one is not taken for it. */
static void
describe(const struct cli_context *context, const char *prefix, bool bucket,
         char what[CLI_PROGRESS_FILE_WHAT_MAX])
{
    (void)snprintf(what, CLI_PROGRESS_FILE_WHAT_MAX, "verify %s %s, keys of \"%s\"",
                   kvt_config_string(context->settings, CLI_SETTING_BUCKET),
                   bucket ? kvt_config_string(context->options, CLI_G4_VERIFY_S3)
                          : cli_admin_url(context, CLI_ADMIN_GATEWAY),
                   prefix);
}

enum cli_exit
cli_g4_verify(const struct cli_context *context)
{
    const bool bucket = cli_bucket_given(context, CLI_G4_VERIFY_S3);
    const char *prefix = context->argument_count > 0 ? context->arguments[0] : "";
    const char *after = kvt_config_string(context->options, CLI_G4_VERIFY_AFTER);
    struct verification *verification;
    char what[CLI_PROGRESS_FILE_WHAT_MAX];
    struct kvt_error err = {0};
    enum cli_exit status;

    if (kvt_config_bool(context->options, CLI_G4_VERIFY_ALL) == (prefix[0] != '\0'))
        return cli_context_usage(context, "g4 verify wants a PREFIX or --all");
    if (strlen(after) >= KVT_KEY_MAX)
        return cli_context_usage(context, "--after is longer than a key");
    verification = kvt_calloc(1, sizeof(*verification));
    if (verification == NULL) {
        (void)kvt_error_set(&err, KVT_NOMEM, "out of memory");
        return cli_context_fail(context, &err);
    }
    verification->context = context;
    verification->prefix = prefix;
    describe(context, prefix, bucket, what);
    if (cli_progress_file_begin(&verification->resume,
                                kvt_config_string(context->options, CLI_G4_VERIFY_STATE), what,
                                &err) != KVT_OK) {
        kvt_free(verification);
        return cli_context_fail(context, &err);
    }
    if (verification->resume.resumed)
        (void)fprintf(context->err, "going on behind %s\n", verification->resume.after);
    if (after[0] != '\0')
        (void)snprintf(verification->resume.after, sizeof(verification->resume.after), "%s", after);
    (void)(bucket ? verify_bucket(verification) : verify_catalog(verification));
    status = report(verification, bucket);
    kvt_free(verification);
    return status;
}
