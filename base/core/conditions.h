/*
 * base/core/conditions.h -- named states that a person should know of.
 *
 * Why: a message that was refused is a line of the log and soon lost; a condition stays visible in
 * the status, the doctor and the metrics until it has not happened for a while.
 * Ownership: the caller owns the set (init/release); names and texts are copied.
 * Limits:    KVT_CONDITIONS_MAX conditions; further ones are counted in the last of them.
 */
#ifndef BASE_CORE_CONDITIONS_H
#define BASE_CORE_CONDITIONS_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KVT_CONDITIONS_MAX     32
#define KVT_CONDITION_NAME_MAX 48
#define KVT_CONDITION_TEXT_MAX 256
#define KVT_CONDITION_QUIET_MS (60u * 60 * 1000) /* one that has not happened for so long is over */

struct kvt_condition {
    char name[KVT_CONDITION_NAME_MAX]; /* "reports-unsigned" */
    char text[KVT_CONDITION_TEXT_MAX]; /* one line, of the last time */
    uint64_t since_ms;                 /* Unix ms */
    uint64_t last_ms;
    uint64_t count; /* times since then */
    bool minor;     /* it may happen without a fault, and degrades nothing */
};

struct kvt_conditions {
    pthread_mutex_t lock; /* guards the members below */
    struct kvt_condition rows[KVT_CONDITIONS_MAX];
    size_t count;
};

void kvt_conditions_init(struct kvt_conditions *conditions);
void kvt_conditions_release(struct kvt_conditions *conditions);

/** It happened once more; with NULL it is not kept.  Control characters of the text become
 *  blanks. */
void kvt_conditions_raise(struct kvt_conditions *conditions, const char *name, uint64_t now_ms,
                          const char *format, ...) __attribute__((format(printf, 4, 5)));

/** The same of one that may happen without a fault. */
void kvt_conditions_note(struct kvt_conditions *conditions, const char *name, uint64_t now_ms,
                         const char *format, ...) __attribute__((format(printf, 4, 5)));

/** Copy those that are not over to `rows`, which has room for KVT_CONDITIONS_MAX. */
size_t kvt_conditions_list(struct kvt_conditions *conditions, uint64_t now_ms,
                           struct kvt_condition *rows);

/** How many are not over. */
size_t kvt_conditions_count(struct kvt_conditions *conditions, uint64_t now_ms);

#endif /* BASE_CORE_CONDITIONS_H */
