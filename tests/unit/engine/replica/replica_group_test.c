/*
 * What is tested: engine/replica/replica_group.c over each kind of broadcast.  Rank 0 alone
 * stores, all ranks end with the same bytes, and every job ends once whatever dies.
 */
#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/core/random.h"

#include "tests/unit/engine/replica/replica_bed.h"

static const enum kvt_tier none = (enum kvt_tier)0;

static void
write_first(struct replica *replica, enum kvt_tier tier, uint32_t block, uint64_t number,
            size_t count)
{
    for (uint32_t i = 0; i < count; i++)
        fake_worker_write(replica->bed.ranks[0], tier, block + i, number + i, 0, 0);
}

/* Run a job that goes well. */
static void
do_well(struct engine_worker *worker, enum engine_verb verb, enum kvt_tier from, enum kvt_tier to,
        uint64_t number, uint32_t source, uint32_t target, size_t count)
{
    struct bed_job job;

    group_bed_job_set(&job, verb, from, to, number, source, target, count);
    job.job.peer = 4;
    assert_int_equal(group_bed_job_run(&job, worker), KVT_OK);
    assert_int_equal(job.outcome.ranks, verb == ENGINE_SHOW ? job.outcome.ranks : BED_RANKS);
    group_bed_job_free(&job);
}

static void
check_blocks(const struct replica *replica, uint32_t block, uint64_t number, size_t count)
{
    for (uint32_t i = 0; i < count; i++)
        assert_true(replica_all_have(replica, block + i, number + i));
}

/* A peer of one rank that shows contents 500 to 503 in its blocks 0 to 3. */
static struct engine_worker *
open_peer(struct engine_worker *group)
{
    const struct fake_options options = {
        .layout = group_bed_layout(1, 0), .blocks = {[KVT_TIER_G2] = 4}, .ending = FAKE_AT_ONCE};
    struct engine_worker *peer = fake_worker_open(&options);
    struct kvt_buffer text;

    assert_non_null(peer);
    for (uint32_t i = 0; i < 4; i++)
        fake_worker_write(peer, KVT_TIER_G2, i, 500 + i, 0, 0);
    do_well(peer, ENGINE_SHOW, none, none, 500, 0, 0, 4);
    kvt_buffer_init(&text, ENGINE_METADATA_MAX);
    assert_int_equal(engine_worker_describe(peer, &text, 1000, NULL), KVT_OK);
    assert_int_equal(engine_worker_connect(group, 4, text.data, text.size, 1000, NULL), KVT_OK);
    assert_int_equal(
        engine_worker_connect(group, ENGINE_PEER_SELF, text.data, text.size, 1000, NULL),
        KVT_INVALID);
    kvt_buffer_release(&text);
    return peer;
}

static void
by_layers(struct replica *replica)
{
    struct bed_job job;

    write_first(replica, KVT_TIER_G2, 2, 90, 2);
    for (uint32_t k = 0; k < BED_LAYERS; k++) {
        group_bed_job_set(&job, ENGINE_COPY, KVT_TIER_G2, KVT_TIER_G1, 90, 2, 50, 2);
        job.job.layer = k;
        job.job.layers = 1;
        assert_int_equal(group_bed_job_run(&job, replica->group), KVT_OK);
        assert_int_equal(replica_all_have(replica, 50, 90), k == BED_LAYERS - 1);
        group_bed_job_free(&job);
    }
    check_blocks(replica, 50, 90, 2);
}

