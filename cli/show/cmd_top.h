/*
 * cli/show/cmd_top.h -- `kvtier top`: the advisor's overview, again and again, on a terminal.
 *
 * Why: who is logged in on a machine sees the same as who looks at the advisor's page, and neither
 * more nor less: both draw GET /v1/overview.
 *
 * What is shown is made as lines first (cli/show/top_lines.c), each with what kind of line it is; a
 * screen (cli/show/top_screen.c, ncurses) or a plain printer puts them out.
 *
 * Threads:   the main thread.
 * Limits:    CLI_TOP_TEXT_MAX bytes of lines.
 */
#ifndef CLI_SHOW_CMD_TOP_H
#define CLI_SHOW_CMD_TOP_H

#include <json-c/json.h>

#include "base/core/buffer.h"
#include "cli/frame/context.h"

#define CLI_TOP_TEXT_MAX (1u << 20)
#define CLI_TOP_WIDTH    100 /* of lines for no terminal */

/* The first character of a line, which is not shown. */
enum cli_top_line {
    CLI_TOP_PLAIN = ' ',
    CLI_TOP_HEAD = '=',
    CLI_TOP_GOOD = '+',
    CLI_TOP_BAD = '!',
};

/** Append the lines of an overview, each ended by a line feed; for `width` columns, with blocks of
 *  Unicode where `unicode`. */
void cli_top_lines(struct json_object *overview, size_t width, bool unicode,
                   struct kvt_buffer *out);

/** Draw until q is pressed or a signal comes.  CLI_EXIT_USAGE: it cannot be drawn here. */
enum cli_exit cli_top_screen(const struct cli_context *context, uint64_t every_ms);

#endif /* CLI_SHOW_CMD_TOP_H */
