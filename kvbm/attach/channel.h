/*
 * kvbm/attach/channel.h -- the socket beside the rings: descriptors, wake-ups, and the end.
 *
 * Why: whoever sleeps must wait for one thing that says both "there is something in the ring" and
 * "the other one is gone".  A byte over the socket is the first, its end the second; and unlike an
 * eventfd's, neither side can change how the other's end of it behaves.
 *
 * Ownership: descriptors are the caller's; one that is received is the receiver's.
 * Threads:   any; one at a time for each direction.
 * Limits:    one descriptor a message.
 */
#ifndef KVBM_ATTACH_CHANNEL_H
#define KVBM_ATTACH_CHANNEL_H

#include <stddef.h>
#include <stdint.h>

#include "kvtier/error.h"

/** One message, with a descriptor unless `pass` is -1.  Does not wait.  KVT_OK, KVT_UNAVAILABLE
 *  (nobody is there) or KVT_IO. */
KVT_NODISCARD enum kvt_err kvbm_channel_send(int fd, const void *message, size_t size, int pass);

/**
 * Wait for one message.
 *
 * @param until_ms      monotonic
 * @param[out] size     bytes of it; what is longer than `room` is refused
 * @param[out] passed   its descriptor, or -1; NULL: none is wanted
 * @return KVT_OK, KVT_TIMEOUT, KVT_UNAVAILABLE (the end), KVT_INVALID (too long) or KVT_IO
 */
KVT_NODISCARD enum kvt_err kvbm_channel_receive(int fd, void *message, size_t room,
                                                uint64_t until_ms, size_t *size, int *passed);

/** Wake the other side. */
void kvbm_channel_nudge(int fd);

/**
 * Wait to be woken.
 *
 * @param death     a descriptor that is readable when the other side has died, or -1
 * @param until_ms  monotonic; in the past: only look
 * @return KVT_OK (maybe for nothing), KVT_TIMEOUT or KVT_UNAVAILABLE (the other side is gone)
 */
KVT_NODISCARD enum kvt_err kvbm_channel_wait(int fd, int death, uint64_t until_ms);

#endif /* KVBM_ATTACH_CHANNEL_H */
