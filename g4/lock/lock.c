#include "g4/lock/lock.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/core/random.h"

struct g4_lock {
    struct g4_store *store;
    struct g4_lock_clock clock;
    struct g4_lease lease;
    bool rests;               /* given back, or never held */
    _Atomic uint64_t stop_ms; /* 0: lost */
};

static uint64_t
real_mono_ms(void *arg)
{
    (void)arg;
    return kvt_clock_mono_ms();
}

static uint64_t
real_unix_ms(void *arg)
{
    (void)arg;
    return kvt_clock_unix_ms();
}

static uint64_t
now_ms(const struct g4_lock *lock)
{
    return lock->clock.mono_ms(lock->clock.arg);
}

static uint64_t
unix_ms(const struct g4_lock *lock)
{
    return lock->clock.unix_ms(lock->clock.arg);
}

static uint64_t
nonce_make(void)
{
    uint64_t nonce = 0;

    while (nonce == 0)
        kvt_random_system(&nonce, sizeof(nonce));
    return nonce;
}

/* Go through the operation that was begun. */
static enum kvt_err
run(struct g4_lock *lock, struct kvt_error *err)
{
    struct g4_lease *lease = &lock->lease;
    struct g4_request *request = g4_lease_next(lease, now_ms(lock), unix_ms(lock));

    while (request != NULL) {
        const enum kvt_err rc = g4_store_perform(lock->store, request);

        (void)rc; /* request->status, which the lease reads */
        request = g4_lease_next(lease, now_ms(lock), unix_ms(lock));
    }
    atomic_store(&lock->stop_ms, g4_lease_stop_ms(lease));
    if (lease->outcome != KVT_OK && err != NULL)
        *err = lease->error;
    return lease->outcome;
}

static enum kvt_err
lock_new(struct g4_lock **out, const struct g4_lock_options *options, struct kvt_error *err)
{
    static const struct g4_lock_clock real = {.mono_ms = real_mono_ms, .unix_ms = real_unix_ms};
    char key[KVT_KEY_MAX];
    const int size = snprintf(key, sizeof(key), "%s" G4_LOCK_SUFFIX, options->name);
    struct g4_lock *lock = kvt_calloc(1, sizeof(*lock));
    enum kvt_err rc = KVT_OK;

    *out = NULL;
    if (lock == NULL)
        rc = kvt_error_set(err, KVT_NOMEM, "lock %.80s", options->name);
    else if (size < 0 || (size_t)size >= sizeof(key))
        rc = kvt_error_set(err, KVT_INVALID, "lock: the name has more than %zu bytes",
                           sizeof(key) - sizeof(G4_LOCK_SUFFIX));
    else
        rc = g4_lease_init(
            &lock->lease,
            &(struct g4_lease_options){
                .key = key,
                .instance = options->instance,
                .ttl_ms = options->ttl_ms == 0 ? G4_LOCK_TTL_DEFAULT_MS : options->ttl_ms,
                .epoch_min = options->epoch_min,
            },
            err);
    if (rc != KVT_OK) {
        kvt_free(lock);
        return rc;
    }
    lock->store = options->store;
    lock->clock = options->clock == NULL ? real : *options->clock;
    *out = lock;
    return KVT_OK;
}

enum kvt_err
g4_lock_acquire(struct g4_lock **out, const struct g4_lock_options *options, struct kvt_error *err)
{
    const char *unsafe = g4_selftest_unsafe(options->proved);
    struct g4_lock *lock;
    enum kvt_err rc;

    *out = NULL;
    if (unsafe != NULL)
        return kvt_error_set(err, KVT_UNSUPPORTED, "lock %.80s: %s", options->name, unsafe);
    rc = lock_new(&lock, options, err);
    if (rc != KVT_OK)
        return rc;
    rc = g4_lock_retake(lock, err);
    if (rc == KVT_OK)
        *out = lock;
    else
        kvt_free(lock);
    return rc;
}

enum kvt_err
g4_lock_retake(struct g4_lock *lock, struct kvt_error *err)
{
    enum kvt_err rc;

    lock->rests = false;
    g4_lease_acquire(&lock->lease, now_ms(lock), unix_ms(lock), nonce_make());
    rc = run(lock, err);
    if (rc != KVT_OK && lock->lease.held) /* won too late to be of use */
        (void)g4_lock_rest(lock, NULL);
    lock->rests = rc != KVT_OK;
    return rc;
}

enum kvt_err
g4_lock_renew(struct g4_lock *lock, struct kvt_error *err)
{
    g4_lease_renew(&lock->lease, now_ms(lock), unix_ms(lock));
    return run(lock, err);
}

uint64_t
g4_lock_renew_ms(const struct g4_lock *lock)
{
    return g4_lease_renew_ms(&lock->lease);
}

uint64_t
g4_lock_stop_ms(const struct g4_lock *lock)
{
    return atomic_load(&lock->stop_ms);
}

bool
g4_lock_lost(const struct g4_lock *lock)
{
    return now_ms(lock) >= atomic_load(&lock->stop_ms);
}

uint64_t
g4_lock_epoch(const struct g4_lock *lock)
{
    return lock->lease.body.epoch;
}

enum kvt_err
g4_lock_rest(struct g4_lock *lock, struct kvt_error *err)
{
    atomic_store(&lock->stop_ms, 0);
    lock->rests = true;
    g4_lease_release(&lock->lease, now_ms(lock));
    return run(lock, err);
}

enum kvt_err
g4_lock_release(struct g4_lock *lock, struct kvt_error *err)
{
    enum kvt_err rc = KVT_OK;

    if (lock != NULL && !lock->rests)
        rc = g4_lock_rest(lock, err);
    kvt_free(lock);
    return rc;
}

enum kvt_err
g4_lock_look(struct g4_store *store, const char *key, uint64_t deadline_ms,
             struct g4_lease_seen *seen, struct kvt_error *err)
{
    char body[G4_LOCK_BODY_MAX];
    struct g4_request request = {.verb = G4_GET,
                                 .key = key,
                                 .deadline_ms = deadline_ms,
                                 .buffer = body,
                                 .buffer_capacity = sizeof(body)};
    const enum kvt_err rc = g4_store_perform(store, &request);

    memset(seen, 0, sizeof(*seen));
    if (rc != KVT_OK && rc != KVT_RANGE) {
        if (err != NULL)
            *err = request.error;
        return rc;
    }
    g4_lease_judge(seen, &request);
    return KVT_OK;
}

enum kvt_err
g4_lock_break(struct g4_store *store, const char *key, const struct g4_lease_seen *seen,
              const char *instance, struct kvt_error *err)
{
    struct g4_lock_body body = {.acquired_ms = kvt_clock_unix_ms(),
                                .nonce = nonce_make(),
                                .epoch = seen->body.epoch + 1,
                                .released = true};
    struct g4_request request = {.verb = G4_PUT, .key = key, .condition = G4_IF_MATCH};
    char text[G4_LOCK_BODY_MAX];
    enum kvt_err rc;

    (void)snprintf(body.instance, sizeof(body.instance), "%s", instance);
    rc = g4_lock_body_format(&body, text, &request.body_size);
    if (rc != KVT_OK || seen->etag[0] == '\0')
        return kvt_error_set(err, KVT_INVALID, "%.80s: no ETag, or a clock beyond 9999", key);
    memcpy(request.etag, seen->etag, sizeof(request.etag));
    request.body = text;
    rc = g4_store_perform(store, &request);
    if (rc != KVT_OK && err != NULL)
        *err = request.error;
    return rc;
}