static void
one_stores_and_all_have(enum replica_kind kind)
{
    struct fake_objects *objects = fake_objects_open();
    struct engine_worker *peer;
    struct replica replica;

    replica_open(&replica, kind, FAKE_LATER, objects);
    assert_int_equal(replica.group->ranks, BED_RANKS);
    assert_int_equal(replica.group->blocks[KVT_TIER_G2],
                     BED_BLOCKS - engine_broadcast_staged(replica.broadcast));
    peer = open_peer(replica.group);
    for (uint32_t r = 0; r < BED_RANKS; r++)
        for (uint32_t i = 0; i < BED_ITEMS; i++)
            fake_worker_write(replica.bed.ranks[r], KVT_TIER_G1, 3 + i, 70 + i, 0, 0);
    do_well(replica.group, ENGINE_COPY, KVT_TIER_G1, KVT_TIER_G2, 70, 3, 9, BED_ITEMS);
    do_well(replica.group, ENGINE_STORE, KVT_TIER_G2, none, 70, 9, 0, BED_ITEMS);
    assert_int_equal(fake_objects_count(objects), BED_ITEMS); /* once */
    for (uint32_t r = 1; r < BED_RANKS; r++) {
        assert_int_equal(fake_worker_jobs(replica.bed.ranks[r], ENGINE_STORE), 0);
        assert_int_equal(fake_worker_jobs(replica.bed.ranks[r], ENGINE_LOAD), 0);
        assert_false(fake_worker_is(replica.bed.ranks[r], KVT_TIER_G2, 9, 70));
    }
    do_well(replica.group, ENGINE_ASK, none, none, 70, 0, 0, BED_ITEMS);
    do_well(replica.group, ENGINE_LOAD, none, KVT_TIER_G1, 70, 0, 20, BED_ITEMS);
    check_blocks(&replica, 20, 70, BED_ITEMS);
    do_well(replica.group, ENGINE_COPY, KVT_TIER_G2, KVT_TIER_G1, 70, 9, 30, BED_ITEMS);
    check_blocks(&replica, 30, 70, BED_ITEMS);
    do_well(replica.group, ENGINE_PULL, none, KVT_TIER_G1, 500, 0, 40, 4);
    check_blocks(&replica, 40, 500, 4);
    do_well(replica.group, ENGINE_PULL, none, KVT_TIER_G2, 500, 0, 40, 4);
    assert_true(fake_worker_is(replica.bed.ranks[0], KVT_TIER_G2, 43, 503));
    by_layers(&replica);
    engine_worker_disconnect(replica.group, 4);
    replica_close(&replica);
    engine_worker_close(peer);
    fake_objects_close(objects);
}

static void
one_stores_and_all_have_the_same(void **state)
{
    (void)state;
    for (enum replica_kind kind = 0; kind < REPLICA_KINDS; kind++)
        one_stores_and_all_have(kind);
}

/* What rank 0 could not get goes no further; the rest does. */
static void
what_is_not_there_is_not_spread(void **state)
{
    struct fake_objects *objects = fake_objects_open();
    struct replica replica;
    struct bed_job job;

    (void)state;
    for (enum replica_kind kind = 0; kind < REPLICA_KINDS; kind++) {
        replica_open(&replica, kind, FAKE_LATER, objects);
        write_first(&replica, KVT_TIER_G2, 0, 70, BED_ITEMS);
        do_well(replica.group, ENGINE_STORE, KVT_TIER_G2, none, 70, 0, 0, BED_ITEMS);
        group_bed_job_set(&job, ENGINE_LOAD, none, KVT_TIER_G1, 70, 0, 20, BED_ITEMS);
        job.items[4].label.id.hash = 999;
        assert_int_equal(group_bed_job_run(&job, replica.group), KVT_NOTFOUND);
        assert_int_equal(job.outcome.by_rank[0], KVT_NOTFOUND);
        assert_int_equal(job.outcome.by_rank[1], KVT_OK);
        for (uint32_t i = 0; i < BED_ITEMS; i++) {
            assert_int_equal(job.items[i].status, i == 4 ? KVT_NOTFOUND : KVT_OK);
            assert_int_equal(replica_all_have(&replica, 20 + i, 70 + i), i != 4);
        }
        group_bed_job_free(&job);
        replica_close(&replica);
    }
    fake_objects_close(objects);
}

static enum kvt_err
bring_up(struct replica *replica, struct bed_job *job, uint64_t wait_ms)
{
    enum kvt_err rc;

    write_first(replica, KVT_TIER_G2, 0, 70, 2);
    group_bed_job_set(job, ENGINE_COPY, KVT_TIER_G2, KVT_TIER_G1, 70, 0, 20, 2);
    job->job.wait_ms = wait_ms;
    rc = group_bed_job_run(job, replica->group);
    group_bed_job_free(job);
    return rc;
}

