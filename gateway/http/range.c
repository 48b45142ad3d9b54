#include "gateway/http/range.h"

#include <stdbool.h>
#include <string.h>

#include "base/text/parse.h"

#define UNIT "bytes="

enum { NUMBER_MAX = 24 };

/* The two sides of the hyphen, "" for one that is open. */
struct sides {
    char first[NUMBER_MAX];
    char last[NUMBER_MAX];
};

static bool
split(const char *text, struct sides *sides)
{
    const char *hyphen;
    size_t size;

    if (strncmp(text, UNIT, strlen(UNIT)) != 0)
        return false;
    text += strlen(UNIT);
    hyphen = strchr(text, '-');
    if (hyphen == NULL)
        return false;
    size = (size_t)(hyphen - text);
    if (size >= sizeof(sides->first) || strlen(hyphen + 1) >= sizeof(sides->last))
        return false;
    memcpy(sides->first, text, size);
    sides->first[size] = '\0';
    memcpy(sides->last, hyphen + 1, strlen(hyphen + 1) + 1);
    return true;
}

/* Larger than any object is as good as the largest. */
static bool
number(const char *text, uint64_t *value)
{
    const enum kvt_err rc = kvt_parse_u64(text, value);

    if (rc == KVT_RANGE)
        *value = UINT64_MAX;
    return rc == KVT_OK || rc == KVT_RANGE;
}

/* The last `count` bytes, or as many as there are. */
static enum gateway_range
tail(uint64_t count, uint64_t length, uint64_t *from, uint64_t *to)
{
    if (count == 0 || length == 0)
        return GATEWAY_RANGE_OUTSIDE;
    *from = count < length ? length - count : 0;
    *to = length - 1;
    return GATEWAY_RANGE_PART;
}

enum gateway_range
gateway_range_parse(const char *text, uint64_t length, uint64_t *from, uint64_t *to)
{
    uint64_t first = 0;
    uint64_t last = UINT64_MAX;
    struct sides sides;

    *from = *to = 0;
    if (!split(text, &sides) || (sides.first[0] == '\0' && sides.last[0] == '\0') ||
        (sides.first[0] != '\0' && !number(sides.first, &first)) ||
        (sides.last[0] != '\0' && !number(sides.last, &last)))
        return GATEWAY_RANGE_NONE;
    if (sides.first[0] == '\0')
        return tail(last, length, from, to);
    if (last < first)
        return GATEWAY_RANGE_NONE;
    if (first >= length)
        return GATEWAY_RANGE_OUTSIDE;
    *from = first;
    *to = last < length ? last : length - 1;
    return GATEWAY_RANGE_PART;
}

enum gateway_range
gateway_range_exact(const char *text, uint64_t length, uint64_t *from, uint64_t *to)
{
    struct sides sides;
    uint64_t last;
    enum gateway_range range;

    *from = *to = 0;
    if (!split(text, &sides) || sides.first[0] == '\0' || !number(sides.last, &last))
        return GATEWAY_RANGE_NONE;
    range = gateway_range_parse(text, length, from, to);
    if (range != GATEWAY_RANGE_PART || *to == last)
        return range;
    *from = *to = 0;
    return GATEWAY_RANGE_OUTSIDE;
}
