/*
 * tests/fuzz/target.h -- the one function a fuzz target has; libFuzzer gives it its name.
 *
 * Why: a target says which property must hold for any input; who makes the inputs is another's
 * affair.
 * Ownership: the input lives for the call.
 * Threads:   one.
 */
#ifndef TESTS_FUZZ_TARGET_H
#define TESTS_FUZZ_TARGET_H

#include <stddef.h>
#include <stdint.h>

/** Always 0; a broken property ends the program. */
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

#endif /* TESTS_FUZZ_TARGET_H */
