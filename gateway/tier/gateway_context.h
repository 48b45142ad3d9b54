/*
 * gateway/tier/gateway_context.h -- what every operation on objects works with.
 *
 * Why: PUT, GET, removal, moves and recovery are separate modules over the same things; this names
 * those things once.  gateway/block/context_open.h makes one.
 *
 * Ownership: owns everything it points to except `stats` and the budget.
 * Threads:   any; each member says its own.
 */
#ifndef GATEWAY_TIER_GATEWAY_CONTEXT_H
#define GATEWAY_TIER_GATEWAY_CONTEXT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "g4/object/g4_store.h"
#include "gateway/catalog/catalog.h"
#include "gateway/tier/body_read.h"
#include "gateway/tier/gateway_tiers.h"
#include "gateway/tier/stats.h"
#include "kvtier/error.h"
#include "kvtier/key.h"

#define GATEWAY_BATCH_REQUEST_KEYS_MAX 4096

struct g4_upload_notes;
struct gateway_access_counts;
struct gateway_hot_memory;
struct gateway_key_locks;
struct gateway_packer;
struct gateway_quarantine;
struct gateway_recheck;

/* Who this gateway is, in events, orders, reports, locks and commit records. */
struct gateway_identity {
    char name[KVT_NAME_MAX];
    uint64_t life;     /* of this process, by which others distinguish it from earlier ones */
    uint64_t since_ms; /* monotonic: no earlier process can have begun anything since then */
    enum kvt_key_revision revision;
};

/* What is kept of uploads in parts. */
struct gateway_upload_stores {
    struct g4_store *parts; /* that wait: gateway/upload/uploads.h */
    struct g4_upload_notes *begun
        [2]; /* gateway/upload/unfinished_uploads.h, by g4_bucket_pair_place; NULL: that bucket is
              * at no S3 server, or there is none */
};

/* Blocks that are acknowledged from their hot copies: gateway/block/backlog.h. */
struct gateway_write_back {
    bool allowed;
    uint64_t backlog_max; /* bytes of those that wait for their upload */
};

/* What orders may delete, and what was refused last: gateway/bus/delete_guard.h. */
struct gateway_delete_limits {
    uint32_t mark_ppm;             /* of a tier's capacity: room is made down to it at most */
    uint32_t share_ppm;            /* of all rows, an hour, where an order states no cause */
    _Atomic uint64_t refused_ms;   /* Unix; 0: nothing was */
    _Atomic unsigned refused_kind; /* enum kvt_delete_cause_kind */
    _Atomic uint64_t refused_order;
};

struct gateway_context {
    struct gateway_identity identity;
    struct gateway_tiers tiers;
    struct gateway_upload_stores uploads;
    struct gateway_body_limits body_limits;
    uint32_t commit_ranks; /* of each block of the namespace without a name; 0: no records of it */
    struct gateway_write_back write_back;
    struct gateway_delete_limits deletes;
    struct gateway_catalog *catalog;
    struct gateway_hot_memory *hot_memory; /* hot files that are kept in memory; NULL: none */
    struct gateway_recheck *recheck;
    struct gateway_packer *packer; /* NULL: nothing is packed */
    struct gateway_quarantine *quarantine;
    struct gateway_key_locks *key_locks;
    struct gateway_access_counts *access_counts;
    struct gateway_stats *stats;
    char settled
        [KVT_KEY_MAX];     /* where the last round of gateway/move/recover.h ended; its caller's */
    _Atomic bool stopping; /* long work of the gateway itself ends at its next item */
};

#endif /* GATEWAY_TIER_GATEWAY_CONTEXT_H */
