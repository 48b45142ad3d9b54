/*
 * What is tested: index/index.h with readers beside its writer.
 * How: some sequences have one holder that never leaves; other holders come to the same blocks and
 * go, in any order, and other sequences come and go as a whole, so that runs, tables and lists
 * of holders are replaced all the time.  Whatever else they see, readers must always find what
 * never left, and nothing that cannot be.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <xxhash.h>

#include "base/core/random.h"
#include "index/index.h"

#include "tests/support/seed.h"
#include "tests/unit/index/support/matches.h"

enum {
    READERS = 3,
    CHAINS = 24, /* the first half never leave */
    LENGTH = 80,
    HOLDERS = 80, /* the first one never leaves */
    CHANGES = 16,
    ROUNDS = 1500,
    CHAIN_SEED = 1337,
};

struct shared {
    struct index *index;
    uint64_t hashes[CHAINS][LENGTH];
    uint64_t tokens[CHAINS][LENGTH];
    uint32_t ns;
    atomic_bool stop;
    _Atomic uint32_t wrong; /* which check, or 0 */
    _Atomic uint64_t looks;
    _Atomic uint64_t passes;
};

static void
expect(struct shared *shared, bool right, uint32_t check)
{
    if (!right)
        atomic_store(&shared->wrong, check);
}

static void
look_for_matches(struct shared *shared, uint32_t chain)
{
    struct index_match matches[HOLDERS];
    const size_t count =
        find_matches(shared->index, shared->ns, shared->hashes[chain], LENGTH, matches, HOLDERS);
    bool stayed = chain >= CHAINS / 2;

    for (size_t i = 0; i < count; i++) {
        expect(shared, matches[i].holder < HOLDERS, 1);
        expect(shared, matches[i].blocks >= 1 && matches[i].blocks <= LENGTH, 2);
        expect(shared, i == 0 || matches[i - 1].blocks >= matches[i].blocks, 3);
        stayed = stayed || (matches[i].holder == 0 && matches[i].blocks == LENGTH);
    }
    expect(shared, stayed, 4);
}

static void
look_with_question(struct shared *shared, uint32_t chain, enum index_key key,
                   struct index_find_result *found)
{
    const struct index_question question = {
        .hashes = key == INDEX_BY_TOKENS ? shared->tokens[chain] : shared->hashes[chain],
        .count = LENGTH,
        .ns = shared->ns,
        .key = key};
    struct index_match best;

    expect(shared, index_find(shared->index, &question, found) == KVT_OK, 5);
    if (chain >= CHAINS / 2)
        return;
    expect(shared, index_find_result_count(found) >= 1, 6);
    expect(shared, index_find_result_length(found) == LENGTH, 7);
    /* Of equal length the first one by number. */
    expect(shared, index_find_result_best(found, &best, 1) == 1 && best.holder == 0, 8);
}

static void
look_at_blocks(struct shared *shared, uint32_t chain, uint32_t at, struct index_view *view)
{
    uint8_t masks[LENGTH];
    const enum kvt_err rc = index_get(shared->index, shared->ns, shared->hashes[chain][at], view);

    index_match(shared->index, shared->ns, shared->hashes[chain], LENGTH, masks);
    for (uint32_t i = 0; i < LENGTH; i++)
        expect(shared, chain >= CHAINS / 2 || (masks[i] & KVT_TIER_MASK(KVT_TIER_G1)) != 0, 9);
    expect(shared, chain >= CHAINS / 2 || rc == KVT_OK, 10);
    if (rc != KVT_OK)
        return;
    expect(shared, view->block.id.position == at, 11);
    expect(shared, view->block.id.parent == (at == 0 ? 0 : shared->hashes[chain][at - 1]), 12);
    expect(shared, view->block.tokens_hash == shared->tokens[chain][at], 13);
    expect(shared, view->place_count >= 1 && view->place_count <= HOLDERS, 14);
    expect(shared, chain >= CHAINS / 2 || view->places[0].holder == 0, 15);
    expect(shared, view->block.size == 100, 16);
}

static void
on_pair(void *arg, uint32_t ns, uint32_t holder, const struct index_block *block)
{
    struct shared *shared = arg;

    expect(shared, ns == shared->ns && holder < HOLDERS && block->ranks == 1, 17);
}

