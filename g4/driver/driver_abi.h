/*
 * g4/driver/driver_abi.h -- what a store driver that is loaded at run time offers.
 *
 * Why: a library whose licence or age keeps it out of our programs can still move bytes.  It is
 * asked for little: one blocking request at a time, in plain C types, without any function of
 * ours.  Threads, conditions, confirmation and checks are g4/driver/driver_store.h's.
 *
 * Ownership: everything given is borrowed for the call; `self` is the driver's.
 * Threads:   open and close by one thread; the rest from any number at once.
 * Limits:    G4_FOREIGN_META_MAX pairs; a driver with another `abi` is not used.
 */
#ifndef G4_DRIVER_DRIVER_ABI_H
#define G4_DRIVER_DRIVER_ABI_H

#include <stddef.h>
#include <stdint.h>

#define G4_FOREIGN_ABI    1
#define G4_FOREIGN_SYMBOL "g4_foreign_driver" /* a const struct g4_foreign_driver */

#define G4_FOREIGN_ETAG_MAX 80
#define G4_FOREIGN_META_MAX 32 /* pairs beside an object */

/* What a request came to.  What the driver cannot tell apart is UNKNOWN, never OK. */
enum g4_foreign_result {
    G4_FOREIGN_OK,
    G4_FOREIGN_NOTFOUND,
    G4_FOREIGN_NO_BUCKET,
    G4_FOREIGN_DENIED,
    G4_FOREIGN_UNAVAILABLE, /* nobody there, or busy: the same may succeed later */
    G4_FOREIGN_STOPPED,     /* by the caller's `take` */
    G4_FOREIGN_INVALID,
    G4_FOREIGN_NOMEM,
    G4_FOREIGN_UNKNOWN,
};

struct g4_foreign_options {
    const char *host; /* host[:port] */
    int tls;
    int path_style;
    const char *bucket;
    const char *access_key;
    const char *secret_key;
};

struct g4_foreign_meta {
    const char *name; /* without "x-amz-meta-" */
    const char *value;
};

/* An object as an answer tells of it. */
struct g4_foreign_object {
    int64_t size; /* bytes, of what the answer brings; < 0 = not told */
    int64_t modified_s;
    char etag[G4_FOREIGN_ETAG_MAX]; /* unquoted */
};

/* Called by head and get, before the first byte. */
typedef void g4_foreign_seen_fn(void *arg, const struct g4_foreign_object *object,
                                const struct g4_foreign_meta *meta, size_t count);
/* Take some bytes of a body; 0 = no more are wanted. */
typedef int g4_foreign_take_fn(void *arg, const void *bytes, size_t size);
/* A row of a listing; `object` has its size. */
typedef void g4_foreign_row_fn(void *arg, const char *key, const struct g4_foreign_object *object);

struct g4_foreign_driver {
    uint32_t abi;  /* G4_FOREIGN_ABI */
    uint32_t size; /* of this struct */
    const char *name;
    const char *warning; /* what whoever uses it must know */

    /* `text`: why not, for people. */
    int (*open)(void **self, const struct g4_foreign_options *options, char *text, size_t size);
    void (*close)(void *self);
    /* Requests: an enum g4_foreign_result, at `deadline_ms` of CLOCK_MONOTONIC at the latest. */
    int (*head)(void *self, uint64_t deadline_ms, const char *key, g4_foreign_seen_fn *seen,
                void *arg);
    /* `count` bytes from `at` on; 0 = all. */
    int (*get)(void *self, uint64_t deadline_ms, const char *key, uint64_t at, uint64_t count,
               g4_foreign_seen_fn *seen, g4_foreign_take_fn *take, void *arg);
    int (*put)(void *self, uint64_t deadline_ms, const char *key,
               const struct g4_foreign_meta *meta, size_t count, const void *body, size_t size);
    int (*remove)(void *self, uint64_t deadline_ms, const char *key);
    /* Rows behind `after` ("" = the first), `max` at most; `*more` = there are others behind. */
    int (*list)(void *self, uint64_t deadline_ms, const char *prefix, const char *after,
                unsigned max, g4_foreign_row_fn *row, void *arg, int *more);
};

#endif /* G4_DRIVER_DRIVER_ABI_H */
