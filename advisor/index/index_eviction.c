#include "advisor/index/index_eviction.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/log.h"

enum {
    CALLS_MAX = 16,   /* of the index, for one group */
    BLOCK_BYTES = 16, /* of RAM that a block leaves, at least */
};

/* A run as the index gave it; it must not be called from there. */
struct piece {
    struct index_run_view run;
    size_t word; /* its hashes, and then its token hashes, in `words` */
    size_t held; /* its holders in `held` */
    bool tokens;
};

struct advisor_index_eviction {
    struct advisor_ram_index *memory;
    struct index_coldest *coldest; /* NULL: none was made yet */
    struct piece *pieces;
    uint64_t *words;
    struct index_held *held;
    size_t piece_count;
    size_t piece_capacity;
    size_t word_count;
    size_t word_capacity;
    size_t held_count;
    size_t held_capacity;
    size_t limit; /* of the group */
    bool busy;    /* until enough is free again */
    bool stuck;   /* nothing was left to evict, and that was said */
};

enum kvt_err
advisor_index_eviction_new(struct advisor_index_eviction **out, struct advisor_ram_index *memory)
{
    *out = kvt_calloc(1, sizeof(**out));
    if (*out == NULL)
        return KVT_NOMEM;
    (*out)->memory = memory;
    (*out)->limit = ADVISOR_CHANGE_GROUP_OPS_MAX;
    return KVT_OK;
}

void
advisor_index_eviction_free(struct advisor_index_eviction *evict)
{
    if (evict == NULL)
        return;
    index_coldest_free(evict->coldest);
    kvt_free(evict->pieces);
    kvt_free(evict->words);
    kvt_free(evict->held);
    kvt_free(evict);
}

/* ---- what the index gives ---- */

static bool
reserve_piece(struct advisor_index_eviction *evict, const struct index_run_view *run)
{
    void *pieces = kvt_grow(evict->pieces, &evict->piece_capacity, evict->piece_count + 1,
                            sizeof(*evict->pieces));
    void *words = kvt_grow(evict->words, &evict->word_capacity,
                           evict->word_count + 2 * (size_t)run->count, sizeof(*evict->words));
    void *held = kvt_grow(evict->held, &evict->held_capacity, evict->held_count + run->held_count,
                          sizeof(*evict->held));

    if (pieces != NULL)
        evict->pieces = pieces;
    if (words != NULL)
        evict->words = words;
    if (held != NULL)
        evict->held = held;
    return pieces != NULL && words != NULL && held != NULL;
}

/* What does not fit stays where it is: a piece is evicted for itself. */
static void
keep_piece(void *arg, const struct index_run_view *run)
{
    struct advisor_index_eviction *evict = arg;

    if (!reserve_piece(evict, run))
        return;
    evict->pieces[evict->piece_count++] = (struct piece){.run = *run,
                                                         .word = evict->word_count,
                                                         .held = evict->held_count,
                                                         .tokens = run->tokens != NULL};
    memcpy(&evict->words[evict->word_count], run->hashes, run->count * sizeof(uint64_t));
    if (run->tokens != NULL)
        memcpy(&evict->words[evict->word_count + run->count], run->tokens,
               run->count * sizeof(uint64_t));
    evict->word_count += 2 * run->count;
    memcpy(&evict->held[evict->held_count], run->held, run->held_count * sizeof(*run->held));
    evict->held_count += run->held_count;
}

/* In the store's numbers; the loader's own holder has nothing any more. */
static enum kvt_err
evict_piece(struct advisor_index_eviction *evict, struct piece *piece,
            struct advisor_event_log *log)
{
    const struct advisor_name_table *names = evict->memory->names;
    struct index_held *held = &evict->held[piece->held];

    for (uint32_t i = 0; i < piece->run.held_count; i++) {
        held[i].holder = advisor_name_table_store_holder(names, held[i].holder);
        assert(held[i].holder != ADVISOR_NAME_TABLE_NOBODY);
    }
    piece->run.ns = advisor_name_table_store_namespace(names, piece->run.ns);
    assert(piece->run.ns != ADVISOR_NAME_TABLE_NOBODY);
    piece->run.hashes = &evict->words[piece->word];
    piece->run.tokens = piece->tokens ? piece->run.hashes + piece->run.count : NULL;
    piece->run.held = held;
    return advisor_evicted_evict(evict->memory->cold, log, &piece->run);
}

/* ---- the group ---- */

