/*
 * What is tested: a replica whose ranks copy out of rank 0's G1 (engine/replica/broadcast_ipc.c):
 * on fakes which way blocks go, and who is told of what fails; in processes of their own, on a
 * CUDA driver of our own that shares memory as a real one does (tests/unit/kvbm/fake/fake_cuda.c),
 * that every byte is right, that without the driver's help it is the fabric's bytes, and what a
 * rank costs that is killed.  All kinds alike are in
 * tests/unit/engine/replica/replica_group_test.c.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "kvbm/cuda/cuda_memory.h"

#include "engine/rank/rank.h"
#include "engine/rank/rank_client.h"
#include "tests/unit/engine/replica/replica_bed.h"
#include "tests/unit/engine/support/content.h"
#include "tests/unit/engine/support/fake_worker_internal.h"

enum { BLOCKS = 32, RANKS = 3, STAGED = 4, WAIT = 10000, SOON = 5000 };

/* ---- on fakes ---- */

/* Two blocks from G2 of rank 0 to G1 of all. */
static enum kvt_err
bring_up(struct replica *replica, struct bed_job *job)
{
    enum kvt_err rc;

    for (uint32_t i = 0; i < 2; i++)
        fake_worker_write(replica->bed.ranks[0], KVT_TIER_G2, i, 70 + i, 0, 0);
    group_bed_job_set(job, ENGINE_COPY, KVT_TIER_G2, KVT_TIER_G1, 70, 0, 20, 2);
    rc = group_bed_job_run(job, replica->group);
    group_bed_job_free(job);
    if (rc == KVT_OK)
        assert_true(replica_all_have(replica, 20, 70) && replica_all_have(replica, 21, 71));
    return rc;
}

static uint64_t
shows(const struct replica *replica)
{
    return fake_worker_jobs(replica->bed.ranks[0], ENGINE_SHOW);
}

static void
nothing_goes_by_host_memory(void **state)
{
    struct replica replica;
    struct bed_job job;

    (void)state;
    replica_open(&replica, REPLICA_IPC, FAKE_LATER, NULL);
    assert_int_equal(bring_up(&replica, &job), KVT_OK);
    assert_int_equal(shows(&replica), 0);
    assert_int_equal(fake_worker_jobs(replica.bed.ranks[0], ENGINE_COPY), 1);
    for (uint32_t r = 1; r < BED_RANKS; r++) {
        assert_int_equal(fake_worker_jobs(replica.bed.ranks[r], ENGINE_COPY), 0);
        assert_int_equal(fake_worker_jobs(replica.bed.ranks[r], ENGINE_PULL), 1);
    }
    replica_close(&replica);
}

static void
a_rank_that_fails_is_named(void **state)
{
    struct replica replica;
    struct bed_job job;
    uint64_t before;

    (void)state;
    replica_open(&replica, REPLICA_IPC, FAKE_LATER, NULL);
    for (uint32_t rank = 1; rank < BED_RANKS; rank++) {
        char text[32];

        fake_worker_fail(replica.bed.ranks[rank], ENGINE_PULL, 1, KVT_IO);
        assert_int_equal(bring_up(&replica, &job), KVT_IO);
        for (uint32_t r = 0; r < BED_RANKS; r++)
            assert_int_equal(job.outcome.by_rank[r], r == rank ? KVT_IO : KVT_OK);
        (void)snprintf(text, sizeof(text), "rank %u: ipc broadcast: ", rank);
        assert_non_null(strstr(job.outcome.error.text, text));
        assert_int_equal(bring_up(&replica, &job), KVT_OK);
    }
    for (uint32_t rank = 0; rank < BED_RANKS; rank++) {
        fake_worker_kill(replica.bed.ranks[rank]);
        assert_int_equal(bring_up(&replica, &job), KVT_UNAVAILABLE);
        fake_worker_revive(replica.bed.ranks[rank]);
        (void)bring_up(&replica, &job); /* they find out that it is another one */
        assert_int_equal(bring_up(&replica, &job), KVT_OK);
    }
    /* While one was away all went by the fabric; now nobody does. */
    before = shows(&replica);
    assert_int_equal(bring_up(&replica, &job), KVT_OK);
    assert_int_equal(shows(&replica), before);
    replica_close(&replica);
}

