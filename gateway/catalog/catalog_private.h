/*
 * gateway/catalog/catalog_private.h -- shared by the catalog's files only: catalog.c (life,
 * groups), catalog_apply.c (one change inside a transaction), catalog_read.c (readers),
 * catalog_orders.c (what became of orders), catalog_backlog.c (what waits for its upload),
 * catalog_adoption.c (how far the rows cover the bucket), catalog_pins.c (what orders leave
 * alone), catalog_unsynced.c (hot copies a power cut may take), catalog_volume.c (which volumes,
 * which far bucket), catalog_deletions.c (how much was deleted of late).
 *
 * Why: ten short files instead of a long one.
 * Ownership: as gateway/catalog/catalog.h.
 * Threads:   as gateway/catalog/catalog.h; `counters` is the writer's alone.
 * Limits:    none of its own.
 */
#ifndef GATEWAY_CATALOG_CATALOG_PRIVATE_H
#define GATEWAY_CATALOG_CATALOG_PRIVATE_H

#include <lmdb.h>
#include <pthread.h>
#include <stdatomic.h>

#include "base/store/lmdb.h"
#include "gateway/catalog/catalog.h"

/* What must come back after a restart, besides the rows; one row of the "meta" database. */
struct gateway_sequence {
    uint64_t first; /* oldest event kept */
    uint64_t next;
    uint64_t acked;
    uint64_t lost;
};

struct gateway_counters {
    uint64_t incarnation;
    uint64_t epoch;
    uint64_t entries;
    uint64_t pending;
    uint64_t used[2]; /* hot and cold: gateway_counters_used() */
    uint64_t blocks[2];
    uint64_t stream_count;
    struct gateway_sequence streams[GATEWAY_STREAMS_MAX];
    /* What follows came with version 2 of the row. */
    uint64_t owed_blocks;
    uint64_t owed_bytes;
    /* With version 3, which is not written while they are 0. */
    uint64_t used_more[2]; /* warm and far */
    uint64_t blocks_more[2];
};

static inline uint64_t *
gateway_counters_used(struct gateway_counters *counters, unsigned tier)
{
    return tier < 2 ? &counters->used[tier] : &counters->used_more[tier - 2];
}

static inline uint64_t *
gateway_counters_blocks(struct gateway_counters *counters, unsigned tier)
{
    return tier < 2 ? &counters->blocks[tier] : &counters->blocks_more[tier - 2];
}

/* Not kept, but counted when the catalog is opened. */
struct gateway_pins {
    uint64_t blocks;
    uint64_t bytes;
    uint64_t end_ms; /* none ends sooner; 0: none does by itself */
    uint64_t changes;
};

/* Not kept either. */
struct gateway_unsynced {
    uint64_t blocks;
    uint64_t bytes;
};

struct gateway_pinning {
    const char *key; /* NULL: forget those that ended by `until_ms` */
    bool off;
    uint64_t until_ms;
};

struct gateway_job {
    struct gateway_change *changes;
    size_t count;
    uint64_t epoch;                            /* not 0: raise to this */
    const struct kvt_order_result *result;     /* not NULL: keep it */
    const struct gateway_adoption_mark *mark;  /* not NULL: keep it, with what became of changes */
    const struct gateway_pinning *pinning;     /* not NULL: do it */
    const struct gateway_deletions *deletions; /* not NULL: keep them */
    const struct gateway_unsynced_row *synced; /* so many of them are no longer unsynced */
    size_t synced_count;
    enum gateway_catalog_wait wait;
    enum kvt_err status;
    bool finished;
    struct gateway_job *next;
};

struct gateway_catalog {
    MDB_env *env;
    MDB_dbi objects;  /* key -> record */
    MDB_dbi pending;  /* key -> nothing: rows that are to be settled */
    MDB_dbi backlog;  /* big-endian modified_ms, key -> nothing: rows that wait for their upload */
    MDB_dbi outbox;   /* big-endian stream, seq -> event */
    MDB_dbi finished; /* big-endian epoch, id -> what became of the order */
    MDB_dbi pins;     /* key -> when it ends, and the block's length */
    MDB_dbi unsynced; /* key -> which writing of the hot copy, and the block's length */
    MDB_dbi meta;     /* "state" -> counters, "stream NN" -> namespace, "volume" -> id */
    struct gateway_catalog_options options;
    struct gateway_counters counters;        /* the writer's */
    struct gateway_adoption_mark adoption;   /* the writer's */
    struct gateway_pins pinned;              /* the writer's */
    uint64_t committed[GATEWAY_STREAMS_MAX]; /* the writer's: last events of the last commit */
    struct gateway_job *late;                /* the writer's: committed, and to be durable */
    bool lost;                               /* the writer's: a sync failed in this life */
    bool lags;                            /* the writer's: the last commit may not be durable yet */
    struct gateway_unsynced unsynced_now; /* the writer's */
    char names[GATEWAY_STREAMS_MAX][KVT_NAMESPACE_MAX]; /* the writer's, below stream_count */
    size_t measured_page;
    uint64_t measured_ms; /* the writer's: when `bytes` was last measured */
    _Atomic uint64_t bytes;
    _Atomic bool full;
    _Atomic bool failed;
    pthread_t thread;
    bool started;
    bool locks_made;

