/* engine/rank/rank_client.h: a worker behind another process's door. */
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/core/random.h"

#include "engine/rank/group.h"
#include "engine/rank/rank_client.h"
#include "engine/rank/rank_messages.h"
#include "engine/rpc/rpc.h"
#include "tests/support/seed.h"
#include "tests/unit/engine/support/content.h"
#include "tests/unit/engine/support/fake_worker.h"
#include "tests/unit/engine/support/rank_bed.h"

#define PEER 7
#define WAIT 10000

struct place {
    char folder[200];
    char endpoint[ENGINE_RPC_ENDPOINT_MAX];
};

static void
place_make(struct place *place)
{
    (void)test_folder_make(place->folder, sizeof(place->folder));
    assert_true(snprintf(place->endpoint, sizeof(place->endpoint), "ipc://%s/worker",
                         place->folder) < (int)sizeof(place->endpoint));
}

static struct engine_worker *
open_at(const char *endpoint)
{
    const struct engine_rank_client_options options = {.endpoint = endpoint, .wait_ms = WAIT};
    struct engine_worker *worker;

    assert_int_equal(engine_rank_client_open(&worker, &options, NULL), KVT_OK);
    return worker;
}

/* Two processes share no memory; here their bytes are looked at in both.  A *tap* on the way to a
 * worker says to who watches threads what the messages between them do: that one comes after the
 * other. */
struct tap {
    struct engine_worker head;
    struct engine_worker *inner;
};

struct tapped {
    struct engine_job *job;
    engine_done_fn *done;
    void *arg;
};

static pthread_mutex_t order = PTHREAD_MUTEX_INITIALIZER;

static void
in_order(void)
{
    (void)pthread_mutex_lock(&order);
    (void)pthread_mutex_unlock(&order);
}

static void
tap_done(void *arg, const struct engine_outcome *outcome)
{
    struct tapped *tapped = arg;
    const struct tapped held = *tapped;

    kvt_free(tapped);
    in_order();
    held.job->done = held.done;
    held.job->arg = held.arg;
    held.done(held.arg, outcome);
}

static enum kvt_err
tap_start(struct engine_worker *worker, struct engine_job *job)
{
    struct tapped *tapped = kvt_calloc(1, sizeof(*tapped));
    enum kvt_err rc;

    assert_non_null(tapped);
    *tapped = (struct tapped){job, job->done, job->arg};
    job->done = tap_done;
    job->arg = tapped;
    in_order();
    rc = engine_worker_start(((struct tap *)worker)->inner, job);
    if (rc != KVT_OK)
        kvt_free(tapped);
    return rc;
}

static void
tap_cancel(struct engine_worker *worker, struct engine_job *job)
{
    engine_worker_cancel(((struct tap *)worker)->inner, job);
}

static enum kvt_err
tap_describe(struct engine_worker *worker, struct kvt_buffer *out, uint64_t wait_ms,
             struct kvt_error *err)
{
    return engine_worker_describe(((struct tap *)worker)->inner, out, wait_ms, err);
}

static enum kvt_err
tap_connect(struct engine_worker *worker, uint64_t peer, const uint8_t *bytes, size_t size,
            uint64_t wait_ms, struct kvt_error *err)
{
    return engine_worker_connect(((struct tap *)worker)->inner, peer, bytes, size, wait_ms, err);
}

static void
tap_disconnect(struct engine_worker *worker, uint64_t peer)
{
    engine_worker_disconnect(((struct tap *)worker)->inner, peer);
}

static void
tap_open(struct tap *tap, struct engine_worker *inner)
{
    static const struct engine_worker_ops ops = {
        .kind = "tap",
        .start = tap_start,
        .cancel = tap_cancel,
        .describe = tap_describe,
        .connect = tap_connect,
        .disconnect = tap_disconnect,
    };

    tap->head = *inner;
    tap->head.ops = &ops;
    tap->inner = inner;
}

static struct suite_side bare; /* what is behind ordered_side() */

