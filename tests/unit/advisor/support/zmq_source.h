/*
 * tests/unit/advisor/support/zmq_source.h -- a source over ZMQ that a test listens with.
 *
 * Why: all kinds are opened, waited for and closed alike.
 * Ownership: the test closes what it opened; items are the test's.
 * Threads:   the test's.
 * Limits:    waiting ends with a failed assertion after twenty seconds.
 */
#ifndef TESTS_UNIT_ADVISOR_SUPPORT_ZMQ_SOURCE_H
#define TESTS_UNIT_ADVISOR_SUPPORT_ZMQ_SOURCE_H

#include "advisor/source/source.h"

/** Nothing but a name and endpoints. */
struct advisor_source_options test_zmq_source_options(const char *name, const char *endpoints);

struct advisor_source *test_zmq_source_open(const struct advisor_source_ops *ops,
                                            const struct advisor_source_options *options);
/** Open and close with every allocation failing once. */
void test_zmq_source_sweep(const struct advisor_source_ops *ops,
                           const struct advisor_source_options *options);

/** It must not take long. */
void test_zmq_source_close(struct advisor_source *source);

/** What comes next.  Its own thread reads, so that subscriptions come without our doing. */
struct advisor_inbox_item *test_zmq_source_take(struct advisor_source *source);
void test_zmq_source_expect_nothing(struct advisor_source *source);

/** Until so many messages were refused, and no more. */
void test_zmq_source_wait_refused(struct advisor_source *source, uint64_t count);
/** Until its detail has this text in it. */
void test_zmq_source_wait_detail(struct advisor_source *source, const char *text);
/** Until it runs, or says why it does not. */
void test_zmq_source_wait_running(struct advisor_source *source, bool running);

#endif /* TESTS_UNIT_ADVISOR_SUPPORT_ZMQ_SOURCE_H */
