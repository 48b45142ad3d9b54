/*
 * What is tested: memory of another process, read by either rail: every byte as its owner has it,
 * from many threads at once; an owner that is stopped, killed or gone is a clear status within the
 * deadline and harms nobody else; nor does a reader that is killed; what is put into a landing is
 * there, and nothing is put elsewhere; damaged descriptions and wrong questions are refused; no
 * allocation that fails leaks.
 */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/core/random.h"
#include "base/text/parse.h"

#include "engine/memory/fabric_internal.h"
#include "tests/support/seed.h"
#include "tests/unit/engine/support/owner_process.h"

enum {
    BYTES = 1 << 20,
    PARTS = 16,
    ROUNDS = 40,
    THREADS = 4,
    WAIT = 20000,
    SHORT_WAIT = 300,
    KILLS = 24
};

static const char *const near_rail = "sysv,posix,self";
static const char *const far_rail = "tcp";

struct scene {
    struct engine_fabric *fabric;
    struct owner owner;
    struct engine_window *window;
};

static void
open_fabric(struct engine_fabric **fabric, bool near, bool far)
{
    const struct engine_fabric_options options = {.near = near ? near_rail : "",
                                                  .far = far ? far_rail : ""};
    struct kvt_error err;

    if (engine_fabric_open(fabric, &options, &err) != KVT_OK)
        fail_msg("%s", err.text);
}

static void
begin(struct scene *scene, bool near, uint64_t seed)
{
    struct kvt_error err;

    owner_start(&scene->owner, near ? near_rail : "", near ? "" : far_rail, BYTES, seed);
    open_fabric(&scene->fabric, near, !near);
    if (engine_window_open(&scene->window, scene->fabric, scene->owner.description,
                           scene->owner.size, &err) != KVT_OK)
        fail_msg("%s", err.text);
    assert_string_equal(scene->window->peer->rail->name, near ? "near" : "far");
    assert_int_equal(engine_window_size(scene->window), BYTES);
}

static void
end(struct scene *scene)
{
    engine_window_close(scene->window);
    engine_fabric_close(scene->fabric);
    owner_end(&scene->owner);
}

/* Random parts of the window into `into`, one behind the other. */
static size_t
draw_parts(struct engine_fabric_part *parts, uint8_t *into, uint64_t *random)
{
    const size_t count = 1 + kvt_random_below(random, PARTS);

    for (size_t i = 0; i < count; i++) {
        const size_t size = 1 + kvt_random_below(random, BYTES / PARTS);

        parts[i] = (struct engine_fabric_part){into, kvt_random_below(random, BYTES - size), size,
                                               false, KVT_IO};
        into += size;
    }
    return count;
}

static bool
is_right(const struct engine_fabric_part *part, uint64_t seed)
{
    const uint8_t *bytes = part->host;

    for (size_t i = 0; i < part->size; i++)
        if (bytes[i] != owner_byte(seed, part->offset + i))
            return false;
    return true;
}

static void
read_randomly(struct scene *scene, uint64_t seed, uint64_t random, size_t rounds)
{
    struct engine_fabric_part parts[PARTS];
    uint8_t *into = malloc(BYTES); /* tidy-allow: heap, a test's own */

    assert_non_null(into);
    for (size_t round = 0; round < rounds; round++) {
        const size_t count = draw_parts(parts, into, &random);
        const struct engine_fabric_move move = {
            .window = scene->window, .parts = parts, .count = count, .wait_ms = WAIT};

        assert_int_equal(engine_fabric_run(scene->fabric, &move), KVT_OK);
        for (size_t i = 0; i < count; i++) {
            assert_int_equal(parts[i].status, KVT_OK);
            assert_true(is_right(&parts[i], seed));
        }
    }
    free(into); /* tidy-allow: heap, a test's own */
}

static enum kvt_err
read_some(struct scene *scene, uint64_t wait_ms, uint8_t *into, size_t size)
{
    struct engine_fabric_part part = {into, 0, size, false, KVT_IO};
    const struct engine_fabric_move move = {
        .window = scene->window, .parts = &part, .count = 1, .wait_ms = wait_ms};
    const enum kvt_err rc = engine_fabric_run(scene->fabric, &move);

    assert_int_equal(part.status, rc);
    return rc;
}

