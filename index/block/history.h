/*
 * index/block/history.h -- the newest changes of an index.
 *
 * Why: "what happened to this block" is answered from a ring of the newest changes.
 *
 * Ownership: the index.
 * Threads:   under the index's lock.
 * Limits:    INDEX_HISTORY_CHANGES changes, and a sixteenth of the index's memory.
 */
#ifndef INDEX_BLOCK_HISTORY_H
#define INDEX_BLOCK_HISTORY_H

#include "index/block/state.h"

#define INDEX_HISTORY_NOT UINT32_MAX /* the time of what is not noted */

void index_history_note(struct index *index, uint32_t ns, uint32_t holder,
                        enum index_change_kind kind, uint32_t first_number, uint32_t count,
                        uint32_t time_s);
/** The namespace's number goes to another: nothing is told of its changes any more. */
void index_history_forget(struct index *index, uint32_t ns);
void index_history_release(struct index *index);

#endif /* INDEX_BLOCK_HISTORY_H */
