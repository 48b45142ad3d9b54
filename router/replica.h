/*
 * router/replica.h -- several routers, one slot table.
 *
 * Why: frontends ask whichever replica is near, and each must see what the others gave out.  The
 * bus between them (NATS core) loses, doubles and delays; so every step is merged (router/slots.h),
 * never counted, and replicas compare notes.
 *
 * What is sent, each as one message (wire/route.h) with the sender's router number, its incarnation
 * (Unix ms of its start) and its sequence number:
 *   STEPS      requests in a state (Add, MarkPrefillCompleted, Free), as they happen
 *   HEARTBEAT  every `beat_ms`: the last sequence number and the table's digest
 *   ASK        "send me yours": behind a gap in a peer's numbers, at the start, and after two
 *              heartbeats in turn whose digest is not ours although nothing is missing
 *   ROWS       the answer: a page of the whole table, tombstones too; addressed to who asked
 * A replica that starts asks all; `ready` once one has answered in full, or nobody did in
 * `join_ms`.  An ask is repeated until it was answered, with a pause that grows, so any number of
 * lost messages is made good.  Answers are limited to one at a time a peer.
 *
 * Ownership: borrows the slot table and its lock's discipline: call under the table's lock.
 * Threads:   none; its owner locks.  `send` is called from inside and must not call back.
 * Limits:    ROUTER_PEERS_MAX peers (silent ones are forgotten first), ROUTER_MESSAGE_MAX bytes a
 *            message; what is not sent because the bus is away is made good by ASK.
 */
#ifndef ROUTER_REPLICA_H
#define ROUTER_REPLICA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kvtier/error.h"

#include "router/slots.h"

#define ROUTER_PEERS_MAX   64
#define ROUTER_MESSAGE_MAX (256u << 10)

struct router_replica;

/** Hand a message to the bus; it may be lost. */
typedef void router_send_fn(void *arg, const void *bytes, size_t size);

struct router_replica_options {
    uint64_t router;      /* number of this replica, one in the group */
    uint64_t incarnation; /* grows with every start */
    uint64_t beat_ms;
    uint64_t join_ms;
    uint64_t gone_ms; /* a peer silent for so long is not waited for and not shown as there */
    router_send_fn *send;
    void *arg;
};

struct router_replica_stats {
    uint64_t sent;
    uint64_t received;
    uint64_t malformed;
    uint64_t gaps;  /* peers' messages that were missing */
    uint64_t asks;  /* asked for by us */
    uint64_t pages; /* sent to others */
    uint32_t peers; /* heard within gone_ms */
    bool ready;     /* joined */
    bool converged; /* every peer's last digest was ours */
};

KVT_NODISCARD enum kvt_err router_replica_new(struct router_replica **out,
                                              struct router_slots *slots,
                                              const struct router_replica_options *options);
void router_replica_free(struct router_replica *replica);

/** A step that was made here and changed the table: tell the others. */
void router_replica_tell(struct router_replica *replica, const char *id);
/** A message of the bus, our own included (passed over). */
void router_replica_take(struct router_replica *replica, const void *bytes, size_t size,
                         uint64_t now_ms, uint64_t mono_ms);
/** What time asks for: heartbeats, asks, pages; call about every beat_ms / 4.  `now_ms` is the wall
 *  clock of expiry; it may jump. */
void router_replica_tick(struct router_replica *replica, uint64_t now_ms, uint64_t mono_ms);

struct router_replica_stats router_replica_stats(const struct router_replica *replica);

#endif /* ROUTER_REPLICA_H */
