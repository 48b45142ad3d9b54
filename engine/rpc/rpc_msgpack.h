/*
 * engine/rpc/rpc_msgpack.h -- msgpack, as far as the engine's messages need it: numbers, bytes,
 * arrays.
 *
 * Why: messages of other processes may be cut, changed or made up.  A reader goes on after the
 * first thing that is not as said, and says so once at the end, so that whoever reads a message
 * need not look after each number.
 *
 * Ownership: bytes that were read lie in those they were read from.
 * Threads:   no shared state.
 * Limits:    numbers below 2^64, bytes and arrays below 2^32; each is given its own by the reader.
 */
#ifndef ENGINE_RPC_RPC_MSGPACK_H
#define ENGINE_RPC_RPC_MSGPACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/core/buffer.h"

/* ---- writing: shortest forms ---- */

void engine_pack_number(struct kvt_buffer *out, uint64_t value);
void engine_pack_array(struct kvt_buffer *out, uint32_t count);
void engine_pack_bytes(struct kvt_buffer *out, const void *bytes, uint32_t size);

/* ---- reading: any forms ---- */

struct engine_unpack {
    const uint8_t *bytes;
    size_t size;
    bool bad; /* something was not as said; all behind it reads as 0 */
};

/** A number of at most `max`. */
uint64_t engine_unpack_number(struct engine_unpack *in, uint64_t max);
/** The head of an array of `min` to `max`. */
uint32_t engine_unpack_array(struct engine_unpack *in, uint32_t min, uint32_t max);
/** Bytes, at most `max`; NULL where there are none. */
const uint8_t *engine_unpack_bytes(struct engine_unpack *in, uint32_t max, size_t *size);
/** All was as said, and nothing is left. */
bool engine_unpack_end(const struct engine_unpack *in);

#endif /* ENGINE_RPC_RPC_MSGPACK_H */
