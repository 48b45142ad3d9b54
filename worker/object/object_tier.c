#include "worker/object/object_tier.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "base/core/alloc.h"
#include "base/core/buffer.h"
#include "base/core/clock.h"
#include "base/core/log.h"
#include "g4/batch/batch_client.h"
#include "g4/object/check.h"
#include "g4/s3/s3.h"
#include "kvtier/key.h"

#include "worker/object/bucket_volume.h"

enum {
    PROBE_EVERY = 1000,         /* ms between questions to a gateway that was away */
    LOOK_EVERY = 5000,          /* ms without a question before one is asked for its own sake */
    LOOK_WAIT = 1000,           /* ms for its answer */
    BUCKET_PATIENCE_MIN = 1000, /* ms that a request of a bucket gets at least */
    LOG_BYTES_MAX = 1 << 20,
};

/* Somebody who did not answer in time, and when he was asked last. */
struct absence {
    _Atomic bool away;
    _Atomic uint64_t probed_ms;
};

struct worker_object_tier {
    const struct worker_settings *settings;
    struct g4_batch_client *patient; /* retries as long as the setting says */
    struct g4_batch_client *quick;   /* asks once */
    struct g4_store *store;          /* instead of the two: an S3 service, ... */
    struct kvbm_volume *bucket;      /* ... and its bucket */
    int acked_fd;                    /* -1: no log */
    _Atomic bool stopping;
    struct absence gateway; /* for everybody */
    struct absence hurried; /* for who asks within a time of his own */
    _Atomic bool unseen;    /* who only looked had no answer; nobody asks less for that */
    _Atomic uint64_t asked_ms;
    _Atomic uint64_t has_keys;
    _Atomic uint64_t get_keys;
    _Atomic uint64_t put_keys;
    _Atomic uint64_t acked;
    _Atomic uint64_t refused;
    _Atomic uint64_t failed;
};

/* One call's keys and items; too large for a stack that holds several of them. */
struct batch {
    char keys[WORKER_OBJECT_TIER_BATCH][KVT_KEY_MAX];
    struct g4_batch_client_item items[WORKER_OBJECT_TIER_BATCH];
    size_t owner[WORKER_OBJECT_TIER_BATCH];
};

typedef enum kvt_err client_call(struct g4_batch_client *client, struct g4_batch_client_item *items,
                                 size_t count, struct kvt_error *err);

static enum kvt_err
open_client(struct g4_batch_client **out, const struct worker_settings *settings, uint64_t retry_ms,
            struct kvt_error *err)
{
    const struct g4_batch_client_options options = {
        .endpoint = settings->endpoint,
        .bucket = settings->bucket,
        .access_key = settings->access_key,
        .secret_key = settings->secret_key,
        .region = "",
        .connections_max = settings->workers * 2 < 8 ? 8 : settings->workers * 2,
        .retry_ms = retry_ms,
        .fingerprint = settings->layout.fingerprint,
    };

    return g4_batch_client_open(out, &options, err);
}

static enum kvt_err
open_clients(struct worker_object_tier *remote, struct kvt_error *err)
{
    const struct worker_settings *settings = remote->settings;
    enum kvt_err rc = open_client(&remote->patient, settings, settings->retry_ms, err);

    if (rc == KVT_OK)
        rc = open_client(&remote->quick, settings, 0, err);
    return rc;
}

