/*
 * What is tested: advisor/answer/store_lookup.h: rows of G4 and the log together say who has a
 * block. How: random changes and snapshots against a set, collisions by hand, every allocation
 * failed.
 */
#include <stdio.h>
#include <string.h>

#include "advisor/answer/store_lookup.h"
#include "advisor/store/event_log_table.h"
#include "base/core/alloc.h"
#include "base/core/random.h"

#include "tests/support/seed.h"
#include "tests/unit/advisor/support/keeper.h"

enum {
    ROUNDS = 12,
    GROUPS = 40,
    ASKED = 150,
    G4 = LOG_MODEL_HOLDERS, /* a holder the log never names */
    MANY = 7000,
};

struct scene {
    char folder[256];
    struct advisor_store *store;
    struct advisor_txn txn;
    struct advisor_store_log state;
    struct advisor_event_log *log;
};

static void
begin(struct scene *scene)
{
    struct advisor_store_options options = {.map_bytes = 64 << 20};

    memset(scene, 0, sizeof(*scene));
    options.path = test_folder_make(scene->folder, sizeof(scene->folder));
    assert_int_equal(advisor_store_open(&scene->store, &options, NULL), KVT_OK);
    assert_int_equal(advisor_store_write(scene->store, &scene->txn, NULL), KVT_OK);
    assert_int_equal(advisor_event_log_new(&scene->log), KVT_OK);
}

static void
end(struct scene *scene)
{
    advisor_store_end(&scene->txn);
    advisor_store_close(scene->store);
    advisor_event_log_free(scene->log);
    test_folder_remove(scene->folder);
}

static void
append(struct scene *scene)
{
    assert_int_equal(advisor_store_log_append(&scene->txn, &scene->state, scene->log), KVT_OK);
    advisor_event_log_clear(scene->log);
}

static void
release(struct advisor_store_block *blocks, size_t count)
{
    for (size_t i = 0; i < count; i++)
        advisor_store_block_release(&blocks[i]);
}

/* ---- at random ---- */

struct story {
    struct scene scene;
    struct log_set set;
    uint32_t g4[LOG_MODEL_NAMESPACES][LOG_MODEL_BLOCKS];
    struct log_step step;
    uint64_t random;
};

static void
put_g4(struct story *story)
{
    const uint32_t block = (uint32_t)kvt_random_below(&story->random, LOG_MODEL_BLOCKS);
    const uint32_t ns = (uint32_t)kvt_random_below(&story->random, LOG_MODEL_NAMESPACES);
    struct advisor_store_place place = {.holder = G4, .ranks = 3};
    const struct advisor_store_block row = {
        .hash = log_model_hash(block),
        .ns = ns,
        .parent = log_model_parent(block),
        .position = log_model_position(block),
        .hits = block,
        .place_count = 1,
        .places = &place,
    };

    assert_int_equal(advisor_store_put_block(&story->scene.txn, &row), KVT_OK);
    story->g4[ns][block] = place.ranks;
}

/* A snapshot of it all, of one block a RUN. */
static void
write_snapshot(struct story *story)
{
    struct scene *scene = &story->scene;

    assert_int_equal(advisor_store_log_begin(&scene->txn, &scene->state), KVT_OK);
    for (uint32_t ns = 0; ns < LOG_MODEL_NAMESPACES; ns++)
        for (uint32_t block = 0; block < LOG_MODEL_BLOCKS; block++) {
            const struct advisor_event_log_place place = {.size = 8192, .ns = ns};
            const uint64_t hash = log_model_hash(block);
            const uint64_t tokens = log_model_tokens(block);

            assert_int_equal(advisor_event_log_run(scene->log, &place, log_model_parent(block),
                                                   log_model_position(block), &hash, &tokens, 1),
                             KVT_OK);
            for (uint32_t holder = 0; holder < LOG_MODEL_HOLDERS; holder++)
                if (story->set.ranks[ns][block][holder] != 0)
                    assert_int_equal(advisor_event_log_hold(scene->log, holder,
                                                            story->set.ranks[ns][block][holder], 0,
                                                            1),
                                     KVT_OK);
        }
    assert_int_equal(advisor_store_log_add(&scene->txn, &scene->state, scene->log), KVT_OK);
    assert_int_equal(advisor_store_log_end(&scene->txn, &scene->state), KVT_OK);
    advisor_event_log_clear(scene->log);
}

