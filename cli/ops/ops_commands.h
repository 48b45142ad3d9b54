/*
 * cli/ops/ops_commands.h -- run functions of `kvtier dev`, `doctor`, `migrate`, `tenant`,
 * `config`, `context`, `key`.
 *
 * Why: the command table needs one function of each command.
 * Threads:   the main thread.
 */
#ifndef CLI_OPS_OPS_COMMANDS_H
#define CLI_OPS_OPS_COMMANDS_H

#include "cli/frame/context.h"

/** NATS, advisor and gateway as children of this process.  They end before it does.  One run per
 *  state folder, which a lock file holds. */
enum cli_exit cli_dev_run(const struct cli_context *context);

enum cli_exit cli_doctor_run(const struct cli_context *context);

/* Progress of jobs, and the switch that stops all orders. */
enum cli_exit cli_migrate_status(const struct cli_context *context);
enum cli_exit cli_migrate_pause(const struct cli_context *context);
enum cli_exit cli_migrate_resume(const struct cli_context *context);
enum cli_exit cli_migrate_cancel(const struct cli_context *context);

/* `purge` proves for each tier that nothing of the tenant is left. */
enum cli_exit cli_tenant_usage(const struct cli_context *context);
enum cli_exit cli_tenant_purge(const struct cli_context *context);

/* This program's own settings, with the origin of each value. */
enum cli_exit cli_config_show(const struct cli_context *context);
enum cli_exit cli_config_example(const struct cli_context *context);

/* Named sets of connection settings (cli/frame/contexts.h). */
enum cli_exit cli_context_command_add(const struct cli_context *context);
enum cli_exit cli_context_command_use(const struct cli_context *context);
enum cli_exit cli_context_command_ls(const struct cli_context *context);
enum cli_exit cli_context_command_rm(const struct cli_context *context);

/* Keys that messages are signed with (wire/message/key_ring.h). */
enum cli_exit cli_key_new(const struct cli_context *context);
enum cli_exit cli_key_derive(const struct cli_context *context);

#endif /* CLI_OPS_OPS_COMMANDS_H */
