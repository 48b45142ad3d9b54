/*
 * What is tested: index/index.h over long random runs.
 * How: by comparing each answer with a model so simple (an array of pairs, searched from front to
 * back) that it cannot be wrong in the same way.  The run proves that it met a full index,
 * collisions, dropped holders and blocks with more places than a view shows.  KVT_SEED=n replays.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/random.h"
#include "index/index.h"

#include "tests/support/seed.h"

enum {
    STEPS = 200000,
    CHECK_EVERY = 5000,
    HASHES = 400,
    HOLDERS = 96,
    NAMESPACES = 2,
    BYTES_MAX = 900 << 10,
};

struct model_block {
    bool present;
    uint64_t parent;
    uint32_t position;
    uint32_t ranks[HOLDERS]; /* 0: not there */
    uint32_t place_count;
};

struct model {
    struct model_block blocks[NAMESPACES][HASHES];
    uint64_t places;
    uint64_t collisions;
};

struct counts {
    uint32_t full;
    uint32_t collided;
    uint32_t dropped;
    uint32_t crowded; /* blocks seen with more than INDEX_PLACES_MAX places */
    uint32_t matched; /* matches longer than one block */
};

struct run {
    struct index *index;
    struct model *model;
    struct counts counts;
    uint64_t state;
    uint32_t ns[NAMESPACES];
    uint32_t holders[HOLDERS];
};

/* Chains of eight blocks: hash h (from 1) follows h - 1 unless it starts a chain. */
static uint64_t
parent_of(uint32_t hash)
{
    return hash % 8 == 0 ? 0 : hash - 1 + 1000;
}

static enum kvt_tier
tier_of(uint32_t holder)
{
    return (enum kvt_tier)(KVT_TIER_G1 + holder % 4);
}

static void
model_forget(struct model *model, uint32_t ns, uint32_t hash, uint32_t holder)
{
    struct model_block *block = &model->blocks[ns][hash];

    block->ranks[holder] = 0;
    block->place_count--;
    model->places--;
    if (block->place_count == 0)
        *block = (struct model_block){.present = false};
}

static void
step_store(struct run *run, uint32_t ns, uint32_t hash, uint32_t holder)
{
    struct model_block *model = &run->model->blocks[ns][hash];
    const uint64_t way = kvt_random_below(&run->state, 100);
    struct index_block block = {
        .id = {.hash = hash + 1000, .parent = parent_of(hash), .position = hash % 8},
        .size = 10,
        .ranks = 1u << kvt_random_below(&run->state, 3),
    };
    bool collides;
    bool added;
    enum kvt_err rc;

    if (way < 3)
        block.id.parent = 999999; /* another chain with the same hash */
    else if (way < 6)
        block.id.parent = 0; /* unknown, unless this is a root */
    else if (way < 8)
        block.id.position += 100;
    collides = model->present &&
               (model->position != block.id.position ||
                (model->parent != block.id.parent &&
                 (block.id.position == 0 || (model->parent != 0 && block.id.parent != 0))));
    rc = index_store(run->index, run->ns[ns], run->holders[holder], &block, &added);
    if (collides) {
        assert_int_equal(rc, KVT_EXISTS);
        run->model->collisions++;
        run->counts.collided++;
        return;
    }
    if (rc == KVT_FULL) {
        run->counts.full++;
        assert_false(added);
        return;
    }
    assert_int_equal(rc, KVT_OK);
    assert_int_equal(added, model->ranks[holder] == 0);
    if (!model->present)
        *model = (struct model_block){.present = true, .position = block.id.position};
    if (model->parent == 0)
        model->parent = block.id.parent;
    if (model->ranks[holder] == 0) {
        model->place_count++;
        run->model->places++;
    }
    model->ranks[holder] |= block.ranks;
}

