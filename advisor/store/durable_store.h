/*
 * advisor/store/durable_store.h -- the durable copy of the index, in LMDB.
 *
 * Why: a restart must forget nothing, and after a crash at any instant the index, each publisher's
 * last sequence and the stream's sequence must fit each other: they are written in one transaction.
 *
 * Ownership: the store owns its environment; rows are copied in and out.
 * Threads:   one write transaction at a time, on the writer's thread; read transactions on any
 *            thread, short (they pin old pages).
 * Limits:    `map_bytes` of file: beyond it every write is KVT_FULL and the transaction must be
 *            aborted; nothing that was committed is lost.
 *
 * Keys are big-endian, so that LMDB's order is the number's; values are the structs below as they
 * lie in memory of a little-endian 64-bit machine, and ADVISOR_STORE_FORMAT changes with them.
 */
#ifndef ADVISOR_STORE_DURABLE_STORE_H
#define ADVISOR_STORE_DURABLE_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "index/index.h"
#include "kvtier/block.h"
#include "kvtier/error.h"
#include "kvtier/order.h"

#define ADVISOR_STORE_FORMAT     3
#define ADVISOR_STORE_PLACES_MAX INDEX_HOLDERS_MAX

struct MDB_txn;
struct advisor_store;

struct advisor_store_options {
    const char *path;   /* folder */
    uint64_t map_bytes; /* 0 with read_only: as the file says */
    bool read_only;
};

/** KVT_BUSY: another process writes there.  KVT_CORRUPT and KVT_UNSUPPORTED (another format) say in
 *  `err` what to do. */
KVT_NODISCARD enum kvt_err advisor_store_open(struct advisor_store **out,
                                              const struct advisor_store_options *options,
                                              struct kvt_error *err);
void advisor_store_close(struct advisor_store *store);

/* Bytes of the file in use, and its quota. */
void advisor_store_size(struct advisor_store *store, uint64_t *used, uint64_t *max);

/* ---- transactions ---- */

struct advisor_txn {
    struct advisor_store *store;
    struct MDB_txn *handle; /* NULL: none */
};

KVT_NODISCARD enum kvt_err advisor_store_write(struct advisor_store *store, struct advisor_txn *txn,
                                               struct kvt_error *err);
KVT_NODISCARD enum kvt_err advisor_store_read(struct advisor_store *store, struct advisor_txn *txn,
                                              struct kvt_error *err);
/** The transaction is over whatever comes back. */
KVT_NODISCARD enum kvt_err advisor_store_commit(struct advisor_txn *txn, struct kvt_error *err);
/** End a read, give up a write.  Without a transaction it does nothing. */
void advisor_store_end(struct advisor_txn *txn);
/** Make what was committed survive a power cut too. */
KVT_NODISCARD enum kvt_err advisor_store_sync(struct advisor_store *store, struct kvt_error *err);

/* ---- numbers ---- */

enum advisor_meta {
    ADVISOR_META_FORMAT,
    ADVISOR_META_EPOCH,           /* of the orders of this start */
    ADVISOR_META_EVENTS_SEQ,      /* stream sequence that is applied */
    ADVISOR_META_EVENTS_CREATED,  /* which stream that was */
    ADVISOR_META_REPORTS_SEQ,     /* the same for reports */
    ADVISOR_META_REPORTS_CREATED, /* */
    ADVISOR_META_MODE,            /* policy mode set at run time, plus 1; 0 = as configured */
    ADVISOR_META_PUBLISHER_NEXT,  /* numbers of publishers are never used twice */
    ADVISOR_META_COLLISIONS,
    ADVISOR_META_COLD_NUMBER, /* the next of advisor/store/evicted_rows.h */
    ADVISOR_META_VOLATILE,    /* 1: workers' places were not written, and no log of before counts */
    ADVISOR_META_PAUSED,      /* 1: no order leaves until somebody says so */
    ADVISOR_META_JOB_NEXT,    /* numbers of jobs are never used twice */
    ADVISOR_META_SEEN_KEY,    /* of the digests of events; secret, never 0 once it is put */
    ADVISOR_META_REPORTS_SIGNED, /* 1: rows of gateways are of verified reports */
    ADVISOR_META_COUNT,
};