static void
set_shares(struct replica *replica, uint32_t rank, bool shares)
{
    struct fake *fake = (struct fake *)replica->bed.ranks[rank];

    (void)pthread_mutex_lock(&fake->lock);
    fake->shares = shares;
    (void)pthread_mutex_unlock(&fake->lock);
}

/* One rank that cannot: all by the fabric, until rank 0 is another process. */
static void
a_refusal_is_remembered(void **state)
{
    struct replica replica;
    struct bed_job job;
    uint64_t before;

    (void)state;
    replica_open(&replica, REPLICA_IPC, FAKE_LATER, NULL);
    set_shares(&replica, 2, false);
    assert_int_equal(bring_up(&replica, &job), KVT_OK);
    assert_int_equal(shows(&replica), 1);
    set_shares(&replica, 2, true);
    assert_int_equal(bring_up(&replica, &job), KVT_OK);
    assert_int_equal(shows(&replica), 2); /* nobody has asked it again */
    fake_worker_fail(replica.bed.ranks[1], ENGINE_PULL, 1, KVT_IO);
    assert_int_equal(bring_up(&replica, &job), KVT_IO);
    assert_non_null(strstr(job.outcome.error.text, "rank 1: fabric broadcast: "));
    fake_worker_kill(replica.bed.ranks[0]);
    fake_worker_revive(replica.bed.ranks[0]);
    before = shows(&replica);
    assert_int_equal(bring_up(&replica, &job), KVT_OK);
    assert_int_equal(shows(&replica), before);
    replica_close(&replica);
    /* Rank 0 that cannot. */
    replica_open(&replica, REPLICA_IPC, FAKE_LATER, NULL);
    set_shares(&replica, 0, false);
    assert_int_equal(bring_up(&replica, &job), KVT_OK);
    assert_int_equal(shows(&replica), 1);
    replica_close(&replica);
}

static bool
open_and_bring_up(void *arg)
{
    return replica_try(arg, engine_broadcast_ipc);
}

static void
no_memory_is_an_answer(void **state)
{
    struct replica replica;

    (void)state;
    group_bed_open(&replica.bed, 1, FAKE_AT_ONCE, NULL);
    for (uint32_t r = 0; r < BED_RANKS; r++)
        set_shares(&replica, r, true);
    for (uint32_t i = 0; i < 2; i++)
        fake_worker_write(replica.bed.ranks[0], KVT_TIER_G2, i, 70 + i, 0, 0);
    assert_true(test_sweep_allocations(open_and_bring_up, &replica) >= 8);
    for (uint32_t r = 0; r < BED_RANKS; r++)
        engine_worker_close(replica.bed.ranks[r]);
}

/* ---- a rank's process: rank ENDPOINT FILE FABRIC ---- */

static void
must(bool right, const char *what)
{
    if (right)
        return;
    (void)fprintf(stderr, "rank: %s\n", what);
    _exit(1);
}

/* Without a fabric nothing can come but from device to device. */
static void
open_g2(struct engine_rank_options *options, bool fabric)
{
    if (!fabric) {
        must(kvbm_storage_open_memory(&options->tiers[KVT_TIER_G2].storage, KVBM_STORAGE_SYSTEM,
                                      BLOCKS, options->layout.block_size, NULL) == KVT_OK,
             "G2");
        return;
    }
    must(engine_fabric_open(&options->fabric, &(struct engine_fabric_options){.far = ""}, NULL) ==
             KVT_OK,
         "fabric");
    must(engine_blockset_open(&options->shown, options->fabric, &options->layout, BLOCKS, NULL) ==
             KVT_OK,
         "G2");
    options->tiers[KVT_TIER_G2].storage = engine_blockset_storage(options->shown);
}

static void
rank_main(char **argv)
{
    struct engine_rank_options options = {.layout = group_bed_layout(1, 0)};
    struct kvbm_storage **g1 = &options.tiers[KVT_TIER_G1].storage;
    struct kvbm_cuda_shared shared;
    struct engine_worker *worker;
    struct engine_rank_server *serve;
    struct kvbm_cuda *cuda;
    int file = open(argv[1], O_WRONLY | O_CLOEXEC);

    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    must(kvbm_cuda_open(&cuda, KVBM_FAKE_CUDA, 0, NULL) == KVT_OK, "driver");
    must(kvbm_cuda_open_device(g1, cuda, BLOCKS, options.layout.block_size, NULL) == KVT_OK, "G1");
    must(kvbm_cuda_share(*g1, &shared, NULL) == KVT_OK, "G1 for the test");
    must(pwrite(file, &shared, sizeof(shared), 0) == (ssize_t)sizeof(shared), "file");
    open_g2(&options, strcmp(argv[2], "fabric") == 0);
    must(kvbm_transfer_new(&options.transfer, 64, NULL) == KVT_OK, "transfers");
    must(engine_rank_open(&worker, &options, NULL) == KVT_OK, "worker");
    must(engine_rank_server_open(&serve, worker, argv[0], NULL) == KVT_OK, "server");
    for (;;)
        (void)pause();
}

