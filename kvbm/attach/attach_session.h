/*
 * kvbm/attach/attach_session.h -- one engine's connection, from its hello to its end.
 *
 * Why: each engine is served by a thread of its own, so that one that is slow, silent or hostile
 * costs the others nothing but their share of the tiers below.
 *
 * Ownership: a session owns its socket from kvbm_attach_session_start() on.
 * Threads:   one of its own; the calls are for one other thread.
 * Limits:    KVBM_ATTACH_SESSION_HELLO ms for the hello; one chunk of blocks is moved to its end
 *            whatever happens, then what the engine held is given back.
 */
#ifndef KVBM_ATTACH_ATTACH_SESSION_H
#define KVBM_ATTACH_ATTACH_SESSION_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "kvbm/attach/attach_service.h"
#include "kvbm/layout/block_layout.h"

#define KVBM_ATTACH_SESSION_HELLO 5000

/* What sessions count, together. */
struct kvbm_attach_session_counts {
    _Atomic uint64_t attached; /* engines that were let in */
    _Atomic uint64_t refused;  /* ... that were not */
    _Atomic uint64_t broken;   /* ... that were cut off for nonsense in a ring */
    _Atomic uint64_t present;  /* ... that are there now, or knock */
    _Atomic uint64_t services[KVBM_ATTACH_STATS_COUNT]; /* what all services ever counted */
};

struct kvbm_attach_session_options {
    uint32_t slot;
    uint32_t blocks_max;
    const struct kvbm_layout *layout;
    struct kvbm_attach_session_counts *counts;
    struct kvbm_attach_service_options service; /* without memory and stop */
};

struct kvbm_attach_session;

/** Serve `socket`, which is the session's from here on, also where this fails. */
KVT_NODISCARD enum kvt_err
kvbm_attach_session_start(struct kvbm_attach_session **out, int socket,
                          const struct kvbm_attach_session_options *options, struct kvt_error *err);

/** Has it come to its end by itself? */
bool kvbm_attach_session_ended(const struct kvbm_attach_session *session);

/** End it, wait for that, and free it.  NULL is allowed. */
void kvbm_attach_session_free(struct kvbm_attach_session *session);

#endif /* KVBM_ATTACH_ATTACH_SESSION_H */
