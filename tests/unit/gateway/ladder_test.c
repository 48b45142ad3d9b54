/*
 * What is tested: gateway/move.h between four tiers.  Each of the twelve edges does what it says,
 * once or twice; with any single call to any of the four stores failing, or done with its answer
 * lost, and with every call failing from one on and the process gone, the block is read as it was
 * put, and after the next life's repairs the rows say what is there, no more and no less.  A
 * random walk with removals, faults and restarts against a model says the same.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/random.h"
#include "g4/check.h"
#include "gateway/fault.h"
#include "gateway/inspect.h"
#include "gateway/move.h"
#include "gateway/recover.h"
#include "gateway/remove.h"

#include "tests/unit/gateway/support.h"

enum { SIZE = 3000, NUMBER = 1, CALLS_MAX = 60, STEPS = 900, KEYS = 6 };

static const unsigned bits[GATEWAY_TIERS] = {GATEWAY_HOT, GATEWAY_COLD, GATEWAY_WARM, GATEWAY_FAR};

struct world {
    struct test_gateway g;
    struct g4_store *stores[GATEWAY_TIERS]; /* faulty ones */
};

static void
wrap_volumes(struct world *w)
{
    assert_int_equal(g4_faulty_open(&w->stores[GATEWAY_TIER_HOT], w->g.vault->hot), KVT_OK);
    assert_int_equal(g4_faulty_open(&w->stores[GATEWAY_TIER_WARM], w->g.vault->warm), KVT_OK);
    w->g.vault->hot = w->stores[GATEWAY_TIER_HOT];
    w->g.vault->warm = w->stores[GATEWAY_TIER_WARM];
    w->stores[GATEWAY_TIER_COLD] = w->g.bucket;
    w->stores[GATEWAY_TIER_FAR] = w->g.far_bucket;
}

static void
open_world(struct world *w)
{
    test_gateway_open(&w->g, 1 << 20, 0);
    test_gateway_extend(&w->g, 1 << 20, 0);
    wrap_volumes(w);
}

static void
reopen_world(struct world *w)
{
    test_gateway_reopen(&w->g);
    wrap_volumes(w);
}

static enum kvt_err
move(struct world *w, uint64_t number, unsigned from, unsigned to, bool keep)
{
    const struct gateway_move what = {.from = from, .to = to, .keep = keep};
    char key[KVT_KEY_MAX];
    uint64_t bytes;

    return gateway_move(w->g.vault, test_gateway_key(key, number), &what, &bytes);
}

static bool
is_anything_there(struct world *w, uint64_t number, unsigned tier)
{
    struct g4_request head;
    char key[KVT_KEY_MAX];

    return test_gateway_store_head(w->stores[tier], test_gateway_key(key, number), &head) !=
           KVT_NOTFOUND;
}

/* What a life does by itself. */
static void
repair(struct world *w)
{
    static const unsigned volumes[] = {GATEWAY_HOT, GATEWAY_WARM};

    gateway_cold_probe(w->g.vault->cold);
    (void)gateway_recover_pending(w->g.vault);
    for (size_t i = 0; i < 2; i++) {
        char token[G4_TOKEN_MAX] = "";

        do
            assert_int_equal(gateway_recover_orphans(w->g.vault, volumes[i], token), KVT_OK);
        while (token[0] != '\0');
    }
}

/* The rows say what is there, and the counters what the rows say. */
static void
expect_true_rows(struct world *w, uint64_t numbers, const char *what)
{
    uint64_t used[GATEWAY_TIERS] = {0};
    struct gateway_catalog_stats stats;

    for (uint64_t number = 1; number <= numbers; number++) {
        const unsigned tiers = test_gateway_tiers(&w->g, number, NULL);

        for (unsigned tier = 0; tier < GATEWAY_TIERS; tier++) {
            const bool said = (tiers & bits[tier]) != 0;

            if (said != is_anything_there(w, number, tier))
                fail_msg("%s: block %u: its row says %x, and tier %u %s", what, (unsigned)number,
                         tiers, tier, said ? "has nothing" : "has something");
            used[tier] += said ? SIZE : 0;
        }
    }
    gateway_catalog_stats(w->g.vault->catalog, &stats);
    assert_int_equal(stats.pending, 0);
    for (unsigned tier = 0; tier < GATEWAY_TIERS; tier++) {
        assert_int_equal(stats.used[tier], used[tier]);
        assert_int_equal(stats.blocks[tier], used[tier] / SIZE);
    }
}

