/*
 * engine/memory/rail.h -- one UCX worker, and the processes it reaches.
 *
 * Why: shared memory and networks differ in what UCX can promise.  On a watched rail UCX notices
 * that a peer is gone and fails what is in flight; shared memory has no such thing, and needs none.
 * Only engine/fabric*.c includes this.
 *
 * Ownership: a rail owns its peers' endpoints.
 * Threads:   the fabric's alone, but for engine_rail_open() and _close().
 * Limits:    an address has at most ENGINE_RAIL_ADDRESS_MAX bytes.
 */
#ifndef ENGINE_MEMORY_RAIL_H
#define ENGINE_MEMORY_RAIL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <ucp/api/ucp.h>

#include "kvtier/error.h"

#define ENGINE_RAIL_ADDRESS_MAX     1536
#define ENGINE_RAIL_TRANSPORTS_MAX  16  /* names */
#define ENGINE_RAIL_TRANSPORTS_SIZE 128 /* bytes of them, with commas and the final NUL */

struct engine_peer {
    struct engine_rail *rail;
    ucp_ep_h endpoint;
    enum kvt_err failed; /* KVT_OK while it may answer */
    unsigned users;      /* windows */
    size_t address_size;
    struct engine_peer *next;
    uint8_t address[];
};

struct engine_rail {
    const char *name;
    bool open;
    bool watched;
    bool messages; /* reads and puts are messages: the network has none of its own */
    ucp_context_h context;
    ucp_worker_h worker;
    ucp_address_t *address;
    size_t address_size;
    int event_fd;
    struct engine_peer *peers;
};

/**
 * Those of `wanted` that UCX has here, in their order: transports, or what several begin with
 * ("rc": "rc_verbs" and "rc_mlx5").  What UCX does not know it warns of whenever it is named.
 *
 * @return KVT_OK, also where there are none; KVT_NOMEM
 */
KVT_NODISCARD enum kvt_err engine_rail_transports(const char *wanted,
                                                  char out[ENGINE_RAIL_TRANSPORTS_SIZE]);

/** KVT_OK; KVT_UNSUPPORTED: UCX has none of `transports` here.  The rail is closed then. */
KVT_NODISCARD enum kvt_err engine_rail_open(struct engine_rail *rail, const char *name,
                                            const char *transports, bool watched,
                                            struct kvt_error *err);
void engine_rail_close(struct engine_rail *rail);

/** Let UCX work; true: it had something to do. */
bool engine_rail_progress(struct engine_rail *rail);

/** Make `event_fd` readable when there is something to do; false: there is already. */
bool engine_rail_arm(struct engine_rail *rail);

/** Who has that address: one more user of it.  KVT_UNAVAILABLE: not on this rail. */
KVT_NODISCARD enum kvt_err engine_peer_find(struct engine_peer **out, struct engine_rail *rail,
                                            const uint8_t *address, size_t size);

/** One user fewer; the last one's endpoint goes. */
void engine_peer_leave(struct engine_peer *peer);

/** Nothing more is expected of it: what is in flight fails soon, and whatever is asked of it from
 *  then on (KVT_UNAVAILABLE).  Of a watched rail only. */
void engine_peer_fail(struct engine_peer *peer);

/** What a status of UCX means to a caller. */
enum kvt_err engine_rail_err(ucs_status_t status);

#endif /* ENGINE_MEMORY_RAIL_H */
