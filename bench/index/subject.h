/*
 * bench/index/subject.h -- our index as the advisor runs it, fed with decoded events.
 *
 * Why: what is measured must be what ships: two namespaces, sizes, tiers, shards, times and
 * history, events in the decoders' shape, a worker looked up for each, changes applied in batches.
 *
 * Ownership: a subject owns its index, a batch its events.
 * Threads:   one writer; lookups from any thread, each with an `index_find_result` of its own.
 * Limits:    SUBJECT_HOLDERS_MAX workers.
 */
#ifndef BENCH_INDEX_SUBJECT_H
#define BENCH_INDEX_SUBJECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "index/index.h"
#include "wire/dialect/raw_batch.h"

#define SUBJECT_HOLDERS_MAX   16384
#define SUBJECT_CHANGES       256         /* handed to the index at once */
#define SUBJECT_CHANGE_BLOCKS (1u << 14)  /* ... with at most so many blocks, or one change */
#define SUBJECT_BATCH_BLOCKS  65536u      /* built untimed, then handed over */
#define SUBJECT_SIZE          (64u << 10) /* bytes a block */

struct subject {
    struct index *index;
    uint32_t ns;
    uint64_t aside; /* places of the other namespace */
    struct {
        uint64_t worker;
        uint32_t holder;
        bool used;
    } holders[2 * SUBJECT_HOLDERS_MAX];
    uint32_t holder_count;
};

/* Events that wait to be handed over, and the writer's room to turn them into changes. */
struct subject_batch {
    struct wire_raw_event *events;
    struct wire_raw_block *blocks;
    size_t event_count;
    size_t block_count;
    size_t event_room;
    size_t block_room;
    struct index_change changes[SUBJECT_CHANGES];
    uint64_t *hashes;
    uint64_t *tokens;
    size_t room;
};

KVT_NODISCARD enum kvt_err subject_new(struct subject **out);
void subject_free(struct subject *subject);

/** The holder of a worker; made when there is none.  Not thread safe; never fails once made. */
KVT_NODISCARD enum kvt_err subject_holder(struct subject *subject, uint64_t worker,
                                          uint32_t *holder);
/** (block, holder) pairs of the namespace that is measured. */
uint64_t subject_memberships(struct subject *subject);

KVT_NODISCARD enum kvt_err subject_batch_new(struct subject_batch **out);
void subject_batch_free(struct subject_batch *batch);
void subject_batch_clear(struct subject_batch *batch);

/** `count` blocks of a sequence from `position` on; `parent` counts when that is not 0. */
KVT_NODISCARD enum kvt_err subject_batch_store(struct subject_batch *batch, uint64_t worker,
                                               uint64_t parent, uint32_t position,
                                               const uint64_t *hashes, const uint64_t *locals,
                                               uint32_t count);
/** `hashes` root side first; they go from the leaf. */
KVT_NODISCARD enum kvt_err subject_batch_remove(struct subject_batch *batch, uint64_t worker,
                                                const uint64_t *hashes, uint32_t count);

/** Apply events [from, to) of the batch.  KVT_OK, or what the index refused first. */
KVT_NODISCARD enum kvt_err subject_apply(struct subject *subject, struct subject_batch *batch,
                                         size_t from, size_t to);

#endif /* BENCH_INDEX_SUBJECT_H */
