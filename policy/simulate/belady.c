#include "policy/simulate/belady.h"

#include <assert.h>

#include "base/core/alloc.h"

#include "policy/ordering/block_heap.h"
#include "policy/ordering/block_queues.h"

#define NEVER UINT32_MAX

struct policy_belady {
    const struct policy_workload *workload;
    uint32_t *next; /* by read: the request that reads the block again, or NEVER */
    struct policy_block_heap heap;
};

void
policy_belady_free(struct policy_belady *best)
{
    if (best == NULL)
        return;
    kvt_free(best->next);
    policy_block_heap_release(&best->heap);
    kvt_free(best);
}

/* From the end, with each block's request seen last; the heap's ties are not in use yet. */
static void
find_next(struct policy_belady *best)
{
    uint64_t at = policy_workload_reads(best->workload);

    for (uint32_t i = 0; i < best->heap.count; i++)
        best->heap.keys[i].tie = NEVER;
    for (size_t i = policy_workload_requests(best->workload); i-- > 0;) {
        const struct policy_workload_request request = policy_workload_request(best->workload, i);

        for (uint32_t k = request.count; k-- > 0;) {
            best->next[--at] = (uint32_t)best->heap.keys[request.blocks[k]].tie;
            best->heap.keys[request.blocks[k]].tie = i;
        }
    }
    assert(at == 0);
}

enum kvt_err
policy_belady_new(struct policy_belady **out, const struct policy_workload *workload)
{
    struct policy_belady *best = kvt_calloc(1, sizeof(*best));

    *out = NULL;
    if (best == NULL)
        return KVT_NOMEM;
    assert(policy_workload_requests(workload) < NEVER);
    best->workload = workload;
    policy_block_heap_init(&best->heap);
    best->next = kvt_calloc(policy_workload_reads(workload) + 1, sizeof(*best->next));
    if (best->next == NULL ||
        policy_block_heap_reserve(&best->heap, policy_workload_blocks(workload)) != KVT_OK) {
        policy_belady_free(best);
        return KVT_NOMEM;
    }
    find_next(best);
    *out = best;
    return KVT_OK;
}

/* Latest need first; among equals the deepest. */
static struct policy_block_heap_key
key_of(uint32_t next, uint32_t position)
{
    return (struct policy_block_heap_key){-(double)next, UINT32_MAX - position};
}

static bool
read_one(struct policy_belady *best, uint64_t capacity, uint32_t block,
         struct policy_block_heap_key key, bool again)
{
    struct policy_block_heap *heap = &best->heap;
    const bool hit = policy_block_heap_holds(heap, block);
    uint32_t out;

    if (hit && !again)
        policy_block_heap_remove(heap, block);
    else if (hit)
        policy_block_heap_set(heap, block, key);
    if (hit || !again || capacity == 0)
        return hit;
    if (heap->member_count == capacity) {
        out = policy_block_heap_lowest(heap);
        if (key.value < heap->keys[out].value ||
            (!(heap->keys[out].value < key.value) && key.tie <= heap->keys[out].tie))
            return false; /* it would be the next to leave: it need not come */
        policy_block_heap_remove(heap, out);
    }
    policy_block_heap_set(heap, block, key);
    policy_block_heap_add(heap, block);
    return false;
}

uint64_t
policy_belady_hits(struct policy_belady *best, uint64_t capacity)
{
    uint64_t hits = 0;
    uint64_t at = 0;

    while (best->heap.member_count > 0)
        policy_block_heap_remove(&best->heap, best->heap.members[best->heap.member_count - 1]);
    for (size_t i = 0; i < policy_workload_requests(best->workload); i++) {
        const struct policy_workload_request request = policy_workload_request(best->workload, i);

        for (uint32_t k = 0; k < request.count; k++, at++)
            hits += read_one(best, capacity, request.blocks[k], key_of(best->next[at], k),
                             best->next[at] != NEVER);
    }
    return hits;
}

double
policy_belady_cost(const struct policy_belady *best, uint64_t capacity, uint64_t hits,
                   const struct kvt_ordering_prices *prices)
{
    const uint64_t blocks = policy_workload_blocks(best->workload);
    const uint64_t known = policy_workload_reads(best->workload) - blocks;

    return (double)(known - hits) * prices->cold_read + (double)hits * prices->hot_read +
           (double)(blocks > capacity ? blocks - capacity : 0) * prices->move;
}
