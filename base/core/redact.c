#include "base/core/redact.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define MASK "***"

/* Names of parameters and members whose value is a secret; case does not matter. */
static const char *const secret_names[] = {
    "x-amz-signature",
    "x-amz-credential",
    "x-amz-security-token",
    "awsaccesskeyid",
    "signature",
    "access_token",
    "session_token",
    "sessiontoken",
    "aws_session_token",
    "token",
    "password",
    "passwd",
    "pass",
    "secret",
    "secret_key",
    "secretkey",
    "secret_access_key",
    "secretaccesskey",
    "aws_secret_access_key",
    "api_key",
    "apikey",
    "auth",
};

/* What comes after these words, up to the end of the line. */
static const char *const headers[] = {
    "authorization:", "x-amz-security-token:", "proxy-authorization:"};
static const char *const schemes[] = {"bearer ", "basic "};

/* Does an address or a value end here? */
static bool
is_end(char c)
{
    return c == '\0' || isspace((unsigned char)c) || strchr("\"'<>\\`", c) != NULL;
}

/* Mask `size` bytes at `at`; the text behind follows.  Returns where it begins. */
static char *
mask(char *at, size_t size)
{
    const size_t stars = size < sizeof(MASK) - 1 ? size : sizeof(MASK) - 1;

    memcpy(at, MASK, stars);
    memmove(at + stars, at + size, strlen(at + size) + 1);
    return at + stars;
}

/* A colon that no port follows: so begins a password. */
static bool
has_password(const char *at, size_t size)
{
    const char *colon = at;

    while ((colon = memchr(colon, ':', size - (size_t)(colon - at))) != NULL) {
        const char *digit = ++colon;

        while (digit < at + size && isdigit((unsigned char)*digit))
            digit++;
        if (digit < at + size || digit == colon)
            return at[0] != '['; /* not the colons of an IPv6 address */
        if (colon == at + size)
            return false;
    }
    return false;
}

/* The address whose host part begins at `at`; returns where to go on. */
static char *
redact_address(char *at)
{
    size_t size = 0;
    size_t host;
    size_t end = 0; /* behind the last '@' that counts */

    while (!is_end(at[size]) && at[size] != ',')
        size++;
    host = strcspn(at, "/?#");
    host = host < size ? host : size;
    for (size_t i = 0; i < host; i++)
        end = at[i] == '@' ? i + 1 : end;
    /* A password may have been written with a slash in it. */
    if (end == 0 && has_password(at, host))
        for (size_t i = host; i < size; i++)
            end = at[i] == '@' ? i + 1 : end;
    if (end > 0)
        return mask(at, end - 1);
    if (at[size] == '\0' && host == size && has_password(at, size))
        return mask(at, size); /* cut off before its '@' */
    return at;
}

static bool
is_name_char(char c)
{
    return isalnum((unsigned char)c) || c == '_' || c == '-';
}

/* The value at `at` belongs to the name that ends before `equals`. */
static bool
is_secret_name(const char *text, const char *equals)
{
    const char *start = equals;

    while (start > text && is_name_char(start[-1]))
        start--;
    for (size_t i = 0; i < sizeof(secret_names) / sizeof(secret_names[0]); i++) {
        const size_t size = strlen(secret_names[i]);

        if ((size_t)(equals - start) == size && strncasecmp(start, secret_names[i], size) == 0)
            return true;
    }
    return false;
}

static char *
redact_value(char *at)
{
    size_t size = 0;

    while (!is_end(at[size]) && at[size] != '&' && at[size] != ',' && at[size] != ';')
        size++;
    return mask(at, size);
}

/* A header or an authentication scheme that begins here; NULL for neither. */
static char *
redact_header(char *at)
{
    for (size_t i = 0; i < sizeof(headers) / sizeof(headers[0]); i++) {
        const size_t size = strlen(headers[i]);

        if (strncasecmp(at, headers[i], size) == 0) {
            at += size + strspn(at + size, " ");
            return mask(at, strcspn(at, "\r\n\""));
        }
    }
    for (size_t i = 0; i < sizeof(schemes) / sizeof(schemes[0]); i++) {
        const size_t size = strlen(schemes[i]);
        size_t word = 0;

        if (strncasecmp(at, schemes[i], size) != 0)
            continue;
        while (!is_end(at[size + word]))
            word++;
        /* "basic set-up" is no credential. */
        return word < 16 ? NULL : mask(at + size, word);
    }
    return NULL;
}

/* "user:password@host:4222" without a scheme: NATS takes that too.  `at` is its '@'; returns where
 * to go on, or NULL when it is nothing like it. */
static char *
redact_bare_address(char *text, char *at)
{
    const char *host = at + 1;
    char *start = at;
    bool colon = false;

    while (start > text && !is_end(start[-1]) && strchr(",=/", start[-1]) == NULL) {
        start--;
        colon = colon || *start == ':';
    }
    while (isalnum((unsigned char)*host) || (*host != '\0' && strchr(".-[]", *host) != NULL))
        host++;
    if (!colon || host == at + 1 || host[0] != ':' || !isdigit((unsigned char)host[1]))
        return NULL;
    start = mask(start, (size_t)(at - start));
    return start + 1;
}

void
kvt_redact(char *text)
{
    char *at = text;

    while (*at != '\0') {
        const bool word = at == text || !is_name_char(at[-1]);
        char *next = NULL;

        if (at[0] == ':' && at[1] == '/' && at[2] == '/')
            next = redact_address(at + 3);
        else if (*at == '=' && is_secret_name(text, at))
            next = redact_value(at + 1);
        else if (*at == '@')
            next = redact_bare_address(text, at);
        else if (word && strchr("aAbBpPxX", *at) != NULL)
            next = redact_header(at);
        at = next == NULL ? at + 1 : next;
    }
}

void
kvt_redact_url(char *out, size_t room, const char *url)
{
    char *at = out;

    (void)snprintf(out, room, "%s", url);
    kvt_redact(out);
    for (; at != NULL; at = strchr(at, ',')) {
        at += *at == ',' ? 1 : 0;
        if (strncmp(at + strcspn(at, ":,"), "://", 3) != 0)
            at = redact_address(at);
        if (*at == '\0')
            break;
    }
}
