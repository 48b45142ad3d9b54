/*
 * gateway/care/purge.h -- everything under a namespace, gone: of a tenant, or of one of its models.
 *
 * Why: who asks for a tenant's data to be deleted has to be told that nothing of it is left, also
 * of what no event told: objects that others put, hot files without a row, packed segments, commit
 * records, tombstones, uploads that nobody completed, and what was put aside as damaged.  So this
 * looks at the places themselves, not at what anybody remembers of them.
 *
 * A pass looks at every place once, in steps that end after GATEWAY_PURGE_STEP_MS, and removes what
 * it finds when it is to act.  Nothing of it is remembered: one that is cut short, by kill -9 too,
 * is begun again.  Whoever wants proof repeats passes until one, from beginning to end, found
 * nothing.  A key is kept until the uploads to it are given up: without it they could not be found
 * where uploads are listed by whole key.  Pins are passed over.
 *
 * Ownership: borrows the context for the call.
 * Threads:   any; several purges meet at the holds of keys.
 * Limits:    GATEWAY_PURGE_CURSOR_MAX bytes of cursor; a page of keys in memory.
 */
#ifndef GATEWAY_CARE_PURGE_H
#define GATEWAY_CARE_PURGE_H

#include <stdbool.h>
#include <stdint.h>

#include "gateway/tier/gateway_context.h"
#include "kvtier/error.h"

/* How uploads that nobody completed were looked for in the bucket, and in a second one too: what
 * one of them does not do counts for both. */
#define GATEWAY_PURGE_BY_PREFIX  "prefix" /* the server lists those to all keys of the namespace */
/* It lists by whole key alone, as MinIO does: those to each key that a row, a listing of objects or
 * of the hot volume, an upload at the gateway, a note of one that a gateway began
 * (gateway/upload/unfinished_uploads.h) or the server's own list of late ones has. */
#define GATEWAY_PURGE_BY_KEY     "key"
#define GATEWAY_PURGE_BY_NOTHING "none"   /* a folder keeps none */
#define GATEWAY_PURGE_BY_NOBODY  "nobody" /* a loaded driver cannot be asked */

#define GATEWAY_PURGE_STEP_MS    3000
#define GATEWAY_PURGE_CURSOR_MAX (KVT_KEY_MAX + 8)

/* X(name): what a step found, place by place. */
#define GATEWAY_PURGE_COUNTS(X)                                                                    \
    X(rows)      /* of the catalog */                                                              \
    X(hot_files) /* on the volumes, hot and warm */                                                \
    X(objects)   /* in the bucket: blocks, tombstones, commit records, all others */               \
    X(object_bytes)                                                                                \
    X(locks)    /* in the bucket */                                                                \
    X(segments) /* of packed namespaces */                                                         \
    X(segment_bytes)                                                                               \
    X(manifests)      /* that name blocks */                                                       \
    X(uploads)        /* with this gateway, not completed */                                       \
    X(bucket_uploads) /* in the bucket, not completed */                                           \
    X(quarantined)    /* damaged copies that were kept for people */

struct gateway_purge_report {
#define X(name) uint64_t name;
    GATEWAY_PURGE_COUNTS(X)
#undef X
    uint64_t removed; /* things, of whatever kind */
    uint64_t failed;
    const char *uploads_by;        /* how those in the bucket were looked for, as below */
    bool versions;                 /* a bucket keeps old versions, or does not say */
    char text[KVT_ERROR_TEXT_MAX]; /* of the first failure */
};

/** May this be purged?  Not "", no part of it empty, all digits (a rank), or the gateway's own. */
bool gateway_purge_namespace_ok(const char *namespace_);

/**
 * One step of a pass.
 *
 * @param act             remove what is found; false: only look
 * @param[in,out] cursor  "" begins a pass; "" afterwards: that was its last step
 * @param[out] report     of this step
 * @return KVT_OK, also when something could not be removed: `failed`, `text`; KVT_INVALID: the
 *         namespace or the cursor; or why a place could not be looked at
 */
KVT_NODISCARD enum kvt_err gateway_purge_step(struct gateway_context *context,
                                              const char *namespace_, bool act,
                                              char cursor[GATEWAY_PURGE_CURSOR_MAX],
                                              struct gateway_purge_report *report,
                                              struct kvt_error *err);

#endif /* GATEWAY_CARE_PURGE_H */
