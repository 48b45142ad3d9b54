/*
 * g4/lock/selftest.h -- what does this store really do with conditions?
 *
 * Why: stores that silently ignore If-None-Match or If-Match exist, and stores that check them and
 * then write, so that two may pass; nothing that relies on conditions may run there.  Used at mount
 * by the gateway and by `kvtier doctor`.
 * Ownership: none; it writes and deletes keys under "<folder>/<nonce>".
 * Threads:   one call at a time per store.
 * Limits:    a handful of requests of a few bytes; g4_selftest_locks() 100 to 150, of which
 *            G4_SELFTEST_RACERS at once.
 */
#ifndef G4_LOCK_SELFTEST_H
#define G4_LOCK_SELFTEST_H

#include <stdbool.h>

#include "g4/object/g4_store.h"
#include "kvtier/error.h"

#define G4_SELFTEST_RACERS 8
#define G4_SELFTEST_FOLDER ".kvtier-selftest"
#define G4_SELFTEST_BEHIND                                                                         \
    "kvtier-selftest" /* through a gateway, which keeps the other to itself */

struct g4_selftest {
    bool put_if_absent;    /* second PUT If-None-Match:* was refused, content unchanged */
    bool put_if_match;     /* right ETag accepted, wrong one refused */
    bool if_match_missing; /* If-Match on an absent key refused and nothing created */
    bool delete_if_match;  /* DELETE with a wrong ETag refused (MinIO: false) */
    bool list_after_write; /* a new key is listed at once */
    bool meta_kept;        /* x-amz-meta-kvt-* come back */
    bool etag_changes;     /* another body has another ETag */

    /* By g4_selftest_locks() alone. */
    bool one_creator;  /* of many If-None-Match:* at once one wins */
    bool one_changer;  /* of many If-Match with the same ETag at once one wins */
    bool server_clock; /* Date and Last-Modified come, and agree about what was just written */
    unsigned race_conflicts; /* losers that were told 409, and */
    unsigned race_errors;    /* losers that were told something else than 409 or 412 */
};

/** KVT_OK when it could be run at all; look at the fields. */
KVT_NODISCARD enum kvt_err g4_selftest(struct g4_store *store, struct g4_selftest *result,
                                       struct kvt_error *err);

/** The same, and what locks stand on. */
KVT_NODISCARD enum kvt_err g4_selftest_locks(struct g4_store *store, struct g4_selftest *result,
                                             struct kvt_error *err);

/** Both in another folder (at most 24 bytes, without '/') than G4_SELFTEST_FOLDER. */
KVT_NODISCARD enum kvt_err g4_selftest_in(struct g4_store *store, const char *folder,
                                          struct g4_selftest *result, struct kvt_error *err);
KVT_NODISCARD enum kvt_err g4_selftest_locks_in(struct g4_store *store, const char *folder,
                                                struct g4_selftest *result, struct kvt_error *err);

/** Why locks are not safe on this store (a literal), or NULL: they are.  Without the second half of
 *  the test they are not. */
const char *g4_selftest_unsafe(const struct g4_selftest *result);

#endif /* G4_LOCK_SELFTEST_H */
