/*
 * What is tested: removals that are noted while the far bucket is away (gateway/block/removal.h),
 * and what comes behind them.  A PUT whose end nobody knows leaves no copy that is to go, and takes
 * none that is to stay; what another gateway puts is read, and its row knows of the far copy; who
 * removes what nobody knows makes no rows beyond the catalog's cap; what waits for the far
 * bucket keeps nothing else waiting; and who takes that out is told what waits.
 */
#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "g4/object/check.h"
#include "g4/object/kind.h"
#include "gateway/block/context_open.h"
#include "gateway/block/removal.h"
#include "gateway/block/tombstone.h"
#include "gateway/move/bucket_move.h"
#include "gateway/move/recover.h"
#include "gateway/tier/bucket_tier.h"
#include "gateway/tier/key_lock.h"

#include "tests/unit/gateway/support/world.h"

static enum kvt_err
remove_one(struct test_world *w, uint64_t number)
{
    char key[KVT_KEY_MAX];

    return gateway_remove(w->g.context, test_gateway_key(key, number));
}

static struct gateway_record
row_of(struct test_world *w, uint64_t number)
{
    struct gateway_record record = {0};
    char key[KVT_KEY_MAX];

    (void)!gateway_catalog_get(w->g.context->catalog, test_gateway_key(key, number), &record);
    return record;
}

/* Block 1 in the far bucket, and its removal noted while that is away. */
static void
note(struct test_world *w)
{
    test_world_place(w, 1, GATEWAY_TIER_FAR);
    test_world_far_away(w, true);
    assert_int_equal(remove_one(w, 1), KVT_OK);
}

static void
come_back(struct test_world *w)
{
    test_world_far_away(w, false);
    for (unsigned round = 0; round < 3; round++)
        test_world_repair(w);
}

/* Another gateway puts these bytes of block 1 over whatever the first bucket has. */
static void
put_by_another(struct test_world *w, uint64_t bytes, bool bare)
{
    struct g4_meta meta = {
        .present = !bare, .length = TEST_WORLD_SIZE, .fingerprint = 7, .writer = "another"};
    uint8_t body[TEST_WORLD_SIZE];
    char key[KVT_KEY_MAX];

    test_gateway_fill(body, sizeof(body), bytes);
    meta.crc32c = g4_check_crc32c(body, sizeof(body));
    assert_int_equal(test_gateway_store_put(w->stores[GATEWAY_TIER_COLD], test_gateway_key(key, 1),
                                            body, sizeof(body), &meta),
                     KVT_OK);
}

static void
expect_nowhere(struct test_world *w, const char *what)
{
    test_world_expect_true(w, 1, what);
    for (unsigned tier = 0; tier < GATEWAY_TIERS; tier++)
        if (test_world_has(w, 1, tier))
            fail_msg("%s: tier %u has something", what, tier);
}

/* The third PUT of the first bucket is the block's: behind its first try and the lock. */
static void
put_without_answer(struct test_world *w, bool done)
{
    const struct g4_fault_rule rule = {.verb = G4_PUT,
                                       .fault = done ? G4_FAULT_LOSE : G4_FAULT_FAIL,
                                       .after = 2,
                                       .count = 1,
                                       .status = KVT_IO};

    test_faulty_store_set(w->stores[GATEWAY_TIER_COLD], &rule);
    assert_int_equal(test_gateway_put(&w->g, 1, TEST_WORLD_SIZE), KVT_AGAIN);
}

