/*
 * kvbm/storage/aio_internal.h -- one io_uring; kvbm/storage/aio.c uses it, nobody else includes it.
 *
 * Why: the protocol with the kernel is one thing, what is done with it another.
 * Ownership: whoever opened a ring closes it, when nothing is in flight.
 * Threads:   one batch at a time; the ring sees to it.
 * Limits:    `depth` operations in flight.
 */
#ifndef KVBM_STORAGE_AIO_INTERNAL_H
#define KVBM_STORAGE_AIO_INTERNAL_H

#include "kvbm/storage/aio.h"

struct kvbm_aio_ring;

/** KVT_UNSUPPORTED: the kernel is too old or does not let us. */
KVT_NODISCARD enum kvt_err kvbm_aio_ring_open(struct kvbm_aio_ring **out, unsigned depth,
                                              struct kvt_error *err);
void kvbm_aio_ring_close(struct kvbm_aio_ring *ring);
void kvbm_aio_ring_run(struct kvbm_aio_ring *ring, struct kvbm_aio_op *ops, size_t count,
                       kvbm_aio_landed_fn *landed, void *arg);

/** The status of a system call's errno. */
enum kvt_err kvbm_aio_status(int sys);

#endif /* KVBM_STORAGE_AIO_INTERNAL_H */
