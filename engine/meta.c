#include "engine/meta.h"

#include <string.h>

#include "base/alloc.h"
#include "kvbm/checksum.h"

enum {
    FIXINT_MAX = 0x7f,
    FIXARRAY = 0x90,
    FIXARRAY_MAX = 15,
    UINT8 = 0xcc,
    UINT64 = 0xcf,
    ARRAY16 = 0xdc,
    ARRAY32 = 0xdd,
    CRC_BYTES = 4,
};

/* ---- writing ---- */

static void
put(struct kvt_buffer *out, uint8_t lead, uint64_t value, unsigned width)
{
    uint8_t bytes[9] = {lead};

    for (unsigned i = 0; i < width; i++)
        bytes[1 + i] = (uint8_t)(value >> (8 * (width - 1 - i)));
    kvt_buffer_append(out, bytes, 1 + width);
}

static void
put_number(struct kvt_buffer *out, uint64_t value)
{
    unsigned shift = value <= UINT8_MAX ? 0 : value <= UINT16_MAX ? 1 : value <= UINT32_MAX ? 2 : 3;

    if (value <= FIXINT_MAX)
        put(out, (uint8_t)value, 0, 0);
    else
        put(out, (uint8_t)(UINT8 + shift), value, 1u << shift);
}

static void
put_array(struct kvt_buffer *out, size_t count)
{
    if (count <= FIXARRAY_MAX)
        put(out, (uint8_t)(FIXARRAY + count), 0, 0);
    else if (count <= UINT16_MAX)
        put(out, ARRAY16, count, 2);
    else
        put(out, ARRAY32, count, 4);
}

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
    whole = kvt_buffer_ok(out) || out->limit - out->size < CRC_BYTES + 9;
    out->size = start;
    out->failed = false;
    return whole ? KVT_RANGE : KVT_NOMEM;
}

/* ---- reading ---- */

struct reader {
    const uint8_t *bytes;
    size_t size;
    size_t at;
    enum kvt_err code; /* of the first that was not as said; everything behind it reads as 0 */
};

static void
refuse(struct reader *in, enum kvt_err code)
{
    if (in->code == KVT_OK)
        in->code = code;
}

static uint64_t
get(struct reader *in, unsigned width)
{
    uint64_t value = 0;

    if (in->size - in->at < width) {
        refuse(in, KVT_INVALID);
        return 0;
    }
    for (unsigned i = 0; i < width; i++)
        value = value << 8 | in->bytes[in->at + i];
    in->at += width;
    return value;
}

static uint64_t
get_number(struct reader *in, uint64_t max)
{
    uint64_t value = get(in, 1);

    if (value >= UINT8 && value <= UINT64)
        value = get(in, 1u << (value - UINT8));
    else if (value > FIXINT_MAX)
        refuse(in, KVT_INVALID);
    if (value > max)
        refuse(in, KVT_INVALID);
    return in->code == KVT_OK ? value : 0;
}

/* Every member has a byte at least: a count that the bytes left cannot hold is a lie. */
static size_t
get_array(struct reader *in, size_t most)
{
    uint64_t count = get(in, 1);

    if (count == ARRAY16 || count == ARRAY32)
        count = get(in, count == ARRAY16 ? 2 : 4);
    else if (count < FIXARRAY || count > FIXARRAY + FIXARRAY_MAX)
        refuse(in, KVT_INVALID);
    else
        count -= FIXARRAY;
    if (count > in->size - in->at)
        refuse(in, KVT_INVALID);
    if (count > most)
        refuse(in, KVT_RANGE);
    return in->code == KVT_OK ? (size_t)count : 0;
}