static void
every_byte_is_its_owners(void **state)
{
    const uint64_t seed = test_seed();
    struct scene scene;

    (void)state;
    for (unsigned near = 0; near < 2; near++) {
        begin(&scene, near != 0, seed);
        read_randomly(&scene, seed, seed + near, ROUNDS);
        owner_change(&scene.owner, seed + 1);
        read_randomly(&scene, seed + 1, seed + near, 4);
        end(&scene);
    }
}

struct reader {
    pthread_t thread;
    struct scene *scene;
    uint64_t seed;
    uint64_t random;
};

static void *
reader_run(void *arg)
{
    const struct reader *reader = arg;

    read_randomly(reader->scene, reader->seed, reader->random, ROUNDS / THREADS);
    return NULL;
}

static void
many_read_at_once(void **state)
{
    const uint64_t seed = test_seed();
    struct reader readers[THREADS];
    struct scene scene;

    (void)state;
    for (unsigned near = 0; near < 2; near++) {
        begin(&scene, near != 0, seed);
        for (uint64_t i = 0; i < THREADS; i++) {
            readers[i] = (struct reader){.scene = &scene, .seed = seed, .random = seed + i};
            assert_int_equal(pthread_create(&readers[i].thread, NULL, reader_run, &readers[i]), 0);
        }
        for (size_t i = 0; i < THREADS; i++)
            assert_int_equal(pthread_join(readers[i].thread, NULL), 0);
        end(&scene);
    }
}

/* Reading shared memory needs nobody: neither one that runs, nor one that lives. */
static void
the_near_rail_needs_no_owner(void **state)
{
    const uint64_t seed = test_seed();
    struct scene scene;

    (void)state;
    begin(&scene, true, seed);
    owner_stop(&scene.owner);
    read_randomly(&scene, seed, seed, 4);
    assert_int_equal(kill(scene.owner.pid, SIGKILL), 0);
    read_randomly(&scene, seed, seed, 4);
    end(&scene);
}

/* Far away somebody has to answer: who does not is late, and given up; the next window is another
 * try. */
static void
a_stopped_owner_is_late(void **state)
{
    const uint64_t seed = test_seed();
    uint8_t into[4096];
    struct scene scene;
    struct kvt_error err;

    (void)state;
    begin(&scene, false, seed);
    read_randomly(&scene, seed, seed, 2);
    owner_stop(&scene.owner);
    assert_int_equal(read_some(&scene, SHORT_WAIT, into, sizeof(into)), KVT_TIMEOUT);
    assert_int_equal(read_some(&scene, WAIT, into, sizeof(into)), KVT_UNAVAILABLE);
    owner_resume(&scene.owner);
    engine_window_close(scene.window);
    assert_int_equal(engine_window_open(&scene.window, scene.fabric, scene.owner.description,
                                        scene.owner.size, &err),
                     KVT_OK);
    read_randomly(&scene, seed, seed, 2);
    end(&scene);
}

/* ... also where who reads has set himself no deadline. */
static void
no_get_waits_for_good(void **state)
{
    const struct engine_fabric_options options = {
        .near = "", .far = far_rail, .wait_max_ms = SHORT_WAIT};
    const uint64_t seed = test_seed();
    uint8_t into[4096];
    struct scene scene;

    (void)state;
    begin(&scene, false, seed);
    /* Connected: who leaves sooner may end its owner (engine/memory/DESIGN.md). */
    assert_int_equal(read_some(&scene, WAIT, into, sizeof(into)), KVT_OK);
    engine_window_close(scene.window);
    engine_fabric_close(scene.fabric);
    assert_int_equal(engine_fabric_open(&scene.fabric, &options, NULL), KVT_OK);
    assert_int_equal(engine_window_open(&scene.window, scene.fabric, scene.owner.description,
                                        scene.owner.size, NULL),
                     KVT_OK);
    assert_int_equal(read_some(&scene, UINT64_MAX, into, sizeof(into)), KVT_OK);
    owner_stop(&scene.owner);
    assert_int_equal(read_some(&scene, UINT64_MAX, into, sizeof(into)), KVT_TIMEOUT);
    owner_resume(&scene.owner);
    end(&scene);
}

/* An owner that was stopped before it was first connected with has still a system that says yes:
 * UCX's file is ready then all the time, and nothing comes of it. */
