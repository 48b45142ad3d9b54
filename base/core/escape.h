/*
 * base/core/escape.h -- text as the inside of a JSON string.
 *
 * Why: log lines, JSON answers and error bodies carry text that came from outside.
 * Limits:    one input byte becomes at most KVT_ESCAPE_GROWTH output bytes.
 */
#ifndef BASE_CORE_ESCAPE_H
#define BASE_CORE_ESCAPE_H

#include <stddef.h>

#define KVT_ESCAPE_GROWTH 6

/**
 * Write `text` escaped into `out`, without quotes and without a final NUL.  Stops before the first
 * character that does not fit whole; bytes that are no UTF-8 become U+FFFD.
 *
 * @return bytes written
 */
size_t kvt_escape_json(char *out, size_t room, const char *text);

#endif /* BASE_CORE_ESCAPE_H */
