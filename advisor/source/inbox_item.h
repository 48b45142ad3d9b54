/*
 * advisor/source/inbox_item.h -- one thing that arrived, on its way to the engine.
 *
 * Why: NATS threads copy and leave; what they leave is this.
 * Ownership: whoever took it from an inbox, until advisor_inbox_item_free().
 * Threads:   one owner at a time.
 * Limits:    WIRE_BUS_MESSAGE_MAX bytes.
 */
#ifndef ADVISOR_SOURCE_INBOX_ITEM_H
#define ADVISOR_SOURCE_INBOX_ITEM_H

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
/** Give it times and numbers of another. */
void advisor_inbox_item_number(struct advisor_inbox_item *item,
                               const struct advisor_inbox_item *like);
/** One that may be kept for long: itself, or a copy, and the original is freed.  NULL: no memory;
 *  the original is still there. */
struct advisor_inbox_item *advisor_inbox_item_keep(struct advisor_inbox_item *item);
/** NULL is allowed. */
void advisor_inbox_item_free(struct advisor_inbox_item *item);

#endif /* ADVISOR_SOURCE_INBOX_ITEM_H */
