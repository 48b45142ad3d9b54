/*
 * What is tested: base/thread/queue.h: order and depth against a plain array, waits and their
 * ends, and many threads that may neither lose an item nor see one twice.
 */
#include <pthread.h>
#include <stdatomic.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/core/random.h"
#include "base/thread/queue.h"

#include "tests/support/seed.h"

static void
random_against_model(void **state)
{
    enum { CAPACITY = 7, STEPS = 20000 };
    uint64_t seed = test_seed();
    int items[STEPS];
    int *model[CAPACITY];
    struct kvt_queue *queue;
    unsigned full_count = 0;
    size_t count = 0;

    (void)state;
    assert_int_equal(kvt_queue_new(&queue, CAPACITY), KVT_OK);
    for (int step = 0; step < STEPS; step++) {
        if (kvt_random_below(&seed, 2) == 0) {
            const enum kvt_err rc = kvt_queue_put(queue, &items[step]);

            assert_int_equal(rc, count == CAPACITY ? KVT_AGAIN : KVT_OK);
            if (rc == KVT_OK)
                model[count++] = &items[step];
            else
                full_count++;
        } else {
            void *taken[CAPACITY + 1];
            const size_t max = kvt_random_below(&seed, CAPACITY + 1);
            const size_t got = kvt_queue_take(queue, taken, max, 0);

            assert_int_equal(got, max < count ? max : count);
            for (size_t i = 0; i < got; i++)
                assert_ptr_equal(taken[i], model[i]);
            for (size_t i = got; i < count; i++)
                model[i - got] = model[i];
            count -= got;
        }
        assert_int_equal(kvt_queue_count(queue), count);
    }
    assert_true(full_count > 0);
    kvt_queue_free(queue);
}

static void
waits_end_on_time(void **state)
{
    struct kvt_queue *queue;
    uint64_t start_ms;
    void *item;

    (void)state;
    assert_int_equal(kvt_queue_new(&queue, 1), KVT_OK);
    start_ms = kvt_clock_mono_ms();
    assert_int_equal(kvt_queue_take(queue, &item, 1, 30), 0);
    assert_in_range(kvt_clock_mono_ms() - start_ms, 29, 5000);
    assert_int_equal(kvt_queue_put_wait(queue, &item, 30), KVT_OK);
    start_ms = kvt_clock_mono_ms();
    assert_int_equal(kvt_queue_put_wait(queue, &item, 30), KVT_TIMEOUT);
    assert_in_range(kvt_clock_mono_ms() - start_ms, 29, 5000);
    kvt_queue_free(queue);
}

static void
closing_refuses_puts_and_lets_takers_finish(void **state)
{
    struct kvt_queue *queue;
    void *taken[2];
    int item;

    (void)state;
    assert_int_equal(kvt_queue_new(&queue, 4), KVT_OK);
    assert_int_equal(kvt_queue_put(queue, &item), KVT_OK);
    assert_false(kvt_queue_closed(queue));
    kvt_queue_close(queue);
    assert_true(kvt_queue_closed(queue));
    assert_int_equal(kvt_queue_put(queue, &item), KVT_CANCELLED);
    assert_int_equal(kvt_queue_put_wait(queue, &item, 10), KVT_CANCELLED);
    assert_int_equal(kvt_queue_take(queue, taken, 2, UINT64_MAX), 1);
    assert_int_equal(kvt_queue_take(queue, taken, 2, UINT64_MAX), 0);
    kvt_queue_free(queue);
}

static void *
take_for_ever(void *arg)
{
    void *item;

    return kvt_queue_take(arg, &item, 1, UINT64_MAX) == 0 ? arg : NULL;
}

static void *
put_for_ever(void *arg)
{
    return kvt_queue_put_wait(arg, arg, UINT64_MAX) == KVT_CANCELLED ? arg : NULL;
}

static void
closing_wakes_whoever_waits(void **state)
{
    static void *(*const waiters[])(void *) = {take_for_ever, put_for_ever};

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct kvt_queue *queue;
        pthread_t thread;
        void *result;

        assert_int_equal(kvt_queue_new(&queue, 1), KVT_OK);
        if (i == 1)
            assert_int_equal(kvt_queue_put(queue, queue), KVT_OK);
        assert_int_equal(pthread_create(&thread, NULL, waiters[i], queue), 0);
        kvt_clock_sleep_ms(20);
        kvt_queue_close(queue);
        assert_int_equal(pthread_join(thread, &result), 0);
        assert_ptr_equal(result, queue);
        kvt_queue_free(queue);
    }
}

enum { THREADS = 4, PER_THREAD = 20000 };

struct crowd {
    struct kvt_queue *queue;
    atomic_uchar seen[THREADS * PER_THREAD];
    atomic_uint next_producer;
};

static void *
produce(void *arg)
{
    struct crowd *crowd = arg;
    const unsigned first = atomic_fetch_add(&crowd->next_producer, 1) * PER_THREAD;

    for (unsigned i = 0; i < PER_THREAD; i++) {
        void *item = &crowd->seen[first + i];

        /* Both ways of putting, so that the waiting one meets a queue that is really full. */
        if (i % 2 == 0 || kvt_queue_put(crowd->queue, item) != KVT_OK)
            if (kvt_queue_put_wait(crowd->queue, item, UINT64_MAX) != KVT_OK)
                return NULL;
    }
    return arg;
}

static void *
consume(void *arg)
{
    struct crowd *crowd = arg;
    void *items[5];
    size_t count;

    while ((count = kvt_queue_take(crowd->queue, items, 5, UINT64_MAX)) > 0)
        for (size_t i = 0; i < count; i++)
            atomic_fetch_add((atomic_uchar *)items[i], 1);
    return arg;
}

static void
many_threads_lose_nothing(void **state)
{
    static struct crowd crowd;
    pthread_t producers[THREADS];
    pthread_t consumers[THREADS];
    void *result;

    (void)state;
    assert_int_equal(kvt_queue_new(&crowd.queue, 8), KVT_OK);
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&consumers[i], NULL, consume, &crowd), 0);
        assert_int_equal(pthread_create(&producers[i], NULL, produce, &crowd), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(producers[i], &result), 0);
        assert_non_null(result);
    }
    kvt_queue_close(crowd.queue);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(consumers[i], NULL), 0);
    for (int i = 0; i < THREADS * PER_THREAD; i++)
        assert_int_equal(atomic_load(&crowd.seen[i]), 1);
    kvt_queue_free(crowd.queue);
}

static bool
build_once(void *arg)
{
    struct kvt_queue *queue;
    const enum kvt_err rc = kvt_queue_new(&queue, 16);

    (void)arg;
    assert_true(rc == KVT_OK || (rc == KVT_NOMEM && queue == NULL));
    kvt_queue_free(queue);
    return rc == KVT_OK;
}

static void
construction(void **state)
{
    struct kvt_queue *queue;

    (void)state;
    assert_int_equal(kvt_queue_new(&queue, 0), KVT_INVALID);
    assert_null(queue);
    assert_int_equal(kvt_queue_new(&queue, SIZE_MAX), KVT_NOMEM);
    assert_null(queue);
    assert_true(test_sweep_allocations(build_once, NULL) > 1);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_against_model),
        cmocka_unit_test(waits_end_on_time),
        cmocka_unit_test(closing_refuses_puts_and_lets_takers_finish),
        cmocka_unit_test(closing_wakes_whoever_waits),
        cmocka_unit_test(many_threads_lose_nothing),
        cmocka_unit_test(construction),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
