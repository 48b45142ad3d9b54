/*
 * tests/unit/gateway/support/support.h -- a gateway_context in a temporary folder, and short
 * words for using it.
 *
 * Why: every test of the gateway needs the same things: a hot volume, a bucket that can be made to
 * misbehave, a catalog that survives being reopened.
 * Ownership: the fixture owns its context and folder.
 * Threads:   the test's.
 */
#ifndef TESTS_UNIT_GATEWAY_SUPPORT_SUPPORT_H
#define TESTS_UNIT_GATEWAY_SUPPORT_SUPPORT_H

#include "base/core/metrics.h"
#include "gateway/block/context_open.h"
#include "gateway/block/get.h"
#include "gateway/block/put.h"
#include "gateway/tier/gateway_context.h"

#include "tests/support/faulty_store.h"
#include "tests/support/seed.h"

struct test_gateway {
    char folder[128];
    char hot[160];
    char cold[160];
    char state[160];
    struct kvt_metrics *metrics;
    struct gateway_stats stats;
    struct gateway_context_options options;
    struct gateway_context *context;
    struct g4_store *bucket; /* the faulty store inside the context's cold tier */
    char warm[160];
    char far[160];               /* "": two tiers */
    struct g4_store *far_bucket; /* as `bucket` */
};

/** Open with these caps (0: no hot tier, no cold cap); asserts. */
void test_gateway_open(struct test_gateway *gateway, uint64_t hot_capacity, uint64_t cold_capacity);

/** Open it again with a second volume and a second bucket. */
void test_gateway_extend(struct test_gateway *gateway, uint64_t warm_capacity,
                         uint64_t far_capacity);

/** Close the context and open it again on the same folders. */
void test_gateway_reopen(struct test_gateway *gateway);

/**
 * Open the context again with a driver of the test's between it and the bucket: what `self` passes
 * on goes to *inner, which the driver closes.
 */
void test_gateway_interpose(struct test_gateway *gateway, const struct g4_store_driver *driver,
                            void *self, struct g4_store **inner);

void test_gateway_close(struct test_gateway *gateway);

#define TEST_NAMESPACE "tenant/model"

/** The key of block `number` at position 3, rank 0. */
const char *test_gateway_key(char out[KVT_KEY_MAX], uint64_t number);

/** Bytes that follow from `number`. */
void test_gateway_fill(uint8_t *body, size_t size, uint64_t number);

/** PUT block `number` of `size` bytes; its status. */
enum kvt_err test_gateway_put(struct test_gateway *gateway, uint64_t number, size_t size);

/** GET it and check the bytes; its status, and the tier that served it. */
enum kvt_err test_gateway_get(struct test_gateway *gateway, uint64_t number, size_t size,
                              unsigned *tier);

enum kvt_err test_gateway_has(struct test_gateway *gateway, uint64_t number);

/** Tiers of its row as the catalog has it, 0 when there is none; `state` may be NULL. */
unsigned test_gateway_tiers(struct test_gateway *gateway, uint64_t number,
                            enum gateway_state *state);

/** One request to a store, with a whole body. */
enum kvt_err test_gateway_store_put(struct g4_store *store, const char *key, const void *body,
                                    size_t size, const struct g4_meta *meta);
enum kvt_err test_gateway_store_head(struct g4_store *store, const char *key,
                                     struct g4_request *request);

/** The next `count` calls of the verb on the bucket do this. */
void test_gateway_fault(struct test_gateway *gateway, enum g4_verb verb, enum g4_fault fault,
                        enum kvt_err status, uint64_t count);

/** From the hot volume to where the bucket's copy is.  KVT_OK also when there was none. */
enum kvt_err test_gateway_demote(struct gateway_context *context, const char *key, uint64_t *bytes);

/** Copy from the bucket that has it to the hot volume. */
enum kvt_err test_gateway_promote(struct gateway_context *context, const char *key,
                                  uint64_t *bytes);

#endif /* TESTS_UNIT_GATEWAY_SUPPORT_SUPPORT_H */
