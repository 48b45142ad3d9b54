#include <assert.h>
#include <string.h>
#include <time.h>

#include "base/core/alloc.h"
#include "index/block/block_size.h"
#include "index/block/link.h"
#include "index/block/state.h"
#include "index/index.h"

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

    return index_state_at(index, first, &offset);
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
        const struct index_run *run = index_state_at(index, number, &offset);

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
    const struct index_far *far; /* NULL: none */
    struct index_totals *totals;
    uint64_t blocks_max;
};

static enum index_part
part_of(const struct counting *counting, const char *name)
{
    if (strncmp(name, "hot@", 4) == 0)
        return INDEX_HOT;
    if (strncmp(name, "warm@", 5) == 0)
        return INDEX_WARM;
    for (size_t i = 0; counting->far != NULL && i < counting->far->count; i++)
        if (strcmp(name, counting->far->names[i]) == 0)
            return INDEX_FAR;
    return INDEX_COLD;
}

/* The places of blocks from `from` on, and the blocks of each tier; `some` has all of them. */
static void
count_places(const struct counting *counting, const struct index_run *run, uint32_t first,
             uint32_t from, uint64_t some[PIECES])
{
    const struct index *index = counting->index;
    struct index_totals *totals = counting->totals;
    uint64_t tiers[KVT_TIER_G4 + 1][PIECES] = {{0}};
    uint64_t parts[INDEX_PARTS][PIECES] = {{0}};
    struct index_run_holders_place place;
    uint64_t cursor = 0;

    while (index_run_holders_next_read(&run->holders, &cursor, &place)) {
        const struct index_holder_record *holder = index_state_holder(index, place.holder);
        const unsigned tier = atomic_load_explicit(&holder->tier, memory_order_relaxed);
        const bool is_part = tier == KVT_TIER_G4;
        const enum index_part part = is_part ? part_of(counting, holder->key.name) : INDEX_COLD;
        uint64_t bytes = 0;
        const uint64_t shards =
            (uint64_t)__builtin_popcount(index_shards_ranks(index->shards, place.code));

        for (uint32_t i = place.from > from ? place.from : from; i < place.to; i++) {
            totals->places++;
            bytes += shards * index_block_size_of(index, first, i);
            tiers[tier][i / 64] |= UINT64_C(1) << i % 64;
            parts[part][i / 64] |= is_part ? UINT64_C(1) << i % 64 : 0;
        }
        totals->tier_bytes[tier] += bytes;
        totals->part_bytes[part] += is_part ? bytes : 0;
    }
    for (unsigned part = 0; part < INDEX_PARTS; part++)
        for (unsigned i = 0; i < PIECES; i++)
            totals->part_blocks[part] += (uint64_t)__builtin_popcountll(parts[part][i]);
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

/*
 * A subtree may be most of the index, and no writer waits for it: a step looks at so much, and the
 * lock is free between two.  What is left to look at is known by hashes meanwhile, since numbers
 * are given on.
 */
struct tour {
    struct counting counting;
    uint32_t ns;
    uint64_t *hashes; /* first blocks of runs that are left */
    size_t count;
    size_t capacity;
    uint64_t parent; /* whose children are being noted, */
    uint64_t last;   /* behind this one */
    bool within;     /* there is such a parent, */
    bool begun;      /* and such a child */
};

enum {
    STEP_LOOKS = 65536, /* at blocks, and at places of them */
    STEP_CHILDREN = 4096,
    NAP_NS = 20000,
};

static enum kvt_err
reserve_children(struct tour *tour)
{
    const size_t wanted = tour->count + STEP_CHILDREN;
    uint64_t *hashes;

    if (wanted <= tour->capacity)
        return KVT_OK;
    if (wanted > INDEX_SUBTREE_RUNS_MAX + STEP_CHILDREN)
        return KVT_FULL;
    hashes = kvt_realloc(tour->hashes, 2 * wanted, sizeof(*hashes));
    if (hashes == NULL)
        return KVT_NOMEM;
    tour->hashes = hashes;
    tour->capacity = 2 * wanted;
    return KVT_OK;
}

/* The child to go on with.  False: the one before it left meanwhile, and its place with it. */
static bool
next_child(const struct tour *tour, const struct index_run *run, uint32_t first, uint32_t *child)
{
    const struct index *index = tour->counting.index;
    const struct index_run *last;
    uint32_t number;
    uint32_t offset;
    uint32_t parent;

    *child = run->child;
    if (!tour->begun)
        return true;
    number = index_state_find(index, tour->ns, tour->last);
    if (number == 0)
        return false;
    last = index_state_at(index, number, &offset);
    if (offset != 0 || last->parent_number == 0)
        return false;
    (void)index_state_run_of(index, last->parent_number, &parent);
    *child = last->next;
    return parent == first;
}

/* Note up to `most` runs that hang on the parent, or behind it on its run.  KVT_FULL: they cannot
 * be told from those that were noted any more. */
static enum kvt_err
note_children(struct tour *tour, size_t most, size_t *noted)
{
    const struct index *index = tour->counting.index;
    const uint32_t number = index_state_find(index, tour->ns, tour->parent);
    const struct index_run *run;
    uint32_t offset;
    uint32_t at;

    *noted = 0;
    tour->within = false;
    if (number == 0)
        return KVT_OK;
    run = index_state_at(index, number, &offset);
    if (!next_child(tour, run, number - offset, &at))
        return KVT_FULL;
    for (; at != 0 && *noted < most; at = run_at(index, at)->next, ++*noted) {
        tour->last = index_state_seq(index, at);
        tour->begun = true;
        if (run_at(index, at)->parent_number >= number)
            tour->hashes[tour->count++] = tour->last;
    }
    tour->within = at != 0;
    return KVT_OK;
}

/* Under the lock.  KVT_OK with `*left` 0: that was all. */
static enum kvt_err
take_step(struct tour *tour, bool *left)
{
    const struct index *index = tour->counting.index;
    size_t children = 0;
    uint64_t looks = 0;
    enum kvt_err rc = KVT_OK;

    while (rc == KVT_OK && looks < STEP_LOOKS && children < STEP_CHILDREN &&
           (tour->within || tour->count > 0)) {
        uint32_t number;
        uint64_t places;
        uint32_t offset;
        size_t noted;

        if (tour->within) {
            rc = note_children(tour, STEP_CHILDREN - children, &noted);
            children += noted + 1;
            continue;
        }
        tour->parent = tour->hashes[--tour->count];
        number = index_state_find(index, tour->ns, tour->parent);
        if (number == 0)
            continue; /* it left meanwhile, and nothing hung on it */
        tour->begun = false;
        tour->within = true;
        places = tour->counting.totals->places;
        looks += index_run_length(index_state_at(index, number, &offset));
        if (!count_run(&tour->counting, number - offset, offset))
            rc = KVT_FULL;
        looks += tour->counting.totals->places - places;
    }
    *left = tour->within || tour->count > 0;
    return rc;
}

/* KVT_OK, or KVT_NOTFOUND. */
static enum kvt_err
find_top(const struct tour *tour, uint64_t hash)
{
    const struct index *index = tour->counting.index;
    const uint32_t number = index_state_find(index, tour->ns, hash);

    return number != 0 && index_state_held(index, number) ? KVT_OK : KVT_NOTFOUND;
}

enum kvt_err
index_subtree(struct index *index, uint32_t ns, uint64_t hash, uint64_t blocks_max,
              const struct index_far *far, struct index_totals *totals)
{
    const struct timespec nap = {.tv_nsec = NAP_NS};
    struct tour tour = {
        .counting = {.index = index, .far = far, .totals = totals, .blocks_max = blocks_max},
        .ns = ns};
    bool left = true;
    enum kvt_err rc;

    assert(index != NULL && totals != NULL);
    *totals = (struct index_totals){.blocks = 0};
    (void)pthread_mutex_lock(&index->lock);
    rc = find_top(&tour, hash);
    (void)pthread_mutex_unlock(&index->lock);
    if (rc == KVT_OK)
        rc = reserve_children(&tour);
    if (rc == KVT_OK)
        tour.hashes[tour.count++] = hash;
    while (rc == KVT_OK && left) {
        rc = reserve_children(&tour);
        if (rc != KVT_OK)
            break;
        (void)pthread_mutex_lock(&index->lock);
        rc = take_step(&tour, &left);
        (void)pthread_mutex_unlock(&index->lock);
        /* Whoever waits for the lock would find it taken again before it is awake. */
        if (rc == KVT_OK && left)
            (void)nanosleep(&nap, NULL);
    }
    kvt_free(tour.hashes);
    return rc;
}
