/*
 * What is tested: blocks are pulled, whole and in parts, by several threads, while their owner
 * hides, writes and shows them as fast as it can: in this process and in another one, near and far,
 * also when that is killed in the middle of it.  What comes with KVT_OK has every byte of the name
 * that was asked for; else it is stale, and nothing else: what checksums alone would find is a
 * failure.
 */
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/core/random.h"
#include "base/text/parse.h"

#include "engine/memory/blockset_import.h"
#include "tests/support/seed.h"
#include "tests/unit/engine/support/block_bytes.h"
#include "tests/unit/engine/support/owner_process.h"

enum { COUNT = 16, HEADS = 4, PULLERS = 2, STEPS = 4, WAIT = 20000, RUNS = 8 };

#ifdef __SANITIZE_THREAD__
enum { ENOUGH = 100 };
#else
enum { ENOUGH = 400 }; /* stale ones, and as many good ones, of each puller */
#endif

/* The owner ---------------------------------------------------------------------------------- */

struct churn {
    struct engine_blockset *set;
    struct kvbm_layout layout;
    uint64_t random;
    uint64_t last; /* name */
    struct engine_block_ref refs[COUNT];
};

/* Names rise by so much that no two blocks have a word in common. */
static void
churn_block(struct churn *churn, uint32_t block)
{
    churn->last += UINT64_C(0x632be59bd9b4e019);
    engine_blockset_hide(churn->set, block);
    blocks_write(kvbm_storage_address(engine_blockset_storage(churn->set), block),
                 churn->layout.block_size, churn->last);
    engine_blockset_show(churn->set, block, churn->last, &churn->refs[block]);
}

static void
churn_step(struct churn *churn)
{
    churn_block(churn, (uint32_t)kvt_random_below(&churn->random, COUNT));
}

static void
churn_open(struct churn *churn, struct engine_fabric *fabric, uint64_t seed)
{
    *churn = (struct churn){.layout = blocks_layout(1, 0, HEADS), .random = seed, .last = seed};
    if (engine_blockset_open(&churn->set, fabric, &churn->layout, COUNT, NULL) != KVT_OK)
        abort();
    for (uint32_t i = 0; i < COUNT; i++)
        churn_block(churn, i);
}

/* churner NEAR FAR SEED; one byte asks for what is shown; until the end of its input. */
static void
churner_main(int argc, char **argv)
{
    struct engine_fabric_options options;
    uint8_t description[ENGINE_BLOCKSET_DESCRIPTION_MAX];
    struct engine_fabric *fabric;
    struct churn churn;
    uint64_t seed;
    size_t size;
    char ask;

    if (argc != 5 || strcmp(argv[1], "churner") != 0)
        return;
    owner_follow();
    options = (struct engine_fabric_options){.near = argv[2], .far = argv[3]};
    owner_need(kvt_parse_u64(argv[4], &seed) == KVT_OK, "arguments");
    owner_need(engine_fabric_open(&fabric, &options, NULL) == KVT_OK, "fabric");
    churn_open(&churn, fabric, seed);
    engine_blockset_describe(churn.set, description, &size);
    owner_say(&size, sizeof(size));
    owner_say(description, size);
    for (;;) {
        struct pollfd in = {.fd = STDIN_FILENO, .events = POLLIN};

        if (poll(&in, 1, 0) > 0) {
            if (read(STDIN_FILENO, &ask, 1) != 1)
                break;
            owner_say(churn.refs, sizeof(churn.refs));
        }
        for (unsigned i = 0; i < STEPS; i++)
            churn_step(&churn);
    }
    engine_blockset_close(churn.set);
    engine_fabric_close(fabric);
    exit(0);
}

/* Pullers ------------------------------------------------------------------------------------ */

struct scene {
    struct engine_fabric *fabric;
    struct engine_import *import;
    struct kvbm_layout layout;
    struct owner owner;  /* another process, */
    struct churn *churn; /* ... or a thread of this one */
    pthread_mutex_t lock;
    _Atomic bool over;
};

struct puller {
    pthread_t thread;
    struct scene *scene;
    uint64_t random;
    uint8_t *into;
    uint8_t *model;
    size_t good;
    size_t stale;
    size_t away;
    size_t wrong;
};

static bool
ask(struct scene *scene, struct engine_block_ref refs[COUNT])
{
    bool answered = true;

    (void)pthread_mutex_lock(&scene->lock);
    if (scene->churn != NULL) {
        memcpy(refs, scene->churn->refs, sizeof(scene->churn->refs));
    } else {
        uint8_t *at = (uint8_t *)refs;
        ssize_t got = write(scene->owner.out, "?", 1);

        for (size_t left = sizeof(*refs) * COUNT; left > 0 && got > 0; left -= (size_t)got) {
            got = read(scene->owner.in, at, left);
            at += got;
            if (got <= 0)
                break;
        }
        answered = got > 0;
    }
    (void)pthread_mutex_unlock(&scene->lock);
    return answered;
}

