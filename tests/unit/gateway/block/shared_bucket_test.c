/*
 * What is tested: gateway/block/put.h, gateway/block/removal.h and gateway/block/recheck.h where
 * somebody else changes the bucket behind our rows: nothing is acknowledged that is not there,
 * nothing is removed that was put again, and what is gone is noticed by whoever asks for it again.
 */
#include <string.h>

#include "base/core/clock.h"
#include "g4/object/check.h"
#include "gateway/block/recheck.h"
#include "gateway/block/removal.h"
#include "gateway/move/move.h"
#include "gateway/tier/quarantine.h"

#include "tests/unit/gateway/support/support.h"

enum { SIZE = 5000, NUMBER = 7, LONG_AGO_MS = 10000, PATIENCE_MS = 30000 };

/* A bucket whose objects look older than they are, and that counts who asks. */
struct aged {
    struct g4_store *inner;
    uint64_t by_ms;
    unsigned heads;
    unsigned deletes;
};

static enum kvt_err
aged_submit(void *self, struct g4_request *request)
{
    struct aged *aged = self;
    struct g4_request own = *request;

    aged->heads += request->verb == G4_HEAD ? 1 : 0;
    aged->deletes += request->verb == G4_DELETE ? 1 : 0;
    (void)!g4_store_perform(aged->inner, &own);
    own.done = request->done;
    own.arg = request->arg;
    own.store_private = request->store_private;
    *request = own;
    request->modified_ms -= request->modified_ms > aged->by_ms ? aged->by_ms : 0;
    request->done(request, request->arg);
    return KVT_OK;
}

static void
aged_close(void *self)
{
    g4_store_close(((struct aged *)self)->inner);
}

static const struct g4_store_driver aged_driver = {
    .name = "aged", .submit = aged_submit, .close = aged_close};

struct fixture {
    struct test_gateway gateway;
    struct aged aged;
    char key[KVT_KEY_MAX];
};

static int
set_up(void **state)
{
    static struct fixture f;

    f = (struct fixture){0};
    test_gateway_open(&f.gateway, 1u << 20, 0);
    test_gateway_interpose(&f.gateway, &aged_driver, &f.aged, &f.aged.inner);
    test_gateway_key(f.key, NUMBER);
    assert_int_equal(test_gateway_put(&f.gateway, NUMBER, SIZE), KVT_OK);
    *state = &f;
    return 0;
}

static int
tear_down(void **state)
{
    test_gateway_close(&((struct fixture *)*state)->gateway);
    return 0;
}

static enum kvt_err
look(struct fixture *f)
{
    struct g4_request head;

    return test_gateway_store_head(f->aged.inner, f->key, &head);
}

static void
take_away(struct fixture *f)
{
    struct g4_request drop = {.verb = G4_DELETE, .key = f->key};

    assert_int_equal(g4_store_perform(f->aged.inner, &drop), KVT_OK);
}

static uint64_t
count(struct fixture *f, enum gateway_stat stat)
{
    return gateway_stats_get(&f->gateway.stats, stat);
}

/* The mark of a removal that was tried for the first time so long ago. */
static void
mark(struct fixture *f, uint64_t ago_ms)
{
    const char *const keys[] = {f->key};
    struct gateway_change change = {.key = f->key};

    assert_int_equal(gateway_removal_mark(f->gateway.context, keys, 1), KVT_OK);
    assert_int_equal(gateway_catalog_get(f->gateway.context->catalog, f->key, &change.record),
                     KVT_OK);
    assert_true(kvt_clock_unix_ms() - change.record.modified_ms < 60000);
    change.record.modified_ms -= ago_ms;
    assert_int_equal(
        gateway_catalog_change(f->gateway.context->catalog, &change, 1, GATEWAY_DURABLE), KVT_OK);
}

static void
a_repeat_of_what_is_gone_is_stored(void **state)
{
    struct fixture *f = *state;

    take_away(f);
    assert_int_equal(test_gateway_put(&f->gateway, NUMBER, SIZE), KVT_OK);
    assert_int_equal(look(f), KVT_OK);
    assert_int_equal(count(f, GATEWAY_STAT_STORED), 2);
    assert_int_equal(count(f, GATEWAY_STAT_PRESENT), 0);
    assert_int_equal(test_gateway_tiers(&f->gateway, NUMBER, NULL), GATEWAY_HOT | GATEWAY_COLD);
}

