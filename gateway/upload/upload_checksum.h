/*
 * gateway/upload/upload_checksum.h -- the checksum that an upload's client wants for the whole
 * object.
 *
 * Why: who begins a multipart upload names an algorithm, and whether the object's checksum is to be
 * of all its bytes (FULL_OBJECT) or of its parts' checksums (COMPOSITE).  It is computed from the
 * bytes that were put together: what is told of an object is never just what somebody claimed.
 *
 * Ownership: the caller owns all of it.
 * Threads:   any; pure functions.
 * Limits:    texts of GATEWAY_ATTRIBUTES_CHECKSUM - 1 characters.
 */
#ifndef GATEWAY_UPLOAD_UPLOAD_CHECKSUM_H
#define GATEWAY_UPLOAD_UPLOAD_CHECKSUM_H

#include "gateway/http/attributes.h"
#include "gateway/http/request.h"
#include "gateway/upload/uploads.h"

struct gateway_upload_checksum {
    enum gateway_body_checksum algorithm; /* GATEWAY_BODY_CHECKSUM_COUNT: none is wanted */
    bool whole;                           /* of all bytes, else of the parts' checksums */
};

/** GATEWAY_BODY_CHECKSUM_WHOLE or GATEWAY_BODY_CHECKSUM_COMPOSITE. */
const char *gateway_upload_checksum_type(const struct gateway_upload_checksum *wanted);

/** What the request that begins an upload wants.  INVALID_REQUEST: there is no such algorithm, or
 *  it has no checksum of that type. */
enum gateway_s3_error gateway_upload_checksum_take(const struct gateway_request *request,
                                                   struct gateway_upload_checksum *wanted);

/** Keep it among the upload's attributes, unless none is wanted; false: there is no room. */
bool gateway_upload_checksum_keep(const struct gateway_upload_checksum *wanted,
                                  char attributes[G4_ATTRIBUTES_MAX]);

/** What was kept. */
void gateway_upload_checksum_read(const char *attributes, struct gateway_upload_checksum *wanted);

/** Make sure that a part that came has the upload's checksum: that is computed where none came.
 *  INVALID_REQUEST: only others came.  SLOW_DOWN: it could not be computed. */
enum gateway_s3_error gateway_upload_checksum_of_part(const struct gateway_upload_checksum *wanted,
                                                      const void *body, size_t size,
                                                      struct gateway_body_checksums *checksums);

/** A client that names one only now, when it completes the upload: it is of all bytes.
 *  INVALID_REQUEST: it cannot be, and what else it is of was not agreed. */
enum gateway_s3_error gateway_upload_checksum_claim(const struct gateway_request *request,
                                                    struct gateway_upload_checksum *wanted);

/** The checksum of an object that was put together from these parts.  false: there is no memory. */
bool gateway_upload_checksum_compute(const struct gateway_upload_checksum *wanted,
                                     const uint8_t *body, const struct gateway_part *parts,
                                     size_t count, char text[GATEWAY_ATTRIBUTES_CHECKSUM]);

/** Is `text` what the completing request says, if it says anything?  NONE, BAD_DIGEST, or
 *  INVALID_REQUEST: it speaks of another algorithm. */
enum gateway_s3_error gateway_upload_checksum_judge(const struct gateway_upload_checksum *wanted,
                                                    const struct gateway_request *request,
                                                    const char *text);

#endif /* GATEWAY_UPLOAD_UPLOAD_CHECKSUM_H */
