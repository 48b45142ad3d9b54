/*
 * wire/dialect/raw_builder.h -- how decoders fill a raw batch.
 *
 * Why: every decoder adds events and blocks, takes back what a bad event left behind, and must not
 * write past the batch's arrays; that is here once, inline.
 * Limits:    as raw_batch.h.  NULL or false: it does not fit; the message is then refused.
 */
#ifndef WIRE_DIALECT_RAW_BUILDER_H
#define WIRE_DIALECT_RAW_BUILDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kvtier/error.h"
#include "kvtier/token.h"
#include "wire/dialect/raw_batch.h"

/* How full a batch was before an event. */
struct wire_raw_builder_mark {
    uint32_t events;
    uint32_t blocks;
    uint32_t tokens;
    uint32_t media;
};

static inline struct wire_raw_builder_mark
wire_raw_builder_mark(const struct wire_raw_batch *batch)
{
    return (struct wire_raw_builder_mark){batch->event_count, batch->block_count,
                                          batch->token_count, batch->media_count};
}

static inline void
wire_raw_builder_rewind(struct wire_raw_batch *batch, const struct wire_raw_builder_mark *mark)
{
    batch->event_count = mark->events;
    batch->block_count = mark->blocks;
    batch->token_count = mark->tokens;
    batch->media_count = mark->media;
}

/* A new event with what holds where a message says nothing; NULL when there is no room. */
static inline struct wire_raw_event *
wire_raw_builder_event(struct wire_raw_batch *batch)
{
    struct wire_raw_event *event;

    if (batch->event_count == WIRE_RAW_EVENTS_MAX)
        return NULL;
    event = &batch->events[batch->event_count++];
    *event = (struct wire_raw_event){
        .seed = KVT_TOKEN_SEED,
        .first = batch->block_count,
        .tokens = batch->token_count,
        .position = WIRE_RAW_POSITION_UNKNOWN,
        .ranks = 1,
        .kind = WIRE_RAW_SKIP,
    };
    return event;
}

/* Make the batch's last event a SKIP: its number stays, what it brought along since `mark` goes. */
static inline void
wire_raw_builder_skip(struct wire_raw_batch *batch, struct wire_raw_event *event,
                      const struct wire_raw_builder_mark *mark, enum wire_raw_why why)
{
    batch->block_count = mark->blocks;
    batch->token_count = mark->tokens;
    batch->media_count = mark->media;
    event->count = 0;
    event->block_tokens = 0;
    event->pairs = false;
    event->kind = WIRE_RAW_SKIP;
    event->why = why;
}

/* A block behind those the event has; NULL when there is no room. */
static inline struct wire_raw_block *
wire_raw_builder_block(struct wire_raw_batch *batch, struct wire_raw_event *event)
{
    struct wire_raw_block *block;

    if (batch->block_count == WIRE_RAW_BLOCKS_MAX)
        return NULL;
    block = &batch->blocks[batch->block_count++];
    event->count++;
    *block = (struct wire_raw_block){.media = batch->media_count};
    return block;
}

/* One more multimodal object of `block`, which must be the last to have got one, sorted in. */
static inline bool
wire_raw_builder_media(struct wire_raw_batch *batch, struct wire_raw_block *block, uint64_t hash)
{
    uint32_t at;

    if (batch->media_count == WIRE_RAW_MEDIA_MAX || block->media_count == WIRE_RAW_BLOCK_MEDIA_MAX)
        return false;
    if (block->media_count == 0)
        block->media = batch->media_count;
    for (at = batch->media_count; at > block->media && batch->media[at - 1] > hash; at--)
        batch->media[at] = batch->media[at - 1];
    batch->media[at] = hash;
    batch->media_count++;
    block->media_count++;
    return true;
}

static inline bool
wire_raw_builder_token(struct wire_raw_batch *batch, uint32_t token)
{
    if (batch->token_count == WIRE_RAW_TOKENS_MAX)
        return false;
    batch->token_ids[batch->token_count++] = token;
    return true;
}

#endif /* WIRE_DIALECT_RAW_BUILDER_H */
