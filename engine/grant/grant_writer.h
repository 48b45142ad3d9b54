/*
 * engine/grant/grant_writer.h -- filling blocks of another process's block set.
 *
 * Why: whoever has bytes that another process should have need not wait to be read: it asks for a
 * grant (engine/grant/grant.h), puts the bytes there one-sided, and says so.  Between acquire and
 * commit nobody there does anything.
 *
 *   acquire ──► put, once or several times ──► commit      or abort, at any time
 *
 * A grant ends at its deadline whatever its writer does: here it ends a little before, so that
 * nothing is begun that would be late.
 *
 * Ownership: fabric and import are borrowed and outlive it; a grant is the caller's plain memory.
 *            Closing a writer ends its grants.
 * Threads:   any; a grant is one thread's at a time.
 * Limits:    ENGINE_GRANT_BLOCKS_MAX blocks of a grant; whole blocks of the set's own layout.
 */
#ifndef ENGINE_GRANT_GRANT_WRITER_H
#define ENGINE_GRANT_GRANT_WRITER_H

#include "engine/grant/grant.h"
#include "engine/memory/blockset_import.h"

#define ENGINE_WRITER_CALL_MS 5000 /* an answer takes at most */

struct engine_writer;

struct engine_grant_block {
    uint64_t hash;
    uint32_t place;
    uint32_t sum;        /* of what was put */
    bool filled;         /* it was put, and is there */
    enum kvt_err status; /* KVT_OK: granted; KVT_EXISTS: the owner has a block of that name; behind
                            a commit: what became of it */
};

struct engine_grant {
    uint64_t number;      /* 0: nothing is granted */
    uint64_t deadline_ms; /* monotonic */
    bool unsettled;       /* something that was put may still be on its way */
    size_t count;
    struct engine_grant_block blocks[ENGINE_GRANT_BLOCKS_MAX];
};

/**
 * @param import    of the set that is to be filled
 * @param endpoint  where its owner grants
 * @return KVT_OK; KVT_NOTFOUND (who answers there has another set: this one's owner dropped it);
 *         KVT_UNAVAILABLE, KVT_TIMEOUT; what engine_window_open() says
 */
KVT_NODISCARD enum kvt_err engine_writer_open(struct engine_writer **out,
                                              struct engine_fabric *fabric,
                                              struct engine_import *import, const char *endpoint,
                                              uint64_t wait_ms, struct kvt_error *err);

/** NULL is allowed. */
void engine_writer_close(struct engine_writer *writer);

/**
 * Have blocks held for these names: all that their owner has not, or none.
 *
 * @param hold_ms  for so long; the owner may say less
 * @return KVT_OK; KVT_RANGE (no name, or too many); KVT_AGAIN (the owner has no room just now);
 *         KVT_NOTFOUND (it has dropped the set); KVT_UNAVAILABLE, KVT_TIMEOUT (whatever was granted
 *         ends by itself); KVT_NOMEM.  `grant` is of nothing unless KVT_OK.
 */
KVT_NODISCARD enum kvt_err engine_writer_acquire(struct engine_writer *writer,
                                                 const struct kvbm_label *labels, size_t count,
                                                 uint64_t hold_ms, struct engine_grant *grant,
                                                 struct kvt_error *err);

/**
 * Put blocks where they are granted, and wait until they are there.
 *
 * @param blocks  packed bytes of each block of the grant; NULL: not this one
 * @return KVT_OK; KVT_PRECONDITION (one that is not granted, or nothing); KVT_TIMEOUT (the grant is
 *         over); as engine_fabric_run().  What is not `filled` is given back by a commit.
 */
KVT_NODISCARD enum kvt_err engine_writer_put(struct engine_writer *writer,
                                             struct engine_grant *grant, const void *const *blocks,
                                             struct kvt_error *err);

/**
 * Let what was put be blocks; the grant is over.  Blocks have each their `status`: KVT_OK;
 * KVT_EXISTS (somebody else was faster); KVT_BUSY (is just being); KVT_CORRUPT (other bytes came
 * than were put); KVT_CANCELLED (it was not put).
 *
 * @param refs  out, may be NULL: as many as the grant has blocks; zero where there is none
 * @return KVT_OK; KVT_NOTFOUND (the grant was over: nothing of it is there); KVT_UNAVAILABLE,
 *         KVT_TIMEOUT (nobody knows; the names do)
 */
KVT_NODISCARD enum kvt_err engine_writer_commit(struct engine_writer *writer,
                                                struct engine_grant *grant,
                                                struct engine_block_ref *refs,
                                                struct kvt_error *err);

/** Give all of it back; what cannot be said ends by itself. */
void engine_writer_abort(struct engine_writer *writer, struct engine_grant *grant);

#endif /* ENGINE_GRANT_GRANT_WRITER_H */
