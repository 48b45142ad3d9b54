#include <assert.h>

#include "base/core/alloc.h"
#include "index/block/run_allocator.h"
#include "index/block/state.h"
#include "index/index.h"

#define PIECES ((INDEX_RUN_BLOCKS_MAX + 63) / 64)

void
index_touch(struct index *index, uint32_t ns, uint64_t hash, uint32_t count, uint64_t time_ms)
{
    uint32_t number;

    assert(index != NULL);
    (void)pthread_mutex_lock(&index->lock);
    number = index_state_find(index, ns, hash);
    if (number != 0 && index_state_held(index, number)) {
        struct index_block_hits *uses = index_run_allocator_uses(index, number);

        /* Without memory the read is not remembered. */
        if (uses != NULL) {
            struct index_block_hits *use = &uses[number & (INDEX_PAGE_BLOCKS - 1)];
            const uint32_t hits = atomic_load_explicit(&use->hits, memory_order_relaxed);

            atomic_store_explicit(&use->hits, hits > UINT32_MAX - count ? UINT32_MAX : hits + count,
                                  memory_order_relaxed);
            atomic_store_explicit(&use->used_s, (uint32_t)(time_ms / 1000), memory_order_relaxed);
        }
    }
    (void)pthread_mutex_unlock(&index->lock);
}

struct ranked {
    struct index_candidate candidate;
    uint32_t position;
};

/* The best ones so far: a heap with the worst of them in front. */
struct ranking {
    struct ranked *ranked;
    size_t capacity;
    size_t count;
    bool coldest;
};

static bool
is_better(const struct ranking *ranking, const struct ranked *a, const struct ranked *b)
{
    if (a->candidate.used_ms != b->candidate.used_ms)
        return (a->candidate.used_ms < b->candidate.used_ms) == ranking->coldest;
    if (a->position != b->position)
        return (a->position > b->position) == ranking->coldest;
    if (a->candidate.ns != b->candidate.ns)
        return a->candidate.ns < b->candidate.ns;
    return a->candidate.hash < b->candidate.hash;
}

/* The entry at `at` may be better than what is below it. */
static void
sink(const struct ranking *ranking, size_t at, size_t count)
{
    struct ranked *ranked = ranking->ranked;
    const struct ranked moving = ranked[at];

    for (;;) {
        size_t below = 2 * at + 1;

        if (below + 1 < count && is_better(ranking, &ranked[below], &ranked[below + 1]))
            below++;
        if (below >= count || !is_better(ranking, &moving, &ranked[below]))
            break;
        ranked[at] = ranked[below];
        at = below;
    }
    ranked[at] = moving;
}

static void
rise(const struct ranking *ranking, size_t at)
{
    struct ranked *ranked = ranking->ranked;
    const struct ranked moving = ranked[at];

    while (at > 0 && is_better(ranking, &ranked[(at - 1) / 2], &moving)) {
        ranked[at] = ranked[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    ranked[at] = moving;
}

static void
offer(struct ranking *ranking, const struct ranked *ranked)
{
    if (ranking->count < ranking->capacity) {
        ranking->ranked[ranking->count++] = *ranked;
        rise(ranking, ranking->count - 1);
    } else if (is_better(ranking, ranked, &ranking->ranked[0])) {
        ranking->ranked[0] = *ranked;
        sink(ranking, 0, ranking->count);
    }
}

/* Blocks of a run that the tier has. */
static void
mark_tier(const struct index *index, const struct index_run *run, enum kvt_tier tier,
          uint64_t bits[PIECES])
{
    struct index_run_holders_place place;
    uint64_t cursor = 0;

    for (int i = 0; i < PIECES; i++)
        bits[i] = 0;
    while (index_run_holders_next_read(&run->holders, &cursor, &place)) {
        if (atomic_load_explicit(&index_state_holder(index, place.holder)->tier,
                                 memory_order_relaxed) != tier)
            continue;
        for (uint32_t i = place.from; i < place.to; i++)
            bits[i / 64] |= UINT64_C(1) << i % 64;
    }
}

static void
offer_run(const struct index *index, const struct index_run *run, uint32_t first,
          enum kvt_tier tier, struct ranking *ranking)
{
    const struct index_block_hits *uses = atomic_load_explicit(
        &index->allocator.uses[first >> INDEX_PAGE_SHIFT], memory_order_relaxed);
    uint64_t bits[PIECES];

    if ((atomic_load_explicit(&run->tiers, memory_order_relaxed) & KVT_TIER_MASK(tier)) == 0)
        return;
    mark_tier(index, run, tier, bits);
    for (uint32_t i = 0; i < index_run_length(run); i++) {
        const struct index_block_hits *use =
            uses == NULL ? NULL : &uses[(first + i) & (INDEX_PAGE_BLOCKS - 1)];
        const uint32_t read_s =
            use == NULL ? 0 : atomic_load_explicit(&use->used_s, memory_order_relaxed);
        struct ranked ranked;

        if ((bits[i / 64] >> i % 64 & 1) == 0)
            continue;
        ranked = (struct ranked){
            .candidate = {.hash = index_state_seq(index, first + i),
                          .used_ms = 1000 * (uint64_t)(read_s != 0 ? read_s
                                                                   : atomic_load_explicit(
                                                                         &run->stored_s,
                                                                         memory_order_relaxed)),
                          .ns = index_run_ns(run),
                          .hits = use == NULL
                                      ? 0
                                      : atomic_load_explicit(&use->hits, memory_order_relaxed)},
            .position = atomic_load_explicit(&run->position, memory_order_relaxed) + i};
        offer(ranking, &ranked);
    }
}

static void
offer_page(const struct index *index, uint32_t page, enum kvt_tier tier, struct ranking *ranking)
{
    const uintptr_t entry =
        atomic_load_explicit(&index->allocator.runs[page], memory_order_relaxed);
    const struct index_run *runs = (const struct index_run *)(entry & ~(uintptr_t)63);

    if (entry == 0)
        return;
    for (uint32_t at = 0; at < index->allocator.pages[page].fresh; at++)
        if (index_run_length(&runs[at]) > 0)
            offer_run(index, &runs[at],
                      page * INDEX_PAGE_BLOCKS + at * index_classes[(entry & 63) - 1].capacity,
                      tier, ranking);
}

size_t
index_candidates(struct index *index, enum kvt_tier tier, bool coldest,
                 struct index_candidate *candidates, size_t capacity)
{
    struct ranking ranking = {.capacity = capacity, .coldest = coldest};
    size_t count;

    assert(index != NULL && (candidates != NULL || capacity == 0));
    if (capacity == 0)
        return 0;
    ranking.ranked = kvt_calloc(capacity, sizeof(*ranking.ranked));
    if (ranking.ranked == NULL)
        return 0;
    /* Page by page, so that changes need not wait for all of it. */
    for (uint32_t page = 1;
         page < atomic_load_explicit(&index->allocator.end, memory_order_acquire); page++) {
        (void)pthread_mutex_lock(&index->lock);
        offer_page(index, page, tier, &ranking);
        (void)pthread_mutex_unlock(&index->lock);
    }
    count = ranking.count;
    for (size_t left = count; left > 0; left--) {
        candidates[left - 1] = ranking.ranked[0].candidate;
        ranking.ranked[0] = ranking.ranked[left - 1];
        sink(&ranking, 0, left - 1);
    }
    kvt_free(ranking.ranked);
    return count;
}
