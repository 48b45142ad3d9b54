/*
 * advisor/publisher/orphans.h -- stores whose parent is not known yet.
 *
 * Why: a block named by the chain over its tokens has no name without its parent's; a store that
 * overtook its parent's waits until that comes.  It is durable like what was applied: its number
 * is used up, and it will not come again.  It is found by its parent, and by each of its blocks:
 * removes of blocks nobody knows are common, and cost no more for all that waits.
 *
 * Ownership: the table owns copies of what waits; a taken orphan is the taker's.
 * Threads:   none; the engine's thread.
 * Limits:    ADVISOR_ORPHANS_EACH blocks of a publisher and ADVISOR_ORPHANS_BYTES in all; what is
 *            more is refused.
 */
#ifndef ADVISOR_PUBLISHER_ORPHANS_H
#define ADVISOR_PUBLISHER_ORPHANS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "advisor/store/foreign_rows.h"
#include "kvtier/error.h"
#include "wire/dialect/raw_batch.h"

#define ADVISOR_ORPHANS_EACH  16384
#define ADVISOR_ORPHANS_BYTES (64u << 20)

/* A block that waits, among those of its bucket. */
struct advisor_orphan_block {
    struct advisor_orphan_block *next;
    struct advisor_orphan_block **link; /* what points to it; NULL: it is in no bucket */
    struct advisor_orphan *orphan;
    uint32_t at; /* in its orphan */
};

/* A store of its own: `batch` has only what it needs, and `event` is its only event. */
struct advisor_orphan {
    struct advisor_orphan *next; /* in its bucket */
    struct advisor_orphan *newer;
    struct advisor_orphan *older;
    uint64_t serial;
    uint32_t publisher;
    bool stored; /* in the store */
    bool dirty;  /* differs from what is there */
    size_t bytes;
    size_t media_count;
    struct wire_raw_batch batch;
    struct wire_raw_event event;
    bool *left;                         /* for each block: it was removed while it waited */
    struct advisor_orphan_block *waits; /* for each block */
};

struct advisor_orphans;

KVT_NODISCARD enum kvt_err advisor_orphans_new(struct advisor_orphans **out);
void advisor_orphans_free(struct advisor_orphans *orphans);

KVT_NODISCARD enum kvt_err advisor_orphans_load(struct advisor_orphans *orphans,
                                                const struct advisor_txn *txn);
KVT_NODISCARD enum kvt_err advisor_orphans_save(struct advisor_orphans *orphans,
                                                const struct advisor_txn *txn);
void advisor_orphans_saved(struct advisor_orphans *orphans);
bool advisor_orphans_dirty(const struct advisor_orphans *orphans);

/** Let a STORE wait.  KVT_OK, KVT_FULL or KVT_NOMEM. */
KVT_NODISCARD enum kvt_err advisor_orphans_add(struct advisor_orphans *orphans, uint32_t publisher,
                                               const struct wire_raw_batch *batch,
                                               const struct wire_raw_event *event);

/** One that waits for this parent, or NULL. */
struct advisor_orphan *advisor_orphans_take(struct advisor_orphans *orphans, uint32_t publisher,
                                            uint64_t parent);
void advisor_orphan_free(struct advisor_orphan *orphan);

/** A block left a tier; true when it had waited. */
bool advisor_orphans_remove(struct advisor_orphans *orphans, uint32_t publisher, enum kvt_tier tier,
                            uint64_t hash);

/** Forget those of a publisher, of one tier or of all (WIRE_RAW_TIER_ALL); returns how many. */
uint32_t advisor_orphans_drop(struct advisor_orphans *orphans, uint32_t publisher,
                              enum kvt_tier tier);

/** Blocks of a publisher that wait. */
uint32_t advisor_orphans_waiting(const struct advisor_orphans *orphans, uint32_t publisher);

#endif /* ADVISOR_PUBLISHER_ORPHANS_H */
