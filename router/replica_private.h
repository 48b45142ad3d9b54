/*
 * router/replica_private.h -- the parts of a replica: what it hears (replica.c), what it asks for
 * (replica_ask.c), what it answers (replica_answer.c), whose workers left (replica_departed.c).
 *
 * Why: four questions, four files, one struct.
 * Ownership: as router/replica.h.
 * Threads:   none; its owner locks.
 * Limits:    as router/replica.h.
 */
#ifndef ROUTER_REPLICA_PRIVATE_H
#define ROUTER_REPLICA_PRIVATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/core/buffer.h"
#include "wire/message/route_sync.h"

#include "router/peers.h"
#include "router/replica.h"
#include "router/request_table.h"

/* A peer's table, while we ask for it page by page. */
struct router_replica_table {
    bool active;
    uint64_t router;
    uint64_t incarnation;
    uint64_t ask;
    uint64_t cursor;
    uint64_t seq; /* what the peer had told, and heard, when its first page was made */
    struct wire_route_sync_heard heard[WIRE_ROUTE_SYNC_HEARD_MAX];
    uint32_t heard_count;
    uint64_t ask_at_ms;
    uint64_t pause_ms;
};

/* A worker left, and others had given it something. */
struct router_replica_end {
    struct router_worker worker;
    uint64_t at_ms;
};

enum { ROUTER_REPLICA_ENDS = 1024 }; /* a power of two; the oldest is settled before its time */

struct router_replica {
    struct router_replica_options options;
    struct router_request_table *slots;
    uint64_t now_ms;
    struct router_peers peers;
    struct router_replica_table table;
    uint64_t asks; /* numbers of our questions */

    uint64_t seq;                        /* of our last step */
    char (*kept)[ROUTER_REQUEST_ID_MAX]; /* whose step it was: by number */

    /* Ends of workers that are not settled: numbers, without end. */
    struct router_replica_end ends[ROUTER_REPLICA_ENDS];
    uint32_t first_end;
    uint32_t next_end;

    bool started;
    bool ready;
    uint64_t ready_at_ms; /* whoever there is */
    uint64_t beat_at_ms;

    /* Another replica of our number. */
    bool silent;            /* it was there first */
    bool twin;              /* it is there */
    uint64_t twin_ms;       /* when it was heard last */
    uint64_t twin_first_ms; /* and first, of one that was there before us */
    uint64_t twin_incarnation;

    struct router_replica_stats stats;
    struct kvt_buffer rows;
    struct kvt_buffer out;
    uint64_t *hashes; /* of the row that is read */
};

/** A step of ours that the others hear of: `whole`, or its state alone. */
void router_replica_step(struct router_replica *replica, const struct router_request *request,
                         bool whole);
/** Of workers that left long enough ago: what they did for routers that are not there is over. */
void router_replica_settle(struct router_replica *replica);
/** A message of ours, with its sender filled in. */
struct wire_route_sync router_replica_message(const struct router_replica *replica,
                                              enum wire_route_sync_kind kind);
/** Send it with `replica->rows`; lost where there is no memory. */
void router_replica_send(struct router_replica *replica, const struct wire_route_sync *message);
/** Up to which number we have all of each peer. */
void router_replica_heard(const struct router_replica *replica, struct wire_route_sync *message);
/** Merge the rows of a message. */
void router_replica_merge(struct router_replica *replica, struct wire_route_sync *message);
/** A row of `replica->rows` more; as wire_route_sync_put(). */
KVT_NODISCARD enum kvt_err router_replica_put(struct router_replica *replica,
                                              const struct router_request *request, bool whole);

/** Ask, and ask again, for what is missing: steps and tables. */
void router_replica_ask(struct router_replica *replica);
/** The peer's table is ours: what is left of it need not come. */
void router_replica_spare(struct router_replica *replica, struct router_peer *peer);
/** ROWS to us. */
void router_replica_answered(struct router_replica *replica, struct wire_route_sync *message,
                             struct router_peer *peer);

/** ASK to us. */
void router_replica_answer(struct router_replica *replica, const struct wire_route_sync *question);

#endif /* ROUTER_REPLICA_PRIVATE_H */
