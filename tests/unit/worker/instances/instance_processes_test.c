/*
 * What is tested: the processes of an instance and what becomes of its figures
 * (instance_processes.h, the supervisor's part that ends an instance): who dies is noticed, all
 * end, also where nobody is told how children ended; what an instance said last is counted, though
 * it ended before that was read; one whose leader is silent is started again.
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

static const struct worker_settings settings = {.name = "life"};
static const struct worker_instance_plan plan = {
    .settings = &settings, .instances = 1, .tp = {RANKS}, .folder = "/nowhere"};

static void
one_that_dies_is_noticed(struct worker_processes *life)
{
    const uint64_t until_ms = kvt_clock_mono_ms() + PATIENCE;

    assert_false(worker_processes_is_over(life));
    assert_int_equal(kill(life->ranks[1], SIGKILL), 0);
    while (!worker_processes_is_over(life)) {
        assert_true(kvt_clock_mono_ms() < until_ms);
        kvt_clock_sleep_ms(1);
    }
    assert_int_equal(life->ranks[1], 0);
}

static void
start_kill_and_end(uint64_t wait_ms)
{
    struct worker_processes life = {.plan = &plan};
    struct kvt_error err;
    pid_t pids[RANKS + 1];

    assert_int_equal(worker_processes_start(&life, &err), KVT_OK);
    assert_true(life.number != 0);
    memcpy(pids, life.ranks, RANKS * sizeof(pids[0]));
    pids[RANKS] = life.leader;
    one_that_dies_is_noticed(&life);
    if (wait_ms > 0)
        worker_processes_ask((struct worker_processes *const[]){&life}, 1, wait_ms);
    worker_processes_end(&life);
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
    struct worker_processes lives[3];
    struct worker_processes *const all[] = {&lives[0], &lives[1], &lives[2]};
    const uint32_t others[] = {0, 2};
    struct kvt_error err;
    uint64_t began_ms;

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        lives[i] = (struct worker_processes){.plan = &plan};
        assert_int_equal(worker_processes_start(&lives[i], &err), KVT_OK);
    }
    stop(lives[0].ranks[1]);
    stop(lives[1].leader);
    began_ms = kvt_clock_mono_ms();
    worker_processes_ask(all, 3, WAIT);
    assert_in_range(kvt_clock_mono_ms() - began_ms, WAIT, PATIENCE / 2);
    assert_int_equal(lives[1].leader, 0); /* killed, and its ranks were asked */
    for (size_t i = 0; i < RANKS; i++)
        assert_int_equal(lives[1].ranks[i] + lives[2].ranks[i], 0);
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        assert_int_equal(lives[0].ranks[others[i]], 0);
    assert_true(lives[0].ranks[1] != 0);
    for (size_t i = 0; i < 3; i++) {
        worker_processes_end(&lives[i]);
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
    struct worker_supervisor_slot slots[] = {
        {.state = WORKER_SUPERVISOR_SLOT_AWAY,
         .life = 5,
         .stats = {.requests = 3, .wrong_bytes = 1}},
        {.state = WORKER_SUPERVISOR_SLOT_AWAY,
         .life = 5,
         .stats = {.requests = 4, .wrong_bytes = 2}},
        {.state = WORKER_SUPERVISOR_SLOT_AWAY,
         .life = 5,
         .status = KVT_CANCELLED,
         .stats = {.requests = 7}},
        {.state = WORKER_SUPERVISOR_SLOT_AWAY, .life = 8, .stats = {.requests = 9}}, /* another's */
        {.state = WORKER_SUPERVISOR_SLOT_FREE, .life = 5, .stats = {.requests = 9}},
    };
    struct worker_supervisor supervisor = {
        .plan = &plan, .slots = slots, .slot_count = sizeof(slots) / sizeof(slots[0])};
    struct worker_instance_stats sum;

    (void)state;
    supervisor.instances[0].past.requests = 100;
    supervisor.instances[0].life = (struct worker_processes){.plan = &plan, .number = 5};
    supervisor.instances[0].stats.requests = 2;
    worker_supervisor_stop(&supervisor, 0);
    sum = worker_supervisor_sum(&supervisor);
    assert_int_equal(sum.requests, 104);
    assert_int_equal(sum.wrong_bytes, 2);
}

