/*
 * tests/unit/advisor/fake/crowd.h -- a crowd of workers: what each did, event by event, life by
 * life.
 *
 * Why: an advisor's picture of a worker must be the worker's own as it was at the event the advisor
 * has come to, whatever was lost, doubled, late or asked for again on the way there.
 *
 * In a test that has this, crowd.c is the outbox (advisor/round/outbox.h): questions to workers
 * are answered from here, at once or later, or not at all, and from a ring and a snapshot as small
 * as real ones are in a hurry.
 *
 * Ownership: begin/end; messages that are made are the caller's.
 * Limits:    one crowd at a time; TEST_CROWD_LIVES_MAX lives of a worker.
 */
#ifndef TESTS_UNIT_ADVISOR_FAKE_CROWD_H
#define TESTS_UNIT_ADVISOR_FAKE_CROWD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/core/buffer.h"

#define TEST_CROWD_WORKERS   300
#define TEST_CROWD_CHAINS    24
#define TEST_CROWD_DEPTH     10
#define TEST_CROWD_BLOCKS    (TEST_CROWD_CHAINS * TEST_CROWD_DEPTH)
#define TEST_CROWD_TIERS     2 /* G2 and G3 */
#define TEST_CROWD_LIVES_MAX 64
#define TEST_CROWD_RING      16 /* a worker's last events, which it can tell again */
#define TEST_CROWD_PAGE      12 /* events of one page of an answer */

/* What a worker holds, after `seq` events of a life. */
struct test_crowd_picture {
    uint32_t life;
    uint64_t seq;
    bool held[TEST_CROWD_TIERS][TEST_CROWD_BLOCKS];
};

/* What happened, for a test that requires it. */
struct test_crowd_counts {
    uint64_t stores;
    uint64_t removes;
    uint64_t inner; /* of those: a block whose child is still there */
    uint64_t moves;
    uint64_t clears;
    uint64_t ranges;   /* answered */
    uint64_t too_late; /* ranges that the ring no longer has */
    uint64_t dumps;
    uint64_t pages;      /* behind the first one of a dump */
    uint64_t broken_off; /* dumps of a life that ended meanwhile */
    uint64_t unanswered;
};

void test_crowd_begin(uint64_t seed);
void test_crowd_end(void);
const struct test_crowd_counts *test_crowd_counts(void);

/** A number below `limit`, from the crowd's own seed. */
uint32_t test_crowd_below(uint32_t limit);

uint64_t test_crowd_hash(uint32_t block);
/** "ns0" or "ns1": the even and the odd ones. */
const char *test_crowd_namespace(uint32_t worker);
/** The worker of that name. */
uint32_t test_crowd_worker(const char *name);
/** The life of that incarnation. */
uint32_t test_crowd_life(uint64_t incarnation);

/** The worker as it is. */
const struct test_crowd_picture *test_crowd_now(uint32_t worker);
/** Make the picture the worker's, as it was at that event of that life. */
void test_crowd_at(uint32_t worker, uint32_t life, uint64_t seq,
                   struct test_crowd_picture *picture);

/** Some stores, removals, moves, or a clear; the batch is appended to `out`. */
void test_crowd_act(uint32_t worker, struct kvt_buffer *out);
/** The worker starts anew, empty. */
void test_crowd_restart(uint32_t worker);
/** A batch without events: which number comes next. */
void test_crowd_heartbeat(uint32_t worker, struct kvt_buffer *out);

/** Answers that are late come this much nearer. */
void test_crowd_tick(void);

#endif /* TESTS_UNIT_ADVISOR_FAKE_CROWD_H */
