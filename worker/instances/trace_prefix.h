/*
 * worker/instances/trace_prefix.h -- the blocks of a prefix of the trace as an engine and its
 * leader know them.
 *
 * Why: a trace has an id for each block, an engine has tokens, and leader and advisor have names
 * made of tokens.  Who serves a request and who asks what is known of its prefix must mean the same
 * blocks.  A token stands for half a block: two make its id.
 *
 * Ownership: the caller's arrays.
 * Limits:    WORKER_TRACE_PREFIX_TOKENS tokens a block.
 */
#ifndef WORKER_INSTANCES_TRACE_PREFIX_H
#define WORKER_INSTANCES_TRACE_PREFIX_H

#include <stddef.h>
#include <stdint.h>

#include "kvbm/pool/block_pool.h"

#define WORKER_TRACE_PREFIX_TOKENS 2 /* of a block */

/** @param tokens  room for count * WORKER_TRACE_PREFIX_TOKENS */
void worker_trace_prefix_tokens(const uint64_t *ids, size_t count, uint32_t *tokens);

/**
 * What a connector with that seed (engine/connector/connector.h) calls each block.
 *
 * @param[out] labels  `count` of them; unspecified on failure
 * @return KVT_OK, KVT_RANGE (longer than a sequence may be) or KVT_NOMEM
 */
KVT_NODISCARD enum kvt_err worker_trace_prefix_labels(const uint64_t *ids, size_t count,
                                                      uint64_t seed, struct kvbm_label *labels);

#endif /* WORKER_INSTANCES_TRACE_PREFIX_H */
