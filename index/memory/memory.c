#include "index/memory/memory.h"

#include <assert.h>
#include <string.h>

#include "base/core/alloc.h"

enum { CACHE_LINE = 64 };

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
    what = memory->arena == NULL ? NULL : index_arena_take(memory->arena, bytes);
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
    if (index_arena_has(memory->arena, what))
        index_arena_give(memory->arena, what, count * size);
    else
        kvt_free(what);
}
