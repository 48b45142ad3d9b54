/*
 * wire/message/route_sync.h -- what routers of a group tell each other (docs/formats.md, "Replicas
 * of a router").
 *
 * Why: each router must see what the others gave out.  What the messages are for is
 * router/replica.h's; here are their bytes.
 *
 * Ownership: encoding appends to the caller's buffers; a decoded message points into its bytes.
 * Limits:    WIRE_ROUTE_SYNC_MAX bytes a message, WIRE_ROUTE_SYNC_HEARD_MAX peers and
 *            WIRE_ROUTE_SYNC_HASHES_MAX hashes a row.
 */
#ifndef WIRE_MESSAGE_ROUTE_SYNC_H
#define WIRE_MESSAGE_ROUTE_SYNC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/core/buffer.h"
#include "base/text/msgpack.h"
#include "kvtier/block.h"
#include "kvtier/error.h"

#define WIRE_ROUTE_SYNC_MAX        (256u << 10)
#define WIRE_ROUTE_SYNC_HEARD_MAX  64
#define WIRE_ROUTE_SYNC_HASHES_MAX 16384
#define WIRE_ROUTE_SYNC_BLOCKS_MAX 65536
#define WIRE_ROUTE_SYNC_TOKENS_MAX (UINT64_C(1) << 32)
#define WIRE_ROUTE_SYNC_ID_MAX     128 /* bytes with the final NUL */
/* Rows of one message: with room for the rest of it. */
#define WIRE_ROUTE_SYNC_ROWS_MAX   (WIRE_ROUTE_SYNC_MAX - (8u << 10))

enum wire_route_sync_kind {
    WIRE_ROUTE_SYNC_STEPS = 1,
    WIRE_ROUTE_SYNC_HEARTBEAT,
    WIRE_ROUTE_SYNC_ASK,
    WIRE_ROUTE_SYNC_ROWS
};

enum wire_route_sync_what { WIRE_ROUTE_SYNC_TABLE, WIRE_ROUTE_SYNC_RANGE };

/* Up to which number the sender has heard all of a peer. */
struct wire_route_sync_heard {
    uint64_t router;
    uint64_t incarnation;
    uint64_t seq;
};

struct wire_route_sync {
    enum wire_route_sync_kind kind;
    uint64_t router; /* the sender */
    uint64_t incarnation;
    uint64_t seq; /* STEPS: its number; HEARTBEAT, ROWS: of the last STEPS */

    /* HEARTBEAT */
    uint64_t digest;
    bool joining; /* it has nobody's table yet */

    /* ASK, ROWS */
    uint64_t to;
    uint64_t to_incarnation;
    uint64_t ask; /* the asker's number of its question */
    enum wire_route_sync_what what;
    uint64_t from;    /* TABLE: a cursor, 0 at first; RANGE: the first number */
    uint64_t through; /* ASK, RANGE: the last number */
    uint64_t next;    /* ROWS: what to ask for behind this page; TABLE: 0 that was all */
    bool gone;        /* ROWS, RANGE: not remembered any more; ask for the table */

    /* HEARTBEAT; ROWS at the beginning of a table */
    struct wire_route_sync_heard heard[WIRE_ROUTE_SYNC_HEARD_MAX];
    uint32_t heard_count;

    /* STEPS, ROWS: for wire_route_sync_next() */
    uint32_t row_count;
    struct kvt_msgpack_reader rows;
};

/* A request in a state; without a worker's name there are id, state and age only. */
struct wire_route_sync_row {
    char id[WIRE_ROUTE_SYNC_ID_MAX];
    uint8_t state; /* 1 added, 2 prompt computed, 3 ended */
    uint64_t age_ms;
    uint64_t router;
    uint64_t added_ms;
    char worker[KVT_NAME_MAX];
    uint32_t dp_rank;
    uint64_t prefill_tokens;
    uint32_t blocks;
    const uint64_t *hashes; /* at most `blocks` */
    uint32_t hash_count;
};

/** Append a row to the rows of a message.  KVT_OK, KVT_RANGE (they would be more than
 *  WIRE_ROUTE_SYNC_ROWS_MAX bytes) or KVT_NOMEM; on failure `rows` is what it was. */
KVT_NODISCARD enum kvt_err wire_route_sync_put(const struct wire_route_sync_row *row,
                                               struct kvt_buffer *rows);
/** Append a message; `rows` are `message->row_count` that were put, or NULL. */
KVT_NODISCARD enum kvt_err wire_route_sync_encode(const struct wire_route_sync *message,
                                                  const struct kvt_buffer *rows,
                                                  struct kvt_buffer *out);

/** All of a message is looked at, its rows too.
 *  @return KVT_OK; KVT_UNSUPPORTED: of a later format; KVT_INVALID or KVT_RANGE */
KVT_NODISCARD enum kvt_err wire_route_sync_decode(const void *bytes, size_t size,
                                                  struct wire_route_sync *message,
                                                  struct kvt_error *err);
/** The next row of a decoded message; false: there was none.  `hashes` has room for
 *  WIRE_ROUTE_SYNC_HASHES_MAX and is what the row points to. */
bool wire_route_sync_next(struct wire_route_sync *message, struct wire_route_sync_row *row,
                          uint64_t *hashes);

#endif /* WIRE_MESSAGE_ROUTE_SYNC_H */
