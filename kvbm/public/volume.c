/* kvtier/volume.h over kvbm/volume/volume_set.h and kvbm/volume/volume_kinds.h. */
#include "kvtier/volume.h"

#include <assert.h>
#include <inttypes.h>

#include "base/core/alloc.h"
#include "kvbm/public/public_handle.h"
#include "kvbm/transfer/queue_ticket.h"
#include "kvbm/volume/peer.h"
#include "kvbm/volume/volume_kinds.h"

struct kvt_volume {
    struct kvbm_volume *volume;
};

struct kvt_peer {
    struct kvbm_peer *peer;
};

enum { TIMEOUT_USUAL = 5000 };

static uint64_t
or_usual(uint64_t timeout_ms)
{
    return timeout_ms == 0 ? TIMEOUT_USUAL : timeout_ms;
}

/* ---- volumes ---- */

static enum kvt_err
open_peer(struct kvbm_volume **out, const struct kvt_volume_options *options, struct kvt_error *err)
{
    return kvbm_volume_open_peer(out,
                                 &(struct kvbm_volume_peer_options){
                                     .path = options->path,
                                     .volume = options->number,
                                     .block_size = options->block_size,
                                     .fingerprint = options->fingerprint,
                                     .timeout_ms = or_usual(options->timeout_ms),
                                 },
                                 err);
}

enum kvt_err
kvt_volume_open(struct kvt_volume **out, const struct kvt_volume_options *options,
                struct kvt_error *err)
{
    struct kvt_volume_options known;
    struct kvbm_volume_options ours;
    struct kvt_volume *volume;
    enum kvt_err rc;

    *out = NULL;
    if (!kvbm_public_read(&known, sizeof(known), options))
        return kvt_error_set(err, KVT_UNSUPPORTED, "volume: options of a newer library");
    if (known.kind != KVT_VOLUME_RAM && known.path == NULL)
        return kvt_error_set(err, KVT_INVALID, "volume: needs its size and a path");
    volume = kvt_calloc(1, sizeof(*volume));
    if (volume == NULL)
        return kvt_error_set(err, KVT_NOMEM, "volume");
    ours = (struct kvbm_volume_options){.path = known.path,
                                        .blocks = known.blocks,
                                        .block_size = known.block_size,
                                        .fingerprint = known.fingerprint};
    switch (known.kind) {
    case KVT_VOLUME_RAM: rc = kvbm_volume_open_ram(&volume->volume, &ours, err); break;
    case KVT_VOLUME_FILE: rc = kvbm_volume_open_file(&volume->volume, &ours, err); break;
    case KVT_VOLUME_DIRECTORY: rc = kvbm_volume_open_directory(&volume->volume, &ours, err); break;
    case KVT_VOLUME_PEER: rc = open_peer(&volume->volume, &known, err); break;
    default:
        rc = kvt_error_set(err, KVT_INVALID, "volume: unknown kind %u", (unsigned)known.kind);
        break;
    }
    if (rc != KVT_OK) {
        kvt_free(volume);
        return rc;
    }
    *out = volume;
    return KVT_OK;
}

/* A kind of the program's own. */
struct driven {
    struct kvbm_volume head;
    struct kvbm_volume_driver table;
    struct kvt_volume_driver driver;
    void *context;
};

static struct driven *
driven_of(struct kvbm_volume *volume)
{
    return (struct driven *)volume;
}

/* An item that a driver forgets is not a good one. */
static void
begin_items(struct kvt_volume_item *items, size_t count)
{
    for (size_t i = 0; i < count; i++)
        items[i].status = KVT_IO;
}

static void
driven_get(struct kvbm_volume *volume, struct kvt_volume_item *items, size_t count)
{
    begin_items(items, count);
    driven_of(volume)->driver.get(driven_of(volume)->context, items, count);
}

static void
driven_put(struct kvbm_volume *volume, struct kvt_volume_item *items, size_t count)
{
    begin_items(items, count);
    driven_of(volume)->driver.put(driven_of(volume)->context, items, count);
}

