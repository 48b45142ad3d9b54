#include "tests/unit/engine/replica/replica_bed.h"

#include "kvbm/cuda/cuda_memory.h"
#include "kvbm/storage/layered_storage.h"

#include "tests/unit/engine/support/fake_worker_internal.h"

#define DEVICE UINT64_C(0x8000000000000000) /* what makes an address the driver's own */

/* The rank's G1, on a device of its own. */
static void
open_device(struct replica *replica, uint32_t rank)
{
    struct fake *fake = (struct fake *)replica->bed.ranks[rank];
    const uint64_t part = fake->tiers[KVT_TIER_G1].part ^ DEVICE;
    const struct kvbm_layout_memory memory = {&fake->head.layout, &part,
                                              fake->tiers[KVT_TIER_G1].blocks};

    assert_int_equal(kvbm_cuda_open(&replica->cudas[rank], KVBM_FAKE_CUDA, 0, NULL), KVT_OK);
    assert_int_equal(
        kvbm_cuda_open_layers(&replica->storages[rank], replica->cudas[rank], &memory, NULL),
        KVT_OK);
}

void
replica_open_storages(struct replica *replica, enum replica_kind kind, struct fake_objects *objects,
                      enum fake_ending ending)
{
    struct kvbm_transfer_options options = {.queue_max = 64};

    *replica = (struct replica){.layout = group_bed_layout(1, 0)};
    group_bed_open(&replica->bed, 1, ending, objects);
    assert_int_equal(kvbm_storage_open_memory(&replica->bounce, KVBM_STORAGE_SYSTEM, KVT_BOUNCE_MIN,
                                              replica->layout.block_size, NULL),
                     KVT_OK);
    options.bounce = replica->bounce;
    assert_int_equal(kvbm_transfer_open(&replica->transfer, &options, NULL), KVT_OK);
    for (uint32_t r = 0; r < BED_RANKS; r++) {
        const struct kvbm_layout_memory memory =
            fake_memory((struct fake *)replica->bed.ranks[r], KVT_TIER_G1);

        ((struct fake *)replica->bed.ranks[r])->shares = kind == REPLICA_IPC;
        if (kind == REPLICA_NCCL)
            open_device(replica, r);
        else
            assert_int_equal(
                kvbm_storage_open_layers(&replica->storages[r], KVBM_STORAGE_SYSTEM, &memory, NULL),
                KVT_OK);
    }
}

struct engine_broadcast_options
replica_options(const struct replica *replica)
{
    return (struct engine_broadcast_options){
        .transfer = replica->transfer,
        .storages = replica->storages,
        .count = BED_RANKS,
        .layout = &replica->layout,
    };
}

static void
open_broadcast(struct replica *replica, enum replica_kind kind)
{
    const struct engine_broadcast_options options = replica_options(replica);
    struct engine_broadcast **out = &replica->broadcast;
    enum kvt_err rc = KVT_INVALID;

    switch (kind) {
    case REPLICA_MEMORY: rc = engine_broadcast_memory(out, &options, NULL); break;
    case REPLICA_NCCL: rc = engine_broadcast_nccl(out, &options, FAKE_NCCL, NULL); break;
    case REPLICA_IPC:
        rc = engine_broadcast_ipc(out, replica->bed.ranks, BED_RANKS, REPLICA_STAGED, NULL);
        break;
    default: rc = engine_broadcast_fabric(out, replica->bed.ranks, BED_RANKS, REPLICA_STAGED, NULL);
    }
    assert_int_equal(rc, KVT_OK);
}

void
replica_open(struct replica *replica, enum replica_kind kind, enum fake_ending ending,
             struct fake_objects *objects)
{
    replica_open_storages(replica, kind, objects, ending);
    open_broadcast(replica, kind);
    assert_int_equal(engine_replica_open(&replica->group, replica->bed.ranks, BED_RANKS,
                                         replica->broadcast, NULL),
                     KVT_OK);
}

void
replica_close(struct replica *replica)
{
    engine_worker_close(replica->group);
    replica_close_storages(replica);
}

void
replica_close_storages(struct replica *replica)
{
    for (uint32_t r = 0; r < BED_RANKS; r++) {
        kvbm_storage_close(replica->storages[r]);
        kvbm_cuda_close(replica->cudas[r]);
    }
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

bool
replica_try(struct replica *replica, replica_open_fn *open)
{
    struct engine_broadcast *broadcast;
    struct engine_worker *group;
    struct bed_job job;
    enum kvt_err rc;

    if (open(&broadcast, replica->bed.ranks, BED_RANKS, 2, NULL) != KVT_OK)
        return false;
    if (engine_replica_open(&group, replica->bed.ranks, BED_RANKS, broadcast, NULL) != KVT_OK) {
        engine_broadcast_close(broadcast);
        return false;
    }
    group_bed_job_set(&job, ENGINE_COPY, KVT_TIER_G2, KVT_TIER_G1, 70, 0, 20, 2);
    rc = group_bed_job_run(&job, group);
    group_bed_job_free(&job);
    group->ranks = 0; /* they are wanted again */
    engine_worker_close(group);
    return rc == KVT_OK;
}
