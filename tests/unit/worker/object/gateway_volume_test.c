/*
 * What is tested: worker/object/gateway_volume.h against a real kvtier-gateway that is killed and
 * comes back while blocks are put and read.
 *
 * How: who puts notes what was acknowledged.  While the gateway is away a get is no answer; once it
 * is back, everything acknowledged is there and right, and another layout finds none of it.
 */
#include <arpa/inet.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/core/file.h"
#include "base/core/random.h"
#include "kvbm/transfer/transfer_manager.h"
#include "kvbm/volume/volume_storage.h"

#include "tests/unit/kvbm/support/volume_bed.h"
#include "worker/object/gateway_volume.h"

enum { DEADLINE = 60000, KILLS = 3, VOLUME = WORKER_GATEWAY_VOLUME_DOWN };

struct gateway {
    char folder[256];
    char port[8];
    pid_t pid;
};

static void
pick_port(char port[8])
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t size = sizeof(address);
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, size), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &size), 0);
    (void)snprintf(port, 8, "%u", (unsigned)ntohs(address.sin_port));
    (void)close(fd);
}

static void
gateway_start(struct gateway *gateway)
{
    char cold[300];
    char hot[300];
    char state[300];
    char credentials[320];
    char port[32];

    (void)snprintf(cold, sizeof(cold), "--cold-dir=%s/cold", gateway->folder);
    (void)snprintf(hot, sizeof(hot), "--hot-dir=%s/hot", gateway->folder);
    (void)snprintf(state, sizeof(state), "--state-dir=%s/state", gateway->folder);
    (void)snprintf(credentials, sizeof(credentials), "--front-credentials-file=%s/credentials",
                   gateway->folder);
    (void)snprintf(port, sizeof(port), "--front-port=%s", gateway->port);
    gateway->pid = fork();
    assert_true(gateway->pid >= 0);
    if (gateway->pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        (void)execl(KVT_GATEWAY, "kvtier-gateway", "--name=gw", "--cold-kind=directory",
                    "--front-bind=127.0.0.1", "--admin-port=0", "--nats-url=nats://127.0.0.1:9",
                    "--log-level=error", cold, hot, state, credentials, port, (char *)NULL);
        _exit(127);
    }
}

static void
gateway_kill(struct gateway *gateway)
{
    assert_int_equal(kill(gateway->pid, SIGKILL), 0);
    assert_int_equal(waitpid(gateway->pid, NULL, 0), gateway->pid);
}

struct world {
    struct gateway gateway;
    struct worker_settings settings;
    char endpoint[64];
    struct worker_object_tier *remote;
    struct kvbm_volumes *set;
    bool acked[BED_IDS];
    uint8_t (*bytes)[BED_SIZE];
};

static void
open_world(struct world *world)
{
    struct kvt_error err;
    char path[300];

    (void)test_folder_make(world->gateway.folder, sizeof(world->gateway.folder));
    (void)snprintf(path, sizeof(path), "%s/credentials", world->gateway.folder);
    assert_int_equal(kvt_file_write(path, "key:secret-secret", 17, 0600, NULL), KVT_OK);
    pick_port(world->gateway.port);
    gateway_start(&world->gateway);
    (void)snprintf(world->endpoint, sizeof(world->endpoint), "http://127.0.0.1:%s",
                   world->gateway.port);
    world->settings = (struct worker_settings){.endpoint = world->endpoint,
                                               .s3.endpoint = "",
                                               .bucket = "kvtier",
                                               .access_key = "key",
                                               .secret_key = "secret-secret",
                                               .namespace_ = "",
                                               .acked_log = "",
                                               .workers = 1,
                                               .retry_ms = 200,
                                               .revision = KVT_KEY_KVBM_B};
    world->settings.layout.block_size = BED_SIZE;
    world->settings.layout.fingerprint = 42;
    assert_int_equal(worker_object_tier_open(&world->remote, &world->settings, &err), KVT_OK);
    assert_int_equal(worker_gateway_volumes(&world->set, world->remote, BED_SIZE, 8, NULL), KVT_OK);
    world->bytes = kvt_aligned(4096, (size_t)BED_IDS * BED_SIZE);
    assert_non_null(world->bytes);
}

/* All blocks in one request; their statuses stay in `items`. */
static void
ask_all(struct world *world, enum kvt_volume_verb verb, struct kvt_volume_item items[BED_IDS])
{
    const struct kvbm_volume_request request = {
        .volume = VOLUME, .verb = verb, .items = items, .count = BED_IDS};

    for (uint32_t i = 0; i < BED_IDS; i++) {
        items[i] = (struct kvt_volume_item){.id = volume_bed_id(i),
                                            .bytes = world->bytes[i],
                                            .size = BED_SIZE,
                                            .status = KVT_ERR_COUNT};
        if (verb == KVT_VOLUME_PUT)
            volume_bed_fill(i, world->bytes[i]);
    }
    (void)!kvbm_volumes_run(world->set, &request);
}

