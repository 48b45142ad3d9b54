/*
 * advisor/answer/finder_private.h -- what the files finder*.c share: one question, answered from
 * three places.
 *
 * Why: RAM, RAM with what was evicted from it, and the store alone are each a page of their own.
 */
#ifndef ADVISOR_ANSWER_FINDER_PRIVATE_H
#define ADVISOR_ANSWER_FINDER_PRIVATE_H

#include "advisor/answer/finder.h"

/** Sorts values of `size` bytes, each beginning with a struct index_match: longest first, then by
 *  number. */
void advisor_finder_sort(void *matches, size_t count, size_t size);

bool advisor_finder_same_holder(const struct index_holder *a, const struct index_holder *b);

/* ---- finder_evicted.c: blocks evicted from RAM; corrects the answer of RAM ---- */

/** `ns` is the index's number.  What RAM found stays when no block of the question was evicted. */
KVT_NODISCARD enum kvt_err advisor_finder_evicted(const struct advisor_finder *finder, uint32_t ns,
                                                  const struct wire_query *query,
                                                  struct wire_query_holder *holders,
                                                  size_t capacity, size_t *count);
KVT_NODISCARD enum kvt_err advisor_finder_evicted_masks(const struct advisor_finder *finder,
                                                        const char *namespace_,
                                                        const uint64_t *hashes, size_t hash_count,
                                                        uint8_t *masks);
/** Add the shards of a block that were evicted from a holder. */
KVT_NODISCARD enum kvt_err advisor_finder_evicted_ranks(const struct advisor_finder *finder,
                                                        const char *namespace_, uint64_t hash,
                                                        const struct index_holder *holder,
                                                        uint32_t *ranks);

/* ---- finder_store.c: the store alone ---- */

KVT_NODISCARD enum kvt_err advisor_finder_stored(const struct advisor_finder *finder,
                                                 const struct wire_query *query,
                                                 struct wire_query_holder *holders, size_t capacity,
                                                 size_t *count);
KVT_NODISCARD enum kvt_err advisor_finder_stored_masks(const struct advisor_finder *finder,
                                                       const char *namespace_,
                                                       const uint64_t *hashes, size_t hash_count,
                                                       uint8_t *masks);

#endif /* ADVISOR_ANSWER_FINDER_PRIVATE_H */
