#include <inttypes.h>
#include <string.h>

#include "advisor/source/source_private.h"
#include "base/core/clock.h"
#include "base/core/log.h"
#include "wire/dialect/dynamo_snapshot.h"
#include "wire/nats/object.h"

/*
 * A router purges its stream, then writes what it knows, and puts that into NATS in the background.
 * So the snapshot stands for all that the stream has not only when it was there before and after a
 * while in which the stream lost nothing.
 */

enum {
    ATTEMPTS = 10,
    AGREE_MS = 100, /* an upload takes some ms */
    PIECE = 1024,   /* blocks of an event */
    ITEM_BYTES = 128 << 10,
    ITEM_LIMIT = 512 << 10, /* and a piece */
};

static bool
stopping(const struct advisor_source *source)
{
    return atomic_load(&source->stopping);
}

static enum kvt_err
fetch(struct advisor_source *source, struct wire_object_info *info, struct kvt_buffer *out,
      struct kvt_error *err)
{
    const struct advisor_source_options *options = &source->options;
    enum kvt_err rc = wire_object_info(options->bus, options->snapshot_bucket,
                                       WIRE_DYNAMO_SNAPSHOT_OBJECT, info, err);

    kvt_buffer_clear(out);
    return rc == KVT_OK ? wire_object_get(options->bus, options->snapshot_bucket, info, out, err)
                        : rc;
}

/* Is it still the same, and is all there that was in the stream? */
static enum kvt_err
confirm(struct advisor_source *source, const struct wire_object_info *info,
        const struct wire_stream_state *state, struct kvt_error *err)
{
    const struct advisor_source_options *options = &source->options;
    struct wire_object_info again;
    struct wire_stream_state now;
    enum kvt_err rc = wire_object_info(options->bus, options->snapshot_bucket,
                                       WIRE_DYNAMO_SNAPSHOT_OBJECT, &again, err);

    if (rc == KVT_OK && wire_stream_state(options->bus, options->stream, &now) != KVT_OK)
        rc = kvt_error_set(err, KVT_UNAVAILABLE, "stream %s cannot be looked at", options->stream);
    if (rc == KVT_OK &&
        (strcmp(again.nuid, info->nuid) != 0 || strcmp(again.digest, info->digest) != 0 ||
         now.first_seq != state->first_seq || now.created_ms != state->created_ms))
        rc = kvt_error_set(err, KVT_AGAIN, "a router replaces it all the time");
    return rc;
}

static enum kvt_err
fetch_agreed(struct advisor_source *source, struct wire_stream_state *state,
             struct wire_object_info *info, struct kvt_buffer *out, struct kvt_error *err)
{
    enum kvt_err rc = KVT_AGAIN;

    for (int i = 0; i < ATTEMPTS && rc != KVT_OK && rc != KVT_NOTFOUND && !stopping(source); i++) {
        struct wire_stream_state before;

        rc = wire_stream_state(source->options.bus, source->options.stream, &before);
        if (rc != KVT_OK)
            (void)kvt_error_set(err, rc, "stream %s: %s", source->options.stream, kvt_err_text(rc));
        if (rc == KVT_OK)
            rc = fetch(source, info, out, err);
        kvt_clock_sleep_ms(AGREE_MS);
        if (rc == KVT_OK)
            rc = confirm(source, info, &before, err);
        if (rc == KVT_OK)
            *state = before;
    }
    return rc;
}

static bool
push(struct advisor_source *source, enum advisor_inbox_item_kind kind,
     const struct kvt_buffer *bytes, uint64_t time_ms)
{
    struct advisor_inbox_item *item;

    while (advisor_inbox_item_new(&item, kind, source->options.stream, bytes->data, bytes->size) !=
           KVT_OK) {
        if (stopping(source))
            return false;
        kvt_clock_sleep_ms(AGREE_MS);
    }
    item->time_ms = time_ms;
    return advisor_source_push_wait(source, item);
}

/* An array of events, as long as an item may be. */
static enum kvt_err
push_full(struct advisor_source *source, struct kvt_buffer *item, uint64_t time_ms)
{
    bool going;

    if (item->size == 0)
        return KVT_OK;
    kvt_buffer_puts(item, "]");
    if (!kvt_buffer_ok(item))
        return KVT_NOMEM;
    going = push(source, ADVISOR_INBOX_ITEM_HOLDS, item, time_ms);
    kvt_buffer_clear(item);
    return going ? KVT_OK : KVT_CANCELLED;
}

static enum kvt_err
push_chain(struct advisor_source *source, const struct wire_dynamo_kept *kept,
           struct kvt_buffer *item, uint64_t time_ms)
{
    enum kvt_err rc = KVT_OK;

    for (uint64_t at = 0; rc == KVT_OK && at < kept->count; at += PIECE) {
        const uint64_t left = kept->count - at;

        kvt_buffer_puts(item, item->size == 0 ? "[" : ",");
        wire_dynamo_snapshot_write(kept, at, left < PIECE ? left : PIECE, item);
        if (item->size >= ITEM_BYTES)
            rc = push_full(source, item, time_ms);
    }
    return rc;
}

/* Without its end whoever was named in it stays in doubt. */
static enum kvt_err
push_all(struct advisor_source *source, const struct kvt_buffer *bytes, uint64_t time_ms)
{
    struct wire_dynamo_snapshot snapshot = {.bytes = bytes->data, .size = bytes->size};
    struct wire_dynamo_kept kept;
    struct kvt_buffer item;
    enum kvt_err rc = KVT_OK;

    kvt_buffer_init(&item, ITEM_LIMIT);
    while (rc == KVT_OK && wire_dynamo_snapshot_next(&snapshot, &kept, NULL) == KVT_OK)
        rc = push_chain(source, &kept, &item, time_ms);
    if (rc == KVT_OK)
        rc = push_full(source, &item, time_ms);
    if (rc == KVT_OK && !push(source, ADVISOR_INBOX_ITEM_HELD, &item, time_ms))
        rc = KVT_CANCELLED;
    kvt_buffer_release(&item);
    return rc;
}

bool
advisor_source_tell_snapshot(struct advisor_source *source, struct wire_stream_state *state)
{
    struct kvt_error err = {.text = ""};
    struct wire_stream_state now;
    struct wire_object_info info;
    struct kvt_buffer bytes;
    uint64_t chains = 0;
    uint64_t blocks = 0;
    enum kvt_err rc;

    kvt_buffer_init(&bytes, WIRE_DYNAMO_SNAPSHOT_MAX);
    rc = fetch_agreed(source, state, &info, &bytes, &err);
    if (rc == KVT_OK)
        rc = wire_dynamo_snapshot_check(bytes.data, bytes.size, &chains, &blocks, &err);
    if (rc == KVT_OK) {
        rc = push_all(source, &bytes, info.time_ms);
        if (rc != KVT_OK)
            (void)kvt_error_set(&err, rc, "%s", kvt_err_text(rc));
    }
    kvt_buffer_release(&bytes);
    if (rc == KVT_OK)
        kvt_log_info("advisor.source", "snapshot",
                     "%s: what the routers keep: %" PRIu64 " blocks in %" PRIu64 " chains",
                     source->options.name, blocks, chains);
    else if (!stopping(source))
        kvt_log_warn("advisor.source", "snapshot",
                     "%s: the stream alone is followed, without what the routers keep: %s",
                     source->options.name, err.text);
    if (rc != KVT_OK &&
        wire_stream_state(source->options.bus, source->options.stream, &now) == KVT_OK)
        *state = now;
    return !stopping(source);
}
