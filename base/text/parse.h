/*
 * base/text/parse.h -- numbers as people write them.
 *
 * Why: settings, policies and command lines accept the same spellings and refuse the same mistakes.
 * Limits:    at most KVT_PARSE_FRACTION_MAX digits after the point; what rounds is cut, not
 * rounded.
 */
#ifndef BASE_TEXT_PARSE_H
#define BASE_TEXT_PARSE_H

#include <stddef.h>
#include <stdint.h>

#include "kvtier/error.h"

#define KVT_PARSE_FRACTION_MAX 9
#define KVT_SUGGEST_WORD_MAX   64 /* longer words are never near */

/* All of them: KVT_OK, KVT_INVALID (no such number) or KVT_RANGE (does not fit); the result is 0 on
 * failure. */

/** "1536", "1.5 KiB", "2GB": B KiB MiB GiB TiB KB MB GB TB, any case. */
KVT_NODISCARD enum kvt_err kvt_parse_size(const char *text, uint64_t *bytes);

/** "1500" (milliseconds), "1.5s": ms s m h d. */
KVT_NODISCARD enum kvt_err kvt_parse_duration(const char *text, uint64_t *ms);

/** "85%" or "0.85", in parts per million. */
KVT_NODISCARD enum kvt_err kvt_parse_ratio(const char *text, uint32_t *ppm);

/** "0.0004", in billionths. */
KVT_NODISCARD enum kvt_err kvt_parse_nano(const char *text, uint64_t *nano);

/** Decimal digits only. */
KVT_NODISCARD enum kvt_err kvt_parse_u64(const char *text, uint64_t *value);

#define KVT_SIZE_TEXT_MAX 24

/** "1.50 GiB" and the like, for people. */
void kvt_size_format(uint64_t bytes, char text[KVT_SIZE_TEXT_MAX]);

/** The nearest of `count` words to `word`, or NULL when none is near (for "did you mean"). */
const char *kvt_suggest(const char *word, const char *const *words, size_t count);

#endif /* BASE_TEXT_PARSE_H */
