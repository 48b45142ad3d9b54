/*
 * tests/unit/advisor/support/foreign_cluster.h -- a small cluster of another system: its blocks,
 * and its messages.
 *
 * Why: what an advisor makes of foreign messages must be compared with what was told to be held.
 * Ownership: messages are written into the caller's buffer.
 * Limits:    TEST_ROUTER_CHAINS sequences of TEST_ROUTER_DEPTH blocks; those above
 *            TEST_ROUTER_SHARED are the same in all of them.
 */
#ifndef TESTS_UNIT_ADVISOR_SUPPORT_FOREIGN_CLUSTER_H
#define TESTS_UNIT_ADVISOR_SUPPORT_FOREIGN_CLUSTER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/core/buffer.h"
#include "kvtier/block.h"

enum {
    TEST_ROUTER_CHAINS = 6,
    TEST_ROUTER_DEPTH = 12,
    TEST_ROUTER_SHARED = 4,
    TEST_ROUTER_TOKENS = 4, /* of a block */
};

/* Some consecutive blocks of a sequence. */
struct test_router_blocks {
    uint32_t chain;
    uint32_t depth;
    uint32_t count;
};

/** The one chain a block is counted under. */
uint32_t test_router_chain(uint32_t chain, uint32_t depth);
void test_router_tokens(uint32_t chain, uint32_t depth, uint32_t tokens[TEST_ROUTER_TOKENS]);
/** Local hash, and the name by the chain over them. */
uint64_t test_router_local(uint32_t chain, uint32_t depth);
uint64_t test_router_name(uint32_t chain, uint32_t depth);
/** What a worker's engine calls it: hashes of its own, but for worker 0, whose are the names. */
uint64_t test_router_called(uint64_t worker, uint32_t chain, uint32_t depth);

/* Who says it, where, under which number. */
struct test_router_head {
    uint64_t worker;
    uint32_t rank;
    enum kvt_tier tier; /* G1 or G2 */
    uint64_t id;
};

/* One RouterEvent each, in JSON, appended. */
void test_router_store(struct kvt_buffer *out, const struct test_router_head *head,
                       const struct test_router_blocks *blocks);
void test_router_remove(struct kvt_buffer *out, const struct test_router_head *head,
                        const struct test_router_blocks *blocks);
void test_router_clear(struct kvt_buffer *out, const struct test_router_head *head);

/** An envelope around a removal, in msgpack, as on NATS core and ZMQ. */
void test_router_envelope(struct kvt_buffer *out, uint64_t publisher, uint64_t sequence,
                          const struct test_router_head *head,
                          const struct test_router_blocks *blocks);

/** An engine's own message with one store, in msgpack. */
void test_router_engine(struct kvt_buffer *out, uint64_t worker,
                        const struct test_router_blocks *blocks);

#endif /* TESTS_UNIT_ADVISOR_SUPPORT_FOREIGN_CLUSTER_H */
