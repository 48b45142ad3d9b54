#include "tests/support/faulty_store.h"

#include <assert.h>
#include <pthread.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/thread/queue.h"

enum { VERBS = G4_LIST + 1, DELAYED_MAX = 4096, RETRY_MS = 1 };

struct verb_state {
    struct g4_fault_rule rule;
    uint64_t since; /* calls seen since the rule was set */
    uint64_t seen;
    uint64_t hit;
};

struct faulty {
    struct g4_store *inner;
    struct kvt_queue *delayed; /* of struct call, all with about the same wait */
    pthread_t thread;
    bool thread_running;

    struct {
        pthread_mutex_t lock; /* guards `verbs` */
        struct verb_state verbs[VERBS];
    } shared;
};

/* One request that will be meddled with on its way back, or held on its way in. */
struct call {
    struct g4_request *request;
    void (*done)(struct g4_request *request, void *arg);
    void *arg;
    struct g4_fault_rule rule;
    uint64_t due_ms;
    bool own_buffer; /* the inner store allocates the body */
};

static void
drop_body(struct g4_request *request, bool own_buffer)
{
    if (own_buffer) {
        kvt_free(request->buffer);
        request->buffer = NULL;
    }
    request->buffer_size = 0;
    request->summed = false;
    request->listed_count = 0;
}

static void
set_failure(struct g4_request *request, enum kvt_err status)
{
    request->status = status;
    (void)kvt_error_set(&request->error, status, "injected: %s", kvt_err_text(status));
}

static void
on_done(struct g4_request *request, void *arg)
{
    struct call *call = arg;
    const bool body = request->verb == G4_GET && request->status == KVT_OK;

    if (call->rule.fault == G4_FAULT_LOSE) {
        drop_body(request, call->own_buffer);
        set_failure(request, call->rule.status);
    } else if (call->rule.fault == G4_FAULT_TRUNCATE && body) {
        request->buffer_size /= 2;
        request->summed = false;
    } else if (call->rule.fault == G4_FAULT_FLIP && body && request->buffer_size > 0) {
        ((uint8_t *)request->buffer)[request->buffer_size / 2] ^= 0x10;
        request->summed = false;
    }
    request->done = call->done;
    request->arg = call->arg;
    kvt_free(call);
    request->done(request, request->arg);
}

/* The thread that holds requests back until they are due, in the order they came. */
static void *
run_delayed(void *arg)
{
    struct faulty *faulty = arg;
    void *item;

    for (;;) {
        struct call *call;
        uint64_t now_ms;
        enum kvt_err rc;

        if (kvt_queue_take(faulty->delayed, &item, 1, 1000) == 0) {
            if (kvt_queue_closed(faulty->delayed))
                return NULL;
            continue;
        }
        call = item;
        while ((now_ms = kvt_clock_mono_ms()) < call->due_ms)
            kvt_clock_sleep_ms(call->due_ms - now_ms);
        while ((rc = g4_store_submit(faulty->inner, call->request)) == KVT_AGAIN)
            kvt_clock_sleep_ms(RETRY_MS);
        if (rc != KVT_OK) {
            set_failure(call->request, rc);
            on_done(call->request, call);
        }
    }
}

/* Count the call; true when it is hit, with the rule that hits it. */
static bool
take_fault(struct faulty *faulty, enum g4_verb verb, struct g4_fault_rule *rule)
{
    struct verb_state *state = &faulty->shared.verbs[verb];
    bool hit;

    pthread_mutex_lock(&faulty->shared.lock);
    state->seen++;
    state->since++;
    *rule = state->rule;
    hit = rule->fault != G4_FAULT_NONE && state->since > rule->after &&
          state->since - rule->after <= rule->count;
    if (hit)
        state->hit++;
    pthread_mutex_unlock(&faulty->shared.lock);
    return hit;
}

static enum kvt_err
faulty_submit(void *self, struct g4_request *request)
{
    struct faulty *faulty = self;
    struct g4_fault_rule rule;
    struct call *call;
    enum kvt_err rc;

    if (!take_fault(faulty, request->verb, &rule))
        return g4_store_submit(faulty->inner, request);
    if (rule.fault == G4_FAULT_FAIL) {
        set_failure(request, rule.status);
        request->done(request, request->arg);
        return KVT_OK;
    }
    call = kvt_calloc(1, sizeof(*call));
    if (call == NULL)
        return KVT_AGAIN;
    *call = (struct call){.request = request,
                          .done = request->done,
                          .arg = request->arg,
                          .rule = rule,
                          .due_ms = kvt_clock_mono_ms() + rule.delay_ms,
                          .own_buffer = request->buffer == NULL};
    request->done = on_done;
    request->arg = call;
    rc = rule.fault == G4_FAULT_DELAY ? kvt_queue_put(faulty->delayed, call)
                                      : g4_store_submit(faulty->inner, request);
    if (rc != KVT_OK) {
        request->done = call->done;
        request->arg = call->arg;
        kvt_free(call);
    }
    return rc;
}

static void
faulty_close(void *self)
{
    struct faulty *faulty = self;

    if (faulty->thread_running) {
        kvt_queue_close(faulty->delayed);
        (void)pthread_join(faulty->thread, NULL);
    }
    g4_store_close(faulty->inner);
    kvt_queue_free(faulty->delayed);
    (void)pthread_mutex_destroy(&faulty->shared.lock);
    kvt_free(faulty);
}

static const struct g4_store_driver faulty_driver = {
    .name = "faulty", .submit = faulty_submit, .close = faulty_close};

enum kvt_err
test_faulty_store_open(struct g4_store **out, struct g4_store *inner)
{
    struct faulty *faulty;
    enum kvt_err rc;

    *out = NULL;
    faulty = kvt_calloc(1, sizeof(*faulty));
    if (faulty == NULL)
        return KVT_NOMEM;
    (void)pthread_mutex_init(&faulty->shared.lock, NULL);
    rc = kvt_queue_new(&faulty->delayed, DELAYED_MAX);
    if (rc != KVT_OK)
        goto fail;
    rc = g4_store_new(out, &faulty_driver, faulty);
    if (rc != KVT_OK)
        goto fail;
    if (pthread_create(&faulty->thread, NULL, run_delayed, faulty) != 0) {
        rc = KVT_NOMEM;
        goto fail;
    }
    faulty->thread_running = true;
    faulty->inner = inner;
    return KVT_OK;

fail:
    /* The inner store stays with the caller: it was not taken over. */
    kvt_free(*out);
    *out = NULL;
    faulty_close(faulty);
    return rc;
}

void
test_faulty_store_set(struct g4_store *store, const struct g4_fault_rule *rule)
{
    struct faulty *faulty = g4_store_self(store, &faulty_driver);

    assert(faulty != NULL);
    assert((unsigned)rule->verb < VERBS);
    pthread_mutex_lock(&faulty->shared.lock);
    faulty->shared.verbs[rule->verb].rule = *rule;
    faulty->shared.verbs[rule->verb].since = 0;
    pthread_mutex_unlock(&faulty->shared.lock);
}

void
test_faulty_store_count(struct g4_store *store, enum g4_verb verb, uint64_t *seen, uint64_t *hit)
{
    struct faulty *faulty = g4_store_self(store, &faulty_driver);

    assert(faulty != NULL);
    assert((unsigned)verb < VERBS);
    pthread_mutex_lock(&faulty->shared.lock);
    *seen = faulty->shared.verbs[verb].seen;
    *hit = faulty->shared.verbs[verb].hit;
    pthread_mutex_unlock(&faulty->shared.lock);
}
