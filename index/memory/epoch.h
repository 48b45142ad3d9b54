/*
 * index/memory/epoch.h -- freeing what readers may still be looking at.
 *
 * Why: readers take no lock, so memory that was replaced is kept until every reader that could have
 * seen it is gone.  A reader writes the current epoch into a slot of its own while it reads; the
 * writer retires memory with the epoch of that moment and frees it when no slot is that old.
 *
 * Ownership: retired memory belongs to the epoch until it is freed.
 * Threads:   enter and leave on any thread; retire, advance and release under the index's lock.
 * Limits:    INDEX_EPOCH_READERS_MAX readers at one time; one more waits until one leaves.
 */
#ifndef INDEX_MEMORY_EPOCH_H
#define INDEX_MEMORY_EPOCH_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "index/memory/memory.h"

#define INDEX_EPOCH_READERS_MAX 128
#define INDEX_EPOCH_RETIRED_MAX 4096 /* pieces of memory kept for readers; a power of two */

struct index_epoch_slot {
    _Alignas(64) _Atomic uint64_t epoch; /* 0: nobody reads here */
};

struct index_epoch_retired {
    void *what;
    uint64_t bytes;
    uint64_t epoch;
};

struct index_epoch {
    struct index_memory *memory;
    _Atomic uint64_t now;
    uint32_t retired_head; /* of a ring, the oldest first */
    uint32_t retired_count;
    struct index_epoch_retired retired[INDEX_EPOCH_RETIRED_MAX];
    struct index_epoch_slot slots[INDEX_EPOCH_READERS_MAX];
};

void index_epoch_init(struct index_epoch *epoch, struct index_memory *memory);
/** Free what is retired; nobody may be reading. */
void index_epoch_release(struct index_epoch *epoch);

/** Begin to read; returns the slot for leave.  Whoever reads must not wait for the index's lock:
 *  the writer may be waiting for readers. */
unsigned index_epoch_enter(struct index_epoch *epoch);
void index_epoch_leave(struct index_epoch *epoch, unsigned slot);

/**
 * Give memory back (index_memory_give()) once nobody can see it any more; NULL is allowed.  Without
 * room to remember it, waits for the readers of this moment.
 */
void index_epoch_retire(struct index_epoch *epoch, void *what, size_t count, size_t size);

/** Free what has become free. */
void index_epoch_advance(struct index_epoch *epoch);

#endif /* INDEX_MEMORY_EPOCH_H */
