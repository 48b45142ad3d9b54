/*
 * g4/compaction_run.h -- what the parts of one run of g4/compaction.h share.
 *
 * Why: looking at the bucket, copying bodies and changing the map are three files and one state.
 * Ownership: as said in place.
 * Threads:   one.
 * Limits:    as g4/compaction.h.
 */
#ifndef G4_COMPACTION_RUN_H
#define G4_COMPACTION_RUN_H

#include "g4/compaction.h"

/* An object of a block that is packed: to be deleted. */
struct g4_compaction_double {
    struct g4_segment_entry block;
    char etag[G4_ETAG_MAX];
};

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

    /* Memory for copying; made when first needed. */
    struct g4_segment_builder *builder;
    void *body;    /* settings.block_max bytes */
    void *segment; /* all bytes of the segment `segment_name`, or NULL */
    size_t segment_size;
    struct g4_segment_name segment_name;
};

/** May the next effect be made?  Renews the lock when that is due. */
KVT_NODISCARD enum kvt_err g4_compaction_guard(struct g4_compaction_run *run,
                                               struct kvt_error *err);

/** Perform a request with the run's deadline. */
KVT_NODISCARD enum kvt_err g4_compaction_ask(struct g4_compaction_run *run,
                                             struct g4_request *request, struct kvt_error *err);

/** KVT_NOMEM, and says so. */
enum kvt_err g4_compaction_no_memory(struct kvt_error *err);

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

#endif /* G4_COMPACTION_RUN_H */
