/*
 * index/memory/memory.h -- the index's ceiling.
 *
 * Why: every byte the index takes is counted before it is taken, so that full is an answer.
 * Ownership: the index.
 * Threads:   under the index's lock.
 * Limits:    `max` bytes.  The heap's own bookkeeping is not counted.
 */
#ifndef INDEX_MEMORY_MEMORY_H
#define INDEX_MEMORY_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kvtier/error.h"

/*
 * Memory for the large pieces of tables.  A lookup in a table is one random access, and with small
 * pages it is two.  Pieces of a few sizes that come and go lie here in huge pages, and a hole one
 * leaves fits the next.  Pieces are whole INDEX_ARENA_UNITs, at most INDEX_ARENA_UNITS of them.
 */
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

#define INDEX_MEMORY_OVERDRAFT (UINT64_C(64) << 20) /* what removals may take beyond `max` */

struct index_memory {
    uint64_t used;
    uint64_t max;
    struct index_arena *arena; /* where large pieces lie; NULL: on the heap */
};

/** Zeroed memory, or NULL: beyond the ceiling, or the heap is out. */
void *index_memory_take(struct index_memory *memory, size_t count, size_t size);

/** The same beyond the ceiling too: what a removal needs, so that full never keeps what is gone.
 *  NULL: the heap is out, or INDEX_MEMORY_OVERDRAFT is. */
void *index_memory_overdraw(struct index_memory *memory, size_t count, size_t size);

/** As index_memory_take(), aligned to cache lines. */
void *index_memory_take_lines(struct index_memory *memory, size_t count, size_t size);

/** Count memory that comes from elsewhere; false: beyond the ceiling, nothing is counted. */
bool index_memory_charge(struct index_memory *memory, uint64_t bytes);
void index_memory_discharge(struct index_memory *memory, uint64_t bytes);

/** NULL is allowed; then nothing is given back. */
void index_memory_give(struct index_memory *memory, void *what, size_t count, size_t size);

#endif /* INDEX_MEMORY_MEMORY_H */
