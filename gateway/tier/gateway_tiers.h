/*
 * gateway/tier/gateway_tiers.h -- the four tiers of a gateway: their names, caps and stores.
 *
 * Why: callers that only ask where a copy is need no whole context.
 *
 * Ownership: of the gateway_context that they are part of.
 * Threads:   any; set before the first request, and not changed after.
 */
#ifndef GATEWAY_TIER_GATEWAY_TIERS_H
#define GATEWAY_TIER_GATEWAY_TIERS_H

#include <stdbool.h>
#include <stdint.h>

#include "g4/object/g4_store.h"
#include "gateway/catalog/catalog.h"
#include "kvtier/error.h"
#include "kvtier/key.h"

struct gateway_bucket_tier;

struct gateway_tiers {
    char holder[GATEWAY_TIERS][KVT_NAME_MAX]; /* "hot@gw0"; "": there is no such tier */
    char former_far[KVT_NAME_MAX]; /* the same of a far bucket that was taken out; "": none was */
    uint64_t capacity[GATEWAY_TIERS]; /* as set; gateway_tier_capacity() */
    struct g4_store *hot;             /* NULL: none */
    struct g4_store *warm;            /* the second volume; NULL: none */
    struct gateway_bucket_tier *buckets;
};

/** The volume of GATEWAY_HOT or GATEWAY_WARM; NULL: there is none. */
struct g4_store *gateway_tier_volume(const struct gateway_tiers *tiers, unsigned tier);

/** The store of one tier's bit, a volume's or a bucket's; NULL: there is none. */
struct g4_store *gateway_tier_store(const struct gateway_tiers *tiers, unsigned tier);

/** Of these tiers the bit of the one that is read first; 0: of none. */
unsigned gateway_tier_fastest(const struct gateway_tiers *tiers, unsigned bits);

/** Does this gateway have the tier? */
bool gateway_tier_exists(const struct gateway_tiers *tiers, enum gateway_tier tier);

/** The tier of this holder, as "warm@gw0"; false: none of them. */
bool gateway_tier_of_holder(const struct gateway_tiers *tiers, const char *holder,
                            enum gateway_tier *tier);

/** "hot", "cold", "warm", "far"; false: it is none of these. */
bool gateway_tier_find(const char *name, enum gateway_tier *tier);

/** Drop the files of these volumes.  KVT_OK also when none was there. */
KVT_NODISCARD enum kvt_err gateway_tier_drop_files(const struct gateway_tiers *tiers,
                                                   const char *key, unsigned bits);

/** The cap that is kept of a tier, in bytes; 0: none, as of a bucket that is not counted yet. */
uint64_t gateway_tier_capacity(const struct gateway_tiers *tiers, struct gateway_catalog *catalog,
                               unsigned tier);

/** "hot", "cold", "warm", "far". */
const char *gateway_tier_name(unsigned tier);

#endif /* GATEWAY_TIER_GATEWAY_TIERS_H */
