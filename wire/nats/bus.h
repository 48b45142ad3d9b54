/*
 * wire/nats/bus.h -- the NATS glue all daemons share.
 *
 * Why: connecting, reconnecting for ever, ensuring streams, publishing with an acknowledgement and
 * asking with a deadline are the same everywhere, and NATS threads must never run our code for
 * long.
 *
 * Ownership: a bus owns its connection and subscriptions.  Message bytes given to a callback live
 *            for the call only: copy and leave.
 * Threads:   any thread may call; callbacks come from NATS threads.
 * Limits:    a message of at most WIRE_BUS_MESSAGE_MAX bytes; WIRE_BUS_SUBSCRIPTIONS_MAX
 *            subscriptions, each with a thread of the library.
 */
#ifndef WIRE_NATS_BUS_H
#define WIRE_NATS_BUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/config/config.h"
#include "base/core/buffer.h"
#include "kvtier/error.h"

#define WIRE_BUS_MESSAGE_MAX       (900u << 10) /* below the server's default of 1 MiB */
#define WIRE_BUS_SUBSCRIPTIONS_MAX 64
#define WIRE_BUS_PENDING_MESSAGES  (1 << 18) /* of one, received and not delivered */
#define WIRE_BUS_PENDING_BYTES     (64 << 20)

struct wire_bus;

struct wire_bus_options {
    const char *url;        /* nats://host:port[,nats://...] */
    const char *name;       /* shown by the server's monitoring */
    const char *user_file;  /* file "user:password"; NULL or "": none */
    const char *token_file; /* file with a token; as above */
    const char *creds_file; /* NATS credentials file; as above */
    const char *ca_file;    /* NULL or "": the system's */
    /* True: opening fails when no server answers; false: keep trying behind, also where something
     * takes connections and closes them, or says what is not NATS. */
    bool connect_now;
};

/** The options of config/nats.def's rows, the first of which is row `url` of the program's table;
 *  the strings stay the configuration's.  `name` is left to the caller, `connect_now` is false. */
struct wire_bus_options wire_bus_options_of(const struct kvt_config *config, size_t url);

KVT_NODISCARD enum kvt_err
wire_bus_open(struct wire_bus **out, const struct wire_bus_options *options, struct kvt_error *err);

/** Drain and close.  NULL is allowed.  No callback runs after it returned. */
void wire_bus_close(struct wire_bus *bus);

bool wire_bus_connected(struct wire_bus *bus);

/** Log once when the server goes and once when it is there again.  NULL: there is nothing to tell.
 *
 * @param         area       of the log, a literal
 * @param         loss       what does not happen meanwhile
 * @param[in,out] connected  what was said last; begin with true
 */
void wire_bus_tell(struct wire_bus *bus, const char *area, const char *loss, bool *connected);

/** True once the server has refused our credentials for good: it is not asked again.  Every call
 *  gives KVT_UNAVAILABLE then; open another bus when the credentials are right. */
bool wire_bus_refused(struct wire_bus *bus);

/** Times the connection came back since opening, the one that is there included: who is told
 *  wire_bus_connected() and asks then, knows of each absence before.  One that came back and failed
 *  at once counts, too. */
uint64_t wire_bus_reconnects(struct wire_bus *bus);

/** Make KVTIER_EVENTS, KVTIER_ORDERS and KVTIER_REPORTS exist as wire/message/subject.h says
 * (idempotent;
 *  an existing stream with other limits is left as the operator made it). */
KVT_NODISCARD enum kvt_err wire_bus_ensure_streams(struct wire_bus *bus, struct kvt_error *err);

/** Ensure the streams, unless that was done since the connection last came: a server that came back
 *  may have forgotten them, and then JetStream takes nothing.
 *
 * @param[in,out] made_at  which connection it was done for; begin with 0
 * @return KVT_OK, also where there was nothing to do; KVT_UNAVAILABLE (no server), or as above
 */
KVT_NODISCARD enum kvt_err wire_bus_keep_streams(struct wire_bus *bus, uint64_t *made_at,
                                                 struct kvt_error *err);

/** Is it a name that a bucket of keys or objects can have: letters, digits, - and _, below `max`
 *  bytes? */
bool wire_bus_bucket_ok(const char *bucket, size_t max);

/** Core publish: at most once.  KVT_OK means handed to the connection; KVT_UNAVAILABLE while it is
 *  away (nothing is kept: the caller's own buffer is the bounded one), KVT_AGAIN, KVT_RANGE. */
KVT_NODISCARD enum kvt_err wire_bus_publish(struct wire_bus *bus, const char *subject,
                                            const void *bytes, size_t size);

/**
 * JetStream publish, waiting for the server's acknowledgement.  `message_id` (may be NULL) makes a
 * repeat within the stream's duplicate window harmless.
 *
 * @param[out] stream_seq  the sequence in the stream (also for a duplicate); may be NULL
 * @return KVT_OK, KVT_TIMEOUT, KVT_UNAVAILABLE (no server, no stream), KVT_FULL, KVT_RANGE
 */
KVT_NODISCARD enum kvt_err wire_bus_publish_acked(struct wire_bus *bus, const char *subject,
                                                  const char *message_id, const void *bytes,
                                                  size_t size, uint64_t timeout_ms,
                                                  uint64_t *stream_seq);

/**
 * May this connection publish to `subject` of a stream?  Nothing is left there: the message expects
 * another stream, so the server refuses it once it may pass.
 *
 * @return KVT_OK, KVT_DENIED (no answer in time, as when the server forbids it), KVT_UNAVAILABLE
 * (no server, no stream)
 */
KVT_NODISCARD enum kvt_err wire_bus_may_publish(struct wire_bus *bus, const char *subject,
                                                uint64_t timeout_ms);

/* Core subscription and request-reply. */
typedef void wire_bus_message_fn(void *arg, const char *subject, const char *reply,
                                 const void *bytes, size_t size);

KVT_NODISCARD enum kvt_err wire_bus_subscribe(struct wire_bus *bus, const char *subject,
                                              wire_bus_message_fn *callback, void *arg,
                                              struct kvt_error *err);

/** As above, but a message goes to one alone of those of the same group; NULL: of none. */
KVT_NODISCARD enum kvt_err wire_bus_subscribe_shared(struct wire_bus *bus, const char *subject,
                                                     const char *group,
                                                     wire_bus_message_fn *callback, void *arg,
                                                     struct kvt_error *err);

/** End the subscription made with the same subject and arg; no callback after it returned.  Not
 * from inside its callback. */
void wire_bus_unsubscribe(struct wire_bus *bus, const char *subject, void *arg);

/** Wait until the server has read all that was sent before (a subscription, too) and we what it
 *  sent us until then: two seconds at most, and a moment only while it is away. */
void wire_bus_settle(struct wire_bus *bus);

/** Ask and wait for one answer, appended to `answer`.  KVT_UNAVAILABLE: nobody answers there. */
KVT_NODISCARD enum kvt_err wire_bus_request(struct wire_bus *bus, const char *subject,
                                            const void *bytes, size_t size, uint64_t timeout_ms,
                                            struct kvt_buffer *answer);

#endif /* WIRE_NATS_BUS_H */
