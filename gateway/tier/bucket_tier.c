#include "gateway/tier/bucket_tier.h"

#include <assert.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/core/log.h"
#include "base/core/random.h"
#include "g4/directory/directory.h"
#include "g4/packed/packed_store.h"
#include "g4/pair/bucket_pair.h"
#include "gateway/catalog/catalog_record.h"

enum { PROBE_DEADLINE_MS = 5000, SKEW_MAX_MS = 5 * 60 * 1000 };

static const char probe_key[] = ".kvtier-probe";

struct gateway_bucket_tier {
    struct g4_store *store;
    struct g4_store *bucket; /* below `store` where that packs, else the same */
    struct g4_store *far;    /* below `store` too; NULL: there is none */
    bool packs;
    bool is_s3;
    bool is_driven;
    bool far_is_s3;
    _Atomic bool far_is_another; /* than `bucket`: it was tried */
    _Atomic bool far_takes;
    _Atomic bool healthy;
    _Atomic bool writable;
    _Atomic bool proven;

    struct {
        pthread_mutex_t lock; /* guards this struct */
        struct gateway_bucket_tier_state state;
        struct gateway_bucket_tier_state far;
    } shared;
};

const char *
gateway_bucket_tier_kind_name(enum gateway_bucket_tier_kind kind)
{
    static const char *const names[] = {"directory", "s3", "driver"};

    return names[kind];
}

enum kvt_err
gateway_bucket_tier_adopt(struct gateway_bucket_tier **out, struct g4_store *store)
{
    struct gateway_bucket_tier *buckets = kvt_calloc(1, sizeof(*buckets));

    *out = NULL;
    if (buckets == NULL)
        return KVT_NOMEM;
    if (pthread_mutex_init(&buckets->shared.lock, NULL) != 0) {
        kvt_free(buckets);
        return KVT_NOMEM;
    }
    (void)snprintf(buckets->shared.state.reason, sizeof(buckets->shared.state.reason),
                   "the bucket has not been probed yet");
    buckets->store = store;
    buckets->bucket = store;
    *out = buckets;
    return KVT_OK;
}

enum kvt_err
gateway_bucket_tier_open(struct gateway_bucket_tier **out,
                         const struct gateway_bucket_tier_options *options, struct kvt_error *err)
{
    const struct g4_directory_options directory = {.path = options->folder,
                                                   .threads = options->threads};
    struct g4_store *store = NULL;
    enum kvt_err rc;

    *out = NULL;
    switch (options->kind) {
    case GATEWAY_BUCKET_TIER_S3: rc = g4_s3_open(&store, &options->s3, err); break;
    case GATEWAY_BUCKET_TIER_DRIVER:
        rc = g4_driver_store_open(&store, &options->driver, err);
        break;
    case GATEWAY_BUCKET_TIER_DIRECTORY:
    default: rc = g4_directory_open(&store, &directory, err); break;
    }
    if (rc != KVT_OK)
        return rc;
    rc = gateway_bucket_tier_adopt(out, store);
    if (rc != KVT_OK) {
        g4_store_close(store);
        return kvt_error_set(err, rc, "bucket");
    }
    (*out)->is_s3 = options->kind == GATEWAY_BUCKET_TIER_S3;
    (*out)->is_driven = options->kind == GATEWAY_BUCKET_TIER_DRIVER;
    return KVT_OK;
}

void
gateway_bucket_tier_close(struct gateway_bucket_tier *buckets)
{
    if (buckets == NULL)
        return;
    g4_store_close(buckets->store);
    (void)pthread_mutex_destroy(&buckets->shared.lock);
    kvt_free(buckets);
}

enum kvt_err
gateway_bucket_tier_extend_by(struct gateway_bucket_tier *buckets, struct g4_store *far)
{
    enum kvt_err rc;

    assert(buckets->store == buckets->bucket);
    rc = g4_bucket_pair_open(&buckets->store, buckets->bucket, far);
    if (rc != KVT_OK) {
        buckets->store = buckets->bucket;
        return rc;
    }
    buckets->far = far;
    /* Nobody waits for it before it answered once. */
    g4_bucket_pair_tell(buckets->store, false);
    (void)snprintf(buckets->shared.far.reason, sizeof(buckets->shared.far.reason),
                   "the far bucket has not been probed yet");
    return KVT_OK;
}

