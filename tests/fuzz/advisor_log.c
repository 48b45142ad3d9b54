/*
 * Property: any bytes are refused as a row, or as the operations of a sound one are refused or read
 * to their end, and lie within it; and what was read is the same when written and read again.
 */
#include <assert.h>
#include <isa-l/crc.h>
#include <string.h>

#include "advisor/store/event_log.h"
#include "base/core/alloc.h"

#include "tests/fuzz/target.h"

enum { ROW_HEAD = 8 };

/* What operations come to, block by block, however they are cut; RUNs may be said again. */
struct tale {
    uint64_t digest;
    size_t entries;
};

static void
tell_word(struct tale *tale, uint64_t word)
{
    tale->digest = (tale->digest ^ word) * UINT64_C(0x9e3779b97f4a7c15);
    tale->digest ^= tale->digest >> 29;
}

static void
tell(struct tale *tale, const struct advisor_event_log_op *op)
{
    const uint32_t count = op->kind == ADVISOR_EVENT_LOG_DROP ? 1 : op->count;

    for (uint32_t i = 0; i < count && op->kind != ADVISOR_EVENT_LOG_RUN; i++) {
        const bool chained = op->kind == ADVISOR_EVENT_LOG_STORE;

        tell_word(tale, (uint64_t)op->kind);
        tell_word(tale, op->place.size);
        tell_word(tale, (uint64_t)op->place.holder << 32 | op->place.ns);
        tell_word(tale, (uint64_t)op->place.ranks << 32 | op->place.time_s);
        tell_word(tale, op->position + (chained ? i : 0));
        tell_word(tale, chained && i > 0 ? op->hashes[i - 1] : op->parent);
        tell_word(tale, op->count == 0 ? 0 : op->hashes[i]);
        tell_word(tale, op->tokens == NULL ? 0 : op->tokens[i]);
        tale->entries++;
    }
}

static void
write_again(struct advisor_event_log *log, const struct advisor_event_log_op *op,
            const struct advisor_event_log_op *run)
{
    const bool held = op->kind == ADVISOR_EVENT_LOG_STORE && run->count > 0 &&
                      op->hashes >= run->hashes && op->hashes < run->hashes + run->count;
    enum kvt_err rc = KVT_OK;

    if (op->kind == ADVISOR_EVENT_LOG_RUN)
        rc = advisor_event_log_run(log, &op->place, op->parent, op->position, op->hashes,
                                   op->tokens, op->count);
    else if (op->kind == ADVISOR_EVENT_LOG_REMOVE)
        rc = advisor_event_log_remove(log, &op->place, op->hashes, op->count);
    else if (op->kind == ADVISOR_EVENT_LOG_DROP)
        rc = advisor_event_log_drop(log, op->place.holder, op->place.ns);
    else if (held)
        rc = advisor_event_log_hold(log, op->place.holder, op->place.ranks,
                                    (uint32_t)(op->hashes - run->hashes), op->count);
    else
        rc = advisor_event_log_store(log, &op->place, op->parent, op->position, op->hashes,
                                     op->tokens, op->count);
    assert(rc == KVT_OK);
    (void)rc;
}

static void
assert_within(const struct advisor_event_log_op *op, const uint8_t *row, size_t size)
{
    const uint8_t *hashes = (const uint8_t *)op->hashes;
    const uint8_t *tokens = (const uint8_t *)op->tokens;
    const size_t bytes = op->count * sizeof(uint64_t);

    assert(op->kind >= ADVISOR_EVENT_LOG_STORE && op->kind <= ADVISOR_EVENT_LOG_RUN);
    assert(op->count <= ADVISOR_EVENT_LOG_BLOCKS_MAX && op->position <= UINT32_MAX - op->count);
    assert((op->count == 0) == (op->kind == ADVISOR_EVENT_LOG_DROP));
    assert(op->count == 0 || (hashes > row && bytes <= (size_t)(row + size - hashes)));
    assert(tokens == NULL || (tokens > row && bytes <= (size_t)(row + size - tokens)));
}

/* All of a sound row; `log`, unless it is NULL, gets what was read. */
static void
read_row(const uint8_t *row, size_t size, struct tale *tale, struct advisor_event_log *log)
{
    struct advisor_event_log_op run = {0};
    struct advisor_event_log_reader reader;
    struct advisor_event_log_op op;
    size_t ops = 0;
    enum kvt_err rc = advisor_event_log_open(&reader, row, size);

    assert(rc == KVT_OK);
    while ((rc = advisor_event_log_next(&reader, &op)) == KVT_OK) {
        ops++;
        assert(ops <= size / 8);
        assert_within(&op, row, size);
        if (op.kind == ADVISOR_EVENT_LOG_RUN)
            run = op;
        if (log != NULL)
            write_again(log, &op, &run);
        tell(tale, &op);
    }
    assert(rc == KVT_NOTFOUND || (rc == KVT_CORRUPT && log != NULL));
    assert(advisor_event_log_next(&reader, &op) == rc);
}

static void
try_operations(const uint8_t *bytes, size_t size)
{
    const uint32_t total = ROW_HEAD + (uint32_t)size;
    uint8_t *row = kvt_calloc(total, 1);
    struct tale again = {0};
    struct tale tale = {0};
    struct advisor_event_log *log;
    enum kvt_err rc = advisor_event_log_new(&log);
    const void *made;
    uint32_t crc;

    assert(row != NULL && rc == KVT_OK);
    (void)rc;
    memcpy(row + ROW_HEAD, bytes, size);
    memcpy(row + 4, &total, sizeof(total));
    crc = ~crc32_iscsi(row + 4, (int)total - 4, UINT32_MAX);
    memcpy(row, &crc, sizeof(crc));
    read_row(row, total, &tale, log);
    kvt_free(row);
    for (size_t at = 0; advisor_event_log_row(log, at, &made, &size); at++)
        read_row(made, size, &again, NULL);
    assert(again.entries == tale.entries && again.digest == tale.digest);
    advisor_event_log_free(log);
}

int
LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    uint8_t *row = kvt_aligned(8, size + 8);
    struct advisor_event_log_reader reader;
    enum kvt_err rc;

    assert(row != NULL);
    if (size > 0)
        memcpy(row, bytes, size);
    rc = advisor_event_log_open(&reader, row, size);
    assert(rc == KVT_OK || rc == KVT_CORRUPT);
    kvt_free(row);
    size -= size % 8;
    if (size > 0 && size <= ADVISOR_EVENT_LOG_ROW_MAX - ROW_HEAD)
        try_operations(bytes, size);
    return 0;
}
