/*
 * What is tested: gateway/move/move.h between four tiers.  Each of the twelve edges does what it
 * says, once or twice; with any single call to any of the four stores failing, or done with its
 * answer lost, and with every call failing from one on and the process gone, the block is read as
 * it was put, and after the next life's repairs the rows say what is there, no more and no less.  A
 * random walk with removals, faults and restarts against a model says the same.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/core/alloc.h"
#include "base/core/random.h"
#include "g4/object/check.h"
#include "gateway/block/context_open.h"
#include "gateway/block/damage.h"
#include "gateway/block/removal.h"
#include "gateway/care/inspect.h"
#include "gateway/move/move.h"
#include "gateway/move/recover.h"
#include "gateway/tier/bucket_tier.h"

#include "tests/unit/gateway/support/world.h"

enum { NUMBER = 1, CALLS_MAX = 60, STEPS = 900, KEYS = 6 };

/* Where it is after a move from where test_world_place() put it. */
static unsigned
expected(unsigned from, unsigned to, bool keep)
{
    const bool volume = (test_world_bits[from] & GATEWAY_VOLUMES) != 0;
    const unsigned before = test_world_bits[from] | (volume ? GATEWAY_COLD : 0u);

    if (!volume && (test_world_bits[to] & GATEWAY_VOLUMES) != 0)
        return before | test_world_bits[to];
    if (volume && test_world_bits[to] == GATEWAY_FAR) /* the bucket's copy is moved there */
        return GATEWAY_FAR | (keep ? test_world_bits[from] : 0u);
    return (before & (keep ? ~0u : ~test_world_bits[from])) | test_world_bits[to];
}

static void
every_edge(void **state)
{
    uint64_t number = 0;
    struct test_world w;

    (void)state;
    test_world_open(&w);
    for (unsigned from = 0; from < GATEWAY_TIERS; from++) {
        for (unsigned to = 0; to < GATEWAY_TIERS; to++) {
            for (unsigned keep = 0; keep < 2 && from != to; keep++) {
                test_world_place(&w, ++number, from);
                for (unsigned repeat = 0; repeat < 2; repeat++) {
                    assert_int_equal(test_world_move(&w, number, test_world_bits[from],
                                                     test_world_bits[to], keep),
                                     KVT_OK);
                    assert_int_equal(test_gateway_tiers(&w.g, number, NULL),
                                     expected(from, to, keep));
                    test_world_expect_readable(&w, number, "edge");
                }
            }
        }
    }
    test_world_expect_true(&w, number, "edges");
    test_world_reopen(&w);
    test_world_expect_true(&w, number, "edges, reopened");
    test_gateway_close(&w.g);
}

/* Readers take the fastest. */
static void
reads_name_the_tier_that_served(void **state)
{
    struct test_world w;
    unsigned tier;

    (void)state;
    test_world_open(&w);
    for (unsigned at = 0; at < GATEWAY_TIERS; at++) {
        test_world_place(&w, at + 1, at);
        assert_int_equal(test_gateway_get(&w.g, at + 1, TEST_WORLD_SIZE, &tier), KVT_OK);
        assert_int_equal(tier, at);
    }
    /* In all four: up again, each time a faster one. */
    test_world_place(&w, 9, GATEWAY_TIER_FAR);
    assert_int_equal(test_world_move(&w, 9, GATEWAY_FAR, GATEWAY_COLD, true), KVT_OK);
    assert_int_equal(test_gateway_get(&w.g, 9, TEST_WORLD_SIZE, &tier), KVT_OK);
    assert_int_equal(tier, GATEWAY_TIER_COLD);
    assert_int_equal(test_world_move(&w, 9, GATEWAY_FAR, GATEWAY_WARM, false), KVT_OK);
    assert_int_equal(test_gateway_get(&w.g, 9, TEST_WORLD_SIZE, &tier), KVT_OK);
    assert_int_equal(tier, GATEWAY_TIER_WARM);
    assert_int_equal(test_world_move(&w, 9, GATEWAY_WARM, GATEWAY_HOT, true), KVT_OK);
    assert_int_equal(test_gateway_get(&w.g, 9, TEST_WORLD_SIZE, &tier), KVT_OK);
    assert_int_equal(tier, GATEWAY_TIER_HOT);
    assert_int_equal(test_gateway_tiers(&w.g, 9, NULL), GATEWAY_VOLUMES | GATEWAY_BUCKETS);
    assert_int_equal(test_gateway_get(&w.g, 9, TEST_WORLD_SIZE, &tier), KVT_OK);
    test_gateway_close(&w.g);
}

