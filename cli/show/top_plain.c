#include "cli/show/cmd_top.h"

/* Built without ncurses (KVT_TOP=OFF). */
enum cli_exit
cli_top_screen(const struct cli_context *context, uint64_t every_ms)
{
    (void)every_ms;
    return cli_context_usage(context, "this kvtier was built without ncurses: use --once");
}
