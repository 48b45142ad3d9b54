/*
 * What is tested: wire/report.h: reads, which the first version's reports do not have.
 */
#include <string.h>

#include "wire/report.h"

#include "tests/support/seed.h"

/* gw1, "ns", seq 9, incarnation 8, time 7, healthy, nothing else; then reads. */
static const uint8_t bytes[] = {0x9b, 0x01, 0xa3, 'g',  'w',  '1',  0xa2, 'n', 's',  9,    8,
                                7,    0xc3, 0x90, 0x90, 0x90, 0x93, 5,    6,   0xcd, 0x01, 0x2c};

enum { READS_SIZE = 6 };

static struct kvt_report_access accesses[KVT_REPORT_ACCESSES_MAX];
static struct kvt_order_result results[KVT_REPORT_RESULTS_MAX];

static enum kvt_err
decode(const uint8_t *data, size_t size, struct kvt_report *report)
{
    struct kvt_error err;

    *report = (struct kvt_report){.accesses = accesses, .results = results};
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
    assert_int_equal(decode(old, sizeof(bytes) - READS_SIZE, &report), KVT_OK);
    assert_int_equal(report.time_ms, 7);
    for (unsigned i = 0; i < KVT_READ_RESULTS; i++)
        assert_int_equal(report.reads[i], 0);
}

/* A later version may count more. */
static void
what_is_behind_is_stepped_over(void **state)
{
    struct kvt_report report;
    uint8_t later[sizeof(bytes) + 2];

    (void)state;
    memcpy(later, bytes, sizeof(bytes));
    later[0] = 0x9c;
    later[sizeof(bytes) - READS_SIZE] = 0x94;
    later[sizeof(bytes)] = 1;     /* a fourth number */
    later[sizeof(bytes) + 1] = 1; /* a twelfth member */
    assert_int_equal(decode(later, sizeof(later), &report), KVT_OK);
    assert_int_equal(report.reads[2], 300);
    later[sizeof(bytes) - READS_SIZE] = 0x92; /* and not fewer */
    assert_int_equal(decode(later, sizeof(later) - 1, &report), KVT_INVALID);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_come_back),
        cmocka_unit_test(the_first_version_has_none),
        cmocka_unit_test(what_is_behind_is_stepped_over),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
