/*
 * engine/rank/rank_messages.h -- what a leader and a worker in another process say to each other.
 *
 * Why: one place knows the bytes; engine/rank/rank_client.c asks, engine/rank/rank_server.c
 * answers. Calls of engine/rpc/rpc.h; every payload is a msgpack array that begins with the
 * version:
 *
 *   about       [version, client]            -> [version, life, layout, ranks, blocks of G1, G2,
 *                                               G3, objects]
 *   job         [version, life, client, number, verb, from, to, layer, layers, peer, priority,
 *                wait_ms, [[hash, parent, position, prefix, tokens, source, target] ...]]
 *                                            -> [version, status, text, [of each rank], [of each
 *                                               item]], when it has ended
 *   cancel      [version, life, client, number]         the job's own answer says how it ended
 *   describe    [version, life, client]      -> the description
 *   share       [version, life, client]      -> what ranks of the same machine need to have its G1
 *   connect     [version, life, client, peer, description]   -> text where it failed
 *   disconnect  [version, life, client, peer]
 *
 * `life` is a number of the worker's process: what was meant for one before it is refused.
 * `client` is one of the leader's that rises with time: the newest owns the worker, and an older
 * one is refused.
 *
 * Ownership: what decode fills lies with the caller, or in the bytes it was read from.
 * Threads:   no shared state.
 * Limits:    ENGINE_ITEMS_MAX items, KVT_RANKS_MAX ranks, ENGINE_METADATA_MAX bytes of a
 *            description.
 */
#ifndef ENGINE_RANK_RANK_MESSAGES_H
#define ENGINE_RANK_RANK_MESSAGES_H

#include "base/core/buffer.h"

#include "engine/rank/worker.h"

#define ENGINE_RANK_MESSAGE_VERSION 1
#define ENGINE_RANK_MESSAGE_MAX     (1u << 20) /* bytes of any of these */

enum engine_rank_message_method {
    ENGINE_RANK_MESSAGE_ABOUT = 1,
    ENGINE_RANK_MESSAGE_JOB,
    ENGINE_RANK_MESSAGE_CANCEL,
    ENGINE_RANK_MESSAGE_DESCRIBE,
    ENGINE_RANK_MESSAGE_CONNECT,
    ENGINE_RANK_MESSAGE_DISCONNECT,
    ENGINE_RANK_MESSAGE_SHARE,
};

struct engine_rank_message_about {
    uint64_t life;
    struct kvbm_layout layout;
    uint32_t ranks;
    uint32_t blocks[KVT_TIER_G4 + 1];
    bool objects;
};

/* Who asks, and of what: the head of all but about. */
struct engine_rank_message_head {
    uint64_t life; /* of about: 0 */
    uint64_t client;
    uint64_t number; /* of job and cancel: the client's; of connect and disconnect: the peer */
    const uint8_t *description; /* connect */
    size_t size;
};

void engine_rank_message_write(struct kvt_buffer *out, enum engine_rank_message_method method,
                               const struct engine_rank_message_head *head);
/** KVT_OK, or KVT_INVALID with all zero.  Not for jobs. */
KVT_NODISCARD enum kvt_err engine_rank_message_read(struct engine_rank_message_head *head,
                                                    enum engine_rank_message_method method,
                                                    const uint8_t *bytes, size_t size);

void engine_rank_message_write_about(struct kvt_buffer *out,
                                     const struct engine_rank_message_about *about);
KVT_NODISCARD enum kvt_err engine_rank_message_read_about(struct engine_rank_message_about *about,
                                                          const uint8_t *bytes, size_t size);

void engine_rank_message_write_job(struct kvt_buffer *out,
                                   const struct engine_rank_message_head *head,
                                   const struct engine_job *job);
/** @param items  room for ENGINE_ITEMS_MAX, which `job` has then */
KVT_NODISCARD enum kvt_err engine_rank_message_read_job(struct engine_rank_message_head *head,
                                                        struct engine_job *job,
                                                        struct engine_item *items,
                                                        const uint8_t *bytes, size_t size);

void engine_rank_message_write_outcome(struct kvt_buffer *out, const struct engine_job *job,
                                       const struct engine_outcome *outcome);
/** KVT_OK: every item of `job` has its status; KVT_INVALID: none was touched. */
KVT_NODISCARD enum kvt_err engine_rank_message_read_outcome(struct engine_job *job,
                                                            struct engine_outcome *outcome,
                                                            const uint8_t *bytes, size_t size);

#endif /* ENGINE_RANK_RANK_MESSAGES_H */