/** 0 when it was never put. */
KVT_NODISCARD enum kvt_err advisor_store_number(const struct advisor_txn *txn,
                                                enum advisor_meta which, uint64_t *value);
KVT_NODISCARD enum kvt_err advisor_store_put_number(const struct advisor_txn *txn,
                                                    enum advisor_meta which, uint64_t value);

/* ---- names: numbered from 0 without holes; a holder put again is another from then on ---- */

KVT_NODISCARD enum kvt_err advisor_store_put_namespace(const struct advisor_txn *txn, uint32_t ns,
                                                       const char *name, uint32_t source);
/** The source that a namespace came from, of a row as advisor_store_namespaces() gives it; 0 where
 *  it does not say. */
uint32_t advisor_store_namespace_source(const char row[KVT_NAMESPACE_MAX]);
KVT_NODISCARD enum kvt_err advisor_store_namespace(const struct advisor_txn *txn, uint32_t ns,
                                                   char name[KVT_NAMESPACE_MAX]);
KVT_NODISCARD enum kvt_err advisor_store_put_holder(const struct advisor_txn *txn, uint32_t holder,
                                                    const struct index_holder *key);
KVT_NODISCARD enum kvt_err advisor_store_holder(const struct advisor_txn *txn, uint32_t holder,
                                                struct index_holder *key);

/* ---- publishers, sweeps, gateways, orders ---- */

struct advisor_publisher_row {
    uint64_t incarnation; /* 0: not known yet */
    uint64_t last_seq;
    uint64_t last_event_ms; /* by its own clock */
    uint64_t gaps;
    uint64_t resyncs;
    uint32_t number;
    uint32_t ns;
    uint32_t gen; /* places it reported carry this; older ones can be swept */
    uint32_t gone : 1;
    uint32_t need_dump : 1;
    uint32_t holds_g4 : 1;
    uint32_t doubted : 1;  /* events may be missing, and are asked for */
    uint32_t buckets : 24; /* G4 holders it speaks for: advisor_publishers_reported() */
    uint32_t unused : 4;
    char worker[KVT_NAME_MAX];
};

#define ADVISOR_SEEN_CHUNK_EVENTS 64

/* Digests of a publisher's events, by number (advisor/publisher/seen_events.h).  A folder of a
 * former version has none. */
struct advisor_seen_row {
    uint64_t base;      /* number of digests[0], a multiple of ADVISOR_SEEN_CHUNK_EVENTS */
    uint64_t vouched;   /* slot 0: the publisher itself told all up to this number, in a dump */
    uint64_t conflicts; /* slot 0: numbers that came twice with other content */
    uint32_t publisher;
    uint32_t slot;
    uint32_t digests[ADVISOR_SEEN_CHUNK_EVENTS]; /* 0: not known */
};

/* Places of `holder` that `publisher` reported with a generation below `floor` are to be removed.
 * */
struct advisor_sweep_row {
    uint32_t publisher;
    uint32_t holder;
    uint32_t floor;
    uint32_t ns;
};

struct advisor_gateway_row {
    uint64_t incarnation;
    uint64_t seq; /* last report applied */
    char name[KVT_NAME_MAX];
};

enum advisor_order_state {
    ADVISOR_ORDER_PENDING,
    ADVISOR_ORDER_DONE,
    ADVISOR_ORDER_FAILED,
    ADVISOR_ORDER_EXPIRED,
    ADVISOR_ORDER_OBSERVED, /* would have been ordered; nothing was published */
};

