/*
 * What is tested: kvtier/attach.h against the server of kvbm/attach, by hand: who is let in and
 * who is not, a block's way down and up again from every tier with its bytes, handles that are
 * nobody's, and what the engine sees when the worker goes or says nothing.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "kvbm/attach/attach_service.h"
#include "kvbm/attach/channel.h"
#include "kvbm/attach/sealed_memory.h"

#include "tests/support/seed.h"
#include "tests/unit/kvbm/attach/attach_bed.h"

enum { BLOCKS = 16, CHAIN = 8, WAIT = 60000 };

static struct attach_bed bed;

static int
setup(void **state)
{
    (void)state;
    attach_bed_open(&bed);
    return 0;
}

static int
teardown(void **state)
{
    (void)state;
    attach_bed_close(&bed);
    return 0;
}

/* Sessions that have ended are cleared away now and then: who comes before that finds it full. */
static enum kvt_err
open_when_free(struct kvt_attach **attach, const struct kvt_attach_options *options,
               struct kvt_error *err)
{
    const uint64_t until_ms = kvt_clock_mono_ms() + WAIT;
    enum kvt_err rc;

    while ((rc = kvt_attach_open(attach, options, err)) == KVT_FULL &&
           kvt_clock_mono_ms() < until_ms)
        kvt_clock_sleep_ms(10);
    return rc;
}

static enum kvt_err
open_with(struct kvt_attach_options options, char text[KVT_ERROR_TEXT_MAX])
{
    struct kvt_error err = {.text = ""};
    struct kvt_attach *attach;
    enum kvt_err rc;

    options.size = sizeof(options);
    if (options.socket == NULL)
        options.socket = bed.path;
    rc = open_when_free(&attach, &options, &err);
    assert_true((rc == KVT_OK) == (attach != NULL));
    kvt_attach_close(attach);
    memcpy(text, err.text, KVT_ERROR_TEXT_MAX);
    return rc;
}

static void
who_is_let_in(void **state)
{
    struct kvt_geometry geometry = bed.layout.geometry;
    struct kvt_attach *engines[ATTACH_BED_ENGINES];
    struct kvt_attach *one_more;
    struct kvt_error err = {.text = ""};
    char text[KVT_ERROR_TEXT_MAX];
    struct stat file;

    (void)state;
    assert_int_equal(stat(bed.path, &file), 0);
    assert_int_equal(file.st_mode & 0777, 0600);
    assert_int_equal(open_with((struct kvt_attach_options){.block_count = 1}, text), KVT_OK);
    assert_int_equal(
        open_with((struct kvt_attach_options){.block_count = 1, .geometry = &geometry}, text),
        KVT_OK);
    geometry.layers = 2;
    geometry.inner_dim *= 2; /* as many bytes */
    assert_int_equal(
        open_with((struct kvt_attach_options){.block_count = 1, .geometry = &geometry}, text),
        KVT_PRECONDITION);
    assert_non_null(strstr(text, "layers"));
    assert_int_equal(open_with((struct kvt_attach_options){.block_count = 0}, text), KVT_RANGE);
    assert_int_equal(
        open_with((struct kvt_attach_options){.block_count = ATTACH_BED_BLOCKS_MAX + 1}, text),
        KVT_RANGE);
    assert_int_equal(
        open_with((struct kvt_attach_options){.block_count = 1, .socket = "/nowhere"}, text),
        KVT_UNAVAILABLE);
    attach_bed_rest(&bed);
    for (size_t i = 0; i < ATTACH_BED_ENGINES; i++)
        assert_int_equal(
            open_when_free(&engines[i],
                           &(struct kvt_attach_options){.size = sizeof(struct kvt_attach_options),
                                                        .socket = bed.path,
                                                        .block_count = 4},
                           NULL),
            KVT_OK);
    assert_int_equal(
        kvt_attach_open(&one_more,
                        &(struct kvt_attach_options){.size = sizeof(struct kvt_attach_options),
                                                     .socket = bed.path,
                                                     .block_count = 1},
                        &err),
        KVT_FULL);
    assert_null(one_more);
    assert_non_null(strstr(err.text, "as many engines"));
    for (size_t i = 0; i < ATTACH_BED_ENGINES; i++)
        kvt_attach_close(engines[i]);
    attach_bed_rest(&bed);
}

