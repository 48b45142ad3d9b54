/*
 * g4/s3/s3_xml.h -- the XML of S3: a page of ListObjectsV2, and error bodies.
 *
 * Why: it comes from outside: every text is bounded, depth, counts and bytes too, and what does not
 * parse is an error with its line.
 *
 * A page's keys lie below the prefix and behind those of the page before, in ascending order:
 * request->token carries the last key beside the server's own token, so that a server that repeats
 * itself is refused instead of being asked for ever.
 *
 * Ownership: a listing borrows the rows it fills; free the parser in any case.
 * Threads:   none; one owner.
 * Limits:    G4_LIST_KEYS_MAX rows; keys that do not fit KVT_KEY_MAX are left out (not ours);
 *            G4_S3_XML_PAGE_MAX bytes of a page, G4_S3_XML_TOKEN_MAX of the server's token.
 */
#ifndef G4_S3_S3_XML_H
#define G4_S3_S3_XML_H

#include <stdbool.h>
#include <stddef.h>

#include "g4/object/g4_store.h"
#include "kvtier/error.h"

#define G4_S3_XML_PAGE_MAX  (16 << 20)
#define G4_S3_XML_TOKEN_MAX 1024

struct g4_s3_xml;

/** Begin a page, the one that request->token stands for; results go to request->listed,
 *  listed_count and token. */
KVT_NODISCARD enum kvt_err g4_s3_xml_new(struct g4_s3_xml **out, struct g4_request *request);
void g4_s3_xml_free(struct g4_s3_xml *listing);

/** The next bytes as they come.  KVT_OK or KVT_IO with "line N: ...". */
KVT_NODISCARD enum kvt_err g4_s3_xml_feed(struct g4_s3_xml *listing, const char *bytes, size_t size,
                                          struct kvt_error *err);

/** No more bytes: is the page whole? */
KVT_NODISCARD enum kvt_err g4_s3_xml_end(struct g4_s3_xml *listing, struct kvt_error *err);

/** The part of request->token that is the server's; "" = the first page. */
const char *g4_s3_xml_token(const char *token);

/** An ETag without its quotes; "" when it is none that a header line can carry. */
void g4_s3_xml_etag(const char *text, size_t size, char etag[G4_ETAG_MAX]);

/** The text behind `open` ("<UploadId>") up to the next tag; false, with what there is, when it
 *  does not fit `room` or does not end. */
bool g4_s3_xml_element(const char *body, size_t size, const char *open, char *out, size_t room);

/** Undo encoding-type=url; false when the key is empty, does not fit or holds a NUL. */
bool g4_s3_xml_key(const char *text, char key[KVT_KEY_MAX]);

#define G4_S3_XML_CODE_MAX    64
#define G4_S3_XML_MESSAGE_MAX 160

/** <Code> and <Message> of an error body; "" where there are none. */
void g4_s3_xml_trouble(const char *body, size_t size, char code[G4_S3_XML_CODE_MAX],
                       char message[G4_S3_XML_MESSAGE_MAX]);

#endif /* G4_S3_S3_XML_H */
