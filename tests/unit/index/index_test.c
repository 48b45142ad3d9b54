/*
 * What is tested: index/index.h, from its header alone.
 * How: edges by hand, failing allocations by a sweep; long random runs are in model_test.c.
 */
#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"
#include "index/index.h"

#include "tests/support/seed.h"
#include "tests/unit/index/support/matches.h"

enum { PLENTY = 64 << 20 };

struct fixture {
    struct index *index;
    uint32_t ns;
    uint32_t other_ns;
    uint32_t g1;
    uint32_t g2;
    uint32_t cold;
};

static uint32_t
holder(struct index *index, const char *name, enum kvt_tier tier)
{
    struct index_holder key = {.tier = tier};
    uint32_t number;

    (void)snprintf(key.name, sizeof(key.name), "%s", name);
    assert_int_equal(index_holder(index, &key, &number), KVT_OK);
    return number;
}

static struct fixture
open_fixture(uint64_t bytes_max)
{
    struct fixture f = {.index = NULL};

    assert_int_equal(index_new(&f.index, bytes_max), KVT_OK);
    assert_int_equal(index_namespace(f.index, "tenant/model", &f.ns), KVT_OK);
    assert_int_equal(index_namespace(f.index, "", &f.other_ns), KVT_OK);
    f.g1 = holder(f.index, "w1", KVT_TIER_G1);
    f.g2 = holder(f.index, "w1", KVT_TIER_G2);
    f.cold = holder(f.index, "cold@bucket", KVT_TIER_G4);
    return f;
}

static enum kvt_err
store(const struct fixture *f, uint32_t at, uint64_t hash, uint64_t parent, uint32_t position)
{
    const struct index_block block = {
        .id = {.hash = hash, .parent = parent, .position = position}, .size = 100, .ranks = 1};

    return index_store(f->index, f->ns, at, &block, NULL);
}

static void
names_get_one_number_each(void **state)
{
    struct fixture f = open_fixture(PLENTY);
    struct index_holder key;
    uint32_t number;
    uint64_t blocks;
    uint64_t bytes;
    char name[KVT_NAMESPACE_MAX];
    char too_long[KVT_NAMESPACE_MAX + 1];

    (void)state;
    assert_int_equal(index_namespace(f.index, "tenant/model", &number), KVT_OK);
    assert_int_equal(number, f.ns);
    assert_int_equal(index_namespace_find(f.index, "", &number), KVT_OK);
    assert_int_equal(number, f.other_ns);
    assert_int_equal(index_namespace_find(f.index, "unknown", &number), KVT_NOTFOUND);
    index_namespace_name(f.index, f.ns, name);
    assert_string_equal(name, "tenant/model");
    memset(too_long, 'x', KVT_NAMESPACE_MAX);
    too_long[KVT_NAMESPACE_MAX] = '\0';
    assert_int_equal(index_namespace(f.index, too_long, &number), KVT_RANGE);

    assert_int_equal(holder(f.index, "w1", KVT_TIER_G2), f.g2);
    assert_int_not_equal(f.g1, f.g2);
    key = (struct index_holder){.name = "w1", .tier = KVT_TIER_G2, .dp_rank = 1};
    assert_int_equal(index_holder(f.index, &key, &number), KVT_OK);
    assert_int_not_equal(number, f.g2);
    index_holder_info(f.index, number, &key, &blocks, &bytes);
    assert_string_equal(key.name, "w1");
    assert_int_equal(key.dp_rank, 1);
    assert_int_equal(key.tier, KVT_TIER_G2);
    assert_int_equal(blocks, 0);
    assert_int_equal(bytes, 0);
    assert_int_equal(index_holder_count(f.index), 4);
    index_free(f.index);
}

static void
namespaces_and_holders_are_bounded(void **state)
{
    struct fixture f = open_fixture(PLENTY);
    struct index_holder key = {.tier = KVT_TIER_G1};
    uint32_t number;
    char name[32];

    (void)state;
    for (unsigned i = 2; i < INDEX_NAMESPACES_MAX; i++) {
        (void)snprintf(name, sizeof(name), "ns%u", i);
        assert_int_equal(index_namespace(f.index, name, &number), KVT_OK);
    }
    assert_int_equal(index_namespace(f.index, "one more", &number), KVT_FULL);
    assert_int_equal(index_namespace(f.index, "ns2", &number), KVT_OK);
    for (unsigned i = 3; i < INDEX_HOLDERS_MAX; i++) {
        (void)snprintf(key.name, sizeof(key.name), "h%u", i);
        assert_int_equal(index_holder(f.index, &key, &number), KVT_OK);
    }
    (void)snprintf(key.name, sizeof(key.name), "one more");
    assert_int_equal(index_holder(f.index, &key, &number), KVT_FULL);
    index_free(f.index);
}