static void
write_in_order(void *arg, enum kvt_tier tier, uint32_t block, uint64_t number)
{
    (void)pthread_mutex_lock(&order);
    bare.write(arg, tier, block, number);
    (void)pthread_mutex_unlock(&order);
}

static bool
is_in_order(void *arg, enum kvt_tier tier, uint32_t block, uint64_t number)
{
    bool is;

    (void)pthread_mutex_lock(&order);
    is = bare.is(arg, tier, block, number);
    (void)pthread_mutex_unlock(&order);
    return is;
}

static struct suite_side
ordered_side(struct engine_worker *worker, struct rank_bed_side *side)
{
    bare = rank_bed_side(worker, side);
    return (struct suite_side){worker, bare.arg, write_in_order, is_in_order};
}

/* What a rank does, it does over there. */
static void
does_what_workers_do(void **state)
{
    struct kvbm_layout layout = rank_bed_layout(1, 0);
    struct place places[2];
    struct rank_bed beds[2];
    struct rank_bed_side sides[2];
    struct engine_rank_server *serves[2];
    struct engine_worker *workers[2];
    struct engine_fabric *fabric;
    struct tap taps[2];
    struct kvbm_volumes *volumes;
    struct kvt_buffer metadata;

    (void)state;
    kvt_buffer_init(&metadata, ENGINE_METADATA_MAX);
    assert_int_equal(engine_fabric_open(&fabric, &(struct engine_fabric_options){0}, NULL), KVT_OK);
    assert_int_equal(kvbm_volumes_new(&volumes, NULL), KVT_OK);
    for (size_t i = 0; i < 2; i++) {
        place_make(&places[i]);
        assert_int_equal(rank_bed_open(&beds[i], &layout, fabric, volumes), KVT_OK);
        tap_open(&taps[i], beds[i].worker);
        assert_int_equal(
            engine_rank_server_open(&serves[i], &taps[i].head, places[i].endpoint, NULL), KVT_OK);
        workers[i] = open_at(places[i].endpoint);
        assert_int_equal(workers[i]->blocks[KVT_TIER_G3], RANK_BED_BLOCKS);
        sides[i] = (struct rank_bed_side){&beds[i], 1};
    }
    assert_int_equal(engine_worker_describe(workers[1], &metadata, WAIT, NULL), KVT_OK);
    assert_int_equal(
        engine_worker_connect(workers[0], PEER, metadata.data, metadata.size, WAIT, NULL), KVT_OK);
    worker_suite_run(&(struct suite_world){
        .own = ordered_side(workers[0], &sides[0]),
        .peer = ordered_side(workers[1], &sides[1]),
        .peer_number = PEER,
        .seed = test_seed(),
        .steps = 1500 / TEST_ALONE_SHARE,
    });
    engine_worker_disconnect(workers[0], PEER);
    for (size_t i = 0; i < 2; i++) {
        engine_worker_close(workers[i]);
        engine_rank_server_close(serves[i]);
        rank_bed_close(&beds[i]);
        test_folder_remove(places[i].folder);
    }
    kvt_buffer_release(&metadata);
    kvbm_volumes_free(volumes);
    engine_fabric_close(fabric);
}

