/*
 * What is tested: groups and replicas of ranks in processes of their own, one of which is killed in
 * the middle of a job: the job ends once, soon, and says who; the others have done theirs and carry
 * on; a rank that is started again is one of them.
 *
 * A rank's G1 is memory that it has in common with the test, which so sees every byte of it.
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/text/parse.h"
#include "kvbm/storage/layered_storage.h"

#include "engine/rank/group.h"
#include "engine/rank/rank.h"
#include "engine/rank/rank_client.h"
#include "engine/replica/replica_group.h"
#include "tests/unit/engine/support/content.h"
#include "tests/unit/engine/support/group_bed.h"

enum { BLOCKS = 32, STAGED = 4, WAIT = 10000, SOON = 5000 };

static const enum kvt_tier none = (enum kvt_tier)0;

/* The layout of a bed's rank, padded to what a storage wants. */
static struct kvbm_layout
layout_of(uint32_t tp_size, uint32_t tp_rank)
{
    struct kvbm_layout layout = group_bed_layout(1, 0);
    struct kvt_geometry geometry = layout.geometry;

    geometry.page_size *= tp_size; /* every rank's block has 4,096 bytes */
    geometry.inner_dim /= tp_size;
    geometry.heads /= tp_size;
    geometry.tp_size = tp_size;
    geometry.tp_rank = tp_rank;
    assert_int_equal(kvbm_layout_make(&layout, &geometry, NULL), KVT_OK);
    return layout;
}

/* ---- a rank's process: rank ENDPOINT TP_SIZE TP_RANK MEMORY ---- */

static void
must(bool right, const char *what)
{
    if (right)
        return;
    (void)fprintf(stderr, "rank: %s\n", what);
    _exit(1);
}

static void
rank_main(char **argv)
{
    struct engine_rank_options options = {.fabric = NULL};
    struct engine_worker *worker;
    struct engine_rank_server *serve;
    uint64_t numbers[3];
    uint64_t address;

    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (size_t i = 0; i < 3; i++)
        must(kvt_parse_u64(argv[i + 1], &numbers[i]) == KVT_OK, "arguments");
    options.layout = layout_of((uint32_t)numbers[0], (uint32_t)numbers[1]);
    address = (uint64_t)(uintptr_t)mmap(NULL, BLOCKS * options.layout.block_stride,
                                        PROT_READ | PROT_WRITE, MAP_SHARED, (int)numbers[2], 0);
    must(address != (uint64_t)(uintptr_t)MAP_FAILED, "memory");
    must(kvbm_storage_open_layers(&options.tiers[KVT_TIER_G1].storage, KVBM_STORAGE_SYSTEM,
                                  &(struct kvbm_layout_memory){&options.layout, &address, BLOCKS},
                                  NULL) == KVT_OK,
         "G1");
    must(engine_fabric_open(&options.fabric, &(struct engine_fabric_options){.far = ""}, NULL) ==
             KVT_OK,
         "fabric");
    must(engine_blockset_open(&options.shown, options.fabric, &options.layout, BLOCKS, NULL) ==
             KVT_OK,
         "G2");
    options.tiers[KVT_TIER_G2].storage = engine_blockset_storage(options.shown);
    must(kvbm_transfer_new(&options.transfer, 64, NULL) == KVT_OK, "transfers");
    must(engine_rank_open(&worker, &options, NULL) == KVT_OK, "worker");
    must(engine_rank_server_open(&serve, worker, argv[0], NULL) == KVT_OK, "server");
    for (;;)
        (void)pause();
}

/* ---- the ranks ---- */

struct ranks {
    char folder[200];
    uint32_t count;
    bool same;
    pid_t processes[BED_RANKS];
    int files[BED_RANKS];
    uint8_t *memory[BED_RANKS];
    struct kvbm_layout layouts[BED_RANKS];
    struct engine_worker *workers[BED_RANKS];
};

static void
endpoint_of(const struct ranks *ranks, uint32_t rank, char *text, size_t size)
{
    (void)snprintf(text, size, "ipc://%s/rank%u", ranks->folder, rank);
}

static void
rank_begin(struct ranks *ranks, uint32_t rank)
{
    char numbers[3][16];
    char endpoint[256];

    endpoint_of(ranks, rank, endpoint, sizeof(endpoint));
    (void)snprintf(numbers[0], sizeof(numbers[0]), "%u", ranks->same ? 1 : ranks->count);
    (void)snprintf(numbers[1], sizeof(numbers[1]), "%u", ranks->same ? 0 : rank);
    (void)snprintf(numbers[2], sizeof(numbers[2]), "%d", ranks->files[rank]);
    ranks->processes[rank] = fork();
    assert_true(ranks->processes[rank] >= 0);
    if (ranks->processes[rank] == 0) {
        (void)execl("/proc/self/exe", "rank", endpoint, numbers[0], numbers[1], numbers[2],
                    (char *)NULL);
        _exit(127);
    }
}

