#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/text/parse.h"
#include "cli/output/cli_json.h"
#include "cli/output/store_tiers.h"
#include "cli/show/cmd_top.h"

enum {
    NAME_WIDTH = 22,
    BAR_MIN = 8,
    SPARK_WIDTH = 60,
    LEVELS = 8,
    PREFIXES_MAX = 16,
    PPM = 1000000
};

struct sheet {
    struct kvt_buffer *out;
    size_t width;
    bool unicode;
};

/* Names come from others: nothing of them may move the cursor. */
static void
add_text(struct sheet *sheet, const char *text)
{
    for (; *text != '\0'; text++)
        kvt_buffer_append(sheet->out, (unsigned char)*text < ' ' || *text == 0x7f ? "?" : text, 1);
}

static void
add_line(struct sheet *sheet, enum cli_top_line kind, const char *text)
{
    kvt_buffer_printf(sheet->out, "%c", (char)kind);
    add_text(sheet, text);
    kvt_buffer_append(sheet->out, "\n", 1);
}

static void
add_bar(struct sheet *sheet, double share, uint64_t mark_ppm, size_t width)
{
    const size_t filled = share >= 1.0 ? width : (size_t)(share * (double)width + 0.5);
    const size_t mark = (size_t)(mark_ppm * width / PPM);

    for (size_t i = 0; i < width; i++)
        if (mark_ppm > 0 && mark_ppm < PPM && i == mark)
            kvt_buffer_puts(sheet->out, sheet->unicode ? "│" : "|");
        else if (i < filled)
            kvt_buffer_puts(sheet->out, sheet->unicode ? "█" : "#");
        else
            kvt_buffer_puts(sheet->out, sheet->unicode ? "·" : ".");
}