static void
a_number_that_holds_nothing_goes_to_another_name(void **state)
{
    struct fixture f = open_fixture(PLENTY);
    struct index_holder key = {.name = "w2", .tier = KVT_TIER_G3, .dp_rank = 7};
    struct index_holder info;
    struct index_view view;
    uint64_t blocks;
    uint8_t mask;
    const uint64_t hash = 1;

    (void)state;
    assert_int_equal(store(&f, f.g1, 1, 0, 0), KVT_OK);
    assert_int_equal(index_remove(f.index, f.ns, f.g1, 1, 1), KVT_OK);
    assert_int_equal(index_holder_rename(f.index, f.g1, &key), KVT_OK);
    index_holder_info(f.index, f.g1, &info, &blocks, NULL);
    assert_string_equal(info.name, "w2");
    assert_int_equal(info.tier, KVT_TIER_G3);
    assert_int_equal(info.dp_rank, 7);
    assert_int_equal(blocks, 0);
    assert_int_equal(index_holder_count(f.index), 3);
    /* What it stores now is of the new tier; the old name is a stranger. */
    assert_int_equal(store(&f, f.g1, 1, 0, 0), KVT_OK);
    index_match(f.index, f.ns, &hash, 1, &mask);
    assert_int_equal(mask, KVT_TIER_MASK(KVT_TIER_G3));
    assert_int_equal(index_get(f.index, f.ns, 1, &view), KVT_OK);
    assert_int_equal(view.places[0].holder, f.g1);
    assert_int_equal(holder(f.index, "w1", KVT_TIER_G1), 3);
    assert_int_equal(holder(f.index, "w1", KVT_TIER_G2), f.g2);
    /* A name that has a number does not get a second one. */
    assert_int_equal(index_holder_rename(f.index, f.g2, &key), KVT_EXISTS);
    assert_int_equal(holder(f.index, "w1", KVT_TIER_G2), f.g2);
    index_free(f.index);
}

static void
shards_come_and_go_one_by_one(void **state)
{
    struct fixture f = open_fixture(PLENTY);
    struct index_block block = {.id = {.hash = 7}, .size = 100, .ranks = 0x3};
    struct index_view view;
    uint64_t blocks;
    uint64_t bytes;
    bool added;

    (void)state;
    assert_int_equal(index_store(f.index, f.ns, f.g2, &block, &added), KVT_OK);
    assert_true(added);
    block.ranks = 0x6;
    assert_int_equal(index_store(f.index, f.ns, f.g2, &block, &added), KVT_OK);
    assert_false(added);
    block.ranks = 0;
    assert_int_equal(index_store(f.index, f.ns, f.g2, &block, &added), KVT_INVALID);
    assert_int_equal(index_get(f.index, f.ns, 7, &view), KVT_OK);
    assert_int_equal(view.block.ranks, 0x7);
    assert_int_equal(view.place_count, 1);
    index_holder_info(f.index, f.g2, NULL, &blocks, &bytes);
    assert_int_equal(blocks, 1);
    assert_int_equal(bytes, 300);

    assert_int_equal(index_remove(f.index, f.ns, f.g2, 7, 0x5), KVT_OK);
    index_holder_info(f.index, f.g2, NULL, &blocks, &bytes);
    assert_int_equal(bytes, 100);
    assert_int_equal(index_remove(f.index, f.ns, f.g1, 7, 0xff), KVT_NOTFOUND);
    assert_int_equal(index_remove(f.index, f.other_ns, f.g2, 7, 0xff), KVT_NOTFOUND);
    assert_int_equal(index_remove(f.index, f.ns, f.g2, 7, 0xff), KVT_OK);
    assert_int_equal(index_get(f.index, f.ns, 7, &view), KVT_NOTFOUND);
    assert_int_equal(index_remove(f.index, f.ns, f.g2, 7, 0xff), KVT_NOTFOUND);
    index_holder_info(f.index, f.g2, NULL, &blocks, &bytes);
    assert_int_equal(blocks, 0);
    assert_int_equal(bytes, 0);
    index_free(f.index);
}

