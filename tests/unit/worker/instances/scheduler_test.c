/*
 * What is tested: the end of an instance's scheduler (worker/instances/scheduler.h): calls that
 * were being begun when it was stopped find it there.
 * How: a thread that asks and adds all the time, as a server's does, while it is stopped.
 */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "tests/support/seed.h"
#include "worker/instances/scheduler.h"

enum { ROUNDS = 50 };

struct caller {
    struct worker_scheduler *scheduler;
    _Atomic bool stopped;
    _Atomic bool taken; /* a request, though it was */
    _Atomic bool over;
    _Atomic uint64_t calls; /* since it was stopped */
};

static void
never_served(void *arg, enum kvt_err status)
{
    (void)arg;
    (void)status;
    abort();
}

static void *
call(void *arg)
{
    struct caller *caller = arg;

    while (!atomic_load(&caller->over)) {
        struct worker_scheduler_stats stats;
        const uint64_t id = 1;

        worker_scheduler_stats(caller->scheduler, &stats);
        if (!atomic_load(&caller->stopped))
            continue;
        if (worker_scheduler_add(caller->scheduler, &id, 1, never_served, NULL) != KVT_UNAVAILABLE)
            atomic_store(&caller->taken, true);
        atomic_fetch_add(&caller->calls, 1);
    }
    return NULL;
}

static void
one_that_is_stopped_can_be_called(void **state)
{
    const struct worker_scheduler_options options = {.g1_blocks = 8};

    (void)state;
    for (int i = 0; i < ROUNDS; i++) {
        struct caller caller = {.scheduler = NULL};
        struct kvt_error err;
        pthread_t thread;

        assert_int_equal(worker_scheduler_open(&caller.scheduler, &options, &err), KVT_OK);
        assert_int_equal(pthread_create(&thread, NULL, call, &caller), 0);
        worker_scheduler_stop(caller.scheduler);
        assert_true(worker_scheduler_failed(caller.scheduler));
        atomic_store(&caller.stopped, true);
        while (atomic_load(&caller.calls) < 3)
            (void)sched_yield();
        atomic_store(&caller.over, true);
        assert_int_equal(pthread_join(thread, NULL), 0);
        assert_false(atomic_load(&caller.taken));
        worker_scheduler_close(caller.scheduler);
    }
    worker_scheduler_stop(NULL);
    worker_scheduler_close(NULL);
}

int
main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_that_is_stopped_can_be_called),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
