#include <string.h>

#include "router/replica_private.h"

enum {
    PAUSE_BEATS_MAX = 4,        /* between an ask and the same again */
    TABLE_PAUSE_BEATS_MAX = 64, /* between two tables of a peer */
};

/* The next pause: twice as long, from a beat up to so many. */
static uint64_t
longer(const struct router_replica *replica, uint64_t pause_ms, uint64_t beats_max)
{
    const uint64_t beat_ms = replica->options.beat_ms;

    if (pause_ms == 0)
        return beat_ms;
    return 2 * pause_ms < beats_max * beat_ms ? 2 * pause_ms : beats_max * beat_ms;
}

static struct wire_route_sync
question_to(struct router_replica *replica, uint64_t router, uint64_t incarnation,
            enum wire_route_sync_what what)
{
    struct wire_route_sync question = router_replica_message(replica, WIRE_ROUTE_SYNC_ASK);

    question.to = router;
    question.to_incarnation = incarnation;
    question.what = what;
    question.ask = ++replica->asks;
    replica->stats.asks++;
    return question;
}

static void
ask_steps(struct router_replica *replica, struct router_peer *peer)
{
    struct wire_route_sync question =
        question_to(replica, peer->router, peer->incarnation, WIRE_ROUTE_SYNC_RANGE);

    question.from = peer->complete + 1;
    question.through = peer->last;
    peer->ask = question.ask;
    peer->ask_at_ms = replica->now_ms + peer->pause_ms;
    peer->pause_ms = longer(replica, peer->pause_ms, PAUSE_BEATS_MAX);
    router_replica_send(replica, &question);
}

static void
ask_page(struct router_replica *replica)
{
    struct router_replica_table *table = &replica->table;
    struct wire_route_sync question =
        question_to(replica, table->router, table->incarnation, WIRE_ROUTE_SYNC_TABLE);

    question.from = table->cursor;
    table->ask = question.ask;
    table->ask_at_ms = replica->now_ms + table->pause_ms;
    table->pause_ms = longer(replica, table->pause_ms, PAUSE_BEATS_MAX);
    router_replica_send(replica, &question);
}

static void
begin_table(struct router_replica *replica, struct router_peer *peer)
{
    peer->wanted = false;
    replica->table = (struct router_replica_table){
        .active = true,
        .router = peer->router,
        .incarnation = peer->incarnation,
        .pause_ms = replica->options.beat_ms,
    };
    ask_page(replica);
}

/* All that the peer had told and heard when its first page was made is in our table. */
static void
end_table(struct router_replica *replica, struct router_peer *peer)
{
    struct router_replica_table *table = &replica->table;

    table->active = false;
    router_peer_cover(peer, table->seq, replica->now_ms);
    peer->tables += peer->tables < ROUTER_PEERS_TABLES;
    peer->table_pause_ms = longer(replica, peer->table_pause_ms, TABLE_PAUSE_BEATS_MAX);
    peer->table_at_ms = replica->now_ms + peer->table_pause_ms;
    for (uint32_t i = 0; i < table->heard_count; i++) {
        const struct wire_route_sync_heard *heard = &table->heard[i];
        struct router_peer *other;

        if (heard->router == replica->options.router)
            continue;
        other = router_peers_reach(&replica->peers, heard->router, heard->incarnation, false,
                                   replica->now_ms);
        if (other != NULL)
            router_peer_cover(other, heard->seq, replica->now_ms);
    }
    replica->stats.tables++;
    replica->ready = true;
}

void
router_replica_spare(struct router_replica *replica, struct router_peer *peer)
{
    if (!replica->ready)
        return;
    peer->wanted = false;
    if (replica->table.router == peer->router)
        replica->table.active = false;
}

static void
table_answered(struct router_replica *replica, struct wire_route_sync *page,
               struct router_peer *peer)
{
    struct router_replica_table *table = &replica->table;
    const bool expected = table->active && table->ask == page->ask &&
                          table->router == page->router &&
                          table->incarnation == page->incarnation && table->cursor == page->from;

    router_replica_merge(replica, page);
    if (!expected)
        return;
    if (page->from == 0) {
        table->seq = page->seq;
        table->heard_count = page->heard_count;
        memcpy(table->heard, page->heard, sizeof(table->heard));
    }
    if (page->next == 0) {
        end_table(replica, peer);
        return;
    }
    table->cursor = page->next;
    table->pause_ms = replica->options.beat_ms;
    ask_page(replica);
}

static void
steps_answered(struct router_replica *replica, struct wire_route_sync *page,
               struct router_peer *peer)
{
    router_replica_merge(replica, page);
    router_peer_last(peer, page->seq, replica->now_ms);
    if (page->ask != peer->ask || page->from > peer->complete + 1)
        return;
    peer->ask = 0;
    if (page->gone) {
        peer->wanted = true;
        peer->table_at_ms = replica->now_ms;
        return;
    }
    if (page->next > page->from)
        router_peer_cover(peer, page->next - 1, replica->now_ms);
    peer->pause_ms = replica->options.beat_ms;
    if (router_peer_lacks(peer) && page->next > page->from)
        ask_steps(replica, peer);
}

void
router_replica_answered(struct router_replica *replica, struct wire_route_sync *message,
                        struct router_peer *peer)
{
    if (message->what == WIRE_ROUTE_SYNC_TABLE)
        table_answered(replica, message, peer);
    else
        steps_answered(replica, message, peer);
}

static void
tick_steps(struct router_replica *replica, struct router_peer *peer)
{
    if (!router_peer_lacks(peer))
        peer->pause_ms = 0;
    if (!router_peer_lacks(peer) || (peer->pause_ms > 0 && replica->now_ms < peer->ask_at_ms))
        return;
    if (replica->now_ms - peer->missing_ms < replica->options.beat_ms / 2) {
        peer->pause_ms = 0; /* it may be under way */
        return;
    }
    if (peer->pause_ms == 0) {
        peer->pause_ms = replica->options.beat_ms;
        replica->stats.gaps++;
    }
    ask_steps(replica, peer);
}

static void
tick_table(struct router_replica *replica)
{
    struct router_replica_table *table = &replica->table;
    struct router_peer *peer = router_peers_find(&replica->peers, table->router);

    if (peer == NULL || peer->incarnation != table->incarnation ||
        !router_peers_there(&replica->peers, peer, replica->now_ms))
        table->active = false;
    else if (replica->now_ms >= table->ask_at_ms)
        ask_page(replica);
}

/* The peer whose table is due: whoever has one, at the start; else the one that waits longest. */
static struct router_peer *
next_table(struct router_replica *replica)
{
    struct router_peer *next = NULL;

    for (size_t i = 0; i < replica->peers.count; i++) {
        struct router_peer *peer = &replica->peers.peers[i];

        if (!router_peers_there(&replica->peers, peer, replica->now_ms) || peer->joining ||
            (replica->ready && (!peer->wanted || replica->now_ms < peer->table_at_ms)))
            continue;
        if (next == NULL || peer->table_at_ms < next->table_at_ms)
            next = peer;
    }
    return next;
}

void
router_replica_ask(struct router_replica *replica)
{
    struct router_peer *peer;

    if (replica->table.active)
        tick_table(replica);
    if (!replica->table.active) {
        peer = next_table(replica);
        if (peer != NULL)
            begin_table(replica, peer);
    }
    for (size_t i = 0; replica->ready && i < replica->peers.count; i++) {
        peer = &replica->peers.peers[i];
        if (router_peers_there(&replica->peers, peer, replica->now_ms) && !peer->wanted)
            tick_steps(replica, peer);
    }
}
