#include <assert.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/thread/cond.h"

#include "engine/connector/forward_hook_internal.h"

enum { STALL_MS = 1 };

/* ---- all of these under the lock ---- */

static bool
is_over(const struct engine_hook_stream *stream)
{
    if (stream->ended == stream->steps)
        return true;
    return stream->stopped && stream->ended == stream->begun;
}

static void
fail_pair(struct engine_hook_stream *stream, uint32_t at, enum kvt_err why)
{
    if (stream->status[at] == KVT_OK)
        stream->status[at] = why;
    if (stream->failed == KVT_OK)
        stream->failed = why;
}

static void
fail_all(struct engine_hook_stream *stream, enum kvt_err why)
{
    for (uint32_t i = 0; i < stream->count; i++)
        fail_pair(stream, i, why);
}

static struct engine_hook_place *
place_of(struct engine_hook_stream *stream, uint32_t step)
{
    return &stream->places[step % ENGINE_HOOK_AHEAD];
}

/* Steps end in their order: what is told of step n is true of all before it. */
static void
end_steps(struct engine_hook_stream *stream)
{
    while (stream->ended < stream->begun) {
        struct engine_hook_place *place = place_of(stream, stream->ended);

        if (place->running > 0 || place->given < place->count)
            break;
        place->busy = false;
        stream->ended++;
    }
    (void)pthread_cond_broadcast(&stream->hook->changed);
}

static void
begin_step(struct engine_hook_stream *stream)
{
    struct engine_hook_place *place = place_of(stream, stream->begun);

    assert(!place->busy);
    place->busy = true;
    place->count = place->given = place->running = 0;
    for (uint32_t i = 0; i < stream->count; i++) {
        if (stream->status[i] != KVT_OK)
            continue;
        place->at[place->count] = i;
        place->items[place->count++] = (struct engine_item){.source = stream->pairs[i].source,
                                                            .target = stream->pairs[i].target};
    }
    stream->begun++;
    end_steps(stream); /* one without a pair that is well has ended */
}

static bool
may_begin(const struct engine_hook_stream *stream)
{
    return !stream->stopped && stream->begun < stream->allowed &&
           stream->begun < stream->ended + ENGINE_HOOK_AHEAD;
}

static void on_done(void *arg, const struct engine_outcome *outcome);

/* The next job of a stream; NULL: there is none now. */
static struct engine_hook_job *
next_job(struct engine_hook_stream *stream)
{
    while (may_begin(stream))
        begin_step(stream);
    for (uint32_t step = stream->ended; step < stream->begun; step++) {
        struct engine_hook_place *place = place_of(stream, step);
        struct engine_hook_job *job;
        uint32_t count = place->count - place->given;

        if (count == 0)
            continue;
        if (count > ENGINE_ITEMS_MAX)
            count = ENGINE_ITEMS_MAX;
        job = &place->jobs[place->given / ENGINE_ITEMS_MAX];
        *job = (struct engine_hook_job){.stream = stream, .place = place, .first = place->given};
        job->job = (struct engine_job){.verb = ENGINE_COPY,
                                       .from = stream->from,
                                       .to = stream->to,
                                       .layer = step,
                                       .layers = stream->layers,
                                       .priority = stream->priority,
                                       .wait_ms = ENGINE_HOOK_JOB_MS,
                                       .items = place->items + place->given,
                                       .count = count,
                                       .done = on_done,
                                       .arg = job};
        place->given += count;
        place->running++;
        return job;
    }
    return NULL;
}

/* A job that was not started. */
static void
not_started(struct engine_hook_job *job, enum kvt_err rc)
{
    struct engine_hook_stream *stream = job->stream;
    struct engine_hook_place *place = job->place;

    place->running--;
    if (rc == KVT_AGAIN) {
        /* Jobs are given in their order by one thread, so that this is the last one. */
        place->given = job->first;
        stream->hook->stalled = true;
        return;
    }
    for (size_t i = 0; i < job->job.count; i++)
        fail_pair(stream, place->at[job->first + i], rc);
    end_steps(stream);
}

/* ---- without it ---- */