static void
a_removal_takes_all_copies(void **state)
{
    char key[KVT_KEY_MAX];
    struct test_world w;

    (void)state;
    test_world_open(&w);
    test_world_place(&w, 1, GATEWAY_TIER_FAR);
    assert_int_equal(test_world_move(&w, 1, GATEWAY_FAR, GATEWAY_COLD, true), KVT_OK);
    assert_int_equal(test_world_move(&w, 1, GATEWAY_COLD, GATEWAY_WARM, true), KVT_OK);
    assert_int_equal(test_world_move(&w, 1, GATEWAY_WARM, GATEWAY_HOT, true), KVT_OK);
    assert_int_equal(gateway_remove(w.g.context, test_gateway_key(key, 1)), KVT_OK);
    test_world_expect_true(&w, 1, "removed");
    assert_int_equal(test_gateway_get(&w.g, 1, TEST_WORLD_SIZE, NULL), KVT_NOTFOUND);
    test_gateway_close(&w.g);
}

/* Put again while its removal is under way: the copy that was to go goes, the new ones stay. */
static void
what_is_put_again_leaves_nothing_behind(void **state)
{
    char key[KVT_KEY_MAX];
    const char *keys[] = {key};
    struct test_world w;

    (void)state;
    test_world_open(&w);
    for (unsigned gone = 0; gone < 2; gone++) {
        test_world_place(&w, 1, GATEWAY_TIER_FAR);
        (void)test_gateway_key(key, 1);
        assert_int_equal(gateway_removal_mark(w.g.context, keys, 1), KVT_OK);
        if (gone != 0)
            test_world_drop(&w, 1, GATEWAY_TIER_FAR);
        assert_int_equal(test_gateway_put(&w.g, 1, TEST_WORLD_SIZE), KVT_OK);
        test_world_expect_readable(&w, 1, "put again");
        test_world_repair(&w);
        assert_int_equal(test_gateway_tiers(&w.g, 1, NULL), GATEWAY_HOT | GATEWAY_COLD);
        test_world_expect_true(&w, 1, "put again");
        test_world_expect_readable(&w, 1, "put again");
    }
    test_gateway_close(&w.g);
}

static void
caps_hold(void **state)
{
    struct test_world w;

    (void)state;
    test_world_open_with(&w, TEST_WORLD_SIZE, TEST_WORLD_SIZE);
    for (uint64_t number = 1; number <= 2; number++)
        assert_int_equal(test_gateway_put(&w.g, number, TEST_WORLD_SIZE), KVT_OK);
    assert_int_equal(test_world_move(&w, 1, GATEWAY_HOT, GATEWAY_WARM, false), KVT_OK);
    assert_int_equal(test_world_move(&w, 2, GATEWAY_HOT, GATEWAY_WARM, false), KVT_FULL);
    assert_int_equal(test_gateway_tiers(&w.g, 2, NULL), GATEWAY_HOT | GATEWAY_COLD);
    assert_int_equal(test_world_move(&w, 1, GATEWAY_COLD, GATEWAY_FAR, false), KVT_OK);
    assert_int_equal(test_world_move(&w, 2, GATEWAY_COLD, GATEWAY_FAR, false), KVT_FULL);
    assert_int_equal(test_world_move(&w, 2, GATEWAY_HOT, GATEWAY_FAR, false), KVT_FULL);
    assert_int_equal(test_gateway_tiers(&w.g, 2, NULL), GATEWAY_HOT | GATEWAY_COLD);
    test_world_reopen(&w); /* and after a restart, which lists nothing */
    assert_int_equal(test_world_move(&w, 2, GATEWAY_HOT, GATEWAY_WARM, false), KVT_FULL);
    assert_int_equal(test_world_move(&w, 2, GATEWAY_COLD, GATEWAY_FAR, false), KVT_FULL);
    test_world_expect_true(&w, 2, "caps");
    test_gateway_close(&w.g);
}

/* One that another gateway moved is found, and the row follows. */
static void
a_block_that_was_moved_by_others_is_found(void **state)
{
    struct gateway_change change;
    char key[KVT_KEY_MAX];
    struct test_world w;
    unsigned tier;

    (void)state;
    test_world_open(&w);
    test_world_place(&w, 1, GATEWAY_TIER_FAR);
    change = (struct gateway_change){.key = test_gateway_key(key, 1)};
    assert_int_equal(gateway_catalog_get(w.g.context->catalog, key, &change.record), KVT_OK);
    change.record.tiers = GATEWAY_COLD;
    assert_int_equal(gateway_catalog_change(w.g.context->catalog, &change, 1, GATEWAY_APPLIED),
                     KVT_OK);
    assert_int_equal(test_gateway_get(&w.g, 1, TEST_WORLD_SIZE, &tier), KVT_OK);
    assert_int_equal(tier, GATEWAY_TIER_FAR);
    assert_int_equal(test_gateway_tiers(&w.g, 1, NULL), GATEWAY_FAR);
    /* Without a row at all it is found too, counted where it is, and met by a PUT. */
    change.erase = true;
    assert_int_equal(gateway_catalog_change(w.g.context->catalog, &change, 1, GATEWAY_APPLIED),
                     KVT_OK);
    assert_int_equal(test_gateway_get(&w.g, 1, TEST_WORLD_SIZE, &tier), KVT_OK);
    assert_int_equal(test_gateway_tiers(&w.g, 1, NULL), GATEWAY_FAR);
    assert_int_equal(test_gateway_put(&w.g, 1, TEST_WORLD_SIZE), KVT_OK);
    test_world_expect_true(&w, 1, "moved by others");
    test_gateway_close(&w.g);
}

