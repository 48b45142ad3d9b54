/*
 * base/core/log.h -- one line per thing a person should know.
 *
 * Why: whoever *decides* (retries, gives up, drops, starts, stops) logs it once; libraries that
 * only pass an error on do not.  A line is text (logfmt) or JSON, one write() each, on stderr.
 *
 * Ownership: the sink is process-wide and set up once by base/config/program.h; that is the only
 *            global here.
 * Threads:   any.  One leaf lock around the repeat table.
 * Limits:    a line is cut at KVT_LOG_LINE_MAX; the same (area, event) is written at most
 *            KVT_LOG_REPEAT_MAX times in KVT_LOG_REPEAT_MS, then counted and summed up in one line.
 */
#ifndef BASE_CORE_LOG_H
#define BASE_CORE_LOG_H

#include <stdbool.h>
#include <stdint.h>

#include "kvtier/error.h"

#define KVT_LOG_LINE_MAX   1024
#define KVT_LOG_REPEAT_MAX 5
#define KVT_LOG_REPEAT_MS  10000

enum kvt_log_level { KVT_LOG_DEBUG, KVT_LOG_INFO, KVT_LOG_WARN, KVT_LOG_ERROR };
enum kvt_log_format { KVT_LOG_TEXT, KVT_LOG_JSON };

/** Call once, before threads start.  `program` is copied. */
void kvt_log_setup(const char *program, enum kvt_log_level least, enum kvt_log_format format);

/**
 * Write one line: level, `area` ("gateway.orders"), a stable `event` key ("order_refused") and the
 * message.  Both keys must be string literals: they bound the repeat table.
 */
void kvt_log(enum kvt_log_level level, const char *area, const char *event, const char *format, ...)
    KVT_PRINTF(4, 5);

/** Write the sums of windows that are over (`all`: of every window).  kvt_program_wait() calls it,
 * so that a storm that just stops is summed up too. */
void kvt_log_flush(bool all);

#define kvt_log_debug(area, event, ...) kvt_log(KVT_LOG_DEBUG, area, event, __VA_ARGS__)
#define kvt_log_info(area, event, ...)  kvt_log(KVT_LOG_INFO, area, event, __VA_ARGS__)
#define kvt_log_warn(area, event, ...)  kvt_log(KVT_LOG_WARN, area, event, __VA_ARGS__)
#define kvt_log_error(area, event, ...) kvt_log(KVT_LOG_ERROR, area, event, __VA_ARGS__)

#endif /* BASE_CORE_LOG_H */
