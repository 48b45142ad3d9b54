#include "worker/instances/rank_memory.h"

#include <inttypes.h>

#include "base/core/log.h"
#include "kvbm/cuda/cuda_memory.h"

#include "worker/settings/gpu.h"

/* Which of all ranks this one is: they take the machine's devices in turn. */
static uint32_t
number_of(const struct worker_instance_plan *plan)
{
    uint32_t number = plan->rank;

    for (uint32_t i = 0; i < plan->instance; i++)
        number += plan->tp[i];
    return number;
}

enum kvt_err
worker_rank_memory_open(struct worker_rank_memory *memory, const struct worker_instance_plan *plan,
                        const struct worker_shard *shard, struct kvt_error *err)
{
    const uint32_t blocks = plan->settings->g1_blocks;
    const size_t size = shard->layout.block_size;
    enum kvt_err rc;

    *memory = (struct worker_rank_memory){.cuda = NULL};
    rc = worker_gpu_open(&memory->cuda, plan->settings->gpu, number_of(plan), "worker.instance",
                         err);
    if (rc == KVT_OK && memory->cuda == NULL)
        return kvbm_storage_open_memory(&memory->g1, KVBM_STORAGE_DEVICE, blocks, size, err);
    if (rc == KVT_OK)
        rc = kvbm_cuda_open_device(&memory->g1, memory->cuda, blocks, size, err);
    if (rc == KVT_OK)
        rc = kvbm_cuda_open_pinned(&memory->page, memory->cuda, 1, size, err);
    return rc;
}

void
worker_rank_memory_pin(struct worker_rank_memory *memory, struct kvbm_storage *g2)
{
    uint8_t *first = kvbm_storage_address(g2, 0);
    const uint8_t *last = kvbm_storage_address(g2, g2->block_count - 1);
    struct kvt_error err;

    if (memory->cuda == NULL)
        return;
    if (kvbm_cuda_pin_host(memory->cuda, first, (size_t)(last - first) + g2->block_size, &err) ==
        KVT_OK)
        memory->pinned = first;
    else
        kvt_log_warn("worker.instance", "not_pinned",
                     "%s: copies between the device and host memory are slower", err.text);
}

void
worker_rank_memory_unpin(struct worker_rank_memory *memory)
{
    if (memory->pinned != NULL)
        kvbm_cuda_unpin_host(memory->cuda, memory->pinned);
    memory->pinned = NULL;
}

void
worker_rank_memory_close(struct worker_rank_memory *memory)
{
    worker_rank_memory_unpin(memory);
    kvbm_storage_close(memory->page);
    kvbm_storage_close(memory->g1);
    kvbm_cuda_close(memory->cuda);
}

/* The parts of a layer, one a head: at the same place in the page and in a block of G1. */
static void
parts_of(const struct worker_rank_memory *memory, const struct worker_shard *shard, uint32_t block,
         uint32_t layer, struct kvbm_storage_io ios[WORKER_SHARD_HEADS])
{
    uint8_t *page = kvbm_storage_address(memory->page, 0);

    for (uint32_t head = 0; head < shard->heads; head++) {
        const size_t offset = worker_shard_offset(shard, head, layer);

        ios[head] = (struct kvbm_storage_io){
            .host = page + offset, .block = block, .offset = offset, .size = shard->run};
    }
}

void
worker_rank_memory_fill(struct worker_rank_memory *memory, const struct worker_shard *shard,
                        uint32_t block, uint64_t hash, uint32_t layer)
{
    struct kvbm_storage_io ios[WORKER_SHARD_HEADS];

    if (memory->page == NULL) {
        worker_shard_fill(shard, hash, layer, kvbm_storage_address(memory->g1, block));
        return;
    }
    worker_shard_fill(shard, hash, layer, kvbm_storage_address(memory->page, 0));
    parts_of(memory, shard, block, layer, ios);
    kvbm_storage_write(memory->g1, ios, shard->heads);
    for (uint32_t head = 0; head < shard->heads; head++)
        memory->lost = memory->lost || ios[head].status != KVT_OK;
}

size_t
worker_rank_memory_check(struct worker_rank_memory *memory, const struct worker_shard *shard,
                         uint32_t block, uint64_t hash, uint32_t layer)
{
    struct kvbm_storage_io ios[WORKER_SHARD_HEADS];

    if (memory->page == NULL)
        return worker_shard_check(shard, hash, layer, kvbm_storage_address(memory->g1, block));
    parts_of(memory, shard, block, layer, ios);
    kvbm_storage_read(memory->g1, ios, shard->heads);
    for (uint32_t head = 0; head < shard->heads; head++)
        memory->lost = memory->lost || ios[head].status != KVT_OK;
    return memory->lost
               ? 0
               : worker_shard_check(shard, hash, layer, kvbm_storage_address(memory->page, 0));
}
