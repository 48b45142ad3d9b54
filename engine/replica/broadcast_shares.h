/*
 * engine/replica/broadcast_shares.h -- what each rank does of a broadcast, all at once.
 *
 * Why: broadcasts between workers do the same in steps: every rank has a job of its own, and the
 * next step begins when the last of them has ended.
 *
 * Ownership: workers are borrowed.
 * Threads:   the broadcast's thread; jobs end on any.
 * Limits:    ENGINE_BROADCAST_STEP items a rank.
 */
#ifndef ENGINE_REPLICA_BROADCAST_SHARES_H
#define ENGINE_REPLICA_BROADCAST_SHARES_H

#include "engine/replica/broadcast_internal.h"

struct engine_shares;

/* What one rank does of a step. */
struct engine_share {
    struct engine_shares *owner;
    struct engine_worker *worker;
    struct engine_job job;
    struct engine_item items[ENGINE_BROADCAST_STEP];
    size_t places[ENGINE_BROADCAST_STEP]; /* of each in the cast's job */
    size_t count;
    enum kvt_err to_first; /* KVT_OK: it knows rank 0 */
};

struct engine_shares {
    struct {
        pthread_mutex_t lock; /* guards this struct; a leaf */
        pthread_cond_t ended;
        uint32_t running;
    } shared;
    uint32_t count;
    struct engine_share of[]; /* each rank */
};

/** Nobody knows rank 0.  KVT_OK or KVT_NOMEM. */
KVT_NODISCARD enum kvt_err engine_shares_make(struct engine_shares **out,
                                              struct engine_worker *const *ranks, uint32_t count,
                                              struct kvt_error *err);
/** NULL is allowed. */
void engine_shares_free(struct engine_shares *shares);

/** Ranks [from, to) do `what` to their items; back when the last has ended. */
void engine_shares_do(struct engine_shares *shares, const struct engine_broadcast_job *task,
                      const struct engine_job *what, uint32_t from, uint32_t to);

/** What failed at a rank goes no further, and is told.  KVT_OK, or how the first that failed did.
 */
enum kvt_err engine_shares_drop_failed(struct engine_shares *shares,
                                       struct engine_broadcast_job *task, uint32_t rank);

/** All ranks but the first know it. */
bool engine_shares_know_first(const struct engine_shares *shares);

/** Let a rank know rank 0 under `peer`, by these bytes: `to_first` is how that went. */
void engine_share_connect(struct engine_share *share, const struct engine_broadcast_job *task,
                          uint64_t peer, const struct kvt_buffer *first, struct kvt_error *err);

/** Let those who know it under `peer` do so no longer. */
void engine_shares_disconnect(struct engine_shares *shares, uint64_t peer);

#endif /* ENGINE_REPLICA_BROADCAST_SHARES_H */
