#include <inttypes.h>
#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/core/clock.h"
#include "base/text/parse.h"
#include "cli/frame/cli_settings.h"
#include "cli/frame/interrupt.h"
#include "cli/frame/options.h"
#include "cli/output/cli_json.h"
#include "cli/output/cli_table.h"
#include "cli/policy/cmd_policy_versions.h"
#include "cli/remote/admin_client.h"
#include "cli/show/show_commands.h"

enum { BAR_WIDTH = 20, PPM = 1000000, TIME_TEXT_MAX = 48, MOMENT_MS = 1000 };

/* Both daemons' answers, either of which may be missing. */
struct picture {
    struct json_object *advisor;
    struct json_object *gateway;
    struct kvt_error advisor_error;
    struct kvt_error gateway_error;
};

static void
picture_take(const struct cli_context *context, struct picture *picture)
{
    *picture = (struct picture){0};
    if (cli_admin_ask(context, CLI_ADMIN_ADVISOR, "/v1/status", NULL, false, &picture->advisor,
                      &picture->advisor_error) != KVT_OK)
        picture->advisor = NULL;
    if (cli_admin_ask(context, CLI_ADMIN_GATEWAY, "/v1/status", NULL, false, &picture->gateway,
                      &picture->gateway_error) != KVT_OK)
        picture->gateway = NULL;
}

static void
picture_release(struct picture *picture)
{
    (void)json_object_put(picture->advisor);
    (void)json_object_put(picture->gateway);
}

/* ---- JSON ---- */

static void
add_error(struct json_object *errors, const char *name, const struct kvt_error *err)
{
    if (err->code != KVT_OK)
        (void)json_object_object_add(errors, name, json_object_new_string(err->text));
}

static void
print_json(FILE *out, const struct picture *picture)
{
    struct json_object *all = json_object_new_object();
    struct json_object *errors = json_object_new_object();

    (void)json_object_object_add(all, "schema_version", json_object_new_int(1));
    (void)json_object_object_add(all, "time_ms", json_object_new_uint64(kvt_clock_unix_ms()));
    (void)json_object_object_add(all, "advisor", json_object_get(picture->advisor));
    (void)json_object_object_add(all, "gateway", json_object_get(picture->gateway));
    add_error(errors, "advisor", &picture->advisor_error);
    add_error(errors, "gateway", &picture->gateway_error);
    (void)json_object_object_add(all, "errors", errors);
    cli_json_print(out, all);
    (void)json_object_put(all);
}

/* ---- table ---- */

static void
print_daemon(FILE *out, const char *name, struct json_object *status, const struct kvt_error *err)
{
    if (status == NULL) {
        (void)fprintf(out, "%-8s away      %s\n", name, err->text);
        return;
    }
    (void)fprintf(out, "%-8s %-9s %s, up %" PRIu64 " s", name, cli_json_text(status, "state"),
                  cli_json_text(status, "version"), cli_json_u64(status, "uptime_ms") / 1000);
    if (cli_json_text(status, "mode")[0] != '\0')
        (void)fprintf(out, ", policy %s", cli_json_text(status, "mode"));
    if (cli_json_text(status, "effective_mode")[0] != '\0' &&
        strcmp(cli_json_text(status, "effective_mode"), cli_json_text(status, "mode")) != 0)
        (void)fprintf(out, " (in effect %s)", cli_json_text(status, "effective_mode"));
    if (cli_json_text(status, "name")[0] != '\0')
        (void)fprintf(out, ", %s on bucket %s", cli_json_text(status, "name"),
                      cli_json_text(status, "bucket"));
    (void)fputc('\n', out);
    for (size_t i = 0; i < cli_json_count(status, "reasons"); i++)
        (void)fprintf(out, "         - %s\n",
                      json_object_get_string(cli_json_item(status, "reasons", i)));
}

/* "[##########|....]": use, and where the policy starts to act. */
static void
bar_format(char bar[BAR_WIDTH + 3], uint64_t used, uint64_t capacity, uint64_t start_ppm)
{
    const size_t mark = (size_t)(start_ppm * BAR_WIDTH / PPM);
    const double share = capacity == 0 ? 0.0 : (double)used / (double)capacity;
    const size_t filled = share >= 1.0 ? BAR_WIDTH : (size_t)(share * BAR_WIDTH);

    bar[0] = '[';
    for (size_t i = 0; i < BAR_WIDTH; i++) {
        bar[i + 1] = i < filled ? '#' : '.';
        if (start_ppm > 0 && start_ppm < PPM && i == mark && i >= filled)
            bar[i + 1] = '|';
    }
    bar[BAR_WIDTH + 1] = ']';
    bar[BAR_WIDTH + 2] = '\0';
}

