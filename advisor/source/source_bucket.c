#include <endian.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "advisor/source/source_private.h"
#include "advisor/store/number_map.h"
#include "advisor/transport/bucket_listing.h"
#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/core/log.h"
#include "kvtier/key.h"
#include "wire/dialect/minio.h"
#include "wire/nats/bus.h"

#define LISTING_BYTES_MAX (256u << 20) /* of keys */

/*
 * Notifications have no numbers, so what was lost shows in nothing but the connection: it came
 * back, or there was no room; what the store itself failed to tell shows in nothing at all.  Where
 * the bucket may be listed it is, then and now and then: what was held is void, and what is there
 * is told as if it had just been stored, a namespace at a time, for each has a publisher of its
 * own.  One of which nothing is left is not in the listing and stays in doubt.  What is heard
 * meanwhile waits and is told behind all that, in its order, so that the newest word stands.
 */

enum {
    NAP_MS = 100,
    RETRY_MIN_MS = 1000,
    RETRY_MAX_MS = 60000,
    RECORDS_MAX = 512, /* of one message */
    MESSAGE_MAX = 4 << 20,
    RELEASE_ITEMS = 256,
};

struct advisor_source_bucket {
    struct advisor_source *source;
    struct advisor_inbox *held;
    pthread_mutex_t lock; /* guards `holding`, and the order of what is heard */
    bool holding;
};

static bool
is_listed(const struct advisor_source *source)
{
    return source->options.bucket_url != NULL && source->options.bucket_url[0] != '\0';
}

static void
heard(void *arg, const char *subject, const char *reply, const void *bytes, size_t size)
{
    struct advisor_source *source = arg;
    struct advisor_source_bucket *bucket = source->own;
    const struct advisor_inbox_item like = {.kind = ADVISOR_INBOX_ITEM_MESSAGE,
                                            .time_ms = kvt_clock_unix_coarse_ms()};

    (void)reply;
    (void)pthread_mutex_lock(&bucket->lock);
    if (!bucket->holding)
        (void)advisor_source_copy(source, &like, subject, bytes, size);
    else if (advisor_inbox_copy(bucket->held, &like, subject, bytes, size, 0) != KVT_OK)
        advisor_source_count_dropped(source);
    (void)pthread_mutex_unlock(&bucket->lock);
}

/* ---- what was heard meanwhile ---- */

static void
hold(struct advisor_source_bucket *bucket)
{
    (void)pthread_mutex_lock(&bucket->lock);
    bucket->holding = true;
    (void)pthread_mutex_unlock(&bucket->lock);
}

static void
release(struct advisor_source_bucket *bucket)
{
    struct advisor_inbox_item *items[RELEASE_ITEMS];
    size_t count;

    do {
        (void)pthread_mutex_lock(&bucket->lock);
        count = advisor_inbox_take(bucket->held, items, RELEASE_ITEMS, 0);
        bucket->holding = count > 0;
        (void)pthread_mutex_unlock(&bucket->lock);
        for (size_t i = 0; i < count; i++) {
            (void)advisor_source_copy_wait(bucket->source, items[i], items[i]->subject,
                                           items[i]->bytes, items[i]->size);
            advisor_inbox_item_free(items[i]);
        }
    } while (count > 0);
}

/* ---- what is there ---- */

struct teller {
    struct advisor_source *source;
    struct advisor_number_map *spaces; /* namespaces that were begun */
    char name[ADVISOR_BUCKET_LISTING_NAME_MAX];
    char space[KVT_NAMESPACE_MAX]; /* of the message: it may speak of one only */
    struct kvt_buffer message;
    size_t records;
    size_t told;
};

/* False: the source is stopping, or memory is short. */
static bool
end_message(struct teller *teller, bool begins)
{
    const struct advisor_inbox_item like = {
        .kind = ADVISOR_INBOX_ITEM_MESSAGE, .time_ms = kvt_clock_unix_ms(), .new_life = begins};
    bool ok;

    if (teller->records == 0)
        return true;
    kvt_buffer_printf(&teller->message, "]}");
    ok = kvt_buffer_ok(&teller->message) &&
         advisor_source_copy_wait(teller->source, &like, teller->source->options.subject,
                                  teller->message.data, teller->message.size);
    teller->records = 0;
    kvt_buffer_clear(&teller->message);
    return ok;
}