static void
a_put_without_answer_ends_the_removal_all_the_same(void **state)
{
    enum gateway_state row;
    struct test_world w;

    (void)state;
    for (unsigned turn = 0; turn < 8; turn++) {
        const bool done = (turn & 1) != 0;
        const bool settled_away = (turn & 2) != 0;

        test_world_open(&w);
        note(&w);
        put_without_answer(&w, done);
        (void)test_gateway_tiers(&w.g, 1, &row);
        assert_int_equal(row, GATEWAY_INTENT);
        assert_int_equal(row_of(&w, 1).moving, GATEWAY_FAR);
        if (settled_away) {
            (void)gateway_recover_pending(w.g.context);
            (void)test_gateway_tiers(&w.g, 1, &row);
            assert_int_equal(row, done ? GATEWAY_STORED : GATEWAY_RETIRING);
            assert_int_equal(row_of(&w, 1).moving, GATEWAY_FAR);
        }
        if ((turn & 4) != 0)
            test_world_reopen(&w); /* which finds the far bucket back */
        come_back(&w);
        if (done) {
            test_world_expect_readable(&w, 1, "put behind");
            assert_int_equal(test_gateway_tiers(&w.g, 1, NULL), GATEWAY_HOT | GATEWAY_COLD);
            assert_false(test_world_has(&w, 1, GATEWAY_TIER_FAR));
            test_world_expect_true(&w, 1, "put behind");
        } else {
            assert_int_equal(test_gateway_get(&w.g, 1, TEST_WORLD_SIZE, NULL), KVT_NOTFOUND);
            expect_nowhere(&w, "not put");
        }
        test_gateway_close(&w.g);
    }
}

static void
set_faults(struct test_world *w, struct g4_fault_rule rule)
{
    test_faulty_store_set(w->stores[GATEWAY_TIER_COLD], &rule);
}

/* A removal and a PUT behind it, where a call to the first bucket fails, or is done with its answer
 * lost; or all do from there on, and the process ends.  Was there such a call? */
static bool
any_call_may_fail(struct test_world *w, struct g4_fault_rule rule)
{
    enum kvt_err removed;
    enum kvt_err put;
    uint64_t before;
    uint64_t hits;
    uint64_t seen;
    char what[64];

    (void)snprintf(what, sizeof(what), "verb %u, fault %u, after %u, %s", (unsigned)rule.verb,
                   (unsigned)rule.fault, (unsigned)rule.after, rule.count == 1 ? "once" : "dead");
    test_world_open(w);
    test_world_place(w, 1, GATEWAY_TIER_FAR);
    test_world_far_away(w, true);
    test_faulty_store_count(w->stores[GATEWAY_TIER_COLD], rule.verb, &seen, &before);
    set_faults(w, rule);
    removed = remove_one(w, 1);
    put = test_gateway_put(&w->g, 1, TEST_WORLD_SIZE);
    test_faulty_store_count(w->stores[GATEWAY_TIER_COLD], rule.verb, &seen, &hits);
    if (rule.count > 1)
        test_world_reopen(w);
    rule.count = 0;
    set_faults(w, rule);
    come_back(w);
    test_world_expect_true(w, 1, what);
    if (put == KVT_OK) /* a removal without answer may have been done */
        test_world_expect_readable(w, 1, what);
    if (removed == KVT_OK && test_world_has(w, 1, GATEWAY_TIER_FAR))
        fail_msg("%s: the far copy is there", what);
    test_gateway_close(&w->g);
    return hits > before;
}

static void
every_failing_call(void **state)
{
    enum { CALLS_MAX = 20 };
    static const enum g4_verb verbs[] = {G4_HEAD, G4_PUT, G4_DELETE};
    struct g4_fault_rule rule = {.status = KVT_IO};
    struct test_world w;

    (void)state;
    for (size_t i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++) {
        rule.verb = verbs[i];
        for (unsigned manner = 0; manner < 4; manner++) {
            bool hit = true;

            rule.fault = (manner & 1) != 0 ? G4_FAULT_LOSE : G4_FAULT_FAIL;
            rule.count = (manner & 2) != 0 ? UINT64_MAX : 1;
            for (rule.after = 0; hit && rule.after < CALLS_MAX; rule.after++)
                hit = any_call_may_fail(&w, rule);
            assert_false(hit); /* each was */
        }
    }
}

