#include "g4/s3/credentials.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/core/log.h"
#include "base/core/random.h"
#include "base/thread/cond.h"
#include "g4/s3/credentials_internal.h"

enum {
    EARLY_MS = 5 * 60 * 1000, /* how long before their end keys are renewed, if they last so long */
    RETRY_DEFAULT_MS = 1000,
    RETRY_MAX_MS = 60 * 1000,
    FOREVER_MS = 24 * 60 * 60 * 1000,
};

struct g4_credentials {
    struct g4_credentials_source plan;
    uint64_t retry_ms; /* at least between two questions */
    uint64_t random;   /* of the thread */
    pthread_t thread;
    bool running;

    struct {
        pthread_mutex_t lock; /* guards this struct */
        pthread_cond_t changed;
        bool stopping;
        bool rejected; /* the service would not have the keys */
        struct g4_keys keys;
        uint64_t generation; /* 0 = no keys were ever had */
        uint64_t failures;
        uint64_t asked_ms; /* monotonic: the last time */
        struct kvt_error error;
    } shared;
};

/* How long keys are left alone: until five minutes before their end, or half of what is left. */
static uint64_t
rest_ms(const struct g4_credentials *credentials, uint64_t expires_ms)
{
    const uint64_t now_ms = kvt_clock_unix_ms();
    const uint64_t left_ms = expires_ms > now_ms ? expires_ms - now_ms : 0;
    const uint64_t wait_ms = left_ms > 2 * (uint64_t)EARLY_MS ? left_ms - EARLY_MS : left_ms / 2;

    if (expires_ms == 0 || wait_ms > FOREVER_MS)
        return FOREVER_MS;
    return wait_ms > credentials->retry_ms ? wait_ms : credentials->retry_ms;
}

/* Full jitter under a bound that doubles. */
static uint64_t
backoff_ms(struct g4_credentials *credentials, uint64_t failures)
{
    const uint64_t doublings = failures < 8 ? failures - 1 : 7;
    const uint64_t bound_ms = credentials->retry_ms << doublings;

    return 1 + kvt_random_below(&credentials->random,
                                bound_ms < RETRY_MAX_MS ? bound_ms : RETRY_MAX_MS);
}

static void
tell(const struct g4_credentials *credentials, enum kvt_err rc, uint64_t failures,
     const struct kvt_error *err)
{
    if (rc != KVT_OK && failures == 1)
        kvt_log_warn("g4.credentials", "not_renewed", "%s: %s; trying again",
                     credentials->plan.where, err->text);
    else if (rc == KVT_OK && failures > 0)
        kvt_log_info("g4.credentials", "renewed", "%s answers again", credentials->plan.where);
}

/* Ask the link once and keep what it says; how long to wait before the next time. */
static uint64_t
renew(struct g4_credentials *credentials)
{
    struct kvt_error err = {0};
    struct g4_keys keys;
    uint64_t failures;
    uint64_t wait_ms;
    enum kvt_err rc;

    rc = g4_credentials_fetch(&credentials->plan, &keys, &err);
    if (rc == KVT_OK && keys.expires_ms != 0 && keys.expires_ms <= kvt_clock_unix_ms())
        rc = kvt_error_set(&err, KVT_INVALID, "the keys it hands out are over already");
    (void)pthread_mutex_lock(&credentials->shared.lock);
    credentials->shared.asked_ms = kvt_clock_mono_ms();
    credentials->shared.rejected = false;
    failures = credentials->shared.failures;
    if (rc == KVT_OK) {
        credentials->shared.keys = keys;
        credentials->shared.generation++;
        credentials->shared.failures = 0;
        memset(&credentials->shared.error, 0, sizeof(credentials->shared.error));
    } else {
        credentials->shared.failures = ++failures;
        credentials->shared.error = err;
    }
    (void)pthread_mutex_unlock(&credentials->shared.lock);
    tell(credentials, rc, failures, &err);
    wait_ms =
        rc == KVT_OK ? rest_ms(credentials, keys.expires_ms) : backoff_ms(credentials, failures);
    explicit_bzero(&keys, sizeof(keys));
    return wait_ms;
}

/* Wait until it is time, or until the keys were rejected; false: stop. */
static bool
wait_for_turn(struct g4_credentials *credentials, uint64_t wait_ms)
{
    const struct timespec due = kvt_cond_deadline(wait_ms);
    bool more = true;
    bool stopping;

    (void)pthread_mutex_lock(&credentials->shared.lock);
    while (more && !credentials->shared.stopping && !credentials->shared.rejected)
        more = kvt_cond_wait(&credentials->shared.changed, &credentials->shared.lock, &due);
    if (credentials->shared.rejected && !credentials->shared.stopping) {
        const uint64_t since_ms = kvt_clock_mono_ms() - credentials->shared.asked_ms;
        const struct timespec soon = kvt_cond_deadline(
            since_ms < credentials->retry_ms ? credentials->retry_ms - since_ms : 0);

        while (!credentials->shared.stopping &&
               kvt_cond_wait(&credentials->shared.changed, &credentials->shared.lock, &soon))
            continue;
    }
    stopping = credentials->shared.stopping;
    (void)pthread_mutex_unlock(&credentials->shared.lock);
    return !stopping;
}

/* The thread: `wait` first, for the opener has asked already. */
static void *
run(void *arg)
{
    struct g4_credentials *credentials = arg;
    uint64_t wait_ms;

    (void)pthread_mutex_lock(&credentials->shared.lock);
    wait_ms = credentials->shared.failures > 0
                  ? backoff_ms(credentials, 1)
                  : rest_ms(credentials, credentials->shared.keys.expires_ms);
    (void)pthread_mutex_unlock(&credentials->shared.lock);
    while (wait_for_turn(credentials, wait_ms))
        wait_ms = renew(credentials);
    return NULL;
}

