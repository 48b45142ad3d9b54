#include "index/answer/scan.h"

#include <assert.h>

#include "base/core/alloc.h"
#include "index/block/block_size.h"
#include "index/block/run_allocator.h"
#include "index/block/state.h"
#include "index/index.h"

/*
 * Going by numbers is enough: a block keeps its number as long as it is there, so what is there all
 * the time is met where it was.
 */
struct index_scan {
    struct index *index;
    uint32_t number;                        /* all before was looked at */
    uint32_t end;                           /* what lies behind came later */
    struct index_run_holders_place *places; /* of one run, in the order of (holder, block) */
    size_t place_count;
    size_t place_capacity;
    struct index_held *held; /* of a piece of it; as many as there are places, at most */
    uint64_t hashes[INDEX_RUN_VIEW_MAX];
    uint64_t tokens[INDEX_RUN_VIEW_MAX];
};

/* Where the pieces of a run go. */
struct giving {
    struct index_scan *runs;
    const struct index_run *run;
    uint32_t first;
    index_scan_fn *callback;
    void *arg;
    size_t given; /* blocks, and holders of them */
};

enum kvt_err
index_scan_new(struct index_scan **out, struct index *index)
{
    assert(out != NULL && index != NULL);
    *out = kvt_calloc(1, sizeof(**out));
    if (*out == NULL)
        return KVT_NOMEM;
    (*out)->index = index;
    (*out)->number = INDEX_PAGE_BLOCKS;
    (*out)->end =
        atomic_load_explicit(&index->allocator.end, memory_order_acquire) * INDEX_PAGE_BLOCKS;
    return KVT_OK;
}

void
index_scan_free(struct index_scan *runs)
{
    if (runs == NULL)
        return;
    kvt_free(runs->places);
    kvt_free(runs->held);
    kvt_free(runs);
}

static bool
grow(struct index_scan *runs)
{
    enum { PLACES_FIRST = 64 };
    const size_t capacity = runs->place_capacity == 0 ? PLACES_FIRST : runs->place_capacity * 2;
    struct index_run_holders_place *places =
        kvt_realloc(runs->places, capacity, sizeof(*runs->places));
    struct index_held *held;

    if (places == NULL)
        return false;
    runs->places = places;
    held = kvt_realloc(runs->held, capacity, sizeof(*runs->held));
    if (held == NULL)
        return false;
    runs->held = held;
    runs->place_capacity = capacity;
    return true;
}

/* All places of the run; false: no memory. */
static bool
find_places(struct index_scan *runs, const struct index_run *run)
{
    uint64_t cursor = 0;
    struct index_run_holders_place place;

    runs->place_count = 0;
    while (index_run_holders_next_read(&run->holders, &cursor, &place)) {
        if (runs->place_count == runs->place_capacity && !grow(runs))
            return false;
        runs->places[runs->place_count++] = place;
    }
    return true;
}

/* The end of the blocks from `from` on that are one piece, and their size. */
static uint32_t
piece_end(const struct giving *giving, uint32_t from, uint64_t *size)
{
    const struct index *index = giving->runs->index;
    const uint32_t length = index_run_length(giving->run);
    const uint32_t most = length - from < INDEX_RUN_VIEW_MAX ? length : from + INDEX_RUN_VIEW_MAX;
    uint32_t to = from + 1;

    *size = index_block_size_of(index, giving->first, from);
    if (!index_run_is(giving->run, INDEX_RUN_ODD_SIZES))
        return most;
    while (to < most && index_block_size_of(index, giving->first, to) == *size)
        to++;
    return to;
}

/* The hashes of a piece, and its token hashes; false: none is known. */
static bool
copy_hashes(const struct giving *giving, uint32_t from, uint32_t to)
{
    struct index_scan *runs = giving->runs;
    const struct index *index = runs->index;
    uint64_t known = 0;

    for (uint32_t i = from; i < to; i++)
        runs->hashes[i - from] = index_state_seq(index, giving->first + i);
    if (!index->allocator.pages[giving->first >> INDEX_PAGE_SHIFT].tok_counted)
        return false;
    for (uint32_t i = from; i < to; i++)
        known |= runs->tokens[i - from] = index_state_tok(index, giving->first + i);
    return known != 0;
}