/* Each step of each rank fails once: the rank is named, and the next job goes well. */
static void
every_failure_is_told(void **state)
{
    static const struct {
        uint32_t rank;
        enum engine_verb verb;
        uint32_t nth; /* rank 0 copies up before it copies down */
    } steps[] = {{0, ENGINE_COPY, 2}, {0, ENGINE_SHOW, 1}, {1, ENGINE_PULL, 1},
                 {3, ENGINE_PULL, 1}, {2, ENGINE_COPY, 1}, {3, ENGINE_COPY, 1}};
    struct replica replica;
    struct bed_job job;

    (void)state;
    replica_open(&replica, REPLICA_FABRIC, FAKE_LATER, NULL);
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
        char text[16];

        fake_worker_fail(replica.bed.ranks[steps[i].rank], steps[i].verb, steps[i].nth,
                         KVT_CORRUPT);
        assert_int_equal(bring_up(&replica, &job, 5000), KVT_CORRUPT);
        for (uint32_t r = 0; r < BED_RANKS; r++)
            assert_int_equal(job.outcome.by_rank[r], r == steps[i].rank ? KVT_CORRUPT : KVT_OK);
        (void)snprintf(text, sizeof(text), "rank %u: ", steps[i].rank);
        assert_non_null(strstr(job.outcome.error.text, text));
        assert_int_equal(job.items[0].status, KVT_CORRUPT);
        assert_int_equal(bring_up(&replica, &job, 5000), KVT_OK);
        check_blocks(&replica, 20, 70, 2);
    }
    replica_close(&replica);
}

/* Ranks that die are told of; those that come back are connected anew. */
static void
ranks_come_back(void **state)
{
    struct replica replica;
    struct bed_job job;

    (void)state;
    replica_open(&replica, REPLICA_FABRIC, FAKE_LATER, NULL);
    for (uint32_t r = 0; r < BED_RANKS; r++) {
        assert_int_equal(bring_up(&replica, &job, 5000), KVT_OK);
        fake_worker_kill(replica.bed.ranks[r]);
        assert_int_equal(bring_up(&replica, &job, 5000), KVT_UNAVAILABLE);
        if (r > 0)
            assert_int_equal(job.outcome.by_rank[r], KVT_UNAVAILABLE);
        for (uint32_t other = 1; r > 0 && other < BED_RANKS; other++)
            if (other != r) /* the others have it */
                assert_true(fake_worker_is(replica.bed.ranks[other], KVT_TIER_G1, 21, 71));
        fake_worker_revive(replica.bed.ranks[r]);
        if (r == 0)
            (void)bring_up(&replica, &job, 5000); /* they find out that it is another one */
        assert_int_equal(bring_up(&replica, &job, 5000), KVT_OK);
        check_blocks(&replica, 20, 70, 2);
    }
    replica_close(&replica);
}

static void
a_stalled_rank_costs_its_deadline(void **state)
{
    const uint64_t begin = kvt_clock_mono_ms();
    struct replica replica;
    struct bed_job job;

    (void)state;
    replica_open(&replica, REPLICA_FABRIC, FAKE_LATER, NULL);
    fake_worker_fail(replica.bed.ranks[2], ENGINE_PULL, 1, KVT_TIMEOUT);
    assert_int_equal(bring_up(&replica, &job, 300), KVT_TIMEOUT);
    assert_int_equal(job.outcome.by_rank[2], KVT_TIMEOUT);
    assert_true(kvt_clock_mono_ms() - begin < 3000);
    replica_close(&replica);
}