static void
step_remove(struct run *run, uint32_t ns, uint32_t hash, uint32_t holder)
{
    struct model_block *model = &run->model->blocks[ns][hash];
    const uint32_t ranks = (uint32_t)kvt_random_below(&run->state, 8);
    const enum kvt_err rc =
        index_remove(run->index, run->ns[ns], run->holders[holder], hash + 1000, ranks);

    assert_int_equal(rc, model->ranks[holder] != 0 ? KVT_OK : KVT_NOTFOUND);
    if (rc != KVT_OK)
        return;
    if ((model->ranks[holder] & ~ranks) == 0)
        model_forget(run->model, ns, hash, holder);
    else
        model->ranks[holder] &= ~ranks;
}

static void
step_drop(struct run *run, uint32_t holder)
{
    size_t held = 0;

    for (uint32_t ns = 0; ns < NAMESPACES; ns++) {
        for (uint32_t hash = 0; hash < HASHES; hash++) {
            if (run->model->blocks[ns][hash].ranks[holder] == 0)
                continue;
            held++;
            model_forget(run->model, ns, hash, holder);
        }
    }
    for (size_t gone = 0; gone < held;) {
        const size_t now = index_drop_holder(run->index, run->holders[holder], 7);

        assert_true(now > 0 && now <= 7);
        gone += now;
        assert_true(gone <= held);
    }
    assert_int_equal(index_drop_holder(run->index, run->holders[holder], 7), 0);
    run->counts.dropped += held > 0;
}

static void
step_match(struct run *run, uint32_t ns, uint32_t hash)
{
    struct index_match matches[HOLDERS];
    uint64_t hashes[8];
    uint8_t masks[8];
    const uint32_t root = hash - hash % 8;
    size_t expected = 0;
    size_t count;

    for (uint32_t i = 0; i < 8; i++)
        hashes[i] = root + i + 1000;
    count = index_find_matches(run->index, run->ns[ns], hashes, 8, matches, HOLDERS);
    for (uint32_t holder = 0; holder < HOLDERS; holder++) {
        uint32_t length = 0;

        while (length < 8 && run->model->blocks[ns][root + length].ranks[holder] != 0)
            length++;
        if (length == 0)
            continue;
        expected++;
        run->counts.matched += length > 1;
        for (size_t i = 0; i < count; i++)
            if (matches[i].holder == run->holders[holder])
                assert_int_equal(matches[i].blocks, length);
    }
    assert_int_equal(count, expected);
    for (size_t i = 1; i < count; i++)
        assert_true(matches[i - 1].blocks >= matches[i].blocks);
    index_match(run->index, run->ns[ns], hashes, 8, masks);
    for (uint32_t i = 0; i < 8; i++) {
        uint8_t mask = 0;

        for (uint32_t holder = 0; holder < HOLDERS; holder++)
            if (run->model->blocks[ns][root + i].ranks[holder] != 0)
                mask |= (uint8_t)KVT_TIER_MASK(tier_of(holder));
        assert_int_equal(masks[i], mask);
    }
}

struct walked {
    struct run *run;
    uint64_t pairs;
};

static void
on_pair(void *arg, uint32_t ns, uint32_t holder, const struct index_block *block)
{
    struct walked *walked = arg;
    const struct run *run = walked->run;

    assert_true(holder < HOLDERS && ns < NAMESPACES);
    assert_int_equal(run->model->blocks[ns][block->id.hash - 1000].ranks[holder], block->ranks);
    walked->pairs++;
}

