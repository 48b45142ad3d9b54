/*
 * advisor/index/index_load_private.h -- what the files load*.c share.
 *
 * Why: reading the log, and guessing how much it comes to, are a page each.
 */
#ifndef ADVISOR_INDEX_INDEX_LOAD_PRIVATE_H
#define ADVISOR_INDEX_INDEX_LOAD_PRIVATE_H

#include "advisor/index/ram_index.h"
#include "advisor/store/event_log_table.h"

/** Make room in an empty index for about as many blocks as some rows of the log let expect.  A log
 *  that cannot be read lets expect nothing, and where it were much of the index's memory, room is
 *  made as they come. */
void advisor_index_load_expect(const struct advisor_ram_index *memory,
                               const struct advisor_txn *txn,
                               const struct advisor_store_log *state);

#endif /* ADVISOR_INDEX_INDEX_LOAD_PRIVATE_H */