/* The last hour, a character a minute; the newest minutes where there is no room for all. */
static void
add_spark(struct sheet *sheet, struct json_object *from, const char *key, size_t width)
{
    static const char *const blocks[LEVELS] = {" ", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
    static const char *const letters[LEVELS] = {" ", ".", ":", "-", "=", "+", "*", "#"};
    const size_t count = cli_json_count(from, key);
    const size_t first = count > width ? count - width : 0;
    uint64_t most = 1;

    for (size_t i = first; i < count; i++) {
        const uint64_t value = json_object_get_uint64(cli_json_item(from, key, i));

        most = value > most ? value : most;
    }
    for (size_t i = first; i < count; i++) {
        const uint64_t value = json_object_get_uint64(cli_json_item(from, key, i));
        const double share = (double)value / (double)most;
        const size_t level = value == 0 ? 0 : 1 + (size_t)(share * (LEVELS - 2) + 0.5);

        kvt_buffer_puts(sheet->out, sheet->unicode ? blocks[level] : letters[level]);
    }
}

/* ---- parts ---- */

static void
add_verdict(struct sheet *sheet, struct json_object *all)
{
    const bool ok = cli_json_bool(all, "verdict.ok");
    const size_t count = cli_json_count(all, "troubles");
    const char *mode = cli_json_text(all, "mode");
    const char *effective = cli_json_text(all, "effective_mode");
    char less[64] = "";

    /* The policy in force may go less far than it is allowed to. */
    if (effective[0] != '\0' && strcmp(effective, mode) != 0)
        (void)snprintf(less, sizeof(less), " (in effect %s)", effective);
    if (ok)
        add_line(sheet, CLI_TOP_GOOD, cli_json_text(all, "verdict.text"));
    for (size_t i = 0; i < count; i++) {
        struct json_object *trouble = cli_json_item(all, "troubles", i);

        kvt_buffer_printf(sheet->out, "%c", (char)CLI_TOP_BAD);
        add_text(sheet, cli_json_text(trouble, "text"));
        kvt_buffer_puts(sheet->out, "  -> ");
        add_text(sheet, cli_json_text(trouble, "command"));
        kvt_buffer_puts(sheet->out, "\n");
    }
    kvt_buffer_printf(sheet->out,
                      " advisor %s, up %" PRIu64 " s, policy %s%s by %s; orders: %s%" PRIu64
                      " done, %" PRIu64 " pending, %" PRIu64 " failed\n",
                      cli_json_text(all, "version"), cli_json_u64(all, "uptime_ms") / 1000, mode,
                      less, cli_json_text(all, "ordering"),
                      cli_json_bool(all, "paused") ? "PAUSED, " : "",
                      cli_json_u64(all, "orders.done"), cli_json_u64(all, "orders.pending"),
                      cli_json_u64(all, "orders.failed") + cli_json_u64(all, "orders.expired"));
}

/* A name, a bar of what room there is, and figures. */
static void
begin_row(struct sheet *sheet, const char *name)
{
    char text[NAME_WIDTH + 1];

    (void)snprintf(text, sizeof(text), "%-*s", NAME_WIDTH, name);
    kvt_buffer_puts(sheet->out, "   ");
    add_text(sheet, text);
    kvt_buffer_puts(sheet->out, " ");
}

static size_t
bar_room(const struct sheet *sheet, size_t figures)
{
    const size_t taken = 3 + NAME_WIDTH + 1 + figures;

    if (sheet->width < taken + BAR_MIN)
        return BAR_MIN;
    return sheet->width - taken < SPARK_WIDTH ? sheet->width - taken : SPARK_WIDTH;
}

static bool
has_rung(struct json_object *all, enum cli_store_tier rung)
{
    for (size_t i = 0; i < cli_json_count(all, "tiers"); i++)
        if (strcmp(cli_json_text(cli_json_item(all, "tiers", i), "rung"),
                   cli_store_tier_name(rung)) == 0)
            return true;
    return false;
}

static void
add_tiers(struct sheet *sheet, struct json_object *all)
{
    const size_t room = bar_room(sheet, 46);

    add_line(sheet, CLI_TOP_HEAD, "TIERS");
    for (size_t i = 0; i < cli_json_count(all, "tiers"); i++) {
        struct json_object *tier = cli_json_item(all, "tiers", i);
        const uint64_t used = cli_json_u64(tier, "used_bytes");
        const uint64_t capacity = cli_store_tier_limit(tier);
        const double share = capacity == 0 ? 0.0 : (double)used / (double)capacity;
        char used_text[KVT_SIZE_TEXT_MAX];
        char capacity_text[KVT_SIZE_TEXT_MAX];

        kvt_size_format(used, used_text);
        kvt_size_format(capacity, capacity_text);
        begin_row(sheet, cli_json_text(tier, "name"));
        if (capacity > 0) {
            add_bar(sheet, share, cli_json_u64(tier, "start_ppm"), room);
            kvt_buffer_printf(sheet->out, " %5.1f%%  %s of %s", 100.0 * share, used_text,
                              capacity_text);
        } else {
            kvt_buffer_printf(sheet->out, "%*s  %s, no cap", (int)room + 7, "", used_text);
        }
        kvt_buffer_printf(sheet->out, ", %" PRIu64 " blocks%s\n", cli_json_u64(tier, "blocks"),
                          cli_json_bool(tier, "stuck")      ? ", STUCK"
                          : cli_json_bool(tier, "draining") ? ", drains"
                                                            : "");
    }
}

static void
add_reads(struct sheet *sheet, struct json_object *all)
{
    static const char *const keys[] = {"hot", "cold", "miss"};
    const char *const names[] = {has_rung(all, CLI_STORE_TIER_WARM) ? "volumes" : "hot volume",
                                 has_rung(all, CLI_STORE_TIER_FAR) ? "buckets" : "bucket",
                                 "nowhere"};
    struct json_object *reads = cli_json_at(all, "reads");
    const uint64_t sum =
        cli_json_u64(reads, "hot") + cli_json_u64(reads, "cold") + cli_json_u64(reads, "miss");
    const size_t room = bar_room(sheet, 22);

    add_line(sheet, CLI_TOP_HEAD, "READS: all, and the last hour by minutes");
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        const uint64_t count = cli_json_u64(reads, keys[i]);

        begin_row(sheet, names[i]);
        kvt_buffer_printf(sheet->out, "%12" PRIu64 " %5.1f%%  ", count,
                          sum == 0 ? 0.0 : 100.0 * (double)count / (double)sum);
        add_spark(sheet, cli_json_at(all, "reads_by_minute"), keys[i], room);
        kvt_buffer_puts(sheet->out, "\n");
    }
}

