/*
 * What is tested: write-back (gateway/block/put.h, backlog.h, move.h, remove.h, recover.h) beside
 * a model that knows one thing: what was acknowledged.  Calls of the bucket fail, one after the
 * other and at random; the gateway is restarted; whatever happens, what was acknowledged is read
 * with its bytes, and ends in the bucket.
 */
#include <stdio.h>
#include <string.h>

#include "base/core/random.h"
#include "gateway/block/removal.h"
#include "gateway/move/move.h"
#include "gateway/move/recover.h"
#include "gateway/tier/bucket_tier.h"

#include "tests/unit/gateway/support/waiting.h"

enum { SIZE = 900, KEYS = 12, STEPS = 250, BLOCKS = 4, CALLS_MAX = 12 };

static const enum kvt_err answers[] = {KVT_IO,     KVT_TIMEOUT, KVT_UNAVAILABLE,
                                       KVT_DENIED, KVT_FULL,    KVT_AGAIN};
enum { ANSWERS = sizeof(answers) / sizeof(answers[0]) };

/* Wrong bytes are an assertion of test_gateway_get() itself. */
static void
expect_all(struct test_waiting *w, const char *what)
{
    for (uint64_t i = 0; i < BLOCKS; i++)
        if (test_gateway_get(&w->gateway, i, SIZE, NULL) != KVT_OK)
            fail_msg("%s: block %u is not read", what, (unsigned)i);
}

/* Every way to the bucket: two new blocks, one that is there though nobody knows, and one that
 * meets an empty object. */
static void
prepare(struct test_waiting *w)
{
    const struct g4_meta bare = {0};
    char key[KVT_KEY_MAX];

    assert_int_equal(test_gateway_put(&w->gateway, 0, SIZE), KVT_OK);
    test_gateway_fault(&w->gateway, G4_PUT, G4_FAULT_LOSE, KVT_IO, 1);
    assert_int_equal(test_waiting_round(w), 0);
    test_gateway_fault(&w->gateway, G4_PUT, G4_FAULT_NONE, KVT_OK, 0);
    for (uint64_t i = 1; i < BLOCKS; i++)
        assert_int_equal(test_gateway_put(&w->gateway, i, SIZE), KVT_OK);
    assert_int_equal(
        test_gateway_store_put(w->gateway.bucket, test_gateway_key(key, 1), "", 0, &bare), KVT_OK);
}

/* The `after`th call of `verb` fails, from the acknowledgement on. */
static bool
fail_one(struct g4_fault_rule *rule, const char *what)
{
    struct test_waiting w;
    uint64_t before;
    uint64_t after;
    uint64_t seen;

    test_waiting_open(&w, TEST_WAITING_HOT);
    prepare(&w);
    test_faulty_store_count(w.gateway.bucket, rule->verb, &seen, &before);
    test_faulty_store_set(w.gateway.bucket, rule);
    for (unsigned round = 0; round < 5; round++) {
        (void)test_waiting_round(&w);
        expect_all(&w, what);
        gateway_bucket_tier_probe(w.gateway.context->tiers.buckets);
    }
    test_faulty_store_count(w.gateway.bucket, rule->verb, &seen, &after);
    rule->count = 0;
    test_faulty_store_set(w.gateway.bucket, rule);
    test_waiting_reopen(&w);
    expect_all(&w, what);
    test_waiting_drain(&w);
    for (uint64_t i = 0; i < BLOCKS; i++)
        if (!test_waiting_arrived(&w, i, SIZE))
            fail_msg("%s: block %u is not in the bucket", what, (unsigned)i);
    assert_int_equal(gateway_stats_get(&w.gateway.stats, GATEWAY_STAT_BACKLOG_LOST), 0);
    test_waiting_close(&w);
    return after > before;
}

static void
every_failing_call(void **state)
{
    static const enum g4_verb verbs[] = {G4_PUT, G4_HEAD, G4_GET};
    static const enum g4_fault faults[] = {G4_FAULT_FAIL, G4_FAULT_LOSE};
    unsigned hits = 0;

    (void)state;
    for (size_t verb = 0; verb < sizeof(verbs) / sizeof(verbs[0]); verb++) {
        for (size_t fault = 0; fault < sizeof(faults) / sizeof(faults[0]); fault++) {
            bool hit = true;

            for (uint64_t after = 0; hit && after < CALLS_MAX; after++) {
                struct g4_fault_rule rule = {.verb = verbs[verb],
                                             .fault = faults[fault],
                                             .after = after,
                                             .count = 1,
                                             .status = answers[(after + fault) % ANSWERS]};
                char what[64];

                (void)snprintf(what, sizeof(what), "verb %d, fault %d, call %u", (int)verbs[verb],
                               (int)faults[fault], (unsigned)after);
                hit = fail_one(&rule, what);
                hits += hit ? 1 : 0;
            }
            assert_false(hit); /* all calls there are were made to fail */
        }
    }
    assert_true(hits >= 2 * (5 + 2 + 1)); /* 5 PUTs, 2 HEADs, 1 GET */
}

/* What the model knows of a key. */
enum truth { ABSENT, STORED, EITHER };

struct model {
    struct test_waiting w;
    uint64_t seed;
    enum truth truth[KEYS];
};

