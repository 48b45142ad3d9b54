/*
 * policy/ordering/wait_counts.h -- since when how many blocks wait.
 *
 * Why: a life table counts those who still wait, at their ages, and there may be many millions.  So
 * they are counted by the tick they were used at, exactly for young ones and in ever longer spans
 * of ticks for older ones, a bounded number of spans for any history.
 *
 * Ownership: part of its owner; nothing to free.
 * Threads:   none; one owner.
 * Limits:    POLICY_WAIT_COUNTS_SLOTS spans; a span is about an eighth as long as it is old.
 */
#ifndef POLICY_ORDERING_WAIT_COUNTS_H
#define POLICY_ORDERING_WAIT_COUNTS_H

#include <stdint.h>

enum {
    POLICY_WAIT_COUNTS_KINDS = 14,
    POLICY_WAIT_COUNTS_LIKE = 9, /* spans of about the same length */
    POLICY_WAIT_COUNTS_SLOTS = 640,
};

struct policy_wait_counts_slot {
    uint64_t first; /* tick; the span ends where the next begins */
    uint32_t level; /* it was made of 2^level ticks */
    uint32_t waiting[POLICY_WAIT_COUNTS_KINDS];
};

struct policy_wait_counts {
    uint32_t count;
    struct policy_wait_counts_slot slots[POLICY_WAIT_COUNTS_SLOTS]; /* oldest first */
};

/** `count` blocks of `kind` were used at `tick`, which is not before any other. */
void policy_wait_counts_add(struct policy_wait_counts *waits, uint32_t kind, uint64_t tick,
                            uint32_t count);

/** One of those does not wait any more. */
void policy_wait_counts_remove(struct policy_wait_counts *waits, uint32_t kind, uint64_t tick);

/** How long those of a slot have waited, in the middle. */
uint64_t policy_wait_counts_age(const struct policy_wait_counts *waits, uint32_t slot,
                                uint64_t now);

#endif /* POLICY_ORDERING_WAIT_COUNTS_H */