/* ---- the ranks ---- */

struct ranks {
    char folder[200];
    const char *fabric;
    struct kvbm_layout layout;
    struct kvbm_cuda *cuda; /* the test's own, through which it sees their memory */
    pid_t processes[RANKS];
    struct kvbm_storage *g1[RANKS];
    struct engine_worker *workers[RANKS];
    struct engine_broadcast *broadcast;
    struct engine_worker *group;
};

/* Where a rank says what the test needs to see its G1. */
static void
path_of(const struct ranks *ranks, uint32_t rank, char *text, size_t size)
{
    (void)snprintf(text, size, "%s/g1-%u", ranks->folder, rank);
}

static void
endpoint_of(const struct ranks *ranks, uint32_t rank, char *text, size_t size)
{
    (void)snprintf(text, size, "ipc://%s/rank%u", ranks->folder, rank);
}

/* `refuses`: a function of its driver. */
static void
rank_begin(struct ranks *ranks, uint32_t rank, const char *refuses)
{
    char endpoint[256];
    char path[256];

    endpoint_of(ranks, rank, endpoint, sizeof(endpoint));
    path_of(ranks, rank, path, sizeof(path));
    (void)close(open(path, O_CREAT | O_WRONLY | O_TRUNC | O_CLOEXEC, 0600));
    ranks->processes[rank] = fork();
    assert_true(ranks->processes[rank] >= 0);
    if (ranks->processes[rank] == 0) {
        if (refuses != NULL)
            (void)setenv("KVBM_FAKE_CUDA_FAIL", refuses, 1);
        (void)execl("/proc/self/exe", "rank", endpoint, path, ranks->fabric, (char *)NULL);
        _exit(127);
    }
}

/* Its process answers, or did: its G1, as the test sees it. */
static void
rank_see(struct ranks *ranks, uint32_t rank)
{
    const uint64_t end = kvt_clock_mono_ms() + WAIT;
    struct kvbm_cuda_shared shared;
    struct kvbm_storage *ours;
    char path[256];
    ssize_t got = 0;

    path_of(ranks, rank, path, sizeof(path));
    while (got != (ssize_t)sizeof(shared) && kvt_clock_mono_ms() < end) {
        const int file = open(path, O_RDONLY | O_CLOEXEC);

        got = read(file, &shared, sizeof(shared));
        (void)close(file);
        kvt_clock_sleep_ms(2);
    }
    assert_int_equal(got, sizeof(shared));
    kvbm_storage_close(ranks->g1[rank]);
    assert_int_equal(kvbm_cuda_open_device(&ours, ranks->cuda, 1, shared.block_size, NULL), KVT_OK);
    assert_int_equal(kvbm_cuda_open_beside(&ranks->g1[rank], ours, &shared, NULL), KVT_OK);
    kvbm_storage_close(ours);
}

static void
rank_kill(struct ranks *ranks, uint32_t rank)
{
    assert_int_equal(kill(ranks->processes[rank], SIGKILL), 0);
    assert_int_equal(waitpid(ranks->processes[rank], NULL, 0), ranks->processes[rank]);
}

static void
ranks_open(struct ranks *ranks, const char *fabric, uint32_t refuser, const char *refuses)
{
    *ranks = (struct ranks){.fabric = fabric, .layout = group_bed_layout(1, 0)};
    (void)test_folder_make(ranks->folder, sizeof(ranks->folder));
    assert_int_equal(kvbm_cuda_open(&ranks->cuda, KVBM_FAKE_CUDA, 0, NULL), KVT_OK);
    for (uint32_t r = 0; r < RANKS; r++)
        rank_begin(ranks, r, r == refuser ? refuses : NULL);
    for (uint32_t r = 0; r < RANKS; r++) {
        char endpoint[256];

        endpoint_of(ranks, r, endpoint, sizeof(endpoint));
        assert_int_equal(
            engine_rank_client_open(
                &ranks->workers[r],
                &(struct engine_rank_client_options){.endpoint = endpoint, .wait_ms = WAIT}, NULL),
            KVT_OK);
        rank_see(ranks, r);
    }
    assert_int_equal(
        engine_broadcast_choose(&ranks->broadcast, ranks->workers, RANKS, STAGED, true, WAIT, NULL),
        KVT_OK);
    assert_int_equal(
        engine_replica_open(&ranks->group, ranks->workers, RANKS, ranks->broadcast, NULL), KVT_OK);
}

