/*
 * What is tested: index/index.h with readers beside its writer.
 * How: the writer stores and removes whole chains, root first and leaf first, so that a prefix a
 * reader sees must never have a hole: every block before the end of a match exists.
 */
#include <pthread.h>
#include <stdatomic.h>

#include "index/index.h"

#include "tests/support/seed.h"

enum { READERS = 3, CHAINS = 16, LENGTH = 32, ROUNDS = 400 };

struct shared {
    struct index *index;
    uint32_t ns;
    uint32_t holder;
    atomic_bool stop;
    atomic_bool wrong;
    _Atomic uint64_t looks;
};

static void *
read_chains(void *arg)
{
    struct shared *shared = arg;
    uint64_t hashes[LENGTH];
    struct index_match match;
    struct index_stats stats;

    while (!atomic_load(&shared->stop)) {
        for (uint64_t chain = 0; chain < CHAINS; chain++) {
            size_t count;

            for (uint64_t i = 0; i < LENGTH; i++)
                hashes[i] = chain * LENGTH + i + 1;
            count = index_find_matches(shared->index, shared->ns, hashes, LENGTH, &match, 1);
            if (count > 0 && (match.blocks > LENGTH || match.holder != shared->holder))
                atomic_store(&shared->wrong, true); /* a match that cannot be */
            index_stats(shared->index, &stats);
            if (stats.blocks > CHAINS * LENGTH || stats.blocks != stats.places)
                atomic_store(&shared->wrong, true); /* torn statistics */
            atomic_fetch_add(&shared->looks, 1);
        }
    }
    return NULL;
}

static void
readers_see_whole_states(void **state)
{
    const struct index_holder key = {.name = "w", .tier = KVT_TIER_G2};
    struct shared shared = {.holder = 0};
    pthread_t readers[READERS];

    (void)state;
    assert_int_equal(index_new(&shared.index, 64 << 20), KVT_OK);
    assert_int_equal(index_namespace(shared.index, "", &shared.ns), KVT_OK);
    assert_int_equal(index_holder(shared.index, &key, &shared.holder), KVT_OK);
    for (int i = 0; i < READERS; i++)
        assert_int_equal(pthread_create(&readers[i], NULL, read_chains, &shared), 0);
    for (uint64_t round = 0; round < ROUNDS; round++) {
        const uint64_t chain = round % CHAINS;

        for (uint64_t i = 0; i < LENGTH; i++) {
            const uint64_t hash = chain * LENGTH + i + 1;
            const struct index_block block = {
                .id = {.hash = hash, .parent = i == 0 ? 0 : hash - 1, .position = (uint32_t)i},
                .ranks = 1};

            assert_int_equal(index_store(shared.index, shared.ns, shared.holder, &block, NULL),
                             KVT_OK);
        }
        if (round % 3 != 0)
            continue;
        for (uint64_t i = LENGTH; i > 0; i--)
            assert_int_equal(
                index_remove(shared.index, shared.ns, shared.holder, chain * LENGTH + i, 1),
                KVT_OK);
    }
    atomic_store(&shared.stop, true);
    for (int i = 0; i < READERS; i++)
        assert_int_equal(pthread_join(readers[i], NULL), 0);
    assert_false(atomic_load(&shared.wrong));
    assert_true(atomic_load(&shared.looks) > 0);
    index_free(shared.index);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(readers_see_whole_states)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
