#include "engine/connector/connector_meta.h"

#include <string.h>

#include "base/core/alloc.h"
#include "kvbm/layout/checksum.h"

#include "engine/rpc/rpc_msgpack.h"

enum { CRC_BYTES = 4, FORM_MAX = 9 /* bytes of a number */ };

/* ---- both messages ---- */

/* The checksum of what was put since `start`; takes back what did not fit. */
static enum kvt_err
put_end(struct kvt_buffer *out, size_t start)
{
    bool whole;

    if (kvt_buffer_ok(out)) {
        const uint32_t crc = kvbm_crc32c(0, out->data + start, out->size - start);
        const uint8_t bytes[CRC_BYTES] = {(uint8_t)crc, (uint8_t)(crc >> 8), (uint8_t)(crc >> 16),
                                          (uint8_t)(crc >> 24)};

        kvt_buffer_append(out, bytes, sizeof(bytes));
    }
    if (kvt_buffer_ok(out) && out->size - start <= ENGINE_META_MAX)
        return KVT_OK;
    whole = kvt_buffer_ok(out) || out->limit - out->size < CRC_BYTES + FORM_MAX;
    out->size = start;
    out->failed = false;
    return whole ? KVT_RANGE : KVT_NOMEM;
}

/* An array of `members`, the version first, with its checksum behind it. */
static enum kvt_err
get_begin(struct engine_unpack *in, const uint8_t *bytes, size_t size, uint32_t members)
{
    uint32_t crc = 0;

    *in = (struct engine_unpack){.bytes = bytes};
    if (size > ENGINE_META_MAX)
        return KVT_RANGE;
    if (size <= CRC_BYTES)
        return KVT_INVALID;
    in->size = size - CRC_BYTES;
    for (unsigned i = 0; i < CRC_BYTES; i++)
        crc |= (uint32_t)bytes[in->size + i] << (8 * i);
    if (crc != kvbm_crc32c(0, bytes, in->size))
        return KVT_CORRUPT;
    (void)engine_unpack_array(in, members, members);
    if (engine_unpack_number(in, UINT64_MAX) != ENGINE_META_VERSION && !in->bad)
        return KVT_UNSUPPORTED;
    return in->bad ? KVT_INVALID : KVT_OK;
}

/* The verdict of all that was read. */
static enum kvt_err
get_end(const struct engine_unpack *in, enum kvt_err rc)
{
    if (rc == KVT_OK && !engine_unpack_end(in))
        rc = KVT_INVALID;
    return rc;
}

/* ---- what the scheduler says ---- */

enum kvt_err
engine_meta_fence(struct engine_meta *meta, uint64_t id)
{
    uint64_t *fences;

    if (meta->fence_count == ENGINE_META_TRANSFERS_MAX)
        return KVT_RANGE;
    fences = kvt_grow(meta->fences, &meta->fence_capacity, meta->fence_count + 1, sizeof(*fences));
    if (fences == NULL)
        return KVT_NOMEM;
    meta->fences = fences;
    fences[meta->fence_count++] = id;
    return KVT_OK;
}

enum kvt_err
engine_meta_transfer(struct engine_meta *meta, uint64_t id, enum engine_transfer kind)
{
    struct engine_meta_transfer *transfers;

    if (meta->transfer_count == ENGINE_META_TRANSFERS_MAX)
        return KVT_RANGE;
    transfers = kvt_grow(meta->transfers, &meta->transfer_capacity, meta->transfer_count + 1,
                         sizeof(*transfers));
    if (transfers == NULL)
        return KVT_NOMEM;
    meta->transfers = transfers;
    transfers[meta->transfer_count++] =
        (struct engine_meta_transfer){.id = id, .kind = kind, .first = (uint32_t)meta->pair_count};
    return KVT_OK;
}

enum kvt_err
engine_meta_pair(struct engine_meta *meta, uint32_t source, uint32_t target)
{
    struct engine_pair *pairs;

    if (meta->pair_count == ENGINE_META_PAIRS_MAX)
        return KVT_RANGE;
    pairs = kvt_grow(meta->pairs, &meta->pair_capacity, meta->pair_count + 1, sizeof(*pairs));
    if (pairs == NULL)
        return KVT_NOMEM;
    meta->pairs = pairs;
    pairs[meta->pair_count++] = (struct engine_pair){source, target};
    meta->transfers[meta->transfer_count - 1].count++;
    return KVT_OK;
}

