/*
 * tests/support/faulty_store.h -- a store that misbehaves on purpose, stacked on a real one.
 *
 * Why: tests fail the Nth call, delay it, cut its body short, flip a bit in it, or do the work and
 * lose the answer; the code above must never notice anything but an honest error.
 *
 * Ownership: takes over the inner store when opening succeeds, and closes it.
 * Threads:   any; faults are set under a leaf lock.
 * Limits:    one rule per verb at a time.
 */
#ifndef TESTS_SUPPORT_FAULTY_STORE_H
#define TESTS_SUPPORT_FAULTY_STORE_H

#include <stdint.h>

#include "g4/object/g4_store.h"

enum g4_fault {
    G4_FAULT_NONE,
    G4_FAULT_FAIL,     /* answer `status` without doing anything */
    G4_FAULT_LOSE,     /* do it, then answer `status` */
    G4_FAULT_DELAY,    /* wait `delay_ms`, then do it */
    G4_FAULT_TRUNCATE, /* GET: half the body, as if complete */
    G4_FAULT_FLIP,     /* GET: one bit of the body */
};

struct g4_fault_rule {
    enum g4_verb verb;
    enum g4_fault fault;
    uint64_t after; /* let this many calls of the verb pass first */
    uint64_t count; /* then hit this many */
    enum kvt_err status;
    uint64_t delay_ms;
};

KVT_NODISCARD enum kvt_err test_faulty_store_open(struct g4_store **out, struct g4_store *inner);
void test_faulty_store_set(struct g4_store *store, const struct g4_fault_rule *rule);
/** Calls of `verb` seen, and how many of them were hit. */
void test_faulty_store_count(struct g4_store *store, enum g4_verb verb, uint64_t *seen,
                             uint64_t *hit);

#endif /* TESTS_SUPPORT_FAULTY_STORE_H */
