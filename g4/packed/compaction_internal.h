/*
 * g4/packed/compaction_internal.h -- what the parts of one run of g4/packed/compaction.h share.
 *
 * Why: looking at the bucket, copying bodies, changing the map, taking blocks out and asking for
 *      many objects at once are five files and one state.
 * Ownership: as said in place.
 * Threads:   one.
 * Limits:    as g4/packed/compaction.h.
 */
#ifndef G4_PACKED_COMPACTION_INTERNAL_H
#define G4_PACKED_COMPACTION_INTERNAL_H

#include "g4/packed/compaction.h"

/* An object of a block that is packed: to be deleted. */
struct g4_compaction_double {
    struct g4_segment_entry block;
    char etag[G4_ETAG_MAX];
};

/* One of a volley's requests. */
struct g4_compaction_slot {
    struct g4_request request;
    char key[KVT_KEY_MAX];
    char attributes[G4_ATTRIBUTES_MAX];
    const struct g4_manifest_block *block; /* for whoever made it */
};

#define G4_COMPACTION_REQUESTS 16u /* requests at once */

struct g4_compaction_run {
    const struct g4_compaction_options *options;
    struct g4_compaction_report *report;
    struct g4_manifest_log log;
    uint64_t epoch; /* of this run; 0: not known yet */
    struct g4_manifest manifest;
    bool committed;  /* the manifest is one that this run has added */
    uint64_t budget; /* bytes of bodies that may still be copied */

    /* Of one pass. */
    bool *seen; /* for each block of the manifest: its own object is there */
    struct g4_segment_entry *picks;
    size_t pick_count;
    size_t pick_room;
    uint64_t pick_bytes;
    uint64_t eligible_blocks; /* picks, and those beyond the budget */
    uint64_t eligible_bytes;
    struct g4_compaction_double *doubles;
    size_t double_count;
    size_t double_room;
    struct g4_manifest_change *changes;
    size_t change_count;
    size_t change_room;
    struct g4_manifest_segment *added;
    size_t added_count;
    size_t added_room;
    bool more;

    struct g4_compaction_slot *slots; /* G4_COMPACTION_REQUESTS of them, made when first needed */
    size_t slot_count;

    /* Memory for copying; made when first needed. */
    struct g4_segment_builder *builder;
    uint8_t *bodies; /* `width` times settings.block_max bytes */
    size_t width;
    void *segment; /* all bytes of the segment `segment_name`, or NULL */
    size_t segment_size;
    struct g4_segment_name segment_name;
};

/** A run without anything loaded; `report` is zeroed.  End it in every case. */
void g4_compaction_begin(struct g4_compaction_run *run, const struct g4_compaction_options *options,
                         struct g4_compaction_report *report);
void g4_compaction_end(struct g4_compaction_run *run);

/** Load the newest manifest, and see that nobody with a later lock was here. */
KVT_NODISCARD enum kvt_err g4_compaction_load(struct g4_compaction_run *run, struct kvt_error *err);

/** Make the changes the next manifest; one without any only takes the number.  KVT_BUSY: another
 *  took it. */
KVT_NODISCARD enum kvt_err g4_compaction_commit(struct g4_compaction_run *run,
                                                struct kvt_error *err);

/** May the next effect be made?  Renews the lock when that is due. */
KVT_NODISCARD enum kvt_err g4_compaction_guard(struct g4_compaction_run *run,
                                               struct kvt_error *err);

/** When a request that is sent now must have ended (monotonic): within the run's own patience, and
 *  never behind the time at which the lease is over for its holder, so that no deletion is sent, or
 *  sent again, while somebody else may hold the lock. */
uint64_t g4_compaction_deadline_ms(const struct g4_compaction_run *run);

/** Perform a request with the run's deadline. */
KVT_NODISCARD enum kvt_err g4_compaction_ask(struct g4_compaction_run *run,
                                             struct g4_request *request, struct kvt_error *err);

/** KVT_NOMEM, and says so. */
enum kvt_err g4_compaction_no_memory(struct kvt_error *err);

/** The next slot, with its own key to be filled; NULL: no memory.  There is room while slot_count
 *  is below G4_COMPACTION_REQUESTS. */
struct g4_compaction_slot *g4_compaction_slot(struct g4_compaction_run *run, enum g4_verb verb);

/** Perform the requests of all slots, as many as g4_compaction_guard() lets pass, and wait for
 *  them.  KVT_OK: look at the answers.  Set slot_count to 0 afterwards. */
KVT_NODISCARD enum kvt_err g4_compaction_requests(struct g4_compaction_run *run,
                                                  struct kvt_error *err);

/** The status of a request of a volley that was OK; copies its error. */
KVT_NODISCARD enum kvt_err g4_compaction_answer(const struct g4_request *request,
                                                struct kvt_error *err);

/** Append one change, of any order. */
KVT_NODISCARD enum kvt_err g4_compaction_change(struct g4_compaction_run *run,
                                                const struct g4_manifest_change *change,
                                                struct kvt_error *err);

/** Write the picks into segments: changes to pending. */
KVT_NODISCARD enum kvt_err g4_compaction_pack(struct g4_compaction_run *run, struct kvt_error *err);

/** Copy live blocks of the segments that are worth it: changes of place. */
KVT_NODISCARD enum kvt_err g4_compaction_forward(struct g4_compaction_run *run,
                                                 struct kvt_error *err);

/** Look at all objects of the namespace's blocks: picks, doubles, changes. */
KVT_NODISCARD enum kvt_err g4_compaction_survey(struct g4_compaction_run *run,
                                                struct kvt_error *err);

/** Delete the segments that the manifest does not name, of this epoch and older ones. */
KVT_NODISCARD enum kvt_err g4_compaction_remove_segments(struct g4_compaction_run *run,
                                                         struct kvt_error *err);

#endif /* G4_PACKED_COMPACTION_INTERNAL_H */
