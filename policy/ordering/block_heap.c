#include "policy/ordering/block_heap.h"

#include <assert.h>
#include <string.h>

#include "base/core/alloc.h"

#include "policy/ordering/block_queues.h"

void
policy_block_heap_init(struct policy_block_heap *heap)
{
    *heap = (struct policy_block_heap){.keys = NULL};
}

void
policy_block_heap_release(struct policy_block_heap *heap)
{
    kvt_free(heap->keys);
    kvt_free(heap->places);
    kvt_free(heap->members);
    policy_block_heap_init(heap);
}

enum kvt_err
policy_block_heap_reserve(struct policy_block_heap *heap, uint32_t count)
{
    struct policy_block_heap_key *keys;
    uint32_t *places;
    uint32_t *members;

    if (count <= heap->count)
        return KVT_OK;
    keys = kvt_realloc(heap->keys, count, sizeof(*keys));
    if (keys != NULL)
        heap->keys = keys;
    places = kvt_realloc(heap->places, count, sizeof(*places));
    if (places != NULL)
        heap->places = places;
    members = kvt_realloc(heap->members, count, sizeof(*members));
    if (members != NULL)
        heap->members = members;
    if (keys == NULL || places == NULL || members == NULL)
        return KVT_NOMEM;
    memset(keys + heap->count, 0, (size_t)(count - heap->count) * sizeof(*keys));
    for (uint32_t i = heap->count; i < count; i++)
        places[i] = POLICY_NONE;
    heap->count = count;
    return KVT_OK;
}

bool
policy_block_heap_holds(const struct policy_block_heap *heap, uint32_t block)
{
    return heap->places[block] != POLICY_NONE;
}

static bool
is_lower(const struct policy_block_heap *heap, uint32_t left, uint32_t right)
{
    const struct policy_block_heap_key a = heap->keys[left];
    const struct policy_block_heap_key b = heap->keys[right];

    return a.value < b.value || (!(b.value < a.value) && a.tie < b.tie);
}

static void
put(struct policy_block_heap *heap, uint32_t place, uint32_t block)
{
    heap->members[place] = block;
    heap->places[block] = place;
}

static void
move_up(struct policy_block_heap *heap, uint32_t place)
{
    const uint32_t block = heap->members[place];

    while (place > 0 && is_lower(heap, block, heap->members[(place - 1) / 2])) {
        put(heap, place, heap->members[(place - 1) / 2]);
        place = (place - 1) / 2;
    }
    put(heap, place, block);
}

static void
move_down(struct policy_block_heap *heap, uint32_t place)
{
    const uint32_t block = heap->members[place];

    for (;;) {
        uint32_t below = 2 * place + 1;

        if (below >= heap->member_count)
            break;
        if (below + 1 < heap->member_count &&
            is_lower(heap, heap->members[below + 1], heap->members[below]))
            below++;
        if (!is_lower(heap, heap->members[below], block))
            break;
        put(heap, place, heap->members[below]);
        place = below;
    }
    put(heap, place, block);
}

void
policy_block_heap_add(struct policy_block_heap *heap, uint32_t block)
{
    assert(block < heap->count && !policy_block_heap_holds(heap, block));
    put(heap, heap->member_count, block);
    heap->member_count++;
    move_up(heap, heap->member_count - 1);
}

void
policy_block_heap_set(struct policy_block_heap *heap, uint32_t block,
                      struct policy_block_heap_key key)
{
    assert(block < heap->count);
    heap->keys[block] = key;
    if (!policy_block_heap_holds(heap, block))
        return;
    move_up(heap, heap->places[block]);
    move_down(heap, heap->places[block]);
}

uint32_t
policy_block_heap_lowest(const struct policy_block_heap *heap)
{
    return heap->member_count == 0 ? POLICY_NONE : heap->members[0];
}

void
policy_block_heap_remove(struct policy_block_heap *heap, uint32_t block)
{
    const uint32_t place = heap->places[block];
    const uint32_t last = heap->members[heap->member_count - 1];

    assert(place < heap->member_count && heap->members[place] == block);
    heap->member_count--;
    heap->places[block] = POLICY_NONE;
    if (last == block)
        return;
    put(heap, place, last);
    move_up(heap, place);
    move_down(heap, heap->places[last]);
}
