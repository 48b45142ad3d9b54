#include "index/holder/shards.h"

#include <assert.h>
#include <stdatomic.h>
#include <stddef.h>

enum { SLOTS = 8192 }; /* open addressing, at most half full */

_Static_assert(SLOTS >= 2 * INDEX_SHARDS_MAX, "a probe ends soon");

struct index_shards {
    _Atomic uint32_t ranks[INDEX_SHARDS_MAX + 1]; /* by code */
    uint16_t codes[SLOTS];                        /* by bitmap; 0: a free slot */
    uint32_t count;
};

enum kvt_err
index_shards_new(struct index_shards **out, struct index_memory *memory)
{
    assert(out != NULL && memory != NULL);
    *out = index_memory_take(memory, 1, sizeof(**out));
    return *out != NULL ? KVT_OK : KVT_NOMEM;
}

void
index_shards_free(struct index_shards *shards, struct index_memory *memory)
{
    index_memory_give(memory, shards, 1, sizeof(*shards));
}

uint32_t
index_shards_ranks(const struct index_shards *shards, uint32_t code)
{
    return atomic_load_explicit(&shards->ranks[code & INDEX_SHARDS_MAX], memory_order_relaxed);
}

enum kvt_err
index_shards_code(struct index_shards *shards, uint32_t ranks, uint32_t *code)
{
    uint32_t slot = (ranks * UINT32_C(0x9e3779b9)) >> 19;

    assert(ranks != 0);
    while (shards->codes[slot] != 0) {
        *code = shards->codes[slot];
        if (index_shards_ranks(shards, *code) == ranks)
            return KVT_OK;
        slot = (slot + 1) % SLOTS;
    }
    *code = 0;
    if (shards->count == INDEX_SHARDS_MAX)
        return KVT_RANGE;
    *code = ++shards->count;
    shards->codes[slot] = (uint16_t)*code;
    atomic_store_explicit(&shards->ranks[*code], ranks, memory_order_relaxed);
    return KVT_OK;
}
