/*
 * What is tested: advisor/index/change_group.h and advisor/index/ram_index.h: rows and log are
 * written together, a transaction that was aborted is repeated to the same bytes, RAM follows in
 * the order things came, and a block that collides keeps nothing else out.
 * How: groups against a store and an index of their own; what a restart would read beside them.
 */
#include <string.h>

#include "advisor/index/index_load.h"
#include "advisor/index/ram_index.h"
#include "base/core/alloc.h"

#include "tests/support/seed.h"

enum { G2, G3, HOT, HOLDERS, NS = 0, CHAIN = 300 };

struct scene {
    char folder[256];
    struct advisor_store *store;
    struct advisor_change_group *group;
    struct advisor_ram_index memory; /* its index and names are the scene's */
    struct advisor_store_log log;
};

static const struct index_holder holders[HOLDERS] = {
    {.name = "w", .tier = KVT_TIER_G2},
    {.name = "w", .tier = KVT_TIER_G3},
    {.name = "hot@g", .tier = KVT_TIER_G4},
};

static bool
is_hot(void *arg, uint32_t reporter, uint32_t holder)
{
    (void)arg;
    (void)reporter;
    return holder == HOT;
}

/* An index of our own with the names of the scene. */
static void
make_memory(struct advisor_ram_index *memory)
{
    struct advisor_name_table *names;
    uint32_t number;

    memset(memory, 0, sizeof(*memory));
    assert_int_equal(index_new(&memory->index, 32u << 20), KVT_OK);
    assert_int_equal(advisor_name_table_new(&names, memory->index, INDEX_HOLDERS_MAX), KVT_OK);
    assert_int_equal(advisor_name_table_namespace(names, "ns", 0, &number), KVT_OK);
    assert_int_equal(number, NS);
    for (uint32_t i = 0; i < HOLDERS; i++) {
        assert_int_equal(advisor_name_table_holder(names, &holders[i], &number), KVT_OK);
        assert_int_equal(number, i);
    }
    memory->names = names;
}

static void
free_memory(struct advisor_ram_index *memory)
{
    advisor_ram_index_release(memory);
    advisor_name_table_free((struct advisor_name_table *)(uintptr_t)memory->names);
    index_free(memory->index);
}

static void
begin(struct scene *scene)
{
    struct advisor_store_options options = {.map_bytes = 32u << 20};

    memset(scene, 0, sizeof(*scene));
    options.path = test_folder_make(scene->folder, sizeof(scene->folder));
    assert_int_equal(advisor_store_open(&scene->store, &options, NULL), KVT_OK);
    assert_int_equal(advisor_change_group_new(&scene->group), KVT_OK);
    make_memory(&scene->memory);
}

static void
end(struct scene *scene)
{
    free_memory(&scene->memory);
    advisor_change_group_free(scene->group);
    advisor_store_close(scene->store);
    test_folder_remove(scene->folder);
}

static void
write_group(struct scene *scene, const struct advisor_txn *txn, struct advisor_store_log *log)
{
    *log = scene->log;
    assert_int_equal(advisor_change_group_write(scene->group, txn, log, is_hot, NULL), KVT_OK);
}

/* The group is written, follows, and is empty again. */
static void
commit(struct scene *scene)
{
    const struct advisor_effect *effects;
    struct advisor_store_log log;
    struct advisor_txn txn;
    size_t count;

    assert_int_equal(advisor_store_write(scene->store, &txn, NULL), KVT_OK);
    write_group(scene, &txn, &log);
    assert_int_equal(advisor_store_commit(&txn, NULL), KVT_OK);
    scene->log = log;
    effects = advisor_change_group_effects(scene->group, &count);
    advisor_ram_index_apply(&scene->memory, advisor_change_group_log(scene->group), effects, count);
    advisor_change_group_clear(scene->group);
    assert_int_equal(advisor_change_group_count(scene->group), 0);
}

static void
store(struct scene *scene, uint32_t holder, uint64_t parent, uint32_t position,
      const uint64_t *hashes, size_t count)
{
    const struct advisor_event_log_place place = {
        .size = 64, .holder = holder, .ns = NS, .ranks = 1};

    assert_int_equal(
        advisor_change_group_store(scene->group, &place, parent, position, hashes, NULL, count),
        KVT_OK);
}

static void
remove_one(struct scene *scene, uint32_t holder, uint64_t hash)
{
    const struct advisor_event_log_place place = {.holder = holder, .ns = NS, .ranks = 1};

    assert_int_equal(advisor_change_group_remove(scene->group, &place, &hash, 1), KVT_OK);
}

static void
store_hot(struct scene *scene, uint64_t hash)
{
    const struct advisor_op op = {.kind = ADVISOR_OP_STORE,
                                  .hash = hash,
                                  .size = 64,
                                  .time_ms = 5,
                                  .ns = NS,
                                  .holder = HOT,
                                  .ranks = 1,
                                  .reporter = 1,
                                  .hot = true};

    assert_int_equal(advisor_change_group_add(scene->group, &op), KVT_OK);
}

