#include "worker/object/store_lock.h"

#include <assert.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/core/log.h"
#include "base/thread/cond.h"
#include "g4/s3/s3.h"

#define FOLDER "kvtier-stores"

enum {
    REQUEST_MS = 2000, /* patience with one request, and at most a quarter of the lease */
    DOUBT_MS = 1000,   /* a tier that could not be asked is asked again after */
    DENIED_MS = 60000, /* ... and one that denied us: rights are given while we run */
};

struct part {
    bool busy;            /* somebody asks the tier for it; `lock` is his meanwhile */
    bool taken;           /* `lock` is held under `epoch` */
    struct g4_lock *lock; /* NULL: never had; else held, or it rests */
    uint64_t epoch;       /* the largest there was */
};

struct worker_store_lock {
    struct g4_store *store;
    bool owned;
    char namespace_[KVT_NAMESPACE_MAX];
    char instance[KVT_NAME_MAX];
    uint64_t lease_ms;
    const struct g4_lock_clock *clock;
    pthread_t prover;
    bool proves;          /* the thread was made */
    pthread_mutex_t lock; /* guards what follows; not held while the tier is asked */
    pthread_cond_t stopped;
    bool stopping;
    bool proved;       /* `safe` is known, and says so */
    bool forbidden;    /* there are no locks for us */
    bool said;         /* that there are none */
    uint64_t again_ms; /* there are none before that, by `clock` */
    struct g4_selftest safe;
    struct part parts[WORKER_STORE_LOCK_PARTS];
};

/* ---- are there locks? ---- */

static uint64_t
now_ms(const struct worker_store_lock *fence)
{
    return fence->clock == NULL ? kvt_clock_mono_ms() : fence->clock->mono_ms(fence->clock->arg);
}

/* From now on there are none, or for a while where the tier denied them; said once. */
static enum kvt_err
forbid(struct worker_store_lock *fence, enum kvt_err rc, const char *why)
{
    bool first;

    (void)pthread_mutex_lock(&fence->lock);
    first = !fence->said;
    fence->said = true;
    if (rc == KVT_DENIED)
        fence->again_ms = now_ms(fence) + DENIED_MS;
    else
        fence->forbidden = true;
    (void)pthread_mutex_unlock(&fence->lock);
    if (first)
        kvt_log_warn("worker.fence", "no_locks",
                     "%s: instances that share the bucket may store the same blocks at once%s", why,
                     rc == KVT_DENIED ? "; asked again every minute" : "");
    return KVT_UNSUPPORTED;
}

/* No right, or no such keys. */
static bool
is_refusal(enum kvt_err rc)
{
    return rc == KVT_DENIED || rc == KVT_INVALID || rc == KVT_UNSUPPORTED || rc == KVT_RANGE;
}

/* True: it is to be asked again. */
static bool
wait_again(struct worker_store_lock *fence, uint64_t wait_ms)
{
    const struct timespec deadline = kvt_cond_deadline(wait_ms);
    bool again;

    (void)pthread_mutex_lock(&fence->lock);
    while (!fence->stopping && kvt_cond_wait(&fence->stopped, &fence->lock, &deadline))
        continue;
    again = !fence->stopping;
    (void)pthread_mutex_unlock(&fence->lock);
    return again;
}

static void *
prove(void *arg)
{
    struct worker_store_lock *fence = arg;
    enum kvt_err rc;

    do {
        struct g4_selftest safe;
        struct kvt_error err = {.text = ""};
        const char *unsafe;

        rc = g4_selftest_locks_in(fence->store, G4_SELFTEST_BEHIND, &safe, &err);
        unsafe = is_refusal(rc) ? err.text : rc == KVT_OK ? g4_selftest_unsafe(&safe) : NULL;
        (void)pthread_mutex_lock(&fence->lock);
        fence->safe = safe;
        fence->proved = rc == KVT_OK && unsafe == NULL;
        (void)pthread_mutex_unlock(&fence->lock);
        if (unsafe != NULL)
            (void)forbid(fence, rc, unsafe);
        if (unsafe != NULL && rc != KVT_DENIED)
            break;
    } while (rc != KVT_OK && wait_again(fence, rc == KVT_DENIED ? DENIED_MS : DOUBT_MS));
    return NULL;
}