static void
expect_readable(struct world *w, uint64_t number, const char *what)
{
    const enum kvt_err rc = test_gateway_get(&w->g, number, SIZE, NULL);

    if (rc != KVT_OK)
        fail_msg("%s: %s", what, kvt_err_text(rc));
}

/* A block in `tier`; of the volumes it is beside its bucket's copy. */
static void
place(struct world *w, uint64_t number, unsigned tier)
{
    assert_int_equal(test_gateway_put(&w->g, number, SIZE), KVT_OK);
    if (tier == GATEWAY_TIER_WARM)
        assert_int_equal(move(w, number, GATEWAY_HOT, GATEWAY_WARM, false), KVT_OK);
    if (tier == GATEWAY_TIER_COLD || tier == GATEWAY_TIER_FAR)
        assert_int_equal(move(w, number, GATEWAY_HOT, GATEWAY_COLD, false), KVT_OK);
    if (tier == GATEWAY_TIER_FAR)
        assert_int_equal(move(w, number, GATEWAY_COLD, GATEWAY_FAR, false), KVT_OK);
}

static void
drop_object(struct world *w, uint64_t number, unsigned tier)
{
    char key[KVT_KEY_MAX];
    struct g4_request drop = {.verb = G4_DELETE, .key = test_gateway_key(key, number)};

    assert_int_equal(g4_store_perform(w->stores[tier], &drop), KVT_OK);
}

/* Where it is after a move from where place() put it. */
static unsigned
expected(unsigned from, unsigned to, bool keep)
{
    const bool volume = (bits[from] & GATEWAY_VOLUMES) != 0;
    const unsigned before = bits[from] | (volume ? GATEWAY_COLD : 0u);

    if (!volume && (bits[to] & GATEWAY_VOLUMES) != 0)
        return before | bits[to];
    if (volume && bits[to] == GATEWAY_FAR) /* the bucket's copy is moved there */
        return GATEWAY_FAR | (keep ? bits[from] : 0u);
    return (before & (keep ? ~0u : ~bits[from])) | bits[to];
}

static void
every_edge(void **state)
{
    uint64_t number = 0;
    struct world w;

    (void)state;
    open_world(&w);
    for (unsigned from = 0; from < GATEWAY_TIERS; from++) {
        for (unsigned to = 0; to < GATEWAY_TIERS; to++) {
            for (unsigned keep = 0; keep < 2 && from != to; keep++) {
                place(&w, ++number, from);
                for (unsigned repeat = 0; repeat < 2; repeat++) {
                    assert_int_equal(move(&w, number, bits[from], bits[to], keep), KVT_OK);
                    assert_int_equal(test_gateway_tiers(&w.g, number, NULL),
                                     expected(from, to, keep));
                    expect_readable(&w, number, "edge");
                }
            }
        }
    }
    expect_true_rows(&w, number, "edges");
    reopen_world(&w);
    expect_true_rows(&w, number, "edges, reopened");
    test_gateway_close(&w.g);
}

