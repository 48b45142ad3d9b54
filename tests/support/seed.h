/*
 * tests/support/seed.h -- randomness that can be replayed, temporary folders, and the allocation
 * sweep.
 *
 * Why: a random test that fails must fail again: KVT_SEED=<number> in the environment repeats a
 * run.
 * Ownership: see each call.
 * Threads:   call from the test's main thread.
 */
#ifndef TESTS_SUPPORT_SEED_H
#define TESTS_SUPPORT_SEED_H

/* cmocka.h needs the four before it; sorted by name it would come first. */
/* clang-format off */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
/* clang-format on */

/* Random runs of one thread alone, and those that try each case, make so many times fewer steps
 * where races are looked for: there are none to be found in them, and each step takes ten times as
 * long. */
#ifdef __SANITIZE_THREAD__
#define TEST_ALONE_SHARE 3
#else
#define TEST_ALONE_SHARE 1
#endif

/* The longest of those make a half where AddressSanitizer looks, and a sixth where races are looked
 * for: another one each time, where they try each case.  The release build makes all. */
#if defined(__SANITIZE_THREAD__)
#define TEST_LONG_SHARE 6
#elif defined(__SANITIZE_ADDRESS__)
#define TEST_LONG_SHARE 2
#else
#define TEST_LONG_SHARE 1
#endif

/** The seed of this run: KVT_SEED, or a fresh one.  Printed on stderr the first time. */
uint64_t test_seed(void);

/** A new empty folder under the temporary directory; test_folder_remove() takes it away again. */
const char *test_folder_make(char *path, size_t size);
void test_folder_remove(const char *path);

/**
 * Fail the first, second, third ... allocation of `attempt` until it returns true.  `attempt` must
 * have released everything it made when it returns; live allocations are compared around each call.
 *
 * @return how many allocations were made to fail
 */
size_t test_sweep_allocations(bool (*attempt)(void *arg), void *arg);

#endif /* TESTS_SUPPORT_SEED_H */