static void
on_done(void *arg, const struct engine_outcome *outcome)
{
    struct engine_hook_job *job = arg;
    struct engine_hook_stream *stream = job->stream;
    struct engine_hook_place *place = job->place;
    struct engine_hook *hook = stream->hook;

    (void)pthread_mutex_lock(&hook->lock);
    hook->inside++;
    for (size_t i = 0; i < job->job.count; i++) {
        enum kvt_err status = job->job.items[i].status;

        if (status != KVT_OK)
            fail_pair(stream, place->at[job->first + i], status);
    }
    (void)outcome; /* it is what its items say, in words */
    place->running--;
    end_steps(stream);
    (void)pthread_mutex_unlock(&hook->lock);

    engine_hook_pump(hook);

    (void)pthread_mutex_lock(&hook->lock);
    hook->inside--;
    (void)pthread_cond_broadcast(&hook->changed);
    (void)pthread_mutex_unlock(&hook->lock);
}

static struct engine_hook_job *
find_job(struct engine_hook *hook)
{
    struct engine_hook_job *job = NULL;

    for (struct engine_hook_stream *s = hook->streams; s != NULL && job == NULL; s = s->next)
        job = next_job(s);
    return job;
}

/* One thread pumps; whoever has something new for it says so and leaves.  A `done` that comes from
 * inside a start is such a one, too: nothing recurs. */
void
engine_hook_pump(struct engine_hook *hook)
{
    struct engine_hook_job *job;
    enum kvt_err rc;

    (void)pthread_mutex_lock(&hook->lock);
    hook->again = true;
    if (hook->pumping) {
        (void)pthread_mutex_unlock(&hook->lock);
        return;
    }
    hook->pumping = true;
    while (hook->again) {
        hook->again = false;
        hook->stalled = false;
        while (!hook->stalled && (job = find_job(hook)) != NULL) {
            (void)pthread_mutex_unlock(&hook->lock);
            rc = engine_worker_start(hook->rank, &job->job);
            (void)pthread_mutex_lock(&hook->lock);
            if (rc != KVT_OK)
                not_started(job, rc);
        }
    }
    hook->pumping = false;
    (void)pthread_cond_broadcast(&hook->changed);
    (void)pthread_mutex_unlock(&hook->lock);
}

void
engine_hook_stream_allow(struct engine_hook_stream *stream, uint32_t steps)
{
    if (stream == NULL)
        return;
    (void)pthread_mutex_lock(&stream->hook->lock);
    if (steps > stream->steps)
        steps = stream->steps;
    if (steps > stream->allowed)
        stream->allowed = steps;
    (void)pthread_mutex_unlock(&stream->hook->lock);
    engine_hook_pump(stream->hook);
}

void
engine_hook_stream_stop(struct engine_hook_stream *stream, enum kvt_err why)
{
    if (stream == NULL)
        return;
    (void)pthread_mutex_lock(&stream->hook->lock);
    if (stream->begun < stream->steps && !stream->stopped) {
        stream->stopped = true;
        fail_all(stream, why);
    }
    (void)pthread_mutex_unlock(&stream->hook->lock);
}

bool
engine_hook_stream_over(struct engine_hook_stream *stream)
{
    bool over;

    if (stream == NULL)
        return true;
    (void)pthread_mutex_lock(&stream->hook->lock);
    over = is_over(stream);
    (void)pthread_mutex_unlock(&stream->hook->lock);
    return over;
}

/* Wait for something to change, or a moment where the worker takes no more jobs; under the lock. */
static void
wait_changed(struct engine_hook *hook, uint64_t wait_ms)
{
    const bool stalled = hook->stalled;
    const struct timespec deadline = kvt_cond_deadline(stalled ? STALL_MS : wait_ms);

    (void)kvt_cond_wait(&hook->changed, &hook->lock, &deadline);
    if (!stalled)
        return;
    (void)pthread_mutex_unlock(&hook->lock);
    engine_hook_pump(hook);
    (void)pthread_mutex_lock(&hook->lock);
}

enum kvt_err
engine_hook_stream_wait(struct engine_hook_stream *stream, uint32_t step, uint64_t wait_ms)
{
    const uint64_t began = kvt_clock_mono_ms();
    struct engine_hook *hook;
    uint64_t spent = 0;
    bool ended;

    if (stream == NULL)
        return KVT_OK;
    hook = stream->hook;
    (void)pthread_mutex_lock(&hook->lock);
    while (!(ended = stream->ended >= step || is_over(stream)) && spent < wait_ms) {
        wait_changed(hook, wait_ms - spent);
        spent = kvt_clock_mono_ms() - began;
    }
    (void)pthread_mutex_unlock(&hook->lock);
    return ended ? KVT_OK : KVT_TIMEOUT;
}

/* ---- made and unmade ---- */

