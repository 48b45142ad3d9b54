/*
 * What is tested: engine/replica/nccl.c and its broadcast against an NCCL of our own (fake_nccl.c)
 * on devices of our own: machines without it, each of its calls and of the driver's failing, and
 * transfers that take over.  That it brings the same bytes as the others replica_test.c says.
 */
#include <dlfcn.h>
#include <string.h>

#include "base/core/alloc.h"

#include "engine/replica/nccl.h"
#include "tests/unit/engine/replica/replica_bed.h"

/* What a library of our own can be asked besides. */
struct asked {
    void *library;
    void (*fail_at)(long number);
    bool (*failed)(void);
    long (*live)(void);
    long (*spread)(void);
};

static void
ask(struct asked *asked, const char *path, const char *const names[4])
{
    void *found[4];

    asked->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    assert_non_null(asked->library);
    for (size_t i = 0; i < 4; i++) {
        found[i] = names[i] == NULL ? NULL : dlsym(asked->library, names[i]);
        assert_true(names[i] == NULL || found[i] != NULL);
    }
    memcpy(&asked->fail_at, &found[0], sizeof(found[0]));
    memcpy(&asked->failed, &found[1], sizeof(found[1]));
    memcpy(&asked->live, &found[2], sizeof(found[2]));
    memcpy(&asked->spread, &found[3], sizeof(found[3]));
}

static void
ask_nccl(struct asked *asked)
{
    static const char *const names[4] = {"fake_nccl_fail_at", "fake_nccl_failed", "fake_nccl_live",
                                         "fake_nccl_spread"};

    ask(asked, FAKE_NCCL, names);
}

static void
close_ranks(struct replica *replica)
{
    for (uint32_t r = 0; r < BED_RANKS; r++)
        engine_worker_close(replica->bed.ranks[r]);
    replica_close_storages(replica);
}

static void
machines_without_it_say_so(void **state)
{
    struct engine_broadcast_options options;
    struct engine_broadcast *broadcast;
    struct replica replica;
    struct kvt_error err;

    (void)state;
    replica_open_storages(&replica, REPLICA_NCCL, NULL, FAKE_AT_ONCE);
    options = replica_options(&replica);
    assert_int_equal(
        engine_broadcast_nccl(&broadcast, &options, "libkvtier-no-such-nccl.so.2", &err),
        KVT_UNSUPPORTED);
    assert_null(broadcast);
    assert_int_equal(engine_broadcast_nccl(&broadcast, &options, "libpthread.so.0", &err),
                     KVT_UNSUPPORTED);
    assert_non_null(strstr(err.text, "has no ncclGetUniqueId"));
    options.count = 1;
    assert_int_equal(engine_broadcast_nccl(&broadcast, &options, FAKE_NCCL, &err), KVT_UNSUPPORTED);
    options.storages = &replica.bounce;
    assert_int_equal(engine_broadcast_nccl(&broadcast, &options, FAKE_NCCL, &err), KVT_UNSUPPORTED);
    close_ranks(&replica);
    replica_open_storages(&replica, REPLICA_MEMORY, NULL, FAKE_AT_ONCE);
    options = replica_options(&replica);
    assert_int_equal(engine_broadcast_nccl(&broadcast, &options, FAKE_NCCL, &err), KVT_UNSUPPORTED);
    assert_string_equal(err.text, "nccl: rank 0 is system memory");
    close_ranks(&replica);
}

static enum kvt_err
bring_up(struct replica *replica, struct engine_broadcast *broadcast, uint64_t number)
{
    struct bed_job job;
    enum kvt_err rc;

    for (uint32_t i = 0; i < BED_ITEMS; i++)
        fake_worker_write(replica->bed.ranks[0], KVT_TIER_G1, i, number + i, 0, 0);
    group_bed_job_set(&job, ENGINE_COPY, KVT_TIER_G2, KVT_TIER_G1, number, 0, 0, BED_ITEMS);
    for (uint32_t i = 0; i < BED_ITEMS; i++)
        job.items[i].status = i == 5 ? KVT_NOTFOUND : KVT_OK; /* one that rank 0 does not have */
    assert_int_equal(engine_broadcast_start(broadcast, &job.job), KVT_OK);
    group_bed_job_wait(&job);
    rc = job.outcome.status;
    for (uint32_t i = 0; i < BED_ITEMS && rc == KVT_OK; i++) {
        assert_int_equal(job.items[i].status, i == 5 ? KVT_NOTFOUND : KVT_OK);
        assert_int_equal(replica_all_have(replica, i, number + i), i != 5);
    }
    group_bed_job_free(&job);
    return rc;
}

