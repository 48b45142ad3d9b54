/*
 * kvbm/offload/manager.h -- the offload manager: what moves between the tiers, and when.
 *
 * Why: what kvtier/offload.h says, in the words of this library; that header is a thin face of this
 * one.  One pass looks at what has arrived and begins what should, and waits for nothing: it is an
 * engine's step, or what a thread of the manager's does over and over.
 *
 * Ownership: pools, storages, volumes, transfer manager and cost are borrowed and outlive it.
 * Threads:   kvbm_manager_step() and kvbm_manager_free() are one thread's, the rest is any's.
 * Limits:    those of kvtier/offload.h.
 */
#ifndef KVBM_OFFLOAD_MANAGER_H
#define KVBM_OFFLOAD_MANAGER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kvbm/offload/tier_cost.h"
#include "kvbm/pool/block_pool.h"
#include "kvbm/storage/tier_storage.h"
#include "kvbm/transfer/transfer_manager.h"
#include "kvbm/volume/volume_set.h"
#include "kvtier/offload.h"

struct kvbm_manager;
struct kvbm_onboard;

typedef bool kvbm_manager_filter_fn(void *arg, enum kvt_tier from, const struct kvbm_label *label,
                                    uint32_t priority);

/** `count` blocks of a batch could not be read from `tier`, or were refused by who asked, and are
 *  dropped there; `hash` is the first of them.  On the thread that moved them: it must not call the
 *  manager. */
typedef void kvbm_manager_lost_fn(void *arg, enum kvt_tier tier, uint64_t hash, size_t count);

/* Which block is what, and the memory.  A tier that is not there has no pool. */
struct kvbm_tier {
    struct kvbm_pool *pool;
    struct kvbm_storage *storage;
};

/* A tier that is a pool; one that is not there has none.  What the numbers mean is said with
 * struct kvt_offload_tier; here none has a default. */
struct kvbm_manager_tier {
    struct kvbm_pool *pool;
    struct kvbm_storage *storage;
    uint32_t high_ppm;
    uint32_t low_ppm;
    bool evicts; /* what is in it is pushed: who needs room here evicts at once */
    uint32_t idle_iterations;
    uint32_t min_priority;
    uint32_t position_from;
    uint32_t position_to;
    kvbm_manager_filter_fn *filter;
    void *filter_arg;
};

struct kvbm_manager_options {
    struct kvbm_manager_tier tiers[KVT_TIER_G4]; /* by enum kvt_tier, G1 to G3 */
    struct kvbm_volumes *volumes;                /* NULL: no G4 */
    uint64_t volume;
    uint64_t
        volume_up; /* asked for what comes up, so that nothing waits behind a put; 0: `volume` */
    struct kvbm_transfer *transfer;
    struct kvbm_cost *cost; /* NULL: whatever is there is taken */
    size_t queue_max;
    uint64_t room_wait_ms;
    uint64_t retry_ms;
    uint64_t iteration_ms;      /* 0: the caller steps */
    kvbm_manager_lost_fn *lost; /* may be NULL */
    void *lost_arg;
};

/** Are these the bytes of that block?  Asked of what has come to `to` in host memory, before it can
 *  be found there, on the thread that brought it; a block that is not is dropped where it came
 *  from, too, but for G4.  It may be asked after the onboard has ended: `arg` outlives the
 *  manager. */
typedef bool kvbm_onboard_check_fn(void *arg, enum kvt_tier from, enum kvt_tier to,
                                   const struct kvbm_label *label, const void *bytes, size_t size);

struct kvbm_onboard_request {
    const struct kvbm_label *labels; /* copied */
    size_t count;
    enum kvt_tier target; /* 0: the first tier */
    bool prefetch;
    uint64_t deadline_ms; /* from now; 0: none */
    kvt_onboard_done_fn *done;
    void *arg;
    kvbm_onboard_check_fn *check; /* may be NULL */
    void *check_arg;
};

/** KVT_OK, KVT_INVALID or KVT_NOMEM; *out is NULL unless OK. */
KVT_NODISCARD enum kvt_err kvbm_manager_new(struct kvbm_manager **out,
                                            const struct kvbm_manager_options *options,
                                            struct kvt_error *err);
void kvbm_manager_free(struct kvbm_manager *manager);

void kvbm_manager_step(struct kvbm_manager *manager);

/** Takes a hold of its own. */
KVT_NODISCARD enum kvt_err kvbm_manager_push(struct kvbm_manager *manager, struct kvt_handle handle,
                                             uint64_t wait_ms);

void kvbm_manager_make_room(struct kvbm_manager *manager, enum kvt_tier tier, uint32_t count,
                            uint64_t wait_ms);
bool kvbm_manager_drain(struct kvbm_manager *manager, uint64_t wait_ms);

/** `stats->size` is not looked at.  False: nothing leaves this tier. */
bool kvbm_manager_stats(struct kvbm_manager *manager, enum kvt_tier from,
                        struct kvt_offload_stats *stats);
void kvbm_manager_onboard_stats(struct kvbm_manager *manager, bool prefetch,
                                struct kvt_onboard_stats *stats);

/** As kvt_onboard_start() and the others. */
KVT_NODISCARD enum kvt_err kvbm_onboard_start(struct kvbm_onboard **out,
                                              struct kvbm_manager *manager,
                                              const struct kvbm_onboard_request *request,
                                              struct kvt_error *err);
KVT_NODISCARD enum kvt_err kvbm_onboard_wait(struct kvbm_onboard *onboard, uint64_t wait_ms,
                                             struct kvt_onboard_result *result);
size_t kvbm_onboard_take(struct kvbm_onboard *onboard, struct kvt_handle *handles);

/** Of one that is finished: the tier its block `at` was found in; `at` is below result.arrived. */
enum kvt_tier kvbm_onboard_origin(const struct kvbm_onboard *onboard, uint32_t at);
void kvbm_onboard_cancel(struct kvbm_onboard *onboard);
void kvbm_onboard_release(struct kvbm_onboard *onboard);

#endif /* KVBM_OFFLOAD_MANAGER_H */
