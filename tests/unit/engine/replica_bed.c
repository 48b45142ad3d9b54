#include "tests/unit/engine/replica_bed.h"

#include "kvbm/storage_layers.h"

#include "tests/unit/engine/fake_internal.h"

static void
open_storages(struct replica *replica)
{
    struct kvbm_transfer_options options = {.queue_max = 64};

    assert_int_equal(kvbm_storage_open_memory(&replica->bounce, KVBM_STORAGE_SYSTEM, KVT_BOUNCE_MIN,
                                              replica->layout.block_size, NULL),
                     KVT_OK);
    options.bounce = replica->bounce;
    assert_int_equal(kvbm_transfer_open(&replica->transfer, &options, NULL), KVT_OK);
    for (uint32_t r = 0; r < BED_RANKS; r++) {
        const struct kvbm_layout_memory memory =
            fake_memory((struct fake *)replica->bed.ranks[r], KVT_TIER_G1);

        assert_int_equal(
            kvbm_storage_open_layers(&replica->storages[r], KVBM_STORAGE_SYSTEM, &memory, NULL),
            KVT_OK);
    }
}

static void
open_broadcast(struct replica *replica, enum replica_kind kind)
{
    const struct engine_broadcast_options options = {
        .transfer = replica->transfer,
        .storages = replica->storages,
        .count = BED_RANKS,
        .layout = &replica->layout,
    };

    if (kind == REPLICA_FABRIC)
        assert_int_equal(engine_broadcast_fabric(&replica->broadcast, replica->bed.ranks, BED_RANKS,
                                                 REPLICA_STAGED, NULL),
                         KVT_OK);
    else
        assert_int_equal(engine_broadcast_memory(&replica->broadcast, &options, NULL), KVT_OK);
}

void
replica_open(struct replica *replica, enum replica_kind kind, enum fake_ending ending,
             struct fake_objects *objects)
{
    *replica = (struct replica){.layout = bed_layout(1, 0)};
    bed_open(&replica->bed, 1, ending, objects);
    if (kind != REPLICA_FABRIC)
        open_storages(replica);
    open_broadcast(replica, kind);
    assert_int_equal(engine_replica_open(&replica->group, replica->bed.ranks, BED_RANKS,
                                         replica->broadcast, NULL),
                     KVT_OK);
}

void
replica_close(struct replica *replica)
{
    engine_worker_close(replica->group);
    for (uint32_t r = 0; r < BED_RANKS; r++)
        kvbm_storage_close(replica->storages[r]);
    kvbm_transfer_free(replica->transfer);
    kvbm_storage_close(replica->bounce);
}

bool
replica_all_have(const struct replica *replica, uint32_t block, uint64_t number)
{
    for (uint32_t r = 0; r < BED_RANKS; r++)
        if (!fake_worker_is(replica->bed.ranks[r], KVT_TIER_G1, block, number))
            return false;
    return true;
}