static void
a_block_that_grows_moves_its_holders_totals(void **state)
{
    struct fixture f = open_fixture(PLENTY);
    struct index_block block = {.id = {.hash = 7}, .size = 100, .ranks = 0x3};
    uint64_t bytes;

    (void)state;
    assert_int_equal(index_store(f.index, f.ns, f.g2, &block, NULL), KVT_OK);
    block.size = 0; /* a sender that does not know it changes nothing */
    assert_int_equal(index_store(f.index, f.ns, f.g1, &block, NULL), KVT_OK);
    index_holder_info(f.index, f.g1, NULL, NULL, &bytes);
    assert_int_equal(bytes, 200);
    block.size = 40;
    assert_int_equal(index_store(f.index, f.ns, f.g1, &block, NULL), KVT_OK);
    index_holder_info(f.index, f.g1, NULL, NULL, &bytes);
    assert_int_equal(bytes, 80);
    index_holder_info(f.index, f.g2, NULL, NULL, &bytes);
    assert_int_equal(bytes, 80);
    index_free(f.index);
}

static void
another_parent_or_position_is_a_collision(void **state)
{
    struct fixture f = open_fixture(PLENTY);
    struct index_stats stats;
    struct index_view view;
    uint64_t child;

    (void)state;
    assert_int_equal(store(&f, f.g1, 50, 40, 3), KVT_OK);
    assert_int_equal(store(&f, f.g2, 50, 41, 3), KVT_EXISTS);
    assert_int_equal(store(&f, f.g2, 50, 40, 4), KVT_EXISTS);
    assert_int_equal(store(&f, f.g2, 50, 0, 3), KVT_OK); /* parent not known */
    assert_int_equal(store(&f, f.g1, 60, 0, 3), KVT_OK);
    assert_int_equal(index_children(f.index, f.ns, 50, NULL, 0), 0);
    assert_int_equal(store(&f, f.g2, 60, 50, 3), KVT_OK); /* learned */
    assert_int_equal(index_children(f.index, f.ns, 50, &child, 1), 1);
    assert_int_equal(child, 60);
    assert_int_equal(store(&f, f.g2, 60, 51, 3), KVT_EXISTS);
    assert_int_equal(store(&f, f.g1, 70, 0, 0), KVT_OK);
    assert_int_equal(store(&f, f.g1, 70, 1, 0), KVT_EXISTS); /* a root has no parent */
    index_stats(f.index, &stats);
    assert_int_equal(stats.collisions, 4);
    assert_int_equal(index_get(f.index, f.ns, 50, &view), KVT_OK);
    assert_int_equal(view.place_count, 2);
    assert_int_equal(view.block.id.parent, 40);
    index_free(f.index);
}

static void
hash_zero_is_a_hash(void **state)
{
    struct fixture f = open_fixture(PLENTY);
    const uint64_t hashes[] = {0};
    uint8_t mask;

    (void)state;
    index_match(f.index, f.ns, hashes, 1, &mask);
    assert_int_equal(mask, 0);
    assert_int_equal(store(&f, f.g2, 0, 0, 0), KVT_OK);
    index_match(f.index, f.ns, hashes, 1, &mask);
    assert_int_equal(mask, KVT_TIER_MASK(KVT_TIER_G2));
    index_match(f.index, f.other_ns, hashes, 1, &mask);
    assert_int_equal(mask, 0);
    index_free(f.index);
}

