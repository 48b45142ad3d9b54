#include "gateway/tier/object_key.h"

#include <string.h>

#include "g4/object/object_name.h"

bool
gateway_object_key_is_block(const char *key, struct kvt_key *parsed)
{
    struct kvt_key local;

    return kvt_key_parse(key, parsed == NULL ? &local : parsed) == KVT_OK;
}

bool
gateway_object_key_is_reserved(const char *key)
{
    return strncmp(key, GATEWAY_OBJECT_KEY_RESERVED, strlen(GATEWAY_OBJECT_KEY_RESERVED)) == 0;
}

bool
gateway_object_key_is_stored(const char *name)
{
    char bucket[G4_OBJECT_BUCKET_MAX];
    enum g4_object_form form;

    return strlen(name) < KVT_KEY_MAX && g4_object_name_bucket(name, bucket) &&
           g4_object_name_form(bucket, name, &form);
}
