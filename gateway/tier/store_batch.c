#include "gateway/tier/store_batch.h"

#include <assert.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"

struct slot {
    struct g4_request request; /* first: a request is its slot */
    struct gateway_store_batch *flight;
    size_t index;
    struct slot *next;
};

struct gateway_store_batch {
    size_t window;
    gateway_store_batch_finish_fn *finish;
    void *arg;
    struct slot *slots;
    struct slot *idle; /* the owner's */
    size_t airborne;   /* the owner's: submitted and not yet finished */
    uint64_t end_ms;   /* deadline of its requests; 0 before the first since it was renewed */

    /* Stores hand over by these alone: who signals under a lock wakes its owner to wait for it. */
    _Atomic(struct slot *) landed;
    sem_t landings; /* one for each slot that has landed and was not collected */
};

enum kvt_err
gateway_store_batch_new(struct gateway_store_batch **out, size_t window,
                        gateway_store_batch_finish_fn *finish, void *arg)
{
    struct gateway_store_batch *flight = kvt_calloc(1, sizeof(*flight));

    *out = NULL;
    if (flight == NULL)
        return KVT_NOMEM;
    if (window == 0)
        window = 1;
    if (window > GATEWAY_STORE_BATCH_WINDOW_MAX)
        window = GATEWAY_STORE_BATCH_WINDOW_MAX;
    flight->window = window;
    flight->finish = finish;
    flight->arg = arg;
    flight->slots = kvt_calloc(window, sizeof(*flight->slots));
    if (flight->slots == NULL || sem_init(&flight->landings, 0, 0) != 0) {
        kvt_free(flight->slots);
        kvt_free(flight);
        return KVT_NOMEM;
    }
    for (size_t i = 0; i < window; i++) {
        flight->slots[i].next = flight->idle;
        flight->idle = &flight->slots[i];
    }
    *out = flight;
    return KVT_OK;
}

/* A store's thread: hand over and leave.  The owner may free the flight as soon as it was woken. */
static void
on_done(struct g4_request *request, void *arg)
{
    struct slot *slot = arg;
    struct gateway_store_batch *flight = slot->flight;

    assert(&slot->request == request);
    slot->next = atomic_load_explicit(&flight->landed, memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(&flight->landed, &slot->next, slot,
                                                  memory_order_release, memory_order_relaxed))
        ;
    (void)sem_post(&flight->landings);
}

/* Its store is done with it, down to the last word. */
static void
wait_for_landing(struct gateway_store_batch *flight)
{
    while (sem_wait(&flight->landings) != 0) /* a signal */
        ;
}

/* Finish what has landed, waiting for the first. */
static void
collect(struct gateway_store_batch *flight)
{
    struct slot *landed;

    assert(flight->airborne > 0);
    wait_for_landing(flight);
    landed = atomic_exchange_explicit(&flight->landed, NULL, memory_order_acquire);
    assert(landed != NULL);
    /* Each of them is announced, or is just about to be. */
    for (const struct slot *slot = landed->next; slot != NULL; slot = slot->next)
        wait_for_landing(flight);
    while (landed != NULL) {
        struct slot *slot = landed;

        landed = slot->next;
        flight->finish(flight->arg, &slot->request, slot->index);
        slot->next = flight->idle;
        flight->idle = slot;
        flight->airborne--;
    }
}

struct g4_request *
gateway_store_batch_prepare(struct gateway_store_batch *flight, size_t index)
{
    struct slot *slot;

    while (flight->idle == NULL)
        collect(flight);
    slot = flight->idle;
    if (flight->end_ms == 0)
        flight->end_ms = kvt_clock_mono_ms() + GATEWAY_STORE_BATCH_DEADLINE_MS;
    slot->request =
        (struct g4_request){.done = on_done, .arg = slot, .deadline_ms = flight->end_ms};
    slot->flight = flight;
    slot->index = index;
    return &slot->request;
}

void
gateway_store_batch_renew(struct gateway_store_batch *flight)
{
    flight->end_ms = 0;
}

void
gateway_store_batch_submit(struct gateway_store_batch *flight, struct g4_store *store,
                           struct g4_request *request)
{
    struct slot *slot = flight->idle;
    enum kvt_err rc;

    assert(slot != NULL && request == &slot->request);
    flight->idle = slot->next;
    flight->airborne++;
    for (;;) {
        rc = g4_store_submit(store, request);
        if (rc != KVT_AGAIN || kvt_clock_mono_ms() >= flight->end_ms)
            break;
        kvt_clock_sleep_ms(2);
    }
    if (rc == KVT_OK)
        return;
    request->status = rc;
    (void)kvt_error_set(&request->error, rc, "the store took no request: %s", kvt_err_text(rc));
    flight->finish(flight->arg, request, slot->index);
    flight->airborne--;
    slot->next = flight->idle;
    flight->idle = slot;
}

void
gateway_store_batch_head(struct gateway_store_batch *flight, struct g4_store *store,
                         const char *key, size_t index)
{
    struct g4_request *request = gateway_store_batch_prepare(flight, index);

    request->verb = G4_HEAD;
    request->key = key;
    gateway_store_batch_submit(flight, store, request);
}

void
gateway_store_batch_drain(struct gateway_store_batch *flight)
{
    while (flight->airborne > 0)
        collect(flight);
}

void
gateway_store_batch_free(struct gateway_store_batch *flight)
{
    if (flight == NULL)
        return;
    gateway_store_batch_drain(flight);
    (void)sem_destroy(&flight->landings);
    kvt_free(flight->slots);
    kvt_free(flight);
}