enum kvt_err
gateway_bucket_tier_extend(struct gateway_bucket_tier *buckets,
                           const struct gateway_far_options *options, struct kvt_error *err)
{
    const struct g4_directory_options directory = {.path = options->folder,
                                                   .threads = options->threads};
    struct g4_store *store = NULL;
    enum kvt_err rc = options->kind == GATEWAY_FAR_S3 ? g4_s3_open(&store, &options->s3, err)
                                                      : g4_directory_open(&store, &directory, err);

    if (rc != KVT_OK)
        return rc;
    rc = gateway_bucket_tier_extend_by(buckets, store);
    if (rc != KVT_OK) {
        g4_store_close(store);
        return kvt_error_set(err, rc, "far bucket");
    }
    buckets->far_is_s3 = options->kind == GATEWAY_FAR_S3;
    return KVT_OK;
}

enum kvt_err
gateway_bucket_tier_pack(struct gateway_bucket_tier *buckets, const char *namespaces,
                         const char *instance, struct kvt_error *err)
{
    /* A folder has no clock of its own to judge locks by: one gateway has it for itself. */
    const struct g4_packed_store_options options = {
        .namespaces = namespaces, .instance = instance, .alone = !buckets->is_s3};
    const enum kvt_err rc = g4_packed_store_open(&buckets->store, buckets->bucket, &options, err);

    if (rc != KVT_OK)
        buckets->store = buckets->bucket;
    buckets->packs = rc == KVT_OK;
    return rc;
}

struct g4_store *
gateway_bucket_tier_store(struct gateway_bucket_tier *buckets)
{
    return buckets->store;
}

struct g4_store *
gateway_bucket_tier_bucket(struct gateway_bucket_tier *buckets, unsigned tier)
{
    if (tier == GATEWAY_FAR)
        return buckets->far;
    return buckets->far == NULL ? buckets->store : buckets->bucket;
}

bool
gateway_bucket_tier_packs(const struct gateway_bucket_tier *buckets)
{
    return buckets->packs;
}

bool
gateway_bucket_tier_is_driven(const struct gateway_bucket_tier *buckets)
{
    return buckets->is_driven;
}

const struct g4_endpoint *
gateway_bucket_tier_endpoint(const struct gateway_bucket_tier *buckets)
{
    return buckets->is_s3 ? g4_s3_endpoint(buckets->bucket) : NULL;
}

const struct g4_endpoint *
gateway_bucket_tier_far_endpoint(const struct gateway_bucket_tier *buckets)
{
    return buckets->far != NULL && buckets->far_is_s3 ? g4_s3_endpoint(buckets->far) : NULL;
}

static enum kvt_err
ask(struct g4_store *bucket, bool is_s3, int64_t *skew_ms, struct kvt_error *err)
{
    struct g4_request request = {
        .verb = G4_HEAD, .key = probe_key, .deadline_ms = kvt_clock_mono_ms() + PROBE_DEADLINE_MS};
    enum kvt_err rc;

    *skew_ms = 0;
    if (is_s3)
        return g4_s3_probe(bucket, skew_ms, err);
    rc = g4_store_perform(bucket, &request);
    if (rc == KVT_NOTFOUND)
        return KVT_OK;
    if (rc != KVT_OK)
        *err = request.error;
    return rc;
}

/* What the self-test means for writing: first-writer-wins stands on If-None-Match, repair on
 * If-Match, and every check on the metadata. */
static const char *
missing_promise(const struct g4_selftest *selftest)
{
    if (!selftest->put_if_absent)
        return "the bucket ignores If-None-Match on PUT: blocks cannot be stored safely";
    if (!selftest->put_if_match)
        return "the bucket ignores If-Match on PUT: bad blocks could not be repaired safely";
    if (!selftest->meta_kept)
        return "the bucket drops object metadata: blocks could not be checked";
    return NULL;
}

/* What the bucket does with conditions.  Who packs needs locks, which need more of a proof. */
static bool
test(struct gateway_bucket_tier *buckets, struct g4_selftest *selftest, struct kvt_error *err)
{
    if (!buckets->packs)
        return g4_selftest(buckets->bucket, selftest, err) == KVT_OK;
    if ((buckets->is_s3 ? g4_selftest_locks(buckets->bucket, selftest, err)
                        : g4_selftest(buckets->bucket, selftest, err)) != KVT_OK)
        return false;
    g4_packed_store_prove(buckets->store, selftest);
    return true;
}

