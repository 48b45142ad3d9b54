/*
 * tests/unit/index/support/matches.h -- one question to an index, with an answer of its own.
 *
 * Why: most tests ask once and copy the matches out.
 */
#ifndef TESTS_UNIT_INDEX_SUPPORT_MATCHES_H
#define TESTS_UNIT_INDEX_SUPPORT_MATCHES_H

#include "index/index.h"

/** Longest prefix per holder, root first.  Holders without the first block are not given.  Longest
 *  first; at most `capacity`. */
size_t find_matches(struct index *index, uint32_t ns, const uint64_t *hashes, size_t count,
                    struct index_match *matches, size_t capacity);

#endif /* TESTS_UNIT_INDEX_SUPPORT_MATCHES_H */
