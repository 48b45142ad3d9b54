/*
 * g4/s3/s3_parts.h -- large objects, to and from S3 in several transfers at once.
 *
 * Why: one connection carries one stream, and one lost connection loses all of it.  A GET asks for
 * the first part and learns how large the object is and which version; the others are asked for
 * with If-Match, so that no two versions are ever put together.  A PUT is a multipart upload; its
 * condition goes with the last step, which makes the object, and what fails is aborted.  What
 * cannot be, or whose name an answer took with it, is left with its note (g4/s3/upload_notes.h).
 *
 * Ownership: as g4/object/g4_store.h says of requests; a job is its own and ends with its last
 *            transfer.
 * Threads:   any thread starts one; the rest happens where requests end.
 * Limits:    G4_S3_PARTS_AT_ONCE transfers a request, G4_S3_PARTS_MAX parts: larger bodies have
 *            larger parts.  The caller's memory is all there is, and for a GET without any, the
 *            object's size and one part.
 */
#ifndef G4_S3_S3_PARTS_H
#define G4_S3_S3_PARTS_H

#include <stdbool.h>
#include <stdint.h>

#include "g4/object/g4_store.h"
#include "g4/s3/upload_notes.h"
#include "kvtier/error.h"

#define G4_S3_PARTS_AT_ONCE 4
#define G4_S3_PARTS_MAX     10000
#define G4_S3_PARTS_LEAST   (5u << 20) /* smaller ones S3 refuses */

struct g4_s3_parts {
    uint64_t part_size;
    uint64_t timeout_ms; /* of a request without a deadline */
    enum kvt_err (*submit)(void *arg, struct g4_request *request);
    void *arg;
    struct g4_upload_notes *notes; /* where uploads are written down first; NULL: nowhere */
};

/** Is it larger than a part, or may it be? */
bool g4_s3_parts_wanted(const struct g4_s3_parts *parts, const struct g4_request *request);

/** KVT_OK (request->done will be called), KVT_NOMEM, or what submit said. */
KVT_NODISCARD enum kvt_err g4_s3_parts_start(const struct g4_s3_parts *parts,
                                             struct g4_request *request);

#endif /* G4_S3_S3_PARTS_H */
