/*
 * advisor/index/change_group.h -- changes of blocks that become durable together.
 *
 * Why: one fsync must carry many events, LMDB likes its keys in order, and a transaction that
 * failed (map full, disk full) must be repeatable without having changed anything in RAM.  So the
 * engine first collects changes, then writes them in one transaction, and only after the commit
 * applies their effects to the RAM index and the policy.
 *
 * Places in the tiers of workers are collected as the bytes of the log they become
 * (advisor/store/event_log.h); places in G4, and reads of them, as ops, which become rows a block.
 *
 * Ownership: the group owns its arrays and its log; the effects live until the next write or clear.
 * Threads:   none; the engine's thread.
 * Limits:    ADVISOR_CHANGE_GROUP_OPS_MAX changes of both kinds together, drops apart; the engine
 *            stops collecting before that.
 */
#ifndef ADVISOR_INDEX_CHANGE_GROUP_H
#define ADVISOR_INDEX_CHANGE_GROUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "advisor/index/byte_sums.h"
#include "advisor/store/durable_store.h"
#include "advisor/store/event_log.h"
#include "advisor/store/event_log_table.h"
#include "kvtier/error.h"

#define ADVISOR_CHANGE_GROUP_OPS_MAX (1u << 17)

enum advisor_op_kind {
    ADVISOR_OP_STORE,
    ADVISOR_OP_REMOVE,
    ADVISOR_OP_ACCESS, /* of a gateway's report */
};

/* Of a place in G4. */
struct advisor_op {
    uint64_t hash;
    uint64_t parent;
    uint64_t tokens_hash;
    uint64_t size;
    uint64_t time_ms;
    uint32_t ns;
    uint32_t order;  /* set by advisor_change_group_add(): ops of one block keep their order */
    uint32_t holder; /* ACCESS: the tier that served it */
    uint32_t ranks;
    uint32_t position;
    uint32_t reporter; /* STORE */
    uint32_t gen;      /* STORE */
    uint32_t floor;    /* STORE: what the reporter stored there below this generation is void */
    uint32_t count;    /* ACCESS */
    enum advisor_op_kind kind;
    bool hot;  /* the holder is a hot volume */
    bool warm; /* a second volume */
    bool cold; /* a bucket */
};

/* What a written op did, for the RAM side. */
struct advisor_effect {
    struct advisor_op op;
    uint64_t touched_ms; /* of the block, after the op */
    uint64_t parent;     /* as stored: an op may not know it */
    uint32_t position;
    uint64_t age_ms;      /* ACCESS: since it was read or stored before */
    uint32_t ranks;       /* at the holder, after the op; 0 = no longer there */
    uint32_t cold_recent; /* after the op */
    bool in_hot;          /* ACCESS: the reporting gateway's hot volume has it */
};

struct advisor_change_group;

KVT_NODISCARD enum kvt_err advisor_change_group_new(struct advisor_change_group **out);
void advisor_change_group_free(struct advisor_change_group *group);
void advisor_change_group_clear(struct advisor_change_group *group);

/** Of a place in G4.  KVT_OK, KVT_NOMEM, KVT_FULL, or KVT_RANGE (a position beyond
 *  KVT_POSITION_MAX, or beyond advisor/index/shape_limits.h). */
KVT_NODISCARD enum kvt_err advisor_change_group_add(struct advisor_change_group *group,
                                                    const struct advisor_op *op);

/** Consecutive blocks, root side first, came to a place of a worker: advisor_event_log_store().
 * Without
 *  shards nothing came.  As advisor_change_group_add(); all of them are added, or none. */
KVT_NODISCARD enum kvt_err advisor_change_group_store(struct advisor_change_group *group,
                                                      const struct advisor_event_log_place *place,
                                                      uint64_t parent, uint32_t position,
                                                      const uint64_t *hashes,
                                                      const uint64_t *tokens, size_t count);
/** Blocks went from a place of a worker.  KVT_OK, KVT_NOMEM or KVT_FULL. */
KVT_NODISCARD enum kvt_err advisor_change_group_remove(struct advisor_change_group *group,
                                                       const struct advisor_event_log_place *place,
                                                       const uint64_t *hashes, size_t count);
/** All a worker's holder has in the namespace went.  KVT_OK or KVT_NOMEM, however full.  It weighs
 *  one: it costs what was stored before it, and next to nothing where nothing was. */
KVT_NODISCARD enum kvt_err advisor_change_group_drop(struct advisor_change_group *group,
                                                     uint32_t holder, uint32_t ns);

/** The changes of workers' places, in their order. */
struct advisor_event_log *advisor_change_group_log(struct advisor_change_group *group);

/** Changes of both kinds. */
size_t advisor_change_group_count(const struct advisor_change_group *group);
/** Of those, the ones that become rows. */
size_t advisor_change_group_ops(const struct advisor_change_group *group);

/**
 * Write all changes: rows, then the log behind what is there.  Repeatable: after an aborted
 * transaction the same call does the same again.
 *
 * @param[in,out] log  where the log is, brought up to date; NULL: the log is not written
 * @param hot_holder   says whether a holder is the hot volume of the gateway `reporter`
 * @return KVT_OK, or what the store says: abort the transaction then
 */
typedef bool advisor_change_group_hot_fn(void *arg, uint32_t reporter, uint32_t holder);
KVT_NODISCARD enum kvt_err advisor_change_group_write(struct advisor_change_group *group,
                                                      const struct advisor_txn *txn,
                                                      struct advisor_store_log *log,
                                                      advisor_change_group_hot_fn *hot_holder,
                                                      void *arg);

const struct advisor_effect *advisor_change_group_effects(const struct advisor_change_group *group,
                                                          size_t *count);
/** By how many bytes the last write changed what namespaces have at holders in G4. */
const struct advisor_byte_sums_row *
advisor_change_group_sums(const struct advisor_change_group *group, size_t *count);
/** Stores in G4 refused by the last write: same hash, other parent or position. */
uint32_t advisor_change_group_collisions(const struct advisor_change_group *group);
/** Accesses of blocks nobody holds any more. */
uint32_t advisor_change_group_strays(const struct advisor_change_group *group);

#endif /* ADVISOR_INDEX_CHANGE_GROUP_H */