/* The far bucket away: what is elsewhere is served and put as ever. */
static void
a_far_bucket_that_is_away_hurts_nobody_else(void **state)
{
    struct g4_fault_rule rule = {
        .fault = G4_FAULT_FAIL, .count = UINT64_MAX, .status = KVT_UNAVAILABLE};
    struct test_world w;

    (void)state;
    test_world_open(&w);
    test_world_place(&w, 1, GATEWAY_TIER_COLD);
    test_world_place(&w, 2, GATEWAY_TIER_FAR);
    for (rule.verb = G4_GET; rule.verb <= G4_LIST; rule.verb++)
        test_faulty_store_set(w.g.far_bucket, &rule);
    assert_int_equal(test_gateway_get(&w.g, 2, TEST_WORLD_SIZE, NULL), KVT_AGAIN);
    assert_true(gateway_bucket_tier_healthy(w.g.context->tiers.buckets));
    assert_int_equal(test_gateway_get(&w.g, 1, TEST_WORLD_SIZE, NULL), KVT_OK);
    assert_int_equal(test_gateway_put(&w.g, 3, TEST_WORLD_SIZE), KVT_OK);
    assert_int_equal(test_world_move(&w, 1, GATEWAY_COLD, GATEWAY_FAR, false), KVT_UNAVAILABLE);
    assert_int_equal(test_world_move(&w, 3, GATEWAY_HOT, GATEWAY_WARM, false), KVT_OK);
    gateway_bucket_tier_probe(w.g.context->tiers.buckets);
    assert_true(gateway_bucket_tier_writable(w.g.context->tiers.buckets));
    assert_int_equal(test_world_move(&w, 1, GATEWAY_COLD, GATEWAY_FAR, false), KVT_UNAVAILABLE);
    assert_int_equal(test_gateway_tiers(&w.g, 2, NULL), GATEWAY_FAR);
    rule.count = 0;
    for (rule.verb = G4_GET; rule.verb <= G4_LIST; rule.verb++)
        test_faulty_store_set(w.g.far_bucket, &rule);
    test_world_repair(&w);
    test_world_expect_readable(&w, 2, "back");
    assert_int_equal(test_world_move(&w, 1, GATEWAY_COLD, GATEWAY_FAR, false), KVT_OK);
    test_world_expect_true(&w, 3, "away and back");
    test_gateway_close(&w.g);
}

static enum kvt_err
remove_one(struct test_world *w, uint64_t number)
{
    char key[KVT_KEY_MAX];

    return gateway_remove(w->g.context, test_gateway_key(key, number));
}

/* What is removed while the far bucket is away is gone for everybody, at once and for good: where
 * it is far, for who has no row of it, and where the process ends before the bucket is back. */
