#include "gateway/s3/batch_request.h"

#include <assert.h>
#include <endian.h>
#include <string.h>

#include "base/core/alloc.h"
#include "gateway/http/client_bucket.h"

enum { ROW_BYTES = 16 }; /* status u32, crc32c u32, length u64 */

struct reader {
    const uint8_t *start;
    const uint8_t *at;
    const uint8_t *end;
};

static bool
take(struct reader *reader, size_t size, const uint8_t **out)
{
    if ((size_t)(reader->end - reader->at) < size)
        return false;
    *out = reader->at;
    reader->at += size;
    return true;
}

static bool
take_number(struct reader *reader, size_t size, uint64_t *out)
{
    const uint8_t *bytes;
    uint64_t value = 0;

    *out = 0;
    if (!take(reader, size, &bytes))
        return false;
    memcpy(&value, bytes, size);
    *out = le64toh(value);
    return true;
}

static enum kvt_err
broken(const struct reader *reader, struct kvt_error *err, const char *what)
{
    return kvt_error_set(err, KVT_INVALID, "byte %zu: %s", (size_t)(reader->at - reader->start),
                         what);
}

/* A key becomes text; a NUL inside would make it another key. */
static bool
take_key(struct reader *reader, size_t size, char **names, const char **key)
{
    const uint8_t *bytes;

    if (!take(reader, size, &bytes))
        return false;
    *key = *names;
    memcpy(*names, bytes, size);
    (*names)[size] = '\0';
    *names += size + 1;
    return size > 0 && size < G4_CLIENT_KEY_MAX && memchr(bytes, '\0', size) == NULL;
}

static enum kvt_err
parse_asked(struct reader *reader, char **names, struct gateway_item *item, struct kvt_error *err)
{
    uint64_t length;

    if (!take_number(reader, 2, &length))
        return broken(reader, err, "expected a key's length");
    if (!take_key(reader, (size_t)length, names, &item->key))
        return broken(reader, err, "expected a key of 1 to 1024 bytes");
    return KVT_OK;
}

static enum kvt_err
parse_put(struct reader *reader, char **names, struct gateway_put_item *item, struct kvt_error *err)
{
    const uint8_t *body;
    uint64_t key_length;
    uint64_t flags;
    uint64_t crc32c;
    uint64_t length;

    if (!take_number(reader, 2, &key_length) || !take_number(reader, 2, &flags) ||
        !take_number(reader, 4, &crc32c) || !take_number(reader, 8, &item->fingerprint) ||
        !take_number(reader, 8, &length))
        return broken(reader, err, "expected a 24-byte header");
    if (flags != 0)
        return broken(reader, err, "unknown flags");
    if (!take_key(reader, (size_t)key_length, names, &item->key))
        return broken(reader, err, "expected a key of 1 to 1024 bytes");
    if (length > (uint64_t)(reader->end - reader->at))
        return broken(reader, err, "body is longer than the request");
    (void)take(reader, (size_t)length, &body);
    item->crc32c = (uint32_t)crc32c;
    item->body = body;
    item->size = (size_t)length;
    return KVT_OK;
}

enum kvt_err
gateway_batch_request_parse(struct gateway_batch_request *batch,
                            enum gateway_batch_request_verb verb, const void *bytes, size_t size,
                            struct kvt_error *err)
{
    struct reader reader = {.start = bytes, .at = bytes, .end = (const uint8_t *)bytes + size};
    uint64_t count;
    char *names;
    enum kvt_err rc;

    *batch = (struct gateway_batch_request){0};
    if (!take_number(&reader, 4, &count))
        return broken(&reader, err, "expected the number of keys");
    if (count > GATEWAY_BATCH_REQUEST_KEYS_MAX)
        return kvt_error_set(err, KVT_RANGE, "%u keys, at most %d", (unsigned)count,
                             GATEWAY_BATCH_REQUEST_KEYS_MAX);
    /* A key of n bytes is at least n + 2 bytes of request, so its text fits in as many. */
    batch->names = kvt_calloc(size + 1, 1);
    if (verb == GATEWAY_BATCH_REQUEST_PUT)
        batch->puts = kvt_calloc(count == 0 ? 1 : (size_t)count, sizeof(*batch->puts));
    else
        batch->items = kvt_calloc(count == 0 ? 1 : (size_t)count, sizeof(*batch->items));
    rc = KVT_OK;
    if (batch->names == NULL || (batch->puts == NULL && batch->items == NULL))
        rc = kvt_error_set(err, KVT_NOMEM, "batch of %u keys", (unsigned)count);
    names = batch->names;
    for (; rc == KVT_OK && batch->count < count; batch->count++)
        rc = verb == GATEWAY_BATCH_REQUEST_PUT
                 ? parse_put(&reader, &names, &batch->puts[batch->count], err)
                 : parse_asked(&reader, &names, &batch->items[batch->count], err);
    if (rc == KVT_OK && reader.at != reader.end)
        rc = broken(&reader, err, "bytes behind the last key");
    if (rc != KVT_OK)
        gateway_batch_request_release(batch);
    return rc;
}

