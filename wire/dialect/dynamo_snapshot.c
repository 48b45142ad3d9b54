/*
 * The snapshot of a Dynamo router: bincode of its events, one a chain.
 */
#include "wire/dialect/dynamo_snapshot.h"

#include <endian.h>
#include <inttypes.h>
#include <string.h>

/* A block: its name, the hash of its tokens, and no objects of other media. */
enum { BLOCK_BYTES = 17, TIER_COUNT = 4, DATA_STORED = 0 };

static const char *const tiers[TIER_COUNT] = {"device", "host_pinned", "disk", "external"};

struct bytes {
    const uint8_t *at;
    size_t left;
    const char *missing; /* what was to be read when there were no bytes */
};

static uint64_t
take(struct bytes *from, size_t size, const char *what)
{
    uint64_t value = 0;

    if (from->left < size) {
        from->left = 0;
        if (from->missing == NULL)
            from->missing = what;
        return 0;
    }
    memcpy(&value, from->at, size);
    from->at += size;
    from->left -= size;
    return le64toh(value);
}

static uint64_t
read_le64(const uint8_t *at)
{
    uint64_t value;

    memcpy(&value, at, sizeof(value));
    return le64toh(value);
}

static enum kvt_err
refuse(const struct wire_dynamo_snapshot *snapshot, struct kvt_error *err, const char *why)
{
    return kvt_error_set(
        err, KVT_INVALID,
        "dynamo snapshot of %zu bytes: %s in the chain at byte %zu: not of releases "
        "1.2.1 to 1.3.1, or damaged",
        snapshot->size, why, snapshot->at);
}

static enum kvt_err
begin(struct wire_dynamo_snapshot *snapshot, struct kvt_error *err)
{
    if (snapshot->size > WIRE_DYNAMO_SNAPSHOT_MAX)
        return kvt_error_set(err, KVT_RANGE, "dynamo snapshot of %zu bytes: at most %u",
                             snapshot->size, WIRE_DYNAMO_SNAPSHOT_MAX);
    if (snapshot->size < sizeof(uint64_t))
        return kvt_error_set(err, KVT_INVALID, "dynamo snapshot of %zu bytes: too short",
                             snapshot->size);
    snapshot->left = read_le64(snapshot->bytes);
    snapshot->at = sizeof(uint64_t);
    snapshot->begun = true;
    return KVT_OK;
}

/* Tags of what a router never writes into a snapshot: they are another release's members. */
static const char *
check(const struct bytes *from, const struct wire_dynamo_kept *kept, uint64_t data,
      uint64_t positioned)
{
    if (from->missing != NULL)
        return from->missing;
    if (kept->tier >= TIER_COUNT)
        return "an unknown tier";
    if (data != DATA_STORED)
        return "an event that stores nothing";
    if (positioned != 0)
        return "a position";
    if (kept->count == 0)
        return "no blocks";
    for (uint64_t i = 0; i < kept->count; i++)
        if (kept->blocks[i * BLOCK_BYTES + BLOCK_BYTES - 1] != 0)
            return "a block with objects of other media";
    return NULL;
}

enum kvt_err
wire_dynamo_snapshot_next(struct wire_dynamo_snapshot *snapshot, struct wire_dynamo_kept *kept,
                          struct kvt_error *err)
{
    struct bytes from;
    uint64_t has_parent;
    uint64_t positioned;
    uint64_t data;
    const char *why;
    enum kvt_err rc;

    *kept = (struct wire_dynamo_kept){.count = 0};
    if (!snapshot->begun) {
        rc = begin(snapshot, err);
        if (rc != KVT_OK)
            return rc;
    }
    if (snapshot->left == 0)
        return snapshot->at == snapshot->size ? KVT_NOTFOUND
                                              : refuse(snapshot, err, "bytes behind the last, as");
    from =
        (struct bytes){.at = snapshot->bytes + snapshot->at, .left = snapshot->size - snapshot->at};
    kept->worker = take(&from, sizeof(uint64_t), "no worker");
    kept->tier = (uint32_t)take(&from, sizeof(uint32_t), "no tier");
    (void)take(&from, sizeof(uint64_t), "no number"); /* its place in the snapshot */
    data = take(&from, sizeof(uint32_t), "no kind");
    has_parent = take(&from, 1, "no parent");
    if (has_parent > 1)
        return refuse(snapshot, err, "an odd parent");
    kept->has_parent = has_parent == 1;
    if (kept->has_parent)
        kept->parent = take(&from, sizeof(uint64_t), "no parent");
    positioned = take(&from, 1, "no position");
    kept->count = take(&from, sizeof(uint64_t), "no number of blocks");
    kept->blocks = from.at;
    if (from.missing == NULL && kept->count > from.left / BLOCK_BYTES)
        return refuse(snapshot, err, "more blocks than bytes");
    if (from.missing == NULL) {
        from.at += kept->count * BLOCK_BYTES;
        from.left -= kept->count * BLOCK_BYTES;
    }
    kept->dp_rank = (uint32_t)take(&from, sizeof(uint32_t), "no rank");
    why = check(&from, kept, data, positioned);
    if (why != NULL)
        return refuse(snapshot, err, why);
    snapshot->at = snapshot->size - from.left;
    snapshot->left--;
    return KVT_OK;
}

enum kvt_err
wire_dynamo_snapshot_check(const void *bytes, size_t size, uint64_t *chains, uint64_t *blocks,
                           struct kvt_error *err)
{
    struct wire_dynamo_snapshot snapshot = {.bytes = bytes, .size = size};
    struct wire_dynamo_kept kept;
    enum kvt_err rc;

    *chains = 0;
    *blocks = 0;
    while ((rc = wire_dynamo_snapshot_next(&snapshot, &kept, err)) == KVT_OK) {
        (*chains)++;
        *blocks += kept.count;
    }
    return rc == KVT_NOTFOUND ? KVT_OK : rc;
}

void
wire_dynamo_snapshot_write(const struct wire_dynamo_kept *kept, uint64_t first, uint64_t count,
                           struct kvt_buffer *out)
{
    const uint8_t *at = kept->blocks + first * BLOCK_BYTES;

    kvt_buffer_printf(out,
                      "{\"worker_id\":%" PRIu64
                      ",\"storage_tier\":\"%s\",\"event\":{\"event_id\":0,"
                      "\"data\":{\"stored\":{\"parent_hash\":",
                      kept->worker, tiers[kept->tier]);
    if (first > 0)
        kvt_buffer_printf(out, "%" PRIu64, read_le64(at - BLOCK_BYTES));
    else if (kept->has_parent)
        kvt_buffer_printf(out, "%" PRIu64, kept->parent);
    else
        kvt_buffer_puts(out, "null");
    kvt_buffer_puts(out, ",\"start_position\":null,\"blocks\":[");
    for (uint64_t i = 0; i < count; i++, at += BLOCK_BYTES)
        kvt_buffer_printf(out,
                          "%s{\"block_hash\":%" PRIu64 ",\"tokens_hash\":%" PRIu64
                          ",\"mm_extra_info\":null}",
                          i == 0 ? "" : ",", read_le64(at), read_le64(at + sizeof(uint64_t)));
    kvt_buffer_printf(out, "]}},\"dp_rank\":%" PRIu32 "}}", kept->dp_rank);
}
