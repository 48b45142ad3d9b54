#include "advisor/store/event_log.h"

#include <assert.h>
#include <string.h>

#include "advisor/store/event_log_private.h"
#include "base/core/alloc.h"

enum {
    ROW = sizeof(struct advisor_event_log_row),
    HEAD = sizeof(struct advisor_event_log_head),
    PLACE = sizeof(struct advisor_event_log_place),
    HOLD = sizeof(struct advisor_event_log_hold),
    WORD = sizeof(uint64_t),
};

/* The operation that may still grow; it lies behind what is closed.  Its token hashes come behind
 * hashes that grow too, so they wait beside the row. */
struct open {
    uint64_t last; /* STORE: the hash, and the position, that goes on */
    size_t at;     /* of its first hash */
    uint32_t next;
    uint32_t count;
    uint32_t limit;
    bool tokens;
    enum advisor_event_log_kind kind; /* 0: none is open */
};

/* The last RUN, for a row that must begin with it again. */
struct run {
    struct advisor_event_log_place place;
    size_t row;
    size_t at; /* of its parent in that row; its hashes and token hashes follow */
    uint32_t position;
    uint32_t count; /* 0: there is none */
    bool tokens;
};

struct advisor_event_log {
    uint8_t *rows; /* ADVISOR_EVENT_LOG_ROW_MAX bytes each */
    uint8_t *row;  /* the last one */
    size_t row_count;
    size_t row_capacity;
    size_t sealed_bytes; /* of all rows but the last */
    size_t end;          /* of the closed operations of the last */
    size_t count;
    struct advisor_event_log_place place; /* that the next operation of the row need not repeat */
    struct open open;
    struct run run;
    uint64_t tokens[ADVISOR_EVENT_LOG_BLOCKS_MAX];
};

enum kvt_err
advisor_event_log_new(struct advisor_event_log **out)
{
    *out = kvt_calloc(1, sizeof(**out));
    return *out == NULL ? KVT_NOMEM : KVT_OK;
}

void
advisor_event_log_free(struct advisor_event_log *log)
{
    if (log == NULL)
        return;
    kvt_free(log->rows);
    kvt_free(log);
}

void
advisor_event_log_clear(struct advisor_event_log *log)
{
    log->row = NULL;
    log->row_count = 0;
    log->sealed_bytes = 0;
    log->end = 0;
    log->count = 0;
    log->place = (struct advisor_event_log_place){0};
    log->open = (struct open){0};
    log->run = (struct run){0};
}

void
advisor_event_log_swap(struct advisor_event_log *a, struct advisor_event_log *b)
{
    const struct advisor_event_log was = *a;

    *a = *b;
    *b = was;
}

/* ---- rows ---- */

/* So many more rows can be begun. */
static enum kvt_err
reserve(struct advisor_event_log *log, size_t more)
{
    uint8_t *rows =
        kvt_grow(log->rows, &log->row_capacity, log->row_count + more, ADVISOR_EVENT_LOG_ROW_MAX);

    if (rows == NULL)
        return KVT_NOMEM;
    log->rows = rows;
    if (log->row_count > 0)
        log->row = rows + (log->row_count - 1) * ADVISOR_EVENT_LOG_ROW_MAX;
    return KVT_OK;
}

static size_t
open_end(const struct advisor_event_log *log)
{
    const struct open *open = &log->open;

    if (open->kind == 0)
        return log->end;
    return open->at + open->count * (open->tokens ? 2 * (size_t)WORD : WORD);
}

/* Write what of the open operation waits beside the row.  It may grow on. */
static size_t
finish(const struct advisor_event_log *log)
{
    const struct open *open = &log->open;
    const size_t size = open->count * WORD;
    struct advisor_event_log_head *head;

    if (open->kind == 0)
        return log->end;
    head = (void *)(log->row + log->end);
    head->count = (uint16_t)open->count;
    if (open->tokens)
        memcpy(log->row + open->at + size, log->tokens, size);
    return open_end(log);
}

static void
end_open(struct advisor_event_log *log)
{
    log->end = finish(log);
    log->open.kind = 0;
}

