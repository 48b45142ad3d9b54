/*
 * gateway/block/context_open.h -- opening all that a gateway_context has, and closing it.
 *
 * Why: options are checked against what is on disk and in the catalog: blocks of a tier must not
 * vanish with its setting.
 *
 * Ownership: the context is the caller's, and owns what gateway/tier/gateway_context.h says.
 * Threads:   open and close by one thread.
 * Limits:    one context for a state folder.
 */
#ifndef GATEWAY_BLOCK_CONTEXT_OPEN_H
#define GATEWAY_BLOCK_CONTEXT_OPEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "g4/object/g4_store.h"
#include "gateway/tier/bucket_tier.h"
#include "gateway/tier/gateway_context.h"
#include "gateway/tier/packer.h"
#include "kvtier/error.h"
#include "kvtier/key.h"

#define GATEWAY_UPLOADS_BYTES (UINT64_C(16) << 30) /* of parts that wait */

struct gateway_context_options {
    const char *name;
    const char *bucket;
    const char *state_dir;
    const char *hot_dir;
    bool hot_new; /* hot_dir is another volume than the catalog's, on purpose */
    uint64_t hot_capacity;
    uint64_t hot_memory; /* gateway/tier/hot_memory.h; 0: none */
    const char *warm_dir;
    bool warm_new;
    uint64_t warm_capacity; /* 0: no second volume; needs a hot one */
    uint64_t cold_capacity;
    const char *far_bucket; /* its name, when there is one */
    uint64_t far_capacity;
    uint64_t catalog_max;
    uint64_t object_max;
    uint32_t commit_ranks;     /* up to KVT_RANKS_MAX */
    uint32_t delete_mark_ppm;  /* of a tier's capacity: orders for room leave so much */
    uint32_t delete_share_ppm; /* of all rows that orders without a cause may delete an hour */
    bool write_back;           /* needs a hot volume */
    uint64_t backlog_max;      /* bytes; of write-back */
    uint64_t recheck_ms;       /* gateway/block/recheck.h */
    size_t quarantine_max;
    unsigned io_threads; /* of the hot volume */
    enum kvt_key_revision revision;
    const char *packed; /* namespaces, "a,b/c"; NULL or "": none */
    struct gateway_packer_options packer;
    struct gateway_bucket_tier_options cold;
    struct gateway_far_options far;
    /* Tests: used instead of `cold` and `far`, and taken over on success. */
    struct g4_store *cold_store;
    struct g4_store *far_store;
    struct gateway_stats *stats;
    struct gateway_budget *budget; /* may be NULL */
};

/** KVT_BUSY: another gateway lives in the state folder. */
KVT_NODISCARD enum kvt_err gateway_context_open(struct gateway_context **out,
                                                const struct gateway_context_options *options,
                                                struct kvt_error *err);
void gateway_context_close(struct gateway_context *context);

#endif /* GATEWAY_BLOCK_CONTEXT_OPEN_H */