static bool
has_locks(struct worker_store_lock *fence)
{
    bool has;

    (void)pthread_mutex_lock(&fence->lock);
    has = fence->proved && !fence->forbidden && now_ms(fence) >= fence->again_ms;
    (void)pthread_mutex_unlock(&fence->lock);
    return has;
}

/* ---- opening ---- */

enum kvt_err
worker_store_lock_new(struct worker_store_lock **out,
                      const struct worker_store_lock_options *options, struct kvt_error *err)
{
    struct worker_store_lock *fence;

    *out = NULL;
    if (strlen(options->namespace_) >= KVT_NAMESPACE_MAX ||
        strlen(options->instance) >= KVT_NAME_MAX)
        return kvt_error_set(err, KVT_RANGE, "fence: namespace or name too long");
    fence = kvt_calloc(1, sizeof(*fence));
    if (fence == NULL)
        return kvt_error_set(err, KVT_NOMEM, "fence: out of memory");
    (void)snprintf(fence->namespace_, sizeof(fence->namespace_), "%s", options->namespace_);
    (void)snprintf(fence->instance, sizeof(fence->instance), "%s", options->instance);
    fence->store = options->store;
    fence->lease_ms = options->lease_ms;
    fence->clock = options->clock;
    fence->proved = options->proved != NULL;
    if (options->proved != NULL)
        fence->safe = *options->proved;
    (void)pthread_mutex_init(&fence->lock, NULL);
    (void)kvt_cond_init(&fence->stopped);
    fence->proves =
        options->proved == NULL && pthread_create(&fence->prover, NULL, prove, fence) == 0;
    if (options->proved == NULL && !fence->proves) {
        worker_store_lock_close(fence);
        return kvt_error_set(err, KVT_NOMEM, "fence: no thread");
    }
    *out = fence;
    return KVT_OK;
}

/* A gateway speaks S3 in the place of the bucket. */
static struct g4_s3_options
store_options(const struct worker_settings *settings, uint64_t lease_ms)
{
    const bool behind = settings->s3.endpoint[0] == '\0';

    return (struct g4_s3_options){
        .endpoint = behind ? settings->endpoint : settings->s3.endpoint,
        .bucket = settings->bucket,
        .region = behind ? "" : settings->s3.region,
        .access_key = settings->access_key,
        .secret_key = settings->secret_key,
        .session_token = behind ? "" : settings->s3.session_token,
        .find_credentials = !behind && settings->access_key[0] == '\0',
        .ca_file = behind ? "" : settings->s3.ca_file,
        .path_style = behind || settings->s3.path_style,
        .connections_max = G4_SELFTEST_RACERS,
        .timeout_ms = lease_ms / 4 < REQUEST_MS ? lease_ms / 4 : REQUEST_MS,
    };
}

enum kvt_err
worker_store_lock_open(struct worker_store_lock **out, const struct worker_settings *settings,
                       const char *instance, uint64_t lease_ms, struct kvt_error *err)
{
    const struct g4_s3_options options = store_options(settings, lease_ms);
    struct g4_store *store;
    enum kvt_err rc;

    *out = NULL;
    if (options.endpoint[0] == '\0')
        return KVT_OK;
    rc = g4_s3_open(&store, &options, err);
    if (rc != KVT_OK)
        return rc;
    rc = worker_store_lock_new(out,
                               &(struct worker_store_lock_options){
                                   .store = store,
                                   .namespace_ = settings->namespace_,
                                   .instance = instance,
                                   .lease_ms = lease_ms,
                               },
                               err);
    if (rc != KVT_OK)
        g4_store_close(store);
    else
        (*out)->owned = true;
    return rc;
}

