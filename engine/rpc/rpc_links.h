/*
 * engine/rpc/rpc_links.h -- what a server remembers of its clients: links, their calls, answers.
 *
 * Why: whether a call is new, goes on, has been answered or is over is decided here and nowhere
 * else, without a socket or a thread, so that it can be tried with anything.  See
 * engine/rpc/rpc_wire.h for what a sequence and a slot are.
 *
 * Ownership: the book owns what it keeps.
 * Threads:   one at a time, behind the server's lock; but engine_rpc_kept_new() and _free() need
 *            none.  `send` is called from within.
 * Limits:    ENGINE_RPC_LINKS_MAX links, ENGINE_RPC_CALLS_MAX slots each, ENGINE_RPC_KEPT_MAX bytes
 *            of answers; the oldest answer goes first.
 */
#ifndef ENGINE_RPC_RPC_LINKS_H
#define ENGINE_RPC_RPC_LINKS_H

#include "engine/rpc/rpc_port.h"
#include "engine/rpc/rpc_wire.h"

struct engine_rpc_links;

typedef void engine_rpc_send_fn(void *arg, const struct engine_rpc_peer *peer, const void *bytes,
                                size_t size);

/* An answer as it goes out. */
struct engine_rpc_kept;

KVT_NODISCARD enum kvt_err engine_rpc_links_new(struct engine_rpc_links **out, uint64_t silence_ms,
                                                engine_rpc_send_fn *send, void *arg);

/** NULL is allowed. */
void engine_rpc_links_free(struct engine_rpc_links *links);

/**
 * A message came.
 *
 * @return true: it is a CALL that never came before.  From now on it goes on, until it is answered
 *         or refused
 */
bool engine_rpc_links_take(struct engine_rpc_links *links, const struct engine_rpc_peer *peer,
                           const struct engine_rpc_message *message, uint64_t now_ms);

/** An answer to be given to engine_rpc_links_answer(), or NULL: no memory. */
struct engine_rpc_kept *engine_rpc_kept_new(const struct engine_rpc_message *answer);

/** A call has ended: tell its client, and keep what it was told.  `kept` is the book's from now on;
 *  NULL: it is made of `answer`, without its payload, and NOMEM instead of OK. */
void engine_rpc_links_answer(struct engine_rpc_links *links,
                             const struct engine_rpc_message *answer, struct engine_rpc_kept *kept);

/** Does this call go on, and is there somebody who waits for it? */
bool engine_rpc_links_wanted(const struct engine_rpc_links *links, uint64_t link, uint64_t call);

/** End what has been silent for too long.  @return when to look again, monotonic ms */
uint64_t engine_rpc_links_expire(struct engine_rpc_links *links, uint64_t now_ms);

/** A link that ended and was not told of yet; 0: none. */
uint64_t engine_rpc_links_next_gone(struct engine_rpc_links *links);

/** Tell every client that its link is over. */
void engine_rpc_links_bye(struct engine_rpc_links *links);

/** No new links: who asks for one is told so. */
void engine_rpc_links_stop(struct engine_rpc_links *links);

/** `repeated`, `stale`, `forgotten`, `links` and `kept_bytes`; the others are left alone. */
void engine_rpc_links_stats(const struct engine_rpc_links *links,
                            struct engine_rpc_server_stats *stats);

#endif /* ENGINE_RPC_RPC_LINKS_H */
