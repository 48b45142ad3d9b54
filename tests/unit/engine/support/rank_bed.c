#include "tests/unit/engine/support/rank_bed.h"

#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"
#include "kvbm/storage/disk.h"
#include "kvbm/volume/volume_kinds.h"

#include "tests/support/seed.h"
#include "tests/unit/engine/support/content.h"

struct kvbm_layout
rank_bed_layout(uint32_t tp_size, uint32_t tp_rank)
{
    const struct kvt_geometry geometry = {
        .size = sizeof(geometry),
        .kind = KVT_LAYOUT_UNIVERSAL,
        .layers = 4,
        .outer = 2,
        .page_size = 16,
        .inner_dim = 4 * 32 / tp_size,
        .dtype_bytes = 2,
        .alignment = 4096,
        .tp_size = tp_size,
        .tp_rank = tp_rank,
        .heads = 4 / tp_size,
    };
    struct kvbm_layout layout;

    assert_int_equal(kvbm_layout_make(&layout, &geometry, NULL), KVT_OK);
    return layout;
}

static enum kvt_err
open_volume(struct kvbm_volumes *volumes, const struct kvbm_layout *layout)
{
    const struct kvbm_volume_options options = {.blocks = 64, .block_size = layout->block_size};
    struct kvbm_volume *volume;
    struct kvt_volume_stats stats;
    enum kvt_err rc;

    if (kvbm_volumes_stats(volumes, layout->geometry.tp_rank, &stats) == KVT_OK)
        return KVT_OK;
    rc = kvbm_volume_open_ram(&volume, &options, NULL);
    if (rc != KVT_OK)
        return rc;
    rc = kvbm_volumes_register(volumes, layout->geometry.tp_rank, volume, 64, NULL);
    if (rc != KVT_OK)
        kvbm_volume_close(volume);
    return rc;
}

static enum kvt_err
open_tiers(struct rank_bed *bed, const struct kvbm_layout *layout, struct engine_fabric *fabric)
{
    struct engine_rank_options *options = &bed->options;
    struct engine_rank_tier *tiers = options->tiers;
    char path[300];
    enum kvt_err rc;

    (void)snprintf(path, sizeof(path), "%s/g3", bed->folder);
    rc = kvbm_storage_open_memory(&tiers[KVT_TIER_G1].storage, KVBM_STORAGE_SYSTEM, RANK_BED_BLOCKS,
                                  layout->block_size, NULL);
    if (rc == KVT_OK)
        rc = kvbm_disk_open(&tiers[KVT_TIER_G3].storage,
                            &(struct kvbm_disk_options){
                                .path = path,
                                .block_count = RANK_BED_BLOCKS,
                                .block_size = layout->block_size,
                            },
                            NULL);
    if (rc == KVT_OK && fabric != NULL)
        rc = engine_blockset_open(&options->shown, fabric, layout, RANK_BED_BLOCKS, NULL);
    else if (rc == KVT_OK)
        rc = kvbm_storage_open_memory(&tiers[KVT_TIER_G2].storage, KVBM_STORAGE_SYSTEM,
                                      RANK_BED_BLOCKS, layout->block_size, NULL);
    if (rc == KVT_OK && fabric != NULL)
        tiers[KVT_TIER_G2].storage = engine_blockset_storage(options->shown);
    return rc;
}

enum kvt_err
rank_bed_open(struct rank_bed *bed, const struct kvbm_layout *layout, struct engine_fabric *fabric,
              struct kvbm_volumes *volumes)
{
    enum kvt_err rc;

    memset(bed, 0, sizeof(*bed));
    (void)test_folder_make(bed->folder, sizeof(bed->folder));
    bed->options.layout = *layout;
    bed->options.fabric = fabric;
    bed->options.volumes = volumes;
    bed->options.volume_put = bed->options.volume_get = layout->geometry.tp_rank;
    rc = open_tiers(bed, layout, fabric);
    if (rc == KVT_OK)
        rc = kvbm_transfer_new(&bed->options.transfer, 64, NULL);
    if (rc == KVT_OK && volumes != NULL)
        rc = open_volume(volumes, layout);
    if (rc == KVT_OK)
        rc = engine_rank_open(&bed->worker, &bed->options, NULL);
    if (rc != KVT_OK)
        rank_bed_close(bed);
    return rc;
}

void
rank_bed_close(struct rank_bed *bed)
{
    struct engine_rank_tier *tiers = bed->options.tiers;

    engine_worker_close(bed->worker);
    kvbm_transfer_free(bed->options.transfer);
    kvbm_storage_close(tiers[KVT_TIER_G1].storage);
    kvbm_storage_close(tiers[KVT_TIER_G3].storage);
    if (bed->options.shown == NULL)
        kvbm_storage_close(tiers[KVT_TIER_G2].storage);
    engine_blockset_close(bed->options.shown);
    test_folder_remove(bed->folder);
    memset(bed, 0, sizeof(*bed));
}

static void
write_block(void *arg, enum kvt_tier tier, uint32_t block, uint64_t number)
{
    const struct rank_bed_side *side = arg;

    for (uint32_t r = 0; r < side->count; r++) {
        const struct engine_rank_options *options = &side->beds[r].options;

        content_fill(&options->layout, kvbm_storage_address(options->tiers[tier].storage, block),
                     number);
    }
}

static bool
is_block(void *arg, enum kvt_tier tier, uint32_t block, uint64_t number)
{
    const struct rank_bed_side *side = arg;
    bool is = true;

    for (uint32_t r = 0; is && r < side->count; r++) {
        const struct engine_rank_options *options = &side->beds[r].options;
        struct kvbm_storage *storage = options->tiers[tier].storage;
        struct kvbm_storage_io io = {.block = block,
                                     .host = kvt_aligned(4096, storage->block_size)};

        assert_non_null(io.host);
        kvbm_storage_read(storage, &io, 1);
        is = io.status == KVT_OK && content_is(&options->layout, io.host, number);
        kvt_free(io.host);
    }
    return is;
}

struct suite_side
rank_bed_side(struct engine_worker *worker, struct rank_bed_side *side)
{
    return (struct suite_side){worker, side, write_block, is_block};
}
