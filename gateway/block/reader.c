#include "gateway/block/reader.h"

#include <assert.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/core/alloc.h"
#include "g4/directory/directory.h"
#include "g4/object/check.h"
#include "gateway/tier/gateway_tiers.h"
#include "gateway/tier/hot_memory.h"

enum { ALIGNMENT = 4096 };

struct gateway_reader {
    struct gateway_context *context;
    struct gateway_budget *budget;
    struct gateway_item item;
    struct g4_body body;
    struct gateway_hot_memory_body
        *sealed;        /* all of the body in memory; NULL: it comes in pieces */
    int sealed_fd;      /* of our own; -1: none, or it was taken */
    uint8_t *memory;    /* of the piece, or of all of it once the hot copy was given up */
    uint64_t taken;     /* bytes of the budget */
    uint64_t held_from; /* what `memory` has: checked bytes of the body */
    uint64_t held_size;
    bool counted;        /* as a read */
    enum kvt_err failed; /* KVT_OK: not yet */
};

/* Is this file the block the catalog speaks of? */
static bool
is_block(const struct g4_object_file *object, const struct gateway_record *record)
{
    return object->meta.present && object->meta.length == record->length &&
           object->body_crc32c == record->crc32c &&
           object->meta.fingerprint == record->fingerprint &&
           g4_pieces_size(&object->pieces) <= GATEWAY_READER_PIECE_MAX;
}

static enum kvt_err
take_memory(struct gateway_reader *reader, uint64_t size)
{
    if (!gateway_budget_take(reader->budget, size))
        return KVT_AGAIN;
    reader->taken = size;
    reader->memory = kvt_aligned(ALIGNMENT, (size_t)size);
    return reader->memory == NULL ? KVT_NOMEM : KVT_OK;
}

static void
give_memory(struct gateway_reader *reader)
{
    kvt_free(reader->memory);
    gateway_budget_give(reader->budget, reader->taken);
    reader->memory = NULL;
    reader->taken = 0;
    reader->held_size = 0;
}

static enum kvt_err
open_reader(struct gateway_reader **out, struct gateway_context *context,
            const struct gateway_item *item, struct gateway_budget *budget, bool wait)
{
    const unsigned volume =
        gateway_tier_fastest(&context->tiers, item->record.tiers & GATEWAY_VOLUMES);
    struct gateway_reader *reader;
    struct kvt_error err;
    size_t piece;
    enum kvt_err rc;

    *out = NULL;
    /* A slower volume's files are waited for, by who may wait. */
    if (!item->known || volume == 0 || (volume != GATEWAY_HOT && !wait) || item->record.length == 0)
        return KVT_UNSUPPORTED;
    reader = kvt_calloc(1, sizeof(*reader));
    if (reader == NULL)
        return KVT_NOMEM;
    reader->context = context;
    reader->budget = budget;
    reader->item = *item;
    reader->sealed_fd = -1;
    rc = wait ? g4_directory_body(gateway_tier_volume(&context->tiers, volume), item->key,
                                  &reader->body, &err)
              : g4_directory_peek(context->tiers.hot, item->key, &reader->body);
    if (rc == KVT_OK && is_block(&reader->body.object, &item->record)) {
        piece = gateway_reader_piece(reader);
        rc = take_memory(reader, item->record.length < piece ? item->record.length : piece);
    } else {
        rc = KVT_UNSUPPORTED;
    }
    if (rc != KVT_OK) {
        gateway_reader_close(reader);
        return rc;
    }
    reader->item.tier = volume == GATEWAY_HOT ? GATEWAY_TIER_HOT : GATEWAY_TIER_WARM;
    reader->item.size = (size_t)item->record.length;
    *out = reader;
    return KVT_OK;
}

enum kvt_err
gateway_reader_open(struct gateway_reader **out, struct gateway_context *context,
                    const struct gateway_item *item, struct gateway_budget *budget)
{
    return open_reader(out, context, item, budget, true);
}

void
gateway_reader_close(struct gateway_reader *reader)
{
    if (reader == NULL)
        return;
    if (reader->sealed_fd >= 0)
        (void)close(reader->sealed_fd);
    if (reader->sealed != NULL)
        gateway_hot_memory_give(reader->context->hot_memory, reader->sealed);
    g4_body_close(&reader->body);
    give_memory(reader);
    kvt_free(reader);
}

size_t
gateway_reader_piece(const struct gateway_reader *reader)
{
    return g4_pieces_size(&reader->body.object.pieces);
}

static bool
holds(const struct gateway_reader *reader, uint64_t at)
{
    return at >= reader->held_from && at - reader->held_from < reader->held_size;
}

/* Hold piece `number`. */
static enum kvt_err
hold_piece(struct gateway_reader *reader, uint64_t number, bool wait)
{
    const struct g4_object_file *object = &reader->body.object;
    struct kvt_error err;
    enum kvt_err rc;

    reader->held_size = 0;
    rc = g4_body_read(&reader->body, number, reader->memory, wait, &err);
    if (rc == KVT_OK) {
        reader->held_from = number << object->pieces.shift;
        reader->held_size = g4_pieces_length(&object->pieces, object->meta.length, number);
    }
    return rc;
}

