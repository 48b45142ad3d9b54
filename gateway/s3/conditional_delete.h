/*
 * gateway/s3/conditional_delete.h -- removing an object only while it is the one that is meant.
 *
 * Why: a client that races others names what it saw by ETag, size or time; a DELETE that ignored
 * that would remove another's object.  The key is held while the object is looked at and removed,
 * so the condition is exact among the clients of one gateway.
 */
#ifndef GATEWAY_S3_CONDITIONAL_DELETE_H
#define GATEWAY_S3_CONDITIONAL_DELETE_H

#include <stdbool.h>
#include <stdint.h>

#include "gateway/http/request.h"
#include "gateway/s3/s3_context.h"

#define GATEWAY_CONDITIONAL_DELETE_MATCH 256

struct gateway_conditional_delete {
    bool asked;     /* there is a condition at all */
    bool invalid;   /* one that cannot be read */
    bool unoffered; /* one that is not offered */
    bool sized;
    bool timed;
    uint64_t size;
    uint64_t modified_ms;
    char match[GATEWAY_CONDITIONAL_DELETE_MATCH]; /* ETags; "": any */
};

/** From the headers of a DELETE. */
void gateway_conditional_delete_headers(const struct gateway_request *request,
                                        struct gateway_conditional_delete *condition);

/** From an element of DeleteObjects: ETag, Size or LastModifiedTime.  False: another element. */
bool gateway_conditional_delete_element(const char *name, const char *text,
                                        struct gateway_conditional_delete *condition);

/** Remove it if it is the one.  NO_SUCH_KEY and PRECONDITION: it is not, and nothing was removed.
 */
enum gateway_s3_error
gateway_conditional_delete_run(struct gateway_s3 *s3, const char *stored,
                               const struct gateway_conditional_delete *condition);

#endif /* GATEWAY_S3_CONDITIONAL_DELETE_H */
