/*
 * index/holder/holder_list.h -- the ranges of a run with several.
 *
 * Why: holders of one part of a run, its whole most of all, are a set with that part said once (a
 * group); everybody else has ranges in one array, by holder and block.  A holder is in one group or
 * has ranges in the array, never both, so that a group is worked on without looking further.
 *
 * Beside the array lies the order of those in it that have one range, from the first block of the
 * run on: longest first, then by holder.  That is the order answers have, and the common case of a
 * question, so nothing has to be sorted for it.  It comes first, where it can be loaded before the
 * size of the list is known.
 *
 * Groups are looked for when the array is full, among the parts that occur most in it; from then on
 * a holder that comes to have such a part joins.
 *
 * Ownership: struct index_run_holders owns its list, a list its sets.
 * Threads:   as index/holder/run_holders.h.  `group_capacity` and `range_capacity` never change;
 *            counts are always within them.
 * Limits:    INDEX_HOLDER_LIST_GROUPS_MAX groups.
 */
#ifndef INDEX_HOLDER_HOLDER_LIST_H
#define INDEX_HOLDER_HOLDER_LIST_H

#include "index/holder/block_range.h"
#include "index/holder/holder_set.h"
#include "index/memory/epoch.h"

#define INDEX_HOLDER_LIST_GROUPS_MAX 16
#define INDEX_HOLDER_LIST_NO_GROUP   UINT32_MAX

struct index_group {
    _Atomic uint64_t key; /* the part: a range without its holder */
    _Atomic(struct index_holder_set *) set;
};

struct index_holder_list {
    uint16_t group_capacity;
    uint16_t end;            /* one past the last block that somebody holds; the writer's */
    uint32_t range_capacity; /* even */
    _Atomic uint32_t group_count;
    _Atomic uint32_t range_count;
    uint32_t witness; /* a range that is likely to hold what is asked for next; the writer's */
    _Atomic uint32_t order_count;
    _Atomic uint64_t data[]; /* order, groups, ranges */
};

_Static_assert(sizeof(struct index_group) == 2 * sizeof(uint64_t), "groups lie in `data`");

/* The holders of one run; index/holder/run_holders.h. */
struct index_run_holders {
    _Atomic uint64_t one;                     /* the only range, or 0 */
    _Atomic(struct index_holder_list *) list; /* NULL unless there are several */
};

/* What holders of runs need of their index. */
struct index_run_holders_context {
    struct index_memory *memory;
    struct index_epoch *epoch;
    struct index_shards *shards;
};

/* Where the order ends: two ranks a word. */
static inline const _Atomic uint64_t *
index_holder_list_order_end(const struct index_holder_list *list)
{
    return list->data + list->range_capacity / 2;
}

/** NULL: at most one range, in `one`. */
static inline struct index_holder_list *
index_holder_list_of(const struct index_run_holders *holders)
{
    return atomic_load_explicit(&holders->list, memory_order_acquire);
}

static inline uint32_t
index_holder_list_groups(const struct index_holder_list *list)
{
    return atomic_load_explicit(&list->group_count, memory_order_relaxed);
}

static inline struct index_group *
index_holder_list_group(const struct index_holder_list *list, uint32_t at)
{
    return (struct index_group *)(uintptr_t)(index_holder_list_order_end(list) + 2 * (size_t)at);
}

static inline uint64_t
index_holder_list_key(const struct index_holder_list *list, uint32_t at)
{
    return atomic_load_explicit(&index_holder_list_group(list, at)->key, memory_order_relaxed);
}

/** NULL only for a reader beside a change. */
static inline struct index_holder_set *
index_holder_list_set(const struct index_holder_list *list, uint32_t at)
{
    return atomic_load_explicit(&index_holder_list_group(list, at)->set, memory_order_acquire);
}

static inline uint32_t
index_holder_list_ranges(const struct index_holder_list *list)
{
    return atomic_load_explicit(&list->range_count, memory_order_relaxed);
}

