/*
 * gateway/tier/object_key.h -- whose a name in the gateway's store is.
 *
 * Why: blocks, objects of clients and the gateway's own objects are in one bucket.
 */
#ifndef GATEWAY_TIER_OBJECT_KEY_H
#define GATEWAY_TIER_OBJECT_KEY_H

#include <stdbool.h>

#include "kvtier/key.h"

/* All names of KVTier's own begin with RESERVED. */
#define GATEWAY_OBJECT_KEY_RESERVED ".kvtier-"

/** Is this a block's key?  `parsed` may be NULL. */
bool gateway_object_key_is_block(const char *key, struct kvt_key *parsed);

/** Does it begin as KVTier's own names do? */
bool gateway_object_key_is_reserved(const char *key);

/** Is it the name of an object of a client, in any bucket (g4/object/object_name.h)? */
bool gateway_object_key_is_stored(const char *name);

#endif /* GATEWAY_TIER_OBJECT_KEY_H */
