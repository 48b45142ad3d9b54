/*
 * tests/support/certificate.h -- certificates that vouch for themselves, made on the spot.
 *
 * Why: a certificate in a file ends one day, and the test with it.
 * Ownership: the caller's buffers.
 * Limits:    texts of TEST_CERTIFICATE_MAX bytes.
 */
#ifndef TESTS_SUPPORT_CERTIFICATE_H
#define TESTS_SUPPORT_CERTIFICATE_H

#include <stdint.h>

#define TEST_CERTIFICATE_MAX 4096

struct test_certificate {
    char text[TEST_CERTIFICATE_MAX]; /* PEM */
    char key[TEST_CERTIFICATE_MAX];  /* PEM */
};

/** One for "localhost" with `name` as its common name, valid between these (ms since 1970);
 *  asserts. */
void test_certificate_make(struct test_certificate *certificate, const char *name, uint64_t from_ms,
                           uint64_t to_ms);

#endif /* TESTS_SUPPORT_CERTIFICATE_H */
