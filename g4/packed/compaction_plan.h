/*
 * g4/packed/compaction_plan.h -- what is worth packing, and which segments are worth copying
 * forward.
 *
 * Why: packing trades requests and rows for bytes written twice; where the trade pays is a matter
 * of a few numbers, and a function of nothing else can be tried on all of them.
 *
 * Limits:    as g4/packed/segment.h.
 */
#ifndef G4_PACKED_COMPACTION_PLAN_H
#define G4_PACKED_COMPACTION_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "g4/packed/manifest.h"
#include "kvtier/error.h"

struct g4_compaction_settings {
    uint64_t block_max;     /* bytes; larger blocks stay as they are */
    uint64_t age_ms;        /* since they were written; younger ones stay as they are */
    uint64_t mean_max;      /* bytes; pack while they are smaller than this on average */
    uint64_t bytes_min;     /* of blocks to pack; fewer are not worth a segment */
    uint64_t segment_bytes; /* of a whole segment */
    uint32_t segment_blocks;
    uint32_t live_min_ppm; /* segments whose live bytes are a smaller share are copied forward */
    uint64_t bytes_max;    /* of bodies that one run copies */
};

/** Blocks of up to 1 MiB, ten minutes old, in segments of 16 MiB; 80 % live; 1 GiB a run. */
struct g4_compaction_settings g4_compaction_defaults(void);

/** KVT_OK, or KVT_RANGE and which one is out of its limits. */
KVT_NODISCARD enum kvt_err
g4_compaction_settings_check(const struct g4_compaction_settings *settings, struct kvt_error *err);

/** Are so many blocks of so many bytes, all old and small enough, worth being packed? */
bool g4_compaction_plan_pack(const struct g4_compaction_settings *settings, uint64_t blocks,
                             uint64_t bytes);

/**
 * Choose segments whose live blocks are to be copied forward: those with too small a share of live
 * bytes, less than half of it first, and small ones when there are enough of them to make larger
 * ones.  Segments with pending blocks wait.
 *
 * @param[out] chosen  a flag for each segment of the manifest
 * @param budget       live bytes that may be copied
 * @return how many were chosen
 */
size_t g4_compaction_plan_forward(const struct g4_compaction_settings *settings,
                                  const struct g4_manifest *manifest, uint64_t budget,
                                  bool *chosen);

#endif /* G4_PACKED_COMPACTION_PLAN_H */
