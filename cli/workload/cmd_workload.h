/*
 * cli/workload/cmd_workload.h -- `kvtier workload ...`: make and measure traces.
 *
 * Why: a test or a comparison is only as good as the traffic it was made with.
 * Threads:   the main thread.
 * Limits:    stats keeps 32 bytes for each different block.
 */
#ifndef CLI_WORKLOAD_CMD_WORKLOAD_H
#define CLI_WORKLOAD_CMD_WORKLOAD_H

#include "cli/frame/context.h"
#include "cli/workload/generator.h"

/** What `workload generate` makes without flags. */
KVT_NODISCARD enum kvt_err cli_workload_usual(struct cli_generator_options *options,
                                              struct kvt_error *err);

enum cli_exit cli_workload_generate(const struct cli_context *context);
enum cli_exit cli_workload_stats(const struct cli_context *context);

#endif /* CLI_WORKLOAD_CMD_WORKLOAD_H */
