/*
 * gateway/http/xml_write.h -- S3's answers in XML, one element behind the other.
 *
 * Why: every answer begins and ends alike, and nothing that came from outside may end an element.
 *
 * Ownership: the caller's buffer.
 * Limits:    the buffer's; what had no room is seen at its end (kvt_buffer_ok()).
 */
#ifndef GATEWAY_HTTP_XML_WRITE_H
#define GATEWAY_HTTP_XML_WRITE_H

#include "base/core/buffer.h"
#include "gateway/http/body_checksum.h"

/** The declaration, and the root with S3's name space. */
void gateway_xml_write_begin(struct kvt_buffer *out, const char *root);
void gateway_xml_write_end(struct kvt_buffer *out, const char *root);

/** "<name>", "</name>". */
void gateway_xml_write_open(struct kvt_buffer *out, const char *name);
void gateway_xml_write_close(struct kvt_buffer *out, const char *name);
/** <name>text</name>, escaped. */
void gateway_xml_write_element(struct kvt_buffer *out, const char *name, const char *text);

/** <name>2026-01-31T23:59:59.000Z</name>: whole seconds, as Last-Modified has them. */
void gateway_xml_write_time(struct kvt_buffer *out, const char *name, uint64_t unix_ms);

/** Whose something is: <name><ID>owner</ID><DisplayName>owner</DisplayName></name>. */
void gateway_xml_write_owner(struct kvt_buffer *out, const char *name, const char *owner);

/** <ChecksumCRC32>value</ChecksumCRC32>; nothing where the value is "". */
void gateway_xml_write_checksum(struct kvt_buffer *out, enum gateway_body_checksum checksum,
                                const char *value);

/** Append `text` escaped for XML: control characters as numbers; what is no UTF-8 becomes '?'. */
void gateway_xml_write_text(struct kvt_buffer *out, const char *text);

#endif /* GATEWAY_HTTP_XML_WRITE_H */
