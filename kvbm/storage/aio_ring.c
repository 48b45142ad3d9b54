#include <assert.h>
#include <errno.h>
#include <linux/io_uring.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "kvbm/storage/aio_internal.h"

enum { LANDED = 16 /* taken from the completion queue at once */ };

struct kvbm_aio_ring {
    pthread_mutex_t turn; /* held while a batch is on the ring */
    bool lock_made;
    int fd;
    unsigned depth;
    void *rings; /* both queues' heads, tails and arrays */
    size_t rings_size;
    struct io_uring_sqe *sqes;
    size_t sqes_size;
    unsigned *sq_head;
    unsigned *sq_tail;
    unsigned *sq_array;
    unsigned sq_mask;
    unsigned *cq_head;
    unsigned *cq_tail;
    unsigned cq_mask;
    struct io_uring_cqe *cqes;
    unsigned queued; /* entries the kernel has not taken yet */
    unsigned flying; /* operations neither landed nor failed, with those queued */
};

static int
enter(const struct kvbm_aio_ring *ring, unsigned submit, unsigned wait)
{
    return (int)syscall(__NR_io_uring_enter, ring->fd, submit, wait,
                        wait > 0 ? IORING_ENTER_GETEVENTS : 0, NULL, 0);
}

static void *
map(int fd, size_t size, off_t what)
{
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, what);

    return memory == MAP_FAILED ? NULL : memory;
}

static bool
map_rings(struct kvbm_aio_ring *ring, const struct io_uring_params *params)
{
    const size_t sq_size = params->sq_off.array + params->sq_entries * sizeof(unsigned);
    const size_t cq_size = params->cq_off.cqes + params->cq_entries * sizeof(struct io_uring_cqe);
    uint8_t *at;

    ring->rings_size = sq_size > cq_size ? sq_size : cq_size;
    ring->rings = map(ring->fd, ring->rings_size, IORING_OFF_SQ_RING);
    ring->sqes_size = params->sq_entries * sizeof(struct io_uring_sqe);
    ring->sqes = map(ring->fd, ring->sqes_size, IORING_OFF_SQES);
    if (ring->rings == NULL || ring->sqes == NULL)
        return false;
    at = ring->rings;
    ring->sq_head = (unsigned *)(at + params->sq_off.head);
    ring->sq_tail = (unsigned *)(at + params->sq_off.tail);
    ring->sq_array = (unsigned *)(at + params->sq_off.array);
    ring->sq_mask = *(unsigned *)(at + params->sq_off.ring_mask);
    ring->cq_head = (unsigned *)(at + params->cq_off.head);
    ring->cq_tail = (unsigned *)(at + params->cq_off.tail);
    ring->cq_mask = *(unsigned *)(at + params->cq_off.ring_mask);
    ring->cqes = (struct io_uring_cqe *)(at + params->cq_off.cqes);
    return true;
}

enum kvt_err
kvbm_aio_ring_open(struct kvbm_aio_ring **out, unsigned depth, struct kvt_error *err)
{
    /* One map for both queues, and reads and writes at an offset: Linux 5.6. */
    const unsigned needed = IORING_FEAT_SINGLE_MMAP | IORING_FEAT_RW_CUR_POS;
    struct io_uring_params params;
    struct kvbm_aio_ring *ring;
    enum kvt_err rc = KVT_UNSUPPORTED;

    *out = NULL;
    ring = kvt_calloc(1, sizeof(*ring));
    if (ring == NULL)
        return kvt_error_set(err, KVT_NOMEM, "io_uring");
    ring->depth = depth;
    memset(&params, 0, sizeof(params));
    ring->fd = (int)syscall(__NR_io_uring_setup, depth, &params);
    if (ring->fd < 0) {
        (void)kvt_error_set(err, rc, "io_uring: %s", strerror(errno));
        goto fail;
    }
    if ((params.features & needed) != needed) {
        (void)kvt_error_set(err, rc, "io_uring: the kernel's is too old");
        goto fail;
    }
    if (!map_rings(ring, &params) || pthread_mutex_init(&ring->turn, NULL) != 0) {
        (void)kvt_error_set(err, rc, "io_uring: no room");
        goto fail;
    }
    ring->lock_made = true;
    *out = ring;
    return KVT_OK;

fail:
    kvbm_aio_ring_close(ring);
    return rc;
}

void
kvbm_aio_ring_close(struct kvbm_aio_ring *ring)
{
    if (ring == NULL)
        return;
    assert(ring->flying == 0);
    if (ring->rings != NULL)
        (void)munmap(ring->rings, ring->rings_size);
    if (ring->sqes != NULL)
        (void)munmap(ring->sqes, ring->sqes_size);
    if (ring->fd >= 0)
        (void)close(ring->fd);
    if (ring->lock_made)
        (void)pthread_mutex_destroy(&ring->turn);
    kvt_free(ring);
}