struct advisor_order_row {
    uint64_t epoch;
    uint64_t id;
    uint64_t issued_ms;
    uint64_t expires_ms;
    uint64_t bytes; /* expected effect on the tier */
    uint64_t bytes_moved;
    uint32_t items;
    uint32_t done;
    uint32_t failed;
    uint32_t verb;  /* enum kvt_order_verb */
    uint32_t state; /* enum advisor_order_state */
    uint32_t keep;  /* 1: what lies in `from` stays */
    char gateway[KVT_NAME_MAX];
    char namespace_[KVT_NAMESPACE_MAX];
    char reason[KVT_NAME_MAX];
    char text[128];
    /* Of a move between other tiers than hot volume and bucket; rows without them end before. */
    char from[KVT_NAME_MAX];
    char to[KVT_NAME_MAX];
};

/* Each kind of row has a table of its own; advisor/store/control_rows.c says what its key is. */
enum advisor_row {
    ADVISOR_ROW_PUBLISHER, /* struct advisor_publisher_row */
    ADVISOR_ROW_SWEEP,
    ADVISOR_ROW_GATEWAY,
    ADVISOR_ROW_ORDER,  /* walked newest first */
    ADVISOR_ROW_SOURCE, /* advisor/store/foreign_rows.h */
    ADVISOR_ROW_FOREIGN,
    ADVISOR_ROW_ALIAS,
    ADVISOR_ROW_JOB, /* advisor/store/job_rows.h; walked oldest first */
    ADVISOR_ROW_SEEN,
    ADVISOR_ROW_COUNT,
};

KVT_NODISCARD enum kvt_err advisor_store_put(const struct advisor_txn *txn, enum advisor_row kind,
                                             const void *row);
/** Only the key of `row` counts; one that is not there is no error. */
KVT_NODISCARD enum kvt_err advisor_store_delete(const struct advisor_txn *txn,
                                                enum advisor_row kind, const void *row);

/* Walks call back once a row; another code than KVT_OK ends the walk and is returned. */
typedef enum kvt_err advisor_store_row_fn(void *arg, const void *row);
typedef enum kvt_err advisor_store_name_fn(void *arg, uint32_t number, const char *name);
typedef enum kvt_err advisor_store_holder_fn(void *arg, uint32_t number,
                                             const struct index_holder *key);

/** KVT_CORRUPT for a row that cannot be of its kind. */
KVT_NODISCARD enum kvt_err advisor_store_walk(const struct advisor_txn *txn, enum advisor_row kind,
                                              advisor_store_row_fn *callback, void *arg);
KVT_NODISCARD enum kvt_err advisor_store_namespaces(const struct advisor_txn *txn,
                                                    advisor_store_name_fn *callback, void *arg);
KVT_NODISCARD enum kvt_err advisor_store_holders(const struct advisor_txn *txn,
                                                 advisor_store_holder_fn *callback, void *arg);

/* ---- blocks ---- */

struct advisor_store_place {
    uint32_t holder;
    uint32_t ranks;
};

/* A block with all its places; `places` is grown as needed, advisor_store_block_release() ends it.
 * */
struct advisor_store_block {
    uint64_t hash;
    uint64_t parent;
    uint64_t tokens_hash;
    uint64_t size;
    uint64_t last_access_ms; /* of a report; 0 = never read since it is known */
    uint64_t touched_ms;     /* last access, or last store in G4 */
    uint64_t stored_ms;      /* first store in G4 since it is known there; 0 = not known */
    uint32_t ns;
    uint32_t position;
    uint32_t hits;
    uint32_t cold_hits;
    uint32_t cold_recent; /* reads from below the hot volumes since it came to one, or to where it
                             was not before */
    uint32_t place_count;
    size_t place_capacity;
    struct advisor_store_place *places;
};

void advisor_store_block_release(struct advisor_store_block *block);

/** Room for `count` places; KVT_OK, KVT_NOMEM or KVT_FULL (ADVISOR_STORE_PLACES_MAX). */
KVT_NODISCARD enum kvt_err advisor_store_block_reserve(struct advisor_store_block *block,
                                                       uint32_t count);

