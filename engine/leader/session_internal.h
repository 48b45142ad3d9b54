/*
 * engine/leader/session_internal.h -- what leaders of two instances say to each other.
 *
 * Why: the initiator wants blocks that the responder has; these must stay there until they were
 * read, and no longer, whatever becomes of either.  The initiator asks, the responder holds; the
 * bytes are read by the initiator's ranks alone (ENGINE_PULL).
 *
 * Calls (engine/rpc/rpc.h), each a msgpack array of numbers, answered by one:
 *
 *   describe  [version]                            -> [version, instance] and, behind it, the
 *             metadata of its worker
 *   open      [version, instance, session, puller, mode, hold ms, then of each block its hash,
 *             parent, position, prefix hash, tokens hash]  -> [state, found, ready]  held from now
 *             on; KVT_PRECONDITION where another instance than the one that was meant listens now
 *   look      [session, puller, seen, wait ms]     -> [state, found, ready, blocks seen to ready]
 *             answered when `ready` is above `seen`, once at the end, or after `wait ms`; it
 *             renews the hold
 *   stage     [session, puller, mode]              -> [state, found, ready]
 *   close     [session, puller]                    -> [state]
 *
 * `session` is a number the initiator draws; opening it twice is opening it once.  Further pullers
 * of the same session open it too, with their own number.  A puller ends with its close, or with
 * the link of engine/rpc/rpc.h by which it spoke last; the session with its last puller, or `hold
 * ms` after the last word of any or answer to a look.  Of what is found nothing is held when that
 * is nothing.
 * Blocks are numbers of the responder's G2, of those that were asked for in their order; each is
 * shown (ENGINE_SHOW), and stays what it is while the session lasts.  `ready` counts these, and
 * `found` falls when something does not become ready there.
 *
 * An initiator asks all peers at once, and leaves all but the one with the most.
 *
 * What each side does when the other falls silent:
 *   initiator  a call that is not answered in time ends the peer's part of the match (shortened)
 *   responder  gives up what it holds with the link (at once where the initiator was closed, after
 *              three silences of rpc's where it was killed), or `hold ms` after the last word; a
 *              look that waits is answered after half of that at most
 *   a read that comes too late finds another block, or none, and says so (engine/memory/blockset.h)
 *
 * session_wire.c has the numbers of a message, session_responder.c answers, session_initiator.c
 * asks, session_peers.c knows which instances there are.
 *
 * Ownership: the leader owns all of it.
 * Threads:   the leader's thread; rpc's threads hand over.
 * Limits:    ENGINE_SESSIONS_MAX sessions at the responder, ENGINE_PULLERS_MAX pullers each,
 *            ENGINE_FIND_MAX blocks a session; a hold is at most ENGINE_HOLD_MAX_MS.
 */
#ifndef ENGINE_LEADER_SESSION_INTERNAL_H
#define ENGINE_LEADER_SESSION_INTERNAL_H

#include "base/core/buffer.h"

#include "engine/leader/leader_internal.h"
#include "engine/rpc/rpc.h"
#include "engine/rpc/rpc_msgpack.h"

#define ENGINE_SESSIONS_MAX    256
#define ENGINE_PULLERS_MAX     8
#define ENGINE_HOLD_MAX_MS     300000
#define ENGINE_SESSION_VERSION 2
#define ENGINE_SESSION_CALL_MS 2000 /* an answer takes at most, beside what it may wait */
#define ENGINE_SESSION_LOOK_MS 1000 /* a look waits for news at most */

enum engine_session_method {
    ENGINE_SESSION_DESCRIBE = 1,
    ENGINE_SESSION_OPEN,
    ENGINE_SESSION_LOOK,
    ENGINE_SESSION_STAGE,
    ENGINE_SESSION_CLOSE,
};

/* ---- session_wire.c ---- */

/* An array of numbers, read one by one.  What is none reads as 0, and is said (`in.bad`). */
struct engine_session_words {
    struct engine_unpack in; /* what was not read yet, */
    size_t left;             /* ... words */
};

void engine_session_words_put(struct kvt_buffer *out, const uint64_t *words, size_t count);
void engine_session_words_read(struct engine_session_words *words, const uint8_t *bytes,
                               size_t size);
uint64_t engine_session_words_next(struct engine_session_words *words, uint64_t max);
/** All of it was read, and was as it should be. */
bool engine_session_words_end(const struct engine_session_words *words);

#define ENGINE_SESSION_OPEN_WORDS  6 /* before the labels */
#define ENGINE_SESSION_LABEL_WORDS 5
void engine_session_words_of_label(uint64_t words[ENGINE_SESSION_LABEL_WORDS],
                                   const struct kvbm_label *label);
void engine_session_words_label(struct engine_session_words *words, struct kvbm_label *label);

/* ---- who there is ---- */

struct engine_peer {
    struct engine_peer *next;
    uint64_t instance;
    struct engine_rpc_client *client;
};

struct engine_responder;

struct engine_sessions {
    struct engine_leader *leader;
    struct engine_peer *peers;
    struct engine_session *asking;
    struct engine_responder *responder;
    bool closing; /* of the leader's thread */
    struct engine_rpc_server *server;
};

/* ---- session_initiator.c ---- */

/** `peer` is not there any more: what was asked of it ends. */
void engine_session_lose(struct engine_sessions *sessions, const struct engine_peer *peer);

/* ---- session_responder.c ---- */

/** The table of handlers; `arg` of them is the sessions. */
extern const struct engine_rpc_method engine_responder_methods[];
extern const size_t engine_responder_method_count;
/** Of rpc's server: a link has ended, and with it whatever is held for who spoke over it. */
void engine_responder_link_gone(void *arg, uint64_t link);
/** Let go of all that is held for others. */
void engine_responder_clear(struct engine_sessions *sessions);

#endif /* ENGINE_LEADER_SESSION_INTERNAL_H */