static void
who_waits_for_a_stopped_owner_sleeps(void **state)
{
    const uint64_t seed = test_seed();
    uint8_t into[64];
    struct scene scene;
    clock_t used;

    (void)state;
    owner_start(&scene.owner, "", far_rail, BYTES, seed);
    owner_stop(&scene.owner);
    open_fabric(&scene.fabric, false, true);
    assert_int_equal(engine_window_open(&scene.window, scene.fabric, scene.owner.description,
                                        scene.owner.size, NULL),
                     KVT_OK);
    used = clock();
    assert_int_equal(read_some(&scene, SHORT_WAIT, into, sizeof(into)), KVT_TIMEOUT);
    assert_true(clock() - used < CLOCKS_PER_SEC / 4); /* of 2.3 s, all of which a loop takes */
    assert_int_equal(kill(scene.owner.pid, SIGKILL), 0);
    end(&scene);
}

static void
a_killed_owner_is_away(void **state)
{
    const uint64_t seed = test_seed();
    uint8_t into[4096];
    struct scene scene;
    struct scene other;

    (void)state;
    begin(&scene, false, seed);
    owner_start(&other.owner, "", far_rail, BYTES, seed + 1);
    other.fabric = scene.fabric;
    assert_int_equal(engine_window_open(&other.window, other.fabric, other.owner.description,
                                        other.owner.size, NULL),
                     KVT_OK);
    read_randomly(&scene, seed, seed, 2);
    assert_int_equal(kill(scene.owner.pid, SIGKILL), 0);
    assert_int_equal(read_some(&scene, WAIT, into, sizeof(into)), KVT_UNAVAILABLE);
    assert_int_equal(read_some(&scene, WAIT, into, sizeof(into)), KVT_UNAVAILABLE);
    read_randomly(&other, seed + 1, seed, 2);
    engine_window_close(other.window);
    owner_end(&other.owner);
    end(&scene);
}

/* Who reads from afar is not asked to stop: where a region was there are zeros, and no other. */
static void
a_closed_region_reads_as_zeros(void **state)
{
    struct scene scene = {0};
    struct engine_fabric *owner;
    struct engine_region *region;
    uint8_t description[ENGINE_FABRIC_DESCRIPTION_MAX];
    uint8_t into[4096];
    size_t size;

    (void)state;
    open_fabric(&owner, true, true);
    open_fabric(&scene.fabric, false, true);
    assert_int_equal(engine_region_open(&region, owner, BYTES, NULL), KVT_OK);
    memset(engine_region_address(region), 0x77, BYTES);
    engine_region_describe(region, description, &size);
    assert_int_equal(engine_window_open(&scene.window, scene.fabric, description, size, NULL),
                     KVT_OK);
    assert_null(engine_window_memory(scene.window));
    assert_int_equal(read_some(&scene, WAIT, into, sizeof(into)), KVT_OK);
    assert_int_equal(into[sizeof(into) - 1], 0x77);
    engine_region_close(region);
    assert_int_equal(read_some(&scene, WAIT, into, sizeof(into)), KVT_OK);
    for (size_t i = 0; i < sizeof(into); i++)
        assert_int_equal(into[i], 0);
    assert_int_equal(engine_region_open(&region, owner, BYTES, NULL), KVT_OK);
    memset(engine_region_address(region), 0x66, BYTES);
    assert_int_equal(read_some(&scene, WAIT, into, sizeof(into)), KVT_OK);
    assert_int_equal(into[0], 0);
    engine_window_close(scene.window);
    engine_region_close(region);
    engine_fabric_close(scene.fabric);
    engine_fabric_close(owner);
}

static enum kvt_err
put_some(struct scene *scene, uint64_t offset, const uint8_t *bytes, size_t size)
{
    struct engine_fabric_part part = {(void *)(uintptr_t)bytes, offset, size, false, KVT_IO};
    const struct engine_fabric_move move = {
        .window = scene->window, .parts = &part, .count = 1, .wait_ms = WAIT, .put = true};
    const enum kvt_err rc = engine_fabric_run(scene->fabric, &move);

    assert_int_equal(part.status, rc);
    return rc;
}

static void
begin_landing(struct scene *scene, bool near, struct engine_fabric **owner,
              struct engine_region **landing)
{
    uint8_t description[ENGINE_FABRIC_DESCRIPTION_MAX];
    size_t size;

