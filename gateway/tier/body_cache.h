/*
 * gateway/tier/body_cache.h -- memory of bodies that were answered, for those that come next.
 *
 * Why: memory that is fresh from the kernel is cleared page by page before a body is copied into
 * it, and none of it is in the processor's cache.  For bodies of megabytes that costs more than
 * receiving them.
 *
 * Ownership: what was taken is the taker's, and may be freed as if it had never been here.
 * Limits:    keeps `max` bytes at most, beside what is in use; blocks of GATEWAY_BODY_CACHE_MIN to
 *            GATEWAY_BODY_CACHE_MAX bytes, GATEWAY_BODY_CACHE_DEPTH of a size.  What nobody needed
 *            between two calls of gateway_body_cache_expire(), which does nothing for
 *            GATEWAY_BODY_CACHE_REST_MS, is freed by the second.
 */
#ifndef GATEWAY_TIER_BODY_CACHE_H
#define GATEWAY_TIER_BODY_CACHE_H

#include <stddef.h>
#include <stdint.h>

#include "base/core/buffer.h"
#include "kvtier/error.h"

#define GATEWAY_BODY_CACHE_MIN     ((size_t)64 << 10)
#define GATEWAY_BODY_CACHE_MAX     ((size_t)64 << 20)
#define GATEWAY_BODY_CACHE_SIZES   11 /* powers of two from one to the other */
#define GATEWAY_BODY_CACHE_DEPTH   64
#define GATEWAY_BODY_CACHE_REST_MS 10000

struct gateway_body_cache;

/** KVT_OK or KVT_NOMEM. */
KVT_NODISCARD enum kvt_err gateway_body_cache_new(struct gateway_body_cache **out, size_t max);
/** NULL is allowed, here and below: then memory comes from the heap and goes there. */
void gateway_body_cache_free(struct gateway_body_cache *cache);

/** As kvt_buffer_reserve(); an empty buffer gets memory from here, if there is some of its size. */
uint8_t *gateway_body_cache_reserve(struct gateway_body_cache *cache, struct kvt_buffer *buffer,
                                    size_t size);

/** As kvt_buffer_release(); its memory is kept, if there is a place for it. */
void gateway_body_cache_release(struct gateway_body_cache *cache, struct kvt_buffer *buffer);

/** Free what was needed by nobody for a while. */
void gateway_body_cache_expire(struct gateway_body_cache *cache, uint64_t now_ms);

#endif /* GATEWAY_TIER_BODY_CACHE_H */
