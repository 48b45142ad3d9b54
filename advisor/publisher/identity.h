/*
 * advisor/publisher/identity.h -- one name for a block, whatever its engine calls it.
 *
 * Why: engines name blocks by hashes of their own, which differ from process to process.  A block
 * that comes with its tokens, or with Dynamo's hash of them, is named by Dynamo's chain over them
 * (kvtier/token.h); what the engine calls it is remembered, for its removes and its children name
 * blocks so.  Where the engine's hash is that chain already, nothing is remembered.
 *
 * Ownership: nothing of its own; what is remembered goes to the table of aliases.
 * Threads:   none; the engine's thread.
 * Limits:    those of advisor/publisher/aliases.h.
 */
#ifndef ADVISOR_PUBLISHER_IDENTITY_H
#define ADVISOR_PUBLISHER_IDENTITY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "advisor/publisher/aliases.h"
#include "wire/dialect/raw_batch.h"

#define ADVISOR_POSITION_NOBODY UINT32_MAX

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
 * @return KVT_OK, KVT_FULL (the table's limit) or KVT_NOMEM: some may be remembered then, which
 *         harms nothing
 */
KVT_NODISCARD enum kvt_err
advisor_identity_store(struct advisor_aliases *aliases, const struct advisor_speaker *speaker,
                       const struct wire_raw_batch *batch, const struct wire_raw_event *event,
                       struct advisor_named *named, enum advisor_naming *naming);

/** The block left a tier; its row goes with its last one.  Returns its name; `known` tells whether
 *  there was a row. */
uint64_t advisor_identity_remove(struct advisor_aliases *aliases,
                                 const struct advisor_speaker *speaker, enum kvt_tier tier,
                                 uint64_t hash, bool *known);

/** All blocks left a tier. */
void advisor_identity_clear(struct advisor_aliases *aliases, const struct advisor_speaker *speaker,
                            enum kvt_tier tier);

#endif /* ADVISOR_PUBLISHER_IDENTITY_H */