static int
dial(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

    assert_true(strlen(bed.path) < sizeof(address.sun_path));
    memcpy(address.sun_path, bed.path, strlen(bed.path));
    assert_int_equal(connect(fd, (const struct sockaddr *)&address, sizeof(address)), 0);
    return fd;
}

/* Say hello with `memory` (-1: none); what is answered. */
static enum kvt_err
hello(const struct kvbm_attach_hello *message, size_t size, int memory)
{
    struct kvbm_attach_answer answer;
    uint8_t greeting[1024];
    const int fd = dial();
    int rings = -1;
    size_t got;

    assert_int_equal(kvbm_channel_receive(fd, greeting, sizeof(greeting),
                                          kvt_clock_mono_ms() + WAIT, &got, NULL),
                     KVT_OK);
    assert_int_equal(got, sizeof(struct kvbm_attach_greeting));
    assert_int_equal(kvbm_channel_send(fd, message, size, memory), KVT_OK);
    assert_int_equal(
        kvbm_channel_receive(fd, &answer, sizeof(answer), kvt_clock_mono_ms() + WAIT, &got, &rings),
        KVT_OK);
    assert_int_equal(got, sizeof(answer));
    assert_true((answer.status == KVT_OK) == (rings >= 0));
    if (rings >= 0)
        (void)close(rings);
    (void)close(fd);
    attach_bed_rest(&bed);
    return (enum kvt_err)answer.status;
}

