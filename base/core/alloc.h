/*
 * base/core/alloc.h -- the only door to the heap.
 *
 * Why: every constructor must survive every failing allocation, and only a counter can prove it.
 * Ownership: as malloc/free.
 * Limits:    none of its own.
 */
#ifndef BASE_CORE_ALLOC_H
#define BASE_CORE_ALLOC_H

#include <stddef.h>

/** Zeroed memory for `count` things of `size` bytes, or NULL (also on overflow of the product). */
void *kvt_calloc(size_t count, size_t size);

/** As realloc(), for `count` things of `size` bytes; on NULL the old memory is untouched. */
void *kvt_realloc(void *memory, size_t count, size_t size);

/**
 * Room for `wanted` things of `size` bytes: an array that is too small is doubled, so that adding
 * one by one costs little.
 *
 * @param capacity  things there is room for, in and out; 0 where `array` is NULL
 * @return the array, which may have moved; NULL: no memory, and all is as it was
 */
void *kvt_grow(void *array, size_t *capacity, size_t wanted, size_t size);

/** `size` bytes aligned to `alignment` (a power of two, >= 8), not zeroed; free with kvt_free(). */
void *kvt_aligned(size_t alignment, size_t size);

char *kvt_strdup(const char *text);

/** NULL is allowed. */
void kvt_free(void *memory);

/** Tests: let `count` more allocations of this process succeed, then fail all.  SIZE_MAX = never.
 */
void kvt_alloc_fail_after(size_t count);

/** Tests: allocations not yet freed. */
size_t kvt_alloc_live(void);

#endif /* BASE_CORE_ALLOC_H */