static void
a_repeat_of_what_is_there_sends_no_body(void **state)
{
    struct fixture *f = *state;
    const unsigned heads = f->aged.heads;

    assert_int_equal(test_gateway_put(&f->gateway, NUMBER, SIZE), KVT_OK);
    assert_int_equal(f->aged.heads, heads + 1);
    assert_int_equal(count(f, GATEWAY_STAT_STORED), 1);
    assert_int_equal(count(f, GATEWAY_STAT_PRESENT), 1);
}

static void
a_repeat_waits_for_the_bucket(void **state)
{
    struct fixture *f = *state;
    enum gateway_state row;

    test_gateway_fault(&f->gateway, G4_HEAD, G4_FAULT_FAIL, KVT_UNAVAILABLE, 1);
    assert_int_equal(test_gateway_put(&f->gateway, NUMBER, SIZE), KVT_UNAVAILABLE);
    assert_int_equal(test_gateway_tiers(&f->gateway, NUMBER, &row), GATEWAY_HOT | GATEWAY_COLD);
    assert_int_equal(row, GATEWAY_STORED);
}

static void
a_repeat_meets_another_block(void **state)
{
    struct fixture *f = *state;
    uint8_t body[SIZE];
    const struct g4_meta meta = {.present = true, .length = SIZE, .writer = "gw1", .crc32c = 0};
    struct g4_meta right = meta;

    take_away(f);
    test_gateway_fill(body, SIZE, NUMBER + 1);
    right.crc32c = g4_check_crc32c(body, SIZE);
    assert_int_equal(test_gateway_store_put(f->aged.inner, f->key, body, SIZE, &right), KVT_OK);
    assert_int_equal(test_gateway_put(&f->gateway, NUMBER, SIZE), KVT_PRECONDITION);
    assert_int_equal(look(f), KVT_OK);
}

static void
a_removal_at_once_asks_nothing(void **state)
{
    struct fixture *f = *state;
    const unsigned heads = f->aged.heads;
    uint64_t bytes;

    mark(f, 0);
    assert_int_equal(gateway_removal_finish(f->gateway.context, f->key, &bytes), KVT_OK);
    assert_int_equal(bytes, SIZE);
    assert_int_equal(f->aged.heads, heads);
    assert_int_equal(look(f), KVT_NOTFOUND);
}

static void
a_late_removal_removes_what_is_older(void **state)
{
    struct fixture *f = *state;
    uint64_t bytes;

    f->aged.by_ms = LONG_AGO_MS;
    mark(f, LONG_AGO_MS / 2);
    assert_int_equal(gateway_removal_finish(f->gateway.context, f->key, &bytes), KVT_OK);
    assert_int_equal(bytes, SIZE);
    assert_int_equal(look(f), KVT_NOTFOUND);
    assert_int_equal(test_gateway_tiers(&f->gateway, NUMBER, NULL), 0);
}

static void
a_late_removal_spares_what_was_put_since(void **state)
{
    struct fixture *f = *state;
    enum gateway_state row;
    uint64_t bytes;
    unsigned tier;

    mark(f, LONG_AGO_MS);
    assert_int_equal(gateway_removal_finish(f->gateway.context, f->key, &bytes), KVT_EXISTS);
    assert_int_equal(bytes, 0);
    assert_int_equal(look(f), KVT_OK);
    assert_int_equal(test_gateway_tiers(&f->gateway, NUMBER, &row), GATEWAY_COLD);
    assert_int_equal(row, GATEWAY_STORED);
    assert_int_equal(test_gateway_get(&f->gateway, NUMBER, SIZE, &tier), KVT_OK);
    assert_int_equal(tier, 1);
}

/* Somebody may have been told for a minute that it is there. */
static void
an_old_mark_is_no_order(void **state)
{
    struct fixture *f = *state;
    enum gateway_state row;
    uint64_t bytes;

    f->aged.by_ms = 100 * LONG_AGO_MS;
    mark(f, 7 * LONG_AGO_MS);
    assert_int_equal(gateway_removal_finish(f->gateway.context, f->key, &bytes), KVT_EXISTS);
    assert_int_equal(look(f), KVT_OK);
    (void)test_gateway_tiers(&f->gateway, NUMBER, &row);
    assert_int_equal(row, GATEWAY_STORED);
}

