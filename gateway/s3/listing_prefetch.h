/*
 * gateway/s3/listing_prefetch.h -- the store's next page of a listing, fetched before it is asked
 * for.
 *
 * Why: who lists a whole bucket asks for a page, reads it, and asks for the next; the store, which
 * takes longest for a page, would wait meanwhile.  So a client that came for a second page has its
 * third one fetched while it reads.
 *
 * Ownership: pages are copied out; gateway_listing_prefetch_free() waits for what is in the air.
 * Limits:    GATEWAY_LISTING_PREFETCH_MAX pages; one is given for GATEWAY_LISTING_PREFETCH_MS from
 *            when the store was asked, since keys may come from elsewhere, and not behind a change.
 */
#ifndef GATEWAY_S3_LISTING_PREFETCH_H
#define GATEWAY_S3_LISTING_PREFETCH_H

#include "g4/object/g4_store.h"

#define GATEWAY_LISTING_PREFETCH_MAX         8
#define GATEWAY_LISTING_PREFETCH_MS          1000
#define GATEWAY_LISTING_PREFETCH_PATIENCE_MS 5000 /* for the store */

struct gateway_listing_prefetch;

/** KVT_OK or KVT_NOMEM. */
KVT_NODISCARD enum kvt_err gateway_listing_prefetch_new(struct gateway_listing_prefetch **out);
/** NULL is allowed.  The store must not be closed yet. */
void gateway_listing_prefetch_free(struct gateway_listing_prefetch *prefetch);

/** Fetch the page of `prefix` that `token` leads to, if there is room for it. */
void gateway_listing_prefetch_fetch(struct gateway_listing_prefetch *prefetch,
                                    struct g4_store *store, const char *prefix, const char *token);

/** Keys came or went: nothing that was fetched before is given any more. */
void gateway_listing_prefetch_change(struct gateway_listing_prefetch *prefetch);

/**
 * The page that the request asks for, if it was fetched; waits where it is on its way.
 *
 * @param request  LIST with a token; listed, listed_count and token are answered as by the store
 * @return false: ask the store
 */
bool gateway_listing_prefetch_take(struct gateway_listing_prefetch *prefetch,
                                   struct g4_request *request);

#endif /* GATEWAY_S3_LISTING_PREFETCH_H */
