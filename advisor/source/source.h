/*
 * advisor/source/source.h -- where events and reports come from.
 *
 * Why: the engine must not care whether messages are read from a stream that keeps them, heard once
 * on the bus, or come over ZMQ; nor in which dialect they are written.  A source copies what
 * arrives into a bounded queue on its own or on NATS's thread; the engine takes from it at its own
 * pace.
 *
 * What an item carries beside its bytes, by kind (item.h):
 *   dynamo-nats, dynamo-zmq  Nothing: publisher and sequence are in the envelope.  `subject` is the
 *                            subject, or the topic frame.  With several brokers the same message
 *                            comes once from each: the taker drops what it has seen.
 *   engine-zmq               `subject` names the publisher, also after restarts
 *                            of it or of us: "<source>:<endpoint>" where we connect,
 *                            "<source>:<endpoint>@<peer>/<topic>" where we bind (either part may be
 *                            missing); below KVT_NAME_MAX.  `sequence` counts its messages from 0
 *                            on.  `new_life`: its numbers began anew (they went back, or the
 *                            connection came back with other ones and the replay socket does not
 *                            vouch for them); `epoch` names the life where SGLang does.  `bytes`
 *                            is the payload.
 *   kvbm-zmq                 `bytes` is the payload, `subject` the topic; nothing is numbered.
 *   kvbm-nats                the same; ADVISOR_INBOX_ITEM_GAP when messages were lost: the
 *   connection
 *                            came back, or there was no room.
 *   any with `discovery`     ADVISOR_INBOX_ITEM_GONE for a worker whose instance record vanished.
 *   dynamo-jetstream         With `snapshot_bucket` ADVISOR_INBOX_ITEM_HOLDS and one
 *   ADVISOR_INBOX_ITEM_HELD
 *                            before the first START.
 *   minio-nats, no stream    ADVISOR_INBOX_ITEM_GAP when notifications were lost.  With
 *   `bucket_url`
 *                            then, and at first, all that the bucket holds, as notifications of it,
 *                            of which the first of each namespace is a `new_life`.
 *
 * Ownership: items taken from a source belong to the taker.
 * Threads:   open, poll and close on the engine's thread (one taker); state on any thread.
 * Limits:    ADVISOR_SOURCE_ITEMS_MAX items and ADVISOR_SOURCE_BYTES_MAX bytes wait in a source.  A
 *            stream is then not read on; core messages are dropped, which their numbers reveal.
 */
#ifndef ADVISOR_SOURCE_SOURCE_H
#define ADVISOR_SOURCE_SOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "advisor/source/inbox.h"
#include "base/core/buffer.h"
#include "kvtier/block.h"
#include "kvtier/error.h"
#include "kvtier/event.h"
#include "wire/dialect/dialect.h"

#define ADVISOR_SOURCE_ITEMS_MAX (1u << 18)
#define ADVISOR_SOURCE_BYTES_MAX (32u << 20)
#define ADVISOR_SOURCES_MAX      64
#define ADVISOR_ENDPOINTS_MAX    256 /* of one source */

struct wire_bus;
struct advisor_source;

struct advisor_source_options {
    char name[KVT_NAME_MAX];            /* of the source, unique */
    char namespace_[KVT_NAMESPACE_MAX]; /* foreign dialects: what its blocks are indexed under */
    struct wire_bus *bus;
    const char *stream;     /* JetStream */
    const char *durable;    /* ours: the durable consumer it is read by; "": none is kept */
    const char *subject;    /* NATS: what to subscribe to, or the stream's filter */
    const char *endpoints;  /* ZMQ: where to connect or bind, separated by commas */
    const char *replay;     /* ZMQ: replay sockets, in the order of `endpoints`; or "" */
    const char *topic;      /* ZMQ: subscription prefix; "" = all */
    const char *dump_url;   /* HTTP: a dump of what the workers hold; or "" */
    const char *discovery;  /* Dynamo: folder of its file store, where workers are found; or "" */
    const char *listen;     /* Dynamo: our address that workers dial back to; "" = chosen */
    const char *bucket_url; /* minio-nats: http[s]://host[:port]/bucket, to be listed; or "" */
    const char *bucket_region;           /* "": us-east-1 */
    const char *bucket_credentials_file; /* access:secret[:token] */
    const char *snapshot_bucket; /* dynamo-jetstream: where the routers' snapshot is; or "" */
    uint64_t bucket_every_ms;    /* it is listed again after this time; 0: never */
    bool bind;                   /* ZMQ: publishers connect to us */
    uint32_t block_tokens;       /* tokens a block must have; 0: as the events say */
    uint64_t seq;                /* JetStream: applied up to here */
    uint64_t created_ms;         /* JetStream: of the stream that was; 0 = none yet */
};

/* Nothing is given: every text is "". */
extern const struct advisor_source_options advisor_source_unset;

struct advisor_source_state {
    bool running;               /* there is something to read from */
    uint64_t last_seq;          /* JetStream: newest in the stream, as far as known */
    uint64_t dropped;           /* core: messages there was no room for */
    uint64_t messages;          /* received */
    uint64_t refused;           /* of them: too large, or not in the frames of their kind */
    uint64_t waiting;           /* received and not taken */
    uint64_t bytes;             /* of those */
    uint64_t discovery_skipped; /* records the last scan of the folder could not use */
    char detail[128];           /* why it is not running */
};