static void
ranks_close(struct ranks *ranks)
{
    engine_worker_close(ranks->group);
    for (uint32_t r = 0; r < RANKS; r++) {
        kvbm_storage_close(ranks->g1[r]);
        rank_kill(ranks, r);
    }
    kvbm_cuda_close(ranks->cuda);
    test_folder_remove(ranks->folder);
}

/* By what blocks went last, for a reason with these words. */
static enum engine_way
way_of(const struct ranks *ranks, const char *why)
{
    struct engine_broadcast_state state;

    engine_broadcast_state(ranks->broadcast, &state);
    assert_non_null(strstr(state.why, why));
    return state.way;
}

static uint8_t page[KVBM_STORAGE_ALIGN] __attribute__((aligned(KVBM_STORAGE_ALIGN)));

static void
fill(struct ranks *ranks, uint32_t rank, uint32_t block, uint64_t number, uint32_t count)
{
    assert_int_equal(ranks->layout.block_size, sizeof(page));
    for (uint32_t i = 0; i < count; i++) {
        struct kvbm_storage_io io = {.host = page, .block = block + i};

        content_fill(&ranks->layout, page, number + i);
        kvbm_storage_write(ranks->g1[rank], &io, 1);
        assert_int_equal(io.status, KVT_OK);
    }
}

static bool
has(const struct ranks *ranks, uint32_t rank, uint32_t block, uint64_t number, uint32_t count)
{
    bool is = true;

    for (uint32_t i = 0; i < count && is; i++) {
        struct kvbm_storage_io io = {.host = page, .block = block + i};

        kvbm_storage_read(ranks->g1[rank], &io, 1);
        is = io.status == KVT_OK && content_is(&ranks->layout, page, number + i);
    }
    return is;
}

static enum kvt_err
copy(struct ranks *ranks, enum kvt_tier from, enum kvt_tier to, uint64_t number, uint32_t source,
     uint32_t target, uint32_t layer, uint32_t layers)
{
    struct bed_job job;
    enum kvt_err rc;

    group_bed_job_set(&job, ENGINE_COPY, from, to, number, source, target, BED_ITEMS);
    job.job.layer = layer;
    job.job.layers = layers;
    rc = group_bed_job_run(&job, ranks->group);
    group_bed_job_free(&job);
    return rc;
}

/* Contents in G1 of rank 0, down to its G2, and up to other blocks of G1, at all ranks. */
static enum kvt_err
round_trip(struct ranks *ranks, uint64_t number)
{
    enum kvt_err rc;

    for (uint32_t r = 0; r < RANKS; r++)
        fill(ranks, r, 8, ~number, BED_ITEMS);
    fill(ranks, 0, 0, number, BED_ITEMS);
    rc = copy(ranks, KVT_TIER_G1, KVT_TIER_G2, number, 0, 0, 0, 0);
    if (rc == KVT_OK)
        rc = copy(ranks, KVT_TIER_G2, KVT_TIER_G1, number, 0, 8, 0, 0);
    for (uint32_t r = 0; r < RANKS && rc == KVT_OK; r++)
        assert_true(has(ranks, r, 8, number, BED_ITEMS));
    return rc;
}

static void
becomes_well(struct ranks *ranks, uint64_t number)
{
    const uint64_t end = kvt_clock_mono_ms() + WAIT;
    enum kvt_err rc;

    do {
        rc = round_trip(ranks, number);
        if (rc != KVT_OK)
            kvt_clock_sleep_ms(20);
    } while (rc != KVT_OK && kvt_clock_mono_ms() < end);
    assert_int_equal(rc, KVT_OK);
}

