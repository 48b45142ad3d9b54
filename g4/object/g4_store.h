/*
 * g4/object/g4_store.h -- what every object store offers: one request type, many stores.
 *
 * Why: the gateway, the CLI and the tests must not know whether a bucket is S3 over HTTP, a
 * directory or a directory that lies.  Stores: "s3" (g4/s3/s3.h), "directory"
 * (g4/directory/directory.h), and "faulty" (tests/support/faulty_store.h), which stacks on any of
 * them.
 *
 * Ownership: a request belongs to the caller from its making to its completion; the store borrows
 *            it in between, with everything it points to.  A body the store allocated (`buffer`
 *            NULL at submission) belongs to the caller afterwards: kvt_free(buffer).
 * Threads:   any thread may submit.  `done` runs on one of the store's I/O threads: copy, hand
 *            over, leave.  It runs exactly once for every accepted request, possibly before submit
 *            returns.
 * Limits:    a queue of `queue_max` requests given at opening: beyond it submit answers KVT_AGAIN.
 */
#ifndef G4_OBJECT_G4_STORE_H
#define G4_OBJECT_G4_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kvtier/block.h"
#include "kvtier/error.h"
#include "kvtier/key.h"

#define G4_ETAG_MAX        80
#define G4_TOKEN_MAX       1600
#define G4_LIST_KEYS_MAX   1000
/* Attributes: what clients want kept beside an object, as "name: value\n" lines of lower-case
 * names, at most G4_ATTRIBUTE_LINES: x-amz-meta-*, content-type, cache-control and their like. */
#define G4_ATTRIBUTES_MAX  3072
#define G4_ATTRIBUTE_LINES 40

/* A store that says that an object is larger is not believed; S3's own limit is 5 TiB. */
#define G4_OBJECT_SIZE_MAX (UINT64_C(1) << 48)

enum g4_verb { G4_GET, G4_HEAD, G4_PUT, G4_DELETE, G4_LIST };

enum g4_condition {
    G4_ALWAYS,
    G4_IF_ABSENT, /* If-None-Match: * */
    G4_IF_MATCH,  /* If-Match: <etag>; also with GET */
};

/* What travels beside a block's bytes (x-amz-meta-kvt-*).  `present` is false for objects written
 * by others: then only `length` of the body itself can be checked. */
struct g4_meta {
    bool present;
    uint64_t length;
    uint32_t crc32c;
    uint64_t fingerprint;
    char writer[KVT_NAME_MAX];
};

struct g4_listed {
    char key[KVT_KEY_MAX];
    uint64_t size;
    uint64_t modified_ms; /* Unix */
    char etag[G4_ETAG_MAX];
};

struct g4_pieces;

struct g4_request {
    enum g4_verb verb;
    const char *key; /* decoded; LIST: the prefix */
    enum g4_condition condition;
    char etag[G4_ETAG_MAX]; /* in: for G4_IF_MATCH, unquoted; out: the object's, unquoted */
    struct g4_meta meta;    /* in: PUT; out: GET, HEAD */
    char *attributes;       /* in: PUT, NULL = none; out: GET, HEAD: G4_ATTRIBUTES_MAX, NULL = no */
    uint64_t deadline_ms;   /* monotonic; 0 = the store's default per-request timeout */
    bool once; /* one attempt: a second one, sent late, could meet what was put since the first */
    /* PUT into a directory store: until g4_directory_sync() a power cut may leave nothing of it, or
     * a file that fails its checks.  Other stores take no notice. */
    bool unsynced;

    const void *body; /* PUT */
    size_t body_size;
    const struct g4_pieces
        *pieces; /* PUT: what g4/object/pieces.h says of the body; NULL = not known yet */

    void *buffer;           /* GET: the caller's memory, or NULL = the store allocates */
    size_t buffer_capacity; /* GET: most bytes to take; a larger object is KVT_RANGE */
    size_t buffer_size;     /* out: bytes received; HEAD: the object's size */

