/*
 * What is tested: gateway/block/damage.h and claim.h where what was read speaks against a copy
 * that is good.  An answer that was damaged on its way, a disk that errs, a row that is behind,
 * and one that cannot be read take no good copy away.
 */
#include <string.h>

#include "g4/object/check.h"
#include "gateway/block/damage.h"
#include "gateway/block/removal.h"
#include "gateway/block/repair.h"
#include "gateway/catalog/catalog_private.h"
#include "gateway/tier/quarantine.h"

#include "tests/unit/gateway/support/waiting.h"

enum { SIZE = TEST_WAITING_SIZE, ROOM = 1 << 20 };

/* Who wrote the object in the bucket; "" where there is none. */
static const char *
writer_of(struct test_gateway *g, uint64_t number, struct g4_request *head)
{
    char key[KVT_KEY_MAX];

    if (test_gateway_store_head(g->bucket, test_gateway_key(key, number), head) != KVT_OK)
        return "";
    return head->meta.writer;
}

static void
write_object(struct g4_store *store, uint64_t number, size_t size, uint64_t fingerprint,
             const char *writer)
{
    struct g4_meta meta = {.present = true, .length = size, .fingerprint = fingerprint};
    uint8_t body[2 * SIZE];
    char key[KVT_KEY_MAX];

    memcpy(meta.writer, writer, strlen(writer) + 1);
    test_gateway_fill(body, size, number);
    meta.crc32c = g4_check_crc32c(body, size);
    assert_int_equal(
        test_gateway_store_put(store, test_gateway_key(key, number), body, size, &meta), KVT_OK);
}

/* Make the hot volume of the gateway one that misbehaves on demand. */
static void
spoil_hot(struct test_gateway *g)
{
    struct g4_store *faulty;

    assert_int_equal(test_faulty_store_open(&faulty, g->context->tiers.hot), KVT_OK);
    g->context->tiers.hot = faulty;
}

/* Another gateway removed the block and stored other content: it is this row that is behind. */
static void
renewed_by_another(void **state)
{
    static const size_t sizes[] = {SIZE, 2 * SIZE};

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct test_gateway g;
        struct g4_request head;

        test_gateway_open(&g, 0, 0);
        assert_int_equal(test_gateway_put(&g, 1, SIZE), KVT_OK);
        write_object(g.bucket, 1, sizes[i], 8, "gw1");
        assert_int_equal(test_gateway_get(&g, 1, SIZE, NULL), KVT_NOTFOUND);
        assert_int_equal(test_gateway_tiers(&g, 1, NULL), 0);
        assert_string_equal(writer_of(&g, 1, &head), "gw1");
        assert_int_equal(test_gateway_get(&g, 1, sizes[i], NULL), KVT_OK); /* as its writer's */
        test_gateway_close(&g);
    }
}

/* But nobody writes in this gateway's name: then it is the object's metadata that is wrong. */
static void
altered_in_our_name(void **state)
{
    struct test_gateway g;

    (void)state;
    test_gateway_open(&g, 0, 0);
    assert_int_equal(test_gateway_put(&g, 1, SIZE), KVT_OK);
    write_object(g.bucket, 1, SIZE, 8, g.options.name);
    for (int again = 0; again < 2; again++)
        assert_int_equal(test_gateway_get(&g, 1, SIZE, NULL), KVT_NOTFOUND);
    assert_int_equal(test_gateway_put(&g, 1, SIZE), KVT_OK);
    assert_int_equal(test_gateway_get(&g, 1, SIZE, NULL), KVT_OK);
    test_gateway_close(&g);
}

/* What an owed row says is not of the object in the bucket: that one is looked at twice. */
static void
flipped_beside_an_owed_row(void **state)
{
    struct test_waiting w;
    struct g4_request head;
    char key[KVT_KEY_MAX];

    (void)state;
    test_waiting_open(&w, ROOM);
    assert_int_equal(test_gateway_put(&w.gateway, 1, SIZE), KVT_OK);
    assert_int_equal(test_waiting_plant(w.gateway.bucket, 1, 99), KVT_OK);
    test_gateway_fault(&w.gateway, G4_GET, G4_FAULT_FLIP, KVT_OK, 1);
    gateway_repair_inspect(w.gateway.context, test_gateway_key(key, 1));
    assert_string_equal(writer_of(&w.gateway, 1, &head), "gw1");
    assert_int_equal(test_waiting_blocks(&w), 1);
    test_waiting_close(&w);
}