void
worker_store_lock_close(struct worker_store_lock *fence)
{
    if (fence == NULL)
        return;
    (void)pthread_mutex_lock(&fence->lock);
    fence->stopping = true;
    (void)pthread_cond_signal(&fence->stopped);
    (void)pthread_mutex_unlock(&fence->lock);
    if (fence->proves)
        (void)pthread_join(fence->prover, NULL);
    for (size_t i = 0; i < WORKER_STORE_LOCK_PARTS; i++)
        (void)g4_lock_release(fence->parts[i].lock, NULL);
    if (fence->owned)
        g4_store_close(fence->store);
    (void)pthread_cond_destroy(&fence->stopped);
    (void)pthread_mutex_destroy(&fence->lock);
    kvt_free(fence);
}

/* ---- locks ---- */

static enum kvt_err
take(struct worker_store_lock *fence, uint32_t part, struct g4_lock **lock, struct kvt_error *err)
{
    char name[KVT_NAMESPACE_MAX + sizeof(FOLDER) + 16];

    if (*lock != NULL)
        return g4_lock_retake(*lock, err);
    (void)snprintf(name, sizeof(name), "%s%s" FOLDER "/%" PRIu32, fence->namespace_,
                   fence->namespace_[0] == '\0' ? "" : "/", part);
    return g4_lock_acquire(lock,
                           &(struct g4_lock_options){
                               .store = fence->store,
                               .proved = &fence->safe,
                               .name = name,
                               .instance = fence->instance,
                               .ttl_ms = fence->lease_ms,
                               .clock = fence->clock,
                           },
                           err);
}

/* Nobody else asks for it; false: somebody does, or it is not `taken`. */
static bool
begin(struct worker_store_lock *fence, struct part *own, bool taken, uint64_t epoch)
{
    bool begun;

    (void)pthread_mutex_lock(&fence->lock);
    begun = !own->busy && own->taken == taken && (!taken || own->epoch == epoch);
    own->busy = own->busy || begun;
    (void)pthread_mutex_unlock(&fence->lock);
    return begun;
}

enum kvt_err
worker_store_lock_acquire(struct worker_store_lock *fence, uint32_t part,
                          struct worker_store_lock_lease *lease)
{
    struct part *own = &fence->parts[part];
    struct kvt_error err = {.text = ""};
    enum kvt_err rc;

    assert(part < WORKER_STORE_LOCK_PARTS);
    *lease = (struct worker_store_lock_lease){0};
    if (!has_locks(fence))
        return KVT_UNSUPPORTED;
    if (!begin(fence, own, false, 0))
        return KVT_BUSY;
    rc = take(fence, part, &own->lock, &err);
    (void)pthread_mutex_lock(&fence->lock);
    own->busy = false;
    own->taken = rc == KVT_OK;
    if (rc == KVT_OK) {
        own->epoch = g4_lock_epoch(own->lock);
        *lease = (struct worker_store_lock_lease){own->epoch, g4_lock_stop_ms(own->lock)};
    }
    (void)pthread_mutex_unlock(&fence->lock);
    return is_refusal(rc) ? forbid(fence, rc, err.text) : rc;
}

enum kvt_err
worker_store_lock_release(struct worker_store_lock *fence, uint32_t part,
                          const struct worker_store_lock_lease *lease)
{
    struct part *own = &fence->parts[part];
    bool late;
    enum kvt_err rc;

    assert(part < WORKER_STORE_LOCK_PARTS);
    if (!begin(fence, own, true, lease->token))
        return KVT_PRECONDITION;
    late = g4_lock_lost(own->lock);
    rc = g4_lock_rest(own->lock, NULL);
    (void)pthread_mutex_lock(&fence->lock);
    own->busy = own->taken = false;
    (void)pthread_mutex_unlock(&fence->lock);
    return late ? KVT_PRECONDITION : rc;
}
