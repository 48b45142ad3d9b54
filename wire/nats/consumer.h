/*
 * wire/nats/consumer.h -- a JetStream consumer that is pulled, and the inbox its messages come to.
 *
 * Why: the library's own fetch writes what lies in an inbox into an array of as many messages as it
 * asked for (up to version 3.4), so asking is ours.
 *
 * One request at a time asks the consumer for messages: for as many as there are, or for the next
 * one.  It is over when all came, or when the server says so in a message with a status, behind the
 * last of them.  Who asks only while nothing lies in the inbox never has more than one request's
 * messages in it (and one that came just when the wait for it ended), however far behind he is.
 *
 * Ownership: all members are the consumer's; bus and stream's name are the caller's and outlive it.
 * Threads:   one.
 * Limits:    a request's messages have WIRE_CONSUMER_ASK_BYTES, or are two of the largest.
 */
#ifndef WIRE_NATS_CONSUMER_H
#define WIRE_NATS_CONSUMER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/nats/bus_state.h"

#define WIRE_CONSUMER_ASK_BYTES   (INT64_C(8) << 20)
#define WIRE_CONSUMER_DURABLE_MAX 256

struct wire_consumer {
    struct wire_bus *bus;
    const char *stream;
    natsSubscription *nats; /* of the inbox; NULL: not bound */
    natsInbox *inbox;
    char *name;
    uint64_t request;      /* number of the last one, which the answers about it end in */
    size_t asked;          /* messages it still may bring; 0: it is over */
    uint64_t asked_end_ms; /* when it is over at the latest */
};

/** Make it (a durable one may exist already), and a place for what it sends. */
KVT_NODISCARD enum kvt_err wire_consumer_bind(struct wire_consumer *consumer,
                                              jsConsumerConfig *config);

/** Leave it: a durable one is needed again, another one goes when nobody asks it. */
void wire_consumer_unbind(struct wire_consumer *consumer);

/** Does the server still have it? */
bool wire_consumer_exists(struct wire_consumer *consumer);

/** What the inbox has next; with nothing there the answer to a request, made when there is none:
 *  for up to `max` messages while not `*asked_now`, then for the next one.
 *
 *  @param end_ms     monotonic, when to come back
 *  @param enough     ask for nothing more
 *  @return NATS_TIMEOUT: nothing came, or it is enough */
natsStatus wire_consumer_next(struct wire_consumer *consumer, natsMsg **nats, size_t max,
                              uint64_t end_ms, bool enough, bool *asked_now);

/** Is it a message of the stream, or about a request?  KVT_UNAVAILABLE: the consumer is of no use
 *  any more. */
KVT_NODISCARD enum kvt_err wire_consumer_understand(struct wire_consumer *consumer, natsMsg *nats,
                                                    bool *of_stream);

#endif /* WIRE_NATS_CONSUMER_H */
