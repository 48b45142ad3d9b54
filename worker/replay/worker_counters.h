/*
 * worker/replay/worker_counters.h -- what one logical worker has done.
 *
 * Why: the status page, the metrics and the final report show the same numbers; they are counted
 * once, here.  What manager, pools and publisher count themselves is not repeated.
 * Ownership: part of its worker.
 * Threads:   any; every member is atomic, and none orders another.
 */
#ifndef WORKER_REPLAY_WORKER_COUNTERS_H
#define WORKER_REPLAY_WORKER_COUNTERS_H

#include <stdatomic.h>
#include <stdint.h>

/* X(member): a count that only grows. */
#define WORKER_COUNTERS(X)                                                                         \
    X(requests)                                                                                    \
    X(blocks)  /* blocks of those requests */                                                      \
    X(hits_g1) /* blocks of the longest prefix, by the tier they were taken from */                \
    X(hits_g2)                                                                                     \
    X(hits_g3)                                                                                     \
    X(hits_g4)                                                                                     \
    X(computed)                                                                                    \
    X(wrong_bytes)                                                                                 \
    X(wrong_blocks)                                                                                \
    X(verified_blocks)                                                                             \
    X(verified_bytes)                                                                              \
    X(bytes_g3_g2)                                                                                 \
    X(bytes_g4_g2)                                                                                 \
    X(lost_hits)  /* planned as a hit, gone, unreadable or wrong when it was to be read */         \
    X(dearer)     /* there, but sooner computed */                                                 \
    X(late)       /* there, but not in time */                                                     \
    X(unplaced)   /* blocks a tier had no room for just then */                                    \
    X(g4_asked)   /* keys asked for */                                                             \
    X(g4_failed)  /* questions to the gateway that were not answered */                            \
    X(index_full) /* blocks the local index had no room for */

struct worker_counters {
#define X(member) _Atomic uint64_t member;
    WORKER_COUNTERS(X)
#undef X
};

static inline void
worker_counter_add(_Atomic uint64_t *counter, uint64_t by)
{
    atomic_fetch_add_explicit(counter, by, memory_order_relaxed);
}

static inline uint64_t
worker_counter_read(const _Atomic uint64_t *counter)
{
    return atomic_load_explicit(counter, memory_order_relaxed);
}

#endif /* WORKER_REPLAY_WORKER_COUNTERS_H */