static void
a_removal_does_not_wait_for_the_far_bucket(void **state)
{
    enum { COLD = 1, FAR, BOTH, HOT, UNKNOWN, NONE };
    const char *keys[1];
    char key[KVT_KEY_MAX];
    struct gateway_change forget;
    struct test_world w;

    (void)state;
    test_world_open(&w);
    test_world_place(&w, COLD, GATEWAY_TIER_COLD);
    test_world_place(&w, FAR, GATEWAY_TIER_FAR);
    test_world_place(&w, BOTH, GATEWAY_TIER_FAR);
    assert_int_equal(test_world_move(&w, BOTH, GATEWAY_FAR, GATEWAY_COLD, true), KVT_OK);
    test_world_place(&w, HOT, GATEWAY_TIER_HOT);
    test_world_place(&w, UNKNOWN, GATEWAY_TIER_FAR);
    forget = (struct gateway_change){.key = test_gateway_key(key, UNKNOWN), .erase = true};
    assert_int_equal(gateway_catalog_change(w.g.context->catalog, &forget, 1, GATEWAY_APPLIED),
                     KVT_OK);
    test_world_far_away(&w, true); /* noticed by the first removal itself, known to the others */
    for (uint64_t number = COLD; number <= NONE; number++) {
        assert_int_equal(remove_one(&w, number), KVT_OK);
        assert_int_equal(remove_one(&w, number), KVT_OK);
        assert_int_equal(test_gateway_get(&w.g, number, TEST_WORLD_SIZE, NULL), KVT_NOTFOUND);
        gateway_bucket_tier_probe(w.g.context->tiers.buckets);
    }
    keys[0] = test_gateway_key(key, COLD);
    assert_int_equal(gateway_removal_mark(w.g.context, keys, 1), KVT_AGAIN); /* orders wait */
    test_world_reopen(&w);
    for (uint64_t number = COLD; number <= NONE; number++) { /* it is back, nothing settled yet */
        assert_int_equal(test_gateway_has(&w.g, number), KVT_NOTFOUND);
        forget = (struct gateway_change){.key = test_gateway_key(key, number), .erase = true};
        if (number == BOTH) /* and without a row here */
            assert_int_equal(
                gateway_catalog_change(w.g.context->catalog, &forget, 1, GATEWAY_APPLIED), KVT_OK);
        assert_int_equal(test_gateway_get(&w.g, number, TEST_WORLD_SIZE, NULL), KVT_NOTFOUND);
    }
    assert_int_equal(remove_one(&w, BOTH), KVT_OK);
    test_world_repair(&w);
    test_world_expect_true(&w, NONE, "removed");
    for (uint64_t number = COLD; number <= NONE; number++)
        for (unsigned tier = 0; tier < GATEWAY_TIERS; tier++)
            assert_false(test_world_has(&w, number, tier));
    test_gateway_close(&w.g);
}

/* Put again before the far bucket is back: it stays, and its former copy there does not. */
static void
what_is_put_behind_a_noted_removal_stays(void **state)
{
    struct test_world w;

    (void)state;
    test_world_open(&w);
    for (unsigned tier = GATEWAY_TIER_COLD; tier < GATEWAY_TIERS; tier++) {
        if (tier == GATEWAY_TIER_WARM)
            continue;
        test_world_place(&w, 1, tier);
        test_world_far_away(&w, true);
        assert_int_equal(remove_one(&w, 1), KVT_OK);
        assert_int_equal(test_gateway_put(&w.g, 1, TEST_WORLD_SIZE), KVT_OK);
        test_world_expect_readable(&w, 1, "put again");
        test_world_far_away(&w, false);
        test_world_repair(&w);
        test_world_expect_readable(&w, 1, "put again");
        assert_int_equal(test_gateway_tiers(&w.g, 1, NULL), GATEWAY_HOT | GATEWAY_COLD);
        test_world_expect_true(&w, 1, "put again");
        assert_int_equal(remove_one(&w, 1), KVT_OK);
        test_world_expect_true(&w, 1, "removed");
    }
    test_gateway_close(&w.g);
}

/* Only the row still speaks of a copy that another gateway took away. */
static void
a_copy_that_others_took_away_is_forgotten(void **state)
{
    char key[KVT_KEY_MAX];
    struct test_world w;
    uint64_t bytes;

    (void)state;
    test_world_open(&w);
    for (uint64_t number = 1; number <= 3; number++) {
        test_world_place(&w, number, GATEWAY_TIER_COLD);
        assert_int_equal(test_world_move(&w, number, GATEWAY_COLD, GATEWAY_FAR, true), KVT_OK);
        if (number == 1)
            assert_int_equal(test_world_move(&w, number, GATEWAY_COLD, GATEWAY_HOT, true), KVT_OK);
        test_world_drop(&w, number, number == 3 ? GATEWAY_TIER_FAR : GATEWAY_TIER_COLD);
    }
    assert_int_equal(test_world_move(&w, 1, GATEWAY_HOT, GATEWAY_COLD, false), KVT_OK);
    assert_int_equal(test_gateway_promote(w.g.context, test_gateway_key(key, 2), &bytes), KVT_OK);
    assert_int_equal(test_world_move(&w, 3, GATEWAY_FAR, GATEWAY_HOT, true), KVT_NOTFOUND);
    assert_int_equal(test_gateway_tiers(&w.g, 3, NULL), GATEWAY_COLD);
    test_world_expect_true(&w, 3, "taken away by others");
    test_gateway_close(&w.g);
}

