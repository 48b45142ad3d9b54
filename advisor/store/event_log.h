/*
 * advisor/store/event_log.h -- places in the tiers of workers as bytes: what came, what went.
 *
 * Why: a worker's blocks come and go in millions, and every answer about them comes from RAM.  The
 * store needs no row a block for them, only the changes in their order: one append a group.  The
 * same words say what is there at all (a snapshot), so that a restart reads one thing.
 *
 * A row is self-contained: a crc, then operations.  An operation is 8 bytes and what its kind has:
 *
 *   STORE   consecutive blocks of one sequence came to a holder
 *   REMOVE  blocks went from it
 *   DROP    all it has in a namespace went
 *   RUN     consecutive blocks of one sequence, wherever they are; in a snapshot
 *   HOLD    a holder has a piece of the RUN before it in this row
 *
 * STORE, REMOVE and DROP are about a *place* (holder, namespace, shards, second, size), which is
 * written only when it differs from the operation before.  The bytes are in docs/formats.md.  Each
 * operation says what is so afterwards, for each (block, holder, shard): applied again, in order,
 * they change nothing.
 *
 * Ownership: a log owns its bytes; what a reader gives points into the row it reads.
 * Threads:   none; one owner.
 * Limits:    ADVISOR_EVENT_LOG_ROW_MAX bytes a row, so that LMDB keeps two in a page, and
 *            ADVISOR_EVENT_LOG_BLOCKS_MAX blocks an operation; a longer STORE is several.
 */
#ifndef ADVISOR_STORE_EVENT_LOG_H
#define ADVISOR_STORE_EVENT_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kvtier/error.h"

#define ADVISOR_EVENT_LOG_ROW_MAX    2016 /* bytes; rows are 8-aligned, and a multiple of 8 long */
#define ADVISOR_EVENT_LOG_BLOCKS_MAX 112

enum advisor_event_log_kind {
    ADVISOR_EVENT_LOG_STORE = 1,
    ADVISOR_EVENT_LOG_REMOVE,
    ADVISOR_EVENT_LOG_DROP,
    ADVISOR_EVENT_LOG_RUN,
    ADVISOR_EVENT_LOG_HOLD,
};

/* Where, and what all blocks of an operation have in common. */
struct advisor_event_log_place {
    uint64_t size; /* bytes of one shard; STORE, RUN */
    uint32_t holder;
    uint32_t ns;
    uint32_t ranks;
    uint32_t time_s; /* by its publisher's clock, as far as believed; 0: not known; of
                      * a REMOVE: nobody let go of it, the advisor evicted it or takes it back */
};

struct advisor_event_log;

KVT_NODISCARD enum kvt_err advisor_event_log_new(struct advisor_event_log **out);
void advisor_event_log_free(struct advisor_event_log *log);
void advisor_event_log_clear(struct advisor_event_log *log);
/** Each has what the other had. */
void advisor_event_log_swap(struct advisor_event_log *a, struct advisor_event_log *b);

/**
 * Consecutive blocks, root side first, came to a place.  What goes on where the operation before
 * ended, at the same place, becomes part of it.
 *
 * @param parent  sequence hash before the first; 0: root, or (position > 0) not known
 * @param tokens  local token hashes, 0 where not known; NULL: none is
 * @return KVT_OK or KVT_NOMEM; nothing is added then
 */
KVT_NODISCARD enum kvt_err advisor_event_log_store(struct advisor_event_log *log,
                                                   const struct advisor_event_log_place *place,
                                                   uint64_t parent, uint32_t position,
                                                   const uint64_t *hashes, const uint64_t *tokens,
                                                   size_t count);
/** Blocks, in any order, went from a place. */
KVT_NODISCARD enum kvt_err advisor_event_log_remove(struct advisor_event_log *log,
                                                    const struct advisor_event_log_place *place,
                                                    const uint64_t *hashes, size_t count);
/** All the holder has in the namespace went. */
KVT_NODISCARD enum kvt_err advisor_event_log_drop(struct advisor_event_log *log, uint32_t holder,
                                                  uint32_t ns);

/** Blocks of a snapshot, at most ADVISOR_EVENT_LOG_BLOCKS_MAX; `place` without holder and ranks.
 * What
 *  holds them follows; a RUN nobody holds keeps parents of what hangs on it. */
KVT_NODISCARD enum kvt_err advisor_event_log_run(struct advisor_event_log *log,
                                                 const struct advisor_event_log_place *place,
                                                 uint64_t parent, uint32_t position,
                                                 const uint64_t *hashes, const uint64_t *tokens,
                                                 size_t count);
/** Blocks [from, from + count) of the last RUN are at a holder.  A row that is full is followed by
 *  one that begins with the RUN again. */
KVT_NODISCARD enum kvt_err advisor_event_log_hold(struct advisor_event_log *log, uint32_t holder,
                                                  uint32_t ranks, uint32_t from, uint32_t count);

/** Blocks named in STORE and REMOVE, plus one a DROP. */
size_t advisor_event_log_count(const struct advisor_event_log *log);
/** Of all rows. */
size_t advisor_event_log_bytes(const struct advisor_event_log *log);

/** Rows in their order, from 0 on; the last one may still grow.  False: there is none.  `bytes` is
 *  valid until the log changes. */
bool advisor_event_log_row(const struct advisor_event_log *log, size_t at, const void **bytes,
                           size_t *size);

/* ---- reading ---- */

/* One change.  A HOLD is given as the STORE it stands for, a RUN as itself before them. */
struct advisor_event_log_op {
    enum advisor_event_log_kind kind; /* never HOLD */
    uint32_t position;
    uint32_t count;
    uint64_t parent;
    const uint64_t *hashes;
    const uint64_t *tokens; /* NULL: not known */
    struct advisor_event_log_place place;
};

struct advisor_event_log_reader {
    const uint8_t *at;
    const uint8_t *end;
    struct advisor_event_log_place place;
    struct advisor_event_log_op run; /* the last RUN; count 0: none */
    bool placed;                     /* an operation of the row had a place */
};

/** `row` must be 8-aligned (asserted).  KVT_OK or KVT_CORRUPT (length or crc). */
KVT_NODISCARD enum kvt_err advisor_event_log_open(struct advisor_event_log_reader *reader,
                                                  const void *row, size_t size);
/** KVT_OK, KVT_NOTFOUND (the end) or KVT_CORRUPT (what the crc cannot tell: a writer's fault). */
KVT_NODISCARD enum kvt_err advisor_event_log_next(struct advisor_event_log_reader *reader,
                                                  struct advisor_event_log_op *op);

#endif /* ADVISOR_STORE_EVENT_LOG_H */