static void
assert_block(const struct story *story, uint32_t ns, uint32_t number,
             const struct advisor_store_block *block)
{
    uint32_t ranks[LOG_MODEL_HOLDERS + 1] = {0};

    assert_true(block->hash == log_model_hash(number) && block->ns == ns);
    for (uint32_t i = 0; i < block->place_count; i++) {
        assert_true(block->places[i].holder <= G4 && block->places[i].ranks != 0);
        assert_int_equal(ranks[block->places[i].holder], 0);
        ranks[block->places[i].holder] = block->places[i].ranks;
    }
    assert_memory_equal(ranks, story->set.ranks[ns][number], sizeof(story->set.ranks[ns][number]));
    assert_int_equal(ranks[G4], story->g4[ns][number]);
    if (block->place_count == 0)
        return;
    assert_true(block->parent == log_model_parent(number));
    assert_int_equal(block->position, log_model_position(number));
    assert_true(block->tokens_hash == 0 || block->tokens_hash == log_model_tokens(number));
    assert_int_equal(block->hits, ranks[G4] == 0 ? 0 : number);
}

static void
ask(struct story *story)
{
    const uint32_t ns = (uint32_t)kvt_random_below(&story->random, LOG_MODEL_NAMESPACES);
    const size_t count = 1 + kvt_random_below(&story->random, ASKED);
    struct advisor_store_block blocks[ASKED] = {0};
    uint32_t numbers[ASKED];
    uint64_t hashes[ASKED];

    for (size_t i = 0; i < count; i++) {
        numbers[i] = (uint32_t)kvt_random_below(&story->random, LOG_MODEL_BLOCKS);
        if (i > 0 && kvt_random_below(&story->random, 10) == 0)
            numbers[i] = numbers[i - 1];
        hashes[i] = log_model_hash(numbers[i]);
    }
    for (int again = 0; again < 2; again++) {
        assert_int_equal(advisor_store_lookup(&story->scene.txn, ns, hashes, count, blocks),
                         KVT_OK);
        for (size_t i = 0; i < count; i++)
            assert_block(story, ns, numbers[i], &blocks[i]);
    }
    release(blocks, count);
}

static void
random_changes_against_a_set(void **state)
{
    struct story *story = kvt_calloc(1, sizeof(*story));

    (void)state;
    assert_non_null(story);
    for (int round = 0; round < ROUNDS; round++) {
        memset(story, 0, sizeof(*story));
        story->random = test_seed() + (uint64_t)round;
        begin(&story->scene);
        for (int group = 0; group < GROUPS; group++) {
            for (int i = 0; i < 20; i++) {
                log_step_next(&story->step, &story->random, false);
                assert_int_equal(log_step_put(&story->step, story->scene.log), KVT_OK);
                log_set_apply(&story->set, &story->step.op);
            }
            append(&story->scene);
            put_g4(story);
            if (kvt_random_below(&story->random, 15) == 0)
                write_snapshot(story);
            if (group % 4 == 3)
                ask(story);
        }
        end(&story->scene);
    }
    kvt_free(story);
}

/* ---- by hand ---- */

static void
store(struct scene *scene, uint32_t holder, uint64_t parent, uint32_t position, uint64_t hash)
{
    const struct advisor_event_log_place place = {
        .size = 4096, .holder = holder, .ns = 1, .ranks = 1};

    assert_int_equal(advisor_event_log_store(scene->log, &place, parent, position, &hash, NULL, 1),
                     KVT_OK);
}

static void
take(struct scene *scene, uint32_t holder, uint64_t hash)
{
    const struct advisor_event_log_place place = {.holder = holder, .ns = 1, .ranks = 1};

    assert_int_equal(advisor_event_log_remove(scene->log, &place, &hash, 1), KVT_OK);
}

