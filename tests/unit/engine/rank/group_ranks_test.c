/*
 * What is tested: groups and replicas of real ranks do what every worker does
 * (tests/unit/engine/support/worker_suite.h): four ranks that pull from two, and three that hold
 * the same.
 */
#include "base/core/alloc.h"

#include "engine/rank/group.h"
#include "engine/replica/replica_group.h"
#include "tests/support/seed.h"
#include "tests/unit/engine/support/rank_bed.h"

enum { RANKS_MAX = 4, PEER = 17, STEPS = 600, STAGED = 4 };

struct world {
    struct engine_fabric *fabric;
    struct kvbm_volumes *volumes;
    struct rank_bed own[RANKS_MAX];
    struct rank_bed peer[RANKS_MAX];
    uint32_t own_ranks;
    uint32_t peer_ranks;
};

static void
open_beds(struct world *world, struct rank_bed *beds, uint32_t count, bool same,
          struct engine_worker *ranks[RANKS_MAX])
{
    struct kvbm_volumes *volumes = beds == world->own ? world->volumes : NULL;

    for (uint32_t r = 0; r < count; r++) {
        const struct kvbm_layout layout = rank_bed_layout(same ? 1 : count, same ? 0 : r);

        assert_int_equal(rank_bed_open(&beds[r], &layout, world->fabric, volumes), KVT_OK);
        ranks[r] = beds[r].worker;
    }
}

/* Whoever is at their head has closed the ranks. */
static void
close_beds(struct rank_bed *beds, uint32_t count)
{
    for (uint32_t r = 0; r < count; r++) {
        beds[r].worker = NULL;
        rank_bed_close(&beds[r]);
    }
}

static struct engine_worker *
world_open(struct world *world, uint32_t own, bool same, uint32_t peer,
           struct engine_worker *ranks[RANKS_MAX])
{
    struct engine_worker *theirs[RANKS_MAX];
    struct engine_worker *group;

    *world = (struct world){.own_ranks = own, .peer_ranks = peer};
    assert_int_equal(engine_fabric_open(&world->fabric, &(struct engine_fabric_options){0}, NULL),
                     KVT_OK);
    assert_int_equal(kvbm_volumes_new(&world->volumes, NULL), KVT_OK);
    open_beds(world, world->own, own, same, ranks);
    open_beds(world, world->peer, peer, false, theirs);
    assert_int_equal(engine_group_open(&group, theirs, peer, NULL), KVT_OK);
    return group;
}

static void
world_close(struct world *world)
{
    close_beds(world->own, world->own_ranks);
    close_beds(world->peer, world->peer_ranks);
    kvbm_volumes_free(world->volumes);
    engine_fabric_close(world->fabric);
}

static void
meet(struct engine_worker *own, struct engine_worker *peer)
{
    struct kvt_buffer text;

    kvt_buffer_init(&text, ENGINE_METADATA_MAX);
    assert_int_equal(engine_worker_describe(peer, &text, 5000, NULL), KVT_OK);
    assert_int_equal(engine_worker_connect(own, PEER, text.data, text.size, 5000, NULL), KVT_OK);
    kvt_buffer_release(&text);
}

static void
run_suite(struct suite_side own, struct suite_side peer)
{
    worker_suite_run(&(struct suite_world){
        .own = own, .peer = peer, .peer_number = PEER, .seed = test_seed(), .steps = STEPS});
}

static void
a_group_does_what_workers_do(void **state)
{
    struct rank_bed_side own = {.count = 4};
    struct rank_bed_side peer = {.count = 2};
    struct engine_worker *ranks[RANKS_MAX];
    struct engine_worker *theirs;
    struct engine_worker *group;
    struct world world;

    (void)state;
    theirs = world_open(&world, 4, false, 2, ranks);
    own.beds = world.own;
    peer.beds = world.peer;
    assert_int_equal(engine_group_open(&group, ranks, 4, NULL), KVT_OK);
    meet(group, theirs);
    run_suite(rank_bed_side(group, &own), rank_bed_side(theirs, &peer));
    engine_worker_disconnect(group, PEER);
    engine_worker_close(group);
    engine_worker_close(theirs);
    world_close(&world);
}

/* ---- replicas: what is below G1 is rank 0's ---- */

static void
write_replica(void *arg, enum kvt_tier tier, uint32_t block, uint64_t number)
{
    struct rank_bed_side *all = arg;
    struct rank_bed_side side = {all->beds, tier == KVT_TIER_G1 ? all->count : 1};

    rank_bed_side(NULL, &side).write(&side, tier, block, number);
}

static bool
is_replica(void *arg, enum kvt_tier tier, uint32_t block, uint64_t number)
{
    struct rank_bed_side *all = arg;
    struct rank_bed_side side = {all->beds, tier == KVT_TIER_G1 ? all->count : 1};

    return rank_bed_side(NULL, &side).is(&side, tier, block, number);
}

static void
a_replica_does_what_workers_do(void **state)
{
    struct rank_bed_side own = {.count = 3};
    struct rank_bed_side peer = {.count = 1};
    struct engine_worker *ranks[RANKS_MAX];
    struct engine_broadcast *broadcast;
    struct engine_worker *theirs;
    struct engine_worker *group;
    struct world world;

    (void)state;
    theirs = world_open(&world, 3, true, 1, ranks);
    own.beds = world.own;
    peer.beds = world.peer;
    assert_int_equal(engine_broadcast_fabric(&broadcast, ranks, 3, STAGED, NULL), KVT_OK);
    assert_int_equal(engine_replica_open(&group, ranks, 3, broadcast, NULL), KVT_OK);
    meet(group, theirs);
    run_suite((struct suite_side){group, &own, write_replica, is_replica},
              rank_bed_side(theirs, &peer));
    engine_worker_disconnect(group, PEER);
    engine_worker_close(group);
    engine_worker_close(theirs);
    world_close(&world);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_group_does_what_workers_do),
        cmocka_unit_test(a_replica_does_what_workers_do),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);

    return failed != 0 || kvt_alloc_live() != 0;
}
