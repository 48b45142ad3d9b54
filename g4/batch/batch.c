#include "g4/batch/batch.h"

#include <assert.h>
#include <string.h>

#include "g4/object/check.h"
#include "g4/object/g4_store.h"
#include "g4/object/little_endian.h"

/* The request: a count, then for each entry a head, the key and, for PUT, the body. */
enum part { PART_COUNT, PART_HEAD, PART_KEY, PART_BODY };

enum {
    COUNT_SIZE = 4,
    ASK_HEAD = 2,
    PUT_HEAD = 24,
    ANSWER_STATUS = 4,
    ANSWER_HEAD = 16,
};

static size_t
head_size(const struct g4_batch *batch)
{
    return batch->verb == G4_BATCH_PUT ? PUT_HEAD : ASK_HEAD;
}

void
g4_batch_begin(struct g4_batch *batch, enum g4_batch_verb verb, struct g4_batch_entry *entries,
               size_t count)
{
    assert(count > 0 && count <= G4_BATCH_CLIENT_BATCH_MAX);
    memset(batch, 0, sizeof(*batch));
    batch->verb = verb;
    batch->entries = entries;
    batch->count = count;
    for (size_t i = 0; i < count; i++)
        if (verb != G4_BATCH_PUT)
            entries[i].item->size = 0;
    g4_little_endian_put(batch->out_head, count, COUNT_SIZE);
}

uint64_t
g4_batch_size(const struct g4_batch *batch)
{
    uint64_t size = COUNT_SIZE;

    for (size_t i = 0; i < batch->count; i++) {
        const struct g4_batch_client_item *item = batch->entries[i].item;

        size += head_size(batch) + strlen(item->key);
        if (batch->verb == G4_BATCH_PUT)
            size += item->size;
    }
    return size;
}

static void
make_head(struct g4_batch *batch)
{
    const struct g4_batch_client_item *item = batch->entries[batch->out_entry].item;

    g4_little_endian_put(batch->out_head, strlen(item->key), 2);
    if (batch->verb != G4_BATCH_PUT)
        return;
    g4_little_endian_put(batch->out_head + 2, 0, 2);
    g4_little_endian_put(batch->out_head + 4, item->crc32c, 4);
    g4_little_endian_put(batch->out_head + 8, item->fingerprint, 8);
    g4_little_endian_put(batch->out_head + 16, item->size, 8);
}

/* The part that is being sent. */
static const uint8_t *
current_part(const struct g4_batch *batch, size_t *size)
{
    const struct g4_batch_client_item *item =
        batch->out_entry < batch->count ? batch->entries[batch->out_entry].item : NULL;

    switch ((enum part)batch->out_part) {
    case PART_COUNT: *size = COUNT_SIZE; return batch->out_head;
    case PART_HEAD: *size = head_size(batch); return batch->out_head;
    case PART_KEY: *size = strlen(item->key); return (const uint8_t *)item->key;
    case PART_BODY: *size = item->size; return item->body;
    }
    *size = 0;
    return NULL;
}

static void
next_part(struct g4_batch *batch)
{
    const unsigned last = batch->verb == G4_BATCH_PUT ? PART_BODY : PART_KEY;

    batch->out_sent = 0;
    if (batch->out_part == PART_HEAD || (batch->out_part == PART_KEY && last == PART_BODY)) {
        batch->out_part++;
        return;
    }
    if (batch->out_part != PART_COUNT)
        batch->out_entry++;
    batch->out_part = PART_HEAD;
    if (batch->out_entry < batch->count)
        make_head(batch);
}

size_t
g4_batch_read(struct g4_batch *batch, void *out, size_t room)
{
    uint8_t *at = out;
    size_t done = 0;

    while (done < room && batch->out_entry < batch->count) {
        const uint8_t *part;
        size_t size;
        size_t step;

        part = current_part(batch, &size);
        step = size - batch->out_sent < room - done ? size - batch->out_sent : room - done;
        if (step > 0)
            memcpy(at + done, part + batch->out_sent, step);
        batch->out_sent += step;
        done += step;
        if (batch->out_sent == size)
            next_part(batch);
    }
    return done;
}

