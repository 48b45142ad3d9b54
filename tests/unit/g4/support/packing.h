/*
 * tests/unit/g4/support/packing.h -- a packed namespace in a memory bucket: users, compactors, and
 * the truth.
 *
 * Why: what compaction may break is what users were told; this writes down what they were told and
 * compares it with what can be read, by readers that know the newest manifest and by one that was
 * left behind.
 * Ownership: packing_new() to packing_free().
 * Threads:   one.
 * Limits:    PACKING_BLOCKS blocks.
 */
#ifndef TESTS_UNIT_G4_SUPPORT_PACKING_H
#define TESTS_UNIT_G4_SUPPORT_PACKING_H

#include "g4/packed/compaction.h"
#include "g4/packed/packed.h"
#include "g4/packed/packed_store.h"

#include "tests/unit/g4/support/memory_bucket.h"

#define PACKING_NAMESPACE "tenant/model"

enum { PACKING_BLOCKS = 48, PACKING_BODY_MAX = 300 };

enum packing_truth {
    PACKING_ABSENT,  /* never put, or its deletion was acknowledged */
    PACKING_STORED,  /* a PUT was acknowledged */
    PACKING_UNKNOWN, /* a deletion was not acknowledged */
};

struct packing {
    struct memory_bucket memory;
    struct memory_bucket_client user;
    struct g4_store *store;   /* the user's */
    struct g4_packed *newest; /* what users know before they change something */
    struct g4_store *stale;   /* a reader that looks for newer manifests only when it has to */
    struct g4_store *fresh;   /* one that is made to look */
    struct g4_listed *rows;   /* of a page */
    enum packing_truth truth[PACKING_BLOCKS];
    struct g4_compaction_settings settings;
    bool delete_if_match;
    uint64_t random;
};

struct packing *packing_new(uint64_t seed);
void packing_free(struct packing *packing);

/** Who reads as gateways do and knows no manifest yet; with the first it sees it is left behind. */
struct g4_store *packing_reader(struct packing *packing);

/** As a gateway does it (g4/packed/packed_store.h); acknowledged, or the test fails. */
void packing_put(struct packing *packing, unsigned block);

/** The same; KVT_OK: acknowledged; KVT_BUSY: somebody is packing. */
enum kvt_err packing_delete(struct packing *packing, unsigned block);

/** Every block against the truth, by the reader left behind and by a fresh one. */
void packing_check(struct packing *packing);

/** Nothing is left over: neither objects of packed blocks nor segments that no block needs. */
void packing_check_tidy(struct packing *packing);

/** One compactor with a lock of its own, from its acquisition to its release. */
enum kvt_err packing_compact(struct packing *packing, struct memory_bucket_client *client,
                             struct g4_compaction_report *report);

/** The parts of that: the namespace's lock, and what a run is told. */
enum kvt_err packing_lock(struct g4_store *store, const struct g4_lock_clock *clock,
                          struct g4_lock **out);
struct g4_compaction_options packing_options(const struct packing *packing, struct g4_store *store,
                                             struct g4_lock *held,
                                             const struct g4_lock_clock *clock);

/** A compactor with a client of its own that lives, until there is nothing more to do. */
void packing_settle(struct packing *packing);

/** Let every lease run out. */
void packing_sleep(struct packing *packing);

/** Packed blocks, of which some were deleted, and new ones: there is something of everything. */
void packing_prepare(struct packing *packing);

/** The key of a block; and which one a key is, or PACKING_BLOCKS. */
void packing_key(unsigned block, char out[KVT_KEY_MAX]);
unsigned packing_block(const char *key);

#endif /* TESTS_UNIT_G4_SUPPORT_PACKING_H */