    open_fabric(owner, near, !near);
    open_fabric(&scene->fabric, near, !near);
    assert_int_equal(engine_landing_open(landing, *owner, BYTES, NULL), KVT_OK);
    engine_region_describe(*landing, description, &size);
    assert_int_equal(engine_window_open(&scene->window, scene->fabric, description, size, NULL),
                     KVT_OK);
    assert_int_equal(engine_window_size(scene->window), BYTES);
}

/* A put that has ended is there: its owner sees every byte, and none beside them. */
static void
what_is_put_is_there(void **state)
{
    const uint64_t seed = test_seed();
    static uint8_t from[BYTES];
    static uint8_t expected[BYTES];
    static uint8_t into[BYTES];
    uint64_t random = seed;
    struct engine_region *landing;
    struct engine_fabric *owner;
    struct scene scene;

    (void)state;
    for (unsigned near = 0; near < 2; near++) {
        begin_landing(&scene, near != 0, &owner, &landing);
        memset(expected, 0, sizeof(expected));
        for (size_t round = 0; round < ROUNDS; round++) {
            const size_t size = 1 + kvt_random_below(&random, BYTES - 1);
            const size_t at = kvt_random_below(&random, BYTES - size + 1);

            for (size_t i = 0; i < size; i++)
                expected[at + i] = from[i] = owner_byte(seed + round, i);
            assert_int_equal(put_some(&scene, at, from, size), KVT_OK);
            engine_landing_take(landing, 0, into, BYTES);
            assert_memory_equal(into, expected, BYTES);
        }
        engine_window_close(scene.window);
        engine_region_close(landing);
        engine_fabric_close(scene.fabric);
        engine_fabric_close(owner);
    }
}

/* What is no landing is nobody's to write; where a landing was is nobody's memory. */
static void
puts_land_in_landings_only(void **state)
{
    static uint8_t bytes[4096];
    struct engine_region *landing;
    struct engine_region *region;
    struct engine_fabric *owner;
    struct scene scene;

    (void)state;
    begin(&scene, true, 3);
    assert_int_equal(put_some(&scene, 0, bytes, sizeof(bytes)), KVT_DENIED);
    read_randomly(&scene, 3, 3, 2);
    end(&scene);
    begin_landing(&scene, false, &owner, &landing);
    memset(bytes, 0x55, sizeof(bytes));
    assert_int_equal(put_some(&scene, 0, bytes, sizeof(bytes)), KVT_OK);
    engine_region_close(landing);
    assert_int_equal(engine_region_open(&region, owner, BYTES, NULL), KVT_OK);
    assert_int_equal(put_some(&scene, 0, bytes, sizeof(bytes)), KVT_UNAVAILABLE);
    for (size_t i = 0; i < BYTES; i++)
        assert_int_equal(((const uint8_t *)engine_region_address(region))[i], 0);
    engine_region_close(region);
    engine_window_close(scene.window);
    engine_fabric_close(scene.fabric);
    engine_fabric_close(owner);
}

/* reader DESCRIPTION-FILE PART-BYTES PUT: reads, or puts, until it is killed. */
static void
reader_main(int argc, char **argv)
{
    const struct engine_fabric_options options = {.near = "", .far = far_rail};
    const size_t nothing = 0;
    static uint8_t bytes[BYTES];
    uint8_t description[ENGINE_FABRIC_DESCRIPTION_MAX];
    struct engine_fabric_part parts[PARTS];
    struct engine_fabric_move move = {.parts = parts, .count = PARTS, .wait_ms = WAIT};
    struct engine_fabric *fabric;
    bool said = false;
    uint64_t part;
    uint64_t put;
    size_t size;
    FILE *file;

    if (argc != 5 || strcmp(argv[1], "reader") != 0)
        return;
    owner_follow();
    file = fopen(argv[2], "rb");
    owner_need(file != NULL && kvt_parse_u64(argv[3], &part) == KVT_OK &&
                   kvt_parse_u64(argv[4], &put) == KVT_OK,
               "arguments");
    size = fread(description, 1, sizeof(description), file);
    (void)fclose(file);
    owner_need(engine_fabric_open(&fabric, &options, NULL) == KVT_OK, "fabric");
    owner_need(engine_window_open(&move.window, fabric, description, size, NULL) == KVT_OK,
               "window");
    move.put = put != 0;
    for (;;) {
        for (size_t i = 0; i < PARTS; i++)
            parts[i] = (struct engine_fabric_part){bytes, i * part, part, false, KVT_IO};
        owner_need(engine_fabric_run(fabric, &move) == KVT_OK, "move");
        if (!said)
            owner_say(&nothing, sizeof(nothing));
        said = true;
    }
}

