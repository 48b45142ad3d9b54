#include "kvbm/attach/ring.h"

#include <assert.h>
#include <string.h>

enum { HEAD = 8, PAD = 8 };

/* What a record takes in the ring. */
static uint64_t
span(uint64_t size)
{
    return HEAD + (size + PAD - 1) / PAD * PAD;
}

void
kvbm_ring_init(struct kvbm_ring *ring, struct kvbm_ring_shared *shared, void *bytes,
               uint64_t capacity)
{
    assert(capacity >= KVBM_RING_MIN && capacity <= KVBM_RING_MAX);
    assert((capacity & (capacity - 1)) == 0);
    *ring = (struct kvbm_ring){.shared = shared, .bytes = bytes, .capacity = capacity};
}

/* The longest record of a ring. */
static size_t
record_max(uint64_t capacity)
{
    return (size_t)(capacity / 4 - HEAD);
}

static void
copy_in(struct kvbm_ring *ring, uint64_t at, const void *from, size_t size)
{
    const uint64_t begin = at & (ring->capacity - 1);
    const size_t first = size < ring->capacity - begin ? size : (size_t)(ring->capacity - begin);

    memcpy(ring->bytes + begin, from, first);
    memcpy(ring->bytes, (const uint8_t *)from + first, size - first);
}

static void
copy_out(const struct kvbm_ring *ring, uint64_t at, void *to, size_t size)
{
    const uint64_t begin = at & (ring->capacity - 1);
    const size_t first = size < ring->capacity - begin ? size : (size_t)(ring->capacity - begin);

    memcpy(to, ring->bytes + begin, first);
    memcpy((uint8_t *)to + first, ring->bytes, size - first);
}

enum kvt_err
kvbm_ring_room(struct kvbm_ring *ring, size_t size)
{
    uint64_t taken;

    if (size > record_max(ring->capacity))
        return KVT_RANGE;
    if (ring->own - ring->other + span(size) <= ring->capacity)
        return KVT_OK;
    taken = atomic_load_explicit(&ring->shared->taken, memory_order_acquire);
    if (taken - ring->other > ring->own - ring->other) /* behind what it was, or ahead of us */
        return KVT_CORRUPT;
    ring->other = taken;
    return ring->own - ring->other + span(size) <= ring->capacity ? KVT_OK : KVT_AGAIN;
}

enum kvt_err
kvbm_ring_put(struct kvbm_ring *ring, const void *record, size_t size)
{
    const uint32_t head[2] = {(uint32_t)size, 0};
    const enum kvt_err rc = kvbm_ring_room(ring, size);

    if (rc != KVT_OK)
        return rc;
    copy_in(ring, ring->own, head, HEAD);
    copy_in(ring, ring->own + HEAD, record, size);
    ring->own += span(size);
    /* In one order with the consumer's "sleeping": one of the two sees the other. */
    atomic_store_explicit(&ring->shared->put, ring->own, memory_order_seq_cst);
    return KVT_OK;
}

enum kvt_err
kvbm_ring_take(struct kvbm_ring *ring, void *record, size_t room, size_t *size)
{
    uint32_t head[2];
    uint64_t there;

    *size = 0;
    if (ring->other == ring->own)
        ring->other = atomic_load_explicit(&ring->shared->put, memory_order_acquire);
    there = ring->other - ring->own;
    if (there == 0)
        return KVT_AGAIN;
    if (there > ring->capacity || there < HEAD)
        return KVT_CORRUPT;
    copy_out(ring, ring->own, head, HEAD);
    if (head[0] > room || head[1] != 0 || span(head[0]) > there)
        return KVT_CORRUPT;
    copy_out(ring, ring->own + HEAD, record, head[0]);
    *size = head[0];
    ring->own += span(head[0]);
    atomic_store_explicit(&ring->shared->taken, ring->own, memory_order_release);
    return KVT_OK;
}

bool
kvbm_ring_sleep(struct kvbm_ring *ring)
{
    atomic_store_explicit(&ring->shared->sleeping, 1, memory_order_seq_cst);
    if (atomic_load_explicit(&ring->shared->put, memory_order_seq_cst) == ring->own)
        return true;
    kvbm_ring_rouse(ring);
    return false;
}

void
kvbm_ring_rouse(struct kvbm_ring *ring)
{
    atomic_store_explicit(&ring->shared->sleeping, 0, memory_order_relaxed);
}

bool
kvbm_ring_wake(struct kvbm_ring *ring)
{
    return atomic_load_explicit(&ring->shared->sleeping, memory_order_seq_cst) != 0 &&
           atomic_exchange_explicit(&ring->shared->sleeping, 0, memory_order_seq_cst) != 0;
}
