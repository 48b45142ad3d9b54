/*
 * gateway/http/attributes.h -- what clients want kept beside an opaque object.
 *
 * Why: user metadata, content type and their like travel as header lines, from the request into the
 * bucket and from the bucket into answers.  Lines of our own among them (x-amz-meta-kvt-*) keep
 * what S3 promises about an object and the store does not: its ETag, its checksums.
 *
 * Ownership: texts of G4_ATTRIBUTES_MAX bytes are the caller's.
 * Threads:   any; pure functions.
 * Limits:    G4_ATTRIBUTE_LINES lines, GATEWAY_ATTRIBUTES_USER bytes of user metadata.
 */
#ifndef GATEWAY_HTTP_ATTRIBUTES_H
#define GATEWAY_HTTP_ATTRIBUTES_H

#include <stdbool.h>
#include <stddef.h>

#include "g4/object/g4_store.h"
#include "gateway/http/request.h"

/* Names and values of x-amz-meta-* together, as S3 has it. */
#define GATEWAY_ATTRIBUTES_USER     2048
/* A checksum as it is told: base64, and perhaps "-", the number of parts. */
#define GATEWAY_ATTRIBUTES_CHECKSUM (GATEWAY_BODY_CHECKSUM_TEXT + 6)

/* The ETag clients see, where the store has another one. */
#define GATEWAY_ATTRIBUTE_ETAG   "x-amz-meta-kvt-etag"
/* Which conditional PUT wrote it: a number that no other one has. */
#define GATEWAY_ATTRIBUTE_PUT    "x-amz-meta-kvt-put"
/* Which checksum an upload that is under way is to have ("SHA256 COMPOSITE"). */
#define GATEWAY_ATTRIBUTE_UPLOAD "x-amz-meta-kvt-upload-checksum"
/* Where the parts of a completed upload end: gateway/upload/completed_parts.h. */
#define GATEWAY_ATTRIBUTE_PARTS  "x-amz-meta-kvt-parts"
/* The client sent x-amz-meta-kvt-* of its own, and gets them back. */
#define GATEWAY_ATTRIBUTE_CLIENT "x-amz-meta-kvt-client"

/** The request's: NONE, META_LARGE, or INVALID_ARGUMENT (bytes no header may hold). */
enum gateway_s3_error gateway_attributes_take(const struct gateway_request *request,
                                              char text[G4_ATTRIBUTES_MAX]);

/** Add a line; false, and nothing added, when it does not fit or may not be. */
bool gateway_attribute_lines_add(char text[G4_ATTRIBUTES_MAX], const char *name, const char *value);

/** Add those of the request's checksums that came, to be given back. */
bool gateway_attribute_lines_add_checksums(char text[G4_ATTRIBUTES_MAX],
                                           const struct gateway_body_checksums *checksums);

/** Add one, and its type: GATEWAY_BODY_CHECKSUM_WHOLE or GATEWAY_BODY_CHECKSUM_COMPOSITE. */
bool gateway_attribute_lines_add_checksum(char text[G4_ATTRIBUTES_MAX],
                                          enum gateway_body_checksum checksum, const char *value,
                                          const char *type);

/** The object's checksum of this kind, as it is told; false: it has none. */
bool gateway_attributes_checksum(const char *text, enum gateway_body_checksum checksum, char *value,
                                 size_t size);

/** The first of the kinds from `from` on that the object has a checksum of, told in `value`;
 *  GATEWAY_BODY_CHECKSUM_COUNT: it has none. */
enum gateway_body_checksum
gateway_attributes_next_checksum(const char *text, unsigned from,
                                 char value[GATEWAY_ATTRIBUTES_CHECKSUM]);

/** What its checksums are of: GATEWAY_BODY_CHECKSUM_WHOLE, unless a line says that it is
 *  GATEWAY_BODY_CHECKSUM_COMPOSITE. */
const char *gateway_attributes_checksum_type(const char *text);

/** All of them as elements of XML; `bare`: of composite ones without the number of parts. */
void gateway_attributes_tell_checksums(const char *text, bool bare, struct kvt_buffer *out);

/** Its value; false: no such line, or too long for `value`. */
bool gateway_attribute_lines_get(const char *text, const char *name, char *value, size_t size);

/** Take out its line, if there is one. */
void gateway_attribute_lines_drop(char text[G4_ATTRIBUTES_MAX], const char *name);

/** Take out the lines of our own: what is left is the client's. */
void gateway_attribute_lines_strip(char text[G4_ATTRIBUTES_MAX]);

/** Make them lines of the answer; the checksums only when they were asked for. */
void gateway_attributes_answer(struct gateway_request *request, const char *text, bool checksums);

#endif /* GATEWAY_HTTP_ATTRIBUTES_H */
