#include "cli/frame/options.h"
#include "cli/ops/ops_commands.h"

enum cli_exit
cli_config_show(const struct cli_context *context)
{
    kvt_config_print_show(context->settings, context->out,
                          kvt_config_bool(context->options, CLI_CONFIG_ORIGIN), context->json);
    return CLI_EXIT_DONE;
}

enum cli_exit
cli_config_example(const struct cli_context *context)
{
    kvt_config_print_example(context->settings, context->raw);
    return CLI_EXIT_DONE;
}