void
gateway_batch_request_release(struct gateway_batch_request *batch)
{
    kvt_free(batch->names);
    kvt_free(batch->stored);
    kvt_free(batch->items);
    kvt_free(batch->puts);
    *batch = (struct gateway_batch_request){0};
}

/* From the client's keys to names in the store.  A key that cannot be one becomes "", which nothing
 * has. */
static enum kvt_err
name_keys(struct gateway_batch_request *batch)
{
    static const struct gateway_client_bucket configured = {.id = ""};
    size_t used = 0;

    for (size_t i = 0; i < batch->count; i++) {
        const char **key = batch->puts != NULL ? &batch->puts[i].key : &batch->items[i].key;
        struct g4_object_name name;

        if (gateway_client_bucket_key(&configured, *key, &name) != KVT_OK) {
            *key = "";
        } else if (strcmp(name.text, *key) != 0) { /* no key of a block, nearly always */
            if (batch->stored == NULL)
                batch->stored = kvt_calloc(batch->count - i, sizeof(*batch->stored));
            if (batch->stored == NULL)
                return KVT_NOMEM;
            batch->stored[used] = name;
            *key = batch->stored[used++].text;
        }
    }
    return KVT_OK;
}

static void
append_u32(struct kvt_buffer *answer, uint32_t value)
{
    const uint32_t bytes = htole32(value);

    kvt_buffer_append(answer, &bytes, sizeof(bytes));
}

static void
write_row(uint8_t row[ROW_BYTES], enum kvt_err status, uint32_t crc32c, uint64_t length)
{
    const uint32_t code = htole32((uint32_t)status);
    const uint32_t crc = htole32(crc32c);
    const uint64_t size = htole64(length);

    memcpy(row, &code, sizeof(code));
    memcpy(row + 4, &crc, sizeof(crc));
    memcpy(row + 8, &size, sizeof(size));
}

/* Of another layout is not what was meant, though key and length may be: so it is not there.  Who
 * wrote without telling a layout, as KVBM does, is believed. */
static void
miss_others(struct gateway_context *context, struct gateway_batch_request *batch,
            uint64_t fingerprint)
{
    for (size_t i = 0; fingerprint != 0 && i < batch->count; i++) {
        struct gateway_item *item = &batch->items[i];

        if (item->status != KVT_OK || item->record.fingerprint == 0 ||
            item->record.fingerprint == fingerprint)
            continue;
        if (item->for_body)
            gateway_get_unread(context, item);
        item->status = KVT_NOTFOUND;
        gateway_stats_add(context->stats, GATEWAY_STAT_OTHER_LAYOUT, 1);
    }
}

static void
run_has(struct gateway_context *context, struct gateway_batch_request *batch, uint64_t fingerprint,
        struct kvt_buffer *answer)
{
    uint8_t row[ROW_BYTES];

    gateway_stats_add(context->stats, GATEWAY_STAT_HAS, batch->count);
    gateway_get_find(context, batch->items, batch->count);
    miss_others(context, batch, fingerprint);
    for (size_t i = 0; i < batch->count; i++) {
        const struct gateway_item *item = &batch->items[i];
        const bool ok = item->status == KVT_OK;

        write_row(row, item->status, ok ? item->record.crc32c : 0, ok ? item->record.length : 0);
        kvt_buffer_append(answer, row, sizeof(row));
    }
}

/* Give each body its place behind its row; what would not fit is to be asked for again. */
static size_t
place_bodies(struct gateway_batch_request *batch, struct gateway_budget *budget, size_t room,
             uint64_t *taken)
{
    const size_t alone = room > ROW_BYTES ? room - ROW_BYTES : 0;
    size_t total = batch->count * ROW_BYTES;

    for (size_t i = 0; i < batch->count; i++) {
        struct gateway_item *item = &batch->items[i];

        if (item->status != KVT_OK)
            continue;
        if (item->record.length > alone) {
            item->status = KVT_RANGE; /* not even alone: asking again would not help */
            continue;
        }
        if (total > room - item->record.length ||
            !gateway_budget_take(budget, item->record.length)) {
            item->status = KVT_AGAIN;
            continue;
        }
        *taken += item->record.length;
        total += (size_t)item->record.length;
    }
    return total;
}

