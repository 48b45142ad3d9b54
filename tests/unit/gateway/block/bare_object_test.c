/*
 * What is tested: objects without our metadata under block keys, as KVBM writes them.  The first
 * writer wins there too: no PUT, upload or repair takes their place, and in the namespace without a
 * name they are served once they were read and summed.
 */
#include <string.h>

#include "base/core/alloc.h"
#include "g4/object/check.h"
#include "gateway/block/removal.h"
#include "gateway/care/inspect.h"
#include "gateway/move/recover.h"
#include "gateway/tier/bucket_tier.h"
#include "gateway/tier/quarantine.h"

#include "tests/unit/gateway/support/support.h"
#include "tests/unit/gateway/support/waiting.h"

enum { SIZE = 5000, HOT = 1 << 20, THEIRS = 71, OURS = 72 };

/* KVBM has no namespaces; a namespace of ours is the other case. */
static const char kvbm[] = "0/0:11111113";
static const char ours[] = TEST_NAMESPACE "/0/0:11111113";

static void
plant(struct test_gateway *g, const char *key, uint64_t content)
{
    uint8_t body[SIZE];

    test_gateway_fill(body, SIZE, content);
    assert_int_equal(test_gateway_store_put(g->bucket, key, body, SIZE, &(struct g4_meta){0}),
                     KVT_OK);
}

static enum kvt_err
put(struct test_gateway *g, const char *key, uint64_t content)
{
    uint8_t body[SIZE];
    struct gateway_put_item item = {.key = key, .body = body, .size = SIZE, .fingerprint = 7};

    test_gateway_fill(body, SIZE, content);
    item.crc32c = g4_check_crc32c(body, SIZE);
    gateway_put_blocks(g->context, &item, 1);
    return item.status;
}

/* Read it; when it is served, it has these bytes. */
static enum kvt_err
get(struct test_gateway *g, const char *key, uint64_t content)
{
    uint8_t expected[SIZE];
    uint8_t body[2 * SIZE];
    struct gateway_item item = {
        .key = key, .for_body = true, .buffer = body, .capacity = sizeof(body)};

    gateway_get_find(g->context, &item, 1);
    gateway_get_bodies(g->context, &item, 1);
    test_gateway_fill(expected, SIZE, content);
    if (item.status == KVT_OK) {
        assert_int_equal(item.size, SIZE);
        assert_memory_equal(body, expected, SIZE);
    }
    return item.status;
}

static enum kvt_err
has(struct test_gateway *g, const char *key)
{
    struct gateway_item item = {.key = key};

    gateway_get_find(g->context, &item, 1);
    return item.status;
}

/* The bucket's object has these bytes; is it still without our metadata? */
static bool
is_bare(struct test_gateway *g, const char *key, uint64_t content)
{
    struct g4_request read = {.verb = G4_GET, .key = key, .buffer_capacity = SIZE};
    uint8_t expected[SIZE];

    test_gateway_fill(expected, SIZE, content);
    assert_int_equal(g4_store_perform(g->bucket, &read), KVT_OK);
    assert_int_equal(read.buffer_size, SIZE);
    assert_memory_equal(read.buffer, expected, SIZE);
    kvt_free(read.buffer);
    return !read.meta.present;
}

static struct gateway_record
row_of(struct test_gateway *g, const char *key)
{
    struct gateway_record record;

    assert_int_equal(gateway_catalog_get(g->context->catalog, key, &record), KVT_OK);
    return record;
}

static void
no_put_takes_its_place(void **state)
{
    static const char *const keys[] = {kvbm, ours};

    (void)state;
    for (unsigned hot = 0; hot < 2; hot++)
        for (size_t i = 0; i < 2; i++) {
            struct test_gateway g;

            test_gateway_open(&g, hot == 0 ? 0 : HOT, 0);
            plant(&g, keys[i], THEIRS);
            for (unsigned life = 0; life < 2; life++) {
                assert_int_equal(put(&g, keys[i], OURS), KVT_PRECONDITION);
                assert_true(is_bare(&g, keys[i], THEIRS));
                test_gateway_reopen(&g);
            }
            assert_int_equal(put(&g, keys[i], THEIRS), KVT_OK);
            assert_int_equal(put(&g, keys[i], THEIRS), KVT_OK);
            for (unsigned life = 0; life < 2; life++) { /* now the row decides */
                assert_int_equal(put(&g, keys[i], OURS), KVT_PRECONDITION);
                assert_true(is_bare(&g, keys[i], THEIRS));
                assert_int_equal(get(&g, keys[i], THEIRS), KVT_OK);
                test_gateway_reopen(&g);
            }
            assert_int_equal(gateway_remove(g.context, keys[i]), KVT_OK);
            assert_int_equal(put(&g, keys[i], OURS), KVT_OK);
            assert_int_equal(get(&g, keys[i], OURS), KVT_OK);
            test_gateway_close(&g);
        }
}

