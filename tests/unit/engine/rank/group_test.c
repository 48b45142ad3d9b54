/*
 * What is tested: engine/rank/group.c over ranks that end at once, late, when told, badly or not
 * at all. Every job ends once and when its last rank has; every rank's failure is told; nothing is
 * left running.
 */
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/random.h"

#include "engine/rank/group.h"
#include "tests/unit/engine/support/group_bed.h"

static struct engine_worker *
open_group(struct group_bed *bed, enum fake_ending ending, struct fake_objects *objects)
{
    struct engine_worker *group;

    group_bed_open(bed, BED_RANKS, ending, objects);
    assert_int_equal(engine_group_open(&group, bed->ranks, BED_RANKS, NULL), KVT_OK);
    return group;
}

static void
write_all(struct group_bed *bed, enum kvt_tier tier, uint32_t block, uint64_t number, size_t count)
{
    for (uint32_t r = 0; r < BED_RANKS; r++)
        for (uint32_t i = 0; i < count; i++)
            fake_worker_write(bed->ranks[r], tier, block + i, number + i, 0, 0);
}

static size_t
waiting(const struct group_bed *bed)
{
    size_t count = 0;

    for (uint32_t r = 0; r < BED_RANKS; r++)
        count += fake_worker_waiting(bed->ranks[r]);
    return count;
}

/* Each rank has its own shard under its own rank's keys. */
static void
all_ranks_do_the_same(void **state)
{
    struct fake_objects *objects = fake_objects_open();
    struct engine_worker *group;
    struct bed_job job;
    struct group_bed bed;

    (void)state;
    group = open_group(&bed, FAKE_LATER, objects);
    assert_int_equal(group->ranks, BED_RANKS);
    assert_int_equal(group->blocks[KVT_TIER_G2], BED_BLOCKS); /* of the rank with the fewest */
    assert_int_equal(group->layout.geometry.tp_rank, 0);
    assert_true(group->objects);
    write_all(&bed, KVT_TIER_G1, 3, 70, 4);
    group_bed_job_set(&job, ENGINE_COPY, KVT_TIER_G1, KVT_TIER_G2, 70, 3, 9, 4);
    assert_int_equal(group_bed_job_run(&job, group), KVT_OK);
    assert_int_equal(job.outcome.ranks, BED_RANKS);
    group_bed_job_free(&job);
    group_bed_job_set(&job, ENGINE_STORE, KVT_TIER_G2, (enum kvt_tier)0, 70, 9, 0, 4);
    assert_int_equal(group_bed_job_run(&job, group), KVT_OK);
    assert_int_equal(fake_objects_count(objects), 4 * BED_RANKS);
    group_bed_job_free(&job);
    fake_objects_remove(objects, 2, &job.items[1].label.id);
    group_bed_job_set(&job, ENGINE_ASK, (enum kvt_tier)0, (enum kvt_tier)0, 70, 0, 0, 5);
    assert_int_equal(group_bed_job_run(&job, group), KVT_OK);
    for (size_t i = 0; i < 5; i++) /* one rank's is missing, and one nobody has */
        assert_int_equal(job.items[i].status, i == 1 || i == 4 ? KVT_NOTFOUND : KVT_OK);
    group_bed_job_free(&job);
    group_bed_job_set(&job, ENGINE_STORE, KVT_TIER_G2, (enum kvt_tier)0, 70, 9, 0, 4);
    assert_int_equal(group_bed_job_run(&job, group), KVT_OK);
    assert_int_equal(job.items[0].status, KVT_EXISTS);
    group_bed_job_free(&job);
    group_bed_job_set(&job, ENGINE_LOAD, (enum kvt_tier)0, KVT_TIER_G1, 70, 0, 20, 4);
    assert_int_equal(group_bed_job_run(&job, group), KVT_OK);
    group_bed_job_free(&job);
    for (uint32_t r = 0; r < BED_RANKS; r++)
        for (uint32_t i = 0; i < 4; i++)
            assert_true(fake_worker_is(bed.ranks[r], KVT_TIER_G1, 20 + i, 70 + i));
    engine_worker_close(group);
    fake_objects_close(objects);
}