static void
matches_are_the_longest_prefix_of_each_holder(void **state)
{
    struct fixture f = open_fixture(PLENTY);
    const uint64_t hashes[] = {11, 12, 13, 14};
    struct index_match matches[8];
    uint8_t masks[4];

    (void)state;
    assert_int_equal(find_matches(f.index, f.ns, hashes, 4, matches, 8), 0);
    for (uint32_t i = 0; i < 4; i++)
        if (i != 2)
            assert_int_equal(store(&f, f.g1, hashes[i], i == 0 ? 0 : hashes[i - 1], i), KVT_OK);
    for (uint32_t i = 0; i < 3; i++)
        assert_int_equal(store(&f, f.cold, hashes[i], i == 0 ? 0 : hashes[i - 1], i), KVT_OK);
    assert_int_equal(store(&f, f.g2, 12, 11, 1), KVT_OK); /* without the root: no match */

    assert_int_equal(find_matches(f.index, f.ns, hashes, 4, matches, 8), 2);
    assert_int_equal(matches[0].holder, f.cold);
    assert_int_equal(matches[0].blocks, 3);
    assert_int_equal(matches[1].holder, f.g1);
    assert_int_equal(matches[1].blocks, 2); /* 14 is there, but not 13 */

    /* Room for one: the longest is the one that is given. */
    assert_int_equal(find_matches(f.index, f.ns, hashes, 4, matches, 1), 1);
    assert_int_equal(matches[0].holder, f.cold);
    assert_int_equal(find_matches(f.index, f.ns, hashes, 0, matches, 8), 0);

    index_match(f.index, f.ns, hashes, 4, masks);
    assert_int_equal(masks[1], KVT_TIER_MASK(KVT_TIER_G1) | KVT_TIER_MASK(KVT_TIER_G2) |
                                   KVT_TIER_MASK(KVT_TIER_G4));
    assert_int_equal(masks[3], KVT_TIER_MASK(KVT_TIER_G1));
    assert_int_equal(index_remove(f.index, f.ns, f.g1, 12, 1), KVT_OK);
    index_match(f.index, f.ns, hashes, 4, masks);
    assert_int_equal(masks[1], KVT_TIER_MASK(KVT_TIER_G2) | KVT_TIER_MASK(KVT_TIER_G4));
    index_free(f.index);
}

static void
a_view_shows_64_places_and_counts_them_all(void **state)
{
    struct fixture f = open_fixture(PLENTY);
    struct index_match matches[100];
    struct index_view view;
    const uint64_t hash = 5;
    char name[16];

    (void)state;
    for (int i = 0; i < 100; i++) {
        (void)snprintf(name, sizeof(name), "w%d", i + 100);
        assert_int_equal(store(&f, holder(f.index, name, KVT_TIER_G2), hash, 0, 0), KVT_OK);
    }
    assert_int_equal(index_get(f.index, f.ns, hash, &view), KVT_OK);
    assert_int_equal(view.place_count, 100);
    assert_int_equal(find_matches(f.index, f.ns, &hash, 1, matches, 100), 100);
    assert_int_equal(find_matches(f.index, f.ns, &hash, 1, matches, 10), 10);
    index_free(f.index);
}

/* All of a holder in a namespace goes; how many pairs that were. */
static uint64_t
drop(struct index *index, uint32_t at, uint32_t ns)
{
    uint64_t cursor = 0;
    uint64_t total = 0;
    uint64_t pairs;
    bool more;

    do {
        more = index_drop(index, at, ns, &cursor, &pairs);
        total += pairs;
    } while (more);
    return total;
}

static void
children_are_found_whoever_comes_first(void **state)
{
    struct fixture f = open_fixture(PLENTY);
    uint64_t children[2];

    (void)state;
    assert_int_equal(store(&f, f.g1, 21, 20, 1), KVT_OK);
    assert_int_equal(store(&f, f.g1, 22, 20, 1), KVT_OK);
    assert_int_equal(store(&f, f.g1, 20, 0, 0), KVT_OK);
    assert_int_equal(store(&f, f.g1, 23, 20, 1), KVT_OK);
    assert_int_equal(index_children(f.index, f.ns, 20, children, 2), 3);
    assert_int_equal(index_remove(f.index, f.ns, f.g1, 22, 1), KVT_OK);
    assert_int_equal(index_children(f.index, f.ns, 20, children, 2), 2);
    assert_true((children[0] == 21 && children[1] == 23) ||
                (children[0] == 23 && children[1] == 21));
    /* They stay children of a parent that leaves. */
    assert_int_equal(index_remove(f.index, f.ns, f.g1, 20, 1), KVT_OK);
    assert_int_equal(index_children(f.index, f.ns, 20, children, 2), 2);
    assert_int_equal(index_children(f.index, f.other_ns, 20, children, 2), 0);
    assert_int_equal(drop(f.index, f.g1, f.ns), 2);
    assert_int_equal(index_children(f.index, f.ns, 20, children, 2), 0);
    index_free(f.index);
}

/* Chains of 100 blocks from hash `from` on. */
static void
store_chains(struct fixture *f, uint32_t at, uint32_t ns, uint64_t from, uint32_t chains)
{
    enum { CHAIN = 100 };
    uint64_t hashes[CHAIN];
    struct index_change change = {.hashes = hashes,
                                  .count = CHAIN,
                                  .size = 100,
                                  .ns = ns,
                                  .holder = at,
                                  .ranks = 1,
                                  .kind = INDEX_STORE};

    for (uint32_t chain = 0; chain < chains; chain++) {
        for (uint32_t i = 0; i < CHAIN; i++)
            hashes[i] = from + chain * CHAIN + i;
        index_apply(f->index, &change, 1);
        assert_int_equal(change.changed, CHAIN);
    }
}

