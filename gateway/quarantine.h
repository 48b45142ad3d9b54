/*
 * gateway/quarantine.h -- bad objects, kept for people.
 *
 * Why: what failed its check must never be served, and must not vanish either: its bytes and why it
 * was bad stay inspectable.  An entry is two files: <id>.body and <id>.json (one line).
 *
 * Ownership: adding copies the body to disk.
 * Threads:   any; files are read and written without the lock.
 * Limits:    `entries_max` entries and GATEWAY_QUARANTINE_BYTES of bodies; the oldest goes first.
 *            The same damage of the same copy is kept once.
 */
#ifndef GATEWAY_QUARANTINE_H
#define GATEWAY_QUARANTINE_H

#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
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
};

/** KVT_OK, KVT_EXISTS (known already), or why it could not be kept. */
KVT_NODISCARD enum kvt_err gateway_quarantine_add(struct gateway_quarantine *quarantine,
                                                  const struct gateway_quarantine_item *item);

/** Append up to `limit` entries as a JSON array, newest first. */
void gateway_quarantine_list(struct gateway_quarantine *quarantine, size_t limit,
                             struct kvt_buffer *out);

size_t gateway_quarantine_count(struct gateway_quarantine *quarantine);

#endif /* GATEWAY_QUARANTINE_H */
