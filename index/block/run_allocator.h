/*
 * index/block/run_allocator.h -- numbers of blocks: pages, and the runs in them.
 *
 * Why: a block's number is its place in seq[] and tok[], so numbers are handed out as memory is: a
 * run at a time, from pages that hold runs of one capacity.  The arrays are address space reserved
 * once, and memory only where pages are in use.
 *
 * Ownership: the index.
 * Threads:   under the index's lock; what readers may see is in index/block/state.h.
 * Limits:    INDEX_NUMBERS_MAX numbers, and what `bytes_max` of memory could hold.
 */
#ifndef INDEX_BLOCK_RUN_ALLOCATOR_H
#define INDEX_BLOCK_RUN_ALLOCATOR_H

#include "index/block/state.h"

/** KVT_OK or KVT_NOMEM (no address space). */
KVT_NODISCARD enum kvt_err index_run_allocator_open(struct index *index);
void index_run_allocator_close(struct index *index);

/** The class for `blocks` blocks of a sequence: its capacity is at most a third larger (what
 *  comes later grows into it), or it is smaller and the rest goes to another run. */
unsigned index_run_allocator_class(uint32_t blocks);

/**
 * Take a free run of this class, or, when there is no memory for a page, of another.  Its length is
 * 0; what else it says is of former blocks.
 *
 * @return its first number, or 0: no memory, or no number
 */
uint32_t index_run_allocator_take(struct index *index, unsigned class_, bool tokens);

/** Give a run back, of length 0 and unlinked; its page goes with its last run. */
void index_run_allocator_give(struct index *index, uint32_t first);

/** Make tok[] of the page of a number writable; false: no memory. */
bool index_run_allocator_add_tokens(struct index *index, uint32_t number);

static inline bool
index_run_allocator_tokens(struct index *index, uint32_t number)
{
    return index->allocator.pages[number >> INDEX_PAGE_SHIFT].tok_counted ||
           index_run_allocator_add_tokens(index, number);
}

/** How many blocks the run of a number has room for. */
static inline uint32_t
index_run_allocator_capacity(const struct index *index, uint32_t number)
{
    const uintptr_t entry = atomic_load_explicit(&index->allocator.runs[number >> INDEX_PAGE_SHIFT],
                                                 memory_order_relaxed);

    return index_classes[(entry & 63) - 1].capacity;
}

/**
 * The run behind that of a number, maybe a free one; or the first number of the next page.  Who
 * goes on from there while the index changes misses nothing that is there all the time: a block
 * keeps its number, and its page is not cut anew.
 */
static inline uint32_t
index_run_allocator_next(const struct index *index, uint32_t number)
{
    const uint32_t page = number >> INDEX_PAGE_SHIFT;
    const uint32_t in_page = number & (INDEX_PAGE_BLOCKS - 1);
    uint32_t capacity;

    if (atomic_load_explicit(&index->allocator.runs[page], memory_order_relaxed) == 0)
        return (page + 1) * INDEX_PAGE_BLOCKS;
    capacity = index_run_allocator_capacity(index, number);
    if (in_page / capacity + 1 >= index->allocator.pages[page].fresh)
        return (page + 1) * INDEX_PAGE_BLOCKS;
    return number - in_page % capacity + capacity;
}

/** Give the system what empty pages still occupy. */
void index_run_allocator_trim(struct index *index);

/** The hits and last reads of the page's blocks, made now; NULL: no memory. */
struct index_block_hits *index_run_allocator_uses(struct index *index, uint32_t number);

#endif /* INDEX_BLOCK_RUN_ALLOCATOR_H */
