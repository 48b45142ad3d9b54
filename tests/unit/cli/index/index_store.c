#include "tests/unit/cli/index/index_store.h"

#include <stdio.h>
#include <string.h>

#include "advisor/store/foreign_rows.h"
#include "base/core/alloc.h"
#include "base/core/random.h"

#include "tests/support/seed.h"

enum { BLOCKS = 400, CHANGES = 600, FEW = 2 };

struct advisor_store *
test_store_open(const char *path, bool read_only)
{
    const struct advisor_store_options options = {
        .path = path, .map_bytes = read_only ? 0 : TEST_STORE_MAP, .read_only = read_only};
    struct advisor_store *store;

    assert_int_equal(advisor_store_open(&store, &options, NULL), KVT_OK);
    return store;
}

static void
put_names(const struct advisor_txn *txn)
{
    static const char *const names[TEST_STORE_NAMESPACES] = {"", "tenant/model",
                                                             "a \"quoted\" one"};
    static const char *const tiers[] = {"cold@b", "hot@g", "hot@h"};

    for (uint32_t i = 0; i < TEST_STORE_NAMESPACES; i++)
        assert_int_equal(advisor_store_put_namespace(txn, i, names[i], 0), KVT_OK);
    for (uint32_t i = 0; i < TEST_STORE_HOLDERS; i++) {
        struct index_holder holder;

        memset(&holder, 0, sizeof(holder));
        if (i < TEST_STORE_WORKERS)
            (void)snprintf(holder.name, sizeof(holder.name), "w-%u", i / 2);
        else
            (void)snprintf(holder.name, sizeof(holder.name), "%s", tiers[i - TEST_STORE_WORKERS]);
        holder.dp_rank = i < TEST_STORE_WORKERS ? i % 2 : 0;
        holder.tier = i < TEST_STORE_WORKERS ? KVT_TIER_G1 : KVT_TIER_G4;
        assert_int_equal(advisor_store_put_holder(txn, i, &holder), KVT_OK);
    }
}

static void
put_rows(const struct advisor_txn *txn)
{
    const struct advisor_publisher_row publisher = {.incarnation = UINT64_MAX,
                                                    .last_seq = 77,
                                                    .number = 2,
                                                    .ns = 1,
                                                    .gen = 3,
                                                    .need_dump = 1,
                                                    .doubted = 1,
                                                    .buckets = 0x800001,
                                                    .worker = "w-1"};
    const struct advisor_sweep_row sweep = {.publisher = 2, .holder = 4, .floor = 3, .ns = 1};
    const struct advisor_gateway_row gateway = {.incarnation = 5, .seq = 6, .name = "gw0"};
    const struct advisor_order_row order = {.epoch = 8,
                                            .id = 9,
                                            .state = ADVISOR_ORDER_FAILED,
                                            .items = 10,
                                            .gateway = "gw0",
                                            .namespace_ = "tenant/model",
                                            .reason = "hot_start",
                                            .text = "line\nbreak"};

    assert_int_equal(advisor_store_put(txn, ADVISOR_ROW_PUBLISHER, &publisher), KVT_OK);
    assert_int_equal(advisor_store_put(txn, ADVISOR_ROW_SWEEP, &sweep), KVT_OK);
    assert_int_equal(advisor_store_put(txn, ADVISOR_ROW_GATEWAY, &gateway), KVT_OK);
    assert_int_equal(advisor_store_put(txn, ADVISOR_ROW_ORDER, &order), KVT_OK);
    assert_int_equal(
        advisor_store_put_number(txn, ADVISOR_META_PUBLISHER_NEXT, TEST_STORE_PUBLISHER_NEXT),
        KVT_OK);
    assert_int_equal(advisor_store_put_number(txn, ADVISOR_META_EVENTS_SEQ, UINT64_MAX), KVT_OK);
}

