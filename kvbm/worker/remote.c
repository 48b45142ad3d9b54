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

struct kvbm_remote {
    const struct kvbm_settings *settings;
    struct g4_client *patient; /* retries as long as the setting says */
    struct g4_client *quick;   /* asks once */
    int acked_fd;              /* -1: no log */
    _Atomic bool away;
    _Atomic uint64_t probed_ms;
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

/* While the gateway is away, whose turn is it to ask? */
static bool
may_probe(struct kvbm_remote *remote)
{
    const uint64_t now = kvt_clock_mono_ms();
    uint64_t last = atomic_load(&remote->probed_ms);

    return now - last >= PROBE_EVERY &&
           atomic_compare_exchange_strong(&remote->probed_ms, &last, now);
}

static enum kvt_err
call(struct kvbm_remote *remote, client_call *function, struct g4_client_item *items, size_t count)
{
    const bool away = atomic_load(&remote->away);
    struct kvt_error err = {.code = KVT_OK};
    enum kvt_err rc;

    if (away && !may_probe(remote)) {
        for (size_t i = 0; i < count; i++)
            items[i].status = KVT_UNAVAILABLE;
        return KVT_UNAVAILABLE;
    }
    rc = function(away ? remote->quick : remote->patient, items, count, &err);
    if (rc != KVT_OK)
        atomic_fetch_add(&remote->failed, 1);
    if (unanswered(rc)) {
        if (!atomic_exchange(&remote->away, true))
            kvt_log_warn("worker.remote", "gateway_away",
                         "%s: its blocks are misses until it is "
                         "back",
                         err.text);
        atomic_store(&remote->probed_ms, kvt_clock_mono_ms());
    } else if (atomic_exchange(&remote->away, false)) {
        kvt_log_info("worker.remote", "gateway_back", "the gateway answers again");
    }
    if (rc != KVT_OK && !unanswered(rc))
        kvt_log_warn("worker.remote", "gateway_refuses", "%s: %s", kvt_err_name(rc), err.text);
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

bool
kvbm_remote_has(struct kvbm_remote *remote, const struct kvt_block_id *ids, size_t count,
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
        answered = call(remote, g4_client_has, batch->items, used) == KVT_OK;
        for (size_t i = 0; answered && i < used; i++)
            present[batch->owner[i]] = batch->items[i].status == KVT_OK;
    }
    kvt_free(batch);
    return answered;
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
    if (batch != NULL && kvbm_remote_has(remote, ids, count, present)) {
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
        .away = atomic_load(&remote->away),
        .has_keys = atomic_load(&remote->has_keys),
        .get_keys = atomic_load(&remote->get_keys),
        .put_keys = atomic_load(&remote->put_keys),
        .acked = atomic_load(&remote->acked),
        .refused = atomic_load(&remote->refused),
        .failed = atomic_load(&remote->failed),
    };
}
