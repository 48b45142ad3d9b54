/*
 * kvbm/attach/ring.h -- records from one process to another through memory both have mapped.
 *
 * Why: an engine that asks for its blocks on every iteration cannot pay for a system call each
 * time.  One side puts records in, the other takes them out; only a side that sleeps has to be
 * woken.
 *
 * Each side keeps its own index to itself and publishes it; what it reads of the other's is checked
 * against its own, and a record is copied out once before anybody looks into it.  So a partner that
 * writes nonsense is found out (KVT_CORRUPT) and never followed.
 *
 * A record is its size (u32), 0 (u32) and so many bytes, padded to 8.  Indices count bytes and
 * never wrap.
 *
 * Sleeping: the consumer says so with kvbm_ring_sleep(), which is false when something came
 * meanwhile; the producer asks kvbm_ring_wake() after a put, which is true once for each sleep.
 * How the other is then woken is the caller's affair.
 *
 * Ownership: the memory is the caller's, and outlives the ring.
 * Threads:   one producer and one consumer, in one process or in two; each has a struct of its own.
 * Limits:    capacity is a power of two, KVBM_RING_MIN .. KVBM_RING_MAX bytes; a record has at most
 *            a quarter of it.  Full is an ordinary answer (KVT_AGAIN).
 */
#ifndef KVBM_ATTACH_RING_H
#define KVBM_ATTACH_RING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kvtier/error.h"

#define KVBM_RING_MIN  (UINT64_C(1) << 8)
#define KVBM_RING_MAX  (UINT64_C(1) << 24)
#define KVBM_RING_LINE 64 /* bytes of a cache line */

/* What both see; each line is written by one of them. */
struct kvbm_ring_shared {
    _Alignas(KVBM_RING_LINE) _Atomic uint64_t put;      /* bytes ever put in, by the producer */
    _Alignas(KVBM_RING_LINE) _Atomic uint64_t taken;    /* ... taken out, by the consumer */
    _Alignas(KVBM_RING_LINE) _Atomic uint32_t sleeping; /* the consumer, or nobody */
};

/* One side's view. */
struct kvbm_ring {
    struct kvbm_ring_shared *shared;
    uint8_t *bytes;
    uint64_t capacity;
    uint64_t own;   /* our index, which nobody else can change */
    uint64_t other; /* the partner's, as last read and checked */
};

/** Begin at an empty ring, whose shared part is zero. */
void kvbm_ring_init(struct kvbm_ring *ring, struct kvbm_ring_shared *shared, void *bytes,
                    uint64_t capacity);

/** Is there room for a record of `size` bytes?  KVT_OK, KVT_AGAIN, KVT_RANGE (never) or
 *  KVT_CORRUPT (the consumer's index cannot be). */
KVT_NODISCARD enum kvt_err kvbm_ring_room(struct kvbm_ring *ring, size_t size);

/** Put one record; else as kvbm_ring_room(), and nothing was put. */
KVT_NODISCARD enum kvt_err kvbm_ring_put(struct kvbm_ring *ring, const void *record, size_t size);

/**
 * Take the next record.
 *
 * @param[out] record  `room` bytes; filled to *size
 * @return KVT_OK; KVT_AGAIN (empty); KVT_CORRUPT (index or size cannot be, or it is longer than
 *         `room`: there is no going on)
 */
KVT_NODISCARD enum kvt_err kvbm_ring_take(struct kvbm_ring *ring, void *record, size_t room,
                                          size_t *size);

/** Consumer: say that we are about to sleep; false: do not, there is something to take. */
bool kvbm_ring_sleep(struct kvbm_ring *ring);

/** Consumer: awake again. */
void kvbm_ring_rouse(struct kvbm_ring *ring);

/** Producer: does the consumer have to be woken? */
bool kvbm_ring_wake(struct kvbm_ring *ring);

#endif /* KVBM_ATTACH_RING_H */
