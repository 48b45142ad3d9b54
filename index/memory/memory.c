#include "index/memory/memory.h"

#include <assert.h>
#include <string.h>

#include "base/core/alloc.h"
#include "index/memory/address_space.h"

enum { CACHE_LINE = 64, CHUNKS_MAX = 1 << 20 };

#define CHUNK_BYTES (INDEX_ARENA_UNITS * INDEX_ARENA_UNIT)

_Static_assert(CHUNK_BYTES == INDEX_ADDRESS_SPACE_CHUNK, "a chunk is a huge page");

enum kvt_err
index_arena_open(struct index_arena *arena, uint64_t bytes_max)
{
    const uint64_t wanted = bytes_max / CHUNK_BYTES + 2;

    *arena = (struct index_arena){.base = NULL};
    arena->chunks = wanted < CHUNKS_MAX ? (uint32_t)wanted : CHUNKS_MAX;
    arena->used = kvt_calloc(arena->chunks, sizeof(*arena->used));
    arena->base = index_address_space_reserve(arena->chunks * CHUNK_BYTES, false);
    if (arena->used == NULL || arena->base == NULL) {
        index_arena_close(arena);
        return KVT_NOMEM;
    }
    return KVT_OK;
}

void
index_arena_close(struct index_arena *arena)
{
    index_address_space_release(arena->base, arena->chunks * CHUNK_BYTES);
    kvt_free(arena->used);
    *arena = (struct index_arena){.base = NULL};
}

static uint32_t
mask_of(unsigned units)
{
    return units == INDEX_ARENA_UNITS ? UINT32_MAX : (1u << units) - 1;
}

/* The first of so many free units side by side, or INDEX_ARENA_UNITS. */
static unsigned
find_units(uint32_t used, unsigned units)
{
    for (unsigned at = 0; at + units <= INDEX_ARENA_UNITS; at++)
        if ((used >> at & mask_of(units)) == 0)
            return at;
    return INDEX_ARENA_UNITS;
}

static void *
arena_take(struct index_arena *arena, size_t bytes)
{
    const unsigned units = (unsigned)(bytes / INDEX_ARENA_UNIT);

    if (units == 0 || units > INDEX_ARENA_UNITS || bytes % INDEX_ARENA_UNIT != 0)
        return NULL;
    while (arena->first_free < arena->chunks && arena->used[arena->first_free] == UINT32_MAX)
        arena->first_free++;
    for (uint32_t chunk = arena->first_free; chunk < arena->chunks; chunk++) {
        const unsigned at = find_units(arena->used[chunk], units);
        char *const memory = arena->base + chunk * CHUNK_BYTES;

        if (at == INDEX_ARENA_UNITS)
            continue;
        if (chunk >= arena->chunks_open) {
            if (!index_address_space_commit(memory, CHUNK_BYTES))
                return NULL;
            arena->chunks_open = chunk + 1;
        }
        arena->used[chunk] |= mask_of(units) << at;
        return memory + at * INDEX_ARENA_UNIT;
    }
    return NULL;
}

static void
arena_give(struct index_arena *arena, void *what, size_t bytes)
{
    const size_t at = (size_t)((char *)what - arena->base) / INDEX_ARENA_UNIT;
    const uint32_t chunk = (uint32_t)(at / INDEX_ARENA_UNITS);
    const uint32_t mask = mask_of((unsigned)(bytes / INDEX_ARENA_UNIT)) << at % INDEX_ARENA_UNITS;

    assert((arena->used[chunk] & mask) == mask);
    arena->used[chunk] &= ~mask;
    if (chunk < arena->first_free)
        arena->first_free = chunk;
    if (arena->used[chunk] == 0)
        index_address_space_decommit(arena->base + chunk * CHUNK_BYTES, CHUNK_BYTES);
}

/* The piece lies in the arena. */
static bool
arena_has(const struct index_arena *arena, const void *what)
{
    return arena != NULL && (uintptr_t)what - (uintptr_t)arena->base < arena->chunks * CHUNK_BYTES;
}

void *
index_memory_take(struct index_memory *memory, size_t count, size_t size)
{
    uint64_t bytes;
    void *what;

    if (__builtin_mul_overflow(count, size, &bytes) || memory->used > memory->max ||
        bytes > memory->max - memory->used)
        return NULL;
    what = kvt_calloc(count, size);
    if (what != NULL)
        memory->used += bytes;
    return what;
}

void *
index_memory_overdraw(struct index_memory *memory, size_t count, size_t size)
{
    const uint64_t beyond = memory->used > memory->max ? memory->used - memory->max : 0;
    uint64_t bytes;
    void *what;

    if (__builtin_mul_overflow(count, size, &bytes) || bytes > INDEX_MEMORY_OVERDRAFT ||
        beyond > INDEX_MEMORY_OVERDRAFT - bytes)
        return NULL;
    what = kvt_calloc(count, size);
    if (what != NULL)
        memory->used += bytes;
    return what;
}

bool
index_memory_charge(struct index_memory *memory, uint64_t bytes)
{
    if (memory->used > memory->max || bytes > memory->max - memory->used)
        return false;
    memory->used += bytes;
    return true;
}

void
index_memory_discharge(struct index_memory *memory, uint64_t bytes)
{
    assert(memory->used >= bytes);
    memory->used -= bytes;
}

void *
index_memory_take_lines(struct index_memory *memory, size_t count, size_t size)
{
    uint64_t bytes;
    void *what;

    if (__builtin_mul_overflow(count, size, &bytes) || !index_memory_charge(memory, bytes))
        return NULL;
    what = memory->arena == NULL ? NULL : arena_take(memory->arena, bytes);
    if (what == NULL)
        what = kvt_aligned(CACHE_LINE, bytes);
    if (what == NULL)
        index_memory_discharge(memory, bytes);
    else
        memset(what, 0, bytes);
    return what;
}

void
index_memory_give(struct index_memory *memory, void *what, size_t count, size_t size)
{
    if (what == NULL)
        return;
    assert(memory->used >= count * size);
    memory->used -= count * size;
    if (arena_has(memory->arena, what))
        arena_give(memory->arena, what, count * size);
    else
        kvt_free(what);
}
