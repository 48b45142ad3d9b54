/*
 * gateway/block/recheck.h -- is what a row speaks of still in the bucket?
 *
 * Why: other gateways, lifecycle rules and people remove objects, and nobody tells.  Who asks for a
 * block is answered from its row and its hot copy, at once; if the bucket was not asked for a
 * while, it is asked behind that answer, and what it no longer has is forgotten here too.
 *
 * Ownership: borrows the context, which owns the doubts.
 * Threads:   seen and touch from any; rounds from one: the thread's, or without it anybody's.
 * Limits:    GATEWAY_RECHECK_MAX keys wait; what finds no room is doubted again when it is touched
 *            again.  GATEWAY_RECHECK_SLOTS blocks are remembered as asked for; one that pushed
 *            another out only makes that one be asked for again.  GATEWAY_RECHECK_RATE a second.
 */
#ifndef GATEWAY_BLOCK_RECHECK_H
#define GATEWAY_BLOCK_RECHECK_H

#include <stddef.h>
#include <stdint.h>

#include "kvtier/error.h"

#define GATEWAY_RECHECK_MAX   1024
#define GATEWAY_RECHECK_SLOTS 65536
#define GATEWAY_RECHECK_RATE  1000

struct gateway_recheck;
struct gateway_context;

/** @param after_ms  how long the bucket's word is believed; 0 = for ever */
KVT_NODISCARD enum kvt_err gateway_recheck_new(struct gateway_recheck **out, uint64_t after_ms);
/** The thread must have been stopped.  NULL is allowed. */
void gateway_recheck_free(struct gateway_recheck *doubts);

/** The bucket has just shown that it has this block. */
void gateway_recheck_seen(struct gateway_recheck *doubts, const char *key);

/** Somebody is answered by the row alone. */
void gateway_recheck_touch(struct gateway_recheck *doubts, const char *key);

/** Ask about what waits, as far as one round goes; how many were asked about. */
size_t gateway_recheck_round(struct gateway_context *context);

/** Ask from now on, in a thread. */
KVT_NODISCARD enum kvt_err gateway_recheck_start(struct gateway_context *context,
                                                 struct kvt_error *err);
/** Also when it was not started. */
void gateway_recheck_stop(struct gateway_context *context);

#endif /* GATEWAY_BLOCK_RECHECK_H */
