#include "advisor/route/router_thread.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/core/metrics.h"
#include "base/thread/queue.h"
#include "wire/message/query.h"
#include "wire/message/subject.h"
#include "wire/nats/bus.h"

enum { AT_ONCE = 64 };

enum kind { STEP, HEARD, SEND };

struct letter {
    enum kind kind;
    size_t size;
    char *reply; /* of a step that is waited for; NULL: of none */
    uint8_t bytes[];
};

struct advisor_router_thread {
    struct advisor_router *router;
    struct wire_bus *bus;
    struct kvt_queue *queue;
    _Atomic size_t waiting; /* bytes of letters there are */
    struct kvt_metric *dropped;
    char sync[WIRE_SUBJECT_MAX]; /* of the group; "": alone */
    pthread_t thread;
    bool threaded;
    bool stepping; /* subscribed to steps */
    bool syncing;  /* and to the group */
};

static void
free_letter(struct advisor_router_thread *thread, struct letter *letter)
{
    if (letter == NULL)
        return;
    (void)atomic_fetch_sub(&thread->waiting, letter->size);
    kvt_free(letter->reply);
    kvt_free(letter);
}

/* NULL: no room. */
static struct letter *
make_letter(struct advisor_router_thread *thread, size_t size)
{
    const size_t before = atomic_fetch_add(&thread->waiting, size);
    struct letter *letter = NULL;

    if (before + size <= ADVISOR_ROUTER_WAITING_BYTES)
        letter = kvt_calloc(1, sizeof(*letter) + size);
    if (letter == NULL)
        (void)atomic_fetch_sub(&thread->waiting, size);
    else
        letter->size = size;
    return letter;
}

/* Copy and leave. */
static void
put(struct advisor_router_thread *thread, enum kind kind, const char *reply, const void *bytes,
    size_t size)
{
    struct letter *letter = make_letter(thread, size);

    if (letter != NULL) {
        letter->kind = kind;
        if (size > 0)
            memcpy(letter->bytes, bytes, size);
        letter->reply = reply == NULL || reply[0] == '\0' ? NULL : kvt_strdup(reply);
        if (kvt_queue_put(thread->queue, letter) == KVT_OK)
            return;
    }
    kvt_metric_inc(thread->dropped, 1);
    free_letter(thread, letter);
}

/* ---- on NATS threads ---- */

static void
heard_step(void *arg, const char *subject, const char *reply, const void *bytes, size_t size)
{
    (void)subject;
    if (size <= WIRE_ROUTE_MAX)
        put(arg, STEP, reply, bytes, size);
}

static void
heard_replica(void *arg, const char *subject, const char *reply, const void *bytes, size_t size)
{
    (void)subject;
    (void)reply;
    if (size <= ROUTER_MESSAGE_MAX)
        put(arg, HEARD, NULL, bytes, size);
}

void
advisor_router_thread_send(void *arg, const void *bytes, size_t size)
{
    put(arg, SEND, NULL, bytes, size);
}

/* ---- on our own ---- */

void
advisor_router_thread_take(struct advisor_router *router, const void *bytes, size_t size,
                           struct kvt_buffer *out)
{
    const size_t hashes = size < WIRE_ROUTE_BLOCKS_MAX ? size : WIRE_ROUTE_BLOCKS_MAX;
    struct wire_route_step step = {.hashes = kvt_calloc(hashes + 1, sizeof(*step.hashes))};
    struct kvt_error err = {.text = "no memory"};
    enum kvt_err rc = KVT_NOMEM;
    bool changed;

    if (step.hashes != NULL)
        rc = wire_route_decode_step(bytes, size, &step, hashes, &err);
    if (rc == KVT_OK)
        rc = advisor_router_step(router, &step, &changed, &err);
    kvt_free(step.hashes);
    kvt_buffer_clear(out);
    if (rc == KVT_OK)
        rc = wire_route_encode_done(changed, out);
    else
        rc = wire_query_encode_failure(rc, err.text, out);
    if (rc != KVT_OK)
        kvt_buffer_clear(out);
}