/* Two ranks in other processes, as one, beside four of another instance. */
static void
groups_pull_other_tp_sizes(void **state)
{
    struct engine_worker *workers[2];
    struct engine_worker *others[4];
    struct engine_worker *own;
    struct engine_worker *peer;
    struct engine_rank_server *serves[2];
    struct rank_bed beds[2];
    struct rank_bed other_beds[4];
    struct rank_bed_side sides[2] = {{beds, 2}, {other_beds, 4}};
    struct engine_fabric *fabric;
    struct kvbm_volumes *volumes;
    struct kvt_buffer metadata;
    struct place places[2];
    struct tap taps[2];

    (void)state;
    kvt_buffer_init(&metadata, ENGINE_METADATA_MAX);
    assert_int_equal(engine_fabric_open(&fabric, &(struct engine_fabric_options){0}, NULL), KVT_OK);
    assert_int_equal(kvbm_volumes_new(&volumes, NULL), KVT_OK);
    for (uint32_t r = 0; r < 2; r++) {
        const struct kvbm_layout layout = rank_bed_layout(2, r);

        place_make(&places[r]);
        assert_int_equal(rank_bed_open(&beds[r], &layout, fabric, volumes), KVT_OK);
        tap_open(&taps[r], beds[r].worker);
        assert_int_equal(
            engine_rank_server_open(&serves[r], &taps[r].head, places[r].endpoint, NULL), KVT_OK);
        workers[r] = open_at(places[r].endpoint);
    }
    for (uint32_t r = 0; r < 4; r++) {
        const struct kvbm_layout layout = rank_bed_layout(4, r);

        assert_int_equal(rank_bed_open(&other_beds[r], &layout, fabric, NULL), KVT_OK);
        others[r] = other_beds[r].worker;
        other_beds[r].worker = NULL; /* the group's */
    }
    assert_int_equal(engine_group_open(&own, workers, 2, NULL), KVT_OK);
    assert_int_equal(engine_group_open(&peer, others, 4, NULL), KVT_OK);
    assert_int_equal(engine_worker_describe(peer, &metadata, WAIT, NULL), KVT_OK);
    assert_int_equal(engine_worker_connect(own, PEER, metadata.data, metadata.size, WAIT, NULL),
                     KVT_OK);
    worker_suite_run(&(struct suite_world){
        .own = ordered_side(own, &sides[0]),
        .peer = ordered_side(peer, &sides[1]),
        .peer_number = PEER,
        .seed = test_seed(),
        .steps = 1000 / TEST_ALONE_SHARE,
    });
    engine_worker_close(own);
    engine_worker_close(peer);
    for (uint32_t r = 0; r < 2; r++) {
        engine_rank_server_close(serves[r]);
        rank_bed_close(&beds[r]);
        test_folder_remove(places[r].folder);
    }
    for (uint32_t r = 0; r < 4; r++)
        rank_bed_close(&other_beds[r]);
    kvt_buffer_release(&metadata);
    kvbm_volumes_free(volumes);
    engine_fabric_close(fabric);
}

/* With a fake over there. */
struct door {
    struct place place;
    struct engine_worker *fake;
    struct engine_rank_server *serve;
    struct engine_worker *remote;
};

static struct engine_worker *
open_fake(enum fake_ending ending)
{
    const struct fake_options options = {
        .layout = rank_bed_layout(2, 1),
        .blocks = {[KVT_TIER_G1] = SUITE_BLOCKS, [KVT_TIER_G2] = SUITE_BLOCKS},
        .ending = ending,
        .delay_us = 1000,
        .seed = test_seed(),
    };

    return fake_worker_open(&options);
}

static void
door_open(struct door *door, enum fake_ending ending)
{
    place_make(&door->place);
    door->fake = open_fake(ending);
    assert_non_null(door->fake);
    assert_int_equal(engine_rank_server_open(&door->serve, door->fake, door->place.endpoint, NULL),
                     KVT_OK);
    door->remote = open_at(door->place.endpoint);
}

static void
door_close(struct door *door)
{
    engine_worker_close(door->remote);
    engine_rank_server_close(door->serve);
    engine_worker_close(door->fake);
    test_folder_remove(door->place.folder);
}

struct end {
    _Atomic unsigned times;
    _Atomic int status;
    uint64_t at_ms;
    char text[KVT_ERROR_TEXT_MAX];
};

static void
note_end(void *arg, const struct engine_outcome *outcome)
{
    struct end *end = arg;

    end->at_ms = kvt_clock_mono_ms();
    (void)snprintf(end->text, sizeof(end->text), "%s", outcome->error.text);
    atomic_store(&end->status, (int)outcome->status);
    atomic_fetch_add(&end->times, 1);
}

static void
wait_end(const struct end *end)
{
    for (unsigned i = 0; i < WAIT && atomic_load(&end->times) == 0; i++)
        kvt_clock_sleep_ms(1);
    assert_int_equal(atomic_load(&end->times), 1);
}

