/*
 * base/core/log_limiter.h -- how often one kind of log line may be written.
 *
 * Why: a loop that fails writes its line as fast as it fails; the disk and the reader must not pay
 * for it, yet the count must not be lost.  Time is an argument, so the tests need no clock.
 * Ownership: the caller owns the struct; keys must be string literals, they are kept by pointer.
 * Threads:   none; the log's lock guards its one.
 * Limits:    KVT_LOG_LIMITER_ROWS kinds; the kinds beyond share the last row.
 */
#ifndef BASE_CORE_LOG_LIMITER_H
#define BASE_CORE_LOG_LIMITER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KVT_LOG_LIMITER_ROWS 256

struct kvt_log_limiter_row {
    const char *area; /* NULL: free */
    const char *event;
    uint64_t start_ms; /* of the current window */
    uint32_t passed;
    uint64_t held; /* lines not written in this window */
};

struct kvt_log_limiter {
    uint32_t passes; /* lines in one window */
    uint64_t window_ms;
    struct kvt_log_limiter_row rows[KVT_LOG_LIMITER_ROWS];
};

/** May this line be written?  `held_before` gets the count kept back in a window that is now over.
 */
bool kvt_log_limiter_pass(struct kvt_log_limiter *limiter, const char *area, const char *event,
                          uint64_t now_ms, uint64_t *held_before);

/** One finished window that kept lines back, or false; its count is then taken off.  `all`: also
 *  windows that still run. */
bool kvt_log_limiter_sum(struct kvt_log_limiter *limiter, uint64_t now_ms, bool all,
                         struct kvt_log_limiter_row *sum);

#endif /* BASE_CORE_LOG_LIMITER_H */