/* A block without a bucket's copy counts against the far one's cap before anything is written. */
static void
the_first_copy_is_counted_first(void **state)
{
    struct gateway_change change;
    char key[KVT_KEY_MAX];
    struct test_world w;

    (void)state;
    test_world_open_with(&w, 1 << 20, TEST_WORLD_SIZE);
    test_world_place(&w, 1, GATEWAY_TIER_FAR);
    test_world_place(&w, 2, GATEWAY_TIER_HOT);
    test_world_drop(&w, 2, GATEWAY_TIER_COLD);
    change = (struct gateway_change){.key = test_gateway_key(key, 2)};
    assert_int_equal(gateway_catalog_get(w.g.context->catalog, key, &change.record), KVT_OK);
    change.record.tiers = GATEWAY_HOT;
    assert_int_equal(gateway_catalog_change(w.g.context->catalog, &change, 1, GATEWAY_APPLIED),
                     KVT_OK);
    assert_int_equal(test_world_move(&w, 2, GATEWAY_HOT, GATEWAY_FAR, false), KVT_FULL);
    test_world_expect_true(&w, 2, "no room");
    assert_int_equal(test_world_move(&w, 1, GATEWAY_FAR, GATEWAY_COLD, false), KVT_OK);
    assert_int_equal(test_world_move(&w, 2, GATEWAY_HOT, GATEWAY_FAR, false), KVT_OK);
    test_world_expect_true(&w, 2, "room");
    test_gateway_close(&w.g);
}

/* What is asked of an item that its batch has no room for is not read all the same. */
static void
what_has_no_room_is_not_read(void **state)
{
    struct gateway_item item = {.for_body = true};
    char key[KVT_KEY_MAX];
    struct test_world w;

    (void)state;
    test_world_open(&w);
    test_world_place(&w, 1, GATEWAY_TIER_HOT);
    item.key = test_gateway_key(key, 1);
    gateway_get_find(w.g.context, &item, 1);
    assert_int_equal(item.status, KVT_OK);
    item.status = KVT_AGAIN;
    assert_int_equal(test_world_move(&w, 1, GATEWAY_HOT, GATEWAY_WARM, false), KVT_OK);
    gateway_get_bodies(w.g.context, &item, 1);
    assert_int_equal(item.status, KVT_AGAIN);
    assert_null(item.buffer);
    test_gateway_close(&w.g);
}

/* Settings that cannot work are told before anything runs, and so is a tier that is missed. */
static void
expect_refused(const struct gateway_context_options *options, const char *why)
{
    struct gateway_context *context;
    struct kvt_error err;

    assert_int_equal(gateway_context_open(&context, options, &err), KVT_INVALID);
    assert_null(context);
    if (strstr(err.text, why) == NULL)
        fail_msg("%s: \"%s\" is not in it", err.text, why);
}

static void
tiers_that_cannot_be_are_refused(void **state)
{
    struct gateway_context_options options;
    char other[256];
    struct test_world w;

    (void)state;
    test_world_open(&w);
    test_world_place(&w, 1, GATEWAY_TIER_WARM);
    test_world_place(&w, 2, GATEWAY_TIER_FAR);
    gateway_context_close(w.g.context);
    w.g.context = NULL;
    options = w.g.options;
    options.far_store = NULL; /* of a context that is closed */
    options.cold_store = NULL;
    options.cold = (struct gateway_bucket_tier_options){.folder = w.g.cold};
    options.far = (struct gateway_far_options){.kind = GATEWAY_FAR_DIRECTORY, .folder = w.g.far};
    w.g.options = options;
    options.hot_capacity = 0;
    expect_refused(&options, "hot.capacity is 0");
    options = w.g.options;
    options.warm_dir = options.hot_dir;
    expect_refused(&options, "warm.dir is hot.dir");
    (void)snprintf(other, sizeof(other), "%s/link", w.g.folder);
    assert_int_equal(symlink(options.hot_dir, other), 0);
    options.warm_dir = other; /* new to the catalog, or not */
    expect_refused(&options, "is the hot volume");
    options.warm_new = true;
    expect_refused(&options, "is the hot volume");
    options = w.g.options;
    (void)snprintf(other, sizeof(other), "%s/.", w.g.cold);
    options.far.folder = other;
    expect_refused(&options, "far.dir is cold.dir");
    options = w.g.options;
    options.far_bucket = "";
    expect_refused(&options, "far.bucket must be");
    options.far_bucket = options.bucket;
    expect_refused(&options, "far.bucket is bucket");
    options = w.g.options;
    options.packed = "acme";
    expect_refused(&options, "packed.namespaces");
    options = w.g.options;
    options.far.kind = GATEWAY_FAR_NONE;
    expect_refused(&options, "1 blocks are in the far bucket");
    options = w.g.options;
    options.far_bucket = "renamed";
    expect_refused(&options, "far.bucket is renamed, but 1 blocks are in ");
    options = w.g.options;
    options.warm_capacity = 0;
    expect_refused(&options, "1 blocks are on the warm volume");
    test_gateway_reopen(&w.g); /* and then it opens as it was */
    test_world_expect_readable(&w, 1, "refused");
    test_world_expect_readable(&w, 2, "refused");
    test_gateway_close(&w.g);
}

