/*
 * cli/workload/simulate_print.h -- a study as tables, a chart, JSON, and a report.
 *
 * Why: the same figures are read by people in a terminal, by scripts, and by those who were sent
 * the report.
 * Threads:   the main thread.
 */
#ifndef CLI_WORKLOAD_SIMULATE_PRINT_H
#define CLI_WORKLOAD_SIMULATE_PRINT_H

#include <stdbool.h>
#include <stdio.h>

#include "cli/workload/study.h"

void cli_simulate_print(FILE *out, const struct cli_study *study, bool chart);
void cli_simulate_print_json(FILE *out, const struct cli_study *study);

/** Why it picks what it picks, in one or two sentences. */
#define CLI_SIMULATE_REASON_MAX 512
void cli_simulate_reason(const struct cli_study *study, char reason[CLI_SIMULATE_REASON_MAX]);

/** A page (".html") or a picture (".svg") that needs nothing else, in light and dark. */
KVT_NODISCARD enum kvt_err cli_simulate_report(const struct cli_study *study, const char *path,
                                               struct kvt_error *err);

#endif /* CLI_WORKLOAD_SIMULATE_PRINT_H */
