#include "advisor/admin/nats_responder.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/core/log.h"
#include "base/thread/queue.h"
#include "wire/message/query.h"
#include "wire/message/subject.h"
#include "wire/nats/bus.h"

enum { IDLE_WAIT_MS = 200, FOLLOW_MS = 100 };

enum kind { FIND, MATCH, ROUTE };

static const char *const subjects[] = {
    [FIND] = WIRE_SUBJECT_FIND, [MATCH] = WIRE_SUBJECT_MATCH, [ROUTE] = WIRE_SUBJECT_ROUTE};

struct question {
    char *reply;
    uint8_t *bytes;
    size_t size;
    enum kind kind;
};

struct advisor_nats_responder {
    struct wire_bus *bus;
    struct advisor_finder finder;
    struct advisor_router *router; /* NULL: none */
    struct advisor_counters counters;
    struct kvt_queue *queue;
    pthread_t thread;
    bool threaded;
    bool subscribed[sizeof(subjects) / sizeof(subjects[0])];
    char shared[WIRE_SUBJECT_MAX]; /* one of this group answers; "": alone */
    uint64_t followed_ms; /* the thread's own, with a group: when the router was looked at */
    _Atomic bool listens; /* all that there is to be asked may be asked */
};

static void
free_question(struct question *question)
{
    if (question == NULL)
        return;
    kvt_free(question->reply);
    kvt_free(question->bytes);
    kvt_free(question);
}

/* ---- on a NATS thread ---- */

static void
heard(void *arg, const char *subject, const char *reply, const void *bytes, size_t size)
{
    struct advisor_nats_responder *responder = arg;
    struct question *question;

    if (reply == NULL || reply[0] == '\0' || size > WIRE_QUERY_MAX)
        return;
    question = kvt_calloc(1, sizeof(*question));
    if (question == NULL)
        return;
    question->reply = kvt_strdup(reply);
    question->bytes = kvt_calloc(size + 1, 1);
    question->size = size;
    for (int kind = FIND; kind <= ROUTE; kind++)
        if (strcmp(subject, subjects[kind]) == 0)
            question->kind = (enum kind)kind;
    if (question->reply != NULL && question->bytes != NULL) {
        memcpy(question->bytes, bytes, size);
        if (kvt_queue_put(responder->queue, question) == KVT_OK)
            return;
    }
    kvt_metric_inc(responder->counters.queries_dropped, 1);
    free_question(question);
}

/* ---- on our own ---- */

/* Such an answer is as right as any other, and slow. */
static bool
is_loading(const struct advisor_finder *finder)
{
    return finder->memory != NULL && atomic_load(&finder->memory->loading);
}

static enum kvt_err
answer_find(const struct advisor_finder *finder, const struct wire_query *query,
            struct kvt_buffer *out)
{
    struct wire_query_holder *holders = kvt_calloc(WIRE_QUERY_HOLDERS_MAX, sizeof(*holders));
    size_t count;
    enum kvt_err rc;

    if (holders == NULL)
        return KVT_NOMEM;
    rc = advisor_finder_matches(finder, query, holders, WIRE_QUERY_HOLDERS_MAX, &count);
    if (rc == KVT_OK)
        rc = wire_query_encode_holders(holders, count, is_loading(finder), out);
    kvt_free(holders);
    return rc;
}

static enum kvt_err
answer_match(const struct advisor_finder *finder, const struct wire_query *query,
             struct kvt_buffer *out)
{
    uint8_t *masks = kvt_calloc((size_t)query->hash_count + 1, 1);
    enum kvt_err rc;

    if (masks == NULL)
        return KVT_NOMEM;
    rc = advisor_finder_masks(finder, query->namespace_, query->hashes, query->hash_count, masks);
    if (rc == KVT_OK)
        rc = wire_query_encode_masks(masks, query->hash_count, is_loading(finder), out);
    kvt_free(masks);
    return rc;
}

