/*
 * wire/nats/object.h -- objects in NATS: large values in a bucket, whole or not at all.
 *
 * Why: a snapshot of an index is larger than a message.  The layout is the one that all NATS
 * clients share, so that their tools list, fetch and remove what we put and we read what they did:
 * a bucket is the stream OBJ_<bucket>, an object the messages `$O.<bucket>.C.<nuid>` (its chunks)
 * and the last one of `$O.<bucket>.M.<name in base64url>` (JSON: size, chunks, SHA-256).  The
 * library has no calls for it, so the stream is written and read as it is.
 *
 * An object comes into being with its last message: whoever stops before leaves chunks that nobody
 * sees, and the former object in its place.  Nothing that is read is given away before its size and
 * digest were right.
 *
 * Ownership: a put belongs to whoever opened it, until wire_object_put_free().
 * Threads:   none of its own; a put has one owner.
 * Limits:    WIRE_OBJECT_NAME_MAX, WIRE_OBJECT_HEADERS_MAX, a chunk of WIRE_OBJECT_CHUNK_BYTES is
 *            all that a put holds; the rest is what the caller allows.
 */
#ifndef WIRE_NATS_OBJECT_H
#define WIRE_NATS_OBJECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/core/buffer.h"
#include "kvtier/error.h"
#include "wire/nats/bus.h"

#define WIRE_OBJECT_BUCKET_MAX   128 /* with the NUL, as the following */
#define WIRE_OBJECT_NAME_MAX     128
#define WIRE_OBJECT_NUID_MAX     65
#define WIRE_OBJECT_DIGEST_MAX   64
#define WIRE_OBJECT_HEADERS_MAX  8
#define WIRE_OBJECT_KEY_MAX      32
#define WIRE_OBJECT_VALUE_MAX    64
#define WIRE_OBJECT_CHUNK_BYTES  (128u << 10)
#define WIRE_OBJECT_LIST_MAX     64 /* objects of a bucket that wire_object_sweep() looks at */
#define WIRE_OBJECT_ABANDONED_MS (UINT64_C(3600) * 1000)

struct wire_object_header {
    char key[WIRE_OBJECT_KEY_MAX];
    char value[WIRE_OBJECT_VALUE_MAX];
};

struct wire_object_info {
    char name[WIRE_OBJECT_NAME_MAX];
    char nuid[WIRE_OBJECT_NUID_MAX];
    char digest[WIRE_OBJECT_DIGEST_MAX]; /* "SHA-256=<base64url>" */
    uint64_t size;                       /* bytes */
    uint64_t chunks;
    uint64_t version; /* grows with every put and removal of that name */
    uint64_t time_ms; /* when it was put, by the server's clock */
    struct wire_object_header headers[WIRE_OBJECT_HEADERS_MAX];
    size_t header_count;
};

/** "" when there is none of that key. */
const char *wire_object_header(const struct wire_object_info *info, const char *key);

/** Letters, digits, "-" and "_", below WIRE_OBJECT_BUCKET_MAX. */
bool wire_object_bucket_valid(const char *bucket);

/** Make the bucket when it is missing; one that is there stays as the operator made it.  KVT_OK,
 *  KVT_UNAVAILABLE, KVT_FULL (the account has no room for another stream). */
KVT_NODISCARD enum kvt_err wire_object_ensure(struct wire_bus *bus, const char *bucket,
                                              struct kvt_error *err);

/** KVT_OK; KVT_NOTFOUND: no such object, though `version` says what a put must expect, or no such
 *  bucket; KVT_UNSUPPORTED: a link; KVT_INVALID: what is written of it is not readable;
 *  KVT_UNAVAILABLE. */
KVT_NODISCARD enum kvt_err wire_object_info(struct wire_bus *bus, const char *bucket,
                                            const char *name, struct wire_object_info *info,
                                            struct kvt_error *err);

/**
 * Append its bytes to `out`, all or none.
 *
 * @return KVT_OK; KVT_CORRUPT: chunks are missing, or size or digest are not as `info` says (the
 *         object may have been replaced meanwhile: ask for its info again); KVT_RANGE: it does not
 *         fit in `out`; KVT_UNAVAILABLE, KVT_TIMEOUT (nothing came for a while), KVT_NOMEM
 */
KVT_NODISCARD enum kvt_err wire_object_get(struct wire_bus *bus, const char *bucket,
                                           const struct wire_object_info *info,
                                           struct kvt_buffer *out, struct kvt_error *err);

/** The same into a file that is made anew, and removed again where something is wrong.  KVT_RANGE:
 *  the object is larger than `limit` bytes.  Also what writing to disk may give. */
KVT_NODISCARD enum kvt_err wire_object_get_file(struct wire_bus *bus, const char *bucket,
                                                const struct wire_object_info *info,
                                                const char *path, uint64_t limit,
                                                struct kvt_error *err);

struct wire_object_put;

struct wire_object_put_options {
    const char *bucket;
    const char *name;
    uint64_t size_max; /* bytes */
    uint64_t version;  /* of the object to be replaced; 0: of none */
    bool any_version;  /* whatever is there is replaced: the last one wins */
};

KVT_NODISCARD enum kvt_err wire_object_put_open(struct wire_object_put **out, struct wire_bus *bus,
                                                const struct wire_object_put_options *options,
                                                struct kvt_error *err);

/** Kept with the object; before wire_object_put_finish().  KVT_OK, KVT_FULL, KVT_RANGE. */
KVT_NODISCARD enum kvt_err wire_object_put_header(struct wire_object_put *put, const char *key,
                                                  const char *value);

/** The next bytes.  KVT_OK; KVT_RANGE: more than `size_max`; KVT_FULL: the bucket; KVT_UNAVAILABLE,
 *  KVT_TIMEOUT.  After a failure the put can only be freed. */
KVT_NODISCARD enum kvt_err wire_object_put_write(struct wire_object_put *put, const void *bytes,
                                                 size_t size, struct kvt_error *err);

/** Now it is there, and the former one's chunks go.  KVT_PRECONDITION: somebody else put or removed
 *  one meanwhile; nothing has changed.  KVT_TIMEOUT: the server did not say; it may be there. */
KVT_NODISCARD enum kvt_err wire_object_put_finish(struct wire_object_put *put,
                                                  struct wire_object_info *info,
                                                  struct kvt_error *err);

/** Without finish its chunks are removed, if the server answers.  NULL is allowed. */
void wire_object_put_free(struct wire_object_put *put);

/** KVT_OK, also when it was not there. */
KVT_NODISCARD enum kvt_err wire_object_remove(struct wire_bus *bus, const char *bucket,
                                              const char *name, struct kvt_error *err);

/** Remove chunks of no object, the last of which came longer than `abandoned_ms` ago: whoever put
 *  them is dead.  KVT_OK; KVT_FULL: more objects than WIRE_OBJECT_LIST_MAX; KVT_INVALID: one of
 *  them is not readable, so that nothing may be taken away; KVT_UNAVAILABLE. */
KVT_NODISCARD enum kvt_err wire_object_sweep(struct wire_bus *bus, const char *bucket,
                                             uint64_t abandoned_ms, struct kvt_error *err);

#endif /* WIRE_NATS_OBJECT_H */