static enum kvt_err
run_get(struct gateway_context *context, struct gateway_batch_request *batch, uint64_t fingerprint,
        struct gateway_budget *budget, uint64_t *taken, struct kvt_buffer *answer)
{
    uint8_t *start;
    uint8_t *at;
    size_t total;

    gateway_stats_add(context->stats, GATEWAY_STAT_GET, batch->count);
    for (size_t i = 0; i < batch->count; i++)
        batch->items[i].for_body = true;
    gateway_get_find(context, batch->items, batch->count);
    miss_others(context, batch, fingerprint);
    total = place_bodies(batch, budget, answer->limit - answer->size, taken);
    start = kvt_buffer_reserve(answer, total);
    if (start == NULL)
        return KVT_NOMEM;
    at = start;
    for (size_t i = 0; i < batch->count; i++) {
        struct gateway_item *item = &batch->items[i];

        at += ROW_BYTES;
        if (item->status != KVT_OK)
            continue;
        item->buffer = at;
        item->capacity = (size_t)item->record.length;
        at += item->capacity;
    }
    assert(at == start + total);
    for (size_t i = 0; i < batch->count; i++)
        if (batch->items[i].status == KVT_RANGE || batch->items[i].status == KVT_AGAIN)
            gateway_get_unread(context, &batch->items[i]); /* there is no room for it */
    gateway_get_bodies(context, batch->items, batch->count);
    /* Close the gaps of bodies that did not come. */
    at = start;
    for (size_t i = 0; i < batch->count; i++) {
        const struct gateway_item *item = &batch->items[i];
        const bool ok = item->status == KVT_OK;

        write_row(at, item->status, ok ? item->record.crc32c : 0, ok ? item->size : 0);
        at += ROW_BYTES;
        if (ok) {
            memmove(at, item->buffer, item->size);
            at += item->size;
        }
    }
    answer->size += (size_t)(at - start);
    return KVT_OK;
}

/* The codes the batch API promises: what may work later by itself is "again", so that the client
 * keeps trying while a bucket is away. */
static enum kvt_err
put_code(enum kvt_err status)
{
    if (status != KVT_OK && kvt_err_retryable(status))
        return KVT_AGAIN;
    return status == KVT_RANGE ? KVT_INVALID : status;
}

static void
run_put(struct gateway_context *context, struct gateway_batch_request *batch,
        struct kvt_buffer *answer)
{
    gateway_stats_add(context->stats, GATEWAY_STAT_PUT, batch->count);
    gateway_put_blocks(context, batch->puts, batch->count);
    for (size_t i = 0; i < batch->count; i++)
        append_u32(answer, (uint32_t)put_code(batch->puts[i].status));
}

enum kvt_err
gateway_batch_request_run(struct gateway_context *context, enum gateway_batch_request_verb verb,
                          const void *bytes, size_t size, uint64_t fingerprint,
                          struct gateway_budget *budget, uint64_t *taken, struct kvt_buffer *answer,
                          struct kvt_error *err)
{
    struct gateway_batch_request batch;
    enum kvt_err rc;

    *taken = 0;
    rc = gateway_batch_request_parse(&batch, verb, bytes, size, err);
    if (rc != KVT_OK)
        return rc;
    rc = name_keys(&batch);
    if (rc != KVT_OK) {
        gateway_batch_request_release(&batch);
        return kvt_error_set(err, rc, "names of the keys");
    }
    switch (verb) {
    case GATEWAY_BATCH_REQUEST_HAS: run_has(context, &batch, fingerprint, answer); break;
    case GATEWAY_BATCH_REQUEST_GET:
        rc = run_get(context, &batch, fingerprint, budget, taken, answer);
        break;
    case GATEWAY_BATCH_REQUEST_PUT: run_put(context, &batch, answer); break;
    }
    gateway_batch_request_release(&batch);
    if (rc == KVT_OK && !kvt_buffer_ok(answer))
        rc = KVT_NOMEM;
    return rc == KVT_OK ? rc : kvt_error_set(err, rc, "answer: %s", kvt_err_text(rc));
}
