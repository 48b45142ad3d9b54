/* Leaders of instances of different TP sizes: each rank pulls the heads it has. */
#include <stdio.h>
#include <unistd.h>

#include "kvbm/pool/mutable_block.h"

#include "engine/leader/leader.h"
#include "engine/rank/group.h"
#include "tests/support/seed.h"
#include "tests/unit/engine/support/fake_worker.h"

enum { BLOCKS = 16, CHAIN = 8, HEADS = 4, RANKS = 4, WAIT_MS = 10000 };

struct instance {
    uint32_t tp;
    struct engine_worker *ranks[RANKS]; /* the group's */
    struct engine_worker *group;
    struct kvbm_pool *pools[KVT_TIER_G4];
    struct engine_leader *leader;
    char endpoint[64];
};

static struct kvbm_layout
layout_of(uint32_t tp, uint32_t rank, uint32_t layers)
{
    const struct kvt_geometry geometry = {
        .size = sizeof(geometry),
        .kind = KVT_LAYOUT_UNIVERSAL,
        .layers = layers,
        .outer = 2,
        .page_size = 4,
        .inner_dim = HEADS * 8 / tp,
        .dtype_bytes = 2,
        .alignment = 4096,
        .tp_size = tp,
        .tp_rank = rank,
        .heads = HEADS / tp,
    };
    struct kvbm_layout layout;

    assert_int_equal(kvbm_layout_make(&layout, &geometry, NULL), KVT_OK);
    return layout;
}

static void
open_instance(struct instance *instance, uint64_t number, uint32_t tp, uint32_t layers)
{
    struct engine_leader_options options = {.instance = number, .stage_chunk = 3};

    *instance = (struct instance){.tp = tp};
    for (uint32_t rank = 0; rank < tp; rank++) {
        instance->ranks[rank] = fake_worker_open(&(struct fake_options){
            .layout = layout_of(tp, rank, layers),
            .blocks = {[KVT_TIER_G2] = BLOCKS, [KVT_TIER_G3] = BLOCKS},
            .ending = FAKE_LATER,
            .delay_us = 1000,
            .seed = test_seed() + rank,
        });
        assert_non_null(instance->ranks[rank]);
    }
    assert_int_equal(engine_group_open(&instance->group, instance->ranks, tp, NULL), KVT_OK);
    for (unsigned tier = KVT_TIER_G2; tier < KVT_TIER_G4; tier++)
        assert_int_equal(kvbm_pool_new(&instance->pools[tier],
                                       &(struct kvbm_pool_options){
                                           .block_count = BLOCKS,
                                           .dedup = KVT_POOL_DEDUP_REJECT,
                                           .order = KVT_POOL_ORDER_LRU,
                                       }),
                         KVT_OK);
    (void)snprintf(instance->endpoint, sizeof(instance->endpoint), "ipc:///tmp/kvt-tp-%d-%d",
                   (int)getpid(), (int)number);
    options.worker = instance->group;
    options.g2 = instance->pools[KVT_TIER_G2];
    options.g3 = instance->pools[KVT_TIER_G3];
    options.endpoint = instance->endpoint;
    assert_int_equal(engine_leader_open(&instance->leader, &options, NULL), KVT_OK);
}

static void
close_instance(struct instance *instance)
{
    engine_leader_close(instance->leader);
    engine_worker_close(instance->group);
    for (unsigned tier = KVT_TIER_G2; tier < KVT_TIER_G4; tier++)
        kvbm_pool_free(instance->pools[tier]);
}

static struct kvbm_label
label_of(uint64_t number)
{
    return (struct kvbm_label){
        .id = {.hash = number, .parent = number - 1, .position = (uint32_t)number - 1},
        .prefix_hash = 1,
    };
}

static void
make(struct instance *instance, enum kvt_tier tier, uint64_t first, uint64_t last)
{
    struct kvbm_pool *pool = instance->pools[tier];

    for (uint64_t number = first; number <= last; number++) {
        const struct kvbm_label label = label_of(number);
        struct kvt_handle handle;

        assert_int_equal(kvbm_pool_allocate(pool, 1, &handle), KVT_OK);
        assert_int_equal(kvbm_block_begin(pool, handle, NULL), KVT_OK);
        for (uint32_t rank = 0; rank < instance->tp; rank++)
            fake_worker_write(instance->ranks[rank], tier, handle.block, number, 0, 0);
        assert_int_equal(kvbm_block_complete(pool, handle, &label, NULL), KVT_OK);
        assert_int_equal(kvbm_pool_register(pool, &handle, NULL), KVT_OK);
        kvbm_pool_drop(pool, handle);
    }
}

