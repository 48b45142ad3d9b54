/*
 * g4/packed/compaction.h -- pack the small, cold blocks of a namespace into segments, and keep
 * those tidy.
 *
 * Why: small, cold blocks lie together.  In short: write a segment, read it back, name its blocks
 * in the next manifest as pending, see that their own objects are still there, name them as packed,
 * delete those objects.  Nothing of that remembers where it was: a run
 * looks at bucket and manifest and does what is missing, so one that is killed is finished by the
 * next.
 *
 *     manifest  own object            what a pass does                               readers get
 *     nothing   there                 GET, check, PUT segment, read it back; pending  the object
 *     pending   there, the same       next manifest: packed; then DELETE the object   the object
 *     pending   gone, or another      next manifest: nothing                          the object
 *     packed    there, the same       DELETE the object                               the segment
 *     packed    there, another        next manifest: nothing                          the segment
 *     packed    gone                  nothing; copied on when its segment is sparse   the segment
 *
 * "The same" is the same length, crc and fingerprint.  Why pending: a gateway without the lock may
 * delete a block while it is packed.  DELETE removes the object, then loads the newest manifest;
 * compaction names the block as pending, then looks for the object.  The later of the two sees the
 * other.
 *
 * Manifests and segments are created with If-None-Match, never changed, and never named twice.  Old
 * manifests are deleted when 16 newer are there: a writer that slept until its number was free
 * again finds newer ones far ahead, and takes its commit for not known.  Segments that no manifest
 * names are deleted, of this epoch and older ones.
 *
 * A holder that finds a larger epoch stops.  A run adds a manifest before it deletes anything, so
 * late requests of an older holder do no harm: a segment is unnamed and deleted; a manifest's
 * number is taken; a segment or manifest is dead for good when its deletion is decided; a deleted
 * object is packed.  One hole remains: a process stands still between its look at the clock and its
 * DELETE of an object for longer than the rest of its lease, while that block is retired and put
 * again.  ETags of equal bytes are equal, so a cached block is lost; no wrong byte is read.
 *
 * Segments are copied forward when less than live_min_ppm of their bodies is named, and when four
 * or more are at most half full: bodies take at most 1.25 times what is named, and 88 bytes a
 * block. Blocks without our metadata, with metadata of clients, or with an ETag of more than 32
 * bytes are not packed.  A damaged newest manifest stops compaction, packed reads, deletions and
 * overwriting. A purge is one empty manifest, then the deletion of all segments, then 16 more empty
 * manifests.
 *
 * Ownership: options are borrowed for the call; a report is the caller's.
 * Threads:   one run of a namespace at a time, which the lock sees to; calls block.
 * Limits:    memory for three segments, 16 MiB of bodies or one block, a manifest twice, and names
 *            of G4_COMPACTION_BLOCKS_MAX blocks; settings.bytes_max of bodies copied in a run.
 */
#ifndef G4_PACKED_COMPACTION_H
#define G4_PACKED_COMPACTION_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "g4/lock/lock.h"
#include "g4/object/g4_store.h"
#include "g4/packed/compaction_plan.h"
#include "g4/packed/manifest_log.h"
#include "g4/packed/segment.h"
#include "kvtier/error.h"

#define G4_COMPACTION_BLOCKS_MAX 65536u /* packed, or deleted after it, in one pass over a bucket */
#define G4_COMPACTION_PASSES_MAX 16u
#define G4_COMPACTION_REQUEST_MS                                                                   \
    15000u /* less than is left of a lease of 60 s when it is renewed */

struct g4_compaction_options {
    struct g4_store *store;
    const char *namespace_; /* not the empty one */
    /* Held, and renewed here.  NULL: the caller knows that nobody else packs this namespace, as in
     * a folder of one process. */
    struct g4_lock *lock;
    const struct g4_lock_clock *clock; /* the lock's; NULL = base/core/clock.h */
    struct g4_compaction_settings settings;
    const char *writer;      /* of segments, for people */
    bool delete_if_match;    /* the store honours it (g4/lock/selftest.h) */
    uint64_t request_ms;     /* 0 = G4_COMPACTION_REQUEST_MS; at most a third of the lease */
    const atomic_bool *stop; /* set: end soon with KVT_CANCELLED; may be NULL */
};

struct g4_compaction_report {
    uint64_t manifest;     /* number of the newest */
    uint64_t plain_blocks; /* objects of blocks when last looked at, packed ones' leftovers too */
    uint64_t plain_bytes;
    uint64_t live_bytes;    /* of packed blocks */
    uint64_t segment_bytes; /* of the segments they are in */
    uint64_t packed;        /* blocks written into segments from their own objects */
    uint64_t forwarded;     /* and from other segments */
    uint64_t copied_bytes;  /* of both */
    uint64_t settled;       /* pending blocks that became packed */
    uint64_t dropped;       /* entries whose object had gone or changed */
    uint64_t removed;       /* objects of packed blocks */
    uint64_t segments_written;
    uint64_t segments_deleted;
    uint64_t manifests_deleted;
    uint64_t bad; /* blocks that failed their check and were left where they are */
    bool full;    /* the manifest has no room for more blocks */
    bool more;    /* there is more to do: run again */
};

