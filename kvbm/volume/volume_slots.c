#include <assert.h>
#include <string.h>

#include "base/core/alloc.h"
#include "kvbm/layout/checksum.h"
#include "kvbm/pool/block_map.h"
#include "kvbm/storage/disk.h"
#include "kvbm/volume/volume_kinds.h"

/*
 * Volumes of fixed slots, over host memory or a kept disk tier: which slot holds what, and one crc
 * a slot for memory, which has none of its own.
 */

struct slots {
    struct kvbm_volume head;
    struct kvbm_storage *storage;
    struct kvbm_block_map map; /* hash -> slot */
    struct kvt_block_id *ids;
    uint32_t *crcs; /* memory */
    uint32_t *free;
    uint32_t free_count;
    uint8_t *bounce; /* for bytes that are not aligned: one block for each item of a slice */
    bool kept;
};

static struct slots *
slots_of(struct kvbm_volume *volume)
{
    return (struct slots *)volume;
}

static bool
same_id(const struct kvt_block_id *left, const struct kvt_block_id *right)
{
    return left->hash == right->hash && left->parent == right->parent &&
           left->position == right->position;
}

/* Where a storage can move the bytes of item `at` of a slice: in place, or in the bounce. */
static void *
aligned(struct slots *slots, const struct kvt_volume_item *item, size_t at)
{
    if ((uintptr_t)item->bytes % KVBM_STORAGE_ALIGN == 0)
        return item->bytes;
    return slots->bounce + at * slots->head.block_size;
}

/* Read slots, checked: a disk checks by itself. */
static void
read_slots(struct slots *slots, struct kvbm_storage_io *ios, size_t count)
{
    kvbm_storage_read(slots->storage, ios, count);
    for (size_t i = 0; i < count && !slots->kept; i++)
        if (ios[i].status == KVT_OK &&
            kvbm_crc32c(0, ios[i].host, slots->head.block_size) != slots->crcs[ios[i].block])
            ios[i].status = KVT_CORRUPT;
}

static void
get(struct kvbm_volume *volume, struct kvt_volume_item *items, size_t count)
{
    struct slots *slots = slots_of(volume);
    struct kvbm_storage_io ios[KVT_VOLUME_SLICE];
    size_t owner[KVT_VOLUME_SLICE];
    size_t used = 0;

    for (size_t i = 0; i < count; i++) {
        uint32_t slot;

        items[i].status = KVT_NOTFOUND;
        if (!kvbm_block_map_get(&slots->map, items[i].id.hash, &slot))
            continue;
        /* The same hash at another place of a sequence is not the block that is asked for. */
        if (!same_id(&slots->ids[slot], &items[i].id))
            continue;
        ios[used] = (struct kvbm_storage_io){.host = aligned(slots, &items[i], i), .block = slot};
        owner[used++] = i;
    }
    if (used > 0)
        read_slots(slots, ios, used);
    for (size_t i = 0; i < used; i++) {
        struct kvt_volume_item *item = &items[owner[i]];

        item->status = ios[i].status == KVT_NOTFOUND ? KVT_CORRUPT : ios[i].status;
        if (item->status == KVT_OK && ios[i].host != item->bytes)
            memcpy(item->bytes, ios[i].host, item->size);
    }
}

/* Is the block there and whole?  Reads it into the bounce. */
static bool
whole(struct slots *slots, uint32_t slot)
{
    struct kvbm_storage_io io = {.host = slots->bounce, .block = slot};

    read_slots(slots, &io, 1);
    return io.status == KVT_OK;
}

static void
give_back(struct slots *slots, uint32_t slot)
{
    /* A record that could not be taken away names a whole block, if it is found at all. */
    if (slots->kept) {
        const enum kvt_err rc = kvbm_disk_forget(slots->storage, &slot, 1);

        (void)rc;
    }
    kvbm_block_map_remove(&slots->map, slots->ids[slot].hash);
    slots->free[slots->free_count++] = slot;
}

