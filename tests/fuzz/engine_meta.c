/*
 * Property: any bytes are refused, or are orders (or answers) that keep to their limits, and
 * encoding them and decoding that again gives the same.  Every input is tried as it is and with
 * the checksum it should have, so that mutations get past it.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "kvbm/layout/checksum.h"

#include "engine/connector/connector_meta.h"
#include "tests/fuzz/target.h"

static void
check_meta(const uint8_t *bytes, size_t size)
{
    struct engine_meta meta;
    struct engine_meta again;
    struct kvt_buffer out;
    enum kvt_err rc = engine_meta_decode(&meta, bytes, size, NULL);

    if (rc != KVT_OK) {
        assert(rc == KVT_INVALID || rc == KVT_RANGE || rc == KVT_CORRUPT || rc == KVT_UNSUPPORTED);
        assert(meta.transfers == NULL && meta.pairs == NULL && meta.fences == NULL);
        return;
    }
    kvt_buffer_init(&out, ENGINE_META_MAX);
    rc = engine_meta_encode(&meta, &out);
    assert(rc == KVT_OK && out.size <= size);
    rc = engine_meta_decode(&again, out.data, out.size, NULL);
    assert(rc == KVT_OK && again.iteration == meta.iteration);
    assert(again.fence_count == meta.fence_count && again.pair_count == meta.pair_count);
    assert(again.transfer_count == meta.transfer_count);
    for (size_t i = 0; i < meta.fence_count; i++)
        assert(again.fences[i] == meta.fences[i]);
    for (size_t i = 0; i < meta.transfer_count; i++) {
        const struct engine_meta_transfer *a = &meta.transfers[i];
        const struct engine_meta_transfer *b = &again.transfers[i];

        assert(a->kind > 0 && a->kind < ENGINE_TRANSFER_END && a->count > 0);
        assert(a->first + a->count <= meta.pair_count);
        assert(i == 0 || meta.transfers[i - 1].id < a->id);
        assert(a->id == b->id && a->kind == b->kind && a->first == b->first);
        assert(a->count == b->count);
    }
    for (size_t i = 0; i < meta.pair_count; i++)
        assert(meta.pairs[i].source == again.pairs[i].source &&
               meta.pairs[i].target == again.pairs[i].target);
    kvt_buffer_release(&out);
    engine_meta_release(&meta);
    engine_meta_release(&again);
}

static void
check_heard(const uint8_t *bytes, size_t size)
{
    struct engine_meta_report report;
    struct engine_meta_report again;
    struct kvt_buffer out;
    enum kvt_err rc = engine_meta_report_decode(&report, bytes, size, NULL);

    if (rc != KVT_OK) {
        assert(rc == KVT_INVALID || rc == KVT_RANGE || rc == KVT_CORRUPT || rc == KVT_UNSUPPORTED);
        assert(report.transfers == NULL && report.failures == NULL);
        return;
    }
    kvt_buffer_init(&out, ENGINE_META_MAX);
    rc = engine_meta_report_encode(&report, &out);
    assert(rc == KVT_OK && out.size <= size);
    rc = engine_meta_report_decode(&again, out.data, out.size, NULL);
    assert(rc == KVT_OK && again.transfer_count == report.transfer_count);
    assert(again.failure_count == report.failure_count);
    for (size_t i = 0; i < report.transfer_count; i++) {
        assert(report.transfers[i].first + report.transfers[i].count <= report.failure_count);
        assert(report.transfers[i].id == again.transfers[i].id);
        assert(report.transfers[i].count == again.transfers[i].count);
    }
    for (size_t i = 0; i < report.failure_count; i++) {
        assert(report.failures[i].why > KVT_OK && report.failures[i].why < KVT_ERR_COUNT);
        assert(report.failures[i].at == again.failures[i].at);
        assert(report.failures[i].why == again.failures[i].why);
    }
    kvt_buffer_release(&out);
    engine_meta_report_release(&report);
    engine_meta_report_release(&again);
}

int
LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    uint8_t *mended;
    uint32_t crc;

    check_meta(bytes, size);
    check_heard(bytes, size);
    if (size < sizeof(crc))
        return 0;
    mended = malloc(size);
    assert(mended != NULL);
    memcpy(mended, bytes, size);
    crc = kvbm_crc32c(0, bytes, size - sizeof(crc));
    for (size_t i = 0; i < sizeof(crc); i++)
        mended[size - sizeof(crc) + i] = (uint8_t)(crc >> (8 * i));
    check_meta(mended, size);
    check_heard(mended, size);
    free(mended);
    return 0;
}
