/*
 * tests/unit/advisor/support/zmq_peer.h -- engines and brokers over ZMQ that a test plays itself.
 *
 * Why: restarts, lost messages and replies that never come are made, not waited for.
 * Ownership: the test owns the structs; close each.
 * Threads:   a publisher belongs to the test's thread; a replay socket has a thread of its own.
 * Limits:    loopback; TEST_REPLAY_MAX messages in a ring.
 */
#ifndef TESTS_UNIT_ADVISOR_SUPPORT_ZMQ_PEER_H
#define TESTS_UNIT_ADVISOR_SUPPORT_ZMQ_PEER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TEST_REPLAY_MAX 256

struct test_zmq_frame {
    const void *bytes;
    size_t size;
};

/* An XPUB, so that the test knows when somebody has subscribed. */
struct test_zmq_publisher {
    void *context;
    void *socket;
    char endpoint[64];
};

/** Bind to `endpoint`, or to a free port where it is NULL; `waiting_max` messages wait for each
 *  subscriber (0: 1000). */
void test_zmq_publisher_bind(struct test_zmq_publisher *publisher, const char *endpoint,
                             int waiting_max);
void test_zmq_publisher_connect(struct test_zmq_publisher *publisher, const char *endpoint);
void test_zmq_publisher_close(struct test_zmq_publisher *publisher);

/** Wait for `count` subscriptions; asserts that they come. */
void test_zmq_publisher_await(struct test_zmq_publisher *publisher, size_t count);

/** Has another subscription come?  Does not wait. */
bool test_zmq_publisher_subscribed(struct test_zmq_publisher *publisher);

void test_zmq_send(struct test_zmq_publisher *publisher, const struct test_zmq_frame *frames,
                   size_t count);

/** As an engine does: topic, number, payload. */
void test_zmq_publish(struct test_zmq_publisher *publisher, const char *topic, uint64_t sequence,
                      const char *payload);

void test_zmq_be64(uint8_t bytes[8], uint64_t value);

/** A tcp endpoint on loopback that nobody uses just now. */
void test_zmq_free_endpoint(char *endpoint, size_t size);

enum test_replay_mode {
    TEST_REPLAY_FAIR,
    TEST_REPLAY_SILENT, /* takes questions and says nothing */
    TEST_REPLAY_CUT,    /* stops in the middle, without an end */
    TEST_REPLAY_ODD,    /* answers with one frame */
    TEST_REPLAY_HOLES,  /* drops every third message of an answer */
};

/* The ROUTER beside an engine's PUB. */
struct test_zmq_replay {
    void *context;
    void *socket;
    pthread_t thread;
    char endpoint[64];
    enum test_replay_mode mode;
    bool with_topic; /* ["", topic, number, payload], as newer engines */
    uint64_t first;  /* number of messages[0] */
    size_t count;
    const char *messages[TEST_REPLAY_MAX];
    _Atomic bool stopping;
    _Atomic uint32_t questions;
};

/** Starts to answer; mode, with_topic, first, count and messages are the caller's. */
void test_zmq_replay_start(struct test_zmq_replay *replay);
void test_zmq_replay_stop(struct test_zmq_replay *replay);

#endif /* TESTS_UNIT_ADVISOR_SUPPORT_ZMQ_PEER_H */
