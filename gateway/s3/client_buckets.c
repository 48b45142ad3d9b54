#include "gateway/s3/client_buckets.h"

#include <assert.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/core/log.h"
#include "base/core/random.h"
#include "base/text/parse.h"
#include "g4/object/check.h"
#include "gateway/tier/bucket_tier.h"

enum {
    MARKER_KEY = sizeof(GATEWAY_CLIENT_BUCKET_MARKERS) + GATEWAY_CLIENT_BUCKET_NAME,
    MARKER_MAX = 512, /* bytes of a marker */
    LOOK_AGAIN_MS = 50,
    SETTLE_MS = 5000,
};

#define FIRST_LINE "kvtier bucket 1\n"
#define OPEN       "open\n"
#define CLOSING    "closing\n"

struct slot {
    struct gateway_client_bucket bucket; /* name "": free */
    uint64_t seen_ms;                    /* monotonic */
};

struct gateway_client_buckets {
    struct gateway_client_bucket configured;
    size_t max;
    struct {
        pthread_mutex_t lock; /* guards this struct */
        struct slot slots[GATEWAY_CLIENT_BUCKETS_CACHED];
    } shared;
};

enum kvt_err
gateway_client_buckets_new(struct gateway_client_buckets **out, const char *configured,
                           const char *owner, uint64_t made_ms, size_t max)
{
    struct gateway_client_buckets *buckets = kvt_calloc(1, sizeof(*buckets));

    *out = NULL;
    if (buckets == NULL || pthread_mutex_init(&buckets->shared.lock, NULL) != 0) {
        kvt_free(buckets);
        return KVT_NOMEM;
    }
    (void)snprintf(buckets->configured.name, sizeof(buckets->configured.name), "%s", configured);
    (void)snprintf(buckets->configured.owner, sizeof(buckets->configured.owner), "%s", owner);
    buckets->configured.created_ms = made_ms;
    buckets->max = max < GATEWAY_CLIENT_BUCKETS_MAX ? max : GATEWAY_CLIENT_BUCKETS_MAX;
    *out = buckets;
    return KVT_OK;
}

void
gateway_client_buckets_free(struct gateway_client_buckets *buckets)
{
    if (buckets == NULL)
        return;
    (void)pthread_mutex_destroy(&buckets->shared.lock);
    kvt_free(buckets);
}

/* ---- what is remembered ---- */

/* FNV-1a; two names in one slot only ask the store more often. */
static struct slot *
slot_locked(struct gateway_client_buckets *buckets, const char *name)
{
    uint32_t hash = 2166136261u;

    for (; *name != '\0'; name++)
        hash = (hash ^ (unsigned char)*name) * 16777619u;
    return &buckets->shared.slots[hash % GATEWAY_CLIENT_BUCKETS_CACHED];
}

static void
remember(struct gateway_client_buckets *buckets, const struct gateway_client_bucket *bucket)
{
    struct slot *slot;

    (void)pthread_mutex_lock(&buckets->shared.lock);
    slot = slot_locked(buckets, bucket->name);
    slot->bucket = *bucket;
    slot->seen_ms = kvt_clock_mono_ms();
    (void)pthread_mutex_unlock(&buckets->shared.lock);
}

static void
forget(struct gateway_client_buckets *buckets, const char *name)
{
    struct slot *slot;

    (void)pthread_mutex_lock(&buckets->shared.lock);
    slot = slot_locked(buckets, name);
    if (strcmp(slot->bucket.name, name) == 0)
        slot->bucket.name[0] = '\0';
    (void)pthread_mutex_unlock(&buckets->shared.lock);
}

/* What is remembered of it, while that is fresh; `etag` (may be NULL): or while that is its own. */
static bool
recall(struct gateway_client_buckets *buckets, const char *name, const char *etag,
       struct gateway_client_bucket *bucket)
{
    const uint64_t now_ms = kvt_clock_mono_ms();
    const struct slot *slot;
    bool found;

