#include "base/core/escape.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* Bytes of the UTF-8 character at `at` (RFC 3629: shortest form, no surrogates), 0 when it is none.
 * The text's final NUL is no continuation byte, so this never reads past it. */
static size_t
utf8_size(const unsigned char *at)
{
    unsigned char least = 0x80;
    unsigned char most = 0xbf;
    size_t more;

    if (at[0] < 0x80)
        return 1;
    if (at[0] >= 0xc2 && at[0] <= 0xdf) {
        more = 1;
    } else if (at[0] >= 0xe0 && at[0] <= 0xef) {
        more = 2;
        least = at[0] == 0xe0 ? 0xa0 : least;
        most = at[0] == 0xed ? 0x9f : most;
    } else if (at[0] >= 0xf0 && at[0] <= 0xf4) {
        more = 3;
        least = at[0] == 0xf0 ? 0x90 : least;
        most = at[0] == 0xf4 ? 0x8f : most;
    } else {
        return 0;
    }
    if (at[1] < least || at[1] > most)
        return 0;
    for (size_t i = 2; i <= more; i++)
        if ((at[i] & 0xc0) != 0x80)
            return 0;
    return more + 1;
}

size_t
kvt_escape_json(char *out, size_t room, const char *text)
{
    const unsigned char *at = (const unsigned char *)text;
    size_t size = 0;

    while (*at != '\0') {
        char unit[KVT_ESCAPE_GROWTH + 1];
        const size_t taken = utf8_size(at);
        size_t made;

        switch (*at) {
        case '"': made = (size_t)snprintf(unit, sizeof(unit), "\\\""); break;
        case '\\': made = (size_t)snprintf(unit, sizeof(unit), "\\\\"); break;
        case '\n': made = (size_t)snprintf(unit, sizeof(unit), "\\n"); break;
        case '\r': made = (size_t)snprintf(unit, sizeof(unit), "\\r"); break;
        case '\t': made = (size_t)snprintf(unit, sizeof(unit), "\\t"); break;
        default:
            if (taken == 0) {
                made = (size_t)snprintf(unit, sizeof(unit), "\xef\xbf\xbd");
            } else if (*at < 0x20 || *at == 0x7f) {
                made = (size_t)snprintf(unit, sizeof(unit), "\\u%04x", *at);
            } else {
                memcpy(unit, at, taken);
                made = taken;
            }
        }
        if (made > room - size)
            break;
        memcpy(out + size, unit, made);
        size += made;
        at += taken == 0 ? 1 : taken;
    }
    return size;
}