/* Readers take the fastest. */
static void
reads_name_the_tier_that_served(void **state)
{
    struct world w;
    unsigned tier;

    (void)state;
    open_world(&w);
    for (unsigned at = 0; at < GATEWAY_TIERS; at++) {
        place(&w, at + 1, at);
        assert_int_equal(test_gateway_get(&w.g, at + 1, SIZE, &tier), KVT_OK);
        assert_int_equal(tier, at);
    }
    /* In all four: up again, each time a faster one. */
    place(&w, 9, GATEWAY_TIER_FAR);
    assert_int_equal(move(&w, 9, GATEWAY_FAR, GATEWAY_COLD, true), KVT_OK);
    assert_int_equal(test_gateway_get(&w.g, 9, SIZE, &tier), KVT_OK);
    assert_int_equal(tier, GATEWAY_TIER_COLD);
    assert_int_equal(move(&w, 9, GATEWAY_FAR, GATEWAY_WARM, false), KVT_OK);
    assert_int_equal(test_gateway_get(&w.g, 9, SIZE, &tier), KVT_OK);
    assert_int_equal(tier, GATEWAY_TIER_WARM);
    assert_int_equal(move(&w, 9, GATEWAY_WARM, GATEWAY_HOT, true), KVT_OK);
    assert_int_equal(test_gateway_get(&w.g, 9, SIZE, &tier), KVT_OK);
    assert_int_equal(tier, GATEWAY_TIER_HOT);
    assert_int_equal(test_gateway_tiers(&w.g, 9, NULL), GATEWAY_VOLUMES | GATEWAY_BUCKETS);
    assert_int_equal(test_gateway_get(&w.g, 9, SIZE, &tier), KVT_OK);
    test_gateway_close(&w.g);
}

static void
a_removal_takes_all_copies(void **state)
{
    char key[KVT_KEY_MAX];
    struct world w;

    (void)state;
    open_world(&w);
    place(&w, 1, GATEWAY_TIER_FAR);
    assert_int_equal(move(&w, 1, GATEWAY_FAR, GATEWAY_COLD, true), KVT_OK);
    assert_int_equal(move(&w, 1, GATEWAY_COLD, GATEWAY_WARM, true), KVT_OK);
    assert_int_equal(move(&w, 1, GATEWAY_WARM, GATEWAY_HOT, true), KVT_OK);
    assert_int_equal(gateway_remove(w.g.vault, test_gateway_key(key, 1)), KVT_OK);
    expect_true_rows(&w, 1, "removed");
    assert_int_equal(test_gateway_get(&w.g, 1, SIZE, NULL), KVT_NOTFOUND);
    test_gateway_close(&w.g);
}

/* Put again while its removal is under way: the copy that was to go goes, the new ones stay. */
static void
what_is_put_again_leaves_nothing_behind(void **state)
{
    char key[KVT_KEY_MAX];
    const char *keys[] = {key};
    struct world w;

    (void)state;
    open_world(&w);
    for (unsigned gone = 0; gone < 2; gone++) {
        place(&w, 1, GATEWAY_TIER_FAR);
        (void)test_gateway_key(key, 1);
        assert_int_equal(gateway_remove_mark(w.g.vault, keys, 1), KVT_OK);
        if (gone != 0)
            drop_object(&w, 1, GATEWAY_TIER_FAR);
        assert_int_equal(test_gateway_put(&w.g, 1, SIZE), KVT_OK);
        expect_readable(&w, 1, "put again");
        repair(&w);
        assert_int_equal(test_gateway_tiers(&w.g, 1, NULL), GATEWAY_HOT | GATEWAY_COLD);
        expect_true_rows(&w, 1, "put again");
        expect_readable(&w, 1, "put again");
    }
    test_gateway_close(&w.g);
}

