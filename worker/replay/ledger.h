/*
 * worker/replay/ledger.h -- what one logical worker holds: its local index, and telling the world.
 *
 * Why: a block that enters or leaves a tier must be in the local index and on the bus, in the same
 * order.  The pools call in as blocks come and go; requests are planned from the index; the
 * publisher answers "what do you hold?" from the pools themselves.
 *
 * An engine that attaches has a G1 of its own; it is told of under a data-parallel rank of its own,
 * the slot's number from 1 on, as long as the engine is there.
 *
 * Ownership: a ledger owns its index and its publisher; the bus and, once attached, the pools
 *            outlive the publisher, which worker_ledger_close() ends.
 * Limits:    the index has room for every block of the three tiers and of the engines.
 */
#ifndef WORKER_REPLAY_LEDGER_H
#define WORKER_REPLAY_LEDGER_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/core/buffer.h"
#include "index/index.h"
#include "kvbm/pool/block_pool.h"
#include "wire/publisher/event_publisher.h"

#include "worker/replay/worker_counters.h"
#include "worker/settings/pool_order.h"
#include "worker/settings/worker_settings.h"

#define WORKER_LEDGER_TIERS   3 /* G1, G2, G3 */
#define WORKER_LEDGER_ENGINES 16

struct worker_ledger;

/* What a pool's callbacks get. */
struct worker_ledger_tier {
    struct worker_ledger *ledger;
    struct kvbm_pool *pool; /* attached; NULL: a tier or an engine that is not there */
    enum kvt_tier tier;
    uint32_t dp_rank;
    uint32_t holder;
    uint16_t location;
    _Atomic bool published;
};

struct worker_ledger {
    const struct worker_settings *settings;
    struct worker_counters *counters;
    char worker[KVT_NAME_MAX];
    struct index *index;
    uint32_t ns;
    struct wire_event_publisher *publisher;
    struct worker_ledger_tier tiers[WORKER_LEDGER_TIERS];
    struct worker_ledger_tier engines[WORKER_LEDGER_ENGINES]; /* settings->attach_engines of them */
    pthread_mutex_t walking; /* guards their pools: no engine's goes while it is walked */
};

/** `bus` may be NULL: nothing is published. */
KVT_NODISCARD enum kvt_err worker_ledger_open(struct worker_ledger *ledger,
                                              const struct worker_settings *settings,
                                              const char *worker, struct worker_counters *counters,
                                              struct kvt_error *err);

/** Name the pools and begin to publish. */
KVT_NODISCARD enum kvt_err worker_ledger_attach(struct worker_ledger *ledger, struct wire_bus *bus,
                                                struct kvbm_pool *const pools[WORKER_LEDGER_TIERS],
                                                struct kvt_error *err);

/** The pool of a tier, which this ledger is told by. */
KVT_NODISCARD enum kvt_err worker_ledger_pool(struct kvbm_pool **out, struct worker_ledger *ledger,
                                              enum kvt_tier tier,
                                              const struct worker_pool_order *order,
                                              uint32_t blocks, struct kvt_error *err);

/** For kvbm_pool_options; `arg` is &ledger->tiers[...], or &ledger->engines[...]. */
void worker_ledger_on_store(void *arg, const struct kvbm_label *label);
void worker_ledger_on_remove(void *arg, const struct kvbm_label *label);

/** An engine's pool is there, and can be walked, or (NULL) no more; `arg` is
 *  &ledger->engines[...]. */
void worker_ledger_watch(void *arg, struct kvbm_pool *pool);

/** Tell the advisor that this worker leaves, and stop publishing.  Call while the pools still
 *  live. */
void worker_ledger_leave(struct worker_ledger *ledger);

/** Free the index.  A zero or half-opened ledger is allowed. */
void worker_ledger_close(struct worker_ledger *ledger);

/**
 * Append up to `max` rows of the local index from `cursor` (0 = start) on as JSON lines, as
 * `GET /v1/index/dump` gives them, and advance `cursor` (0 = that was the end).
 *
 * @return the number of rows
 */
size_t worker_ledger_dump(struct worker_ledger *ledger, uint64_t *cursor, size_t max,
                          struct kvt_buffer *out);

#endif /* WORKER_REPLAY_LEDGER_H */
