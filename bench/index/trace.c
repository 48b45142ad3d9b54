#include "bench/index/trace.h"

#include <stdbool.h>

#include "base/core/alloc.h"
#include "wire/message/trace.h"

#include "bench/index/corpus.h"

#define TRACE_STREAM (UINT64_C(1) << 61)

static uint32_t
block_count(const struct trace *trace, size_t request)
{
    const size_t line = request / trace->options.copies;

    return (trace->starts[line + 1] - trace->starts[line]) * trace->options.length;
}

/* Block `at` of a request: the id it became when the trace was made longer and copied. */
static uint32_t
block_id(const struct trace *trace, size_t request, uint32_t at)
{
    const size_t line = request / trace->options.copies;
    const uint32_t copy = (uint32_t)(request % trace->options.copies);
    const uint32_t id = trace->ids[trace->starts[line] + at / trace->options.length];

    return copy * trace->span + id * trace->options.length + at % trace->options.length;
}

uint32_t
trace_locals(const struct trace *trace, size_t request, uint64_t *locals)
{
    const uint32_t count = block_count(trace, request);

    for (uint32_t i = 0; i < count; i++)
        locals[i] =
            corpus_local(trace->options.seed, TRACE_STREAM | block_id(trace, request, i), 0);
    return count;
}

static enum kvt_err
add_line(struct trace *trace, const struct wire_trace_request *request, size_t *room,
         size_t *line_room)
{
    const uint32_t start = trace->lines == 0 ? 0 : trace->starts[trace->lines];

    if (start + request->hash_count > *room) {
        const size_t more = 2 * (*room + request->hash_count);
        uint32_t *ids = kvt_realloc(trace->ids, more, sizeof(*ids));

        if (ids == NULL)
            return KVT_NOMEM;
        trace->ids = ids;
        *room = more;
    }
    if (trace->lines + 2 > *line_room) {
        const size_t more = 2 * *line_room + 1024;
        uint32_t *starts = kvt_realloc(trace->starts, more, sizeof(*starts));

        if (starts == NULL)
            return KVT_NOMEM;
        trace->starts = starts;
        *line_room = more;
    }
    for (uint32_t i = 0; i < request->hash_count; i++) {
        const uint32_t id = (uint32_t)request->hash_ids[i];

        trace->ids[start + i] = id;
        if (id >= trace->span)
            trace->span = id + 1;
    }
    trace->starts[trace->lines] = start;
    trace->starts[++trace->lines] = start + request->hash_count;
    return KVT_OK;
}

static enum kvt_err
read_lines(struct trace *trace, struct kvt_error *err)
{
    struct wire_trace *reader = NULL;
    struct wire_trace_request request;
    size_t room = 0;
    size_t line_room = 0;
    enum kvt_err rc = wire_trace_open(&reader, trace->options.path, err);

    while (rc == KVT_OK) {
        rc = wire_trace_next(reader, &request, err);
        if (rc == KVT_OK && request.hash_count > 0)
            rc = add_line(trace, &request, &room, &line_room);
    }
    wire_trace_close(reader);
    trace->span *= trace->options.length;
    return rc == KVT_NOTFOUND ? KVT_OK : rc;
}

static void
expect_scores(const struct trace *trace, const uint64_t *holders, size_t number)
{
    struct trace_request *request = &trace->requests[number];
    const uint32_t count = block_count(trace, number);
    uint64_t all = UINT64_MAX;

    for (uint32_t i = 0; i < count && all != 0; i++) {
        all &= holders[block_id(trace, number, i)];
        request->scores += (uint64_t)__builtin_popcountll(all);
    }
}

static void
expect_store(const struct trace *trace, uint64_t *holders, size_t number)
{
    struct trace_request *request = &trace->requests[number];
    const uint64_t bit = UINT64_C(1) << request->worker;
    const uint32_t count = block_count(trace, number);

    while (request->has < count && (holders[block_id(trace, number, request->has)] & bit) != 0)
        request->has++;
    for (uint32_t i = request->has; i < count; i++)
        holders[block_id(trace, number, i)] |= bit;
}

/* One bit a worker for each block. */
static enum kvt_err
expect(struct trace *trace)
{
    uint64_t *holders = kvt_calloc((size_t)trace->span * trace->options.copies, sizeof(*holders));

    if (holders == NULL)
        return KVT_NOMEM;
    for (size_t from = 0; from < trace->count; from += TRACE_WINDOW) {
        const size_t to = from + TRACE_WINDOW < trace->count ? from + TRACE_WINDOW : trace->count;

        for (size_t i = from; i < to; i++)
            expect_scores(trace, holders, i);
        for (size_t i = from; i < to; i++)
            expect_store(trace, holders, i);
    }
    kvt_free(holders);
    return KVT_OK;
}

enum kvt_err
trace_read(struct trace *trace, const struct trace_options *options, struct kvt_error *err)
{
    enum kvt_err rc;

    *trace = (struct trace){.options = *options};
    if (options->length == 0 || options->copies == 0 || options->workers == 0 ||
        options->workers > TRACE_WORKERS_MAX)
        return kvt_error_set(err, KVT_INVALID, "a length, copies, and 1 to %d workers",
                             TRACE_WORKERS_MAX);
    rc = read_lines(trace, err);
    if (rc == KVT_OK) {
        trace->count = trace->lines * options->copies;
        trace->requests = kvt_calloc(trace->count, sizeof(*trace->requests));
        rc = trace->requests == NULL ? KVT_NOMEM : KVT_OK;
    }
    for (size_t i = 0; i < trace->count && rc == KVT_OK; i++) {
        trace->requests[i].worker = (uint32_t)(corpus_mix(i) % options->workers);
        if (block_count(trace, i) > trace->longest)
            trace->longest = block_count(trace, i);
    }
    if (rc == KVT_OK)
        rc = expect(trace);
    if (rc != KVT_OK)
        trace_release(trace);
    return rc;
}

void
trace_release(struct trace *trace)
{
    kvt_free(trace->ids);
    kvt_free(trace->starts);
    kvt_free(trace->requests);
    *trace = (struct trace){.ids = NULL};
}

enum kvt_err
trace_checksum(const struct trace *trace, size_t *stored, uint64_t *sum)
{
    uint64_t *locals = kvt_calloc(2 * (size_t)trace->longest + 1, sizeof(*locals));
    uint64_t *hashes = locals + trace->longest;

    *stored = 0;
    *sum = 0;
    if (locals == NULL)
        return KVT_NOMEM;
    for (size_t i = 0; i < trace->count; i++) {
        const uint32_t count = trace_locals(trace, i, locals);

        corpus_sequence(locals, count, hashes);
        *stored += count - trace->requests[i].has;
        *sum += hashes[count - 1];
    }
    kvt_free(locals);
    return KVT_OK;
}