static void
caps_hold(void **state)
{
    struct world w;

    (void)state;
    test_gateway_open(&w.g, 1 << 20, 0);
    test_gateway_extend(&w.g, SIZE, SIZE);
    wrap_volumes(&w);
    for (uint64_t number = 1; number <= 2; number++)
        assert_int_equal(test_gateway_put(&w.g, number, SIZE), KVT_OK);
    assert_int_equal(move(&w, 1, GATEWAY_HOT, GATEWAY_WARM, false), KVT_OK);
    assert_int_equal(move(&w, 2, GATEWAY_HOT, GATEWAY_WARM, false), KVT_FULL);
    assert_int_equal(test_gateway_tiers(&w.g, 2, NULL), GATEWAY_HOT | GATEWAY_COLD);
    assert_int_equal(move(&w, 1, GATEWAY_COLD, GATEWAY_FAR, false), KVT_OK);
    assert_int_equal(move(&w, 2, GATEWAY_COLD, GATEWAY_FAR, false), KVT_FULL);
    assert_int_equal(move(&w, 2, GATEWAY_HOT, GATEWAY_FAR, false), KVT_FULL);
    assert_int_equal(test_gateway_tiers(&w.g, 2, NULL), GATEWAY_HOT | GATEWAY_COLD);
    reopen_world(&w); /* and after a restart, which lists nothing */
    assert_int_equal(move(&w, 2, GATEWAY_HOT, GATEWAY_WARM, false), KVT_FULL);
    assert_int_equal(move(&w, 2, GATEWAY_COLD, GATEWAY_FAR, false), KVT_FULL);
    expect_true_rows(&w, 2, "caps");
    test_gateway_close(&w.g);
}

/* One that another gateway moved is found, and the row follows. */
static void
a_block_that_was_moved_by_others_is_found(void **state)
{
    struct gateway_change change;
    char key[KVT_KEY_MAX];
    struct world w;
    unsigned tier;

    (void)state;
    open_world(&w);
    place(&w, 1, GATEWAY_TIER_FAR);
    change = (struct gateway_change){.key = test_gateway_key(key, 1)};
    assert_int_equal(gateway_catalog_get(w.g.vault->catalog, key, &change.record), KVT_OK);
    change.record.tiers = GATEWAY_COLD;
    assert_int_equal(gateway_catalog_change(w.g.vault->catalog, &change, 1, GATEWAY_APPLIED),
                     KVT_OK);
    assert_int_equal(test_gateway_get(&w.g, 1, SIZE, &tier), KVT_OK);
    assert_int_equal(tier, GATEWAY_TIER_FAR);
    assert_int_equal(test_gateway_tiers(&w.g, 1, NULL), GATEWAY_FAR);
    /* Without a row at all it is found too, counted where it is, and met by a PUT. */
    change.erase = true;
    assert_int_equal(gateway_catalog_change(w.g.vault->catalog, &change, 1, GATEWAY_APPLIED),
                     KVT_OK);
    assert_int_equal(test_gateway_get(&w.g, 1, SIZE, &tier), KVT_OK);
    assert_int_equal(test_gateway_tiers(&w.g, 1, NULL), GATEWAY_FAR);
    assert_int_equal(test_gateway_put(&w.g, 1, SIZE), KVT_OK);
    expect_true_rows(&w, 1, "moved by others");
    test_gateway_close(&w.g);
}

/* The far bucket away: what is elsewhere is served and put as ever. */
static void
a_far_bucket_that_is_away_hurts_nobody_else(void **state)
{
    struct g4_fault_rule rule = {
        .fault = G4_FAULT_FAIL, .count = UINT64_MAX, .status = KVT_UNAVAILABLE};
    struct world w;

    (void)state;
    open_world(&w);
    place(&w, 1, GATEWAY_TIER_COLD);
    place(&w, 2, GATEWAY_TIER_FAR);
    for (rule.verb = G4_GET; rule.verb <= G4_LIST; rule.verb++)
        g4_faulty_set(w.g.far_bucket, &rule);
    assert_int_equal(test_gateway_get(&w.g, 2, SIZE, NULL), KVT_AGAIN);
    assert_true(gateway_cold_healthy(w.g.vault->cold));
    assert_int_equal(test_gateway_get(&w.g, 1, SIZE, NULL), KVT_OK);
    assert_int_equal(test_gateway_put(&w.g, 3, SIZE), KVT_OK);
    assert_int_equal(move(&w, 1, GATEWAY_COLD, GATEWAY_FAR, false), KVT_UNAVAILABLE);
    assert_int_equal(move(&w, 3, GATEWAY_HOT, GATEWAY_WARM, false), KVT_OK);
    gateway_cold_probe(w.g.vault->cold);
    assert_true(gateway_cold_writable(w.g.vault->cold));
    assert_int_equal(move(&w, 1, GATEWAY_COLD, GATEWAY_FAR, false), KVT_UNAVAILABLE);
    assert_int_equal(test_gateway_tiers(&w.g, 2, NULL), GATEWAY_FAR);
    rule.count = 0;
    for (rule.verb = G4_GET; rule.verb <= G4_LIST; rule.verb++)
        g4_faulty_set(w.g.far_bucket, &rule);
    repair(&w);
    expect_readable(&w, 2, "back");
    assert_int_equal(move(&w, 1, GATEWAY_COLD, GATEWAY_FAR, false), KVT_OK);
    expect_true_rows(&w, 3, "away and back");
    test_gateway_close(&w.g);
}