static struct engine_job
copy_job(struct engine_item *item, struct end *end)
{
    memset(end, 0, sizeof(*end));
    *item = (struct engine_item){suite_label(3), 0, 1, KVT_ERR_COUNT};
    return (struct engine_job){
        .verb = ENGINE_COPY,
        .from = KVT_TIER_G1,
        .to = KVT_TIER_G2,
        .wait_ms = UINT64_MAX,
        .items = item,
        .count = 1,
        .done = note_end,
        .arg = end,
    };
}

static void
wait_jobs(struct engine_worker *fake, size_t count)
{
    for (unsigned i = 0; i < WAIT && fake_worker_waiting(fake) != count; i++)
        kvt_clock_sleep_ms(1);
    assert_int_equal(fake_worker_waiting(fake), count);
}

static void
errors_come_in_words(void **state)
{
    struct engine_outcome outcome;
    struct engine_item item;
    struct engine_job job;
    struct kvt_error err;
    struct door door;
    struct end end;

    (void)state;
    door_open(&door, FAKE_LATER);
    fake_worker_write(door.fake, KVT_TIER_G1, 0, 3, 0, 0);
    fake_worker_fail(door.fake, ENGINE_COPY, 1, KVT_CORRUPT);
    job = copy_job(&item, &end);
    assert_int_equal(engine_worker_run(door.remote, &job, &outcome), KVT_CORRUPT);
    assert_int_equal(item.status, KVT_CORRUPT);
    assert_int_equal(outcome.ranks, 1);
    assert_int_equal(outcome.by_rank[0], KVT_CORRUPT);
    assert_non_null(strstr(outcome.error.text, "rank 1: copy: block 1"));
    assert_int_equal(
        engine_worker_connect(door.remote, 1, (const uint8_t *)"nonsense", 8, WAIT, &err),
        KVT_INVALID);
    assert_non_null(strstr(err.text, "fake: no description"));
    door_close(&door);
}

/* A cancel is carried out over there, and the job ends when it has. */
static void
cancels_are_carried_out(void **state)
{
    struct engine_item item;
    struct engine_job job;
    struct door door;
    struct end end;

    (void)state;
    door_open(&door, FAKE_WHEN_TOLD);
    fake_worker_write(door.fake, KVT_TIER_G1, 0, 3, 0, 0);
    job = copy_job(&item, &end);
    assert_int_equal(engine_worker_start(door.remote, &job), KVT_OK);
    wait_jobs(door.fake, 1);
    engine_worker_cancel(door.remote, &job);
    wait_end(&end);
    assert_int_equal(end.status, KVT_CANCELLED);
    assert_int_equal(item.status, KVT_CANCELLED);
    engine_worker_cancel(door.remote, &job); /* in vain */
    door_close(&door);
}

/* The leader that came last owns the worker; what the one before has under way is over first. */
static void
a_newer_leader_takes_over(void **state)
{
    struct engine_item items[2];
    struct engine_job jobs[2];
    struct engine_worker *newer;
    struct end ends[2];
    struct door door;
    enum kvt_err rc;

    (void)state;
    door_open(&door, FAKE_WHEN_TOLD);
    fake_worker_write(door.fake, KVT_TIER_G1, 0, 3, 0, 0);
    jobs[0] = copy_job(&items[0], &ends[0]);
    assert_int_equal(engine_worker_start(door.remote, &jobs[0]), KVT_OK);
    wait_jobs(door.fake, 1);
    kvt_clock_sleep_ms(2); /* numbers rise by the millisecond */
    newer = open_at(door.place.endpoint);
    for (unsigned i = 0; i < 3; i++) {
        jobs[1] = copy_job(&items[1], &ends[1]);
        rc = engine_worker_start(newer, &jobs[1]);
        assert_int_equal(rc, KVT_OK);
        if (i == 0) {
            wait_end(&ends[1]);
            assert_int_equal(ends[1].status, KVT_AGAIN);
            wait_end(&ends[0]);
            assert_int_equal(ends[0].status, KVT_CANCELLED);
        } else {
            wait_jobs(door.fake, 1);
            assert_true(fake_worker_step(door.fake));
            wait_end(&ends[1]);
            assert_int_equal(ends[1].status, KVT_OK);
        }
    }
    assert_int_equal(engine_worker_run(door.remote, &jobs[0], NULL), KVT_DENIED);
    engine_worker_close(newer);
    door_close(&door);
}