/* A request of a bucket is tried again within its time, and that time is the retry time. */
static enum kvt_err
open_bucket(struct worker_object_tier *remote, struct kvt_error *err)
{
    const struct worker_settings *settings = remote->settings;
    enum kvt_err rc =
        g4_s3_open(&remote->store,
                   &(struct g4_s3_options){
                       .endpoint = settings->s3.endpoint,
                       .bucket = settings->bucket,
                       .region = settings->s3.region,
                       .access_key = settings->access_key,
                       .secret_key = settings->secret_key,
                       .session_token = settings->s3.session_token,
                       .find_credentials = settings->access_key[0] == '\0',
                       .ca_file = settings->s3.ca_file,
                       .path_style = settings->s3.path_style,
                       .connections_max = settings->s3.connections,
                       .timeout_ms = settings->retry_ms < BUCKET_PATIENCE_MIN ? BUCKET_PATIENCE_MIN
                                                                              : settings->retry_ms,
                   },
                   err);

    if (rc == KVT_OK)
        rc = worker_bucket_volume(&remote->bucket,
                                  &(struct worker_bucket_options){
                                      .store = remote->store,
                                      .revision = settings->revision,
                                      .namespace_ = settings->namespace_,
                                      .rank = settings->rank,
                                      .block_size = settings->layout.block_size,
                                      .fingerprint = settings->layout.fingerprint,
                                  },
                                  err);
    return rc;
}

enum kvt_err
worker_object_tier_open(struct worker_object_tier **out, const struct worker_settings *settings,
                        struct kvt_error *err)
{
    struct worker_object_tier *remote;
    enum kvt_err rc;

