/*
 * advisor/archive/verify_private.h -- what the files verify*.c share.
 *
 * Why: rows of blocks and the log are each a page of their own.
 * Ownership: as advisor/archive/verify.h.
 * Threads:   as advisor/archive/verify.h.
 * Limits:    as advisor/archive/verify.h.
 */
#ifndef ADVISOR_ARCHIVE_VERIFY_PRIVATE_H
#define ADVISOR_ARCHIVE_VERIFY_PRIVATE_H

#include "advisor/archive/verify.h"

struct advisor_verify {
    const struct advisor_txn *txn;
    struct advisor_verify_counts *counts;
    advisor_verify_fn *tell;
    void *arg;
    uint64_t publisher_next;
    uint8_t *tiers;      /* of holders, by number */
    uint32_t holders;    /* numbers below it exist */
    uint32_t namespaces; /* */
};

/** A problem.  KVT_CANCELLED: stop. */
KVT_NODISCARD enum kvt_err advisor_verify_tell(const struct advisor_verify *verify,
                                               const char *format, ...) KVT_PRINTF(2, 3);

/** Has a namespace this number? */
bool advisor_verify_namespace(const struct advisor_verify *verify, uint32_t number);
/** The tier of a holder; 0: none has this number. */
enum kvt_tier advisor_verify_tier(const struct advisor_verify *verify, uint32_t number);

/** The log, and what was evicted: verify_log.c. */
KVT_NODISCARD enum kvt_err advisor_verify_log(struct advisor_verify *verify,
                                              struct advisor_store *store);

/** Versions of the policy: verify_policies.c. */
KVT_NODISCARD enum kvt_err advisor_verify_policies(struct advisor_verify *verify,
                                                   struct advisor_store *store);

#endif /* ADVISOR_ARCHIVE_VERIFY_PRIVATE_H */
