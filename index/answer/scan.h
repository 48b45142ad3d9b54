/*
 * index/answer/scan.h -- one run as it is given to others, for index/ alone.
 *
 * Why: a snapshot and an eviction say the same of a run.
 * Ownership: as index/index.h.
 * Threads:   under the index's lock.
 * Limits:    as index/index.h.
 */
#ifndef INDEX_ANSWER_SCAN_H
#define INDEX_ANSWER_SCAN_H

#include "index/index.h"

/** Give the run that begins at `first`; returns its blocks, and the pieces of its holders; 0: no
 *  memory, nothing was given. */
size_t index_scan_give(struct index_scan *runs, uint32_t first, index_scan_fn *callback, void *arg);

#endif /* INDEX_ANSWER_SCAN_H */
