#include <assert.h>

#include "base/alloc.h"
#include "index/index.h"
#include "index/old_state.h"

enum { AHEAD = 8 }; /* hashes are known in advance: their slots are loaded this many steps early */

static void
prefetch(const struct index *index, uint32_t ns, const uint64_t *hashes, size_t count, size_t at)
{
    if (at + AHEAD < count)
        index_slots_prefetch(&index->block_table, index_state_block_key(ns, hashes[at + AHEAD]));
}

/* Holders of a block into `matches`, each with length 1; at most `capacity`. */
static size_t
first_holders(const struct index *index, uint32_t block, struct index_match *matches,
              size_t capacity)
{
    size_t count = 0;

    for (uint32_t at = index_state_block(index, block)->place_head;
         at != INDEX_NONE && count < capacity;) {
        const struct index_place_record *place = index_state_place(index, at);

        matches[count++] = (struct index_match){.holder = place->holder, .blocks = 1};
        at = place->block_next;
    }
    return count;
}

/*
 * Follow the holders in matches[0, count) down the sequence.  Those still in the race stand in
 * front; whoever lacks a block leaves to the back of that part, so that in the end the array runs
 * from the longest prefix to the shortest without sorting.
 */
static void
race(struct index *index, uint32_t ns, const uint64_t *hashes, size_t length,
     struct index_match *matches, size_t count)
{
    struct index_slots_probe probe;
    size_t active = count;

    for (size_t step = 1; step < length && active > 0; step++) {
        uint32_t block;

        prefetch(index, ns, hashes, length, step);
        block = index_state_find_block(index, ns, hashes[step], &probe);
        if (block == INDEX_NONE)
            return;
        for (size_t i = 0; i < active;) {
            const struct index_match match = matches[i];

            if (index_state_find_place(index, block, match.holder, &probe) != INDEX_NONE) {
                matches[i++].blocks++;
            } else {
                matches[i] = matches[--active];
                matches[active] = match;
            }
        }
    }
}

size_t
index_find_matches(struct index *index, uint32_t ns, const uint64_t *hashes, size_t count,
                   struct index_match *matches, size_t capacity)
{
    struct index_match *room = matches;
    struct index_slots_probe probe;
    size_t holders = 0;
    uint32_t block;

    assert(index != NULL && (hashes != NULL || count == 0));
    if (count == 0 || capacity == 0)
        return 0;
    (void)pthread_rwlock_rdlock(&index->lock);
    block = index_state_find_block(index, ns, hashes[0], &probe);
    if (block != INDEX_NONE) {
        holders = index_state_block(index, block)->place_count;
        /* All of them must run the race, or the longest might be left out.  Without memory for
         * that, those that fit run. */
        if (holders > capacity) {
            room = kvt_calloc(holders, sizeof(*room));
            if (room == NULL) {
                room = matches;
                holders = capacity;
            }
        }
        holders = first_holders(index, block, room, holders);
        race(index, ns, hashes, count, room, holders);
    }
    (void)pthread_rwlock_unlock(&index->lock);
    if (room != matches) {
        holders = capacity;
        for (size_t i = 0; i < holders; i++)
            matches[i] = room[i];
        kvt_free(room);
    }
    return holders;
}

void
index_match(struct index *index, uint32_t ns, const uint64_t *hashes, size_t count, uint8_t *masks)
{
    struct index_slots_probe probe;

    assert(index != NULL && (hashes != NULL || count == 0));
    (void)pthread_rwlock_rdlock(&index->lock);
    for (size_t i = 0; i < count; i++) {
        uint32_t block;

        prefetch(index, ns, hashes, count, i);
        block = index_state_find_block(index, ns, hashes[i], &probe);
        masks[i] = block == INDEX_NONE ? 0 : (uint8_t)index_state_block(index, block)->tiers;
    }
    (void)pthread_rwlock_unlock(&index->lock);
}