static void
it_is_served_once_it_was_summed(void **state)
{
    struct gateway_record record;
    struct test_gateway g;
    uint8_t body[SIZE];

    (void)state;
    test_gateway_fill(body, SIZE, THEIRS);
    test_gateway_open(&g, HOT, 0);
    plant(&g, kvbm, THEIRS);
    assert_int_equal(get(&g, kvbm, THEIRS), KVT_OK);
    record = row_of(&g, kvbm);
    assert_true(record.foreign && record.summed);
    assert_int_equal(record.crc32c, g4_check_crc32c(body, SIZE));
    assert_int_equal(record.length, SIZE);
    test_gateway_reopen(&g);
    assert_int_equal(has(&g, kvbm), KVT_OK);
    assert_int_equal(get(&g, kvbm, THEIRS), KVT_OK);
    assert_int_equal(put(&g, kvbm, OURS), KVT_PRECONDITION); /* a HEAD decides */
    assert_true(is_bare(&g, kvbm, THEIRS));
    assert_int_equal(gateway_quarantine_count(g.context->quarantine), 0);
    /* KVBM writes again without a condition: that is its block now, and summed anew. */
    plant(&g, kvbm, OURS);
    assert_int_equal(get(&g, kvbm, OURS), KVT_OK);
    assert_int_equal(put(&g, kvbm, THEIRS), KVT_PRECONDITION);
    /* A namespace's blocks have a fingerprint: there it is a miss. */
    plant(&g, ours, THEIRS);
    assert_int_equal(has(&g, ours), KVT_NOTFOUND);
    assert_int_equal(get(&g, ours, THEIRS), KVT_NOTFOUND);
    assert_true(is_bare(&g, ours, THEIRS));
    test_gateway_close(&g);
}

/* What came short or flipped is not taken for its bytes, nor for a conflict. */
static void
a_read_that_lies_is_no_sum(void **state)
{
    struct test_gateway g;

    (void)state;
    test_gateway_open(&g, 0, 0);
    plant(&g, kvbm, THEIRS);
    test_gateway_fault(&g, G4_GET, G4_FAULT_TRUNCATE, KVT_OK, 1);
    assert_int_equal(get(&g, kvbm, THEIRS), KVT_AGAIN);
    test_gateway_fault(&g, G4_GET, G4_FAULT_FLIP, KVT_OK, 1);
    assert_int_equal(get(&g, kvbm, THEIRS), KVT_NOTFOUND); /* two reads that differ */
    test_gateway_fault(&g, G4_GET, G4_FAULT_NONE, KVT_OK, 0);
    plant(&g, ours, THEIRS);
    test_gateway_fault(&g, G4_GET, G4_FAULT_TRUNCATE, KVT_OK, 1);
    assert_int_equal(put(&g, ours, THEIRS), KVT_AGAIN);
    test_gateway_fault(&g, G4_GET, G4_FAULT_FLIP, KVT_OK, 1);
    assert_int_equal(put(&g, ours, THEIRS), KVT_AGAIN);
    assert_int_equal(put(&g, ours, THEIRS), KVT_OK);
    assert_true(is_bare(&g, ours, THEIRS));
    test_gateway_close(&g);
}

/* Somebody puts an object without our metadata over a block that was acknowledged: it is never
 * served for it, no other bytes are taken, and the block's own are. */
static void
what_was_acknowledged_is_not_answered_with_it(void **state)
{
    static const char *const keys[] = {kvbm, ours};

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct test_gateway g;

        test_gateway_open(&g, 0, 0);
        assert_int_equal(put(&g, keys[i], OURS), KVT_OK);
        plant(&g, keys[i], THEIRS);
        assert_int_equal(put(&g, keys[i], OURS + 1), KVT_PRECONDITION);
        for (unsigned life = 0; life < 3; life++) {
            assert_int_equal(get(&g, keys[i], OURS), KVT_NOTFOUND);
            assert_int_equal(has(&g, keys[i]), KVT_NOTFOUND);
            assert_true(row_of(&g, keys[i]).overwritten);
            assert_int_equal(put(&g, keys[i], OURS + 1), KVT_PRECONDITION);
            assert_true(is_bare(&g, keys[i], THEIRS));
            test_gateway_reopen(&g);
        }
        assert_int_equal(gateway_quarantine_count(g.context->quarantine), 1);
        assert_int_equal(put(&g, keys[i], OURS), KVT_OK);
        assert_int_equal(get(&g, keys[i], OURS), KVT_OK);
        assert_false(is_bare(&g, keys[i], OURS));
        test_gateway_close(&g);
    }
}

