#include "router/peers.h"

#include <assert.h>
#include <string.h>

struct router_peer *
router_peers_find(struct router_peers *peers, uint64_t router)
{
    for (size_t i = 0; i < peers->count; i++)
        if (peers->peers[i].router == router)
            return &peers->peers[i];
    return NULL;
}

bool
router_peers_there(const struct router_peers *peers, const struct router_peer *peer,
                   uint64_t now_ms)
{
    return peer->heard && now_ms - peer->heard_ms < peers->gone_ms;
}

/* Room for one more: the last place, or that of the longest silent one. */
static struct router_peer *
room(struct router_peers *peers)
{
    struct router_peer *silent = &peers->peers[0];

    if (peers->count < ROUTER_PEERS_MAX)
        return &peers->peers[peers->count++];
    for (size_t i = 1; i < peers->count; i++)
        if (peers->peers[i].heard_ms < silent->heard_ms)
            silent = &peers->peers[i];
    return silent;
}

struct router_peer *
router_peers_reach(struct router_peers *peers, uint64_t router, uint64_t incarnation, bool heard,
                   uint64_t now_ms)
{
    struct router_peer *peer = router_peers_find(peers, router);

    /* An older life is news where the newer one went silent: of two with one number, the one that
     * came later gives way. */
    if (peer != NULL && incarnation < peer->incarnation &&
        (!heard || router_peers_there(peers, peer, now_ms)))
        return NULL;
    if (peer == NULL || incarnation != peer->incarnation) {
        if (peer == NULL)
            peer = room(peers);
        *peer = (struct router_peer){.router = router, .incarnation = incarnation, .joining = true};
    }
    if (heard || !peer->heard)
        peer->heard_ms = now_ms;
    peer->heard = peer->heard || heard;
    return peer;
}

static uint64_t
bit_of(uint64_t seq)
{
    return UINT64_C(1) << (seq % 64);
}

static uint64_t *
word_of(struct router_peer *peer, uint64_t seq)
{
    return &peer->ahead[seq % ROUTER_PEERS_AHEAD / 64];
}

/* Behind `complete` there may be steps that came before it got there. */
static void
absorb(struct router_peer *peer, uint64_t before, uint64_t now_ms)
{
    while (*word_of(peer, peer->complete + 1) & bit_of(peer->complete + 1)) {
        peer->complete++;
        *word_of(peer, peer->complete) &= ~bit_of(peer->complete);
    }
    if (peer->last < peer->complete)
        peer->last = peer->complete;
    if (!router_peer_lacks(peer))
        peer->missing_ms = 0;
    else if (peer->missing_ms == 0 || peer->complete > before)
        peer->missing_ms = now_ms + (now_ms == 0);
}

void
router_peer_last(struct router_peer *peer, uint64_t seq, uint64_t now_ms)
{
    if (seq > peer->last)
        peer->last = seq;
    absorb(peer, peer->complete, now_ms);
}

void
router_peer_step(struct router_peer *peer, uint64_t seq, uint64_t now_ms)
{
    if (seq > peer->complete && seq - peer->complete <= ROUTER_PEERS_AHEAD)
        *word_of(peer, seq) |= bit_of(seq);
    router_peer_last(peer, seq, now_ms);
}

void
router_peer_cover(struct router_peer *peer, uint64_t seq, uint64_t now_ms)
{
    const uint64_t before = peer->complete;

    if (seq > peer->complete && seq - peer->complete >= ROUTER_PEERS_AHEAD) {
        memset(peer->ahead, 0, sizeof(peer->ahead));
        peer->complete = seq;
    }
    while (peer->complete < seq) {
        peer->complete++;
        *word_of(peer, peer->complete) &= ~bit_of(peer->complete);
    }
    absorb(peer, before, now_ms);
}
