/*
 * gateway/care/inspect.h -- does catalog, hot volume and bucket say the same of a key?
 *
 * Why: the three can drift apart by what others do to bucket and disk.  One function looks at all
 * of them at once and names what is wrong and what is safe to do about it; whoever compares whole
 * listings (kvtier g4 fsck) only has to find the keys worth asking about.
 *
 * Ownership: borrows the context for the call.
 * Limits:    a row, two HEADs and at most one GET a key, a row and a HEAD more for each rank that a
 *            commit record names; nothing is repaired on a key that another operation
 *            holds.
 */
#ifndef GATEWAY_CARE_INSPECT_H
#define GATEWAY_CARE_INSPECT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/core/buffer.h"
#include "gateway/tier/gateway_context.h"
#include "kvtier/error.h"

/* What can be wrong.  X(name, word, remedy): remedy "" = nothing that is safe to do. */
#define GATEWAY_FINDING_MAP(X)                                                                     \
    X(NONE, "none", "")                                                                            \
    X(UNSETTLED, "unsettled", "") /* a PUT or removal is under way, was left, or was noted */      \
    X(ROW_WITHOUT_OBJECT, "row-without-object", "forget")                                          \
    X(OBJECT_WITHOUT_ROW, "object-without-row", "adopt")                                           \
    X(DAMAGED, "damaged", "quarantine")   /* length or checksum are not what was written */        \
    X(SWAPPED, "swapped", "quarantine")   /* a whole block, but not the one of the row */          \
    X(FOREIGN_BLOCK, "foreign-block", "") /* a block's key, without our metadata */                \
    X(FOREIGN_KEY, "foreign-key", "")     /* no block, and not put through this gateway */         \
    X(ROW_WITHOUT_FILE, "row-without-file", "forget")                                              \
    X(FILE_WITHOUT_ROW, "file-without-row", "") /* the keeper sweeps it by itself */               \
    X(FILE_DAMAGED, "file-damaged", "quarantine")                                                  \
    X(TOMBSTONE, "tombstone", "collect")                                                           \
    X(LOCK_OVER, "lock-over", "free")                                                              \
    X(LOCK_UNREADABLE, "lock-unreadable", "")                                                      \
    X(META_WITHOUT_DATA, "meta-without-data", "remove")

enum gateway_finding {
#define X(name, word, remedy) GATEWAY_FINDING_##name,
    GATEWAY_FINDING_MAP(X)
#undef X
};

struct gateway_inspection {
    enum gateway_finding finding; /* the first that is wrong: bucket, then volume */
    unsigned tier;                /* it is about: 0 hot, 1 cold */
    uint64_t age_ms;              /* of the object, by the bucket's clock; 0 = not told */
    char text[KVT_ERROR_TEXT_MAX];
};

/** "row-without-object", and what may be done: "forget", ... or "". */
const char *gateway_finding_word(enum gateway_finding finding);
const char *gateway_finding_remedy(enum gateway_finding finding);

/** Look at the key.  KVT_OK, also when something is wrong; KVT_UNAVAILABLE and others: the bucket
 *  or the disk could not be asked. */
KVT_NODISCARD enum kvt_err gateway_inspect(struct gateway_context *context, const char *key,
                                           struct gateway_inspection *seen, struct kvt_error *err);

struct gateway_remedy {
    uint64_t older_ms; /* tombstones and commit records only when they are at least this old */
    bool alone;        /* nobody else writes to the bucket: a DELETE cannot take what they put */
};

/**
 * Look again, and do what is safe about what is wrong.
 *
 * @param[out] seen  what was wrong
 * @return KVT_OK (done, or nothing was wrong), KVT_UNSUPPORTED (nothing is safe; `err` says why),
 *         KVT_BUSY (the key is in use, or too young), or why it could not be done
 */
KVT_NODISCARD enum kvt_err gateway_inspect_repair(struct gateway_context *context, const char *key,
                                                  const struct gateway_remedy *remedy,
                                                  struct gateway_inspection *seen,
                                                  struct kvt_error *err);

#endif /* GATEWAY_CARE_INSPECT_H */
