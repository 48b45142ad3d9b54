#include <inttypes.h>
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/clock.h"
#include "cli/json.h"
#include "cli/options.h"
#include "cli/server.h"
#include "cli/table.h"
#include "cli/tenant.h"
#include "kvtier/block.h"

enum {
    CURSOR_MAX = 1024,
    STUCK_MAX = 10,     /* passes in a row that removed nothing of what they found */
    PASSES_MAX = 10000, /* against somebody who writes for ever */
    PAUSE_MS = 1000,
    CHECKS_MAX = 160,
    LINE_MAX_BYTES = 512,
    WORD_MAX = 16,
};

/* What a pass at the gateway found; the words are gateway/purge.h's, the texts for people. */
static const struct {
    const char *name;
    const char *text;
} places[] = {
    {"rows", "rows of the catalog"},
    {"hot_files", "files on the hot volume"},
    {"objects", "objects in the bucket"},
    {"locks", "locks in the bucket"},
    {"segments", "packed segments"},
    {"manifests", "manifests that name blocks"},
    {"uploads", "uploads begun at the gateway"},
    {"bucket_uploads", "uploads begun in the bucket"},
    {"quarantined", "copies in quarantine"},
};

enum { PLACES = sizeof(places) / sizeof(places[0]) };

struct pass {
    char gateway[KVT_NAME_MAX];
    uint64_t found[PLACES];
    uint64_t bytes;
    uint64_t sum; /* of `found` */
    uint64_t removed;
    uint64_t failed;
    char uploads_by[WORD_MAX]; /* gateway/purge.h */
    bool versions;
    char text[LINE_MAX_BYTES]; /* of the first failure */
};

struct purge {
    const struct cli_context *context;
    char namespace_[KVT_NAMESPACE_MAX];
    uint64_t removed;
    unsigned passes;
    struct json_object *checks;
    size_t unproven;
};

/* ---- passes ---- */

static void
take(struct pass *pass, struct json_object *answer)
{
    struct json_object *found = cli_json_at(answer, "found");

    (void)snprintf(pass->gateway, sizeof(pass->gateway), "%s", cli_json_text(answer, "gateway"));
    for (size_t i = 0; i < PLACES; i++) {
        const uint64_t count = cli_json_u64(found, places[i].name);

        pass->found[i] += count;
        pass->sum += count;
    }
    pass->bytes += cli_json_u64(found, "object_bytes") + cli_json_u64(found, "segment_bytes");
    pass->removed += cli_json_u64(answer, "removed");
    pass->failed += cli_json_u64(answer, "failed");
    (void)snprintf(pass->uploads_by, sizeof(pass->uploads_by), "%s",
                   cli_json_text(answer, "uploads_by"));
    pass->versions = pass->versions || cli_json_bool(answer, "versions");
    if (pass->text[0] == '\0')
        (void)snprintf(pass->text, sizeof(pass->text), "%s", cli_json_text(answer, "text"));
}

/* Everywhere once. */
static enum kvt_err
run_pass(struct purge *purge, bool act, struct pass *pass, struct kvt_error *err)
{
    const struct cli_context *context = purge->context;
    char cursor[CURSOR_MAX] = "";
    enum kvt_err rc = KVT_OK;

    *pass = (struct pass){.sum = 0};
    do {
        struct json_object *body = json_object_new_object();
        struct json_object *answer = NULL;

        (void)json_object_object_add(body, "namespace", json_object_new_string(purge->namespace_));
        (void)json_object_object_add(body, "act", json_object_new_boolean(act));
        (void)json_object_object_add(body, "cursor", json_object_new_string(cursor));
        rc = cli_server_ask(context, CLI_SERVER_GATEWAY, "/v1/purge", body, true, &answer, err);
        (void)json_object_put(body);
        if (rc == KVT_OK) {
            take(pass, answer);
            (void)snprintf(cursor, sizeof(cursor), "%s", cli_json_text(answer, "cursor"));
        }
        (void)json_object_put(answer);
        if (rc == KVT_OK && cli_context_interactive(context))
            (void)fprintf(context->err, "\rpass %u: %" PRIu64 " found, %" PRIu64 " removed  ",
                          purge->passes + 1, pass->sum, pass->removed);
    } while (rc == KVT_OK && cursor[0] != '\0');
    purge->passes++;
    purge->removed += pass->removed;
    return rc;
}

