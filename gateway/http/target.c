#include "gateway/http/target.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/text/hex.h"
#include "base/text/parse.h"

/* Decode up to `end`; %00 would end the text early and is refused. */
static enum kvt_err
decode(const char *at, const char *end, bool plus_is_blank, char *out, size_t size)
{
    size_t used = 0;

    for (; at < end; at++) {
        char byte = *at;

        if (used + 1 >= size)
            return KVT_RANGE;
        if (byte == '%') {
            const int high = end - at > 2 ? kvt_hex_digit(at[1]) : -1;
            const int low = end - at > 2 ? kvt_hex_digit(at[2]) : -1;

            if (high < 0 || low < 0 || (high == 0 && low == 0))
                return KVT_INVALID;
            byte = (char)(high * 16 + low);
            at += 2;
        } else if (byte == '+' && plus_is_blank) {
            byte = ' ';
        }
        out[used++] = byte;
    }
    out[used] = '\0';
    return KVT_OK;
}

/* Clients that think they talk to a proxy put the scheme and host in front. */
static const char *
skip_origin(const char *raw)
{
    const char *slash;

    if (strncasecmp(raw, "http://", 7) != 0 && strncasecmp(raw, "https://", 8) != 0)
        return raw;
    slash = strchr(strchr(raw, '/') + 2, '/');
    return slash == NULL ? "/" : slash;
}

enum kvt_err
gateway_target_parse(const char *raw, struct gateway_target *target, struct kvt_error *err)
{
    const char *path = skip_origin(raw);
    const char *end = path + strcspn(path, "?");
    const char *slash;
    size_t size;
    enum kvt_err rc;

    *target = (struct gateway_target){.key = "", .query = *end == '?' ? end + 1 : ""};
    if (path[0] != '/')
        return kvt_error_set(err, KVT_INVALID, "the request target must start with '/'");
    rc = decode(path, end, false, target->path, sizeof(target->path));
    if (rc == KVT_RANGE)
        return kvt_error_set(err, rc, "the path is longer than %d bytes", GATEWAY_PATH_MAX - 1);
    if (rc != KVT_OK)
        return kvt_error_set(err, rc, "the path has a bad percent escape");
    slash = strchr(target->path + 1, '/');
    size = slash == NULL ? strlen(target->path + 1) : (size_t)(slash - target->path - 1);
    target->bucket_long = size >= sizeof(target->bucket);
    if (target->bucket_long)
        size = sizeof(target->bucket) - 1;
    memcpy(target->bucket, target->path + 1, size);
    target->key = slash == NULL ? "" : slash + 1;
    return KVT_OK;
}

void
gateway_target_host(struct gateway_target *target, const char *host, const char *domains)
{
    const size_t host_size = strcspn(host, ":");

    for (const char *at = domains; *at != '\0';) {
        const size_t size = strcspn(at, ",");
        const size_t label = host_size > size ? host_size - size - 1 : 0;

        if (size > 0 && label > 0 && label < sizeof(target->bucket) && host[label] == '.' &&
            strncasecmp(host + label + 1, at, size) == 0) {
            memcpy(target->bucket, host, label);
            target->bucket[label] = '\0';
            target->bucket_long = false; /* what looked like one is the key's beginning */
            target->key = target->path + 1;
            return;
        }
        at += size + (at[size] == ',' ? 1 : 0);
    }
}

/* The next "name[=value]" of the query; false at its end. */
static bool
next_argument(const char **at, const char **name, size_t *name_size, const char **value,
              const char **end)
{
    while (**at == '&')
        (*at)++;
    if (**at == '\0')
        return false;
    *name = *at;
    *end = *at + strcspn(*at, "&");
    *name_size = strcspn(*name, "=&");
    *value = *name + *name_size;
    if (**value == '=')
        (*value)++;
    *at = *end;
    return true;
}

enum kvt_err
gateway_target_query(const struct gateway_target *target, const char *name, char *value,
                     size_t size)
{
    const char *at = target->query;
    const char *found;
    const char *text;
    const char *end;
    size_t found_size;

    value[0] = '\0';
    while (next_argument(&at, &found, &found_size, &text, &end))
        if (found_size == strlen(name) && memcmp(found, name, found_size) == 0)
            return decode(text, end, true, value, size);
    return KVT_NOTFOUND;
}

bool
gateway_target_number(const struct gateway_target *target, const char *name, uint64_t *value)
{
    char text[32];
    const enum kvt_err rc = gateway_target_query(target, name, text, sizeof(text));

    return rc == KVT_NOTFOUND || (rc == KVT_OK && kvt_parse_u64(text, value) == KVT_OK);
}

bool
gateway_target_has(const struct gateway_target *target, const char *name)
{
    char ignored[2];

    return gateway_target_query(target, name, ignored, sizeof(ignored)) != KVT_NOTFOUND;
}

bool
gateway_target_unknown(const struct gateway_target *target, const char *const *known, size_t count,
                       char *name, size_t size)
{
    const char *at = target->query;
    const char *found;
    const char *text;
    const char *end;
    size_t found_size;

    name[0] = '\0';
    while (next_argument(&at, &found, &found_size, &text, &end)) {
        bool fits = false;

        for (size_t i = 0; i < count && !fits; i++)
            fits = found_size == strlen(known[i]) && memcmp(found, known[i], found_size) == 0;
        if (!fits) {
            (void)snprintf(name, size, "%.*s", (int)found_size, found);
            return true;
        }
    }
    return false;
}
