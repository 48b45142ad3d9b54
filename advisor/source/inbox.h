/*
 * advisor/source/inbox.h -- what arrived and was not taken yet, in order.
 *
 * Why: a million messages a second come on a thread that must leave at once.  A message is copied
 * behind the one before it into a chunk of memory, under a lock that is nearly always free; the
 * taker gets whole chunks, so that neither side asks the heap or wakes the other for each message.
 *
 * Ownership: taken items belong to the taker, until advisor_inbox_item_free(); the inbox must
 *            outlive them.  An item that is kept for long is kept by advisor_inbox_item_keep(): it
 *            holds its whole chunk otherwise.
 * Threads:   copy and put on any; take, and freeing what was taken, on one.
 * Limits:    `items_max` items and `bytes_max` bytes wait; beyond that KVT_FULL.
 */
#ifndef ADVISOR_SOURCE_INBOX_H
#define ADVISOR_SOURCE_INBOX_H

#include "advisor/source/inbox_item.h"

#define ADVISOR_INBOX_CHUNK_BYTES 65536
#define ADVISOR_INBOX_CHUNK_ITEMS 512
#define ADVISOR_INBOX_SPARES      8 /* empty chunks that are kept */

struct advisor_inbox;

KVT_NODISCARD enum kvt_err advisor_inbox_new(struct advisor_inbox **out, size_t items_max,
                                             size_t bytes_max);
/** Nobody may wait in it any more; what was not taken is freed. */
void advisor_inbox_free(struct advisor_inbox *inbox);

/** Nothing more comes in, and nobody waits; what is there can be taken. */
void advisor_inbox_close(struct advisor_inbox *inbox);

/**
 * Copy a message in.
 *
 * @param like   its kind, times and numbers; subject, bytes and size are not looked at
 * @param wait_ms how long to wait for room
 * @return KVT_OK, KVT_FULL, KVT_NOMEM, or KVT_CANCELLED (closed)
 */
KVT_NODISCARD enum kvt_err advisor_inbox_copy(struct advisor_inbox *inbox,
                                              const struct advisor_inbox_item *like,
                                              const char *subject, const void *bytes, size_t size,
                                              uint64_t wait_ms);
/** Put an item in; it is the caller's still unless KVT_OK. */
KVT_NODISCARD enum kvt_err advisor_inbox_put(struct advisor_inbox *inbox,
                                             struct advisor_inbox_item *item, uint64_t wait_ms);

/** Up to `max` items, waiting up to `wait_ms` for the first. */
size_t advisor_inbox_take(struct advisor_inbox *inbox, struct advisor_inbox_item **items,
                          size_t max, uint64_t wait_ms);

/** What waits; chunks the taker has begun with are not counted. */
void advisor_inbox_waiting(struct advisor_inbox *inbox, uint64_t *items, uint64_t *bytes);

#endif /* ADVISOR_SOURCE_INBOX_H */
