/*
 * engine/rpc/rpc_wire.h -- the messages of engine/rpc/rpc.h, byte for byte.
 *
 * Why: one msgpack array a message, [version, kind, link, number, code, wait_ms, payload], so that
 * any language can read along.  Written with the shortest numbers; read with any.
 *
 *   HELLO    client   link: the one it had, or 0; number: a nonce    let us have a link
 *   WELCOME  server   link: the new one; number: the nonce; wait_ms: the silence that ends it
 *   CALL     client   code: method; wait_ms; payload
 *   ANSWER   server   code: status; payload                          a handler said so
 *   REFUSED  server   code: status                                   the server did
 *   ASK      client                                                  what became of this call?
 *   TAKEN    server                                                  it goes on
 *   MISSING  server                                                  it never came: send it again
 *   CANCEL   client                                                  nobody waits for it any more
 *   PING     client
 *   PONG     server
 *   BYE      both     code: status; number: the nonce, to a HELLO    there is no such link (now)
 *
 * A call's number is sequence * ENGINE_RPC_CALLS_MAX + slot.  A client has at most one call in a
 * slot; a higher sequence says that it has done with the one before.  So a server that remembers
 * the last sequence and answer of each slot knows of every call whether it is new, and remembers
 * no more than that.
 *
 * Any message may be lost, come twice, or come late.
 *
 * Ownership: none; a payload that was read lies in the bytes it was read from.
 * Threads:   no shared state.
 * Limits:    ENGINE_RPC_WIRE_HEAD_MAX bytes before the payload.
 */
#ifndef ENGINE_RPC_RPC_WIRE_H
#define ENGINE_RPC_RPC_WIRE_H

#include <stddef.h>
#include <stdint.h>

#include "engine/rpc/rpc.h"

#define ENGINE_RPC_WIRE_VERSION  1
#define ENGINE_RPC_WIRE_HEAD_MAX 40
#define ENGINE_RPC_WIRE_MAX      (ENGINE_RPC_PAYLOAD_MAX + ENGINE_RPC_WIRE_HEAD_MAX)

enum engine_rpc_kind {
    ENGINE_RPC_HELLO = 1,
    ENGINE_RPC_WELCOME,
    ENGINE_RPC_CALL,
    ENGINE_RPC_ANSWER,
    ENGINE_RPC_REFUSED,
    ENGINE_RPC_ASK,
    ENGINE_RPC_TAKEN,
    ENGINE_RPC_MISSING,
    ENGINE_RPC_CANCEL,
    ENGINE_RPC_PING,
    ENGINE_RPC_PONG,
    ENGINE_RPC_BYE,
    ENGINE_RPC_KIND_END
};

struct engine_rpc_message {
    enum engine_rpc_kind kind;
    uint64_t link;
    uint64_t number;
    uint32_t code;        /* a method below ENGINE_RPC_METHODS_MAX, or an enum kvt_err */
    uint32_t wait_ms;     /* at most ENGINE_RPC_WAIT_MAX */
    const uint8_t *bytes; /* NULL where size is 0 */
    size_t size;
};

/** Everything but the payload's bytes, which belong right behind it.  @return its size */
size_t engine_rpc_wire_head(uint8_t out[ENGINE_RPC_WIRE_HEAD_MAX],
                            const struct engine_rpc_message *message);

/** KVT_OK, KVT_INVALID (no message), KVT_UNSUPPORTED (of another version) or KVT_RANGE (larger than
 *  a message may be).  `*out` is all zero then. */
KVT_NODISCARD enum kvt_err engine_rpc_wire_read(struct engine_rpc_message *out,
                                                const uint8_t *bytes, size_t size);

#endif /* ENGINE_RPC_RPC_WIRE_H */
