/*
 * tests/unit/advisor/support/test_worker.h -- a worker that holds blocks of no content and
 * publishes about them.
 *
 * Why: the advisor's picture is compared with what the publisher itself says it holds.
 * Ownership: the test owns the worker.
 * Threads:   one, besides the publisher's own which reads the set.
 * Limits:    TEST_WORKER_BLOCKS blocks in two places.
 */
#ifndef TESTS_UNIT_ADVISOR_SUPPORT_TEST_WORKER_H
#define TESTS_UNIT_ADVISOR_SUPPORT_TEST_WORKER_H

#include <json-c/json.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "wire/publisher/event_publisher.h"

#include "tests/unit/advisor/support/advisor_program.h"

#define TEST_WORKER_BLOCKS 2000

struct test_worker {
    char name[KVT_NAME_MAX];
    char namespace_[KVT_NAMESPACE_MAX];
    struct kvt_location locations[2];
    enum wire_event_publisher_mode mode;
    struct wire_bus *bus;
    struct wire_event_publisher *publisher;
    uint64_t seed;
    pthread_mutex_t lock; /* guards `held` */
    bool held[TEST_WORKER_BLOCKS][2];
};

/** Locations G2 and G3 (or, for a gateway, hot@name and cold@bucket). */
void test_worker_init(struct test_worker *worker, const char *nats_url, const char *name,
                      bool gateway);
void test_worker_open(struct test_worker *worker); /* a new life of the publisher */
void test_worker_close(struct test_worker *worker, bool bye);
void test_worker_release(struct test_worker *worker);

/** `count` random stores and removes. */
void test_worker_churn(struct test_worker *worker, uint64_t *random, size_t count);
void test_worker_set(struct test_worker *worker, size_t block, size_t location, bool held);
void test_worker_flush(struct test_worker *worker);

uint64_t test_worker_hash(const struct test_worker *worker, size_t block);

/** Are exactly the places of these workers in the advisor's index? */
bool test_worker_same(const struct test_advisor *advisor, struct test_worker *const *workers,
                      size_t count);
/** Wait until they are; fails the test otherwise. */
void test_worker_wait(const struct test_advisor *advisor, struct test_worker *const *workers,
                      size_t count);

#endif /* TESTS_UNIT_ADVISOR_SUPPORT_TEST_WORKER_H */