static bool
has(const struct advisor_ram_index *memory, uint32_t holder, uint64_t hash)
{
    struct index_place places[HOLDERS];
    const size_t count = index_places(memory->index, NS, hash, places, HOLDERS);

    for (size_t i = 0; i < count; i++)
        if (places[i].holder == advisor_name_table_index_holder(memory->names, holder))
            return true;
    return false;
}

/* RAM, and what a restart would read, agree. */
static bool
holds(struct scene *scene, uint32_t holder, uint64_t hash)
{
    struct advisor_ram_index copy;
    struct advisor_txn txn;
    bool there;

    make_memory(&copy);
    assert_int_equal(advisor_store_read(scene->store, &txn, NULL), KVT_OK);
    assert_int_equal(advisor_index_load(&copy, &txn, NULL, NULL), KVT_OK);
    advisor_store_end(&txn);
    there = has(&copy, holder, hash);
    free_memory(&copy);
    assert_int_equal(has(&scene->memory, holder, hash), there);
    return there;
}

/* ---- tests ---- */

/* What came before a drop is gone, what comes behind it stays, and other holders are not meant. */
static void
a_drop_has_its_place_in_the_order(void **state)
{
    const uint64_t chain[] = {11, 12, 13};
    struct scene scene;

    (void)state;
    begin(&scene);
    store(&scene, G2, 0, 0, chain, 3);
    store(&scene, G3, 0, 0, chain, 3);
    store_hot(&scene, 11);
    commit(&scene);
    assert_true(holds(&scene, G2, 13) && holds(&scene, G3, 13) && holds(&scene, HOT, 11));
    store(&scene, G2, 13, 3, (const uint64_t[]){14}, 1);
    assert_int_equal(advisor_change_group_drop(scene.group, G2, NS), KVT_OK);
    store(&scene, G2, 0, 0, chain, 1);
    assert_int_equal(advisor_change_group_count(scene.group), 3);
    commit(&scene);
    assert_true(holds(&scene, G2, 11));
    assert_false(holds(&scene, G2, 12) || holds(&scene, G2, 13) || holds(&scene, G2, 14));
    assert_true(holds(&scene, G3, 13) && holds(&scene, HOT, 11));
    end(&scene);
}

/* All bytes of the group's log, one row behind the other. */
static size_t
bytes_of(struct advisor_change_group *group, uint8_t *out, size_t size)
{
    const struct advisor_event_log *log = advisor_change_group_log(group);
    const void *row;
    size_t row_size;
    size_t used = 0;

    for (size_t at = 0; advisor_event_log_row(log, at, &row, &row_size); at++) {
        assert_true(used + row_size <= size);
        memcpy(out + used, row, row_size);
        used += row_size;
    }
    return used;
}

static void
an_aborted_transaction_is_repeated(void **state)
{
    uint8_t *first = kvt_calloc(2, 1u << 16);
    struct advisor_store_log once;
    struct advisor_store_log again;
    uint64_t chain[CHAIN];
    struct advisor_txn txn;
    struct scene scene;
    size_t size;
    size_t count;

    (void)state;
    assert_non_null(first);
    begin(&scene);
    for (uint64_t i = 0; i < CHAIN; i++)
        chain[i] = 1000 + i;
    store(&scene, G2, 0, 0, chain, CHAIN);
    store_hot(&scene, 1000);
    remove_one(&scene, G2, 1299);
    assert_int_equal(advisor_store_write(scene.store, &txn, NULL), KVT_OK);
    write_group(&scene, &txn, &once);
    size = bytes_of(scene.group, first, 1u << 16);
    advisor_store_end(&txn);
    assert_int_equal(advisor_store_write(scene.store, &txn, NULL), KVT_OK);
    write_group(&scene, &txn, &again);
    (void)advisor_change_group_effects(scene.group, &count);
    assert_int_equal(count, 1);
    advisor_store_end(&txn);
    assert_memory_equal(&once, &again, sizeof(once));
    assert_true(once.bytes == size && size > CHAIN * sizeof(uint64_t));
    assert_int_equal(bytes_of(scene.group, first + (1u << 16), 1u << 16), size);
    assert_memory_equal(first, first + (1u << 16), size);
    assert_false(has(&scene.memory, G2, 1000)); /* nothing followed yet */
    commit(&scene);
    assert_int_equal(scene.log.bytes, size);
    assert_true(holds(&scene, G2, 1298) && holds(&scene, HOT, 1000));
    assert_false(holds(&scene, G2, 1299));
    kvt_free(first);
    end(&scene);
}

/* Without a log to write to, only rows are written. */
static void
rows_alone(void **state)
{
    const uint64_t chain[] = {11, 12};
    struct advisor_store_log log;
    struct advisor_txn txn;
    struct scene scene;

    (void)state;
    begin(&scene);
    store(&scene, G2, 0, 0, chain, 2);
    store_hot(&scene, 11);
    assert_int_equal(advisor_change_group_ops(scene.group), 1);
    assert_int_equal(advisor_store_write(scene.store, &txn, NULL), KVT_OK);
    assert_int_equal(advisor_change_group_write(scene.group, &txn, NULL, is_hot, NULL), KVT_OK);
    assert_int_equal(advisor_store_log_get(&txn, &log), KVT_OK);
    assert_int_equal(log.next, 0);
    assert_int_equal(advisor_store_block_count(&txn), 1);
    assert_int_equal(advisor_store_commit(&txn, NULL), KVT_OK);
    end(&scene);
}