static void
do_letter(struct advisor_router_thread *thread, const struct letter *letter, struct kvt_buffer *out)
{
    enum kvt_err rc = KVT_OK;

    switch (letter->kind) {
    case STEP:
        advisor_router_thread_take(thread->router, letter->bytes, letter->size, out);
        if (letter->reply != NULL)
            rc = wire_bus_publish(thread->bus, letter->reply, out->data, out->size);
        break;
    case HEARD: advisor_router_hear(thread->router, letter->bytes, letter->size); break;
    case SEND:
        if (thread->sync[0] != '\0')
            rc = wire_bus_publish(thread->bus, thread->sync, letter->bytes, letter->size);
        break;
    }
    (void)rc; /* while the bus is away nobody waits for it; replicas ask for what is missing */
}

static void *
run(void *arg)
{
    struct advisor_router_thread *thread = arg;
    uint64_t ticked_ms = 0;
    struct kvt_buffer out;
    void *letters[AT_ONCE];

    kvt_buffer_init(&out, WIRE_BUS_MESSAGE_MAX);
    while (!kvt_queue_closed(thread->queue)) {
        const size_t count =
            kvt_queue_take(thread->queue, letters, AT_ONCE, ADVISOR_ROUTER_TICK_MS);
        const uint64_t now_ms = kvt_clock_mono_ms();

        for (size_t i = 0; i < count; i++) {
            do_letter(thread, letters[i], &out);
            free_letter(thread, letters[i]);
        }
        if (now_ms - ticked_ms < ADVISOR_ROUTER_TICK_MS)
            continue;
        ticked_ms = now_ms;
        advisor_router_tick(thread->router, wire_bus_connected(thread->bus));
    }
    kvt_buffer_release(&out);
    return NULL;
}

enum kvt_err
advisor_router_thread_new(struct advisor_router_thread **out, struct kvt_metrics *metrics)
{
    struct advisor_router_thread *thread = kvt_calloc(1, sizeof(*thread));

    *out = NULL;
    if (thread == NULL || kvt_queue_new(&thread->queue, ADVISOR_ROUTER_WAITING_MAX) != KVT_OK) {
        kvt_free(thread);
        return KVT_NOMEM;
    }
    thread->dropped =
        kvt_metrics_add(metrics, KVT_METRIC_COUNTER, "kvtier_advisor_route_messages_dropped_total",
                        "", "Steps and messages of replicas there was no room for.");
    *out = thread;
    return KVT_OK;
}

enum kvt_err
advisor_router_thread_start(struct advisor_router_thread *thread, struct advisor_router *router,
                            struct wire_bus *bus, const char *group, struct kvt_error *err)
{
    enum kvt_err rc = KVT_OK;

    thread->router = router;
    thread->bus = bus;
    if (group[0] != '\0')
        rc = wire_subject_named(WIRE_SUBJECT_ROUTE_SYNC, thread->sync, sizeof(thread->sync), group);
    if (rc != KVT_OK)
        return kvt_error_set(err, rc, "route.group: %s is no name of a group", group);
    if (pthread_create(&thread->thread, NULL, run, thread) != 0)
        return kvt_error_set(err, KVT_NOMEM, "no thread for the router");
    thread->threaded = true;
    rc = wire_bus_subscribe(bus, WIRE_SUBJECT_STEP, heard_step, thread, err);
    thread->stepping = rc == KVT_OK;
    if (rc == KVT_OK && thread->sync[0] != '\0') {
        rc = wire_bus_subscribe(bus, thread->sync, heard_replica, thread, err);
        thread->syncing = rc == KVT_OK;
    }
    return rc;
}

void
advisor_router_thread_free(struct advisor_router_thread *thread)
{
    void *left;

    if (thread == NULL)
        return;
    if (thread->stepping)
        wire_bus_unsubscribe(thread->bus, WIRE_SUBJECT_STEP, thread);
    if (thread->syncing)
        wire_bus_unsubscribe(thread->bus, thread->sync, thread);
    kvt_queue_close(thread->queue);
    if (thread->threaded)
        (void)pthread_join(thread->thread, NULL);
    while (kvt_queue_take(thread->queue, &left, 1, 0) > 0)
        free_letter(thread, left);
    kvt_queue_free(thread->queue);
    kvt_free(thread);
}
