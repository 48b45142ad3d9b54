/* Host memory that somebody else laid out: each layer by itself, or blocks with room between. */
#include "kvbm/storage/layered_storage.h"

#include <assert.h>
#include <string.h>

#include "base/core/alloc.h"

struct layers_storage {
    struct kvbm_storage head;
    struct kvbm_layout_map map;
};

enum kvt_err
kvbm_layout_map_make(struct kvbm_layout_map *map, const struct kvbm_layout_memory *memory,
                     struct kvt_error *err)
{
    const struct kvbm_layout *layout = memory->layout;
    const uint32_t count = kvbm_layout_parts(layout);

    *map = (struct kvbm_layout_map){
        .count = count,
        .part_bytes = count == 1 ? layout->block_size : layout->layer_stride,
        .stride = layout->block_stride,
        .parts = kvt_calloc(count, sizeof(*map->parts)),
    };
    if (map->parts == NULL)
        return kvt_error_set(err, KVT_NOMEM, "storage of %u parts", count);
    memcpy(map->parts, memory->parts, count * sizeof(*map->parts));
    return KVT_OK;
}

void
kvbm_layout_map_free(struct kvbm_layout_map *map)
{
    kvt_free(map->parts);
    map->parts = NULL;
}

uint64_t
kvbm_layout_map_find(const struct kvbm_layout_map *map, uint32_t block, size_t offset, size_t *run)
{
    const uint64_t part = offset / map->part_bytes;
    const uint64_t within = offset % map->part_bytes;

    assert(part < map->count);
    *run = map->part_bytes - within;
    return map->parts[part] + block * map->stride + within;
}

static void
copy(struct kvbm_storage *storage, struct kvbm_storage_io *io, bool writing)
{
    const struct layers_storage *layers = (struct layers_storage *)storage;
    const size_t size = kvbm_storage_io_size(storage, io);

    for (size_t done = 0; done < size;) {
        uint8_t *host = (uint8_t *)io->host + done;
        size_t run;
        const uint64_t at = kvbm_layout_map_find(&layers->map, io->block, io->offset + done, &run);

        if (run > size - done)
            run = size - done;
        if (writing)
            memcpy((void *)(uintptr_t)at, host, run);
        else
            memcpy(host, (const void *)(uintptr_t)at, run);
        done += run;
    }
    io->status = KVT_OK;
}

static void
layers_read(struct kvbm_storage *storage, struct kvbm_storage_io *ios, size_t count)
{
    for (size_t i = 0; i < count; i++)
        copy(storage, &ios[i], false);
}

static void
layers_write(struct kvbm_storage *storage, struct kvbm_storage_io *ios, size_t count)
{
    for (size_t i = 0; i < count; i++)
        copy(storage, &ios[i], true);
}

static void *
layers_address(struct kvbm_storage *storage, uint32_t block)
{
    const struct kvbm_layout_map *map = &((struct layers_storage *)storage)->map;

    /* In one piece, and where everybody may move whole blocks. */
    if (map->count > 1 || map->parts[0] % KVBM_STORAGE_ALIGN != 0 ||
        map->stride % KVBM_STORAGE_ALIGN != 0)
        return NULL;
    return (void *)(uintptr_t)(map->parts[0] + block * map->stride);
}

static void
layers_close(struct kvbm_storage *storage)
{
    struct layers_storage *layers = (struct layers_storage *)storage;

    kvbm_layout_map_free(&layers->map);
    kvt_free(layers);
}

static const struct kvbm_storage_ops layers_ops = {
    .read = layers_read,
    .write = layers_write,
    .address = layers_address,
    .close = layers_close,
};

enum kvt_err
kvbm_storage_open_layers(struct kvbm_storage **out, enum kvbm_storage_kind kind,
                         const struct kvbm_layout_memory *memory, struct kvt_error *err)
{
    struct layers_storage *layers;
    enum kvt_err rc;

    assert(out != NULL);
    *out = NULL;
    rc = kvbm_storage_check(memory->blocks, memory->layout->block_size, err);
    if (rc != KVT_OK)
        return rc;
    layers = kvt_calloc(1, sizeof(*layers));
    if (layers == NULL)
        return kvt_error_set(err, KVT_NOMEM, "%s storage", kvbm_storage_kind_name(kind));
    layers->head =
        (struct kvbm_storage){&layers_ops, kind, memory->blocks, memory->layout->block_size};
    rc = kvbm_layout_map_make(&layers->map, memory, err);
    if (rc != KVT_OK) {
        layers_close(&layers->head);
        return rc;
    }
    *out = &layers->head;
    return KVT_OK;
}
