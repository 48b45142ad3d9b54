/*
 * engine/leader/session.h -- what leaders of two instances say to each other.
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
 * Ownership: desk and asker are the leader's.
 * Threads:   the leader's thread; rpc's threads hand over.
 * Limits:    ENGINE_SESSIONS_MAX sessions at the responder, ENGINE_PULLERS_MAX pullers each,
 *            ENGINE_FIND_MAX blocks a session; a hold is at most ENGINE_HOLD_MAX_MS.
 */
#ifndef ENGINE_LEADER_SESSION_H
#define ENGINE_LEADER_SESSION_H

#define ENGINE_SESSIONS_MAX    256
#define ENGINE_PULLERS_MAX     8
#define ENGINE_HOLD_MAX_MS     300000
#define ENGINE_SESSION_VERSION 2

#endif /* ENGINE_LEADER_SESSION_H */
