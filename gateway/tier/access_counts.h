/*
 * gateway/tier/access_counts.h -- who was read since the last report.
 *
 * Why: the policy needs to know which blocks are used and from where; one row per block and tier,
 * so a block read a thousand times costs one row.
 * Ownership: the table owns its rows; take copies out.
 * Threads:   any; one leaf lock.
 * Limits:    GATEWAY_ACCESS_COUNTS_ROWS between two reports; what does not fit is dropped and
 *            counted.
 */
#ifndef GATEWAY_TIER_ACCESS_COUNTS_H
#define GATEWAY_TIER_ACCESS_COUNTS_H

#include <stddef.h>
#include <stdint.h>

#include "kvtier/block.h"
#include "kvtier/error.h"
#include "kvtier/report.h"

#define GATEWAY_ACCESS_COUNTS_ROWS       KVT_REPORT_ACCESSES_MAX
#define GATEWAY_ACCESS_COUNTS_NAMESPACES 16

struct gateway_access_counts;

KVT_NODISCARD enum kvt_err gateway_access_counts_new(struct gateway_access_counts **out);
void gateway_access_counts_free(struct gateway_access_counts *access);

/** Count one read.  False: no room, not counted.  `tier`: enum gateway_tier. */
bool gateway_access_counts_add(struct gateway_access_counts *access, const char *namespace_,
                               uint64_t hash, unsigned tier, uint64_t bytes);

/** Take the rows of one namespace out.  Returns their number, 0 when the table is empty. */
size_t gateway_access_counts_take(struct gateway_access_counts *access,
                                  char namespace_[KVT_NAMESPACE_MAX],
                                  struct kvt_report_access *rows, size_t capacity);

#endif /* GATEWAY_TIER_ACCESS_COUNTS_H */
