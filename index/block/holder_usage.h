/*
 * index/block/holder_usage.h -- how much a holder has in a namespace, and in which pages.
 *
 * Why: a holder loses what it has in one namespace at once, often, and often it has little or
 * nothing there: that must not cost a look at all that others have.  A record is there as long as
 * the holder has a block in the namespace.
 *
 * Ownership: the index.
 * Threads:   under the index's lock.
 * Limits:    one for each (holder, namespace) with blocks, of the memory's ceiling.  A page is
 *            known by one of INDEX_HOLDER_USAGE_BITS bits, so that a large index has several of
 *            each.
 */
#ifndef INDEX_BLOCK_HOLDER_USAGE_H
#define INDEX_BLOCK_HOLDER_USAGE_H

#include "index/block/state.h"

#define INDEX_HOLDER_USAGE_BITS 256 /* a power of two */

struct index_holder_usage {
    uint32_t holder;
    uint32_t ns;
    uint64_t blocks;
    uint32_t first; /* pages that were stored to since there were no blocks: all lie from here */
    uint32_t last;  /* to here, */
    uint64_t bits[INDEX_HOLDER_USAGE_BITS / 64]; /* and by their numbers, modulo */
};

void index_holder_usage_init(struct index *index);
void index_holder_usage_release(struct index *index);

/** NULL: the holder has nothing there. */
struct index_holder_usage *index_holder_usage_find(struct index *index, uint32_t holder,
                                                   uint32_t ns);
/** The same, made where there is none; NULL: no memory.  It stays where it is until it goes. */
struct index_holder_usage *index_holder_usage_make(struct index *index, uint32_t holder,
                                                   uint32_t ns);
/** Drop a record without blocks. */
void index_holder_usage_settle(struct index *index, struct index_holder_usage *usage);

/** `pairs` blocks came, in the page of the block `number`. */
void index_holder_usage_add(struct index_holder_usage *usage, uint32_t pairs, uint32_t number);
/** `pairs` blocks went; with the last one, the record. */
void index_holder_usage_take(struct index *index, uint32_t holder, uint32_t ns, uint32_t pairs);

/** The first page from `page` on that may have some of the blocks; UINT32_MAX: none. */
uint32_t index_holder_usage_page(const struct index_holder_usage *usage, uint32_t page);

#endif /* INDEX_BLOCK_HOLDER_USAGE_H */
