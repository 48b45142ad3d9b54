#include "gateway/move/mover.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/thread/cond.h"
#include "gateway/tier/stats.h"

enum {
    LOOK_MS = 20,     /* how often it is looked whether requests come */
    QUIET_MS = 500,   /* without any before it is believed that none do */
    WORKING_MS = 100, /* how often `working` is called, and a stop is seen */
};

struct gateway_mover {
    struct gateway_context *context;
    struct gateway_mover_options options;
    struct {
        pthread_mutex_t lock; /* guards this struct */
        pthread_cond_t changed;
        const struct gateway_mover_work *work; /* NULL: none */
        size_t next;                           /* of the work's, to be begun */
        size_t running;
        uint64_t paid_ns; /* nothing begins before: what moved so far takes until then */
        uint64_t rest_ns; /* nor before this: the time that belongs to requests */
        struct gateway_stats_traffic traffic;
        uint64_t looked_ms;
        uint64_t asked_ms; /* when it was seen last that requests come */
        bool asked;
        bool stop;
    } shared;
    pthread_t threads[GATEWAY_MOVER_AT_ONCE_MAX];
    unsigned thread_count;
};

static bool
has_more_locked(const struct gateway_mover *mover)
{
    return mover->shared.work != NULL && mover->shared.next < mover->shared.work->count &&
           !atomic_load(&mover->context->stopping);
}

/* Milliseconds until the next may begin; 0: it may. */
static uint64_t
pause_locked(struct gateway_mover *mover)
{
    const uint64_t now_ns = kvt_clock_mono_ns();
    const uint64_t free_ns = mover->shared.paid_ns > mover->shared.rest_ns ? mover->shared.paid_ns
                                                                           : mover->shared.rest_ns;

    if (now_ns < free_ns)
        return (free_ns - now_ns) / 1000000 + 1;
    if (now_ns / 1000000 - mover->shared.looked_ms >= LOOK_MS) {
        mover->shared.looked_ms = now_ns / 1000000;
        if (gateway_stats_traffic_seen(&mover->shared.traffic))
            mover->shared.asked_ms = mover->shared.looked_ms;
        mover->shared.asked = mover->shared.looked_ms - mover->shared.asked_ms < QUIET_MS;
    }
    return mover->shared.asked && mover->shared.running > 0 ? LOOK_MS : 0;
}

/* A block that was begun at `begin_ns` is done. */
static void
pay_locked(struct gateway_mover *mover, uint64_t bytes, uint64_t begin_ns)
{
    const uint64_t now_ns = kvt_clock_mono_ns();

    if (mover->options.rate > 0) {
        if (mover->shared.paid_ns < begin_ns)
            mover->shared.paid_ns = begin_ns;
        mover->shared.paid_ns += (uint64_t)((double)bytes * 1e9 / (double)mover->options.rate);
    }
    if (mover->shared.asked)
        mover->shared.rest_ns = now_ns + (now_ns - begin_ns);
}

static void
perform_locked(struct gateway_mover *mover)
{
    const struct gateway_mover_work *work = mover->shared.work;
    const size_t index = mover->shared.next++;
    const uint64_t begin_ns = kvt_clock_mono_ns();
    uint64_t bytes;

    mover->shared.running++;
    (void)pthread_mutex_unlock(&mover->shared.lock);
    bytes = work->perform(work->arg, index);
    (void)pthread_mutex_lock(&mover->shared.lock);
    mover->shared.running--;
    pay_locked(mover, bytes, begin_ns);
    (void)pthread_cond_broadcast(&mover->shared.changed);
}

