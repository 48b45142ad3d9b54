/*
 * gateway/upload/uploads.h -- the parts of multipart uploads, until somebody completes or aborts
 * them.
 *
 * Why: a part that was acknowledged must be there when the upload is completed, also after a crash.
 * They lie in a directory store of their own under the state folder, which knows how to write files
 * that are whole or not there:
 *   <id>/upload   what the upload is for: "<bucket's id>\n<key>" as body, the client's attributes
 *                 beside it
 *   <id>/<number> a part, five digits; its MD5 and checksums beside it
 *
 * Ownership: borrows the context, which owns the store.
 * Limits:    GATEWAY_UPLOADS_MAX uploads, GATEWAY_UPLOADS_BYTES bytes of parts: more is KVT_FULL;
 *            GATEWAY_COMPLETED_PARTS_MAX parts an upload; what was begun GATEWAY_UPLOADS_AGE_MS
 *            ago is dropped.
 */
#ifndef GATEWAY_UPLOAD_UPLOADS_H
#define GATEWAY_UPLOAD_UPLOADS_H

#include <stddef.h>
#include <stdint.h>

#include "g4/object/object_name.h"
#include "gateway/http/body_checksum.h"
#include "gateway/tier/gateway_context.h"

#define GATEWAY_UPLOADS_MAX         1000
#define GATEWAY_UPLOADS_AGE_MS      (UINT64_C(3) * 24 * 3600 * 1000)
#define GATEWAY_COMPLETED_PARTS_MAX 10000
#define GATEWAY_UPLOAD_ID           33

struct gateway_upload {
    char id[GATEWAY_UPLOAD_ID];
    char bucket[G4_OBJECT_BUCKET_MAX]; /* id of the client's bucket; "" = the configured one */
    char key[G4_CLIENT_KEY_MAX];       /* the client's */
    uint64_t created_ms;
    char attributes[G4_ATTRIBUTES_MAX];
};

struct gateway_part {
    unsigned number;
    uint64_t size;
    uint64_t modified_ms;
    char etag[G4_ETAG_MAX];               /* the MD5 of its bytes */
    enum gateway_body_checksum algorithm; /* in: the upload's; GATEWAY_BODY_CHECKSUM_COUNT = none */
    char checksum[GATEWAY_BODY_CHECKSUM_TEXT]; /* of that algorithm; "" = none is known */
};

/** Begin one for upload->key of upload->bucket with upload->attributes; its id and time are filled
 *  in. */
KVT_NODISCARD enum kvt_err gateway_uploads_create(struct gateway_context *context,
                                                  struct gateway_upload *upload);

/** KVT_NOTFOUND: no such upload. */
KVT_NODISCARD enum kvt_err gateway_uploads_find(struct gateway_context *context, const char *id,
                                                struct gateway_upload *upload);

/** Keep a part, in place of one with its number; `attributes` get its ETag added. */
KVT_NODISCARD enum kvt_err gateway_uploads_put(struct gateway_context *context, const char *id,
                                               unsigned number, const void *body, size_t size,
                                               const char *etag,
                                               char attributes[G4_ATTRIBUTES_MAX]);

/** What part->number is, with its checksum of part->algorithm; KVT_NOTFOUND. */
KVT_NODISCARD enum kvt_err gateway_uploads_part(struct gateway_context *context, const char *id,
                                                struct gateway_part *part);

/** Read it: part->size bytes, checked. */
KVT_NODISCARD enum kvt_err gateway_uploads_read(struct gateway_context *context, const char *id,
                                                const struct gateway_part *part, void *out);

/** The numbers of the parts behind `after`, ascending, at most `capacity`. */
KVT_NODISCARD enum kvt_err gateway_uploads_numbers(struct gateway_context *context, const char *id,
                                                   unsigned after, unsigned *numbers,
                                                   size_t capacity, size_t *count);

/** The ids of all uploads there are, in no order of use; room for GATEWAY_UPLOADS_MAX. */
KVT_NODISCARD enum kvt_err gateway_uploads_list(struct gateway_context *context,
                                                char (*ids)[GATEWAY_UPLOAD_ID], size_t *count);

/** Forget it and its parts.  KVT_OK also when there is none. */
KVT_NODISCARD enum kvt_err gateway_uploads_drop(struct gateway_context *context, const char *id);

/** Forget all of a client's bucket; what cannot be is dropped by age. */
void gateway_uploads_drop_all(struct gateway_context *context, const char *bucket);

/** Drop what is too old, and parts that belong to nothing. */
void gateway_uploads_expire(struct gateway_context *context, uint64_t now_ms);

#endif /* GATEWAY_UPLOAD_UPLOADS_H */