/* Hash 5 is at position 3 behind 4; what says otherwise is passed over while anybody has it. */
static void
collisions_are_passed_over(void **state)
{
    struct advisor_store_block block = {0};
    const uint64_t hash = 5;
    struct scene scene;

    (void)state;
    begin(&scene);
    store(&scene, 1, 4, 3, 5);
    store(&scene, 2, 4, 4, 5); /* another position */
    store(&scene, 3, 9, 3, 5); /* another parent */
    store(&scene, 4, 0, 3, 5); /* does not know: fits anything */
    append(&scene);
    assert_int_equal(advisor_store_lookup(&scene.txn, 1, &hash, 1, &block), KVT_OK);
    assert_int_equal(block.place_count, 2);
    assert_int_equal(block.places[0].holder, 1);
    assert_int_equal(block.places[1].holder, 4);
    assert_true(block.parent == 4 && block.position == 3 && block.size == 4096);
    take(&scene, 1, 5);
    take(&scene, 4, 5);
    store(&scene, 2, 9, 7, 5); /* nobody has the other any more */
    append(&scene);
    assert_int_equal(advisor_store_lookup(&scene.txn, 1, &hash, 1, &block), KVT_OK);
    assert_int_equal(block.place_count, 1);
    assert_int_equal(block.places[0].holder, 2);
    assert_true(block.parent == 9 && block.position == 7);
    assert_int_equal(advisor_store_lookup(&scene.txn, 0, &hash, 1, &block), KVT_OK);
    assert_int_equal(block.place_count, 0); /* another namespace */
    advisor_store_block_release(&block);
    end(&scene);
}

/* ---- as RAM ---- */

enum { STRANGE = 6, STRANGE_OPS = 4000, SOME = 5 };

/* Stores whose parents nobody has, or who know of none, at positions of their own, and removals. */
static struct advisor_event_log_op
strange_op(uint64_t *random, const uint64_t *hash)
{
    const uint64_t kind = kvt_random_below(random, 20);
    struct advisor_event_log_op op = {
        .kind = kind < 1   ? ADVISOR_EVENT_LOG_DROP
                : kind < 8 ? ADVISOR_EVENT_LOG_REMOVE
                           : ADVISOR_EVENT_LOG_STORE,
        .place = {.holder = (uint32_t)kvt_random_below(random, LOG_MODEL_HOLDERS),
                  .ranks = 1u << kvt_random_below(random, 2),
                  .size = 4096,
                  .time_s = 1}};

    if (op.kind == ADVISOR_EVENT_LOG_DROP)
        return op;
    op.hashes = hash;
    op.count = 1;
    if (op.kind == ADVISOR_EVENT_LOG_REMOVE)
        return op;
    op.position = (uint32_t)kvt_random_below(random, 3);
    if (op.position > 0 && kvt_random_below(random, 2) == 0)
        op.parent = 1000 + kvt_random_below(random, 2);
    return op;
}

static void
put_op(struct advisor_event_log *log, const struct advisor_event_log_op *op)
{
    if (op->kind == ADVISOR_EVENT_LOG_DROP)
        assert_int_equal(advisor_event_log_drop(log, op->place.holder, op->place.ns), KVT_OK);
    else if (op->kind == ADVISOR_EVENT_LOG_REMOVE)
        assert_int_equal(advisor_event_log_remove(log, &op->place, op->hashes, 1), KVT_OK);
    else
        assert_int_equal(
            advisor_event_log_store(log, &op->place, op->parent, op->position, op->hashes, NULL, 1),
            KVT_OK);
}

static void
assert_as_ram(struct keeper *keeper, const struct advisor_store_block *block)
{
    const uint32_t ns = advisor_name_table_index_namespace(keeper->names, 0);
    struct index_place places[LOG_MODEL_HOLDERS];
    struct index_view view;
    const size_t count = index_places(keeper->index, ns, block->hash, places, LOG_MODEL_HOLDERS);

    assert_int_equal(block->place_count, count);
    for (uint32_t i = 0; i < block->place_count; i++) {
        const uint32_t holder =
            advisor_name_table_index_holder(keeper->names, block->places[i].holder);
        uint32_t ranks = 0;

        for (size_t k = 0; k < count; k++)
            ranks |= places[k].holder == holder ? places[k].ranks : 0;
        assert_int_equal(block->places[i].ranks, ranks);
    }
    if (count == 0)
        return;
    assert_int_equal(index_get(keeper->index, ns, block->hash, &view), KVT_OK);
    assert_int_equal(block->position, view.block.id.position);
    assert_true(block->parent == view.block.id.parent);
}

