/*
 * tests/unit/kvbm/offload/manager_bed.h -- tiers, a volume and an offload manager to be tried.
 *
 * Why: the story tests and the random ones need the same tiers, whose blocks' bytes say their name.
 * Ownership: bed_close() ends all of it; a manager that a test made is its own.
 * Threads:   one, but for the volume's, which has its own, and where it is said.
 * Limits:    hashes below BED_HASHES.
 */
#ifndef TESTS_UNIT_KVBM_OFFLOAD_MANAGER_BED_H
#define TESTS_UNIT_KVBM_OFFLOAD_MANAGER_BED_H

#include <stdatomic.h>
#include <stdbool.h>

#include "kvbm/offload/manager.h"

#define G1  KVT_TIER_MASK(KVT_TIER_G1)
#define G2  KVT_TIER_MASK(KVT_TIER_G2)
#define G3  KVT_TIER_MASK(KVT_TIER_G3)
#define G4  KVT_TIER_MASK(KVT_TIER_G4)
#define ALL (G1 | G2 | G3 | G4)

enum { BED_BLOCKS = 32, BED_SIZE = 4096, BED_HASHES = 4096 };

/* The volume, and a second way to it that has a thread of its own. */
enum { BED_VOLUME = 7, BED_VOLUME_UP = 8 };

struct bed {
    struct kvbm_transfer *transfer;
    struct kvbm_storage *bounce;
    struct kvbm_volumes *volumes;
    struct kvbm_manager_options options; /* tiers are there; a test changes the numbers */
    struct kvbm_manager *manager;
    bool gated[KVT_TIER_G4];
    /* the volume: */
    _Atomic int answer;  /* of puts: enum kvt_err */
    _Atomic int refusal; /* of gets, when not OK */
    _Atomic bool shut;   /* it waits */
    _Atomic bool puts_shut;
    _Atomic unsigned puts;
    _Atomic unsigned gets;
    _Atomic unsigned wrong; /* bodies that were not what their name says */
    _Atomic bool has[BED_HASHES];
};

/** `tiers`: KVT_TIER_MASK of those that are there.  G1 and G2 are host memory but for those of
 *  `gated`, G3 is always a gate (tests/unit/kvbm/support/gate.h). */
struct bed *bed_open(unsigned tiers, unsigned gated);

/** Make the manager from what the options say now. */
void bed_start(struct bed *bed);

void bed_close(struct bed *bed);

/** Step until nothing moves; false: it still does after 10 s. */
bool bed_settle(struct bed *bed);

struct kvbm_pool *bed_pool(struct bed *bed, enum kvt_tier tier);

/** Block `hash` at `position` is registered in a tier, and held. */
struct kvt_handle bed_make_held(struct bed *bed, enum kvt_tier tier, uint64_t hash,
                                uint32_t position);
void bed_make(struct bed *bed, enum kvt_tier tier, uint64_t hash);

/** Put a block where the volume has it. */
void bed_make_far(struct bed *bed, uint64_t hash);

/** The same, on any thread; false: there is no room, or it cannot be written. */
bool bed_try_make(struct bed *bed, enum kvt_tier tier, uint64_t hash, uint32_t position,
                  struct kvt_handle *handle);

/** The held block can be read, and its bytes are not those of its name.  Any thread. */
bool bed_is_wrong(struct bed *bed, enum kvt_tier tier, struct kvt_handle handle, uint64_t hash);

/** The held block's bytes are those of its name. */
bool bed_is_right(struct bed *bed, enum kvt_tier tier, struct kvt_handle handle, uint64_t hash);

/** Names of a chain: hashes first, first + 1, ... */
void bed_chain(struct kvbm_label *labels, uint64_t first, size_t count);

/** Blocks of a tier that are not free. */
uint32_t bed_used(struct bed *bed, enum kvt_tier tier);

/** A tier, or the volume for G4, has this block. */
bool bed_has(struct bed *bed, enum kvt_tier tier, uint64_t hash);

/** Ask for a chain, and step until it is answered. */
struct kvt_onboard_result bed_fetch(struct bed *bed, const struct kvbm_onboard_request *request,
                                    struct kvt_handle *handles);

#endif /* TESTS_UNIT_KVBM_OFFLOAD_MANAGER_BED_H */
