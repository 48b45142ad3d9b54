#include "kvtier/block.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kvtier/error.h"

const char *
kvt_tier_name(enum kvt_tier tier)
{
    switch (tier) {
    case KVT_TIER_G1: return "G1";
    case KVT_TIER_G2: return "G2";
    case KVT_TIER_G3: return "G3";
    case KVT_TIER_G4: return "G4";
    }
    return "G?";
}

bool
kvt_tier_parse(const char *text, enum kvt_tier *tier)
{
    *tier = KVT_TIER_G2;
    if ((text[0] != 'G' && text[0] != 'g') || text[1] < '1' || text[1] > '4' || text[2] != '\0')
        return false;
    *tier = (enum kvt_tier)(text[1] - '0');
    return true;
}

void
kvt_hash_format(uint64_t hash, char text[KVT_HASH_TEXT_MAX])
{
    (void)snprintf(text, KVT_HASH_TEXT_MAX, "%016" PRIx64, hash);
}

bool
kvt_hash_parse(const char *text, uint64_t *hash)
{
    const size_t size = strlen(text);
    const char *digits = text;
    unsigned long long value;
    char *end;
    int base = 10;

    *hash = 0;
    if (text[0] == '0' && (text[1] == 'x' || text[1] == 'X')) {
        digits = text + 2;
        base = 16;
    } else if (size == KVT_HASH_TEXT_MAX - 1) {
        base = 16; /* sixteen digits are always hex: what kvt_hash_format() wrote must come back */
    }
    /* strtoull() takes blanks, signs and a second "0x"; a hash has none. */
    if (strspn(digits, base == 16 ? "0123456789abcdefABCDEF" : "0123456789") != strlen(digits) ||
        digits[0] == '\0')
        return false;
    errno = 0;
    value = strtoull(digits, &end, base);
    if (errno != 0 || *end != '\0')
        return false;
    *hash = value;
    return true;
}