static void
a_holder_is_dropped_in_bounded_steps(void **state)
{
    enum { CHAINS = 2000, BLOCKS = 100 * CHAINS, MORE = 20 };
    struct fixture f = open_fixture(PLENTY);
    struct index_stats stats;
    uint64_t cursor = 0;
    uint64_t total = 0;
    uint64_t blocks;
    uint64_t bytes;
    uint64_t pairs;
    uint32_t steps = 0;
    bool more;

    (void)state;
    store_chains(&f, f.g1, f.ns, 1, CHAINS);
    store_chains(&f, f.cold, f.ns, 1, CHAINS / 2);
    store_chains(&f, f.g1, f.other_ns, 1, 10);
    do {
        more = index_drop(f.index, f.g1, f.ns, &cursor, &pairs);
        assert_true(pairs < INDEX_DROP_PAIRS + 1024);
        total += pairs;
        /* Others come meanwhile, to pages that became empty too. */
        store_chains(&f, f.g2, f.ns, BLOCKS + 1 + 100 * MORE * steps++, MORE);
    } while (more);
    assert_int_equal(total, BLOCKS);
    assert_true(steps > BLOCKS / (INDEX_DROP_PAIRS + 1024));
    index_holder_info(f.index, f.g1, NULL, &blocks, &bytes);
    assert_int_equal(blocks, 1000);
    assert_int_equal(bytes, 100000);
    /* What has nothing is not looked for. */
    assert_int_equal(drop(f.index, f.g1, INDEX_NAMESPACE_ALL), 1000);
    cursor = 0;
    assert_false(index_drop(f.index, f.g1, INDEX_NAMESPACE_ALL, &cursor, &pairs));
    assert_int_equal(pairs, 0);
    index_stats(f.index, &stats);
    assert_int_equal(stats.blocks, BLOCKS / 2 + 100 * MORE * steps);
    assert_int_equal(stats.places, stats.blocks);
    index_free(f.index);
}

/* A call looks at so many pages and no more, whoever has them; and only at those of the holder in
 * the namespace, if it is given one. */
static void
a_drop_of_little_among_much_is_bounded_and_cheap(void **state)
{
    enum { BLOCKS = INDEX_DROP_PAGES * 1024, CHAINS = (BLOCKS + BLOCKS / 16) / 100 };
    struct fixture f = open_fixture(PLENTY);
    uint64_t cursor = 0;
    uint64_t pairs;

    (void)state;
    store_chains(&f, f.g2, f.ns, 1, CHAINS);
    store_chains(&f, f.g1, f.ns, 1 + 100 * CHAINS, 1);
    assert_true(index_drop(f.index, f.g1, INDEX_NAMESPACE_ALL, &cursor, &pairs));
    assert_int_equal(pairs, 0);
    cursor = 0;
    assert_false(index_drop(f.index, f.g1, f.other_ns, &cursor, &pairs));
    assert_int_equal(pairs, 0);
    cursor = 0;
    assert_false(index_drop(f.index, f.g1, f.ns, &cursor, &pairs));
    assert_int_equal(pairs, 100);
    index_free(f.index);
}

/* Several holders lose in one pass what each has in its namespace, and nobody else anything. */
static void
several_are_dropped_in_one_pass(void **state)
{
    enum { CHAINS = 500 };
    struct fixture f = open_fixture(PLENTY);
    const struct index_loss losses[] = {
        {f.g1, f.ns}, {f.g2, f.other_ns}, {f.cold, f.ns}, {f.cold, f.other_ns}};
    uint64_t blocks[3];
    uint64_t cursor = 0;
    uint64_t total = 0;
    uint64_t pairs;

    (void)state;
    store_chains(&f, f.g1, f.ns, 1, CHAINS);
    store_chains(&f, f.g2, f.ns, 1, CHAINS);
    store_chains(&f, f.g1, f.other_ns, 1, CHAINS);
    store_chains(&f, f.g2, f.other_ns, 1, CHAINS);
    store_chains(&f, f.cold, f.other_ns, 1 + 100 * CHAINS, CHAINS);
    while (index_drop_report(f.index, losses, 4, NULL, NULL, &cursor, &pairs))
        total += pairs;
    total += pairs;
    assert_int_equal(total, 3 * 100 * CHAINS);
    index_holder_info(f.index, f.g1, NULL, &blocks[0], NULL);
    index_holder_info(f.index, f.g2, NULL, &blocks[1], NULL);
    index_holder_info(f.index, f.cold, NULL, &blocks[2], NULL);
    assert_int_equal(blocks[0], 100 * CHAINS);
    assert_int_equal(blocks[1], 100 * CHAINS);
    assert_int_equal(blocks[2], 0);
    assert_int_equal(drop(f.index, f.g1, f.other_ns), 100 * CHAINS);
    assert_int_equal(drop(f.index, f.g2, f.ns), 100 * CHAINS);
    index_free(f.index);
}

