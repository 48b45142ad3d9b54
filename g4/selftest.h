/*
 * g4/selftest.h -- what does this store really do with conditions?
 *
 * Why: stores that silently ignore If-None-Match or If-Match exist; nothing that relies on them may
 * run there.  Used at mount by the gateway and by `kvtier doctor`.
 * Ownership: none; it writes and deletes keys under ".kvtier-selftest/<nonce>".
 * Threads:   one call at a time per store.
 * Limits:    a handful of requests of a few bytes.
 */
#ifndef G4_SELFTEST_H
#define G4_SELFTEST_H

#include <stdbool.h>

#include "g4/store.h"
#include "kvtier/error.h"

struct g4_selftest {
    bool put_if_absent;    /* second PUT If-None-Match:* was refused, content unchanged */
    bool put_if_match;     /* right ETag accepted, wrong one refused */
    bool if_match_missing; /* If-Match on an absent key refused and nothing created */
    bool delete_if_match;  /* DELETE with a wrong ETag refused (MinIO: false) */
    bool list_after_write; /* a new key is listed at once */
    bool meta_kept;        /* x-amz-meta-kvt-* come back */
};

/** KVT_OK when it could be run at all; look at the fields. */
KVT_NODISCARD enum kvt_err g4_selftest(struct g4_store *store, struct g4_selftest *result,
                                       struct kvt_error *err);

#endif /* G4_SELFTEST_H */
