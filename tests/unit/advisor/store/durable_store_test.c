/*
 * What is tested: advisor/store/durable_store.h and advisor/answer/offline_answer.h: rows, pages,
 * transactions, limits. How: by hand, and random blocks against an array.
 */
#include <stdio.h>
#include <string.h>

#include "advisor/answer/offline_answer.h"
#include "advisor/store/durable_store.h"
#include "advisor/store/job_rows.h"
#include "base/core/alloc.h"
#include "base/core/random.h"

#include "tests/support/seed.h"

enum { BLOCKS = 500, PLACES = 6, STEPS = 3000 };

struct scene {
    char folder[256];
    struct advisor_store *store;
    struct advisor_txn txn;
};

static void
open_store(struct scene *scene, uint64_t map_bytes)
{
    const struct advisor_store_options options = {.path = scene->folder, .map_bytes = map_bytes};
    struct kvt_error err;

    assert_int_equal(advisor_store_open(&scene->store, &options, &err), KVT_OK);
}

static void
begin(struct scene *scene)
{
    memset(scene, 0, sizeof(*scene));
    (void)test_folder_make(scene->folder, sizeof(scene->folder));
    open_store(scene, 16u << 20);
    assert_int_equal(advisor_store_write(scene->store, &scene->txn, NULL), KVT_OK);
}

static void
commit(struct scene *scene)
{
    assert_int_equal(advisor_store_commit(&scene->txn, NULL), KVT_OK);
    assert_int_equal(advisor_store_write(scene->store, &scene->txn, NULL), KVT_OK);
}

static void
end(struct scene *scene)
{
    advisor_store_end(&scene->txn);
    advisor_store_close(scene->store);
    test_folder_remove(scene->folder);
}

static void
numbers_and_names(void **state)
{
    const struct index_holder holder = {.name = "w", .dp_rank = 4, .tier = KVT_TIER_G3};
    struct index_holder back;
    char name[KVT_NAMESPACE_MAX];
    struct scene scene;
    uint64_t value;

    (void)state;
    begin(&scene);
    assert_int_equal(advisor_store_number(&scene.txn, ADVISOR_META_EVENTS_SEQ, &value), KVT_OK);
    assert_int_equal(value, 0);
    assert_int_equal(advisor_store_put_number(&scene.txn, ADVISOR_META_EVENTS_SEQ, UINT64_MAX),
                     KVT_OK);
    assert_int_equal(advisor_store_put_namespace(&scene.txn, 0, "", 0), KVT_OK);
    assert_int_equal(advisor_store_put_namespace(&scene.txn, 300, "tenant/model", 0), KVT_OK);
    assert_int_equal(advisor_store_put_holder(&scene.txn, 7, &holder), KVT_OK);
    commit(&scene);
    assert_int_equal(advisor_store_number(&scene.txn, ADVISOR_META_EVENTS_SEQ, &value), KVT_OK);
    assert_true(value == UINT64_MAX);
    assert_int_equal(advisor_store_namespace(&scene.txn, 300, name), KVT_OK);
    assert_string_equal(name, "tenant/model");
    assert_int_equal(advisor_store_namespace(&scene.txn, 1, name), KVT_NOTFOUND);
    assert_int_equal(advisor_store_holder(&scene.txn, 7, &back), KVT_OK);
    assert_memory_equal(&back, &holder, sizeof(back));
    assert_int_equal(advisor_store_holder(&scene.txn, 8, &back), KVT_NOTFOUND);
    end(&scene);
}

static enum kvt_err
take_order(void *arg, const void *data)
{
    const struct advisor_order_row *row = data;

    *(struct advisor_order_row *)arg = *row;
    return KVT_OK;
}