    struct {
        pthread_mutex_t lock; /* guards this struct and the jobs linked into it */
        pthread_cond_t work;
        pthread_cond_t done;
        struct gateway_job *first;
        struct gateway_job *last;
        struct gateway_counters counters;      /* as of the last commit */
        struct gateway_adoption_mark adoption; /* the same */
        struct gateway_pins pinned;            /* the same */
        struct gateway_unsynced unsynced;      /* the same */
        char names[GATEWAY_STREAMS_MAX][KVT_NAMESPACE_MAX];
        uint64_t durable[GATEWAY_STREAMS_MAX];
        uint64_t acked_wanted[GATEWAY_STREAMS_MAX];
        bool acked_news;
        bool stop;
    } shared;
};

/** The key of an event in the outbox. */
struct gateway_outbox_key {
    uint8_t bytes[12];
};

void gateway_catalog_outbox_key(struct gateway_outbox_key *key, uint32_t stream, uint64_t seq);

/** Hand the writer a job, and wait for it; its status. */
enum kvt_err gateway_catalog_submit(struct gateway_catalog *catalog, struct gateway_job *job);

/** The row of a key; LMDB's answer, 0 also when there is none. */
int gateway_catalog_read_row(struct gateway_catalog *catalog, MDB_txn *txn, const char *key,
                             struct gateway_record *record, bool *found);

/** Apply one change; LMDB's answer, 0 = fine (look at change->status). */
int gateway_catalog_apply(struct gateway_catalog *catalog, MDB_txn *txn,
                          struct gateway_change *change);

/** Put the row into the backlog, or take it out; one that does not wait is left alone. */
int gateway_catalog_enlist(struct gateway_catalog *catalog, MDB_txn *txn, const char *key,
                           const struct gateway_record *record, bool add);

/** Write an order's result; the oldest one beyond GATEWAY_CATALOG_ORDERS goes. */
int gateway_catalog_remember(struct gateway_catalog *catalog, MDB_txn *txn,
                             const struct kvt_order_result *result);

/** Do what the job says about pins, and set its status. */
int gateway_catalog_apply_pinning(struct gateway_catalog *catalog, MDB_txn *txn,
                                  struct gateway_job *job);

/** The pin of a row that goes. */
int gateway_catalog_forget_pin(struct gateway_catalog *catalog, MDB_txn *txn, const char *key);

/** Count all pins anew; those that ended by `now_ms`, or have no row, go, a bounded number a call.
 */
int gateway_catalog_count_pins(struct gateway_catalog *catalog, MDB_txn *txn, uint64_t now_ms);

/** The hot copy of this row is not synced yet. */
int gateway_catalog_note_unsynced(struct gateway_catalog *catalog, MDB_txn *txn, const char *key,
                                  uint64_t length);

/** Forget what the job says is synced, but for what was written again since. */
int gateway_catalog_apply_synced(struct gateway_catalog *catalog, MDB_txn *txn,
                                 const struct gateway_job *job);

/** Count all anew. */
int gateway_catalog_count_unsynced(struct gateway_catalog *catalog, MDB_txn *txn);

/** Keep the mark of an adoption with what became of the job's changes counted in. */
int gateway_catalog_mark(struct gateway_catalog *catalog, MDB_txn *txn,
                         const struct gateway_job *job);
int gateway_catalog_store_mark(struct gateway_catalog *catalog, MDB_txn *txn,
                               const struct gateway_adoption_mark *mark);
int gateway_catalog_load_mark(struct gateway_catalog *catalog, MDB_txn *txn);

int gateway_catalog_store_deletions(struct gateway_catalog *catalog, MDB_txn *txn,
                                    const struct gateway_deletions *deletions);

/** Drop events that need not be kept, a bounded number a call. */
int gateway_catalog_trim(struct gateway_catalog *catalog, MDB_txn *txn);

int gateway_catalog_load(struct gateway_catalog *catalog, MDB_txn *txn);
int gateway_catalog_store(struct gateway_catalog *catalog, MDB_txn *txn);

#endif /* GATEWAY_CATALOG_CATALOG_PRIVATE_H */
