/*
 * advisor/index/byte_sums.h -- bytes by namespace and place.
 *
 * Why: a quota is about what a tenant has in a tier, and no report says that.  Rows change by some
 * blocks at a time, so the sums are kept up with each group instead of being counted again.
 *
 * Ownership: advisor_byte_sums_new() makes it, advisor_byte_sums_free() ends it.
 * Threads:   none; one owner.
 * Limits:    a row for each namespace and place that ever had bytes: INDEX_NAMESPACES_MAX times the
 *            places of whoever keeps it, of 24 bytes.
 */
#ifndef ADVISOR_INDEX_BYTE_SUMS_H
#define ADVISOR_INDEX_BYTE_SUMS_H

#include <stddef.h>
#include <stdint.h>

#include "kvtier/error.h"

struct advisor_byte_sums;

struct advisor_byte_sums_row {
    uint32_t ns;
    uint32_t place; /* a holder, or a tier of the planner's */
    int64_t bytes;
};

KVT_NODISCARD enum kvt_err advisor_byte_sums_new(struct advisor_byte_sums **out);
/** NULL is allowed. */
void advisor_byte_sums_free(struct advisor_byte_sums *ledger);
/** No rows are left. */
void advisor_byte_sums_clear(struct advisor_byte_sums *ledger);

/** Add to a row, made on first use; `at` is its number, which stays until it is cleared.  KVT_OK or
 *  KVT_NOMEM (unchanged). */
KVT_NODISCARD enum kvt_err advisor_byte_sums_add(struct advisor_byte_sums *ledger, uint32_t ns,
                                                 uint32_t place, int64_t bytes, size_t *at);

/** Valid until the next call of advisor_byte_sums_add(). */
const struct advisor_byte_sums_row *advisor_byte_sums_rows(const struct advisor_byte_sums *ledger,
                                                           size_t *count);

#endif /* ADVISOR_INDEX_BYTE_SUMS_H */