/* Between other tiers than hot volume and bucket rows are longer; others are as they were. */
static void
moves_carry_their_tiers(void **state)
{
    struct kvt_order_item items[3] = {{.block.hash = 1, .ranks = 1}, {.block.hash = 2, .ranks = 3}};
    struct scene scene;

    (void)state;
    begin(&scene);
    for (uint32_t n = 0; n < 2; n++) {
        struct advisor_order_row order = {.epoch = 1, .id = n + 1, .gateway = "g", .keep = n};
        struct advisor_job_batch batch = {.items = 3, .gateway = "g", .done = n};
        struct advisor_order_row row;
        struct advisor_job_batch former;
        struct kvt_order_item *copy;

        if (n == 1) {
            memcpy(order.from, "warm@g", sizeof("warm@g"));
            memcpy(order.to, "cold@far", sizeof("cold@far"));
            memcpy(batch.from, order.from, sizeof(batch.from));
            memcpy(batch.to, order.to, sizeof(batch.to));
        }
        assert_int_equal(advisor_store_put(&scene.txn, ADVISOR_ROW_ORDER, &order), KVT_OK);
        assert_int_equal(advisor_store_walk(&scene.txn, ADVISOR_ROW_ORDER, take_order, &row),
                         KVT_OK);
        assert_int_equal(advisor_store_delete(&scene.txn, ADVISOR_ROW_ORDER, &order), KVT_OK);
        assert_memory_equal(&row, &order, sizeof(row));
        assert_int_equal(advisor_store_put_batch(&scene.txn, 7, n, &batch, items), KVT_OK);
        assert_int_equal(advisor_store_batch(&scene.txn, 7, n, &former, &copy), KVT_OK);
        assert_string_equal(former.from, batch.from);
        assert_string_equal(former.to, batch.to);
        assert_int_equal(former.done, n);
        assert_memory_equal(copy, items, sizeof(items));
        kvt_free(copy);
        assert_int_equal(advisor_store_put_batch(&scene.txn, 7, n, &former, NULL), KVT_OK);
        assert_int_equal(advisor_store_batch(&scene.txn, 7, n, &former, &copy), KVT_OK);
        assert_string_equal(former.to, batch.to);
        assert_null(copy);
    }
    end(&scene);
}

static enum kvt_err
keep_order(void *arg, const void *data)
{
    const struct advisor_order_row *row = data;
    uint64_t **at = arg;

    *(*at)++ = row->id;
    return row->id == 1 ? KVT_CANCELLED : KVT_OK;
}

static void
orders_come_newest_first(void **state)
{
    struct advisor_order_row row = {.epoch = 1, .gateway = "gw0"};
    uint64_t ids[8] = {0};
    uint64_t *at = ids;
    struct scene scene;

    (void)state;
    begin(&scene);
    for (row.id = 1; row.id <= 3; row.id++)
        assert_int_equal(advisor_store_put(&scene.txn, ADVISOR_ROW_ORDER, &row), KVT_OK);
    row.epoch = 2;
    row.id = 9;
    assert_int_equal(advisor_store_put(&scene.txn, ADVISOR_ROW_ORDER, &row), KVT_OK);
    row = (struct advisor_order_row){.epoch = 1, .id = 2};
    assert_int_equal(advisor_store_delete(&scene.txn, ADVISOR_ROW_ORDER, &row), KVT_OK);
    assert_int_equal(advisor_store_delete(&scene.txn, ADVISOR_ROW_ORDER, &row),
                     KVT_OK); /* gone already */
    assert_int_equal(advisor_store_walk(&scene.txn, ADVISOR_ROW_ORDER, keep_order, &at),
                     KVT_CANCELLED);
    assert_int_equal(at - ids, 3);
    assert_int_equal(ids[0], 9);
    assert_int_equal(ids[1], 3);
    assert_int_equal(ids[2], 1);
    end(&scene);
}

static void
put_block(const struct scene *scene, uint64_t hash, uint32_t ns, uint32_t places)
{
    struct advisor_store_block block = {.hash = hash, .ns = ns, .size = hash + ns, .position = 3};

    assert_int_equal(advisor_store_block_reserve(&block, places + 1), KVT_OK);
    for (uint32_t i = 0; i < places; i++)
        block.places[block.place_count++] = (struct advisor_store_place){i, i + 1};
    assert_int_equal(advisor_store_put_block(&scene->txn, &block), KVT_OK);
    advisor_store_block_release(&block);
}

static enum kvt_err
count_block(void *arg, const struct advisor_store_block *block)
{
    uint32_t *counts = arg;

    assert_int_equal(block->size, block->hash + block->ns);
    counts[block->hash]++;
    return KVT_OK;
}