/* Make the last row one that can be read; it may grow on. */
static size_t
seal(const struct advisor_event_log *log)
{
    struct advisor_event_log_row row = {.bytes = (uint32_t)finish(log)};

    memcpy(log->row, &row, sizeof(row));
    row.crc = advisor_event_log_crc(log->row, row.bytes);
    memcpy(log->row, &row, sizeof(row));
    return row.bytes;
}

/* The caller has reserved it. */
static void
next_row(struct advisor_event_log *log)
{
    assert(log->row_count < log->row_capacity && log->open.kind == 0);
    if (log->row_count > 0)
        log->sealed_bytes += seal(log);
    log->row = log->rows + log->row_count * ADVISOR_EVENT_LOG_ROW_MAX;
    log->row_count++;
    log->end = ROW;
}

/* ---- operations ---- */

static bool
same_holder(const struct advisor_event_log_place *a, const struct advisor_event_log_place *b)
{
    return a->holder == b->holder && a->ns == b->ns && a->ranks == b->ranks &&
           a->time_s == b->time_s;
}

static bool
same_place(const struct advisor_event_log_place *a, const struct advisor_event_log_place *b)
{
    return a->size == b->size && same_holder(a, b);
}

/* Begin an operation in a row that has `room` bytes for what is behind its place; they begin at
 * the offset that is returned. */
static size_t
begin(struct advisor_event_log *log, struct advisor_event_log_head head,
      const struct advisor_event_log_place *place, size_t room)
{
    uint8_t *to;
    bool context;

    end_open(log);
    context = log->end <= ROW || !same_place(place, &log->place);
    if (log->row_count == 0 ||
        log->end + HEAD + (context ? PLACE : 0) + room > ADVISOR_EVENT_LOG_ROW_MAX) {
        next_row(log);
        context = true;
    }
    head.flags |= context ? ADVISOR_EVENT_LOG_CONTEXT : 0;
    to = log->row + log->end;
    memcpy(to, &head, HEAD);
    if (!context)
        return log->end + HEAD;
    memcpy(to + HEAD, place, PLACE);
    log->place = *place;
    return log->end + HEAD + PLACE;
}

static bool
any(const uint64_t *tokens, size_t count)
{
    uint64_t all = 0;

    for (size_t i = 0; tokens != NULL && i < count; i++)
        all |= tokens[i];
    return all != 0;
}

/* ---- STORE ---- */

static void
begin_store(struct advisor_event_log *log, const struct advisor_event_log_place *place,
            uint64_t parent, uint32_t position, bool tokens)
{
    const struct advisor_event_log_head head = {.kind = ADVISOR_EVENT_LOG_STORE,
                                                .flags = tokens ? ADVISOR_EVENT_LOG_TOKENS : 0,
                                                .position = position};
    const size_t at = begin(log, head, place, tokens ? 3 * WORD : 2 * WORD);
    const size_t words = (ADVISOR_EVENT_LOG_ROW_MAX - at - WORD) / WORD;
    const size_t limit = tokens ? words / 2 : words;

    memcpy(log->row + at, &parent, WORD);
    log->open = (struct open){
        .at = at + WORD,
        .next = position,
        .limit =
            limit < ADVISOR_EVENT_LOG_BLOCKS_MAX ? (uint32_t)limit : ADVISOR_EVENT_LOG_BLOCKS_MAX,
        .tokens = tokens,
        .kind = ADVISOR_EVENT_LOG_STORE,
    };
}

static bool
goes_on(const struct advisor_event_log *log, const struct advisor_event_log_place *place,
        uint64_t parent, uint32_t position, bool tokens)
{
    const struct open *open = &log->open;

    return open->kind == ADVISOR_EVENT_LOG_STORE && open->last == parent &&
           open->next == position && parent != 0 && (open->tokens || !tokens) &&
           same_place(place, &log->place);
}

/* The open operation has room for them. */
static inline void
add_blocks(struct advisor_event_log *log, const uint64_t *hashes, const uint64_t *tokens,
           size_t count)
{
    struct open *open = &log->open;
    uint64_t *to = (void *)(log->row + open->at);

    for (size_t i = 0; i < count; i++) {
        to[open->count + i] = hashes[i];
        log->tokens[open->count + i] = tokens == NULL ? 0 : tokens[i];
    }
    open->count += (uint32_t)count;
    open->next += (uint32_t)count;
    open->last = hashes[count - 1];
}