/* A ceiling is an answer: what did not fit changed nothing, and what is freed can be used again. */
static void
a_full_index_refuses_and_stays_as_it_was(void **state)
{
    struct fixture f = open_fixture(320 << 10);
    struct index_stats before;
    struct index_stats after;
    struct index_view view;
    uint64_t last = 0;

    (void)state;
    while (store(&f, f.g1, last + 1, last, (uint32_t)last) == KVT_OK)
        last++;
    assert_true(last > 100);
    index_stats(f.index, &before);
    assert_true(before.bytes <= before.bytes_max);
    assert_int_equal(before.blocks, last);
    assert_int_equal(store(&f, f.g1, last + 1, last, (uint32_t)last), KVT_FULL);
    index_stats(f.index, &after);
    assert_int_equal(after.blocks, before.blocks);
    assert_int_equal(after.places, before.places);
    assert_true(after.bytes <= after.bytes_max);
    assert_int_equal(index_get(f.index, f.ns, last + 1, &view), KVT_NOTFOUND);
    for (uint64_t i = 1; i <= last; i++)
        assert_int_equal(index_get(f.index, f.ns, i, &view), KVT_OK);

    /* From its end: blocks that others hang on leave with the last of those. */
    for (uint64_t i = 0; i < 50; i++)
        assert_int_equal(index_remove(f.index, f.ns, f.g1, last - i, 1), KVT_OK);
    assert_int_equal(store(&f, f.g1, 1000000, 0, 0), KVT_OK);
    assert_int_equal(drop(f.index, f.g1, INDEX_NAMESPACE_ALL), last - 49);
    assert_int_equal(store(&f, f.g1, 1000000, 0, 0), KVT_OK);
    index_free(f.index);
}

struct seen {
    uint8_t counts[2001];
    uint64_t total;
};

static void
on_pair(void *arg, uint32_t ns, uint32_t at, const struct index_block *block)
{
    struct seen *seen = arg;

    (void)ns;
    (void)at;
    assert_in_range(block->id.hash, 1, 2000);
    seen->counts[block->id.hash]++;
    seen->total++;
}

static void
a_walk_gives_every_pair_that_stays(void **state)
{
    struct fixture f = open_fixture(PLENTY);
    struct seen seen = {.total = 0};
    uint64_t cursor = 0;
    uint64_t step = 0;

    (void)state;
    assert_int_equal(index_walk(f.index, 0, 10, on_pair, &seen), 0);
    for (uint64_t i = 1; i <= 1000; i++)
        assert_int_equal(store(&f, f.g1, i, i - 1, (uint32_t)i - 1), KVT_OK);
    do {
        cursor = index_walk(f.index, cursor, 10, on_pair, &seen);
        /* Meanwhile the index grows (its tables move) and multiples of seven leave. */
        step++;
        if (step <= 100) {
            for (uint64_t i = 0; i < 10; i++) {
                const uint64_t hash = 1000 + (step - 1) * 10 + i + 1;

                assert_int_equal(store(&f, f.g1, hash, hash - 1, (uint32_t)hash - 1), KVT_OK);
            }
            assert_int_equal(index_remove(f.index, f.ns, f.g1, step * 7, 1), KVT_OK);
        }
    } while (cursor != 0);
    for (uint64_t i = 1; i <= 1000; i++)
        if (i % 7 != 0)
            assert_true(seen.counts[i] >= 1);
    assert_true(step >= 100);

    /* An index where nearly everything is gone is walked to its end. */
    assert_int_equal(drop(f.index, f.g1, f.ns), 1900);
    assert_int_equal(store(&f, f.g1, 1, 0, 0), KVT_OK);
    seen = (struct seen){.total = 0};
    cursor = 0;
    do {
        cursor = index_walk(f.index, cursor, 10, on_pair, &seen);
    } while (cursor != 0);
    assert_int_equal(seen.total, 1);
    index_free(f.index);
}