    /* GET of a part: `range_size` bytes from `range_at` on, fewer where the object ends; one that
     * begins behind its end is KVT_RANGE.  `meta` is of the whole object, so the bytes are checked
     * by whoever knows the crc of the part.  0 bytes = the whole. */
    uint64_t range_at;
    size_t range_size;
    uint64_t object_size; /* out, GET and HEAD: of the whole object */

    /* GET: the crc of the bytes is wanted.  A store that can take it while they come, and are in
     * the processor's cache, says so; from others nothing is expected (g4_check_answer()). */
    bool sum;
    bool summed;          /* out: `body_crc32c` is of the bytes in `buffer`, */
    uint32_t body_crc32c; /* out: all `buffer_size` of them */

    struct g4_listed *listed; /* LIST: room for G4_LIST_KEYS_MAX, */
    size_t listed_wanted;     /* of which so many are wanted; more may come; 0 = all there are */
    size_t listed_count;      /* out */
    const char *after;        /* LIST, first page: only keys behind this one; NULL = all */
    char token[G4_TOKEN_MAX]; /* LIST: in "" = first page, out "" = that was the last */

    void (*done)(struct g4_request *request, void *arg);
    void *arg;

    /* Result.  GET/HEAD/DELETE of nothing: NOTFOUND.  G4_IF_ABSENT on something: EXISTS.
     * G4_IF_MATCH on another: PRECONDITION.  Wrong credentials or no right: DENIED.  Full: FULL.
     * Nobody there, or no bucket: UNAVAILABLE (a HEAD cannot tell that from NOTFOUND: its answer
     * has no body).  A body cut short: IO.  GET: CORRUPT may come with the bytes that were found
     * (`buffer`, `buffer_size`): evidence, never content.  Deletion of nothing may also be OK. */
    enum kvt_err status;
    int http;             /* S3 status, 0 where there is none */
    uint64_t modified_ms; /* GET, HEAD: Last-Modified, Unix */
    uint64_t server_ms;   /* Date of the answer, Unix; 0 where there is none */
    unsigned place; /* which of several stores answered (g4/pair/bucket_pair.h); 0 elsewhere */
    struct kvt_error error; /* one line for people when status is not OK */
    void *store_private;    /* the store's own; callers need not look at it */
};

/** Can a client have sent it as a header: a name of visible characters, and a value without control
 *  bytes?  What a store tells of an object is kept only then. */
bool g4_attribute_plain(const char *name, size_t name_size, const char *value, size_t value_size);

struct g4_store;

/* One store: a constant table and its own state.  g4_store_new() binds them. */
struct g4_store_driver {
    const char *name;
    enum kvt_err (*submit)(void *self, struct g4_request *request);
    void (*close)(void *self);
};

KVT_NODISCARD enum kvt_err g4_store_new(struct g4_store **out, const struct g4_store_driver *driver,
                                        void *self);

/** Waits for what is in flight (cut short by its deadlines), then frees.  NULL is allowed. */
void g4_store_close(struct g4_store *store);

const char *g4_store_name(const struct g4_store *store);

/** The driver's own state, for the functions of that driver's header; NULL when `store` has another
 *  driver. */
void *g4_store_self(const struct g4_store *store, const struct g4_store_driver *driver);

/** KVT_OK (done will be called) or KVT_AGAIN, KVT_INVALID, KVT_CANCELLED, KVT_NOMEM (it will not).
 *  Results are reset first; conditions go with PUT, and G4_IF_MATCH also with DELETE and GET,
 *  nowhere else. */
KVT_NODISCARD enum kvt_err g4_store_submit(struct g4_store *store, struct g4_request *request);

/** Submit and wait; `done` and `arg` are used by the call.  Returns request->status, or what submit
 *  said. */
KVT_NODISCARD enum kvt_err g4_store_perform(struct g4_store *store, struct g4_request *request);

#endif /* G4_OBJECT_G4_STORE_H */
