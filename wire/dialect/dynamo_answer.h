/*
 * wire/dialect/dynamo_answer.h -- Dynamo's worker query and HTTP dump: how a gap is filled.
 *
 * Why: a worker's answer is RouterEvents in an envelope of their own, and has no length limit.
 * Ownership: as raw_batch.h.
 * Limits:    as raw_batch.h, per part.
 */
#ifndef WIRE_DIALECT_DYNAMO_ANSWER_H
#define WIRE_DIALECT_DYNAMO_ANSWER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/core/buffer.h"
#include "base/text/json_pull.h"
#include "kvtier/error.h"
#include "wire/dialect/raw_batch.h"

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
/** As wire_dynamo_encode_query(), in JSON, for releases whose request plane speaks that. */
KVT_NODISCARD enum kvt_err wire_dynamo_encode_query_json(uint64_t worker, uint32_t dp_rank,
                                                         uint64_t from, struct kvt_buffer *out);

/*
 * Answers of any length, a batch at a time: what a worker holds may be more than one batch takes.
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

/** The body of an answer, msgpack or JSON.  part->newest is the last event id it speaks for, where
 * it says; part->what and part->newest are the same for all parts. */
KVT_NODISCARD enum kvt_err wire_dynamo_decode_answer_part(const void *bytes, size_t size,
                                                          struct wire_dynamo_part *part,
                                                          struct wire_raw_batch *batch,
                                                          struct kvt_error *err);
/** `GET /dump`: {"<model>:<group>": {"block_size", "events"} | {"error"}}.  A batch never holds two
 * groups, and batch->namespace_ is its group's name, "<model>:<group>". */
KVT_NODISCARD enum kvt_err wire_dynamo_decode_dump_part(const void *bytes, size_t size,
                                                        struct wire_dynamo_part *part,
                                                        struct wire_raw_batch *batch,
                                                        struct kvt_error *err);

#endif /* WIRE_DIALECT_DYNAMO_ANSWER_H */
