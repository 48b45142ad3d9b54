/*
 * tests/unit/advisor/support/block_forest.h -- a random forest of blocks, and where each of them
 * is.
 *
 * Why: who chooses blocks by what hangs on them, or sums them up, is compared with the simple way
 * over a table.
 * Ownership: begin/end; the rig's folder is the scene's.
 * Threads:   the test's.
 * Limits:    TEST_PLACES_BLOCKS blocks of one size each; two gateways, which report.
 */
#ifndef TESTS_UNIT_ADVISOR_SUPPORT_BLOCK_FOREST_H
#define TESTS_UNIT_ADVISOR_SUPPORT_BLOCK_FOREST_H

#include "tests/unit/advisor/support/rig.h"

enum { TEST_PLACES_BLOCKS = 400, TEST_PLACES_WIDE = 150 /* children of the first block */ };

/* Where a block may be. */
enum {
    TEST_PLACE_HOT0,
    TEST_PLACE_HOT1,
    TEST_PLACE_WARM0,
    TEST_PLACE_COLD0,
    TEST_PLACE_COLD1,
    TEST_PLACE_FAR,       /* a bucket below those two, of both gateways */
    TEST_PLACE_COLD_LOST, /* which no gateway reports */
    TEST_PLACE_G2,
    TEST_PLACE_COUNT
};

struct test_place_block {
    unsigned space;  /* of test_places_spaces */
    unsigned parent; /* TEST_PLACES_BLOCKS: a root */
    uint32_t position;
    uint64_t size;
    uint32_t ranks[TEST_PLACE_COUNT]; /* 0: it is not there */
};

extern const char *const test_places_spaces[3];

struct test_places {
    char folder[256];
    struct test_rig rig;
    uint64_t random;
    uint64_t sequence;
    struct test_place_block blocks[TEST_PLACES_BLOCKS];
};

struct test_places *test_places_begin(void);
void test_places_end(struct test_places *places);

/** The gateway that reports a place, the last one of several, 0 or 1; -1: none does. */
int test_place_gateway(unsigned place);

static inline uint64_t
test_place_hash(unsigned block)
{
    return block + UINT64_C(0x100000);
}

#endif /* TESTS_UNIT_ADVISOR_SUPPORT_BLOCK_FOREST_H */
