/*
 * gateway/block/backlog.h -- blocks that were acknowledged from their hot copies, on their way to
 * the bucket.
 *
 * Why: in write-back a PUT waits for the local disk only.  What the bucket is then owed is a row of
 * the catalog, so a restart goes on where the last life ended, and reads no bytes to do so.
 *
 * Ownership: borrows the context.
 * Threads:   one of its own, which holds the keys of what it uploads: a removal or a PUT of such a
 *            block waits for the upload to end, a read does not.
 * Limits:    GATEWAY_BACKLOG_PAGE blocks in memory, `uploads` of them in the air: one at a time
 *            while requests come, unless the backlog is more than half full.  Their bodies come out
 *            of the budget of all bodies.  An upload has 30 s, and a round begins none after 10 s.
 */
#ifndef GATEWAY_BLOCK_BACKLOG_H
#define GATEWAY_BLOCK_BACKLOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gateway/tier/gateway_context.h"
#include "kvtier/error.h"

#define GATEWAY_BACKLOG_PAGE 16

struct gateway_backlog;

struct gateway_backlog_options {
    unsigned uploads;  /* at once */
    uint64_t stuck_ms; /* without a step forward before it is called stuck */
};

KVT_NODISCARD enum kvt_err gateway_backlog_new(struct gateway_backlog **out,
                                               struct gateway_context *context,
                                               const struct gateway_backlog_options *options,
                                               struct kvt_error *err);
/** Upload from now on. */
KVT_NODISCARD enum kvt_err gateway_backlog_start(struct gateway_backlog *backlog,
                                                 struct kvt_error *err);
/** Waits for what is in the air, then frees; the rest is the next life's.  NULL is allowed. */
void gateway_backlog_stop(struct gateway_backlog *backlog);

/* What one round did. */
struct gateway_backlog_round {
    size_t seen;     /* rows it looked at; 0: none wait, or the bucket is away */
    size_t uploaded; /* blocks the bucket has by now */
    size_t failed;   /* to be tried again */
};

/** Upload the next page of the oldest rows.  The thread's; without a thread, anybody's. */
void gateway_backlog_round(struct gateway_backlog *backlog, struct gateway_backlog_round *round);

struct gateway_backlog_state {
    uint64_t blocks;
    uint64_t bytes;
    uint64_t oldest_ms; /* how long the first of them has waited */
    bool stuck;
    enum kvt_err last; /* why an upload failed last; KVT_OK: none did since one succeeded */
};

void gateway_backlog_state(struct gateway_backlog *backlog, struct gateway_backlog_state *state);

#endif /* GATEWAY_BLOCK_BACKLOG_H */