/* Nothing but devices, whole blocks and by the layer. */
static void
devices_bring_every_byte(void **state)
{
    struct ranks ranks;

    (void)state;
    ranks_open(&ranks, "none", RANKS, NULL);
    assert_int_equal(round_trip(&ranks, 100), KVT_OK);
    assert_int_equal(way_of(&ranks, "all ranks have"), ENGINE_BY_IPC);
    for (uint32_t r = 0; r < RANKS; r++)
        fill(&ranks, r, 16, 5000, BED_ITEMS);
    for (uint32_t k = 0; k < BED_LAYERS; k++) {
        assert_int_equal(copy(&ranks, KVT_TIER_G2, KVT_TIER_G1, 100, 0, 16, k, 1), KVT_OK);
        for (uint32_t r = 0; r < RANKS; r++)
            assert_int_equal(has(&ranks, r, 16, 100, BED_ITEMS), k == BED_LAYERS - 1);
    }
    ranks_close(&ranks);
}

/* A driver that will not open rank 0's memory, or will not share it: the same bytes by the fabric;
 * without one the rank is named. */
static void
without_the_driver_it_is_the_fabric(void **state)
{
    struct ranks ranks;

    (void)state;
    ranks_open(&ranks, "fabric", 2, "cuIpcOpenMemHandle_v2");
    assert_int_equal(round_trip(&ranks, 100), KVT_OK);
    assert_int_equal(round_trip(&ranks, 200), KVT_OK);
    assert_int_equal(way_of(&ranks, "cuda: cuIpcOpenMemHandle"), ENGINE_BY_FABRIC);
    ranks_close(&ranks);
    ranks_open(&ranks, "none", 1, "cuIpcOpenMemHandle_v2");
    assert_int_not_equal(round_trip(&ranks, 300), KVT_OK);
    ranks_close(&ranks);
}

/* Stopped in the middle of its part, and killed. */
static void
kill_in_the_middle(struct ranks *ranks, uint32_t victim, uint64_t number)
{
    const uint64_t since = kvt_clock_mono_ms();
    struct bed_job job;
    int status;

    group_bed_job_set(&job, ENGINE_COPY, KVT_TIER_G2, KVT_TIER_G1, number, 0, 16, BED_ITEMS);
    assert_int_equal(kill(ranks->processes[victim], SIGSTOP), 0);
    assert_int_equal(waitpid(ranks->processes[victim], &status, WUNTRACED),
                     ranks->processes[victim]);
    assert_true(WIFSTOPPED(status));
    assert_int_equal(engine_worker_start(ranks->group, &job.job), KVT_OK);
    kvt_clock_sleep_ms(50);
    assert_int_equal(group_bed_job_ends(&job), 0);
    rank_kill(ranks, victim);
    group_bed_job_wait(&job);
    assert_true(kvt_clock_mono_ms() - since < SOON);
    for (uint32_t r = 0; r < RANKS; r++) {
        assert_int_equal(job.outcome.by_rank[r], r == victim ? KVT_UNAVAILABLE : KVT_OK);
        if (r != victim && victim != 0)
            assert_true(has(ranks, r, 16, number, BED_ITEMS));
    }
    for (uint32_t i = 0; i < BED_ITEMS; i++)
        assert_int_equal(job.items[i].status, KVT_UNAVAILABLE);
    group_bed_job_free(&job);
}

static void
ranks_are_killed_and_come_back(void **state)
{
    struct ranks ranks;

    (void)state;
    ranks_open(&ranks, "none", RANKS, NULL);
    assert_int_equal(round_trip(&ranks, 100), KVT_OK);
    for (uint32_t victim = RANKS; victim-- > 0;) {
        kill_in_the_middle(&ranks, victim, 100 * (RANKS - victim));
        rank_begin(&ranks, victim, NULL);
        rank_see(&ranks, victim);
        becomes_well(&ranks, 100 * (RANKS + 1 - victim));
    }
    ranks_close(&ranks);
}

