/*
 * What is tested: the processes of an instance and what becomes of its figures (life.h, the front's
 * part that ends an instance): who dies is noticed, all end, also where nobody is told how children
 * ended; what an instance said last is counted, though it ended before that was read; one
 * whose leader is silent is started again.
 * How: this program started again, as children that wait; answers that have come back and that
 * nobody has taken.
 */
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "kvbm/instance/front_internal.h"
#include "kvbm/instance/life.h"

#include "tests/support/seed.h"

enum { RANKS = 3, PATIENCE = 10000 /* ms */ };

static const struct kvbm_settings settings = {.name = "life"};
static const struct kvbm_plan plan = {
    .settings = &settings, .instances = 1, .tp = {RANKS}, .folder = "/nowhere"};

static void
one_that_dies_is_noticed(struct kvbm_life *life)
{
    const uint64_t until_ms = kvt_clock_mono_ms() + PATIENCE;

    assert_false(kvbm_life_is_over(life));
    assert_int_equal(kill(life->ranks[1], SIGKILL), 0);
    while (!kvbm_life_is_over(life)) {
        assert_true(kvt_clock_mono_ms() < until_ms);
        kvt_clock_sleep_ms(1);
    }
    assert_int_equal(life->ranks[1], 0);
}

static void
start_kill_and_end(uint64_t wait_ms)
{
    struct kvbm_life life = {.plan = &plan};
    struct kvt_error err;
    pid_t pids[RANKS + 1];

    assert_int_equal(kvbm_life_start(&life, &err), KVT_OK);
    assert_true(life.number != 0);
    memcpy(pids, life.ranks, RANKS * sizeof(pids[0]));
    pids[RANKS] = life.leader;
    one_that_dies_is_noticed(&life);
    kvbm_life_end(&life, wait_ms);
    assert_int_equal(life.number, 0);
    for (size_t i = 0; i <= RANKS; i++)
        assert_int_equal(kill(pids[i], 0), -1);
}

static void
all_end_with_one(void **state)
{
    (void)state;
    start_kill_and_end(PATIENCE);
    start_kill_and_end(0);
}

/* A parent that ignores SIGCHLD hands that down to this program. */
static void
all_end_where_no_child_is_waited_for(void **state)
{
    (void)state;
    (void)signal(SIGCHLD, SIG_IGN);
    (void)alarm(PATIENCE / 1000);
    start_kill_and_end(PATIENCE);
    start_kill_and_end(0);
    (void)alarm(0);
    (void)signal(SIGCHLD, SIG_DFL);
}

static void
what_an_instance_said_last_is_counted(void **state)
{
    struct kvbm_front_slot slots[] = {
        {.state = KVBM_SLOT_AWAY, .life = 5, .figures = {.requests = 3, .wrong_bytes = 1}},
        {.state = KVBM_SLOT_AWAY, .life = 5, .figures = {.requests = 4, .wrong_bytes = 2}},
        {.state = KVBM_SLOT_AWAY, .life = 5, .status = KVT_CANCELLED, .figures = {.requests = 7}},
        {.state = KVBM_SLOT_AWAY, .life = 8, .figures = {.requests = 9}}, /* another's */
        {.state = KVBM_SLOT_FREE, .life = 5, .figures = {.requests = 9}},
    };
    struct kvbm_front front = {
        .plan = &plan, .slots = slots, .slot_count = sizeof(slots) / sizeof(slots[0])};
    struct kvbm_figures sum;

    (void)state;
    front.instances[0].past.requests = 100;
    front.instances[0].life = (struct kvbm_life){.plan = &plan, .number = 5};
    front.instances[0].figures.requests = 2;
    kvbm_front_stop(&front, 0, 0);
    sum = kvbm_front_sum(&front);
    assert_int_equal(sum.requests, 104);
    assert_int_equal(sum.wrong_bytes, 2);
}

/* Nobody answers where these processes would. */
static void
a_leader_that_is_silent_is_started_again(void **state)
{
    struct kvbm_front front = {.plan = &plan};
    struct kvbm_front_instance *instance = &front.instances[0];
    struct kvt_error err;
    uint64_t life;

    (void)state;
    instance->life.plan = &plan;
    assert_int_equal(kvbm_front_look_after(&front, &err), KVT_OK);
    assert_int_equal(kvbm_front_look_after(&front, &err), KVT_OK);
    assert_int_equal(instance->silent_ms, 0); /* it was never there */
    life = instance->life.number;
    instance->up = true;
    assert_int_equal(kvbm_front_look_after(&front, &err), KVT_OK);
    assert_int_equal(kvbm_front_look_after(&front, &err), KVT_OK);
    assert_true(instance->life.number == life && instance->silent_ms != 0);
    instance->silent_ms -= KVBM_FRONT_SILENCE_MS;
    assert_int_equal(kvbm_front_look_after(&front, &err), KVT_OK);
    assert_true(instance->life.number != life && instance->life.number != 0);
    assert_int_equal(instance->lives, 2);
    assert_int_equal(instance->silent_ms, 0);
    kvbm_front_stop(&front, 0, 0);
}

int
main(int argc, char **argv)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_end_with_one),
        cmocka_unit_test(all_end_where_no_child_is_waited_for),
        cmocka_unit_test(what_an_instance_said_last_is_counted),
        cmocka_unit_test(a_leader_that_is_silent_is_started_again),
    };

    for (int i = 1; i < argc; i++)
        if (strncmp(argv[i], "--engine-part=", strlen("--engine-part=")) == 0)
            for (;;)
                (void)pause();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
