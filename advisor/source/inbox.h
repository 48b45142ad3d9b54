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

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kvtier/error.h"

enum advisor_inbox_item_kind {
    ADVISOR_INBOX_ITEM_MESSAGE,
    ADVISOR_INBOX_ITEM_GAP,   /* messages before this were lost: any publisher may have gaps */
    ADVISOR_INBOX_ITEM_START, /* as GAP, and sequences begin anew: `created_ms` names the stream */
    ADVISOR_INBOX_ITEM_HOLDS, /* stores of everything the named worker holds, before HELD */
    ADVISOR_INBOX_ITEM_HELD,  /* that was all; numbers may go on anywhere */
    ADVISOR_INBOX_ITEM_GONE,  /* `worker_id` left its cluster's discovery: its blocks are void */
};

struct advisor_chunk;

struct advisor_inbox_item {
    struct advisor_inbox_item *next; /* for the owner's list */
    struct advisor_chunk *chunk; /* of an inbox, where it lies with others; NULL: it is its own */
    uint64_t stream_seq; /* 0: not from a stream; GAP, START: what is to come is behind it */
    uint64_t time_ms;    /* when it was stored; arrival where there is no stream */
    uint64_t created_ms;
    uint64_t sequence;  /* its publisher's number of the message, where it is not in the bytes */
    uint64_t epoch;     /* names the publisher's life, where it says so beside the bytes; else 0 */
    uint64_t worker_id; /* GONE */
    uint32_t endpoint;  /* ZMQ: index into the source's endpoints */
    bool has_sequence;
    bool new_life; /* the publisher is known to have started anew in front of this message */
    enum advisor_inbox_item_kind kind;
    char *subject;
    uint8_t *bytes;
    size_t size;
};

/** A copy of a message.  KVT_OK or KVT_NOMEM. */
KVT_NODISCARD enum kvt_err advisor_inbox_item_new(struct advisor_inbox_item **out,
                                                  enum advisor_inbox_item_kind kind,
                                                  const char *subject, const void *bytes,
                                                  size_t size);
/** One that may be kept for long: itself, or a copy, and the original is freed.  NULL: no memory;
 *  the original is still there. */
struct advisor_inbox_item *advisor_inbox_item_keep(struct advisor_inbox_item *item);
/** NULL is allowed. */
void advisor_inbox_item_free(struct advisor_inbox_item *item);

/* ---- a queue of them ---- */

#define ADVISOR_INBOX_CHUNK_BYTES 65536 /* a larger message has memory of its own */

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
