#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/core/buffer.h"
#include "base/core/file.h"
#include "base/text/parse.h"
#include "cli/workload/simulate_print.h"

/*
 * One picture: hits over sizes, a line an ordering and the bound dashed above them.  The page puts
 * it above a table of the same figures.  Nothing is loaded from anywhere, and colours follow the
 * reader's light or dark setting.
 */

enum { WIDTH = 860, HEIGHT = 420, LEFT = 60, RIGHT = 130, TOP = 30, BOTTOM = 60, GRID = 5 };

#define REPORT_MAX (1u << 20)

static const char *const colours[] = {"#3b7dd8", "#d8663b", "#2f9e69", "#a457c2",
                                      "#b8860b", "#c2385a", "#3aa0a8", "#7a7f88",
                                      "#8c6d46", "#5566cc", "#6b9e2f", "#cc5599"};

static const char style[] =
    "text{font:12px system-ui,sans-serif;fill:#1c2733}.g{stroke:#d5dbe2}.b{stroke:#1c2733}"
    "@media(prefers-color-scheme:dark){text{fill:#dde4ec}.g{stroke:#35404c}.b{stroke:#dde4ec}}";

static double
x_of(const struct cli_study *study, size_t size)
{
    const size_t last = study->options.size_count > 1 ? study->options.size_count - 1 : 1;

    return LEFT + (double)(WIDTH - LEFT - RIGHT) * (double)size / (double)last;
}

static double
top_of(const struct cli_study *study)
{
    const double endless = 100 * (double)study->endless_hits / (double)study->reads;

    return endless > 0 ? endless : 1;
}

static double
y_of(const struct cli_study *study, double hits)
{
    return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * hits / top_of(study);
}

static double
best_percent(const struct cli_study *study, size_t size)
{
    return 100 * (double)study->best_hits[size] / (double)study->reads;
}

static void
draw_axes(struct kvt_buffer *out, const struct cli_study *study)
{
    for (int i = 0; i <= GRID; i++) {
        const double hits = top_of(study) * i / GRID;

        kvt_buffer_printf(out,
                          "<line class=\"g\" x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\"/>"
                          "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%.0f%%</text>\n",
                          LEFT, WIDTH - RIGHT, y_of(study, hits), y_of(study, hits), LEFT - 6,
                          y_of(study, hits) + 4, hits);
    }
    for (size_t size = 0; size < study->options.size_count; size++) {
        char text[KVT_SIZE_TEXT_MAX];

        kvt_size_format(study->options.sizes[size] * study->options.block_bytes, text);
        kvt_buffer_printf(out,
                          "<text x=\"%.1f\" y=\"%d\" text-anchor=\"end\" "
                          "transform=\"rotate(-30 %.1f %d)\">%s</text>\n",
                          x_of(study, size), HEIGHT - BOTTOM + 18, x_of(study, size),
                          HEIGHT - BOTTOM + 18, text);
    }
    kvt_buffer_printf(out, "<text x=\"%d\" y=\"16\">Prefix hits, %% of reads</text>\n", LEFT);
}

static void
draw_lines(struct kvt_buffer *out, const struct cli_study *study)
{
    const size_t count = study->options.ordering_count;

    kvt_buffer_printf(out,
                      "<polyline class=\"b\" fill=\"none\" stroke-dasharray=\"5 4\" points=\"");
    for (size_t size = 0; size < study->options.size_count; size++)
        kvt_buffer_printf(out, "%.1f,%.1f ", x_of(study, size),
                          y_of(study, best_percent(study, size)));
    kvt_buffer_printf(out, "\"/>\n<text x=\"%d\" y=\"%d\">best (dashed)</text>\n",
                      WIDTH - RIGHT + 12, TOP);
    for (size_t i = 0; i < count; i++) {
        const char *colour = colours[i % (sizeof(colours) / sizeof(colours[0]))];
        const int y = TOP + 20 * (int)(i + 1);

        kvt_buffer_printf(out,
                          "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"%s\" points=\"",
                          colour, i == study->pick_ordering ? "3" : "1.5");
        for (size_t size = 0; size < study->options.size_count; size++)
            kvt_buffer_printf(out, "%.1f,%.1f ", x_of(study, size),
                              y_of(study, cli_study_hits(study, i, size)));
        kvt_buffer_printf(out,
                          "\"/>\n<rect x=\"%d\" y=\"%d\" width=\"10\" height=\"10\" fill=\"%s\"/>"
                          "<text x=\"%d\" y=\"%d\">%s</text>\n",
                          WIDTH - RIGHT + 12, y - 9, colour, WIDTH - RIGHT + 28, y,
                          study->options.orderings[i]->name);
    }
}

