/*
 * advisor/load_private.h -- what the files load*.c share.
 *
 * Why: reading the log, and guessing how much it comes to, are a page each.
 * Ownership: as advisor/load.h.
 * Threads:   as advisor/load.h.
 * Limits:    as advisor/load.h.
 */
#ifndef ADVISOR_LOAD_PRIVATE_H
#define ADVISOR_LOAD_PRIVATE_H

#include "advisor/memory.h"
#include "advisor/store_log.h"

/** Make room in an empty index for about as many blocks as some rows of the log let expect.  A log
 *  that cannot be read lets expect nothing, and where it were much of the index's memory, room is
 *  made as they come. */
void advisor_load_expect(const struct advisor_memory *memory, const struct advisor_txn *txn,
                         const struct advisor_store_log *state);

#endif /* ADVISOR_LOAD_PRIVATE_H */