enum kvt_err
engine_meta_encode(const struct engine_meta *meta, struct kvt_buffer *out)
{
    const size_t start = out->size;

    engine_pack_array(out, 4);
    engine_pack_number(out, ENGINE_META_VERSION);
    engine_pack_number(out, meta->iteration);
    engine_pack_array(out, (uint32_t)meta->fence_count);
    for (size_t i = 0; i < meta->fence_count; i++)
        engine_pack_number(out, meta->fences[i]);
    engine_pack_array(out, (uint32_t)meta->transfer_count);
    for (size_t i = 0; i < meta->transfer_count; i++) {
        const struct engine_meta_transfer *transfer = &meta->transfers[i];

        engine_pack_array(out, 3);
        engine_pack_number(out, transfer->id);
        engine_pack_number(out, transfer->kind);
        engine_pack_array(out, 2 * transfer->count);
        for (uint32_t j = 0; j < transfer->count; j++) {
            engine_pack_number(out, meta->pairs[transfer->first + j].source);
            engine_pack_number(out, meta->pairs[transfer->first + j].target);
        }
    }
    return put_end(out, start);
}

static enum kvt_err
get_transfer(struct engine_unpack *in, struct engine_meta *meta)
{
    const uint64_t last =
        meta->transfer_count == 0 ? 0 : meta->transfers[meta->transfer_count - 1].id;
    enum kvt_err rc;
    uint64_t id;
    uint64_t kind;
    uint32_t count;

    (void)engine_unpack_array(in, 3, 3);
    id = engine_unpack_number(in, UINT64_MAX);
    kind = engine_unpack_number(in, ENGINE_TRANSFER_END - 1);
    count = engine_unpack_array(in, 2, 2 * ENGINE_META_PAIRS_MAX);
    if (in->bad || count % 2 != 0 || kind == 0 || (meta->transfer_count > 0 && id <= last))
        return KVT_INVALID;
    rc = engine_meta_transfer(meta, id, (enum engine_transfer)kind);
    for (uint32_t i = 0; i < count / 2 && rc == KVT_OK; i++) {
        const uint32_t source = (uint32_t)engine_unpack_number(in, UINT32_MAX);
        const uint32_t target = (uint32_t)engine_unpack_number(in, UINT32_MAX);

        rc = in->bad ? KVT_INVALID : engine_meta_pair(meta, source, target);
    }
    return rc;
}

static enum kvt_err
get_meta(struct engine_unpack *in, struct engine_meta *meta)
{
    enum kvt_err rc = KVT_OK;
    uint32_t count;

    meta->iteration = engine_unpack_number(in, UINT64_MAX);
    count = engine_unpack_array(in, 0, ENGINE_META_TRANSFERS_MAX);
    for (uint32_t i = 0; i < count && rc == KVT_OK; i++) {
        const uint64_t id = engine_unpack_number(in, UINT64_MAX);

        rc = in->bad ? KVT_INVALID : engine_meta_fence(meta, id);
    }
    count = engine_unpack_array(in, 0, ENGINE_META_TRANSFERS_MAX);
    for (uint32_t i = 0; i < count && rc == KVT_OK; i++)
        rc = get_transfer(in, meta);
    return get_end(in, rc);
}

enum kvt_err
engine_meta_decode(struct engine_meta *meta, const uint8_t *bytes, size_t size,
                   struct kvt_error *err)
{
    struct engine_unpack in;
    enum kvt_err rc = get_begin(&in, bytes, size, 4);

    memset(meta, 0, sizeof(*meta));
    if (rc == KVT_OK)
        rc = get_meta(&in, meta);
    if (rc == KVT_OK)
        return KVT_OK;
    engine_meta_release(meta);
    return kvt_error_set(err, rc, "orders of an iteration, %zu bytes: %s", size, kvt_err_text(rc));
}

void
engine_meta_release(struct engine_meta *meta)
{
    kvt_free(meta->fences);
    kvt_free(meta->transfers);
    kvt_free(meta->pairs);
    memset(meta, 0, sizeof(*meta));
}