static void
add_flow(struct sheet *sheet, struct json_object *all)
{
    const size_t room = bar_room(sheet, 32);

    add_line(sheet, CLI_TOP_HEAD, "MOVED BY ORDERS: all, and the last hour by minutes");
    for (size_t i = 0; i < cli_json_count(all, "flow"); i++) {
        struct json_object *edge = cli_json_item(all, "flow", i);
        char bytes[KVT_SIZE_TEXT_MAX];
        char name[64];

        kvt_size_format(cli_json_u64(edge, "bytes"), bytes);
        (void)snprintf(name, sizeof(name), "%s: %s to %s", cli_json_text(edge, "verb"),
                       cli_json_text(edge, "from"), cli_json_text(edge, "to"));
        begin_row(sheet, name);
        kvt_buffer_printf(sheet->out, "%12" PRIu64 " blocks %9s  ", cli_json_u64(edge, "blocks"),
                          bytes);
        add_spark(sheet, edge, "bytes_by_minute", room);
        kvt_buffer_puts(sheet->out, "\n");
    }
}

static void
span_format(char text[32], uint64_t seconds)
{
    static const struct {
        uint64_t size;
        const char *name;
    } spans[] = {{86400, "d"}, {3600, "h"}, {60, "min"}};

    (void)snprintf(text, 32, "%" PRIu64 " s", seconds);
    for (size_t i = 0; i < sizeof(spans) / sizeof(spans[0]); i++)
        if (seconds >= spans[i].size) {
            (void)snprintf(text, 32, "%" PRIu64 " %s", seconds / spans[i].size, spans[i].name);
            return;
        }
}

static void
add_ages(struct sheet *sheet, struct json_object *all)
{
    struct json_object *reuse = cli_json_at(all, "reuse");
    const size_t bounds = cli_json_count(reuse, "up_to_seconds");
    const size_t room = bar_room(sheet, 22);
    uint64_t sum = 0;

    add_line(sheet, CLI_TOP_HEAD, "AGE AT REUSE: how long a block had not been used");
    for (size_t i = 0; i < cli_json_count(reuse, "reads"); i++)
        sum += json_object_get_uint64(cli_json_item(reuse, "reads", i));
    for (size_t i = 0; i < cli_json_count(reuse, "reads"); i++) {
        const uint64_t count = json_object_get_uint64(cli_json_item(reuse, "reads", i));
        char span[32] = "";
        char name[48] = "longer";

        if (count == 0)
            continue;
        if (i < bounds) {
            span_format(span, json_object_get_uint64(cli_json_item(reuse, "up_to_seconds", i)));
            (void)snprintf(name, sizeof(name), "up to %s", span);
        }
        begin_row(sheet, name);
        kvt_buffer_printf(sheet->out, "%12" PRIu64 " %5.1f%%  ", count,
                          100.0 * (double)count / (double)sum);
        add_bar(sheet, (double)count / (double)sum, 0, room);
        kvt_buffer_puts(sheet->out, "\n");
    }
    if (sum == 0)
        add_line(sheet, CLI_TOP_PLAIN, "  nothing was read again yet");
}

static void
add_prefixes(struct sheet *sheet, struct json_object *all)
{
    const size_t count = cli_json_count(all, "prefixes");

    add_line(sheet, CLI_TOP_HEAD, "HOT PREFIXES: reads of late, block, its place in the chain");
    for (size_t i = 0; i < count && i < PREFIXES_MAX; i++) {
        struct json_object *block = cli_json_item(all, "prefixes", i);

        kvt_buffer_printf(sheet->out, "   %12" PRIu64 "  %s  %5" PRIu64 "  ",
                          cli_json_u64(block, "reads"), cli_json_text(block, "hash"),
                          cli_json_u64(block, "position"));
        add_text(sheet, cli_json_text(block, "namespace"));
        kvt_buffer_puts(sheet->out, "\n");
    }
    if (count == 0)
        add_line(sheet, CLI_TOP_PLAIN, "  nothing was read yet");
}

void
cli_top_lines(struct json_object *overview, size_t width, bool unicode, struct kvt_buffer *out)
{
    struct sheet sheet = {.out = out, .width = width, .unicode = unicode};

    add_verdict(&sheet, overview);
    add_tiers(&sheet, overview);
    add_reads(&sheet, overview);
    add_flow(&sheet, overview);
    add_ages(&sheet, overview);
    add_prefixes(&sheet, overview);
}
