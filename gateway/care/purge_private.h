/*
 * gateway/care/purge_private.h -- what the parts of a purge share.
 *
 * Why: the places where blocks are, and those where halves and copies of them lie, are a page each.
 * Ownership: as gateway/care/purge.h.
 * Threads:   one a step.
 * Limits:    as gateway/care/purge.h.
 */
#ifndef GATEWAY_CARE_PURGE_PRIVATE_H
#define GATEWAY_CARE_PURGE_PRIVATE_H

#include "gateway/care/purge.h"

/* How the server lists uploads that nobody completed. */
#define GATEWAY_PURGE_NONE   'n' /* it is no S3 server, or was not asked yet */
#define GATEWAY_PURGE_LISTED 'l' /* by prefix */
#define GATEWAY_PURGE_WHOLE  'w' /* by whole keys only, as MinIO does */

struct gateway_purge {
    struct gateway_context *context;
    const char *namespace_;
    char prefix[KVT_NAMESPACE_MAX + 1];
    bool act;
    unsigned part;
    char listing;
    char after[KVT_KEY_MAX]; /* where its part goes on; "": it is done */
    struct gateway_purge_report *report;
};

/** Count a failure; the first one is told.  `why` NULL or "": what `rc` means. */
void gateway_purge_fail(struct gateway_purge *purge, const char *what, enum kvt_err rc,
                        const char *why);

/** Find out how the server lists uploads, and whether it keeps versions. */
KVT_NODISCARD enum kvt_err gateway_purge_server(struct gateway_purge *purge, struct kvt_error *err);

/** Give up the uploads to this very key; false: they could not be looked at, or not all. */
bool gateway_purge_uploads_to(struct gateway_purge *purge, const char *key);

/** Those that clients began at this gateway. */
KVT_NODISCARD enum kvt_err gateway_purge_uploads(struct gateway_purge *purge,
                                                 struct kvt_error *err);

/** Those in the bucket. */
KVT_NODISCARD enum kvt_err gateway_purge_bucket_uploads(struct gateway_purge *purge,
                                                        struct kvt_error *err);

KVT_NODISCARD enum kvt_err gateway_purge_quarantine(struct gateway_purge *purge,
                                                    struct kvt_error *err);

#endif /* GATEWAY_CARE_PURGE_PRIVATE_H */
