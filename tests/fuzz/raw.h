/*
 * tests/fuzz/raw.h -- what holds for any raw batch that a decoder called good.
 *
 * Why: fuzz targets and unit tests of every dialect ask for the same promises of raw_batch.h.
 * Threads:   one.
 * Limits:    as raw_batch.h.
 */
#ifndef TESTS_FUZZ_RAW_H
#define TESTS_FUZZ_RAW_H

#include <assert.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "wire/dialect/raw_batch.h"

static inline void
raw_assert_empty(const struct wire_raw_batch *batch)
{
    assert(batch->event_count == 0 && batch->block_count == 0);
    assert(batch->token_count == 0 && batch->media_count == 0);
    assert(!batch->has_sequence && batch->publisher == 0 && batch->sequence == 0);
    assert(batch->worker[0] == '\0' && batch->namespace_[0] == '\0' && batch->holder[0] == '\0');
}

static inline void
raw_assert_blocks(const struct wire_raw_batch *batch, const struct wire_raw_event *event)
{
    assert(event->first <= batch->block_count && event->count <= batch->block_count - event->first);
    for (uint32_t i = 0; i < event->count; i++) {
        const struct wire_raw_block *block = &batch->blocks[event->first + i];

        assert(block->media_count <= WIRE_RAW_BLOCK_MEDIA_MAX);
        if (block->media_count == 0)
            continue;
        assert(block->media <= batch->media_count);
        assert(block->media_count <= batch->media_count - block->media);
        for (uint32_t j = 1; j < block->media_count; j++)
            assert(batch->media[block->media + j - 1] <= batch->media[block->media + j]);
    }
    assert(!event->pairs || event->block_tokens > 0);
    if (event->block_tokens > 0) {
        assert(event->tokens <= batch->token_count);
        assert((uint64_t)event->count * wire_raw_window(event) <=
               batch->token_count - event->tokens);
    }
}

static inline void
raw_assert_event(const struct wire_raw_batch *batch, const struct wire_raw_event *event)
{
    assert((unsigned)event->kind <= WIRE_RAW_SKIP);
    assert((unsigned)event->why < WIRE_RAW_WHY_COUNT);
    assert((unsigned)event->tier <= KVT_TIER_G4);
    raw_assert_blocks(batch, event);
    if (event->kind == WIRE_RAW_SKIP) {
        assert(event->count == 0 && event->block_tokens == 0);
        return;
    }
    assert(event->why == WIRE_RAW_FINE && !event->unnumbered);
    assert(event->tier != WIRE_RAW_TIER_ALL || event->kind == WIRE_RAW_CLEAR);
    assert(event->kind == WIRE_RAW_STORE || event->block_tokens == 0);
    assert(event->kind == WIRE_RAW_STORE || event->kind == WIRE_RAW_REMOVE || event->count == 0);
    assert(event->position == WIRE_RAW_POSITION_UNKNOWN || !event->has_parent ||
           event->position > 0);
}

/** Everything raw_batch.h promises of a batch that is to be used. */
static inline void
raw_assert_good(const struct wire_raw_batch *batch)
{
    assert(batch->event_count <= WIRE_RAW_EVENTS_MAX && batch->block_count <= WIRE_RAW_BLOCKS_MAX);
    assert(batch->token_count <= WIRE_RAW_TOKENS_MAX && batch->media_count <= WIRE_RAW_MEDIA_MAX);
    assert(memchr(batch->worker, 0, sizeof(batch->worker)) != NULL);
    assert(memchr(batch->namespace_, 0, sizeof(batch->namespace_)) != NULL);
    assert(memchr(batch->holder, 0, sizeof(batch->holder)) != NULL);
    for (uint32_t i = 0; i < batch->event_count; i++)
        raw_assert_event(batch, &batch->events[i]);
}

/** Refused as it should be, or good. */
static inline void
raw_assert_answer(enum kvt_err rc, const struct kvt_error *err, const struct wire_raw_batch *batch)
{
    if (rc == KVT_OK) {
        raw_assert_good(batch);
        return;
    }
    assert(rc == KVT_INVALID || rc == KVT_RANGE);
    assert(err->text[0] != '\0');
    raw_assert_empty(batch);
}

/** One batch for all inputs of a target. */
static inline struct wire_raw_batch *
raw_batch(void)
{
    static struct wire_raw_batch *batch;

    if (batch == NULL && wire_raw_batch_new(&batch) != KVT_OK)
        abort();
    return batch;
}

#endif /* TESTS_FUZZ_RAW_H */
