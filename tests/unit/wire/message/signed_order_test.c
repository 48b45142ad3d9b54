/*
 * What is tested: wire/message/signed_order.h: the verbs that came later, and the members that only
 * pins and moves have.
 * How: known bytes that another implementation of msgpack and HMAC made.
 */
#include <string.h>

#include "base/core/alloc.h"
#include "base/text/hex.h"
#include "wire/message/signed_order.h"

#include "tests/support/seed.h"

enum { INPUT_MAX = 256, ITEMS = 4 };

/* A pin of a block until 3000; the same of a sender that names no end; a pin with another member
 * behind; and a deletion with a number behind its items, where its cause would be. */
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
    "92c4269b01a3677731a16e0304cd03e8cd07d003a36c72759194cfffffffffffffffff010203cd0b"
    "b8c4204ccffb0a8a0ce1b3937303cd1beeae80956a73ca0fd82e6ce6a64cf72d8303ac";
/* A demotion from hot@gw1 to warm@gw1; a promotion from cold@far to cold@near that keeps the copy;
 * and a demotion whose tiers are named "". */
static const char *const edge_hex =
    "92c4369b01a3677731a16e0304cd03e8cd07d001a36c72759194cfffffffffffffffff01020393a7"
    "686f7440677731a87761726d40677731c2c4206a764cadca01e0aa1b68f2d762484c20475352712e"
    "668cc42832c2e29561301d";
static const char *const kept_hex =
    "92c4389b01a3677731a16e0304cd03e8cd07d002a36c72759194cfffffffffffffffff01020393a8"
    "636f6c6440666172a9636f6c64406e656172c3c420611787c25230a941b2a44f29efaca3beef9e4a"
    "d8895f34f7be805602dfa61110";
static const char *const unnamed_hex =
    "92c4279b01a3677731a16e0304cd03e8cd07d001a36c72759194cfffffffffffffffff01020393a0"
    "a0c2c4206850bb46e0e1de4ea0195dd7ebc87d90ded1a8bb5d096c890134080ed57dccd4";
/* One that goes to warm@gw1 from nowhere, and one with a number in place of its tiers. */
static const char *const half_hex =
    "92c42f9b01a3677731a16e0304cd03e8cd07d001a36c72759194cfffffffffffffffff01020393a0"
    "a87761726d40677731c2c420ecb2a68b12a5747041d856df59507c733b64030a10281e9fd8ee7e58"
    "c293f9e8";
static const char *const number_hex =
    "92c4269b01a3677731a16e0304cd03e8cd07d001a36c72759194cfffffffffffffffff010203cd0b"
    "b8c420407f74007a9570290150c5da113271a3479982db006d3919de99fe1157711441";
/* Of verbs 7, the last, and 8. */
static const char *const warm_hex =
    "92c4249a01a3677731a26e730304cd03e8cd07d007a36c72759194cfffffffffffffffff010203c4"
    "20e1e6fef34eda522925139cbce2ad3a3f7eb6b096cd2a95700ce875727a478b98";
static const char *const unknown_hex =
    "92c4249a01a3677731a26e730304cd03e8cd07d008a36c72759194cfffffffffffffffff010203c4"
    "202a19c5517a7de3fdc70d8e56af29f5fb13b2f66422dfb8c342fa48c460f4808d";

/* Deletions: for room in cold@near above 90% of 1 TiB, by rule down of version 7; by job 9; by a
 * cause that is not known here, with a member behind; and with a mark above the whole. */
static const char *const room_hex =
    "92c4429b01a3677731a16e0304cd03e8cd07d003a1729194cfffffffffffffffff010203970107a4646f776e00a963"
    "6f6c64406e656172ce000dbba0cf0000010000000000c42053b3171c6d56af77dd83f79099f373d933b11b717fe6c5"
    "8ff5414b0ee569ae0a";
static const char *const job_hex =
    "92c4299b01a3677731a16e0304cd03e8cd07d003a1729194cfffffffffffffffff010203970400a009a00000c4200c"
    "f20b73e54133bff338f7977f940402fc08a7e0ad2e0a2c77bfa49e1998bb65";
static const char *const cause_hex =
    "92c42a9b01a3677731a16e0304cd03e8cd07d003a1729194cfffffffffffffffff010203980900a000a0000001c420"
    "8703a78d39e334c87b892c2ebc9133911ed3193204acd714a9eaffdad4d52f99";
static const char *const mark_hex =
    "92c43a9b01a3677731a16e0304cd03e8cd07d003a1729194cfffffffffffffffff010203970107a4646f776e00a963"
    "6f6c64406e656172ce000f424100c4204e461a2892953aad0eb2872244421c7b57017df9f8f785b24255e98dfbadb5"
    "62";

static const struct wire_key_ring order_key = {
    .lines = {{.master = {.bytes = "0123456789abcdef", .size = 16}}}, .count = 1};

struct sample {
    const char *hex;
    enum kvt_order_verb verb;
    uint64_t until_ms;
    bool canonical; /* encoded again it is as it came */
};

static const struct sample samples[] = {
    {pin_hex, KVT_ORDER_PIN, 3000, true},    {endless_hex, KVT_ORDER_PIN, 0, false},
    {later_hex, KVT_ORDER_PIN, 3000, false}, {cause_hex, KVT_ORDER_DELETE, 0, false},
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
    rc = wire_order_decode(bytes, size, &order_key, "g1", order, ITEMS, &err);
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
        assert_int_equal(wire_order_encode(&order, &order_key, true, &out), KVT_OK);
        assert_true(kvt_hex_parse(samples[i].hex, size, bytes));
        assert_int_equal(out.size == size && memcmp(out.data, bytes, size) == 0,
                         samples[i].canonical);
        kvt_buffer_release(&out);
    }
    assert_int_equal(decode(unknown_hex, strlen(unknown_hex) / 2, &order), KVT_INVALID);
}

