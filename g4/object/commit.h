/*
 * g4/object/commit.h -- the commit record of a block: "<position>:<hash>[:<parent>].meta".
 *
 * Why: in the namespace without a name KVBM's leaders and ours share a bucket, and there a block is
 * complete when its record is there: written when all ranks are, deleted before the first of them.
 * KVBM looks for the object and reads nothing in it; its own records are empty.  Ours say what the
 * ranks are, so that a check can tell a block that lost one.
 *
 * Ownership: plain values; keys and stores are borrowed for the call.
 * Threads:   any.  Who writes a record keeps the ranks from being removed meanwhile.
 * Limits:    KVT_RANKS_MAX ranks, G4_COMMIT_BODY_MAX bytes.
 */
#ifndef G4_OBJECT_COMMIT_H
#define G4_OBJECT_COMMIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/core/buffer.h"
#include "g4/object/g4_store.h"
#include "kvtier/block.h"
#include "kvtier/error.h"
#include "kvtier/key.h"

#define G4_COMMIT_BODY_MAX 4096

struct g4_commit_rank {
    uint64_t length; /* bytes */
    uint32_t crc32c;
    uint64_t fingerprint; /* of the layout; 0 = not told */
};

struct g4_commit {
    uint32_t ranks; /* 0: a record of KVBM, which says only that the block is complete */
    struct g4_commit_rank rank[KVT_RANKS_MAX];
    char writer[KVT_NAME_MAX];
};

/** The record's key of the block that `block` is a rank of.  False, and "": its namespace has a
 *  name, or it is no block's key. */
bool g4_commit_key(const char *block, char key[KVT_KEY_MAX]);

/** The key of one rank of the block that the record `key` speaks of; `key` is g4_commit_key()'s. */
void g4_commit_rank_key(const char *key, uint32_t rank, char block[KVT_KEY_MAX]);

/** Do both name the same ranks with the same bytes? */
bool g4_commit_same(const struct g4_commit *left, const struct g4_commit *right);

/** JSON, appended; kvt_buffer_ok() says whether it fitted. */
void g4_commit_format(const struct g4_commit *record, struct kvt_buffer *out);

/**
 * Members that are not known are stepped over.
 *
 * @param size       0: a record of KVBM
 * @param[out] record  zero on failure
 * @return KVT_OK, KVT_INVALID (no record), KVT_UNSUPPORTED (of another version) or KVT_RANGE (more
 *         than G4_COMMIT_BODY_MAX bytes)
 */
KVT_NODISCARD enum kvt_err g4_commit_parse(struct g4_commit *record, const char *text, size_t size,
                                           struct kvt_error *err);

/**
 * @param[out] record  zero on failure
 * @param[out] etag    of the object, also where it is unreadable; "" where there is none
 * @return KVT_OK; KVT_NOTFOUND: the block is not complete; KVT_CORRUPT: something is there that is
 *         no record; KVT_UNSUPPORTED: a record of a later version; or why the store could not be
 *         asked
 */
KVT_NODISCARD enum kvt_err g4_commit_read(struct g4_store *store, const char *key,
                                          struct g4_commit *record, char etag[G4_ETAG_MAX],
                                          struct kvt_error *err);

/** Make `request` the PUT of a record, where none is yet; `body` is g4_commit_format()'s. */
void g4_commit_request(const struct g4_commit *record, const char *key, struct kvt_buffer *body,
                       struct g4_request *request);

/**
 * After KVT_EXISTS: is what is there as good?  KVBM's is, one of a later version, and one that says
 * the same; any other is replaced, if nobody was quicker.
 *
 * @return KVT_OK; KVT_AGAIN: somebody was; or why the store could not be asked
 */
KVT_NODISCARD enum kvt_err g4_commit_settle(struct g4_store *store, const char *key,
                                            const struct g4_commit *record, struct kvt_error *err);

#endif /* G4_OBJECT_COMMIT_H */