enum kvt_err
g4_credentials_open(struct g4_credentials **out, const struct g4_credentials_options *options,
                    struct kvt_error *err)
{
    struct g4_credentials *credentials = kvt_calloc(1, sizeof(*credentials));
    enum kvt_err rc;

    *out = NULL;
    if (credentials == NULL)
        return kvt_error_set(err, KVT_NOMEM, "credentials");
    (void)pthread_mutex_init(&credentials->shared.lock, NULL);
    if (!kvt_cond_init(&credentials->shared.changed)) {
        (void)pthread_mutex_destroy(&credentials->shared.lock);
        kvt_free(credentials);
        return kvt_error_set(err, KVT_NOMEM, "credentials");
    }
    credentials->retry_ms = options->retry_ms == 0 ? RETRY_DEFAULT_MS : options->retry_ms;
    kvt_random_system(&credentials->random, sizeof(credentials->random));
    rc = g4_credentials_source_make(&credentials->plan, options, err);
    if (rc != KVT_OK)
        goto fail;
    (void)renew(credentials);
    if (!g4_credentials_source_renews(&credentials->plan)) {
        *out = credentials;
        return KVT_OK;
    }
    /* Metadata is asked where nothing is set up: silence or a refusal then means that there is
     * nothing. */
    if (credentials->plan.link == G4_CREDENTIALS_METADATA && credentials->shared.generation == 0) {
        const enum kvt_err code = credentials->shared.error.code;

        if (code == KVT_UNAVAILABLE || code == KVT_TIMEOUT || code == KVT_DENIED) {
            rc = kvt_error_set(err, KVT_NOTFOUND,
                               "no S3 credentials: set AWS_ACCESS_KEY_ID and "
                               "AWS_SECRET_ACCESS_KEY; there is no profile, no web identity and no "
                               "container, and instance metadata: %.96s",
                               credentials->shared.error.text);
            goto fail;
        }
    }
    if (pthread_create(&credentials->thread, NULL, run, credentials) != 0) {
        rc = kvt_error_set(err, KVT_NOMEM, "credentials: no thread");
        goto fail;
    }
    credentials->running = true;
    *out = credentials;
    return KVT_OK;

fail:
    g4_credentials_close(credentials);
    return rc;
}

void
g4_credentials_close(struct g4_credentials *credentials)
{
    if (credentials == NULL)
        return;
    if (credentials->running) {
        (void)pthread_mutex_lock(&credentials->shared.lock);
        credentials->shared.stopping = true;
        (void)pthread_cond_signal(&credentials->shared.changed);
        (void)pthread_mutex_unlock(&credentials->shared.lock);
        (void)pthread_join(credentials->thread, NULL);
    }
    (void)pthread_cond_destroy(&credentials->shared.changed);
    (void)pthread_mutex_destroy(&credentials->shared.lock);
    explicit_bzero(credentials, sizeof(*credentials));
    kvt_free(credentials);
}

enum kvt_err
g4_credentials_take(struct g4_credentials *credentials, struct g4_keys *keys, uint64_t *generation,
                    struct kvt_error *err)
{
    const uint64_t now_ms = kvt_clock_unix_ms();
    enum kvt_err rc = KVT_OK;

    (void)pthread_mutex_lock(&credentials->shared.lock);
    *keys = credentials->shared.keys;
    *generation = credentials->shared.generation;
    if (*generation == 0)
        rc = kvt_error_set(err, KVT_DENIED, "no credentials yet from %.80s: %.150s",
                           credentials->plan.where, credentials->shared.error.text);
    else if (keys->expires_ms != 0 && keys->expires_ms <= now_ms)
        rc = kvt_error_set(err, KVT_DENIED, "credentials from %.80s are over: %.150s",
                           credentials->plan.where, credentials->shared.error.text);
    (void)pthread_mutex_unlock(&credentials->shared.lock);
    if (rc != KVT_OK)
        explicit_bzero(keys, sizeof(*keys));
    return rc;
}

uint64_t
g4_credentials_generation(struct g4_credentials *credentials)
{
    uint64_t generation;

    (void)pthread_mutex_lock(&credentials->shared.lock);
    generation = credentials->shared.generation;
    (void)pthread_mutex_unlock(&credentials->shared.lock);
    return generation;
}

bool
g4_credentials_reject(struct g4_credentials *credentials, uint64_t generation)
{
    if (!credentials->running)
        return false;
    (void)pthread_mutex_lock(&credentials->shared.lock);
    if (generation == credentials->shared.generation && !credentials->shared.rejected) {
        credentials->shared.rejected = true;
        (void)pthread_cond_signal(&credentials->shared.changed);
    }
    (void)pthread_mutex_unlock(&credentials->shared.lock);
    return true;
}

void
g4_credentials_state(struct g4_credentials *credentials, struct g4_credentials_state *state)
{
    memset(state, 0, sizeof(*state));
    state->link = credentials->plan.link;
    memcpy(state->where, credentials->plan.where, sizeof(state->where));
    (void)pthread_mutex_lock(&credentials->shared.lock);
    state->expires_ms = credentials->shared.keys.expires_ms;
    state->renewals = credentials->shared.generation;
    state->failures = credentials->shared.failures;
    state->error = credentials->shared.error;
    (void)pthread_mutex_unlock(&credentials->shared.lock);
}
