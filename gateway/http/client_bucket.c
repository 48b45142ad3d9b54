#include "gateway/http/client_bucket.h"

#include <string.h>

#include "base/text/json_pull.h"

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

static bool
is_utf8(const char *text)
{
    size_t size = strlen(text);
    size_t step = 1;

    for (; size > 0 && step > 0; text += step, size -= step)
        step = kvt_json_utf8(text, size);
    return step > 0;
}

enum kvt_err
gateway_client_bucket_key(const struct gateway_client_bucket *bucket, const char *key,
                          struct g4_object_name *name)
{
    name->text[0] = '\0';
    return is_utf8(key) ? g4_object_name_make(name, bucket->id, key) : KVT_INVALID;
}