/* Blocks that the open operation has no room for, or that begin another: kept out of the short way
 * that most calls go. */
static __attribute__((noinline)) enum kvt_err
store_pieces(struct advisor_event_log *log, const struct advisor_event_log_place *place,
             uint64_t parent, uint32_t position, const uint64_t *hashes, const uint64_t *tokens,
             size_t count, bool more)
{
    struct open *open = &log->open;

    /* A row of its own has room for ADVISOR_EVENT_LOG_BLOCKS_MAX blocks at least. */
    if (reserve(log, count / ADVISOR_EVENT_LOG_BLOCKS_MAX + 1) != KVT_OK)
        return KVT_NOMEM;
    for (size_t i = 0; i < count; more = true) {
        size_t piece = count - i;

        if (!more || open->count == open->limit)
            begin_store(log, place, i == 0 ? parent : hashes[i - 1], position + (uint32_t)i,
                        tokens != NULL);
        if (piece > open->limit - open->count)
            piece = open->limit - open->count;
        add_blocks(log, hashes + i, tokens == NULL ? NULL : tokens + i, piece);
        i += piece;
    }
    log->count += count;
    return KVT_OK;
}

enum kvt_err
advisor_event_log_store(struct advisor_event_log *log, const struct advisor_event_log_place *place,
                        uint64_t parent, uint32_t position, const uint64_t *hashes,
                        const uint64_t *tokens, size_t count)
{
    const uint64_t *known = any(tokens, count) ? tokens : NULL;
    const bool more = goes_on(log, place, parent, position, known != NULL);

    assert(count <= UINT32_MAX - position);
    if (count == 0)
        return KVT_OK;
    if (!more || count > log->open.limit - log->open.count)
        return store_pieces(log, place, parent, position, hashes, known, count, more);
    add_blocks(log, hashes, known, count);
    log->count += count;
    return KVT_OK;
}

/* ---- REMOVE, DROP ---- */

static void
begin_remove(struct advisor_event_log *log, const struct advisor_event_log_place *place)
{
    const struct advisor_event_log_head head = {.kind = ADVISOR_EVENT_LOG_REMOVE};
    struct advisor_event_log_place made = *place;
    size_t limit;
    size_t at;

    made.size = log->place.size; /* it is of no size: none need be written */
    at = begin(log, head, &made, WORD);
    limit = (ADVISOR_EVENT_LOG_ROW_MAX - at) / WORD;
    log->open = (struct open){
        .at = at,
        .limit =
            limit < ADVISOR_EVENT_LOG_BLOCKS_MAX ? (uint32_t)limit : ADVISOR_EVENT_LOG_BLOCKS_MAX,
        .kind = ADVISOR_EVENT_LOG_REMOVE,
    };
}

enum kvt_err
advisor_event_log_remove(struct advisor_event_log *log, const struct advisor_event_log_place *place,
                         const uint64_t *hashes, size_t count)
{
    struct open *open = &log->open;
    bool more = open->kind == ADVISOR_EVENT_LOG_REMOVE && same_holder(place, &log->place);

    if (reserve(log, count / ADVISOR_EVENT_LOG_BLOCKS_MAX + 1) != KVT_OK)
        return KVT_NOMEM;
    for (size_t i = 0; i < count; more = true) {
        size_t piece = count - i;

        if (!more || open->count == open->limit)
            begin_remove(log, place);
        if (piece > open->limit - open->count)
            piece = open->limit - open->count;
        add_blocks(log, hashes + i, NULL, piece);
        i += piece;
    }
    log->count += count;
    return KVT_OK;
}

enum kvt_err
advisor_event_log_drop(struct advisor_event_log *log, uint32_t holder, uint32_t ns)
{
    const struct advisor_event_log_head head = {.kind = ADVISOR_EVENT_LOG_DROP};
    struct advisor_event_log_place place = log->place;

    if (reserve(log, 1) != KVT_OK)
        return KVT_NOMEM;
    place.holder = holder;
    place.ns = ns;
    log->end = begin(log, head, &place, 0);
    log->count++;
    return KVT_OK;
}

