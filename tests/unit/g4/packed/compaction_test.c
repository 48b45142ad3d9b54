/*
 * What is tested: g4/packed/compaction.h, g4/packed/packed.h and g4/packed/manifest_log.h on a
 * bucket in memory: killed at every request there is, overslept at every request, with users who
 * put and delete between any two: what was acknowledged is read, with its bytes; what was deleted
 * stays away; and the next run leaves nothing lying about.
 */
#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/random.h"
#include "g4/packed/compaction.h"

#include "tests/support/seed.h"
#include "tests/unit/g4/support/helpers.h"
#include "tests/unit/g4/support/packing.h"

enum { REQUESTS_MAX = 2000 };

static void
small_blocks_become_segments(void **state)
{
    struct packing *packing = packing_new(test_seed());
    struct memory_bucket_client client = {.memory = &packing->memory};
    struct g4_compaction_report report;
    size_t objects;

    (void)state;
    for (unsigned i = 0; i < PACKING_BLOCKS; i++)
        packing_put(packing, i);
    assert_int_equal(packing_compact(packing, &client, &report), KVT_OK);
    assert_int_equal(report.packed, PACKING_BLOCKS);
    assert_int_equal(report.settled, PACKING_BLOCKS);
    assert_int_equal(report.removed, PACKING_BLOCKS);
    assert_int_equal(report.bad + report.dropped + report.plain_blocks, 0);
    assert_false(report.more || report.full);
    assert_true(report.live_bytes > 0 && report.segment_bytes > report.live_bytes);
    packing_check(packing);
    packing_check_tidy(packing);

    /* There is nothing more to do, and nothing is written to find out. */
    objects = packing->memory.count;
    assert_int_equal(packing_compact(packing, &client, &report), KVT_OK);
    assert_int_equal(report.segments_written + report.segments_deleted + report.removed, 0);
    assert_int_equal(packing->memory.count, objects);

    /* Deleted blocks make room once they are enough. */
    for (unsigned i = 0; i < PACKING_BLOCKS; i++)
        if (i % 4 != 0)
            assert_int_equal(packing_delete(packing, i), KVT_OK);
    packing_check(packing);
    assert_int_equal(packing_compact(packing, &client, &report), KVT_OK);
    assert_true(report.forwarded > 0 && report.segments_deleted > 0);
    packing_check(packing);
    packing_check_tidy(packing);

    /* All of them: the last segment goes too. */
    for (unsigned i = 0; i < PACKING_BLOCKS; i += 4)
        assert_int_equal(packing_delete(packing, i), KVT_OK);
    packing_settle(packing);
    packing_check(packing);
    assert_int_equal(memory_bucket_count(&packing->memory, PACKING_NAMESPACE "/.kvt/segment/"), 0);
    packing_free(packing);
}

/* Dead at its nth request, in whatever way: what was promised holds at once, and after the next. */
static void
killed_at_every_request(void **state)
{
    const enum memory_bucket_death deaths[] = {MEMORY_BUCKET_DIES_BEFORE, MEMORY_BUCKET_DIES_AFTER,
                                               MEMORY_BUCKET_STUMBLES};
    const uint64_t seed = test_seed();

    (void)state;
    for (size_t kind = 0; kind < 3; kind++) {
        bool through = false;

        for (uint64_t n = 1 + seed % TEST_LONG_SHARE; n < REQUESTS_MAX && !through;
             n += TEST_LONG_SHARE) {
            struct packing *packing = packing_new(seed);
            struct memory_bucket_client client = {
                .memory = &packing->memory, .at = n, .death = deaths[kind]};
            struct g4_compaction_report report;

            packing_prepare(packing);
            (void)packing_compact(packing, &client, &report);
            through = client.calls < n;
            packing_check(packing);
            packing_sleep(packing);
            packing_settle(packing);
            packing_check(packing);
            packing_check_tidy(packing);
            packing_free(packing);
        }
        assert_true(through);
    }
}

/* ---- others between any two requests ---- */

struct visit {
    struct packing *packing;
    unsigned block;
    unsigned other;
    bool sleeps;
};

static void
visit_with_users(void *arg, const struct g4_request *request)
{
    struct visit *visit = arg;
    struct packing *packing = visit->packing;

    (void)request;
    packing_check(packing);
    if (packing_delete(packing, visit->block) == KVT_OK) {
        packing_check(packing);
        if (kvt_random_below(&packing->random, 2) == 0)
            packing_put(packing, visit->block);
    }
    packing_put(packing, visit->other);
    packing_check(packing);
}

