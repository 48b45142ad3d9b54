/*
 * gateway/tier/quarantine.h -- bad objects, kept for people.
 *
 * Why: what failed its check must never be served, and must not vanish either: its bytes and why it
 * was bad stay inspectable, and what they should be is kept beside them.  An entry is two files:
 * <id>.body and <id>.json (one line).
 *
 * Ownership: adding copies the body to disk.
 * Threads:   any; files are read and written without the lock.
 * Limits:    `entries_max` entries and GATEWAY_QUARANTINE_BYTES of bodies; the oldest goes first.
 *            The same damage of the same copy is kept once.
 */
#ifndef GATEWAY_TIER_QUARANTINE_H
#define GATEWAY_TIER_QUARANTINE_H

#include <stddef.h>
#include <stdint.h>

#include "base/core/buffer.h"
#include "g4/object/g4_store.h"
#include "kvtier/error.h"
#include "kvtier/key.h"

#define GATEWAY_QUARANTINE_BYTES       (UINT64_C(1) << 30)
#define GATEWAY_QUARANTINE_ENTRIES_MAX 2000

struct gateway_quarantine;

KVT_NODISCARD enum kvt_err gateway_quarantine_open(struct gateway_quarantine **out,
                                                   const char *folder, size_t entries_max,
                                                   struct kvt_error *err);
void gateway_quarantine_close(struct gateway_quarantine *quarantine);

struct gateway_quarantine_item {
    const char *key;
    const char *tier;
    const char *reason;
    const void *body;
    size_t size;
    const struct g4_meta *expected; /* what was written there; NULL: nobody knows */
};

/** KVT_OK, KVT_EXISTS (known already), or why it could not be kept. */
KVT_NODISCARD enum kvt_err gateway_quarantine_add(struct gateway_quarantine *quarantine,
                                                  const struct gateway_quarantine_item *item);

struct gateway_quarantine_entry {
    char key[KVT_KEY_MAX];
    struct g4_meta expected; /* `present`: the bytes should be these */
    char *body;              /* the caller's: kvt_free() */
    size_t size;
};

/** One entry with its bytes, of which there may be `size_max`.  KVT_OK, KVT_NOTFOUND, or why it
 *  could not be read; then `body` is NULL. */
KVT_NODISCARD enum kvt_err gateway_quarantine_read(struct gateway_quarantine *quarantine,
                                                   uint64_t id, size_t size_max,
                                                   struct gateway_quarantine_entry *entry);

/** Forget one.  KVT_OK, KVT_NOTFOUND, or KVT_BUSY: it is being written. */
KVT_NODISCARD enum kvt_err gateway_quarantine_drop(struct gateway_quarantine *quarantine,
                                                   uint64_t id);

/** Append up to `limit` entries as a JSON array, newest first. */
void gateway_quarantine_list(struct gateway_quarantine *quarantine, size_t limit,
                             struct kvt_buffer *out);

/** Ids of entries whose key begins with `prefix`, oldest first, at most `capacity`.  KVT_OK,
 *  KVT_NOMEM, or why one could not be read. */
KVT_NODISCARD enum kvt_err gateway_quarantine_find(struct gateway_quarantine *quarantine,
                                                   const char *prefix, uint64_t *ids,
                                                   size_t capacity, size_t *count);

size_t gateway_quarantine_count(struct gateway_quarantine *quarantine);

#endif /* GATEWAY_TIER_QUARANTINE_H */