/* A PUT meets another's block, and the answer that would show it is damaged on its way. */
static void
flipped_before_a_put(void **state)
{
    static const struct {
        enum g4_fault fault;
        uint64_t count;
    } lies[] = {{G4_FAULT_FLIP, 1}, {G4_FAULT_TRUNCATE, 2}};

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct test_gateway g;
        struct g4_request head;

        test_gateway_open(&g, 0, 0);
        assert_int_equal(test_waiting_plant(g.bucket, 1, 99), KVT_OK);
        test_gateway_fault(&g, G4_GET, lies[i].fault, KVT_OK, lies[i].count);
        assert_int_equal(test_gateway_put(&g, 1, SIZE), KVT_AGAIN);
        assert_string_equal(writer_of(&g, 1, &head), "gw1");
        test_gateway_fault(&g, G4_GET, G4_FAULT_NONE, KVT_OK, 0);
        assert_int_equal(test_gateway_put(&g, 1, SIZE), KVT_PRECONDITION);
        assert_string_equal(writer_of(&g, 1, &head), "gw1");
        test_gateway_close(&g);
    }
}

/* A bucket in which another gateway stores block 1 just before the next GET. */
struct rival {
    struct g4_store *inner;
    bool armed;
};

static enum kvt_err
rival_submit(void *self, struct g4_request *request)
{
    struct rival *rival = self;

    if (rival->armed && request->verb == G4_GET) {
        rival->armed = false;
        assert_int_equal(test_waiting_plant(rival->inner, 1, 1), KVT_OK);
    }
    return g4_store_submit(rival->inner, request);
}

static void
rival_close(void *self)
{
    struct rival *rival = self;

    g4_store_close(rival->inner);
}

static const struct g4_store_driver rival_driver = {
    .name = "rival", .submit = rival_submit, .close = rival_close};

/* Two gateways meet one tombstone with the same bytes: who comes second finds its own block. */
static void
two_over_a_tombstone(void **state)
{
    const struct g4_meta tombstone = {
        .present = true, .crc32c = g4_check_crc32c("", 0), .writer = GATEWAY_TOMBSTONE};
    struct rival rival = {0};
    struct test_gateway g;
    struct g4_request head;
    char key[KVT_KEY_MAX];

    (void)state;
    test_gateway_open(&g, 0, 0);
    test_gateway_interpose(&g, &rival_driver, &rival, &rival.inner);
    assert_int_equal(
        test_gateway_store_put(rival.inner, test_gateway_key(key, 1), "", 0, &tombstone), KVT_OK);
    rival.armed = true;
    assert_int_equal(test_gateway_put(&g, 1, SIZE), KVT_OK);
    assert_false(rival.armed);
    assert_int_equal(gateway_stats_get(&g.stats, GATEWAY_STAT_PRESENT), 1);
    assert_string_equal(writer_of(&g, 1, &head), "gw1");
    assert_int_equal(test_gateway_get(&g, 1, SIZE, NULL), KVT_OK);
    test_gateway_close(&g);
}

/* The second look at a bad hot copy fails: that says nothing of it. */
static void
disk_errs_at_the_second_look(void **state)
{
    const struct g4_fault_rule second = {
        .verb = G4_GET, .fault = G4_FAULT_FAIL, .after = 1, .count = 1, .status = KVT_IO};
    struct test_gateway g;
    unsigned tier;

    (void)state;
    test_gateway_open(&g, ROOM, 0);
    spoil_hot(&g);
    assert_int_equal(test_gateway_put(&g, 1, SIZE), KVT_OK);
    assert_int_equal(test_waiting_plant(g.context->tiers.hot, 1, 99), KVT_OK);
    test_faulty_store_set(g.context->tiers.hot, &second);
    assert_int_equal(test_gateway_get(&g, 1, SIZE, &tier), KVT_OK);
    assert_int_equal(tier, 1);
    assert_int_equal(test_gateway_tiers(&g, 1, NULL), GATEWAY_HOT | GATEWAY_COLD);
    test_gateway_close(&g);
}