/* A status number as an error code; what we do not know is a failure of the peer. */
static enum kvt_err
code_of(uint64_t number)
{
    return number < KVT_ERR_COUNT ? (enum kvt_err)number : KVT_IO;
}

/* An entry's body is complete: is it what its crc says? */
static void
finish_body(struct g4_batch *batch)
{
    struct g4_batch_entry *entry = &batch->entries[batch->in_entry++];
    struct g4_batch_client_item *item = entry->item;

    batch->in_body = false;
    if (batch->in_body_size > entry->room) {
        item->status = KVT_RANGE;
        return;
    }
    item->size = (size_t)batch->in_body_size;
    if (g4_check_crc32c(item->buffer, item->size) == item->crc32c)
        return;
    item->status = KVT_NOTFOUND;
    item->size = 0;
}

static void
finish_head(struct g4_batch *batch)
{
    struct g4_batch_client_item *item = batch->entries[batch->in_entry].item;

    batch->in_head_size = 0;
    item->status = code_of(g4_little_endian_get(batch->in_head, 4));
    if (batch->verb == G4_BATCH_PUT) {
        batch->in_entry++;
        return;
    }
    item->crc32c = (uint32_t)g4_little_endian_get(batch->in_head + 4, 4);
    if (g4_little_endian_get(batch->in_head + 8, 8) > G4_OBJECT_SIZE_MAX) {
        batch->malformed = true;
        return;
    }
    if (batch->verb == G4_BATCH_HAS) {
        item->size = (size_t)g4_little_endian_get(batch->in_head + 8, 8);
        batch->in_entry++;
        return;
    }
    batch->in_body_size = item->status == KVT_OK ? g4_little_endian_get(batch->in_head + 8, 8) : 0;
    batch->in_body_had = 0;
    batch->in_body = true;
    if (item->status != KVT_OK) {
        batch->in_body = false;
        batch->in_entry++;
    } else if (batch->in_body_size == 0) {
        finish_body(batch);
    }
}

/* Take what belongs to the head or the body under way; returns how much that was. */
static size_t
take_head(struct g4_batch *batch, const uint8_t *bytes, size_t size)
{
    const size_t wanted = batch->verb == G4_BATCH_PUT ? ANSWER_STATUS : ANSWER_HEAD;
    const size_t left = wanted - batch->in_head_size;
    const size_t step = size < left ? size : left;

    memcpy(batch->in_head + batch->in_head_size, bytes, step);
    batch->in_head_size += step;
    if (batch->in_head_size == wanted)
        finish_head(batch);
    return step;
}

static size_t
take_body(struct g4_batch *batch, const uint8_t *bytes, size_t size)
{
    const struct g4_batch_entry *entry = &batch->entries[batch->in_entry];
    const uint64_t left = batch->in_body_size - batch->in_body_had;
    const size_t step = size < left ? size : (size_t)left;

    /* A body that does not fit is read past, so that the next entry is found. */
    if (batch->in_body_size <= entry->room)
        memcpy((uint8_t *)entry->item->buffer + batch->in_body_had, bytes, step);
    batch->in_body_had += step;
    if (batch->in_body_had == batch->in_body_size)
        finish_body(batch);
    return step;
}

bool
g4_batch_write(struct g4_batch *batch, const void *bytes, size_t size)
{
    const uint8_t *at = bytes;

    while (size > 0 && !batch->malformed) {
        size_t step;

        if (batch->in_entry == batch->count) {
            batch->malformed = true; /* more than was asked for */
            break;
        }
        step = batch->in_body ? take_body(batch, at, size) : take_head(batch, at, size);
        at += step;
        size -= step;
    }
    return !batch->malformed;
}

bool
g4_batch_complete(const struct g4_batch *batch)
{
    return !batch->malformed && batch->in_entry == batch->count;
}
