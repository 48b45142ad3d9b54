/*
 * wire/dialect/dynamo_rpc.h -- frames of Dynamo's request plane, as bytes.
 *
 * Why: a gap in a worker's events is filled by asking the worker, and the worker is reached over
 * TCP in a framing of its own (or over NATS with the same inner frame).  Sockets are somebody
 * else's: everything here is a pure function both ways.
 *
 * How a question goes: the asker listens on a port, sends a request that names that port, gets an
 * acknowledgement on the connection it used, and is then dialled by the worker, which sends on the
 * new connection: a handshake (which stream this is), a prologue (an error or none), data frames,
 * a final one and the end.
 *
 * Ownership: what a decoder hands out points into its input.
 * Limits:    the names below.  A decoder that needs more bytes says KVT_AGAIN; a length above the
 *            limit is KVT_RANGE as soon as it is seen.
 *
 * Layout (event-plane releases 1.0.2 to 1.6.1; docs/formats.md, "Foreign dialects"):
 *   request  u16 length, path, u16 length, JSON headers, u32 length, frame   (all big-endian)
 *   ack      u32 length, text (an empty text is a yes)
 *   frame    u64 header length, u64 body length, u64 checksum (0: none), JSON header, body
 */
#ifndef WIRE_DIALECT_DYNAMO_RPC_H
#define WIRE_DIALECT_DYNAMO_RPC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/core/buffer.h"
#include "kvtier/error.h"

#define WIRE_DYNAMO_RPC_PATH_MAX   1024u      /* bytes of a request's path */
#define WIRE_DYNAMO_RPC_HEADER_MAX 65535u     /* bytes of a JSON header, of a frame or a request */
#define WIRE_DYNAMO_RPC_BODY_MAX   (1u << 28) /* bytes of one frame's body: a dump comes in one */
#define WIRE_DYNAMO_RPC_ACK_MAX    65536u     /* bytes of an acknowledgement's text */
#define WIRE_DYNAMO_RPC_NAME_MAX   128        /* ids, subjects, addresses, with the final NUL */

/* ---- a question ---- */

struct wire_dynamo_rpc_request {
    const char *path;    /* of the endpoint, as its instance record says; unused by put_question */
    const char *id;      /* of this request: unique */
    const char *address; /* "host:port" that the worker is to dial */
    const char *subject; /* name of the answer's stream: comes back in the handshake */
    bool json;           /* body and answer are JSON (releases before the msgpack bodies) */
    uint64_t time_ns;    /* Unix time, for their statistics; 0: not said */
    const void *body;    /* wire_dynamo_encode_query() */
    size_t body_size;
};

/** Append the frame with control header and body: what the NATS request plane carries as message.
 * KVT_OK, KVT_RANGE (a text or the body is too long) or KVT_NOMEM; on failure nothing is added. */
KVT_NODISCARD enum kvt_err
wire_dynamo_rpc_put_question(struct kvt_buffer *out, const struct wire_dynamo_rpc_request *request);

/** Append the request for the TCP request plane, the frame included.  Results as above. */
KVT_NODISCARD enum kvt_err
wire_dynamo_rpc_put_request(struct kvt_buffer *out, const struct wire_dynamo_rpc_request *request);

/* A request as a worker sees it (tests stand in for workers). */
struct wire_dynamo_rpc_question {
    const char *path; /* not ended by a NUL */
    size_t path_size;
    char id[WIRE_DYNAMO_RPC_NAME_MAX];
    char address[WIRE_DYNAMO_RPC_NAME_MAX];
    char subject[WIRE_DYNAMO_RPC_NAME_MAX];
    bool json;
    const void *body;
    size_t body_size;
};

/** Take a TCP request apart.  KVT_OK (`used` bytes were it), KVT_AGAIN, KVT_INVALID, KVT_RANGE. */
KVT_NODISCARD enum kvt_err wire_dynamo_rpc_read_request(const void *bytes, size_t size,
                                                        size_t *used,
                                                        struct wire_dynamo_rpc_question *question,
                                                        struct kvt_error *err);

/* ---- its acknowledgement ---- */

/** Append one; an empty text says yes.  KVT_OK, KVT_RANGE or KVT_NOMEM. */
KVT_NODISCARD enum kvt_err wire_dynamo_rpc_put_ack(struct kvt_buffer *out, const char *text);

/** KVT_OK (`used` bytes were it; `text_size` 0: accepted), KVT_AGAIN or KVT_RANGE. */
KVT_NODISCARD enum kvt_err wire_dynamo_rpc_read_ack(const void *bytes, size_t size, size_t *used,
                                                    const char **text, size_t *text_size,
                                                    struct kvt_error *err);

/* ---- the answer's stream ---- */

enum wire_dynamo_rpc_kind {
    WIRE_DYNAMO_RPC_HANDSHAKE, /* `subject` says which stream this connection is */
    WIRE_DYNAMO_RPC_PROLOGUE,  /* `failed`: the question was refused; `text` says why */
    WIRE_DYNAMO_RPC_DATA,      /* `body`: for wire_dynamo_decode_answer_part() */
    WIRE_DYNAMO_RPC_FINAL,     /* the answer was complete */
    WIRE_DYNAMO_RPC_END,       /* "sentinel": nothing more comes */
    WIRE_DYNAMO_RPC_OTHER,     /* a control message of no concern to an asker; pass over it */
};

struct wire_dynamo_rpc_frame {
    enum wire_dynamo_rpc_kind kind;
    bool failed;
    char subject[WIRE_DYNAMO_RPC_NAME_MAX];
    char text[KVT_ERROR_TEXT_MAX]; /* cut to fit */
    const void *body;              /* DATA: the value of `data`, msgpack or JSON */
    size_t body_size;
};

/**
 * Take the frame at the start of `bytes` apart.  What it is shows in itself, so frames may come in
 * any order; whether that order makes sense is the caller's to judge.
 *
 * @param[out] used  bytes of it; with KVT_AGAIN: bytes that it will have once they are here, 0
 *                   where not even that can be said
 * @return KVT_OK, KVT_AGAIN (the rest is not here yet), KVT_INVALID or KVT_RANGE
 */
KVT_NODISCARD enum kvt_err wire_dynamo_rpc_read_frame(const void *bytes, size_t size, size_t *used,
                                                      struct wire_dynamo_rpc_frame *frame,
                                                      struct kvt_error *err);

/** Append a frame of the answer as a worker does; `json` as in the question.  Of `frame`, the
 * members that its kind uses.  KVT_OK, KVT_RANGE, KVT_NOMEM, KVT_INVALID (OTHER). */
KVT_NODISCARD enum kvt_err wire_dynamo_rpc_put_frame(struct kvt_buffer *out,
                                                     const struct wire_dynamo_rpc_frame *frame,
                                                     bool json);

#endif /* WIRE_DIALECT_DYNAMO_RPC_H */
