/*
 * tests/support/long_text.h -- texts made to take a reader long.
 *
 * Why: a reader whose time grows faster than its input holds a daemon; each format has its ways.
 */
#ifndef TESTS_SUPPORT_LONG_TEXT_H
#define TESTS_SUPPORT_LONG_TEXT_H

#include <stddef.h>
#include <stdint.h>

/** `head`, then `line` as often as it fits into `room` bytes; a "#" in it becomes a number.  NUL
 *  behind.  Returns the size. */
size_t test_long_text(char *text, size_t room, const char *head, const char *line);

/** Milliseconds of this thread, so that a busy machine does not count. */
uint64_t test_cpu_ms(void);

#endif /* TESTS_SUPPORT_LONG_TEXT_H */
