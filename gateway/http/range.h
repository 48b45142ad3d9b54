/*
 * gateway/http/range.h -- which bytes of an object are asked for.
 *
 * Why: HTTP ignores a range it does not understand, and S3's copies refuse it; what a range is must
 * be the same for both.
 * Threads:   any; no shared state.
 * Limits:    one range, of numbers of at most 23 digits.
 */
#ifndef GATEWAY_HTTP_RANGE_H
#define GATEWAY_HTTP_RANGE_H

#include <stdint.h>

enum gateway_range {
    GATEWAY_RANGE_NONE,    /* no range, or several: all of it is meant */
    GATEWAY_RANGE_PART,    /* the bytes from..to, both included, of those there are */
    GATEWAY_RANGE_OUTSIDE, /* none of those there are */
};

/** What "bytes=a-b", "bytes=a-" or "bytes=-n" is of `length` bytes; else both are 0. */
enum gateway_range gateway_range_parse(const char *text, uint64_t length, uint64_t *from,
                                       uint64_t *to);

/** The same of "bytes=a-b" alone, all of whose bytes must be there. */
enum gateway_range gateway_range_exact(const char *text, uint64_t length, uint64_t *from,
                                       uint64_t *to);

#endif /* GATEWAY_HTTP_RANGE_H */
