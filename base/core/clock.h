/*
 * base/core/clock.h -- time.
 *
 * Why: one place says which clock a number came from.  Durations and deadlines use the monotonic
 * clock; what leaves the process uses Unix time.
 */
#ifndef BASE_CORE_CLOCK_H
#define BASE_CORE_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

/** Monotonic nanoseconds since some fixed point of this boot. */
uint64_t kvt_clock_mono_ns(void);

/** Monotonic milliseconds. */
uint64_t kvt_clock_mono_ms(void);

/** Unix milliseconds. */
uint64_t kvt_clock_unix_ms(void);
/** The same, up to some milliseconds behind, for what is asked a million times a second. */
uint64_t kvt_clock_unix_coarse_ms(void);

/** Sleep; may return early on a signal. */
void kvt_clock_sleep_ms(uint64_t wait_ms);

#define KVT_CLOCK_TEXT_MAX 32

/** "2026-01-31T23:59:59.123Z". */
void kvt_clock_format(uint64_t unix_ms, char text[KVT_CLOCK_TEXT_MAX]);

/** RFC 3339, "2026-01-31T23:59:59.123Z" or with "+02:00", from 1970 on; what is finer than a
 *  millisecond is dropped.  False for anything else, and 0. */
bool kvt_clock_parse(const char *text, uint64_t *unix_ms);

#define KVT_CLOCK_BASIC_MAX 17

/** "20260131T235959Z", as S3's signatures have it. */
void kvt_clock_format_basic(uint64_t unix_ms, char text[KVT_CLOCK_BASIC_MAX]);

/** And back.  False for anything else, and 0. */
bool kvt_clock_parse_basic(const char *text, uint64_t *unix_ms);

#define KVT_CLOCK_HTTP_MAX 30

/** "Sat, 31 Jan 2026 23:59:59 GMT", as HTTP's headers have it. */
void kvt_clock_format_http(uint64_t unix_ms, char text[KVT_CLOCK_HTTP_MAX]);

/** And back, whatever the day of the week.  False for anything else, and 0. */
bool kvt_clock_parse_http(const char *text, uint64_t *unix_ms);

#endif /* BASE_CORE_CLOCK_H */