static void
pages_of_blocks_miss_none(void **state)
{
    uint32_t counts[32] = {0};
    uint64_t next = 0;
    size_t pages = 0;
    struct scene scene;

    (void)state;
    begin(&scene);
    for (uint64_t hash = 0; hash < 20; hash++)
        for (uint32_t ns = 0; ns <= hash % 3; ns++)
            put_block(&scene, hash, ns, 2);
    do {
        assert_int_equal(advisor_store_blocks(&scene.txn, next, 4, &next, count_block, counts),
                         KVT_OK);
        pages++;
    } while (next != 0);
    assert_true(pages > 5);
    for (uint64_t hash = 0; hash < 20; hash++)
        assert_int_equal(counts[hash], hash % 3 + 1);
    assert_int_equal(advisor_store_block_count(&scene.txn), 39);
    end(&scene);
}

static void
random_blocks_against_an_array(void **state)
{
    struct advisor_store_block block = {0};
    uint32_t places[BLOCKS] = {0};
    uint64_t random = test_seed();
    struct scene scene;

    (void)state;
    begin(&scene);
    for (int i = 0; i < STEPS; i++) {
        const uint64_t at = kvt_random_below(&random, BLOCKS);

        places[at] = (uint32_t)kvt_random_below(&random, PLACES); /* 0 deletes */
        put_block(&scene, at, 1, places[at]);
        if (kvt_random_below(&random, 100) == 0)
            commit(&scene);
    }
    for (uint64_t at = 0; at < BLOCKS; at++) {
        const enum kvt_err rc = advisor_store_get_block(&scene.txn, 1, at, &block);

        assert_int_equal(rc, places[at] == 0 ? KVT_NOTFOUND : KVT_OK);
        assert_int_equal(block.place_count, places[at]);
        assert_int_equal(block.hash, at);
        for (uint32_t i = 0; i < block.place_count; i++)
            assert_int_equal(block.places[i].ranks, i + 1);
    }
    advisor_store_block_release(&block);
    end(&scene);
}

static void
held_is_paged_by_holder_and_namespace(void **state)
{
    struct advisor_held rows[4];
    struct scene scene;
    size_t count;

    (void)state;
    begin(&scene);
    for (uint64_t hash = 0; hash < 6; hash++)
        for (uint32_t ns = 0; ns < 2; ns++) {
            const struct advisor_held held = {hash * 10, 5, ns, 1, (uint32_t)hash};

            assert_int_equal(advisor_store_put_held(&scene.txn, &held), KVT_OK);
            assert_int_equal(advisor_store_put_held(&scene.txn, &held), KVT_OK);
        }
    assert_int_equal(advisor_store_held(&scene.txn, 5, 0, 0, rows, 4, &count), KVT_OK);
    assert_int_equal(count, 4);
    assert_int_equal(rows[3].hash, 30);
    assert_int_equal(rows[3].gen, 3);
    assert_int_equal(advisor_store_held(&scene.txn, 5, 0, 31, rows, 4, &count), KVT_OK);
    assert_int_equal(count, 2); /* not on into the next namespace */
    assert_int_equal(advisor_store_held(&scene.txn, 4, 0, 0, rows, 4, &count), KVT_OK);
    assert_int_equal(count, 0);
    rows[0] = (struct advisor_held){.hash = 50, .holder = 5, .ns = 1};
    assert_int_equal(advisor_store_delete_held(&scene.txn, &rows[0]), KVT_OK);
    assert_int_equal(advisor_store_held(&scene.txn, 5, 1, 31, rows, 4, &count), KVT_OK);
    assert_int_equal(count, 1);
    end(&scene);
}

static void
an_aborted_transaction_leaves_nothing(void **state)
{
    struct advisor_store_block block = {0};
    struct scene scene;

    (void)state;
    begin(&scene);
    put_block(&scene, 1, 0, 2);
    commit(&scene);
    put_block(&scene, 2, 0, 2);
    put_block(&scene, 1, 0, 0);
    advisor_store_end(&scene.txn);
    assert_int_equal(advisor_store_write(scene.store, &scene.txn, NULL), KVT_OK);
    assert_int_equal(advisor_store_get_block(&scene.txn, 0, 1, &block), KVT_OK);
    assert_int_equal(advisor_store_get_block(&scene.txn, 0, 2, &block), KVT_NOTFOUND);
    advisor_store_block_release(&block);
    end(&scene);
}