/* An acknowledgement in write-back asks no bucket: what is there was first. */
static void
no_upload_takes_its_place(void **state)
{
    struct test_waiting w;
    char key[KVT_KEY_MAX];

    (void)state;
    test_waiting_open(&w, HOT);
    plant(&w.gateway, test_gateway_key(key, 1), THEIRS);
    assert_int_equal(test_gateway_put(&w.gateway, 1, SIZE), KVT_OK);
    (void)test_waiting_round(&w);
    assert_true(is_bare(&w.gateway, key, THEIRS));
    assert_int_equal(test_waiting_blocks(&w), 0);
    assert_int_equal(test_waiting_count(&w, GATEWAY_STAT_BACKLOG_LOST), 1);
    assert_int_equal(gateway_quarantine_count(w.gateway.context->quarantine), 1);
    test_waiting_close(&w);
}

/* The same bytes are acknowledged from it; a crash before the row finds that out by reading. */
static void
an_intent_finds_its_bytes(void **state)
{
    struct gateway_change change = {.key = ours};
    struct test_gateway g;
    uint8_t body[SIZE];

    (void)state;
    for (uint64_t content = THEIRS; content <= OURS; content++) {
        test_gateway_open(&g, 0, 0);
        plant(&g, ours, THEIRS);
        test_gateway_fill(body, SIZE, content);
        change.record = (struct gateway_record){.state = GATEWAY_INTENT,
                                                .tiers = GATEWAY_COLD,
                                                .length = SIZE,
                                                .crc32c = g4_check_crc32c(body, SIZE)};
        assert_int_equal(gateway_catalog_change(g.context->catalog, &change, 1, GATEWAY_DURABLE),
                         KVT_OK);
        assert_int_equal(gateway_recover_pending(g.context), 1);
        assert_int_equal(get(&g, ours, content), content == THEIRS ? KVT_OK : KVT_NOTFOUND);
        assert_true(is_bare(&g, ours, THEIRS));
        test_gateway_close(&g);
    }
}

/* A check finds nothing wrong with one whose bytes a row knows, and mends none. */
static void
a_check_leaves_it(void **state)
{
    static const struct gateway_remedy alone = {.alone = true};
    struct gateway_inspection seen;
    struct test_gateway g;
    struct kvt_error err;

    (void)state;
    test_gateway_open(&g, HOT, 0);
    plant(&g, ours, THEIRS);
    assert_int_equal(put(&g, ours, THEIRS), KVT_OK);
    plant(&g, kvbm, THEIRS);
    assert_int_equal(get(&g, kvbm, THEIRS), KVT_OK);
    assert_int_equal(gateway_inspect_repair(g.context, ours, &alone, &seen, &err), KVT_OK);
    assert_int_equal(seen.finding, GATEWAY_FINDING_NONE);
    assert_int_equal(gateway_inspect_repair(g.context, kvbm, &alone, &seen, &err), KVT_OK);
    assert_int_equal(seen.finding, GATEWAY_FINDING_NONE);
    assert_int_equal(get(&g, ours, THEIRS), KVT_OK);
    assert_true(is_bare(&g, ours, THEIRS));
    test_gateway_close(&g);
}

/* One call that asks for no bodies reads a bounded number of them. */
static void
a_call_reads_so_many(void **state)
{
    static struct gateway_item items[GATEWAY_GET_SUMS_MAX + 2];
    static char keys[GATEWAY_GET_SUMS_MAX + 2][KVT_KEY_MAX];
    const size_t count = sizeof(items) / sizeof(items[0]);
    struct test_gateway g;
    const char *name;
    size_t found = 0;

    (void)state;
    test_gateway_open(&g, 0, 0);
    for (unsigned call = 0; call < 2; call++) {
        found = 0;
        for (size_t i = 0; i < count; i++) {
            (void)test_gateway_key(keys[i], i);
            name = strstr(keys[i], "/0/") + 1;
            memmove(keys[i], name, strlen(name) + 1);
            items[i] = (struct gateway_item){.key = keys[i]};
            if (call == 0)
                plant(&g, keys[i], THEIRS);
        }
        gateway_get_find(g.context, items, count);
        for (size_t i = 0; i < count; i++)
            found += items[i].status == KVT_OK ? 1 : 0;
        assert_int_equal(found, call == 0 ? GATEWAY_GET_SUMS_MAX : count);
    }
    test_gateway_close(&g);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_put_takes_its_place),
        cmocka_unit_test(it_is_served_once_it_was_summed),
        cmocka_unit_test(a_read_that_lies_is_no_sum),
        cmocka_unit_test(what_was_acknowledged_is_not_answered_with_it),
        cmocka_unit_test(no_upload_takes_its_place),
        cmocka_unit_test(an_intent_finds_its_bytes),
        cmocka_unit_test(a_check_leaves_it),
        cmocka_unit_test(a_call_reads_so_many),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