/* So does one behind an order's mark, which has no tombstone. */
static void
a_put_behind_a_mark_leaves_no_far_copy(void **state)
{
    const struct g4_fault_rule lose = {
        .verb = G4_PUT, .fault = G4_FAULT_LOSE, .count = 1, .status = KVT_IO};
    char key[KVT_KEY_MAX];
    const char *const keys[] = {key};
    struct test_world w;

    (void)state;
    test_world_open(&w);
    test_world_place(&w, 1, GATEWAY_TIER_FAR);
    (void)test_gateway_key(key, 1);
    assert_int_equal(gateway_removal_mark(w.g.context, keys, 1), KVT_OK);
    test_faulty_store_set(w.stores[GATEWAY_TIER_COLD], &lose);
    assert_int_equal(test_gateway_put(&w.g, 1, TEST_WORLD_SIZE), KVT_AGAIN);
    come_back(&w);
    test_world_expect_readable(&w, 1, "put behind a mark");
    assert_int_equal(test_gateway_tiers(&w.g, 1, NULL), GATEWAY_HOT | GATEWAY_COLD);
    test_world_expect_true(&w, 1, "put behind a mark");
    test_gateway_close(&w.g);
}

/* A row of a block that is under way to the far bucket, or from there, when another gateway notes
 * its removal. */
static void
a_move_ends_where_others_noted_a_removal(void **state)
{
    struct gateway_change change = {.key = NULL};
    char key[KVT_KEY_MAX];
    struct test_world w;

    (void)state;
    for (unsigned turn = 0; turn < 4; turn++) {
        const unsigned to = (turn & 1) != 0 ? GATEWAY_FAR : GATEWAY_COLD;

        test_world_open(&w);
        test_world_place(&w, 1, GATEWAY_TIER_FAR);
        change.record = row_of(&w, 1);
        change.key = test_gateway_key(key, 1);
        change.record.moving = to;
        change.record.tiers = (turn & 2) != 0 ? GATEWAY_BUCKETS : GATEWAY_BUCKETS & ~to;
        assert_int_equal(gateway_catalog_change(w.g.context->catalog, &change, 1, GATEWAY_APPLIED),
                         KVT_OK);
        assert_int_equal(gateway_tombstone_note(w.g.context, key), KVT_OK);
        come_back(&w);
        assert_int_equal(test_gateway_get(&w.g, 1, TEST_WORLD_SIZE, NULL), KVT_NOTFOUND);
        expect_nowhere(&w, "moved");
        test_gateway_close(&w.g);
    }
}

/* The row here is of a removal; the bucket has what somebody acknowledged since. */
static void
what_another_puts_behind_it_is_read(void **state)
{
    struct test_world w;

    (void)state;
    test_world_open(&w);
    note(&w);
    assert_int_equal(test_gateway_has(&w.g, 1), KVT_NOTFOUND);
    put_by_another(&w, 1, false);
    assert_int_equal(test_gateway_has(&w.g, 1), KVT_OK);
    test_world_expect_readable(&w, 1, "of another");
    assert_int_equal(row_of(&w, 1).moving, GATEWAY_FAR); /* it is still to be taken away there */
    come_back(&w);
    test_world_expect_readable(&w, 1, "of another");
    assert_int_equal(test_gateway_tiers(&w.g, 1, NULL), GATEWAY_COLD);
    test_world_expect_true(&w, 1, "of another");
    test_gateway_close(&w.g);
}

/* Whatever they put, what is in the far bucket is known of until it has gone. */
static void
what_another_puts_hides_no_far_copy(void **state)
{
    struct gateway_record record;
    struct test_world w;

    (void)state;
    for (unsigned bare = 0; bare < 2; bare++) {
        test_world_open(&w);
        note(&w);
        put_by_another(&w, 7, bare != 0);
        come_back(&w);
        record = row_of(&w, 1);
        assert_int_equal(record.state, GATEWAY_STORED);
        assert_int_equal(record.foreign, bare != 0);
        assert_int_equal(record.tiers, bare != 0 ? GATEWAY_BUCKETS : GATEWAY_COLD);
        assert_true(test_world_has(&w, 1, GATEWAY_TIER_COLD));
        test_world_expect_true(&w, 1, "other bytes");
        assert_int_equal(remove_one(&w, 1), KVT_OK);
        expect_nowhere(&w, "other bytes, removed");
        test_gateway_close(&w.g);
    }
}