static void
draw(struct kvt_buffer *out, const struct cli_study *study)
{
    kvt_buffer_printf(out,
                      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" "
                      "role=\"img\" aria-label=\"prefix hits over sizes of the hot tier\">"
                      "<style>%s</style>\n",
                      WIDTH, HEIGHT, style);
    draw_axes(out, study);
    draw_lines(out, study);
    kvt_buffer_printf(out, "</svg>\n");
}

static void
write_table(struct kvt_buffer *out, const struct cli_study *study)
{
    kvt_buffer_printf(out, "<table><tr><th>Size<th>Best");
    for (size_t i = 0; i < study->options.ordering_count; i++)
        kvt_buffer_printf(out, "<th>%s", study->options.orderings[i]->name);
    for (size_t size = 0; size < study->options.size_count; size++) {
        char text[KVT_SIZE_TEXT_MAX];

        kvt_size_format(study->options.sizes[size] * study->options.block_bytes, text);
        kvt_buffer_printf(out, "\n<tr><td>%s<td>%.1f%%<br>%.2f", text, best_percent(study, size),
                          study->best_cost[size]);
        for (size_t i = 0; i < study->options.ordering_count; i++)
            kvt_buffer_printf(
                out, "<td%s>%.1f%%<br>%.2f",
                i == study->pick_ordering && size == study->pick_size ? " class=\"pick\"" : "",
                cli_study_hits(study, i, size), study->cells[i][size].read_cost);
    }
    kvt_buffer_printf(out, "\n</table>\n");
}

static void
write_page(struct kvt_buffer *out, const struct cli_study *study)
{
    char reason[CLI_SIMULATE_REASON_MAX];

    cli_simulate_reason(study, reason);
    kvt_buffer_printf(
        out,
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\">"
        "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">"
        "<title>kvtier policy simulate</title><style>:root{color-scheme:light dark}"
        "body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}"
        "svg{width:100%%;height:auto}div{overflow-x:auto}table{border-collapse:collapse;"
        "font-size:13px}td,th{padding:.3rem .6rem;text-align:right;"
        "border-bottom:1px solid #8884}.pick{outline:2px solid #3b7dd8}</style>\n"
        "<h1>What a hot tier would do</h1><p>%" PRIu64 " requests over %.1f s read %" PRIu64
        " blocks, %" PRIu64 " different ones; an endless tier would hit %.1f%%.</p>\n"
        "<p><b>Pick:</b> %s.</p>\n",
        study->requests, (double)study->span_ms / 1000, study->reads, study->blocks, top_of(study),
        reason);
    draw(out, study);
    kvt_buffer_printf(out,
                      "<p>In each cell: prefix hits in percent of reads, and the cost of a read in "
                      "hot reads (cold read %g, move %g, promotion %s).</p><div>\n",
                      study->options.ordering_options.prices.cold_read,
                      study->options.ordering_options.prices.move,
                      policy_promotion_text(study->options.promotion));
    write_table(out, study);
    kvt_buffer_printf(out, "</div></html>\n");
}

static bool
ends_in(const char *path, const char *suffix)
{
    const size_t size = strlen(path);
    const size_t tail = strlen(suffix);

    return size > tail && strcmp(path + size - tail, suffix) == 0;
}

enum kvt_err
cli_simulate_report(const struct cli_study *study, const char *path, struct kvt_error *err)
{
    struct kvt_buffer out;
    enum kvt_err rc;

    kvt_buffer_init(&out, REPORT_MAX);
    if (ends_in(path, ".svg"))
        draw(&out, study);
    else if (ends_in(path, ".html"))
        write_page(&out, study);
    else
        return kvt_error_set(err, KVT_INVALID, "--report: %s ends neither in .html nor in .svg",
                             path);
    if (kvt_buffer_ok(&out))
        rc = kvt_file_write(path, out.data, out.size, 0644, err);
    else
        rc = kvt_error_set(err, KVT_NOMEM, "report: out of memory");
    kvt_buffer_release(&out);
    return rc;
}