static void
ranks_must_fit(void **state)
{
    struct engine_worker *swapped[BED_RANKS];
    struct engine_worker *group;
    struct kvt_error err;
    struct group_bed bed;

    (void)state;
    group_bed_open(&bed, BED_RANKS, FAKE_AT_ONCE, NULL);
    memcpy(swapped, bed.ranks, sizeof(swapped));
    swapped[1] = bed.ranks[2];
    swapped[2] = bed.ranks[1];
    assert_int_equal(engine_group_open(&group, swapped, BED_RANKS, &err), KVT_INVALID);
    assert_string_equal(err.text, "group: rank 2 of 4 at place 1 of 4");
    assert_null(group);
    assert_int_equal(engine_group_open(&group, bed.ranks, 3, &err), KVT_INVALID);
    assert_int_equal(engine_group_open(&group, bed.ranks, 0, &err), KVT_INVALID);
    assert_int_equal(engine_group_open(&group, bed.ranks, KVT_RANKS_MAX + 1, &err), KVT_INVALID);
    for (uint32_t r = 0; r < BED_RANKS; r++)
        engine_worker_close(bed.ranks[r]); /* they are still ours */
}

/* Two of four fail, each in its own way; the others do theirs. */
static void
every_failure_is_told(void **state)
{
    struct engine_worker *group;
    struct bed_job job;
    struct group_bed bed;

    (void)state;
    group = open_group(&bed, FAKE_LATER, NULL);
    write_all(&bed, KVT_TIER_G1, 0, 30, 2);
    fake_worker_fail(bed.ranks[3], ENGINE_COPY, 1, KVT_CORRUPT);
    fake_worker_fail(bed.ranks[1], ENGINE_COPY, 1, KVT_IO);
    group_bed_job_set(&job, ENGINE_COPY, KVT_TIER_G1, KVT_TIER_G2, 30, 0, 0, 2);
    assert_int_equal(group_bed_job_run(&job, group), KVT_IO); /* of the first that failed */
    assert_int_equal(job.outcome.by_rank[0], KVT_OK);
    assert_int_equal(job.outcome.by_rank[1], KVT_IO);
    assert_int_equal(job.outcome.by_rank[2], KVT_OK);
    assert_int_equal(job.outcome.by_rank[3], KVT_CORRUPT);
    assert_non_null(strstr(job.outcome.error.text, "rank 1"));
    assert_int_equal(job.items[0].status, KVT_IO);
    assert_int_equal(job.items[1].status, KVT_IO);
    assert_true(fake_worker_is(bed.ranks[2], KVT_TIER_G2, 1, 31));
    group_bed_job_free(&job);
    engine_worker_close(group);
}

/* A process that is gone cannot begin: it failed, and the others are waited for. */
static void
a_job_ends_with_its_last_rank(void **state)
{
    struct engine_worker *group;
    struct bed_job job;
    struct group_bed bed;

    (void)state;
    group = open_group(&bed, FAKE_WHEN_TOLD, NULL);
    write_all(&bed, KVT_TIER_G1, 0, 30, 1);
    fake_worker_kill(bed.ranks[2]);
    group_bed_job_set(&job, ENGINE_COPY, KVT_TIER_G1, KVT_TIER_G2, 30, 0, 0, 1);
    assert_int_equal(engine_worker_start(group, &job.job), KVT_OK);
    assert_int_equal(waiting(&bed), 3); /* all of them were begun */
    assert_true(fake_worker_step(bed.ranks[3]));
    assert_true(fake_worker_step(bed.ranks[0]));
    assert_int_equal(group_bed_job_ends(&job), 0);
    fake_worker_kill(bed.ranks[1]); /* in the middle of it */
    assert_int_equal(group_bed_job_ends(&job), 1);
    assert_int_equal(job.outcome.status, KVT_UNAVAILABLE);
    assert_int_equal(job.outcome.by_rank[0], KVT_OK);
    assert_int_equal(job.outcome.by_rank[1], KVT_UNAVAILABLE);
    assert_int_equal(job.outcome.by_rank[2], KVT_UNAVAILABLE);
    assert_int_equal(job.outcome.by_rank[3], KVT_OK);
    assert_non_null(strstr(job.outcome.error.text, "rank 1"));
    group_bed_job_free(&job);
    engine_worker_close(group);
}