static void
a_demotion_makes_nothing_anew(void **state)
{
    struct fixture *f = *state;
    uint64_t bytes;

    take_away(f);
    assert_int_equal(test_gateway_demote(f->gateway.context, f->key, &bytes), KVT_OK);
    assert_int_equal(look(f), KVT_NOTFOUND);
    assert_int_equal(test_gateway_tiers(&f->gateway, NUMBER, NULL), 0);
    assert_int_equal(count(f, GATEWAY_STAT_GONE), 1);
}

static void
a_late_removal_of_what_is_gone_ends(void **state)
{
    struct fixture *f = *state;
    uint64_t bytes;

    take_away(f);
    mark(f, LONG_AGO_MS);
    f->aged.deletes = 0;
    assert_int_equal(gateway_removal_finish(f->gateway.context, f->key, &bytes), KVT_OK);
    assert_int_equal(f->aged.deletes, 0);
    assert_int_equal(test_gateway_tiers(&f->gateway, NUMBER, NULL), 0);
}

static void
a_late_removal_waits_for_the_bucket(void **state)
{
    struct fixture *f = *state;
    enum gateway_state row;
    uint64_t bytes;

    mark(f, LONG_AGO_MS);
    f->aged.deletes = 0;
    test_gateway_fault(&f->gateway, G4_HEAD, G4_FAULT_FAIL, KVT_IO, 1);
    assert_int_equal(gateway_removal_finish(f->gateway.context, f->key, &bytes), KVT_IO);
    assert_int_equal(f->aged.deletes, 0);
    (void)test_gateway_tiers(&f->gateway, NUMBER, &row);
    assert_int_equal(row, GATEWAY_RETIRING);
}

/* As a restart, with the bucket's word believed so long. */
static void
reopen(struct fixture *f, uint64_t recheck_ms)
{
    f->gateway.options.recheck_ms = recheck_ms;
    test_gateway_reopen(&f->gateway);
    assert_int_equal(test_gateway_put(&f->gateway, NUMBER, SIZE), KVT_OK);
}

/* Ask for it, with rounds in between, until the answer is no; false: it stays yes. */
static bool
notices(struct fixture *f, bool rounds)
{
    const uint64_t end_ms = kvt_clock_mono_ms() + PATIENCE_MS;

    while (kvt_clock_mono_ms() < end_ms) {
        if (test_gateway_has(&f->gateway, NUMBER) == KVT_NOTFOUND)
            return true;
        if (rounds)
            (void)gateway_recheck_round(f->gateway.context);
        kvt_clock_sleep_ms(10);
    }
    return false;
}

static void
take_from_bucket(struct fixture *f)
{
    struct g4_request drop = {.verb = G4_DELETE, .key = f->key};

    assert_int_equal(g4_store_perform(f->gateway.bucket, &drop), KVT_OK);
}

static void
what_is_gone_is_noticed(void **state)
{
    struct fixture *f = *state;
    struct g4_request head;

    reopen(f, 100);
    take_from_bucket(f);
    assert_true(notices(f, true));
    assert_int_equal(count(f, GATEWAY_STAT_GONE), 1);
    assert_int_equal(test_gateway_tiers(&f->gateway, NUMBER, NULL), 0);
    assert_int_equal(test_gateway_store_head(f->gateway.context->tiers.hot, f->key, &head),
                     KVT_NOTFOUND);
}

static void
a_thread_notices_by_itself(void **state)
{
    struct fixture *f = *state;
    struct kvt_error err;

    reopen(f, 100);
    assert_int_equal(gateway_recheck_start(f->gateway.context, &err), KVT_OK);
    take_from_bucket(f);
    assert_true(notices(f, false));
    gateway_recheck_stop(f->gateway.context);
    gateway_recheck_stop(f->gateway.context);
}

/* Another gateway removed it, and put another block of the name. */
static void
plant_other(struct fixture *f)
{
    struct g4_meta meta = {.present = true, .length = SIZE, .writer = "gw1"};
    uint8_t body[SIZE];

    test_gateway_fill(body, SIZE, NUMBER + 1);
    meta.crc32c = g4_check_crc32c(body, SIZE);
    take_from_bucket(f);
    assert_int_equal(test_gateway_store_put(f->gateway.bucket, f->key, body, SIZE, &meta), KVT_OK);
}