static void
tier_row(struct cli_table *table, const char *name, uint64_t used, uint64_t capacity,
         uint64_t blocks, uint64_t start_ppm, uint64_t stop_ppm)
{
    char used_text[KVT_SIZE_TEXT_MAX];
    char capacity_text[KVT_SIZE_TEXT_MAX];
    char bar[BAR_WIDTH + 3] = "";

    kvt_size_format(used, used_text);
    kvt_size_format(capacity, capacity_text);
    if (capacity > 0)
        bar_format(bar, used, capacity, start_ppm);
    cli_table_add(table, "%s", name);
    cli_table_add(table, "%s", used_text);
    cli_table_add(table, "%s", capacity == 0 ? "no cap" : capacity_text);
    if (capacity == 0)
        cli_table_add(table, "-");
    else
        cli_table_add(table, "%.1f%%", 100.0 * (double)used / (double)capacity);
    cli_table_add(table, "%" PRIu64, blocks);
    if (start_ppm == 0)
        cli_table_add(table, "-");
    else
        cli_table_add(table, "%" PRIu64 "%% / %" PRIu64 "%%", start_ppm / (PPM / 100),
                      stop_ppm / (PPM / 100));
    cli_table_add(table, "%s", bar);
}

/* The advisor's watermarks of a tier, found by its holder's name. */
static struct json_object *
advisor_tier(struct json_object *advisor, const char *holder)
{
    for (size_t i = 0; i < cli_json_count(advisor, "tiers"); i++) {
        struct json_object *tier = cli_json_item(advisor, "tiers", i);

        if (strcmp(cli_json_text(tier, "name"), holder) == 0)
            return tier;
    }
    return NULL;
}

static void
gateway_tier_row(struct cli_table *table, const struct picture *picture, const char *which)
{
    struct json_object *tier = cli_json_at(picture->gateway, which);
    const char *holder = cli_json_text(tier, "holder");
    struct json_object *known = advisor_tier(picture->advisor, holder);

    tier_row(table, holder[0] == '\0' ? which : holder, cli_json_u64(tier, "used_bytes"),
             cli_json_u64(tier, "capacity_bytes"), cli_json_u64(tier, "blocks"),
             cli_json_u64(known, "start_ppm"), cli_json_u64(known, "stop_ppm"));
}

/* As in the gateway's status; not every gateway has the last two. */
enum { GATEWAY_TIERS = 4, GATEWAY_TIERS_ALWAYS = 2 };

static const char *const gateway_tiers[GATEWAY_TIERS] = {"hot", "cold", "warm", "far"};

/* Is it one of those that the gateway told of itself? */
static bool
is_gateways(const struct picture *picture, const char *holder)
{
    for (size_t i = 0; i < GATEWAY_TIERS; i++) {
        struct json_object *tier = cli_json_at(picture->gateway, gateway_tiers[i]);

        if (strcmp(holder, cli_json_text(tier, "holder")) == 0)
            return true;
    }
    return false;
}

/* Tiers whose blocks are put into another order. */
static void
print_reranking(FILE *out, const struct picture *picture)
{
    for (size_t i = 0; i < cli_json_count(picture->advisor, "tiers"); i++) {
        struct json_object *tier = cli_json_item(picture->advisor, "tiers", i);

        if (cli_json_count(tier, "next_order_by") == 0)
            continue;
        (void)fprintf(
            out, "%s: ordered by %s until %s is ready", cli_json_text(tier, "name"),
            json_object_get_string(json_object_array_get_idx(cli_json_at(tier, "order_by"), 0)),
            json_object_get_string(
                json_object_array_get_idx(cli_json_at(tier, "next_order_by"), 0)));
        cli_policy_print_ranked(out, tier);
        (void)fputc('\n', out);
    }
}

