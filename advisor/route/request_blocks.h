/*
 * advisor/route/request_blocks.h -- the blocks of a request that is to be routed.
 *
 * Why: a question comes as tokens, as their hashes, or as blocks' names; index and slot table know
 * names alone.
 *
 * Ownership: the prompt owns its hashes.
 * Limits:    WIRE_ROUTE_VALUES_MAX tokens, WIRE_ROUTE_BLOCKS_MAX blocks.
 */
#ifndef ADVISOR_ROUTE_REQUEST_BLOCKS_H
#define ADVISOR_ROUTE_REQUEST_BLOCKS_H

#include "kvtier/error.h"
#include "wire/message/route.h"

struct advisor_request_blocks {
    uint64_t *hashes; /* sequence hashes of its whole blocks, root first */
    uint32_t hash_count;
    uint32_t blocks;     /* with those that have no hash, the last one maybe not full */
    uint64_t isl_tokens; /* its length */
    uint32_t block_tokens;
};

/**
 * Read it off a question.
 *
 * @param block_tokens  where the question does not say
 * @return KVT_OK, KVT_INVALID, KVT_RANGE or KVT_NOMEM with one line; nothing to free then
 */
KVT_NODISCARD enum kvt_err advisor_request_blocks_read(struct advisor_request_blocks *prompt,
                                                       const struct wire_route_question *question,
                                                       uint32_t block_tokens,
                                                       struct kvt_error *err);
void advisor_request_blocks_release(struct advisor_request_blocks *prompt);

/** The names that blocks of a namespace have among running requests, which know no namespaces:
 *  those of two differ though their hashes are equal.  Copied; NULL: no memory. */
uint64_t *advisor_request_blocks_running(const uint64_t *hashes, uint32_t count,
                                         const char *namespace_);

#endif /* ADVISOR_ROUTE_REQUEST_BLOCKS_H */
