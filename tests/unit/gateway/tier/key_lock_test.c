/*
 * What is tested: gateway/tier/key_lock.h.  Who holds a key keeps everybody else out, a batch
 * takes all or waits, and threads with overlapping batches in opposite orders never wait for each
 * other.
 */
#include <pthread.h>
#include <stdio.h>

#include "base/core/random.h"
#include "gateway/tier/key_lock.h"

#include "tests/support/seed.h"

enum { THREADS = 4, KEYS = 8, ROUNDS = 3000, BATCH = 3 };

struct arena {
    struct gateway_key_locks *holds;
    int inside[KEYS]; /* not atomic: the holds are what guards it */
    uint64_t seed;
};

static void
one_holder_at_a_time(void **state)
{
    struct gateway_key_lock first[2];
    struct gateway_key_lock second[2];
    struct gateway_key_locks *holds;

    (void)state;
    assert_int_equal(gateway_key_lock_new(&holds), KVT_OK);
    gateway_key_lock_init(&first[0], "a");
    gateway_key_lock_init(&first[1], "a"); /* the same key twice in one batch */
    gateway_key_lock_init(&second[0], "b");
    gateway_key_lock_init(&second[1], "a");
    gateway_key_lock_acquire(holds, first, 2);
    assert_false(gateway_key_lock_try(holds, second, 2));
    assert_true(gateway_key_lock_try(holds, second, 1)); /* nothing was kept by the failed try */
    gateway_key_lock_release(holds, second, 1);
    gateway_key_lock_release(holds, first, 2);
    assert_true(gateway_key_lock_try(holds, second, 2));
    gateway_key_lock_release(holds, second, 2);
    gateway_key_lock_free(holds);
}

static void *
work(void *arg)
{
    struct arena *arena = arg;
    uint64_t seed = __atomic_add_fetch(&arena->seed, 1, __ATOMIC_RELAXED);

    for (int round = 0; round < ROUNDS; round++) {
        struct gateway_key_lock holds[BATCH];
        unsigned keys[BATCH];

        for (int i = 0; i < BATCH; i++) {
            char name[8];

            keys[i] = (unsigned)kvt_random_below(&seed, KEYS);
            (void)snprintf(name, sizeof(name), "%u", keys[i]);
            gateway_key_lock_init(&holds[i], name);
        }
        gateway_key_lock_acquire(arena->holds, holds, BATCH);
        for (int i = 0; i < BATCH; i++)
            arena->inside[keys[i]]++;
        for (int i = 0; i < BATCH; i++)
            arena->inside[keys[i]]--;
        gateway_key_lock_release(arena->holds, holds, BATCH);
    }
    return NULL;
}

static void
batches_do_not_deadlock(void **state)
{
    struct arena arena = {.seed = test_seed()};
    pthread_t threads[THREADS];

    (void)state;
    assert_int_equal(gateway_key_lock_new(&arena.holds), KVT_OK);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, work, &arena), 0);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    for (int i = 0; i < KEYS; i++)
        assert_int_equal(arena.inside[i], 0);
    gateway_key_lock_free(arena.holds);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_holder_at_a_time),
        cmocka_unit_test(batches_do_not_deadlock),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