/* A slot for an item: its own, when what lies there is no good, or a free one. */
static enum kvt_err
find_room(struct slots *slots, const struct kvt_volume_item *item, uint32_t *slot)
{
    if (kvbm_block_map_get(&slots->map, item->id.hash, slot)) {
        if (!same_id(&slots->ids[*slot], &item->id))
            return KVT_PRECONDITION;
        return whole(slots, *slot) ? KVT_EXISTS : KVT_OK;
    }
    if (slots->free_count == 0)
        return KVT_FULL;
    *slot = slots->free[--slots->free_count];
    slots->ids[*slot] = item->id;
    kvbm_block_map_put(&slots->map, item->id.hash, *slot);
    return KVT_OK;
}

static void
put(struct kvbm_volume *volume, struct kvt_volume_item *items, size_t count)
{
    struct slots *slots = slots_of(volume);
    struct kvbm_storage_io io;
    struct kvbm_storage_name entries[KVT_VOLUME_SLICE];
    size_t owner[KVT_VOLUME_SLICE];
    size_t used = 0;

    for (size_t i = 0; i < count; i++) {
        uint32_t slot = 0;

        items[i].status = find_room(slots, &items[i], &slot);
        if (items[i].status != KVT_OK)
            continue;
        io = (struct kvbm_storage_io){.host = aligned(slots, &items[i], 0), .block = slot};
        if (io.host != items[i].bytes)
            memcpy(io.host, items[i].bytes, items[i].size);
        kvbm_storage_write(slots->storage, &io, 1);
        items[i].status = io.status;
        if (io.status != KVT_OK) {
            give_back(slots, slot);
            continue;
        }
        if (!slots->kept)
            slots->crcs[slot] = kvbm_crc32c(0, io.host, items[i].size);
        entries[used] = (struct kvbm_storage_name){.block = slot, .id = items[i].id};
        owner[used++] = i;
    }
    if (!slots->kept || used == 0)
        return;
    (void)kvbm_disk_commit(slots->storage, entries, used);
    for (size_t i = 0; i < used; i++) {
        if (entries[i].status == KVT_OK)
            continue;
        items[owner[i]].status = entries[i].status;
        give_back(slots, entries[i].block);
    }
}

static void
take_away(struct kvbm_volume *volume, struct kvt_volume_item *items, size_t count)
{
    struct slots *slots = slots_of(volume);

    for (size_t i = 0; i < count; i++) {
        uint32_t slot;

        items[i].status = KVT_NOTFOUND;
        if (!kvbm_block_map_get(&slots->map, items[i].id.hash, &slot) ||
            !same_id(&slots->ids[slot], &items[i].id))
            continue;
        items[i].status = KVT_OK;
        if (slots->kept)
            items[i].status = kvbm_disk_forget(slots->storage, &slot, 1);
        kvbm_block_map_remove(&slots->map, items[i].id.hash);
        slots->free[slots->free_count++] = slot;
    }
}

static void
has(struct kvbm_volume *volume, struct kvt_volume_item *items, size_t count)
{
    const struct slots *slots = slots_of(volume);

    for (size_t i = 0; i < count; i++) {
        uint32_t slot;

        items[i].status = kvbm_block_map_get(&slots->map, items[i].id.hash, &slot) &&
                                  same_id(&slots->ids[slot], &items[i].id)
                              ? KVT_OK
                              : KVT_NOTFOUND;
    }
}

static void
close_slots(struct kvbm_volume *volume)
{
    struct slots *slots = slots_of(volume);

    kvbm_storage_close(slots->storage);
    kvbm_block_map_release(&slots->map);
    kvt_free(slots->ids);
    kvt_free(slots->crcs);
    kvt_free(slots->free);
    kvt_free(slots->bounce);
    kvt_free(slots);
}

