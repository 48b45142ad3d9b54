/*
 * wire/nats/stream.h -- reading a JetStream stream: in order from a sequence, or as a work queue.
 *
 * Why: the advisor keeps the sequence it committed, so it reads with an ephemeral consumer from
 * there and never acknowledges (KVTIER_EVENTS, KVTIER_REPORTS), or with a durable one that shows
 * people in NATS how far it is, acknowledged behind what is durable; a gateway takes orders from a
 * durable work-queue consumer and acknowledges each after its effect.  Both survive a server that
 * goes away, restarts, or loses its consumers: the reader re-creates what it needs and goes on
 * behind the last message it handed out.
 *
 * Ownership: a message belongs to the caller until wire_message_free().
 * Threads:   one thread per reader.
 * Limits:    at most WIRE_STREAM_FETCH_MAX messages a call; memory is bounded by what is fetched.
 */
#ifndef WIRE_NATS_STREAM_H
#define WIRE_NATS_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kvtier/error.h"
#include "wire/nats/bus.h"

#define WIRE_STREAM_FETCH_MAX   256
#define WIRE_STREAM_UNACKED_MAX (1u << 20) /* handed out and not applied; then it waits */
#define WIRE_STREAM_TAKEN_MS    1000

struct wire_message; /* wraps the NATS message */

const void *wire_message_bytes(const struct wire_message *message, size_t *size);
const char *wire_message_subject(const struct wire_message *message);
uint64_t wire_message_stream_seq(const struct wire_message *message);
uint64_t wire_message_time_ms(const struct wire_message *message);
void wire_message_free(struct wire_message *message);

struct wire_stream_state {
    uint64_t first_seq; /* oldest still stored */
    uint64_t last_seq;
    uint64_t created_ms; /* when the stream was created: another value = another stream */
};

/** KVT_OK, KVT_NOTFOUND (no such stream) or KVT_UNAVAILABLE. */
KVT_NODISCARD enum kvt_err wire_stream_state(struct wire_bus *bus, const char *stream,
                                             struct wire_stream_state *state);

struct wire_stream;

struct wire_stream_options {
    const char *stream;
    const char *subject;  /* filter; "" = all */
    const char *durable;  /* "" = ordered reading from `start_seq`, else a work-queue consumer */
    bool ordered;         /* with a durable: its reader reads in order all the same */
    uint64_t start_seq;   /* ordered: first sequence wanted (1 = from the beginning) */
    uint64_t ack_wait_ms; /* work queue: redelivered after this; 0 = 60 s */
    bool foreign;         /* another program's stream: waited for, never made */
};

/** Does not need a server yet: the first fetches then give KVT_UNAVAILABLE. */
KVT_NODISCARD enum kvt_err wire_stream_open(struct wire_stream **out, struct wire_bus *bus,
                                            const struct wire_stream_options *options);
void wire_stream_close(struct wire_stream *stream);

/**
 * Fetch up to `max` messages, waiting up to `wait_ms` for the first.
 *
 * Ordered: sequences strictly increase until a gap is told.  When the stream's first sequence
 * has passed what we want next, KVT_NOTFOUND is given once with *count 0 and reading goes on at the
 * first stored one: the caller must treat it as a gap for every publisher.  The same when the
 * stream is another one than before (created anew).
 *
 * A stream of ours that is missing is made again, empty: that is such a gap.
 *
 * @return KVT_OK (also with 0 messages), KVT_NOTFOUND (gap, see above), KVT_UNAVAILABLE (returns
 *         sooner than `wait_ms`, but never at once), KVT_NOMEM
 */
KVT_NODISCARD enum kvt_err wire_stream_fetch(struct wire_stream *stream,
                                             struct wire_message **messages, size_t max,
                                             uint64_t wait_ms, size_t *count);

/** Ordered with a durable: everything up to `seq` is applied for good, and was handed out; 0:
 *  nothing is yet.  The server's word is not waited for, and while it is away it is not told: say
 *  it again now and then, which costs nothing where it is known. */
void wire_stream_applied(struct wire_stream *stream, uint64_t seq);

/**
 * Does somebody else read by that durable now?  It is looked at for WIRE_STREAM_TAKEN_MS where it
 * exists: who reads asks all the time, and who died does not.
 *
 * @return KVT_OK: nobody; KVT_BUSY; KVT_UNAVAILABLE
 */
KVT_NODISCARD enum kvt_err wire_stream_durable_free(struct wire_bus *bus, const char *stream,
                                                    const char *durable);

/** Work queue: the effect holds; the message will not come again.  Waits for the server's word.  A
 *  server killed right after it may still have forgotten: what is asked for must be repeatable. */
KVT_NODISCARD enum kvt_err wire_stream_ack(struct wire_stream *stream,
                                           struct wire_message *message);
/** Work queue: still working on it, do not redeliver yet. */
void wire_stream_working(struct wire_stream *stream, struct wire_message *message);
/** Work queue: can never be done; drop it. */
void wire_stream_reject(struct wire_stream *stream, struct wire_message *message);

#endif /* WIRE_NATS_STREAM_H */
