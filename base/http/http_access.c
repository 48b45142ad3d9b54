#include <arpa/inet.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/http/http.h"
#include "base/http/http_internal.h"

enum { NAME_MAX_BYTES = 256 };

/* The name in "name:port", "1.2.3.4:port" or "[::1]:port"; false when it is none of these. */
static bool
split_host(const char *host, char name[NAME_MAX_BYTES])
{
    const char *end;
    const char *rest;

    name[0] = '\0';
    if (host[0] == '[') {
        host++;
        end = strchr(host, ']');
        if (end == NULL)
            return false;
        rest = end + 1;
    } else {
        end = host + strcspn(host, ":");
        rest = end;
    }
    if (end == host || end - host >= NAME_MAX_BYTES)
        return false;
    if (*rest == ':')
        rest += 1 + strspn(rest + 1, "0123456789");
    if (*rest != '\0')
        return false;
    (void)snprintf(name, NAME_MAX_BYTES, "%.*s", (int)(end - host), host);
    return true;
}

static bool
is_address(const char *name)
{
    struct in6_addr address;

    return inet_pton(AF_INET, name, &address) == 1 || inet_pton(AF_INET6, name, &address) == 1;
}

static bool
is_in_list(const char *name, const char *list)
{
    const size_t size = strlen(name);

    while (list != NULL && *list != '\0') {
        const size_t part = strcspn(list, ",");

        if (part == size && strncasecmp(list, name, size) == 0)
            return true;
        list += part;
        list += strspn(list, ", ");
    }
    return false;
}

bool
kvt_http_host_ok(const char *host, const char *bind, const char *more)
{
    char machine[HOST_NAME_MAX + 1] = "";
    char name[NAME_MAX_BYTES];

    if (host == NULL || !split_host(host, name))
        return false;
    if (is_address(name) || strcasecmp(name, "localhost") == 0 || strcasecmp(name, bind) == 0)
        return true;
    if (gethostname(machine, sizeof(machine) - 1) == 0 && strcasecmp(name, machine) == 0)
        return true;
    return is_in_list(name, more);
}

bool
kvt_http_origin_ok(const char *origin, const char *host)
{
    static const char *const schemes[] = {"http://", "https://"};

    if (origin == NULL)
        return true;
    for (size_t i = 0; host != NULL && i < sizeof(schemes) / sizeof(schemes[0]); i++) {
        const size_t size = strlen(schemes[i]);

        if (strncasecmp(origin, schemes[i], size) == 0 && strcasecmp(origin + size, host) == 0)
            return true;
    }
    return false;
}

bool
kvt_http_token_ok(const char *authorization, const char *token)
{
    static const char scheme[] = "Bearer ";
    char given[KVT_HTTP_TOKEN_MAX] = {0};
    char wanted[KVT_HTTP_TOKEN_MAX] = {0};
    volatile unsigned differing = 0;

    if (authorization == NULL || token[0] == '\0' || strlen(token) >= sizeof(wanted) ||
        strncasecmp(authorization, scheme, sizeof(scheme) - 1) != 0)
        return false;
    authorization += sizeof(scheme) - 1;
    if (strlen(authorization) >= sizeof(given))
        return false;
    (void)snprintf(given, sizeof(given), "%s", authorization);
    (void)snprintf(wanted, sizeof(wanted), "%s", token);
    /* Every byte of both, always: the time must not tell how much of a guess was right. */
    for (size_t i = 0; i < sizeof(given); i++)
        differing |= (unsigned)(given[i] ^ wanted[i]);
    return differing == 0;
}
