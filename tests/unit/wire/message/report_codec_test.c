/*
 * What is tested: wire/message/report_codec.h: reads, which the first version's reports do not
 * have, and pins, which a later one's do not.
 */
#include <string.h>

#include "wire/message/report_codec.h"

#include "tests/support/seed.h"

/* gw1, "ns", seq 9, incarnation 8, time 7, healthy, nothing else; then reads; then two pins of
 * round 3, of which five were told by then, and more are to come. */
static const uint8_t bytes[] = {0x9c, 0x01, 0xa3, 'g',  'w',  '1',  0xa2, 'n', 's',  9,    8,
                                7,    0xc3, 0x90, 0x90, 0x90, 0x93, 5,    6,   0xcd, 0x01, 0x2c,
                                0x94, 3,    5,    0xc2, 0x92, 0x92, 17,   0,   0x92, 18,   99};

enum { READS_SIZE = 6, PINS_SIZE = 11, OLD_SIZE = sizeof(bytes) - PINS_SIZE };

static struct kvt_report_access accesses[KVT_REPORT_ACCESSES_MAX];
static struct kvt_order_result results[KVT_REPORT_RESULTS_MAX];
static struct kvt_report_pin pins[KVT_REPORT_PINS_MAX];

static enum kvt_err
decode(const uint8_t *data, size_t size, struct kvt_report *report)
{
    struct kvt_error err;

    *report = (struct kvt_report){.accesses = accesses, .results = results, .pins = {.rows = pins}};
    return wire_report_decode(data, size, report, &err);
}

static void
reads_come_back(void **state)
{
    struct kvt_report report;
    struct kvt_buffer out;

    (void)state;
    assert_int_equal(decode(bytes, sizeof(bytes), &report), KVT_OK);
    assert_string_equal(report.gateway, "gw1");
    assert_int_equal(report.reads[0], 5);
    assert_int_equal(report.reads[1], 6);
    assert_int_equal(report.reads[2], 300);
    kvt_buffer_init(&out, WIRE_REPORT_MAX);
    assert_int_equal(wire_report_encode(&report, &out), KVT_OK);
    assert_int_equal(out.size, sizeof(bytes));
    assert_memory_equal(out.data, bytes, sizeof(bytes));
    kvt_buffer_release(&out);
}

/* Gateways that were not updated do not send them. */
static void
the_first_version_has_none(void **state)
{
    struct kvt_report report;
    uint8_t old[sizeof(bytes)];

    (void)state;
    memcpy(old, bytes, sizeof(bytes));
    old[0] = 0x9a;
    assert_int_equal(decode(old, OLD_SIZE - READS_SIZE, &report), KVT_OK);
    assert_int_equal(report.time_ms, 7);
    for (unsigned i = 0; i < KVT_READ_RESULTS; i++)
        assert_int_equal(report.reads[i], 0);
    assert_int_equal(report.pins.round, 0);
    old[0] = 0x9b; /* the one after it has reads */
    assert_int_equal(decode(old, OLD_SIZE, &report), KVT_OK);
    assert_int_equal(report.reads[2], 300);
    assert_int_equal(report.pins.round, 0);
    assert_int_equal(report.pins.count, 0);
}

static void
pins_come_back(void **state)
{
    struct kvt_report report;
    uint8_t wrong[sizeof(bytes)];

    (void)state;
    assert_int_equal(decode(bytes, sizeof(bytes), &report), KVT_OK);
    assert_int_equal(report.pins.round, 3);
    assert_int_equal(report.pins.told, 5);
    assert_false(report.pins.last);
    assert_int_equal(report.pins.count, 2);
    assert_int_equal(pins[0].hash, 17);
    assert_int_equal(pins[0].until_ms, 0);
    assert_int_equal(pins[1].hash, 18);
    assert_int_equal(pins[1].until_ms, 99);
    memcpy(wrong, bytes, sizeof(bytes));
    wrong[OLD_SIZE + 3] = 1; /* last is no number */
    assert_int_equal(decode(wrong, sizeof(wrong), &report), KVT_INVALID);
    assert_int_equal(report.pins.count, 0);
    report = (struct kvt_report){.pins = {.rows = pins, .count = KVT_REPORT_PINS_MAX + 1}};
    assert_int_equal(wire_report_encode(&report, &(struct kvt_buffer){0}), KVT_RANGE);
}

/* A later version may count more. */
static void
what_is_behind_is_stepped_over(void **state)
{
    struct kvt_report report;
    uint8_t later[sizeof(bytes) + 2];

    (void)state;
    memcpy(later, bytes, sizeof(bytes));
    later[0] = 0x9d;
    later[OLD_SIZE - READS_SIZE] = 0x94;
    later[OLD_SIZE] = 1; /* a fourth number */
    memcpy(later + OLD_SIZE + 1, bytes + OLD_SIZE, PINS_SIZE);
    later[sizeof(bytes) + 1] = 1; /* a thirteenth member */
    assert_int_equal(decode(later, sizeof(later), &report), KVT_OK);
    assert_int_equal(report.reads[2], 300);
    assert_int_equal(report.pins.count, 2);
    later[OLD_SIZE - READS_SIZE] = 0x92; /* and not fewer */
    assert_int_equal(decode(later, sizeof(later) - 1, &report), KVT_INVALID);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_come_back),
        cmocka_unit_test(the_first_version_has_none),
        cmocka_unit_test(pins_come_back),
        cmocka_unit_test(what_is_behind_is_stepped_over),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
