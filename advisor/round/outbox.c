#include "advisor/round/outbox.h"

#include <pthread.h>
#include <stdatomic.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/thread/queue.h"
#include "wire/nats/bus.h"

enum { IDLE_WAIT_MS = 200 };

struct advisor_outbox {
    struct wire_bus *bus;
    struct kvt_queue *out;
    struct kvt_queue *back; /* never full: it has room for every message there can be */
    _Atomic size_t under_way;
    pthread_t threads[ADVISOR_OUTBOX_THREADS];
    size_t thread_count;
};

static void
deliver(struct advisor_outbox *outbox, struct advisor_outbox_message *message)
{
    switch (message->kind) {
    case ADVISOR_OUTBOX_MESSAGE_ASK:
        message->rc =
            wire_bus_request(outbox->bus, message->subject, message->bytes.data,
                             message->bytes.size, ADVISOR_OUTBOX_WAIT_MS, &message->answer);
        break;
    case ADVISOR_OUTBOX_MESSAGE_ORDER:
        message->rc = wire_bus_publish_acked(outbox->bus, message->subject, message->message_id,
                                             message->bytes.data, message->bytes.size,
                                             ADVISOR_OUTBOX_WAIT_MS, NULL);
        /* Nobody takes it: the stream may be missing, and with plain messages we alone need it. */
        if (message->rc == KVT_UNAVAILABLE && wire_bus_connected(outbox->bus) &&
            wire_bus_ensure_streams(outbox->bus, NULL) != KVT_OK)
            message->rc = KVT_UNAVAILABLE;
        break;
    case ADVISOR_OUTBOX_MESSAGE_FILL:
        message->ask.worker = message->worker;
        message->ask.subject = message->asked_by;
        message->ask.deadline_ms = kvt_clock_mono_ms() + ADVISOR_OUTBOX_FILL_MS;
        message->rc = advisor_source_ask(message->source, &message->ask, &message->answer_kind,
                                         &message->answer, &message->err);
        break;
    }
    if (message->rc == KVT_OK && !kvt_buffer_ok(&message->answer))
        message->rc = KVT_RANGE;
}

static void *
run(void *arg)
{
    struct advisor_outbox *outbox = arg;

    for (;;) {
        void *message = NULL;

        if (kvt_queue_take(outbox->out, &message, 1, IDLE_WAIT_MS) == 0) {
            if (kvt_queue_closed(outbox->out))
                return NULL;
            continue;
        }
        deliver(outbox, message);
        if (kvt_queue_put(outbox->back, message) != KVT_OK) {
            atomic_fetch_sub(&outbox->under_way, 1);
            advisor_outbox_message_free(message);
        }
    }
}

enum kvt_err
advisor_outbox_new(struct advisor_outbox **out, struct wire_bus *bus)
{
    struct advisor_outbox *outbox = kvt_calloc(1, sizeof(*outbox));
    enum kvt_err rc;

    *out = NULL;
    if (outbox == NULL)
        return KVT_NOMEM;
    outbox->bus = bus;
    rc = kvt_queue_new(&outbox->out, ADVISOR_OUTBOX_MESSAGES_MAX);
    if (rc == KVT_OK)
        rc = kvt_queue_new(&outbox->back, ADVISOR_OUTBOX_MESSAGES_MAX);
    while (rc == KVT_OK && outbox->thread_count < ADVISOR_OUTBOX_THREADS)
        if (pthread_create(&outbox->threads[outbox->thread_count], NULL, run, outbox) == 0)
            outbox->thread_count++;
        else
            rc = KVT_NOMEM;
    if (rc != KVT_OK) {
        advisor_outbox_free(outbox);
        return rc;
    }
    *out = outbox;
    return KVT_OK;
}

void
advisor_outbox_free(struct advisor_outbox *outbox)
{
    struct advisor_outbox_message *message;
    void *unsent;

    if (outbox == NULL)
        return;
    if (outbox->out != NULL) {
        /* What nobody began is not worth the wait: an order is void or planned anew. */
        kvt_queue_close(outbox->out);
        while (kvt_queue_take(outbox->out, &unsent, 1, 0) > 0)
            advisor_outbox_message_free(unsent);
    }
    for (size_t i = 0; i < outbox->thread_count; i++)
        (void)pthread_join(outbox->threads[i], NULL);
    if (outbox->back != NULL)
        while ((message = advisor_outbox_take(outbox)) != NULL)
            advisor_outbox_message_free(message);
    kvt_queue_free(outbox->out);
    kvt_queue_free(outbox->back);
    kvt_free(outbox);
}

enum kvt_err
advisor_outbox_send(struct advisor_outbox *outbox, struct advisor_outbox_message *message)
{
    if (atomic_fetch_add(&outbox->under_way, 1) >= ADVISOR_OUTBOX_MESSAGES_MAX ||
        kvt_queue_put(outbox->out, message) != KVT_OK) {
        atomic_fetch_sub(&outbox->under_way, 1);
        return KVT_AGAIN;
    }
    return KVT_OK;
}

struct advisor_outbox_message *
advisor_outbox_take(struct advisor_outbox *outbox)
{
    void *message = NULL;

    if (kvt_queue_take(outbox->back, &message, 1, 0) == 0)
        return NULL;
    atomic_fetch_sub(&outbox->under_way, 1);
    return message;
}
