#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/core/clock.h"
#include "cli/frame/options.h"
#include "cli/ops/cmd_tenant.h"
#include "cli/ops/cmd_tenant_purge.h"
#include "cli/output/cli_json.h"
#include "cli/output/cli_table.h"
#include "cli/remote/admin_client.h"

enum { PAUSE_MS = 250 };

const struct cli_purge_place cli_purge_places[CLI_PURGE_PLACES] = {
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

/* ---- checks ---- */

/* `why` NULL: nothing is left there, as was seen by `how` ("": by looking at all of it).  Else why
 * that is not so, or not known. */
static void
check_how(struct cli_purge *purge, const char *place, uint64_t left, const char *why,
          const char *how)
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
check(struct cli_purge *purge, const char *place, uint64_t left, const char *why)
{
    check_how(purge, place, left, why, "");
}

/* A count of none says nothing of a place that could not be looked at. */
static void
check_looks(struct cli_purge *purge, const struct cli_purge_gateway *gateway)
{
    char place[CLI_PURGE_LINE_MAX];

    if (gateway->last.failed == 0)
        return;
    (void)snprintf(place, sizeof(place), "%s: what could not be looked at", gateway->name);
    check(purge, place, gateway->last.failed,
          gateway->last.text[0] == '\0' ? "no reason was told" : gateway->last.text);
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
check_gateway(struct cli_purge *purge, const struct cli_purge_gateway *gateway)
{
    const struct cli_purge_pass *last = &gateway->last;
    char place[CLI_PURGE_LINE_MAX];

    for (size_t i = 0; i < CLI_PURGE_PLACES; i++) {
        const bool uploads = strcmp(cli_purge_places[i].name, "bucket_uploads") == 0;
        const char *why = NULL;
        const char *how = "";

        if (last->found[i] > 0 && last->text[0] != '\0')
            why = last->text;
        else if (last->found[i] > 0)
            why = purge->came_back ? "somebody still writes to it: take the tenant's credentials "
                                     "away and run this again"
                                   : "it came back: run this again";
        else if (uploads && !uploads_how(last->uploads_by, &how))
            why = "nobody can list them with cold.kind driver: look at the server itself";
        (void)snprintf(place, sizeof(place), "%s: %s", gateway->name, cli_purge_places[i].text);
        check_how(purge, place, last->found[i], why, how);
    }
    check_looks(purge, gateway);
    (void)snprintf(place, sizeof(place), "%s: old versions in the bucket", gateway->name);
    check(purge, place, 0,
          last->versions ? "the bucket keeps versions, or does not say: delete them at the server"
                         : NULL);
}

static bool
is_asked(const struct cli_purge *purge, const char *name)
{
    for (size_t i = 0; i < purge->gateway_count; i++)
        if (strcmp(purge->gateways[i].name, name) == 0)
            return true;
    return false;
}

/* Hot volume, uploads and quarantine of a gateway are seen there alone. */
static void
check_others(struct cli_purge *purge)
{
    struct json_object *status = NULL;
    struct kvt_error err = {0};
    char place[CLI_PURGE_LINE_MAX];

    if (cli_admin_ask(purge->context, CLI_ADMIN_ADVISOR, "/v1/status", NULL, false, &status,
                      &err) != KVT_OK) {
        check(purge, "other gateways", 0, err.text);
        return;
    }
    for (size_t i = 0; i < cli_json_count(status, "gateways") && i < CLI_PURGE_CHECKS_MAX; i++) {
        const char *name = cli_json_text(cli_json_item(status, "gateways", i), "name");

        if (is_asked(purge, name))
            continue;
        (void)snprintf(place, sizeof(place), "%s: volume, uploads, quarantine", name);
        check(purge, place, 0,
              "not asked: give its admin address, too: --gateway-others URL,URL (or once, in the "
              "context)");
    }
    (void)json_object_put(status);
}

static void
check_lost(struct cli_purge *purge, const struct cli_purge_gateway *gateway)
{
    const int tenant = (int)strcspn(purge->namespace_, "/");
    const char *model = purge->namespace_ + tenant;
    char place[CLI_PURGE_LINE_MAX];
    char why[CLI_PURGE_LINE_MAX];

    (void)snprintf(place, sizeof(place), "%s: all of it",
                   gateway->name[0] == '\0' ? gateway->url : gateway->name);
    (void)snprintf(why, sizeof(why), "%.200s; when it answers: kvtier tenant purge %.*s%s%.120s",
                   gateway->lost.text, tenant < 120 ? tenant : 120, purge->namespace_,
                   model[0] == '/' ? " --model " : "", model[0] == '/' ? model + 1 : "");
    check(purge, place, 0, why);
}

void
cli_purge_check_gateways(struct cli_purge *purge)
{
    for (size_t i = 0; i < purge->gateway_count; i++) {
        if (purge->gateways[i].lost.code == KVT_OK)
            check_gateway(purge, &purge->gateways[i]);
        else
            check_lost(purge, &purge->gateways[i]);
    }
    check_others(purge);
}

void
cli_purge_check_index(struct cli_purge *purge)
{
    const uint64_t end_ms =
        kvt_clock_mono_ms() + kvt_config_u64(purge->context->options, CLI_TENANT_PURGE_SETTLE);
    struct cli_tenant_sum sum;
    struct kvt_error err = {0};
    uint64_t stored = 0;
    enum kvt_err rc;

    for (;;) {
        rc = cli_tenant_sum(purge->context, purge->namespace_, &sum, &err);
        stored = 0;
        for (unsigned tier = 0; tier < CLI_STORE_TIER_COUNT; tier++)
            stored += sum.places[tier];
        if ((rc == KVT_OK && stored + sum.blocks == 0) || kvt_clock_mono_ms() >= end_ms)
            break;
        kvt_clock_sleep_ms(PAUSE_MS);
    }
    if (rc != KVT_OK) {
        check(purge, "index: volumes and buckets", 0, err.text);
        check(purge, "index: workers", 0, err.text);
        return;
    }
    check(purge, "index: volumes and buckets", stored,
          stored + sum.blocks == 0
              ? NULL
              : "the advisor still knows of some: its events are late, or another gateway's");
    check(purge, "index: workers", sum.worker_places,
          sum.worker_places == 0 ? NULL : "workers hold it in G1 to G3, and drop it by themselves");
}

void
cli_purge_check_found(struct cli_purge *purge)
{
    for (size_t at = 0; at < purge->gateway_count; at++) {
        const struct cli_purge_gateway *gateway = &purge->gateways[at];
        char place[CLI_PURGE_LINE_MAX];

        if (gateway->lost.code != KVT_OK) {
            check_lost(purge, gateway);
            continue;
        }
        for (size_t i = 0; i < CLI_PURGE_PLACES; i++) {
            (void)snprintf(place, sizeof(place), "%s: %s", gateway->name, cli_purge_places[i].text);
            check(purge, place, gateway->last.found[i],
                  gateway->last.found[i] == 0 ? NULL : "to be purged");
        }
        check_looks(purge, gateway);
    }
}

/* ---- showing ---- */

static void
print_json(const struct cli_purge *purge, bool proven)
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
print_table(const struct cli_purge *purge)
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

void
cli_purge_print(const struct cli_purge *purge, bool proven)
{
    if (purge->context->json)
        print_json(purge, proven);
    else
        print_table(purge);
}
