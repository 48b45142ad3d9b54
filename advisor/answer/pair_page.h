/*
 * advisor/answer/pair_page.h -- (block, holder) pairs, copied out of the index a page at a time.
 *
 * Why: the index must not be called from its own walk: whoever wants names beside the pairs, or
 * pairs beside each other, takes a page of copies first.
 *
 * Ownership: the caller's struct, all 0 at first; advisor_pairs_release() ends it.
 * Threads:   none; one owner.
 * Limits:    about `max` pairs a page.
 */
#ifndef ADVISOR_ANSWER_PAIR_PAGE_H
#define ADVISOR_ANSWER_PAIR_PAGE_H

#include "index/index.h"

struct advisor_pair {
    struct index_block block;
    uint32_t ns;     /* as the index numbers them */
    uint32_t holder; /* */
};

struct advisor_pairs {
    struct advisor_pair *rows;
    size_t count;
    size_t capacity;
    bool failed; /* no memory */
};

/** As index_walk(), into empty `pairs`.  KVT_OK or KVT_NOMEM. */
KVT_NODISCARD enum kvt_err advisor_pairs_take(struct advisor_pairs *pairs, struct index *index,
                                              uint64_t cursor, size_t max, uint64_t *next);
void advisor_pairs_release(struct advisor_pairs *pairs);

#endif /* ADVISOR_ANSWER_PAIR_PAGE_H */
