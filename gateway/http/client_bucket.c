#include "gateway/http/client_bucket.h"

#include <stdio.h>
#include <string.h>

static bool
is_plain(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

/* Four numbers with dots would be an address where names are part of a host's. */
static bool
is_address(const char *name)
{
    unsigned dots = 0;

    for (; *name != '\0'; name++) {
        if (*name != '.' && (*name < '0' || *name > '9'))
            return false;
        dots += *name == '.' ? 1 : 0;
    }
    return dots == 3;
}

bool
gateway_client_bucket_name_valid(const char *name)
{
    static const char *const tails[] = {"-s3alias", "--ol-s3", "--x-s3", ".mrap"};
    const size_t size = strlen(name);

    if (size < 3 || size >= GATEWAY_CLIENT_BUCKET_NAME || !is_plain(name[0]) ||
        !is_plain(name[size - 1]))
        return false;
    for (size_t i = 1; i < size; i++) {
        if (!is_plain(name[i]) && name[i] != '-' && name[i] != '.')
            return false;
        if (!is_plain(name[i]) && name[i - 1] == '.')
            return false;
        if (name[i] == '.' && name[i - 1] == '-')
            return false;
    }
    for (size_t i = 0; i < sizeof(tails) / sizeof(tails[0]); i++)
        if (size > strlen(tails[i]) && strcmp(name + size - strlen(tails[i]), tails[i]) == 0)
            return false;
    return strncmp(name, "xn--", 4) != 0 && strncmp(name, "sthree-", 7) != 0 && !is_address(name);
}

bool
gateway_client_bucket_configured(const struct gateway_client_bucket *bucket)
{
    return bucket->id[0] == '\0';
}

void
gateway_client_bucket_prefix(const struct gateway_client_bucket *bucket,
                             char out[GATEWAY_CLIENT_BUCKET_KEY])
{
    out[0] = '\0';
    if (!gateway_client_bucket_configured(bucket))
        (void)snprintf(out, GATEWAY_CLIENT_BUCKET_KEY, GATEWAY_OBJECT_KEY_BUCKET_OBJECTS "%s/",
                       bucket->id);
}

enum kvt_err
gateway_client_bucket_key(const struct gateway_client_bucket *bucket, const char *key,
                          char out[KVT_KEY_MAX])
{
    char prefix[GATEWAY_CLIENT_BUCKET_KEY];
    size_t size;

    gateway_client_bucket_prefix(bucket, prefix);
    size = strlen(prefix);
    out[0] = '\0';
    if (size + strlen(key) >= KVT_KEY_MAX)
        return KVT_RANGE;
    if (size == 0 ? !gateway_object_key_is_allowed(key) : key[0] == '\0')
        return KVT_INVALID;
    memcpy(out, prefix, size);
    memcpy(out + size, key, strlen(key) + 1);
    if (gateway_object_key_is_stored(out))
        return KVT_OK;
    out[0] = '\0';
    return KVT_INVALID;
}

const char *
gateway_client_bucket_shown(const struct gateway_client_bucket *bucket, const char *stored)
{
    char prefix[GATEWAY_CLIENT_BUCKET_KEY];

    gateway_client_bucket_prefix(bucket, prefix);
    return stored + strlen(prefix);
}