/* ---- what a check finds ---- */

static void
expect_found(struct test_world *w, uint64_t number, enum gateway_finding finding, unsigned tier,
             enum kvt_err repaired)
{
    const struct gateway_remedy remedy = {.alone = true};
    struct gateway_inspection seen;
    struct kvt_error err;
    char key[KVT_KEY_MAX];

    assert_int_equal(gateway_inspect(w->g.context, test_gateway_key(key, number), &seen, &err),
                     KVT_OK);
    assert_string_equal(gateway_finding_word(seen.finding), gateway_finding_word(finding));
    if (finding == GATEWAY_FINDING_NONE)
        return;
    assert_int_equal(seen.tier, tier);
    assert_int_equal(gateway_inspect_repair(w->g.context, key, &remedy, &seen, &err), repaired);
    if (repaired == KVT_OK)
        expect_found(w, number, GATEWAY_FINDING_NONE, 0, KVT_OK);
}

static void
copy_object(struct test_world *w, uint64_t number, unsigned from, unsigned to)
{
    char key[KVT_KEY_MAX];
    struct g4_request get = {
        .verb = G4_GET, .key = test_gateway_key(key, number), .buffer_capacity = TEST_WORLD_SIZE};

    assert_int_equal(g4_store_perform(w->stores[from], &get), KVT_OK);
    assert_int_equal(
        test_gateway_store_put(w->stores[to], key, get.buffer, get.buffer_size, &get.meta), KVT_OK);
    kvt_free(get.buffer);
}

static void
a_check_looks_at_all_tiers(void **state)
{
    const struct g4_meta tombstone = {
        .present = true, .crc32c = g4_check_crc32c("", 0), .writer = GATEWAY_TOMBSTONE};
    const struct g4_meta bad = {
        .present = true, .length = 3, .crc32c = g4_check_crc32c("bad", 3), .writer = "gw0"};
    char key[KVT_KEY_MAX];
    struct test_world w;

    (void)state;
    test_world_open(&w);
    for (unsigned tier = 0; tier < GATEWAY_TIERS; tier++) {
        test_world_place(&w, tier + 1, tier);
        expect_found(&w, tier + 1, GATEWAY_FINDING_NONE, 0, KVT_OK);
    }
    /* A copy that nobody counts is counted, one that is gone no longer is. */
    copy_object(&w, 4, GATEWAY_TIER_FAR, GATEWAY_TIER_COLD);
    expect_found(&w, 4, GATEWAY_FINDING_OBJECT_WITHOUT_ROW, GATEWAY_TIER_COLD, KVT_OK);
    assert_int_equal(test_gateway_tiers(&w.g, 4, NULL), GATEWAY_BUCKETS);
    test_world_drop(&w, 4, GATEWAY_TIER_FAR);
    expect_found(&w, 4, GATEWAY_FINDING_ROW_WITHOUT_OBJECT, GATEWAY_TIER_FAR, KVT_OK);
    assert_int_equal(test_gateway_tiers(&w.g, 4, NULL), GATEWAY_COLD);
    copy_object(&w, 4, GATEWAY_TIER_COLD, GATEWAY_TIER_FAR);
    expect_found(&w, 4, GATEWAY_FINDING_OBJECT_WITHOUT_ROW, GATEWAY_TIER_FAR, KVT_OK);
    /* What a move may leave goes, and the block stays. */
    assert_int_equal(test_world_move(&w, 4, GATEWAY_COLD, GATEWAY_FAR, false), KVT_OK);
    assert_int_equal(test_gateway_store_put(w.stores[GATEWAY_TIER_COLD], test_gateway_key(key, 4),
                                            "", 0, &tombstone),
                     KVT_OK);
    expect_found(&w, 4, GATEWAY_FINDING_TOMBSTONE, GATEWAY_TIER_COLD, KVT_OK);
    test_world_expect_readable(&w, 4, "behind a tombstone");
    /* A bad copy behind a good one. */
    assert_int_equal(test_world_move(&w, 4, GATEWAY_FAR, GATEWAY_COLD, true), KVT_OK);
    assert_int_equal(test_gateway_store_put(w.stores[GATEWAY_TIER_FAR], test_gateway_key(key, 4),
                                            "bad", 3, &bad),
                     KVT_OK);
    expect_found(&w, 4, GATEWAY_FINDING_SWAPPED, GATEWAY_TIER_FAR, KVT_OK);
    assert_int_equal(test_gateway_tiers(&w.g, 4, NULL), GATEWAY_COLD);
    /* Files of the warm volume. */
    test_world_drop(&w, 3, GATEWAY_TIER_WARM);
    expect_found(&w, 3, GATEWAY_FINDING_ROW_WITHOUT_FILE, GATEWAY_TIER_WARM, KVT_OK);
    copy_object(&w, 3, GATEWAY_TIER_COLD, GATEWAY_TIER_WARM);
    expect_found(&w, 3, GATEWAY_FINDING_FILE_WITHOUT_ROW, GATEWAY_TIER_WARM, KVT_UNSUPPORTED);
    test_world_repair(&w);
    test_world_expect_true(&w, 4, "checked");
    test_gateway_close(&w.g);
}