/* The tombstone goes between the two looks at it: the caller puts what he wanted to, where nothing
 * is. */
static void
a_put_that_finds_none_is_as_it_was(void **state)
{
    const struct g4_fault_rule none = {
        .verb = G4_HEAD, .fault = G4_FAULT_FAIL, .after = 1, .count = 1, .status = KVT_NOTFOUND};
    struct g4_request put = {
        .verb = G4_PUT, .condition = G4_IF_ABSENT, .body = "x", .body_size = 1};
    char key[KVT_KEY_MAX];
    struct test_world w;

    (void)state;
    test_world_open(&w);
    note(&w);
    put.key = test_gateway_key(key, 1);
    test_faulty_store_set(w.stores[GATEWAY_TIER_COLD], &none);
    assert_int_equal(gateway_tombstone_put_over(w.g.context, &put), KVT_NOTFOUND);
    assert_int_equal(put.condition, G4_IF_ABSENT);
    assert_string_equal(put.etag, "");
    assert_int_equal(put.deadline_ms, 0);
    come_back(&w);
    expect_nowhere(&w, "not put");
    test_gateway_close(&w.g);
}

/* A removal that meets it begins anew, and dies behind its mark: the far copy is known of still. */
static void
a_mark_behind_it_knows_of_the_far_copy(void **state)
{
    char key[KVT_KEY_MAX];
    const char *const keys[] = {key};
    struct test_world w;

    (void)state;
    test_world_open(&w);
    note(&w);
    put_by_another(&w, 1, false);
    test_world_far_away(&w, false);
    gateway_bucket_tier_probe(w.g.context->tiers.buckets);
    (void)test_gateway_key(key, 1);
    assert_int_equal(gateway_removal_finish(w.g.context, key, NULL), KVT_EXISTS);
    assert_int_equal(gateway_removal_mark(w.g.context, keys, 1), KVT_OK);
    assert_int_equal(row_of(&w, 1).tiers, GATEWAY_BUCKETS);
    assert_int_equal(test_gateway_put(&w.g, 1, TEST_WORLD_SIZE), KVT_OK);
    come_back(&w);
    assert_int_equal(test_gateway_tiers(&w.g, 1, NULL), GATEWAY_HOT | GATEWAY_COLD);
    test_world_expect_true(&w, 1, "marked again");
    test_gateway_close(&w.g);
}

/* What was bad behind it, and is out of sight by now, is no block that was put again. */
static void
an_empty_place_is_none(void **state)
{
    struct g4_meta meta = {
        .present = true, .crc32c = g4_check_crc32c("", 0), .writer = G4_KIND_TOMBSTONE_WRITER};
    char key[KVT_KEY_MAX];
    struct test_world w;

    (void)state;
    test_world_open(&w);
    test_world_far_away(&w, true);
    assert_int_equal(remove_one(&w, 1), KVT_OK); /* it may be far, for all that is known */
    assert_int_equal(
        test_gateway_store_put(w.stores[GATEWAY_TIER_COLD], test_gateway_key(key, 1), "", 0, &meta),
        KVT_OK);
    come_back(&w);
    assert_int_equal(row_of(&w, 1).state, 0);
    test_gateway_close(&w.g);
}