void
advisor_nats_responder_answer(const struct advisor_finder *finder, bool match, const void *bytes,
                              size_t size, struct kvt_buffer *out)
{
    struct wire_query query = {.hashes = kvt_calloc(WIRE_QUERY_HASHES_MAX, sizeof(*query.hashes))};
    struct kvt_error err = {.text = "no memory"};
    enum kvt_err rc = KVT_NOMEM;

    if (query.hashes != NULL)
        rc = wire_query_decode(bytes, size, &query, WIRE_QUERY_HASHES_MAX, &err);
    if (rc == KVT_OK) {
        rc = match ? answer_match(finder, &query, out) : answer_find(finder, &query, out);
        (void)kvt_error_set(&err, rc, "%s", kvt_err_text(rc));
    }
    kvt_free(query.hashes);
    if (rc == KVT_OK)
        return;
    kvt_buffer_clear(out);
    if (wire_query_encode_failure(rc, err.text, out) != KVT_OK)
        kvt_buffer_clear(out);
}

void
advisor_nats_responder_route(struct advisor_router *router, const struct advisor_finder *finder,
                             const void *bytes, size_t size, struct kvt_buffer *out)
{
    /* Each takes a byte at least: most questions need no room for the most there may be. */
    const size_t values = size < WIRE_ROUTE_VALUES_MAX ? size : WIRE_ROUTE_VALUES_MAX;
    const size_t workers = size < WIRE_ROUTE_WORKERS_MAX ? size : WIRE_ROUTE_WORKERS_MAX;
    struct wire_route_question question = {
        .values = kvt_calloc(values + 1, sizeof(*question.values)),
        .workers = kvt_calloc(workers + 1, sizeof(*question.workers))};
    struct wire_route_answer answer = {.row_count = 0};
    struct kvt_error err = {.text = "no memory"};
    enum kvt_err rc = KVT_NOMEM;

    if (question.values != NULL && question.workers != NULL)
        rc = wire_route_decode_question(bytes, size, &question, values, workers, &err);
    if (rc == KVT_OK)
        rc = advisor_router_ask(router, finder, &question, &answer, &err);
    kvt_buffer_clear(out);
    if (rc == KVT_OK) {
        rc = wire_route_encode_answer(&answer, out);
        (void)kvt_error_set(&err, rc, "%s", kvt_err_text(rc));
    }
    wire_route_answer_release(&answer);
    kvt_free(question.values);
    kvt_free(question.workers);
    if (rc == KVT_OK)
        return;
    kvt_buffer_clear(out);
    if (wire_query_encode_failure(rc, err.text, out) != KVT_OK)
        kvt_buffer_clear(out);
}

static void
answer(struct advisor_nats_responder *responder, const struct question *question,
       struct kvt_buffer *out)
{
    if (question->kind == ROUTE)
        advisor_nats_responder_route(responder->router, &responder->finder, question->bytes,
                                     question->size, out);
    else
        advisor_nats_responder_answer(&responder->finder, question->kind == MATCH, question->bytes,
                                      question->size, out);
}

static enum kvt_err
subscribe(struct advisor_nats_responder *responder, enum kind kind, struct kvt_error *err)
{
    const bool shared = kind == ROUTE && responder->shared[0] != '\0';
    const enum kvt_err rc = wire_bus_subscribe_shared(
        responder->bus, subjects[kind], shared ? responder->shared : NULL, heard, responder, err);

    responder->subscribed[kind] = rc == KVT_OK;
    return rc;
}

static void
unsubscribe(struct advisor_nats_responder *responder, enum kind kind)
{
    if (responder->subscribed[kind])
        wire_bus_unsubscribe(responder->bus, subjects[kind], responder);
    responder->subscribed[kind] = false;
}