/* ---- every failing call ---- */

struct attempt {
    unsigned from;
    unsigned to;
    unsigned store; /* whose call is hit */
    struct g4_fault_rule rule;
    bool dies; /* all calls fail from then on, and the process goes */
    bool had;  /* of two buckets both have it before */
};

/* True: the rule hit something. */
static bool
try_one(const struct attempt *attempt)
{
    struct g4_fault_rule rule = attempt->rule;
    struct test_world w;
    uint64_t before;
    uint64_t after;
    uint64_t seen;
    char what[96];

    (void)snprintf(what, sizeof(what), "%u to %u%s, store %u, verb %d, fault %d, call %u%s",
                   attempt->from, attempt->to, attempt->had ? ", had" : "", attempt->store,
                   (int)rule.verb, (int)rule.fault, (unsigned)rule.after,
                   attempt->dies ? ", then death" : "");
    test_world_open(&w);
    test_world_place(&w, NUMBER, attempt->from);
    if (attempt->had)
        assert_int_equal(test_world_move(&w, NUMBER, test_world_bits[attempt->from],
                                         test_world_bits[attempt->to], true),
                         KVT_OK);
    test_faulty_store_count(w.stores[attempt->store], rule.verb, &seen, &before);
    if (attempt->dies)
        rule.count = UINT64_MAX;
    test_faulty_store_set(w.stores[attempt->store], &rule);
    (void)!test_world_move(&w, NUMBER, test_world_bits[attempt->from], test_world_bits[attempt->to],
                           false);
    test_faulty_store_count(w.stores[attempt->store], rule.verb, &seen, &after);
    rule.count = 0;
    test_faulty_store_set(w.stores[attempt->store], &rule);
    if (attempt->dies)
        test_world_reopen(&w);
    gateway_bucket_tier_probe(w.g.context->tiers.buckets);
    test_world_expect_readable(&w, NUMBER, what);
    test_world_repair(&w);
    test_world_expect_readable(&w, NUMBER, what);
    test_world_expect_true(&w, NUMBER, what);
    assert_int_equal(test_world_move(&w, NUMBER, test_world_bits[attempt->from],
                                     test_world_bits[attempt->to], false),
                     KVT_OK);
    test_world_repair(&w);
    assert_int_equal(test_gateway_tiers(&w.g, NUMBER, NULL),
                     expected(attempt->from, attempt->to, false));
    test_world_expect_true(&w, NUMBER, what);
    test_gateway_close(&w.g);
    return after > before;
}

static void
every_failing_call(void **state)
{
    static const enum g4_verb verbs[] = {G4_GET, G4_HEAD, G4_PUT, G4_DELETE};
    static const enum kvt_err answers[] = {KVT_UNAVAILABLE, KVT_IO, KVT_TIMEOUT};
    const uint64_t share = test_seed();
    unsigned hits = 0;

    (void)state;
    for (unsigned code = 0; code < 4 * 4 * 4 * 4 * 3 * 2; code++) {
        const unsigned manner = code / 256 % 3; /* fail once, lose once, fail and die */
        struct attempt attempt = {
            .from = code % 4,
            .to = code / 4 % 4,
            .store = code / 16 % 4,
            .rule = {.verb = verbs[code / 64 % 4],
                     .fault = manner == 1 ? G4_FAULT_LOSE : G4_FAULT_FAIL,
                     .count = 1,
                     .status = answers[code % 3]},
            .dies = manner == 2,
            .had = code / 768 != 0,
        };
        const unsigned ends = test_world_bits[attempt.from] | test_world_bits[attempt.to];
        bool hit = attempt.from != attempt.to && (!attempt.had || ends == GATEWAY_BUCKETS);

        if ((code + share) % TEST_LONG_SHARE != 0)
            continue;
        while (hit && attempt.rule.after < CALLS_MAX) {
            hit = try_one(&attempt);
            hits += hit ? 1 : 0;
            attempt.rule.after++;
        }
        assert_false(hit);
    }
    assert_true(hits > 100 / TEST_LONG_SHARE);
}