static void
driven_remove(struct kvbm_volume *volume, struct kvt_volume_item *items, size_t count)
{
    begin_items(items, count);
    driven_of(volume)->driver.remove(driven_of(volume)->context, items, count);
}

static void
driven_has(struct kvbm_volume *volume, struct kvt_volume_item *items, size_t count)
{
    begin_items(items, count);
    driven_of(volume)->driver.has(driven_of(volume)->context, items, count);
}

static void
driven_stop(struct kvbm_volume *volume)
{
    driven_of(volume)->driver.stop(driven_of(volume)->context);
}

static void
driven_close(struct kvbm_volume *volume)
{
    struct driven *driven = driven_of(volume);

    if (driven->driver.close != NULL)
        driven->driver.close(driven->context);
    kvt_free(driven);
}

enum kvt_err
kvt_volume_open_driver(struct kvt_volume **out, const struct kvt_volume_driver *driver,
                       void *context, uint64_t block_size, struct kvt_error *err)
{
    struct kvt_volume_driver known;
    struct driven *driven;

    *out = NULL;
    if (!kvbm_public_read(&known, sizeof(known), driver))
        return kvt_error_set(err, KVT_UNSUPPORTED, "volume: a driver of a newer library");
    if (known.get == NULL || known.put == NULL)
        return kvt_error_set(err, KVT_INVALID, "volume: a driver gets and puts");
    if (block_size == 0 || block_size > KVT_BLOCK_SIZE_MAX)
        return kvt_error_set(err, KVT_RANGE, "volume: blocks of %" PRIu64 " bytes", block_size);
    driven = kvt_calloc(1, sizeof(*driven));
    *out = kvt_calloc(1, sizeof(**out));
    if (driven == NULL || *out == NULL) { /* the context stays the caller's */
        kvt_free(driven);
        kvt_free(*out);
        *out = NULL;
        return kvt_error_set(err, KVT_NOMEM, "volume");
    }
    driven->table = (struct kvbm_volume_driver){
        .kind = "program",
        .get = driven_get,
        .put = driven_put,
        .remove = known.remove == NULL ? NULL : driven_remove,
        .has = known.has == NULL ? NULL : driven_has,
        .stop = known.stop == NULL ? NULL : driven_stop,
        .close = driven_close,
    };
    driven->head = (struct kvbm_volume){&driven->table, block_size};
    driven->driver = known;
    driven->context = context;
    (*out)->volume = &driven->head;
    return KVT_OK;
}

void
kvt_volume_close(struct kvt_volume *volume)
{
    if (volume == NULL)
        return;
    kvbm_volume_close(volume->volume);
    kvt_free(volume);
}

/* ---- the set ---- */

enum kvt_err
kvt_volumes_new(struct kvt_volumes **out, struct kvt_error *err)
{
    struct kvt_volumes *set = kvt_calloc(1, sizeof(*set));
    enum kvt_err rc;

    *out = NULL;
    if (set == NULL)
        return kvt_error_set(err, KVT_NOMEM, "volumes");
    rc = kvbm_volumes_new(&set->set, err);
    if (rc != KVT_OK) {
        kvt_free(set);
        return rc;
    }
    *out = set;
    return KVT_OK;
}

void
kvt_volumes_free(struct kvt_volumes *set)
{
    if (set == NULL)
        return;
    kvbm_volumes_free(set->set);
    kvt_free(set);
}

enum kvt_err
kvt_volumes_register(struct kvt_volumes *set, uint64_t id, struct kvt_volume *volume,
                     size_t queue_max, struct kvt_error *err)
{
    const enum kvt_err rc = kvbm_volumes_register(set->set, id, volume->volume, queue_max, err);

    if (rc == KVT_OK)
        kvt_free(volume); /* the set has what was behind it */
    return rc;
}