/* What holders have of [from, to), counted from `from` on; returns how many pieces. */
static uint32_t
cut_places(const struct index_scan *runs, uint32_t from, uint32_t to)
{
    uint32_t count = 0;

    for (size_t i = 0; i < runs->place_count; i++) {
        const struct index_run_holders_place *place = &runs->places[i];
        const uint32_t low = place->from > from ? place->from : from;
        const uint32_t high = place->to < to ? place->to : to;

        if (low < high)
            runs->held[count++] = (struct index_held){
                .holder = place->holder,
                .ranks = index_shards_ranks(runs->index->shards, place->code),
                .from = low - from,
                .count = high - low,
            };
    }
    return count;
}

/* Blocks from `from` on; returns the end of those that were given. */
static uint32_t
give_piece(struct giving *giving, uint32_t from)
{
    struct index_scan *runs = giving->runs;
    const struct index_run *run = giving->run;
    uint64_t size;
    const uint32_t to = piece_end(giving, from, &size);
    const bool tokens = copy_hashes(giving, from, to);
    const struct index_run_view view = {
        .hashes = runs->hashes,
        .tokens = tokens ? runs->tokens : NULL,
        .held = runs->held,
        .parent = from > 0 ? index_state_seq(runs->index, giving->first + from - 1)
                           : atomic_load_explicit(&run->parent, memory_order_relaxed),
        .size = size,
        .held_count = cut_places(runs, from, to),
        .position = atomic_load_explicit(&run->position, memory_order_relaxed) + from,
        .count = to - from,
        .ns = index_run_ns(run),
        .stored_s = atomic_load_explicit(&run->stored_s, memory_order_relaxed),
    };

    giving->callback(giving->arg, &view);
    giving->given += view.count + view.held_count;
    return to;
}

/* False: no memory; nothing of the run was given. */
static bool
give_run(struct giving *giving)
{
    if (!find_places(giving->runs, giving->run))
        return false;
    for (uint32_t from = 0; from < index_run_length(giving->run);)
        from = give_piece(giving, from);
    return true;
}

size_t
index_scan_give(struct index_scan *runs, uint32_t first, index_scan_fn *callback, void *arg)
{
    struct giving giving = {.runs = runs, .first = first, .callback = callback, .arg = arg};
    uint32_t offset;

    giving.run = index_state_at(runs->index, first, &offset);
    return give_run(&giving) ? giving.given : 0;
}

enum kvt_err
index_scan_next(struct index_scan *runs, size_t blocks_max, index_scan_fn *callback, void *arg,
                bool *done)
{
    struct giving giving = {.runs = runs, .callback = callback, .arg = arg};
    struct index *index;
    enum kvt_err rc = KVT_OK;

    assert(runs != NULL && blocks_max > 0 && callback != NULL && done != NULL);
    index = runs->index;
    (void)pthread_mutex_lock(&index->lock);
    /* What is looked at in vain costs time too. */
    for (; runs->number < runs->end && giving.given < blocks_max && rc == KVT_OK; giving.given++) {
        uint32_t offset;

        giving.first = runs->number;
        giving.run = index_state_run(index, runs->number, &offset);
        /* In a page that was cut anew a run may lie across: it came later. */
        if (giving.run != NULL && offset == 0 && index_run_length(giving.run) > 0 &&
            !give_run(&giving))
            rc = KVT_NOMEM;
        if (rc == KVT_OK)
            runs->number = index_run_allocator_next(index, runs->number);
    }
    *done = rc == KVT_OK && runs->number >= runs->end;
    (void)pthread_mutex_unlock(&index->lock);
    return rc;
}