/* The holder of the lock sleeps past its lease, and everything happens: another packs, users delete
 * and put.  Then it wakes, with the request in its hand.  One thing is asked of users: no store
 * without a condition on the age of a request can tell a late deletion from a new one, so the block
 * whose object is about to be deleted is not put again in just this sleep. */
static void
visit_while_it_sleeps(void *arg, const struct g4_request *request)
{
    struct visit *visit = arg;
    struct packing *packing = visit->packing;
    const unsigned about =
        request->verb == G4_DELETE ? packing_block(request->key) : PACKING_BLOCKS;

    packing_sleep(packing);
    packing_settle(packing);
    assert_int_equal(packing_delete(packing, visit->block), KVT_OK);
    packing_check(packing);
    if (visit->block != about)
        packing_put(packing, visit->block);
    if (visit->other != about)
        packing_put(packing, visit->other);
    if (kvt_random_below(&packing->random, 2) == 0)
        packing_settle(packing);
    packing_check(packing);
}

/* Deletions that nobody acknowledged are asked for again. */
static void
finish_deletions(struct packing *packing)
{
    for (unsigned i = 0; i < PACKING_BLOCKS; i++)
        if (packing->truth[i] == PACKING_UNKNOWN)
            assert_int_equal(packing_delete(packing, i), KVT_OK);
}

static void
visit_every_request(void (*visitor)(void *arg, const struct g4_request *request))
{
    uint64_t random = test_seed();
    bool through = false;

    for (uint64_t n = 1 + random % TEST_LONG_SHARE; n < REQUESTS_MAX && !through;
         n += TEST_LONG_SHARE) {
        struct packing *packing = packing_new(kvt_random_next(&random));
        struct visit visit = {.packing = packing,
                              .block = (unsigned)kvt_random_below(&random, PACKING_BLOCKS),
                              .other = (unsigned)kvt_random_below(&random, PACKING_BLOCKS)};
        struct memory_bucket_client client = {
            .memory = &packing->memory, .at = n, .between = visitor, .arg = &visit};
        struct g4_compaction_report report;

        packing->delete_if_match = kvt_random_below(&random, 2) == 0;
        packing_prepare(packing);
        (void)packing_compact(packing, &client, &report);
        through = client.calls < n;
        packing_check(packing);
        packing_sleep(packing);
        finish_deletions(packing);
        packing_settle(packing);
        packing_check(packing);
        packing_check_tidy(packing);
        packing_free(packing);
    }
    assert_true(through);
}

static void
users_come_between(void **state)
{
    (void)state;
    visit_every_request(visit_with_users);
}

static void
overslept_at_every_request(void **state)
{
    (void)state;
    visit_every_request(visit_while_it_sleeps);
}

/* ---- everything at once ---- */

static void
long_and_wild(void **state)
{
    struct packing *packing = packing_new(test_seed());
    uint64_t *random = &packing->random;

    (void)state;
    for (int round = 0; round < 150 / TEST_LONG_SHARE; round++) {
        struct visit visit = {.packing = packing,
                              .block = (unsigned)kvt_random_below(random, PACKING_BLOCKS),
                              .other = (unsigned)kvt_random_below(random, PACKING_BLOCKS)};
        struct memory_bucket_client client = {
            .memory = &packing->memory,
            .at = 1 + kvt_random_below(random, 200),
            .death = (enum memory_bucket_death)kvt_random_below(random, 4),
            .arg = &visit};
        struct g4_compaction_report report;

        for (uint64_t i = kvt_random_below(random, 12); i > 0; i--) {
            const unsigned block = (unsigned)kvt_random_below(random, PACKING_BLOCKS);

            if (kvt_random_below(random, 3) == 0)
                (void)packing_delete(packing, block);
            else
                packing_put(packing, block);
        }
        if (kvt_random_below(random, 3) == 0)
            client.between = visit_with_users;
        else if (kvt_random_below(random, 3) == 0)
            client.between = visit_while_it_sleeps;
        (void)packing_compact(packing, &client, &report);
        packing_check(packing);
        packing_sleep(packing);
    }
    finish_deletions(packing);
    packing_settle(packing);
    packing_check(packing);
    packing_check_tidy(packing);
    packing_free(packing);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_blocks_become_segments),
        cmocka_unit_test(killed_at_every_request),
        cmocka_unit_test(users_come_between),
        cmocka_unit_test(overslept_at_every_request),
        cmocka_unit_test(long_and_wild),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