enum kvt_err
gateway_reader_read(struct gateway_reader *reader, uint64_t at, void *buffer, size_t size,
                    size_t *got)
{
    const struct g4_object_file *object = &reader->body.object;
    const uint64_t number = at >> object->pieces.shift;
    const size_t length = g4_pieces_length(&object->pieces, object->meta.length, number);
    struct kvt_error err;
    uint64_t held;

    *got = 0;
    if (reader->failed != KVT_OK)
        return reader->failed;
    assert(at < object->meta.length && size > 0 && reader->sealed == NULL);
    if (!holds(reader, at) && at == number << object->pieces.shift && size >= length) {
        /* A piece that fails its crc is looked at again by who can do something about it. */
        if (g4_body_read(&reader->body, number, buffer, false, &err) != KVT_OK)
            return KVT_AGAIN;
        *got = length;
        return KVT_OK;
    }
    if (!holds(reader, at) && hold_piece(reader, number, false) != KVT_OK)
        return KVT_AGAIN;
    held = reader->held_from + reader->held_size - at;
    *got = held < size ? (size_t)held : size;
    memcpy(buffer, reader->memory + (at - reader->held_from), *got);
    return KVT_OK;
}

/* The hot copy does not do: read the block as if there were no reader, which finds out why, keeps
 * the evidence and asks the bucket. */
static enum kvt_err
hold_all(struct gateway_reader *reader)
{
    struct gateway_item *item = &reader->item;
    enum kvt_err rc;

    give_memory(reader);
    g4_body_close(&reader->body);
    rc = take_memory(reader, item->record.length);
    if (rc != KVT_OK)
        return rc;
    item->status = KVT_OK;
    item->buffer = reader->memory;
    item->capacity = (size_t)item->record.length;
    gateway_get_bodies(reader->context, item, 1);
    if (item->status == KVT_OK) {
        reader->held_from = 0;
        reader->held_size = item->size;
    }
    return item->status;
}

enum kvt_err
gateway_reader_fetch(struct gateway_reader *reader, uint64_t at)
{
    assert(at < reader->body.object.meta.length);
    if (reader->failed != KVT_OK || holds(reader, at))
        return reader->failed;
    if (reader->sealed == NULL &&
        hold_piece(reader, at >> reader->body.object.pieces.shift, true) != KVT_OK)
        reader->failed = hold_all(reader);
    else if (!reader->counted)
        gateway_get_count(reader->context, &reader->item);
    reader->counted = true;
    return reader->failed;
}

/* Let the body come from there; NULL: it does not. */
static void
use_sealed(struct gateway_reader *reader, struct gateway_hot_memory_body *body)
{
    if (body == NULL)
        return;
    reader->sealed_fd = fcntl(gateway_hot_memory_fd(body), F_DUPFD_CLOEXEC, 0);
    if (reader->sealed_fd < 0) {
        gateway_hot_memory_give(reader->context->hot_memory, body);
        return;
    }
    reader->sealed = body;
    give_memory(reader);
    g4_body_close(&reader->body);
}

void
gateway_reader_seal(struct gateway_reader *reader)
{
    if (reader->item.tier == GATEWAY_TIER_HOT)
        use_sealed(reader, gateway_hot_memory_take(reader->context->hot_memory, &reader->body));
}

/* Does it take somebody who may wait to find out whether the body is worth sealed memory? */
static bool
may_be_sealed(const struct gateway_reader *reader)
{
    return reader->context->hot_memory != NULL &&
           reader->item.record.length >= GATEWAY_HOT_MEMORY_MIN;
}

enum kvt_err
gateway_reader_peek(struct gateway_reader **out, struct gateway_context *context,
                    const struct gateway_item *item, struct gateway_budget *budget, bool seal)
{
    struct gateway_reader *reader;
    bool there;

    if (open_reader(out, context, item, budget, false) != KVT_OK)
        return KVT_AGAIN;
    reader = *out;
    if (seal)
        use_sealed(reader, gateway_hot_memory_peek(context->hot_memory, &reader->body));
    there = reader->sealed != NULL ||
            (!(seal && may_be_sealed(reader)) && hold_piece(reader, 0, false) == KVT_OK);
    if (!there) {
        gateway_reader_close(reader);
        *out = NULL;
        return KVT_AGAIN;
    }
    gateway_get_count(context, &reader->item);
    reader->counted = true;
    return KVT_OK;
}

int
gateway_reader_take_sealed(struct gateway_reader *reader)
{
    const int fd = reader->sealed_fd;

    reader->sealed_fd = -1;
    if (fd >= 0)
        gateway_stats_add(reader->context->stats, GATEWAY_STAT_HITS_SEALED, 1);
    return fd;
}

const void *
gateway_reader_held(const struct gateway_reader *reader, uint64_t at, uint64_t size)
{
    if (reader->failed != KVT_OK || !holds(reader, at) ||
        size > reader->held_from + reader->held_size - at)
        return NULL;
    return reader->memory + (at - reader->held_from);
}
