/*
 * gateway/tier/object_key.h -- whose a key of the gateway's store is.
 *
 * Why: blocks, objects of clients and the gateway's own objects are in one bucket.
 */
#ifndef GATEWAY_TIER_OBJECT_KEY_H
#define GATEWAY_TIER_OBJECT_KEY_H

#include <stdbool.h>

#include "kvtier/key.h"

/* All keys of the gateway's own begin with RESERVED. */
#define GATEWAY_OBJECT_KEY_RESERVED       ".kvtier-"
#define GATEWAY_OBJECT_KEY_BUCKET_OBJECTS ".kvtier-object/" /* and a bucket's ID, '/', a key */

/** Is this a block's key?  `parsed` may be NULL. */
bool gateway_object_key_is_block(const char *key, struct kvt_key *parsed);

/** Does it begin as the gateway's own keys do? */
bool gateway_object_key_is_reserved(const char *key);

/** May clients use this key of the configured bucket?  Not "", too long, reserved, or with control
 * bytes. */
bool gateway_object_key_is_allowed(const char *key);

/** Is it such a key, or where an object of another bucket is (gateway/http/client_bucket.h)? */
bool gateway_object_key_is_stored(const char *key);

#endif /* GATEWAY_TIER_OBJECT_KEY_H */