/* What is left of the operation goes to the queue, which has room for `depth`. */
static void
push(struct kvbm_aio_ring *ring, struct kvbm_aio_op *op)
{
    const unsigned tail = *ring->sq_tail;
    const unsigned slot = tail & ring->sq_mask;
    struct io_uring_sqe *sqe = &ring->sqes[slot];

    memset(sqe, 0, sizeof(*sqe));
    sqe->opcode = op->writing ? IORING_OP_WRITE : IORING_OP_READ;
    sqe->fd = op->fd;
    sqe->addr = (uint64_t)(uintptr_t)op->bytes + op->done;
    sqe->len = (unsigned)(op->size - op->done);
    sqe->off = op->offset + op->done;
    sqe->user_data = (uint64_t)(uintptr_t)op;
    ring->sq_array[slot] = slot;
    __atomic_store_n(ring->sq_tail, tail + 1, __ATOMIC_RELEASE);
    ring->queued++;
}

/* The kernel takes no more: some of what it has not taken fails, and it never saw it. */
static size_t
withdraw(struct kvbm_aio_ring *ring, int sys, struct kvbm_aio_op **landed)
{
    const unsigned head = __atomic_load_n(ring->sq_head, __ATOMIC_ACQUIRE);
    unsigned tail = *ring->sq_tail;
    size_t count = 0;

    while (tail != head && count < LANDED) {
        const unsigned slot = ring->sq_array[--tail & ring->sq_mask];
        struct kvbm_aio_op *op = (struct kvbm_aio_op *)(uintptr_t)ring->sqes[slot].user_data;

        op->status = kvbm_aio_status(sys);
        landed[count++] = op;
    }
    __atomic_store_n(ring->sq_tail, tail, __ATOMIC_RELEASE);
    ring->queued -= (unsigned)count;
    ring->flying -= (unsigned)count;
    return count;
}

/* True when the operation is over; otherwise the rest of it is queued again. */
static bool
settle(struct kvbm_aio_ring *ring, struct kvbm_aio_op *op, int result)
{
    if (result > 0) {
        op->done += (size_t)result;
        if (op->done < op->size) {
            push(ring, op);
            return false;
        }
        op->status = KVT_OK;
        return true;
    }
    if (result == -EINTR || result == -EAGAIN) {
        push(ring, op);
        return false;
    }
    op->status = result == 0 ? KVT_IO : kvbm_aio_status(-result);
    return true;
}

static size_t
reap(struct kvbm_aio_ring *ring, struct kvbm_aio_op **landed)
{
    unsigned head = *ring->cq_head;
    size_t count = 0;

    while (count < LANDED && head != __atomic_load_n(ring->cq_tail, __ATOMIC_ACQUIRE)) {
        const struct io_uring_cqe *cqe = &ring->cqes[head & ring->cq_mask];
        struct kvbm_aio_op *op = (struct kvbm_aio_op *)(uintptr_t)cqe->user_data;
        const int result = cqe->res;

        __atomic_store_n(ring->cq_head, ++head, __ATOMIC_RELEASE);
        if (settle(ring, op, result)) {
            ring->flying--;
            landed[count++] = op;
        }
    }
    return count;
}

/* Hand over what is queued and, with `wait`, sleep until something landed. */
static size_t
submit(struct kvbm_aio_ring *ring, bool wait, struct kvbm_aio_op **landed)
{
    const int taken = enter(ring, ring->queued, wait ? 1 : 0);

    if (taken >= 0) {
        ring->queued -= (unsigned)taken;
        return 0;
    }
    if (errno == EINTR)
        return 0;
    if (errno == EAGAIN || errno == EBUSY) {
        kvt_clock_sleep_ms(1); /* the kernel is short of memory; completions make room */
        return 0;
    }
    if (ring->queued > 0)
        return withdraw(ring, errno, landed);
    kvt_clock_sleep_ms(1); /* what flies lands by itself */
    return 0;
}

void
kvbm_aio_ring_run(struct kvbm_aio_ring *ring, struct kvbm_aio_op *ops, size_t count,
                  kvbm_aio_landed_fn *landed, void *arg)
{
    struct kvbm_aio_op *over[LANDED];
    size_t next = 0;

    (void)pthread_mutex_lock(&ring->turn);
    while (next < count || ring->flying > 0) {
        size_t ended = reap(ring, over);

        while (next < count && ring->flying < ring->depth) {
            push(ring, &ops[next++]);
            ring->flying++;
        }
        /* Refill first, then look at what landed: the disk is not kept waiting for a checksum. */
        if (ended > 0 && ring->queued > 0) {
            const int taken = enter(ring, ring->queued, 0);

            if (taken > 0)
                ring->queued -= (unsigned)taken;
        } else if (ended == 0 && ring->flying > 0) {
            ended = submit(ring, true, over);
        }
        for (size_t i = 0; landed != NULL && i < ended; i++)
            landed(arg, over[i]);
    }
    (void)pthread_mutex_unlock(&ring->turn);
}
