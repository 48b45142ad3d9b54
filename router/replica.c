#include "router/replica.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"

#include "router/replica_private.h"

enum { TWIN_BEATS = 4 }; /* what was under way from an earlier life of ours has come by then */

_Static_assert(ROUTER_REQUEST_ID_MAX == WIRE_ROUTE_SYNC_ID_MAX, "ids fit rows");
_Static_assert(ROUTER_REQUEST_HASHES_MAX == WIRE_ROUTE_SYNC_HASHES_MAX, "hashes fit rows");
_Static_assert(ROUTER_PEERS_MAX == WIRE_ROUTE_SYNC_HEARD_MAX, "peers fit heartbeats");
_Static_assert(ROUTER_MESSAGE_MAX == WIRE_ROUTE_SYNC_MAX, "one limit of messages");
_Static_assert((ROUTER_STEPS_KEPT & (ROUTER_STEPS_KEPT - 1)) == 0, "a power of two");

enum kvt_err
router_replica_new(struct router_replica **out, struct router_request_table *slots,
                   const struct router_replica_options *options)
{
    struct router_replica *replica = kvt_calloc(1, sizeof(*replica));

    *out = NULL;
    assert(options->beat_ms > 0 && options->send != NULL);
    if (replica == NULL)
        return KVT_NOMEM;
    replica->options = *options;
    replica->slots = slots;
    replica->peers.gone_ms = options->gone_ms;
    kvt_buffer_init(&replica->rows, WIRE_ROUTE_SYNC_MAX);
    kvt_buffer_init(&replica->out, WIRE_ROUTE_SYNC_MAX);
    replica->kept = kvt_calloc(ROUTER_STEPS_KEPT, sizeof(replica->kept[0]));
    replica->hashes = kvt_calloc(ROUTER_REQUEST_HASHES_MAX, sizeof(replica->hashes[0]));
    if (replica->kept == NULL || replica->hashes == NULL) {
        router_replica_free(replica);
        return KVT_NOMEM;
    }
    *out = replica;
    return KVT_OK;
}

void
router_replica_free(struct router_replica *replica)
{
    if (replica == NULL)
        return;
    kvt_buffer_release(&replica->rows);
    kvt_buffer_release(&replica->out);
    kvt_free(replica->kept);
    kvt_free(replica->hashes);
    kvt_free(replica);
}

struct wire_route_sync
router_replica_message(const struct router_replica *replica, enum wire_route_sync_kind kind)
{
    return (struct wire_route_sync){
        .kind = kind,
        .router = replica->options.router,
        .incarnation = replica->options.incarnation,
        .seq = replica->seq,
    };
}

void
router_replica_send(struct router_replica *replica, const struct wire_route_sync *message)
{
    kvt_buffer_clear(&replica->out);
    if (wire_route_sync_encode(message, &replica->rows, &replica->out) != KVT_OK)
        return;
    replica->stats.sent++;
    replica->options.send(replica->options.arg, replica->out.data, replica->out.size);
}

void
router_replica_heard(const struct router_replica *replica, struct wire_route_sync *message)
{
    for (size_t i = 0; i < replica->peers.count; i++) {
        const struct router_peer *peer = &replica->peers.peers[i];

        message->heard[message->heard_count++] = (struct wire_route_sync_heard){
            .router = peer->router,
            .incarnation = peer->incarnation,
            .seq = peer->complete,
        };
    }
}

enum kvt_err
router_replica_put(struct router_replica *replica, const struct router_request *request, bool whole)
{
    struct wire_route_sync_row row = {.state = (uint8_t)request->state, .age_ms = request->age_ms};

    memcpy(row.id, request->id, sizeof(row.id));
    if (whole) {
        row.router = request->router;
        row.added_ms = request->added_ms;
        memcpy(row.worker, request->worker.name, sizeof(row.worker));
        row.dp_rank = request->worker.dp_rank;
        row.prefill_tokens = request->prefill_tokens;
        row.blocks = request->blocks;
        row.hashes = request->hashes;
        row.hash_count = request->hash_count;
    }
    return wire_route_sync_put(&row, &replica->rows);
}

