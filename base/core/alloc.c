#include "base/core/alloc.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { GROW_FIRST = 16 };

/* Two counters for the tests; relaxed, because nothing else is ordered by them. */
static _Atomic size_t live_count;
static _Atomic size_t budget_count = SIZE_MAX; /* SIZE_MAX: never fail */

/* Take one allocation from the budget; false when the tests want this one to fail. */
static bool
take_budget(void)
{
    size_t left = atomic_load_explicit(&budget_count, memory_order_relaxed);

    while (left != SIZE_MAX) {
        if (left == 0)
            return false;
        if (atomic_compare_exchange_weak_explicit(&budget_count, &left, left - 1,
                                                  memory_order_relaxed, memory_order_relaxed))
            break;
    }
    return true;
}

static void *
counted(void *memory)
{
    if (memory != NULL)
        atomic_fetch_add_explicit(&live_count, 1, memory_order_relaxed);
    return memory;
}

/* The bytes of an array, or false when no object can be that large.  Zero becomes one byte: NULL
 * must have one meaning only, and calloc(0) may give it another. */
static bool
array_size(size_t count, size_t size, size_t *bytes)
{
    if (__builtin_mul_overflow(count, size, bytes) || *bytes > PTRDIFF_MAX)
        return false;
    if (*bytes == 0)
        *bytes = 1;
    return true;
}

void *
kvt_calloc(size_t count, size_t size)
{
    size_t bytes;

    if (!array_size(count, size, &bytes) || !take_budget())
        return NULL;
    return counted(calloc(1, bytes));
}

void *
kvt_realloc(void *memory, size_t count, size_t size)
{
    size_t bytes;
    void *grown;

    if (!array_size(count, size, &bytes) || !take_budget())
        return NULL;
    grown = realloc(memory, bytes);
    return memory == NULL ? counted(grown) : grown;
}

void *
kvt_grow(void *array, size_t *capacity, size_t wanted, size_t size)
{
    size_t room = *capacity == 0 ? GROW_FIRST : *capacity;
    void *grown;

    if (array != NULL && wanted <= *capacity)
        return array;
    while (room < wanted)
        room = room > SIZE_MAX / 2 ? wanted : 2 * room;
    grown = kvt_realloc(array, room, size);
    if (grown != NULL)
        *capacity = room;
    return grown;
}

void *
kvt_aligned(size_t alignment, size_t size)
{
    void *memory = NULL;

    assert(alignment >= 8 && (alignment & (alignment - 1)) == 0);
    if (!take_budget() || posix_memalign(&memory, alignment, size == 0 ? 1 : size) != 0)
        return NULL;
    return counted(memory);
}

char *
kvt_strdup(const char *text)
{
    const size_t size = strlen(text) + 1;
    char *copy = kvt_calloc(size, 1);

    if (copy != NULL)
        memcpy(copy, text, size);
    return copy;
}

void
kvt_free(void *memory)
{
    if (memory == NULL)
        return;
    atomic_fetch_sub_explicit(&live_count, 1, memory_order_relaxed);
    free(memory);
}

void
kvt_alloc_fail_after(size_t count)
{
    atomic_store_explicit(&budget_count, count, memory_order_relaxed);
}

size_t
kvt_alloc_live(void)
{
    return atomic_load_explicit(&live_count, memory_order_relaxed);
}