void
test_store_put_foreign(const struct advisor_txn *txn)
{
    const struct advisor_source_row source = {
        .number = 1, .name = "cluster", .seq = UINT64_MAX, .created_ms = 7};
    const struct advisor_publisher_row publisher = {
        .number = 3, .ns = 1, .gen = 2, .last_seq = 5, .worker = "w-0"};
    const struct advisor_foreign_row foreign = {.number = 3,
                                                .source = 1,
                                                .worker_id = UINT64_MAX,
                                                .life = 1,
                                                .former = 2,
                                                .groups_full = 3,
                                                .groups_partial = 4,
                                                .dp_rank = 5,
                                                .floor = 6,
                                                .met = 1,
                                                .messages = 1,
                                                .digest = 7,
                                                .reason = "a \"reason\""};
    struct advisor_alias_row alias = {.chain = UINT64_MAX,
                                      .seed = 1337,
                                      .publisher = 3,
                                      .gen = 2,
                                      .position = 9,
                                      .tiers = 6,
                                      .salted = 1};
    const uint8_t waiting[] = {0, 1, 0x7f, 0x80, 0xff};

    assert_int_equal(advisor_store_put(txn, ADVISOR_ROW_SOURCE, &source), KVT_OK);
    assert_int_equal(advisor_store_put(txn, ADVISOR_ROW_PUBLISHER, &publisher), KVT_OK);
    assert_int_equal(advisor_store_put(txn, ADVISOR_ROW_FOREIGN, &foreign), KVT_OK);
    for (alias.hash = 1; alias.hash < 50; alias.hash++)
        assert_int_equal(advisor_store_put(txn, ADVISOR_ROW_ALIAS, &alias), KVT_OK);
    assert_int_equal(advisor_store_put_orphan(txn, 3, 11, waiting, sizeof(waiting)), KVT_OK);
    assert_int_equal(advisor_store_put_orphan(txn, 3, 12, waiting, 0), KVT_OK);
}

/* ---- G4 ---- */

static void
put_place(const struct advisor_txn *txn, struct advisor_store_block *block, uint32_t holder,
          uint32_t reporter)
{
    const struct advisor_held held = {block->hash, holder, block->ns, reporter, 3};

    assert_int_equal(advisor_store_block_reserve(block, block->place_count + 1), KVT_OK);
    block->places[block->place_count++] =
        (struct advisor_store_place){.holder = holder, .ranks = UINT32_MAX >> holder};
    assert_int_equal(advisor_store_put_held(txn, &held), KVT_OK);
}

static void
put_blocks(const struct advisor_txn *txn, uint64_t *random, uint32_t count)
{
    struct advisor_store_block block = {0};

    for (uint32_t i = 0; i < count; i++) {
        /* Some hashes in several namespaces, 0 and the largest among them. */
        block.hash = i == 0 ? 0 : i == 1 ? UINT64_MAX : kvt_random_next(random) % 400;
        block.ns = (uint32_t)kvt_random_below(random, TEST_STORE_NAMESPACES);
        block.parent = kvt_random_next(random);
        block.tokens_hash = kvt_random_next(random);
        block.size = kvt_random_next(random);
        block.position = (uint32_t)kvt_random_below(random, KVT_POSITION_MAX);
        block.hits = i;
        block.cold_hits = 2 * i;
        block.cold_recent = 3;
        block.stored_ms = i + 1;
        block.last_access_ms = i;
        block.touched_ms = kvt_random_next(random);
        block.place_count = 0;
        for (uint32_t holder = TEST_STORE_WORKERS; holder < TEST_STORE_HOLDERS; holder++) {
            struct advisor_held held = {block.hash, holder, block.ns, 0, 0};

            /* The same block may have come before, with other places. */
            assert_int_equal(advisor_store_delete_held(txn, &held), KVT_OK);
            if (kvt_random_below(random, 2) == 0)
                put_place(txn, &block, holder,
                          (uint32_t)kvt_random_below(random, TEST_STORE_PUBLISHER_NEXT));
        }
        assert_int_equal(advisor_store_put_block(txn, &block), KVT_OK);
    }
    advisor_store_block_release(&block);
}