/* What nobody of us would say is refused, and changes nothing. */
static void
nonsense_is_refused(void **state)
{
    struct engine_rpc_client *client;
    struct kvt_buffer good;
    struct engine_item item;
    struct engine_job job;
    struct door door;
    struct end end;
    uint64_t random = test_seed();

    (void)state;
    door_open(&door, FAKE_AT_ONCE);
    fake_worker_write(door.fake, KVT_TIER_G1, 0, 3, 0, 0);
    assert_int_equal(
        engine_rpc_client_open(
            &client, &(struct engine_rpc_client_options){.endpoint = door.place.endpoint}, NULL),
        KVT_OK);
    assert_int_equal(engine_rpc_client_wait(client, WAIT), KVT_OK);
    kvt_buffer_init(&good, 4096);
    job = copy_job(&item, &end);
    engine_rank_message_write_job(&good, &(struct engine_rank_message_head){.life = 1, .number = 1},
                                  &job);
    for (unsigned i = 0; i < 600; i++) {
        const uint32_t method =
            (uint32_t)(ENGINE_RANK_MESSAGE_ABOUT + i % (ENGINE_RANK_MESSAGE_DISCONNECT + 1));
        uint8_t bytes[256];
        size_t size = kvt_random_below(&random, good.size + 1);
        enum kvt_err rc;

        memcpy(bytes, good.data, good.size);
        if (size > 0)
            bytes[kvt_random_below(&random, size)] ^= (uint8_t)(1 + kvt_random_below(&random, 255));
        rc = engine_rpc_run(client,
                            &(struct engine_rpc_request){
                                .method = method, .bytes = bytes, .size = size, .wait_ms = WAIT},
                            NULL, NULL);
        assert_true(rc == KVT_INVALID || rc == KVT_UNAVAILABLE || rc == KVT_DENIED ||
                    rc == KVT_UNSUPPORTED);
    }
    assert_int_equal(engine_worker_run(door.remote, &job, NULL), KVT_OK);
    assert_int_equal(fake_worker_jobs(door.fake, ENGINE_COPY), 1);
    kvt_buffer_release(&good);
    engine_rpc_client_close(client);
    door_close(&door);
}

static enum kvt_err
ask_raw(struct engine_rpc_client *client, enum engine_rank_message_method method,
        const struct kvt_buffer *bytes, struct kvt_buffer *answer)
{
    return engine_rpc_run(
        client,
        &(struct engine_rpc_request){
            .method = method, .bytes = bytes->data, .size = bytes->size, .wait_ms = WAIT},
        answer, NULL);
}

/* What is meant for the process before is not done by the one after it. */
static void
another_life_is_refused(void **state)
{
    struct engine_rank_message_head head = {.client = UINT64_MAX - 1, .number = 1};
    struct engine_rpc_client *client;
    struct engine_rank_message_about about;
    struct kvt_buffer answer;
    struct kvt_buffer bytes;
    struct engine_item item;
    struct engine_job job;
    struct door door;
    struct end end;

    (void)state;
    door_open(&door, FAKE_AT_ONCE);
    fake_worker_write(door.fake, KVT_TIER_G1, 0, 3, 0, 0);
    assert_int_equal(
        engine_rpc_client_open(
            &client, &(struct engine_rpc_client_options){.endpoint = door.place.endpoint}, NULL),
        KVT_OK);
    assert_int_equal(engine_rpc_client_wait(client, WAIT), KVT_OK);
    kvt_buffer_init(&bytes, 4096);
    kvt_buffer_init(&answer, 4096);
    engine_rank_message_write(&bytes, ENGINE_RANK_MESSAGE_ABOUT, &head);
    assert_int_equal(ask_raw(client, ENGINE_RANK_MESSAGE_ABOUT, &bytes, &answer), KVT_OK);
    assert_int_equal(engine_rank_message_read_about(&about, answer.data, answer.size), KVT_OK);
    for (unsigned i = 0; i < 2; i++) {
        kvt_buffer_clear(&bytes);
        head.life = about.life - (i == 0 ? 1 : 0);
        job = copy_job(&item, &end);
        engine_rank_message_write_job(&bytes, &head, &job);
        assert_int_equal(ask_raw(client, ENGINE_RANK_MESSAGE_JOB, &bytes, NULL),
                         i == 0 ? KVT_UNAVAILABLE : KVT_OK);
        assert_int_equal(fake_worker_jobs(door.fake, ENGINE_COPY), i);
    }
    kvt_buffer_release(&bytes);
    kvt_buffer_release(&answer);
    engine_rpc_client_close(client);
    door_close(&door);
}

