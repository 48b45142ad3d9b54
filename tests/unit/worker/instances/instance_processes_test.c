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
#include <sys/wait.h>
#include <unistd.h>

#include "base/core/clock.h"

#include "tests/support/seed.h"
#include "worker/instances/instance_processes.h"
#include "worker/instances/supervisor_internal.h"

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
    if (wait_ms > 0)
        kvbm_lives_ask((struct kvbm_life *const[]){&life}, 1, wait_ms);
    kvbm_life_end(&life);
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

/* A signal that comes before it has stopped would be seen first. */
static void
stop(pid_t pid)
{
    siginfo_t info;

    assert_int_equal(kill(pid, SIGSTOP), 0);
    assert_int_equal(waitid(P_PID, (id_t)pid, &info, WSTOPPED | WNOWAIT), 0);
}

/* Who does not end delays nobody beyond the time that all have, and has nobody else killed. */
static void
one_that_is_stopped_is_killed_in_time(void **state)
{
    enum { WAIT = 2000 /* ms */ };
    struct kvbm_life lives[3];
    struct kvbm_life *const all[] = {&lives[0], &lives[1], &lives[2]};
    const uint32_t others[] = {0, 2};
    struct kvt_error err;
    uint64_t began_ms;

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        lives[i] = (struct kvbm_life){.plan = &plan};
        assert_int_equal(kvbm_life_start(&lives[i], &err), KVT_OK);
    }
    stop(lives[0].ranks[1]);
    stop(lives[1].leader);
    began_ms = kvt_clock_mono_ms();
    kvbm_lives_ask(all, 3, WAIT);
    assert_in_range(kvt_clock_mono_ms() - began_ms, WAIT, PATIENCE / 2);
    assert_int_equal(lives[1].leader, 0); /* killed, and its ranks were asked */
    for (size_t i = 0; i < RANKS; i++)
        assert_int_equal(lives[1].ranks[i] + lives[2].ranks[i], 0);
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        assert_int_equal(lives[0].ranks[others[i]], 0);
    assert_true(lives[0].ranks[1] != 0);
    for (size_t i = 0; i < 3; i++) {
        kvbm_life_end(&lives[i]);
        assert_int_equal(lives[i].number, 0);
    }
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
    kvbm_front_stop(&front, 0);
    sum = kvbm_front_sum(&front);
    assert_int_equal(sum.requests, 104);
    assert_int_equal(sum.wrong_bytes, 2);
}

static void
a_request_that_fails_rests_longer_each_time(void **state)
{
    (void)state;
    assert_int_equal(kvbm_front_rest_ms(1), KVBM_FRONT_REST_MIN_MS);
    assert_int_equal(kvbm_front_rest_ms(2), 2 * KVBM_FRONT_REST_MIN_MS);
    for (uint32_t failures = 1; failures < 100; failures++) {
        assert_true(kvbm_front_rest_ms(failures) <= kvbm_front_rest_ms(failures + 1));
        assert_true(kvbm_front_rest_ms(failures) <= KVBM_FRONT_REST_MAX_MS);
    }
    assert_int_equal(kvbm_front_rest_ms(UINT32_MAX), KVBM_FRONT_REST_MAX_MS);
}

static void
what_is_amiss_is_said_with_what_it_means(void **state)
{
    static const struct kvbm_plan three = {.settings = &settings, .instances = 3, .tp = {2, 2, 2}};
    struct kvbm_front front = {.plan = &three};
    struct kvbm_front_reasons reasons;

    (void)state;
    front.instances[0].up = front.instances[1].up = front.instances[2].up = true;
    kvbm_front_reasons(&front, &reasons);
    assert_true(reasons.ready && reasons.count == 0);
    front.instances[0].figures.nats_away = front.instances[2].figures.nats_away = 1;
    front.instances[1].figures.objects_away = 1;
    front.instances[2].figures.objects_away = 2;
    kvbm_front_reasons(&front, &reasons);
    assert_true(reasons.ready); /* requests are served all the same */
    assert_int_equal(reasons.count, 2);
    assert_non_null(strstr(reasons.lines[0], "NATS is away"));
    assert_non_null(strstr(reasons.lines[0], "instances 0, 2"));
    assert_non_null(strstr(reasons.lines[1], "gateway is away"));
    assert_non_null(strstr(reasons.lines[1], "3 ranks of instances 1, 2"));
    front.instances[1].up = false;
    kvbm_front_reasons(&front, &reasons);
    assert_false(reasons.ready);
    assert_string_equal(reasons.lines[0], "instance 1 is being started");
    /* All that can be amiss has its place. */
    for (uint32_t i = 0; i < 3; i++)
        front.instances[i].up = false;
    kvbm_front_reasons(&front, &reasons);
    assert_int_equal(reasons.count, 5);
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
    kvbm_front_stop(&front, 0);
}

int
main(int argc, char **argv)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_end_with_one),
        cmocka_unit_test(one_that_is_stopped_is_killed_in_time),
        cmocka_unit_test(all_end_where_no_child_is_waited_for),
        cmocka_unit_test(what_an_instance_said_last_is_counted),
        cmocka_unit_test(a_request_that_fails_rests_longer_each_time),
        cmocka_unit_test(what_is_amiss_is_said_with_what_it_means),
        cmocka_unit_test(a_leader_that_is_silent_is_started_again),
    };

    for (int i = 1; i < argc; i++)
        if (strncmp(argv[i], "--engine-part=", strlen("--engine-part=")) == 0)
            for (;;)
                (void)pause();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
