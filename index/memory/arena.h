/*
 * index/memory/arena.h -- memory for the large pieces of tables.
 *
 * Why: a look into a table is one random access, and with small pages it is two.  Pieces of a few
 * sizes that come and go lie here in huge pages, and a hole one leaves fits the next; the heap
 * would do neither.
 *
 * Ownership: the index's memory (index/memory/memory.h), which counts.
 * Threads:   under the index's lock.
 * Limits:    pieces of whole INDEX_ARENA_UNITs, at most 32 of them.
 */
#ifndef INDEX_MEMORY_ARENA_H
#define INDEX_MEMORY_ARENA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kvtier/error.h"

#define INDEX_ARENA_UNIT  ((size_t)64 << 10)
#define INDEX_ARENA_UNITS 32 /* of a chunk, which is a huge page */

struct index_arena {
    char *base;
    uint32_t *used;       /* of each chunk: bits of its units in use */
    uint32_t chunks;      /* that there is address space for */
    uint32_t chunks_open; /* readable and writable */
    uint32_t first_free;  /* all chunks before have no free unit */
};

/** KVT_OK or KVT_NOMEM. */
KVT_NODISCARD enum kvt_err index_arena_open(struct index_arena *arena, uint64_t bytes_max);
void index_arena_close(struct index_arena *arena);

/** A piece, or NULL: of a size that does not lie here, or no memory.  What is in it is anything. */
void *index_arena_take(struct index_arena *arena, size_t bytes);
void index_arena_give(struct index_arena *arena, void *what, size_t bytes);

/** The piece lies here. */
static inline bool
index_arena_has(const struct index_arena *arena, const void *what)
{
    return arena != NULL && (uintptr_t)what - (uintptr_t)arena->base <
                                arena->chunks * INDEX_ARENA_UNITS * INDEX_ARENA_UNIT;
}

#endif /* INDEX_MEMORY_ARENA_H */
