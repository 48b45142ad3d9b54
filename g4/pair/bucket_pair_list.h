/*
 * g4/pair/bucket_pair_list.h -- one listing of two buckets.
 *
 * Why: a page of each, of which only so much may be told as both have been read.
 * Ownership: borrowed for the call.
 * Limits:    pages of G4_LIST_KEYS_MAX.
 */
#ifndef G4_PAIR_BUCKET_PAIR_LIST_H
#define G4_PAIR_BUCKET_PAIR_LIST_H

#include <stdbool.h>

#include "g4/object/g4_store.h"
#include "kvtier/error.h"

/* A page as a store gave it. */
struct g4_bucket_pair_page {
    const struct g4_listed *rows;
    size_t count;
    bool more;
};

/** Blocks of both, in order, into `out` (G4_LIST_KEYS_MAX); of the far one only blocks count.  A
 *  key of both is listed as the near one's, unless that is empty: a tombstone.  `next` gets the key
 *  behind which to go on, "" when that was all.  Returns the number of rows. */
size_t g4_bucket_pair_merge(const struct g4_bucket_pair_page *near,
                            const struct g4_bucket_pair_page *far, struct g4_listed *out,
                            char next[KVT_KEY_MAX]);

#endif /* G4_PAIR_BUCKET_PAIR_LIST_H */
