#include <assert.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/file.h"
#include "kvbm/layout/checksum.h"
#include "kvbm/storage/disk_internal.h"

enum { BATCH = KVBM_DISK_BATCH, VERIFY_BYTES = 64 << 20 };

static void
take_over(struct kvbm_disk *disk, uint32_t block)
{
    struct kvbm_storage_name entry;

    if (!kvbm_disk_index_get(disk->index, block, &entry, disk->crcs + (size_t)block * disk->parts))
        return;
    kvbm_disk_set_written(disk, (size_t)block * disk->parts, disk->parts, 1);
    disk->found++;
}

/* Read every block that the index speaks of; one that is not what it says is no block. */
static enum kvt_err
verify(struct kvbm_disk *disk, struct kvt_error *err)
{
    const size_t size = disk->head.block_size;
    const size_t room = VERIFY_BYTES / size;
    const size_t batch = room < 1 ? 1 : room < BATCH ? room : BATCH;
    struct kvbm_storage_io ios[BATCH];
    uint8_t *bytes = kvt_aligned(KVBM_STORAGE_ALIGN, batch * size);
    size_t count = 0;

    if (bytes == NULL)
        return kvt_error_set(err, KVT_NOMEM, "disk tier: %zu bytes to read with", batch * size);
    for (uint32_t block = 0; block <= disk->head.block_count; block++) {
        if (count == batch || (block == disk->head.block_count && count > 0)) {
            kvbm_storage_read(&disk->head, ios, count);
            for (size_t i = 0; i < count; i++) {
                if (ios[i].status == KVT_OK)
                    continue;
                kvbm_disk_set_written(disk, (size_t)ios[i].block * disk->parts, disk->parts, 0);
                disk->dropped++;
            }
            count = 0;
        }
        if (block < disk->head.block_count && kvbm_disk_whole(disk, block)) {
            ios[count] = (struct kvbm_storage_io){.host = bytes + count * size, .block = block};
            count++;
        }
    }
    kvt_free(bytes);
    return KVT_OK;
}

enum kvt_err
kvbm_disk_open_index(struct kvbm_disk *disk, const struct kvbm_disk_options *options,
                     struct kvt_error *err)
{
    char path[PATH_MAX];

    if ((size_t)snprintf(path, sizeof(path), "%s.index", options->path) >= sizeof(path))
        return kvt_error_set(err, KVT_RANGE, "%s: too long", options->path);
    return kvbm_disk_index_open(&disk->index,
                                &(struct kvbm_disk_index_options){
                                    .path = path,
                                    .block_count = disk->head.block_count,
                                    .block_size = disk->head.block_size,
                                    .parts = disk->parts,
                                    .fingerprint = options->keep->fingerprint,
                                    .aio = disk->aio,
                                },
                                err);
}

enum kvt_err
kvbm_disk_recover(struct kvbm_disk *disk, const struct kvbm_disk_options *options,
                  struct kvt_error *err)
{
    const enum kvt_err rc = kvt_file_sync_name(options->path, err); /* of both files */

    if (rc != KVT_OK)
        return rc;
    for (uint32_t block = 0; block < disk->head.block_count; block++)
        take_over(disk, block);
    return options->keep->trust_index ? KVT_OK : verify(disk, err);
}

void
kvbm_disk_retire(struct kvbm_disk *disk, struct kvbm_storage_io *ios, size_t count)
{
    uint32_t blocks[BATCH];
    size_t live = 0;

    assert(count <= BATCH);
    for (size_t i = 0; disk->index != NULL && i < count; i++)
        if (ios[i].status == KVT_OK && kvbm_disk_index_live(disk->index, ios[i].block) &&
            (live == 0 || blocks[live - 1] != ios[i].block)) /* parts of a block come together */
            blocks[live++] = ios[i].block;
    if (live == 0 || kvbm_disk_index_erase(disk->index, blocks, live) == KVT_OK)
        return;
    for (size_t i = 0; i < count; i++)
        if (ios[i].status == KVT_OK && kvbm_disk_index_live(disk->index, ios[i].block))
            ios[i].status = KVT_IO;
}

/* At most BATCH names of blocks whose bytes are synced, unless `rc` says otherwise. */
static void
commit_batch(struct kvbm_disk *disk, struct kvbm_storage_name *entries, size_t count,
             enum kvt_err rc)
{
    struct kvbm_disk_double doubles[BATCH];

    for (size_t i = 0; i < count; i++) {
        const uint32_t block = entries[i].block;

        doubles[i] = (struct kvbm_disk_double){0, 0};
        entries[i].status = kvbm_disk_whole(disk, block) ? rc : KVT_NOTFOUND;
        if (entries[i].status == KVT_OK && disk->index != NULL)
            entries[i].status = kvbm_disk_index_put(
                disk->index, &entries[i], disk->crcs + (size_t)block * disk->parts, &doubles[i]);
    }
    if (rc == KVT_OK && disk->index != NULL)
        rc = kvbm_disk_index_sync(disk->index);
    if (rc == KVT_OK && disk->index != NULL)
        rc = kvbm_disk_index_erase_doubles(disk->index, doubles, count);
    for (size_t i = 0; i < count; i++)
        if (entries[i].status == KVT_OK)
            entries[i].status = rc;
}

enum kvt_err
kvbm_disk_commit(struct kvbm_storage *storage, struct kvbm_storage_name *entries, size_t count)
{
    struct kvbm_disk *disk = kvbm_disk_of(storage);
    enum kvt_err result = KVT_OK;
    enum kvt_err rc = KVT_OK;

    if (disk->index != NULL)
        rc = kvbm_disk_index_sync_data(disk->index, disk->fd);
    for (size_t at = 0; at < count; at += BATCH)
        commit_batch(disk, entries + at, count - at < BATCH ? count - at : BATCH, rc);
    for (size_t i = 0; i < count && result == KVT_OK; i++)
        result = entries[i].status;
    return result;
}

enum kvt_err
kvbm_disk_forget(struct kvbm_storage *storage, const uint32_t *blocks, size_t count)
{
    struct kvbm_disk *disk = kvbm_disk_of(storage);

    for (size_t i = 0; i < count; i++) {
        assert(blocks[i] < storage->block_count);
        kvbm_disk_set_written(disk, (size_t)blocks[i] * disk->parts, disk->parts, 0);
    }
    return disk->index == NULL ? KVT_OK : kvbm_disk_index_erase(disk->index, blocks, count);
}

size_t
kvbm_disk_found(struct kvbm_storage *storage, uint32_t *at, struct kvbm_storage_name *entries,
                size_t capacity)
{
    struct kvbm_disk *disk = kvbm_disk_of(storage);
    uint32_t crcs[KVBM_DISK_PARTS_MAX];
    size_t count = 0;

    if (disk->index == NULL)
        return 0;
    for (; *at < storage->block_count && count < capacity; (*at)++)
        if (kvbm_disk_whole(disk, *at) &&
            kvbm_disk_index_get(disk->index, *at, &entries[count], crcs))
            count++;
    if (count < capacity)
        kvbm_disk_index_forget_found(disk->index);
    return count;
}