/* A noted removal takes no room of the tiers that it has left. */
static void
its_room_is_free_at_once(void **state)
{
    struct gateway_catalog_stats stats;
    struct test_world w;

    (void)state;
    test_world_open(&w);
    test_world_place(&w, 1, GATEWAY_TIER_HOT);
    test_world_far_away(&w, true);
    assert_int_equal(remove_one(&w, 1), KVT_OK);
    gateway_catalog_stats(w.g.context->catalog, &stats);
    assert_int_equal(stats.used[GATEWAY_TIER_HOT], 0);
    assert_int_equal(stats.used[GATEWAY_TIER_COLD], 0);
    come_back(&w);
    expect_nowhere(&w, "room");
    test_gateway_close(&w.g);
}

/* The far cap is of what is stored there: a PUT that has to do with it only by a removal fits. */
static void
a_full_far_bucket_refuses_no_put(void **state)
{
    struct test_world w;

    (void)state;
    test_world_open_with(&w, 1 << 20, TEST_WORLD_SIZE);
    test_world_place(&w, 2, GATEWAY_TIER_FAR);
    test_world_far_away(&w, true);
    assert_int_equal(remove_one(&w, 1), KVT_OK); /* a key without a row */
    assert_int_equal(test_gateway_put(&w.g, 1, TEST_WORLD_SIZE), KVT_OK);
    test_world_expect_readable(&w, 1, "full");
    come_back(&w);
    test_world_expect_true(&w, 2, "full");
    test_gateway_close(&w.g);
}

/* Fill the catalog to its cap. */
static void
fill_catalog(struct test_world *w)
{
    enum { GROUP = 64 };
    enum kvt_err rc = KVT_OK;

    for (unsigned turn = 0; rc == KVT_OK; turn++) {
        struct gateway_change changes[GROUP] = {0};
        char keys[GROUP][64];

        for (unsigned i = 0; i < GROUP; i++) {
            (void)snprintf(keys[i], sizeof(keys[i]), "opaque/%08u/%u", turn, i);
            changes[i] = (struct gateway_change){
                .key = keys[i],
                .reserve = true,
                .record = {
                    .state = GATEWAY_STORED, .tiers = GATEWAY_COLD, .opaque = true, .length = 1}};
        }
        rc = gateway_catalog_change(w->g.context->catalog, changes, GROUP, GATEWAY_DURABLE);
        for (unsigned i = 0; rc == KVT_OK && i < GROUP; i++)
            rc = changes[i].status;
    }
    assert_int_equal(rc, KVT_FULL);
}

static void
removals_make_no_rows_in_a_full_catalog(void **state)
{
    struct gateway_catalog_stats before;
    struct gateway_catalog_stats after;
    struct test_world w;

    (void)state;
    test_world_open(&w);
    test_world_place(&w, 1, GATEWAY_TIER_FAR);
    w.g.options.catalog_max = 1u << 20;
    test_world_reopen(&w);
    fill_catalog(&w);
    test_world_far_away(&w, true);
    assert_int_equal(remove_one(&w, 1), KVT_OK); /* it has a row */
    gateway_catalog_stats(w.g.context->catalog, &before);
    for (uint64_t number = 100; number < 110; number++)
        assert_int_equal(remove_one(&w, number), KVT_FULL);
    gateway_catalog_stats(w.g.context->catalog, &after);
    assert_int_equal(after.entries, before.entries);
    test_gateway_close(&w.g);
}

/* ---- what waits, and what is behind it ---- */

/* Rows of blocks 1 to `count`, many in a transaction. */
static void
add_rows(struct test_world *w, size_t count, const struct gateway_record *record)
{
    struct gateway_change *changes = kvt_calloc(count, sizeof(*changes));
    char(*keys)[KVT_KEY_MAX] = kvt_calloc(count, sizeof(*keys));

    assert_non_null(changes);
    assert_non_null(keys);
    for (size_t i = 0; i < count; i++)
        changes[i] =
            (struct gateway_change){.key = test_gateway_key(keys[i], i + 1), .record = *record};
    assert_int_equal(gateway_catalog_change(w->g.context->catalog, changes, count, GATEWAY_APPLIED),
                     KVT_OK);
    kvt_free(changes);
    kvt_free(keys);
}