static void
look_at_places(struct shared *shared, uint32_t chain, uint32_t at)
{
    struct index_place places[HOLDERS];
    const size_t count =
        index_places(shared->index, shared->ns, shared->hashes[chain][at], places, HOLDERS);

    expect(shared, count <= HOLDERS, 23);
    expect(shared, chain >= CHAINS / 2 || (count > 0 && places[0].holder == 0), 24);
    for (size_t i = 0; i < count && i < HOLDERS; i++)
        expect(shared, places[i].ranks == 1 && (i == 0 || places[i - 1].holder < places[i].holder),
               25);
}

/* A pass of a reader, and the blocks of the first holder that it met. */
struct pass {
    struct shared *shared;
    struct index_scan *runs;
    uint32_t stayed;
};

static void
on_run(void *arg, const struct index_run_view *run)
{
    struct pass *pass = arg;
    struct shared *shared = pass->shared;

    expect(shared, run->count >= 1 && run->count <= INDEX_RUN_VIEW_MAX, 26);
    expect(shared, run->ns == shared->ns && run->size == 100 && run->tokens != NULL, 27);
    expect(shared, run->position + run->count <= LENGTH, 28);
    for (uint32_t i = 0; i < run->held_count; i++) {
        const struct index_held *held = &run->held[i];

        expect(shared, held->ranks == 1 && held->from + held->count <= run->count, 29);
        pass->stayed += held->holder == 0 ? held->count : 0;
    }
}

static void
go_on(struct pass *pass)
{
    bool done = false;

    if (pass->runs == NULL && index_scan_new(&pass->runs, pass->shared->index) != KVT_OK)
        expect(pass->shared, false, 30);
    expect(pass->shared, index_scan_next(pass->runs, 200, on_run, pass, &done) == KVT_OK, 31);
    if (!done)
        return;
    expect(pass->shared, pass->stayed == CHAINS / 2 * LENGTH, 32);
    pass->stayed = 0;
    index_scan_free(pass->runs);
    pass->runs = NULL;
    atomic_fetch_add(&pass->shared->passes, 1);
}

/* What goes through all of it, in steps. */
static void
look_at_all(struct shared *shared, uint64_t *cursor)
{
    struct index_candidate candidates[8];
    struct index_totals totals;
    struct index_stats stats;
    uint64_t blocks;

    *cursor = index_walk(shared->index, *cursor, 100, on_pair, shared);
    expect(shared, index_candidates(shared->index, KVT_TIER_G1, true, candidates, 8) == 8, 18);
    expect(shared,
           index_subtree(shared->index, shared->ns, shared->hashes[0][0], UINT64_MAX, NULL,
                         &totals) == KVT_OK &&
               totals.blocks == LENGTH,
           19);
    index_stats(shared->index, &stats);
    expect(shared, stats.blocks >= CHAINS / 2 * LENGTH && stats.blocks <= CHAINS * LENGTH, 20);
    index_holder_info(shared->index, 0, NULL, &blocks, NULL);
    expect(shared, blocks == CHAINS / 2 * LENGTH, 21);
}

static void *
read_all(void *arg)
{
    struct shared *shared = arg;
    struct index_find_result *found = NULL;
    struct index_view view;
    uint64_t random = atomic_fetch_add(&shared->looks, 1);
    struct pass pass = {.shared = shared};
    uint64_t cursor = 0;

    if (index_find_result_new(&found) != KVT_OK)
        expect(shared, false, 22);
    while (!atomic_load(&shared->stop)) {
        const uint32_t chain = (uint32_t)kvt_random_below(&random, CHAINS);

        look_for_matches(shared, chain);
        look_with_question(shared, chain, INDEX_BY_SEQUENCE, found);
        look_with_question(shared, chain, INDEX_BY_TOKENS, found);
        look_at_blocks(shared, chain, (uint32_t)kvt_random_below(&random, LENGTH), &view);
        look_at_places(shared, chain, (uint32_t)kvt_random_below(&random, LENGTH));
        go_on(&pass);
        if (kvt_random_below(&random, 8) == 0)
            look_at_all(shared, &cursor);
        atomic_fetch_add(&shared->looks, 1);
    }
    index_scan_free(pass.runs);
    index_find_result_free(found);
    return NULL;
}