    (void)pthread_mutex_lock(&buckets->shared.lock);
    slot = slot_locked(buckets, name);
    found = strcmp(slot->bucket.name, name) == 0 &&
            (etag == NULL ? now_ms - slot->seen_ms < GATEWAY_CLIENT_BUCKETS_FRESH_MS
                          : etag[0] != '\0' && strcmp(slot->bucket.etag, etag) == 0);
    if (found)
        *bucket = slot->bucket;
    (void)pthread_mutex_unlock(&buckets->shared.lock);
    return found;
}

/* ---- markers ---- */

static void
name_marker(const char *name, char key[MARKER_KEY])
{
    (void)snprintf(key, MARKER_KEY, GATEWAY_CLIENT_BUCKET_MARKERS "%s", name);
}

static enum kvt_err
perform(struct gateway_context *context, struct g4_request *request)
{
    if (!gateway_bucket_tier_healthy(context->tiers.buckets))
        return KVT_UNAVAILABLE;
    return gateway_bucket_tier_perform(context->tiers.buckets, request);
}

/* "<id> <time> <open|closing>", the owner in a line of its own. */
static enum kvt_err
put_marker(struct gateway_context *context, struct gateway_client_bucket *bucket,
           enum g4_condition condition)
{
    char key[MARKER_KEY];
    char body[MARKER_MAX];
    struct g4_request request = {.verb = G4_PUT, .key = key, .condition = condition, .body = body};
    enum kvt_err rc;

    name_marker(bucket->name, key);
    request.body_size =
        (size_t)snprintf(body, sizeof(body), FIRST_LINE "%s %" PRIu64 " %s%s\n", bucket->id,
                         bucket->created_ms, bucket->closing ? CLOSING : OPEN, bucket->owner);
    request.meta = (struct g4_meta){.present = true,
                                    .length = request.body_size,
                                    .crc32c = g4_check_crc32c(body, request.body_size)};
    memcpy(request.meta.writer, context->identity.name, sizeof(request.meta.writer));
    memcpy(request.etag, bucket->etag, sizeof(request.etag));
    rc = perform(context, &request);
    memcpy(bucket->etag, request.etag, sizeof(bucket->etag));
    return rc;
}

static bool
parse_marker(const char *body, struct gateway_client_bucket *bucket)
{
    const size_t id = sizeof(bucket->id) - 1;
    char time[24];
    size_t size;

    if (strncmp(body, FIRST_LINE, strlen(FIRST_LINE)) != 0)
        return false;
    body += strlen(FIRST_LINE);
    if (strspn(body, "0123456789abcdef") != id || body[id] != ' ')
        return false;
    memcpy(bucket->id, body, id);
    bucket->id[id] = '\0';
    body += id + 1;
    size = strcspn(body, " ");
    if (size >= sizeof(time) || body[size] != ' ')
        return false;
    memcpy(time, body, size);
    time[size] = '\0';
    if (kvt_parse_u64(time, &bucket->created_ms) != KVT_OK)
        return false;
    body += size + 1;
    bucket->closing = strncmp(body, CLOSING, strlen(CLOSING)) == 0;
    if (!bucket->closing && strncmp(body, OPEN, strlen(OPEN)) != 0)
        return false;
    body += strlen(bucket->closing ? CLOSING : OPEN);
    size = strcspn(body, "\n");
    if (size == 0 || size >= sizeof(bucket->owner) || body[size] != '\n')
        return false;
    memcpy(bucket->owner, body, size);
    bucket->owner[size] = '\0';
    return true;
}