/* Why namespaces that are marked for it are not packed; NULL: they are. */
static const char *
missing_lock(const struct gateway_bucket_tier *buckets, const struct g4_selftest *selftest)
{
    return buckets->packs && buckets->is_s3 ? g4_selftest_unsafe(selftest) : NULL;
}

static void
set_reason(struct gateway_bucket_tier_state *state, const char *text)
{
    (void)snprintf(state->reason, sizeof(state->reason), "%s", text == NULL ? "" : text);
}

/*
 * Are they two?  Names and addresses do not tell: what is put into the far one must not show in the
 * near one, or a move would drop its own copy.  False also while nobody can tell, and why.
 */
static bool
are_two(struct gateway_bucket_tier *buckets, struct kvt_error *err)
{
    const uint64_t deadline_ms = kvt_clock_mono_ms() + PROBE_DEADLINE_MS;
    char key[64];
    struct g4_request put = {.verb = G4_PUT,
                             .key = key,
                             .condition = G4_IF_ABSENT,
                             .body = "",
                             .deadline_ms = deadline_ms};
    struct g4_request look = {.verb = G4_HEAD, .key = key, .deadline_ms = deadline_ms};
    struct g4_request drop = {.verb = G4_DELETE, .key = key, .deadline_ms = deadline_ms};
    uint64_t nonce;
    enum kvt_err rc;

    kvt_random_system(&nonce, sizeof(nonce));
    (void)snprintf(key, sizeof(key), "%s-%016" PRIx64, probe_key, nonce);
    rc = g4_store_perform(buckets->far, &put);
    if (rc != KVT_OK) {
        *err = put.error;
        return false;
    }
    rc = g4_store_perform(buckets->bucket, &look);
    (void)!g4_store_perform(buckets->far, &drop);
    if (rc == KVT_NOTFOUND)
        return true;
    if (rc == KVT_OK)
        (void)kvt_error_set(err, KVT_INVALID, "it is the first bucket under another name");
    else
        *err = look.error;
    return false;
}

/* The far bucket, in the same way.  It has no part in whether blocks can be put. */
static void
probe_far(struct gateway_bucket_tier *buckets)
{
    const uint64_t start_ms = kvt_clock_mono_ms();
    struct gateway_bucket_tier_state state;
    struct kvt_error err = {.code = KVT_OK};
    bool was_healthy;
    enum kvt_err rc;

    (void)gateway_bucket_tier_far_state(buckets, &state);
    was_healthy = state.healthy;
    rc = ask(buckets->far, buckets->far_is_s3, &state.skew_ms, &err);
    state.latency_ms = kvt_clock_mono_ms() - start_ms;
    state.healthy = rc == KVT_OK;
    if (rc == KVT_OK && (!state.tested || missing_promise(&state.selftest) != NULL))
        state.tested = g4_selftest(buckets->far, &state.selftest, &err) == KVT_OK;
    if (rc == KVT_OK && state.tested && !buckets->far_is_another)
        buckets->far_is_another = are_two(buckets, &err);
    if (rc != KVT_OK || !state.tested || !buckets->far_is_another)
        (void)snprintf(state.reason, sizeof(state.reason), "far bucket: %.200s",
                       err.text[0] != '\0' ? err.text : kvt_err_text(rc));
    else if (missing_promise(&state.selftest) != NULL)
        (void)snprintf(state.reason, sizeof(state.reason), "far bucket: %.200s",
                       missing_promise(&state.selftest));
    else
        state.reason[0] = '\0';
    (void)pthread_mutex_lock(&buckets->shared.lock);
    buckets->shared.far = state;
    (void)pthread_mutex_unlock(&buckets->shared.lock);
    atomic_store(&buckets->far_takes, state.healthy && state.reason[0] == '\0');
    g4_bucket_pair_tell(buckets->store, state.healthy);
    if (was_healthy != state.healthy)
        kvt_log_info("gateway.cold", state.healthy ? "far_back" : "far_away", "%s",
                     state.healthy ? "the far bucket answers" : state.reason);
}

