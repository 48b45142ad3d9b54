/*
 * What is tested: engine/remote.h, when one of the two sides is another one than before.
 */
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"

#include "engine/remote.h"
#include "engine/rpc.h"
#include "tests/support/seed.h"
#include "tests/unit/engine/fake_worker.h"
#include "tests/unit/engine/rank_bed.h"

#define PEER 7
#define WAIT 10000

struct door {
    char folder[200];
    char endpoint[ENGINE_RPC_ENDPOINT_MAX];
    struct engine_worker *fake;
    struct engine_serve *serve;
    struct engine_worker *remote;
    _Atomic unsigned restarts;
};

static void
note_restart(void *arg)
{
    atomic_fetch_add(&((struct door *)arg)->restarts, 1);
}

static void
serve(struct door *door, uint32_t rank)
{
    const struct fake_options options = {
        .layout = rank_bed_layout(2, rank),
        .blocks = {[KVT_TIER_G1] = SUITE_BLOCKS, [KVT_TIER_G2] = SUITE_BLOCKS},
        .ending = FAKE_AT_ONCE,
        .seed = test_seed(),
    };

    door->fake = fake_worker_open(&options);
    assert_non_null(door->fake);
    fake_worker_write(door->fake, KVT_TIER_G1, 0, 3, 0, 0);
    assert_int_equal(engine_serve_open(&door->serve, door->fake, door->endpoint, NULL), KVT_OK);
}

static void
serve_no_more(struct door *door)
{
    engine_serve_close(door->serve);
    engine_worker_close(door->fake);
}

static void
lead(struct door *door)
{
    const struct engine_remote_options options = {
        .endpoint = door->endpoint, .wait_ms = WAIT, .restarted = note_restart, .arg = door};

    assert_int_equal(engine_remote_open(&door->remote, &options, NULL), KVT_OK);
}

static void
door_open(struct door *door, uint32_t rank)
{
    memset(door, 0, sizeof(*door));
    (void)test_folder_make(door->folder, sizeof(door->folder));
    (void)snprintf(door->endpoint, sizeof(door->endpoint), "ipc://%.180s/worker", door->folder);
    serve(door, rank);
    lead(door);
}

static void
door_close(struct door *door)
{
    engine_worker_close(door->remote);
    serve_no_more(door);
    test_folder_remove(door->folder);
}

static enum kvt_err
copy(struct engine_worker *worker)
{
    struct engine_item item = {suite_label(3), 0, 1, KVT_ERR_COUNT};
    struct engine_job job = {.verb = ENGINE_COPY,
                             .from = KVT_TIER_G1,
                             .to = KVT_TIER_G2,
                             .wait_ms = WAIT,
                             .items = &item,
                             .count = 1};

    return engine_worker_run(worker, &job, NULL);
}

/* Another rank has other bytes under the same names. */
static void
another_rank_is_no_replacement(void **state)
{
    static const uint32_t ranks[] = {0, 1};
    struct door door;

    (void)state;
    door_open(&door, 1);
    for (unsigned i = 0; i < 2; i++) {
        const unsigned before = atomic_load(&door.restarts);
        enum kvt_err rc = KVT_UNAVAILABLE;

        serve_no_more(&door);
        serve(&door, ranks[i]);
        for (unsigned k = 0; k < WAIT && atomic_load(&door.restarts) == before; k++)
            kvt_clock_sleep_ms(1);
        /* What comes right behind restarted() may still be refused. */
        for (unsigned k = 0; k < 100 && rc != KVT_OK; k++) {
            rc = copy(door.remote);
            kvt_clock_sleep_ms(1);
        }
        assert_int_equal(rc, ranks[i] == 1 ? KVT_OK : KVT_UNAVAILABLE);
        assert_int_equal(fake_worker_jobs(door.fake, ENGINE_COPY), ranks[i] == 1 ? 1 : 0);
    }
    door_close(&door);
}

/* Whoever leads next is not in the way of what the one before was connected to. */
static void
a_new_leader_finds_nobody_connected(void **state)
{
    struct engine_worker *before;
    struct kvt_buffer metadata;
    struct kvt_error err;
    struct door peer;
    struct door door;

    (void)state;
    door_open(&door, 1);
    door_open(&peer, 1);
    for (unsigned i = 0; i < 3; i++) {
        kvt_buffer_init(&metadata, ENGINE_METADATA_MAX);
        assert_int_equal(engine_worker_describe(peer.fake, &metadata, WAIT, NULL), KVT_OK);
        if (engine_worker_connect(door.remote, PEER, metadata.data, metadata.size, WAIT, &err) !=
            KVT_OK)
            fail_msg("%s", err.text);
        kvt_buffer_release(&metadata);
        serve_no_more(&peer); /* the peer is another process, too */
        serve(&peer, 1);
        before = door.remote;
        kvt_clock_sleep_ms(2); /* clients rise by the millisecond */
        lead(&door);
        engine_worker_close(before);
    }
    door_close(&peer);
    door_close(&door);
}

static uint64_t longest_ms;

static enum kvt_err
note_wait(struct engine_worker *worker, uint64_t peer, const uint8_t *bytes, size_t size,
          uint64_t wait_ms, struct kvt_error *err)
{
    (void)worker;
    (void)peer;
    (void)bytes;
    (void)size;
    longest_ms = wait_ms;
    return kvt_error_set(err, KVT_TIMEOUT, "nobody answers");
}

/* A server that is closed waits for its handlers only so long. */
static void
nobody_waits_longer_than_closing_does(void **state)
{
    struct engine_worker_ops ops;
    struct door door;

    (void)state;
    door_open(&door, 1);
    ops = *door.fake->ops;
    ops.connect = note_wait;
    door.fake->ops = &ops;
    assert_int_equal(engine_worker_connect(door.remote, PEER, (const uint8_t *)"x", 1,
                                           10 * ENGINE_RPC_CLOSE_MS, NULL),
                     KVT_TIMEOUT);
    assert_in_range(longest_ms, 1, ENGINE_RPC_CLOSE_MS / 2);
    door_close(&door);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(another_rank_is_no_replacement),
        cmocka_unit_test(a_new_leader_finds_nobody_connected),
        cmocka_unit_test(nobody_waits_longer_than_closing_does),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