/* What is removed while the far bucket is away stays as it is, and is not half removed. */
static void
a_removal_waits_for_the_far_bucket(void **state)
{
    struct g4_fault_rule rule = {
        .verb = G4_DELETE, .fault = G4_FAULT_FAIL, .count = 1, .status = KVT_UNAVAILABLE};
    const char *keys[1];
    char key[KVT_KEY_MAX];
    struct world w;

    (void)state;
    open_world(&w);
    place(&w, 1, GATEWAY_TIER_COLD);
    keys[0] = test_gateway_key(key, 1);
    g4_faulty_set(w.g.far_bucket, &rule); /* noticed by the removal itself */
    assert_int_equal(gateway_remove(w.g.vault, key), KVT_AGAIN);
    assert_true(is_anything_there(&w, 1, GATEWAY_TIER_COLD));
    repair(&w);
    place(&w, 2, GATEWAY_TIER_COLD);
    rule.count = UINT64_MAX;
    for (rule.verb = G4_GET; rule.verb <= G4_LIST; rule.verb++)
        g4_faulty_set(w.g.far_bucket, &rule);
    gateway_cold_probe(w.g.vault->cold); /* known before it */
    keys[0] = test_gateway_key(key, 2);
    assert_int_equal(gateway_remove(w.g.vault, key), KVT_AGAIN);
    assert_int_equal(gateway_remove_mark(w.g.vault, keys, 1), KVT_AGAIN);
    assert_int_equal(test_gateway_tiers(&w.g, 2, NULL), GATEWAY_COLD);
    expect_readable(&w, 2, "not removed");
    test_gateway_close(&w.g);
}

/* Only the row still speaks of a copy that another gateway took away. */
static void
a_copy_that_others_took_away_is_forgotten(void **state)
{
    char key[KVT_KEY_MAX];
    struct world w;
    uint64_t bytes;

    (void)state;
    open_world(&w);
    for (uint64_t number = 1; number <= 3; number++) {
        place(&w, number, GATEWAY_TIER_COLD);
        assert_int_equal(move(&w, number, GATEWAY_COLD, GATEWAY_FAR, true), KVT_OK);
        if (number == 1)
            assert_int_equal(move(&w, number, GATEWAY_COLD, GATEWAY_HOT, true), KVT_OK);
        drop_object(&w, number, number == 3 ? GATEWAY_TIER_FAR : GATEWAY_TIER_COLD);
    }
    assert_int_equal(move(&w, 1, GATEWAY_HOT, GATEWAY_COLD, false), KVT_OK);
    assert_int_equal(gateway_move_promote(w.g.vault, test_gateway_key(key, 2), &bytes), KVT_OK);
    assert_int_equal(move(&w, 3, GATEWAY_FAR, GATEWAY_HOT, true), KVT_NOTFOUND);
    assert_int_equal(test_gateway_tiers(&w.g, 3, NULL), GATEWAY_COLD);
    expect_true_rows(&w, 3, "taken away by others");
    test_gateway_close(&w.g);
}

