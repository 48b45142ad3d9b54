/*
 * kvbm/attach/attach_service_internal.h -- what the files of the service share.
 *
 * Why: what an engine holds (attach_service.c), what it asks for (attach_service_requests.c) and
 * how bytes move (attach_service_move.c) are three things on one state.
 * Ownership: the service owns its arrays.
 * Threads:   one.
 * Limits:    as kvbm/attach/attach_service.h.
 */
#ifndef KVBM_ATTACH_ATTACH_SERVICE_INTERNAL_H
#define KVBM_ATTACH_ATTACH_SERVICE_INTERNAL_H

#include "kvbm/attach/attach_service.h"

/* What the engine holds of one block. */
struct kvbm_attach_service_hold {
    uint32_t generation;
    uint32_t shares;
    bool unique;
};

/* Blocks to have in G1 before they are asked for. */
struct kvbm_attach_service_wish {
    uint32_t count;
    uint32_t at; /* those before it were brought */
    struct kvbm_label labels[KVBM_ATTACH_REQUEST_MAX];
};

struct kvbm_attach_service {
    const struct kvbm_attach_service_below *below;
    struct kvbm_storage *memory;
    const atomic_bool *stop;
    void (*watch)(void *arg, struct kvbm_pool *pool);
    void *arg;
    struct kvbm_pool *pool;
    struct kvbm_attach_service_hold *holds; /* one a block */
    uint32_t chunk;
    struct {
        struct kvt_handle *handles; /* a ring, each held */
        uint32_t capacity;
        uint32_t head;
        uint32_t count;
        uint32_t due; /* the first so many need not wait for a step */
    } lower;
    struct {
        struct kvbm_attach_service_wish *rows; /* a ring */
        uint32_t head;
        uint32_t count;
    } wishes;
    struct kvbm_label *labels; /* of the request that is served */
    uint64_t counts[KVBM_ATTACH_STATS_COUNT];
};

/** Enter into the books that the engine holds the block too; false: more often than it may. */
bool kvbm_attach_service_give_shared(struct kvbm_attach_service *service, struct kvt_handle handle);
void kvbm_attach_service_give_unique(struct kvbm_attach_service *service, struct kvt_handle handle);

/** Does the engine hold the block alone? */
bool kvbm_attach_service_holds_unique(const struct kvbm_attach_service *service,
                                      struct kvt_handle handle);

/** Strike the engine's unique hold out; the handle is the caller's now. */
void kvbm_attach_service_take_unique(struct kvbm_attach_service *service, struct kvt_handle handle);

/** End one hold of the engine's, of either kind; false: it has none. */
bool kvbm_attach_service_drop(struct kvbm_attach_service *service, struct kvt_handle handle);

/** Queue a held registered block for its way down; the service holds it too.  A full queue is
 *  shortened first. */
void kvbm_attach_service_lower_later(struct kvbm_attach_service *service, struct kvt_handle handle);

/** Move the first blocks of the queue down, at most one chunk; false: it is empty. */
bool kvbm_attach_service_lower(struct kvbm_attach_service *service);

/**
 * Hold the longest prefix of `labels` in G1, bringing blocks up from any tier, chunk by chunk.
 *
 * @param[out] handles  `count` of them; the first *held are held by the caller
 * @param until_ms      monotonic; no chunk begins after it
 * @return KVT_OK, or why no more: KVT_AGAIN (no room), KVT_TIMEOUT, KVT_NOTFOUND (no tier has
 *         the next block), KVT_CANCELLED (told to stop)
 */
enum kvt_err kvbm_attach_service_raise(struct kvbm_attach_service *service,
                                       const struct kvbm_label *labels, size_t count,
                                       uint64_t until_ms, struct kvt_handle *handles, size_t *held);

/** Take `count` blocks of the engine's, making room by what waits.  KVT_OK or KVT_AGAIN. */
KVT_NODISCARD enum kvt_err kvbm_attach_service_allocate(struct kvbm_attach_service *service,
                                                        size_t count, struct kvt_handle *handles);

static inline bool
kvbm_attach_service_stopped(const struct kvbm_attach_service *service)
{
    return service->stop != NULL && atomic_load_explicit(service->stop, memory_order_relaxed);
}

#endif /* KVBM_ATTACH_ATTACH_SERVICE_INTERNAL_H */