static void
check_all(struct run *run)
{
    struct walked walked = {.run = run};
    struct index_stats stats;
    struct index_view *view = kvt_calloc(1, sizeof(*view));
    uint64_t blocks = 0;
    uint64_t cursor = 0;

    assert_non_null(view);
    for (uint32_t ns = 0; ns < NAMESPACES; ns++) {
        for (uint32_t hash = 0; hash < HASHES; hash++) {
            const struct model_block *model = &run->model->blocks[ns][hash];
            const enum kvt_err rc = index_get(run->index, run->ns[ns], hash + 1000, view);
            uint32_t ranks = 0;

            assert_int_equal(rc, model->present ? KVT_OK : KVT_NOTFOUND);
            if (rc != KVT_OK)
                continue;
            blocks++;
            run->counts.crowded += model->place_count > INDEX_PLACES_MAX;
            assert_int_equal(view->place_count, model->place_count);
            assert_int_equal(view->block.id.parent, model->parent);
            assert_int_equal(view->block.id.position, model->position);
            for (uint32_t holder = 0; holder < HOLDERS; holder++)
                ranks |= model->ranks[holder];
            assert_int_equal(view->block.ranks, ranks);
        }
    }
    do {
        cursor = index_walk(run->index, cursor, 100, on_pair, &walked);
    } while (cursor != 0);
    assert_int_equal(walked.pairs, run->model->places);
    index_stats(run->index, &stats);
    assert_int_equal(stats.blocks, blocks);
    assert_int_equal(stats.places, run->model->places);
    assert_int_equal(stats.collisions, run->model->collisions);
    assert_true(stats.bytes <= stats.bytes_max);
    for (uint32_t holder = 0; holder < HOLDERS; holder++) {
        uint64_t held_blocks = 0;
        uint64_t held_bytes = 0;
        uint64_t counted_blocks;
        uint64_t counted_bytes;

        for (uint32_t ns = 0; ns < NAMESPACES; ns++) {
            for (uint32_t hash = 0; hash < HASHES; hash++) {
                const uint32_t ranks = run->model->blocks[ns][hash].ranks[holder];

                held_blocks += ranks != 0;
                held_bytes += 10 * (uint64_t)__builtin_popcount(ranks);
            }
        }
        index_holder_info(run->index, run->holders[holder], NULL, &counted_blocks, &counted_bytes);
        assert_int_equal(counted_blocks, held_blocks);
        assert_int_equal(counted_bytes, held_bytes);
    }
    kvt_free(view);
}

static void
random_against_model(void **state)
{
    struct run run = {.state = test_seed()};

    (void)state;
    run.model = kvt_calloc(1, sizeof(*run.model));
    assert_non_null(run.model);
    assert_int_equal(index_new(&run.index, BYTES_MAX), KVT_OK);
    assert_int_equal(index_namespace(run.index, "a", &run.ns[0]), KVT_OK);
    assert_int_equal(index_namespace(run.index, "b", &run.ns[1]), KVT_OK);
    for (uint32_t i = 0; i < HOLDERS; i++) {
        struct index_holder key = {.tier = tier_of(i)};

        (void)snprintf(key.name, sizeof(key.name), "w%" PRIu32, i);
        assert_int_equal(index_holder(run.index, &key, &run.holders[i]), KVT_OK);
    }
    for (int step = 0; step < STEPS; step++) {
        const uint32_t ns = (uint32_t)kvt_random_below(&run.state, NAMESPACES);
        /* Low hashes are hot: they get places everywhere. */
        const uint64_t reach = kvt_random_below(&run.state, 2) == 0 ? 32 : HASHES;
        const uint32_t hash = (uint32_t)kvt_random_below(&run.state, reach);
        const uint32_t holder = (uint32_t)kvt_random_below(&run.state, HOLDERS);
        const uint64_t what = kvt_random_below(&run.state, 1000);

        if (what < 700)
            step_store(&run, ns, hash, holder);
        else if (what < 900)
            step_remove(&run, ns, hash, holder);
        else if (what < 901)
            step_drop(&run, holder);
        else
            step_match(&run, ns, hash);
        if (step % CHECK_EVERY == 0)
            check_all(&run);
    }
    check_all(&run);
    /* The run met what it is there for. */
    assert_true(run.counts.full > 0);
    assert_true(run.counts.collided > 0);
    assert_true(run.counts.dropped > 0);
    assert_true(run.counts.crowded > 0);
    assert_true(run.counts.matched > 0);
    index_free(run.index);
    kvt_free(run.model);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_against_model)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