/* At rank 0, while it waits behind another broadcast, and in the middle of its own. */
static void
cancelled_jobs_end(void **state)
{
    struct replica replica;
    struct bed_job jobs[3];

    (void)state;
    replica_open(&replica, REPLICA_FABRIC, FAKE_WHEN_TOLD, NULL);
    write_first(&replica, KVT_TIER_G2, 0, 70, 3 * BED_ITEMS);
    for (uint32_t i = 0; i < 3; i++) {
        group_bed_job_set(&jobs[i], ENGINE_COPY, KVT_TIER_G2, KVT_TIER_G1, 70, i * BED_ITEMS,
                          i * BED_ITEMS, BED_ITEMS);
        assert_int_equal(engine_worker_start(replica.group, &jobs[i].job), KVT_OK);
    }
    engine_worker_cancel(replica.group, &jobs[2].job);
    assert_int_equal(group_bed_job_ends(&jobs[2]), 1);
    assert_int_equal(jobs[2].outcome.status, KVT_CANCELLED);
    group_bed_job_free(&jobs[2]);
    assert_true(fake_worker_step(replica.bed.ranks[0]));
    while (fake_worker_waiting(replica.bed.ranks[0]) < 2) /* the second one, and the copy down */
        kvt_clock_sleep_ms(1);
    assert_true(fake_worker_step(replica.bed.ranks[0]));
    assert_int_equal(group_bed_job_ends(&jobs[1]), 0);
    engine_worker_cancel(replica.group, &jobs[1].job);
    engine_worker_cancel(replica.group, &jobs[0].job);
    while (group_bed_job_ends(&jobs[0]) == 0 || group_bed_job_ends(&jobs[1]) == 0) {
        for (uint32_t r = 0; r < BED_RANKS; r++)
            (void)fake_worker_step(replica.bed.ranks[r]);
        kvt_clock_sleep_ms(1);
    }
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(jobs[i].outcome.status, KVT_CANCELLED);
        assert_int_equal(jobs[i].outcome.by_rank[3], KVT_CANCELLED);
        group_bed_job_free(&jobs[i]);
    }
    /* A step had begun: it was done. */
    assert_int_equal(jobs[0].items[0].status, KVT_OK);
    assert_int_equal(jobs[0].items[REPLICA_STAGED].status, KVT_CANCELLED);
    assert_int_equal(jobs[1].items[0].status, KVT_CANCELLED);
    replica_close(&replica);
}

static void
ranks_must_fit(void **state)
{
    struct engine_broadcast *broadcast;
    struct engine_worker *group;
    struct kvt_error err;
    struct group_bed shards;
    struct group_bed equal;

    (void)state;
    group_bed_open(&shards, BED_RANKS, FAKE_AT_ONCE, NULL);
    group_bed_open(&equal, 1, FAKE_AT_ONCE, NULL);
    assert_int_equal(engine_broadcast_fabric(&broadcast, equal.ranks, BED_RANKS, 0, &err),
                     KVT_INVALID);
    assert_int_equal(engine_broadcast_fabric(&broadcast, equal.ranks, 0, 1, &err), KVT_INVALID);
    equal.ranks[2]->blocks[KVT_TIER_G2] = 1;
    assert_int_equal(engine_broadcast_fabric(&broadcast, equal.ranks, BED_RANKS, 2, &err),
                     KVT_INVALID);
    assert_string_equal(err.text, "broadcast: G2 of rank 2 has 1 blocks, fewer than 2");
    assert_null(broadcast);
    equal.ranks[2]->blocks[KVT_TIER_G2] = BED_BLOCKS;
    assert_int_equal(engine_broadcast_fabric(&broadcast, equal.ranks, BED_RANKS, 2, &err), KVT_OK);
    assert_int_equal(engine_replica_open(&group, equal.ranks, 3, broadcast, &err), KVT_INVALID);
    assert_int_equal(engine_replica_open(&group, shards.ranks, BED_RANKS, broadcast, &err),
                     KVT_INVALID);
    assert_string_equal(err.text, "replica: rank 1 has another layout");
    assert_null(group);
    engine_broadcast_close(broadcast);
    engine_broadcast_close(NULL);
    for (uint32_t r = 0; r < BED_RANKS; r++) {
        engine_worker_close(shards.ranks[r]);
        engine_worker_close(equal.ranks[r]);
    }
}

/* ---- at random ---- */

enum { SLOTS = 6, ROUNDS = 60 };