void
router_replica_merge(struct router_replica *replica, struct wire_route_sync *message)
{
    struct wire_route_sync_row row;
    enum kvt_err rc;

    while (wire_route_sync_next(message, &row, replica->hashes)) {
        struct router_request request = {
            .router = row.router,
            .added_ms = row.added_ms,
            .age_ms = row.age_ms,
            .prefill_tokens = row.prefill_tokens,
            .hashes = row.hashes,
            .hash_count = row.hash_count,
            .blocks = row.blocks,
            .state = (enum router_state)row.state,
        };

        memcpy(request.id, row.id, sizeof(request.id));
        memcpy(request.worker.name, row.worker, sizeof(request.worker.name));
        request.worker.dp_rank = row.dp_rank;
        /* One there is no room for is counted by the table, and found missing by its digest;
         * another one of its id is no fault. */
        rc = router_request_table_merge(replica->slots, &request, replica->now_ms, NULL);
        (void)rc;
    }
}

void
router_replica_tell(struct router_replica *replica, const char *id, enum router_state step)
{
    struct router_request request;

    if (router_request_table_get(replica->slots, id, &request) == KVT_OK)
        router_replica_step(replica, &request, step == ROUTER_ADDED);
}

void
router_replica_step(struct router_replica *replica, const struct router_request *request,
                    bool whole)
{
    struct wire_route_sync message;

    replica->seq++;
    memcpy(replica->kept[replica->seq % ROUTER_STEPS_KEPT], request->id, sizeof(request->id));
    kvt_buffer_clear(&replica->rows);
    if (replica->silent || router_replica_put(replica, request, whole) != KVT_OK)
        return;
    message = router_replica_message(replica, WIRE_ROUTE_SYNC_STEPS);
    message.row_count = 1;
    router_replica_send(replica, &message);
}

/* Have both heard the same of everybody?  Then their tables are to be the same. */
static bool
is_comparable(struct router_replica *replica, const struct wire_route_sync *message,
              const struct router_peer *peer)
{
    bool us = replica->seq == 0;

    if (router_peer_lacks(peer) || peer->complete != message->seq)
        return false;
    for (uint32_t i = 0; i < message->heard_count; i++) {
        const struct wire_route_sync_heard *heard = &message->heard[i];
        const struct router_peer *other = router_peers_find(&replica->peers, heard->router);

        if (heard->router == replica->options.router)
            us = heard->incarnation == replica->options.incarnation && heard->seq == replica->seq;
        else if (other != NULL && (other->incarnation != heard->incarnation ||
                                   other->complete != heard->seq || router_peer_lacks(other)))
            return false;
    }
    return us;
}

/* What the peer has heard of others: of those who are there we ask them, of those who died, it. */
static void
compare_heard(struct router_replica *replica, const struct wire_route_sync *message,
              struct router_peer *peer)
{
    for (uint32_t i = 0; i < message->heard_count; i++) {
        const struct wire_route_sync_heard *heard = &message->heard[i];
        struct router_peer *other = router_peers_find(&replica->peers, heard->router);

        if (heard->router == replica->options.router || other == NULL || heard->seq == 0)
            continue;
        if (router_peers_there(&replica->peers, other, replica->now_ms)) {
            if (other->incarnation == heard->incarnation)
                router_peer_last(other, heard->seq, replica->now_ms);
        } else if (heard->incarnation > other->incarnation ||
                   (heard->incarnation == other->incarnation && heard->seq > other->complete)) {
            peer->wanted = true;
        }
    }
}

static void
take_heartbeat(struct router_replica *replica, const struct wire_route_sync *message,
               struct router_peer *peer)
{
    const unsigned enough = ROUTER_DOUBT_BEATS << peer->tables;
    bool comparable;

    peer->joining = message->joining;
    router_peer_last(peer, message->seq, replica->now_ms);
    if (message->joining) {
        if (replica->ready)
            replica->beat_at_ms = replica->now_ms; /* it waits to hear of us */
        return;
    }
    compare_heard(replica, message, peer);
    comparable = is_comparable(replica, message, peer);
    if (message->digest == router_request_table_digest(replica->slots)) {
        peer->agrees = true;
        peer->doubt = 0;
        peer->tables = 0;
        peer->table_pause_ms = 0;
        if (comparable)
            router_replica_spare(replica, peer);
        return;
    }
    if (comparable)
        peer->agrees = false;
    peer->doubt += comparable ? enough / 2 : 1;
    if (peer->doubt >= enough) {
        peer->doubt = 0;
        peer->wanted = true;
    }
}

