#include "advisor/admin/troubles.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"

enum { TEXT_MAX = 8192, SILENT_MS = 15000 };

/* What to type when a line of the reasons begins so. */
static const struct {
    const char *prefix;
    const char *command;
} remedies[] = {
    {"nats:", "kvtier doctor"},
    {"events:", "kvtier sources ls"},
    {"publishers:", "kvtier sources ls -o wide"},
    {"index: takes", "kvtier doctor"},
    {"index:", "kvtier index stats"},
    {"policy: enforce", "kvtier policy show"},
    {"policy:", "kvtier orders ls"},
    {"gateway", "kvtier status"},
    {"condition reports-unsigned", "kvtier key derive --help"},
    {"condition", "kvtier doctor"},
    {"orders: all are paused", "kvtier migrate resume"},
    {"orders:", "kvtier orders ls"},
};

static const char *
remedy_of(const char *line)
{
    for (size_t i = 0; i < sizeof(remedies) / sizeof(remedies[0]); i++)
        if (strncmp(line, remedies[i].prefix, strlen(remedies[i].prefix)) == 0)
            return remedies[i].command;
    return "kvtier status";
}

bool
advisor_admin_reports(const struct advisor_gateway_view *gateway)
{
    const uint64_t now_ms = kvt_clock_unix_ms();

    return now_ms <= gateway->last_report_ms || now_ms - gateway->last_report_ms < SILENT_MS;
}

/* What does not make the advisor unready, and needs somebody all the same. */
static size_t
add_gateways(const struct advisor_admin *http, struct kvt_buffer *lines)
{
    size_t count;
    struct advisor_gateway_view *gateways = advisor_admin_gateways(http, &count);

    for (size_t i = 0; i < count; i++)
        if (gateways[i].last_report_ms == 0 || !advisor_admin_reports(&gateways[i]))
            kvt_buffer_printf(lines, "gateway %s: has not reported for more than %d s\n",
                              gateways[i].name, SILENT_MS / 1000);
        else if (!gateways[i].healthy)
            kvt_buffer_printf(lines, "gateway %s: its bucket does not answer\n", gateways[i].name);
    kvt_free(gateways);
    return count;
}

/* Lines to rows; the first is what the verdict says. */
static size_t
add_rows(struct kvt_buffer *out, char *lines, char first[TEXT_MAX])
{
    size_t count = 0;

    first[0] = '\0';
    for (char *line = lines; line != NULL && *line != '\0' && count < ADVISOR_TROUBLES_MAX;
         count++) {
        char *end = strchr(line, '\n');

        if (end != NULL)
            *end = '\0';
        if (count == 0)
            (void)snprintf(first, TEXT_MAX, "%s", line);
        kvt_buffer_printf(out, "%s{", count > 0 ? "," : "");
        advisor_admin_text(out, "text", line);
        kvt_buffer_printf(out, ",\"command\":\"%s\"}", remedy_of(line));
        line = end == NULL ? NULL : end + 1;
    }
    return count;
}

static void
add_verdict(const struct advisor_admin *http, struct kvt_buffer *out, const char *first,
            size_t gateway_count)
{
    const bool ok = first[0] == '\0';
    char text[160];

    if (gateway_count == 0)
        (void)snprintf(text, sizeof(text), "Nothing is wrong; no gateway has reported yet");
    else
        (void)snprintf(text, sizeof(text), "All is well: %zu %s, %" PRId64 " blocks known",
                       gateway_count, gateway_count == 1 ? "gateway" : "gateways",
                       kvt_metric_get(http->counters->blocks));
    kvt_buffer_printf(out, "\"verdict\":{\"ok\":%s,", ok ? "true" : "false");
    advisor_admin_text(out, "text", ok ? text : first);
    kvt_buffer_printf(out, ",\"command\":\"%s\"}", ok ? "" : remedy_of(first));
}

void
advisor_admin_add_troubles(struct advisor_admin *http, struct kvt_buffer *out)
{
    struct kvt_buffer lines;
    char first[TEXT_MAX];
    size_t gateway_count;
    char *copy;
    bool ready;

    kvt_buffer_init(&lines, TEXT_MAX);
    ready = advisor_admin_reasons(http, &lines);
    gateway_count = add_gateways(http, &lines);
    copy = kvt_strdup(kvt_buffer_text(&lines));
    kvt_buffer_printf(out, "\"state\":\"%s\",\"troubles\":[",
                      lines.size == 0 && ready               ? "ready"
                      : advisor_round_caught_up(http->round) ? "degraded"
                                                             : "starting");
    if (copy != NULL)
        (void)add_rows(out, copy, first);
    else
        (void)snprintf(first, sizeof(first), "no memory to say what is wrong");
    kvt_buffer_printf(out, "],");
    add_verdict(http, out, first, gateway_count);
    kvt_free(copy);
    kvt_buffer_release(&lines);
}