/* What is stored, refused and learned of blocks that nothing hangs on is so in RAM too. */
static void
unknown_parents_as_ram_takes_them(void **state)
{
    static const uint64_t hashes[STRANGE] = {11, 12, 13, 14, 15, 16};
    struct advisor_store_block blocks[STRANGE] = {0};
    uint64_t random = test_seed();
    struct advisor_event_log *log;
    struct advisor_txn txn;
    struct keeper keeper;

    (void)state;
    keeper_begin(&keeper);
    assert_int_equal(advisor_event_log_new(&log), KVT_OK);
    assert_int_equal(advisor_store_write(keeper.store, &txn, NULL), KVT_OK);
    for (uint32_t i = 0; i < STRANGE_OPS; i++) {
        const struct advisor_event_log_op op =
            strange_op(&random, &hashes[kvt_random_below(&random, STRANGE)]);

        put_op(log, &op);
        advisor_ram_index_op(&keeper.memory, &op);
        if (i % SOME != 0)
            continue;
        advisor_ram_index_flush(&keeper.memory);
        assert_int_equal(advisor_store_log_append(&txn, &keeper.log, log), KVT_OK);
        advisor_event_log_clear(log);
        assert_int_equal(advisor_store_lookup(&txn, 0, hashes, STRANGE, blocks), KVT_OK);
        for (uint32_t k = 0; k < STRANGE; k++)
            assert_as_ram(&keeper, &blocks[k]);
    }
    assert_true(advisor_ram_index_whole(&keeper.memory));
    assert_true(atomic_load(&keeper.memory.collisions) > 100);
    advisor_store_end(&txn);
    advisor_event_log_free(log);
    release(blocks, STRANGE);
    keeper_end(&keeper);
}

/* What comes behind a refusal in one group was not there twice: 12 came and went before it came
 * from one who does not know its parent. */
static void
what_follows_a_refusal_is_taken_once(void **state)
{
    static const uint64_t hashes[] = {11, 12};
    const struct advisor_event_log_place worker = {
        .holder = 0, .ranks = 1, .size = 4096, .time_s = 1};
    const struct advisor_event_log_place other = {
        .holder = 1, .ranks = 1, .size = 4096, .time_s = 1};
    const struct advisor_event_log_op ops[] = {
        {.kind = ADVISOR_EVENT_LOG_STORE,
         .place = worker,
         .parent = 1000,
         .position = 1,
         .hashes = hashes},
        {.kind = ADVISOR_EVENT_LOG_STORE,
         .place = other,
         .parent = 1001,
         .position = 1,
         .hashes = hashes},
        {.kind = ADVISOR_EVENT_LOG_STORE,
         .place = worker,
         .parent = 1000,
         .position = 2,
         .hashes = hashes + 1},
        {.kind = ADVISOR_EVENT_LOG_REMOVE, .place = worker, .hashes = hashes + 1},
        {.kind = ADVISOR_EVENT_LOG_STORE, .place = other, .position = 1, .hashes = hashes + 1},
    };
    struct advisor_store_block blocks[2] = {0};
    struct advisor_event_log *log;
    struct advisor_txn txn;
    struct keeper keeper;

    (void)state;
    keeper_begin(&keeper);
    assert_int_equal(advisor_event_log_new(&log), KVT_OK);
    assert_int_equal(advisor_store_write(keeper.store, &txn, NULL), KVT_OK);
    for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++) {
        struct advisor_event_log_op op = ops[i];

        op.count = 1;
        put_op(log, &op);
        advisor_ram_index_op(&keeper.memory, &op);
    }
    advisor_ram_index_flush(&keeper.memory);
    assert_int_equal(advisor_store_log_append(&txn, &keeper.log, log), KVT_OK);
    assert_int_equal(advisor_store_lookup(&txn, 0, hashes, 2, blocks), KVT_OK);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(blocks[i].place_count, 1);
        assert_as_ram(&keeper, &blocks[i]);
    }
    assert_true(blocks[1].parent == 0 && blocks[1].position == 1);
    assert_int_equal(atomic_load(&keeper.memory.collisions), 1);
    advisor_store_end(&txn);
    advisor_event_log_free(log);
    release(blocks, 2);
    keeper_end(&keeper);
}