static void
other_formats_are_refused(void **state)
{
    struct advisor_store_reader *reader;
    struct advisor_store *store;
    struct kvt_error err;
    struct scene scene;
    const struct advisor_store_options options = {.path = scene.folder, .map_bytes = 16u << 20};

    (void)state;
    begin(&scene);
    assert_int_equal(advisor_store_put_number(&scene.txn, ADVISOR_META_FORMAT, 99), KVT_OK);
    commit(&scene);
    advisor_store_end(&scene.txn);
    advisor_store_close(scene.store);
    assert_int_equal(advisor_store_open(&store, &options, &err), KVT_UNSUPPORTED);
    assert_null(store);
    assert_non_null(strstr(err.text, "format 99"));
    assert_int_equal(advisor_store_read_open(&reader, scene.folder, &err), KVT_UNSUPPORTED);
    test_folder_remove(scene.folder);
}

static void
read_only_beside_a_writer(void **state)
{
    const struct index_holder keys[2] = {{.name = "w", .tier = KVT_TIER_G2},
                                         {.name = "hot@g", .tier = KVT_TIER_G4}};
    struct advisor_store_holder_stats *holders;
    struct advisor_store_reader *reader;
    struct advisor_store_stats stats;
    const uint64_t hashes[2] = {1, 2};
    struct kvt_error err;
    struct scene scene;
    uint8_t masks[2];

    (void)state;
    assert_int_equal(advisor_store_read_open(&reader, "/nonexistent/kvtier", &err), KVT_NOTFOUND);
    begin(&scene);
    assert_int_equal(advisor_store_put_namespace(&scene.txn, 0, "ns", 0), KVT_OK);
    for (uint32_t i = 0; i < 2; i++)
        assert_int_equal(advisor_store_put_holder(&scene.txn, i, &keys[i]), KVT_OK);
    put_block(&scene, 1, 0, 2);
    commit(&scene);
    put_block(&scene, 2, 0, 1); /* not committed: not seen */
    assert_int_equal(advisor_store_read_open(&reader, scene.folder, &err), KVT_OK);
    assert_int_equal(advisor_store_read_stats(reader, &stats, &holders, NULL), KVT_OK);
    assert_int_equal(stats.blocks, 1);
    assert_int_equal(stats.places, 2);
    assert_int_equal(stats.holders, 2);
    assert_string_equal(holders[1].holder.name, "hot@g");
    assert_int_equal(holders[1].blocks, 1);
    kvt_free(holders);
    assert_int_equal(
        advisor_finder_masks(advisor_store_read_finder(reader), "ns", hashes, 2, masks), KVT_OK);
    assert_int_equal(masks[0], KVT_TIER_MASK(KVT_TIER_G2) | KVT_TIER_MASK(KVT_TIER_G4));
    assert_int_equal(masks[1], 0);
    advisor_store_read_close(reader);
    end(&scene);
}

static void
one_writer_a_folder(void **state)
{
    struct advisor_store *second;
    struct kvt_error err;
    struct scene scene;
    const struct advisor_store_options options = {.path = scene.folder, .map_bytes = 16u << 20};

    (void)state;
    begin(&scene);
    assert_int_equal(advisor_store_open(&second, &options, &err), KVT_BUSY);
    assert_null(second);
    assert_non_null(strstr(err.text, "another advisor"));
    end(&scene);
}

static bool
open_and_close(void *arg)
{
    const struct advisor_store_options options = {.path = arg, .map_bytes = 1u << 20};
    struct advisor_store *store;
    const enum kvt_err rc = advisor_store_open(&store, &options, NULL);

    advisor_store_close(store);
    return rc == KVT_OK;
}

static void
every_allocation_may_fail(void **state)
{
    char folder[256];

    (void)state;
    (void)test_folder_make(folder, sizeof(folder));
    assert_true(test_sweep_allocations(open_and_close, folder) > 0);
    test_folder_remove(folder);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_and_names),
        cmocka_unit_test(orders_come_newest_first),
        cmocka_unit_test(moves_carry_their_tiers),
        cmocka_unit_test(pages_of_blocks_miss_none),
        cmocka_unit_test(random_blocks_against_an_array),
        cmocka_unit_test(held_is_paged_by_holder_and_namespace),
        cmocka_unit_test(an_aborted_transaction_leaves_nothing),
        cmocka_unit_test(other_formats_are_refused),
        cmocka_unit_test(read_only_beside_a_writer),
        cmocka_unit_test(one_writer_a_folder),
        cmocka_unit_test(every_allocation_may_fail),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