static void
a_move_says_from_where_to_where(void **state)
{
    static const struct {
        const char *hex;
        const char *from;
        const char *to;
        bool keep;
        bool canonical;
    } moves[] = {
        {edge_hex, "hot@gw1", "warm@gw1", false, true},
        {kept_hex, "cold@far", "cold@near", true, true},
        {unnamed_hex, "", "", false, false},
        {warm_hex, "", "", false, true},
    };
    struct kvt_order_item items[ITEMS];
    struct kvt_order order = {.items = items};

    (void)state;
    for (size_t i = 0; i < sizeof(moves) / sizeof(moves[0]); i++) {
        const size_t size = strlen(moves[i].hex) / 2;
        uint8_t bytes[INPUT_MAX];
        struct kvt_buffer out;

        assert_int_equal(decode(moves[i].hex, size, &order), KVT_OK);
        assert_string_equal(order.from, moves[i].from);
        assert_string_equal(order.to, moves[i].to);
        assert_int_equal(order.keep, moves[i].keep);
        kvt_buffer_init(&out, WIRE_ORDER_MAX);
        assert_int_equal(wire_order_encode(&order, &order_key, true, &out), KVT_OK);
        assert_true(kvt_hex_parse(moves[i].hex, size, bytes));
        assert_int_equal(out.size == size && memcmp(out.data, bytes, size) == 0,
                         moves[i].canonical);
        kvt_buffer_release(&out);
    }
    assert_int_equal(decode(half_hex, strlen(half_hex) / 2, &order), KVT_INVALID);
    assert_int_equal(decode(number_hex, strlen(number_hex) / 2, &order), KVT_INVALID);
}

static void
a_deletion_says_why(void **state)
{
    struct kvt_order_item items[ITEMS];
    struct kvt_order order = {.items = items};

    (void)state;
    for (int i = 0; i < 2; i++) {
        const char *hex = i == 0 ? room_hex : job_hex;
        const size_t size = strlen(hex) / 2;
        uint8_t bytes[INPUT_MAX];
        struct kvt_buffer out;

        assert_int_equal(decode(hex, size, &order), KVT_OK);
        assert_int_equal(order.cause.kind, i == 0 ? KVT_DELETE_ROOM : KVT_DELETE_JOB);
        assert_int_equal(order.cause.policy_version, i == 0 ? 7 : 0);
        assert_string_equal(order.cause.rule, i == 0 ? "down" : "");
        assert_int_equal(order.cause.job, i == 0 ? 0 : 9);
        assert_string_equal(order.cause.tier, i == 0 ? "cold@near" : "");
        assert_int_equal(order.cause.stop_ppm, i == 0 ? 900000 : 0);
        assert_int_equal(order.cause.capacity, i == 0 ? UINT64_C(1) << 40 : 0);
        kvt_buffer_init(&out, WIRE_ORDER_MAX);
        assert_int_equal(wire_order_encode(&order, &order_key, true, &out), KVT_OK);
        assert_true(kvt_hex_parse(hex, size, bytes));
        assert_int_equal(out.size, size);
        assert_memory_equal(out.data, bytes, size);
        kvt_buffer_release(&out);
    }
    assert_int_equal(decode(cause_hex, strlen(cause_hex) / 2, &order), KVT_OK);
    assert_int_equal(order.cause.kind, KVT_DELETE_OTHER);
    assert_int_equal(decode(mark_hex, strlen(mark_hex) / 2, &order), KVT_INVALID);
    assert_int_equal(decode(longer_hex, strlen(longer_hex) / 2, &order), KVT_INVALID);
    assert_int_equal(order.cause.kind, KVT_DELETE_OTHER);
}

/* Without names there is no place for it: what was to stay would go. */
static void
a_copy_that_stays_needs_its_tiers(void **state)
{
    static const enum kvt_order_verb verbs[] = {KVT_ORDER_DEMOTE, KVT_ORDER_PROMOTE, KVT_ORDER_WARM,
                                                KVT_ORDER_DELETE};
    struct kvt_order_item items[ITEMS] = {{.block = {.hash = 1}, .ranks = 1}};
    struct kvt_order order = {
        .gateway = "gw1", .epoch = 1, .id = 1, .items = items, .item_count = 1};
    struct kvt_buffer out;

    (void)state;
    kvt_buffer_init(&out, WIRE_ORDER_MAX);
    for (size_t i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++) {
        order.verb = verbs[i];
        order.keep = true;
        assert_int_equal(wire_order_encode(&order, &order_key, true, &out), KVT_INVALID);
        assert_int_equal(out.size, 0);
        order.keep = false;
        assert_int_equal(wire_order_encode(&order, &order_key, true, &out), KVT_OK);
        kvt_buffer_clear(&out);
    }
    kvt_buffer_release(&out);
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
    for (size_t size = 1; size < strlen(edge_hex) / 2; size++) {
        char start[2 * INPUT_MAX] = "";

        memcpy(start, edge_hex, 2 * size);
        assert_int_equal(decode(start, size, &order), KVT_INVALID);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pin_says_when_it_ends),
        cmocka_unit_test(a_move_says_from_where_to_where),
        cmocka_unit_test(a_deletion_says_why),
        cmocka_unit_test(a_copy_that_stays_needs_its_tiers),
        cmocka_unit_test(every_truncation_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
