/*
 * What is tested: index_coldest_next() and index_room(): what is given was stored to long ago, is
 * whole, and free once it is taken; what G4 has, what much hangs on and what everybody has stays.
 * How: sequences stored second by second, with branches; all that is given is removed.
 */
#include <stdio.h>
#include <string.h>

#include "base/core/random.h"
#include "index/index.h"

#include "tests/support/seed.h"

enum {
    SEQUENCES = 4000,
    LENGTH = 40,
    SECONDS = 200,
    PAIRS = 2000,
    BRANCH_EVERY = 10, /* sequences that branch from the one before, at their middle */
    G4_EVERY = 25,
    CROWD = INDEX_COLDEST_PIECES + 1,
};

struct scene {
    struct index *index;
    struct index_coldest *coldest;
    uint32_t ns;
    uint32_t worker;
    uint32_t bucket;
    struct index_change changes[PAIRS]; /* what was given, to be removed */
    uint64_t hashes[PAIRS * 2];
    size_t change_count;
    size_t hash_count;
    uint64_t blocks;
    uint64_t ages; /* sums of seconds */
};

static uint64_t
hash_of(uint32_t sequence, uint32_t at)
{
    uint64_t state = (uint64_t)sequence * LENGTH + at;

    return kvt_random_next(&state);
}

static uint32_t
second_of(uint32_t sequence)
{
    return 1000 + sequence / (SEQUENCES / SECONDS);
}

static void
store(struct scene *scene, uint32_t sequence, uint32_t holder)
{
    const bool branch = sequence % BRANCH_EVERY == 1;
    uint64_t hashes[LENGTH];
    struct index_change change = {.kind = INDEX_STORE,
                                  .ns = scene->ns,
                                  .holder = holder,
                                  .ranks = 1,
                                  .size = 4096,
                                  .time_ms = second_of(sequence) * UINT64_C(1000),
                                  .parent = branch ? hash_of(sequence - 1, LENGTH / 2) : 0,
                                  .position = branch ? LENGTH / 2 + 1 : 0,
                                  .hashes = hashes,
                                  .count = LENGTH};

    for (uint32_t i = 0; i < LENGTH; i++)
        hashes[i] = hash_of(sequence, i);
    index_apply(scene->index, &change, 1);
    assert_int_equal(change.status, KVT_OK);
}

static uint32_t
holder(struct scene *scene, const char *name, enum kvt_tier tier)
{
    struct index_holder key = {.tier = tier};
    uint32_t number;

    (void)snprintf(key.name, sizeof(key.name), "%s", name);
    assert_int_equal(index_holder(scene->index, &key, &number), KVT_OK);
    return number;
}

static void
begin(struct scene *scene)
{
    memset(scene, 0, sizeof(*scene));
    assert_int_equal(index_new(&scene->index, 64u << 20), KVT_OK);
    assert_int_equal(index_namespace(scene->index, "ns", &scene->ns), KVT_OK);
    scene->worker = holder(scene, "worker", KVT_TIER_G1);
    scene->bucket = holder(scene, "bucket", KVT_TIER_G4);
    assert_int_equal(index_coldest_new(&scene->coldest, scene->index, KVT_TIER_G4), KVT_OK);
}

static void
end(struct scene *scene)
{
    index_coldest_free(scene->coldest);
    index_free(scene->index);
}

static void
keep_run(void *arg, const struct index_run_view *run)
{
    struct scene *scene = arg;

    assert_true(run->held_count > 0 && run->held_count <= INDEX_COLDEST_PIECES);
    for (uint32_t h = 0; h < run->held_count; h++) {
        struct index_change *change = &scene->changes[scene->change_count++];

        assert_true(scene->change_count < PAIRS && scene->hash_count + run->count < PAIRS * 2);
        assert_int_not_equal(run->held[h].holder, scene->bucket);
        *change = (struct index_change){.kind = INDEX_REMOVE,
                                        .ns = run->ns,
                                        .holder = run->held[h].holder,
                                        .ranks = UINT32_MAX,
                                        .hashes = &scene->hashes[scene->hash_count],
                                        .count = run->held[h].count};
        memcpy(&scene->hashes[scene->hash_count], run->hashes + run->held[h].from,
               run->held[h].count * sizeof(uint64_t));
        scene->hash_count += run->held[h].count;
    }
    scene->blocks += run->count;
    scene->ages += (uint64_t)run->count * (run->stored_s - 1000);
}

/* Take the next ones; false: there was nothing. */
static bool
take(struct scene *scene)
{
    struct index_stats before;
    struct index_stats after;
    enum kvt_err rc;
    size_t pairs;

    scene->change_count = scene->hash_count = 0;
    rc = index_coldest_next(scene->coldest, PAIRS / 2, keep_run, scene, &pairs);
    assert_true(rc == KVT_OK || rc == KVT_NOTFOUND);
    assert_int_equal(pairs, scene->hash_count);
    index_stats(scene->index, &before);
    index_apply(scene->index, scene->changes, scene->change_count);
    index_stats(scene->index, &after);
    assert_int_equal(before.places - after.places, pairs); /* all of it was there */
    return rc == KVT_OK || pairs > 0;
}

