/*
 * advisor/store/foreign_rows.h -- the durable side of foreign event planes.
 *
 * Why: after a restart each source must be read on where it was, each publisher's numbers must
 * fit, and blocks must keep the names they were given: all of it is written in the transaction that
 * changes the index.
 *
 * Ownership: rows are copied in and out.
 * Threads:   as advisor/store/durable_store.h.
 * Limits:    as advisor/store/durable_store.h.
 */
#ifndef ADVISOR_STORE_FOREIGN_ROWS_H
#define ADVISOR_STORE_FOREIGN_ROWS_H

#include "advisor/store/durable_store.h"

/* A source, by name. */
struct advisor_source_row {
    uint64_t seq;        /* JetStream: applied up to here */
    uint64_t created_ms; /* of that stream */
    uint32_t number;     /* from 1 on */
    uint32_t unused;
    char name[KVT_NAME_MAX];
};

/* What a foreign publisher has beside its row in `publishers`. */
struct advisor_foreign_row {
    uint64_t worker_id;   /* 0 where the dialect has none */
    uint64_t life;        /* the publisher's number of the life that is followed; 0: it says none */
    uint64_t former;      /* of the life before */
    uint64_t groups_full; /* cache groups, see struct wire_engine_groups */
    uint64_t groups_partial; /* */
    uint32_t number;         /* of the publisher */
    uint32_t source;
    uint32_t dp_rank;
    uint32_t floor;        /* names given below this generation are void */
    uint32_t met : 1;      /* it has been heard */
    uint32_t lost : 1;     /* events are missing, and were given up */
    uint32_t messages : 1; /* its messages are numbered, not its events */
    uint32_t any_rank : 1; /* it speaks for all its ranks */
    uint32_t revived : 1;  /* it was gone, and spoke on; nobody has vouched for it since */
    uint32_t unused : 27;
    uint32_t digest;  /* of its last message, where messages are numbered; 0: not known */
    char reason[128]; /* LOST: why */
};

/* A block's name: what the engine calls it, and what it is indexed under. */
struct advisor_alias_row {
    uint64_t hash;
    uint64_t chain;
    uint64_t seed; /* of its token hash: children inherit it */
    uint32_t publisher;
    uint32_t gen;
    uint32_t position;
    uint32_t tiers : 8; /* KVT_TIER_MASK bits */
    uint32_t salted : 1;
    uint32_t unused : 23;
};

/* Stores that wait for their parents: their bytes, by publisher and a number of their own. */
KVT_NODISCARD enum kvt_err advisor_store_put_orphan(const struct advisor_txn *txn,
                                                    uint32_t publisher, uint64_t serial,
                                                    const void *bytes, size_t size);
KVT_NODISCARD enum kvt_err advisor_store_delete_orphan(const struct advisor_txn *txn,
                                                       uint32_t publisher, uint64_t serial);
typedef enum kvt_err advisor_store_orphan_fn(void *arg, uint32_t publisher, uint64_t serial,
                                             const void *bytes, size_t size);
KVT_NODISCARD enum kvt_err advisor_store_orphans(const struct advisor_txn *txn,
                                                 advisor_store_orphan_fn *callback, void *arg);

#endif /* ADVISOR_STORE_FOREIGN_ROWS_H */