/* `age_ms`: since it was written, by the store's clock. */
static enum kvt_err
get_marker(struct gateway_context *context, const char *name, struct gateway_client_bucket *bucket,
           uint64_t *age_ms)
{
    char key[MARKER_KEY];
    char body[MARKER_MAX + 1];
    struct g4_request request = {
        .verb = G4_GET, .key = key, .buffer = body, .buffer_capacity = MARKER_MAX};
    uint64_t now_ms;
    enum kvt_err rc;

    *bucket = (struct gateway_client_bucket){.name = ""};
    *age_ms = 0;
    name_marker(name, key);
    rc = perform(context, &request);
    if (rc != KVT_OK && rc != KVT_RANGE && rc != KVT_CORRUPT)
        return rc;
    body[rc == KVT_OK ? request.buffer_size : 0] = '\0';
    if (rc != KVT_OK ||
        g4_check_body(&request.meta, NULL, body, request.buffer_size, NULL) != KVT_OK ||
        !parse_marker(body, bucket)) {
        kvt_log_error("gateway.buckets", "marker", "%s is not a bucket's marker", key);
        return KVT_IO;
    }
    (void)snprintf(bucket->name, sizeof(bucket->name), "%s", name);
    memcpy(bucket->etag, request.etag, sizeof(bucket->etag));
    now_ms = request.server_ms != 0 ? request.server_ms : kvt_clock_unix_ms();
    *age_ms = now_ms > request.modified_ms ? now_ms - request.modified_ms : 0;
    return KVT_OK;
}

enum kvt_err
gateway_client_buckets_find(struct gateway_client_buckets *buckets, struct gateway_context *context,
                            const char *name, bool sure, struct gateway_client_bucket *bucket)
{
    uint64_t age_ms;
    enum kvt_err rc;

    *bucket = buckets->configured;
    if (strcmp(name, bucket->name) == 0)
        return KVT_OK;
    *bucket = (struct gateway_client_bucket){.name = ""};
    if (!gateway_client_bucket_name_valid(name))
        return KVT_NOTFOUND;
    if (!sure && recall(buckets, name, NULL, bucket))
        return KVT_OK;
    rc = get_marker(context, name, bucket, &age_ms);
    if (rc == KVT_OK && bucket->closing && age_ms > GATEWAY_CLIENT_BUCKETS_CLOSING_MS) {
        bucket->closing = false; /* who marked it is gone */
        if (put_marker(context, bucket, G4_IF_MATCH) != KVT_OK)
            rc = get_marker(context, name, bucket, &age_ms);
    }
    if (rc == KVT_OK)
        remember(buckets, bucket);
    else if (rc == KVT_NOTFOUND)
        forget(buckets, name);
    return rc;
}

enum kvt_err
gateway_client_buckets_list(struct gateway_client_buckets *buckets, struct gateway_context *context,
                            const char *after, struct gateway_client_bucket *rows, size_t *count)
{
    const size_t prefix = strlen(GATEWAY_CLIENT_BUCKET_MARKERS);
    char behind[MARKER_KEY];
    struct g4_request request = {.verb = G4_LIST,
                                 .key = GATEWAY_CLIENT_BUCKET_MARKERS,
                                 .after = after[0] == '\0' ? NULL : behind};
    enum kvt_err rc;

    *count = 0;
    name_marker(after, behind);
    request.listed = kvt_calloc(G4_LIST_KEYS_MAX, sizeof(*request.listed));
    if (request.listed == NULL)
        return KVT_NOMEM;
    do {
        rc = perform(context, &request);
        for (size_t i = 0; rc == KVT_OK && i < request.listed_count; i++) {
            const char *name = request.listed[i].key + prefix;
            enum kvt_err found = KVT_OK;

            if (*count == GATEWAY_CLIENT_BUCKETS_MAX)
                break;
            if (!recall(buckets, name, request.listed[i].etag, &rows[*count]))
                found = gateway_client_buckets_find(buckets, context, name, true, &rows[*count]);
            if (found == KVT_OK)
                (*count)++;
            else if (found != KVT_NOTFOUND && found != KVT_IO) /* gone meanwhile, or no marker */
                rc = found;
        }
    } while (rc == KVT_OK && request.token[0] != '\0' && *count < GATEWAY_CLIENT_BUCKETS_MAX);
    kvt_free(request.listed);
    return rc;
}

/* How many markers there are, as far as one page goes. */
static enum kvt_err
count_markers(struct gateway_context *context, size_t *count)
{
    struct g4_request request = {.verb = G4_LIST, .key = GATEWAY_CLIENT_BUCKET_MARKERS};
    enum kvt_err rc;

    static_assert(GATEWAY_CLIENT_BUCKETS_MAX <= G4_LIST_KEYS_MAX, "a page holds all buckets");
    *count = 0;
    request.listed = kvt_calloc(G4_LIST_KEYS_MAX, sizeof(*request.listed));
    if (request.listed == NULL)
        return KVT_NOMEM;
    rc = perform(context, &request);
    *count = request.listed_count;
    kvt_free(request.listed);
    return rc;
}

