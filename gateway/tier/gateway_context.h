/*
 * gateway/tier/gateway_context.h -- what every operation on objects works with.
 *
 * Why: PUT, GET, removal, moves and recovery are separate nouns over the same things; this names
 * those things once.  A context has no behaviour beyond opening, closing, and small questions all
 * of them ask.
 *
 * Ownership: owns everything it points to except `stats` and `budget`.
 * Threads:   any; each member says its own.
 * Limits:    as its members'.
 */
#ifndef GATEWAY_TIER_GATEWAY_CONTEXT_H
#define GATEWAY_TIER_GATEWAY_CONTEXT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "g4/object/g4_store.h"
#include "g4/s3/upload_notes.h"
#include "gateway/block/recheck.h"
#include "gateway/catalog/catalog.h"
#include "gateway/tier/access_counts.h"
#include "gateway/tier/bucket_tier.h"
#include "gateway/tier/budget.h"
#include "gateway/tier/hot_memory.h"
#include "gateway/tier/key_lock.h"
#include "gateway/tier/packer.h"
#include "gateway/tier/quarantine.h"
#include "gateway/tier/stats.h"
#include "kvtier/error.h"
#include "kvtier/key.h"

#define GATEWAY_BATCH_REQUEST_KEYS_MAX 4096

struct gateway_context {
    char name[KVT_NAME_MAX];
    uint64_t life;     /* of this process, by which others tell it from earlier ones */
    uint64_t since_ms; /* monotonic: since then no earlier one can have begun anything */
    char holder[GATEWAY_TIERS][KVT_NAME_MAX]; /* "hot@gw0"; "": there is no such tier */
    char former_far[KVT_NAME_MAX]; /* the same of a far bucket that was taken out; "": none was */
    enum kvt_key_revision revision;
    uint64_t capacity[GATEWAY_TIERS]; /* as set; gateway_tier_capacity() */
    uint64_t object_max;              /* largest body taken or read */
    uint32_t commit_ranks; /* of each block of the namespace without a name; 0: no records of it */
    bool write_back;       /* blocks may be acknowledged from their hot copies */
    uint64_t backlog_max;  /* bytes of those that wait for their upload */
    struct gateway_catalog *catalog;
    struct g4_store *hot;                  /* NULL: none */
    struct g4_store *warm;                 /* the second volume; NULL: none */
    struct gateway_hot_memory *hot_memory; /* what of it is kept in memory; NULL: nothing */
    struct g4_store *uploads;              /* parts that wait: gateway/upload/uploads.h */
    struct g4_upload_notes *begun
        [2]; /* gateway/upload/unfinished_uploads.h, by g4_bucket_pair_place; NULL: that bucket is
                                       * at no S3 server, or there is none */
    struct gateway_bucket_tier *buckets;
    struct gateway_recheck *recheck;
    struct gateway_packer *packer; /* NULL: nothing is packed */
    struct gateway_quarantine *quarantine;
    struct gateway_key_locks *key_locks;
    struct gateway_access_counts *access_counts;
    struct gateway_stats *stats;
    struct gateway_budget *budget; /* for bodies read here; NULL: no bound */
    int lock_fd;                   /* of the state folder; one gateway lives in it */
    char settled
        [KVT_KEY_MAX]; /* where the last round of gateway/move/recover.h ended; its caller's */
    char swept_lock[KVT_KEY_MAX]; /* the same of gateway_move_lock_sweep(); "": from the first */
    _Atomic bool stopping;        /* long work of the gateway itself ends at its next item */
};

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
    uint32_t commit_ranks; /* up to KVT_RANKS_MAX */
    bool write_back;       /* needs a hot volume */
    uint64_t backlog_max;  /* bytes; of write-back */
    uint64_t recheck_ms;   /* gateway/block/recheck.h */
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

/**
 * GET an object whole, for work of the gateway's own, within the budget.
 *
 * @param length as far as known; another one is read all the same, up to `object_max`
 * @return as the store, and KVT_AGAIN: the budget has no room, nothing was read.  Give the body
 *         back with gateway_body_release(), whatever came.
 */
KVT_NODISCARD enum kvt_err gateway_body_read(struct gateway_context *context,
                                             struct g4_store *store, const char *key,
                                             uint64_t length, struct g4_request *request);
void gateway_body_release(struct gateway_context *context, struct g4_request *request);

/** The same for a block's copy, checked against its row: KVT_CORRUPT also when it is larger than
 *  any may be; `request->error` says what is wrong. */
KVT_NODISCARD enum kvt_err gateway_body_read_block(struct gateway_context *context,
                                                   struct g4_store *store, const char *key,
                                                   const struct gateway_record *record,
                                                   struct g4_request *request);

/** The volume of GATEWAY_HOT or GATEWAY_WARM; NULL: there is none. */
struct g4_store *gateway_tier_volume(const struct gateway_context *context, unsigned tier);

/** The store of one tier's bit, a volume's or a bucket's; NULL: there is none. */
struct g4_store *gateway_tier_store(const struct gateway_context *context, unsigned tier);

/** Of these tiers the bit of the one that is read first; 0: of none. */
unsigned gateway_tier_fastest(const struct gateway_context *context, unsigned tiers);

/** Does this gateway have the tier? */
bool gateway_tier_exists(const struct gateway_context *context, enum gateway_tier tier);

/** The tier of this holder, as "warm@gw0"; false: none of them. */
bool gateway_tier_of_holder(const struct gateway_context *context, const char *holder,
                            enum gateway_tier *tier);

/** "hot", "cold", "warm", "far"; false: it is none of these. */
bool gateway_tier_find(const char *name, enum gateway_tier *tier);

/** Drop the files of these volumes.  KVT_OK also when none was there. */
KVT_NODISCARD enum kvt_err gateway_tier_drop_files(struct gateway_context *context, const char *key,
                                                   unsigned tiers);

/**
 * Does the hot volume have the block of this row?  The file's header says so, no body is read.
 *
 * @return KVT_CORRUPT, KVT_NOTFOUND: no.  All other errors say nothing of it.
 */
KVT_NODISCARD enum kvt_err gateway_body_hot_shows(struct gateway_context *context, const char *key,
                                                  const struct gateway_record *record);

/** Is this a block's key?  `parsed` may be NULL. */
bool gateway_object_key_is_block(const char *key, struct kvt_key *parsed);

/** Does it begin as the gateway's own keys do? */
bool gateway_object_key_is_reserved(const char *key);

/** May clients use this key of the configured bucket?  Not "", too long, reserved, or with control
 * bytes. */
bool gateway_object_key_is_allowed(const char *key);

/** Is it such a key, or where an object of another bucket is (gateway/http/client_bucket.h)? */
bool gateway_object_key_is_stored(const char *key);

/** The cap that is kept of a tier, in bytes; 0: none, as of a bucket that is not counted yet. */
uint64_t gateway_tier_capacity(struct gateway_context *context, unsigned tier);

/** "hot", "cold", "warm", "far". */
const char *gateway_tier_name(unsigned tier);

#endif /* GATEWAY_TIER_GATEWAY_CONTEXT_H */
