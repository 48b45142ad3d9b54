/*
 * gateway/move/mover.h -- the blocks of an order, several at once, at a pace.
 *
 * Why: one block after the other leaves disk and bucket waiting for each other; all at once they
 * take from clients what they need.  So `at_once` blocks move while nobody asks for anything; while
 * requests come it is one, and as much time passes without as with one.
 *
 * Ownership: borrows the context and the work for the call.
 * Threads:   `at_once` of its own; gateway_mover_run() from one thread at a time.
 * Limits:    GATEWAY_MOVER_AT_ONCE_MAX; `rate` bytes a second of moved blocks, as their average
 *            since the last pause.
 */
#ifndef GATEWAY_MOVE_MOVER_H
#define GATEWAY_MOVE_MOVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gateway/tier/gateway_context.h"
#include "kvtier/error.h"

#define GATEWAY_MOVER_AT_ONCE_MAX 64

struct gateway_mover;

struct gateway_mover_options {
    unsigned at_once; /* blocks; 1 .. GATEWAY_MOVER_AT_ONCE_MAX */
    uint64_t rate;    /* bytes a second; 0 = as fast as it goes */
};

/* `count` things to do, in any order. */
struct gateway_mover_work {
    size_t count;
    uint64_t (*perform)(void *arg, size_t index); /* any thread; answers with the bytes it moved */
    void (*working)(void *arg);                   /* now and then, in the thread that called */
    void *arg;
};

KVT_NODISCARD enum kvt_err gateway_mover_new(struct gateway_mover **out,
                                             struct gateway_context *context,
                                             const struct gateway_mover_options *options,
                                             struct kvt_error *err);
/** Nothing may be running.  NULL is allowed. */
void gateway_mover_free(struct gateway_mover *mover);

/**
 * Do it all, and wait for the end.
 *
 * @param mover  NULL: one after the other, here
 * @return false: the context is stopping, and not everything was begun
 */
bool gateway_mover_run(struct gateway_mover *mover, struct gateway_context *context,
                       const struct gateway_mover_work *work);

#endif /* GATEWAY_MOVE_MOVER_H */
