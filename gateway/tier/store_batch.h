/*
 * gateway/tier/store_batch.h -- many store requests in the air for one piece of work.
 *
 * Why: a batch of hundreds of blocks must not go to the store one by one, and the thread that asked
 * must check the answers itself: store threads only hand over.
 *
 * Ownership: a flight owns its request slots.  `finish` borrows the request for the call.
 * Threads:   one thread owns the flight and gets every `finish`; stores complete from theirs.
 * Limits:    `window` requests in the air; preparing another waits for one to land.  The whole
 *            flight has GATEWAY_STORE_BATCH_DEADLINE_MS from its first request on, however many
 *            follow: a store that hangs, or whose queue stays full, costs that once, unless the
 *            flight is renewed.
 */
#ifndef GATEWAY_TIER_STORE_BATCH_H
#define GATEWAY_TIER_STORE_BATCH_H

#include <stddef.h>

#include "g4/object/g4_store.h"
#include "kvtier/error.h"

#define GATEWAY_STORE_BATCH_WINDOW_MAX  64
#define GATEWAY_STORE_BATCH_DEADLINE_MS 30000

struct gateway_store_batch;

/** `index` is what was given to prepare. */
typedef void gateway_store_batch_finish_fn(void *arg, struct g4_request *request, size_t index);

KVT_NODISCARD enum kvt_err gateway_store_batch_new(struct gateway_store_batch **out, size_t window,
                                                   gateway_store_batch_finish_fn *finish,
                                                   void *arg);
/** Drains it first.  NULL is allowed. */
void gateway_store_batch_free(struct gateway_store_batch *flight);

/** An empty request to fill; it must be submitted next. */
struct g4_request *gateway_store_batch_prepare(struct gateway_store_batch *flight, size_t index);

/** What is prepared from here on has the whole time again. */
void gateway_store_batch_renew(struct gateway_store_batch *flight);

/** Send the prepared request; a refusal also reaches `finish`, as its status. */
void gateway_store_batch_submit(struct gateway_store_batch *flight, struct g4_store *store,
                                struct g4_request *request);

/** Prepare and send the HEAD of a key, which is borrowed until that has landed. */
void gateway_store_batch_head(struct gateway_store_batch *flight, struct g4_store *store,
                              const char *key, size_t index);

/** Wait until all have landed and been finished. */
void gateway_store_batch_drain(struct gateway_store_batch *flight);

#endif /* GATEWAY_TIER_STORE_BATCH_H */
