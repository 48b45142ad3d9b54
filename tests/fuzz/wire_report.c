/*
 * Property: any bytes are refused, or are a report whose rows fit its tables and which can be
 * encoded again.
 */
#include <assert.h>

#include "wire/message/report_codec.h"

#include "tests/fuzz/target.h"

int
LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    static struct kvt_report_access accesses[KVT_REPORT_ACCESSES_MAX];
    static struct kvt_order_result results[KVT_REPORT_RESULTS_MAX];
    static struct kvt_report_pin pins[KVT_REPORT_PINS_MAX];
    struct kvt_report report = {.accesses = accesses, .results = results, .pins = {.rows = pins}};
    struct kvt_buffer out;
    struct kvt_error err;
    enum kvt_err rc = wire_report_decode(bytes, size, &report, &err);

    if (rc != KVT_OK) {
        assert(rc == KVT_INVALID || rc == KVT_RANGE);
        assert(report.access_count == 0 && report.result_count == 0 && report.tier_count == 0 &&
               report.pins.count == 0);
        return 0;
    }
    assert(report.tier_count <= KVT_REPORT_TIERS_MAX);
    for (uint32_t i = 0; i < report.access_count; i++)
        assert(accesses[i].tier_index < report.tier_count);
    for (uint32_t i = 0; i < report.result_count; i++)
        assert(results[i].code < KVT_ERR_COUNT && results[i].verb <= KVT_ORDER_VERB_LAST);
    assert(report.pins.count <= KVT_REPORT_PINS_MAX);
    kvt_buffer_init(&out, WIRE_REPORT_MAX);
    rc = wire_report_encode(&report, &out);
    assert(rc == KVT_OK);
    kvt_buffer_release(&out);
    return 0;
}
