/*
 * tests/unit/kvbm/support/peer_process.h -- memory behind a peer's socket.
 *
 * Why: a remote tier in a test takes two sets of volumes and a peer between them.
 * Ownership: whoever opens it closes it, after its volumes were removed.
 * Threads:   one.
 * Limits:    as kvbm/volume/volume_set.h.
 */
#ifndef TESTS_UNIT_KVBM_SUPPORT_PEER_PROCESS_H
#define TESTS_UNIT_KVBM_SUPPORT_PEER_PROCESS_H

#include "kvbm/volume/peer.h"

enum { FAR_FINGERPRINT = 77, FAR_TIMEOUT = 5000 };

struct far {
    struct kvbm_volumes *shown; /* the peer's */
    struct kvbm_volumes *set;   /* of who asks it */
    struct kvbm_peer *peer;
    uint64_t next;
    char path[300];
};

/** The socket is in `folder`. */
void far_open(struct far *far, const char *folder);
void far_close(struct far *far);

/** Memory for so many blocks at the peer; returns the number it has in `shown` and in `set`. */
uint64_t far_add(struct far *far, uint32_t blocks, size_t block_size);
void far_remove(struct far *far, uint64_t volume);

#endif /* TESTS_UNIT_KVBM_SUPPORT_PEER_PROCESS_H */
