/*
 * kvbm/volume/peer.h -- volumes of another process on this machine.
 *
 * Why: what one process holds -- blocks in memory, in a file, in a folder -- is good for others
 * beside it.  A peer shows the volumes of its set (kvbm/volume/volume_set.h) on a socket in a
 * folder; a volume of the kind "peer" asks it there, and behind kvbm/volume/volume_storage.h its
 * memory is a tier like any other.
 *
 * A message is a head of fixed size with a crc of its own and, for a block, its bytes, whose
 * crc32c the head has.  What comes is a block only when it is as long as asked, under the asked
 * number and right by that crc; else it is KVT_CORRUPT, and the connection is given up, since
 * nobody knows where the next message begins.  A peer that is away is KVT_UNAVAILABLE at once, one
 * that falls silent after `timeout_ms`.
 *
 * Ownership: a peer borrows its set, and is closed before it.  The volume is a kvbm_volume;
 *            options are copied.
 * Threads:   a peer has a thread that accepts and one a connection.  The volume: as
 *            kvbm/volume/volume_set.h.
 * Limits:    KVBM_PEER_CLIENTS_MAX connections: who comes later is turned away, which it sees as a
 *            peer that is away.  One machine and one user: the socket is made with mode 0600.
 */
#ifndef KVBM_VOLUME_PEER_H
#define KVBM_VOLUME_PEER_H

#include "kvbm/volume/volume_set.h"

#define KVBM_PEER_CLIENTS_MAX 16

struct kvbm_peer;

struct kvbm_peer_options {
    const char *path; /* of the socket; one that a dead process left is replaced */
    struct kvbm_volumes *set;
    uint64_t fingerprint; /* of what the blocks mean; who asks for another one is refused */
    uint64_t timeout_ms;  /* for a message that has begun */
};

/** KVT_OK; KVT_BUSY (somebody listens there); KVT_RANGE (path too long); KVT_NOMEM; the system's.
 */
KVT_NODISCARD enum kvt_err kvbm_peer_open(struct kvbm_peer **out,
                                          const struct kvbm_peer_options *options,
                                          struct kvt_error *err);

/** Hangs up, also in the middle of a message.  NULL is allowed. */
void kvbm_peer_close(struct kvbm_peer *peer);

struct kvbm_volume_peer_options {
    const char *path;     /* of the peer's socket; nobody need be there yet */
    uint64_t volume;      /* its number in the peer's set */
    size_t block_size;    /* bytes */
    uint64_t fingerprint; /* of what the blocks mean */
    uint64_t timeout_ms;  /* for each step of a message */
};

KVT_NODISCARD enum kvt_err kvbm_volume_open_peer(struct kvbm_volume **out,
                                                 const struct kvbm_volume_peer_options *options,
                                                 struct kvt_error *err);

#endif /* KVBM_VOLUME_PEER_H */
