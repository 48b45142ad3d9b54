#include "kvbm/worker/remote.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/buffer.h"
#include "base/clock.h"
#include "base/log.h"
#include "g4/client.h"
#include "kvtier/key.h"

enum {
    PROBE_EVERY = 1000, /* ms between questions to a gateway that was away */
    LOG_BYTES_MAX = 1 << 20,
};

/* Somebody who did not answer in time, and when he was asked last. */
struct absence {
    _Atomic bool away;
    _Atomic uint64_t probed_ms;
};

struct kvbm_remote {
    const struct kvbm_settings *settings;
    struct g4_client *patient; /* retries as long as the setting says */
    struct g4_client *quick;   /* asks once */
    int acked_fd;              /* -1: no log */
    struct absence gateway;    /* for everybody */
    struct absence hurried;    /* for who asks within a time of his own */
    _Atomic uint64_t has_keys;
    _Atomic uint64_t get_keys;
    _Atomic uint64_t put_keys;
    _Atomic uint64_t acked;
    _Atomic uint64_t refused;
    _Atomic uint64_t failed;
};

/* One call's keys and items; too large for a stack that holds several of them. */
struct batch {
    char keys[KVBM_REMOTE_BATCH][KVT_KEY_MAX];
    struct g4_client_item items[KVBM_REMOTE_BATCH];
    size_t owner[KVBM_REMOTE_BATCH];
};

typedef enum kvt_err client_call(struct g4_client *client, struct g4_client_item *items,
                                 size_t count, struct kvt_error *err);

static enum kvt_err
open_client(struct g4_client **out, const struct kvbm_settings *settings, uint64_t retry_ms,
            struct kvt_error *err)
{
    const struct g4_client_options options = {
        .endpoint = settings->endpoint,
        .bucket = settings->bucket,
        .access_key = settings->access_key,
        .secret_key = settings->secret_key,
        .region = "",
        .connections_max = settings->workers * 2 < 8 ? 8 : settings->workers * 2,
        .retry_ms = retry_ms,
    };

    return g4_client_open(out, &options, err);
}

enum kvt_err
kvbm_remote_open(struct kvbm_remote **out, const struct kvbm_settings *settings,
                 struct kvt_error *err)
{
    struct kvbm_remote *remote;
    enum kvt_err rc;