enum kvt_err
kvt_volumes_unregister(struct kvt_volumes *set, uint64_t id, bool cancel)
{
    return kvbm_volumes_unregister(set->set, id, cancel);
}

static const char *
refusal(enum kvt_err rc)
{
    switch (rc) {
    case KVT_AGAIN: return "its queue is full";
    case KVT_NOTFOUND: return "there is no such one";
    case KVT_INVALID: return "no items, too many, or not of its block size";
    case KVT_UNSUPPORTED: return "it cannot do that";
    default: return kvt_err_text(rc);
    }
}

enum kvt_err
kvt_volumes_start(struct kvt_volumes *set, const struct kvt_volume_request *request,
                  uint64_t wait_ms, struct kvt_ticket **ticket, struct kvt_error *err)
{
    struct kvt_volume_request known;
    enum kvt_err rc;

    *ticket = NULL;
    if (!kvbm_public_read(&known, sizeof(known), request))
        return kvt_error_set(err, KVT_UNSUPPORTED, "volume: a request of a newer library");
    if (known.items == NULL)
        return kvt_error_set(err, KVT_INVALID, "volume: needs its size and items");
    rc = kvbm_volumes_start(set->set,
                            &(struct kvbm_volume_request){
                                .volume = known.volume,
                                .verb = known.verb,
                                .items = known.items,
                                .count = known.count,
                                .done = known.done,
                                .arg = known.arg,
                                .event_fd = known.event_fd,
                            },
                            wait_ms, ticket);
    if (rc == KVT_OK)
        return rc;
    return kvt_error_set(err, rc, "volume %" PRIu64 ": %s", known.volume, refusal(rc));
}

enum kvt_err
kvt_volumes_run(struct kvt_volumes *set, const struct kvt_volume_request *request,
                struct kvt_error *err)
{
    struct kvt_ticket *ticket;
    enum kvt_err rc;

    do
        rc = kvt_volumes_start(set, request, UINT64_MAX, &ticket, err);
    while (rc == KVT_AGAIN);
    if (rc != KVT_OK) {
        for (size_t i = 0; request->items != NULL && i < request->count; i++)
            request->items[i].status = rc;
        return rc;
    }
    rc = kvbm_ticket_end(ticket);
    return rc == KVT_OK ? rc : kvt_error_set(err, rc, "volume: not every block");
}

enum kvt_err
kvt_volumes_stats(struct kvt_volumes *set, uint64_t id, struct kvt_volume_stats *stats)
{
    struct kvt_volume_stats known;
    const enum kvt_err rc = kvbm_volumes_stats(set->set, id, &known);

    kvbm_public_write(stats, &known, sizeof(known));
    return rc;
}

/* ---- for other processes ---- */

enum kvt_err
kvt_peer_open(struct kvt_peer **out, const struct kvt_peer_options *options, struct kvt_error *err)
{
    struct kvt_peer_options known;
    struct kvt_peer *peer;
    enum kvt_err rc;

    *out = NULL;
    if (!kvbm_public_read(&known, sizeof(known), options))
        return kvt_error_set(err, KVT_UNSUPPORTED, "peer: options of a newer library");
    if (known.path == NULL || known.set == NULL)
        return kvt_error_set(err, KVT_INVALID, "peer: needs its size, a path and a set");
    peer = kvt_calloc(1, sizeof(*peer));
    if (peer == NULL)
        return kvt_error_set(err, KVT_NOMEM, "peer");
    rc = kvbm_peer_open(&peer->peer,
                        &(struct kvbm_peer_options){
                            .path = known.path,
                            .set = known.set->set,
                            .fingerprint = known.fingerprint,
                            .timeout_ms = or_usual(known.timeout_ms),
                        },
                        err);
    if (rc != KVT_OK) {
        kvt_free(peer);
        return rc;
    }
    *out = peer;
    return KVT_OK;
}

void
kvt_peer_close(struct kvt_peer *peer)
{
    if (peer == NULL)
        return;
    kvbm_peer_close(peer->peer);
    kvt_free(peer);
}
