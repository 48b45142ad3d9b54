/*
 * kvbm/attach/attach_service.h -- what one attached engine may ask for, and what it holds.
 *
 * Why: an engine in another process is served from its own G1 pool, whose blocks lie in memory it
 * passed, and from the tiers below, which it shares with everybody.  It can send anything: a handle
 * counts only if the service gave it out, a number only if it is within its limits, and of what it
 * asks for nothing reaches a pool unchecked.
 *
 *   serve   one request to its end, with its answer
 *   work    one piece of what may wait: blocks on their way down, blocks wished for
 *
 * A registered block goes down after the next step, or sooner when room is needed; until then the
 * service holds it beside the engine.  Blocks come up through G2, named as the tier they come from
 * names them.  The service moves bytes between the engine's memory and G2; the worker's offload
 * manager moves what goes further down or comes from there.
 *
 * Ownership: a service owns its pool; memory and tiers below are borrowed.
 *            kvbm_attach_service_free() gives back what the engine and the service still hold, and
 *            takes back every name.
 * Threads:   one.  The tiers below are thread-safe.
 * Limits:    KVBM_ATTACH_REQUEST_MAX blocks a request, KVBM_ATTACH_SERVICE_WAITING blocks on their
 *            way down (and a quarter of the engine's), KVBM_ATTACH_SERVICE_WISHES prefetches,
 *            KVBM_ATTACH_SERVICE_SHARES holds of one block, KVBM_ATTACH_SERVICE_CHUNK blocks moved
 *            at once.
 */
#ifndef KVBM_ATTACH_ATTACH_SERVICE_H
#define KVBM_ATTACH_ATTACH_SERVICE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kvbm/attach/attach_protocol.h"
#include "kvbm/offload/manager.h"
#include "kvbm/pool/block_pool.h"
#include "kvbm/storage/tier_storage.h"
#include "kvbm/transfer/transfer_manager.h"

#define KVBM_ATTACH_SERVICE_WAITING 256
#define KVBM_ATTACH_SERVICE_WISHES  4
#define KVBM_ATTACH_SERVICE_SHARES  (UINT32_C(1) << 20)
#define KVBM_ATTACH_SERVICE_CHUNK   32

/** Which of the blocks does the object tier have?  No answer is false. */
typedef bool kvbm_attach_service_has_fn(void *arg, const struct kvt_block_id *ids, size_t count,
                                        bool *present);

/* The tiers that all engines of a worker share, and the order that their own pools have, too. */
struct kvbm_attach_service_below {
    struct kvbm_tier g2;
    struct kvbm_tier g3; /* no pool: not there */
    enum kvt_pool_order order;
    const struct kvt_ordering *ordering; /* KVT_POOL_ORDER_ORDERING; outlives every service */
    struct kvt_ordering_options ordering_options;
    struct kvbm_transfer *transfer;
    struct kvbm_manager *manager; /* of G2 and what is below it */
    uint64_t room_wait_ms;
    kvbm_attach_service_has_fn *has; /* NULL: no object tier */
    void *arg;
};

struct kvbm_attach_service_options {
    const struct kvbm_attach_service_below *below;
    struct kvbm_storage *memory; /* the engine's blocks, of the size of those below */
    const atomic_bool *stop;     /* set: what may end early ends; may be NULL */
    kvbm_pool_event_fn *on_store;
    kvbm_pool_event_fn *on_remove;
    /** The pool can be walked from now on, or, with NULL, no more; may be NULL. */
    void (*watch)(void *arg, struct kvbm_pool *pool);
    void *arg;
};

struct kvbm_attach_service;

/** KVT_OK; KVT_INVALID (blocks of another size) or KVT_NOMEM with *out NULL. */
KVT_NODISCARD enum kvt_err
kvbm_attach_service_new(struct kvbm_attach_service **out,
                        const struct kvbm_attach_service_options *options, struct kvt_error *err);

/** NULL is allowed. */
void kvbm_attach_service_free(struct kvbm_attach_service *service);

/**
 * Serve one request.
 *
 * @param request  private to the caller: it does not change meanwhile
 * @param size     bytes of it, at most sizeof(*request)
 * @param answer   the completion; one that was no good has KVT_INVALID or KVT_RANGE
 * @return bytes of the answer
 */
size_t kvbm_attach_service_serve(struct kvbm_attach_service *service,
                                 const struct kvbm_attach_message *request, size_t size,
                                 struct kvbm_attach_message *answer);

/** What it has counted, by KVBM_ATTACH_STAT_*; those of the pool are zero. */
const uint64_t *kvbm_attach_service_counts(const struct kvbm_attach_service *service);

/** Do one piece of what may wait; false: there is nothing. */
bool kvbm_attach_service_work(struct kvbm_attach_service *service);

#endif /* KVBM_ATTACH_ATTACH_SERVICE_H */