static void
put_all(struct world *world, struct kvt_volume_item items[BED_IDS])
{
    ask_all(world, KVT_VOLUME_PUT, items);
    for (uint32_t i = 0; i < BED_IDS; i++)
        world->acked[i] =
            world->acked[i] || items[i].status == KVT_OK || items[i].status == KVT_EXISTS;
}

/* How many came; what came is right, and nothing that was acknowledged is said not to be there. */
static uint32_t
get_all(struct world *world, struct kvt_volume_item items[BED_IDS])
{
    uint32_t count = 0;

    ask_all(world, KVT_VOLUME_GET, items);
    for (uint32_t i = 0; i < BED_IDS; i++) {
        const enum kvt_err status = items[i].status;

        assert_int_not_equal(status, KVT_ERR_COUNT);
        if (status == KVT_OK)
            assert_true(volume_bed_is(i, world->bytes[i]));
        else if (status != KVT_NOTFOUND)
            assert_true(volume_bed_is_zero(world->bytes[i]));
        if (world->acked[i])
            assert_int_not_equal(status, KVT_NOTFOUND);
        count += status == KVT_OK;
    }
    return count;
}

/* Nobody is sent bytes; away is not "no". */
static void
has_all(struct world *world, struct kvt_volume_item items[BED_IDS], enum kvt_err expected)
{
    const struct kvbm_volume_request request = {
        .volume = VOLUME, .verb = KVT_VOLUME_HAS, .items = items, .count = BED_IDS};

    for (uint32_t i = 0; i < BED_IDS; i++)
        items[i] = (struct kvt_volume_item){.id = volume_bed_id(i), .status = KVT_ERR_COUNT};
    items[1].id = volume_bed_id(BED_IDS + 1); /* nobody put that one */
    (void)!kvbm_volumes_run(world->set, &request);
    for (uint32_t i = 0; i < BED_IDS; i++)
        assert_int_equal(items[i].status, i == 1 && expected == KVT_OK ? KVT_NOTFOUND : expected);
}

struct killer {
    struct gateway *gateway;
    uint64_t after_ms;
};

static void *
kill_later(void *arg)
{
    struct killer *killer = arg;

    kvt_clock_sleep_ms(killer->after_ms);
    gateway_kill(killer->gateway);
    return NULL;
}

/* The same objects as blocks of a remote tier: what is there is read, new ones are written, over
 * the path that leads there. */
static void
is_a_tier(struct world *world)
{
    enum { NEW = 3, COUNT = BED_IDS + NEW };
    struct kvt_copy copies[COUNT];
    struct kvbm_storage_name names[COUNT];
    struct kvbm_storage *host;
    struct kvbm_storage *tier;
    struct kvbm_transfer *transfer;

    assert_int_equal(kvbm_storage_open_memory(&host, KVBM_STORAGE_SYSTEM, COUNT, BED_SIZE, NULL),
                     KVT_OK);
    assert_int_equal(kvbm_storage_open_volume(&tier,
                                              &(struct kvbm_storage_volume_options){
                                                  world->set, VOLUME, COUNT, BED_SIZE, false, 0},
                                              NULL),
                     KVT_OK);
    assert_int_equal(kvbm_transfer_new(&transfer, 4, NULL), KVT_OK);
    assert_int_equal(kvbm_path_between(host, tier), KVT_PATH_REMOTE);
    for (uint32_t i = 0; i < COUNT; i++) {
        names[i] = (struct kvbm_storage_name){.block = i, .id = volume_bed_id(i)};
        copies[i] = (struct kvt_copy){i, i, KVT_IO};
        volume_bed_fill(i, kvbm_storage_address(host, i));
    }
    kvbm_storage_bind(tier, names, COUNT);
    assert_int_equal(kvbm_copy_blocks(transfer, host, tier, copies + BED_IDS, NEW), KVT_OK);
    assert_int_equal(kvbm_storage_commit(tier, names + BED_IDS, NEW), KVT_OK);
    for (uint32_t i = 0; i < COUNT; i++)
        memset(kvbm_storage_address(host, i), 0, BED_SIZE);
    assert_int_equal(kvbm_copy_blocks(transfer, tier, host, copies, COUNT), KVT_OK);
    for (uint32_t i = 0; i < COUNT; i++)
        assert_true(volume_bed_is(i, kvbm_storage_address(host, i)));
    kvbm_transfer_free(transfer);
    kvbm_storage_close(tier);
    kvbm_storage_close(host);
}

/* A worker of another layout, whose blocks are as long and have the same keys, finds nothing, and
 * replaces nothing. */