static void
rank_kill(struct ranks *ranks, uint32_t rank)
{
    assert_int_equal(kill(ranks->processes[rank], SIGKILL), 0);
    assert_int_equal(waitpid(ranks->processes[rank], NULL, 0), ranks->processes[rank]);
}

static void
ranks_open(struct ranks *ranks, uint32_t count, bool same)
{
    *ranks = (struct ranks){.count = count, .same = same};
    (void)test_folder_make(ranks->folder, sizeof(ranks->folder));
    for (uint32_t r = 0; r < count; r++) {
        const struct kvbm_layout layout = layout_of(same ? 1 : count, same ? 0 : r);
        const size_t size = BLOCKS * layout.block_stride;

        ranks->layouts[r] = layout;
        ranks->files[r] = memfd_create("rank", 0);
        assert_true(ranks->files[r] >= 0);
        assert_int_equal(ftruncate(ranks->files[r], (off_t)size), 0);
        ranks->memory[r] = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, ranks->files[r], 0);
        assert_true(ranks->memory[r] != MAP_FAILED);
        rank_begin(ranks, r);
    }
    for (uint32_t r = 0; r < count; r++) {
        char endpoint[256];

        endpoint_of(ranks, r, endpoint, sizeof(endpoint));
        assert_int_equal(
            engine_rank_client_open(
                &ranks->workers[r],
                &(struct engine_rank_client_options){.endpoint = endpoint, .wait_ms = WAIT}, NULL),
            KVT_OK);
    }
}

/* Whoever had the workers has closed them. */
static void
ranks_close(struct ranks *ranks)
{
    for (uint32_t r = 0; r < ranks->count; r++) {
        rank_kill(ranks, r);
        (void)munmap(ranks->memory[r], BLOCKS * ranks->layouts[r].block_stride);
        (void)close(ranks->files[r]);
    }
    test_folder_remove(ranks->folder);
}

static uint8_t *
block_of(const struct ranks *ranks, uint32_t rank, uint32_t block)
{
    return ranks->memory[rank] + block * ranks->layouts[rank].block_stride;
}

static void
fill(struct ranks *ranks, uint32_t rank, uint32_t block, uint64_t number, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        content_fill(&ranks->layouts[rank], block_of(ranks, rank, block + i), number + i);
}

static bool
has(const struct ranks *ranks, uint32_t rank, uint32_t block, uint64_t number, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (!content_is(&ranks->layouts[rank], block_of(ranks, rank, block + i), number + i))
            return false;
    return true;
}

/* Contents into G1, down to G2 and up to other blocks of G1. */
static enum kvt_err
round_trip(struct ranks *ranks, struct engine_worker *group, uint64_t number, uint32_t count)
{
    struct bed_job job;
    enum kvt_err rc;

    for (uint32_t r = 0; r < ranks->count; r++) {
        fill(ranks, r, 0, number, count);
        fill(ranks, r, 8, ~number, count);
    }
    group_bed_job_set(&job, ENGINE_COPY, KVT_TIER_G1, KVT_TIER_G2, number, 0, 0, count);
    rc = group_bed_job_run(&job, group);
    group_bed_job_free(&job);
    if (rc != KVT_OK)
        return rc;
    group_bed_job_set(&job, ENGINE_COPY, KVT_TIER_G2, KVT_TIER_G1, number, 0, 8, count);
    rc = group_bed_job_run(&job, group);
    group_bed_job_free(&job);
    for (uint32_t r = 0; r < ranks->count && rc == KVT_OK; r++)
        assert_true(has(ranks, r, 8, number, count));
    return rc;
}

/* A rank that was started again is found out about, and then all is well. */
static void
becomes_well(struct ranks *ranks, struct engine_worker *group, uint64_t number)
{
    const uint64_t end = kvt_clock_mono_ms() + WAIT;
    enum kvt_err rc;

    do {
        rc = round_trip(ranks, group, number, BED_ITEMS);
        if (rc != KVT_OK)
            kvt_clock_sleep_ms(20);
    } while (rc != KVT_OK && kvt_clock_mono_ms() < end);
    assert_int_equal(rc, KVT_OK);
}

