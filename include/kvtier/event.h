/*
 * kvtier/event.h -- the canonical KV event, decoded.
 *
 * Why: every dialect on the wire is decoded into this one shape before anything looks at it.  The
 * byte format is wire/message/event_codec.h and docs/formats.md.
 *
 * Ownership: plain values.  A batch borrows its event array and belongs to whoever filled it.
 * Threads:   no shared state.
 * Limits:    KVT_EVENTS_PER_BATCH_MAX events and KVT_LOCATIONS_MAX locations in one batch.
 *
 * Holder: who a Store speaks for.  For G1..G3 it is (worker, dp_rank, tier).  For G4 it is the
 * location's name alone ("hot@<gateway>", "cold@<bucket>"), whoever reports it: two gateways on one
 * bucket speak of the same cold tier.
 */
#ifndef KVTIER_EVENT_H
#define KVTIER_EVENT_H

#include <stdint.h>

#include "kvtier/block.h"

#ifdef __cplusplus
extern "C" {
#endif

#define KVT_EVENTS_PER_BATCH_MAX 4096
#define KVT_LOCATIONS_MAX        64

enum kvt_event_type {
    KVT_EVENT_STORE = 1,  /* the block is now readable at the location */
    KVT_EVENT_REMOVE = 2, /* the block is no longer readable there */
    KVT_EVENT_CLEAR = 3,  /* every block of this publisher at the location is gone; hash is 0 */
    KVT_EVENT_BYE = 4,    /* the publisher leaves: drop all it holds in G1..G3; hash is 0 */
};

struct kvt_location {
    enum kvt_tier tier;
    uint32_t dp_rank;        /* data-parallel rank; 0 where there is none */
    char name[KVT_NAME_MAX]; /* G4: the holder's name; otherwise free text, e.g. a disk's path */
};

struct kvt_event {
    uint64_t sequence_hash;
    uint64_t prefix_hash; /* sequence hash at position min(own, prefix_depth - 1) */
    uint64_t parent;      /* 0: root or unknown */
    uint64_t tokens_hash; /* 0: the producer does not send it */
    uint64_t block_size;  /* bytes of one shard */
    uint32_t position;
    uint32_t ranks;    /* bitmap of the tensor-parallel shards this event speaks of */
    uint16_t location; /* index into the batch's location table */
    uint8_t type;      /* enum kvt_event_type */
};

struct kvt_event_batch {
    char namespace_[KVT_NAMESPACE_MAX]; /* "" is the KVBM-compatible mode */
    char worker[KVT_NAME_MAX];          /* the publisher */
    uint64_t incarnation;               /* differs for each life of a publisher; larger is newer */
    uint64_t first_seq; /* of events[0]; with no events, the next one to come (heartbeat) */
    uint64_t time_ms;   /* when it was sent, Unix milliseconds of the publisher's clock */
    struct kvt_location locations[KVT_LOCATIONS_MAX];
    uint32_t location_count;
    struct kvt_event *events;
    uint32_t event_count;
};

#ifdef __cplusplus
}
#endif

#endif /* KVTIER_EVENT_H */
