/*
 * router/peers.h -- the other routers of the group: what was heard of each, and what is missing.
 *
 * Why: steps are numbered, so a hole is seen; whoever tracks it must cope with numbers that come
 * twice, late and in any order, with peers that start anew, and with more peers than there is room
 * for.
 *
 * Ownership: plain values in the owner's struct.
 * Threads:   none; one owner.
 * Limits:    ROUTER_PEERS_MAX peers, the longest silent one goes first; numbers that came more than
 *            ROUTER_PEERS_AHEAD before a hole was closed count as missing.
 */
#ifndef ROUTER_PEERS_H
#define ROUTER_PEERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ROUTER_PEERS_MAX    64
#define ROUTER_PEERS_AHEAD  1024
#define ROUTER_PEERS_TABLES 4

struct router_peer {
    uint64_t router;
    uint64_t incarnation;
    bool heard; /* itself, not only of it */
    uint64_t heard_ms;
    uint64_t complete;                       /* all steps up to this number are in our table */
    uint64_t last;                           /* the last number there is, as far as we know */
    uint64_t ahead[ROUTER_PEERS_AHEAD / 64]; /* of those behind `complete`: by number */

    /* Asking for steps. */
    uint64_t missing_ms; /* since when the same step is; 0: nothing is */
    uint64_t ask;        /* number of the last question */
    uint64_t ask_at_ms;  /* when to ask (again) */
    uint64_t pause_ms;

    /* Asking for its table. */
    bool wanted;
    uint64_t table_at_ms; /* not before */
    uint64_t table_pause_ms;

    unsigned doubt;  /* grows with heartbeats of another digest */
    unsigned tables; /* that were taken since the digests were one, up to ROUTER_PEERS_TABLES */
    bool agrees;     /* the last digest that could be compared was ours */
    bool joining;    /* it has nobody's table yet, or did not say that it has */
};

struct router_peers {
    struct router_peer peers[ROUTER_PEERS_MAX];
    size_t count;
    uint64_t gone_ms;
};

/** NULL: not known. */
struct router_peer *router_peers_find(struct router_peers *peers, uint64_t router);
/** A message of this life came, or, where not `heard`, was told of.  The peer, anew if it has begun
 *  another life; NULL: this is an older life than the one that is heard. */
struct router_peer *router_peers_reach(struct router_peers *peers, uint64_t router,
                                       uint64_t incarnation, bool heard, uint64_t now_ms);
/** It was heard within gone_ms. */
bool router_peers_there(const struct router_peers *peers, const struct router_peer *peer,
                        uint64_t now_ms);

/** There are steps up to this number. */
void router_peer_last(struct router_peer *peer, uint64_t seq, uint64_t now_ms);
/** This step is in our table. */
void router_peer_step(struct router_peer *peer, uint64_t seq, uint64_t now_ms);
/** All steps up to this number are. */
void router_peer_cover(struct router_peer *peer, uint64_t seq, uint64_t now_ms);
/** Something is missing. */
static inline bool
router_peer_lacks(const struct router_peer *peer)
{
    return peer->complete < peer->last;
}

#endif /* ROUTER_PEERS_H */
