#include "index/memory.h"

#include <assert.h>

#include "base/alloc.h"

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
    uint64_t bytes;
    void *what;

    if (__builtin_mul_overflow(count, size, &bytes))
        return NULL;
    what = kvt_calloc(count, size);
    if (what != NULL)
        memory->used += bytes;
    return what;
}

void
index_memory_give(struct index_memory *memory, void *what, size_t count, size_t size)
{
    if (what == NULL)
        return;
    assert(memory->used >= count * size);
    memory->used -= count * size;
    kvt_free(what);
}