static void
the_oldest_go_first(void **state)
{
    struct index_stats full;
    struct index_stats left;
    struct scene scene;
    uint64_t room;

    (void)state;
    begin(&scene);
    for (uint32_t i = 0; i < SEQUENCES; i++) {
        store(&scene, i, scene.worker);
        if (i % G4_EVERY == 0)
            store(&scene, i, scene.bucket);
    }
    index_stats(scene.index, &full);
    room = index_room(scene.index, NULL);
    while (scene.blocks < full.blocks / 10)
        (void)take(&scene);
    /* A tenth went; its mean age is that of the first tenth, and not of all. */
    assert_in_range(scene.ages / scene.blocks, 0, SECONDS / 7);
    assert_true(index_room(scene.index, NULL) > room);
    while (take(&scene)) {
    }
    /* What is left is in G4, or hung on by what is. */
    index_stats(scene.index, &left);
    assert_in_range(left.blocks, SEQUENCES / G4_EVERY * LENGTH, SEQUENCES / G4_EVERY * LENGTH * 2);
    assert_true(full.bytes - room - (left.bytes - index_room(scene.index, NULL)) >
                (full.blocks - left.blocks) * sizeof(uint64_t));
    for (uint32_t i = 0; i < SEQUENCES; i++) {
        struct index_view view;

        if (index_get(scene.index, scene.ns, hash_of(i, 0), &view) == KVT_OK)
            assert_true(i % G4_EVERY == 0 || (i + 1) % G4_EVERY == 0);
    }
    end(&scene);
}

/* Turns of one sequence lie in runs that hang on each other: they go together, from the end. */
static void
a_branch_goes_from_its_end(void **state)
{
    enum { TURNS = 300 };
    struct index_stats stats;
    struct scene scene;

    (void)state;
    begin(&scene);
    for (uint32_t i = 0; i < TURNS; i++) {
        struct index_block block = {
            .id = {.hash = hash_of(i, 0), .parent = i == 0 ? 0 : hash_of(i - 1, 0), .position = i},
            .size = 1,
            .ranks = 1};

        assert_int_equal(index_store(scene.index, scene.ns, scene.worker, &block, NULL), KVT_OK);
    }
    assert_true(take(&scene));
    index_stats(scene.index, &stats);
    assert_int_equal(stats.blocks, 0);
    assert_false(take(&scene));
    end(&scene);
}

/* Pages of which little is left give it, so that they are of use for runs of any length. */
static void
half_empty_pages_are_emptied(void **state)
{
    struct scene scene;
    uint64_t before;
    uint64_t after;
    size_t pairs;

    (void)state;
    begin(&scene);
    for (uint32_t i = 0; i < SEQUENCES; i += BRANCH_EVERY)
        store(&scene, i, scene.worker);
    assert_int_equal(index_coldest_pages(scene.coldest, PAIRS / 2, keep_run, &scene, &pairs),
                     KVT_OK);
    assert_in_range(pairs, 0, 1024); /* the last page may be half full */
    for (uint32_t i = 0; i < SEQUENCES; i += BRANCH_EVERY)
        for (uint32_t at = 0; at < LENGTH && i / BRANCH_EVERY % 4 != 0; at++)
            assert_int_equal(index_remove(scene.index, scene.ns, scene.worker, hash_of(i, at), 1),
                             KVT_OK);
    (void)index_room(scene.index, &before);
    do {
        scene.change_count = scene.hash_count = 0;
        assert_int_equal(index_coldest_pages(scene.coldest, PAIRS / 2, keep_run, &scene, &pairs),
                         KVT_OK);
        assert_int_equal(pairs, scene.hash_count);
        index_apply(scene.index, scene.changes, scene.change_count);
    } while (pairs > 0);
    (void)index_room(scene.index, &after);
    assert_true(after >= before + SEQUENCES / BRANCH_EVERY / 4 * LENGTH * sizeof(uint64_t));
    end(&scene);
}

static void
what_everybody_has_stays(void **state)
{
    struct index_stats stats;
    struct scene scene;
    char name[32];

    (void)state;
    begin(&scene);
    for (uint32_t i = 0; i < CROWD; i++) {
        (void)snprintf(name, sizeof(name), "w%u", i);
        store(&scene, 0, holder(&scene, name, KVT_TIER_G2));
    }
    store(&scene, 2, scene.worker);
    while (take(&scene)) {
    }
    index_stats(scene.index, &stats);
    assert_int_equal(stats.blocks, LENGTH);
    assert_int_equal(stats.places, CROWD * LENGTH);
    end(&scene);
}

static void
nothing_is_given_of_nothing(void **state)
{
    struct scene scene;

    (void)state;
    begin(&scene);
    assert_false(take(&scene));
    assert_int_equal(index_room(scene.index, NULL), 0);
    end(&scene);
}

static bool
make(void *arg)
{
    struct index_coldest *coldest;
    const enum kvt_err rc = index_coldest_new(&coldest, arg, KVT_TIER_G4);

    assert_true(rc == KVT_OK ? coldest != NULL : coldest == NULL);
    index_coldest_free(coldest);
    return rc == KVT_OK;
}

static void
without_memory_there_is_none(void **state)
{
    struct scene scene;

    (void)state;
    begin(&scene);
    assert_int_equal(test_sweep_allocations(make, scene.index), 2);
    end(&scene);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_oldest_go_first),
        cmocka_unit_test(a_branch_goes_from_its_end),
        cmocka_unit_test(half_empty_pages_are_emptied),
        cmocka_unit_test(what_everybody_has_stays),
        cmocka_unit_test(nothing_is_given_of_nothing),
        cmocka_unit_test(without_memory_there_is_none),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