void
gateway_bucket_tier_probe(struct gateway_bucket_tier *buckets)
{
    const bool was_healthy = atomic_load(&buckets->healthy);
    const uint64_t start_ms = kvt_clock_mono_ms();
    struct gateway_bucket_tier_state state;
    struct gateway_bucket_tier_state before;
    struct kvt_error err = {.code = KVT_OK};
    enum kvt_err rc;

    if (buckets->far != NULL)
        probe_far(buckets);
    (void)pthread_mutex_lock(&buckets->shared.lock);
    state = buckets->shared.state;
    (void)pthread_mutex_unlock(&buckets->shared.lock);
    before = state;
    rc = ask(buckets->bucket, buckets->is_s3, &state.skew_ms, &err);
    state.latency_ms = kvt_clock_mono_ms() - start_ms;
    state.healthy = rc == KVT_OK;
    /* A promise that was not kept may be an answer that was lost: it is asked for again. */
    if (rc == KVT_OK && (!state.tested || missing_promise(&state.selftest) != NULL)) {
        state.tested = test(buckets, &state.selftest, &err);
        if (!state.tested)
            set_reason(&state, err.text);
    }
    if (rc != KVT_OK)
        set_reason(&state, err.text[0] != '\0' ? err.text : kvt_err_text(rc));
    else if (state.tested)
        set_reason(&state, missing_promise(&state.selftest));
    if (state.reason[0] == '\0' &&
        (state.skew_ms > SKEW_MAX_MS || state.skew_ms < -(int64_t)SKEW_MAX_MS))
        set_reason(&state, "clock differs from the bucket's by more than 5 minutes");
    if (state.reason[0] == '\0' && state.tested)
        set_reason(&state, missing_lock(buckets, &state.selftest));

    (void)pthread_mutex_lock(&buckets->shared.lock);
    buckets->shared.state = state;
    (void)pthread_mutex_unlock(&buckets->shared.lock);
    atomic_store(&buckets->healthy, state.healthy);
    atomic_store(&buckets->proven, state.tested && missing_promise(&state.selftest) == NULL);
    atomic_store(&buckets->writable, state.healthy && atomic_load(&buckets->proven));
    /* Also the first time, and when it is for another reason. */
    if (!state.healthy && (was_healthy || strcmp(state.reason, before.reason) != 0))
        kvt_log_warn("gateway.cold", "bucket_away", "%s", state.reason);
    else if (!was_healthy && state.healthy)
        kvt_log_info("gateway.cold", "bucket_back", "the bucket answers in %llu ms%s%s",
                     (unsigned long long)state.latency_ms, state.reason[0] == '\0' ? "" : "; ",
                     state.reason);
}

static void
suspect(struct gateway_bucket_tier *buckets)
{
    if (!atomic_exchange(&buckets->healthy, false))
        return;
    atomic_store(&buckets->writable, false);
    (void)pthread_mutex_lock(&buckets->shared.lock);
    buckets->shared.state.healthy = false;
    set_reason(&buckets->shared.state, "a request to the bucket was not answered");
    (void)pthread_mutex_unlock(&buckets->shared.lock);
    kvt_log_warn("gateway.cold", "bucket_suspect", "a request was not answered; probing");
}

enum kvt_err
gateway_bucket_tier_ended(struct gateway_bucket_tier *buckets, enum kvt_err status)
{
    if (status == KVT_UNAVAILABLE || status == KVT_TIMEOUT)
        suspect(buckets);
    return status;
}

static enum kvt_err
far_ended(struct gateway_bucket_tier *buckets, enum kvt_err status)
{
    if (status != KVT_UNAVAILABLE && status != KVT_TIMEOUT)
        return status;
    if (atomic_exchange(&buckets->far_takes, false))
        kvt_log_warn("gateway.cold", "far_suspect", "the far bucket did not answer; probing");
    g4_bucket_pair_tell(buckets->store, false);
    (void)pthread_mutex_lock(&buckets->shared.lock);
    buckets->shared.far.healthy = false;
    (void)snprintf(buckets->shared.far.reason, sizeof(buckets->shared.far.reason),
                   "a request to the far bucket was not answered");
    (void)pthread_mutex_unlock(&buckets->shared.lock);
    return status;
}

/* Ask for the object, and for no more of it than must be. */
static enum kvt_err
touch(struct g4_store *store, const char *key)
{
    uint8_t byte;
    struct g4_request request = {.verb = G4_GET,
                                 .key = key,
                                 .deadline_ms = kvt_clock_mono_ms() + GATEWAY_BUCKET_TIER_LOOK_MS,
                                 .buffer = &byte,
                                 .buffer_capacity = sizeof(byte)};

    return g4_store_perform(store, &request);
}