/** KVT_NOTFOUND: `block` then has the key and no places. */
KVT_NODISCARD enum kvt_err advisor_store_get_block(const struct advisor_txn *txn, uint32_t ns,
                                                   uint64_t hash,
                                                   struct advisor_store_block *block);
/** A block without places is deleted. */
KVT_NODISCARD enum kvt_err advisor_store_put_block(const struct advisor_txn *txn,
                                                   const struct advisor_store_block *block);
uint64_t advisor_store_block_count(const struct advisor_txn *txn);

typedef enum kvt_err advisor_store_block_fn(void *arg, const struct advisor_store_block *block);

/** Blocks in the order of hashes from `from` on, about `max` of them; `next` is where to go on,
 *  0 = that was all. */
KVT_NODISCARD enum kvt_err advisor_store_blocks(const struct advisor_txn *txn, uint64_t from,
                                                size_t max, uint64_t *next,
                                                advisor_store_block_fn *callback, void *arg);

/* ---- learned: what an ordering knows of a tier's traffic, in its own bytes ---- */

KVT_NODISCARD enum kvt_err advisor_store_put_learned(const struct advisor_txn *txn,
                                                     const char *tier, const char *ordering,
                                                     const void *bytes, size_t size);

/** Borrowed for the call. */
typedef enum kvt_err advisor_store_learned_fn(void *arg, const char *tier, const char *ordering,
                                              const void *bytes, size_t size);

KVT_NODISCARD enum kvt_err advisor_store_learned(const struct advisor_txn *txn,
                                                 advisor_store_learned_fn *callback, void *arg);

/* ---- held: the same places by holder, with who said so ---- */

struct advisor_held {
    uint64_t hash;
    uint32_t holder;
    uint32_t ns;
    uint32_t reporter; /* number of the publisher that stored it last */
    uint32_t gen;
};

/** Put it unless it is there just so. */
KVT_NODISCARD enum kvt_err advisor_store_put_held(const struct advisor_txn *txn,
                                                  const struct advisor_held *held);
KVT_NODISCARD enum kvt_err advisor_store_delete_held(const struct advisor_txn *txn,
                                                     const struct advisor_held *held);

/** Up to `max` rows of (holder, ns) with hashes from `from` on; *count < max means that was all. */
KVT_NODISCARD enum kvt_err advisor_store_held(const struct advisor_txn *txn, uint32_t holder,
                                              uint32_t ns, uint64_t from, struct advisor_held *rows,
                                              size_t max, size_t *count);

/** Has the holder no row in any namespace? */
KVT_NODISCARD enum kvt_err advisor_store_holds_nothing(const struct advisor_txn *txn,
                                                       uint32_t holder, bool *nothing);

/* ---- pin_rows.c: (block, gateway) -> when its pin ends.  A folder of a former version has no such
 * table, and no pins. ---- */

struct advisor_pin_row {
    uint64_t hash;
    uint64_t until_ms; /* Unix; 0: until it is taken off */
    uint32_t ns;
    char gateway[KVT_NAME_MAX];
};

KVT_NODISCARD enum kvt_err advisor_store_put_pin(const struct advisor_txn *txn,
                                                 const struct advisor_pin_row *row);
/** One that is not there is no error. */
KVT_NODISCARD enum kvt_err advisor_store_delete_pin(const struct advisor_txn *txn,
                                                    const struct advisor_pin_row *row);

typedef enum kvt_err advisor_store_pin_fn(void *arg, const struct advisor_pin_row *row);
/** All of them; KVT_CORRUPT for a row that is none. */
KVT_NODISCARD enum kvt_err advisor_store_pins(const struct advisor_txn *txn,
                                              advisor_store_pin_fn *callback, void *arg);

#endif /* ADVISOR_STORE_DURABLE_STORE_H */