static void
a_request_that_fails_rests_longer_each_time(void **state)
{
    (void)state;
    assert_int_equal(worker_supervisor_rest_ms(1), WORKER_SUPERVISOR_REST_MIN_MS);
    assert_int_equal(worker_supervisor_rest_ms(2), 2 * WORKER_SUPERVISOR_REST_MIN_MS);
    for (uint32_t failures = 1; failures < 100; failures++) {
        assert_true(worker_supervisor_rest_ms(failures) <= worker_supervisor_rest_ms(failures + 1));
        assert_true(worker_supervisor_rest_ms(failures) <= WORKER_SUPERVISOR_REST_MAX_MS);
    }
    assert_int_equal(worker_supervisor_rest_ms(UINT32_MAX), WORKER_SUPERVISOR_REST_MAX_MS);
}

static void
what_is_amiss_is_said_with_what_it_means(void **state)
{
    static const struct worker_instance_plan three = {
        .settings = &settings, .instances = 3, .tp = {2, 2, 2}};
    struct worker_supervisor supervisor = {.plan = &three};
    struct worker_supervisor_reasons reasons;

    (void)state;
    supervisor.instances[0].up = supervisor.instances[1].up = supervisor.instances[2].up = true;
    worker_supervisor_reasons(&supervisor, &reasons);
    assert_true(reasons.ready && reasons.count == 0);
    supervisor.instances[0].stats.nats_away = supervisor.instances[2].stats.nats_away = 1;
    supervisor.instances[1].stats.objects_away = 1;
    supervisor.instances[2].stats.objects_away = 2;
    worker_supervisor_reasons(&supervisor, &reasons);
    assert_true(reasons.ready); /* requests are served all the same */
    assert_int_equal(reasons.count, 2);
    assert_non_null(strstr(reasons.lines[0], "NATS is away"));
    assert_non_null(strstr(reasons.lines[0], "instances 0, 2"));
    assert_non_null(strstr(reasons.lines[1], "gateway is away"));
    assert_non_null(strstr(reasons.lines[1], "3 ranks of instances 1, 2"));
    supervisor.instances[1].up = false;
    worker_supervisor_reasons(&supervisor, &reasons);
    assert_false(reasons.ready);
    assert_string_equal(reasons.lines[0], "instance 1 is being started");
    /* All that can be amiss has its place. */
    for (uint32_t i = 0; i < 3; i++)
        supervisor.instances[i].up = false;
    worker_supervisor_reasons(&supervisor, &reasons);
    assert_int_equal(reasons.count, 5);
}

/* Nobody answers where these processes would. */
static void
a_leader_that_is_silent_is_started_again(void **state)
{
    struct worker_supervisor supervisor = {.plan = &plan};
    struct worker_supervisor_instance *instance = &supervisor.instances[0];
    struct kvt_error err;
    uint64_t life;

    (void)state;
    instance->life.plan = &plan;
    assert_int_equal(worker_supervisor_look_after(&supervisor, &err), KVT_OK);
    assert_int_equal(worker_supervisor_look_after(&supervisor, &err), KVT_OK);
    assert_int_equal(instance->silent_ms, 0); /* it was never there */
    life = instance->life.number;
    instance->up = true;
    assert_int_equal(worker_supervisor_look_after(&supervisor, &err), KVT_OK);
    assert_int_equal(worker_supervisor_look_after(&supervisor, &err), KVT_OK);
    assert_true(instance->life.number == life && instance->silent_ms != 0);
    instance->silent_ms -= WORKER_SUPERVISOR_SILENCE_MS;
    assert_int_equal(worker_supervisor_look_after(&supervisor, &err), KVT_OK);
    assert_true(instance->life.number != life && instance->life.number != 0);
    assert_int_equal(instance->lives, 2);
    assert_int_equal(instance->silent_ms, 0);
    worker_supervisor_stop(&supervisor, 0);
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