/* ---- workers ---- */

uint64_t
test_store_hash(uint32_t chain, uint32_t position)
{
    uint64_t state = UINT64_C(1000) + chain * TEST_STORE_CHAIN + position;

    return kvt_random_next(&state);
}

void
test_store_change(struct advisor_event_log *log, uint64_t *random)
{
    const uint32_t chain = (uint32_t)kvt_random_below(random, TEST_STORE_CHAINS);
    const uint32_t from = (uint32_t)kvt_random_below(random, TEST_STORE_CHAIN);
    const uint32_t count = 1 + (uint32_t)kvt_random_below(random, TEST_STORE_CHAIN - from);
    const struct advisor_event_log_place place = {
        .size = 100 + chain,
        .holder = (uint32_t)kvt_random_below(random, TEST_STORE_WORKERS),
        .ns = chain % TEST_STORE_NAMESPACES,
        .ranks = 1 + (uint32_t)kvt_random_below(random, 3),
        .time_s = 1};
    uint64_t hashes[TEST_STORE_CHAIN];
    uint64_t tokens[TEST_STORE_CHAIN];

    for (uint32_t i = 0; i < count; i++) {
        hashes[i] = test_store_hash(chain, from + i);
        tokens[i] = hashes[i] + 1;
    }
    switch (kvt_random_below(random, 40)) {
    case 0: assert_int_equal(advisor_event_log_drop(log, place.holder, place.ns), KVT_OK); break;
    case 1 ... 12:
        assert_int_equal(advisor_event_log_remove(log, &place, hashes, count), KVT_OK);
        break;
    default:
        assert_int_equal(
            advisor_event_log_store(log, &place, from == 0 ? 0 : test_store_hash(chain, from - 1),
                                    from, hashes, chain % 2 == 0 ? tokens : NULL, count),
            KVT_OK);
        break;
    }
}

void
test_store_append(const struct advisor_txn *txn, const struct advisor_event_log *log)
{
    struct advisor_store_log state;

    assert_int_equal(advisor_store_log_get(txn, &state), KVT_OK);
    assert_int_equal(advisor_store_log_append(txn, &state, log), KVT_OK);
}

static void
put_log(const struct advisor_txn *txn, uint64_t *random, uint32_t count)
{
    struct advisor_event_log *log;

    assert_int_equal(advisor_event_log_new(&log), KVT_OK);
    for (uint32_t i = 0; i < count; i++)
        test_store_change(log, random);
    test_store_append(txn, log);
    advisor_event_log_free(log);
}

static int
set_up(void **state, uint32_t blocks, uint32_t changes)
{
    struct test_store *scene = kvt_calloc(1, sizeof(*scene));
    uint64_t random = test_seed();
    struct advisor_txn txn;

    assert_non_null(scene);
    (void)test_folder_make(scene->folder, sizeof(scene->folder));
    (void)snprintf(scene->state, sizeof(scene->state), "%s/state", scene->folder);
    (void)snprintf(scene->copy, sizeof(scene->copy), "%s/copy", scene->folder);
    scene->store = test_store_open(scene->state, false);
    assert_int_equal(advisor_store_write(scene->store, &txn, NULL), KVT_OK);
    put_names(&txn);
    put_rows(&txn);
    put_blocks(&txn, &random, blocks);
    put_log(&txn, &random, changes);
    assert_int_equal(advisor_store_commit(&txn, NULL), KVT_OK);
    *state = scene;
    return 0;
}

int
test_store_set_up(void **state)
{
    return set_up(state, BLOCKS, CHANGES);
}

int
test_store_set_up_small(void **state)
{
    return set_up(state, FEW, FEW);
}

int
test_store_tear_down(void **state)
{
    struct test_store *scene = *state;

    advisor_store_close(scene->store);
    test_folder_remove(scene->folder);
    kvt_free(scene);
    return 0;
}
