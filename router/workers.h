/*
 * router/workers.h -- who may be given requests.
 *
 * Why: a worker is known because it was configured, because it sends events, or because it is in a
 * discovery bucket; it is one worker whoever names it.  One that leaves must be out of the next
 * decision, whatever still runs there.
 *
 * A worker is there while at least one origin says so.  An origin that says that it is gone ends it
 * for all of them: whoever knows of an end knows more than those who have not looked yet.  It comes
 * back, as a new life, with the next sight of it by any origin.  A sight is news (a key that was
 * written, a publisher that began or spoke again); what was known before is none.  An origin that
 * only lost its memory takes back its word and no more (router_workers_forgotten()): the worker
 * stays while another has seen it.
 *
 * A configured worker is there although nobody ever saw it.  Once it was gone it is like any other
 * until it is seen again: its configuration says that it may be chosen, not that it lives.
 *
 * Each (name, dp rank) has a slot: a small number that stays while it is there and is reused behind
 * it with another `life`, so that arrays can be indexed by it.  A worker that left and came back
 * has another life, whatever its slot.
 *
 * Ownership: the set owns its rows; names are copied.
 * Threads:   any; one leaf lock.  Callers that read many rows take a view.
 * Limits:    ROUTER_WORKERS_MAX rows, those configured that are gone included; more is KVT_FULL.
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

/** `origin` has news of the worker: it is there.  KVT_OK (also when it was known), KVT_INVALID (a
 *  name that is empty or has no end), KVT_FULL, KVT_NOMEM. */
KVT_NODISCARD enum kvt_err router_workers_seen(struct router_workers *workers,
                                               const struct router_worker *worker,
                                               enum router_origin origin);
/** An origin says that the worker is gone: it leaves at once, whatever others said (see above).
 *  Unknown: nothing. */
void router_workers_gone(struct router_workers *workers, const struct router_worker *worker);
/** All ranks of it, whoever named them. */
void router_workers_gone_name(struct router_workers *workers, const char *name);
/** `origin` does not say any more that the worker is there, nor that it is gone: it leaves if
 *  nobody else says so.  Unknown: nothing. */
void router_workers_forgotten(struct router_workers *workers, const struct router_worker *worker,
                              enum router_origin origin);

/* A row of a view. */
struct router_worker_row {
    struct router_worker worker;
    uint32_t slot;
    uint32_t life;    /* grows when the slot is given again; at least 1 */
    uint32_t origins; /* bits 1 << enum router_origin */
};

/** Grows with every change of a view. */
uint64_t router_workers_version(const struct router_workers *workers);
/** Copy out who is there, by (name, dp rank); at most `capacity`; `*count` is how many there are.
 *  `version` (may be NULL) is that of the copy. */
void router_workers_view(struct router_workers *workers, struct router_worker_row *rows,
                         size_t capacity, size_t *count, uint64_t *version);

/** Who of the view `before` is not in the view `after` with the same slot and life: has left, or
 *  left and came back.  In the order of `before`. */
typedef void router_workers_left_fn(void *arg, const struct router_worker_row *row);
void router_workers_left(const struct router_worker_row *before, size_t before_count,
                         const struct router_worker_row *after, size_t after_count,
                         router_workers_left_fn *callback, void *arg);

#endif /* ROUTER_WORKERS_H */
