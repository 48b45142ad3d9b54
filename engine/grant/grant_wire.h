/*
 * engine/grant/grant_wire.h -- what a writer and the owner of a block set say to each other.
 *
 * Why: one place knows the bytes; engine/grant/grant_writer.c asks, engine/grant/grant_server.c
 * answers.  Calls of engine/rpc/rpc.h; every payload is a msgpack array that begins with the
 * version:
 *
 *   about    [version]                   -> [version, nonce, places, the landing's description]
 *   acquire  [version, nonce, hold_ms, [hash, parent, position, prefix, tokens ...]]
 *                                        -> [version, number, hold_ms, [place of each name]]
 *   commit   [version, number, settled, [sum of each]]
 *                                        -> [version, [status, block, generation of each]]
 *
 * A place is 0 where the owner has a block of that name, else one more than its number; a sum is 0
 * where the block is given back, else one more than it is.  `settled`: no put of the grant is on
 * its way any more.
 *
 * Ownership: what is read lies with the caller, or in the bytes it was read from.
 * Threads:   no shared state.
 * Limits:    ENGINE_GRANT_BLOCKS_MAX of each.
 */
#ifndef ENGINE_GRANT_GRANT_WIRE_H
#define ENGINE_GRANT_GRANT_WIRE_H

#include "base/core/buffer.h"
#include "kvbm/pool/block_pool.h"

#define ENGINE_GRANT_BLOCKS_MAX 64
#define ENGINE_GRANT_PLACES_MAX 4096
#define ENGINE_GRANT_VERSION    1
#define ENGINE_GRANT_WIRE_MAX   (16u << 10) /* bytes of any of these */

enum engine_grant_method {
    ENGINE_GRANT_ABOUT = 1,
    ENGINE_GRANT_ACQUIRE,
    ENGINE_GRANT_COMMIT,
};

struct engine_grant_about {
    uint64_t nonce; /* of the block set */
    uint32_t places;
    const uint8_t *description; /* of the landing */
    size_t size;
};

struct engine_grant_wish {
    uint64_t nonce;
    uint64_t hold_ms;
    size_t count;
    struct kvbm_label labels[ENGINE_GRANT_BLOCKS_MAX];
};

struct engine_grant_given {
    uint64_t number;
    uint64_t hold_ms;
    size_t count;
    uint32_t places[ENGINE_GRANT_BLOCKS_MAX]; /* 0: it is there */
};

struct engine_grant_end {
    uint64_t number;
    bool settled;
    size_t count;
    uint64_t sums[ENGINE_GRANT_BLOCKS_MAX]; /* 0: given back */
};

struct engine_grant_result {
    enum kvt_err status;
    uint32_t block;
    uint64_t generation;
};

void engine_grant_write_about(struct kvt_buffer *out, const struct engine_grant_about *about);
void engine_grant_write_wish(struct kvt_buffer *out, const struct engine_grant_wish *wish);
void engine_grant_write_given(struct kvt_buffer *out, const struct engine_grant_given *given);
void engine_grant_write_end(struct kvt_buffer *out, const struct engine_grant_end *end);
void engine_grant_write_results(struct kvt_buffer *out, const struct engine_grant_result *results,
                                size_t count);
/** The question of about. */
void engine_grant_write_version(struct kvt_buffer *out);

/* KVT_OK, or KVT_INVALID with all zero. */
KVT_NODISCARD enum kvt_err engine_grant_read_version(const uint8_t *bytes, size_t size);
KVT_NODISCARD enum kvt_err engine_grant_read_about(struct engine_grant_about *about,
                                                   const uint8_t *bytes, size_t size);
KVT_NODISCARD enum kvt_err engine_grant_read_wish(struct engine_grant_wish *wish,
                                                  const uint8_t *bytes, size_t size);
KVT_NODISCARD enum kvt_err engine_grant_read_given(struct engine_grant_given *given,
                                                   const uint8_t *bytes, size_t size);
KVT_NODISCARD enum kvt_err engine_grant_read_end(struct engine_grant_end *end, const uint8_t *bytes,
                                                 size_t size);
/** @param count  as many as there must be */
KVT_NODISCARD enum kvt_err engine_grant_read_results(struct engine_grant_result *results,
                                                     size_t count, const uint8_t *bytes,
                                                     size_t size);

#endif /* ENGINE_GRANT_GRANT_WIRE_H */