static void
look(struct model *m, uint64_t number)
{
    const enum kvt_err rc = test_gateway_get(&m->w.gateway, number, SIZE, NULL);

    if (m->truth[number] == STORED && rc != KVT_OK && rc != KVT_UNAVAILABLE && rc != KVT_TIMEOUT &&
        rc != KVT_IO && rc != KVT_AGAIN && rc != KVT_DENIED && rc != KVT_FULL)
        fail_msg("block %u was acknowledged: %s", (unsigned)number, kvt_err_text(rc));
    if (m->truth[number] == ABSENT && rc == KVT_OK)
        fail_msg("block %u was removed, and is there", (unsigned)number);
}

static void
change(struct model *m, uint64_t number)
{
    struct gateway_context *context = m->w.gateway.context;
    char key[KVT_KEY_MAX];
    uint64_t bytes;
    enum kvt_err rc;

    (void)test_gateway_key(key, number);
    switch (kvt_random_below(&m->seed, 8)) {
    case 0:
        rc = gateway_remove(context, key);
        /* One that was refused before it began leaves what was; any other may have done it. */
        if (rc == KVT_OK)
            m->truth[number] = ABSENT;
        else if (m->truth[number] == STORED)
            m->truth[number] = EITHER;
        break;
    case 1: (void)!test_gateway_demote(context, key, &bytes); break;
    case 2: (void)!test_gateway_promote(context, key, &bytes); break;
    case 3:
        if (m->truth[number] == STORED)
            assert_int_not_equal(test_gateway_put(&m->w.gateway, number, SIZE - 1), KVT_OK);
        break;
    default:
        rc = test_gateway_put(&m->w.gateway, number, SIZE);
        assert_int_not_equal(rc, KVT_PRECONDITION);
        if (rc == KVT_OK)
            m->truth[number] = STORED;
        else if (m->truth[number] == ABSENT)
            m->truth[number] = EITHER;
        break;
    }
}

static void
set_fault(struct model *m)
{
    const struct g4_fault_rule rule = {
        .verb = (enum g4_verb)kvt_random_below(&m->seed, G4_DELETE + 1),
        .fault = kvt_random_below(&m->seed, 2) == 0 ? G4_FAULT_FAIL : G4_FAULT_LOSE,
        .after = kvt_random_below(&m->seed, 3),
        .count = kvt_random_below(&m->seed, 4),
        .status = answers[kvt_random_below(&m->seed, ANSWERS)]};

    test_faulty_store_set(m->w.gateway.bucket, &rule);
}

static void
step(struct model *m)
{
    switch (kvt_random_below(&m->seed, 10)) {
    case 0: (void)test_waiting_round(&m->w); break;
    case 1: set_fault(m); break;
    case 2: gateway_bucket_tier_probe(m->w.gateway.context->tiers.buckets); break;
    case 3: (void)gateway_recover_pending(m->w.gateway.context); break;
    case 4:
        if (kvt_random_below(&m->seed, 4) == 0) {
            m->w.gateway.options.write_back = kvt_random_below(&m->seed, 3) > 0;
            test_waiting_reopen(&m->w);
        }
        break;
    case 5: look(m, kvt_random_below(&m->seed, KEYS)); break;
    default: change(m, kvt_random_below(&m->seed, KEYS)); break;
    }
}

static void
random_steps(void **state)
{
    struct model m = {.seed = test_seed()};
    uint64_t real = 0;

    (void)state;
    /* Room for some of the keys only, so that the backlog is full now and then. */
    test_waiting_open(&m.w, KEYS / 2 * SIZE);
    for (unsigned i = 0; i < STEPS; i++) {
        struct gateway_catalog_stats stats;

        step(&m);
        gateway_catalog_stats(m.w.gateway.context->catalog, &stats);
        assert_true(stats.owed_bytes <= KEYS / 2 * SIZE);
        assert_int_equal(stats.owed_bytes, stats.owed_blocks * SIZE);
        assert_int_equal(stats.owed_blocks,
                         test_waiting_count(&m.w, GATEWAY_STAT_BACKLOG_ADDED) -
                             test_waiting_count(&m.w, GATEWAY_STAT_BACKLOG_UPLOADED) -
                             test_waiting_count(&m.w, GATEWAY_STAT_BACKLOG_REMOVED));
    }
    m.w.gateway.options.write_back = true;
    test_waiting_reopen(&m.w);
    test_waiting_drain(&m.w);
    for (uint64_t i = 0; i < KEYS; i++) {
        const bool there = test_gateway_get(&m.w.gateway, i, SIZE, NULL) == KVT_OK;

        if (m.truth[i] == STORED)
            assert_true(there);
        if (m.truth[i] == ABSENT)
            assert_false(there);
        assert_int_equal(test_waiting_arrived(&m.w, i, SIZE), there);
        real += there ? 1 : 0;
    }
    assert_int_equal(gateway_stats_get(&m.w.gateway.stats, GATEWAY_STAT_BACKLOG_LOST), 0);
    print_message("%u blocks at the end\n", (unsigned)real);
    test_waiting_close(&m.w);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_failing_call),
        cmocka_unit_test(random_steps),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
