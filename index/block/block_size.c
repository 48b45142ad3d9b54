#include "index/block/block_size.h"

#include <string.h>

#include "index/block/run_allocator.h"
#include "index/block/state.h"

enum { SIZES_FIRST = 16 };

/* Sizes of the blocks of one run. */
struct odd {
    uint32_t first;
    uint32_t capacity;
    uint16_t *codes;
};

static uint64_t
key_of(uint64_t value)
{
    value = (value ^ value >> 32) * UINT64_C(0xd6e8feb86659fd93);
    return (value ^ value >> 32) * UINT64_C(0x9e3779b97f4a7c15);
}

uint64_t
index_block_size_bytes(const struct index *index, uint16_t code)
{
    const _Atomic uint64_t *sizes = atomic_load_explicit(&index->sizes.sizes, memory_order_acquire);

    return sizes == NULL ? 0 : atomic_load_explicit(&sizes[code], memory_order_relaxed);
}

static bool
grow(struct index *index)
{
    struct index_block_sizes *all = &index->sizes;
    const uint32_t capacity = all->capacity == 0 ? SIZES_FIRST : all->capacity * 2;
    _Atomic uint64_t *sizes = index_memory_take(&index->memory, capacity, sizeof(*sizes));
    _Atomic uint64_t *old = atomic_load_explicit(&all->sizes, memory_order_relaxed);

    if (sizes == NULL)
        return false;
    for (uint32_t i = 0; i < all->count; i++)
        atomic_store_explicit(&sizes[i], atomic_load_explicit(&old[i], memory_order_relaxed),
                              memory_order_relaxed);
    atomic_store_explicit(&all->sizes, sizes, memory_order_release);
    index_epoch_retire(&index->epoch, (void *)(uintptr_t)old, all->capacity, sizeof(*sizes));
    all->capacity = capacity;
    return true;
}

enum kvt_err
index_block_size_code(struct index *index, uint64_t bytes, uint16_t *code)
{
    struct index_block_sizes *all = &index->sizes;
    struct index_hash_map_probe probe;
    uint32_t number = index_hash_map_first(&all->codes, key_of(bytes), &probe);

    *code = 0;
    while (number != INDEX_NONE && index_block_size_bytes(index, (uint16_t)number) != bytes)
        number = index_hash_map_next(&probe);
    if (number == INDEX_NONE) {
        if (all->count == INDEX_BLOCK_SIZES_MAX)
            return KVT_RANGE;
        if ((all->count == all->capacity && !grow(index)) ||
            !index_hash_map_reserve(&all->codes, key_of(bytes)))
            return KVT_FULL;
        number = all->count++;
        atomic_store_explicit(&atomic_load_explicit(&all->sizes, memory_order_relaxed)[number],
                              bytes, memory_order_relaxed);
        index_hash_map_add(&all->codes, key_of(bytes), number);
    }
    *code = (uint16_t)number;
    return KVT_OK;
}

void
index_block_size_init(struct index *index)
{
    index_hash_map_init(&index->sizes.codes, &index->memory);
    index_hash_map_init(&index->odd_sizes, &index->memory);
    index_record_pool_init(&index->odd_pool, &index->memory, sizeof(struct odd));
}

void
index_block_size_release(struct index *index)
{
    _Atomic uint64_t *sizes = atomic_load_explicit(&index->sizes.sizes, memory_order_relaxed);

    for (uint32_t i = 0; i < index->odd_pool.end; i++) {
        struct odd *odd = index_record_pool_at(&index->odd_pool, i);

        /* A free record has the number of the next one where `first` is, and no codes. */
        index_memory_give(&index->memory, odd->codes, odd->capacity, sizeof(*odd->codes));
    }
    index_memory_give(&index->memory, (void *)(uintptr_t)sizes, index->sizes.capacity,
                      sizeof(*sizes));
    index_hash_map_release(&index->sizes.codes);
    index_hash_map_release(&index->odd_sizes);
    index_record_pool_release(&index->odd_pool);
}

/* The run's own sizes; the probe stands on the entry. */
static struct odd *
find_odd(const struct index *index, uint32_t first, struct index_hash_map_probe *probe)
{
    /* The probe may be used to change the table; looking does not. */
    struct index_hash_map *slots = (struct index_hash_map *)(uintptr_t)&index->odd_sizes;
    uint32_t number = index_hash_map_first(slots, key_of(first), probe);

    while (number != INDEX_NONE) {
        struct odd *odd = index_record_pool_at(&index->odd_pool, number);

        if (odd->first == first)
            return odd;
        number = index_hash_map_next(probe);
    }
    return NULL;
}

