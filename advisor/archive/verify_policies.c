#include <inttypes.h>
#include <string.h>

#include "advisor/archive/verify_private.h"
#include "advisor/rule/rulebook.h"

/* Versions of the policy: each can be read, has the digest of its text, and none is missing. */

struct versions {
    const struct advisor_verify *verify;
    uint64_t former; /* the version before this in the walk, which is the next one; 0: none */
};

static enum kvt_err
see_version(void *arg, const struct advisor_policy_row *row)
{
    struct versions *versions = arg;
    char digest[ADVISOR_POLICY_DIGEST_MAX];
    struct advisor_policy_row same;
    const char *text;
    enum kvt_err rc = advisor_store_policy(versions->verify->txn, row->version, &same, &text);

    if (rc == KVT_OK)
        rc = advisor_rulebook_digest(text, row->size, digest);
    if (rc == KVT_OK && strcmp(digest, row->digest) != 0)
        rc = advisor_verify_tell(versions->verify,
                                 "policy version %" PRIu64 ": its text has another digest",
                                 row->version);
    if (rc == KVT_OK && versions->former != 0 && row->version + 1 != versions->former)
        rc = advisor_verify_tell(versions->verify,
                                 "policy version %" PRIu64 " is missing behind %" PRIu64,
                                 row->version + 1, row->version);
    versions->former = row->version;
    return rc;
}

enum kvt_err
advisor_verify_policies(struct advisor_verify *verify, struct advisor_store *store)
{
    struct versions versions = {.verify = verify};
    struct advisor_txn txn;
    enum kvt_err rc = advisor_store_read(store, &txn, NULL);

    if (rc != KVT_OK)
        return rc;
    verify->txn = &txn;
    rc = advisor_store_policies(&txn, see_version, &versions);
    if (rc == KVT_CORRUPT)
        rc = advisor_verify_tell(verify, "a version of the policy cannot be read");
    advisor_store_end(&txn);
    return rc;
}