/* ---- a random walk ---- */

enum promise { NOTHING, STORED, REMOVED }; /* what a client was told last */

static bool
is_retiring(struct test_world *w, uint64_t number)
{
    enum gateway_state row = GATEWAY_STORED;

    (void)test_gateway_tiers(&w->g, number, &row);
    return row == GATEWAY_RETIRING;
}

static void
step(struct test_world *w, uint64_t *seed, enum promise told[KEYS + 1])
{
    const uint64_t number = 1 + kvt_random_below(seed, KEYS);
    const unsigned from = (unsigned)kvt_random_below(seed, GATEWAY_TIERS);
    const unsigned to = (unsigned)kvt_random_below(seed, GATEWAY_TIERS);
    struct g4_fault_rule rule = {.verb = (enum g4_verb)kvt_random_below(seed, 4),
                                 .fault =
                                     kvt_random_below(seed, 2) == 0 ? G4_FAULT_FAIL : G4_FAULT_LOSE,
                                 .after = kvt_random_below(seed, 3),
                                 .count = kvt_random_below(seed, 3),
                                 .status = KVT_IO};
    struct g4_store *hit = w->stores[kvt_random_below(seed, GATEWAY_TIERS)];
    char key[KVT_KEY_MAX];

    (void)test_gateway_key(key, number);
    test_faulty_store_set(hit, &rule);
    switch (kvt_random_below(seed, 12)) {
    case 0:
    case 1:
        if (test_gateway_put(&w->g, number, TEST_WORLD_SIZE) == KVT_OK)
            told[number] = STORED;
        else if (told[number] == REMOVED)
            told[number] = NOTHING;
        break;
    case 2: /* to the end: what is half done is nobody's promise */
        rule.count = 0;
        test_faulty_store_set(hit, &rule);
        test_world_repair(w);
        test_world_far_away(w, kvt_random_below(seed, 2) == 0);
        if (gateway_remove(w->g.context, key) == KVT_OK)
            told[number] = REMOVED;
        else if (is_retiring(w, number))
            told[number] = NOTHING; /* it has begun */
        test_world_far_away(w, false);
        break;
    case 3: test_world_reopen(w); return;
    case 4: test_world_repair(w); break;
    default:
        if (from != to)
            (void)!test_world_move(w, number, test_world_bits[from], test_world_bits[to],
                                   kvt_random_below(seed, 3) == 0);
        break;
    }
    rule.count = 0;
    test_faulty_store_set(hit, &rule);
    gateway_bucket_tier_probe(w->g.context->tiers.buckets);
    if (told[number] == STORED)
        test_world_expect_readable(w, number, "walk");
    if (told[number] == REMOVED)
        assert_int_equal(test_gateway_get(&w->g, number, TEST_WORLD_SIZE, NULL), KVT_NOTFOUND);
}

static void
a_random_walk(void **state)
{
    enum promise told[KEYS + 1] = {NOTHING};
    uint64_t seed = test_seed();
    struct test_world w;

    (void)state;
    test_world_open(&w);
    for (unsigned i = 0; i < STEPS / TEST_LONG_SHARE; i++)
        step(&w, &seed, told);
    test_world_reopen(&w);
    test_world_repair(&w);
    for (uint64_t number = 1; number <= KEYS; number++)
        if (told[number] == STORED)
            test_world_expect_readable(&w, number, "end of the walk");
        else if (told[number] == REMOVED)
            assert_int_equal(test_gateway_get(&w.g, number, TEST_WORLD_SIZE, NULL), KVT_NOTFOUND);
    test_world_expect_true(&w, KEYS, "end of the walk");
    test_gateway_close(&w.g);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_edge),
        cmocka_unit_test(reads_name_the_tier_that_served),
        cmocka_unit_test(a_removal_takes_all_copies),
        cmocka_unit_test(what_is_put_again_leaves_nothing_behind),
        cmocka_unit_test(caps_hold),
        cmocka_unit_test(a_block_that_was_moved_by_others_is_found),
        cmocka_unit_test(a_far_bucket_that_is_away_hurts_nobody_else),
        cmocka_unit_test(a_removal_does_not_wait_for_the_far_bucket),
        cmocka_unit_test(what_is_put_behind_a_noted_removal_stays),
        cmocka_unit_test(a_copy_that_others_took_away_is_forgotten),
        cmocka_unit_test(the_first_copy_is_counted_first),
        cmocka_unit_test(what_has_no_room_is_not_read),
        cmocka_unit_test(tiers_that_cannot_be_are_refused),
        cmocka_unit_test(a_check_looks_at_all_tiers),
        cmocka_unit_test(every_failing_call),
        cmocka_unit_test(a_random_walk),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