static void
other_layouts_are_apart(struct world *world)
{
    struct worker_settings settings = world->settings;
    struct worker_object_tier *other;
    struct kvt_volume_item items[2];
    struct kvt_block_id ids[2];
    bool present[2];
    struct kvt_error err;

    settings.layout.fingerprint++;
    assert_int_equal(worker_object_tier_open(&other, &settings, &err), KVT_OK);
    for (uint32_t i = 0; i < 2; i++) {
        ids[i] = volume_bed_id(i);
        items[i] = (struct kvt_volume_item){
            .id = ids[i], .bytes = world->bytes[i], .size = BED_SIZE, .status = KVT_ERR_COUNT};
    }
    assert_true(worker_object_tier_has(world->remote, ids, 2, present));
    assert_true(present[0] && present[1]);
    assert_true(worker_object_tier_has(other, ids, 2, present));
    assert_false(present[0] || present[1]);
    worker_object_tier_get(other, items, 2);
    for (uint32_t i = 0; i < 2; i++)
        assert_int_equal(items[i].status, KVT_NOTFOUND);
    for (uint32_t i = 0; i < 2; i++)
        memset(world->bytes[i], 0xa5, BED_SIZE);
    worker_object_tier_put(other, items, 2);
    for (uint32_t i = 0; i < 2; i++)
        assert_int_equal(items[i].status, KVT_PRECONDITION);
    worker_object_tier_close(other);
}

static void
close_world(struct world *world)
{
    assert_int_equal(kvbm_volumes_unregister(world->set, VOLUME, true), KVT_OK);
    assert_int_equal(kvbm_volumes_unregister(world->set, WORKER_GATEWAY_VOLUME_UP, true), KVT_OK);
    kvbm_volumes_free(world->set);
    worker_object_tier_close(world->remote);
    test_folder_remove(world->gateway.folder);
    kvt_free(world->bytes);
    kvt_free(world);
}

static void
survives_kills(void **state)
{
    struct world *world = kvt_calloc(1, sizeof(*world));
    struct kvt_volume_item items[BED_IDS];
    uint64_t random = test_seed();
    uint64_t deadline;

    (void)state;
    open_world(world);
    for (int round = 0; round < KILLS; round++) {
        struct killer killer = {&world->gateway, kvt_random_below(&random, 60)};
        pthread_t thread;

        deadline = kvt_clock_mono_ms() + DEADLINE;
        do {
            put_all(world, items);
            assert_true(kvt_clock_mono_ms() < deadline);
        } while (get_all(world, items) < BED_IDS);
        assert_int_equal(pthread_create(&thread, NULL, kill_later, &killer), 0);
        put_all(world, items);
        (void)get_all(world, items);
        assert_int_equal(pthread_join(thread, NULL), 0);
        assert_int_equal(get_all(world, items), 0);
        assert_true(items[0].status != KVT_NOTFOUND && kvt_err_retryable(items[0].status));
        gateway_start(&world->gateway);
    }
    deadline = kvt_clock_mono_ms() + DEADLINE;
    while (get_all(world, items) < BED_IDS)
        assert_true(kvt_clock_mono_ms() < deadline);
    has_all(world, items, KVT_OK);
    other_layouts_are_apart(world);
    assert_int_equal(get_all(world, items), BED_IDS);
    is_a_tier(world);
    gateway_kill(&world->gateway);
    has_all(world, items, KVT_UNAVAILABLE);
    close_world(world);
}

static bool
is_away(struct world *world)
{
    struct worker_object_tier_stats stats;

    worker_object_tier_stats(world->remote, &stats);
    return stats.away;
}

static void
look_until_there(struct world *world)
{
    const uint64_t deadline = kvt_clock_mono_ms() + DEADLINE;

    while (is_away(world)) {
        assert_true(kvt_clock_mono_ms() < deadline);
        worker_object_tier_look(world->remote);
        kvt_clock_sleep_ms(10);
    }
}

/* Nobody stores, asks or fetches anything. */
static void
who_only_looks_sees_it_go_and_come(void **state)
{
    struct world *world = kvt_calloc(1, sizeof(*world));
    struct worker_object_tier_stats stats;

    (void)state;
    worker_object_tier_look(NULL);
    open_world(world);
    gateway_kill(&world->gateway);
    worker_object_tier_look(world->remote);
    assert_true(is_away(world));
    worker_object_tier_look(world->remote); /* not at once again */
    worker_object_tier_stats(world->remote, &stats);
    assert_int_equal(stats.failed, 1);
    gateway_start(&world->gateway);
    look_until_there(world);
    gateway_kill(&world->gateway);
    close_world(world);
}

static bool
open_bucket(void *arg)
{
    struct worker_object_tier *remote;
    const enum kvt_err rc = worker_object_tier_open(&remote, arg, NULL);

    assert_true(rc == KVT_OK || rc == KVT_NOMEM);
    assert_true((rc == KVT_OK) == (remote != NULL));
    worker_object_tier_close(remote);
    return rc == KVT_OK;
}

static void
opening_a_bucket_survives_every_allocation_failure(void **state)
{
    struct worker_settings settings = {
        .endpoint = "",
        .bucket = "kvtier",
        .s3 = {.endpoint = "http://127.0.0.1:9", .region = "", .ca_file = "", .path_style = true},
        .access_key = "key",
        .secret_key = "secret",
        .namespace_ = "",
        .acked_log = "",
        .revision = KVT_KEY_KVBM_B};

    (void)state;
    settings.layout.block_size = BED_SIZE;
    assert_true(test_sweep_allocations(open_bucket, &settings) > 0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(opening_a_bucket_survives_every_allocation_failure),
        cmocka_unit_test(survives_kills),
        cmocka_unit_test(who_only_looks_sees_it_go_and_come),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
