/*
 * g4/s3/placement.h -- how an S3 service keeps what is put: encrypted with which key, in which
 * class.
 *
 * Why: tenants that share a bucket have keys and prices of their own, and only who puts an object
 * can say so: two headers of the PUT, or of the request that begins an upload in parts.
 *
 * Ownership: the table belongs to whoever loaded it, and outlives the stores that are given it.
 * Threads:   read-only once loaded.
 * Limits:    G4_PLACEMENT_RULES_MAX rules.
 */
#ifndef G4_S3_PLACEMENT_H
#define G4_S3_PLACEMENT_H

#include <stddef.h>

#include "g4/s3/sigv4.h"
#include "kvtier/error.h"

#define G4_PLACEMENT_RULES_MAX   64
#define G4_PLACEMENT_HEADERS_MAX 3

struct g4_placement;

/**
 * Read a YAML file: `placement`, a list of rules with `prefix` (of keys; "" = all), `encryption`
 * (none, AES256, aws:kms), `kms_key_id` and `storage_class`.
 *
 * @return KVT_OK; KVT_INVALID with file, line and column: a rule that no service takes, or with
 *         which blocks could not be read at once; KVT_NOMEM; why the file could not be read
 */
KVT_NODISCARD enum kvt_err g4_placement_load(struct g4_placement **out, const char *path,
                                             struct kvt_error *err);

/**
 * Give a class to all keys for which no rule names one, in a table of its own where there is none.
 *
 * @param placement  in and out; NULL: there is no table yet
 * @return KVT_OK; KVT_INVALID: no service takes such a class, or it could not be read at once;
 *         KVT_FULL: there is no room for one rule more; KVT_NOMEM.  Then the table is as it was.
 */
KVT_NODISCARD enum kvt_err g4_placement_set_class(struct g4_placement **placement,
                                                  const char *storage_class, struct kvt_error *err);

/** NULL is allowed. */
void g4_placement_free(struct g4_placement *placement);

/**
 * Headers for the PUT of `key`, by the rule with the longest prefix that fits.  Locks, commit
 * records, manifests of packed blocks and the like are encrypted as the rest and stay in the
 * bucket's own class: they are small or short-lived, and some classes charge for each object as for
 * a large one that is kept for a month.  Segments have the class of the blocks in them.
 *
 * @param placement  NULL: none
 * @param[out] headers  their texts are the table's
 * @return how many
 */
size_t g4_placement_headers(const struct g4_placement *placement, const char *key,
                            struct g4_sigv4_header headers[G4_PLACEMENT_HEADERS_MAX]);

#endif /* G4_S3_PLACEMENT_H */
