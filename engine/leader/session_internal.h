/*
 * engine/leader/session_internal.h -- what the files of sessions share; nobody else includes it.
 *
 * Why: words (session_wire.c), who answers (session_desk.c), who asks (session_ask.c), and which
 * instances there are (session_peers.c).
 * Ownership: the leader owns all of it.
 * Threads:   the leader's; rpc's threads post.
 * Limits:    engine/leader/session.h.
 */
#ifndef ENGINE_LEADER_SESSION_INTERNAL_H
#define ENGINE_LEADER_SESSION_INTERNAL_H

#include "base/core/buffer.h"

#include "engine/leader/leader_internal.h"
#include "engine/leader/session.h"
#include "engine/rpc/rpc.h"
#include "engine/rpc/rpc_msgpack.h"

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
    struct engine_responder *desk;
    bool closing; /* of the leader's thread */
    struct engine_rpc_server *server;
};

/* ---- session_ask.c ---- */

/** `peer` is not there any more: what was asked of it ends. */
void engine_session_lose(struct engine_sessions *sessions, const struct engine_peer *peer);

/* ---- session_desk.c ---- */

/** The table of handlers; `arg` of them is the sessions. */
extern const struct engine_rpc_method engine_responder_methods[];
extern const size_t engine_responder_method_count;
/** Of rpc's server: a link has ended, and with it whatever is held for who spoke over it. */
void engine_responder_link_gone(void *arg, uint64_t link);
/** Let go of all that is held for others. */
void engine_responder_clear(struct engine_sessions *sessions);

#endif /* ENGINE_LEADER_SESSION_INTERNAL_H */
