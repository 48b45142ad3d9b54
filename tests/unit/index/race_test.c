/*
 * What is tested: index_find(), index_get() and index_match() beside a writer that does not stop.
 * How: one run, whole at one holder all the time, while hundreds of others come and go in parts of
 * eight blocks, so that its holders take every form there is, and branches hang on it and leave.
 * Each run is seen as it was at one instant: whatever readers find must be whole parts, in order,
 * and never without the one holder that stays.  Sanitizers see the rest.
 */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <xxhash.h>

#include "base/core/clock.h"
#include "base/core/random.h"
#include "index/block/state.h"
#include "index/index.h"

#include "tests/support/seed.h"
#include "tests/unit/index/support/matches.h"

enum { READERS = 3, HOLDERS = 300, LENGTH = 64, PART = 8, BRANCH = 5, CHANGES = 30000 };

struct shared {
    struct index *index;
    uint32_t ns;
    uint32_t holders[HOLDERS];
    uint64_t tokens[LENGTH];
    uint64_t hashes[LENGTH];
    atomic_bool stop;
    atomic_uint wrong; /* the line that found out */
    _Atomic uint64_t looks;
    _Atomic uint64_t crowds; /* answers with more than 64 holders */
};

static uint64_t
chain(uint64_t before, uint64_t tokens)
{
    const uint64_t both[2] = {before, tokens};

    return XXH3_64bits_withSeed(both, sizeof(both), 1337);
}

static void
expect(struct shared *shared, bool fact, unsigned line)
{
    if (!fact)
        atomic_store(&shared->wrong, line);
}

static void
look_for_prefixes(struct shared *shared, struct index_find_result *found, bool by_tokens)
{
    const struct index_question question = {
        .hashes = by_tokens ? shared->tokens : shared->hashes,
        .count = LENGTH,
        .ns = shared->ns,
        .key = by_tokens ? INDEX_BY_TOKENS : INDEX_BY_SEQUENCE,
    };
    struct index_match matches[HOLDERS];
    size_t count;

    expect(shared, index_find(shared->index, &question, found) == KVT_OK, __LINE__);
    count = index_find_result_best(found, matches, HOLDERS);
    expect(shared, count == index_find_result_count(found) && count >= 1, __LINE__);
    expect(shared, index_find_result_length(found) == LENGTH, __LINE__);
    expect(shared, matches[0].holder == shared->holders[0] && matches[0].blocks == LENGTH,
           __LINE__);
    for (size_t i = 0; i < count; i++) {
        expect(shared, matches[i].blocks > 0 && matches[i].blocks % PART == 0, __LINE__);
        expect(shared,
               i == 0 || matches[i - 1].blocks > matches[i].blocks ||
                   (matches[i - 1].blocks == matches[i].blocks &&
                    matches[i - 1].holder < matches[i].holder),
               __LINE__);
    }
    atomic_fetch_add(&shared->crowds, count > 64);
}

static void
look_at_blocks(struct shared *shared)
{
    struct index_view view;
    uint8_t masks[LENGTH];

    expect(shared,
           index_get(shared->index, shared->ns, shared->hashes[LENGTH / 2], &view) == KVT_OK,
           __LINE__);
    expect(shared, view.place_count >= 1 && view.places[0].holder == shared->holders[0], __LINE__);
    expect(shared, view.block.id.position == LENGTH / 2, __LINE__);
    for (uint32_t i = 1; i < view.place_count && i < INDEX_PLACES_MAX; i++)
        expect(shared, view.places[i - 1].holder < view.places[i].holder, __LINE__);
    index_match(shared->index, shared->ns, shared->hashes, LENGTH, masks);
    for (uint32_t i = 0; i < LENGTH; i++)
        expect(shared, (masks[i] & KVT_TIER_MASK(KVT_TIER_G1)) != 0, __LINE__);
}

static void *
read_all_the_time(void *arg)
{
    struct shared *shared = arg;
    struct index_find_result *found;

    if (index_find_result_new(&found) != KVT_OK) {
        expect(shared, false, __LINE__);
        return NULL;
    }
    while (!atomic_load(&shared->stop)) {
        look_for_prefixes(shared, found, true);
        look_for_prefixes(shared, found, false);
        look_at_blocks(shared);
        atomic_fetch_add(&shared->looks, 1);
    }
    index_find_result_free(found);
    return NULL;
}

static void
change(struct shared *shared, uint32_t holder, enum index_change_kind kind, uint32_t from,
       uint32_t count)
{
    struct index_change change = {
        .hashes = shared->hashes + from,
        .tokens = shared->tokens + from,
        .parent = from == 0 ? 0 : shared->hashes[from - 1],
        .size = 4096,
        .position = from,
        .count = count,
        .ns = shared->ns,
        .holder = shared->holders[holder],
        .ranks = kind == INDEX_STORE ? 1 : UINT32_MAX,
        .kind = kind,
    };

    index_apply(shared->index, &change, 1);
    assert_int_equal(change.status, KVT_OK);
}

/* A branch of the holder's own behind block `from`, and away again. */
static void
branch(struct shared *shared, uint32_t holder, uint32_t from, uint64_t seed)
{
    uint64_t tokens[BRANCH];
    uint64_t hashes[BRANCH];
    struct index_change change = {
        .hashes = hashes,
        .tokens = tokens,
        .parent = shared->hashes[from],
        .size = 4096,
        .position = from + 1,
        .count = BRANCH,
        .ns = shared->ns,
        .holder = shared->holders[holder],
        .ranks = 1,
        .kind = INDEX_STORE,
    };

    for (uint32_t i = 0; i < BRANCH; i++) {
        tokens[i] = kvt_random_next(&seed);
        hashes[i] = chain(i == 0 ? change.parent : hashes[i - 1], tokens[i]);
    }
    index_apply(shared->index, &change, 1);
    assert_int_equal(change.status, KVT_OK);
    change.kind = INDEX_REMOVE;
    index_apply(shared->index, &change, 1);
    assert_int_equal(change.changed, BRANCH);
}