/* Some heads of it, or all; whichever, what is left out keeps what it has. */
static size_t
draw_runs(struct puller *puller, struct engine_import_run runs[RUNS])
{
    const uint32_t head = (uint32_t)kvt_random_below(&puller->random, HEADS);
    const struct engine_import_slice slice = {
        .layer = 2 * (uint32_t)kvt_random_below(&puller->random, BLOCKS_LAYERS / 2),
        .layers = 2,
        .head = head,
        .heads = 1 + (uint32_t)kvt_random_below(&puller->random, HEADS - head),
        .target_head = head,
    };
    size_t count;

    if (engine_import_runs(puller->scene->import, &slice, &puller->scene->layout, puller->into,
                           runs, RUNS, &count, NULL) != KVT_OK)
        abort();
    return count;
}

static bool
is_right(const struct puller *puller, const struct engine_import_read *read)
{
    const size_t size = puller->scene->layout.block_size;

    blocks_write(puller->model, size, read->ref.hash);
    if (read->count == 0)
        return memcmp(read->host, puller->model, size) == 0;
    for (size_t i = 0; i < read->count; i++)
        if (memcmp(read->runs[i].host, puller->model + read->runs[i].offset, read->runs[i].size) !=
            0)
            return false;
    return true;
}

static bool
is_wiped(const struct puller *puller, const struct engine_import_read *read)
{
    const uint8_t *bytes = read->count == 0 ? puller->into : read->runs[0].host;

    for (size_t i = 0; i < (read->count == 0 ? 4096 : read->runs[0].size); i++)
        if (bytes[i] != 0)
            return false;
    return true;
}

static void
count(struct puller *puller, const struct engine_import_read *read)
{
    switch (read->status) {
    case KVT_OK:
        puller->good++;
        puller->wrong += is_right(puller, read) ? 0 : 1;
        break;
    case KVT_NOTFOUND:
        puller->stale++;
        puller->wrong += is_wiped(puller, read) ? 0 : 1;
        break;
    case KVT_UNAVAILABLE:
    case KVT_TIMEOUT:
    case KVT_IO: puller->away++; break;
    default:
        (void)fprintf(stderr, "block %u: %s\n", read->ref.block, kvt_err_name(read->status));
        puller->wrong++;
        break;
    }
}

static void
pull(struct puller *puller, const struct engine_block_ref *ref)
{
    struct engine_import_run runs[RUNS];
    struct engine_import_read read = {.ref = *ref, .host = puller->into, .runs = runs};
    const struct engine_import_request request = {.reads = &read, .count = 1, .wait_ms = WAIT};

    if (kvt_random_below(&puller->random, 3) == 0)
        read.count = draw_runs(puller, runs);
    if (kvt_random_below(&puller->random, 3) == 0)
        read.ref.generation = 0; /* by its name alone */
    (void)engine_import_run(puller->scene->import, &request, NULL);
    count(puller, &read);
}

static void *
puller_run(void *arg)
{
    struct puller *puller = arg;
    struct engine_block_ref refs[COUNT];

    puller->into = kvt_calloc(2, puller->scene->layout.block_size);
    puller->model = puller->into + puller->scene->layout.block_size;
    while ((puller->good < ENOUGH || puller->stale < ENOUGH) && puller->wrong == 0 &&
           puller->away == 0 && ask(puller->scene, refs))
        for (size_t i = 0; i < 8; i++)
            pull(puller, &refs[kvt_random_below(&puller->random, COUNT)]);
    kvt_free(puller->into);
    return NULL;
}

static void
start_pullers(struct scene *scene, struct puller pullers[PULLERS], uint64_t seed)
{
    for (uint64_t i = 0; i < PULLERS; i++) {
        pullers[i] = (struct puller){.scene = scene, .random = seed + i};
        assert_int_equal(pthread_create(&pullers[i].thread, NULL, puller_run, &pullers[i]), 0);
    }
}

static void
end_pullers(struct puller pullers[PULLERS], bool killed)
{
    for (size_t i = 0; i < PULLERS; i++) {
        assert_int_equal(pthread_join(pullers[i].thread, NULL), 0);
        assert_int_equal(pullers[i].wrong, 0);
        if (!killed) {
            assert_true(pullers[i].good >= ENOUGH && pullers[i].stale >= ENOUGH);
            assert_int_equal(pullers[i].away, 0);
        }
    }
}

static struct engine_fabric *
fabric_open(bool near)
{
    const struct engine_fabric_options options = {.near = near ? "sysv,posix,self" : "",
                                                  .far = near ? "" : "tcp"};
    struct engine_fabric *fabric;
    struct kvt_error err;

    if (engine_fabric_open(&fabric, &options, &err) != KVT_OK)
        fail_msg("%s", err.text);
    return fabric;
}

static void
import(struct scene *scene, const uint8_t *bytes, size_t size)
{
    struct kvt_error err;

    if (engine_import_open(&scene->import, scene->fabric, bytes, size, &scene->layout, WAIT,
                           &err) != KVT_OK)
        fail_msg("%s", err.text);
}

/* In one process ------------------------------------------------------------------------------ */