static void
print_tiers(FILE *out, const struct picture *picture)
{
    static const struct cli_column columns[] = {
        {"TIER", false},  {"USED", true},         {"CAPACITY", true}, {"USE", true},
        {"BLOCKS", true}, {"START / STOP", true}, {"", false}};
    struct cli_table table;

    cli_table_init(&table, columns, sizeof(columns) / sizeof(columns[0]));
    for (size_t i = 0; i < GATEWAY_TIERS; i++)
        if (picture->gateway != NULL &&
            (i < GATEWAY_TIERS_ALWAYS || cli_json_at(picture->gateway, gateway_tiers[i]) != NULL))
            gateway_tier_row(&table, picture, gateway_tiers[i]);
    for (size_t i = 0; i < cli_json_count(picture->advisor, "tiers"); i++) {
        struct json_object *tier = cli_json_item(picture->advisor, "tiers", i);
        const char *name = cli_json_text(tier, "name");

        if (!is_gateways(picture, name))
            tier_row(&table, name, cli_json_u64(tier, "used_bytes"),
                     cli_json_u64(tier, "capacity_bytes"), cli_json_u64(tier, "blocks"),
                     cli_json_u64(tier, "start_ppm"), cli_json_u64(tier, "stop_ppm"));
    }
    (void)fputc('\n', out);
    cli_table_print(&table, out);
    cli_table_release(&table);
    print_reranking(out, picture);
}

static void
age_format(char text[TIME_TEXT_MAX], uint64_t unix_ms)
{
    const uint64_t now = kvt_clock_unix_ms();

    if (unix_ms == 0)
        (void)snprintf(text, TIME_TEXT_MAX, "none yet");
    else if (now < unix_ms + MOMENT_MS)
        (void)snprintf(text, TIME_TEXT_MAX, "just now");
    else
        (void)snprintf(text, TIME_TEXT_MAX, "%.1f s ago",
                       (double)(now > unix_ms ? now - unix_ms : 0) / 1000.0);
}

/* The bucket's clock is told in whole seconds. */
static void
skew_format(char text[TIME_TEXT_MAX], int64_t skew_ms)
{
    if (skew_ms > -MOMENT_MS && skew_ms < MOMENT_MS)
        (void)snprintf(text, TIME_TEXT_MAX, "clocks agree");
    else
        (void)snprintf(text, TIME_TEXT_MAX, "its clock is %.1f s %s",
                       (double)(skew_ms < 0 ? -skew_ms : skew_ms) / 1000.0,
                       skew_ms < 0 ? "behind" : "ahead");
}

static void
print_advisor(FILE *out, struct json_object *advisor)
{
    struct json_object *events = cli_json_at(advisor, "events");
    struct json_object *orders = cli_json_at(advisor, "orders");
    char age[TIME_TEXT_MAX];

    age_format(age, cli_json_u64(events, "last_event_ms"));
    (void)fprintf(out,
                  "\nindex    %" PRIu64 " blocks, %" PRIu64 " places, %" PRIu64 " holders, %" PRIu64
                  " collisions\n",
                  cli_json_u64(advisor, "index.blocks"), cli_json_u64(advisor, "index.places"),
                  cli_json_u64(advisor, "index.holders"),
                  cli_json_u64(advisor, "index.collisions"));
    (void)fprintf(out,
                  "events   %" PRIu64 " applied, lag %" PRIu64 " messages (%" PRIu64
                  " ms), last %s; %" PRIu64 " gaps, %" PRIu64 " conflicts, %" PRIu64
                  " resyncs, %" PRIu64 " malformed\n",
                  cli_json_u64(events, "applied"), cli_json_u64(events, "lag"),
                  cli_json_u64(events, "lag_ms"), age, cli_json_u64(events, "gaps"),
                  cli_json_u64(events, "conflicts"), cli_json_u64(events, "resyncs"),
                  cli_json_u64(events, "malformed"));
    (void)fprintf(out, "sources  %" PRIu64 " publisher%s, %" PRIu64 " uncertain; NATS %s\n",
                  cli_json_u64(events, "publishers"),
                  cli_json_u64(events, "publishers") == 1 ? "" : "s",
                  cli_json_u64(events, "uncertain"),
                  cli_json_bool(advisor, "nats.connected") ? "connected" : "AWAY");
    (void)fprintf(out,
                  "orders   %s%" PRIu64 " issued, %" PRIu64 " pending, %" PRIu64 " done, %" PRIu64
                  " failed, %" PRIu64 " expired\n",
                  cli_json_bool(advisor, "paused") ? "PAUSED (kvtier migrate resume); " : "",
                  cli_json_u64(orders, "issued"), cli_json_u64(orders, "pending"),
                  cli_json_u64(orders, "done"), cli_json_u64(orders, "failed"),
                  cli_json_u64(orders, "expired"));
}

/* What was acknowledged and is not in the bucket yet.  Without write-back there is nothing to say,
 * unless some of it is left over. */
