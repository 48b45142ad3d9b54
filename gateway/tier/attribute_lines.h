/*
 * gateway/tier/attribute_lines.h -- what is kept beside an object, as lines "name: value\n".
 *
 * Why: user metadata, content type and their like travel as header lines, from the request into the
 * bucket and from the bucket into answers.  The gateway's own lines among them (x-amz-meta-kvt-*)
 * keep what S3 promises about an object and the store does not.
 *
 * Ownership: texts of G4_ATTRIBUTES_MAX bytes are the caller's.
 * Threads:   any; pure functions.
 * Limits:    G4_ATTRIBUTE_LINES lines.
 */
#ifndef GATEWAY_TIER_ATTRIBUTE_LINES_H
#define GATEWAY_TIER_ATTRIBUTE_LINES_H

#include <stdbool.h>
#include <stddef.h>

#include "g4/object/g4_store.h"

/* All lines of the gateway's own begin so. */
#define GATEWAY_ATTRIBUTE_OURS   "x-amz-meta-kvt-"
/* The ETag clients see, where the store has another one. */
#define GATEWAY_ATTRIBUTE_ETAG   GATEWAY_ATTRIBUTE_OURS "etag"
/* Which conditional PUT wrote it: a number that no other one has. */
#define GATEWAY_ATTRIBUTE_PUT    GATEWAY_ATTRIBUTE_OURS "put"
/* Which checksum an upload that is under way is to have ("SHA256 COMPOSITE"). */
#define GATEWAY_ATTRIBUTE_UPLOAD GATEWAY_ATTRIBUTE_OURS "upload-checksum"
/* Where the parts of a completed upload end: gateway/upload/completed_parts.h. */
#define GATEWAY_ATTRIBUTE_PARTS  GATEWAY_ATTRIBUTE_OURS "parts"
/* The client sent x-amz-meta-kvt-* of its own, and gets them back. */
#define GATEWAY_ATTRIBUTE_CLIENT GATEWAY_ATTRIBUTE_OURS "client"

/** May this be a line?  Names and values are printable, and a name has no blank. */
bool gateway_attribute_lines_valid(const char *name, const char *value);

/** Add a line; false, and nothing added, when it does not fit or may not be. */
bool gateway_attribute_lines_add(char text[G4_ATTRIBUTES_MAX], const char *name, const char *value);

/** Its value; false: no such line, or too long for `value`. */
bool gateway_attribute_lines_get(const char *text, const char *name, char *value, size_t size);

/** Take out its line, if there is one. */
void gateway_attribute_lines_drop(char text[G4_ATTRIBUTES_MAX], const char *name);

/** Take out the lines of our own: what is left is the client's. */
void gateway_attribute_lines_strip(char text[G4_ATTRIBUTES_MAX]);

#endif /* GATEWAY_TIER_ATTRIBUTE_LINES_H */
