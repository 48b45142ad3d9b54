/*
 * index/writer/writer.h -- one change being made, for the writer's files of index/ alone.
 *
 * Why: storing, removing and dropping share what is looked up once for a change, and the same few
 * steps: hold a piece of a run, let go of one, hang a run on its parent.
 *
 * Ownership: borrows the index and the change.
 * Threads:   under the index's lock.
 * Limits:    as index/index.h.
 */
#ifndef INDEX_WRITER_WRITER_H
#define INDEX_WRITER_WRITER_H

#include "index/block/state.h"

struct index_writer {
    struct index *index;
    struct index_change *change;
    struct index_namespace *ns_record;
    struct index_holder_record *holder;
    struct index_holder_usage
        *usage; /* STORE: of the holder in the namespace; NULL: not asked for */
    struct index_table_context table;
    struct index_run_holders_context holders;
    uint32_t code;      /* STORE: of the shards */
    uint32_t shards;    /* STORE: how many */
    uint16_t size;      /* STORE: code of the size */
    uint32_t time_s;    /* 0: not known; REMOVE: also INDEX_HISTORY_NOT */
    uint64_t last_hash; /* STORE: of the block before, and its number, or 0 */
    uint32_t last_number;
    bool reclaimed; /* memory was already given back for this change */
};

/**
 * Blocks [first, first + count) of a STORE; `mixed` are their hashes, mixed.
 *
 * @param[in] guess   where the first one may be; 0: it was not there a moment ago
 * @param[in] parent  where the change's parent may be, or 0
 * @return false: the change has been refused
 */
bool index_writer_store(struct index_writer *writer, uint32_t first, uint32_t count,
                        const uint64_t *mixed, uint32_t guess, uint32_t parent);
/** The same of a REMOVE. */
bool index_writer_remove(struct index_writer *writer, uint32_t first, uint32_t count,
                         const uint64_t *mixed, uint32_t guess);

/**
 * `holder` no longer has `ranks` of [from, to) of the run that begins at `first`.
 *
 * @param[out] pairs  (block, holder) pairs that went
 * @return KVT_OK, also when there was nothing; or KVT_FULL: the heap is out; unchanged then
 */
KVT_NODISCARD enum kvt_err index_writer_release(struct index *index, uint32_t first, uint32_t from,
                                                uint32_t to, uint32_t holder, uint32_t ranks,
                                                uint32_t time_s, uint32_t *pairs);

/** A guess at where a hash is that is right, or 0.  What is behind the end of a run is nowhere. */
static inline uint32_t
index_writer_check(const struct index *index, uint32_t ns, uint64_t hash, uint32_t guess)
{
    const struct index_run *run;
    uint32_t offset;

    if (guess == 0)
        return 0;
    run = index_state_run(index, guess, &offset);
    return run != NULL && offset < index_run_length(run) && index_run_ns(run) == ns &&
                   index_state_seq(index, guess) == hash
               ? guess
               : 0;
}

/** Where the last block of a sequence that was just stored to is noted: what comes next goes behind
 *  it.  A number there may be stale. */
static inline uint32_t *
index_writer_recent(struct index *index, uint64_t hash)
{
    return &index->recent[hash * UINT64_C(0x9e3779b97f4a7c15) >> (64 - INDEX_RECENT_BITS)];
}

/*
 * Most runs have one holder with one range.  These two do what index_run_holders_add() and
 * _remove() do where that stays so; false: it does not.
 */
static inline bool
index_writer_add_range(struct index_run_holders *holders, uint32_t holder, uint32_t code,
                       uint32_t from, uint32_t to)
{
    const index_block_range one = atomic_load_explicit(&holders->one, memory_order_relaxed);

    if (atomic_load_explicit(&holders->list, memory_order_relaxed) != NULL ||
        (one != 0 && (index_block_range_holder(one) != holder ||
                      index_block_range_code(one) != code || index_block_range_to(one) != from)))
        return false;
    atomic_store_explicit(
        &holders->one,
        index_block_range_make(holder, code, one != 0 ? index_block_range_from(one) : from, to),
        memory_order_relaxed);
    return true;
}

static inline bool
index_writer_cut_range(struct index_run_holders *holders, uint32_t holder, uint32_t from,
                       uint32_t to, uint32_t *code)
{
    const index_block_range one = atomic_load_explicit(&holders->one, memory_order_relaxed);

    *code = index_block_range_code(one);
    if (atomic_load_explicit(&holders->list, memory_order_relaxed) != NULL || one == 0 ||
        index_block_range_holder(one) != holder || from < index_block_range_from(one) ||
        to != index_block_range_to(one))
        return false;
    atomic_store_explicit(
        &holders->one,
        from == index_block_range_from(one)
            ? 0
            : index_block_range_make(holder, *code, index_block_range_from(one), from),
        memory_order_relaxed);
    return true;
}

#endif /* INDEX_WRITER_WRITER_H */
