#include "advisor/store/writer_calls.h"

#include <pthread.h>
#include <stdbool.h>

#include "base/core/alloc.h"
#include "base/thread/cond.h"

/* On the waiting thread's stack. */
struct errand {
    advisor_writer_call_fn *run;
    void *arg;
    struct kvt_error *err;
    enum kvt_err rc;
    bool done;
};

struct advisor_writer_calls {
    pthread_mutex_t lock; /* guards all below, and is not held while an errand runs */
    pthread_cond_t ended;
    struct errand *waiting[ADVISOR_WRITER_CALLS_MAX]; /* the oldest first; none of them is begun */
    size_t count;
};

enum kvt_err
advisor_writer_calls_new(struct advisor_writer_calls **out)
{
    struct advisor_writer_calls *errands = kvt_calloc(1, sizeof(*errands));

    *out = NULL;
    if (errands == NULL)
        return KVT_NOMEM;
    if (pthread_mutex_init(&errands->lock, NULL) != 0) {
        kvt_free(errands);
        return KVT_NOMEM;
    }
    if (!kvt_cond_init(&errands->ended)) {
        (void)pthread_mutex_destroy(&errands->lock);
        kvt_free(errands);
        return KVT_NOMEM;
    }
    *out = errands;
    return KVT_OK;
}

void
advisor_writer_calls_free(struct advisor_writer_calls *errands)
{
    if (errands == NULL)
        return;
    (void)pthread_cond_destroy(&errands->ended);
    (void)pthread_mutex_destroy(&errands->lock);
    kvt_free(errands);
}

static void
take_out(struct advisor_writer_calls *errands, size_t at)
{
    errands->count--;
    for (size_t i = at; i < errands->count; i++)
        errands->waiting[i] = errands->waiting[i + 1];
}

/* False: it is not waiting any more, so it is running or done. */
static bool
withdraw(struct advisor_writer_calls *errands, const struct errand *errand)
{
    for (size_t i = 0; i < errands->count; i++)
        if (errands->waiting[i] == errand) {
            take_out(errands, i);
            return true;
        }
    return false;
}

enum kvt_err
advisor_writer_calls_do(struct advisor_writer_calls *errands, advisor_writer_call_fn *run,
                        void *arg, uint64_t wait_ms, struct kvt_error *err)
{
    const struct timespec deadline = kvt_cond_deadline(wait_ms);
    struct errand errand = {.run = run, .arg = arg, .err = err};
    bool in_time = true;

    (void)pthread_mutex_lock(&errands->lock);
    if (errands->count == ADVISOR_WRITER_CALLS_MAX) {
        (void)pthread_mutex_unlock(&errands->lock);
        return kvt_error_set(err, KVT_AGAIN, "more than %d requests wait",
                             ADVISOR_WRITER_CALLS_MAX);
    }
    errands->waiting[errands->count++] = &errand;
    while (!errand.done && in_time)
        in_time = kvt_cond_wait(&errands->ended, &errands->lock, &deadline);
    if (!errand.done && withdraw(errands, &errand)) {
        (void)pthread_mutex_unlock(&errands->lock);
        return kvt_error_set(err, KVT_TIMEOUT, "the engine is busy; nothing was done");
    }
    /* It was begun: `errand` must stay until it ends. */
    while (!errand.done)
        (void)pthread_cond_wait(&errands->ended, &errands->lock);
    (void)pthread_mutex_unlock(&errands->lock);
    return errand.rc;
}

size_t
advisor_writer_calls_serve(struct advisor_writer_calls *errands)
{
    size_t served = 0;

    (void)pthread_mutex_lock(&errands->lock);
    while (errands->count > 0 && served < ADVISOR_WRITER_CALLS_MAX) {
        struct errand *errand = errands->waiting[0];
        enum kvt_err rc;

        take_out(errands, 0);
        (void)pthread_mutex_unlock(&errands->lock);
        rc = errand->run(errand->arg, errand->err);
        (void)pthread_mutex_lock(&errands->lock);
        errand->rc = rc;
        errand->done = true;
        served++;
        (void)pthread_cond_broadcast(&errands->ended);
    }
    (void)pthread_mutex_unlock(&errands->lock);
    return served;
}
