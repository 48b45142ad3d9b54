/*
 * kvbm/volume/peer_wire.h -- what a peer and who asks it say to each other; nobody else includes
 * it.
 *
 * Why: both sides read and write the same messages.
 * Ownership: buffers and file descriptors are the caller's.
 * Threads:   a connection has one thread; shutdown() from another one ends its calls.
 * Limits:    `timeout_ms` for each piece that is moved.
 */
#ifndef KVBM_VOLUME_PEER_WIRE_H
#define KVBM_VOLUME_PEER_WIRE_H

#include <stdbool.h>

#include "kvbm/volume/volume_set.h"

#define KVBM_PEER_QUESTION_BYTES 64
#define KVBM_PEER_ANSWER_BYTES   24

struct kvbm_peer_question {
    uint32_t verb; /* enum kvt_volume_verb */
    uint32_t tag;  /* comes back in the answer */
    uint64_t volume;
    uint64_t fingerprint;
    struct kvt_block_id id;
    uint32_t size; /* of the block; a put's bytes follow */
    uint32_t crc32c;
};

struct kvbm_peer_answer {
    enum kvt_err status;
    uint32_t tag;
    uint32_t size; /* of the bytes that follow: a get that is KVT_OK has some */
    uint32_t crc32c;
};

void kvbm_peer_write_question(uint8_t out[KVBM_PEER_QUESTION_BYTES],
                              const struct kvbm_peer_question *question);
void kvbm_peer_write_answer(uint8_t out[KVBM_PEER_ANSWER_BYTES],
                            const struct kvbm_peer_answer *answer);

/** False: no message of this kind and version, or a damaged one. */
bool kvbm_peer_read_question(struct kvbm_peer_question *question,
                             const uint8_t in[KVBM_PEER_QUESTION_BYTES]);
bool kvbm_peer_read_answer(struct kvbm_peer_answer *answer,
                           const uint8_t in[KVBM_PEER_ANSWER_BYTES]);

/** All of it, or false: the other side is gone, or nothing moved for `timeout_ms`. */
bool kvbm_peer_send(int fd, const void *bytes, size_t size, uint64_t timeout_ms);
bool kvbm_peer_receive(int fd, void *bytes, size_t size, uint64_t timeout_ms);

#endif /* KVBM_VOLUME_PEER_WIRE_H */
