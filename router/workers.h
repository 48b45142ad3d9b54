/*
 * router/workers.h -- who may be given requests.
 *
 * Why: a worker is known because it was configured, because it sends events, or because it is in a
 * discovery bucket; it is one worker whoever names it.  One that leaves must be out of the next
 * decision, whatever still runs there.
 *
 * A worker is there while at least one origin says so, but: an origin that said that it is gone
 * (router_workers_gone()) ends it for all origins that saw it before; the next sight of it by any
 * origin brings it back as a new life.  A configured worker is there always.  Each (name, dp rank)
 * has a slot: a small number that stays while it is there and is reused behind it with another
 * `life`, so that arrays can be indexed by it.
 *
 * Ownership: the set owns its rows; names are copied.
 * Threads:   any; one leaf lock.  Callers that read many rows take a view.
 * Limits:    ROUTER_WORKERS_MAX rows; more is KVT_FULL.
 */
#ifndef ROUTER_WORKERS_H
#define ROUTER_WORKERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kvtier/block.h"
#include "kvtier/error.h"

#include "router/cost.h"

enum router_origin {
    ROUTER_ORIGIN_CONFIG, /* named by the operator */
    ROUTER_ORIGIN_EVENTS, /* it publishes what it holds */
    ROUTER_ORIGIN_BUCKET, /* it has a key in the discovery bucket */
    ROUTER_ORIGINS
};

struct router_worker {
    char name[KVT_NAME_MAX];
    uint32_t dp_rank;
};

struct router_workers;

KVT_NODISCARD enum kvt_err router_workers_new(struct router_workers **out);
void router_workers_free(struct router_workers *workers);

/** `origin` sees the worker.  KVT_OK (also when it was known), KVT_FULL, KVT_NOMEM. */
KVT_NODISCARD enum kvt_err router_workers_seen(struct router_workers *workers,
                                               const struct router_worker *worker,
                                               enum router_origin origin);
/** `origin` says that the worker is gone: it leaves at once (see above).  Unknown: nothing. */
void router_workers_gone(struct router_workers *workers, const struct router_worker *worker,
                         enum router_origin origin);
/** All ranks of it. */
void router_workers_gone_name(struct router_workers *workers, const char *name,
                              enum router_origin origin);
/** An origin starts over: whoever is not seen again by router_workers_settle() was lost meanwhile
 *  and is gone. */
void router_workers_begin(struct router_workers *workers, enum router_origin origin);
void router_workers_settle(struct router_workers *workers, enum router_origin origin);

/* A row of a view. */
struct router_worker_row {
    struct router_worker worker;
    uint32_t slot;
    uint32_t life;    /* grows when the slot is given again */
    uint32_t origins; /* bits 1 << enum router_origin */
};

/** Grows with every change of who is there. */
uint64_t router_workers_version(const struct router_workers *workers);
/** Copy out who is there, by (name, dp rank); at most `capacity`; `*count` is how many there are.
 *  `version` (may be NULL) is that of the copy. */
void router_workers_view(struct router_workers *workers, struct router_worker_row *rows,
                         size_t capacity, size_t *count, uint64_t *version);
/** The slot of a worker that is there; KVT_NOTFOUND. */
KVT_NODISCARD enum kvt_err router_workers_slot(struct router_workers *workers,
                                               const struct router_worker *worker, uint32_t *slot,
                                               uint32_t *life);

#endif /* ROUTER_WORKERS_H */
