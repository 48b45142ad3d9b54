#include "advisor/store/writer_calls.h"

#include <pthread.h>
#include <stdbool.h>

#include "base/core/alloc.h"
#include "base/thread/cond.h"

/* On the waiting thread's stack. */
struct call {
    advisor_writer_call_fn *run;
    void *arg;
    struct kvt_error *err;
    enum kvt_err rc;
    bool done;
};

struct advisor_writer_calls {
    pthread_mutex_t lock; /* guards all below, and is not held while an call runs */
    pthread_cond_t ended;
    struct call *waiting[ADVISOR_WRITER_CALLS_MAX]; /* the oldest first; none of them is begun */
    size_t count;
};

enum kvt_err
advisor_writer_calls_new(struct advisor_writer_calls **out)
{
    struct advisor_writer_calls *calls = kvt_calloc(1, sizeof(*calls));

    *out = NULL;
    if (calls == NULL)
        return KVT_NOMEM;
    if (pthread_mutex_init(&calls->lock, NULL) != 0) {
        kvt_free(calls);
        return KVT_NOMEM;
    }
    if (!kvt_cond_init(&calls->ended)) {
        (void)pthread_mutex_destroy(&calls->lock);
        kvt_free(calls);
        return KVT_NOMEM;
    }
    *out = calls;
    return KVT_OK;
}

void
advisor_writer_calls_free(struct advisor_writer_calls *calls)
{
    if (calls == NULL)
        return;
    (void)pthread_cond_destroy(&calls->ended);
    (void)pthread_mutex_destroy(&calls->lock);
    kvt_free(calls);
}

static void
take_out(struct advisor_writer_calls *calls, size_t at)
{
    calls->count--;
    for (size_t i = at; i < calls->count; i++)
        calls->waiting[i] = calls->waiting[i + 1];
}

/* False: it is not waiting any more, so it is running or done. */
static bool
withdraw(struct advisor_writer_calls *calls, const struct call *call)
{
    for (size_t i = 0; i < calls->count; i++)
        if (calls->waiting[i] == call) {
            take_out(calls, i);
            return true;
        }
    return false;
}

enum kvt_err
advisor_writer_calls_do(struct advisor_writer_calls *calls, advisor_writer_call_fn *run, void *arg,
                        uint64_t wait_ms, struct kvt_error *err)
{
    const struct timespec deadline = kvt_cond_deadline(wait_ms);
    struct call call = {.run = run, .arg = arg, .err = err};
    bool in_time = true;

    (void)pthread_mutex_lock(&calls->lock);
    if (calls->count == ADVISOR_WRITER_CALLS_MAX) {
        (void)pthread_mutex_unlock(&calls->lock);
        return kvt_error_set(err, KVT_AGAIN, "more than %d requests wait",
                             ADVISOR_WRITER_CALLS_MAX);
    }
    calls->waiting[calls->count++] = &call;
    while (!call.done && in_time)
        in_time = kvt_cond_wait(&calls->ended, &calls->lock, &deadline);
    if (!call.done && withdraw(calls, &call)) {
        (void)pthread_mutex_unlock(&calls->lock);
        return kvt_error_set(err, KVT_TIMEOUT, "the engine is busy; nothing was done");
    }
    /* It was begun: `call` must stay until it ends. */
    while (!call.done)
        (void)pthread_cond_wait(&calls->ended, &calls->lock);
    (void)pthread_mutex_unlock(&calls->lock);
    return call.rc;
}

size_t
advisor_writer_calls_serve(struct advisor_writer_calls *calls)
{
    size_t served = 0;

    (void)pthread_mutex_lock(&calls->lock);
    while (calls->count > 0 && served < ADVISOR_WRITER_CALLS_MAX) {
        struct call *call = calls->waiting[0];
        enum kvt_err rc;

        take_out(calls, 0);
        (void)pthread_mutex_unlock(&calls->lock);
        rc = call->run(call->arg, call->err);
        (void)pthread_mutex_lock(&calls->lock);
        call->rc = rc;
        call->done = true;
        served++;
        (void)pthread_cond_broadcast(&calls->ended);
    }
    (void)pthread_mutex_unlock(&calls->lock);
    return served;
}