uint64_t
index_block_size_of(const struct index *index, uint32_t first, uint32_t offset)
{
    uint32_t zero;
    const struct index_run *run = index_state_at(index, first, &zero);
    struct index_hash_map_probe probe;
    uint16_t code = atomic_load_explicit(&run->size, memory_order_relaxed);

    if (index_run_is(run, INDEX_RUN_ODD_SIZES))
        code = find_odd(index, first, &probe)->codes[offset];
    return index_block_size_bytes(index, code);
}

static struct odd *
add_odd(struct index *index, uint32_t first, struct index_run *run)
{
    const uint32_t capacity = index_run_allocator_capacity(index, first);
    uint16_t *codes = index_memory_take(&index->memory, capacity, sizeof(*codes));
    struct odd *odd;
    uint32_t number;

    if (codes == NULL || !index_record_pool_reserve(&index->odd_pool) ||
        !index_hash_map_reserve(&index->odd_sizes, key_of(first))) {
        index_memory_give(&index->memory, codes, capacity, sizeof(*codes));
        return NULL;
    }
    for (uint32_t i = 0; i < capacity; i++)
        codes[i] = atomic_load_explicit(&run->size, memory_order_relaxed);
    number = index_record_pool_take(&index->odd_pool);
    index_hash_map_add(&index->odd_sizes, key_of(first), number);
    odd = index_record_pool_at(&index->odd_pool, number);
    *odd = (struct odd){.first = first, .capacity = capacity, .codes = codes};
    index_run_set(run, INDEX_RUN_ODD_SIZES, true);
    return odd;
}

void
index_block_size_forget(struct index *index, uint32_t first)
{
    uint32_t zero;
    struct index_run *run = index_state_at(index, first, &zero);
    struct index_hash_map_probe probe;
    uint32_t number;
    struct odd *odd;

    if (!index_run_is(run, INDEX_RUN_ODD_SIZES))
        return;
    odd = find_odd(index, first, &probe);
    index_memory_give(&index->memory, odd->codes, odd->capacity, sizeof(*odd->codes));
    odd->codes = NULL;
    number = index_hash_map_number(&probe);
    index_hash_map_remove(&probe);
    index_record_pool_give(&index->odd_pool, number);
    index_run_set(run, INDEX_RUN_ODD_SIZES, false);
}

/* The totals of all that hold blocks of [from, to) follow from one size to another. */
static void
move_totals(struct index *index, const struct index_run *run, uint32_t from, uint32_t to,
            uint64_t old, uint64_t bytes)
{
    struct index_run_holders_place place;
    uint64_t cursor = 0;

    while (index_run_holders_next_read(&run->holders, &cursor, &place)) {
        const uint32_t begin = place.from > from ? place.from : from;
        const uint32_t end = place.to < to ? place.to : to;
        const uint32_t ranks = index_shards_ranks(index->shards, place.code);

        if (begin < end)
            atomic_fetch_add_explicit(&index_state_holder(index, place.holder)->bytes,
                                      (bytes - old) * (uint64_t)__builtin_popcount(ranks) *
                                          (end - begin),
                                      memory_order_relaxed);
    }
}

/* All blocks may have come to one size again. */
static void
collapse(struct index *index, uint32_t first, struct index_run *run, const struct odd *odd)
{
    const uint16_t code = odd->codes[0];

    for (uint32_t i = 1; i < index_run_length(run); i++)
        if (odd->codes[i] != code)
            return;
    atomic_store_explicit(&run->size, code, memory_order_relaxed);
    index_block_size_forget(index, first);
}

enum kvt_err
index_block_size_set(struct index *index, uint32_t first, uint32_t from, uint32_t to, uint16_t code)
{
    uint32_t zero;
    struct index_run *run = index_state_at(index, first, &zero);
    const uint64_t bytes = index_block_size_bytes(index, code);
    struct index_hash_map_probe probe;
    struct odd *odd = NULL;
    enum kvt_err rc = KVT_OK;

    if (index_run_is(run, INDEX_RUN_ODD_SIZES))
        odd = find_odd(index, first, &probe);
    else if (atomic_load_explicit(&run->size, memory_order_relaxed) == code)
        return KVT_OK;
    index_run_change(run);
    if (odd == NULL && from == 0 && to == index_run_length(run)) {
        move_totals(index, run, from, to, index_block_size_of(index, first, 0), bytes);
        atomic_store_explicit(&run->size, code, memory_order_relaxed);
    } else if (odd == NULL && (odd = add_odd(index, first, run)) == NULL) {
        rc = KVT_FULL;
    }
    for (uint32_t i = from; odd != NULL && i < to; i++) {
        move_totals(index, run, i, i + 1, index_block_size_bytes(index, odd->codes[i]), bytes);
        odd->codes[i] = code;
    }
    if (odd != NULL)
        collapse(index, first, run, odd);
    index_run_changed(run);
    return rc;
}
