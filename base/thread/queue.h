/*
 * base/thread/queue.h -- a bounded queue between threads.
 *
 * Why: every hand-over between threads has a depth, and "full" is an answer the producer must
 * handle.
 * Ownership: items are pointers; whoever takes one owns it.
 * Threads:   any number of producers and consumers; one leaf lock.
 * Limits:    `capacity` items, given at creation.
 */
#ifndef BASE_THREAD_QUEUE_H
#define BASE_THREAD_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kvtier/error.h"

struct kvt_queue;

KVT_NODISCARD enum kvt_err kvt_queue_new(struct kvt_queue **out, size_t capacity);

/** NULL is allowed.  Items still inside are the caller's loss: drain first. */
void kvt_queue_free(struct kvt_queue *queue);

/** KVT_OK, KVT_AGAIN (full) or KVT_CANCELLED (closed). */
KVT_NODISCARD enum kvt_err kvt_queue_put(struct kvt_queue *queue, void *item);

/** As put, waiting up to `wait_ms` for room: also KVT_TIMEOUT. */
KVT_NODISCARD enum kvt_err kvt_queue_put_wait(struct kvt_queue *queue, void *item,
                                              uint64_t wait_ms);

/** Take up to `max` items, waiting up to `wait_ms` for the first; 0 = nothing came or closed. */
size_t kvt_queue_take(struct kvt_queue *queue, void **items, size_t max, uint64_t wait_ms);

/** No more puts; takers get what is left, then 0 at once. */
void kvt_queue_close(struct kvt_queue *queue);

bool kvt_queue_closed(struct kvt_queue *queue);
size_t kvt_queue_count(struct kvt_queue *queue);

#endif /* BASE_THREAD_QUEUE_H */
