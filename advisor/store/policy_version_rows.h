/*
 * advisor/store/policy_version_rows.h -- versions of the policy, in the table `policies`.
 *
 * Why: which rules are in force, and which were, must survive every crash.
 * Ownership: texts are borrowed from the transaction.
 * Threads:   as advisor/store/durable_store.h.
 * Limits:    ADVISOR_POLICIES_KEPT versions; KVT_YAML_FILE_MAX bytes of text each.
 */
#ifndef ADVISOR_STORE_POLICY_VERSION_ROWS_H
#define ADVISOR_STORE_POLICY_VERSION_ROWS_H

#include "advisor/store/durable_store.h"

#define ADVISOR_POLICIES_KEPT     100
#define ADVISOR_POLICY_SOURCE_MAX 40
#define ADVISOR_POLICY_DIGEST_MAX 65 /* sha256 in hex, and a NUL */

/* The newest is in force. */
struct advisor_policy_row {
    uint64_t version; /* 1, 2, ...: never used twice */
    uint64_t since_ms;
    uint64_t size; /* of the text */
    char source[ADVISOR_POLICY_SOURCE_MAX];
    char digest[72]; /* ADVISOR_POLICY_DIGEST_MAX of them */
};

/** Put a version and forget the oldest beyond ADVISOR_POLICIES_KEPT. */
KVT_NODISCARD enum kvt_err advisor_store_put_policy(const struct advisor_txn *txn,
                                                    const struct advisor_policy_row *row,
                                                    const char *text);
/** One version, or the newest for 0; KVT_NOTFOUND, KVT_CORRUPT. */
KVT_NODISCARD enum kvt_err advisor_store_policy(const struct advisor_txn *txn, uint64_t version,
                                                struct advisor_policy_row *row, const char **text);

typedef enum kvt_err advisor_store_policy_fn(void *arg, const struct advisor_policy_row *row);
/** Newest first; also in a folder without the table, which has none. */
KVT_NODISCARD enum kvt_err advisor_store_policies(const struct advisor_txn *txn,
                                                  advisor_store_policy_fn *callback, void *arg);

/** The digest of the file that was installed last; "" where none ever was. */
KVT_NODISCARD enum kvt_err advisor_store_policy_file(const struct advisor_txn *txn,
                                                     char digest[ADVISOR_POLICY_DIGEST_MAX]);
KVT_NODISCARD enum kvt_err
advisor_store_put_policy_file(const struct advisor_txn *txn,
                              const char digest[ADVISOR_POLICY_DIGEST_MAX]);

#endif /* ADVISOR_STORE_POLICY_VERSION_ROWS_H */