/* Until a pass finds nothing, or nothing can be done about what it finds. */
static enum kvt_err
run_passes(struct purge *purge, struct pass *last, struct kvt_error *err)
{
    unsigned stuck = 0;

    for (;;) {
        const enum kvt_err rc = run_pass(purge, true, last, err);

        if (rc != KVT_OK || (last->sum == 0 && last->failed == 0))
            return rc;
        stuck = last->removed > 0 ? 0 : stuck + 1;
        if (stuck == STUCK_MAX || purge->passes >= PASSES_MAX)
            return KVT_OK;
        if (stuck > 0)
            kvt_clock_sleep_ms(PAUSE_MS);
    }
}

/* ---- proof ---- */

/* `why` NULL: nothing is left there, as was seen by `how` ("": by looking at all of it).  Else why
 * that is not so, or not known. */
static void
check_how(struct purge *purge, const char *place, uint64_t left, const char *why, const char *how)
{
    struct json_object *row = json_object_new_object();

    (void)json_object_object_add(row, "place", json_object_new_string(place));
    (void)json_object_object_add(row, "left", json_object_new_uint64(left));
    (void)json_object_object_add(row, "proven", json_object_new_boolean(why == NULL));
    (void)json_object_object_add(row, "how", json_object_new_string(why == NULL ? how : ""));
    (void)json_object_object_add(row, "why_not", json_object_new_string(why == NULL ? "" : why));
    (void)json_object_array_add(purge->checks, row);
    purge->unproven += why != NULL;
}

static void
check(struct purge *purge, const char *place, uint64_t left, const char *why)
{
    check_how(purge, place, left, why, "");
}

/* A count of none says nothing of a place that could not be looked at. */
static void
check_looks(struct purge *purge, const struct pass *pass)
{
    char place[LINE_MAX_BYTES];

    if (pass->failed == 0)
        return;
    (void)snprintf(place, sizeof(place), "%s: what could not be looked at", pass->gateway);
    check(purge, place, pass->failed, pass->text[0] == '\0' ? "no reason was told" : pass->text);
}

/* How a gateway looks for uploads that nobody completed; false: it cannot. */
static bool
uploads_how(const char *uploads_by, const char **how)
{
    static const struct {
        const char *by;
        const char *how;
    } rows[] = {
        {"prefix", "by prefix: the server lists them to all keys"},
        {"key", "by record and by key: those gateways began, and those to keys anybody showed"},
        {"none", "a folder keeps none"},
    };

    *how = "";
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (strcmp(rows[i].by, uploads_by) == 0)
            *how = rows[i].how;
    return (*how)[0] != '\0';
}

static void
check_gateway(struct purge *purge, const struct pass *last)
{
    char place[LINE_MAX_BYTES];

    for (size_t i = 0; i < PLACES; i++) {
        const bool uploads = strcmp(places[i].name, "bucket_uploads") == 0;
        const char *why = NULL;
        const char *how = "";

        if (last->found[i] > 0)
            why = last->text[0] == '\0' ? "it came back" : last->text;
        else if (uploads && !uploads_how(last->uploads_by, &how))
            why = "nobody can list them with cold.kind driver: look at the server itself";
        (void)snprintf(place, sizeof(place), "%s: %s", last->gateway, places[i].text);
        check_how(purge, place, last->found[i], why, how);
    }
    check_looks(purge, last);
    (void)snprintf(place, sizeof(place), "%s: old versions in the bucket", last->gateway);
    check(purge, place, 0,
          last->versions ? "the bucket keeps versions, or does not say: delete them at the server"
                         : NULL);
}

/* Hot volume, uploads and quarantine of a gateway are seen there alone. */
static void
check_others(struct purge *purge, const struct pass *last)
{
    struct json_object *status = NULL;
    struct kvt_error err = {0};
    char place[LINE_MAX_BYTES];

    if (cli_server_ask(purge->context, CLI_SERVER_ADVISOR, "/v1/status", NULL, false, &status,
                       &err) != KVT_OK) {
        check(purge, "other gateways", 0, err.text);
        return;
    }
    for (size_t i = 0; i < cli_json_count(status, "gateways") && i < CHECKS_MAX; i++) {
        const char *name = cli_json_text(cli_json_item(status, "gateways", i), "name");

        if (strcmp(name, last->gateway) == 0)
            continue;
        (void)snprintf(place, sizeof(place), "%s: volume, uploads, quarantine", name);
        check(purge, place, 0, "not asked: run this with its --gateway-url, too");
    }
    (void)json_object_put(status);
}

