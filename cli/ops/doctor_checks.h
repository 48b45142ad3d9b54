/*
 * cli/ops/doctor_checks.h -- the lines of `kvtier doctor`.
 *
 * Why: every check says the same three things: how it went, what was seen, and what to do.
 * Ownership: the struct belongs to the caller; texts are copied.
 * Threads:   the main thread.
 * Limits:    CLI_DOCTOR_CHECKS_MAX lines of CLI_DOCTOR_CHECK_TEXT_MAX bytes; lines beyond are
 *            counted and not kept.
 */
#ifndef CLI_OPS_DOCTOR_CHECKS_H
#define CLI_OPS_DOCTOR_CHECKS_H

#include <stddef.h>
#include <stdio.h>

#include "kvtier/error.h"

#define CLI_DOCTOR_CHECKS_MAX     64
#define CLI_DOCTOR_CHECK_TEXT_MAX 320

enum cli_doctor_check_state { CLI_DOCTOR_CHECK_OK, CLI_DOCTOR_CHECK_WARN, CLI_DOCTOR_CHECK_FAIL };

struct cli_doctor_check {
    enum cli_doctor_check_state state;
    const char *name; /* a literal */
    const char *fix;  /* a literal; "" where there is nothing to do */
    char text[CLI_DOCTOR_CHECK_TEXT_MAX];
};

struct cli_doctor_checks {
    struct cli_doctor_check rows[CLI_DOCTOR_CHECKS_MAX];
    size_t count;
    size_t failed;
    size_t warned;
};

void cli_doctor_check_add(struct cli_doctor_checks *checks, enum cli_doctor_check_state state,
                          const char *name, const char *fix, const char *format, ...)
    KVT_PRINTF(5, 6);

void cli_doctor_check_print(const struct cli_doctor_checks *checks, FILE *out);
void cli_doctor_check_print_json(const struct cli_doctor_checks *checks, FILE *out);

#endif /* CLI_OPS_DOCTOR_CHECKS_H */
