#include "base/text/parse.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

enum { NANO = 1000000000 };

struct unit {
    const char *name;
    uint64_t factor;
};

struct decimal {
    uint64_t whole;
    uint64_t nano; /* the fraction, in billionths */
};

/* Digits with an optional point; `end` is what follows. */
static enum kvt_err
parse_decimal(const char *text, struct decimal *number, const char **end)
{
    uint64_t scale = NANO;

    *number = (struct decimal){0};
    *end = text;
    if (!isdigit((unsigned char)*text))
        return KVT_INVALID;
    for (; isdigit((unsigned char)*text); text++)
        if (__builtin_mul_overflow(number->whole, 10, &number->whole) ||
            __builtin_add_overflow(number->whole, (uint64_t)(*text - '0'), &number->whole))
            return KVT_RANGE;
    if (*text == '.') {
        text++;
        if (!isdigit((unsigned char)*text))
            return KVT_INVALID;
        for (; isdigit((unsigned char)*text); text++) {
            scale /= 10;
            if (scale == 0)
                return KVT_INVALID;
            number->nano += (uint64_t)(*text - '0') * scale;
        }
    }
    *end = text;
    return KVT_OK;
}

static enum kvt_err
scale_decimal(const struct decimal *number, uint64_t factor, uint64_t *value)
{
    /* 128 bits hold any fraction of any factor; only the sum can be too large. */
    const unsigned __int128 scaled =
        (unsigned __int128)number->whole * factor + (unsigned __int128)number->nano * factor / NANO;

    if (scaled > UINT64_MAX)
        return KVT_RANGE;
    *value = (uint64_t)scaled;
    return KVT_OK;
}

static enum kvt_err
parse_with_unit(const char *text, const struct unit *units, size_t count, uint64_t *value)
{
    struct decimal number;
    const char *rest;
    enum kvt_err rc;

    *value = 0;
    rc = parse_decimal(text, &number, &rest);
    if (rc != KVT_OK)
        return rc;
    while (*rest == ' ')
        rest++;
    for (size_t i = 0; i < count; i++)
        if (strcasecmp(rest, units[i].name) == 0)
            return scale_decimal(&number, units[i].factor, value);
    return KVT_INVALID;
}

enum kvt_err
kvt_parse_size(const char *text, uint64_t *bytes)
{
    static const struct unit units[] = {
        {"", 1},
        {"B", 1},
        {"KiB", 1ull << 10},
        {"MiB", 1ull << 20},
        {"GiB", 1ull << 30},
        {"TiB", 1ull << 40},
        {"KB", 1000},
        {"MB", 1000000},
        {"GB", 1000000000},
        {"TB", 1000000000000},
    };

    return parse_with_unit(text, units, sizeof(units) / sizeof(units[0]), bytes);
}

enum kvt_err
kvt_parse_duration(const char *text, uint64_t *ms)
{
    static const struct unit units[] = {
        {"", 1}, {"ms", 1}, {"s", 1000}, {"m", 60000}, {"h", 3600000}, {"d", 86400000},
    };

    return parse_with_unit(text, units, sizeof(units) / sizeof(units[0]), ms);
}

enum kvt_err
kvt_parse_ratio(const char *text, uint32_t *ppm)
{
    static const struct unit units[] = {{"", 1000000}, {"%", 10000}};
    enum kvt_err rc;
    uint64_t value;

    *ppm = 0;
    rc = parse_with_unit(text, units, sizeof(units) / sizeof(units[0]), &value);
    if (rc != KVT_OK)
        return rc;
    if (value > UINT32_MAX)
        return KVT_RANGE;
    *ppm = (uint32_t)value;
    return KVT_OK;
}

enum kvt_err
kvt_parse_nano(const char *text, uint64_t *nano)
{
    static const struct unit units[] = {{"", NANO}};

    return parse_with_unit(text, units, sizeof(units) / sizeof(units[0]), nano);
}

enum kvt_err
kvt_parse_u64(const char *text, uint64_t *value)
{
    struct decimal number;
    const char *rest;
    enum kvt_err rc;

    *value = 0;
    if (strchr(text, '.') != NULL)
        return KVT_INVALID;
    rc = parse_decimal(text, &number, &rest);
    if (rc != KVT_OK)
        return rc;
    if (*rest != '\0')
        return KVT_INVALID;
    *value = number.whole;
    return KVT_OK;
}

void
kvt_size_format(uint64_t bytes, char text[KVT_SIZE_TEXT_MAX])
{
    static const char *const names[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    double scaled = (double)bytes;
    size_t unit = 0;

    if (bytes < 1024) {
        (void)snprintf(text, KVT_SIZE_TEXT_MAX, "%" PRIu64 " B", bytes);
        return;
    }
    /* 1023.995 and not 1024: what would print as "1024.00" belongs to the next unit. */
    for (scaled /= 1024; scaled >= 1023.995 && unit + 1 < sizeof(names) / sizeof(names[0]); unit++)
        scaled /= 1024;
    (void)snprintf(text, KVT_SIZE_TEXT_MAX, "%.2f %s", scaled, names[unit]);
}

static size_t
least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Edit distance with swaps of neighbours (optimal string alignment); both at most the limit long.
 */
static size_t
distance(const char *a, size_t a_size, const char *b, size_t b_size)
{
    size_t rows[3][KVT_SUGGEST_WORD_MAX + 1];
    size_t *before = rows[0];
    size_t *last = rows[1];
    size_t *row = rows[2];

    for (size_t j = 0; j <= b_size; j++)
        last[j] = j;
    for (size_t i = 1; i <= a_size; i++) {
        size_t *spare = before;

        row[0] = i;
        for (size_t j = 1; j <= b_size; j++) {
            const int left = tolower((unsigned char)a[i - 1]);
            const int right = tolower((unsigned char)b[j - 1]);

            row[j] = least(last[j] + 1, row[j - 1] + 1);
            row[j] = least(row[j], last[j - 1] + (left == right ? 0 : 1));
            if (i > 1 && j > 1 && left == tolower((unsigned char)b[j - 2]) &&
                tolower((unsigned char)a[i - 2]) == right)
                row[j] = least(row[j], before[j - 2] + 1);
        }
        before = last;
        last = row;
        row = spare;
    }
    return last[b_size];
}

const char *
kvt_suggest(const char *word, const char *const *words, size_t count)
{
    const size_t size = strlen(word);
    const char *best = NULL;
    size_t best_distance;

    if (size == 0 || size > KVT_SUGGEST_WORD_MAX)
        return NULL;
    best_distance = size / 3 + 2; /* one slip in a short word, more in a long one */
    for (size_t i = 0; i < count; i++) {
        const size_t other_size = strlen(words[i]);
        size_t far;

        if (other_size > KVT_SUGGEST_WORD_MAX)
            continue;
        far = distance(word, size, words[i], other_size);
        /* Two words with nothing in common are not near, however short they are. */
        if (far < best_distance && far < size && far < other_size) {
            best_distance = far;
            best = words[i];
        }
    }
    return best;
}
