/*
 * gateway/tier/body_read.h -- whole bodies, read for the gateway's own work.
 *
 * Why: what the gateway reads for itself counts against the memory budget, as what clients read.
 *
 * Ownership: bodies are the caller's, to be given back with gateway_body_release().
 */
#ifndef GATEWAY_TIER_BODY_READ_H
#define GATEWAY_TIER_BODY_READ_H

#include <stdint.h>

#include "g4/object/g4_store.h"
#include "gateway/catalog/catalog_record.h"
#include "gateway/tier/budget.h"
#include "kvtier/error.h"

struct gateway_body_limits {
    uint64_t object_max;           /* largest body taken or read */
    struct gateway_budget *budget; /* for bodies read here; NULL: no bound */
};

/**
 * GET an object whole, for work of the gateway's own, within the budget.
 *
 * @param length as far as known; another one is read all the same, up to `object_max`
 * @return as the store, and KVT_AGAIN: the budget has no room, nothing was read.  Give the body
 *         back with gateway_body_release(), whatever came.
 */
KVT_NODISCARD enum kvt_err gateway_body_read(const struct gateway_body_limits *limits,
                                             struct g4_store *store, const char *key,
                                             uint64_t length, struct g4_request *request);
void gateway_body_release(const struct gateway_body_limits *limits, struct g4_request *request);

/** The same for a block's copy, checked against its row: KVT_CORRUPT also when it is larger than
 *  any may be; `request->error` says what is wrong. */
KVT_NODISCARD enum kvt_err gateway_body_read_block(const struct gateway_body_limits *limits,
                                                   struct g4_store *store, const char *key,
                                                   const struct gateway_record *record,
                                                   struct g4_request *request);

/**
 * Does the hot volume have the block of this row?  The file's header says so, no body is read.
 *
 * @return KVT_CORRUPT, KVT_NOTFOUND: no.  All other errors say nothing of it.
 */
KVT_NODISCARD enum kvt_err gateway_body_hot_shows(struct g4_store *hot, const char *key,
                                                  const struct gateway_record *record);

#endif /* GATEWAY_TIER_BODY_READ_H */