/* What a run would do at this moment, as far as the bucket's listing tells. */
struct g4_compaction_outlook {
    uint64_t plain_blocks; /* objects of blocks */
    uint64_t plain_bytes;
    uint64_t pack_blocks; /* of them, to be packed */
    uint64_t pack_bytes;
    uint64_t forward_segments; /* to be copied forward, for too little of them lives */
    uint64_t forward_bytes;    /* of their blocks */
    bool full;                 /* the manifest has no room for more blocks than that */
};

/* A block that is to leave the manifest. */
struct g4_compaction_retirement {
    struct g4_segment_entry block;
    bool
        only_this; /* not another of the same name: `block` is what the manifest was seen to have */
    /* A PUT that is done first, where the block has no object of its own, so that it is never
     * without both; its status tells whether it was.  NULL: none, or it is done. */
    struct g4_request *put;
    /* Set by the call.  KVT_OK: it is not in the manifest; KVT_PRECONDITION: another is, and stays;
     * or why `put` could not be done: the block stays. */
    enum kvt_err outcome;
};

/** The object of a namespace's lock.  KVT_OK, KVT_INVALID or KVT_RANGE. */
KVT_NODISCARD enum kvt_err g4_compaction_lock_key(char out[KVT_KEY_MAX], const char *namespace_);

/**
 * Take the lock of a namespace, with an epoch that is larger than what its manifests have seen.
 *
 * @param options  as g4_lock_acquire(); `name` and `epoch_min` are set here
 * @return as g4_lock_acquire(); KVT_INVALID, KVT_RANGE: a namespace that cannot be packed
 */
KVT_NODISCARD enum kvt_err g4_compaction_lock(struct g4_lock **out,
                                              const struct g4_lock_options *options,
                                              const char *namespace_, struct kvt_error *err);

/**
 * Do what is to be done.
 *
 * @param[out] report  also on failure: what was done until then
 * @return KVT_OK; KVT_PRECONDITION: the lock was lost, or a later holder was here; KVT_BUSY: so it
 *         seems, for the manifest or a segment was not as left; KVT_CANCELLED; KVT_RANGE: the
 *         settings; or why the store could not be asked.  After any of them another run goes on.
 */
KVT_NODISCARD enum kvt_err g4_compaction_run(const struct g4_compaction_options *options,
                                             struct g4_compaction_report *report,
                                             struct kvt_error *err);

/**
 * Look at everything as a run does, and change nothing; it needs no lock.
 *
 * @param[out] outlook  zero unless it is KVT_OK
 * @return KVT_OK, KVT_CANCELLED, KVT_RANGE, KVT_NOMEM; or why the store could not be asked
 */
KVT_NODISCARD enum kvt_err g4_compaction_look(const struct g4_compaction_options *options,
                                              struct g4_compaction_outlook *outlook,
                                              struct kvt_error *err);

/**
 * Take blocks out of the manifest: the second half of a deletion.  Before it, the caller deletes
 * their own objects and then loads the newest manifest: only a block that is in that one must be
 * retired, pending or packed, before its deletion is acknowledged.
 *
 * @param blocks  any order, a block more than once, too
 * @return as g4_compaction_run(); KVT_NOMEM.  KVT_OK: see each outcome
 */
KVT_NODISCARD enum kvt_err g4_compaction_retire(const struct g4_compaction_options *options,
                                                struct g4_compaction_retirement *blocks,
                                                size_t count, struct kvt_error *err);

/* What a packed namespace has in the bucket besides the objects of blocks. */
struct g4_compaction_remains {
    uint64_t segments;
    uint64_t segment_bytes;
    uint64_t manifests; /* that name blocks; ones without any stay for ever */
};

/** Count it: one walk through the packer's folder, without a lock. */
KVT_NODISCARD enum kvt_err g4_compaction_remains(struct g4_store *store, const char *namespace_,
                                                 struct g4_compaction_remains *remains,
                                                 struct kvt_error *err);

/**
 * Take every block out of the manifest, and delete all segments and all manifests that named any.
 * One that is killed is finished by the next.
 *
 * @param[out] blocks  that were taken out
 * @return as g4_compaction_run()
 */
KVT_NODISCARD enum kvt_err g4_compaction_clear(const struct g4_compaction_options *options,
                                               uint64_t *blocks, struct kvt_error *err);

#endif /* G4_PACKED_COMPACTION_H */