/* A block without a bucket's copy counts against the far one's cap before anything is written. */
static void
the_first_copy_is_counted_first(void **state)
{
    struct gateway_change change;
    char key[KVT_KEY_MAX];
    struct world w;

    (void)state;
    test_gateway_open(&w.g, 1 << 20, 0);
    test_gateway_extend(&w.g, 1 << 20, SIZE);
    wrap_volumes(&w);
    place(&w, 1, GATEWAY_TIER_FAR);
    place(&w, 2, GATEWAY_TIER_HOT);
    drop_object(&w, 2, GATEWAY_TIER_COLD);
    change = (struct gateway_change){.key = test_gateway_key(key, 2)};
    assert_int_equal(gateway_catalog_get(w.g.vault->catalog, key, &change.record), KVT_OK);
    change.record.tiers = GATEWAY_HOT;
    assert_int_equal(gateway_catalog_change(w.g.vault->catalog, &change, 1, GATEWAY_APPLIED),
                     KVT_OK);
    assert_int_equal(move(&w, 2, GATEWAY_HOT, GATEWAY_FAR, false), KVT_FULL);
    expect_true_rows(&w, 2, "no room");
    assert_int_equal(move(&w, 1, GATEWAY_FAR, GATEWAY_COLD, false), KVT_OK);
    assert_int_equal(move(&w, 2, GATEWAY_HOT, GATEWAY_FAR, false), KVT_OK);
    expect_true_rows(&w, 2, "room");
    test_gateway_close(&w.g);
}

/* What is asked of an item that its batch has no room for is not read all the same. */
static void
what_has_no_room_is_not_read(void **state)
{
    struct gateway_item item = {.for_body = true};
    char key[KVT_KEY_MAX];
    struct world w;

    (void)state;
    open_world(&w);
    place(&w, 1, GATEWAY_TIER_HOT);
    item.key = test_gateway_key(key, 1);
    gateway_get_find(w.g.vault, &item, 1);
    assert_int_equal(item.status, KVT_OK);
    item.status = KVT_AGAIN;
    assert_int_equal(move(&w, 1, GATEWAY_HOT, GATEWAY_WARM, false), KVT_OK);
    gateway_get_bodies(w.g.vault, &item, 1);
    assert_int_equal(item.status, KVT_AGAIN);
    assert_null(item.buffer);
    test_gateway_close(&w.g);
}

/* Settings that cannot work are told before anything runs, and so is a tier that is missed. */
static void
expect_refused(const struct gateway_vault_options *options, const char *why)
{
    struct gateway_vault *vault;
    struct kvt_error err;

    assert_int_equal(gateway_vault_open(&vault, options, &err), KVT_INVALID);
    assert_null(vault);
    if (strstr(err.text, why) == NULL)
        fail_msg("%s: \"%s\" is not in it", err.text, why);
}

static void
tiers_that_cannot_be_are_refused(void **state)
{
    struct gateway_vault_options options;
    char other[256];
    struct world w;

    (void)state;
    open_world(&w);
    place(&w, 1, GATEWAY_TIER_WARM);
    place(&w, 2, GATEWAY_TIER_FAR);
    gateway_vault_close(w.g.vault);
    w.g.vault = NULL;
    options = w.g.options;
    options.far_store = NULL; /* of a vault that is closed */
    options.cold_store = NULL;
    options.cold = (struct gateway_cold_options){.folder = w.g.cold};
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
    options.warm_capacity = 0;
    expect_refused(&options, "1 blocks are on the warm volume");
    test_gateway_reopen(&w.g); /* and then it opens as it was */
    expect_readable(&w, 1, "refused");
    expect_readable(&w, 2, "refused");
    test_gateway_close(&w.g);
}

/* ---- what a check finds ---- */

static void
expect_found(struct world *w, uint64_t number, enum gateway_finding finding, unsigned tier,
             enum kvt_err repaired)
{
    const struct gateway_remedy remedy = {.alone = true};
    struct gateway_inspection seen;
    struct kvt_error err;
    char key[KVT_KEY_MAX];

