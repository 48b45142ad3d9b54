#include <assert.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "wire/nats/bus.h"
#include "wire/nats/bus_state.h"

struct wire_bus_subscription {
    struct wire_bus *bus;
    natsSubscription *nats;
    char *subject;
    wire_bus_message_fn *callback;
    void *arg;
    bool completed; /* under the bus's lock: the delivery thread has left our code for good */
};

static void
on_message(natsConnection *nc, natsSubscription *nats, natsMsg *message, void *arg)
{
    struct wire_bus_subscription *subscription = arg;
    const int size = natsMsg_GetDataLength(message);

    (void)nc;
    (void)nats;
    subscription->callback(subscription->arg, natsMsg_GetSubject(message),
                           natsMsg_GetReply(message), natsMsg_GetData(message),
                           size > 0 ? (size_t)size : 0);
    natsMsg_Destroy(message);
}

static void
on_complete(void *arg)
{
    struct wire_bus_subscription *subscription = arg;
    struct wire_bus *bus = subscription->bus;

    (void)pthread_mutex_lock(&bus->shared.lock);
    subscription->completed = true;
    (void)pthread_cond_broadcast(&bus->shared.completed);
    (void)pthread_mutex_unlock(&bus->shared.lock);
}

/* Between natsSubscription_Unsubscribe() and natsSubscription_Destroy() it is needed, too: up to
 * version 3.5 the library's reading thread may still put a message into what the connection no
 * longer knows; an answer from the server comes behind any such message. */
void
wire_bus_settle(struct wire_bus *bus)
{
    enum { ANSWER_MS = 2000, AWAY_MS = 50 };

    if (!wire_bus_connected(bus) || natsConnection_FlushTimeout(bus->nc, ANSWER_MS) != NATS_OK)
        kvt_clock_sleep_ms(AWAY_MS);
}

static void
subscription_free(struct wire_bus_subscription *subscription)
{
    if (subscription == NULL)
        return;
    natsSubscription_Destroy(subscription->nats);
    kvt_free(subscription->subject);
    kvt_free(subscription);
}

/* Put it into a free slot; KVT_FULL when there is none. */
static enum kvt_err
slot_take(struct wire_bus *bus, struct wire_bus_subscription *subscription)
{
    enum kvt_err rc = KVT_FULL;

    (void)pthread_mutex_lock(&bus->shared.lock);
    for (size_t i = 0; i < WIRE_BUS_SUBSCRIPTIONS_MAX && rc != KVT_OK; i++) {
        if (bus->shared.slots[i] == NULL) {
            bus->shared.slots[i] = subscription;
            rc = KVT_OK;
        }
    }
    (void)pthread_mutex_unlock(&bus->shared.lock);
    return rc;
}

enum kvt_err
wire_bus_subscribe(struct wire_bus *bus, const char *subject, wire_bus_message_fn *callback,
                   void *arg, struct kvt_error *err)
{
    return wire_bus_subscribe_shared(bus, subject, NULL, callback, arg, err);
}

enum kvt_err
wire_bus_subscribe_shared(struct wire_bus *bus, const char *subject, const char *group,
                          wire_bus_message_fn *callback, void *arg, struct kvt_error *err)
{
    struct wire_bus_subscription *subscription;
    natsStatus s;
    enum kvt_err rc;

    assert(bus != NULL && subject != NULL && callback != NULL);
    subscription = kvt_calloc(1, sizeof(*subscription));
    if (subscription == NULL)
        return kvt_error_set(err, KVT_NOMEM, "subscribe %s: out of memory", subject);
    subscription->bus = bus;
    subscription->callback = callback;
    subscription->arg = arg;
    subscription->subject = kvt_strdup(subject);
    if (subscription->subject == NULL) {
        rc = kvt_error_set(err, KVT_NOMEM, "subscribe %s: out of memory", subject);
        goto fail;
    }
    s = group == NULL ? natsConnection_Subscribe(&subscription->nats, bus->nc, subject, on_message,
                                                 subscription)
                      : natsConnection_QueueSubscribe(&subscription->nats, bus->nc, subject, group,
                                                      on_message, subscription);
    if (s != NATS_OK) {
        rc = kvt_error_set(err, wire_bus_error(s), "subscribe %s: %s", subject,
                           natsStatus_GetText(s));
        goto fail;
    }
    /* The library's own limit is 65,536: a busy plane sends that while this thread waits. */
    s = natsSubscription_SetPendingLimits(subscription->nats, WIRE_BUS_PENDING_MESSAGES,
                                          WIRE_BUS_PENDING_BYTES);
    assert(s == NATS_OK);
    s = natsSubscription_SetOnCompleteCB(subscription->nats, on_complete, subscription);
    assert(s == NATS_OK);
    rc = slot_take(bus, subscription);
    if (rc == KVT_OK)
        return KVT_OK;
    rc = kvt_error_set(err, rc, "subscribe %s: %d subscriptions are in use", subject,
                       WIRE_BUS_SUBSCRIPTIONS_MAX);
    (void)natsSubscription_Unsubscribe(subscription->nats);
    (void)pthread_mutex_lock(&bus->shared.lock);
    while (!subscription->completed)
        (void)pthread_cond_wait(&bus->shared.completed, &bus->shared.lock);
    (void)pthread_mutex_unlock(&bus->shared.lock);
    wire_bus_settle(bus);

fail:
    subscription_free(subscription);
    return rc;
}

void
wire_bus_subscription_end(struct wire_bus *bus, size_t slot)
{
    struct wire_bus_subscription *subscription;

    (void)pthread_mutex_lock(&bus->shared.lock);
    subscription = bus->shared.slots[slot];
    bus->shared.slots[slot] = NULL;
    (void)pthread_mutex_unlock(&bus->shared.lock);
    if (subscription == NULL)
        return;
    (void)natsSubscription_Unsubscribe(subscription->nats);
    (void)pthread_mutex_lock(&bus->shared.lock);
    while (!subscription->completed)
        (void)pthread_cond_wait(&bus->shared.completed, &bus->shared.lock);
    (void)pthread_mutex_unlock(&bus->shared.lock);
    wire_bus_settle(bus);
    subscription_free(subscription);
}

void
wire_bus_unsubscribe(struct wire_bus *bus, const char *subject, void *arg)
{
    size_t found = WIRE_BUS_SUBSCRIPTIONS_MAX;

    (void)pthread_mutex_lock(&bus->shared.lock);
    for (size_t i = 0; i < WIRE_BUS_SUBSCRIPTIONS_MAX; i++) {
        const struct wire_bus_subscription *subscription = bus->shared.slots[i];

        if (subscription != NULL && subscription->arg == arg &&
            strcmp(subscription->subject, subject) == 0)
            found = i;
    }
    (void)pthread_mutex_unlock(&bus->shared.lock);
    if (found < WIRE_BUS_SUBSCRIPTIONS_MAX)
        wire_bus_subscription_end(bus, found);
}
