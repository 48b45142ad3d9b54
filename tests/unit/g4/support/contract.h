/*
 * tests/unit/g4/support/contract.h -- what every store promises, asked of any of them.
 *
 * Why: who uses a store must not need to know which one it is.
 * Ownership: borrows the store; what is put under `prefix` stays there.
 * Threads:   the test's.
 * Limits:    as helpers.h.
 */
#ifndef TESTS_UNIT_G4_SUPPORT_CONTRACT_H
#define TESTS_UNIT_G4_SUPPORT_CONTRACT_H

#include "g4/object/g4_store.h"

/** Attributes come back as they were put, an empty value too, and only to who asks. */
void test_contract_attributes(struct g4_store *store, const char *prefix);

/** Bodies of no bytes are bodies; objects that others put have no metadata. */
void test_contract_empty_and_foreign(struct g4_store *store, const char *prefix);

/** PUTs heed their conditions, and a refused one leaves what is there. */
void test_contract_conditions(struct g4_store *store, const char *prefix);

/** A body that has no room is refused, told its size, and given once it has. */
void test_contract_room(struct g4_store *store, const char *prefix);

/** Parts come with their bytes, end where the object does, and keep to a version when asked to. */
void test_contract_parts(struct g4_store *store, const char *prefix);

#endif /* TESTS_UNIT_G4_SUPPORT_CONTRACT_H */