/* The disk errs, and the bucket that is owed the block does not have it: that is no miss. */
static void
disk_errs_before_the_upload(void **state)
{
    const struct g4_fault_rule once = {
        .verb = G4_GET, .fault = G4_FAULT_FAIL, .count = 1, .status = KVT_IO};
    struct test_waiting w;

    (void)state;
    test_waiting_open(&w, ROOM);
    spoil_hot(&w.gateway);
    assert_int_equal(test_gateway_put(&w.gateway, 1, SIZE), KVT_OK);
    test_faulty_store_set(w.gateway.context->tiers.hot, &once);
    assert_int_equal(test_gateway_get(&w.gateway, 1, SIZE, NULL), KVT_IO);
    test_faulty_store_set(w.gateway.context->tiers.hot, &once);
    assert_int_equal(test_gateway_put(&w.gateway, 1, SIZE), KVT_AGAIN);
    assert_int_equal(test_gateway_get(&w.gateway, 1, SIZE, NULL), KVT_OK);
    assert_int_equal(gateway_stats_get(&w.gateway.stats, GATEWAY_STAT_MISSES), 0);
    test_waiting_drain(&w);
    assert_true(test_waiting_arrived(&w, 1, SIZE));
    test_waiting_close(&w);
}

/* The block is put again before anybody sees the damage: then it is whole again. */
static void
repeat_heals(void **state)
{
    const struct g4_fault_rule flip = {.verb = G4_GET, .fault = G4_FAULT_FLIP, .count = 1};
    struct test_waiting w;

    (void)state;
    for (unsigned way = 0; way < 3; way++) {
        char key[KVT_KEY_MAX];
        struct g4_request drop = {.verb = G4_DELETE, .key = test_gateway_key(key, 1)};
        unsigned tier;

        test_waiting_open(&w, ROOM);
        spoil_hot(&w.gateway);
        assert_int_equal(test_gateway_put(&w.gateway, 1, SIZE), KVT_OK);
        if (way == 0)
            assert_int_equal(g4_store_perform(w.gateway.context->tiers.hot, &drop), KVT_OK);
        else if (way == 1)
            assert_int_equal(test_waiting_plant(w.gateway.context->tiers.hot, 1, 99), KVT_OK);
        else
            test_faulty_store_set(w.gateway.context->tiers.hot, &flip); /* its header is right */
        assert_int_equal(test_gateway_put(&w.gateway, 1, SIZE), KVT_OK);
        assert_int_equal(test_waiting_count(&w, GATEWAY_STAT_PRESENT), 1);
        assert_int_equal(gateway_quarantine_count(w.gateway.context->quarantine), way > 0);
        assert_int_equal(test_waiting_blocks(&w), 1);
        assert_int_equal(test_gateway_get(&w.gateway, 1, SIZE, &tier), KVT_OK);
        assert_int_equal(tier, 0);
        test_waiting_drain(&w);
        assert_true(test_waiting_arrived(&w, 1, SIZE));
        assert_int_equal(test_waiting_count(&w, GATEWAY_STAT_BACKLOG_LOST), 0);
        test_waiting_close(&w);
    }
}

/* A deletion of many leaves the copy in the bucket where it could not mark the row. */
static void
a_row_that_cannot_be_read(void **state)
{
    struct test_gateway g;
    struct g4_request head;
    enum kvt_err statuses[2];
    char texts[2][KVT_KEY_MAX];
    const char *const keys[2] = {test_gateway_key(texts[0], 0), test_gateway_key(texts[1], 1)};
    MDB_val name = {.mv_size = strlen(keys[1]), .mv_data = texts[1]};
    char bytes[] = "garbage";
    MDB_val garbage = {.mv_size = sizeof(bytes), .mv_data = bytes};
    MDB_txn *txn;

    (void)state;
    test_gateway_open(&g, ROOM, 0);
    for (uint64_t i = 0; i < 2; i++)
        assert_int_equal(test_gateway_put(&g, i, SIZE), KVT_OK);
    assert_int_equal(mdb_txn_begin(g.context->catalog->env, NULL, 0, &txn), 0);
    assert_int_equal(mdb_put(txn, g.context->catalog->objects, &name, &garbage, 0), 0);
    assert_int_equal(mdb_txn_commit(txn), 0);
    gateway_removal_all(g.context, keys, 2, statuses);
    assert_int_equal(statuses[1], KVT_IO);
    assert_int_equal(test_gateway_store_head(g.bucket, keys[1], &head), KVT_OK);
    test_gateway_close(&g);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(renewed_by_another),
        cmocka_unit_test(altered_in_our_name),
        cmocka_unit_test(flipped_beside_an_owed_row),
        cmocka_unit_test(flipped_before_a_put),
        cmocka_unit_test(two_over_a_tombstone),
        cmocka_unit_test(disk_errs_at_the_second_look),
        cmocka_unit_test(disk_errs_before_the_upload),
        cmocka_unit_test(repeat_heals),
        cmocka_unit_test(a_row_that_cannot_be_read),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