static void
what_a_row_says_collides_too(void **state)
{
    struct advisor_store_place place = {.holder = 9, .ranks = 2};
    const struct advisor_store_block row = {
        .hash = 5, .ns = 1, .parent = 4, .position = 3, .place_count = 1, .places = &place};
    struct advisor_store_block block = {0};
    const uint64_t hash = 5;
    struct scene scene;

    (void)state;
    begin(&scene);
    assert_int_equal(advisor_store_put_block(&scene.txn, &row), KVT_OK);
    store(&scene, 1, 8, 3, 5);
    store(&scene, 2, 4, 3, 5);
    store(&scene, 9, 4, 3, 5); /* it has the other shard */
    append(&scene);
    assert_int_equal(advisor_store_lookup(&scene.txn, 1, &hash, 1, &block), KVT_OK);
    assert_int_equal(block.place_count, 2);
    assert_int_equal(block.places[0].holder, 9);
    assert_int_equal(block.places[0].ranks, 3);
    assert_int_equal(block.places[1].holder, 2);
    advisor_store_block_release(&block);
    end(&scene);
}

static void
an_empty_log_has_nobody(void **state)
{
    struct advisor_store_block blocks[2] = {0};
    const uint64_t hashes[2] = {0, UINT64_MAX};
    struct scene scene;

    (void)state;
    begin(&scene);
    assert_int_equal(advisor_store_lookup(&scene.txn, 1, hashes, 0, NULL), KVT_OK);
    assert_int_equal(advisor_store_lookup(&scene.txn, 1, hashes, 2, blocks), KVT_OK);
    assert_true(blocks[0].hash == 0 && blocks[1].hash == UINT64_MAX && blocks[1].ns == 1);
    assert_int_equal(blocks[0].place_count + blocks[1].place_count, 0);
    release(blocks, 2);
    end(&scene);
}

/* ---- many, and no memory ---- */

/* A prompt that everybody has. */
static void
store_many(struct scene *scene, uint64_t *hashes, uint32_t holders)
{
    for (uint32_t i = 0; i < ADVISOR_EVENT_LOG_BLOCKS_MAX; i++)
        hashes[i] = log_model_hash(i);
    for (uint32_t holder = 0; holder < holders; holder++) {
        const struct advisor_event_log_place place = {.holder = holder * 7919 % MANY, .ranks = 1};

        assert_int_equal(advisor_event_log_store(scene->log, &place, 0, 0, hashes, NULL,
                                                 ADVISOR_EVENT_LOG_BLOCKS_MAX),
                         KVT_OK);
    }
    append(scene);
}

static void
many_holders(void **state)
{
    struct advisor_store_block blocks[ADVISOR_EVENT_LOG_BLOCKS_MAX] = {0};
    uint64_t hashes[ADVISOR_EVENT_LOG_BLOCKS_MAX];
    struct scene scene;

    (void)state;
    begin(&scene);
    store_many(&scene, hashes, MANY);
    assert_int_equal(advisor_event_log_drop(scene.log, 17, 0), KVT_OK);
    append(&scene);
    assert_int_equal(
        advisor_store_lookup(&scene.txn, 0, hashes, ADVISOR_EVENT_LOG_BLOCKS_MAX, blocks), KVT_OK);
    for (size_t i = 0; i < ADVISOR_EVENT_LOG_BLOCKS_MAX; i++)
        assert_int_equal(blocks[i].place_count, MANY - 1);
    release(blocks, ADVISOR_EVENT_LOG_BLOCKS_MAX);
    end(&scene);
}

static bool
look_up(void *arg)
{
    struct advisor_store_block blocks[3] = {0};
    const uint64_t hashes[3] = {log_model_hash(0), log_model_hash(9), log_model_hash(0)};
    const enum kvt_err rc = advisor_store_lookup(arg, 0, hashes, 3, blocks);

    assert_true(rc == KVT_OK || rc == KVT_NOMEM);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(blocks[i].place_count, rc == KVT_OK ? 100 : 0);
    release(blocks, 3);
    return rc == KVT_OK;
}

static void
every_allocation_may_fail(void **state)
{
    uint64_t hashes[ADVISOR_EVENT_LOG_BLOCKS_MAX];
    struct scene scene;

    (void)state;
    begin(&scene);
    store_many(&scene, hashes, 100);
    assert_true(test_sweep_allocations(look_up, &scene.txn) > 10);
    end(&scene);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_changes_against_a_set),
        cmocka_unit_test(collisions_are_passed_over),
        cmocka_unit_test(unknown_parents_as_ram_takes_them),
        cmocka_unit_test(what_follows_a_refusal_is_taken_once),
        cmocka_unit_test(what_a_row_says_collides_too),
        cmocka_unit_test(an_empty_log_has_nobody),
        cmocka_unit_test(many_holders),
        cmocka_unit_test(every_allocation_may_fail),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