static void
add_record(struct teller *teller, const char *event, const char *key, uint64_t size)
{
    struct kvt_buffer *message = &teller->message;

    kvt_buffer_printf(message, "%s{\"eventName\":\"s3:%s\",\"s3\":{\"bucket\":{\"name\":",
                      teller->records == 0 ? "{\"Records\":[" : ",", event);
    kvt_buffer_json_string(message, teller->name);
    kvt_buffer_printf(message, "},\"object\":{\"key\":");
    kvt_buffer_json_string(message, key);
    kvt_buffer_printf(message, ",\"size\":%" PRIu64 "}}}", size);
    teller->records++;
}

/* Nothing of this namespace is true any more; in a message with a first object of it, which says
 * which one is meant. */
static bool
begin_space(struct teller *teller, const char *space, const char *key, uint64_t size)
{
    const char *name = teller->source->options.namespace_[0] != '\0' ? "" : space;
    uint32_t at;

    if (!end_message(teller, false))
        return false;
    (void)snprintf(teller->space, sizeof(teller->space), "%s", space);
    if (advisor_number_map_get(teller->spaces, name, strlen(name) + 1, &at)) {
        add_record(teller, "ObjectCreated:Put", key, size);
        return true;
    }
    if (advisor_number_map_put(teller->spaces, name, strlen(name) + 1, 1) != KVT_OK)
        return false;
    add_record(teller, "BucketRemoved:*", "", 0);
    if (key != NULL)
        add_record(teller, "ObjectCreated:Put", key, size);
    return end_message(teller, true);
}

static bool
tell_object(struct teller *teller, const char *key, uint64_t size)
{
    char plain[ADVISOR_BUCKET_LISTING_KEY_MAX];
    struct kvt_key parsed;

    (void)snprintf(plain, sizeof(plain), "%s", key);
    if (!wire_minio_unescape(plain) || kvt_key_parse(plain, &parsed) != KVT_OK)
        return true; /* of something else */
    teller->told++;
    if (teller->records == 0 || teller->records == RECORDS_MAX ||
        strcmp(teller->space, parsed.namespace_) != 0)
        return begin_space(teller, parsed.namespace_, key, size);
    add_record(teller, "ObjectCreated:Put", key, size);
    return true;
}

static bool
tell_objects(struct teller *teller, const struct kvt_buffer *keys)
{
    uint32_t at;

    for (size_t i = 0; i < keys->size;) {
        const char *key = (const char *)keys->data + i + sizeof(uint64_t);
        uint64_t size;

        memcpy(&size, keys->data + i, sizeof(size));
        if (!tell_object(teller, key, le64toh(size)))
            return false;
        i += sizeof(uint64_t) + strlen(key) + 1;
    }
    if (!end_message(teller, false))
        return false;
    /* Who has no namespace can be told that nothing is left. */
    return advisor_number_map_get(teller->spaces, "", 1, &at) || begin_space(teller, "", NULL, 0);
}

static enum kvt_err
replace(struct advisor_source *source, const struct advisor_bucket_listing *bucket,
        const struct kvt_buffer *keys, struct kvt_error *err)
{
    struct teller teller = {.source = source};
    enum kvt_err rc = advisor_number_map_new(&teller.spaces);

    advisor_bucket_listing_name(bucket, teller.name);
    kvt_buffer_init(&teller.message, MESSAGE_MAX);
    if (rc == KVT_OK && !tell_objects(&teller, keys)) {
        rc = kvt_error_set(err, KVT_NOMEM, "the listing could not be told whole");
        (void)advisor_source_tell_gap(source);
    }
    if (rc == KVT_OK)
        kvt_log_info("advisor.source", "listed", "%s: %s holds %zu blocks' objects",
                     source->options.name, teller.name, teller.told);
    kvt_buffer_release(&teller.message);
    advisor_number_map_free(teller.spaces);
    return rc;
}

