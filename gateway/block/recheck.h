/*
 * gateway/block/recheck.h -- is what a row speaks of still in the bucket?
 *
 * Why: other gateways, lifecycle rules and people remove objects, and nobody tells.  Who asks for a
 * block is answered from its row and its hot copy, at once; if the bucket was not asked for a
 * while, it is asked behind that answer, and what it no longer has is forgotten here too.
 *
 * Ownership: borrows the vault, which owns the doubts.
 * Threads:   seen and touch from any; rounds from one: the thread's, or without it anybody's.
 * Limits:    GATEWAY_DOUBTS_MAX keys wait; what finds no room is doubted again when it is touched
 *            again.  GATEWAY_DOUBTS_SLOTS blocks are remembered as asked for; one that pushed
 *            another out only makes that one be asked for again.  GATEWAY_DOUBTS_RATE a second.
 */
#ifndef GATEWAY_BLOCK_RECHECK_H
#define GATEWAY_BLOCK_RECHECK_H

#include <stddef.h>
#include <stdint.h>

#include "kvtier/error.h"

#define GATEWAY_DOUBTS_MAX   1024
#define GATEWAY_DOUBTS_SLOTS 65536
#define GATEWAY_DOUBTS_RATE  1000

struct gateway_doubts;
struct gateway_vault;

/** @param after_ms  how long the bucket's word is believed; 0 = for ever */
KVT_NODISCARD enum kvt_err gateway_doubts_new(struct gateway_doubts **out, uint64_t after_ms);
/** The thread must have been stopped.  NULL is allowed. */
void gateway_doubts_free(struct gateway_doubts *doubts);

/** The bucket has just shown that it has this block. */
void gateway_doubts_seen(struct gateway_doubts *doubts, const char *key);

/** Somebody is answered by the row alone. */
void gateway_doubts_touch(struct gateway_doubts *doubts, const char *key);

/** Ask about what waits, as far as one round goes; how many were asked about. */
size_t gateway_doubts_round(struct gateway_vault *vault);

/** Ask from now on, in a thread. */
KVT_NODISCARD enum kvt_err gateway_doubts_start(struct gateway_vault *vault, struct kvt_error *err);
/** Also when it was not started. */
void gateway_doubts_stop(struct gateway_vault *vault);

#endif /* GATEWAY_BLOCK_RECHECK_H */
