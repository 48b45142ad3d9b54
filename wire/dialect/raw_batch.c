#include "wire/dialect/raw_batch.h"

#include "base/core/alloc.h"

enum kvt_err
wire_raw_batch_new(struct wire_raw_batch **out)
{
    struct wire_raw_batch *batch = kvt_calloc(1, sizeof(*batch));

    *out = NULL;
    if (batch == NULL)
        return KVT_NOMEM;
    batch->events = kvt_calloc(WIRE_RAW_EVENTS_MAX, sizeof(*batch->events));
    batch->blocks = kvt_calloc(WIRE_RAW_BLOCKS_MAX, sizeof(*batch->blocks));
    batch->token_ids = kvt_calloc(WIRE_RAW_TOKENS_MAX, sizeof(*batch->token_ids));
    batch->media = kvt_calloc(WIRE_RAW_MEDIA_MAX, sizeof(*batch->media));
    if (batch->events == NULL || batch->blocks == NULL || batch->token_ids == NULL ||
        batch->media == NULL) {
        wire_raw_batch_free(batch);
        return KVT_NOMEM;
    }
    *out = batch;
    return KVT_OK;
}

void
wire_raw_batch_free(struct wire_raw_batch *batch)
{
    if (batch == NULL)
        return;
    kvt_free(batch->events);
    kvt_free(batch->blocks);
    kvt_free(batch->token_ids);
    kvt_free(batch->media);
    kvt_free(batch);
}

void
wire_raw_batch_clear(struct wire_raw_batch *batch)
{
    /* The texts are empty when they begin with a NUL; the arrays keep what they had. */
    batch->worker[0] = '\0';
    batch->namespace_[0] = '\0';
    batch->holder[0] = '\0';
    batch->publisher = 0;
    batch->sequence = 0;
    batch->time_ms = 0;
    batch->has_sequence = false;
    batch->sequence_numbers_events = false;
    batch->event_count = 0;
    batch->block_count = 0;
    batch->token_count = 0;
    batch->media_count = 0;
}
