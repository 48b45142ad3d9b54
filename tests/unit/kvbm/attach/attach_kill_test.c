/*
 * What is tested: engines in processes of their own that do anything they may at random, several at
 * once, and are killed after any call or at any moment: every block they hold has its bytes while
 * they hold it, what is told of their blocks is what their pools have, and when they are gone
 * nothing of them is held, mapped, told or on its way.
 *
 * The program is its own engine: attach_kill_test SOCKET SEED CALLS MICROSECONDS DESCRIPTOR; with a
 * descriptor other than 0 it leaves a child that has all that it had open, until that one ends.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/core/clock.h"
#include "base/core/random.h"
#include "base/text/parse.h"

#include "tests/support/seed.h"
#include "tests/unit/kvbm/attach/attach_bed.h"

enum { BLOCKS = 24, CHAINS = 10, CHAIN = 12, HELD_MAX = 64, WAIT = 2000, ROUNDS = 60, CALLS = 120 };

/* ---- the engine ---- */

struct engine {
    struct kvt_attach *attach;
    uint64_t random;
    struct kvt_unique fresh[BLOCKS];
    size_t fresh_count;
    struct kvt_shared held[HELD_MAX];
    uint64_t names[HELD_MAX]; /* of the held ones */
    size_t held_count;
};

static void
need(bool right, const char *what)
{
    if (right)
        return;
    (void)fprintf(stderr, "engine: %s\n", what);
    _exit(1);
}

static uint32_t
draw(struct engine *engine, uint32_t bound)
{
    return (uint32_t)kvt_random_below(&engine->random, bound);
}

static void
hold(struct engine *engine, const struct kvt_shared *handles, uint32_t chain, size_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (engine->held_count == HELD_MAX) {
            need(kvt_attach_drop(engine->attach, &handles[i], 1) == KVT_OK, "drop");
            continue;
        }
        engine->held[engine->held_count] = handles[i];
        engine->names[engine->held_count++] = attach_bed_name(chain, i).id.hash;
    }
}

static void
do_allocate(struct engine *engine)
{
    const size_t count = 1 + draw(engine, 4);
    enum kvt_err rc;

    if (engine->fresh_count + count > BLOCKS)
        return;
    rc = kvt_attach_allocate(engine->attach, count, engine->fresh + engine->fresh_count);
    need(rc == KVT_OK || rc == KVT_AGAIN, "allocate");
    engine->fresh_count += rc == KVT_OK ? count : 0;
}

static void
do_register(struct engine *engine)
{
    const uint32_t chain = draw(engine, CHAINS);
    const size_t count = engine->fresh_count < CHAIN ? engine->fresh_count : CHAIN;
    struct kvt_block_info infos[CHAIN];
    struct kvt_shared out[CHAIN];
    enum kvt_err results[CHAIN];

    engine->fresh_count -= count;
    for (uint32_t i = 0; i < count; i++) {
        infos[i] = attach_bed_name(chain, i);
        attach_bed_fill(
            kvt_attach_block(engine->attach, engine->fresh[engine->fresh_count + i].handle.block),
            infos[i].id.hash);
    }
    need(kvt_attach_register(engine->attach, engine->fresh + engine->fresh_count, infos, count,
                             draw(engine, 4) > 0, out, results) == KVT_OK,
         "register");
    for (size_t i = 0; i < count; i++)
        need(results[i] == KVT_OK || results[i] == KVT_EXISTS, "result");
    hold(engine, out, chain, count);
}

static void
do_find(struct engine *engine)
{
    const uint32_t chain = draw(engine, CHAINS);
    const size_t count = 1 + draw(engine, CHAIN);
    struct kvt_block_info infos[CHAIN];
    struct kvt_shared out[CHAIN];
    uint64_t hashes[CHAIN];
    size_t held = 0;
    size_t known;
    enum kvt_err rc;

    for (uint32_t i = 0; i < count; i++) {
        infos[i] = attach_bed_name(chain, i);
        hashes[i] = infos[i].id.hash;
    }
    switch (draw(engine, 3)) {
    case 0:
        need(kvt_attach_match(engine->attach, hashes, count, out, &held, &known) == KVT_OK &&
                 known >= held,
             "match");
        break;
    case 1:
        rc = kvt_attach_onboard(engine->attach, infos, count, draw(engine, 20), out, &held);
        need(rc == KVT_OK ? held == count
                          : rc == KVT_NOTFOUND || rc == KVT_AGAIN || rc == KVT_TIMEOUT,
             "onboard");
        break;
    default:
        rc = kvt_attach_prefetch(engine->attach, infos, count);
        need(rc == KVT_OK || rc == KVT_AGAIN, "prefetch");
        break;
    }
    hold(engine, out, chain, held);
}

static void
do_drop(struct engine *engine)
{
    const size_t count = draw(engine, (uint32_t)engine->held_count + 1);

    engine->held_count -= count;
    need(kvt_attach_drop(engine->attach, engine->held + engine->held_count, count) == KVT_OK,
         "drop");
}

static void
do_other(struct engine *engine)
{
    struct kvt_attach_stats stats = {.size = sizeof(stats)};
    uint64_t number;
    enum kvt_err rc;

    switch (draw(engine, 5)) {
    case 0: need(kvt_attach_step(engine->attach, &number) == KVT_OK, "step"); break;
    case 1:
        rc = kvt_attach_drain(engine->attach, WAIT);
        need(rc == KVT_OK || rc == KVT_TIMEOUT, "drain");
        break;
    case 2: need(kvt_attach_clear(engine->attach, &number) == KVT_OK, "clear"); break;
    case 3:
        if (engine->fresh_count > 0)
            need(kvt_attach_abandon(engine->attach, &engine->fresh[--engine->fresh_count], 1) ==
                     KVT_OK,
                 "abandon");
        break;
    default:
        need(kvt_attach_stats(engine->attach, &stats) == KVT_OK, "stats");
        need(stats.blocks == BLOCKS && stats.free + stats.active + stats.inactive == BLOCKS &&
                 stats.refused == 0,
             "numbers");
        break;
    }
}

