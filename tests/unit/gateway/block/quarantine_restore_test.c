/*
 * What is tested: gateway/block/quarantine_restore.h: evidence whose bytes are what was written is
 * stored again, and no other, whatever there is instead.
 */
#include <stdlib.h>
#include <string.h>

#include "base/core/alloc.h"
#include "g4/object/check.h"
#include "gateway/block/damage.h"
#include "gateway/block/quarantine_restore.h"
#include "gateway/block/removal.h"
#include "gateway/tier/quarantine.h"

#include "tests/unit/gateway/support/support.h"

enum { SIZE = 3000, NUMBER = 1 };

struct fixture {
    struct test_gateway g;
    char key[KVT_KEY_MAX];
    uint8_t body[SIZE];
};

/* A block is stored and served. */
static int
set_up(void **state)
{
    struct fixture *f = kvt_calloc(1, sizeof(*f));

    test_gateway_open(&f->g, 1u << 20, 0);
    (void)test_gateway_key(f->key, NUMBER);
    test_gateway_fill(f->body, SIZE, NUMBER);
    assert_int_equal(test_gateway_put(&f->g, NUMBER, SIZE), KVT_OK);
    *state = f;
    return 0;
}

static int
tear_down(void **state)
{
    struct fixture *f = *state;

    test_gateway_close(&f->g);
    kvt_free(f);
    return 0;
}

/* Into quarantine with these bytes, and out of the gateway. */
static uint64_t
quarantine(struct fixture *f)
{
    static const char before[] = "\"file\":\"";
    struct kvt_buffer list;
    const char *at;
    uint64_t id;

    gateway_damage_keep(f->g.context, f->key, 1, f->body, SIZE, "it was said to be bad");
    kvt_buffer_init(&list, 1u << 16);
    gateway_quarantine_list(f->g.context->quarantine, 1, &list);
    at = strstr(kvt_buffer_text(&list), before);
    assert_non_null(at);
    id = strtoull(at + strlen(before), NULL, 16);
    kvt_buffer_release(&list);
    assert_int_equal(gateway_remove(f->g.context, f->key), KVT_OK);
    return id;
}

static enum kvt_err
restore(struct fixture *f, uint64_t id, bool act)
{
    struct kvt_error err = {.code = KVT_OK};
    char key[KVT_KEY_MAX];
    const enum kvt_err rc = gateway_quarantine_restore(f->g.context, id, act, key, &err);

    assert_string_equal(key, rc == KVT_NOTFOUND ? "" : f->key);
    assert_int_equal(err.code, rc);
    return rc;
}

static void
sound_bytes_are_served_again(void **state)
{
    struct fixture *f = *state;
    uint64_t id = quarantine(f);

    assert_int_equal(restore(f, id + 1, true), KVT_NOTFOUND);
    assert_int_equal(restore(f, id, false), KVT_OK); /* says so, and does nothing */
    assert_int_equal(test_gateway_has(&f->g, NUMBER), KVT_NOTFOUND);
    test_gateway_reopen(&f->g); /* what they should be is kept with them */
    assert_int_equal(restore(f, id, true), KVT_OK);
    assert_int_equal(test_gateway_get(&f->g, NUMBER, SIZE, NULL), KVT_OK);
    assert_int_equal(gateway_quarantine_count(f->g.context->quarantine), 0);
    assert_int_equal(restore(f, id, true), KVT_NOTFOUND);
    id = quarantine(f); /* and when it is there again by itself */
    assert_int_equal(test_gateway_put(&f->g, NUMBER, SIZE), KVT_OK);
    assert_int_equal(restore(f, id, true), KVT_OK);
}

static void
bad_bytes_never_are(void **state)
{
    struct fixture *f = *state;
    uint64_t id;

    f->body[SIZE / 2] ^= 1;
    id = quarantine(f);
    assert_int_equal(restore(f, id, false), KVT_CORRUPT);
    assert_int_equal(restore(f, id, true), KVT_CORRUPT);
    assert_int_equal(test_gateway_has(&f->g, NUMBER), KVT_NOTFOUND);
    assert_int_equal(gateway_quarantine_count(f->g.context->quarantine), 1);
}

/* Whoever was first in the bucket wins, also against what was here before. */
static void
other_bytes_in_their_place_stay(void **state)
{
    struct fixture *f = *state;
    const uint64_t id = quarantine(f);
    uint8_t other[SIZE] = {9};
    const struct g4_meta meta = {.present = true,
                                 .length = SIZE,
                                 .crc32c = g4_check_crc32c(other, SIZE),
                                 .fingerprint = 7,
                                 .writer = "gw9"};

    assert_int_equal(test_gateway_store_put(f->g.bucket, f->key, other, SIZE, &meta), KVT_OK);
    assert_int_equal(restore(f, id, true), KVT_PRECONDITION);
    assert_int_equal(gateway_quarantine_count(f->g.context->quarantine), 1);
}

/* Bytes of which no row told what they are may be anything. */
static void
what_nobody_knew_is_not_stored(void **state)
{
    struct fixture *f = *state;
    uint64_t id;

    assert_int_equal(gateway_remove(f->g.context, f->key), KVT_OK);
    id = quarantine(f);
    assert_int_equal(restore(f, id, true), KVT_UNSUPPORTED);
    assert_int_equal(gateway_quarantine_drop(f->g.context->quarantine, id), KVT_OK);
    assert_int_equal(gateway_quarantine_drop(f->g.context->quarantine, id), KVT_NOTFOUND);
    assert_int_equal(gateway_quarantine_count(f->g.context->quarantine), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(sound_bytes_are_served_again),
        TEST(bad_bytes_never_are),
        TEST(other_bytes_in_their_place_stay),
        TEST(what_nobody_knew_is_not_stored),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