/* Both kinds count, what does not fit is refused as a whole, and a drop always fits. */
static void
a_group_is_bounded(void **state)
{
    const struct advisor_event_log_place place = {.holder = G2, .ranks = 1};
    uint64_t chain[CHAIN] = {0};
    struct advisor_op op = {.kind = ADVISOR_OP_REMOVE, .holder = HOT, .ranks = 1};
    struct advisor_change_group *group;
    size_t left;

    (void)state;
    assert_int_equal(advisor_change_group_new(&group), KVT_OK);
    assert_int_equal(advisor_change_group_add(group, &op), KVT_OK);
    for (left = ADVISOR_CHANGE_GROUP_OPS_MAX - 1; left >= CHAIN; left -= CHAIN)
        assert_int_equal(advisor_change_group_store(group, &place, 0, 0, chain, NULL, CHAIN),
                         KVT_OK);
    assert_int_equal(advisor_change_group_store(group, &place, 0, 0, chain, NULL, left + 1),
                     KVT_FULL);
    assert_int_equal(advisor_change_group_count(group), ADVISOR_CHANGE_GROUP_OPS_MAX - left);
    assert_int_equal(advisor_change_group_remove(group, &place, chain, left), KVT_OK);
    assert_int_equal(advisor_change_group_remove(group, &place, chain, 1), KVT_FULL);
    assert_int_equal(advisor_change_group_add(group, &op), KVT_FULL);
    assert_int_equal(advisor_change_group_drop(group, G2, NS), KVT_OK);
    advisor_change_group_clear(group);
    assert_int_equal(advisor_change_group_count(group), 0);
    advisor_change_group_free(group);
}

/* In the middle of a chain, with words behind it that must stay the last ones. */
static void
a_collision_refuses_one_block(void **state)
{
    const uint64_t known[] = {1, 2, 3, 4, 5};
    const uint64_t liar[] = {101, 102, 5, 103, 104, 4, 105};
    struct scene scene;

    (void)state;
    begin(&scene);
    store(&scene, G2, 0, 0, known, 5);
    commit(&scene);
    store(&scene, G3, 0, 0, liar, 7);
    remove_one(&scene, G3, 103);
    remove_one(&scene, G2, 2);
    store(&scene, G2, 1, 1, (const uint64_t[]){2}, 1);
    commit(&scene);
    assert_int_equal(scene.memory.collisions, 2);
    assert_true(advisor_ram_index_whole(&scene.memory));
    assert_true(holds(&scene, G3, 101) && holds(&scene, G3, 102) && holds(&scene, G3, 104) &&
                holds(&scene, G3, 105));
    assert_false(holds(&scene, G3, 5) || holds(&scene, G3, 4) || holds(&scene, G3, 103));
    for (size_t i = 0; i < 5; i++)
        assert_true(holds(&scene, G2, known[i]));
    end(&scene);
}

/* A block is as old as its first store since it was nowhere in G4. */
static void
a_row_says_since_when_it_is_stored(void **state)
{
    static const struct {
        enum advisor_op_kind kind;
        uint64_t time_ms;
        uint64_t stored_ms; /* in the row then; 0: there is no row */
    } table[] = {
        {ADVISOR_OP_STORE, 100, 100}, {ADVISOR_OP_STORE, 200, 100}, {ADVISOR_OP_ACCESS, 300, 100},
        {ADVISOR_OP_REMOVE, 400, 0},  {ADVISOR_OP_STORE, 500, 500}, {ADVISOR_OP_STORE, 450, 500},
    };
    struct advisor_store_block block = {0};
    struct advisor_txn txn;
    struct scene scene;

    (void)state;
    begin(&scene);
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        const struct advisor_op op = {.kind = table[i].kind,
                                      .hash = 7,
                                      .holder = HOT,
                                      .ns = NS,
                                      .ranks = 1,
                                      .count = 1,
                                      .size = 64,
                                      .time_ms = table[i].time_ms};

        assert_int_equal(advisor_change_group_add(scene.group, &op), KVT_OK);
        commit(&scene);
        assert_int_equal(advisor_store_read(scene.store, &txn, NULL), KVT_OK);
        assert_int_equal(advisor_store_get_block(&txn, NS, 7, &block),
                         table[i].stored_ms == 0 ? KVT_NOTFOUND : KVT_OK);
        advisor_store_end(&txn);
        assert_int_equal(block.stored_ms, table[i].stored_ms);
    }
    advisor_store_block_release(&block);
    end(&scene);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_drop_has_its_place_in_the_order),
        cmocka_unit_test(an_aborted_transaction_is_repeated),
        cmocka_unit_test(rows_alone),
        cmocka_unit_test(a_group_is_bounded),
        cmocka_unit_test(a_collision_refuses_one_block),
        cmocka_unit_test(a_row_says_since_when_it_is_stored),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