static void
what_all_refuse_is_refused(void **state)
{
    static const struct fake_faults all = {.refuse = 1000000};
    struct engine_worker *group;
    struct bed_job job;
    struct group_bed bed;

    (void)state;
    group = open_group(&bed, FAKE_AT_ONCE, NULL);
    for (uint32_t r = 0; r < BED_RANKS; r++)
        fake_worker_faults(bed.ranks[r], &all);
    write_all(&bed, KVT_TIER_G1, 0, 30, 1);
    group_bed_job_set(&job, ENGINE_COPY, KVT_TIER_G1, KVT_TIER_G2, 30, 0, 0, 1);
    assert_int_equal(group_bed_job_run(&job, group), KVT_AGAIN);
    fake_worker_kill(bed.ranks[3]); /* now they do not agree, and each is told */
    assert_int_equal(group_bed_job_run(&job, group), KVT_AGAIN);
    assert_int_equal(group_bed_job_ends(&job), 1);
    assert_int_equal(job.outcome.by_rank[3], KVT_UNAVAILABLE);
    job.job.from = KVT_TIER_G3;
    assert_int_equal(engine_worker_start(group, &job.job), KVT_INVALID);
    group_bed_job_free(&job);
    engine_worker_close(group);
}

static void
cancelling_reaches_all(void **state)
{
    struct engine_worker *group;
    struct bed_job job;
    struct group_bed bed;

    (void)state;
    group = open_group(&bed, FAKE_WHEN_TOLD, NULL);
    write_all(&bed, KVT_TIER_G1, 0, 30, 1);
    group_bed_job_set(&job, ENGINE_COPY, KVT_TIER_G1, KVT_TIER_G2, 30, 0, 0, 1);
    assert_int_equal(engine_worker_start(group, &job.job), KVT_OK);
    assert_true(fake_worker_step(bed.ranks[1])); /* this one has done it */
    engine_worker_cancel(group, &job.job);
    assert_int_equal(group_bed_job_ends(&job), 1);
    assert_int_equal(job.outcome.status, KVT_CANCELLED);
    assert_int_equal(job.outcome.by_rank[1], KVT_OK);
    assert_int_equal(job.outcome.by_rank[3], KVT_CANCELLED);
    assert_int_equal(job.items[0].status, KVT_CANCELLED);
    assert_int_equal(waiting(&bed), 0);
    engine_worker_cancel(group, &job.job); /* who comes too late does no harm */
    group_bed_job_free(&job);
    engine_worker_close(group);
}

static void
jobs_are_bounded(void **state)
{
    static struct bed_job jobs[ENGINE_JOBS_MAX + 1];
    struct engine_worker *group;
    struct group_bed bed;

    (void)state;
    group = open_group(&bed, FAKE_WHEN_TOLD, NULL);
    for (size_t i = 0; i <= ENGINE_JOBS_MAX; i++) {
        group_bed_job_set(&jobs[i], ENGINE_HIDE, (enum kvt_tier)0, (enum kvt_tier)0, 1, 0, 0, 1);
        assert_int_equal(engine_worker_start(group, &jobs[i].job),
                         i < ENGINE_JOBS_MAX ? KVT_OK : KVT_AGAIN);
    }
    for (uint32_t r = 0; r < BED_RANKS; r++)
        while (fake_worker_step(bed.ranks[r]))
            ;
    for (size_t i = 0; i <= ENGINE_JOBS_MAX; i++) {
        assert_int_equal(group_bed_job_ends(&jobs[i]), i < ENGINE_JOBS_MAX ? 1 : 0);
        group_bed_job_free(&jobs[i]);
    }
    engine_worker_close(group);
}

static enum kvt_err
pull(struct engine_worker *group, uint64_t peer)
{
    struct bed_job job;
    enum kvt_err rc;

    group_bed_job_set(&job, ENGINE_PULL, (enum kvt_tier)0, KVT_TIER_G2, 50, 7, 11, 1);
    job.job.peer = peer;
    rc = group_bed_job_run(&job, group);
    group_bed_job_free(&job);
    return rc;
}