static enum kvt_err
get_begin(struct reader *in, const uint8_t *bytes, size_t size, size_t members)
{
    uint32_t crc = 0;

    *in = (struct reader){.bytes = bytes};
    if (size > ENGINE_META_MAX)
        return KVT_RANGE;
    if (size <= CRC_BYTES)
        return KVT_INVALID;
    in->size = size - CRC_BYTES;
    for (unsigned i = 0; i < CRC_BYTES; i++)
        crc |= (uint32_t)bytes[in->size + i] << (8 * i);
    if (crc != kvbm_crc32c(0, bytes, in->size))
        return KVT_CORRUPT;
    if (get_array(in, members) != members)
        refuse(in, KVT_INVALID);
    if (get_number(in, UINT64_MAX) != ENGINE_META_VERSION)
        refuse(in, KVT_UNSUPPORTED);
    return in->code;
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

    put_array(out, 4);
    put_number(out, ENGINE_META_VERSION);
    put_number(out, meta->iteration);
    put_array(out, meta->fence_count);
    for (size_t i = 0; i < meta->fence_count; i++)
        put_number(out, meta->fences[i]);
    put_array(out, meta->transfer_count);
    for (size_t i = 0; i < meta->transfer_count; i++) {
        const struct engine_meta_transfer *transfer = &meta->transfers[i];

        put_array(out, 3);
        put_number(out, transfer->id);
        put_number(out, transfer->kind);
        put_array(out, 2 * (size_t)transfer->count);
        for (uint32_t j = 0; j < transfer->count; j++) {
            put_number(out, meta->pairs[transfer->first + j].source);
            put_number(out, meta->pairs[transfer->first + j].target);
        }
    }
    return put_end(out, start);
}

static void
get_transfer(struct reader *in, struct engine_meta *meta)
{
    const size_t before = meta->transfer_count;
    uint64_t id;
    uint64_t kind;
    size_t count;

    if (get_array(in, 3) != 3)
        refuse(in, KVT_INVALID);
    id = get_number(in, UINT64_MAX);
    kind = get_number(in, ENGINE_TRANSFER_END - 1);
    count = get_array(in, 2 * (size_t)ENGINE_META_PAIRS_MAX);
    if (count == 0 || count % 2 != 0 || kind == 0)
        refuse(in, KVT_INVALID);
    if (before > 0 && meta->transfers[before - 1].id >= id)
        refuse(in, KVT_INVALID);
    if (in->code == KVT_OK)
        refuse(in, engine_meta_transfer(meta, id, (enum engine_transfer)kind));
    for (size_t i = 0; i < count / 2 && in->code == KVT_OK; i++) {
        const uint32_t source = (uint32_t)get_number(in, UINT32_MAX);
        const uint32_t target = (uint32_t)get_number(in, UINT32_MAX);

        refuse(in, engine_meta_pair(meta, source, target));
    }
}

enum kvt_err
engine_meta_decode(struct engine_meta *meta, const uint8_t *bytes, size_t size,
                   struct kvt_error *err)
{
    struct reader in;
    enum kvt_err rc;
    size_t count;