enum kvt_err
gateway_client_buckets_make(struct gateway_client_buckets *buckets, struct gateway_context *context,
                            const char *name, const char *owner,
                            struct gateway_client_bucket *bucket)
{
    uint64_t random;
    size_t count;
    enum kvt_err rc = gateway_client_buckets_find(buckets, context, name, true, bucket);

    if (rc != KVT_NOTFOUND)
        return rc == KVT_OK ? KVT_EXISTS : rc;
    if (!gateway_client_bucket_name_valid(name) || owner[0] == '\0' ||
        strlen(owner) >= GATEWAY_OWNER_MAX)
        return KVT_INVALID;
    if (!gateway_bucket_tier_writable(context->tiers.buckets))
        return KVT_UNAVAILABLE;
    rc = count_markers(context, &count);
    if (rc == KVT_OK && count >= buckets->max)
        rc = KVT_FULL;
    if (rc != KVT_OK)
        return rc;
    *bucket = (struct gateway_client_bucket){.created_ms = kvt_clock_unix_ms()};
    kvt_random_system(&random, sizeof(random));
    (void)snprintf(bucket->name, sizeof(bucket->name), "%s", name);
    (void)snprintf(bucket->owner, sizeof(bucket->owner), "%s", owner);
    (void)snprintf(bucket->id, sizeof(bucket->id), "%016" PRIx64, random);
    rc = put_marker(context, bucket, G4_IF_ABSENT);
    if (rc == KVT_OK)
        remember(buckets, bucket);
    if (rc != KVT_EXISTS)
        return rc;
    rc = gateway_client_buckets_find(buckets, context, name, true, bucket);
    return rc == KVT_OK ? KVT_EXISTS : rc == KVT_NOTFOUND ? KVT_AGAIN : rc;
}

/* KVT_BUSY when a name begins so. */
static enum kvt_err
look_below(struct gateway_context *context, const char *prefix)
{
    struct g4_request request = {.verb = G4_LIST, .key = prefix, .listed_wanted = 1};
    enum kvt_err rc;

    request.listed = kvt_calloc(G4_LIST_KEYS_MAX, sizeof(*request.listed));
    if (request.listed == NULL)
        return KVT_NOMEM;
    rc = perform(context, &request);
    if (rc == KVT_OK && (request.listed_count > 0 || request.token[0] != '\0'))
        rc = KVT_BUSY;
    kvt_free(request.listed);
    return rc;
}

/* KVT_BUSY when there is an object in it, also of a version that named objects otherwise. */
static enum kvt_err
look_empty(struct gateway_context *context, const struct gateway_client_bucket *bucket)
{
    static const enum g4_object_form forms[] = {G4_OBJECT_ESCAPED, G4_OBJECT_HASHED};
    struct g4_object_name prefix;
    char older[sizeof(GATEWAY_CLIENT_BUCKET_OLD) + GATEWAY_CLIENT_BUCKET_ID];
    enum kvt_err rc = KVT_OK;

    for (size_t i = 0; rc == KVT_OK && i < sizeof(forms) / sizeof(forms[0]); i++) {
        rc = g4_object_name_prefix(&prefix, bucket->id, forms[i], "");
        if (rc == KVT_OK)
            rc = look_below(context, prefix.text);
    }
    (void)snprintf(older, sizeof(older), GATEWAY_CLIENT_BUCKET_OLD "%s/", bucket->id);
    return rc == KVT_OK ? look_below(context, older) : rc;
}