static bool
build(void *arg)
{
    struct index *index = NULL;
    struct index_holder key = {.name = "w", .tier = KVT_TIER_G2};
    bool done = false;
    uint32_t ns;
    uint32_t at;

    (void)arg;
    if (index_new(&index, PLENTY) != KVT_OK) {
        assert_null(index);
        return false;
    }
    if (index_namespace(index, "n", &ns) != KVT_OK || index_holder(index, &key, &at) != KVT_OK)
        goto end;
    for (uint64_t i = 1; i <= 2000; i++) {
        const struct index_block block = {
            .id = {.hash = i, .parent = i - 1, .position = (uint32_t)i - 1}, .ranks = 1};
        const enum kvt_err rc = index_store(index, ns, at, &block, NULL);
        struct index_stats stats;

        assert_true(rc == KVT_OK || rc == KVT_FULL);
        if (rc != KVT_OK) {
            index_stats(index, &stats);
            assert_int_equal(stats.blocks, i - 1);
            assert_int_equal(stats.places, i - 1);
            goto end;
        }
    }
    done = true;

end:
    index_free(index);
    return done;
}

enum { CROWD = 24, LENGTH = 40 };

/* Many holders of parts of one sequence, with other shards and sizes; false: refused. */
static bool
crowd(struct index *index, uint32_t ns, const uint64_t hashes[LENGTH])
{
    bool done = true;

    for (uint32_t i = 0; i < CROWD; i++) {
        struct index_holder key = {.name = {(char)('a' + i)}, .tier = KVT_TIER_G2};
        uint32_t at;
        struct index_change changes[2] = {{.kind = INDEX_STORE,
                                           .hashes = hashes,
                                           .tokens = i % 2 == 0 ? hashes : NULL,
                                           .count = LENGTH - i,
                                           .size = i % 5 == 0 ? 100 : 200,
                                           .ns = ns,
                                           .ranks = 1 + i % 3},
                                          {.kind = INDEX_REMOVE,
                                           .hashes = hashes + 3,
                                           .count = 1 + i % 7,
                                           .ns = ns,
                                           .ranks = UINT32_MAX}};

        if (index_holder(index, &key, &at) != KVT_OK)
            return false;
        changes[0].holder = changes[1].holder = at;
        index_apply(index, changes, 2);
        for (int j = 0; j < 2; j++) {
            assert_true(changes[j].status == KVT_OK || changes[j].status == KVT_FULL);
            done = done && changes[j].status == KVT_OK;
        }
        assert_true(changes[0].done <= changes[0].count);
    }
    return done;
}

/* What goes as a whole is not taken apart: groups, parts and blocks of different sizes. */
static void
a_drop_needs_no_memory(void **state)
{
    struct fixture f = open_fixture(PLENTY);
    uint64_t hashes[LENGTH];
    struct index_stats stats;

    (void)state;
    for (uint64_t i = 0; i < LENGTH; i++)
        hashes[i] = 1000 + i;
    assert_true(crowd(f.index, f.ns, hashes));
    for (uint32_t i = 0; i < 2 * CROWD; i++) {
        struct index_change change = {.hashes = hashes, .count = LENGTH, .ns = f.ns, .ranks = 1};
        char name[16];

        (void)snprintf(name, sizeof(name), "all%u", i);
        change.holder = holder(f.index, name, KVT_TIER_G1);
        index_apply(f.index, &change, 1);
        assert_int_equal(change.changed, LENGTH);
    }
    kvt_alloc_fail_after(0);
    for (uint32_t at = 0; at < index_holder_count(f.index); at++) {
        uint64_t blocks;
        uint64_t bytes;

        index_holder_info(f.index, at, NULL, &blocks, NULL);
        assert_int_equal(drop(f.index, at, f.ns), blocks);
        index_holder_info(f.index, at, NULL, &blocks, &bytes);
        assert_int_equal(blocks, 0);
        assert_int_equal(bytes, 0);
    }
    kvt_alloc_fail_after(SIZE_MAX);
    index_stats(f.index, &stats);
    assert_int_equal(stats.places, 0);
    assert_int_equal(stats.blocks, 0);
    index_free(f.index);
}

