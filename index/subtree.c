#include <assert.h>

#include "index/index.h"
#include "index/size.h"
#include "index/writer.h"

#define PIECES ((INDEX_RUN_BLOCKS_MAX + 63) / 64)

struct children {
    uint64_t *hashes;
    size_t capacity;
    size_t count;
};

static struct index_run *
run_at(const struct index *index, uint32_t first)
{
    uint32_t offset;

    return index_writer_at(index, first, &offset);
}

static void
give_child(const struct index *index, uint32_t number, struct children *children)
{
    if (children->count < children->capacity)
        children->hashes[children->count] = index_state_seq(index, number);
    children->count++;
}

size_t
index_children(struct index *index, uint32_t ns, uint64_t hash, uint64_t *hashes, size_t capacity)
{
    struct children children = {.hashes = hashes, .capacity = capacity};
    uint32_t number;

    assert(index != NULL && (hashes != NULL || capacity == 0));
    (void)pthread_mutex_lock(&index->lock);
    number = index_state_find(index, ns, hash);
    if (number != 0) {
        uint32_t offset;
        const struct index_run *run = index_writer_at(index, number, &offset);

        if (offset + 1 < index_run_length(run) && index_run_held(run, offset + 1))
            give_child(index, number + 1, &children);
        for (uint32_t at = run->child; at != 0; at = run_at(index, at)->next)
            if (run_at(index, at)->parent_number == number && index_run_held(run_at(index, at), 0))
                give_child(index, at, &children);
    }
    for (uint32_t at = index_link_orphans(index, ns, hash); at != 0; at = run_at(index, at)->next)
        if (index_run_held(run_at(index, at), 0))
            give_child(index, at, &children);
    (void)pthread_mutex_unlock(&index->lock);
    return children.count;
}

struct counting {
    const struct index *index;
    struct index_totals *totals;
    uint64_t blocks_max;
};

/* The places of blocks from `from` on, and the blocks of each tier; `some` has all of them. */
static void
count_places(const struct counting *counting, const struct index_run *run, uint32_t first,
             uint32_t from, uint64_t some[PIECES])
{
    const struct index *index = counting->index;
    struct index_totals *totals = counting->totals;
    uint64_t tiers[KVT_TIER_G4 + 1][PIECES] = {{0}};
    struct index_holding_place place;
    uint64_t cursor = 0;

    while (index_holding_next_read(&run->holding, &cursor, &place)) {
        const unsigned tier = atomic_load_explicit(&index_state_holder(index, place.holder)->tier,
                                                   memory_order_relaxed);
        const uint64_t shards =
            (uint64_t)__builtin_popcount(index_shards_ranks(index->shards, place.code));

        for (uint32_t i = place.from > from ? place.from : from; i < place.to; i++) {
            totals->places++;
            totals->tier_bytes[tier] += shards * index_size_block(index, first, i);
            tiers[tier][i / 64] |= UINT64_C(1) << i % 64;
        }
    }
    for (unsigned tier = KVT_TIER_G1; tier <= KVT_TIER_G4; tier++) {
        for (unsigned i = 0; i < PIECES; i++) {
            totals->tier_blocks[tier] += (uint64_t)__builtin_popcountll(tiers[tier][i]);
            some[i] |= tiers[tier][i];
        }
    }
}

/* False: more blocks than wanted. */
static bool
count_run(const struct counting *counting, uint32_t first, uint32_t from)
{
    uint64_t some[PIECES] = {0};

    count_places(counting, run_at(counting->index, first), first, from, some);
    for (unsigned i = 0; i < PIECES; i++)
        counting->totals->blocks += (uint64_t)__builtin_popcountll(some[i]);
    return counting->totals->blocks <= counting->blocks_max;
}

/* All that hangs on the run `top` and on those below it, depth first along the links. */
static bool
count_below(const struct counting *counting, uint32_t top)
{
    const struct index *index = counting->index;
    uint32_t at = top;

    if (!count_run(counting, top, 0))
        return false;
    for (;;) {
        uint32_t next = run_at(index, at)->child;

        while (next == 0 && at != top) {
            next = run_at(index, at)->next;
            if (next == 0)
                (void)index_writer_run(index, run_at(index, at)->parent_number, &at);
        }
        if (next == 0)
            return true;
        at = next;
        if (!count_run(counting, at, 0))
            return false;
    }
}

static bool
count_from(const struct counting *counting, uint32_t number)
{
    const struct index *index = counting->index;
    uint32_t offset;
    const struct index_run *run = index_writer_at(index, number, &offset);

    if (!count_run(counting, number - offset, offset))
        return false;
    for (uint32_t at = run->child; at != 0; at = run_at(index, at)->next)
        if (run_at(index, at)->parent_number >= number && !count_below(counting, at))
            return false;
    return true;
}

enum kvt_err
index_subtree(struct index *index, uint32_t ns, uint64_t hash, uint64_t blocks_max,
              struct index_totals *totals)
{
    const struct counting counting = {.index = index, .totals = totals, .blocks_max = blocks_max};
    enum kvt_err rc = KVT_NOTFOUND;
    uint32_t number;

    assert(index != NULL && totals != NULL);
    *totals = (struct index_totals){.blocks = 0};
    (void)pthread_mutex_lock(&index->lock);
    number = index_state_find(index, ns, hash);
    if (number != 0 && index_writer_held(index, number))
        rc = KVT_OK;
    if (rc == KVT_OK && !count_from(&counting, number))
        rc = KVT_FULL;
    (void)pthread_mutex_unlock(&index->lock);
    return rc;
}
