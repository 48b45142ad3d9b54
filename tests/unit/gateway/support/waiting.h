/*
 * tests/unit/gateway/support/waiting.h -- a gateway in write-back, whose uploads happen when the
 * test says.
 *
 * Why: what lies between an acknowledgement and the upload is what must be looked at, so no thread
 * may end it by itself.
 * Ownership: the fixture owns its gateway and backlog.
 * Threads:   the test's.
 */
#ifndef TESTS_UNIT_GATEWAY_SUPPORT_WAITING_H
#define TESTS_UNIT_GATEWAY_SUPPORT_WAITING_H

#include "gateway/block/backlog.h"

#include "tests/unit/gateway/support/support.h"

#define TEST_WAITING_HOT    (1u << 20) /* bytes of the hot volume */
#define TEST_WAITING_SIZE   5000       /* of what is planted */
#define TEST_WAITING_EVENTS 128        /* bytes of test_waiting_events() */

struct test_waiting {
    struct test_gateway gateway;
    struct gateway_backlog *backlog;
};

/** Open with room for this many bytes in the backlog; asserts. */
void test_waiting_open(struct test_waiting *waiting, uint64_t backlog_max);

/** As a restart, with `options` as they are by then. */
void test_waiting_reopen(struct test_waiting *waiting);

void test_waiting_close(struct test_waiting *waiting);

/** One round; how many blocks were uploaded. */
size_t test_waiting_round(struct test_waiting *waiting);

/** Faults are over: rounds, and whatever else the keeper does, until nothing waits and nothing is
 *  unfinished; asserts that this ends. */
void test_waiting_drain(struct test_waiting *waiting);

/** Blocks that the bucket is owed, as the catalog counts them. */
uint64_t test_waiting_blocks(struct test_waiting *waiting);

/** Does the bucket have exactly the bytes that follow from `number`, with their metadata? */
bool test_waiting_arrived(struct test_waiting *waiting, uint64_t number, size_t size);

/** Put a block of another gateway, "gw1", with the bytes of `content` under the key of `number`. */
enum kvt_err test_waiting_plant(struct g4_store *store, uint64_t number, uint64_t content);

uint64_t test_waiting_count(struct test_waiting *waiting, enum gateway_stat stat);

/** The events of the first stream, when all are durable: "+hot +cold -hot". */
const char *test_waiting_events(struct test_waiting *waiting, char text[TEST_WAITING_EVENTS]);

#endif /* TESTS_UNIT_GATEWAY_SUPPORT_WAITING_H */