    *out = NULL;
    if (settings->endpoint[0] == '\0' && settings->s3.endpoint[0] == '\0')
        return KVT_OK;
    remote = kvt_calloc(1, sizeof(*remote));
    if (remote == NULL)
        return kvt_error_set(err, KVT_NOMEM, "gateway client");
    remote->settings = settings;
    remote->acked_fd = -1;
    rc = settings->s3.endpoint[0] != '\0' ? open_bucket(remote, err) : open_clients(remote, err);
    if (rc == KVT_OK && settings->acked_log[0] != '\0') {
        remote->acked_fd =
            open(settings->acked_log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
        if (remote->acked_fd < 0)
            rc = kvt_error_sys(err, errno, "open %s", settings->acked_log);
    }
    if (rc != KVT_OK) {
        worker_object_tier_close(remote);
        return rc;
    }
    *out = remote;
    return KVT_OK;
}

void
worker_object_tier_close(struct worker_object_tier *remote)
{
    if (remote == NULL)
        return;
    g4_batch_client_close(remote->patient);
    g4_batch_client_close(remote->quick);
    kvbm_volume_close(remote->bucket);
    g4_store_close(remote->store);
    if (remote->acked_fd >= 0)
        (void)close(remote->acked_fd);
    kvt_free(remote);
}

void
worker_object_tier_stop(struct worker_object_tier *remote)
{
    if (remote == NULL)
        return;
    atomic_store(&remote->stopping, true);
    if (remote->bucket != NULL) /* what is in the air ends by its own deadline */
        return;
    g4_batch_client_stop(remote->patient);
    g4_batch_client_stop(remote->quick);
}

/* Did nobody answer, as opposed to an answer we do not like? */
static bool
unanswered(enum kvt_err rc)
{
    return rc == KVT_UNAVAILABLE || rc == KVT_TIMEOUT || rc == KVT_IO;
}

/* May it be asked now?  While it is away, one at a time may. */
static bool
may_ask(struct absence *absence)
{
    const uint64_t now = kvt_clock_mono_ms();
    uint64_t last = atomic_load(&absence->probed_ms);

    return !atomic_load(&absence->away) ||
           (now - last >= PROBE_EVERY &&
            atomic_compare_exchange_strong(&absence->probed_ms, &last, now));
}

/* True: it has just gone away, or come back. */
static bool
note_answer(struct absence *absence, bool answered)
{
    if (!answered)
        atomic_store(&absence->probed_ms, kvt_clock_mono_ms());
    return atomic_exchange(&absence->away, !answered) == answered;
}

static enum kvt_err
skip(struct g4_batch_client_item *items, size_t count)
{
    for (size_t i = 0; i < count; i++)
        items[i].status = KVT_UNAVAILABLE;
    return KVT_UNAVAILABLE;
}

static void
count_answer(struct worker_object_tier *remote, enum kvt_err rc, const struct kvt_error *err)
{
    atomic_store(&remote->asked_ms, kvt_clock_mono_ms());
    if (!unanswered(rc))
        atomic_store(&remote->unseen, false);
    if (rc == KVT_OK)
        return;
    atomic_fetch_add(&remote->failed, 1);
    if (!unanswered(rc))
        kvt_log_warn("worker.remote", "gateway_refuses", "%s: %s", kvt_err_name(rc), err->text);
}

/* How long asking for a request may take; 0: as long as it takes. */
static uint64_t
hurry_ms(const struct worker_object_tier *remote)
{
    return (remote->settings->deadline_ms + 1) / 2;
}

/* What came of asking the gateway.  An answer that comes soon enough for requests is one to them,
 * too. */
static void
note(struct worker_object_tier *remote, enum kvt_err rc, uint64_t began_ms,
     const struct kvt_error *err)
{
    count_answer(remote, rc, err);
    if (!unanswered(rc) && kvt_clock_mono_ms() - began_ms < hurry_ms(remote))
        atomic_store(&remote->hurried.away, false);
    if (!note_answer(&remote->gateway, !unanswered(rc)))
        return;
    if (unanswered(rc))
        kvt_log_warn("worker.remote", "gateway_away", "%s: its blocks are misses until it is back",
                     err->text);
    else
        kvt_log_info("worker.remote", "gateway_back", "the gateway answers again");
}

/* The same for who could not wait.  That it did not answer within his time says nothing of it to
 * those who have more; that it answered does. */
static void
note_hurried(struct worker_object_tier *remote, enum kvt_err rc, const struct kvt_error *err)
{
    count_answer(remote, rc, err);
    if (!unanswered(rc) && note_answer(&remote->gateway, true))
        kvt_log_info("worker.remote", "gateway_back", "the gateway answers again");
    if (!note_answer(&remote->hurried, !unanswered(rc)))
        return;
    if (unanswered(rc))
        kvt_log_warn("worker.remote", "gateway_late",
                     "%s: what only it has is a miss for requests until it answers in time",
                     err->text);
    else
        kvt_log_info("worker.remote", "gateway_in_time", "the gateway answers requests in time");
}

static enum kvt_err
call(struct worker_object_tier *remote, client_call *function, struct g4_batch_client_item *items,
     size_t count)
{
    const bool away = atomic_load(&remote->gateway.away);
    const uint64_t began_ms = kvt_clock_mono_ms();
    struct kvt_error err = {.code = KVT_OK};
    enum kvt_err rc;

    if (!may_ask(&remote->gateway))
        return skip(items, count);
    rc = function(away ? remote->quick : remote->patient, items, count, &err);
    note(remote, rc, began_ms, &err);
    return rc;
}

static enum kvt_err
call_within(struct worker_object_tier *remote, uint64_t end_ms, struct g4_batch_client_item *items,
            size_t count)
{
    const bool away = atomic_load(&remote->hurried.away) || atomic_load(&remote->gateway.away);
    const uint64_t now_ms = kvt_clock_mono_ms();
    struct kvt_error err = {.code = KVT_OK};
    enum kvt_err rc;

    if (now_ms >= end_ms || !may_ask(&remote->hurried) || !may_ask(&remote->gateway))
        return skip(items, count);
    rc = g4_batch_client_has_within(away ? remote->quick : remote->patient, items, count,
                                    end_ms - now_ms, &err);
    note_hurried(remote, rc, &err);
    return rc;
}

/* ---- a bucket instead of a gateway ---- */

/* Where any block was answered, the bucket was, but for who may not do this there; `err` gets a
 * line where it is not KVT_OK. */
static enum kvt_err
judge(const struct kvt_volume_item *items, size_t count, struct kvt_error *err)
{
    enum kvt_err rc = items[0].status;

    for (size_t i = 0; i < count && rc != KVT_DENIED; i++)
        if (!unanswered(items[i].status))
            rc = items[i].status;
    if (unanswered(rc) || rc == KVT_DENIED)
        return kvt_error_set(err, rc, "bucket: %s", kvt_err_text(rc));
    return KVT_OK;
}

static void
visit(struct worker_object_tier *remote, struct kvt_volume_item *items, size_t count,
      void (*move)(struct kvbm_volume *bucket, struct kvt_volume_item *items, size_t count))
{
    const uint64_t began_ms = kvt_clock_mono_ms();
    struct kvt_error err = {.code = KVT_OK};

    for (size_t i = 0; i < count; i++)
        items[i].status = KVT_UNAVAILABLE;
    if (count == 0 || atomic_load(&remote->stopping) || !may_ask(&remote->gateway))
        return;
    move(remote->bucket, items, count);
    note(remote, judge(items, count, &err), began_ms, &err);
}

static bool
ask_bucket(struct worker_object_tier *remote, const struct kvt_block_id *ids, size_t count,
           uint64_t end_ms, bool *present)
{
    const uint64_t began_ms = kvt_clock_mono_ms();
    struct kvt_error err = {.code = KVT_OK};
    enum kvt_err rc;

    memset(present, 0, count * sizeof(*present));
    if (atomic_load(&remote->stopping) ||
        (end_ms != 0 && (began_ms >= end_ms || !may_ask(&remote->hurried))) ||
        !may_ask(&remote->gateway))
        return false;
    atomic_fetch_add(&remote->has_keys, count);
    rc = worker_bucket_has(remote->bucket, ids, count, end_ms, present);
    if (rc != KVT_OK)
        (void)kvt_error_set(&err, rc, "bucket: %s", kvt_err_text(rc));
    if (end_ms != 0)
        note_hurried(remote, rc, &err);
    else
        note(remote, rc, began_ms, &err);
    return rc == KVT_OK;
}

/* ---- blocks ---- */

/* Name block `id` in the next item of the batch; false when it has no key (a position too large).
 */
static bool
add_key(struct worker_object_tier *remote, struct batch *batch, size_t at,
        const struct kvt_block_id *id)
{
    struct g4_batch_client_item *item = &batch->items[at];

    if (kvt_key_format(batch->keys[at], KVT_KEY_MAX, remote->settings->revision,
                       remote->settings->namespace_, remote->settings->rank, id) != KVT_OK)
        return false;
    *item = (struct g4_batch_client_item){.key = batch->keys[at], .status = KVT_UNAVAILABLE};
    return true;
}

/* Ask in batches, until `end_ms`; 0: as long as it takes. */
static bool
ask(struct worker_object_tier *remote, const struct kvt_block_id *ids, size_t count,
    uint64_t end_ms, bool *present)
{
    struct batch *batch = kvt_calloc(1, sizeof(*batch));
    bool answered = batch != NULL;

    memset(present, 0, count * sizeof(*present));
    for (size_t at = 0; answered && at < count;) {
        size_t used = 0;

        for (; at < count && used < WORKER_OBJECT_TIER_BATCH; at++)
            if (add_key(remote, batch, used, &ids[at]))
                batch->owner[used++] = at;
        if (used == 0)
            break;
        atomic_fetch_add(&remote->has_keys, used);
        answered = (end_ms == 0 ? call(remote, g4_batch_client_has, batch->items, used)
                                : call_within(remote, end_ms, batch->items, used)) == KVT_OK;
        for (size_t i = 0; answered && i < used; i++)
            present[batch->owner[i]] = batch->items[i].status == KVT_OK;
    }
    kvt_free(batch);
    return answered;
}

bool
worker_object_tier_has(struct worker_object_tier *remote, const struct kvt_block_id *ids,
                       size_t count, bool *present)
{
    const uint64_t within_ms = hurry_ms(remote);
    const uint64_t end_ms = within_ms == 0 ? 0 : kvt_clock_mono_ms() + within_ms;

    return remote->bucket != NULL ? ask_bucket(remote, ids, count, end_ms, present)
                                  : ask(remote, ids, count, end_ms, present);
}

void
worker_object_tier_get(struct worker_object_tier *remote, struct kvt_volume_item *items,
                       size_t count)
{
    struct batch *batch;
    size_t used = 0;

    assert(count <= KVT_VOLUME_SLICE);
    if (remote->bucket != NULL) {
        atomic_fetch_add(&remote->get_keys, count);
        visit(remote, items, count, remote->bucket->driver->get);
        return;
    }
    batch = kvt_calloc(1, sizeof(*batch));
    for (size_t i = 0; i < count; i++) {
        items[i].status = batch == NULL ? KVT_NOMEM : KVT_UNAVAILABLE;
        if (batch == NULL || !add_key(remote, batch, used, &items[i].id))
            continue;
        batch->items[used].buffer = items[i].bytes;
        batch->items[used].size = items[i].size;
        batch->owner[used++] = i;
    }
    if (used > 0) {
        atomic_fetch_add(&remote->get_keys, used);
        (void)call(remote, g4_batch_client_get, batch->items, used);
    }
    for (size_t i = 0; i < used; i++) {
        const struct g4_batch_client_item *item = &batch->items[i];
        struct kvt_volume_item *owner = &items[batch->owner[i]];

        /* A short body is somebody else's block, or a piece of ours. */
        owner->status =
            item->status == KVT_OK && item->size != owner->size ? KVT_CORRUPT : item->status;
    }
    kvt_free(batch);
}

/* One write() a batch: with O_APPEND, lines of several workers do not mix. */
static void
log_acked(struct worker_object_tier *remote, const struct g4_batch_client_item *items, size_t count)
{
    struct kvt_buffer text;

    if (remote->acked_fd < 0)
        return;
    kvt_buffer_init(&text, LOG_BYTES_MAX);
    for (size_t i = 0; i < count; i++)
        if (items[i].status == KVT_OK)
            kvt_buffer_printf(&text, "%s %08" PRIx32 "\n", items[i].key, items[i].crc32c);
    if (!kvt_buffer_ok(&text) ||
        write(remote->acked_fd, text.data, text.size) != (ssize_t)text.size)
        kvt_log_error("worker.remote", "acked_log", "%s could not be written",
                      remote->settings->acked_log);
    kvt_buffer_release(&text);
}

static void
count_put(struct worker_object_tier *remote, const char *key, enum kvt_err status)
{
    if (status == KVT_OK) {
        atomic_fetch_add(&remote->acked, 1);
        return;
    }
    if (status == KVT_EXISTS)
        return;
    atomic_fetch_add(&remote->refused, 1);
    if (status == KVT_PRECONDITION || status == KVT_CORRUPT || status == KVT_INVALID)
        kvt_log_error("worker.remote", "put_refused", "%s: %s", key, kvt_err_text(status));
}

/* Send what the batch has. */
static void
send_to_gateway(struct worker_object_tier *remote, struct batch *batch,
                struct kvt_volume_item *items, size_t used)
{
    (void)call(remote, g4_batch_client_put, batch->items, used);
    for (size_t i = 0; i < used; i++)
        items[batch->owner[i]].status = batch->items[i].status;
}

/* The same to the bucket.  `kept` are the blocks that have a key. */
static void
send_to_bucket(struct worker_object_tier *remote, struct batch *batch,
               struct kvt_volume_item *items, size_t used)
{
    struct kvt_volume_item kept[KVT_VOLUME_SLICE];

