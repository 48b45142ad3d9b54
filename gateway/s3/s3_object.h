/*
 * gateway/s3/s3_object.h -- objects on the S3 port: GET, HEAD, PUT, DELETE.
 *
 * Why: blocks and opaque objects are told apart in one place: a block's content is fixed by its
 * key, an opaque object is whatever was put last.
 *
 * Ownership: borrows all of it.
 * Threads:   any number, one request each; may wait for disk and bucket.
 * Limits:    as gateway/s3/s3_context.h.
 */
#ifndef GATEWAY_S3_S3_OBJECT_H
#define GATEWAY_S3_S3_OBJECT_H

#include "gateway/block/put.h"
#include "gateway/s3/s3_context.h"

struct gateway_opaque;

/* Arguments that are known: the first of every method, the others of GET and HEAD. */
#define GATEWAY_S3_OBJECT_ARGUMENTS 8
extern const char *const gateway_s3_object_arguments[GATEWAY_S3_OBJECT_ARGUMENTS];

void gateway_s3_object_read(struct gateway_s3 *s3, struct gateway_request *request);
/** A plain GET of all of a hot block that waits for nothing; false: nothing was answered. */
bool gateway_s3_object_read_at_once(struct gateway_s3 *s3, struct gateway_request *request);
void gateway_s3_object_write(struct gateway_s3 *s3, struct gateway_request *request);
void gateway_s3_object_delete(struct gateway_s3 *s3, struct gateway_request *request);

/** Which object is at request->stored?  GATEWAY_S3_ERROR_NO_SUCH_KEY.  A block's attributes are
 * "". */
enum gateway_s3_error gateway_s3_object_there(struct gateway_s3 *s3,
                                              const struct gateway_request *request,
                                              struct gateway_opaque *object);

#define GATEWAY_MD5_SIZE 16
#define GATEWAY_MD5_TEXT (2 * GATEWAY_MD5_SIZE + 1)

/** The MD5 of these bytes in hex: the ETag S3 gives them. */
void gateway_s3_object_md5(const void *bytes, size_t size, char text[GATEWAY_MD5_TEXT]);
void gateway_s3_object_md5_bytes(const void *bytes, size_t size, uint8_t digest[GATEWAY_MD5_SIZE],
                                 char text[GATEWAY_MD5_TEXT]);

/** Give back the checksums that came with the body. */
void gateway_s3_object_checksums(struct gateway_request *request);

/**
 * Read an object of either kind whole, its memory taken from the budget for this request.
 *
 * @param room    gets its bytes
 * @param object  its key, in; out: what it is, where a block's attributes are ""
 */
enum gateway_s3_error gateway_s3_object_fetch(struct gateway_s3 *s3,
                                              struct gateway_request *request,
                                              struct kvt_buffer *room,
                                              struct gateway_opaque *object);

/**
 * Read bytes of an opaque object that was looked at, their memory taken from the budget for this
 * request.  They are not checked: only the whole object's checksum is known.
 *
 * @param room    gets them
 * @param object  what gateway_s3_object_there() told
 * @return SLOW_DOWN also when another was put meanwhile
 */
enum gateway_s3_error gateway_s3_object_fetch_span(struct gateway_s3 *s3,
                                                   struct gateway_request *request,
                                                   struct kvt_buffer *room,
                                                   const struct gateway_opaque *object,
                                                   uint64_t from, uint64_t size);

/** Store a block under the request's conditions. */
enum gateway_s3_error gateway_s3_object_store_block(struct gateway_s3 *s3,
                                                    const struct gateway_request *request,
                                                    struct gateway_put_item *item);

/**
 * Store an opaque object under the request's conditions.
 *
 * @param item        key, body, size; its etag is set to the one clients see
 * @param attributes  the client's; ours are added
 * @param etag        the one clients are to see, NULL = the body's MD5
 */
enum gateway_s3_error gateway_s3_object_store(struct gateway_s3 *s3,
                                              const struct gateway_request *request,
                                              struct gateway_put_item *item,
                                              char attributes[G4_ATTRIBUTES_MAX], const char *etag);

/**
 * Store an opaque object in the place of the one that was read, and of no other.
 *
 * @param seen  what gateway_s3_object_fetch() told; its key is the item's
 * @return GATEWAY_S3_ERROR_SLOW_DOWN also when another was put meanwhile, which stays
 */
enum gateway_s3_error gateway_s3_object_replace(struct gateway_s3 *s3,
                                                const struct gateway_request *request,
                                                struct gateway_put_item *item,
                                                char attributes[G4_ATTRIBUTES_MAX],
                                                const struct gateway_opaque *seen);

#endif /* GATEWAY_S3_S3_OBJECT_H */