static void *
churn_run(void *arg)
{
    struct scene *scene = arg;

    while (!atomic_load(&scene->over)) {
        (void)pthread_mutex_lock(&scene->lock);
        for (unsigned i = 0; i < STEPS; i++)
            churn_step(scene->churn);
        (void)pthread_mutex_unlock(&scene->lock);
    }
    return NULL;
}

static void
no_wrong_byte_from_a_thread(void **state)
{
    const uint64_t seed = test_seed();

    (void)state;
    for (unsigned near = 0; near < 2; near++) {
        struct engine_fabric *theirs = fabric_open(near != 0);
        struct scene scene = {.fabric = fabric_open(near != 0),
                              .layout = blocks_layout(1, 0, HEADS)};
        uint8_t bytes[ENGINE_BLOCKSET_DESCRIPTION_MAX];
        struct puller pullers[PULLERS];
        struct churn churn;
        pthread_t churner;
        size_t size;

        churn_open(&churn, theirs, seed);
        scene.churn = &churn;
        engine_blockset_describe(churn.set, bytes, &size);
        import(&scene, bytes, size);
        assert_int_equal(pthread_mutex_init(&scene.lock, NULL), 0);
        assert_int_equal(pthread_create(&churner, NULL, churn_run, &scene), 0);
        start_pullers(&scene, pullers, seed);
        end_pullers(pullers, false);
        atomic_store(&scene.over, true);
        assert_int_equal(pthread_join(churner, NULL), 0);
        (void)pthread_mutex_destroy(&scene.lock);
        engine_import_close(scene.import);
        engine_blockset_close(churn.set);
        engine_fabric_close(scene.fabric);
        engine_fabric_close(theirs);
    }
}

/* Between processes --------------------------------------------------------------------------- */

static void
spawn(struct scene *scene, bool near, uint64_t seed)
{
    char name[] = "churner";
    char near_rail[] = "sysv,posix,self";
    char far_rail[] = "tcp";
    char none[] = "";
    char number[32];
    char *const argv[] = {name,   name, near ? near_rail : none, near ? none : far_rail,
                          number, NULL};

    (void)snprintf(number, sizeof(number), "%" PRIu64, seed);
    owner_spawn(&scene->owner, argv);
}

static void
begin(struct scene *scene, bool near, uint64_t seed)
{
    *scene = (struct scene){.fabric = fabric_open(near), .layout = blocks_layout(1, 0, HEADS)};
    assert_int_equal(pthread_mutex_init(&scene->lock, NULL), 0);
    spawn(scene, near, seed);
    import(scene, scene->owner.description, scene->owner.size);
}

static void
end(struct scene *scene)
{
    engine_import_close(scene->import);
    owner_end(&scene->owner);
    engine_fabric_close(scene->fabric);
    (void)pthread_mutex_destroy(&scene->lock);
}

static void
no_wrong_byte_from_a_process(void **state)
{
    const uint64_t seed = test_seed();

    (void)state;
    for (unsigned near = 0; near < 2; near++) {
        struct puller pullers[PULLERS];
        struct scene scene;

        begin(&scene, near != 0, seed);
        start_pullers(&scene, pullers, seed);
        end_pullers(pullers, false);
        end(&scene);
    }
}

/* Killed anywhere, also between hiding and showing.  Its memory may still be there, and what is
 * shown in it is right; who comes after it has nothing of its. */
static void
no_wrong_byte_from_one_that_is_killed(void **state)
{
    const uint64_t seed = test_seed();

    (void)state;
    for (uint64_t round = 0; round < 4; round++) {
        struct engine_block_ref refs[COUNT];
        struct puller pullers[PULLERS];
        struct puller late;
        struct scene scene;

        begin(&scene, round % 2 != 0, seed + round);
        assert_true(ask(&scene, refs));
        start_pullers(&scene, pullers, seed + round);
        kvt_clock_sleep_ms((seed + round * 7919) % 20);
        assert_int_equal(kill(scene.owner.pid, SIGKILL), 0);
        end_pullers(pullers, true);
        late = (struct puller){.scene = &scene, .random = seed};
        late.into = kvt_calloc(2, scene.layout.block_size);
        late.model = late.into + scene.layout.block_size;
        for (size_t i = 0; i < COUNT; i++)
            pull(&late, &refs[i]);
        assert_int_equal(late.wrong, 0);
        assert_int_equal(late.away, round % 2 != 0 ? 0 : COUNT);
        owner_end(&scene.owner);
        engine_import_close(scene.import);
        spawn(&scene, round % 2 != 0, seed + round + 1);
        import(&scene, scene.owner.description, scene.owner.size);
        late.good = late.away = 0;
        for (size_t i = 0; i < COUNT; i++)
            pull(&late, &refs[i]);
        assert_int_equal(late.good + late.wrong + late.away, 0);
        kvt_free(late.into);
        end(&scene);
    }
}

int
main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_wrong_byte_from_a_thread),
        cmocka_unit_test(no_wrong_byte_from_a_process),
        cmocka_unit_test(no_wrong_byte_from_one_that_is_killed),
    };

    churner_main(argc, argv);
    (void)signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests_name("engine/blockset_race", tests, NULL, NULL);
}
