#include <assert.h>
#include <string.h>

#include "advisor/store/event_log_private.h"

/* Rows come from a disk: whatever they say is checked before it is followed. */

enum kvt_err
advisor_event_log_open(struct advisor_event_log_reader *reader, const void *row, size_t size)
{
    struct advisor_event_log_row about;

    assert((uintptr_t)row % sizeof(uint64_t) == 0);
    *reader = (struct advisor_event_log_reader){0};
    if (size < sizeof(about) || size > ADVISOR_EVENT_LOG_ROW_MAX || size % sizeof(uint64_t) != 0)
        return KVT_CORRUPT;
    memcpy(&about, row, sizeof(about));
    if (about.bytes != size || about.crc != advisor_event_log_crc(row, size))
        return KVT_CORRUPT;
    reader->at = (const uint8_t *)row + sizeof(about);
    reader->end = (const uint8_t *)row + size;
    return KVT_OK;
}

/* The next `count` words; NULL: there are fewer. */
static const uint64_t *
take(struct advisor_event_log_reader *reader, size_t count)
{
    const uint64_t *words = (const void *)reader->at;

    if ((size_t)(reader->end - reader->at) / sizeof(*words) < count)
        return NULL;
    reader->at += count * sizeof(*words);
    return words;
}

/* The place of an operation: its own, or that of the one before. */
static bool
take_place(struct advisor_event_log_reader *reader, const struct advisor_event_log_head *head)
{
    const uint64_t *words;

    if ((head->flags & ADVISOR_EVENT_LOG_CONTEXT) == 0)
        return reader->placed;
    words = take(reader, sizeof(reader->place) / sizeof(*words));
    if (words == NULL)
        return false;
    memcpy(&reader->place, words, sizeof(reader->place));
    reader->placed = true;
    return true;
}

/* Consecutive blocks: parent, hashes, token hashes. */
static bool
take_blocks(struct advisor_event_log_reader *reader, const struct advisor_event_log_head *head,
            struct advisor_event_log_op *op)
{
    const bool tokens = (head->flags & ADVISOR_EVENT_LOG_TOKENS) != 0;
    const uint64_t *words;

    if (head->count == 0 || head->position > UINT32_MAX - head->count)
        return false;
    words = take(reader, 1 + head->count * (tokens ? 2u : 1u));
    if (words == NULL)
        return false;
    op->parent = words[0];
    op->hashes = words + 1;
    op->tokens = tokens ? words + 1 + head->count : NULL;
    op->position = head->position;
    op->place = reader->place;
    return true;
}

static bool
take_run(struct advisor_event_log_reader *reader, const struct advisor_event_log_head *head,
         struct advisor_event_log_op *op)
{
    if (!take_blocks(reader, head, op))
        return false;
    op->place.holder = 0;
    op->place.ranks = 0;
    reader->run = *op;
    return true;
}

/* A piece of the last RUN, as the STORE it stands for. */
static bool
take_hold(struct advisor_event_log_reader *reader, const struct advisor_event_log_head *head,
          struct advisor_event_log_op *op)
{
    const struct advisor_event_log_op *run = &reader->run;
    const uint32_t from = head->position;
    const uint64_t *words = take(reader, 1);
    struct advisor_event_log_hold hold;

    if (words == NULL || head->flags != 0 || head->count == 0 || from >= run->count ||
        head->count > run->count - from)
        return false;
    memcpy(&hold, words, sizeof(hold));
    op->kind = ADVISOR_EVENT_LOG_STORE;
    op->position = run->position + from;
    op->parent = from == 0 ? run->parent : run->hashes[from - 1];
    op->hashes = run->hashes + from;
    op->tokens = run->tokens == NULL ? NULL : run->tokens + from;
    op->place = run->place;
    op->place.holder = hold.holder;
    op->place.ranks = hold.ranks;
    return true;
}

static bool
take_remove(struct advisor_event_log_reader *reader, const struct advisor_event_log_head *head,
            struct advisor_event_log_op *op)
{
    op->hashes = take(reader, head->count);
    op->place = reader->place;
    op->place.size = 0;
    return op->hashes != NULL && head->count > 0 && head->position == 0;
}

static bool
take_drop(const struct advisor_event_log_reader *reader, const struct advisor_event_log_head *head,
          struct advisor_event_log_op *op)
{
    op->place =
        (struct advisor_event_log_place){.holder = reader->place.holder, .ns = reader->place.ns};
    return head->count == 0 && head->position == 0;
}

static bool
take_op(struct advisor_event_log_reader *reader, struct advisor_event_log_op *op)
{
    const struct advisor_event_log_head *head = (const void *)take(reader, 1);
    unsigned flags = ADVISOR_EVENT_LOG_CONTEXT;

    if (head->kind == ADVISOR_EVENT_LOG_STORE || head->kind == ADVISOR_EVENT_LOG_RUN)
        flags |= ADVISOR_EVENT_LOG_TOKENS;
    if ((head->flags & ~flags) != 0 || head->count > ADVISOR_EVENT_LOG_BLOCKS_MAX ||
        !take_place(reader, head))
        return false;
    op->kind = head->kind;
    op->count = head->count;
    switch (op->kind) {
    case ADVISOR_EVENT_LOG_STORE: return take_blocks(reader, head, op);
    case ADVISOR_EVENT_LOG_REMOVE: return take_remove(reader, head, op);
    case ADVISOR_EVENT_LOG_DROP: return take_drop(reader, head, op);
    case ADVISOR_EVENT_LOG_RUN: return take_run(reader, head, op);
    case ADVISOR_EVENT_LOG_HOLD: return take_hold(reader, head, op);
    }
    return false;
}

enum kvt_err
advisor_event_log_next(struct advisor_event_log_reader *reader, struct advisor_event_log_op *op)
{
    const uint8_t *const at = reader->at;

    *op = (struct advisor_event_log_op){0};
    if (at == reader->end)
        return KVT_NOTFOUND;
    if (take_op(reader, op))
        return KVT_OK;
    *op = (struct advisor_event_log_op){0};
    reader->at = at; /* asked again, it says the same */
    return KVT_CORRUPT;
}