/* A message with our number: our own, of whoever has it too, or of an earlier life. */
static void
take_twin(struct router_replica *replica, const struct wire_route_sync *message)
{
    if (message->incarnation == replica->options.incarnation)
        return;
    if (message->incarnation > replica->options.incarnation) {
        replica->twin = true;
        replica->twin_ms = replica->now_ms;
        return;
    }
    if (message->kind != WIRE_ROUTE_SYNC_HEARTBEAT)
        return;
    if (replica->twin_incarnation != message->incarnation) {
        replica->twin_incarnation = message->incarnation;
        replica->twin_first_ms = replica->now_ms;
    }
    if (replica->now_ms - replica->twin_first_ms < TWIN_BEATS * replica->options.beat_ms)
        return;
    replica->silent = true;
    replica->twin = true;
    replica->twin_ms = replica->now_ms;
}

static void
look_for_twin(struct router_replica *replica)
{
    if (!replica->twin || replica->now_ms - replica->twin_ms < replica->options.gone_ms)
        return;
    replica->twin = false;
    if (!replica->silent)
        return;
    /* The number is ours now: as at the start. */
    replica->silent = false;
    replica->twin_incarnation = 0;
    replica->started = false;
    replica->ready = false;
}

static void
advance(struct router_replica *replica, uint64_t now_ms)
{
    if (now_ms > replica->now_ms)
        replica->now_ms = now_ms;
    look_for_twin(replica);
    if (replica->started)
        return;
    replica->started = true;
    replica->ready_at_ms = replica->now_ms + replica->options.join_ms;
    replica->beat_at_ms = replica->now_ms;
    replica->table.active = false;
}

static bool
is_to_us(const struct router_replica *replica, const struct wire_route_sync *message)
{
    return message->to == replica->options.router &&
           message->to_incarnation == replica->options.incarnation;
}

static void
take_message(struct router_replica *replica, struct wire_route_sync *message)
{
    struct router_peer *peer = router_peers_reach(&replica->peers, message->router,
                                                  message->incarnation, true, replica->now_ms);

    replica->stats.received++;
    switch (message->kind) {
    case WIRE_ROUTE_SYNC_STEPS:
        router_replica_merge(replica, message);
        if (peer != NULL)
            router_peer_step(peer, message->seq, replica->now_ms);
        break;
    case WIRE_ROUTE_SYNC_HEARTBEAT:
        if (peer != NULL)
            take_heartbeat(replica, message, peer);
        break;
    case WIRE_ROUTE_SYNC_ASK:
        if (is_to_us(replica, message))
            router_replica_answer(replica, message);
        break;
    default:
        if (peer != NULL && is_to_us(replica, message))
            router_replica_answered(replica, message, peer);
    }
}

void
router_replica_take(struct router_replica *replica, const void *bytes, size_t size, uint64_t now_ms)
{
    struct wire_route_sync message;
    const enum kvt_err rc = wire_route_sync_decode(bytes, size, &message, NULL);

    advance(replica, now_ms);
    if (rc == KVT_UNSUPPORTED)
        replica->stats.unsupported++;
    else if (rc != KVT_OK)
        replica->stats.malformed++;
    else if (message.router == replica->options.router)
        take_twin(replica, &message);
    else if (!replica->silent)
        take_message(replica, &message);
}

static void
beat(struct router_replica *replica)
{
    struct wire_route_sync message = router_replica_message(replica, WIRE_ROUTE_SYNC_HEARTBEAT);

    message.digest = router_request_table_digest(replica->slots);
    message.joining = !replica->ready;
    router_replica_heard(replica, &message);
    router_replica_send(replica, &message);
    replica->beat_at_ms = replica->now_ms + replica->options.beat_ms;
}

void
router_replica_tick(struct router_replica *replica, uint64_t now_ms)
{
    advance(replica, now_ms);
    if (replica->silent)
        return;
    if (replica->now_ms >= replica->beat_at_ms)
        beat(replica);
    router_replica_ask(replica);
    router_replica_settle(replica);
    if (replica->now_ms >= replica->ready_at_ms &&
        (!replica->table.active || replica->table.cursor == 0))
        replica->ready = true; /* nobody answered */
}

struct router_replica_stats
router_replica_stats(const struct router_replica *replica)
{
    struct router_replica_stats stats = replica->stats;

    stats.ready = replica->ready && !replica->silent;
    stats.twin = replica->twin;
    stats.converged = stats.ready && !stats.twin && !replica->table.active;
    for (size_t i = 0; i < replica->peers.count; i++) {
        const struct router_peer *peer = &replica->peers.peers[i];

        if (!router_peers_there(&replica->peers, peer, replica->now_ms))
            continue;
        stats.peers++;
        stats.converged = stats.converged && peer->agrees && !router_peer_lacks(peer);
    }
    return stats;
}
