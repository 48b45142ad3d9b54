#include "kvbm/volume/volume_storage.h"

#include <assert.h>
#include <inttypes.h>
#include <pthread.h>
#include <string.h>

#include "base/core/alloc.h"
#include "kvbm/layout/checksum.h"
#include "kvbm/transfer/queue_ticket.h"

enum { BATCH = 256 /* blocks asked for in one request */ };

/* What is known of a block; whoever may touch the block may touch this. */
struct row {
    struct kvt_block_id id;
    uint32_t crc;
    bool bound;
    bool written; /* by us: the crc counts */
};

struct remote {
    struct kvbm_storage head;
    struct kvbm_volumes *set;
    uint64_t volume;
    bool own;
    struct row *rows;
    pthread_mutex_t part_lock; /* of `part`; held while it is filled: parts are no fast path */
    uint8_t *part;             /* a block that somebody wants a part of */
};

static struct remote *
remote_of(struct kvbm_storage *storage)
{
    return (struct remote *)storage;
}

/* Ask and wait; a volume that is not there is away, and says nothing of any block. */
static void
ask(struct remote *remote, enum kvt_volume_verb verb, struct kvt_volume_item *items, size_t count)
{
    const struct kvbm_volume_request request = {
        .volume = remote->volume, .verb = verb, .items = items, .count = count};
    struct kvt_ticket *ticket;
    enum kvt_err rc;

    if (count == 0)
        return;
    rc = kvbm_volumes_start(remote->set, &request, UINT64_MAX, &ticket);
    if (rc != KVT_OK) {
        for (size_t i = 0; i < count; i++)
            items[i].status = rc == KVT_NOTFOUND ? KVT_UNAVAILABLE : rc;
        return;
    }
    (void)kvbm_ticket_end(ticket); /* each item says its own */
}

static bool
is_whole(const struct kvbm_storage *storage, const struct kvbm_storage_io *io)
{
    return kvbm_storage_io_size(storage, io) == storage->block_size;
}

/* Is what came what we wrote? */
static enum kvt_err
verify(const struct remote *remote, uint32_t block, uint8_t *bytes)
{
    const struct row *row = &remote->rows[block];

    if (!row->written || kvbm_crc32c(0, bytes, remote->head.block_size) == row->crc)
        return KVT_OK;
    memset(bytes, 0, remote->head.block_size);
    return KVT_CORRUPT;
}

static struct kvt_volume_item
item_of(const struct remote *remote, uint32_t block, void *bytes)
{
    return (struct kvt_volume_item){
        .id = remote->rows[block].id,
        .bytes = bytes,
        .size = bytes == NULL ? 0 : remote->head.block_size,
        .status = KVT_IO,
    };
}

/* All parts of one block from `ios` on: fetched once.  Returns how many there were. */
static size_t
read_parts(struct remote *remote, struct kvbm_storage_io *ios, size_t count)
{
    const uint32_t block = ios[0].block;
    struct kvt_volume_item item;
    size_t used = 0;

    (void)pthread_mutex_lock(&remote->part_lock);
    item = item_of(remote, block, remote->part);
    ask(remote, KVT_VOLUME_GET, &item, 1);
    if (item.status == KVT_OK)
        item.status = verify(remote, block, remote->part);
    for (; used < count && ios[used].block == block; used++) {
        ios[used].status = item.status;
        if (item.status == KVT_OK)
            memcpy(ios[used].host, remote->part + ios[used].offset,
                   kvbm_storage_io_size(&remote->head, &ios[used]));
    }
    (void)pthread_mutex_unlock(&remote->part_lock);
    return used;
}

static void
read_batch(struct remote *remote, struct kvbm_storage_io *ios, size_t count)
{
    struct kvt_volume_item items[BATCH];
    struct kvbm_storage_io *owners[BATCH];
    size_t used = 0;

    for (size_t i = 0; i < count;) {
        struct kvbm_storage_io *io = &ios[i];

        if (!remote->rows[io->block].bound) {
            io->status = KVT_NOTFOUND;
            i++;
        } else if (is_whole(&remote->head, io)) {
            items[used] = item_of(remote, io->block, io->host);
            owners[used++] = io;
            i++;
        } else {
            i += read_parts(remote, io, count - i);
        }
    }
    ask(remote, KVT_VOLUME_GET, items, used);
    for (size_t i = 0; i < used; i++)
        owners[i]->status = items[i].status == KVT_OK
                                ? verify(remote, owners[i]->block, owners[i]->host)
                                : items[i].status;
}

static void
remote_read(struct kvbm_storage *storage, struct kvbm_storage_io *ios, size_t count)
{
    for (size_t at = 0; at < count; at += BATCH)
        read_batch(remote_of(storage), ios + at, count - at < BATCH ? count - at : BATCH);
}

/* What is there under a name of ours goes, and ours comes. */
static void
replace(struct remote *remote, struct kvt_volume_item *items, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct kvt_volume_item old = {.id = items[i].id, .status = KVT_IO};

        if (items[i].status != KVT_EXISTS)
            continue;
        ask(remote, KVT_VOLUME_REMOVE, &old, 1);
        items[i].status = old.status;
        if (old.status == KVT_OK || old.status == KVT_NOTFOUND)
            ask(remote, KVT_VOLUME_PUT, &items[i], 1);
    }
}