static void
open_shared(struct shared *shared, uint64_t *random)
{
    struct index_holder key = {.tier = KVT_TIER_G1};
    uint32_t number;

    memset(shared, 0, sizeof(*shared));
    assert_int_equal(index_new(&shared->index, 64 << 20), KVT_OK);
    assert_int_equal(index_namespace(shared->index, "", &shared->ns), KVT_OK);
    for (uint32_t i = 0; i < HOLDERS; i++) {
        (void)snprintf(key.name, sizeof(key.name), "w%u", (unsigned)i);
        assert_int_equal(index_holder(shared->index, &key, &number), KVT_OK);
        key.tier = i % 2 == 0 ? KVT_TIER_G2 : KVT_TIER_G1;
    }
    for (uint32_t chain = 0; chain < CHAINS; chain++) {
        for (uint32_t i = 0; i < LENGTH; i++) {
            const uint64_t token = kvt_random_next(random) | 1;
            const uint64_t words[2] = {i == 0 ? 0 : shared->hashes[chain][i - 1], token};

            shared->tokens[chain][i] = token;
            shared->hashes[chain][i] =
                i == 0 ? token : XXH3_64bits_withSeed(words, sizeof(words), CHAIN_SEED);
        }
    }
}

static struct index_change
change_of(const struct shared *shared, enum index_change_kind kind, uint32_t chain, uint32_t from,
          uint32_t count, uint32_t holder)
{
    return (struct index_change){
        .kind = kind,
        .hashes = &shared->hashes[chain][from],
        .tokens = &shared->tokens[chain][from],
        .parent = from == 0 ? 0 : shared->hashes[chain][from - 1],
        .position = from,
        .count = count,
        .ns = shared->ns,
        .holder = holder,
        .size = 100,
        .ranks = 1,
        .time_ms = 1000,
    };
}

/* Changes anywhere, but for the holder that stays. */
static void
draw_batch(const struct shared *shared, uint64_t *random, struct index_change changes[CHANGES])
{
    for (uint32_t i = 0; i < CHANGES; i++) {
        const uint32_t from =
            kvt_random_below(random, 3) == 0 ? (uint32_t)kvt_random_below(random, LENGTH) : 0;
        const uint32_t count = 1 + (uint32_t)kvt_random_below(random, LENGTH - from);

        changes[i] =
            change_of(shared, kvt_random_below(random, 2) == 0 ? INDEX_STORE : INDEX_REMOVE,
                      (uint32_t)kvt_random_below(random, CHAINS), from, count,
                      1 + (uint32_t)kvt_random_below(
                              random, kvt_random_below(random, 2) == 0 ? 2 : HOLDERS - 1));
    }
}

static void
drop(const struct shared *shared, uint32_t holder)
{
    uint64_t cursor = 0;
    uint64_t pairs;

    while (index_drop(shared->index, holder, shared->ns, &cursor, &pairs))
        continue;
}

static void
what_never_left_is_always_found(void **state)
{
    static struct shared shared;
    struct index_change changes[CHANGES];
    pthread_t readers[READERS];
    uint64_t random = test_seed();

    (void)state;
    open_shared(&shared, &random);
    for (uint32_t chain = 0; chain < CHAINS / 2; chain++) {
        changes[0] = change_of(&shared, INDEX_STORE, chain, 0, LENGTH, 0);
        index_apply(shared.index, changes, 1);
        assert_int_equal(changes[0].status, KVT_OK);
    }
    for (int i = 0; i < READERS; i++)
        assert_int_equal(pthread_create(&readers[i], NULL, read_all, &shared), 0);
    for (uint32_t round = 0;
         round < ROUNDS || atomic_load(&shared.looks) < 100 || atomic_load(&shared.passes) < 2;
         round++) {
        draw_batch(&shared, &random, changes);
        index_apply(shared.index, changes, CHANGES);
        for (uint32_t i = 0; i < CHANGES; i++)
            assert_int_equal(changes[i].status, KVT_OK);
        index_touch(shared.index, shared.ns, changes[0].hashes[0], 1, 2000);
        if (round % 16 == 0)
            drop(&shared, 1 + round % (HOLDERS - 1));
    }
    atomic_store(&shared.stop, true);
    for (int i = 0; i < READERS; i++)
        assert_int_equal(pthread_join(readers[i], NULL), 0);
    assert_int_equal(atomic_load(&shared.wrong), 0);
    assert_true(atomic_load(&shared.passes) > 0);
    index_free(shared.index);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(what_never_left_is_always_found)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