static void
hellos_that_are_none(void **state)
{
    const size_t bytes = 4 * ATTACH_BED_SIZE;
    const int right = kvbm_sealed_make("right", bytes);
    const int small = kvbm_sealed_make("small", bytes - 1);
    const int loose = memfd_create("loose", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    const int frozen = memfd_create("frozen", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    const int file = open("/dev/zero", O_RDWR | O_CLOEXEC);
    struct kvbm_attach_hello good = {
        .head = kvbm_attach_head(KVBM_ATTACH_HELLO, sizeof(good)),
        .block_count = 4,
    };
    struct kvbm_attach_hello bad;

    (void)state;
    kvbm_layout_serialize(&bed.layout, good.layout);
    assert_int_equal(ftruncate(loose, (off_t)bytes), 0);
    assert_int_equal(ftruncate(frozen, (off_t)bytes), 0);
    assert_int_equal(fcntl(frozen, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_WRITE), 0);
    assert_int_equal(hello(&good, sizeof(good), right), KVT_OK);
    assert_int_equal(hello(&good, sizeof(good), -1), KVT_INVALID);
    assert_int_equal(hello(&good, sizeof(good), small), KVT_INVALID);
    assert_int_equal(hello(&good, sizeof(good), loose), KVT_INVALID);
    assert_int_equal(hello(&good, sizeof(good), file), KVT_INVALID);
    assert_int_not_equal(hello(&good, sizeof(good), frozen), KVT_OK);
    assert_int_equal(hello(&good, sizeof(good) - 1, right), KVT_INVALID);
    bad = good;
    bad.head.version++;
    assert_int_equal(hello(&bad, sizeof(bad), right), KVT_UNSUPPORTED);
    bad = good;
    bad.head.magic[0] ^= 1;
    assert_int_equal(hello(&bad, sizeof(bad), right), KVT_INVALID);
    bad = good;
    bad.layout[20] ^= 1;
    assert_int_equal(hello(&bad, sizeof(bad), right), KVT_CORRUPT);
    bad = good;
    bad.block_count = UINT32_MAX;
    assert_int_equal(hello(&bad, sizeof(bad), right), KVT_RANGE);
    (void)close(right);
    (void)close(small);
    (void)close(loose);
    (void)close(frozen);
    (void)close(file);
}

/* Make blocks [0, count) of a chain, and hold them. */
static void
make_chain(struct kvt_attach *engine, uint32_t chain, uint32_t count, struct kvt_shared *held)
{
    struct kvt_block_info infos[BLOCKS];
    struct kvt_unique fresh[BLOCKS];
    enum kvt_err results[BLOCKS];

    assert_int_equal(kvt_attach_allocate(engine, count, fresh), KVT_OK);
    for (uint32_t i = 0; i < count; i++) {
        infos[i] = attach_bed_name(chain, i);
        attach_bed_fill(kvt_attach_block(engine, fresh[i].handle.block), infos[i].id.hash);
    }
    assert_int_equal(kvt_attach_register(engine, fresh, infos, count, true, held, results), KVT_OK);
    for (uint32_t i = 0; i < count; i++)
        assert_int_equal(results[i], KVT_OK);
}

static void
assert_bytes(struct kvt_attach *engine, uint32_t chain, const struct kvt_shared *held, size_t count)
{
    for (uint32_t i = 0; i < count; i++)
        assert_true(attach_bed_filled(kvt_attach_block(engine, held[i].handle.block),
                                      attach_bed_name(chain, i).id.hash));
}

static struct kvt_attach_stats
stats_of(struct kvt_attach *engine)
{
    struct kvt_attach_stats stats = {.size = sizeof(stats)};

    assert_int_equal(kvt_attach_stats(engine, &stats), KVT_OK);
    return stats;
}

static void
names_of(uint32_t chain, struct kvt_block_info *infos, uint64_t *hashes)
{
    for (uint32_t i = 0; i < CHAIN; i++) {
        infos[i] = attach_bed_name(chain, i);
        hashes[i] = infos[i].id.hash;
    }
}

static void
down_and_up(void **state)
{
    struct kvt_attach *engine = attach_bed_engine(&bed, BLOCKS);
    struct kvt_attach *other = attach_bed_engine(&bed, BLOCKS);
    struct kvt_shared held[CHAIN];
    struct kvt_block_info infos[CHAIN];
    uint64_t hashes[CHAIN];
    uint64_t waiting;
    uint64_t cleared;
    size_t count;
    size_t known;

    (void)state;
    names_of(0, infos, hashes);
    make_chain(engine, 0, CHAIN, held);
    attach_bed_compare(&bed);
    assert_int_equal(stats_of(engine).registered, CHAIN);
    assert_int_equal(kvt_attach_step(engine, &waiting), KVT_OK);
    assert_int_equal(kvt_attach_drain(engine, WAIT), KVT_OK);
    assert_int_equal(stats_of(engine).offloaded, CHAIN);
    assert_int_equal(stats_of(engine).waiting, 0);
    assert_int_equal(kvt_attach_drop(engine, held, CHAIN), KVT_OK);
    /* It rests in G1, and the other engine finds it below. */
    assert_int_equal(kvt_attach_match(engine, hashes, CHAIN, held, &count, &known), KVT_OK);
    assert_true(count == CHAIN && known == CHAIN);
    assert_bytes(engine, 0, held, CHAIN);
    assert_int_equal(kvt_attach_clear(engine, &cleared), KVT_OK);
    assert_int_equal(cleared, 0); /* all are held */
    assert_int_equal(kvt_attach_drop(engine, held, CHAIN), KVT_OK);
    assert_int_equal(kvt_attach_clear(engine, &cleared), KVT_OK);
    assert_int_equal(cleared, CHAIN);
    assert_int_equal(kvt_attach_match(engine, hashes, CHAIN, held, &count, &known), KVT_OK);
    assert_true(count == 0 && known == CHAIN);
    assert_int_equal(kvt_attach_onboard(other, infos, CHAIN, WAIT, held, &count), KVT_OK);
    assert_int_equal(count, CHAIN);
    assert_bytes(other, 0, held, CHAIN);
    attach_bed_compare(&bed);
    /* Wished for, then there. */
    assert_int_equal(kvt_attach_prefetch(engine, infos, CHAIN), KVT_OK);
    while (stats_of(engine).prefetched < CHAIN)
        kvt_clock_sleep_ms(1);
    assert_int_equal(kvt_attach_match(engine, hashes, CHAIN, held, &count, NULL), KVT_OK);
    assert_int_equal(count, CHAIN);
    assert_bytes(engine, 0, held, CHAIN);
    assert_int_equal(stats_of(engine).onboarded, 0);
    kvt_attach_close(engine);
    kvt_attach_close(other);
    attach_bed_rest(&bed);
}

/* Enough chains that the first are in G3 and in the object tier; each comes back whole. */
static void
up_from_every_tier(void **state)
{
    enum { CHAINS = 16 };
    struct kvt_attach *engine = attach_bed_engine(&bed, BLOCKS);
    struct kvt_attach_stats own;
    struct kvbm_attach_stats all;
    struct kvt_shared held[CHAIN];
    struct kvt_block_info infos[CHAIN];
    uint64_t hashes[CHAIN];
    size_t count;

    (void)state;
    for (uint32_t chain = 0; chain < CHAINS; chain++) {
        make_chain(engine, chain, CHAIN, held);
        assert_int_equal(kvt_attach_drain(engine, WAIT), KVT_OK);
        assert_int_equal(kvt_attach_drop(engine, held, CHAIN), KVT_OK);
    }
    assert_true(kvbm_manager_drain(bed.manager, WAIT));
    assert_true(kvbm_pool_stats(bed.below.g3.pool).registered > 0);
    assert_true(bed.objects[attach_bed_name(0, 0).id.hash]);
    for (uint32_t chain = 0; chain < CHAINS; chain++) {
        names_of(chain, infos, hashes);
        assert_int_equal(kvt_attach_onboard(engine, infos, CHAIN, WAIT, held, &count), KVT_OK);
        assert_int_equal(count, CHAIN);
        assert_bytes(engine, chain, held, CHAIN);
        assert_int_equal(kvt_attach_drop(engine, held, CHAIN), KVT_OK);
    }
    names_of(CHAINS, infos, hashes);
    assert_int_equal(kvt_attach_onboard(engine, infos, CHAIN, WAIT, held, &count), KVT_NOTFOUND);
    assert_int_equal(count, 0);
    attach_bed_compare(&bed);
    own = stats_of(engine);
    kvt_attach_close(engine);
    attach_bed_rest(&bed);
    /* What it did is still known when it has left. */
    kvbm_attach_stats(bed.attach, &all);
    assert_int_equal(own.offloaded, CHAINS * CHAIN);
    assert_true(own.onboarded > 0);
    assert_int_equal(all.moved[KVBM_ATTACH_STAT_offloaded], own.offloaded);
    assert_int_equal(all.moved[KVBM_ATTACH_STAT_onboarded], own.onboarded);
    assert_int_equal(all.moved[KVBM_ATTACH_STAT_registered], 0);
}

/* By the use of its blocks the first would go; by lineage none that another continues. */
static void
pools_have_the_workers_order(void **state)
{
    static const struct {
        enum kvt_pool_order order;
        size_t left; /* of the chain, from its start on */
    } rows[] = {{KVT_POOL_ORDER_LRU, 0}, {KVT_POOL_ORDER_LINEAGE, CHAIN - 1}};

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct kvt_attach *engine;
        struct kvt_unique fresh;
        struct kvt_shared held[CHAIN];
        struct kvt_block_info infos[CHAIN];
        uint64_t hashes[CHAIN];
        size_t count;

        bed.below.order = rows[i].order;
        engine = attach_bed_engine(&bed, CHAIN);
        names_of(0, infos, hashes);
        make_chain(engine, 0, CHAIN, held);
        assert_int_equal(kvt_attach_drain(engine, WAIT), KVT_OK);
        assert_int_equal(kvt_attach_drop(engine, held, 1), KVT_OK);
        assert_int_equal(kvt_attach_drop(engine, held + 1, CHAIN - 1), KVT_OK);
        assert_int_equal(kvt_attach_allocate(engine, 1, &fresh), KVT_OK);
        assert_int_equal(kvt_attach_match(engine, hashes, CHAIN, held, &count, NULL), KVT_OK);
        assert_int_equal(count, rows[i].left);
        kvt_attach_close(engine);
        attach_bed_rest(&bed);
    }
}

static void
full_is_an_answer(void **state)
{
    struct kvt_attach *engine = attach_bed_engine(&bed, BLOCKS);
    struct kvt_unique fresh[BLOCKS + 1];
    struct kvt_shared held[CHAIN];
    struct kvt_block_info infos[CHAIN];
    uint64_t hashes[CHAIN];
    size_t count;

    (void)state;
    names_of(0, infos, hashes);
    make_chain(engine, 0, CHAIN, held);
    assert_int_equal(kvt_attach_drain(engine, WAIT), KVT_OK);
    assert_int_equal(kvt_attach_drop(engine, held, CHAIN), KVT_OK);
    assert_int_equal(kvt_attach_allocate(engine, BLOCKS + 1, fresh), KVT_AGAIN);
    assert_int_equal(kvt_attach_allocate(engine, BLOCKS, fresh), KVT_OK);
    assert_int_equal(kvt_attach_allocate(engine, 1, fresh + BLOCKS), KVT_AGAIN);
    assert_int_equal(kvt_attach_onboard(engine, infos, CHAIN, WAIT, held, &count), KVT_AGAIN);
    assert_int_equal(count, 0);
    assert_int_equal(kvt_attach_abandon(engine, fresh, 3), KVT_OK);
    assert_int_equal(kvt_attach_onboard(engine, infos, CHAIN, WAIT, held, &count), KVT_AGAIN);
    assert_int_equal(count, 3);
    assert_bytes(engine, 0, held, count);
    for (int i = 0; i < KVBM_ATTACH_SERVICE_WISHES; i++) {
        const enum kvt_err rc = kvt_attach_prefetch(engine, infos, CHAIN);

        assert_true(rc == KVT_OK || rc == KVT_AGAIN);
    }
    kvt_attach_close(engine);
    attach_bed_rest(&bed);
}

static void
handles_that_are_nobodys(void **state)
{
    struct kvt_attach *engine = attach_bed_engine(&bed, BLOCKS);
    struct kvt_unique fresh[2];
    struct kvt_unique wrong;
    struct kvt_shared held[2];
    struct kvt_shared again;
    struct kvt_block_info infos[2] = {attach_bed_name(0, 0), attach_bed_name(0, 0)};
    enum kvt_err results[2];

    (void)state;
    assert_int_equal(kvt_attach_allocate(engine, 2, fresh), KVT_OK);
    wrong = fresh[0];
    wrong.handle.generation++;
    assert_int_equal(kvt_attach_abandon(engine, &wrong, 1), KVT_INVALID);
    wrong.handle = (struct kvt_handle){UINT32_MAX, 1};
    assert_int_equal(kvt_attach_abandon(engine, &wrong, 1), KVT_INVALID);
    wrong.handle = (struct kvt_handle){0, 0};
    assert_int_equal(kvt_attach_register(engine, &wrong, infos, 1, false, held, results), KVT_OK);
    assert_int_equal(results[0], KVT_INVALID);
    infos[0].id.hash = 0;
    assert_int_equal(kvt_attach_register(engine, fresh, infos, 1, false, held, results), KVT_OK);
    assert_int_equal(results[0], KVT_INVALID);
    infos[0] = attach_bed_name(0, 0);
    /* One name twice: the second is the first. */
    assert_int_equal(kvt_attach_register(engine, fresh, infos, 2, false, held, results), KVT_OK);
    assert_int_equal(results[0], KVT_OK);
    assert_int_equal(results[1], KVT_EXISTS);
    assert_int_equal(held[0].handle.block, held[1].handle.block);
    assert_int_equal(kvt_attach_abandon(engine, &fresh[1], 1), KVT_INVALID);
    again = held[0];
    assert_int_equal(kvt_attach_drop(engine, held, 2), KVT_OK);
    assert_int_equal(kvt_attach_drop(engine, &again, 1), KVT_INVALID);
    assert_int_equal(stats_of(engine).active, 0);
    assert_true(stats_of(engine).refused >= 4);
    kvt_attach_close(engine);
    attach_bed_rest(&bed);
}

static void
worker_goes(void **state)
{
    struct kvt_attach *engine = attach_bed_engine(&bed, BLOCKS);
    struct kvt_unique fresh[2];
    uint64_t waiting;

    (void)state;
    assert_int_equal(kvt_attach_allocate(engine, 2, fresh), KVT_OK);
    kvbm_attach_close(bed.attach);
    bed.attach = NULL;
    assert_int_equal(kvt_attach_step(engine, &waiting), KVT_UNAVAILABLE);
    assert_true(kvt_attach_lost(engine));
    assert_int_equal(kvt_attach_allocate(engine, 1, fresh), KVT_UNAVAILABLE);
    attach_bed_fill(kvt_attach_block(engine, 0), 1); /* the memory is still there */
    kvt_attach_close(engine);
}

/* One that greets and then says nothing. */
static void
worker_is_silent(void **state)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const int listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    struct kvt_attach_options options = {
        .size = sizeof(options), .block_count = 1, .timeout_ms = 100};
    const uint64_t began_ms = kvt_clock_mono_ms();
    char path[sizeof(bed.folder) + 8];
    struct kvt_attach *engine;

    (void)state;
    (void)snprintf(path, sizeof(path), "%s/silent", bed.folder);
    assert_true(strlen(path) < sizeof(address.sun_path));
    memcpy(address.sun_path, path, strlen(path));
    options.socket = path;
    assert_int_equal(bind(listener, (const struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(listen(listener, 1), 0);
    assert_int_equal(kvt_attach_open(&engine, &options, NULL), KVT_TIMEOUT);
    assert_null(engine);
    assert_true(kvt_clock_mono_ms() - began_ms >= 100);
    (void)close(listener);
}

static bool
attempt_desk(void *arg)
{
    struct kvbm_storage *memory = arg;
    struct kvbm_attach_service *service;
    const enum kvt_err rc = kvbm_attach_service_new(
        &service, &(struct kvbm_attach_service_options){.below = &bed.below, .memory = memory},
        NULL);

    assert_true(rc == KVT_OK || (rc == KVT_NOMEM && service == NULL));
    kvbm_attach_service_free(service);
    return rc == KVT_OK;
}

/* Engine and worker are one process here: an allocation of either side fails. */
static bool
attempt_attach(void *arg)
{
    const size_t live = *(const size_t *)arg;
    const uint64_t until_ms = kvt_clock_mono_ms() + WAIT;
    struct kvt_attach_options options = {
        .size = sizeof(options), .socket = bed.path, .block_count = 4, .timeout_ms = WAIT};
    struct kvt_attach *engine;
    const enum kvt_err rc = kvt_attach_open(&engine, &options, NULL);

    assert_true((rc == KVT_OK) == (engine != NULL));
    kvt_attach_close(engine);
    attach_bed_rest(&bed);
    while (kvt_alloc_live() != live && kvt_clock_mono_ms() < until_ms)
        kvt_clock_sleep_ms(1); /* the worker's side goes by itself */
    return rc == KVT_OK;
}

static void
both_sides_survive_failing_allocations(void **state)
{
    size_t live = kvt_alloc_live();

    (void)state;
    assert_true(test_sweep_allocations(attempt_attach, &live) > 4);
    kvt_attach_close(attach_bed_engine(&bed, BLOCKS)); /* and the worker lets in whoever comes */
    attach_bed_rest(&bed);
}

static void
survives_failing_allocations(void **state)
{
    struct kvbm_storage *memory;

    (void)state;
    assert_int_equal(
        kvbm_storage_open_memory(&memory, KVBM_STORAGE_DEVICE, BLOCKS, ATTACH_BED_SIZE, NULL),
        KVT_OK);
    assert_true(test_sweep_allocations(attempt_desk, memory) > 4);
    kvbm_storage_close(memory);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(who_is_let_in, setup, teardown),
        cmocka_unit_test_setup_teardown(hellos_that_are_none, setup, teardown),
        cmocka_unit_test_setup_teardown(down_and_up, setup, teardown),
        cmocka_unit_test_setup_teardown(up_from_every_tier, setup, teardown),
        cmocka_unit_test_setup_teardown(pools_have_the_workers_order, setup, teardown),
        cmocka_unit_test_setup_teardown(full_is_an_answer, setup, teardown),
        cmocka_unit_test_setup_teardown(handles_that_are_nobodys, setup, teardown),
        cmocka_unit_test_setup_teardown(worker_goes, setup, teardown),
        cmocka_unit_test_setup_teardown(worker_is_silent, setup, teardown),
        cmocka_unit_test_setup_teardown(survives_failing_allocations, setup, teardown),
        cmocka_unit_test_setup_teardown(both_sides_survive_failing_allocations, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
