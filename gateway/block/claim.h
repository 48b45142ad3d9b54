/*
 * gateway/block/claim.h -- writing a block into the bucket, where the first writer wins.
 *
 * Why: a PUT that waits for the bucket and an upload that follows its acknowledgement must take
 * "there already" for the same: equal content is success, a bad object is repaired, other content
 * is a refusal.
 *
 * Ownership: claims, keys and bodies are the caller's; bodies of claims that are OCCUPIED are
 *            needed until they are settled.
 * Threads:   any; the keys are held by the caller.
 * Limits:    as gateway/tier/store_batch.h.
 */
#ifndef GATEWAY_BLOCK_CLAIM_H
#define GATEWAY_BLOCK_CLAIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gateway/tier/gateway_context.h"
#include "gateway/tier/store_batch.h"

enum gateway_claim_state {
    GATEWAY_CLAIM_OPEN,     /* not sent, or in the air */
    GATEWAY_CLAIM_OCCUPIED, /* the bucket has something under the key */
    GATEWAY_CLAIM_STORED,   /* the bucket has these bytes; `etag` is their object's */
    GATEWAY_CLAIM_REFUSED,  /* it has not, and `status` says why; PRECONDITION: other content */
    GATEWAY_CLAIM_UNKNOWN,  /* it did not say; `status`: AGAIN or UNAVAILABLE */
};

struct gateway_claim {
    const char *key;
    const void *body;
    size_t size;
    uint32_t crc32c; /* of the body */
    uint64_t fingerprint;
    const char *writer;
    bool rewrite; /* equal content is not enough: the object must be written anew, */
    bool noted;   /* and under the lock of moves: its tombstone may still be on its way */
    /* These bytes were acknowledged under the key: an object without our metadata with other bytes
     * took their place.  Otherwise such an object was there first. */
    bool acknowledged;
    enum gateway_claim_state state;
    enum kvt_err status;
    bool present;  /* STORED, and it was there before */
    unsigned tier; /* STORED: GATEWAY_COLD, or GATEWAY_FAR where it was found */
    char etag[G4_ETAG_MAX];
};

/** The claim of a hot copy that was read and checked against its row; all three are borrowed. */
void gateway_claim_init(struct gateway_claim *claim, const char *key,
                        const struct gateway_record *record, const struct g4_request *hot);

/** What travels beside the body. */
void gateway_claim_meta(const struct gateway_claim *claim, struct g4_meta *meta);

/** Send the PUT; its request comes back to the flight's `finish` under `index`. */
void gateway_claim_send(struct gateway_context *context, struct gateway_store_batch *flight,
                        struct gateway_claim *claim, size_t index);

/** What the answer means; from the flight's `finish`. */
void gateway_claim_landed(struct gateway_context *context, struct gateway_claim *claim,
                          const struct g4_request *request);

/** The bucket has it, as `answer` says: STORED. */
void gateway_claim_stored(struct gateway_claim *claim, const struct g4_request *answer);

/** The bucket has it, and something that belongs to it could not be done: UNKNOWN. */
void gateway_claim_doubt(struct gateway_claim *claim, enum kvt_err status);

#endif /* GATEWAY_BLOCK_CLAIM_H */