static void
check_index(struct purge *purge)
{
    const uint64_t end_ms =
        kvt_clock_mono_ms() + kvt_config_u64(purge->context->options, CLI_TENANT_PURGE_SETTLE);
    struct cli_tenant_sum sum;
    struct kvt_error err = {0};
    enum kvt_err rc;

    for (;;) {
        rc = cli_tenant_sum(purge->context, purge->namespace_, &sum, &err);
        if ((rc == KVT_OK && sum.hot_places + sum.cold_places + sum.blocks == 0) ||
            kvt_clock_mono_ms() >= end_ms)
            break;
        kvt_clock_sleep_ms(PAUSE_MS / 4);
    }
    if (rc != KVT_OK) {
        check(purge, "index: hot volumes and buckets", 0, err.text);
        check(purge, "index: workers", 0, err.text);
        return;
    }
    check(purge, "index: hot volumes and buckets", sum.hot_places + sum.cold_places,
          sum.hot_places + sum.cold_places + sum.blocks == 0
              ? NULL
              : "the advisor still knows of some: its events are late, or another gateway's");
    check(purge, "index: workers", sum.worker_places,
          sum.worker_places == 0 ? NULL : "workers hold it in G1 to G3, and drop it by themselves");
}

/* ---- showing ---- */

static void
print_json(struct purge *purge, bool proven)
{
    struct json_object *answer = json_object_new_object();

    (void)json_object_object_add(answer, "schema_version", json_object_new_int(1));
    (void)json_object_object_add(answer, "namespace", json_object_new_string(purge->namespace_));
    (void)json_object_object_add(answer, "passes", json_object_new_uint64(purge->passes));
    (void)json_object_object_add(answer, "removed", json_object_new_uint64(purge->removed));
    (void)json_object_object_add(answer, "proven", json_object_new_boolean(proven));
    (void)json_object_object_add(answer, "checks", json_object_get(purge->checks));
    cli_json_print(purge->context->out, answer);
    (void)json_object_put(answer);
}

static void
print_table(struct purge *purge)
{
    static const struct cli_column columns[] = {
        {"PLACE", false}, {"LEFT", true}, {"PROVEN", false}, {"HOW, OR WHY NOT", false}};
    FILE *out = purge->context->out;
    struct cli_table table;

    cli_table_init(&table, columns, sizeof(columns) / sizeof(columns[0]));
    for (size_t i = 0; i < json_object_array_length(purge->checks); i++) {
        struct json_object *row = json_object_array_get_idx(purge->checks, i);

        cli_table_add(&table, "%s", cli_json_text(row, "place"));
        cli_table_add(&table, "%" PRIu64, cli_json_u64(row, "left"));
        cli_table_add(&table, "%s", cli_json_bool(row, "proven") ? "yes" : "NO");
        cli_table_add(&table, "%s%s", cli_json_text(row, "how"), cli_json_text(row, "why_not"));
    }
    cli_table_print(&table, out);
    cli_table_release(&table);
    (void)fprintf(out, "\n%s: %" PRIu64 " removed in %u passes; %s\n", purge->namespace_,
                  purge->removed, purge->passes,
                  purge->unproven == 0 ? "nothing is left" : "NOT PROVEN that nothing is left");
}

