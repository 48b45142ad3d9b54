/*
 * advisor/verify.h -- does the durable index agree with itself?
 *
 * Why: blocks and the same places by holder are two tables that every change writes both; a fault
 * of ours or of a disk shows where they part.
 *
 * Ownership: borrows the store.
 * Threads:   any; read transactions of a page, so it may run beside the advisor.
 * Limits:    problems are told one by one; how many the caller takes is its own affair.
 */
#ifndef ADVISOR_VERIFY_H
#define ADVISOR_VERIFY_H

#include <stdbool.h>
#include <stdint.h>

#include "advisor/store.h"

struct advisor_verify_counts {
    uint64_t blocks;
    uint64_t places;
    uint64_t held;
    uint64_t publishers;
    uint64_t problems;
};

/** One problem, for people; false stops. */
typedef bool advisor_verify_fn(void *arg, const char *text);

/** KVT_OK also when there are problems; else what kept it from looking.  KVT_CANCELLED: `tell` said
 * stop. */
KVT_NODISCARD enum kvt_err advisor_verify(struct advisor_store *store, advisor_verify_fn *tell,
                                          void *arg, struct advisor_verify_counts *counts);

#endif /* ADVISOR_VERIFY_H */
