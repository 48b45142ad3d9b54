/*
 * gateway/block/get.h -- finding and reading objects: catalog, volumes, buckets, in that order.
 *
 * Why: a read never returns bytes that fail their check: a bad hot copy falls back to the bucket, a
 * bad copy in the bucket is a miss, and both leave their evidence.
 *
 * Ownership: items and buffers are the caller's.
 * Limits:    GATEWAY_BATCH_REQUEST_KEYS_MAX items a call.
 */
#ifndef GATEWAY_BLOCK_GET_H
#define GATEWAY_BLOCK_GET_H

#include <stdbool.h>
#include <stddef.h>

#include "gateway/tier/gateway_context.h"

struct gateway_item {
    const char *key;
    bool for_body;                /* finding: its body is read next, whatever its row says */
    struct gateway_record record; /* what it is; from the catalog or the bucket */
    bool known;                   /* the catalog has it */
    bool suspect;                 /* something is there that is not a whole block */
    bool uncommitted;             /* NOTFOUND: a whole block is there, without its record */
    bool gone;                    /* NOTFOUND: the catalog has a row, and nothing is there */
    bool unsummed;                /* it is there without our metadata, and was not read yet */
    enum kvt_err status;          /* OK, NOTFOUND, or why it could not be told */
    void *buffer;                 /* bodies: the caller's room, at least record.length bytes */
    size_t capacity;
    bool asked;          /* bodies: it was found, and has a buffer */
    unsigned left;       /* bodies: tiers that are still to be asked; GATEWAY_COLD: the buckets */
    enum kvt_err volume; /* bodies: why nobody can tell whether a volume has it, or OK */
    size_t size;         /* bodies: bytes read */
    unsigned tier;       /* bodies: enum gateway_tier, which served it */
};

/* Blocks without our metadata that are read in one call which asks for no bodies. */
#define GATEWAY_GET_SUMS_MAX 64

/** Where and what is each key?  Catalog first, then HEAD on the bucket for what it does not know
 * and for opaque keys.  A block of the namespace without a name that has none of our metadata is
 * read whole the first time; its row has its crc then.  Past GATEWAY_GET_SUMS_MAX: NOTFOUND. */
void gateway_get_find(struct gateway_context *context, struct gateway_item *items, size_t count);

/** The same where the catalog alone answers; false: gateway_get_find() knows more. */
bool gateway_get_known(struct gateway_context *context, struct gateway_item *item);

/** The body of an item that was found with `for_body` is not read after all: the row alone answers,
 *  and is doubted as such. */
void gateway_get_unread(struct gateway_context *context, const struct gateway_item *item);

/** Read the bodies of all items whose status is KVT_OK; what turns out bad or gone is NOTFOUND.
 *  Objects the catalog did not know are remembered. */
void gateway_get_bodies(struct gateway_context *context, struct gateway_item *items, size_t count);

/** Count a read that was answered: from which tier, and how many bytes. */
void gateway_get_count(struct gateway_context *context, const struct gateway_item *item);

#endif /* GATEWAY_BLOCK_GET_H */
