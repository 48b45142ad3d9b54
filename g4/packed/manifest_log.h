/*
 * g4/packed/manifest_log.h -- the manifests of a namespace in a bucket: find the newest, add the
 * next.
 *
 * Why: "the largest number counts" is only true when numbers are never created twice, answers that
 * were lost are looked up, and a writer that slept through many others learns that its number, long
 * deleted, was free again.
 *
 * Ownership: manifests are the caller's; the store is borrowed.
 * Threads:   none of its own; calls block.
 * Limits:    G4_MANIFEST_KEEP manifests are kept; G4_MANIFEST_LOG_TRIES looks at a moving newest.
 */
#ifndef G4_PACKED_MANIFEST_LOG_H
#define G4_PACKED_MANIFEST_LOG_H

#include <stdint.h>

#include "g4/object/g4_store.h"
#include "g4/packed/manifest.h"
#include "kvtier/error.h"

#define G4_MANIFEST_KEEP      16u
#define G4_MANIFEST_LOG_TRIES 4

struct g4_manifest_log {
    struct g4_store *store;
    const char *namespace_;
    uint64_t request_ms; /* of one request; 0 = the store's default */
    /* May the next one be deleted?  Anything but KVT_OK ends the pruning; NULL: always. */
    enum kvt_err (*guard)(void *arg, struct kvt_error *err);
    void *guard_arg;
};

/**
 * Bring `manifest` up to date: one LIST, and a GET when there is a newer one.
 *
 * @param[in,out] manifest  what was loaded before, or zero; untouched on failure
 * @return KVT_OK (number 0: there is none), KVT_CORRUPT: the newest cannot be read, or why the
 *         store could not be asked
 */
KVT_NODISCARD enum kvt_err g4_manifest_log_load(const struct g4_manifest_log *log,
                                                struct g4_manifest *manifest,
                                                struct kvt_error *err);

/**
 * Create `next` under its number; nonce and time are set here.
 *
 * @return KVT_OK: it is what counts, or was until others built upon it; KVT_EXISTS: another has
 *         that number, start over from it; KVT_RANGE: it cannot be written; anything else: it is
 *         not known, and whoever loads the newest sees
 */
KVT_NODISCARD enum kvt_err g4_manifest_log_commit(const struct g4_manifest_log *log,
                                                  struct g4_manifest *next, struct kvt_error *err);

/** Delete all but the newest G4_MANIFEST_KEEP up to `newest`, which was committed or loaded.
 *  KVT_OK, what the guard said, or why the store could not be asked. */
KVT_NODISCARD enum kvt_err g4_manifest_log_prune(const struct g4_manifest_log *log, uint64_t newest,
                                                 uint64_t *deleted, struct kvt_error *err);

#endif /* G4_PACKED_MANIFEST_LOG_H */
