/*
 * tests/unit/gateway/support/world.h -- a gateway with four tiers, whose stores can be made to
 * fail.
 *
 * Why: what moves and removals leave is seen in all four places, and told of in short words.
 * Ownership: the fixture owns its gateway; test_gateway_close() ends it.
 * Threads:   the test's.
 * Limits:    blocks of TEST_WORLD_SIZE bytes.
 */
#ifndef TESTS_UNIT_GATEWAY_SUPPORT_WORLD_H
#define TESTS_UNIT_GATEWAY_SUPPORT_WORLD_H

#include "tests/unit/gateway/support/support.h"

enum { TEST_WORLD_SIZE = 3000 };

/** The bit of each tier. */
extern const unsigned test_world_bits[GATEWAY_TIERS];

struct test_world {
    struct test_gateway g;
    struct g4_store *stores[GATEWAY_TIERS]; /* faulty ones */
};

void test_world_open(struct test_world *w);

/** The same with these caps; 0 of the far bucket: none. */
void test_world_open_with(struct test_world *w, uint64_t warm_capacity, uint64_t far_capacity);

/** The next life, on the same folders. */
void test_world_reopen(struct test_world *w);

/** What a life does by itself. */
void test_world_repair(struct test_world *w);

enum kvt_err test_world_move(struct test_world *w, uint64_t number, unsigned from, unsigned to,
                             bool keep);

/** A block in `tier`; of the volumes it is beside its bucket's copy. */
void test_world_place(struct test_world *w, uint64_t number, unsigned tier);

/** Take a copy away behind the gateway's back. */
void test_world_drop(struct test_world *w, uint64_t number, unsigned tier);

/** Is anything under its key in `tier`? */
bool test_world_has(struct test_world *w, uint64_t number, unsigned tier);

/** The rows of blocks 1 to `numbers` say what is there, and the counters what the rows say. */
void test_world_expect_true(struct test_world *w, uint64_t numbers, const char *what);

void test_world_expect_readable(struct test_world *w, uint64_t number, const char *what);

/** From now on the far bucket answers nothing, or all again; nobody is told. */
void test_world_far_away(struct test_world *w, bool away);

#endif /* TESTS_UNIT_GATEWAY_SUPPORT_WORLD_H */