static void
another_block_is_noticed(void **state)
{
    struct fixture *f = *state;
    struct g4_request head;

    reopen(f, 3600000);
    test_gateway_reopen(&f->gateway);
    plant_other(f);
    assert_int_equal(test_gateway_has(&f->gateway, NUMBER), KVT_OK);
    assert_int_equal(gateway_recheck_round(f->gateway.context), 1);
    assert_int_equal(test_gateway_tiers(&f->gateway, NUMBER, NULL), 0);
    assert_int_equal(test_gateway_store_head(f->gateway.context->tiers.hot, f->key, &head),
                     KVT_NOTFOUND);
    assert_int_equal(test_gateway_put(&f->gateway, NUMBER, SIZE), KVT_PRECONDITION);
}

/* It names us as its writer, and we wrote something else: damage, which the next read must meet. */
static void
damage_is_not_another_block(void **state)
{
    struct g4_meta meta = {.present = true, .length = SIZE, .writer = "gw0"};
    struct fixture *f = *state;
    uint8_t body[SIZE];

    f->gateway.options.hot_capacity = 0;
    reopen(f, 3600000);
    test_gateway_reopen(&f->gateway);
    test_gateway_fill(body, SIZE, NUMBER + 1);
    meta.crc32c = g4_check_crc32c(body, SIZE);
    take_from_bucket(f);
    assert_int_equal(test_gateway_store_put(f->gateway.bucket, f->key, body, SIZE, &meta), KVT_OK);
    assert_int_equal(test_gateway_has(&f->gateway, NUMBER), KVT_OK);
    assert_int_equal(gateway_recheck_round(f->gateway.context), 1);
    assert_int_equal(test_gateway_get(&f->gateway, NUMBER, SIZE, NULL), KVT_NOTFOUND);
    assert_int_equal(gateway_quarantine_count(f->gateway.context->quarantine), 1);
}

static void
a_put_of_other_bytes_asks_too(void **state)
{
    struct fixture *f = *state;

    reopen(f, 0);
    assert_int_equal(test_gateway_put(&f->gateway, NUMBER, SIZE - 1), KVT_PRECONDITION);
    assert_int_equal(test_gateway_get(&f->gateway, NUMBER, SIZE, NULL), KVT_OK);
    take_from_bucket(f);
    assert_int_equal(test_gateway_put(&f->gateway, NUMBER, SIZE - 1), KVT_OK);
    assert_int_equal(test_gateway_get(&f->gateway, NUMBER, SIZE - 1, NULL), KVT_OK);
}

static void
what_was_not_answered_is_asked_again(void **state)
{
    struct fixture *f = *state;

    reopen(f, 3600000);
    test_gateway_reopen(&f->gateway);
    test_gateway_fault(&f->gateway, G4_HEAD, G4_FAULT_FAIL, KVT_IO, 1);
    for (int times = 0; times < 2; times++) {
        assert_int_equal(test_gateway_has(&f->gateway, NUMBER), KVT_OK);
        assert_int_equal(gateway_recheck_round(f->gateway.context), 1);
    }
    assert_int_equal(test_gateway_has(&f->gateway, NUMBER), KVT_OK);
    assert_int_equal(gateway_recheck_round(f->gateway.context), 0);
}

static void
what_was_seen_is_not_doubted(void **state)
{
    struct fixture *f = *state;

    reopen(f, 3600000);
    assert_int_equal(test_gateway_has(&f->gateway, NUMBER), KVT_OK);
    assert_int_equal(gateway_recheck_round(f->gateway.context), 0);
    test_gateway_reopen(&f->gateway); /* nobody has asked in this life */
    assert_int_equal(test_gateway_has(&f->gateway, NUMBER), KVT_OK);
    assert_int_equal(test_gateway_has(&f->gateway, NUMBER), KVT_OK);
    assert_int_equal(gateway_recheck_round(f->gateway.context), 1);
    assert_int_equal(test_gateway_has(&f->gateway, NUMBER), KVT_OK);
    assert_int_equal(gateway_recheck_round(f->gateway.context), 0);
}

/* Who reads the body from the bucket has asked it; who is answered from the row, or from the hot
 * copy, has not. */