static const struct kvbm_volume_driver ram_driver = {
    .kind = "ram",
    .get = get,
    .put = put,
    .remove = take_away,
    .has = has,
    .close = close_slots,
};
static const struct kvbm_volume_driver file_driver = {
    .kind = "file",
    .get = get,
    .put = put,
    .remove = take_away,
    .has = has,
    .close = close_slots,
};

/* What an earlier process left, under the names that it gave. */
static void
adopt(struct slots *slots)
{
    struct kvbm_storage_name entries[64];
    uint32_t at = 0;
    size_t count;

    do {
        count = kvbm_disk_found(slots->storage, &at, entries, 64);
        for (size_t i = 0; i < count; i++) {
            slots->ids[entries[i].block] = entries[i].id;
            kvbm_block_map_put(&slots->map, entries[i].id.hash, entries[i].block);
        }
    } while (count == 64);
}

static enum kvt_err
open_storage(struct slots *slots, const struct kvbm_volume_options *options, struct kvt_error *err)
{
    const struct kvbm_disk_keep keep = {.fingerprint = options->fingerprint};

    if (!slots->kept)
        return kvbm_storage_open_memory(&slots->storage, KVBM_STORAGE_SYSTEM, options->blocks,
                                        options->block_size, err);
    return kvbm_disk_open(&slots->storage,
                          &(struct kvbm_disk_options){
                              .path = options->path,
                              .block_count = options->blocks,
                              .block_size = options->block_size,
                              .direct = true,
                              .calls = options->calls,
                              .keep = &keep,
                          },
                          err);
}

static enum kvt_err
open_slots(struct kvbm_volume **out, const struct kvbm_volume_options *options, bool kept,
           struct kvt_error *err)
{
    const uint32_t blocks = options->blocks;
    struct slots *slots;
    enum kvt_err rc;

    *out = NULL;
    rc = kvbm_storage_check(blocks, options->block_size, err);
    if (rc != KVT_OK)
        return rc;
    slots = kvt_calloc(1, sizeof(*slots));
    if (slots == NULL)
        return kvt_error_set(err, KVT_NOMEM, "volume: out of memory");
    slots->head.driver = kept ? &file_driver : &ram_driver;
    slots->head.block_size = options->block_size;
    slots->kept = kept;
    rc = kvbm_block_map_init(&slots->map, blocks);
    slots->ids = kvt_calloc(blocks, sizeof(*slots->ids));
    slots->crcs = kvt_calloc(blocks, sizeof(*slots->crcs));
    slots->free = kvt_calloc(blocks, sizeof(*slots->free));
    slots->bounce = kvt_aligned(KVBM_STORAGE_ALIGN, (size_t)KVT_VOLUME_SLICE * options->block_size);
    if (rc != KVT_OK || slots->ids == NULL || slots->crcs == NULL || slots->free == NULL ||
        slots->bounce == NULL) {
        close_slots(&slots->head);
        return kvt_error_set(err, KVT_NOMEM, "volume: out of memory");
    }
    rc = open_storage(slots, options, err);
    if (rc != KVT_OK) {
        close_slots(&slots->head);
        return rc;
    }
    if (kept)
        adopt(slots);
    for (uint32_t slot = blocks; slot > 0; slot--) {
        uint32_t owner;

        if (!kvbm_block_map_get(&slots->map, slots->ids[slot - 1].hash, &owner) ||
            owner != slot - 1)
            slots->free[slots->free_count++] = slot - 1;
    }
    *out = &slots->head;
    return KVT_OK;
}

enum kvt_err
kvbm_volume_open_ram(struct kvbm_volume **out, const struct kvbm_volume_options *options,
                     struct kvt_error *err)
{
    return open_slots(out, options, false, err);
}

enum kvt_err
kvbm_volume_open_file(struct kvbm_volume **out, const struct kvbm_volume_options *options,
                      struct kvt_error *err)
{
    return open_slots(out, options, true, err);
}
