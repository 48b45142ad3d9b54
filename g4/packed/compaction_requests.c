#include <pthread.h>
#include <string.h>

#include "base/core/alloc.h"
#include "g4/packed/compaction_internal.h"

/* Requests on their way. */
struct volley {
    pthread_mutex_t lock; /* guards `out` */
    pthread_cond_t changed;
    size_t out;
};

static void
on_done(struct g4_request *request, void *arg)
{
    struct volley *volley = arg;

    (void)request;
    pthread_mutex_lock(&volley->lock);
    volley->out--;
    /* Inside the lock: the waiter's frame is gone as soon as it sees the last. */
    pthread_cond_signal(&volley->changed);
    pthread_mutex_unlock(&volley->lock);
}

static void
send(struct g4_compaction_run *run, struct volley *volley, struct g4_request *request)
{
    enum kvt_err rc;

    request->deadline_ms = g4_compaction_deadline_ms(run);
    request->done = on_done;
    request->arg = volley;
    pthread_mutex_lock(&volley->lock);
    volley->out++;
    pthread_mutex_unlock(&volley->lock);
    rc = g4_store_submit(run->options->store, request);
    if (rc != KVT_OK) {
        request->status =
            kvt_error_set(&request->error, rc, "the store takes no request: %s", kvt_err_text(rc));
        on_done(request, volley);
    }
}

struct g4_compaction_slot *
g4_compaction_slot(struct g4_compaction_run *run, enum g4_verb verb)
{
    struct g4_compaction_slot *slot;

    if (run->slots == NULL)
        run->slots = kvt_calloc(G4_COMPACTION_REQUESTS, sizeof(*run->slots));
    if (run->slots == NULL)
        return NULL;
    slot = &run->slots[run->slot_count++];
    slot->request = (struct g4_request){.verb = verb, .key = slot->key};
    slot->attributes[0] = '\0';
    slot->block = NULL;
    return slot;
}

enum kvt_err
g4_compaction_requests(struct g4_compaction_run *run, struct kvt_error *err)
{
    struct volley volley = {.out = 0};
    enum kvt_err rc = KVT_OK;

    (void)pthread_mutex_init(&volley.lock, NULL);
    (void)pthread_cond_init(&volley.changed, NULL);
    for (size_t i = 0; i < run->slot_count && rc == KVT_OK; i++) {
        rc = g4_compaction_guard(run, err);
        if (rc == KVT_OK)
            send(run, &volley, &run->slots[i].request);
    }
    pthread_mutex_lock(&volley.lock);
    while (volley.out > 0)
        pthread_cond_wait(&volley.changed, &volley.lock);
    pthread_mutex_unlock(&volley.lock);
    (void)pthread_cond_destroy(&volley.changed);
    (void)pthread_mutex_destroy(&volley.lock);
    return rc;
}

enum kvt_err
g4_compaction_answer(const struct g4_request *request, struct kvt_error *err)
{
    if (request->status != KVT_OK && err != NULL)
        *err = request->error;
    return request->status;
}