bool
gateway_bucket_tier_absent(struct gateway_bucket_tier *buckets, const char *key)
{
    return gateway_bucket_tier_ended(buckets, touch(buckets->store, key)) == KVT_NOTFOUND;
}

bool
gateway_bucket_tier_absent_far(struct gateway_bucket_tier *buckets, const char *key)
{
    return far_ended(buckets, touch(gateway_bucket_tier_bucket(buckets, GATEWAY_FAR), key)) ==
           KVT_NOTFOUND;
}

bool
gateway_bucket_tier_healthy(struct gateway_bucket_tier *buckets)
{
    return atomic_load(&buckets->healthy);
}

bool
gateway_bucket_tier_writable(struct gateway_bucket_tier *buckets)
{
    return atomic_load(&buckets->writable);
}

bool
gateway_bucket_tier_proven(struct gateway_bucket_tier *buckets)
{
    return atomic_load(&buckets->proven);
}

void
gateway_bucket_tier_state(struct gateway_bucket_tier *buckets,
                          struct gateway_bucket_tier_state *state)
{
    (void)pthread_mutex_lock(&buckets->shared.lock);
    *state = buckets->shared.state;
    if (buckets->far != NULL)
        state->selftest.delete_if_match = state->selftest.delete_if_match &&
                                          buckets->shared.far.tested &&
                                          buckets->shared.far.selftest.delete_if_match;
    (void)pthread_mutex_unlock(&buckets->shared.lock);
}

bool
gateway_bucket_tier_far_state(struct gateway_bucket_tier *buckets,
                              struct gateway_bucket_tier_state *state)
{
    (void)pthread_mutex_lock(&buckets->shared.lock);
    *state = buckets->shared.far;
    (void)pthread_mutex_unlock(&buckets->shared.lock);
    return buckets->far != NULL;
}

bool
gateway_bucket_tier_heeds(struct gateway_bucket_tier *buckets, unsigned tier)
{
    const struct gateway_bucket_tier_state *state =
        tier == GATEWAY_FAR ? &buckets->shared.far : &buckets->shared.state;
    bool heeds;

    (void)pthread_mutex_lock(&buckets->shared.lock);
    heeds = state->tested && state->selftest.delete_if_match;
    (void)pthread_mutex_unlock(&buckets->shared.lock);
    return heeds;
}

bool
gateway_bucket_tier_deletes(struct gateway_bucket_tier *buckets)
{
    struct gateway_bucket_tier_state far;

    return gateway_bucket_tier_healthy(buckets) &&
           (!gateway_bucket_tier_far_state(buckets, &far) || far.healthy);
}

bool
gateway_bucket_tier_takes(struct gateway_bucket_tier *buckets, unsigned tier)
{
    return tier == GATEWAY_FAR ? atomic_load(&buckets->far_takes)
                               : gateway_bucket_tier_writable(buckets);
}

enum kvt_err
gateway_bucket_tier_ended_of(struct gateway_bucket_tier *buckets, unsigned tier, enum kvt_err rc)
{
    return tier == GATEWAY_COLD ? gateway_bucket_tier_ended(buckets, rc) : far_ended(buckets, rc);
}

enum kvt_err
gateway_bucket_tier_perform(struct gateway_bucket_tier *buckets, struct g4_request *request)
{
    return gateway_bucket_tier_ended(buckets, g4_store_perform(buckets->store, request));
}

enum kvt_err
gateway_bucket_tier_perform_in(struct gateway_bucket_tier *buckets, unsigned tier,
                               struct g4_request *request)
{
    return gateway_bucket_tier_ended_of(
        buckets, tier, g4_store_perform(gateway_bucket_tier_bucket(buckets, tier), request));
}

static void
prepare_look(const char *key, struct g4_request *request)
{
    *request =
        (struct g4_request){.verb = G4_HEAD,
                            .key = key,
                            .deadline_ms = kvt_clock_mono_ms() + GATEWAY_BUCKET_TIER_LOOK_MS};
}

enum kvt_err
gateway_bucket_tier_look(struct gateway_bucket_tier *buckets, const char *key,
                         struct g4_request *request)
{
    prepare_look(key, request);
    return gateway_bucket_tier_perform(buckets, request);
}

enum kvt_err
gateway_bucket_tier_head(struct gateway_bucket_tier *buckets, const char *key, unsigned tier,
                         struct g4_request *request)
{
    prepare_look(key, request);
    return gateway_bucket_tier_perform_in(buckets, tier, request);
}
