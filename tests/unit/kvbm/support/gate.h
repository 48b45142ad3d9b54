/*
 * tests/unit/kvbm/support/gate.h -- a storage whose copies wait until the test opens the gate.
 *
 * Why: "in flight" must last as long as a test needs it, without guessing times.
 * Ownership: as kvbm_storage; free it with kvbm_storage_close().
 */
#ifndef TESTS_UNIT_KVBM_SUPPORT_GATE_H
#define TESTS_UNIT_KVBM_SUPPORT_GATE_H

#include <stdbool.h>

#include "kvbm/storage/tier_storage.h"

/** A storage without addresses over host memory.  Starts open. */
struct kvbm_storage *gate_open(uint32_t block_count, size_t block_size);

/** Shut: reads and writes wait at the gate. */
void gate_shut(struct kvbm_storage *storage, bool shut);

/** Wait until somebody stands at the gate. */
void gate_wait_for_visitor(struct kvbm_storage *storage);

/** Reads (and writes) of this block end with `status` from now on. */
void gate_fail(struct kvbm_storage *storage, uint32_t block, enum kvt_err status, bool writes);

#endif /* TESTS_UNIT_KVBM_SUPPORT_GATE_H */
