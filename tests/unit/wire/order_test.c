/*
 * What is tested: wire/order.h: the verbs that came later, and the member that only a pin has.
 * How: known bytes that another implementation of msgpack and HMAC made.
 */
#include <string.h>

#include "base/alloc.h"
#include "base/hex.h"
#include "wire/order.h"

#include "tests/support/seed.h"

enum { INPUT_MAX = 256, ITEMS = 4 };

/* A pin of a block until 3000; the same of a sender that names no end; a pin with another member
 * behind; and a demotion with one behind its items, which is none of its. */
static const char *const pin_hex =
    "92c4279b01a3677731a26e730304cd03e8cd07d005a36c72759194cfffffffffffffffff010203cd"
    "0bb8c420fb31df6376077cd1db51e5ca21815b957e6df4c36224117348db8c37ae3e1470";
static const char *const endless_hex =
    "92c4249a01a3677731a26e730304cd03e8cd07d005a36c72759194cfffffffffffffffff010203c4"
    "202d47d012df19a102997c33bf89a6abac15089c0d5d053b91013a50425791db44";
static const char *const later_hex =
    "92c4299c01a3677731a26e730304cd03e8cd07d005a36c72759194cfffffffffffffffff010203cd"
    "0bb8a178c4203f33babf4ea9808811567644f0e37af1ac295459ae2c3b84dd8ee7aac68ecdbb";
static const char *const longer_hex =
    "92c4279b01a3677731a26e730304cd03e8cd07d001a36c72759194cfffffffffffffffff010203cd"
    "0bb8c420611280ae8dc0b11d9724ae5157b1b1a9cdeaab3a3dd3720866cd18bdbfb9c124";
/* Of verbs 7, the last, and 8. */
static const char *const warm_hex =
    "92c4249a01a3677731a26e730304cd03e8cd07d007a36c72759194cfffffffffffffffff010203c4"
    "20e1e6fef34eda522925139cbce2ad3a3f7eb6b096cd2a95700ce875727a478b98";
static const char *const unknown_hex =
    "92c4249a01a3677731a26e730304cd03e8cd07d008a36c72759194cfffffffffffffffff010203c4"
    "202a19c5517a7de3fdc70d8e56af29f5fb13b2f66422dfb8c342fa48c460f4808d";

static const struct wire_order_key order_key = {.bytes = "0123456789abcdef", .size = 16};

struct sample {
    const char *hex;
    enum kvt_order_verb verb;
    uint64_t until_ms;
    bool canonical; /* encoded again it is as it came */
};

static const struct sample samples[] = {
    {pin_hex, KVT_ORDER_PIN, 3000, true},    {endless_hex, KVT_ORDER_PIN, 0, false},
    {later_hex, KVT_ORDER_PIN, 3000, false}, {longer_hex, KVT_ORDER_DEMOTE, 0, false},
    {warm_hex, KVT_ORDER_WARM, 0, true},
};

enum { SAMPLES = sizeof(samples) / sizeof(samples[0]) };

/* From memory that has not one byte more. */
static enum kvt_err
decode(const char *hex, size_t size, struct kvt_order *order)
{
    uint8_t *bytes = kvt_calloc(size, 1);
    struct kvt_error err;
    enum kvt_err rc;

    assert_true(kvt_hex_parse(hex, size, bytes));
    rc = wire_order_decode(bytes, size, &order_key, order, ITEMS, &err);
    kvt_free(bytes);
    return rc;
}

static void
a_pin_says_when_it_ends(void **state)
{
    struct kvt_order_item items[ITEMS];
    struct kvt_order order = {.items = items};

    (void)state;
    for (size_t i = 0; i < SAMPLES; i++) {
        const size_t size = strlen(samples[i].hex) / 2;
        uint8_t bytes[INPUT_MAX];
        struct kvt_buffer out;

        assert_int_equal(decode(samples[i].hex, size, &order), KVT_OK);
        assert_int_equal(order.verb, samples[i].verb);
        assert_int_equal(order.until_ms, samples[i].until_ms);
        assert_int_equal(order.item_count, 1);
        assert_int_equal(items[0].ranks, 3);
        kvt_buffer_init(&out, WIRE_ORDER_MAX);
        assert_int_equal(wire_order_encode(&order, &order_key, &out), KVT_OK);
        assert_true(kvt_hex_parse(samples[i].hex, size, bytes));
        assert_int_equal(out.size == size && memcmp(out.data, bytes, size) == 0,
                         samples[i].canonical);
        kvt_buffer_release(&out);
    }
    assert_int_equal(decode(unknown_hex, strlen(unknown_hex) / 2, &order), KVT_INVALID);
}

static void
every_truncation_is_refused(void **state)
{
    struct kvt_order_item items[ITEMS];
    struct kvt_order order = {.items = items};

    (void)state;
    for (size_t size = 1; size < strlen(pin_hex) / 2; size++) {
        char start[2 * INPUT_MAX] = "";

        memcpy(start, pin_hex, 2 * size);
        assert_int_equal(decode(start, size, &order), KVT_INVALID);
        assert_int_equal(order.until_ms, 0);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pin_says_when_it_ends),
        cmocka_unit_test(every_truncation_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