/* Who is killed while his answers are on their way ends nothing but himself. */
static void
a_killed_reader_harms_nobody(void **state)
{
    static const char *const sizes[] = {"512", "8192", "65536"};
    uint8_t description[ENGINE_FABRIC_DESCRIPTION_MAX];
    struct engine_fabric *fabric;
    struct engine_region *region;
    struct owner reader;
    char folder[64];
    char path[96];
    size_t size;
    FILE *file;

    (void)state;
    open_fabric(&fabric, false, true);
    assert_int_equal(engine_landing_open(&region, fabric, BYTES, NULL), KVT_OK);
    engine_region_describe(region, description, &size);
    (void)test_folder_make(folder, sizeof(folder));
    (void)snprintf(path, sizeof(path), "%s/region", folder);
    file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(description, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
    for (unsigned i = 0; i < KILLS; i++) {
        char name[] = "reader";
        char part[16];
        char put[2] = {(char)('0' + i % 2), 0};
        char *const arguments[] = {name, name, path, part, put, NULL};

        (void)snprintf(part, sizeof(part), "%s", sizes[i % 3]);
        owner_spawn(&reader, arguments);
        kvt_clock_sleep_ms(i % 5);
        assert_int_equal(kill(reader.pid, SIGKILL), 0);
        owner_end(&reader);
    }
    engine_region_close(region);
    engine_fabric_close(fabric);
    test_folder_remove(folder);
}

/* Bytes of addresses that this process has in use. */
static size_t
mapped(void)
{
    FILE *file = fopen("/proc/self/statm", "r");
    size_t pages = 0;

    assert_non_null(file);
    assert_int_equal(fscanf(file, "%zu", &pages), 1);
    assert_int_equal(fclose(file), 0);
    return pages * 4096;
}

/* In a fabric's life there are so many regions; one more is refused and leaves nothing behind. */
static void
regions_have_a_limit(void **state)
{
    enum { LARGE = 64 << 20, MORE = 16 };
    struct engine_fabric *fabric;
    struct engine_region *region;
    size_t before;

    (void)state;
    for (unsigned near = 0; near < 2; near++) {
        open_fabric(&fabric, near != 0, true);
        for (size_t i = 0; i < ENGINE_FABRIC_REGIONS_MAX; i++) {
            assert_int_equal(engine_region_open(&region, fabric, 4096, NULL), KVT_OK);
            engine_region_close(region);
        }
        before = mapped();
        for (size_t i = 0; i < MORE; i++) {
            assert_int_equal(engine_region_open(&region, fabric, LARGE, NULL), KVT_FULL);
            assert_null(region);
        }
        assert_true(mapped() < before + LARGE);
        engine_fabric_close(fabric);
    }
}

static void
damaged_descriptions_are_refused(void **state)
{
    struct engine_fabric *fabric;
    struct engine_region *region;
    struct engine_window *window;
    struct kvt_error err;
    uint8_t bytes[ENGINE_FABRIC_DESCRIPTION_MAX];
    size_t size;

    (void)state;
    open_fabric(&fabric, true, true);
    assert_int_equal(engine_region_open(&region, fabric, 4095, &err), KVT_INVALID);
    assert_int_equal(engine_region_open(&region, fabric, BYTES, &err), KVT_OK);
    engine_region_describe(region, bytes, &size);
    for (size_t shorter = 0; shorter < size; shorter++)
        assert_int_equal(engine_window_open(&window, fabric, bytes, shorter, &err), KVT_INVALID);
    for (size_t at = 0; at < size; at++) {
        enum kvt_err rc;

        bytes[at] ^= 0x10;
        rc = engine_window_open(&window, fabric, bytes, size, &err);
        bytes[at] ^= 0x10;
        assert_true(rc == KVT_INVALID || rc == KVT_CORRUPT);
        assert_null(window);
    }
    assert_int_equal(engine_window_open(&window, fabric, bytes, size, &err), KVT_OK);
    engine_window_close(window);
    engine_region_close(region);
    engine_fabric_close(fabric);
}

static void
wrong_questions_are_refused(void **state)
{
    uint8_t into[16];
    struct engine_fabric_part part = {into, 0, sizeof(into), false, KVT_OK};
    struct engine_fabric_move move = {.parts = &part, .count = 1, .wait_ms = WAIT};
    struct kvt_ticket *ticket;
    struct scene scene;

    (void)state;
    begin(&scene, true, 1);
    move.window = scene.window;
    move.count = 0;
    assert_int_equal(engine_fabric_start(scene.fabric, &move, &ticket), KVT_INVALID);
    assert_null(ticket);
    move.count = 1;
    part.size = 0;
    assert_int_equal(engine_fabric_start(scene.fabric, &move, &ticket), KVT_INVALID);
    part.size = sizeof(into);
    part.offset = BYTES - sizeof(into) + 1;
    assert_int_equal(engine_fabric_start(scene.fabric, &move, &ticket), KVT_RANGE);
    part.offset = UINT64_MAX;
    assert_int_equal(engine_fabric_start(scene.fabric, &move, &ticket), KVT_RANGE);
    part.offset = BYTES - sizeof(into);
    assert_int_equal(engine_fabric_run(scene.fabric, &move), KVT_OK);
    assert_true(is_right(&part, 1));
    end(&scene);
}

/* As many as may wait, then KVT_AGAIN; taken back, they end as cancelled or as they were. */
static void
what_is_taken_back_ends(void **state)
{
    static struct engine_fabric_part parts[ENGINE_FABRIC_WAITING_MAX];
    static struct kvt_ticket *tickets[ENGINE_FABRIC_WAITING_MAX];
    static uint8_t into[ENGINE_FABRIC_WAITING_MAX][64];
    struct kvt_ticket *ticket;
    struct scene scene;

    (void)state;
    begin(&scene, false, 7);
    read_randomly(&scene, 7, 7, 1);
    owner_stop(&scene.owner);
    for (size_t i = 0; i < ENGINE_FABRIC_WAITING_MAX; i++) {
        const struct engine_fabric_move move = {
            .window = scene.window, .parts = &parts[i], .count = 1, .wait_ms = WAIT};

        parts[i] = (struct engine_fabric_part){into[i], i, sizeof(into[i]), false, KVT_IO};
        assert_int_equal(engine_fabric_start(scene.fabric, &move, &tickets[i]), KVT_OK);
    }
    assert_int_equal(engine_fabric_start(
                         scene.fabric,
                         &(struct engine_fabric_move){
                             .window = scene.window, .parts = parts, .count = 1, .wait_ms = WAIT},
                         &ticket),
                     KVT_AGAIN);
    for (size_t i = 0; i < ENGINE_FABRIC_WAITING_MAX; i += 2)
        (void)kvt_ticket_cancel(tickets[i]);
    owner_resume(&scene.owner);
    for (size_t i = 0; i < ENGINE_FABRIC_WAITING_MAX; i++) {
        const enum kvt_err rc = kvt_ticket_wait(tickets[i], WAIT);

        assert_int_equal(parts[i].status, rc);
        assert_true(rc == KVT_OK || (rc == KVT_CANCELLED && i % 2 == 0));
        if (rc == KVT_OK)
            assert_true(is_right(&parts[i], 7));
        kvt_ticket_release(tickets[i]);
    }
    end(&scene);
}

/* UCX warns of each transport it is told to use and has not. */
static void
a_usual_fabric_opens_silently(void **state)
{
    char said[512];
    struct engine_fabric *fabric;
    FILE *file = tmpfile();
    int kept[2];

    (void)state;
    assert_non_null(file);
    (void)fflush(stdout);
    for (int fd = 1; fd <= 2; fd++) {
        kept[fd - 1] = dup(fd);
        assert_true(kept[fd - 1] >= 0 && dup2(fileno(file), fd) == fd);
    }
    assert_int_equal(engine_fabric_open(&fabric, &(struct engine_fabric_options){0}, NULL), KVT_OK);
    engine_fabric_close(fabric);
    (void)fflush(stdout);
    for (int fd = 1; fd <= 2; fd++) {
        assert_int_equal(dup2(kept[fd - 1], fd), fd);
        assert_int_equal(close(kept[fd - 1]), 0);
    }
    rewind(file);
    said[fread(said, 1, sizeof(said) - 1, file)] = 0;
    assert_int_equal(fclose(file), 0);
    assert_string_equal(said, "");
}

static void
hold_up(void *arg)
{
    (void)atomic_fetch_add((_Atomic unsigned *)arg, 1);
    kvt_clock_sleep_ms(100);
}

/* What was taken back while the fabric had not even seen it is over: its window and the fabric may
 * be closed. */
static void
what_was_taken_back_holds_nothing(void **state)
{
    struct engine_fabric_part parts[2];
    struct kvt_ticket *tickets[2];
    _Atomic unsigned held = 0;
    struct engine_window *window;
    uint8_t into[2][64];
    struct scene scene;

    (void)state;
    begin(&scene, true, 7);
    assert_int_equal(
        engine_window_open(&window, scene.fabric, scene.owner.description, scene.owner.size, NULL),
        KVT_OK);
    for (size_t i = 0; i < 2; i++) {
        const struct engine_fabric_move move = {.window = i == 0 ? scene.window : window,
                                                .parts = &parts[i],
                                                .count = 1,
                                                .wait_ms = WAIT,
                                                .done = i == 0 ? hold_up : NULL,
                                                .arg = &held};

        parts[i] = (struct engine_fabric_part){into[i], 0, sizeof(into[i]), false, KVT_IO};
        assert_int_equal(engine_fabric_start(scene.fabric, &move, &tickets[i]), KVT_OK);
        while (atomic_load(&held) == 0)
            kvt_clock_sleep_ms(1);
    }
    assert_int_equal(kvt_ticket_cancel(tickets[1]), KVT_OK);
    kvt_ticket_release(tickets[1]);
    engine_window_close(window);
    assert_int_equal(kvt_ticket_wait(tickets[0], WAIT), KVT_OK);
    kvt_ticket_release(tickets[0]);
    end(&scene);
}

static bool
attempt(void *arg)
{
    const struct engine_fabric_options options = {.near = near_rail, .far = NULL};
    struct engine_fabric_part part;
    uint8_t bytes[ENGINE_FABRIC_DESCRIPTION_MAX];
    uint8_t into[16];
    struct engine_window *window = NULL;
    struct engine_region *region = NULL;
    struct engine_fabric *fabric;
    size_t size;
    bool whole = false;

    (void)arg;
    part = (struct engine_fabric_part){into, 0, sizeof(into), false, KVT_IO};
    if (engine_fabric_open(&fabric, &options, NULL) != KVT_OK)
        return false;
    if (engine_region_open(&region, fabric, BYTES, NULL) == KVT_OK) {
        engine_region_describe(region, bytes, &size);
        if (engine_window_open(&window, fabric, bytes, size, NULL) == KVT_OK)
            whole =
                engine_fabric_run(fabric, &(struct engine_fabric_move){.window = window,
                                                                       .parts = &part,
                                                                       .count = 1,
                                                                       .wait_ms = WAIT}) == KVT_OK;
    }
    engine_window_close(window);
    engine_region_close(region);
    engine_fabric_close(fabric);
    return whole;
}

static void
no_allocation_that_fails_leaks(void **state)
{
    (void)state;
    assert_true(test_sweep_allocations(attempt, NULL) >= 4);
}

int
main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_byte_is_its_owners),
        cmocka_unit_test(many_read_at_once),
        cmocka_unit_test(the_near_rail_needs_no_owner),
        cmocka_unit_test(a_stopped_owner_is_late),
        cmocka_unit_test(no_get_waits_for_good),
        cmocka_unit_test(who_waits_for_a_stopped_owner_sleeps),
        cmocka_unit_test(a_killed_owner_is_away),
        cmocka_unit_test(a_closed_region_reads_as_zeros),
        cmocka_unit_test(a_usual_fabric_opens_silently),
        cmocka_unit_test(what_is_put_is_there),
        cmocka_unit_test(puts_land_in_landings_only),
        cmocka_unit_test(a_killed_reader_harms_nobody),
        cmocka_unit_test(regions_have_a_limit),
        cmocka_unit_test(damaged_descriptions_are_refused),
        cmocka_unit_test(wrong_questions_are_refused),
        cmocka_unit_test(what_is_taken_back_ends),
        cmocka_unit_test(what_was_taken_back_holds_nothing),
        cmocka_unit_test(no_allocation_that_fails_leaks),
    };

    owner_main(argc, argv);
    reader_main(argc, argv);
    return cmocka_run_group_tests_name("engine/fabric", tests, NULL, NULL);
}