/* Crowds come and go: mostly storing for a while, then mostly removing, then all leave. */
static void
write_all_the_time(struct shared *shared, uint64_t *state)
{
    for (uint32_t i = 0; i < CHANGES && atomic_load(&shared->wrong) == 0; i++) {
        const uint32_t holder = 1 + (uint32_t)kvt_random_below(state, HOLDERS - 1);
        const uint32_t parts = 1 + (uint32_t)kvt_random_below(state, LENGTH / PART);
        const bool whole = kvt_random_below(state, 2) == 0;
        const bool storing = kvt_random_below(state, 100) < (i / 1500 % 2 == 0 ? 90 : 20);

        if (storing)
            change(shared, holder, INDEX_STORE, 0, whole ? LENGTH : parts * PART);
        else
            change(shared, holder, INDEX_REMOVE, whole ? 0 : LENGTH - parts * PART,
                   whole ? LENGTH : parts * PART);
        if (i % 16 == 0)
            branch(shared, holder, parts * PART - 1, i);
        if (i % 3000 == 2999)
            for (uint32_t other = 1; other < HOLDERS; other++)
                change(shared, other, INDEX_REMOVE, 0, LENGTH);
    }
}

static void
readers_see_whole_parts(void **state)
{
    static struct shared shared;
    uint64_t seed = test_seed();
    pthread_t readers[READERS];

    (void)state;
    assert_int_equal(index_new(&shared.index, 64 << 20), KVT_OK);
    assert_int_equal(index_namespace(shared.index, "", &shared.ns), KVT_OK);
    for (int i = 0; i < HOLDERS; i++) {
        struct index_holder key = {.tier = KVT_TIER_G1};

        (void)snprintf(key.name, sizeof(key.name), "w%d", i);
        assert_int_equal(index_holder(shared.index, &key, &shared.holders[i]), KVT_OK);
    }
    for (int i = 0; i < LENGTH; i++) {
        shared.tokens[i] = kvt_random_next(&seed);
        shared.hashes[i] =
            i == 0 ? shared.tokens[i] : chain(shared.hashes[i - 1], shared.tokens[i]);
    }
    change(&shared, 0, INDEX_STORE, 0, LENGTH);
    for (int i = 0; i < READERS; i++)
        assert_int_equal(pthread_create(&readers[i], NULL, read_all_the_time, &shared), 0);
    while (atomic_load(&shared.looks) == 0 && atomic_load(&shared.wrong) == 0)
        (void)sched_yield();
    write_all_the_time(&shared, &seed);
    atomic_store(&shared.stop, true);
    for (int i = 0; i < READERS; i++)
        assert_int_equal(pthread_join(readers[i], NULL), 0);
    assert_int_equal(atomic_load(&shared.wrong), 0);
    assert_true(atomic_load(&shared.crowds) > 0);
    index_free(shared.index);
}

struct waiting {
    struct index *index;
    const uint64_t *hashes;
    uint32_t ns;
    uint32_t length;
    atomic_bool done;
};

static void *
wait_for_an_answer(void *arg)
{
    struct waiting *waiting = arg;
    struct index_match match = {.blocks = 0};

    if (find_matches(waiting->index, waiting->ns, waiting->hashes, 2, &match, 1) == 1)
        waiting->length = match.blocks;
    atomic_store(&waiting->done, true);
    return NULL;
}

/* A writer that is stopped in the middle of a change: readers wait for its lock, once. */
static void
a_reader_waits_for_a_change_that_takes_long(void **state)
{
    enum { LONG_MS = 50 };
    const struct index_holder key = {.name = "w", .tier = KVT_TIER_G1};
    const uint64_t hashes[2] = {7, 8};
    struct waiting waiting = {.hashes = hashes};
    struct index_change change = {
        .hashes = hashes, .size = 1, .count = 2, .ranks = 1, .kind = INDEX_STORE};
    struct index_run *run;
    pthread_t thread;
    uint32_t offset;

    (void)state;
    assert_int_equal(index_new(&waiting.index, 64 << 20), KVT_OK);
    assert_int_equal(index_namespace(waiting.index, "", &waiting.ns), KVT_OK);
    assert_int_equal(index_holder(waiting.index, &key, &change.holder), KVT_OK);
    change.ns = waiting.ns;
    index_apply(waiting.index, &change, 1);
    assert_int_equal(change.status, KVT_OK);
    run = index_state_run(waiting.index, index_state_find(waiting.index, waiting.ns, hashes[0]),
                          &offset);
    assert_non_null(run);
    assert_int_equal(pthread_mutex_lock(&waiting.index->lock), 0);
    index_run_change(run);
    assert_int_equal(pthread_create(&thread, NULL, wait_for_an_answer, &waiting), 0);
    kvt_clock_sleep_ms(LONG_MS);
    assert_false(atomic_load(&waiting.done));
    index_run_changed(run);
    assert_int_equal(pthread_mutex_unlock(&waiting.index->lock), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(waiting.length, 2);
    index_free(waiting.index);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(readers_see_whole_parts),
        cmocka_unit_test(a_reader_waits_for_a_change_that_takes_long),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
