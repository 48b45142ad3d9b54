/*
 * What is tested: what a broadcast is chosen for ranks in processes of their own
 * (engine/replica/broadcast_choose.c), by what each of them shares, and what it says of itself:
 * the way that blocks go, why, and how many went that way.  Whatever the way, the bytes are the
 * same.  On fakes; on processes and a driver in tests/unit/engine/replica/broadcast_ipc_test.c.
 */
#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"

#include "tests/unit/engine/replica/replica_bed.h"
#include "tests/unit/engine/support/fake_worker_internal.h"

enum { STAGED = 2, WAIT = 5000 };

struct chosen {
    struct group_bed bed;
    struct engine_broadcast *broadcast;
    struct engine_worker *group;
    uint64_t number; /* of the last content */
};

static void
set_shares(struct chosen *chosen, uint32_t rank, bool shares)
{
    struct fake *fake = (struct fake *)chosen->bed.ranks[rank];

    (void)pthread_mutex_lock(&fake->lock);
    fake->shares = shares;
    (void)pthread_mutex_unlock(&fake->lock);
}

/* All ranks but `without` have devices; `away` does not answer while it is chosen. */
static void
chosen_open(struct chosen *chosen, bool devices, uint32_t without, uint32_t away)
{
    *chosen = (struct chosen){.number = 100};
    group_bed_open(&chosen->bed, 1, FAKE_LATER, NULL);
    for (uint32_t r = 0; r < BED_RANKS; r++)
        set_shares(chosen, r, r != without);
    if (away < BED_RANKS)
        fake_worker_kill(chosen->bed.ranks[away]);
    assert_int_equal(engine_broadcast_choose(&chosen->broadcast, chosen->bed.ranks, BED_RANKS,
                                             STAGED, devices, WAIT, NULL),
                     KVT_OK);
    if (away < BED_RANKS)
        fake_worker_revive(chosen->bed.ranks[away]);
    assert_int_equal(
        engine_replica_open(&chosen->group, chosen->bed.ranks, BED_RANKS, chosen->broadcast, NULL),
        KVT_OK);
}

/* Two blocks of new content, and all ranks have them.  How it was done. */
static struct engine_broadcast_state
bring_up(struct chosen *chosen)
{
    const uint64_t number = chosen->number += 10;
    struct engine_broadcast_state state;
    struct bed_job job;

    for (uint32_t i = 0; i < 2; i++)
        fake_worker_write(chosen->bed.ranks[0], KVT_TIER_G2, i, number + i, 0, 0);
    group_bed_job_set(&job, ENGINE_COPY, KVT_TIER_G2, KVT_TIER_G1, number, 0, 20, 2);
    assert_int_equal(group_bed_job_run(&job, chosen->group), KVT_OK);
    group_bed_job_free(&job);
    for (uint32_t r = 0; r < BED_RANKS; r++)
        for (uint32_t i = 0; i < 2; i++)
            assert_true(fake_worker_is(chosen->bed.ranks[r], KVT_TIER_G1, 20 + i, number + i));
    engine_broadcast_state(chosen->broadcast, &state);
    return state;
}

static void
devices_of_all_are_used(void **state)
{
    struct engine_broadcast_state said;
    struct chosen chosen;

    (void)state;
    chosen_open(&chosen, true, BED_RANKS, BED_RANKS);
    engine_broadcast_state(chosen.broadcast, &said);
    assert_int_equal(said.way, ENGINE_BY_IPC);
    assert_non_null(strstr(said.why, "nothing was brought yet"));
    for (uint64_t n = 1; n < 4; n++) {
        said = bring_up(&chosen);
        assert_int_equal(said.way, ENGINE_BY_IPC);
        assert_string_equal(said.why, "all ranks have the device memory of rank 0");
        assert_int_equal(said.blocks[ENGINE_BY_IPC], 2 * n);
        assert_int_equal(said.blocks[ENGINE_BY_FABRIC], 0);
    }
    engine_worker_close(chosen.group);
}

