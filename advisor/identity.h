/*
 * advisor/identity.h -- one name for a block, whatever its engine calls it.
 *
 * Why: engines name blocks by hashes of their own, which differ from process to process.  A block
 * that comes with its tokens, or with Dynamo's hash of them, is named by Dynamo's chain over them
 * (wire/token.h); what the engine calls it is remembered, for its removes and its children name
 * blocks so.  Where the engine's hash is that chain already, nothing is remembered.
 *
 * Ownership: the table owns its rows; what changed is written with the group that changed it.
 * Threads:   none; the engine's thread.
 * Limits:    `aliases_max` rows of about 56 bytes.  A row belongs to a publisher and is void once
 *            its generation is below the publisher's floor; void rows go a bounded step at a time.
 */
#ifndef ADVISOR_IDENTITY_H
#define ADVISOR_IDENTITY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "advisor/store_foreign.h"
#include "wire/dialect/raw.h"

#define ADVISOR_ALIASES_MAX     (1u << 24)
#define ADVISOR_ALIASES_STEP    4096 /* rows looked at in a step of purging */
#define ADVISOR_POSITION_NOBODY UINT32_MAX

struct advisor_identity;

KVT_NODISCARD enum kvt_err advisor_identity_new(struct advisor_identity **out,
                                                uint32_t aliases_max);
void advisor_identity_free(struct advisor_identity *identity);

/* The floor of a publisher; UINT32_MAX for one that is not known any more. */
typedef uint32_t advisor_identity_floor_fn(void *arg, uint32_t publisher);

KVT_NODISCARD enum kvt_err advisor_identity_load(struct advisor_identity *identity,
                                                 const struct advisor_txn *txn);
KVT_NODISCARD enum kvt_err advisor_identity_save(struct advisor_identity *identity,
                                                 const struct advisor_txn *txn);
void advisor_identity_saved(struct advisor_identity *identity);
bool advisor_identity_dirty(const struct advisor_identity *identity);
uint32_t advisor_identity_count(const struct advisor_identity *identity);

/** Look for void rows among the next ADVISOR_ALIASES_STEP, if a floor was raised since all were
 *  looked at. */
void advisor_identity_purge(struct advisor_identity *identity, advisor_identity_floor_fn *floor,
                            void *arg);
/** A floor was raised. */
void advisor_identity_void(struct advisor_identity *identity);

/* ---- naming ---- */

/* Who speaks. */
struct advisor_speaker {
    uint32_t publisher;
    uint32_t gen;
    uint32_t floor;
    /** Position of an indexed block, or ADVISOR_POSITION_NOBODY. */
    uint32_t (*position)(void *arg, uint64_t chain);
    void *arg;
};

/* A block as it is to be indexed.  A parent of 0 behind position 0 means that it is not known. */
struct advisor_named {
    uint64_t hash;
    uint64_t parent;
    uint64_t tokens_hash;
    uint32_t position;
};

enum advisor_naming {
    ADVISOR_NAMED,
    ADVISOR_ORPHAN,   /* its parent's name is not known */
    ADVISOR_CONFLICT, /* its salt or adapter is not its parent's: it must be left out */
};

/**
 * Name the blocks of a STORE, and remember what must be.
 *
 * @param[out] named  event->count of them, when NAMED
 * @return KVT_OK, KVT_FULL (`aliases_max`) or KVT_NOMEM: some may be remembered then, which harms
 *         nothing
 */
KVT_NODISCARD enum kvt_err
advisor_identity_store(struct advisor_identity *identity, const struct advisor_speaker *speaker,
                       const struct wire_raw_batch *batch, const struct wire_raw_event *event,
                       struct advisor_named *named, enum advisor_naming *naming);

/** The block left a tier; its row goes with its last one.  Returns its name; `known` tells whether
 *  there was a row. */
uint64_t advisor_identity_remove(struct advisor_identity *identity,
                                 const struct advisor_speaker *speaker, enum kvt_tier tier,
                                 uint64_t hash, bool *known);

/** All blocks left a tier. */
void advisor_identity_clear(struct advisor_identity *identity,
                            const struct advisor_speaker *speaker, enum kvt_tier tier);

#endif /* ADVISOR_IDENTITY_H */