static enum kvt_err
allocate(struct engine_hook_stream *stream, uint32_t pairs, uint32_t transfers)
{
    const uint32_t jobs = (pairs + ENGINE_ITEMS_MAX - 1) / ENGINE_ITEMS_MAX;

    stream->pairs = kvt_calloc(pairs, sizeof(*stream->pairs));
    stream->status = kvt_calloc(pairs, sizeof(*stream->status));
    stream->transfers = kvt_calloc(transfers, sizeof(*stream->transfers));
    if (stream->pairs == NULL || stream->status == NULL || stream->transfers == NULL)
        return KVT_NOMEM;
    for (uint32_t i = 0; i < ENGINE_HOOK_AHEAD && i < stream->steps; i++) {
        struct engine_hook_place *place = &stream->places[i];

        place->items = kvt_calloc(pairs, sizeof(*place->items));
        place->at = kvt_calloc(pairs, sizeof(*place->at));
        place->jobs = kvt_calloc(jobs, sizeof(*place->jobs));
        if (place->items == NULL || place->at == NULL || place->jobs == NULL)
            return KVT_NOMEM;
    }
    return KVT_OK;
}

static void
take(struct engine_hook_stream *stream, const struct engine_meta *meta,
     const struct engine_meta_transfer *transfer)
{
    struct engine_meta_transfer *own = &stream->transfers[stream->transfer_count++];

    *own = *transfer;
    own->first = stream->count;
    for (uint32_t i = 0; i < transfer->count; i++)
        stream->pairs[stream->count++] = meta->pairs[transfer->first + i];
}

static void
destroy(struct engine_hook_stream *stream)
{
    for (uint32_t i = 0; i < ENGINE_HOOK_AHEAD; i++) {
        kvt_free(stream->places[i].items);
        kvt_free(stream->places[i].at);
        kvt_free(stream->places[i].jobs);
    }
    kvt_free(stream->pairs);
    kvt_free(stream->status);
    kvt_free(stream->transfers);
    kvt_free(stream);
}

enum kvt_err
engine_hook_stream_open(struct engine_hook *hook, const struct engine_meta *meta,
                        enum engine_transfer kind, uint32_t one, struct engine_hook_stream **out)
{
    const bool down = kind == ENGINE_TRANSFER_SAVE;
    struct engine_hook_stream **last = &hook->streams;
    struct engine_hook_stream *stream;
    uint32_t transfers = 0;
    uint32_t pairs = 0;

    *out = NULL;
    for (uint32_t i = 0; i < meta->transfer_count; i++) {
        if (meta->transfers[i].kind != kind || (one != UINT32_MAX && one != i))
            continue;
        transfers++;
        pairs += meta->transfers[i].count;
    }
    if (transfers == 0)
        return KVT_OK;
    stream = kvt_calloc(1, sizeof(*stream));
    if (stream == NULL)
        return KVT_NOMEM;
    stream->hook = hook;
    stream->from = down ? KVT_TIER_G1 : KVT_TIER_G2;
    stream->to = down ? KVT_TIER_G2 : KVT_TIER_G1;
    stream->priority = kind == ENGINE_TRANSFER_LOAD ? KVT_PRIORITY_URGENT : KVT_PRIORITY_HIGH;
    stream->layers = kind == ENGINE_TRANSFER_FETCH ? 0 : 1;
    stream->steps = stream->layers == 0 ? 1 : hook->rank->layout.geometry.layers;
    if (allocate(stream, pairs, transfers) != KVT_OK) {
        destroy(stream);
        return KVT_NOMEM;
    }
    for (uint32_t i = 0; i < meta->transfer_count; i++)
        if (meta->transfers[i].kind == kind && (one == UINT32_MAX || one == i))
            take(stream, meta, &meta->transfers[i]);

    (void)pthread_mutex_lock(&hook->lock);
    while (*last != NULL)
        last = &(*last)->next;
    *last = stream;
    (void)pthread_mutex_unlock(&hook->lock);
    *out = stream;
    return KVT_OK;
}

void
engine_hook_stream_close(struct engine_hook_stream *stream)
{
    struct engine_hook_stream **at;

    if (stream == NULL)
        return;
    at = &stream->hook->streams;
    (void)pthread_mutex_lock(&stream->hook->lock);
    assert(is_over(stream) || stream->begun == 0);
    while (*at != stream)
        at = &(*at)->next;
    *at = stream->next;
    (void)pthread_mutex_unlock(&stream->hook->lock);
    destroy(stream);
}