/* Of a group nobody is asked who does not know what the others gave out. */
static void
follow_router(struct advisor_nats_responder *responder)
{
    const uint64_t now_ms = kvt_clock_mono_ms();
    struct kvt_error err;
    bool ready;

    if (responder->shared[0] == '\0' || now_ms - responder->followed_ms < FOLLOW_MS)
        return;
    responder->followed_ms = now_ms;
    ready = advisor_router_ready(responder->router);
    if (ready == responder->subscribed[ROUTE])
        return;
    if (!ready) {
        atomic_store(&responder->listens, false);
        unsubscribe(responder, ROUTE);
    } else if (subscribe(responder, ROUTE, &err) == KVT_OK) {
        wire_bus_settle(responder->bus);
        atomic_store(&responder->listens, true);
    } else {
        kvt_log_warn("advisor.responder", "deaf", "not asked over NATS yet: %s", err.text);
    }
}

bool
advisor_nats_responder_listens(const struct advisor_nats_responder *responder)
{
    return atomic_load(&responder->listens);
}

static void *
run(void *arg)
{
    struct advisor_nats_responder *responder = arg;
    struct kvt_buffer out;

    kvt_buffer_init(&out, WIRE_BUS_MESSAGE_MAX);
    for (;;) {
        struct question *question;
        void *taken = NULL;

        follow_router(responder);
        if (kvt_queue_take(responder->queue, &taken, 1, IDLE_WAIT_MS) == 0) {
            if (kvt_queue_closed(responder->queue))
                break;
            continue;
        }
        question = taken;
        kvt_buffer_clear(&out);
        answer(responder, question, &out);
        if (wire_bus_publish(responder->bus, question->reply, out.data, out.size) == KVT_OK)
            kvt_metric_inc(responder->counters.queries, 1);
        free_question(question);
    }
    kvt_buffer_release(&out);
    return NULL;
}

enum kvt_err
advisor_nats_responder_start(struct advisor_nats_responder **out, struct wire_bus *bus,
                             const struct advisor_finder *finder, struct advisor_router *router,
                             const char *group, const struct advisor_counters *counters,
                             struct kvt_error *err)
{
    struct advisor_nats_responder *responder = kvt_calloc(1, sizeof(*responder));
    enum kvt_err rc;

    *out = NULL;
    if (responder == NULL)
        return kvt_error_set(err, KVT_NOMEM, "responder");
    responder->bus = bus;
    responder->finder = *finder;
    responder->router = router;
    responder->counters = *counters;
    rc = kvt_queue_new(&responder->queue, ADVISOR_NATS_RESPONDER_QUESTIONS_MAX);
    if (rc == KVT_OK && router != NULL && group[0] != '\0')
        rc = wire_subject_named(WIRE_SUBJECT_ROUTE_SYNC, responder->shared,
                                sizeof(responder->shared), group);
    if (rc == KVT_OK && pthread_create(&responder->thread, NULL, run, responder) != 0)
        rc = KVT_NOMEM;
    if (rc != KVT_OK) {
        rc = kvt_error_set(err, rc, "responder: %s", kvt_err_text(rc));
        goto fail;
    }
    responder->threaded = true;
    for (enum kind kind = FIND; kind <= ROUTE && rc == KVT_OK; kind++)
        if (kind != ROUTE || (router != NULL && responder->shared[0] == '\0'))
            rc = subscribe(responder, kind, err);
    if (rc != KVT_OK)
        goto fail;
    if (responder->shared[0] == '\0')
        atomic_store(&responder->listens, true);
    *out = responder;
    return KVT_OK;

fail:
    advisor_nats_responder_stop(responder);
    return rc;
}

void
advisor_nats_responder_stop(struct advisor_nats_responder *responder)
{
    void *left;

    if (responder == NULL)
        return;
    for (enum kind kind = FIND; kind <= ROUTE; kind++)
        if (kind != ROUTE || responder->shared[0] == '\0')
            unsubscribe(responder, kind);
    if (responder->queue != NULL)
        kvt_queue_close(responder->queue);
    if (responder->threaded)
        (void)pthread_join(responder->thread, NULL);
    unsubscribe(responder, ROUTE); /* of a group: until now that was the thread's */
    if (responder->queue != NULL)
        while (kvt_queue_take(responder->queue, &left, 1, 0) > 0)
            free_question(left);
    kvt_queue_free(responder->queue);
    kvt_free(responder);
}