/* Every rank is told of all of the peer's, or none is. */
static void
peers_are_all_or_none(void **state)
{
    struct engine_worker *ours;
    struct engine_worker *theirs;
    struct kvt_buffer text;
    struct bed_job job;
    struct group_bed a;
    struct group_bed b;

    (void)state;
    ours = open_group(&a, FAKE_LATER, NULL);
    theirs = open_group(&b, FAKE_LATER, NULL);
    write_all(&b, KVT_TIER_G2, 7, 50, 1);
    group_bed_job_set(&job, ENGINE_SHOW, (enum kvt_tier)0, (enum kvt_tier)0, 50, 7, 0, 1);
    assert_int_equal(group_bed_job_run(&job, theirs), KVT_OK);
    group_bed_job_free(&job);
    kvt_buffer_init(&text, ENGINE_METADATA_MAX);
    kvt_buffer_puts(&text, "before");
    fake_worker_kill(b.ranks[3]);
    assert_int_equal(engine_worker_describe(theirs, &text, 1000, NULL), KVT_UNAVAILABLE);
    assert_int_equal(text.size, 6); /* nothing of the three that did answer */
    fake_worker_revive(b.ranks[3]);
    fake_worker_write(b.ranks[3], KVT_TIER_G2, 7, 50, 0, 0);
    group_bed_job_set(&job, ENGINE_SHOW, (enum kvt_tier)0, (enum kvt_tier)0, 50, 7, 0, 1);
    assert_int_equal(group_bed_job_run(&job, theirs), KVT_OK);
    group_bed_job_free(&job);
    kvt_buffer_clear(&text);
    assert_int_equal(engine_worker_describe(theirs, &text, 1000, NULL), KVT_OK);
    fake_worker_kill(a.ranks[2]);
    assert_int_equal(engine_worker_connect(ours, 9, text.data, text.size, 1000, NULL),
                     KVT_UNAVAILABLE);
    fake_worker_revive(a.ranks[2]);
    assert_int_equal(pull(ours, 9), KVT_UNAVAILABLE);
    for (uint32_t r = 0; r < BED_RANKS; r++)
        assert_false(fake_worker_is(a.ranks[r], KVT_TIER_G2, 11, 50));
    assert_int_equal(engine_worker_connect(ours, 9, text.data, text.size, 1000, NULL), KVT_OK);
    assert_int_equal(engine_worker_connect(ours, 9, text.data, text.size, 1000, NULL), KVT_OK);
    assert_int_equal(pull(ours, 9), KVT_OK);
    for (uint32_t r = 0; r < BED_RANKS; r++)
        assert_true(fake_worker_is(a.ranks[r], KVT_TIER_G2, 11, 50));
    engine_worker_disconnect(ours, 9);
    assert_int_equal(pull(ours, 9), KVT_UNAVAILABLE);
    kvt_buffer_release(&text);
    engine_worker_close(ours);
    engine_worker_close(theirs);
}

/* ---- at random ---- */

enum { SLOTS = 8, ROUNDS = 120 };

static void
check_end(struct group_bed *bed, const struct bed_job *job, uint64_t number, uint32_t target)
{
    bool well = true;
    bool all_well = true;

    for (size_t i = 0; i < job->job.count; i++) {
        well = well && job->items[i].status == KVT_OK;
        assert_int_not_equal(job->items[i].status, KVT_ERR_COUNT);
        for (uint32_t r = 0; r < BED_RANKS && job->items[i].status == KVT_OK; r++)
            assert_true(
                fake_worker_is(bed->ranks[r], KVT_TIER_G2, target + (uint32_t)i, number + i));
    }
    for (uint32_t r = 0; r < BED_RANKS; r++)
        all_well = all_well && job->outcome.by_rank[r] == KVT_OK;
    assert_int_equal(well, job->outcome.status == KVT_OK);
    assert_int_equal(well, all_well);
    if (!well)
        assert_non_null(strstr(job->outcome.error.text, "rank "));
}

