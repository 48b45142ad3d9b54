/*
 * wire/dialect/dialect.h -- one decoder for each way the field writes KV events.
 *
 * Why: an advisor must be pointable at any running cluster.  Every decoder is a pure function from
 * bytes to a raw batch (raw.h): it never reads past its input, allocates nothing, and refuses only
 * what it must -- unknown members are passed over, an event with unknown values becomes SKIP with
 * its number, and one bad event does not take its neighbours along.
 *
 * Ownership: as raw.h.
 * Limits:    as raw.h.
 *
 * Sources: docs/formats.md, "Foreign dialects", which states for each the releases it was checked
 * against.
 */
#ifndef WIRE_DIALECT_DIALECT_H
#define WIRE_DIALECT_DIALECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/core/buffer.h"
#include "base/text/json_pull.h"
#include "kvtier/error.h"
#include "kvtier/key.h"
#include "wire/dialect/raw_batch.h"

enum wire_dialect {
    WIRE_DIALECT_KVTIER, /* the canonical format (wire/message/event_codec.h); has no raw decoder */
    WIRE_DIALECT_DYNAMO, /* RouterEvents: NATS core and ZMQ envelope (msgpack), one or an array;
                           * JSON as on JetStream: told apart by the first byte */
    WIRE_DIALECT_ENGINE, /* vLLM, SGLang and the KVBM consolidator: payload of their ZMQ stream */
    WIRE_DIALECT_KVBM,   /* kvbm.events: [events, instance] */
    WIRE_DIALECT_MINIO,  /* bucket notifications, JSON */
    WIRE_DIALECT_COUNT,
};

/** "kvtier", "dynamo", "engine", "kvbm", "minio". */
const char *wire_dialect_name(enum wire_dialect dialect);
bool wire_dialect_parse(const char *text, enum wire_dialect *dialect);

/**
 * Decode one message.  For ENGINE the sequence is a frame of its own and not set here; the caller
 * fills batch->sequence.
 *
 * @return KVT_OK, KVT_INVALID (offset and what was expected in `err`) or KVT_RANGE
 */
KVT_NODISCARD enum kvt_err wire_dialect_decode(enum wire_dialect dialect, const void *bytes,
                                               size_t size, struct wire_raw_batch *batch,
                                               struct kvt_error *err);

/* ---- the ZMQ event plane of Dynamo: four frames ---- */

struct wire_dynamo_frames {
    uint64_t publisher;
    uint64_t sequence;
    const void *envelope; /* into the last frame */
    size_t envelope_size;
};

/** Frames 1, 2 and 3 (the topic is the caller's).  KVT_OK or KVT_INVALID. */
KVT_NODISCARD enum kvt_err wire_dynamo_frames(const void *publisher, size_t publisher_size,
                                              const void *sequence, size_t sequence_size,
                                              const void *body, size_t body_size,
                                              struct wire_dynamo_frames *frames,
                                              struct kvt_error *err);

/* ---- Dynamo's worker query and HTTP dump: how a gap is filled ---- */

enum wire_dynamo_answer {
    WIRE_DYNAMO_EVENTS,  /* from the asked id on */
    WIRE_DYNAMO_DUMP,    /* everything, under ids of its own; what is not in it is void */
    WIRE_DYNAMO_TOO_NEW, /* the asked id is ahead of the worker */
    WIRE_DYNAMO_REFUSED, /* InvalidRange, Error */
};

/** Append the msgpack body of a question: events from `from` on (0: a dump).  KVT_OK or KVT_NOMEM
 * (KVT_RANGE: the buffer's limit). */
KVT_NODISCARD enum kvt_err wire_dynamo_encode_query(uint64_t worker, uint32_t dp_rank,
                                                    uint64_t from, struct kvt_buffer *out);
/** The body of an answer, msgpack or JSON.  `newest` is the last event id it speaks for, where it
 * says. */
KVT_NODISCARD enum kvt_err wire_dynamo_decode_answer(const void *bytes, size_t size,
                                                     enum wire_dynamo_answer *what,
                                                     uint64_t *newest, struct wire_raw_batch *batch,
                                                     struct kvt_error *err);
/** `GET /dump`: {"<model>:<group>": {"block_size", "events"} | {"error"}}, all of them. */
KVT_NODISCARD enum kvt_err wire_dynamo_decode_dump(const void *bytes, size_t size,
                                                   struct wire_raw_batch *batch,
                                                   struct kvt_error *err);

/** As wire_dynamo_encode_query(), in JSON, for releases whose request plane speaks that. */
KVT_NODISCARD enum kvt_err wire_dynamo_encode_query_json(uint64_t worker, uint32_t dp_rank,
                                                         uint64_t from, struct kvt_buffer *out);

/*
 * Answers of any length, a batch at a time: what a worker holds does not end at raw.h's limits.
 * Start with an all-zero state; while `more` is set after KVT_OK, the next call with the same bytes
 * goes on.  Each call's batch stands alone.
 */
struct wire_dynamo_part {
    bool more;
    enum wire_dynamo_answer what;
    uint64_t newest;
    /* where the next call goes on */
    size_t at;
    uint64_t left;
    struct kvt_json_pull json;
    struct kvt_json_slice group;
    bool begun;
    bool in_group;
};

/** As wire_dynamo_decode_answer(); part->what and part->newest are the same for all parts. */
KVT_NODISCARD enum kvt_err wire_dynamo_decode_answer_part(const void *bytes, size_t size,
                                                          struct wire_dynamo_part *part,
                                                          struct wire_raw_batch *batch,
                                                          struct kvt_error *err);
/** As wire_dynamo_decode_dump(); a batch never holds two groups, and batch->namespace_ is its
 * group's name, "<model>:<group>". */
KVT_NODISCARD enum kvt_err wire_dynamo_decode_dump_part(const void *bytes, size_t size,
                                                        struct wire_dynamo_part *part,
                                                        struct wire_raw_batch *batch,
                                                        struct kvt_error *err);

/* ---- cache groups of vLLM: the only thing about its stream that needs a memory ---- */

/*
 * A model with several kinds of attention keeps the same block once in each cache group, and only
 * full attention can be had back by prefix.  A store says what kind its group is; a remove does
 * not.  One of these a publisher, all zero at first.
 */
struct wire_engine_groups {
    uint64_t full;    /* bit g: group g was said to be full attention */
    uint64_t partial; /* bit g: group g was said to be something else */
};

/** Learn from `batch` in its order, and turn what concerns other groups into SKIP (FILTERED_GROUP):
 * groups known to be partial, and groups but 0 of which nothing is known. */
void wire_engine_groups_filter(struct wire_engine_groups *groups, struct wire_raw_batch *batch);

/* ---- kvbm.events with another revision of the lineage hash than the default, B ---- */

/** As wire_dialect_decode(KVBM). */
KVT_NODISCARD enum kvt_err wire_kvbm_decode(enum kvt_key_revision revision, const void *bytes,
                                            size_t size, struct wire_raw_batch *batch,
                                            struct kvt_error *err);

/** Undo, in place, how MinIO escapes a key: %XX and '+'.  False for half an escape or a NUL: no key
 *  has those. */
bool wire_minio_unescape(char *text);

#endif /* WIRE_DIALECT_DIALECT_H */