static bool
open_and_use(void *arg)
{
    struct door *door = arg;
    const struct engine_rank_client_options options = {.endpoint = door->place.endpoint,
                                                       .wait_ms = 500};
    struct engine_rank_server *serve;
    struct engine_worker *remote = NULL;
    struct kvt_buffer metadata;
    struct engine_item item;
    struct engine_job job;
    struct end end;
    bool well;

    if (engine_rank_server_open(&serve, door->fake, door->place.endpoint, NULL) != KVT_OK)
        return false;
    job = copy_job(&item, &end);
    kvt_buffer_init(&metadata, ENGINE_METADATA_MAX);
    well = engine_rank_client_open(&remote, &options, NULL) == KVT_OK &&
           engine_worker_run(remote, &job, NULL) == KVT_OK &&
           engine_worker_describe(remote, &metadata, WAIT, NULL) == KVT_OK &&
           engine_worker_connect(remote, PEER, metadata.data, metadata.size, WAIT, NULL) == KVT_OK;
    if (remote != NULL)
        engine_worker_disconnect(remote, PEER);
    engine_worker_close(remote);
    engine_rank_server_close(serve);
    kvt_buffer_release(&metadata);
    return well;
}

/* On either side of the door. */
static void
survives_failing_allocations(void **state)
{
    struct door door;

    (void)state;
    place_make(&door.place);
    door.fake = open_fake(FAKE_AT_ONCE);
    assert_non_null(door.fake);
    fake_worker_write(door.fake, KVT_TIER_G1, 0, 3, 0, 0);
    assert_true(test_sweep_allocations(open_and_use, &door) > 10);
    engine_worker_close(door.fake);
    test_folder_remove(door.place.folder);
}

/* Another process -------------------------------------------------------------------------- */

static const char *self;

static pid_t
serve_elsewhere(const char *endpoint)
{
    char name[] = "remote_test";
    char flag[] = "--serve";
    char where[ENGINE_RPC_ENDPOINT_MAX];
    char *const argv[] = {name, flag, where, NULL};
    pid_t child = -1;

    (void)snprintf(where, sizeof(where), "%s", endpoint);
    assert_int_equal(posix_spawn(&child, self, NULL, NULL, argv, environ), 0);
    return child;
}

/* Block 0 of G1 has content; copies out of it end at once, those of G2 never. */
static int
serve_here(const char *endpoint)
{
    struct engine_worker *fake = open_fake(FAKE_LATER);
    struct engine_rank_server *serve;

    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (fake == NULL || engine_rank_server_open(&serve, fake, endpoint, NULL) != KVT_OK)
        return 1;
    fake_worker_write(fake, KVT_TIER_G1, 0, 3, 0, 0);
    fake_worker_write(fake, KVT_TIER_G2, 0, 3, 0, 0);
    fake_worker_fail(fake, ENGINE_HIDE, 2, KVT_TIMEOUT); /* stalls */
    for (;;)
        kvt_clock_sleep_ms(1000);
}

static void
note_restart(void *arg)
{
    atomic_fetch_add((_Atomic unsigned *)arg, 1);
}

