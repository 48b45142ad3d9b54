/*
 * base/config/program.h -- what every main() does before and after its own work.
 *
 * Why: four programs, one behaviour: --help, --version, --config FILE, `config show [--origin]
 * [-o json]`, `config example`, `config man`, settings from the table, log set-up, SIGTERM/SIGINT
 * drain, sd_notify.  A flag is `--admin-port 9471` or `--admin-port=9471`; a switch `--x` or
 * `--no-x`.
 *
 * Ownership: the description is static; the config belongs to kvt_program_main().
 * Threads:   kvt_program_wait() and _ready() from the main thread.  SIGTERM and SIGINT are blocked
 *            in every thread but one, which takes them and ends the process when it has not ended
 *            within stop.timeout, whatever the others do.
 *
 * Every table must start with the common rows (config/common.def): log.level, log.format,
 * stop.timeout.
 */
#ifndef BASE_CONFIG_PROGRAM_H
#define BASE_CONFIG_PROGRAM_H

#include <stdbool.h>
#include <stdint.h>

#include "base/config/config.h"
#include "kvtier/error.h"

struct kvt_program {
    const char
        *name; /* "kvtier-gateway"; the default file is /etc/kvtier/<name less "kvtier-">.yaml */
    const char *summary; /* one line */
    const char *usage;   /* text after the name in the usage line, or "" */
    const struct kvt_param *params;
    size_t param_count;
    /** The program itself: start, kvt_program_wait(), stop.  Non-OK exits 1 with `err` printed. */
    enum kvt_err (*run)(const struct kvt_config *config, struct kvt_error *err);
};

/** Exit status for main(): 0, 1 failed, 2 usage or settings (a restart would not help). */
int kvt_program_main(int argc, char **argv, const struct kvt_program *program);

/** This process is part of a program that another process speaks for: its log lines have `name`,
 *  and that it is told to stop is the other's to say.  Before threads start. */
void kvt_program_part(const char *name, const struct kvt_config *config);

/** Tell the service manager (no-op without one): ready, and a status line. */
void kvt_program_ready(const char *status);

/** Wait up to `wait_ms` for SIGTERM or SIGINT; true when one came (then and ever after).  A second
 *  signal while stopping ends the process at once.  Sends the watchdog's ping. */
bool kvt_program_wait(uint64_t wait_ms);

/** Common rows at the start of every table, in this order. */
enum { KVT_COMMON_LOG_LEVEL, KVT_COMMON_LOG_FORMAT, KVT_COMMON_STOP_TIMEOUT, KVT_COMMON_COUNT };

#endif /* BASE_CONFIG_PROGRAM_H */