/* Rank 0 dies behind its own part.  Its memory can still be read, and may be anything. */
static void
what_a_dead_rank_left_is_not_believed(void **state)
{
    struct bed_job job;
    struct ranks ranks;

    (void)state;
    ranks_open(&ranks, "none", RANKS, NULL);
    assert_int_equal(round_trip(&ranks, 100), KVT_OK);
    rank_kill(&ranks, 0);
    group_bed_job_set(&job, ENGINE_COPY, KVT_TIER_G2, KVT_TIER_G1, 100, 0, 8, BED_ITEMS);
    engine_job_fail(&job.job, KVT_OK); /* they are well so far */
    assert_int_equal(engine_broadcast_start(ranks.broadcast, &job.job), KVT_OK);
    group_bed_job_wait(&job);
    assert_int_equal(job.outcome.by_rank[0], KVT_UNAVAILABLE);
    assert_int_equal(job.outcome.by_rank[1], KVT_OK); /* it has copied */
    for (uint32_t i = 0; i < BED_ITEMS; i++)
        assert_int_equal(job.items[i].status, KVT_UNAVAILABLE);
    group_bed_job_free(&job);
    rank_begin(&ranks, 0, NULL);
    rank_see(&ranks, 0);
    becomes_well(&ranks, 200);
    ranks_close(&ranks);
}

/* ---- what is said of a G1 ---- */

static enum kvt_err
connect_changed(struct engine_worker *worker, const struct kvt_buffer *said, size_t at, size_t size,
                struct kvt_error *err)
{
    uint8_t bytes[512];

    memcpy(bytes, said->data, said->size);
    bytes[at] ^= 1;
    return engine_worker_connect(worker, ENGINE_PEER_G1, bytes, size, WAIT, err);
}

static void
what_cannot_be_opened_is_refused(void **state)
{
    struct engine_item item = {.source = BLOCKS};
    struct engine_job job = {.verb = ENGINE_PULL,
                             .to = KVT_TIER_G1,
                             .peer = ENGINE_PEER_G1,
                             .wait_ms = WAIT,
                             .items = &item,
                             .count = 1};
    struct kvt_buffer said;
    struct ranks ranks;
    struct kvt_error err;

    (void)state;
    ranks_open(&ranks, "none", RANKS, NULL);
    kvt_buffer_init(&said, 512);
    assert_int_equal(engine_worker_share(ranks.workers[0], &said, WAIT, &err), KVT_OK);
    assert_int_equal(connect_changed(ranks.workers[1], &said, 10, said.size, &err),
                     KVT_PRECONDITION); /* the number of the machine's kernel */
    assert_non_null(strstr(err.text, "another machine"));
    assert_int_equal(connect_changed(ranks.workers[1], &said, 10, said.size - 1, &err),
                     KVT_INVALID);
    assert_int_equal(
        engine_worker_connect(ranks.workers[0], ENGINE_PEER_G1, said.data, said.size, WAIT, &err),
        KVT_IO); /* its own */
    assert_int_equal(engine_worker_run(ranks.workers[1], &job, NULL), KVT_UNAVAILABLE);
    assert_int_equal(
        engine_worker_connect(ranks.workers[1], ENGINE_PEER_G1, said.data, said.size, WAIT, &err),
        KVT_OK);
    assert_int_equal(engine_worker_run(ranks.workers[1], &job, NULL), KVT_INVALID);
    item.source = 0;
    assert_int_equal(engine_worker_run(ranks.workers[1], &job, NULL), KVT_OK);
    job.to = KVT_TIER_G2;
    assert_int_equal(engine_worker_run(ranks.workers[1], &job, NULL), KVT_UNSUPPORTED);
    rank_kill(&ranks, 0);
    assert_int_equal(
        engine_worker_connect(ranks.workers[2], ENGINE_PEER_G1, said.data, said.size, WAIT, &err),
        KVT_IO); /* nobody's */
    assert_non_null(strstr(err.text, "cuIpcOpenMemHandle"));
    rank_begin(&ranks, 0, NULL);
    rank_see(&ranks, 0);
    engine_worker_disconnect(ranks.workers[1], ENGINE_PEER_G1);
    kvt_buffer_release(&said);
    ranks_close(&ranks);
}

int
main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_goes_by_host_memory),
        cmocka_unit_test(a_rank_that_fails_is_named),
        cmocka_unit_test(a_refusal_is_remembered),
        cmocka_unit_test(no_memory_is_an_answer),
        cmocka_unit_test(devices_bring_every_byte),
        cmocka_unit_test(without_the_driver_it_is_the_fabric),
        cmocka_unit_test(ranks_are_killed_and_come_back),
        cmocka_unit_test(what_a_dead_rank_left_is_not_believed),
        cmocka_unit_test(what_cannot_be_opened_is_refused),
    };
    int failed;

    if (argc == 4 && strcmp(argv[0], "rank") == 0)
        rank_main(argv + 1);
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    return failed != 0 || kvt_alloc_live() != 0;
}
