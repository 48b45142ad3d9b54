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
#include "gateway/tier/attribute_lines.h"

/* Names and values of x-amz-meta-* together, as S3 has it. */
#define GATEWAY_ATTRIBUTES_USER     2048
/* A checksum as it is told: base64, and perhaps "-", the number of parts. */
#define GATEWAY_ATTRIBUTES_CHECKSUM (GATEWAY_BODY_CHECKSUM_TEXT + 6)

/** The request's: NONE, META_LARGE, or INVALID_ARGUMENT (bytes no header may hold). */
enum gateway_s3_error gateway_attributes_take(const struct gateway_request *request,
                                              char text[G4_ATTRIBUTES_MAX]);

/** Add those of the request's checksums that came, to be given back. */
bool gateway_attributes_add_checksums(char text[G4_ATTRIBUTES_MAX],
                                      const struct gateway_body_checksums *checksums);

/** Add one, and its type: GATEWAY_BODY_CHECKSUM_WHOLE or GATEWAY_BODY_CHECKSUM_COMPOSITE. */
bool gateway_attributes_add_checksum(char text[G4_ATTRIBUTES_MAX],
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

/** Make them lines of the answer; the checksums only when they were asked for. */
void gateway_attributes_answer(struct gateway_request *request, const char *text, bool checksums);

#endif /* GATEWAY_HTTP_ATTRIBUTES_H */