static void
print_backlog(FILE *out, struct json_object *backlog)
{
    const uint64_t blocks = cli_json_u64(backlog, "blocks");
    char waiting[KVT_SIZE_TEXT_MAX];
    char most[KVT_SIZE_TEXT_MAX];

    if (strcmp(cli_json_text(backlog, "mode"), "back") != 0 && blocks == 0)
        return;
    kvt_size_format(cli_json_u64(backlog, "bytes"), waiting);
    kvt_size_format(cli_json_u64(backlog, "max_bytes"), most);
    (void)fprintf(out, "backlog  %" PRIu64 " blocks wait for the bucket, %s of %s", blocks, waiting,
                  most);
    if (blocks > 0)
        (void)fprintf(out, ", the oldest for %.1f s",
                      (double)cli_json_u64(backlog, "oldest_ms") / 1000.0);
    (void)fprintf(out, "%s\n", cli_json_bool(backlog, "stuck") ? ": STUCK" : "");
}

static void
print_packing(FILE *out, struct json_object *space)
{
    const uint64_t live = cli_json_u64(space, "live_bytes");
    const uint64_t bytes = cli_json_u64(space, "segment_bytes");
    const char *error = cli_json_text(space, "last.error");
    char size[KVT_SIZE_TEXT_MAX];

    kvt_size_format(bytes, size);
    (void)fprintf(out, "packed   %s: %" PRIu64 " blocks in %" PRIu64 " segments, %s, %.1f%% live",
                  cli_json_text(space, "namespace"), cli_json_u64(space, "blocks"),
                  cli_json_u64(space, "segments"), size,
                  bytes == 0 ? 100.0 : 100.0 * (double)live / (double)bytes);
    if (cli_json_u64(space, "runs") > 0)
        (void)fprintf(out, "; last run (%s) packed %" PRIu64 ", forwarded %" PRIu64 "%s%s",
                      cli_json_text(space, "last.reason"), cli_json_u64(space, "last.packed"),
                      cli_json_u64(space, "last.forwarded"), error[0] == '\0' ? "" : ": ", error);
    (void)fputc('\n', out);
}

static void
print_gateway(FILE *out, struct json_object *gateway)
{
    struct json_object *cold = cli_json_at(gateway, "cold");
    struct json_object *requests = cli_json_at(gateway, "requests");
    char skew[TIME_TEXT_MAX];
    char in[KVT_SIZE_TEXT_MAX];
    char put[KVT_SIZE_TEXT_MAX];

    kvt_size_format(cli_json_u64(requests, "bytes_in"), in);
    kvt_size_format(cli_json_u64(requests, "bytes_out"), put);
    (void)fprintf(out,
                  "requests %" PRIu64 " get, %" PRIu64 " put, %" PRIu64 " has; hits %" PRIu64
                  " hot, %" PRIu64 " cold, %" PRIu64 " misses; %s in, %s out\n",
                  cli_json_u64(requests, "get"), cli_json_u64(requests, "put"),
                  cli_json_u64(requests, "has"), cli_json_u64(requests, "hits_hot"),
                  cli_json_u64(requests, "hits_cold"), cli_json_u64(requests, "misses"), in, put);
    skew_format(skew, cli_json_i64(cold, "clock_skew_ms"));
    (void)fprintf(out, "store    %s %s: %s, answers in %" PRIu64 " ms, %s%s\n",
                  cli_json_text(cold, "kind"), cli_json_text(cold, "endpoint"),
                  cli_json_bool(cold, "healthy") ? "healthy" : "NOT HEALTHY",
                  cli_json_u64(cold, "latency_ms"), skew,
                  cli_json_bool(cold, "selftest.put_if_absent") ? ", conditional PUT works"
                                                                : ", conditional PUT NOT PROVEN");
    print_backlog(out, cli_json_at(gateway, "backlog"));
    (void)fprintf(out, "checks   %" PRIu64 " corrupt copies found, %" PRIu64 " in quarantine\n",
                  cli_json_u64(gateway, "integrity.corrupt"),
                  cli_json_u64(gateway, "integrity.quarantined"));
    for (size_t i = 0; i < cli_json_count(gateway, "packing"); i++)
        print_packing(out, cli_json_item(gateway, "packing", i));
}