/* A process that is killed ends its jobs soon; the one after it is another. */
static void
a_killed_process_is_noticed(void **state)
{
    _Atomic unsigned restarts = 0;
    struct engine_worker *remote;
    struct engine_item item;
    struct engine_job job;
    struct place place;
    struct end end;
    uint64_t since;
    pid_t child;

    (void)state;
    place_make(&place);
    child = serve_elsewhere(place.endpoint);
    assert_int_equal(engine_rank_client_open(&remote,
                                             &(struct engine_rank_client_options){
                                                 .endpoint = place.endpoint,
                                                 .wait_ms = WAIT,
                                                 .restarted = note_restart,
                                                 .arg = &restarts,
                                             },
                                             NULL),
                     KVT_OK);
    for (unsigned life = 0; life < 2; life++) {
        job = copy_job(&item, &end);
        assert_int_equal(engine_worker_run(remote, &job, NULL), KVT_OK);
        job.verb = ENGINE_HIDE;
        assert_int_equal(engine_worker_run(remote, &job, NULL), KVT_OK);
        job = copy_job(&item, &end);
        job.verb = ENGINE_HIDE;
        assert_int_equal(engine_worker_start(remote, &job), KVT_OK);
        kvt_clock_sleep_ms(50);
        assert_int_equal(end.times, 0);
        since = kvt_clock_mono_ms();
        assert_int_equal(kill(child, SIGKILL), 0);
        assert_int_equal(waitpid(child, NULL, 0), child);
        wait_end(&end);
        assert_int_equal(end.status, KVT_UNAVAILABLE);
        assert_true(end.at_ms - since < 5000);
        assert_non_null(strstr(end.text, "rank 1 in another process: hide"));
        assert_int_equal(atomic_load(&restarts), life);

        child = serve_elsewhere(place.endpoint);
        for (unsigned i = 0; i < WAIT && atomic_load(&restarts) == life; i++) {
            job = copy_job(&item, &end);
            assert_true(engine_worker_run(remote, &job, NULL) != KVT_OK ||
                        atomic_load(&restarts) > life);
            kvt_clock_sleep_ms(1);
        }
        assert_int_equal(atomic_load(&restarts), life + 1);
        /* What comes right behind restarted() may still be refused. */
        for (unsigned i = 0; i < WAIT; i++) {
            job = copy_job(&item, &end);
            if (engine_worker_run(remote, &job, NULL) == KVT_OK)
                break;
            kvt_clock_sleep_ms(1);
        }
        assert_int_equal(item.status, KVT_OK);
    }
    engine_worker_close(remote);
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, NULL, 0), child);
    test_folder_remove(place.folder);
}

static void
nobody_there_is_said(void **state)
{
    struct engine_worker *remote;
    struct kvt_error err;
    struct place place;
    enum kvt_err rc;

    (void)state;
    place_make(&place);
    rc = engine_rank_client_open(
        &remote, &(struct engine_rank_client_options){.endpoint = place.endpoint, .wait_ms = 50},
        &err);
    assert_true(rc == KVT_UNAVAILABLE || rc == KVT_TIMEOUT);
    assert_null(remote);
    rc = engine_rank_client_open(
        &remote, &(struct engine_rank_client_options){.endpoint = "nowhere", .wait_ms = 50}, &err);
    assert_int_equal(rc, KVT_INVALID);
    test_folder_remove(place.folder);
}

int
main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(groups_pull_other_tp_sizes),   cmocka_unit_test(does_what_workers_do),
        cmocka_unit_test(errors_come_in_words),         cmocka_unit_test(cancels_are_carried_out),
        cmocka_unit_test(a_newer_leader_takes_over),    cmocka_unit_test(nonsense_is_refused),
        cmocka_unit_test(a_killed_process_is_noticed),  cmocka_unit_test(another_life_is_refused),
        cmocka_unit_test(survives_failing_allocations), cmocka_unit_test(nobody_there_is_said),
    };

    self = argv[0];
    if (argc == 3 && strcmp(argv[1], "--serve") == 0)
        return serve_here(argv[2]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
