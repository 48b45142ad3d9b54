/*
 * cli/ops/cmd_doctor.h -- `kvtier doctor`: what is wrong, and what to do.
 *
 * Why: most reports of "it does not work" are a wrong address, key, clock or a full disk.
 * Threads:   the main thread.
 */
#ifndef CLI_OPS_CMD_DOCTOR_H
#define CLI_OPS_CMD_DOCTOR_H

#include "cli/frame/context.h"

enum cli_exit cli_doctor_run(const struct cli_context *context);

#endif /* CLI_OPS_CMD_DOCTOR_H */
