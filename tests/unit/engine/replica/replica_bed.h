/*
 * tests/unit/engine/replica/replica_bed.h -- a replicated group of fakes over each kind of
 * broadcast.
 *
 * Why: whatever brings blocks to the other ranks, all end with the same bytes: one test over all
 * kinds says so.  G1 of the fakes is host memory to transfers, and a device's to NCCL.
 * Ownership: as the beds of groups; replica_close() ends all of it.
 * Threads:   the test's main thread.
 * Limits:    as tests/unit/engine/support/group_bed.h.
 */
#ifndef TESTS_UNIT_ENGINE_REPLICA_REPLICA_BED_H
#define TESTS_UNIT_ENGINE_REPLICA_REPLICA_BED_H

#include "kvbm/cuda/cuda_driver.h"

#include "engine/replica/replica_group.h"
#include "tests/unit/engine/support/group_bed.h"

enum replica_kind { REPLICA_MEMORY, REPLICA_NCCL, REPLICA_FABRIC, REPLICA_IPC, REPLICA_KINDS };

enum { REPLICA_STAGED = 3 }; /* fewer than a job may have items */

struct replica {
    struct group_bed bed;
    struct engine_worker *group;
    struct engine_broadcast *broadcast;
    struct kvbm_layout layout;
    struct kvbm_storage *bounce;
    struct kvbm_transfer *transfer;
    struct kvbm_storage *storages[BED_RANKS];
    struct kvbm_cuda *cudas[BED_RANKS];
};

/** Ranks only: G1 of each as a storage, of a device for NCCL. */
void replica_open_storages(struct replica *replica, enum replica_kind kind,
                           struct fake_objects *objects, enum fake_ending ending);
/** What a broadcast needs to be told of them. */
struct engine_broadcast_options replica_options(const struct replica *replica);

void replica_open(struct replica *replica, enum replica_kind kind, enum fake_ending ending,
                  struct fake_objects *objects);
void replica_close(struct replica *replica);
/** All but group, ranks and broadcast. */
void replica_close_storages(struct replica *replica);

/** Do all ranks have content `number` in that block of G1? */
bool replica_all_have(const struct replica *replica, uint32_t block, uint64_t number);

typedef enum kvt_err replica_open_fn(struct engine_broadcast **out,
                                     struct engine_worker *const *ranks, uint32_t count,
                                     uint32_t staged, struct kvt_error *err);

/** Open a broadcast and a group over the ranks of the bed, bring two blocks up, and close both.
 *  False: some of it did not go well. */
bool replica_try(struct replica *replica, replica_open_fn *open);

#endif /* TESTS_UNIT_ENGINE_REPLICA_REPLICA_BED_H */