/* One without a device, or who does not answer, or nobody wants them: known before the first. */
static void
else_it_is_the_fabric(void **state)
{
    static const struct {
        bool devices;
        uint32_t without, away;
        const char *why;
    } rows[] = {
        {true, 0, BED_RANKS, "rank 0: "},
        {true, 2, BED_RANKS, "rank 2: "},
        {true, BED_RANKS, 1, "rank 1: "},
        {false, BED_RANKS, BED_RANKS, "nothing else is wanted"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct engine_broadcast_state said;
        struct chosen chosen;

        chosen_open(&chosen, rows[i].devices, rows[i].without, rows[i].away);
        engine_broadcast_state(chosen.broadcast, &said);
        assert_int_equal(said.way, ENGINE_BY_FABRIC);
        assert_int_equal(strncmp(said.why, rows[i].why, strlen(rows[i].why)), 0);
        assert_true(strlen(said.why) >= strlen("rank 0: x"));
        said = bring_up(&chosen);
        assert_int_equal(said.way, ENGINE_BY_FABRIC);
        assert_int_equal(strncmp(said.why, rows[i].why, strlen(rows[i].why)), 0);
        assert_int_equal(said.blocks[ENGINE_BY_FABRIC], 2);
        assert_int_equal(said.blocks[ENGINE_BY_IPC], 0);
        engine_worker_close(chosen.group);
    }
}

/* A rank that shares and cannot have what rank 0 shares: the first job says so, and each one behind
 * it, until rank 0 is another process. */
static void
what_is_found_out_later_is_said(void **state)
{
    struct engine_broadcast_state said;
    struct chosen chosen;

    (void)state;
    chosen_open(&chosen, true, BED_RANKS, BED_RANKS);
    set_shares(&chosen, 2, false);
    for (uint64_t n = 1; n < 4; n++) {
        said = bring_up(&chosen);
        assert_int_equal(said.way, ENGINE_BY_FABRIC);
        assert_int_equal(strncmp(said.why, "rank 2: ", 8), 0);
        assert_int_equal(said.blocks[ENGINE_BY_FABRIC], 2 * n);
    }
    set_shares(&chosen, 2, true);
    fake_worker_kill(chosen.bed.ranks[0]);
    fake_worker_revive(chosen.bed.ranks[0]);
    said = bring_up(&chosen);
    assert_int_equal(said.way, ENGINE_BY_IPC);
    assert_int_equal(said.blocks[ENGINE_BY_IPC], 2);
    assert_int_equal(said.blocks[ENGINE_BY_FABRIC], 6);
    engine_worker_close(chosen.group);
}

static void
one_rank_needs_none(void **state)
{
    struct engine_broadcast_state said;
    struct engine_broadcast *broadcast;
    struct group_bed bed;

    (void)state;
    group_bed_open(&bed, 1, FAKE_AT_ONCE, NULL);
    assert_int_equal(engine_broadcast_choose(&broadcast, bed.ranks, 1, STAGED, true, WAIT, NULL),
                     KVT_OK);
    engine_broadcast_state(broadcast, &said);
    assert_string_equal(said.why, "there is one rank");
    engine_broadcast_close(broadcast);
    assert_int_equal(engine_broadcast_choose(&broadcast, bed.ranks, 1, 0, true, WAIT, NULL),
                     KVT_INVALID);
    assert_null(broadcast);
    for (uint32_t r = 0; r < BED_RANKS; r++)
        engine_worker_close(bed.ranks[r]);
}

static void
every_way_has_a_name(void **state)
{
    static const char *const names[ENGINE_WAYS] = {"memory", "nccl", "ipc", "fabric"};

    (void)state;
    for (enum engine_way way = (enum engine_way)0; way < ENGINE_WAYS; way++)
        assert_string_equal(engine_way_name(way), names[way]);
}

static bool
choose(void *arg)
{
    struct chosen *chosen = arg;
    struct engine_broadcast *broadcast;
    const enum kvt_err rc =
        engine_broadcast_choose(&broadcast, chosen->bed.ranks, BED_RANKS, STAGED, true, WAIT, NULL);

    engine_broadcast_close(broadcast);
    return rc == KVT_OK;
}

static void
no_memory_is_an_answer(void **state)
{
    struct chosen chosen;

    (void)state;
    group_bed_open(&chosen.bed, 1, FAKE_AT_ONCE, NULL);
    for (uint32_t r = 0; r < BED_RANKS; r++)
        set_shares(&chosen, r, true);
    assert_true(test_sweep_allocations(choose, &chosen) >= 3);
    for (uint32_t r = 0; r < BED_RANKS; r++)
        engine_worker_close(chosen.bed.ranks[r]);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(devices_of_all_are_used),
        cmocka_unit_test(else_it_is_the_fabric),
        cmocka_unit_test(what_is_found_out_later_is_said),
        cmocka_unit_test(one_rank_needs_none),
        cmocka_unit_test(every_way_has_a_name),
        cmocka_unit_test(no_memory_is_an_answer),
    };
    const int failed = cmocka_run_group_tests_name("engine/choose", tests, NULL, NULL);

    return failed != 0 || kvt_alloc_live() != 0;
}
