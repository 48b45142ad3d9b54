#include <assert.h>

#include "index/index.h"
#include "index/old_state.h"

enum { SKIP_MAX = 8 }; /* free records looked at for each one wanted, to bound a call's time */

void
index_state_copy_block(const struct index *index, const struct index_block_record *block,
                       struct index_block *out)
{
    *out = (struct index_block){
        .id = {.hash = block->hash, .parent = block->parent, .position = block->position},
        .tokens_hash = block->tokens_hash,
        .size = block->size,
    };
    for (uint32_t at = block->place_head; at != INDEX_NONE;) {
        const struct index_place_record *place = index_state_place(index, at);

        out->ranks |= place->ranks;
        at = place->block_next;
    }
}

enum kvt_err
index_get(struct index *index, uint32_t ns, uint64_t hash, struct index_view *view)
{
    struct index_slots_probe probe;
    uint32_t number;

    assert(index != NULL && view != NULL);
    view->place_count = 0;
    (void)pthread_rwlock_rdlock(&index->lock);
    number = index_state_find_block(index, ns, hash, &probe);
    if (number != INDEX_NONE) {
        const struct index_block_record *block = index_state_block(index, number);
        uint32_t count = 0;

        index_state_copy_block(index, block, &view->block);
        for (uint32_t at = block->place_head; at != INDEX_NONE && count < INDEX_PLACES_MAX;) {
            const struct index_place_record *place = index_state_place(index, at);

            view->places[count++] =
                (struct index_place){.holder = place->holder, .ranks = place->ranks};
            at = place->block_next;
        }
        view->place_count = block->place_count;
    }
    (void)pthread_rwlock_unlock(&index->lock);
    return number != INDEX_NONE ? KVT_OK : KVT_NOTFOUND;
}

size_t
index_children(struct index *index, uint32_t ns, uint64_t hash, uint64_t *children, size_t capacity)
{
    struct index_slots_probe probe;
    size_t count = 0;

    assert(index != NULL && (children != NULL || capacity == 0));
    (void)pthread_rwlock_rdlock(&index->lock);
    for (uint32_t at = index_state_find_children(index, ns, hash, &probe); at != INDEX_NONE;) {
        const struct index_block_record *child = index_state_block(index, at);

        if (count < capacity)
            children[count] = child->hash;
        count++;
        at = child->sibling_next;
    }
    (void)pthread_rwlock_unlock(&index->lock);
    return count;
}

/* The cursor is the number of the next place: records do not move, so what stays is seen. */
uint64_t
index_walk(struct index *index, uint64_t cursor, size_t max, index_walk_fn *callback, void *arg)
{
    size_t given = 0;
    size_t looked = 0;

    assert(index != NULL && callback != NULL && max > 0);
    (void)pthread_rwlock_rdlock(&index->lock);
    while (cursor < index->places.end && given < max && looked / SKIP_MAX < max) {
        const struct index_place_record *place = index_state_place(index, (uint32_t)cursor);

        if (place->ranks != 0) {
            const struct index_block_record *block = index_state_block(index, place->block);
            const struct index_block out = {
                .id = {.hash = block->hash, .parent = block->parent, .position = block->position},
                .tokens_hash = block->tokens_hash,
                .size = block->size,
                .ranks = place->ranks,
            };

            callback(arg, block->ns, place->holder, &out);
            given++;
        }
        looked++;
        cursor++;
    }
    if (cursor >= index->places.end)
        cursor = 0;
    (void)pthread_rwlock_unlock(&index->lock);
    return cursor;
}