    *out = NULL;
    if (settings->endpoint[0] == '\0')
        return KVT_OK;
    remote = kvt_calloc(1, sizeof(*remote));
    if (remote == NULL)
        return kvt_error_set(err, KVT_NOMEM, "gateway client");
    remote->settings = settings;
    remote->acked_fd = -1;
    rc = open_client(&remote->patient, settings, settings->retry_ms, err);
    if (rc == KVT_OK)
        rc = open_client(&remote->quick, settings, 0, err);
    if (rc == KVT_OK && settings->acked_log[0] != '\0') {
        remote->acked_fd =
            open(settings->acked_log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
        if (remote->acked_fd < 0)
            rc = kvt_error_sys(err, errno, "open %s", settings->acked_log);
    }
    if (rc != KVT_OK) {
        kvbm_remote_close(remote);
        return rc;
    }
    *out = remote;
    return KVT_OK;
}

void
kvbm_remote_close(struct kvbm_remote *remote)
{
    if (remote == NULL)
        return;
    g4_client_close(remote->patient);
    g4_client_close(remote->quick);
    if (remote->acked_fd >= 0)
        (void)close(remote->acked_fd);
    kvt_free(remote);
}

void
kvbm_remote_stop(struct kvbm_remote *remote)
{
    if (remote == NULL)
        return;
    g4_client_stop(remote->patient);
    g4_client_stop(remote->quick);
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
skip(struct g4_client_item *items, size_t count)
{
    for (size_t i = 0; i < count; i++)
        items[i].status = KVT_UNAVAILABLE;
    return KVT_UNAVAILABLE;
}

static void
count_failure(struct kvbm_remote *remote, enum kvt_err rc, const struct kvt_error *err)
{
    if (rc == KVT_OK)
        return;
    atomic_fetch_add(&remote->failed, 1);
    if (!unanswered(rc))
        kvt_log_warn("worker.remote", "gateway_refuses", "%s: %s", kvt_err_name(rc), err->text);
}

static enum kvt_err
call(struct kvbm_remote *remote, client_call *function, struct g4_client_item *items, size_t count)
{
    const bool away = atomic_load(&remote->gateway.away);
    struct kvt_error err = {.code = KVT_OK};
    enum kvt_err rc;

    if (!may_ask(&remote->gateway))
        return skip(items, count);
    rc = function(away ? remote->quick : remote->patient, items, count, &err);
    count_failure(remote, rc, &err);
    if (!note_answer(&remote->gateway, !unanswered(rc)))
        return rc;
    if (unanswered(rc))
        kvt_log_warn("worker.remote", "gateway_away", "%s: its blocks are misses until it is back",
                     err.text);
    else
        kvt_log_info("worker.remote", "gateway_back", "the gateway answers again");
    return rc;
}

/* The same for who cannot wait.  That it did not answer within his time says nothing of it to those
 * who have more; that it answered does. */
static enum kvt_err
call_within(struct kvbm_remote *remote, uint64_t end_ms, struct g4_client_item *items, size_t count)
{
    const bool away = atomic_load(&remote->hurried.away) || atomic_load(&remote->gateway.away);
    const uint64_t now_ms = kvt_clock_mono_ms();
    struct kvt_error err = {.code = KVT_OK};
    enum kvt_err rc;

    if (now_ms >= end_ms || !may_ask(&remote->hurried) || !may_ask(&remote->gateway))
        return skip(items, count);
    rc = g4_client_has_within(away ? remote->quick : remote->patient, items, count, end_ms - now_ms,
                              &err);
    count_failure(remote, rc, &err);
    if (!unanswered(rc) && note_answer(&remote->gateway, true))
        kvt_log_info("worker.remote", "gateway_back", "the gateway answers again");
    if (!note_answer(&remote->hurried, !unanswered(rc)))
        return rc;
    if (unanswered(rc))
        kvt_log_warn("worker.remote", "gateway_late",
                     "%s: what only it has is a miss for requests until it answers in time",
                     err.text);
    else
        kvt_log_info("worker.remote", "gateway_in_time", "the gateway answers requests in time");
    return rc;
}

/* Name block `id` in the next item of the batch; false when it has no key (a position too large).
 */
static bool
add_key(struct kvbm_remote *remote, struct batch *batch, size_t at, const struct kvt_block_id *id)
{
    struct g4_client_item *item = &batch->items[at];

    if (kvt_key_format(batch->keys[at], KVT_KEY_MAX, remote->settings->revision,
                       remote->settings->namespace_, 0, id) != KVT_OK)
        return false;
    *item = (struct g4_client_item){.key = batch->keys[at], .status = KVT_UNAVAILABLE};
    return true;
}

/* Ask in batches, until `end_ms`; 0: as long as it takes. */
static bool
ask(struct kvbm_remote *remote, const struct kvt_block_id *ids, size_t count, uint64_t end_ms,
    bool *present)
{
    struct batch *batch = kvt_calloc(1, sizeof(*batch));
    bool answered = batch != NULL;

    memset(present, 0, count * sizeof(*present));
    for (size_t at = 0; answered && at < count;) {
        size_t used = 0;

        for (; at < count && used < KVBM_REMOTE_BATCH; at++)
            if (add_key(remote, batch, used, &ids[at]))
                batch->owner[used++] = at;
        if (used == 0)
            break;
        atomic_fetch_add(&remote->has_keys, used);
        answered = (end_ms == 0 ? call(remote, g4_client_has, batch->items, used)
                                : call_within(remote, end_ms, batch->items, used)) == KVT_OK;
        for (size_t i = 0; answered && i < used; i++)
            present[batch->owner[i]] = batch->items[i].status == KVT_OK;
    }
    kvt_free(batch);
    return answered;
}

bool
kvbm_remote_has(struct kvbm_remote *remote, const struct kvt_block_id *ids, size_t count,
                bool *present)
{
    const uint64_t deadline_ms = remote->settings->deadline_ms;

    return ask(remote, ids, count,
               deadline_ms == 0 ? 0 : kvt_clock_mono_ms() + (deadline_ms + 1) / 2, present);
}

void
kvbm_remote_get(struct kvbm_remote *remote, const struct kvt_block_id *ids, size_t count,
                void *const *buffers, enum kvt_err *statuses)
{
    const uint64_t size = remote->settings->layout.block_size;
    struct batch *batch = kvt_calloc(1, sizeof(*batch));

    for (size_t i = 0; i < count; i++)
        statuses[i] = batch == NULL ? KVT_NOMEM : KVT_UNAVAILABLE;
    for (size_t at = 0; batch != NULL && at < count;) {
        size_t used = 0;

        for (; at < count && used < KVBM_REMOTE_BATCH; at++) {
            if (!add_key(remote, batch, used, &ids[at]))
                continue;
            batch->items[used].buffer = buffers[at];
            batch->items[used].size = size;
            batch->owner[used++] = at;
        }
        if (used == 0)
            break;
        atomic_fetch_add(&remote->get_keys, used);
        (void)call(remote, g4_client_get, batch->items, used);
        for (size_t i = 0; i < used; i++) {
            const struct g4_client_item *item = &batch->items[i];

            /* A short body is somebody else's block, or a piece of ours. */
            statuses[batch->owner[i]] =
                item->status == KVT_OK && item->size != size ? KVT_CORRUPT : item->status;
        }
    }
    kvt_free(batch);
}

/* One write() a batch: with O_APPEND, lines of several workers do not mix. */
static void
log_acked(struct kvbm_remote *remote, const struct g4_client_item *items, size_t count)
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

/* Send what is not there yet. */
static void
put_missing(struct kvbm_remote *remote, struct batch *batch, struct kvt_volume_item *items,
            size_t used)
{
    (void)call(remote, g4_client_put, batch->items, used);
    log_acked(remote, batch->items, used);
    for (size_t i = 0; i < used; i++) {
        const enum kvt_err status = batch->items[i].status;

        items[batch->owner[i]].status = status;
        if (status == KVT_OK) {
            atomic_fetch_add(&remote->acked, 1);
            continue;
        }
        atomic_fetch_add(&remote->refused, 1);
        if (status == KVT_PRECONDITION || status == KVT_CORRUPT || status == KVT_INVALID)
            kvt_log_error("worker.remote", "put_refused", "%s: %s", batch->items[i].key,
                          kvt_err_text(status));
    }
}

void
kvbm_remote_put(struct kvbm_remote *remote, struct kvt_volume_item *items, size_t count)
{
    struct kvt_block_id ids[KVT_VOLUME_SLICE];
    bool present[KVT_VOLUME_SLICE];
    struct batch *batch = kvt_calloc(1, sizeof(*batch));
    size_t used = 0;

    assert(count <= KVT_VOLUME_SLICE);
    for (size_t i = 0; i < count; i++) {
        ids[i] = items[i].id;
        items[i].status = batch == NULL ? KVT_NOMEM : KVT_UNAVAILABLE;
    }
    /* Bytes are dear and keys are cheap: other workers have often stored the block already. */
    if (batch != NULL && ask(remote, ids, count, 0, present)) {
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
        if (used > 0)
            put_missing(remote, batch, items, used);
    }
    kvt_free(batch);
}

void
kvbm_remote_stats(struct kvbm_remote *remote, struct kvbm_remote_stats *stats)
{
    *stats = (struct kvbm_remote_stats){
        .away = atomic_load(&remote->gateway.away) || atomic_load(&remote->hurried.away),
        .has_keys = atomic_load(&remote->has_keys),
        .get_keys = atomic_load(&remote->get_keys),
        .put_keys = atomic_load(&remote->put_keys),
        .acked = atomic_load(&remote->acked),
        .refused = atomic_load(&remote->refused),
        .failed = atomic_load(&remote->failed),
    };
}
