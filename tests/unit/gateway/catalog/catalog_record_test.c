/*
 * What is tested: gateway/catalog/catalog_record.h.  What is written is read back; every shorter
 * text, and another version, is refused.
 */
#include <string.h>

#include "gateway/catalog/catalog_record.h"

#include "tests/support/seed.h"

static void
records_come_back(void **state)
{
    const struct gateway_record record = {.state = GATEWAY_RETIRING,
                                          .tiers = GATEWAY_HOT | GATEWAY_COLD,
                                          .opaque = true,
                                          .length = UINT64_MAX - 1,
                                          .crc32c = 0xdeadbeef,
                                          .fingerprint = UINT64_MAX,
                                          .modified_ms = 1234567890123,
                                          .etag = "abc-1",
                                          .writer = "gw0"};
    uint8_t bytes[GATEWAY_RECORD_MAX];
    const size_t size = gateway_record_encode(&record, bytes);
    struct gateway_record back;

    (void)state;
    assert_true(gateway_record_decode(bytes, size, &back));
    assert_int_equal(back.state, record.state);
    assert_int_equal(back.tiers, record.tiers);
    assert_true(back.opaque);
    assert_int_equal(back.length, record.length);
    assert_int_equal(back.crc32c, record.crc32c);
    assert_int_equal(back.fingerprint, record.fingerprint);
    assert_int_equal(back.modified_ms, record.modified_ms);
    assert_string_equal(back.etag, record.etag);
    assert_string_equal(back.writer, record.writer);
    assert_int_equal(gateway_record_visible(&back), 0);
    for (size_t cut = 0; cut < size; cut++)
        assert_false(gateway_record_decode(bytes, cut, &back));
    bytes[0]++;
    assert_false(gateway_record_decode(bytes, size, &back));
}

/* Its bytes count and its events go out, so it is visible; which does not mean that it is served.
 */
static void
a_foreign_row_is_told_from_others(void **state)
{
    const struct gateway_record foreign = {
        .state = GATEWAY_STORED, .tiers = GATEWAY_COLD, .foreign = true, .length = 5};
    uint8_t bytes[GATEWAY_RECORD_MAX];
    struct gateway_record back;

    (void)state;
    assert_true(gateway_record_decode(bytes, gateway_record_encode(&foreign, bytes), &back));
    assert_true(back.foreign && !back.opaque);
    assert_int_equal(gateway_record_visible(&back), GATEWAY_COLD);
    assert_string_equal(gateway_record_kind_name(&back), "foreign");
    back.foreign = false;
    assert_string_equal(gateway_record_kind_name(&back), "block");
    back.opaque = true;
    assert_string_equal(gateway_record_kind_name(&back), "opaque");
}

static void
nonsense_is_refused(void **state)
{
    struct gateway_record record = {.state = GATEWAY_STORED, .tiers = GATEWAY_COLD};
    uint8_t bytes[GATEWAY_RECORD_MAX];
    const size_t size = gateway_record_encode(&record, bytes);

    (void)state;
    bytes[1] = 0;
    assert_false(gateway_record_decode(bytes, size, &record));
    bytes[1] = GATEWAY_RETIRING + 1;
    assert_false(gateway_record_decode(bytes, size, &record));
    bytes[1] = GATEWAY_STORED;
    bytes[2] = 16;
    assert_false(gateway_record_decode(bytes, size, &record));
    bytes[2] = GATEWAY_COLD;
    bytes[3] = 16 | 32; /* to both buckets */
    assert_false(gateway_record_decode(bytes, size, &record));
    bytes[3] = 64;
    assert_false(gateway_record_decode(bytes, size, &record));
}

static void
four_tiers_and_a_move_come_back(void **state)
{
    static const unsigned targets[] = {0, GATEWAY_COLD, GATEWAY_FAR};

    (void)state;
    for (unsigned tiers = 0; tiers < 1u << GATEWAY_TIERS; tiers++) {
        for (size_t i = 0; i < sizeof(targets) / sizeof(targets[0]); i++) {
            const struct gateway_record record = {
                .state = GATEWAY_STORED, .tiers = tiers, .moving = targets[i], .length = 5};
            uint8_t bytes[GATEWAY_RECORD_MAX];
            const size_t size = gateway_record_encode(&record, bytes);
            struct gateway_record back;

            assert_true(gateway_record_decode(bytes, size, &back));
            assert_int_equal(back.tiers, tiers);
            assert_int_equal(back.moving, targets[i]);
            assert_int_equal(gateway_record_visible(&back), tiers);
            assert_int_equal(gateway_record_counted(&back), tiers | targets[i]);
            assert_int_equal(gateway_record_unsettled(&back), targets[i] != 0);
        }
    }
}

static void
events_come_back(void **state)
{
    struct gateway_event event = {.event = {.type = KVT_EVENT_REMOVE,
                                            .location = 1,
                                            .sequence_hash = 1,
                                            .prefix_hash = 2,
                                            .parent = 3,
                                            .block_size = 4,
                                            .position = 5,
                                            .ranks = 6}};
    uint8_t bytes[GATEWAY_OUTBOX_MAX];
    struct gateway_event back;
    size_t size;

    (void)state;
    memset(event.namespace_, 'n', sizeof(event.namespace_) - 1);
    size = gateway_record_encode_event(&event, bytes);
    assert_true(gateway_record_decode_event(bytes, size, &back));
    assert_string_equal(back.namespace_, event.namespace_);
    assert_memory_equal(&back.event, &event.event, sizeof(event.event));
    for (size_t cut = 0; cut < size; cut++)
        assert_false(gateway_record_decode_event(bytes, cut, &back));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(records_come_back),   cmocka_unit_test(a_foreign_row_is_told_from_others),
        cmocka_unit_test(nonsense_is_refused), cmocka_unit_test(four_tiers_and_a_move_come_back),
        cmocka_unit_test(events_come_back),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