static inline _Atomic uint64_t *
index_holder_list_range_at(const struct index_holder_list *list, uint32_t at)
{
    return (_Atomic uint64_t *)(uintptr_t)(index_holder_list_order_end(list) +
                                           2 * (size_t)list->group_capacity + at);
}

static inline index_block_range
index_holder_list_range(const struct index_holder_list *list, uint32_t at)
{
    return atomic_load_explicit(index_holder_list_range_at(list, at), memory_order_relaxed);
}

static inline size_t
index_holder_list_bytes(const struct index_holder_list *list)
{
    return sizeof(*list) + 16 * (size_t)list->group_capacity + 12 * (size_t)list->range_capacity;
}

/* A place in the order: INDEX_HOLDER_LIST_LAST - to:16 | holder:16. */
#define INDEX_HOLDER_LIST_LAST 2047u

static inline uint32_t
index_holder_list_rank(uint32_t holder, uint32_t to)
{
    return (INDEX_HOLDER_LIST_LAST - to) << 16 | holder;
}

static inline uint32_t
index_holder_list_rank_to(uint32_t rank)
{
    return INDEX_HOLDER_LIST_LAST - (rank >> 16);
}

static inline _Atomic uint32_t *
index_holder_list_order(const struct index_holder_list *list)
{
    return (_Atomic uint32_t *)(uintptr_t)list->data;
}

/** The first range of `holder` or of one after it. */
uint32_t index_holder_list_place_read(const struct index_holder_list *list, uint32_t holder);

/* Where the ranges of a holder are. */
struct index_holder_list_slot {
    uint32_t group; /* INDEX_HOLDER_LIST_NO_GROUP: in the array */
    uint32_t first;
    uint32_t count;
};

struct index_holder_list_slot index_holder_list_find(const struct index_holder_list *list,
                                                     uint32_t holder);
/** Copy out the ranges of the holder. */
void index_holder_list_copy(const struct index_holder_list *list,
                            const struct index_holder_list_slot *seat, uint32_t holder,
                            struct index_block_ranges *ranges);

/**
 * The holder's only range goes on with the blocks [from, to), or they are the first it has, where
 * somebody else has them too: a sequence that is known comes block by block.  False: it is not that
 * simple.
 */
bool index_holder_list_extend(struct index_run_holders *holders,
                              const struct index_run_holders_context *context, uint32_t holder,
                              uint32_t code, uint32_t from, uint32_t to);

/** The only range moves into a list; false: no memory. */
KVT_NODISCARD bool index_holder_list_open(struct index_run_holders *holders,
                                          const struct index_run_holders_context *context,
                                          index_block_range first, bool overdraw);
/** Give back through the epoch. */
void index_holder_list_retire(struct index_holder_list *list,
                              const struct index_run_holders_context *context);

/** Blocks that others than `holder` have too go from `blocks`. */
void index_holder_list_others(struct index_holder_list *list, uint32_t holder,
                              struct index_blocks *blocks);

/**
 * `holder` now has these ranges, and no others.  The run may get another list.
 *
 * @return false: no memory; unchanged then
 */
KVT_NODISCARD bool index_holder_list_put(struct index_run_holders *holders,
                                         const struct index_run_holders_context *context,
                                         uint32_t holder, const struct index_block_ranges *ranges,
                                         bool overdraw);

/** Find `end` again after blocks went. */
void index_holder_list_end(struct index_holder_list *list);

/** A list with one range goes back into `one`, one with none goes. */
void index_holder_list_close(struct index_run_holders *holders,
                             const struct index_run_holders_context *context);

/** A list of the size that is needed, and `extra` ranges, takes the place of this one; false: no
 *  memory, unchanged then. */
KVT_NODISCARD bool index_holder_list_rebuild(struct index_run_holders *holders,
                                             const struct index_run_holders_context *context,
                                             uint32_t extra, bool overdraw);

#endif /* INDEX_HOLDER_HOLDER_LIST_H */
