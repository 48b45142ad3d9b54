/*
 * gateway/http/request.h -- one request on the S3 port, without any HTTP library in it.
 *
 * Why: what a request means can be decided, and tested, apart from how its bytes arrive.
 *
 * Ownership: made and freed by the front; everything it points to is its own.
 * Threads:   one at a time: first an HTTP thread, then one I/O thread, then the HTTP thread again.
 * Limits:    GATEWAY_HEADERS_MAX headers of GATEWAY_HEADER_BYTES together; GATEWAY_FIELDS_MAX
 * fields in the answer.
 */
#ifndef GATEWAY_HTTP_REQUEST_H
#define GATEWAY_HTTP_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/core/buffer.h"
#include "g4/object/pieces.h"
#include "g4/s3/sigv4.h"
#include "gateway/http/body_checksum.h"
#include "gateway/http/chunked.h"
#include "gateway/http/client_bucket.h"
#include "gateway/http/client_credentials.h"
#include "gateway/http/target.h"
#include "gateway/tier/budget.h"

struct gateway_reader;

#define GATEWAY_HEADERS_MAX  64
#define GATEWAY_HEADER_BYTES 16384
#define GATEWAY_FIELDS_MAX   24
#define GATEWAY_FIELD_MAX    160

/* X(NAME, HTTP status, S3 code, message) */
#define GATEWAY_S3_ERROR_MAP(X)                                                                    \
    X(NONE, 200, "", "")                                                                           \
    X(ACCESS_DENIED, 403, "AccessDenied", "Sign the request with AWS Signature Version 4.")        \
    X(FORBIDDEN, 403, "AccessDenied", "This access key has no right to do that.")                  \
    X(REFUSED, 403, "AccessDenied", "The bucket behind this gateway refuses that.")                \
    X(EXPIRED, 403, "AccessDenied", "Request has expired.")                                        \
    X(SIGV2, 400, "InvalidRequest",                                                                \
      "Signature Version 2 is not offered: sign with Version 4 (signature_version=s3v4).")         \
    X(TOKEN, 400, "InvalidToken", "Session tokens are not known here: use a key without one.")     \
    X(NO_HASH, 400, "InvalidRequest",                                                              \
      "Missing required header for this request: x-amz-content-sha256")                            \
    X(PRESIGNED, 400, "AuthorizationQueryParametersError",                                         \
      "The signature's arguments are incomplete; URLs are good for at most 7 days.")               \
    X(UNKNOWN_KEY_ID, 403, "InvalidAccessKeyId", "This access key is not known here.")             \
    X(SIGNATURE, 403, "SignatureDoesNotMatch", "The signature does not fit the request.")          \
    X(UNSIGNED, 403, "AccessDenied",                                                               \
      "There were headers present in the request which were not signed.")                          \
    X(SKEWED, 403, "RequestTimeTooSkewed", "The request's time is more than 15 minutes off.")      \
    X(BODY_HASH, 400, "XAmzContentSHA256Mismatch", "The body does not fit x-amz-content-sha256.")  \
    X(BAD_DIGEST, 400, "BadDigest", "The body does not fit the checksum that came with it.")       \
    X(INVALID_DIGEST, 400, "InvalidDigest", "Content-MD5 is not one.")                             \
    X(BAD_CHECKSUM, 400, "InvalidRequest", "The value of a checksum header is invalid.")           \
    X(TRAILER, 400, "MalformedTrailerError", "A trailing header is missing or not known.")         \
    X(CHUNK, 400, "InvalidRequest", "The body is not well-formed aws-chunked.")                    \
    X(NO_SUCH_KEY, 404, "NoSuchKey", "There is no such object.")                                   \
    X(NO_SUCH_BUCKET, 404, "NoSuchBucket", "There is no such bucket here.")                        \
    X(BUCKET_OWNED, 409, "BucketAlreadyOwnedByYou", "The bucket is there.")                        \
    X(BUCKET_TAKEN, 409, "BucketAlreadyExists", "Somebody else has a bucket of this name.")        \
    X(BUCKET_NAME, 400, "InvalidBucketName", "A bucket cannot be called that.")                    \
    X(BUCKETS_FULL, 400, "TooManyBuckets", "There are as many buckets as there may be.")           \
    X(LOCATION, 400, "InvalidLocationConstraint", "This gateway is in another region.")            \
    X(ABORTED, 409, "OperationAborted", "The bucket is being removed: try again.")                 \
    X(NO_SUCH_VERSION, 404, "NoSuchVersion", "There are no versions here.")                        \
    X(NO_POLICY, 404, "NoSuchBucketPolicy", "The bucket has no policy.")                           \
    X(NO_TAGS, 404, "NoSuchTagSet", "The bucket has no tags.")                                     \
    X(NO_CORS, 404, "NoSuchCORSConfiguration", "The bucket has no CORS rules.")                    \
    X(NO_LIFECYCLE, 404, "NoSuchLifecycleConfiguration", "The bucket has no lifecycle rules.")     \
    X(NO_ENCRYPTION, 404, "ServerSideEncryptionConfigurationNotFoundError",                        \
      "The bucket has no encryption of its own.")                                                  \
    X(NO_LOCK, 404, "ObjectLockConfigurationNotFoundError", "The bucket has no object lock.")      \
    X(NO_OBJECT_LOCK, 404, "NoSuchObjectLockConfiguration", "The object is not locked.")           \
    X(NO_WEBSITE, 404, "NoSuchWebsiteConfiguration", "The bucket is no website.")                  \
    X(NO_REPLICATION, 404, "ReplicationConfigurationNotFoundError",                                \
      "The bucket is not replicated.")                                                             \
    X(NO_ACCESS_BLOCK, 404, "NoSuchPublicAccessBlockConfiguration",                                \
      "Nothing is public here to be blocked.")                                                     \
    X(STORAGE_CLASS, 400, "InvalidStorageClass", "There is only STANDARD here.")                   \
    X(METHOD, 405, "MethodNotAllowed", "This method is not for this resource.")                    \
    X(NOT_IMPLEMENTED, 501, "NotImplemented", "This part of S3 is not offered here.")              \
    X(INVALID_REQUEST, 400, "InvalidRequest", "The request makes no sense.")                       \
    X(INVALID_ARGUMENT, 400, "InvalidArgument", "An argument is not valid.")                       \
    X(SELFTEST, 400, "InvalidArgument",                                                            \
      "A KVTier gateway answers here: it refuses the keys of a store's self-test.")                \
    X(INVALID_URI, 400, "InvalidURI", "The request target could not be understood.")               \
    X(INVALID_HEAD, 400, "InvalidRequest", "The request's header can be read in two ways.")        \
    X(HEADERS_LARGE, 400, "RequestHeaderSectionTooLarge",                                          \
      "Headers have at most 64 lines and 16 KiB here.")                                            \
    X(KEY_TOO_LONG, 400, "KeyTooLongError", "Your key is too long: keys have at most 1024 bytes.") \
    X(TOO_LARGE, 400, "EntityTooLarge",                                                            \
      "A body has at most front.batch_max bytes, an object of parts a quarter of memory.max.")     \
    X(NO_LENGTH, 411, "MissingContentLength", "Send a Content-Length.")                            \
    X(INCOMPLETE, 400, "IncompleteBody", "The body is shorter than its Content-Length.")           \
    X(PRECONDITION, 412, "PreconditionFailed", "The condition does not hold.")                     \
    X(OTHER_CONTENT, 412, "PreconditionFailed", "Another block content is stored under this key.") \
    X(BUCKET_FULL, 409, "BucketNotEmpty", "There are objects in the bucket.")                      \
    X(UPLOAD, 404, "NoSuchUpload", "There is no such upload.")                                     \
    X(PART, 400, "InvalidPart", "A part is missing or another.")                                   \
    X(PART_NUMBER, 416, "InvalidPartNumber", "The object has no part of this number.")             \
    X(PART_ORDER, 400, "InvalidPartOrder", "The parts are not in ascending order.")                \
    X(TOO_SMALL, 400, "EntityTooSmall", "Only the last part may have less than 5 MiB.")            \
    X(META_LARGE, 400, "MetadataTooLarge", "Metadata has at most 2 KiB here.")                     \
    X(XML, 400, "MalformedXML", "The XML is not well-formed, or not what belongs here.")           \
    X(COPY_SELF, 400, "InvalidRequest", "A copy onto itself must change the metadata.")            \
    X(NOT_MODIFIED, 304, "NotModified", "")                                                        \
    X(RANGE, 416, "InvalidRange", "The range is not within the object.")                           \
    X(SLOW_DOWN, 503, "SlowDown", "Busy: try again shortly.")                                      \
    X(UNAVAILABLE, 503, "SlowDown", "The bucket behind this gateway does not answer.")             \
    X(FULL, 507, "InsufficientStorage", "A capacity limit is reached.")                            \
    X(INTERNAL, 500, "InternalError", "It went wrong here; the log says why.")

