#include <assert.h>

#include "index/block/block_size.h"
#include "index/block/run_allocator.h"
#include "index/block/state.h"
#include "index/index.h"

enum {
    LOOK_MAX = 64,   /* runs looked at for each pair wanted, to bound a call's time */
    BLOCK_BITS = 11, /* a cursor is run:32 | holder:17 | block:11 */
    RUN_SHIFT = 28,
};

/* Pairs are given run by run, in the order of (holder, block). */
struct walk {
    struct index *index;
    index_walk_fn *callback;
    void *arg;
    size_t left;
    uint64_t place; /* in the run: a cursor of index_run_holders_next_read() */
};

static void
give_block(const struct walk *walk, const struct index_run *run, uint32_t first, uint32_t offset,
           const struct index_run_holders_place *place)
{
    const struct index *index = walk->index;
    const uint32_t number = first + offset;
    const struct index_block block = {
        .id = {.hash = index_state_seq(index, number),
               .parent = offset > 0 ? index_state_seq(index, number - 1)
                                    : atomic_load_explicit(&run->parent, memory_order_relaxed),
               .position = atomic_load_explicit(&run->position, memory_order_relaxed) + offset},
        .tokens_hash = index_state_tok(index, number),
        .size = index_block_size_of(index, first, offset),
        .ranks = index_shards_ranks(index->shards, place->code)};

    walk->callback(walk->arg, index_run_ns(run), place->holder, &block);
}

/* True: the run is done. */
static bool
walk_run(struct walk *walk, uint32_t first)
{
    uint32_t offset;
    const struct index_run *run = index_state_at(walk->index, first, &offset);
    struct index_run_holders_place place;

    while (walk->left > 0) {
        if (!index_run_holders_next_read(&run->holders, &walk->place, &place))
            return true;
        for (uint32_t i = place.from; i < place.to; i++) {
            if (walk->left == 0) {
                walk->place = (uint64_t)place.holder << 16 | i;
                return false;
            }
            give_block(walk, run, first, i, &place);
            walk->left--;
        }
    }
    return false;
}

uint64_t
index_walk(struct index *index, uint64_t cursor, size_t max, index_walk_fn *callback, void *arg)
{
    struct walk walk = {.index = index,
                        .callback = callback,
                        .arg = arg,
                        .left = max,
                        .place = (cursor >> BLOCK_BITS & ((1u << (RUN_SHIFT - BLOCK_BITS)) - 1))
                                     << 16 |
                                 (cursor & ((1u << BLOCK_BITS) - 1))};
    uint32_t number = (uint32_t)(cursor >> RUN_SHIFT);
    uint32_t end;

    assert(index != NULL && callback != NULL && max > 0);
    (void)pthread_mutex_lock(&index->lock);
    end = atomic_load_explicit(&index->allocator.end, memory_order_relaxed) * INDEX_PAGE_BLOCKS;
    if (number < INDEX_PAGE_BLOCKS)
        number = INDEX_PAGE_BLOCKS;
    for (size_t looked = 0; number < end && walk.left > 0 && looked / LOOK_MAX < max; looked++) {
        uint32_t offset;
        const struct index_run *run = index_state_run(index, number, &offset);

        /* Pages may be cut differently by now: what stayed, stayed at its number. */
        if (run != NULL && offset == 0 && index_run_length(run) > 0 && !walk_run(&walk, number))
            break;
        number = index_run_allocator_next(index, number);
        walk.place = 0;
    }
    (void)pthread_mutex_unlock(&index->lock);
    if (number >= end)
        return 0;
    return (uint64_t)number << RUN_SHIFT | (walk.place >> 16) << BLOCK_BITS |
           (walk.place & ((1u << BLOCK_BITS) - 1));
}
