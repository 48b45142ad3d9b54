/*
 * wire/dialect/raw_batch.h -- what a foreign message says, before anybody asks what it means.
 *
 * Why: engines name blocks by hashes of their own, number their events each in their way, and say
 * in one message what concerns several workers.  Decoders turn bytes into this shape and keep no
 * state; who holds what, under which name and after which gap, is advisor/'s to find out.
 *
 * Ownership: wire_raw_batch_new() provides the arrays, the decoder fills them (and may use them as
 *            scratch); nothing points into the input.
 * Threads:   any; a batch belongs to one thread.
 * Limits:    the capacities the caller gives; a message that does not fit is KVT_RANGE and nothing
 *            of it may be used.
 */
#ifndef WIRE_DIALECT_RAW_BATCH_H
#define WIRE_DIALECT_RAW_BATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kvtier/block.h"
#include "kvtier/error.h"

#define WIRE_RAW_EVENTS_MAX      8192
#define WIRE_RAW_BLOCKS_MAX      65536      /* of one message */
#define WIRE_RAW_TOKENS_MAX      (1u << 20) /* of one message */
#define WIRE_RAW_MEDIA_MAX       65536      /* multimodal objects of one message */
#define WIRE_RAW_BLOCK_MEDIA_MAX 1024       /* multimodal objects of one block */
#define WIRE_RAW_NESTING         64         /* JSON values within values; msgpack needs no limit */

#define WIRE_RAW_POSITION_UNKNOWN UINT32_MAX
#define WIRE_RAW_TIER_ALL         ((enum kvt_tier)0) /* CLEAR: every tier */

enum wire_raw_kind {
    WIRE_RAW_STORE,
    WIRE_RAW_REMOVE,
    WIRE_RAW_CLEAR, /* all the publisher holds there */
    WIRE_RAW_BYE,   /* the publisher leaves */
    WIRE_RAW_SKIP,  /* its number is used up; what it says is not for us (see `why`) */
};

/* Why an event is SKIP.  Each has a counter. */
enum wire_raw_why {
    WIRE_RAW_FINE,
    WIRE_RAW_UNKNOWN_KIND,   /* an event or tag of a later version */
    WIRE_RAW_UNKNOWN_TIER,   /* a medium or tier nobody told us of */
    WIRE_RAW_FOREIGN_DOMAIN, /* not of the worker itself: cache owner, remote, other ownership */
    WIRE_RAW_FILTERED_GROUP, /* sliding-window and other partial cache groups */
    WIRE_RAW_MALFORMED,      /* this event alone could not be read */
    WIRE_RAW_NOT_A_BLOCK,    /* an object whose key is no block's */
    WIRE_RAW_WHY_COUNT,
};

/* What a store says about its cache group (vLLM; see wire_engine_groups_filter()). */
enum wire_raw_group {
    WIRE_RAW_GROUP_UNSAID,
    WIRE_RAW_GROUP_FULL,    /* full attention: what a prefix can be read from */
    WIRE_RAW_GROUP_PARTIAL, /* sliding window and the like; the event is SKIP */
};

struct wire_raw_block {
    uint64_t hash;        /* the producer's name for it; longer names: their low 64 bits */
    uint64_t tokens_hash; /* Dynamo's local hash when the message carries it; else 0 */
    uint32_t media;       /* first of its objects in the batch's `media` */
    uint32_t media_count;
};

struct wire_raw_event {
    uint64_t worker; /* number of the worker; 0 where the dialect has none */
    uint64_t id;     /* of this event, by its worker and rank; MINIO: the key's sequencer */
    uint64_t parent; /* producer's hash of the block before the first; without has_parent and behind
                      * position 0: its low bits at least (KVBM, MINIO) */
    uint64_t size;   /* bytes, where the dialect says so (objects); else 0 */
    uint64_t seed;   /* of the token hashes: 1337 plus the adapter's and the salt's part */
    uint32_t first;  /* of its blocks in `blocks`; REMOVE: only their hashes are set */
    uint32_t count;
    uint32_t tokens;       /* first of its tokens in `token_ids`; a window for each block */
    uint32_t block_tokens; /* of a block; 0: the message carries no tokens */
    uint32_t position;     /* of the first block, or WIRE_RAW_POSITION_UNKNOWN */
    uint32_t dp_rank;
    uint32_t ranks; /* shards it speaks of; 1 where the dialect knows none */
    uint32_t group; /* cache group of the engine; 0 where it says none */
    enum wire_raw_group group_kind;
    enum kvt_tier tier; /* WIRE_RAW_TIER_ALL only with CLEAR, or SKIP that says none */
    enum wire_raw_kind kind;
    enum wire_raw_why why;
    bool has_parent;
    bool pairs;      /* the tokens came in pairs: see wire_raw_window() */
    bool salted;     /* the seed has a salt in it: children inherit it */
    bool unnumbered; /* SKIP: not even worker and id could be read */
};

struct wire_raw_batch {
    char worker[KVT_NAME_MAX];          /* publisher's name where it is not a number; else "" */
    char namespace_[KVT_NAMESPACE_MAX]; /* where the message says it (objects); else "" */
    char holder[KVT_NAME_MAX];          /* G4: the holder's name ("cold@<bucket>"); else "" */
    uint64_t publisher; /* number of this life of the publisher; 0 where the dialect has none */
    uint64_t sequence;  /* of the message, by its publisher */
    uint64_t time_ms;   /* when it was published; 0: not said */
    bool has_sequence;
    bool sequence_numbers_events; /* `sequence` counts messages, and events have no ids */

    struct wire_raw_event *events;
    struct wire_raw_block *blocks;
    uint32_t *token_ids;
    uint64_t *media; /* multimodal hashes, sorted within a block */
    uint32_t event_count;
    uint32_t block_count;
    uint32_t token_count;
    uint32_t media_count;
};

/** Tokens that name a block: its own, and where they come in pairs (EAGLE) the next one's first. */
static inline uint32_t
wire_raw_window(const struct wire_raw_event *event)
{
    return event->block_tokens + (event->pairs ? 1 : 0);
}

/** A batch with room for the limits above (about 7 MiB, touched as needed).  KVT_OK, KVT_NOMEM. */
KVT_NODISCARD enum kvt_err wire_raw_batch_new(struct wire_raw_batch **out);
void wire_raw_batch_free(struct wire_raw_batch *batch);
/** Empty it for the next message. */
void wire_raw_batch_clear(struct wire_raw_batch *batch);

#endif /* WIRE_DIALECT_RAW_BATCH_H */
