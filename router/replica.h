/*
 * router/replica.h -- several routers, one slot table.
 *
 * Why: frontends ask whichever replica is near, and each must see what the others gave out.  The
 * bus between them (NATS core) loses, doubles and delays; so every step is merged
 * (router/request_table.h), never counted, and replicas compare notes.
 *
 * What is sent, each as one message (wire/message/route_sync.h) with the sender's router number
 * and its incarnation (Unix ms of its start):
 *   STEPS      requests in a state (Add, MarkPrefillCompleted, Free), as they happen, numbered
 *   HEARTBEAT  every `beat_ms`: the last number sent, what was heard of each peer without a hole,
 *              and the table's digest
 *   ASK        to one peer: "send me your steps from .. to" behind a hole in its numbers, or "send
 *              me your table from this cursor on"
 *   ROWS       the answer: one page, to who asked; tombstones too
 *
 * A hole is asked for step by step while the peer remembers which requests they were of
 * (ROUTER_STEPS_KEPT), by its whole table behind that.  Digests are compared only between two that
 * have heard the same of everybody, so messages under way cause nothing; two heartbeats in turn
 * with another digest and nothing missing, or ROUTER_DOUBT_BEATS that could not be compared, ask
 * for the peer's table.  One table is asked for at a time, page by page, a lost page again from
 * where it was; each one makes the pause to the peer's next longer, until digests agree.  An ask is
 * repeated until it was answered, with a pause that grows, so any number of lost messages is made
 * good, also those of a peer that died: what it told one is in that one's table.
 *
 * A replica that starts says so in its heartbeat, takes the table of the first peer that answers,
 * and is `ready` when it has it, or when nobody answered in `join_ms`.
 *
 * Workers end, and replicas see that at different times: one may have given something to the next
 * life of a worker before another has seen the end of the last.  So whoever gave a request to a
 * worker ends it when it sees that life end, and tells the others; it alone knows which life that
 * was.  Of a router that is not heard, or has begun another life of its own, what it had given by
 * the time of the end is over twice `gone_ms` behind it.
 *
 * Two replicas of one number: the one that started later sees it, keeps silent, takes nothing and
 * is never ready while the other is heard (`twin`); the other says `twin` for `gone_ms` and goes
 * on.  A message of a newer format is passed over and counted (`unsupported`); who sends nothing
 * else is not a peer.
 *
 * How to drive it: one lock around slot table, replica and decision.  Under it: after each call of
 * router_request_table_merge(), _prefilled() or _end() that said `changed`, router_replica_tell();
 * for each message of the group's subject (WIRE_SUBJECT_ROUTE_SYNC), router_replica_take(); from
 * a timer, router_request_table_expire() and router_replica_tick(), about every beat_ms / 4.
 * `send` must only hand the bytes to the bus.
 *
 * Ownership: borrows the slot table; copies what it is given.
 * Threads:   none; its owner locks.  `send` is called from inside and must not call back.
 * Limits:    ROUTER_PEERS_MAX peers (the longest silent one is forgotten first), ROUTER_MESSAGE_MAX
 *            bytes a message; what is not sent because the bus is away is made good by ASK.
 */
#ifndef ROUTER_REPLICA_H
#define ROUTER_REPLICA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kvtier/error.h"

#include "router/request_table.h"

#define ROUTER_MESSAGE_MAX (256u << 10)
#define ROUTER_STEPS_KEPT  4096 /* a power of two */
#define ROUTER_DOUBT_BEATS 32

struct router_replica;

/** Hand a message to the bus; it may be lost. */
typedef void router_send_fn(void *arg, const void *bytes, size_t size);

struct router_replica_options {
    uint64_t router;      /* number of this replica, one in the group */
    uint64_t incarnation; /* grows with every start */
    uint64_t beat_ms;     /* at least 1 */
    uint64_t join_ms;
    uint64_t gone_ms; /* a peer silent for so long is not waited for and not shown as there */
    router_send_fn *send;
    void *arg;
};

struct router_replica_stats {
    uint64_t sent;
    uint64_t received; /* of others */
    uint64_t malformed;
    uint64_t unsupported; /* of a newer format */
    uint64_t gaps;        /* peers' steps that were missing when they should have been there */
    uint64_t asks;        /* asked for by us */
    uint64_t tables;      /* whole tables that were taken */
    uint64_t pages;       /* sent to others */
    uint32_t peers;       /* heard within gone_ms */
    bool ready;           /* joined */
    bool converged;       /* nothing is missing, and each peer's last comparable digest was ours */
    bool twin;            /* another replica has our number */
};

/** KVT_OK or KVT_NOMEM. */
KVT_NODISCARD enum kvt_err router_replica_new(struct router_replica **out,
                                              struct router_request_table *slots,
                                              const struct router_replica_options *options);
void router_replica_free(struct router_replica *replica);

/** A step was made here and changed the table: tell the others.
 *  @param step  ROUTER_ADDED behind router_request_table_merge(): all of the request goes out;
 *  else its
 *               state */
void router_replica_tell(struct router_replica *replica, const char *id, enum router_state step);
/** A worker left, or lives anew: instead of router_request_table_drop(). */
void router_replica_left(struct router_replica *replica, const struct router_worker *worker,
                         uint64_t now_ms);
/** A message of the bus, our own included (passed over).  `now_ms`: the clock of the slot table. */
void router_replica_take(struct router_replica *replica, const void *bytes, size_t size,
                         uint64_t now_ms);
/** What time asks for: heartbeats, asks. */
void router_replica_tick(struct router_replica *replica, uint64_t now_ms);

struct router_replica_stats router_replica_stats(const struct router_replica *replica);

#endif /* ROUTER_REPLICA_H */
