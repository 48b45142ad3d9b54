/*
 * tests/support/silent.h -- a server that takes connections and never says a word.
 *
 * Why: "it does not answer" must be as sure as "it is not there".
 * Ownership: the caller closes what open returns.
 * Threads:   any; there is none behind it.
 * Limits:    a few connections.
 */
#ifndef TESTS_SUPPORT_SILENT_H
#define TESTS_SUPPORT_SILENT_H

enum { TEST_SILENT_URL = 64 };

/** A socket that listens and is never accepted from; `url` is where. */
int test_silent_open(char url[TEST_SILENT_URL]);

#endif /* TESTS_SUPPORT_SILENT_H */