/* The intent of a PUT that never happened, with a key behind all blocks' of the tests. */
static const char last_key[] = "zz";

static void
add_last(struct test_world *w)
{
    struct gateway_change change = {
        .key = last_key,
        .record = {.state = GATEWAY_INTENT, .tiers = GATEWAY_COLD, .opaque = true, .length = 1}};

    assert_int_equal(gateway_catalog_change(w->g.context->catalog, &change, 1, GATEWAY_APPLIED),
                     KVT_OK);
}

static bool
is_last_settled(struct test_world *w)
{
    struct gateway_record record;

    return gateway_catalog_get(w->g.context->catalog, last_key, &record) == KVT_NOTFOUND;
}

static void
what_waits_for_the_far_bucket_keeps_nothing_waiting(void **state)
{
    enum { ROWS = 2 * GATEWAY_RECOVER_ROUND };
    const struct gateway_record noted = {
        .state = GATEWAY_RETIRING, .moving = GATEWAY_FAR, .length = TEST_WORLD_SIZE};
    struct gateway_catalog_stats stats;
    struct test_world w;

    (void)state;
    test_world_open(&w);
    add_rows(&w, ROWS, &noted);
    test_world_far_away(&w, true);
    gateway_bucket_tier_probe(w.g.context->tiers.buckets);
    for (unsigned turn = 0; turn < 2; turn++) {
        add_last(&w);
        for (unsigned round = 0; round < 5 && !is_last_settled(&w); round++)
            (void)gateway_recover_pending(w.g.context); /* more than one where it is slow */
        assert_true(is_last_settled(&w));
    }
    gateway_catalog_stats(w.g.context->catalog, &stats);
    assert_int_equal(stats.pending, ROWS);
    test_gateway_close(&w.g);
}

/* A round that is full goes on where it ended, and comes to the first ones again. */
static void
a_full_round_goes_on_behind_it(void **state)
{
    enum { ROWS = GATEWAY_RECOVER_ROUND };
    const struct gateway_record intent = {
        .state = GATEWAY_INTENT, .tiers = GATEWAY_COLD, .owed = true, .length = TEST_WORLD_SIZE};
    struct gateway_key_lock *holds = kvt_calloc(ROWS, sizeof(*holds));
    char(*keys)[KVT_KEY_MAX] = kvt_calloc(ROWS, sizeof(*keys));
    struct gateway_catalog_stats stats;
    struct test_world w;

    (void)state;
    test_world_open(&w);
    assert_non_null(holds);
    assert_non_null(keys);
    for (size_t i = 0; i < ROWS; i++)
        gateway_key_lock_init(&holds[i], test_gateway_key(keys[i], i + 1));
    add_rows(&w, ROWS, &intent);
    add_last(&w);
    gateway_key_lock_acquire(w.g.context->key_locks, holds,
                             ROWS); /* their PUTs are still at them */
    for (unsigned round = 0; round < 5 && !is_last_settled(&w); round++)
        (void)gateway_recover_pending(w.g.context);
    assert_true(is_last_settled(&w));
    gateway_key_lock_release(w.g.context->key_locks, holds, ROWS);
    for (unsigned round = 0; round < 100; round++)
        (void)gateway_recover_pending(w.g.context);
    gateway_catalog_stats(w.g.context->catalog, &stats);
    assert_int_equal(stats.pending, 0);
    kvt_free(holds);
    kvt_free(keys);
    test_gateway_close(&w.g);
}

/* ---- the far bucket is gone, or another one ---- */

static void
expect_refused(const struct gateway_context_options *options, const char *why)
{
    struct gateway_context *context;
    struct kvt_error err;

    assert_int_equal(gateway_context_open(&context, options, &err), KVT_INVALID);
    if (strstr(err.text, why) == NULL)
        fail_msg("%s: \"%s\" is not in it", err.text, why);
}

