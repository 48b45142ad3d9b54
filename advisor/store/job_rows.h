/*
 * advisor/store/job_rows.h -- jobs and their batches of moves, as rows.
 *
 * Why: a job outlives the advisor that took it.  What it has to do is written once, before anything
 * of it is done; each result then changes one head and the job's own row, in one transaction with
 * the orders they came from.
 *
 * Tables: `jobs` (id -> struct advisor_job_row), `job_moves` ((id, n) -> struct advisor_job_batch
 * and, while they may be needed, its blocks behind it).
 *
 * Ownership: rows are copied in and out; a batch's items go to the caller.
 * Threads:   as advisor/store/durable_store.h.
 * Limits:    those of advisor/job/jobs.h.
 */
#ifndef ADVISOR_STORE_JOB_ROWS_H
#define ADVISOR_STORE_JOB_ROWS_H

#include "advisor/store/durable_store.h"

#define ADVISOR_JOB_KIND_MAX  16
#define ADVISOR_JOB_TITLE_MAX 128
#define ADVISOR_JOB_KEY_MAX   72
#define ADVISOR_JOB_TEXT_MAX  160

enum advisor_job_state {
    ADVISOR_JOB_FILLING, /* more parts are to come; nothing of it is done before */
    ADVISOR_JOB_QUEUED,
    ADVISOR_JOB_RUNNING,
    ADVISOR_JOB_PAUSED,
    ADVISOR_JOB_DONE,
    ADVISOR_JOB_FAILED, /* it is at its end, and some blocks failed */
    ADVISOR_JOB_CANCELLED,
};

struct advisor_job_row {
    uint64_t id;
    uint64_t created_ms;
    uint64_t finished_ms; /* 0: it is not */
    uint64_t policy_version;
    uint64_t blocks;
    uint64_t bytes; /* as far as whoever gave the moves knew */
    uint64_t done;  /* blocks */
    uint64_t failed;
    uint64_t bytes_moved;
    uint64_t since_done; /* the same since it was resumed last: what the share of errors is of */
    uint64_t since_failed;
    uint32_t batches;
    uint32_t finished; /* of them, in this round */
    uint32_t round;    /* grows when what failed is tried again */
    uint32_t parts;    /* that came */
    uint32_t suspend_ppm;
    uint32_t state;          /* enum advisor_job_state */
    uint32_t failed_batches; /* in this round */
    uint32_t unused;
    char kind[ADVISOR_JOB_KIND_MAX];
    char title[ADVISOR_JOB_TITLE_MAX];
    char key[ADVISOR_JOB_KEY_MAX];   /* of whoever may ask twice; "": none */
    char text[ADVISOR_JOB_TEXT_MAX]; /* why it is paused, or what failed first */
};

struct advisor_job_batch {
    uint64_t bytes;
    uint64_t bytes_moved;
    uint64_t until_ms; /* of pins */
    uint32_t verb;     /* enum kvt_order_verb */
    uint32_t items;
    uint32_t done;
    uint32_t failed;
    uint32_t finished; /* 1: it has its result */
    uint32_t round;    /* of the job, when it got it */
    uint32_t attempts;
    uint32_t flags; /* ADVISOR_BATCH_* */
    char gateway[KVT_NAME_MAX];
    char namespace_[KVT_NAMESPACE_MAX];
    char text[128]; /* the first failure */
    /* Of moves between other tiers than hot volume and bucket; rows without them end before. */
    char from[KVT_NAME_MAX];
    char to[KVT_NAME_MAX];
};

#define ADVISOR_BATCH_KEEP 1U /* what lies in `from` stays */
#define ADVISOR_BATCH_EDGE 2U /* the row has `from` and `to`: set with the row */

/** KVT_NOTFOUND: there is none. */
KVT_NODISCARD enum kvt_err advisor_store_job(const struct advisor_txn *txn, uint64_t id,
                                             struct advisor_job_row *row);
/** With all its batches. */
KVT_NODISCARD enum kvt_err advisor_store_delete_job(const struct advisor_txn *txn, uint64_t id,
                                                    uint32_t batches);

/** Are its texts terminated and its state one of the enum?  (For ADVISOR_ROW_JOB.) */
bool advisor_job_row_is_sound(const void *row);

/** `items` NULL: without them, which a batch that is over needs no more. */
KVT_NODISCARD enum kvt_err advisor_store_put_batch(const struct advisor_txn *txn, uint64_t job,
                                                   uint32_t n,
                                                   const struct advisor_job_batch *batch,
                                                   const struct kvt_order_item *items);
/** `items` may be NULL; else it receives a copy, or NULL where the row has none. */
KVT_NODISCARD enum kvt_err advisor_store_batch(const struct advisor_txn *txn, uint64_t job,
                                               uint32_t n, struct advisor_job_batch *batch,
                                               struct kvt_order_item **items);

#endif /* ADVISOR_STORE_JOB_ROWS_H */