static enum kvt_err
list(struct advisor_source_bucket *bucket, struct kvt_error *err)
{
    struct advisor_source *source = bucket->source;
    const struct advisor_bucket_listing place = {
        .url = source->options.bucket_url,
        .region = source->options.bucket_region,
        .credentials_file = source->options.bucket_credentials_file,
    };
    struct kvt_buffer keys;
    enum kvt_err rc;

    kvt_buffer_init(&keys, LISTING_BYTES_MAX);
    hold(bucket);
    wire_bus_settle(source->options.bus); /* the server knows what we listen to */
    rc = advisor_bucket_listing_list(&place, &source->stopping, &keys, err);
    if (rc == KVT_OK)
        rc = replace(source, &place, &keys, err);
    release(bucket);
    kvt_buffer_release(&keys);
    return rc;
}

/* ---- the watch ---- */

/* When to list it, and how that went. */
struct timing {
    uint64_t at_ms; /* not before; 0: at once */
    uint64_t retry_ms;
    bool wanted;
};

static void
list_when_due(struct advisor_source_bucket *bucket, struct timing *timing)
{
    struct advisor_source *source = bucket->source;
    const uint64_t every_ms = source->options.bucket_every_ms;
    struct kvt_error err = {.text = ""};

    if (!timing->wanted || kvt_clock_mono_ms() < timing->at_ms ||
        !wire_bus_connected(source->options.bus))
        return;
    if (list(bucket, &err) == KVT_OK) {
        timing->wanted = every_ms != 0;
        timing->at_ms = kvt_clock_mono_ms() + every_ms;
        timing->retry_ms = RETRY_MIN_MS;
        return;
    }
    if (!atomic_load(&source->stopping))
        kvt_log_warn("advisor.source", "listing", "%s: %s; again in %" PRIu64 " s",
                     source->options.name, err.text, timing->retry_ms / 1000);
    timing->at_ms = kvt_clock_mono_ms() + timing->retry_ms;
    timing->retry_ms =
        timing->retry_ms * 2 < RETRY_MAX_MS ? timing->retry_ms * 2 : (uint64_t)RETRY_MAX_MS;
}

static void *
run(void *arg)
{
    struct advisor_source_bucket *bucket = arg;
    struct advisor_source *source = bucket->source;
    struct timing timing = {.retry_ms = RETRY_MIN_MS, .wanted = is_listed(source)};

    while (!atomic_load(&source->stopping)) {
        if (advisor_source_lost(source)) {
            (void)advisor_source_tell_gap(source);
            timing.wanted = is_listed(source);
            timing.at_ms = 0;
        }
        list_when_due(bucket, &timing);
        kvt_clock_sleep_ms(NAP_MS);
    }
    return NULL;
}

enum kvt_err
advisor_source_bucket_open(struct advisor_source *source)
{
    struct advisor_source_bucket *bucket = kvt_calloc(1, sizeof(*bucket));
    enum kvt_err rc;

    if (bucket == NULL)
        return KVT_NOMEM;
    bucket->source = source;
    if (pthread_mutex_init(&bucket->lock, NULL) != 0) {
        kvt_free(bucket);
        return KVT_NOMEM;
    }
    source->own = bucket;
    bucket->holding = is_listed(source); /* until the first listing, or that it cannot be had */
    rc = advisor_inbox_new(&bucket->held, ADVISOR_SOURCE_ITEMS_MAX, ADVISOR_SOURCE_BYTES_MAX);
    if (rc == KVT_OK)
        rc = advisor_source_open_core(source, heard);
    return rc == KVT_OK ? advisor_source_start(source, run, bucket) : rc;
}

void
advisor_source_bucket_close(struct advisor_source *source)
{
    struct advisor_source_bucket *bucket = source->own;

    if (bucket == NULL)
        return;
    advisor_source_join(source);
    advisor_source_close_core(source);
    if (bucket->held != NULL) {
        advisor_inbox_close(bucket->held);
        advisor_inbox_free(bucket->held);
    }
    (void)pthread_mutex_destroy(&bucket->lock);
    kvt_free(bucket);
    source->own = NULL;
}