static void
what_is_read_there_is_not_doubted(void **state)
{
    struct fixture *f = *state;
    uint8_t body[SIZE];
    struct gateway_item item = {
        .key = f->key, .for_body = true, .buffer = body, .capacity = sizeof(body)};

    reopen(f, 3600000);
    test_gateway_reopen(&f->gateway);
    gateway_get_find(f->gateway.context, &item, 1);
    assert_int_equal(gateway_recheck_round(f->gateway.context), 1);
    f->gateway.options.hot_capacity = 0;
    test_gateway_reopen(&f->gateway);
    gateway_get_find(f->gateway.context, &item, 1);
    assert_int_equal(item.status, KVT_OK);
    assert_int_equal(gateway_recheck_round(f->gateway.context), 0);
    gateway_get_bodies(f->gateway.context, &item, 1);
    assert_int_equal(item.status, KVT_OK);
    item.for_body = false;
    gateway_get_find(f->gateway.context, &item, 1);
    assert_int_equal(gateway_recheck_round(f->gateway.context), 0);
    test_gateway_reopen(&f->gateway);
    gateway_get_find(f->gateway.context, &item, 1);
    assert_int_equal(gateway_recheck_round(f->gateway.context), 1);
}

static void
without_a_time_nothing_is_doubted(void **state)
{
    struct fixture *f = *state;

    reopen(f, 0);
    test_gateway_reopen(&f->gateway);
    take_from_bucket(f);
    assert_int_equal(test_gateway_has(&f->gateway, NUMBER), KVT_OK);
    assert_int_equal(gateway_recheck_round(f->gateway.context), 0);
}

/* HEAD cannot say that it is the whole bucket that is missing. */
static void
a_missing_bucket_makes_nobody_forget(void **state)
{
    struct fixture *f = *state;

    reopen(f, 3600000);
    test_gateway_reopen(&f->gateway);
    test_gateway_fault(&f->gateway, G4_HEAD, G4_FAULT_FAIL, KVT_NOTFOUND, 1);
    test_gateway_fault(&f->gateway, G4_GET, G4_FAULT_FAIL, KVT_UNAVAILABLE, 1);
    assert_int_equal(test_gateway_has(&f->gateway, NUMBER), KVT_OK);
    assert_int_equal(gateway_recheck_round(f->gateway.context), 1);
    assert_int_equal(count(f, GATEWAY_STAT_GONE), 0);
    assert_int_equal(test_gateway_tiers(&f->gateway, NUMBER, NULL), GATEWAY_HOT | GATEWAY_COLD);
}

static void
what_finds_no_room_is_doubted_later(void **state)
{
    struct fixture *f = *state;
    struct gateway_context *context;
    char key[KVT_KEY_MAX];
    size_t asked = 0;
    size_t round;

    reopen(f, 3600000);
    context = f->gateway.context;
    for (unsigned i = 0; i < GATEWAY_RECHECK_MAX + 1; i++)
        gateway_recheck_touch(context->recheck, test_gateway_key(key, 1000 + i));
    while ((round = gateway_recheck_round(context)) > 0)
        asked += round;
    assert_int_equal(asked, GATEWAY_RECHECK_MAX);
    gateway_recheck_touch(context->recheck, key); /* the one that found none */
    assert_int_equal(gateway_recheck_round(context), 1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_repeat_of_what_is_gone_is_stored),
        TEST(a_repeat_of_what_is_there_sends_no_body),
        TEST(a_repeat_waits_for_the_bucket),
        TEST(a_repeat_meets_another_block),
        TEST(a_removal_at_once_asks_nothing),
        TEST(a_late_removal_removes_what_is_older),
        TEST(a_late_removal_spares_what_was_put_since),
        TEST(an_old_mark_is_no_order),
        TEST(a_demotion_makes_nothing_anew),
        TEST(a_late_removal_of_what_is_gone_ends),
        TEST(another_block_is_noticed),
        TEST(damage_is_not_another_block),
        TEST(a_put_of_other_bytes_asks_too),
        TEST(what_was_not_answered_is_asked_again),
        TEST(a_late_removal_waits_for_the_bucket),
        TEST(what_is_gone_is_noticed),
        TEST(a_thread_notices_by_itself),
        TEST(what_was_seen_is_not_doubted),
        TEST(what_is_read_there_is_not_doubted),
        TEST(without_a_time_nothing_is_doubted),
        TEST(a_missing_bucket_makes_nobody_forget),
        TEST(what_finds_no_room_is_doubted_later),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