/* What is asked of a source, when a publisher's events are missing. */
struct advisor_ask {
    const char *worker;   /* the publisher's name; engine-zmq: `subject` of its items */
    const char *subject;  /* that its messages came by, or "" */
    uint64_t worker_id;   /* foreign: its number, 0 where it has none */
    uint64_t incarnation; /* of the life that is followed */
    uint64_t from;        /* first missing number; 0: everything (a dump) */
    uint64_t to;          /* last missing number, as far as known; 0: to the newest */
    uint64_t cursor;      /* canonical dump: page */
    uint32_t dp_rank;
    uint64_t deadline_ms; /* monotonic */
};

/* How an answer is to be read. */
enum advisor_answer_kind {
    ADVISOR_ANSWER_PAGE,     /* wire/message/query.h, canonical */
    ADVISOR_ANSWER_QUERY,    /* wire_dynamo_decode_answer_part() */
    ADVISOR_ANSWER_DUMP,     /* wire_dynamo_decode_dump_part() */
    ADVISOR_ANSWER_MESSAGES, /* messages as they would have come, each behind two LE64: sequence,
                              * size; from the first number that is still there on.  Empty: there
                              * is nothing newer */
};

struct advisor_source_ops {
    const char *name; /* of the kind, as in sources.file */
    enum wire_dialect dialect;
    enum kvt_err (*open)(struct advisor_source *source);
    void (*close)(struct advisor_source *source); /* half-open is allowed */
    /** The canonical dialect: one message's bytes as a batch; as wire_event_decode().  NULL: a
     *  foreign one, wire_dialect_decode() reads it. */
    enum kvt_err (*decode)(const void *bytes, size_t size, struct kvt_event_batch *batch,
                           size_t capacity, uint32_t *unknown, struct kvt_error *err);
    /** Fill a gap.  Called by threads of the outbox at once; returns by the deadline.
     *  `kind` says how the answer is to be read: the same source may answer in several ways.
     *  KVT_OK, KVT_TIMEOUT, KVT_NOTFOUND (no longer there: dump instead), KVT_UNSUPPORTED (there is
     *  nobody to ask), KVT_UNAVAILABLE, KVT_AGAIN (it is known to be there, but not how to ask it).
     *  NULL: nobody can ever be asked. */
    enum kvt_err (*ask)(struct advisor_source *source, const struct advisor_ask *ask,
                        enum advisor_answer_kind *kind, struct kvt_buffer *answer,
                        struct kvt_error *err);
};

/* The kinds there are. */
extern const struct advisor_source_ops advisor_source_jetstream;        /* kvtier-jetstream */
extern const struct advisor_source_ops advisor_source_core;             /* kvtier-core */
extern const struct advisor_source_ops advisor_source_dynamo_nats;      /* dynamo-nats */
extern const struct advisor_source_ops advisor_source_dynamo_jetstream; /* dynamo-jetstream */
extern const struct advisor_source_ops advisor_source_dynamo_zmq;       /* dynamo-zmq */
extern const struct advisor_source_ops advisor_source_engine_zmq;       /* engine-zmq */
extern const struct advisor_source_ops advisor_source_kvbm_nats;        /* kvbm-nats */
extern const struct advisor_source_ops advisor_source_kvbm_zmq;         /* kvbm-zmq */
extern const struct advisor_source_ops advisor_source_minio_nats;       /* minio-nats */

/** The kind called so, or NULL. */
const struct advisor_source_ops *advisor_source_kind(const char *name);
/** Names of all kinds, for people; returns how many. */
size_t advisor_source_kind_names(const char **names, size_t capacity);

KVT_NODISCARD enum kvt_err advisor_source_open(struct advisor_source **out,
                                               const struct advisor_source_ops *ops,
                                               const struct advisor_source_options *options);
/** Whoever waits in it, on any thread, returns soon; nothing is handed over any more. */
void advisor_source_stop(struct advisor_source *source);
void advisor_source_close(struct advisor_source *source);

/** Up to `max` items, waiting up to `wait_ms` for the first. */
size_t advisor_source_poll(struct advisor_source *source, struct advisor_inbox_item **items,
                           size_t max, uint64_t wait_ms);

void advisor_source_state(struct advisor_source *source, struct advisor_source_state *state);

/** What came from the stream made at `created_ms` up to `seq` is applied, and survives a power cut.
 *  Any thread. */
void advisor_source_applied(struct advisor_source *source, uint64_t seq, uint64_t created_ms);

/** As ops->ask; KVT_UNSUPPORTED where the kind has none. */
KVT_NODISCARD enum kvt_err advisor_source_ask(struct advisor_source *source,
                                              const struct advisor_ask *ask,
                                              enum advisor_answer_kind *kind,
                                              struct kvt_buffer *answer, struct kvt_error *err);

const struct advisor_source_ops *advisor_source_dialect(const struct advisor_source *source);

#endif /* ADVISOR_SOURCE_SOURCE_H */