static void
round_of_jobs(struct replica *replica, uint64_t *random, uint64_t number)
{
    const uint32_t victim = (uint32_t)kvt_random_below(random, 3 * BED_RANKS);
    struct bed_job jobs[SLOTS];
    bool begun[SLOTS];

    for (uint32_t s = 0; s < SLOTS; s++) {
        const uint32_t at = s * BED_ITEMS;
        const size_t count = 1 + kvt_random_below(random, BED_ITEMS);

        write_first(replica, KVT_TIER_G2, at, number + at, count);
        group_bed_job_set(&jobs[s], ENGINE_COPY, KVT_TIER_G2, KVT_TIER_G1, number + at, at, at,
                          count);
        jobs[s].job.wait_ms = 1 + kvt_random_below(random, 100);
        jobs[s].job.priority = (enum kvt_priority)kvt_random_below(random, KVT_PRIORITY_COUNT);
        begun[s] = engine_worker_start(replica->group, &jobs[s].job) == KVT_OK;
        if (begun[s] && kvt_random_below(random, 8) == 0)
            engine_worker_cancel(replica->group, &jobs[s].job);
    }
    if (victim < BED_RANKS)
        fake_worker_kill(replica->bed.ranks[victim]);
    for (uint32_t s = 0; s < SLOTS; s++) {
        const uint32_t at = s * BED_ITEMS;
        bool well = true;

        if (begun[s])
            group_bed_job_wait(&jobs[s]);
        for (uint32_t i = 0; begun[s] && i < jobs[s].job.count; i++) {
            if (jobs[s].items[i].status == KVT_OK)
                assert_true(replica_all_have(replica, at + i, number + at + i));
            well = well && jobs[s].items[i].status == KVT_OK;
        }
        if (begun[s])
            assert_int_equal(well, jobs[s].outcome.status == KVT_OK);
    }
    for (uint32_t r = 0; r < BED_RANKS; r++)
        assert_int_equal(fake_worker_waiting(replica->bed.ranks[r]), 0);
    for (uint32_t s = 0; s < SLOTS; s++) {
        assert_int_equal(group_bed_job_ends(&jobs[s]), begun[s] ? 1 : 0);
        group_bed_job_free(&jobs[s]);
    }
    if (victim < BED_RANKS)
        fake_worker_revive(replica->bed.ranks[victim]);
}

static void
whatever_dies_every_job_ends_once(void **state)
{
    static const struct fake_faults faults = {.refuse = 10000, .fail = 5000, .stall = 5000};
    static const struct fake_faults no_faults = {0};
    uint64_t random = test_seed();

    (void)state;
    for (enum replica_kind kind = 0; kind < REPLICA_KINDS; kind++) {
        struct replica replica;
        struct bed_job job;

        replica_open(&replica, kind, FAKE_LATER, NULL);
        for (uint32_t r = 0; r < BED_RANKS; r++)
            fake_worker_faults(replica.bed.ranks[r], &faults);
        for (uint64_t i = 0; i < ROUNDS; i++)
            round_of_jobs(&replica, &random, 1000 * (i + 1));
        for (uint32_t r = 0; r < BED_RANKS; r++)
            fake_worker_faults(replica.bed.ranks[r], &no_faults);
        (void)bring_up(&replica, &job, 5000);
        assert_int_equal(bring_up(&replica, &job, 5000), KVT_OK); /* nothing of it is left */
        replica_close(&replica);
    }
}

/* ---- without memory ---- */

static bool
open_and_bring_up(void *arg)
{
    return replica_try(arg, engine_broadcast_fabric);
}

static void
no_memory_is_an_answer(void **state)
{
    struct replica replica;

    (void)state;
    group_bed_open(&replica.bed, 1, FAKE_AT_ONCE, NULL);
    write_first(&replica, KVT_TIER_G2, 0, 70, 2);
    assert_true(test_sweep_allocations(open_and_bring_up, &replica) >= 8);
    for (uint32_t r = 0; r < BED_RANKS; r++)
        engine_worker_close(replica.bed.ranks[r]);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_stores_and_all_have_the_same),
        cmocka_unit_test(what_is_not_there_is_not_spread),
        cmocka_unit_test(every_failure_is_told),
        cmocka_unit_test(ranks_come_back),
        cmocka_unit_test(a_stalled_rank_costs_its_deadline),
        cmocka_unit_test(cancelled_jobs_end),
        cmocka_unit_test(ranks_must_fit),
        cmocka_unit_test(whatever_dies_every_job_ends_once),
        cmocka_unit_test(no_memory_is_an_answer),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);

    return failed != 0 || kvt_alloc_live() != 0;
}
