/*
 * What is tested: what is rung wakes who sleeps on it, once however often it was rung, also from
 * another thread and when its counter is full; what was heard is silent; nobody's children have it.
 */
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <unistd.h>

#include "base/thread/wake.h"

#include "tests/support/seed.h"

enum { LONG = 10000 };

static bool
rings(int file, int wait_ms)
{
    struct pollfd poll_file = {.fd = file, .events = POLLIN};

    return poll(&poll_file, 1, wait_ms) == 1;
}

static void
it_rings_once_until_it_is_heard(void **state)
{
    const int file = kvt_wake_open();

    (void)state;
    assert_true(file >= 0);
    assert_true((fcntl(file, F_GETFD) & FD_CLOEXEC) != 0);
    assert_false(rings(file, 0));
    kvt_wake_clear(file); /* of nothing: it does not wait */
    for (unsigned i = 0; i < 3; i++)
        kvt_wake_signal(file);
    assert_true(rings(file, 0));
    assert_true(rings(file, 0));
    kvt_wake_clear(file);
    assert_false(rings(file, 0));
    kvt_wake_signal(file);
    assert_true(rings(file, 0));
    assert_int_equal(close(file), 0);
}

static void
a_full_counter_wakes(void **state)
{
    const uint64_t most = UINT64_MAX - 1;
    const int file = kvt_wake_open();

    (void)state;
    assert_int_equal(write(file, &most, sizeof(most)), sizeof(most));
    kvt_wake_signal(file);
    assert_true(rings(file, 0));
    kvt_wake_clear(file);
    assert_false(rings(file, 0));
    assert_int_equal(close(file), 0);
}

static void *
ring_it(void *arg)
{
    kvt_wake_signal(*(const int *)arg);
    return NULL;
}

static void
another_thread_wakes(void **state)
{
    int file = kvt_wake_open();
    pthread_t thread;

    (void)state;
    assert_int_equal(pthread_create(&thread, NULL, ring_it, &file), 0);
    assert_true(rings(file, LONG));
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(close(file), 0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_rings_once_until_it_is_heard),
        cmocka_unit_test(a_full_counter_wakes),
        cmocka_unit_test(another_thread_wakes),
    };

    return cmocka_run_group_tests_name("base/wake", tests, NULL, NULL);
}
