/*
 * kvtier/publisher.h -- how an engine tells what its KV cache holds: libkvtier-publisher.
 *
 * Why: numbering, batching, buffering while NATS is away, repeating what was lost and answering
 * "what do you hold?" are the same for every engine, and a mistake in any of them is a wrong
 * picture at the advisor.  An engine says stored, removed and cleared; the rest is here, and so is
 * a table of what it holds, so that a question is answered without asking the engine.
 *
 * Ownership: the publisher copies what it is given; free it with kvt_publisher_close().
 * Threads:   any thread may call anything but close; no call but flush and close waits for NATS.
 *            The publisher has a thread of its own beside those of the NATS library.
 * Limits:    `blocks_max` blocks are held (KVT_FULL beyond); KVT_PUBLISHER_BLOCKS_MAX in one call;
 *            `buffer_events` wait while NATS is away, then the oldest are given up and counted in
 *            `lost`: the advisor sees a gap and asks what is held.
 *
 * ABI: structs that may grow begin with their size as the caller knows it; members that it does not
 * know are taken as 0.  Values of enums never change their meaning.
 *
 * Order: say "stored" when the block can be read, "removed" before its memory is used again, and
 * two changes of one block in the order in which they happened.
 */
#ifndef KVTIER_PUBLISHER_H
#define KVTIER_PUBLISHER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kvtier/block.h"
#include "kvtier/error.h"
#include "kvtier/event.h"

#ifdef __cplusplus
extern "C" {
#endif

#define KVT_PUBLISHER_BLOCKS_MAX   4096
#define KVT_PUBLISHER_PREFIX_DEPTH 8 /* blocks of a prefix that name it, docs/formats.md */

struct kvt_publisher;

enum kvt_publisher_mode {
    KVT_PUBLISHER_JETSTREAM = 0, /* each batch is acknowledged, and repeated until it is */
    KVT_PUBLISHER_CORE = 1,      /* at most once */
};

struct kvt_publisher_options {
    size_t size;            /* sizeof(struct kvt_publisher_options) */
    const char *url;        /* nats://host:port[,nats://...] */
    const char *namespace_; /* tenant/model-fingerprint; NULL or "": the KVBM-compatible one */
    const char *worker;     /* unique on the bus */
    const struct kvt_location *locations; /* where blocks can be; fixed for the publisher's life */
    uint32_t location_count;              /* 1 .. KVT_LOCATIONS_MAX */
    uint32_t mode;                        /* enum kvt_publisher_mode */
    uint32_t partitions;                  /* of the subjects; as the advisor's; 0 = 1 */
    uint32_t flush_events;                /* a batch is sent at so many; 0 = 256 */
    uint64_t flush_ms;                    /* or when the first has waited so long; 0 = 10 */
    uint64_t heartbeat_ms;                /* 0 = 1000 */
    uint64_t blocks_max;                  /* 0 = 1 Mi (about 80 bytes each, used when held) */
    uint32_t buffer_events;               /* 0 = 65536 */
    uint32_t ring_events;                 /* last events to answer a gap with; 0 = 65536 */
    const char *user_file;                /* file "user:password"; NULL or "": none */
    const char *token_file;               /* file with a token */
    const char *creds_file;               /* NATS credentials file */
    const char *ca_file;                  /* NULL or "": the system's */
    uint32_t connect_now; /* 1: opening fails when no server answers; 0: keep trying behind */
};

/* One block that is stored.  The layout of this struct is part of the ABI and does not change. */
struct kvt_publisher_block {
    uint64_t sequence_hash; /* never 0 */
    uint64_t parent;        /* sequence hash of the block before; 0 at position 0 */
    uint64_t prefix_hash;   /* sequence hash at position min(own, PREFIX_DEPTH - 1); 0: found out */
    uint64_t tokens_hash;   /* 0: not known */
    uint64_t bytes;         /* of one shard */
    uint32_t position;      /* 0 .. KVT_POSITION_MAX */
    uint32_t ranks;         /* bitmap of tensor-parallel shards; 0: rank 0 alone */
};

struct kvt_publisher_stats {
    size_t size; /* in: sizeof(struct kvt_publisher_stats) */
    uint64_t incarnation;
    uint64_t next_seq;
    uint64_t acked_seq;
    uint64_t lost;     /* events given up before they were sent */
    uint64_t buffered; /* events waiting */
    uint64_t batches;
    uint64_t blocks;   /* held, each location for itself */
    uint64_t repeated; /* stored again, or removed though not held: nothing was published */
    uint32_t connected;
};

/** @return KVT_OK, KVT_INVALID, KVT_RANGE, KVT_NOMEM, KVT_UNAVAILABLE (`connect_now`), KVT_DENIED;
 *  `out` is NULL unless KVT_OK.  `err` may be NULL. */
KVT_NODISCARD enum kvt_err kvt_publisher_open(struct kvt_publisher **out,
                                              const struct kvt_publisher_options *options,
                                              struct kvt_error *err);

/** Send what is buffered, for 3 s at most, and free.  `bye`: tell the advisor that this worker
 *  leaves.  NULL is allowed.  Nobody may be inside another call. */
void kvt_publisher_close(struct kvt_publisher *publisher, bool bye);

/**
 * Blocks can now be read at a location: all of them are published, or none.
 *
 * A prefix hash of 0 is found out from the parent, which must then be the block before in this call
 * or held at any location (KVT_INVALID otherwise; positions below PREFIX_DEPTH need no parent).
 *
 * @return KVT_OK, KVT_INVALID, KVT_RANGE (more than BLOCKS_MAX), KVT_FULL (no room for those that
 *         are new) or KVT_NOMEM
 */
KVT_NODISCARD enum kvt_err kvt_publisher_stored(struct kvt_publisher *publisher, uint32_t location,
                                                const struct kvt_publisher_block *blocks,
                                                size_t count);

/** Blocks can no longer be read at a location; of each, the shards in `ranks` (0: all).  What is
 *  not held is counted and not published.  KVT_OK, KVT_INVALID (no such location). */
enum kvt_err kvt_publisher_removed(struct kvt_publisher *publisher, uint32_t location,
                                   const uint64_t *sequence_hashes, size_t count, uint32_t ranks);

/** Every block at a location is gone.  KVT_OK, KVT_INVALID. */
enum kvt_err kvt_publisher_cleared(struct kvt_publisher *publisher, uint32_t location);

/** The shards of a block that are held at a location, as published; 0: none. */
uint32_t kvt_publisher_holds(struct kvt_publisher *publisher, uint32_t location,
                             uint64_t sequence_hash);

/** Wait until everything said so far is acknowledged (JetStream), handed over (core) or given up
 *  (`lost`).  KVT_OK or KVT_TIMEOUT. */
KVT_NODISCARD enum kvt_err kvt_publisher_flush(struct kvt_publisher *publisher,
                                               uint64_t timeout_ms);

/** `stats->size` is in; members of it that this library does not know are 0. */
void kvt_publisher_stats(struct kvt_publisher *publisher, struct kvt_publisher_stats *stats);

#ifdef __cplusplus
}
#endif

#endif /* KVTIER_PUBLISHER_H */