/* The keys of its long names: objects go without them, since another one may be on its way. */
static void
drop_records(struct gateway_context *context, const struct gateway_client_bucket *bucket)
{
    char prefix[sizeof(G4_OBJECT_NAME_RECORD) + GATEWAY_CLIENT_BUCKET_ID];
    struct g4_request list = {.verb = G4_LIST, .key = prefix};
    enum kvt_err rc;

    (void)snprintf(prefix, sizeof(prefix), G4_OBJECT_NAME_RECORD "%s/", bucket->id);
    list.listed = kvt_calloc(G4_LIST_KEYS_MAX, sizeof(*list.listed));
    if (list.listed == NULL)
        return; /* records without an object cost a key's bytes each, and are never listed */
    do {
        rc = perform(context, &list);
        for (size_t i = 0; rc == KVT_OK && i < list.listed_count; i++) {
            struct g4_request drop = {.verb = G4_DELETE, .key = list.listed[i].key};

            rc = perform(context, &drop);
            rc = rc == KVT_NOTFOUND ? KVT_OK : rc;
        }
    } while (rc == KVT_OK && list.token[0] != '\0');
    kvt_free(list.listed);
}

static enum kvt_err
drop_marker(struct gateway_context *context, const struct gateway_client_bucket *bucket)
{
    char key[MARKER_KEY];
    struct g4_request request = {.verb = G4_DELETE, .key = key, .condition = G4_IF_MATCH};
    enum kvt_err rc;

    name_marker(bucket->name, key);
    memcpy(request.etag, bucket->etag, sizeof(request.etag));
    rc = perform(context, &request);
    return rc == KVT_NOTFOUND ? KVT_OK : rc;
}

enum kvt_err
gateway_client_buckets_remove(struct gateway_client_buckets *buckets,
                              struct gateway_context *context,
                              const struct gateway_client_bucket *bucket)
{
    struct gateway_client_bucket marked;
    uint64_t age_ms;
    uint64_t until_ms;
    enum kvt_err rc = get_marker(context, bucket->name, &marked, &age_ms);

    assert(!gateway_client_bucket_configured(bucket));
    if (rc == KVT_OK && strcmp(marked.id, bucket->id) != 0)
        rc = KVT_NOTFOUND;
    if (rc == KVT_OK && marked.closing && age_ms <= GATEWAY_CLIENT_BUCKETS_CLOSING_MS)
        rc = KVT_AGAIN;
    if (rc == KVT_OK)
        rc = look_empty(context, bucket); /* most refusals need no mark */
    if (rc != KVT_OK)
        return rc;
    until_ms = kvt_clock_mono_ms() + GATEWAY_CLIENT_BUCKETS_CLOSING_MS / 2;
    marked.closing = true;
    rc = put_marker(context, &marked, G4_IF_MATCH);
    if (rc != KVT_OK)
        return rc == KVT_PRECONDITION ? KVT_AGAIN : rc;
    forget(buckets, bucket->name);
    rc = look_empty(context, bucket);
    /* Not all stores look at If-Match here: late, it might be another's mark. */
    if (rc == KVT_OK && kvt_clock_mono_ms() < until_ms) {
        rc = drop_marker(context, &marked);
        if (rc == KVT_OK)
            drop_records(context, bucket);
    } else {
        marked.closing = false;
        (void)!put_marker(context, &marked, G4_IF_MATCH); /* else it runs out */
        rc = rc == KVT_OK ? KVT_AGAIN : rc;
    }
    forget(buckets, bucket->name);
    return rc;
}

enum kvt_err
gateway_client_buckets_settle(struct gateway_client_buckets *buckets,
                              struct gateway_context *context,
                              const struct gateway_client_bucket *bucket)
{
    const uint64_t until_ms = kvt_clock_mono_ms() + SETTLE_MS;
    struct gateway_client_bucket there;
    enum kvt_err rc;

    if (gateway_client_bucket_configured(bucket))
        return KVT_OK;
    for (;;) {
        rc = gateway_client_buckets_find(buckets, context, bucket->name, true, &there);
        if (rc == KVT_OK && strcmp(there.id, bucket->id) != 0)
            rc = KVT_NOTFOUND;
        if (rc != KVT_OK || !there.closing)
            return rc;
        if (kvt_clock_mono_ms() >= until_ms)
            return KVT_AGAIN;
        kvt_clock_sleep_ms(LOOK_AGAIN_MS);
    }
}