/* One life of a rank at most ends in each round. */
static void
round_of_jobs(struct group_bed *bed, struct engine_worker *group, uint64_t *random, uint64_t number)
{
    const uint32_t victim = (uint32_t)kvt_random_below(random, 3 * BED_RANKS);
    struct bed_job jobs[SLOTS];
    bool begun[SLOTS];

    for (uint32_t s = 0; s < SLOTS; s++) {
        const uint32_t at = s * BED_ITEMS;
        const size_t count = 1 + kvt_random_below(random, BED_ITEMS);
        enum kvt_err rc;

        write_all(bed, KVT_TIER_G1, at, number + at, count);
        group_bed_job_set(&jobs[s], ENGINE_COPY, KVT_TIER_G1, KVT_TIER_G2, number + at, at, at,
                          count);
        jobs[s].job.wait_ms = 1 + kvt_random_below(random, 30);
        rc = engine_worker_start(group, &jobs[s].job);
        begun[s] = rc == KVT_OK;
        assert_true(begun[s] || rc == KVT_AGAIN || rc == KVT_UNAVAILABLE);
        if (begun[s] && kvt_random_below(random, 8) == 0)
            engine_worker_cancel(group, &jobs[s].job);
    }
    if (victim < BED_RANKS)
        fake_worker_kill(bed->ranks[victim]);
    for (uint32_t s = 0; s < SLOTS; s++) {
        if (begun[s])
            group_bed_job_wait(&jobs[s]);
        assert_int_equal(group_bed_job_ends(&jobs[s]), begun[s] ? 1 : 0);
    }
    assert_int_equal(waiting(bed), 0); /* all have ended: no rank is left running */
    for (uint32_t s = 0; s < SLOTS; s++) {
        if (begun[s])
            check_end(bed, &jobs[s], number + s * BED_ITEMS, s * BED_ITEMS);
        group_bed_job_free(&jobs[s]);
    }
    if (victim < BED_RANKS)
        fake_worker_revive(bed->ranks[victim]);
}

static void
whatever_dies_every_job_ends_once(void **state)
{
    static const struct fake_faults faults = {.refuse = 30000, .fail = 20000, .stall = 30000};
    uint64_t random = test_seed();
    struct engine_worker *group;
    struct group_bed bed;

    (void)state;
    group = open_group(&bed, FAKE_LATER, NULL);
    for (uint32_t r = 0; r < BED_RANKS; r++)
        fake_worker_faults(bed.ranks[r], &faults);
    for (uint64_t i = 0; i < ROUNDS; i++)
        round_of_jobs(&bed, group, &random, 1000 * (i + 1));
    engine_worker_close(group);
}

/* ---- without memory ---- */

struct sweep {
    struct group_bed bed;
};

static bool
open_and_copy(void *arg)
{
    struct sweep *sweep = arg;
    struct engine_worker *group;
    struct bed_job job;
    enum kvt_err rc;

    if (engine_group_open(&group, sweep->bed.ranks, BED_RANKS, NULL) != KVT_OK)
        return false;
    group_bed_job_set(&job, ENGINE_COPY, KVT_TIER_G1, KVT_TIER_G2, 30, 0, 0, 2);
    rc = group_bed_job_run(&job, group);
    assert_true(rc == KVT_OK || rc == KVT_NOMEM);
    group_bed_job_free(&job);
    /* The ranks are wanted again: the group is closed without them. */
    group->ranks = 0;
    engine_worker_close(group);
    return rc == KVT_OK;
}

static void
no_memory_is_an_answer(void **state)
{
    struct sweep sweep;

    (void)state;
    group_bed_open(&sweep.bed, BED_RANKS, FAKE_AT_ONCE, NULL);
    write_all(&sweep.bed, KVT_TIER_G1, 0, 30, 2);
    assert_true(test_sweep_allocations(open_and_copy, &sweep) >= 6); /* it, a job, and the ranks' */
    for (uint32_t r = 0; r < BED_RANKS; r++)
        engine_worker_close(sweep.bed.ranks[r]);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_ranks_do_the_same),
        cmocka_unit_test(ranks_must_fit),
        cmocka_unit_test(every_failure_is_told),
        cmocka_unit_test(a_job_ends_with_its_last_rank),
        cmocka_unit_test(what_all_refuse_is_refused),
        cmocka_unit_test(cancelling_reaches_all),
        cmocka_unit_test(jobs_are_bounded),
        cmocka_unit_test(peers_are_all_or_none),
        cmocka_unit_test(whatever_dies_every_job_ends_once),
        cmocka_unit_test(no_memory_is_an_answer),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);

    return failed != 0 || kvt_alloc_live() != 0;
}
