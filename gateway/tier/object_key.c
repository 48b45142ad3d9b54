#include "gateway/tier/object_key.h"

#include <string.h>

bool
gateway_object_key_is_block(const char *key, struct kvt_key *parsed)
{
    struct kvt_key local;

    return kvt_key_parse(key, parsed == NULL ? &local : parsed) == KVT_OK;
}

static bool
bytes_ok(const char *key)
{
    const size_t size = strlen(key);

    if (size == 0 || size >= KVT_KEY_MAX)
        return false;
    for (const char *at = key; *at != '\0'; at++)
        if ((unsigned char)*at < 0x20 || (unsigned char)*at == 0x7f)
            return false;
    return true;
}

bool
gateway_object_key_is_reserved(const char *key)
{
    return strncmp(key, GATEWAY_OBJECT_KEY_RESERVED, strlen(GATEWAY_OBJECT_KEY_RESERVED)) == 0;
}

bool
gateway_object_key_is_allowed(const char *key)
{
    return !gateway_object_key_is_reserved(key) && bytes_ok(key);
}

bool
gateway_object_key_is_stored(const char *key)
{
    const size_t prefix = strlen(GATEWAY_OBJECT_KEY_BUCKET_OBJECTS);

    return gateway_object_key_is_allowed(key) ||
           (strncmp(key, GATEWAY_OBJECT_KEY_BUCKET_OBJECTS, prefix) == 0 && bytes_ok(key));
}
