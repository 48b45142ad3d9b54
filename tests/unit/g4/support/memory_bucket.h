/*
 * tests/unit/g4/support/memory_bucket.h -- a bucket in memory, with a clock, and clients that die
 * on it.
 *
 * Why: what must hold after a crash at any request must be tried at every request; a bucket that
 * answers in microseconds, that counts, and that lets others act between any two requests makes
 * that a matter of seconds.
 * Ownership: the test owns bucket and clients; a client's store is closed with g4_store_close().
 * Threads:   any for requests; everything else while no request is on its way.
 * Limits:    MEMORY_BUCKET_OBJECTS_MAX objects; pages of MEMORY_BUCKET_PAGE rows.
 */
#ifndef TESTS_UNIT_G4_SUPPORT_MEMORY_BUCKET_H
#define TESTS_UNIT_G4_SUPPORT_MEMORY_BUCKET_H

#include <pthread.h>

#include "g4/lock/lock.h"
#include "g4/object/g4_store.h"

enum { MEMORY_BUCKET_OBJECTS_MAX = 1024, MEMORY_BUCKET_PAGE = 7 };

struct memory_bucket_object {
    char key[KVT_KEY_MAX];
    uint8_t *body;
    size_t size;
    struct g4_meta meta;
    char etag[G4_ETAG_MAX]; /* equal bytes have equal ones, as MD5s do */
    uint64_t modified_ms;
};

/* All zero is an empty one: so is a lock that nobody has. */
struct memory_bucket {
    struct memory_bucket_object objects[MEMORY_BUCKET_OBJECTS_MAX]; /* sorted by key */
    size_t count;
    _Atomic uint64_t now_ms; /* everybody's time; a request takes a millisecond */
    pthread_mutex_t lock;    /* guards all of it, and the clients, while requests are served */
};

enum memory_bucket_death {
    MEMORY_BUCKET_LIVES,
    MEMORY_BUCKET_DIES_BEFORE, /* the request is not done, and nothing after it */
    MEMORY_BUCKET_DIES_AFTER,  /* it is done, and its answer is lost */
    MEMORY_BUCKET_STUMBLES,    /* it is done, and only its answer is lost */
};

struct memory_bucket_client {
    struct memory_bucket *memory;
    uint64_t calls;
    uint64_t at; /* the call, from 1 on, that `death` and `between` are about */
    enum memory_bucket_death death;
    void (*between)(void *arg, const struct g4_request *request); /* before it; may be NULL */
    void *arg;
    bool dead;
    uint64_t slow_ms; /* added to the bucket's time by each request */
};

/** A store that is this client's view of its bucket. */
struct g4_store *memory_bucket_open(struct memory_bucket_client *client);

/** Free all objects. */
void memory_bucket_clear(struct memory_bucket *bucket);

/** NULL: it is not there. */
struct memory_bucket_object *memory_bucket_find(struct memory_bucket *bucket, const char *key);

/** How many keys begin like that. */
size_t memory_bucket_count(const struct memory_bucket *bucket, const char *prefix);

/** The bucket's time, for locks on it. */
struct g4_lock_clock memory_bucket_clock(struct memory_bucket *bucket);

#endif /* TESTS_UNIT_G4_SUPPORT_MEMORY_BUCKET_H */
