/*
 * What is tested: gateway/tier/store_batch.h: every request is finished once, on its owner's
 * thread, whatever thread of a store hands it over and however many land at once; a refusal is
 * finished, too; and a flight may be freed as soon as all of it has landed.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/random.h"
#include "base/thread/queue.h"
#include "gateway/tier/store_batch.h"

#include "tests/support/seed.h"
#include "tests/unit/gateway/support/support.h"

enum { THREADS = 3, ROUNDS = 400, REQUESTS_MAX = 150, WINDOW = 16, TAKE_MS = 20 };

/* A store that answers on several threads, in no order. */
struct crowd {
    struct kvt_queue *queue;
    pthread_t threads[THREADS];
    _Atomic unsigned submitted;
    unsigned refuse_every; /* 0: none */
    struct g4_store *store;
};

static void *
run(void *arg)
{
    struct crowd *crowd = arg;
    void *item;

    for (;;) {
        if (kvt_queue_take(crowd->queue, &item, 1, TAKE_MS) > 0) {
            struct g4_request *request = item;

            request->status = KVT_NOTFOUND;
            request->done(request, request->arg);
        } else if (kvt_queue_closed(crowd->queue)) {
            return NULL;
        }
    }
}

static enum kvt_err
crowd_submit(void *self, struct g4_request *request)
{
    struct crowd *crowd = self;
    const unsigned number = atomic_fetch_add(&crowd->submitted, 1) + 1;

    if (crowd->refuse_every > 0 && number % crowd->refuse_every == 0)
        return KVT_CANCELLED;
    return kvt_queue_put(crowd->queue, request);
}

static void
crowd_close(void *self)
{
    struct crowd *crowd = self;

    kvt_queue_close(crowd->queue);
    for (int i = 0; i < THREADS; i++)
        (void)pthread_join(crowd->threads[i], NULL);
    kvt_queue_free(crowd->queue);
    kvt_free(crowd);
}

static const struct g4_store_driver crowd_driver = {
    .name = "crowd", .submit = crowd_submit, .close = crowd_close};

static struct crowd *
crowd_new(unsigned refuse_every)
{
    struct crowd *crowd = kvt_calloc(1, sizeof(*crowd));

    assert_non_null(crowd);
    crowd->refuse_every = refuse_every;
    assert_int_equal(kvt_queue_new(&crowd->queue, REQUESTS_MAX), KVT_OK);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&crowd->threads[i], NULL, run, crowd), 0);
    assert_int_equal(g4_store_new(&crowd->store, &crowd_driver, crowd), KVT_OK);
    return crowd;
}

struct seen {
    pthread_t owner;
    unsigned times[REQUESTS_MAX];
    unsigned refused;
};

static void
on_landed(void *arg, struct g4_request *request, size_t index)
{
    struct seen *seen = arg;

    assert_true(pthread_equal(seen->owner, pthread_self()));
    assert_true(request->status == KVT_NOTFOUND || request->status == KVT_CANCELLED);
    seen->times[index]++;
    seen->refused += request->status == KVT_CANCELLED ? 1 : 0;
}

static void
fly(struct crowd *crowd, size_t window, size_t count, struct seen *seen)
{
    struct gateway_store_batch *flight;

    *seen = (struct seen){.owner = pthread_self()};
    assert_int_equal(gateway_store_batch_new(&flight, window, on_landed, seen), KVT_OK);
    for (size_t i = 0; i < count; i++)
        gateway_store_batch_head(flight, crowd->store, "key", i);
    gateway_store_batch_drain(flight);
    gateway_store_batch_free(flight);
    for (size_t i = 0; i < count; i++)
        assert_int_equal(seen->times[i], 1);
}

static void
each_is_finished_once_by_its_owner(void **state)
{
    uint64_t random = test_seed();
    struct crowd *crowd = crowd_new(0);
    struct seen seen;

    (void)state;
    for (int i = 0; i < ROUNDS; i++)
        fly(crowd, 1 + kvt_random_below(&random, WINDOW),
            1 + kvt_random_below(&random, i % 20 == 0 ? REQUESTS_MAX : 4), &seen);
    g4_store_close(crowd->store);
}

static void
a_refusal_is_finished_too(void **state)
{
    struct crowd *crowd = crowd_new(3);
    struct seen seen;

    (void)state;
    fly(crowd, WINDOW, 30, &seen);
    assert_int_equal(seen.refused, 10);
    g4_store_close(crowd->store);
}

static void
a_failing_allocation_is_an_answer(void **state)
{
    struct gateway_store_batch *flight;

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        kvt_alloc_fail_after(i);
        assert_int_equal(gateway_store_batch_new(&flight, WINDOW, on_landed, NULL), KVT_NOMEM);
        kvt_alloc_fail_after(SIZE_MAX);
        assert_null(flight);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_is_finished_once_by_its_owner),
        cmocka_unit_test(a_refusal_is_finished_too),
        cmocka_unit_test(a_failing_allocation_is_an_answer),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