static void
memory_row(struct cli_table *table, const char *what, uint64_t used, uint64_t limit)
{
    char used_text[KVT_SIZE_TEXT_MAX];
    char limit_text[KVT_SIZE_TEXT_MAX];

    kvt_size_format(used, used_text);
    kvt_size_format(limit, limit_text);
    cli_table_add(table, "%s", what);
    cli_table_add(table, "%s", used_text);
    cli_table_add(table, "%s", limit_text);
    cli_table_add(table, "%.1f%%", limit == 0 ? 0.0 : 100.0 * (double)used / (double)limit);
}

static void
print_memory(FILE *out, const struct picture *picture)
{
    static const struct cli_column columns[] = {
        {"BOUND", false}, {"USED", true}, {"LIMIT", true}, {"USE", true}};
    struct cli_table table;

    cli_table_init(&table, columns, sizeof(columns) / sizeof(columns[0]));
    if (picture->advisor != NULL) {
        memory_row(&table, "advisor index", cli_json_u64(picture->advisor, "index.ram_bytes"),
                   cli_json_u64(picture->advisor, "index.ram_max_bytes"));
        memory_row(&table, "advisor database", cli_json_u64(picture->advisor, "index.db_bytes"),
                   cli_json_u64(picture->advisor, "index.db_max_bytes"));
    }
    if (picture->gateway != NULL) {
        memory_row(&table, "gateway bodies", cli_json_u64(picture->gateway, "memory.used_bytes"),
                   cli_json_u64(picture->gateway, "memory.max_bytes"));
        memory_row(&table, "gateway catalog", cli_json_u64(picture->gateway, "catalog.bytes"),
                   cli_json_u64(picture->gateway, "catalog.max_bytes"));
    }
    (void)fputc('\n', out);
    cli_table_print(&table, out);
    cli_table_release(&table);
}

static enum cli_exit
print_once(const struct cli_context *context, const struct picture *picture)
{
    FILE *out = context->out;

    if (context->json) {
        print_json(out, picture);
    } else {
        print_daemon(out, "advisor", picture->advisor, &picture->advisor_error);
        print_daemon(out, "gateway", picture->gateway, &picture->gateway_error);
        if (picture->advisor != NULL || picture->gateway != NULL)
            print_tiers(out, picture);
        if (picture->advisor != NULL)
            print_advisor(out, picture->advisor);
        if (picture->gateway != NULL)
            print_gateway(out, picture->gateway);
        if (picture->advisor != NULL || picture->gateway != NULL)
            print_memory(out, picture);
    }
    if (picture->advisor == NULL && picture->gateway == NULL && !context->json)
        (void)fprintf(context->err, "\nnothing is running at these addresses; start it here with:  "
                                    "kvtier dev\n");
    return picture->advisor != NULL && picture->gateway != NULL ? CLI_EXIT_DONE
                                                                : CLI_EXIT_TEMPORARY;
}

/* Over the old screen, line by line: clearing all of it first would flicker. */
static ssize_t
repaint(void *cookie, const char *text, size_t size)
{
    FILE *out = cookie;

    for (size_t i = 0; i < size; i++) {
        if (text[i] == '\n')
            (void)fputs("\033[K", out);
        (void)fputc(text[i], out);
    }
    return ferror(out) == 0 ? (ssize_t)size : -1;
}

/* One picture on a screen that stays. */
static enum cli_exit
paint(const struct cli_context *context, const struct picture *picture)
{
    struct cli_context other = *context;
    enum cli_exit status;

    other.out = fopencookie(context->out, "w", (cookie_io_functions_t){.write = repaint});
    if (other.out == NULL)
        return print_once(context, picture);
    other.err = other.out;
    (void)fputs("\033[H", context->out);
    status = print_once(&other, picture);
    (void)fclose(other.out);
    (void)fputs("\033[J", context->out);
    return status;
}

enum cli_exit
cli_status_run(const struct cli_context *context)
{
    const bool watch = kvt_config_is_set(context->options, CLI_STATUS_WATCH);
    const bool screen = watch && !context->json && isatty(fileno(context->out)) == 1;
    struct picture picture;
    enum cli_exit status;

    if (watch)
        cli_interrupt_begin();
    if (screen)
        (void)fputs("\033[2J", context->out);
    for (;;) {
        picture_take(context, &picture);
        status = screen ? paint(context, &picture) : print_once(context, &picture);
        picture_release(&picture);
        if (!watch)
            return status;
        if (!screen && !context->json)
            (void)fputc('\n', context->out);
        if (fflush(context->out) != 0 ||
            cli_interrupt_wait(kvt_config_u64(context->options, CLI_STATUS_WATCH)))
            return status;
    }
}
