/*
 * wire/dialect/dynamo_snapshot.h -- what a Dynamo router with durable events put into NATS.
 *
 * Why: such a router (releases up to 1.3.1) purges the stream behind what all routers have read,
 * and keeps an object "radix-state" instead: who holds what.  Without it whoever reads the stream
 * late never learns what was purged.
 *
 * The bytes are positional, little-endian and without a version (docs/formats.md), so whatever does
 * not fit to the last byte is taken for another release's and refused as a whole.
 *
 * Ownership: a walk points into the bytes it was given.
 * Threads:   any; a walk belongs to one thread.
 * Limits:    WIRE_DYNAMO_SNAPSHOT_MAX bytes.
 */
#ifndef WIRE_DIALECT_DYNAMO_SNAPSHOT_H
#define WIRE_DIALECT_DYNAMO_SNAPSHOT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/core/buffer.h"
#include "kvtier/error.h"

#define WIRE_DYNAMO_SNAPSHOT_MAX    (256u << 20)
#define WIRE_DYNAMO_SNAPSHOT_OBJECT "radix-state"

/* Blocks behind each other that a rank of a worker has in a tier. */
struct wire_dynamo_kept {
    uint64_t worker;
    uint64_t parent; /* before the first */
    uint64_t count;
    const uint8_t *blocks;
    uint32_t tier; /* 0 to 3: device, host_pinned, disk, external */
    uint32_t dp_rank;
    bool has_parent;
};

/* Where a walk is.  All zero but for the bytes: at the start. */
struct wire_dynamo_snapshot {
    const uint8_t *bytes;
    size_t size;
    size_t at;
    uint64_t left; /* chains */
    bool begun;
};

/** The next chain.  KVT_OK; KVT_NOTFOUND: that was the last one, and nothing lies behind it;
 *  KVT_INVALID, KVT_RANGE: nothing of the snapshot may be used. */
KVT_NODISCARD enum kvt_err wire_dynamo_snapshot_next(struct wire_dynamo_snapshot *snapshot,
                                                     struct wire_dynamo_kept *kept,
                                                     struct kvt_error *err);

/** All of it, without using it.  `chains` and `blocks` are how many there are. */
KVT_NODISCARD enum kvt_err wire_dynamo_snapshot_check(const void *bytes, size_t size,
                                                      uint64_t *chains, uint64_t *blocks,
                                                      struct kvt_error *err);

/** Append `count` blocks of a chain from its block `first` on as a RouterEvent in JSON, as they
 *  would have come by the stream. */
void wire_dynamo_snapshot_write(const struct wire_dynamo_kept *kept, uint64_t first, uint64_t count,
                                struct kvt_buffer *out);

#endif /* WIRE_DIALECT_DYNAMO_SNAPSHOT_H */