/* ---- what a rank answers ---- */

enum kvt_err
engine_meta_report_transfer(struct engine_meta_report *report, uint64_t id)
{
    struct engine_meta_report_transfer *transfers;

    if (report->transfer_count == ENGINE_META_TRANSFERS_MAX)
        return KVT_RANGE;
    transfers = kvt_grow(report->transfers, &report->transfer_capacity, report->transfer_count + 1,
                         sizeof(*transfers));
    if (transfers == NULL)
        return KVT_NOMEM;
    report->transfers = transfers;
    transfers[report->transfer_count++] =
        (struct engine_meta_report_transfer){.id = id, .first = (uint32_t)report->failure_count};
    return KVT_OK;
}

enum kvt_err
engine_meta_report_failure(struct engine_meta_report *report, uint32_t at, enum kvt_err why)
{
    struct engine_meta_report_failure *failures;

    if (report->failure_count == ENGINE_META_PAIRS_MAX)
        return KVT_RANGE;
    failures = kvt_grow(report->failures, &report->failure_capacity, report->failure_count + 1,
                        sizeof(*failures));
    if (failures == NULL)
        return KVT_NOMEM;
    report->failures = failures;
    failures[report->failure_count++] = (struct engine_meta_report_failure){at, why};
    report->transfers[report->transfer_count - 1].count++;
    return KVT_OK;
}

enum kvt_err
engine_meta_report_encode(const struct engine_meta_report *report, struct kvt_buffer *out)
{
    const size_t start = out->size;

    engine_pack_array(out, 2);
    engine_pack_number(out, ENGINE_META_VERSION);
    engine_pack_array(out, (uint32_t)report->transfer_count);
    for (size_t i = 0; i < report->transfer_count; i++) {
        const struct engine_meta_report_transfer *transfer = &report->transfers[i];

        engine_pack_array(out, 2);
        engine_pack_number(out, transfer->id);
        engine_pack_array(out, 2 * transfer->count);
        for (uint32_t j = 0; j < transfer->count; j++) {
            engine_pack_number(out, report->failures[transfer->first + j].at);
            engine_pack_number(out, report->failures[transfer->first + j].why);
        }
    }
    return put_end(out, start);
}

static enum kvt_err
get_ended(struct engine_unpack *in, struct engine_meta_report *report)
{
    enum kvt_err rc;
    uint64_t id;
    uint32_t count;

    (void)engine_unpack_array(in, 2, 2);
    id = engine_unpack_number(in, UINT64_MAX);
    count = engine_unpack_array(in, 0, 2 * ENGINE_META_PAIRS_MAX);
    if (in->bad || count % 2 != 0)
        return KVT_INVALID;
    rc = engine_meta_report_transfer(report, id);
    for (uint32_t i = 0; i < count / 2 && rc == KVT_OK; i++) {
        const uint32_t at = (uint32_t)engine_unpack_number(in, ENGINE_META_PAIRS_MAX - 1);
        const uint64_t why = engine_unpack_number(in, KVT_ERR_COUNT - 1);

        rc = in->bad || why == KVT_OK ? KVT_INVALID
                                      : engine_meta_report_failure(report, at, (enum kvt_err)why);
    }
    return rc;
}

enum kvt_err
engine_meta_report_decode(struct engine_meta_report *report, const uint8_t *bytes, size_t size,
                          struct kvt_error *err)
{
    struct engine_unpack in;
    enum kvt_err rc = get_begin(&in, bytes, size, 2);
    uint32_t count = 0;

    memset(report, 0, sizeof(*report));
    if (rc == KVT_OK)
        count = engine_unpack_array(&in, 0, ENGINE_META_TRANSFERS_MAX);
    for (uint32_t i = 0; i < count && rc == KVT_OK; i++)
        rc = get_ended(&in, report);
    rc = get_end(&in, rc);
    if (rc == KVT_OK)
        return KVT_OK;
    engine_meta_report_release(report);
    return kvt_error_set(err, rc, "what a rank said, %zu bytes: %s", size, kvt_err_text(rc));
}

void
engine_meta_report_release(struct engine_meta_report *report)
{
    kvt_free(report->transfers);
    kvt_free(report->failures);
    memset(report, 0, sizeof(*report));
}