static void
check_bytes(const struct engine *engine)
{
    for (size_t i = 0; i < engine->held_count; i++)
        need(attach_bed_filled(kvt_attach_block(engine->attach, engine->held[i].handle.block),
                               engine->names[i]),
             "wrong bytes in a held block");
}

static int
run_engine(char **args)
{
    static struct engine engine;
    struct kvt_attach_options options = {
        .size = sizeof(options), .socket = args[0], .block_count = BLOCKS};
    struct itimerval timer = {.it_value = {.tv_sec = 0}};
    uint64_t calls = 0;
    uint64_t after_us = 0;
    uint64_t heir = 0;
    enum kvt_err rc;

    need(kvt_parse_u64(args[1], &engine.random) == KVT_OK &&
             kvt_parse_u64(args[2], &calls) == KVT_OK &&
             kvt_parse_u64(args[3], &after_us) == KVT_OK && kvt_parse_u64(args[4], &heir) == KVT_OK,
         "arguments");
    timer.it_value.tv_usec = (suseconds_t)after_us;
    (void)setitimer(ITIMER_REAL, &timer, NULL); /* SIGALRM ends us, wherever we are */
    do {
        rc = kvt_attach_open(&engine.attach, &options, NULL);
        if (rc == KVT_FULL)
            kvt_clock_sleep_ms(5);
    } while (rc == KVT_FULL); /* sessions of the round before are just ending */
    need(rc == KVT_OK, "open");
    for (uint64_t i = 0; i < calls; i++) {
        switch (draw(&engine, 6)) {
        case 0: do_allocate(&engine); break;
        case 1: do_register(&engine); break;
        case 2:
        case 3: do_find(&engine); break;
        case 4: do_drop(&engine); break;
        default: do_other(&engine); break;
        }
        check_bytes(&engine);
    }
    if (heir > 0 && fork() == 0) {
        char byte;

        (void)!read((int)heir, &byte, 1);
        _exit(0);
    }
    (void)raise(SIGKILL);
    return 0;
}

/* ---- the worker ---- */

static pid_t
spawn(const struct attach_bed *bed, uint64_t seed, uint64_t calls, uint64_t after_us, int heir)
{
    char texts[4][24];
    char *args[] = {NULL, NULL, texts[0], texts[1], texts[2], texts[3], NULL};
    char self[] = "/proc/self/exe";
    char path[sizeof(bed->path)];
    char *environment[] = {NULL};
    pid_t pid;

    memcpy(path, bed->path, sizeof(path));
    args[0] = self;
    args[1] = path;
    (void)snprintf(texts[0], sizeof(texts[0]), "%" PRIu64, seed);
    (void)snprintf(texts[1], sizeof(texts[1]), "%" PRIu64, calls);
    (void)snprintf(texts[2], sizeof(texts[2]), "%" PRIu64, after_us);
    (void)snprintf(texts[3], sizeof(texts[3]), "%d", heir);
    assert_int_equal(posix_spawn(&pid, self, NULL, NULL, args, environment), 0);
    return pid;
}

static pid_t
spawn_engine(const struct attach_bed *bed, uint64_t *random)
{
    static const uint32_t moments[] = {0, 3000, 30000};
    const uint64_t latest_us = moments[kvt_random_below(random, 3)];
    const uint64_t after_us = latest_us > 0 ? 1 + kvt_random_below(random, latest_us) : 0;
    const uint64_t seed = kvt_random_next(random);

    return spawn(bed, seed, kvt_random_below(random, CALLS), after_us, 0);
}

static void
nothing_of_the_dead_stays(void **state)
{
    static struct attach_bed bed;
    uint64_t random = test_seed();
    unsigned killed = 0;
    unsigned alarmed = 0;

    (void)state;
    attach_bed_open(&bed);
    for (int round = 0; round < ROUNDS; round++) {
        pid_t pids[ATTACH_BED_ENGINES];
        const size_t count = 1 + (size_t)kvt_random_below(&random, ATTACH_BED_ENGINES);

        for (size_t i = 0; i < count; i++)
            pids[i] = spawn_engine(&bed, &random);
        for (size_t i = 0; i < count; i++) {
            int status;

            assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
            assert_true(WIFSIGNALED(status));
            assert_true(WTERMSIG(status) == SIGKILL || WTERMSIG(status) == SIGALRM);
            killed += WTERMSIG(status) == SIGKILL;
            alarmed += WTERMSIG(status) == SIGALRM;
        }
        attach_bed_rest(&bed);
    }
    attach_bed_close(&bed);
    assert_true(killed > 0 && alarmed > 0);
}

/* The socket is open as long as the child is; the death is seen all the same. */
static void
a_child_holds_the_socket(void **state)
{
    static struct attach_bed bed;
    int ends[2];
    int status;
    pid_t pid;

    (void)state;
    attach_bed_open(&bed);
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(fcntl(ends[1], F_SETFD, FD_CLOEXEC), 0);
    pid = spawn(&bed, test_seed(), CALLS, 0, ends[0]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    attach_bed_rest(&bed);
    (void)close(ends[1]); /* and the child ends */
    (void)close(ends[0]);
    attach_bed_close(&bed);
}

int
main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_of_the_dead_stays),
        cmocka_unit_test(a_child_holds_the_socket),
    };

    if (argc == 6)
        return run_engine(argv + 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