enum gateway_s3_error {
#define X(name, status, code, message) GATEWAY_S3_ERROR_##name,
    GATEWAY_S3_ERROR_MAP(X)
#undef X
        GATEWAY_S3_ERROR_COUNT
};

struct gateway_field {
    const char *name; /* static */
    char value[GATEWAY_FIELD_MAX];
};

struct gateway_request {
    char id[17];
    char method[8];
    char *raw; /* target as it came */
    struct gateway_target target;
    struct gateway_client_bucket bucket; /* the target's, once that is known */
    struct g4_object_name stored;        /* of the target's key, in the store; "" while unknown */
    struct g4_sigv4_header headers[GATEWAY_HEADERS_MAX];
    size_t header_count;
    char *header_text; /* GATEWAY_HEADER_BYTES the headers point into */
    size_t header_used;
    const struct gateway_principal *principal;      /* who signed it; NULL until that is known */
    struct gateway_client_credentials *credentials; /* held: the principal points into it */
    char date[G4_SIGV4_DATE_MAX];                   /* with which it is signed; as its chunks are */
    char region[64];
    char signature[G4_SIGV4_SIGNATURE_MAX];
    struct gateway_chunked *chunked;    /* NULL: the body comes without framing */
    enum gateway_body_checksum trailer; /* announced behind the body; COUNT: none */
    struct kvt_buffer body;       /* the payload, without aws-chunked framing; fits `checksums` */
    struct g4_pieces_feed pieces; /* of the body, as far as it came */
    struct gateway_body_checksums checksums; /* sent in a header or behind the body */
    uint64_t taken;                          /* bytes of the memory budget this request holds */

