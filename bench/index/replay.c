#include <inttypes.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"

#include "bench/index/measure.h"

struct replay {
    struct subject *subject;
    const struct trace *trace;
    struct subject_batch *batch;
    struct index_find_result *found;
    struct index_match *matches;
    uint64_t *locals;
    uint64_t *hashes;
};

/* The timed part is what a router needs: the best holders.  The sum over all of them is for us. */
static enum kvt_err
look_up(const struct replay *replay, size_t number, uint64_t *time_ns, size_t *asked,
        struct kvt_error *err)
{
    const struct index_question question = {
        .hashes = replay->locals,
        .count = trace_locals(replay->trace, number, replay->locals),
        .ns = replay->subject->ns,
        .key = INDEX_BY_TOKENS,
    };
    const uint64_t start_ns = kvt_clock_mono_ns();
    const enum kvt_err rc = index_find(replay->subject->index, &question, replay->found);
    const size_t count = index_find_result_best(replay->found, replay->matches, TRACE_WORKERS_MAX);
    uint64_t scores = 0;

    *time_ns = kvt_clock_mono_ns() - start_ns;
    *asked += question.count;
    if (rc != KVT_OK)
        return kvt_error_set(err, rc, "a lookup failed");
    for (size_t i = 0; i < count; i++)
        scores += replay->matches[i].blocks;
    if (scores != replay->trace->requests[number].scores)
        return kvt_error_set(err, KVT_CORRUPT, "request %zu: scores %" PRIu64 ", not %" PRIu64,
                             number, scores, replay->trace->requests[number].scores);
    return KVT_OK;
}

static enum kvt_err
add_store(const struct replay *replay, size_t number)
{
    const struct trace_request *request = &replay->trace->requests[number];
    const uint32_t count = trace_locals(replay->trace, number, replay->locals);
    const uint32_t has = request->has;

    if (has == count)
        return KVT_OK;
    corpus_sequence(replay->locals, count, replay->hashes);
    return subject_batch_store(replay->batch, corpus_worker_id(request->worker),
                               has == 0 ? 0 : replay->hashes[has - 1], has, replay->hashes + has,
                               replay->locals + has, count - has);
}

static enum kvt_err
run_windows(const struct replay *replay, struct measure_took *took, uint64_t *times, size_t *asked,
            struct kvt_error *err)
{
    const size_t count = replay->trace->count;
    enum kvt_err rc = KVT_OK;

    for (size_t from = 0; from < count && rc == KVT_OK; from += TRACE_WINDOW) {
        const size_t to = from + TRACE_WINDOW < count ? from + TRACE_WINDOW : count;

        for (size_t i = from; i < to && rc == KVT_OK; i++)
            rc = look_up(replay, i, &times[i], asked, err);
        for (size_t i = from; i < to && rc == KVT_OK; i++)
            rc = add_store(replay, i);
        if (rc == KVT_OK)
            rc = measure_hand_over(replay->subject, replay->batch, took, err);
    }
    return rc;
}

/* What comes last goes first, so that each goes from its leaf. */
static enum kvt_err
add_remove(const struct replay *replay, size_t number)
{
    const struct trace_request *request = &replay->trace->requests[number];
    const uint32_t count = trace_locals(replay->trace, number, replay->locals);

    if (request->has == count)
        return KVT_OK;
    corpus_sequence(replay->locals, count, replay->hashes);
    return subject_batch_remove(replay->batch, corpus_worker_id(request->worker),
                                replay->hashes + request->has, count - request->has);
}

static enum kvt_err
forget_windows(const struct replay *replay, struct measure_took *took, struct kvt_error *err)
{
    enum kvt_err rc = KVT_OK;

    for (size_t i = replay->trace->count; i-- > 0 && rc == KVT_OK;) {
        rc = add_remove(replay, i);
        if (rc == KVT_OK && (i % TRACE_WINDOW == 0))
            rc = measure_hand_over(replay->subject, replay->batch, took, err);
    }
    return rc;
}

enum kvt_err
measure_forget(struct subject *subject, const struct trace *trace, struct measure_took *took,
               struct kvt_error *err)
{
    struct replay replay = {.subject = subject, .trace = trace};
    enum kvt_err rc = subject_batch_new(&replay.batch);

    *took = (struct measure_took){.blocks = 0};
    replay.locals = kvt_calloc((size_t)trace->longest + 1, sizeof(*replay.locals));
    replay.hashes = kvt_calloc((size_t)trace->longest + 1, sizeof(*replay.hashes));
    if (rc == KVT_OK && (replay.locals == NULL || replay.hashes == NULL))
        rc = KVT_NOMEM;
    if (rc == KVT_OK)
        rc = forget_windows(&replay, took, err);
    kvt_free(replay.hashes);
    kvt_free(replay.locals);
    subject_batch_free(replay.batch);
    return rc;
}

enum kvt_err
measure_replay(struct subject *subject, const struct trace *trace, struct measure_took *took,
               uint64_t *times, size_t *asked, struct kvt_error *err)
{
    struct replay replay = {.subject = subject, .trace = trace};
    enum kvt_err rc = subject_batch_new(&replay.batch);

    *took = (struct measure_took){.blocks = 0};
    *asked = 0;
    if (rc == KVT_OK)
        rc = index_find_result_new(&replay.found);
    replay.matches = kvt_calloc(TRACE_WORKERS_MAX, sizeof(*replay.matches));
    replay.locals = kvt_calloc((size_t)trace->longest + 1, sizeof(*replay.locals));
    replay.hashes = kvt_calloc((size_t)trace->longest + 1, sizeof(*replay.hashes));
    if (rc == KVT_OK && (replay.matches == NULL || replay.locals == NULL || replay.hashes == NULL))
        rc = KVT_NOMEM;
    if (rc == KVT_OK)
        rc = run_windows(&replay, took, times, asked, err);
    if (rc == KVT_OK)
        measure_sort(times, trace->count);
    kvt_free(replay.hashes);
    kvt_free(replay.locals);
    kvt_free(replay.matches);
    index_find_result_free(replay.found);
    subject_batch_free(replay.batch);
    return rc;
}
