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
    struct kvt_queue *back; /* never full: it has room for every letter there can be */
    _Atomic size_t under_way;
    pthread_t threads[ADVISOR_OUTBOX_THREADS];
    size_t thread_count;
};

static void
deliver(struct advisor_outbox *courier, struct advisor_outbox_message *letter)
{
    switch (letter->kind) {
    case ADVISOR_OUTBOX_MESSAGE_ASK:
        letter->rc = wire_bus_request(courier->bus, letter->subject, letter->bytes.data,
                                      letter->bytes.size, ADVISOR_OUTBOX_WAIT_MS, &letter->answer);
        break;
    case ADVISOR_OUTBOX_MESSAGE_ORDER:
        letter->rc = wire_bus_publish_acked(courier->bus, letter->subject, letter->message_id,
                                            letter->bytes.data, letter->bytes.size,
                                            ADVISOR_OUTBOX_WAIT_MS, NULL);
        /* Nobody takes it: the stream may be missing, and with plain messages we alone need it. */
        if (letter->rc == KVT_UNAVAILABLE && wire_bus_connected(courier->bus) &&
            wire_bus_ensure_streams(courier->bus, NULL) != KVT_OK)
            letter->rc = KVT_UNAVAILABLE;
        break;
    case ADVISOR_OUTBOX_MESSAGE_FILL:
        letter->ask.worker = letter->worker;
        letter->ask.subject = letter->asked_by;
        letter->ask.deadline_ms = kvt_clock_mono_ms() + ADVISOR_OUTBOX_FILL_MS;
        letter->rc = advisor_source_ask(letter->source, &letter->ask, &letter->answer_kind,
                                        &letter->answer, &letter->err);
        break;
    }
    if (letter->rc == KVT_OK && !kvt_buffer_ok(&letter->answer))
        letter->rc = KVT_RANGE;
}

static void *
run(void *arg)
{
    struct advisor_outbox *courier = arg;

    for (;;) {
        void *letter = NULL;

        if (kvt_queue_take(courier->out, &letter, 1, IDLE_WAIT_MS) == 0) {
            if (kvt_queue_closed(courier->out))
                return NULL;
            continue;
        }
        deliver(courier, letter);
        if (kvt_queue_put(courier->back, letter) != KVT_OK) {
            atomic_fetch_sub(&courier->under_way, 1);
            advisor_outbox_message_free(letter);
        }
    }
}

enum kvt_err
advisor_outbox_new(struct advisor_outbox **out, struct wire_bus *bus)
{
    struct advisor_outbox *courier = kvt_calloc(1, sizeof(*courier));
    enum kvt_err rc;

    *out = NULL;
    if (courier == NULL)
        return KVT_NOMEM;
    courier->bus = bus;
    rc = kvt_queue_new(&courier->out, ADVISOR_OUTBOX_LETTERS_MAX);
    if (rc == KVT_OK)
        rc = kvt_queue_new(&courier->back, ADVISOR_OUTBOX_LETTERS_MAX);
    while (rc == KVT_OK && courier->thread_count < ADVISOR_OUTBOX_THREADS)
        if (pthread_create(&courier->threads[courier->thread_count], NULL, run, courier) == 0)
            courier->thread_count++;
        else
            rc = KVT_NOMEM;
    if (rc != KVT_OK) {
        advisor_outbox_free(courier);
        return rc;
    }
    *out = courier;
    return KVT_OK;
}

void
advisor_outbox_free(struct advisor_outbox *courier)
{
    struct advisor_outbox_message *letter;
    void *unsent;

    if (courier == NULL)
        return;
    if (courier->out != NULL) {
        /* What nobody began is not worth the wait: an order is void or planned anew. */
        kvt_queue_close(courier->out);
        while (kvt_queue_take(courier->out, &unsent, 1, 0) > 0)
            advisor_outbox_message_free(unsent);
    }
    for (size_t i = 0; i < courier->thread_count; i++)
        (void)pthread_join(courier->threads[i], NULL);
    if (courier->back != NULL)
        while ((letter = advisor_outbox_take(courier)) != NULL)
            advisor_outbox_message_free(letter);
    kvt_queue_free(courier->out);
    kvt_queue_free(courier->back);
    kvt_free(courier);
}

enum kvt_err
advisor_outbox_send(struct advisor_outbox *courier, struct advisor_outbox_message *letter)
{
    if (atomic_fetch_add(&courier->under_way, 1) >= ADVISOR_OUTBOX_LETTERS_MAX ||
        kvt_queue_put(courier->out, letter) != KVT_OK) {
        atomic_fetch_sub(&courier->under_way, 1);
        return KVT_AGAIN;
    }
    return KVT_OK;
}

struct advisor_outbox_message *
advisor_outbox_take(struct advisor_outbox *courier)
{
    void *letter = NULL;

    if (kvt_queue_take(courier->back, &letter, 1, 0) == 0)
        return NULL;
    atomic_fetch_sub(&courier->under_way, 1);
    return letter;
}