static void
write_batch(struct remote *remote, struct kvbm_storage_io *ios, size_t count)
{
    struct kvt_volume_item items[BATCH];
    struct kvbm_storage_io *owners[BATCH];
    size_t used = 0;

    for (size_t i = 0; i < count; i++) {
        struct row *row = &remote->rows[ios[i].block];

        ios[i].status = !row->bound                         ? KVT_PRECONDITION
                        : !is_whole(&remote->head, &ios[i]) ? KVT_INVALID
                                                            : KVT_OK;
        if (ios[i].status != KVT_OK)
            continue;
        row->written = false;
        items[used] = item_of(remote, ios[i].block, ios[i].host);
        owners[used++] = &ios[i];
    }
    ask(remote, KVT_VOLUME_PUT, items, used);
    if (remote->own)
        replace(remote, items, used);
    for (size_t i = 0; i < used; i++) {
        struct row *row = &remote->rows[owners[i]->block];

        owners[i]->status = items[i].status == KVT_EXISTS ? KVT_OK : items[i].status;
        row->written = owners[i]->status == KVT_OK;
        if (row->written)
            row->crc = kvbm_crc32c(0, owners[i]->host, remote->head.block_size);
    }
}

static void
remote_write(struct kvbm_storage *storage, struct kvbm_storage_io *ios, size_t count)
{
    for (size_t at = 0; at < count; at += BATCH)
        write_batch(remote_of(storage), ios + at, count - at < BATCH ? count - at : BATCH);
}

static void *
remote_address(struct kvbm_storage *storage, uint32_t block)
{
    (void)storage;
    (void)block;
    return NULL;
}

static void
remote_bind(struct kvbm_storage *storage, const struct kvbm_storage_name *names, size_t count)
{
    struct remote *remote = remote_of(storage);

    for (size_t i = 0; i < count && !remote->own; i++)
        remote->rows[names[i].block] = (struct row){.id = names[i].id, .bound = true};
}

/* What a put answered is as durable as the volume makes it. */
static enum kvt_err
remote_commit(struct kvbm_storage *storage, struct kvbm_storage_name *names, size_t count)
{
    enum kvt_err result = KVT_OK;

    for (size_t i = 0; i < count; i++) {
        names[i].status = remote_of(storage)->rows[names[i].block].written ? KVT_OK : KVT_NOTFOUND;
        if (result == KVT_OK)
            result = names[i].status;
    }
    return result;
}

/* Names of contents are others' as well: only our own are taken away. */
static enum kvt_err
remote_forget(struct kvbm_storage *storage, const uint32_t *blocks, size_t count)
{
    struct remote *remote = remote_of(storage);
    enum kvt_err result = KVT_OK;

    for (size_t i = 0; i < count; i++) {
        struct row *row = &remote->rows[blocks[i]];
        struct kvt_volume_item item = item_of(remote, blocks[i], NULL);

        row->written = false;
        row->bound = remote->own;
        if (!remote->own)
            continue;
        ask(remote, KVT_VOLUME_REMOVE, &item, 1);
        if (result == KVT_OK && item.status != KVT_NOTFOUND)
            result = item.status;
    }
    return result;
}

static void
remote_close(struct kvbm_storage *storage)
{
    struct remote *remote = remote_of(storage);

    (void)pthread_mutex_destroy(&remote->part_lock);
    kvt_free(remote->part);
    kvt_free(remote->rows);
    kvt_free(remote);
}

static const struct kvbm_storage_ops remote_ops = {
    .read = remote_read,
    .write = remote_write,
    .address = remote_address,
    .close = remote_close,
    .bind = remote_bind,
    .commit = remote_commit,
    .forget = remote_forget,
    .whole = true,
};

enum kvt_err
kvbm_storage_open_volume(struct kvbm_storage **out,
                         const struct kvbm_storage_volume_options *options, struct kvt_error *err)
{
    struct remote *remote;
    enum kvt_err rc;

    assert(out != NULL && options->set != NULL);
    *out = NULL;
    rc = kvbm_storage_check(options->block_count, options->block_size, err);
    if (rc != KVT_OK)
        return rc;
    remote = kvt_calloc(1, sizeof(*remote));
    if (remote == NULL)
        return kvt_error_set(err, KVT_NOMEM, "remote storage");
    remote->head = (struct kvbm_storage){&remote_ops, KVBM_STORAGE_REMOTE, options->block_count,
                                         options->block_size};
    remote->set = options->set;
    remote->volume = options->volume;
    remote->own = options->own;
    (void)pthread_mutex_init(&remote->part_lock, NULL);
    remote->rows = kvt_calloc(options->block_count, sizeof(*remote->rows));
    remote->part = kvt_aligned(KVBM_STORAGE_ALIGN, options->block_size);
    if (remote->rows == NULL || remote->part == NULL) {
        remote_close(&remote->head);
        return kvt_error_set(err, KVT_NOMEM, "remote storage of %" PRIu32 " blocks",
                             options->block_count);
    }
    for (uint32_t block = 0; options->own && block < options->block_count; block++)
        remote->rows[block] = (struct row){.id = {.hash = options->first + block}, .bound = true};
    *out = &remote->head;
    return KVT_OK;
}
