/*
 * base/text/hex.h -- bytes as hexadecimal digits, and back.
 *
 * Why: hashes, signatures, secrets and escapes are written so, and read so.
 * Limits:    none of its own.
 */
#ifndef BASE_TEXT_HEX_H
#define BASE_TEXT_HEX_H

#include <stdbool.h>
#include <stddef.h>

/** `size` bytes as 2 * size lower-case digits and a NUL. */
void kvt_hex_format(const void *bytes, size_t size, char *text);

/** What a digit of either case stands for, or -1. */
int kvt_hex_digit(char digit);

/** The `size` bytes that 2 * size digits stand for; false: one of them is none. */
bool kvt_hex_parse(const char *text, size_t size, void *bytes);

#endif /* BASE_TEXT_HEX_H */