    assert_int_equal(gateway_inspect(w->g.vault, test_gateway_key(key, number), &seen, &err),
                     KVT_OK);
    assert_string_equal(gateway_finding_word(seen.finding), gateway_finding_word(finding));
    if (finding == GATEWAY_FINDING_NONE)
        return;
    assert_int_equal(seen.tier, tier);
    assert_int_equal(gateway_inspect_repair(w->g.vault, key, &remedy, &seen, &err), repaired);
    if (repaired == KVT_OK)
        expect_found(w, number, GATEWAY_FINDING_NONE, 0, KVT_OK);
}

static void
copy_object(struct world *w, uint64_t number, unsigned from, unsigned to)
{
    char key[KVT_KEY_MAX];
    struct g4_request get = {
        .verb = G4_GET, .key = test_gateway_key(key, number), .buffer_capacity = SIZE};

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
    struct world w;

    (void)state;
    open_world(&w);
    for (unsigned tier = 0; tier < GATEWAY_TIERS; tier++) {
        place(&w, tier + 1, tier);
        expect_found(&w, tier + 1, GATEWAY_FINDING_NONE, 0, KVT_OK);
    }
    /* A copy that nobody counts is counted, one that is gone no longer is. */
    copy_object(&w, 4, GATEWAY_TIER_FAR, GATEWAY_TIER_COLD);
    expect_found(&w, 4, GATEWAY_FINDING_OBJECT_WITHOUT_ROW, GATEWAY_TIER_COLD, KVT_OK);
    assert_int_equal(test_gateway_tiers(&w.g, 4, NULL), GATEWAY_BUCKETS);
    drop_object(&w, 4, GATEWAY_TIER_FAR);
    expect_found(&w, 4, GATEWAY_FINDING_ROW_WITHOUT_OBJECT, GATEWAY_TIER_FAR, KVT_OK);
    assert_int_equal(test_gateway_tiers(&w.g, 4, NULL), GATEWAY_COLD);
    copy_object(&w, 4, GATEWAY_TIER_COLD, GATEWAY_TIER_FAR);
    expect_found(&w, 4, GATEWAY_FINDING_OBJECT_WITHOUT_ROW, GATEWAY_TIER_FAR, KVT_OK);
    /* What a move may leave goes, and the block stays. */
    assert_int_equal(move(&w, 4, GATEWAY_COLD, GATEWAY_FAR, false), KVT_OK);
    assert_int_equal(test_gateway_store_put(w.stores[GATEWAY_TIER_COLD], test_gateway_key(key, 4),
                                            "", 0, &tombstone),
                     KVT_OK);
    expect_found(&w, 4, GATEWAY_FINDING_TOMBSTONE, GATEWAY_TIER_COLD, KVT_OK);
    expect_readable(&w, 4, "behind a tombstone");
    /* A bad copy behind a good one. */
    assert_int_equal(move(&w, 4, GATEWAY_FAR, GATEWAY_COLD, true), KVT_OK);
    assert_int_equal(test_gateway_store_put(w.stores[GATEWAY_TIER_FAR], test_gateway_key(key, 4),
                                            "bad", 3, &bad),
                     KVT_OK);
    expect_found(&w, 4, GATEWAY_FINDING_SWAPPED, GATEWAY_TIER_FAR, KVT_OK);
    assert_int_equal(test_gateway_tiers(&w.g, 4, NULL), GATEWAY_COLD);
    /* Files of the warm volume. */
    drop_object(&w, 3, GATEWAY_TIER_WARM);
    expect_found(&w, 3, GATEWAY_FINDING_ROW_WITHOUT_FILE, GATEWAY_TIER_WARM, KVT_OK);
    copy_object(&w, 3, GATEWAY_TIER_COLD, GATEWAY_TIER_WARM);
    expect_found(&w, 3, GATEWAY_FINDING_FILE_WITHOUT_ROW, GATEWAY_TIER_WARM, KVT_UNSUPPORTED);
    repair(&w);
    expect_true_rows(&w, 4, "checked");
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
    struct world w;
    uint64_t before;
    uint64_t after;
    uint64_t seen;
    char what[96];

    (void)snprintf(what, sizeof(what), "%u to %u%s, store %u, verb %d, fault %d, call %u%s",
                   attempt->from, attempt->to, attempt->had ? ", had" : "", attempt->store,
                   (int)rule.verb, (int)rule.fault, (unsigned)rule.after,
                   attempt->dies ? ", then death" : "");
    open_world(&w);
    place(&w, NUMBER, attempt->from);
    if (attempt->had)
        assert_int_equal(move(&w, NUMBER, bits[attempt->from], bits[attempt->to], true), KVT_OK);
    g4_faulty_count(w.stores[attempt->store], rule.verb, &seen, &before);
    if (attempt->dies)
        rule.count = UINT64_MAX;
    g4_faulty_set(w.stores[attempt->store], &rule);
    (void)!move(&w, NUMBER, bits[attempt->from], bits[attempt->to], false);
    g4_faulty_count(w.stores[attempt->store], rule.verb, &seen, &after);
    rule.count = 0;
    g4_faulty_set(w.stores[attempt->store], &rule);
    if (attempt->dies)
        reopen_world(&w);
    gateway_cold_probe(w.g.vault->cold);
    expect_readable(&w, NUMBER, what);
    repair(&w);
    expect_readable(&w, NUMBER, what);
    expect_true_rows(&w, NUMBER, what);
    assert_int_equal(move(&w, NUMBER, bits[attempt->from], bits[attempt->to], false), KVT_OK);
    repair(&w);
    assert_int_equal(test_gateway_tiers(&w.g, NUMBER, NULL),
                     expected(attempt->from, attempt->to, false));
    expect_true_rows(&w, NUMBER, what);
    test_gateway_close(&w.g);
    return after > before;
}