/* What there is, and nothing is done about it. */
static enum cli_exit
show(struct purge *purge)
{
    struct pass pass;
    struct kvt_error err = {0};

    if (run_pass(purge, false, &pass, &err) != KVT_OK)
        return cli_server_fail(purge->context, CLI_SERVER_GATEWAY, &err);
    purge->removed = 0;
    for (size_t i = 0; i < PLACES; i++)
        check(purge, places[i].text, pass.found[i], pass.found[i] == 0 ? NULL : "to be purged");
    check_looks(purge, &pass);
    if (purge->context->json) {
        print_json(purge, false);
    } else if (pass.sum == 0 && pass.failed == 0) {
        (void)fprintf(purge->context->out,
                      "nothing of %s %s was found at %s; who is known: kvtier tenant usage\n",
                      strchr(purge->namespace_, '/') == NULL ? "tenant" : "namespace",
                      purge->namespace_, pass.gateway);
    } else {
        for (size_t i = 0; i < PLACES; i++)
            (void)fprintf(purge->context->out, "%10" PRIu64 "  %s\n", pass.found[i],
                          places[i].text);
        if (pass.failed > 0)
            (void)fprintf(purge->context->out, "%10" PRIu64 "  could not be looked at: %s\n",
                          pass.failed, pass.text);
    }
    if (pass.failed > 0)
        return CLI_EXIT_INTEGRITY;
    return pass.sum == 0 ? CLI_EXIT_NOTHING : CLI_EXIT_PENDING;
}

/* ---- the command ---- */

/* True: go on. */
static bool
ask_person(const struct purge *purge)
{
    char line[LINE_MAX_BYTES];

    (void)fprintf(purge->context->err,
                  "Everything of %s is deleted for good, pinned or not. Its name to go on: ",
                  purge->namespace_);
    if (fgets(line, sizeof(line), stdin) == NULL)
        return false;
    line[strcspn(line, "\n")] = '\0';
    return strcmp(line, purge->namespace_) == 0;
}

static enum cli_exit
act(struct purge *purge)
{
    struct pass last;
    struct kvt_error err = {0};
    enum kvt_err rc;
    bool proven;

    rc = run_passes(purge, &last, &err);
    if (rc == KVT_OK) {
        check_index(purge);
        rc = run_pass(purge, false, &last, &err); /* what came while the index settled */
    }
    if (cli_context_interactive(purge->context))
        (void)fputc('\n', purge->context->err);
    if (rc != KVT_OK) {
        (void)fprintf(purge->context->err, "kvtier: not finished; run it again\n");
        return cli_server_fail(purge->context, CLI_SERVER_GATEWAY, &err);
    }
    check_gateway(purge, &last);
    check_others(purge, &last);
    proven = purge->unproven == 0;
    if (purge->context->json)
        print_json(purge, proven);
    else
        print_table(purge);
    return proven ? CLI_EXIT_DONE : CLI_EXIT_INTEGRITY;
}

enum cli_exit
cli_tenant_purge(const struct cli_context *context)
{
    const char *model = kvt_config_string(context->options, CLI_TENANT_PURGE_MODEL);
    const char *tenant = context->arguments[0];
    struct purge purge = {.context = context};
    enum cli_exit status;
    int size;

    if (strcmp(tenant, CLI_TENANT_UNNAMED) == 0)
        return cli_context_usage(context,
                                 "\"-\" is what belongs to no tenant, and cannot be purged as one; "
                                 "see it: kvtier tenant usage -; delete it from a block on: kvtier "
                                 "prefix purge HASH");
    if (tenant[0] == '\0' || strchr(tenant, '/') != NULL)
        return cli_context_usage(context,
                                 "\"%.80s\" is no tenant: the first part of a namespace; "
                                 "--model names the rest",
                                 tenant);
    size = snprintf(purge.namespace_, sizeof(purge.namespace_), "%s%s%s", tenant,
                    model[0] == '\0' ? "" : "/", model);
    if (size < 0 || (size_t)size >= sizeof(purge.namespace_))
        return cli_context_usage(context, "the name is too long");
    purge.checks = json_object_new_array();
    if (kvt_config_bool(context->options, CLI_TENANT_PURGE_DRY_RUN)) {
        status = show(&purge);
    } else if (kvt_config_bool(context->options, CLI_TENANT_PURGE_YES)) {
        status = act(&purge);
    } else if (isatty(STDIN_FILENO) != 1) {
        status = cli_context_usage(context, "tenant purge wants --yes where nobody can be asked; "
                                            "--dry-run says what there is");
    } else if (ask_person(&purge)) {
        status = act(&purge);
    } else {
        (void)fprintf(context->err, "kvtier: nothing was changed\n");
        status = CLI_EXIT_FAILED;
    }
    (void)json_object_put(purge.checks);
    return status;
}