/* ---- RUN, HOLD ---- */

static void
put_run(struct advisor_event_log *log, const struct run *run, uint64_t parent,
        const uint64_t *hashes, const uint64_t *tokens)
{
    const size_t size = run->count * WORD;
    const struct advisor_event_log_head head = {.kind = ADVISOR_EVENT_LOG_RUN,
                                                .flags = run->tokens ? ADVISOR_EVENT_LOG_TOKENS : 0,
                                                .count = (uint16_t)run->count,
                                                .position = run->position};
    const size_t room = WORD + size + (run->tokens ? size : 0);
    struct advisor_event_log_place place = run->place;
    size_t at;

    place.holder = log->place.holder; /* HOLDs say who */
    place.ranks = log->place.ranks;
    at = begin(log, head, &place, room);
    memcpy(log->row + at, &parent, WORD);
    memcpy(log->row + at + WORD, hashes, size);
    if (run->tokens)
        memcpy(log->row + at + WORD + size, tokens, size);
    log->end = at + room;
    log->run = *run;
    log->run.row = log->row_count - 1;
    log->run.at = at;
}

enum kvt_err
advisor_event_log_run(struct advisor_event_log *log, const struct advisor_event_log_place *place,
                      uint64_t parent, uint32_t position, const uint64_t *hashes,
                      const uint64_t *tokens, size_t count)
{
    const struct run run = {.place = *place,
                            .position = position,
                            .count = (uint32_t)count,
                            .tokens = any(tokens, count)};

    assert(count > 0 && count <= ADVISOR_EVENT_LOG_BLOCKS_MAX && count <= UINT32_MAX - position);
    if (reserve(log, 1) != KVT_OK)
        return KVT_NOMEM;
    put_run(log, &run, parent, hashes, tokens);
    return KVT_OK;
}

/* Write the last RUN once more, at the beginning of a row. */
static void
repeat_run(struct advisor_event_log *log)
{
    const struct run run = log->run;
    const uint8_t *from = log->rows + run.row * ADVISOR_EVENT_LOG_ROW_MAX + run.at;
    const uint64_t *words = (const void *)from;

    end_open(log);
    next_row(log);
    put_run(log, &run, words[0], words + 1, words + 1 + run.count);
}

enum kvt_err
advisor_event_log_hold(struct advisor_event_log *log, uint32_t holder, uint32_t ranks,
                       uint32_t from, uint32_t count)
{
    const struct advisor_event_log_head head = {
        .kind = ADVISOR_EVENT_LOG_HOLD, .count = (uint16_t)count, .position = from};
    const struct advisor_event_log_hold hold = {.holder = holder, .ranks = ranks};

    assert(count > 0 && from < log->run.count && count <= log->run.count - from);
    if (reserve(log, 1) != KVT_OK)
        return KVT_NOMEM;
    end_open(log);
    if (log->run.row != log->row_count - 1 || log->end + HEAD + HOLD > ADVISOR_EVENT_LOG_ROW_MAX)
        repeat_run(log);
    memcpy(log->row + log->end, &head, HEAD);
    memcpy(log->row + log->end + HEAD, &hold, HOLD);
    log->end += HEAD + HOLD;
    return KVT_OK;
}

/* ---- what there is ---- */

size_t
advisor_event_log_count(const struct advisor_event_log *log)
{
    return log->count;
}

size_t
advisor_event_log_bytes(const struct advisor_event_log *log)
{
    return log->sealed_bytes + (log->row_count == 0 ? 0 : open_end(log));
}

bool
advisor_event_log_row(const struct advisor_event_log *log, size_t at, const void **bytes,
                      size_t *size)
{
    const struct advisor_event_log_row *row;

    *bytes = NULL;
    *size = 0;
    if (at >= log->row_count)
        return false;
    if (at == log->row_count - 1)
        (void)seal(log);
    row = (const void *)(log->rows + at * ADVISOR_EVENT_LOG_ROW_MAX);
    *bytes = row;
    *size = row->bytes;
    return true;
}