static void
every_failing_call(void **state)
{
    static const enum g4_verb verbs[] = {G4_GET, G4_HEAD, G4_PUT, G4_DELETE};
    static const enum kvt_err answers[] = {KVT_UNAVAILABLE, KVT_IO, KVT_TIMEOUT};
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
        const unsigned ends = bits[attempt.from] | bits[attempt.to];
        bool hit = attempt.from != attempt.to && (!attempt.had || ends == GATEWAY_BUCKETS);

        while (hit && attempt.rule.after < CALLS_MAX) {
            hit = try_one(&attempt);
            hits += hit ? 1 : 0;
            attempt.rule.after++;
        }
        assert_false(hit);
    }
    assert_true(hits > 100);
}

/* ---- a random walk ---- */

static void
step(struct world *w, uint64_t *seed, bool stored[KEYS + 1])
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
    g4_faulty_set(hit, &rule);
    switch (kvt_random_below(seed, 12)) {
    case 0:
    case 1:
        if (test_gateway_put(&w->g, number, SIZE) == KVT_OK)
            stored[number] = true;
        break;
    case 2: /* to the end: what is half done is nobody's promise */
        rule.count = 0;
        g4_faulty_set(hit, &rule);
        repair(w);
        if (gateway_remove(w->g.vault, key) == KVT_OK)
            stored[number] = false;
        break;
    case 3: reopen_world(w); return;
    case 4: repair(w); break;
    default:
        if (from != to)
            (void)!move(w, number, bits[from], bits[to], kvt_random_below(seed, 3) == 0);
        break;
    }
    rule.count = 0;
    g4_faulty_set(hit, &rule);
    gateway_cold_probe(w->g.vault->cold);
    if (stored[number])
        expect_readable(w, number, "walk");
}

static void
a_random_walk(void **state)
{
    bool stored[KEYS + 1] = {false};
    uint64_t seed = test_seed();
    struct world w;

    (void)state;
    open_world(&w);
    for (unsigned i = 0; i < STEPS / TEST_ALONE_SHARE; i++)
        step(&w, &seed, stored);
    reopen_world(&w);
    repair(&w);
    for (uint64_t number = 1; number <= KEYS; number++)
        if (stored[number])
            expect_readable(&w, number, "end of the walk");
    expect_true_rows(&w, KEYS, "end of the walk");
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
        cmocka_unit_test(a_removal_waits_for_the_far_bucket),
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