    for (size_t i = 0; i < used; i++)
        kept[i] = items[batch->owner[i]];
    visit(remote, kept, used, remote->bucket->driver->put);
    for (size_t i = 0; i < used; i++) {
        items[batch->owner[i]].status = batch->items[i].status = kept[i].status;
        if (remote->acked_fd >= 0)
            batch->items[i].crc32c = g4_check_crc32c(kept[i].bytes, kept[i].size);
    }
}

void
worker_object_tier_put(struct worker_object_tier *remote, struct kvt_volume_item *items,
                       size_t count)
{
    struct kvt_block_id ids[KVT_VOLUME_SLICE];
    bool present[KVT_VOLUME_SLICE] = {false};
    struct batch *batch = kvt_calloc(1, sizeof(*batch));
    size_t used = 0;

    assert(count <= KVT_VOLUME_SLICE);
    for (size_t i = 0; i < count; i++) {
        ids[i] = items[i].id;
        items[i].status = batch == NULL ? KVT_NOMEM : KVT_UNAVAILABLE;
    }
    /* Bytes are dear and keys are cheap: other workers have often stored the block already.  Of a
     * bucket nobody checks what lies there but who puts. */
    if (batch != NULL && (remote->bucket != NULL || ask(remote, ids, count, 0, present))) {
        for (size_t i = 0; i < count; i++) {
            if (present[i]) {
                items[i].status = KVT_EXISTS;
            } else if (!add_key(remote, batch, used, &ids[i])) {
                items[i].status = KVT_INVALID;
            } else {
                batch->items[used].fingerprint = remote->settings->layout.fingerprint;
                batch->items[used].body = items[i].bytes;
                batch->items[used].size = remote->settings->layout.block_size;
                batch->owner[used++] = i;
            }
        }
        atomic_fetch_add(&remote->put_keys, used);
    }
    if (used > 0) {
        if (remote->bucket != NULL)
            send_to_bucket(remote, batch, items, used);
        else
            send_to_gateway(remote, batch, items, used);
        log_acked(remote, batch->items, used);
        for (size_t i = 0; i < used; i++)
            count_put(remote, batch->items[i].key, batch->items[i].status);
    }
    kvt_free(batch);
}

/* Is a block there that nobody has? */
static enum kvt_err
ask_nothing(struct worker_object_tier *remote, struct kvt_error *err)
{
    static const struct kvt_block_id nobody = {.hash = 0};
    char key[KVT_KEY_MAX];
    struct g4_batch_client_item item = {.key = key};
    bool present;

    if (remote->bucket != NULL) {
        const enum kvt_err rc = worker_bucket_has(remote->bucket, &nobody, 1,
                                                  kvt_clock_mono_ms() + LOOK_WAIT, &present);

        return rc == KVT_OK ? KVT_OK : kvt_error_set(err, rc, "bucket: %s", kvt_err_text(rc));
    }
    if (kvt_key_format(key, sizeof(key), remote->settings->revision, remote->settings->namespace_,
                       remote->settings->rank, &nobody) != KVT_OK)
        return KVT_OK;
    return g4_batch_client_has_within(remote->quick, &item, 1, LOOK_WAIT, err);
}

static bool
is_away(const struct worker_object_tier *remote)
{
    return atomic_load(&remote->gateway.away) || atomic_load(&remote->hurried.away) ||
           atomic_load(&remote->unseen);
}

void
worker_object_tier_look(struct worker_object_tier *remote)
{
    const uint64_t now_ms = kvt_clock_mono_ms();
    struct kvt_error err = {.code = KVT_OK};
    enum kvt_err rc;

    if (remote == NULL || atomic_load(&remote->stopping) ||
        now_ms - atomic_load(&remote->asked_ms) < (is_away(remote) ? PROBE_EVERY : LOOK_EVERY))
        return;
    rc = ask_nothing(remote, &err);
    if (unanswered(rc)) {
        count_answer(remote, rc, &err);
        atomic_store(&remote->unseen, true);
    } else {
        note(remote, rc, now_ms, &err);
    }
}

void
worker_object_tier_stats(struct worker_object_tier *remote, struct worker_object_tier_stats *stats)
{
    *stats = (struct worker_object_tier_stats){
        .away = is_away(remote),
        .has_keys = atomic_load(&remote->has_keys),
        .get_keys = atomic_load(&remote->get_keys),
        .put_keys = atomic_load(&remote->put_keys),
        .acked = atomic_load(&remote->acked),
        .refused = atomic_load(&remote->refused),
        .failed = atomic_load(&remote->failed),
    };
}