/* One job that a rank is in the middle of when it is killed. */
static void
kill_in_the_middle(struct ranks *ranks, struct engine_worker *group, uint32_t victim,
                   uint64_t number)
{
    const uint64_t since = kvt_clock_mono_ms();
    struct bed_job job;
    int status;

    group_bed_job_set(&job, ENGINE_COPY, KVT_TIER_G2, KVT_TIER_G1, number, 0, 16, BED_ITEMS);
    assert_int_equal(kill(ranks->processes[victim], SIGSTOP), 0);
    assert_int_equal(waitpid(ranks->processes[victim], &status, WUNTRACED),
                     ranks->processes[victim]);
    assert_true(WIFSTOPPED(status)); /* every thread of it */
    assert_int_equal(engine_worker_start(group, &job.job), KVT_OK);
    kvt_clock_sleep_ms(50);
    assert_int_equal(group_bed_job_ends(&job), 0);
    rank_kill(ranks, victim);
    group_bed_job_wait(&job);
    assert_true(kvt_clock_mono_ms() - since < SOON);
    assert_int_equal(job.outcome.status, KVT_UNAVAILABLE);
    for (uint32_t r = 0; r < ranks->count; r++) {
        assert_int_equal(job.outcome.by_rank[r], r == victim ? KVT_UNAVAILABLE : KVT_OK);
        /* Of a replica nobody has what rank 0 had. */
        if (r != victim && !(ranks->same && victim == 0))
            assert_true(has(ranks, r, 16, number, BED_ITEMS));
    }
    for (uint32_t i = 0; i < BED_ITEMS; i++)
        assert_int_equal(job.items[i].status, KVT_UNAVAILABLE);
    group_bed_job_free(&job);
}

static void
others_carry_on(void **state)
{
    struct engine_worker *group;
    struct bed_job job;
    struct ranks ranks;

    (void)state;
    ranks_open(&ranks, 4, false);
    assert_int_equal(engine_group_open(&group, ranks.workers, 4, NULL), KVT_OK);
    for (uint32_t victim = 1; victim < 4; victim += 2) {
        const uint64_t number = 100 * (victim + 1);

        assert_int_equal(round_trip(&ranks, group, number, BED_ITEMS), KVT_OK);
        kill_in_the_middle(&ranks, group, victim, number);
        /* A job without it: it is told of, and the others do theirs. */
        group_bed_job_set(&job, ENGINE_COPY, KVT_TIER_G2, KVT_TIER_G1, number, 0, 24, 8);
        assert_int_equal(group_bed_job_run(&job, group), KVT_UNAVAILABLE);
        for (uint32_t r = 0; r < 4; r++)
            assert_int_equal(job.outcome.by_rank[r], r == victim ? KVT_UNAVAILABLE : KVT_OK);
        for (uint32_t r = 0; r < 4; r++)
            assert_true(r == victim || has(&ranks, r, 24, number, 8));
        group_bed_job_free(&job);
        rank_begin(&ranks, victim);
        becomes_well(&ranks, group, number + 50);
    }
    engine_worker_close(group);
    ranks_close(&ranks);
}

static void
replicas_are_told_by_the_fabric(void **state)
{
    struct engine_broadcast *broadcast;
    struct engine_worker *group;
    struct bed_job job;
    struct ranks ranks;

    (void)state;
    ranks_open(&ranks, 3, true);
    assert_int_equal(engine_broadcast_fabric(&broadcast, ranks.workers, 3, STAGED, NULL), KVT_OK);
    assert_int_equal(engine_replica_open(&group, ranks.workers, 3, broadcast, NULL), KVT_OK);
    group_bed_job_set(&job, ENGINE_HIDE, none, none, 1, 0, 0, 1); /* rank 0 alone */
    assert_int_equal(group_bed_job_run(&job, group), KVT_OK);
    group_bed_job_free(&job);
    assert_int_equal(round_trip(&ranks, group, 100, BED_ITEMS), KVT_OK);
    for (uint32_t victim = 3; victim-- > 0;) {
        kill_in_the_middle(&ranks, group, victim, 100 * (3 - victim));
        rank_begin(&ranks, victim);
        becomes_well(&ranks, group, 100 * (4 - victim));
    }
    engine_worker_close(group);
    ranks_close(&ranks);
}

int
main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(others_carry_on),
        cmocka_unit_test(replicas_are_told_by_the_fabric),
    };
    int failed;

    if (argc == 5 && strcmp(argv[0], "rank") == 0)
        rank_main(argv + 1);
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    return failed != 0 || kvt_alloc_live() != 0;
}