/* Without far.*, or with another far bucket: options of a context that is closed. */
static void
expect_far_refused(struct test_world *w, const char *gone, const char *renamed)
{
    struct gateway_context_options options = w->g.options;

    options.far_store = NULL;
    options.cold_store = NULL;
    options.cold = (struct gateway_bucket_tier_options){.folder = w->g.cold};
    if (gone != NULL)
        expect_refused(&options, gone);
    options.far = (struct gateway_far_options){.kind = GATEWAY_FAR_DIRECTORY, .folder = w->g.far};
    options.far_bucket = "renamed";
    expect_refused(&options, renamed);
}

/* A removal that waits for a bucket that is lost ends with an empty one of its name. */
static void
a_lost_far_bucket_can_be_left(void **state)
{
    struct test_world w;

    (void)state;
    test_world_open(&w);
    test_world_place(&w, 1, GATEWAY_TIER_FAR);
    test_world_far_away(&w, true);
    assert_int_equal(remove_one(&w, 1), KVT_OK);
    gateway_context_close(w.g.context);
    w.g.context = NULL;
    expect_far_refused(&w, "1 removals wait for the far bucket", "1 removals wait for attic");
    test_folder_remove(w.g.far);
    test_world_reopen(&w);
    test_world_repair(&w);
    test_world_expect_true(&w, 1, "left");
    assert_int_equal(test_gateway_tiers(&w.g, 1, NULL), 0);
    test_gateway_close(&w.g);
}

static void
acknowledge(struct test_world *w, uint64_t seq)
{
    struct gateway_catalog_stats stats;

    gateway_catalog_acked(w->g.context->catalog, 0, seq);
    do {
        kvt_clock_sleep_ms(1);
        gateway_catalog_stats(w->g.context->catalog, &stats);
    } while (stats.events_acked < seq);
}

/* Events that are not sent yet are of the former one. */
static void
a_far_bucket_is_renamed_when_all_is_sent(void **state)
{
    struct gateway_catalog_stats stats;
    struct test_world w;

    (void)state;
    test_world_open(&w);
    test_world_place(&w, 1, GATEWAY_TIER_FAR);
    assert_int_equal(test_world_move(&w, 1, GATEWAY_FAR, GATEWAY_COLD, false), KVT_OK);
    gateway_catalog_stats(w.g.context->catalog, &stats);
    assert_true(stats.events > 1);
    acknowledge(&w, stats.events - 1);
    gateway_context_close(w.g.context);
    w.g.context = NULL;
    expect_far_refused(&w, NULL, "1 events are not sent yet");
    test_world_reopen(&w);
    acknowledge(&w, stats.events);
    w.g.options.far_bucket = "renamed";
    test_world_reopen(&w);
    test_world_expect_readable(&w, 1, "renamed");
    test_gateway_close(&w.g);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_put_without_answer_ends_the_removal_all_the_same),
        cmocka_unit_test(every_failing_call),
        cmocka_unit_test(a_put_behind_a_mark_leaves_no_far_copy),
        cmocka_unit_test(a_move_ends_where_others_noted_a_removal),
        cmocka_unit_test(what_another_puts_behind_it_is_read),
        cmocka_unit_test(what_another_puts_hides_no_far_copy),
        cmocka_unit_test(a_put_that_finds_none_is_as_it_was),
        cmocka_unit_test(a_mark_behind_it_knows_of_the_far_copy),
        cmocka_unit_test(an_empty_place_is_none),
        cmocka_unit_test(its_room_is_free_at_once),
        cmocka_unit_test(a_full_far_bucket_refuses_no_put),
        cmocka_unit_test(removals_make_no_rows_in_a_full_catalog),
        cmocka_unit_test(what_waits_for_the_far_bucket_keeps_nothing_waiting),
        cmocka_unit_test(a_full_round_goes_on_behind_it),
        cmocka_unit_test(a_lost_far_bucket_can_be_left),
        cmocka_unit_test(a_far_bucket_is_renamed_when_all_is_sent),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