    memset(meta, 0, sizeof(*meta));
    rc = get_begin(&in, bytes, size, 4);
    if (rc != KVT_OK)
        return kvt_error_set(err, rc, "an iteration's orders of %zu bytes: not what they are",
                             size);
    meta->iteration = get_number(&in, UINT64_MAX);
    count = get_array(&in, ENGINE_META_TRANSFERS_MAX);
    for (size_t i = 0; i < count && in.code == KVT_OK; i++)
        refuse(&in, engine_meta_fence(meta, get_number(&in, UINT64_MAX)));
    count = get_array(&in, ENGINE_META_TRANSFERS_MAX);
    for (size_t i = 0; i < count && in.code == KVT_OK; i++)
        get_transfer(&in, meta);
    if (in.at != in.size)
        refuse(&in, KVT_INVALID);
    if (in.code == KVT_OK)
        return KVT_OK;
    engine_meta_release(meta);
    return kvt_error_set(err, in.code, "an iteration's orders of %zu bytes: wrong at byte %zu",
                         size, in.at);
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
engine_heard_transfer(struct engine_heard *heard, uint64_t id)
{
    struct engine_heard_transfer *transfers;

    if (heard->transfer_count == ENGINE_META_TRANSFERS_MAX)
        return KVT_RANGE;
    transfers = kvt_grow(heard->transfers, &heard->transfer_capacity, heard->transfer_count + 1,
                         sizeof(*transfers));
    if (transfers == NULL)
        return KVT_NOMEM;
    heard->transfers = transfers;
    transfers[heard->transfer_count++] =
        (struct engine_heard_transfer){.id = id, .first = (uint32_t)heard->failure_count};
    return KVT_OK;
}

enum kvt_err
engine_heard_failure(struct engine_heard *heard, uint32_t at, enum kvt_err why)
{
    struct engine_heard_failure *failures;

    if (heard->failure_count == ENGINE_META_PAIRS_MAX)
        return KVT_RANGE;
    failures = kvt_grow(heard->failures, &heard->failure_capacity, heard->failure_count + 1,
                        sizeof(*failures));
    if (failures == NULL)
        return KVT_NOMEM;
    heard->failures = failures;
    failures[heard->failure_count++] = (struct engine_heard_failure){at, why};
    heard->transfers[heard->transfer_count - 1].count++;
    return KVT_OK;
}

enum kvt_err
engine_heard_encode(const struct engine_heard *heard, struct kvt_buffer *out)
{
    const size_t start = out->size;

    put_array(out, 2);
    put_number(out, ENGINE_META_VERSION);
    put_array(out, heard->transfer_count);
    for (size_t i = 0; i < heard->transfer_count; i++) {
        const struct engine_heard_transfer *transfer = &heard->transfers[i];

        put_array(out, 2);
        put_number(out, transfer->id);
        put_array(out, 2 * (size_t)transfer->count);
        for (uint32_t j = 0; j < transfer->count; j++) {
            put_number(out, heard->failures[transfer->first + j].at);
            put_number(out, heard->failures[transfer->first + j].why);
        }
    }
    return put_end(out, start);
}

static void
get_ended(struct reader *in, struct engine_heard *heard)
{
    uint64_t id;
    size_t count;

    if (get_array(in, 2) != 2)
        refuse(in, KVT_INVALID);
    id = get_number(in, UINT64_MAX);
    count = get_array(in, 2 * (size_t)ENGINE_META_PAIRS_MAX);
    if (count % 2 != 0)
        refuse(in, KVT_INVALID);
    if (in->code == KVT_OK)
        refuse(in, engine_heard_transfer(heard, id));
    for (size_t i = 0; i < count / 2 && in->code == KVT_OK; i++) {
        const uint32_t at = (uint32_t)get_number(in, ENGINE_META_PAIRS_MAX - 1);
        const uint64_t why = get_number(in, KVT_ERR_COUNT - 1);

        if (why == KVT_OK)
            refuse(in, KVT_INVALID);
        refuse(in, engine_heard_failure(heard, at, (enum kvt_err)why));
    }
}

enum kvt_err
engine_heard_decode(struct engine_heard *heard, const uint8_t *bytes, size_t size,
                    struct kvt_error *err)
{
    struct reader in;
    enum kvt_err rc;
    size_t count;

    memset(heard, 0, sizeof(*heard));
    rc = get_begin(&in, bytes, size, 2);
    if (rc != KVT_OK)
        return kvt_error_set(err, rc, "a rank's answer of %zu bytes: not what it is", size);
    count = get_array(&in, ENGINE_META_TRANSFERS_MAX);
    for (size_t i = 0; i < count && in.code == KVT_OK; i++)
        get_ended(&in, heard);
    if (in.at != in.size)
        refuse(&in, KVT_INVALID);
    if (in.code == KVT_OK)
        return KVT_OK;
    engine_heard_release(heard);
    return kvt_error_set(err, in.code, "a rank's answer of %zu bytes: wrong at byte %zu", size,
                         in.at);
}

void
engine_heard_release(struct engine_heard *heard)
{
    kvt_free(heard->transfers);
    kvt_free(heard->failures);
    memset(heard, 0, sizeof(*heard));
}