/* It is asked as long as it answers, and not once more. */
static void
every_failing_call_of_nccl(void **state)
{
    struct engine_broadcast_options options;
    struct engine_broadcast_state said;
    struct engine_broadcast *broadcast;
    unsigned opened = 0;
    unsigned refused = 0;
    struct replica replica;
    struct asked nccl;
    bool failed = true;

    (void)state;
    ask_nccl(&nccl);
    replica_open_storages(&replica, REPLICA_NCCL, NULL, FAKE_AT_ONCE);
    options = replica_options(&replica);
    for (long at = 0; failed; at++) {
        enum kvt_err rc;

        nccl.fail_at(at);
        rc = engine_broadcast_nccl(&broadcast, &options, FAKE_NCCL, NULL);
        if (rc == KVT_OK) {
            const long before = nccl.spread();

            assert_int_equal(bring_up(&replica, broadcast, 1000 * (uint64_t)(at + 1)), KVT_OK);
            assert_int_equal(bring_up(&replica, broadcast, 1000 * (uint64_t)(at + 1) + 100),
                             KVT_OK);
            if (!nccl.failed())
                assert_true(nccl.spread() >= before + 2 * (BED_ITEMS - 1));
            engine_broadcast_state(broadcast, &said);
            assert_int_equal(said.way, nccl.failed() ? ENGINE_BY_MEMORY : ENGINE_BY_NCCL);
            assert_int_equal(said.blocks[ENGINE_BY_MEMORY] + said.blocks[ENGINE_BY_NCCL],
                             2 * (BED_ITEMS - 1));
            engine_broadcast_close(broadcast);
            opened++;
        } else {
            assert_int_equal(rc, KVT_UNSUPPORTED);
            refused++;
        }
        failed = nccl.failed();
        assert_int_equal(nccl.live(), 0);
    }
    nccl.fail_at(-1);
    assert_true(refused >= 3 + BED_RANKS && opened >= 2 * BED_RANKS * (BED_ITEMS - 1));
    close_ranks(&replica);
    (void)dlclose(nccl.library);
}

/* A device that cannot be waited for: an error, and no rank is thought to have anything. */
static void
every_failing_call_of_the_driver(void **state)
{
    static const char *const names[4] = {"kvbm_fake_fail_at", "kvbm_fake_failed", "kvbm_fake_live",
                                         NULL};
    unsigned failures = 0;
    unsigned refused = 0;
    struct asked driver;
    struct asked nccl;
    bool failed = true;

    (void)state;
    ask_nccl(&nccl);
    ask(&driver, KVBM_FAKE_CUDA, names);
    for (long at = 0; failed; at++) {
        struct engine_broadcast_options options;
        struct engine_broadcast *broadcast;
        struct replica replica;
        enum kvt_err rc;

        replica_open_storages(&replica, REPLICA_NCCL, NULL, FAKE_AT_ONCE);
        options = replica_options(&replica);
        driver.fail_at(at); /* a device that cannot be entered: nobody joins alone */
        rc = engine_broadcast_nccl(&broadcast, &options, FAKE_NCCL, NULL);
        assert_int_equal(rc, driver.failed() ? KVT_UNSUPPORTED : KVT_OK);
        refused += rc != KVT_OK;
        if (rc != KVT_OK) {
            driver.fail_at(-1);
            assert_int_equal(engine_broadcast_nccl(&broadcast, &options, FAKE_NCCL, NULL), KVT_OK);
        }
        if (bring_up(&replica, broadcast, 100) != KVT_OK)
            failures++;
        failed = driver.failed() || rc != KVT_OK;
        driver.fail_at(-1);
        engine_broadcast_close(broadcast);
        close_ranks(&replica);
        assert_int_equal(nccl.live(), 0);
        assert_int_equal(driver.live(), 0);
    }
    assert_true(failures > 0 && refused == BED_RANKS);
    (void)dlclose(driver.library);
    (void)dlclose(nccl.library);
}

static bool
open_one(void *arg)
{
    const struct engine_broadcast_options options = replica_options(arg);
    struct engine_broadcast *broadcast;
    const enum kvt_err rc = engine_broadcast_nccl(&broadcast, &options, FAKE_NCCL, NULL);

    assert_true(rc == KVT_OK || rc == KVT_NOMEM);
    engine_broadcast_close(broadcast);
    return rc == KVT_OK;
}

static void
no_memory_is_an_answer(void **state)
{
    struct replica replica;

    (void)state;
    replica_open_storages(&replica, REPLICA_NCCL, NULL, FAKE_AT_ONCE);
    assert_true(test_sweep_allocations(open_one, &replica) >= 2);
    close_ranks(&replica);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(machines_without_it_say_so),
        cmocka_unit_test(every_failing_call_of_nccl),
        cmocka_unit_test(every_failing_call_of_the_driver),
        cmocka_unit_test(no_memory_is_an_answer),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);

    return failed != 0 || kvt_alloc_live() != 0;
}