static bool
build_crowd(void *arg)
{
    struct index *index = NULL;
    struct index_stats stats;
    uint64_t hashes[LENGTH];
    uint64_t blocks;
    uint64_t sum = 0;
    bool done = false;
    uint32_t ns;

    (void)arg;
    for (uint64_t i = 0; i < LENGTH; i++)
        hashes[i] = 1000 + i;
    if (index_new(&index, PLENTY) != KVT_OK)
        return false;
    if (index_namespace(index, "n", &ns) == KVT_OK)
        done = crowd(index, ns, hashes);
    /* Whatever was refused, what is counted is what is there. */
    for (uint32_t at = 0; at < index_holder_count(index); at++) {
        index_holder_info(index, at, NULL, &blocks, NULL);
        sum += blocks;
    }
    index_stats(index, &stats);
    assert_int_equal(stats.places, sum);
    for (uint32_t at = 0; at < index_holder_count(index) && done; at++)
        (void)drop(index, at, INDEX_NAMESPACE_ALL);
    index_stats(index, &stats);
    assert_true(!done || (stats.places == 0 && stats.blocks == 0));
    index_free(index);
    return done;
}

static void
every_failing_allocation_is_survived(void **state)
{
    (void)state;
    assert_true(test_sweep_allocations(build, NULL) > 10);
    assert_true(test_sweep_allocations(build_crowd, NULL) > 10);
}

static uint64_t
bytes_of(const struct fixture *f)
{
    struct index_stats stats;

    index_stats(f->index, &stats);
    return stats.bytes;
}

/* Room that was made ahead holds what comes, and costs about what comes by and by does. */
static void
what_is_expected_has_room(void **state)
{
    enum { EXPECTED = 200000, ENTRY_BYTES = 6, FEW = 100 };
    struct fixture f[2] = {open_fixture(PLENTY), open_fixture(PLENTY)};
    struct index_view view;
    uint64_t bytes;

    (void)state;
    bytes = bytes_of(&f[0]);
    index_expect(f[0].index, f[0].ns, FEW);
    index_expect(f[0].index, f[0].ns, UINT64_MAX);
    assert_int_equal(bytes_of(&f[0]), bytes); /* not worth it; more than there is */
    index_expect(f[0].index, f[0].ns, EXPECTED);
    assert_in_range(bytes_of(&f[0]), bytes + EXPECTED * ENTRY_BYTES, PLENTY);
    bytes = bytes_of(&f[0]);
    index_expect(f[0].index, f[0].ns, EXPECTED); /* there is some room already */
    assert_int_equal(bytes_of(&f[0]), bytes);
    for (uint64_t i = 1; i <= EXPECTED; i++)
        for (unsigned way = 0; way < 2; way++)
            assert_int_equal(store(&f[way], f[way].g1, i * 7, (i - 1) * 7, (uint32_t)i - 1),
                             KVT_OK);
    assert_in_range(bytes_of(&f[0]), 1, bytes_of(&f[1]) * 5 / 4);
    for (uint64_t i = 1; i <= EXPECTED; i++) {
        assert_int_equal(index_get(f[0].index, f[0].ns, i * 7, &view), KVT_OK);
        assert_int_equal(view.block.id.position, i - 1);
        assert_int_equal(index_remove(f[0].index, f[0].ns, f[0].g1, i * 7, 1), KVT_OK);
    }
    index_free(f[0].index);
    index_free(f[1].index);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_get_one_number_each),
        cmocka_unit_test(namespaces_and_holders_are_bounded),
        cmocka_unit_test(a_number_that_holds_nothing_goes_to_another_name),
        cmocka_unit_test(shards_come_and_go_one_by_one),
        cmocka_unit_test(a_block_that_grows_moves_its_holders_totals),
        cmocka_unit_test(another_parent_or_position_is_a_collision),
        cmocka_unit_test(hash_zero_is_a_hash),
        cmocka_unit_test(matches_are_the_longest_prefix_of_each_holder),
        cmocka_unit_test(a_view_shows_64_places_and_counts_them_all),
        cmocka_unit_test(children_are_found_whoever_comes_first),
        cmocka_unit_test(a_holder_is_dropped_in_bounded_steps),
        cmocka_unit_test(a_drop_of_little_among_much_is_bounded_and_cheap),
        cmocka_unit_test(several_are_dropped_in_one_pass),
        cmocka_unit_test(a_full_index_refuses_and_stays_as_it_was),
        cmocka_unit_test(a_walk_gives_every_pair_that_stays),
        cmocka_unit_test(a_drop_needs_no_memory),
        cmocka_unit_test(every_failing_allocation_is_survived),
        cmocka_unit_test(what_is_expected_has_room),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