    enum gateway_s3_error fault; /* not NONE: the answer is this error */
    unsigned status;
    bool head_only;   /* answer `length` without a body */
    uint64_t length;  /* for head_only */
    size_t body_from; /* the answer is answer.data[body_from, body_from + body_size) */
    size_t body_size;
    const char *content_type;
    bool takes_reader;             /* the asker can take a stream in the place of `answer` */
    bool takes_sealed;             /* and send a descriptor as it is, which TLS cannot */
    struct gateway_reader *reader; /* NULL, or where the body comes from; */
    void (*close_reader)(struct gateway_reader *); /* closes it */
    struct kvt_buffer answer;
    struct gateway_field fields[GATEWAY_FIELDS_MAX];
    size_t field_count;
    struct kvt_buffer lines; /* more fields, as "name: value\n": what is kept with an object */
};

/** Copy a header.  KVT_RANGE: too many or too long. */
KVT_NODISCARD enum kvt_err gateway_request_header_add(struct gateway_request *request,
                                                      const char *name, const char *value);

/** The first header of that name (any case), or NULL. */
const char *gateway_request_header(const struct gateway_request *request, const char *name);

/** A header that is a decimal number; `*value` stays where there is none of that name.  false: it
 *  is no number. */
bool gateway_request_number(const struct gateway_request *request, const char *name,
                            uint64_t *value);

/** One of hexadecimal digits; 0 where there is none of that name.  false: it is no number. */
bool gateway_request_hex(const struct gateway_request *request, const char *name, uint64_t *value);

/** The next item of a header's list, "a, b", without the blanks around it; `*list` moves behind it.
 *  NULL: there is none. */
const char *gateway_request_item(const char **list, size_t *size);

/** Add a field to the answer; too many are dropped, which an assertion finds. */
void gateway_request_field(struct gateway_request *request, const char *name, const char *format,
                           ...) KVT_PRINTF(3, 4);

/** Is this its method?  "GET" */
bool gateway_request_is(const struct gateway_request *request, const char *method);

/** Its body, `body.size` bytes; never NULL. */
const void *gateway_request_bytes(const struct gateway_request *request);

/** The answer is what was appended to it, with status 200.  SLOW_DOWN: it had no room. */
enum gateway_s3_error gateway_request_answer(struct gateway_request *request,
                                             const char *content_type);

/** Make the answer this error, with its XML body.  Returns `fault`. */
enum gateway_s3_error gateway_request_fail(struct gateway_request *request,
                                           enum gateway_s3_error fault);

/** Its S3 code, "NoSuchKey". */
const char *gateway_request_code(enum gateway_s3_error fault);

/** What a KVTier code means to an S3 client. */
enum gateway_s3_error gateway_request_fault_of(enum kvt_err code);

/** Give back what it took from the budget, which may be NULL where that is nothing. */
void gateway_request_release(struct gateway_request *request, struct gateway_budget *budget);

#endif /* GATEWAY_HTTP_REQUEST_H */
