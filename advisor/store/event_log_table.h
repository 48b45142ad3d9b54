/*
 * advisor/store/event_log_table.h -- the log in the store: a snapshot, and what came after it.
 *
 * Why: a log that only grows fills the disk and makes every start longer.  When it has become as
 * large as the snapshot, a new snapshot of what RAM holds is written, a slice with each commit;
 * once it is whole, it is the one that counts, and the log before its beginning goes, a slice with
 * each commit.  RAM changes while slices are written: the log from the snapshot's beginning on is
 * applied over it (advisor/store/event_log.h: applied again, an operation changes nothing).
 *
 * Tables: `journal` (number of the row -> row), `runs_a`, `runs_b` (the same; one is whole, the
 * other empty or being written), and one row of `meta`, struct advisor_store_log.
 *
 * Ownership: as advisor/store/durable_store.h.
 * Threads:   writing as advisor/store/durable_store.h; reading in any read transaction.
 * Limits:    at most about four times the bytes of a snapshot are in the file at once.
 */
#ifndef ADVISOR_STORE_EVENT_LOG_TABLE_H
#define ADVISOR_STORE_EVENT_LOG_TABLE_H

#include "advisor/store/durable_store.h"
#include "advisor/store/event_log.h"

#define ADVISOR_STORE_TRIM_ROWS 8192 /* void rows that go with a commit */

/* As it lies in the store. */
struct advisor_store_log {
    uint64_t next;          /* number of the next row of the journal */
    uint64_t from;          /* first one that counts, over the whole snapshot */
    uint64_t oldest;        /* first one that is there: [oldest, from) is void */
    uint64_t bytes;         /* of rows [from, next) */
    uint64_t runs_bytes;    /* of the whole snapshot */
    uint64_t runs_rows;     /* */
    uint64_t building_from; /* `next` when the snapshot that is being written began */
    uint64_t building_at;   /* `bytes` then */
    uint64_t building_bytes;
    uint64_t building_rows;
    uint32_t whole;    /* 0: no snapshot yet, 1: runs_a, 2: runs_b */
    uint32_t building; /* 0: none, 1: runs_a, 2: runs_b */
};

/** All 0 when there was never one. */
KVT_NODISCARD enum kvt_err advisor_store_log_get(const struct advisor_txn *txn,
                                                 struct advisor_store_log *state);

/**
 * Append the rows of `log`.  All that change the log take its state and bring it up to date; the
 * caller keeps what it had until the transaction is committed.
 */
KVT_NODISCARD enum kvt_err advisor_store_log_append(const struct advisor_txn *txn,
                                                    struct advisor_store_log *state,
                                                    const struct advisor_event_log *log);

/** Begin a snapshot: what comes into the journal from here on is applied over it.  One that was
 *  begun before and not ended is thrown away. */
KVT_NODISCARD enum kvt_err advisor_store_log_begin(const struct advisor_txn *txn,
                                                   struct advisor_store_log *state);
/** A slice of it. */
KVT_NODISCARD enum kvt_err advisor_store_log_add(const struct advisor_txn *txn,
                                                 struct advisor_store_log *state,
                                                 const struct advisor_event_log *slice);
/** It is thrown away, whoever began it: its room is free two transactions later.  Without one that
 *  was begun the state is written as it is, which is such a transaction. */
KVT_NODISCARD enum kvt_err advisor_store_log_abandon(const struct advisor_txn *txn,
                                                     struct advisor_store_log *state);
/** It is whole. */
KVT_NODISCARD enum kvt_err advisor_store_log_end(const struct advisor_txn *txn,
                                                 struct advisor_store_log *state);
/** Delete up to ADVISOR_STORE_TRIM_ROWS void rows. */
KVT_NODISCARD enum kvt_err advisor_store_log_trim(const struct advisor_txn *txn,
                                                  struct advisor_store_log *state);

/* Where a reader is.  All 0: at the beginning. */
struct advisor_store_log_cursor {
    uint64_t whole_from; /* tells one snapshot from the next */
    uint64_t row;
    uint64_t bytes; /* read so far, of state.runs_bytes + state.bytes */
    uint32_t whole;
    bool started;
    bool in_journal;
    bool done;
};

typedef enum kvt_err advisor_store_log_fn(void *arg, const struct advisor_event_log_op *op);

/**
 * Give the operations of the next `rows_max` rows, the snapshot's first, then the journal's.
 *
 * @return KVT_OK (`cursor->done`: that was all), what `callback` says, KVT_CORRUPT (`err` says
 *         where), or KVT_AGAIN when another snapshot took the place of the one that was begun with:
 *         begin anew
 */
KVT_NODISCARD enum kvt_err advisor_store_log_read(const struct advisor_txn *txn,
                                                  struct advisor_store_log_cursor *cursor,
                                                  size_t rows_max, advisor_store_log_fn *callback,
                                                  void *arg, struct kvt_error *err);

typedef enum kvt_err advisor_store_log_row_fn(void *arg, const void *row, size_t size);

/** The rows themselves, as advisor_store_log_read() goes through them: 8-aligned, unchecked, where
 *  they lie, until the transaction ends.  A call ends where the snapshot does:
 *  `cursor->in_journal` says what the next one gives. */
KVT_NODISCARD enum kvt_err advisor_store_log_rows(const struct advisor_txn *txn,
                                                  struct advisor_store_log_cursor *cursor,
                                                  size_t rows_max,
                                                  advisor_store_log_row_fn *callback, void *arg,
                                                  struct kvt_error *err);

#endif /* ADVISOR_STORE_EVENT_LOG_TABLE_H */