static void *
mover_main(void *arg)
{
    struct gateway_mover *mover = arg;

    (void)pthread_mutex_lock(&mover->shared.lock);
    while (!mover->shared.stop) {
        const uint64_t wait_ms = has_more_locked(mover) ? pause_locked(mover) : 0;

        if (wait_ms > 0) {
            const struct timespec deadline =
                kvt_cond_deadline(wait_ms < WORKING_MS ? wait_ms : WORKING_MS);

            (void)kvt_cond_wait(&mover->shared.changed, &mover->shared.lock, &deadline);
        } else if (has_more_locked(mover)) {
            perform_locked(mover);
        } else {
            (void)pthread_cond_wait(&mover->shared.changed, &mover->shared.lock);
        }
    }
    (void)pthread_mutex_unlock(&mover->shared.lock);
    return NULL;
}

enum kvt_err
gateway_mover_new(struct gateway_mover **out, struct gateway_context *context,
                  const struct gateway_mover_options *options, struct kvt_error *err)
{
    struct gateway_mover *mover = kvt_calloc(1, sizeof(*mover));
    int sys;

    assert(options->at_once >= 1 && options->at_once <= GATEWAY_MOVER_AT_ONCE_MAX);
    *out = NULL;
    if (mover == NULL)
        return kvt_error_set(err, KVT_NOMEM, "mover");
    mover->context = context;
    mover->options = *options;
    mover->shared.traffic.stats = context->stats;
    if (pthread_mutex_init(&mover->shared.lock, NULL) != 0) {
        kvt_free(mover);
        return kvt_error_set(err, KVT_NOMEM, "mover");
    }
    if (!kvt_cond_init(&mover->shared.changed)) {
        (void)pthread_mutex_destroy(&mover->shared.lock);
        kvt_free(mover);
        return kvt_error_set(err, KVT_NOMEM, "mover");
    }
    for (unsigned i = 0; i < options->at_once; i++) {
        sys = pthread_create(&mover->threads[i], NULL, mover_main, mover);
        if (sys != 0) {
            gateway_mover_free(mover);
            return kvt_error_sys(err, sys, "start the mover");
        }
        mover->thread_count++;
    }
    *out = mover;
    return KVT_OK;
}

void
gateway_mover_free(struct gateway_mover *mover)
{
    if (mover == NULL)
        return;
    (void)pthread_mutex_lock(&mover->shared.lock);
    assert(mover->shared.work == NULL);
    mover->shared.stop = true;
    (void)pthread_cond_broadcast(&mover->shared.changed);
    (void)pthread_mutex_unlock(&mover->shared.lock);
    for (unsigned i = 0; i < mover->thread_count; i++)
        (void)pthread_join(mover->threads[i], NULL);
    (void)pthread_cond_destroy(&mover->shared.changed);
    (void)pthread_mutex_destroy(&mover->shared.lock);
    kvt_free(mover);
}

static bool
run_here(struct gateway_context *context, const struct gateway_mover_work *work)
{
    for (size_t i = 0; i < work->count; i++) {
        if (atomic_load(&context->stopping))
            return false;
        if (work->working != NULL)
            work->working(work->arg);
        (void)work->perform(work->arg, i);
    }
    return true;
}

bool
gateway_mover_run(struct gateway_mover *mover, struct gateway_context *context,
                  const struct gateway_mover_work *work)
{
    bool all;

    if (mover == NULL)
        return run_here(context, work);
    (void)pthread_mutex_lock(&mover->shared.lock);
    assert(mover->shared.work == NULL);
    mover->shared.work = work;
    mover->shared.next = 0;
    (void)pthread_cond_broadcast(&mover->shared.changed);
    while (has_more_locked(mover) || mover->shared.running > 0) {
        const struct timespec deadline = kvt_cond_deadline(WORKING_MS);

        (void)kvt_cond_wait(&mover->shared.changed, &mover->shared.lock, &deadline);
        (void)pthread_mutex_unlock(&mover->shared.lock);
        if (work->working != NULL)
            work->working(work->arg);
        (void)pthread_mutex_lock(&mover->shared.lock);
    }
    all = mover->shared.next == work->count;
    mover->shared.work = NULL;
    (void)pthread_mutex_unlock(&mover->shared.lock);
    return all;
}
