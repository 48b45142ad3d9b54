#include "base/text/hex.h"

#include <stdint.h>

void
kvt_hex_format(const void *bytes, size_t size, char *text)
{
    static const char digits[] = "0123456789abcdef";
    const uint8_t *at = bytes;

    for (size_t i = 0; i < size; i++) {
        text[2 * i] = digits[at[i] >> 4];
        text[2 * i + 1] = digits[at[i] & 15];
    }
    text[2 * size] = '\0';
}

int
kvt_hex_digit(char digit)
{
    if (digit >= '0' && digit <= '9')
        return digit - '0';
    if (digit >= 'a' && digit <= 'f')
        return digit - 'a' + 10;
    return digit >= 'A' && digit <= 'F' ? digit - 'A' + 10 : -1;
}

bool
kvt_hex_parse(const char *text, size_t size, void *bytes)
{
    uint8_t *at = bytes;

    for (size_t i = 0; i < size; i++) {
        const int high = kvt_hex_digit(text[2 * i]);
        const int low = high < 0 ? -1 : kvt_hex_digit(text[2 * i + 1]);

        if (low < 0)
            return false;
        at[i] = (uint8_t)(high << 4 | low);
    }
    return true;
}
