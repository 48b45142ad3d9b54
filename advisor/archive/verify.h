/*
 * advisor/archive/verify.h -- does the durable index agree with itself?
 *
 * Why: blocks in G4 and the same places by holder are two tables that every change writes both, and
 * the log of workers' places is bytes with checksums; a fault of ours or of a disk shows where they
 * part.
 *
 * Ownership: borrows the store.
 * Threads:   any, also beside the advisor: read transactions of a page of rows, and one for all of
 *            the log.
 * Limits:    problems are told one by one; how many the caller takes is its own affair.
 */
#ifndef ADVISOR_ARCHIVE_VERIFY_H
#define ADVISOR_ARCHIVE_VERIFY_H

#include <stdbool.h>
#include <stdint.h>

#include "advisor/store/durable_store.h"

struct advisor_verify_counts {
    uint64_t blocks; /* in G4 */
    uint64_t places; /* of them */
    uint64_t held;
    uint64_t log_rows;
    uint64_t changes; /* blocks named in them, and drops */
    uint64_t evicted; /* blocks */
    uint64_t publishers;
    uint64_t problems;
};

/** One problem, for people; false stops. */
typedef bool advisor_verify_fn(void *arg, const char *text);

/** KVT_OK also when there are problems; else what kept it from looking.  KVT_CANCELLED: `tell` said
 * stop. */
KVT_NODISCARD enum kvt_err advisor_verify(struct advisor_store *store, advisor_verify_fn *tell,
                                          void *arg, struct advisor_verify_counts *counts);

#endif /* ADVISOR_ARCHIVE_VERIFY_H */