static size_t
evict_pieces(struct advisor_index_eviction *evict, struct advisor_event_log *log)
{
    enum kvt_err rc = KVT_OK;

    for (size_t i = 0; i < evict->piece_count && rc == KVT_OK; i++)
        rc = evict_piece(evict, &evict->pieces[i], log);
    evict->piece_count = evict->word_count = evict->held_count = 0;
    return advisor_event_log_count(log);
}

/* Put the oldest, of so many bytes, into the group's log; returns how many pairs, 0: there is
 * nothing. */
static size_t
evict_oldest(struct advisor_index_eviction *evict, struct advisor_event_log *log, uint64_t bytes)
{
    const uint64_t wanted = 1 + bytes / BLOCK_BYTES;
    const size_t pairs =
        wanted < ADVISOR_INDEX_EVICTION_PAIRS ? (size_t)wanted : ADVISOR_INDEX_EVICTION_PAIRS;
    enum kvt_err rc = KVT_OK;
    size_t total = 0;

    for (int calls = 0; calls < CALLS_MAX && total == 0 && rc == KVT_OK; calls++)
        rc = index_coldest_next(evict->coldest, pairs, keep_piece, evict, &total);
    return evict_pieces(evict, log);
}

/* The same for what keeps pages from being empty. */
static void
evict_pages(struct advisor_index_eviction *evict, struct advisor_event_log *log)
{
    size_t total;

    if (index_coldest_pages(evict->coldest, ADVISOR_INDEX_EVICTION_PAIRS / 4, keep_piece, evict,
                            &total) == KVT_OK)
        (void)evict_pieces(evict, log);
}

/* What is free: for blocks like those that left, and for all there is to be kept. */
struct room {
    uint64_t blocks;
    uint64_t all;
};

/* It is not looked for in pages while there is `enough`. */
static struct room
find_room(struct index *index, const struct index_stats *stats, uint64_t enough)
{
    const uint64_t left = stats->bytes < stats->bytes_max ? stats->bytes_max - stats->bytes : 0;
    struct room room = {left, left};
    uint64_t pages;

    if (left < enough) {
        room.blocks += index_room(index, &pages);
        room.all += pages;
    }
    return room;
}

static void
say_stuck(struct advisor_index_eviction *evict, uint64_t free, uint64_t max)
{
    if (evict->stuck)
        return;
    evict->stuck = true;
    kvt_log_warn("advisor.evict", "stuck",
                 "%" PRIu64 " of the index's %" PRIu64
                 " bytes are free, and nothing more can leave "
                 "them: raise index.max",
                 free, max);
}

/* Evict what should go; false: there is no headroom. */
static bool
make_headroom(struct advisor_index_eviction *evict, struct advisor_event_log *log, uint64_t *free)
{
    struct index_stats stats;
    struct room room;
    uint64_t headroom;

    index_stats(evict->memory->index, &stats);
    headroom = stats.bytes_max / 16;
    if (headroom > ADVISOR_INDEX_EVICTION_HEADROOM)
        headroom = ADVISOR_INDEX_EVICTION_HEADROOM;
    room = find_room(evict->memory->index, &stats, 3 * headroom);
    *free = room.blocks;
    if (room.all < headroom / 2)
        evict_pages(evict, log);
    if (room.blocks < 2 * headroom)
        evict->busy = true;
    if (room.blocks >= 3 * headroom)
        evict->busy = evict->stuck = false;
    if (!evict->busy)
        return true;
    if (advisor_event_log_count(log) > 0 ||
        evict_oldest(evict, log, 3 * headroom - room.blocks) > 0)
        return room.blocks >= headroom;
    say_stuck(evict, room.blocks, stats.bytes_max);
    return true;
}

bool
advisor_index_eviction_step(struct advisor_index_eviction *evict, struct advisor_event_log *log)
{
    uint64_t free;
    bool room;

    assert(advisor_event_log_count(log) == 0);
    evict->limit = ADVISOR_CHANGE_GROUP_OPS_MAX;
    if (!advisor_ram_index_whole(evict->memory))
        return true;
    if (evict->coldest == NULL &&
        index_coldest_new(&evict->coldest, evict->memory->index, KVT_TIER_G4) != KVT_OK)
        return true;
    room = make_headroom(evict, log, &free);
    if (free / ADVISOR_INDEX_EVICTION_CHANGE < evict->limit)
        evict->limit = 1 + free / ADVISOR_INDEX_EVICTION_CHANGE;
    evict->limit += advisor_event_log_count(log);
    return room;
}

size_t
advisor_index_eviction_limit(const struct advisor_index_eviction *evict)
{
    return evict->limit;
}