static void
pull(uint32_t ours_tp, uint32_t theirs_tp)
{
    struct instance ours;
    struct instance theirs;
    struct kvbm_label labels[CHAIN];
    struct kvt_handle handles[CHAIN];
    struct engine_match_view view;
    struct engine_match *match;

    open_instance(&ours, 1, ours_tp, 3);
    open_instance(&theirs, 2, theirs_tp, 3);
    make(&theirs, KVT_TIER_G2, 1, 4);
    make(&theirs, KVT_TIER_G3, 5, CHAIN);
    for (uint64_t i = 0; i < CHAIN; i++)
        labels[i] = label_of(i + 1);
    assert_int_equal(engine_leader_add_peer(ours.leader, 2, theirs.endpoint, WAIT_MS, NULL),
                     KVT_OK);
    assert_int_equal(engine_leader_find(ours.leader,
                                        &(struct engine_find){.labels = labels,
                                                              .count = CHAIN,
                                                              .mode = ENGINE_FULL,
                                                              .peers = true,
                                                              .wait_ms = WAIT_MS},
                                        &match),
                     KVT_OK);
    assert_int_equal(engine_match_wait(match, ENGINE_STATE_BIT(ENGINE_READY), WAIT_MS, &view),
                     KVT_OK);
    assert_int_equal(view.ready, CHAIN);
    assert_int_equal(view.in_peer, CHAIN);
    assert_int_equal(engine_match_blocks(match, handles, CHAIN), CHAIN);
    for (uint32_t rank = 0; rank < ours_tp; rank++)
        for (uint64_t i = 0; i < CHAIN; i++)
            assert_true(fake_worker_is(ours.ranks[rank], KVT_TIER_G2, handles[i].block, i + 1));
    engine_match_release(match);
    close_instance(&theirs);
    close_instance(&ours);
}

static void
every_rank_gets_its_heads(void **unused)
{
    (void)unused;
    pull(2, 2);
    pull(4, 2);
    pull(2, 4);
    pull(1, 4);
}

static void
another_model_is_refused(void **unused)
{
    struct kvt_error err = {0};
    struct instance ours;
    struct instance theirs;

    (void)unused;
    open_instance(&ours, 1, 2, 3);
    open_instance(&theirs, 2, 2, 5);
    assert_int_equal(engine_leader_add_peer(ours.leader, 2, theirs.endpoint, WAIT_MS, &err),
                     KVT_PRECONDITION);
    assert_true(err.text[0] != '\0');
    close_instance(&theirs);
    close_instance(&ours);
}

/* A rank of theirs is dead: what it was to show does not come, and nothing else is lost. */
static void
a_dead_rank_shortens(void **unused)
{
    struct instance ours;
    struct instance theirs;
    struct kvbm_label labels[CHAIN];
    struct engine_match_view view;
    struct engine_match *match;

    (void)unused;
    open_instance(&ours, 1, 2, 3);
    open_instance(&theirs, 2, 4, 3);
    make(&ours, KVT_TIER_G3, 1, 2);
    make(&theirs, KVT_TIER_G2, 3, CHAIN);
    for (uint64_t i = 0; i < CHAIN; i++)
        labels[i] = label_of(i + 1);
    assert_int_equal(engine_leader_add_peer(ours.leader, 2, theirs.endpoint, WAIT_MS, NULL),
                     KVT_OK);
    fake_worker_kill(theirs.ranks[3]);
    assert_int_equal(engine_leader_find(ours.leader,
                                        &(struct engine_find){.labels = labels,
                                                              .count = CHAIN,
                                                              .mode = ENGINE_FULL,
                                                              .peers = true,
                                                              .wait_ms = WAIT_MS},
                                        &match),
                     KVT_OK);
    assert_int_equal(engine_match_wait(match, ENGINE_STATE_BIT(ENGINE_READY), WAIT_MS, &view),
                     KVT_OK);
    assert_int_equal(view.state, ENGINE_READY);
    assert_int_equal(view.ready, 2);
    assert_true(view.shortened);
    engine_match_release(match);
    close_instance(&theirs);
    close_instance(&ours);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_rank_gets_its_heads),
        cmocka_unit_test(another_model_is_refused),
        cmocka_unit_test(a_dead_rank_shortens),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
