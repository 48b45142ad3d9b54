/*
 * wire/nats/bus_state.h -- inside of a bus, for wire/ alone.
 *
 * Why: subscriptions and stream readers work on the same connection as the bus itself.
 * Ownership: as wire/nats/bus.h.
 * Threads:   `shared` is guarded by its lock; the rest is constant after opening.
 * Limits:    as wire/nats/bus.h.
 */
#ifndef WIRE_NATS_BUS_STATE_H
#define WIRE_NATS_BUS_STATE_H

#include <nats/nats.h>
#include <pthread.h>
#include <stdatomic.h>

#include "wire/nats/bus.h"

/* A publish while the server is away fails at once: whoever must not lose it keeps it in a buffer
 * of its own, in order.  The library treats 0 as "8 MiB", so this is as small as it gets. */
#define WIRE_BUS_RECONNECT_BUFFER 1

struct wire_bus_subscription;

struct wire_bus {
    natsConnection *nc;
    jsCtx *js;
    char *url;                   /* as it was given, for people */
    _Atomic uint64_t reconnects; /* when they were counted last */

    struct {
        pthread_mutex_t lock;     /* guards this struct, and nothing outside it */
        pthread_cond_t completed; /* a subscription or the connection ran its last callback */
        bool closed;
        struct wire_bus_subscription *slots[WIRE_BUS_SUBSCRIPTIONS_MAX];
    } shared;
};

/** The code for a status of the NATS library. */
enum kvt_err wire_bus_error(natsStatus status);

/** The same of a call to JetStream, which may have a code of its own. */
enum kvt_err wire_bus_jetstream_error(natsStatus status, jsErrCode code);

/** End the subscription in `slot`, if any, and wait until its last callback returned. */
void wire_bus_subscription_end(struct wire_bus *bus, size_t slot);

#endif /* WIRE_NATS_BUS_STATE_H */
