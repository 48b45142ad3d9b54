/*
 * cli/ops/cmd_config.h -- `kvtier config ...`: this program's own settings.
 *
 * Why: a person must see which value won and where it came from.
 * Threads:   the main thread.
 */
#ifndef CLI_OPS_CMD_CONFIG_H
#define CLI_OPS_CMD_CONFIG_H

#include "cli/frame/context.h"

enum cli_exit cli_config_show(const struct cli_context *context);
enum cli_exit cli_config_example(const struct cli_context *context);

#endif /* CLI_OPS_CMD_CONFIG_H */
