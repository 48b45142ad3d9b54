#include "worker/replay/tier_stack.h"

#include <assert.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <unistd.h>

#include "base/core/alloc.h"
#include "base/core/log.h"
#include "kvbm/cuda/cuda_memory.h"
#include "kvbm/pool/mutable_block.h"
#include "kvbm/storage/disk.h"

#include "worker/object/gateway_volume.h"

enum {
    QUEUE_MAX = 256, /* pushed blocks that wait */
    ITERATION = 100, /* ms between the manager's looks at tiers that nobody said anything of */
    RETRY = 500,     /* ms before an edge that moved nothing tries again */
    VOLUME_QUEUE = 2 * KVT_OFFLOAD_JOBS, /* tickets */
    PPM = 1000000,
};

static uint32_t
least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static enum kvt_err
open_pool(struct worker_stack *stack, struct kvbm_tier *tier, uint32_t blocks, enum kvt_tier which,
          struct kvt_error *err)
{
    return worker_ledger_pool(&tier->pool, &stack->ledger, which, &stack->shared->order, blocks,
                              err);
}

static enum kvt_err
open_disk(struct worker_stack *stack, size_t block_size, struct kvt_error *err)
{
    const struct worker_settings *settings = stack->shared->settings;
    /* Blocks of another shape or namespace are no blocks of ours. */
    const struct kvbm_disk_keep keep = {.fingerprint =
                                            settings->layout.fingerprint ^ settings->salt};
    char path[PATH_MAX];
    int size;

    if (settings->g3_keep)
        size = snprintf(path, sizeof(path), "%s/kvtier-%s.g3", settings->g3_dir, stack->name);
    else
        size = snprintf(path, sizeof(path), "%s/kvtier-%s-%ld.g3", settings->g3_dir, stack->name,
                        (long)getpid());
    if (size < 0 || (size_t)size >= sizeof(path))
        return kvt_error_set(err, KVT_RANGE, "g3.dir: too long");
    /* A file of this name can only be left by a dead process whose number is ours now. */
    if (!settings->g3_keep)
        (void)unlink(path);
    return kvbm_disk_open(&stack->g3.storage,
                          &(struct kvbm_disk_options){
                              .path = path,
                              .block_count = settings->g3_blocks,
                              .block_size = block_size,
                              .direct = settings->g3_direct,
                              .keep = settings->g3_keep ? &keep : NULL,
                          },
                          err);
}

/* Name one block that an earlier process left; `handle` holds it, and no more afterwards. */
static void
take_over_block(struct worker_stack *stack, const struct kvbm_storage_name *name,
                struct kvt_handle handle)
{
    struct kvbm_pool *pool = stack->g3.pool;
    const struct kvbm_label label = {name->id, name->prefix_hash, name->tokens_hash};
    enum kvt_err rc = kvbm_block_begin(pool, handle, NULL);

    if (rc == KVT_OK)
        rc = kvbm_block_complete(pool, handle, &label, NULL);
    if (rc == KVT_OK)
        rc = kvbm_pool_register(pool, &handle, NULL);
    assert(rc == KVT_OK); /* the pool is empty, and the index has each name once */
    kvbm_pool_drop(pool, handle);
}

/* What an earlier process left in the disk tier is in the pool before the first request, and said
 * on the bus.  All blocks are taken, so that each name gets the block it lies in. */
static enum kvt_err
take_over_disk(struct worker_stack *stack, struct kvt_error *err)
{
    const uint32_t count = stack->shared->settings->g3_blocks;
    struct kvt_handle *handles = kvt_calloc(2 * (size_t)count, sizeof(*handles));
    struct kvt_handle *by_block = handles == NULL ? NULL : handles + count;
    struct kvbm_storage_name name;
    uint32_t at = 0;
    uint32_t found = 0;

    if (handles == NULL || kvbm_pool_allocate(stack->g3.pool, count, handles) != KVT_OK) {
        kvt_free(handles);
        return kvt_error_set(err, KVT_NOMEM, "%s: disk tier of an earlier process", stack->name);
    }
    for (uint32_t i = 0; i < count; i++)
        by_block[handles[i].block] = handles[i];
    while (kvbm_disk_found(stack->g3.storage, &at, &name, 1) == 1) {
        take_over_block(stack, &name, by_block[name.block]);
        by_block[name.block].block = UINT32_MAX;
        found++;
    }
    for (uint32_t i = 0; i < count; i++)
        if (by_block[i].block != UINT32_MAX)
            kvbm_pool_drop(stack->g3.pool, by_block[i]);
    kvt_free(handles);
    kvt_log_info("worker.stack", "disk_taken_over", "%s: %" PRIu32 " blocks of an earlier process",
                 stack->name, found);
    return KVT_OK;
}

static enum kvt_err
open_memory(struct worker_stack *stack, size_t block_size, struct kvt_error *err)
{
    const struct worker_settings *settings = stack->shared->settings;
    struct kvbm_cuda *cuda = stack->shared->cuda;
    enum kvt_err rc;

    if (cuda != NULL) {
        rc = kvbm_cuda_open_device(&stack->g1.storage, cuda, settings->g1_blocks, block_size, err);
        if (rc == KVT_OK)
            rc = kvbm_cuda_open_pinned(&stack->g2.storage, cuda, settings->g2_blocks, block_size,
                                       err);
        if (rc == KVT_OK)
            rc = kvbm_cuda_open_pinned(&stack->scratch, cuda, WORKER_STACK_CHUNK, block_size, err);
        return rc;
    }
    rc = kvbm_storage_open_memory(&stack->g1.storage, KVBM_STORAGE_DEVICE, settings->g1_blocks,
                                  block_size, err);
    if (rc == KVT_OK)
        rc = kvbm_storage_open_memory(&stack->g2.storage, KVBM_STORAGE_SYSTEM, settings->g2_blocks,
                                      block_size, err);
    if (rc == KVT_OK)
        rc = kvbm_storage_open_memory(&stack->scratch, KVBM_STORAGE_SYSTEM, WORKER_STACK_CHUNK,
                                      block_size, err);
    return rc;
}

static struct kvbm_manager_tier
managed(const struct worker_stack *stack, const struct kvbm_tier *tier, uint32_t high_ppm)
{
    return (struct kvbm_manager_tier){
        .pool = tier->pool,
        .storage = tier->storage,
        .high_ppm = high_ppm,
        .low_ppm = stack->shared->settings->low_ppm,
    };
}

/* kvbm_manager_lost_fn */
static void
on_lost(void *arg, enum kvt_tier tier, uint64_t hash, size_t count)
{
    const struct worker_stack *stack = arg;

    kvt_log_error("worker.stack", "blocks_lost",
                  "%s: %zu blocks of %s are unreadable or wrong and were dropped, the first is "
                  "%016" PRIx64,
                  stack->name, count, kvt_tier_name(tier), hash);
}

static enum kvt_err
open_manager(struct worker_stack *stack, struct kvt_error *err)
{
    const struct worker_shared *shared = stack->shared;
    const struct worker_settings *settings = shared->settings;
    struct kvbm_manager_tier g1 = managed(stack, &stack->g1, PPM);

    /* Its blocks are pushed as they are made: no watermark is needed, nor a wait for room. */
    g1.evicts = true;
    return kvbm_manager_new(
        &stack->manager,
        &(struct kvbm_manager_options){
            .tiers[KVT_TIER_G1] = g1,
            .tiers[KVT_TIER_G2] = managed(stack, &stack->g2, settings->high_ppm),
            .tiers[KVT_TIER_G3] = managed(stack, &stack->g3, settings->high_ppm),
            .volumes = stack->volumes,
            .volume = WORKER_GATEWAY_VOLUME_DOWN,
            .volume_up = WORKER_GATEWAY_VOLUME_UP,
            .transfer = shared->transfer,
            .cost = shared->cost,
            /* Waiting blocks are held: most of G1 must stay usable. */
            .queue_max = least(QUEUE_MAX, settings->g1_blocks / 4),
            .room_wait_ms = settings->room_wait_ms,
            .retry_ms = RETRY,
            .iteration_ms = ITERATION,
            .lost = on_lost,
            .lost_arg = stack,
        },
        err);
}

enum kvt_err
worker_stack_open(struct worker_stack **out, const struct worker_shared *shared, uint32_t number,
                  struct kvt_error *err)
{
    const struct worker_settings *settings = shared->settings;
    const size_t block_size = settings->layout.block_size;
    struct worker_stack *stack;
    enum kvt_err rc;

    *out = NULL;
    stack = kvt_calloc(1, sizeof(*stack));
    if (stack == NULL)
        return kvt_error_set(err, KVT_NOMEM, "worker %" PRIu32, number);
    stack->shared = shared;
    (void)snprintf(stack->name, sizeof(stack->name), "%.*s-%" PRIu32, KVT_NAME_MAX - 12,
                   settings->name, number);
    stack->chunk = least(WORKER_STACK_CHUNK, least(settings->g1_blocks, settings->g2_blocks) / 4);
    stack->take_max = least(WORKER_STACK_TAKE, settings->g1_blocks / 4);
    rc = worker_ledger_open(&stack->ledger, settings, stack->name, &stack->counters, err);
    if (rc == KVT_OK)
        rc = open_memory(stack, block_size, err);
    if (rc == KVT_OK)
        rc = open_pool(stack, &stack->g1, settings->g1_blocks, KVT_TIER_G1, err);
    if (rc == KVT_OK)
        rc = open_pool(stack, &stack->g2, settings->g2_blocks, KVT_TIER_G2, err);
    if (rc == KVT_OK && settings->g3_blocks > 0) {
        rc = open_disk(stack, block_size, err);
        if (rc == KVT_OK)
            rc = open_pool(stack, &stack->g3, settings->g3_blocks, KVT_TIER_G3, err);
    }
    if (rc == KVT_OK) {
        struct kvbm_pool *const pools[WORKER_LEDGER_TIERS] = {stack->g1.pool, stack->g2.pool,
                                                              stack->g3.pool};

        rc = worker_ledger_attach(&stack->ledger, shared->bus, pools, err);
    }
    if (rc == KVT_OK && stack->g3.pool != NULL && settings->g3_keep)
        rc = take_over_disk(stack, err);
    if (rc == KVT_OK && shared->remote != NULL)
        rc = worker_gateway_volumes(&stack->volumes, shared->remote, block_size, VOLUME_QUEUE, err);
    if (rc == KVT_OK)
        rc = open_manager(stack, err);
    if (rc != KVT_OK) {
        worker_stack_close(stack);
        return rc;
    }
    *out = stack;
    return KVT_OK;
}

static void
close_tier(struct kvbm_tier *tier)
{
    kvbm_pool_free(tier->pool);
    kvbm_storage_close(tier->storage);
}

void
worker_stack_close(struct worker_stack *stack)
{
    if (stack == NULL)
        return;
    /* The manager calls volumes and pools, the pools call the ledger, the ledger's publisher reads
     * the pools: take them down from the side nobody calls. */
    kvbm_manager_free(stack->manager);
    kvbm_volumes_free(stack->volumes);
    worker_ledger_leave(&stack->ledger);
    close_tier(&stack->g1);
    close_tier(&stack->g2);
    close_tier(&stack->g3);
    kvbm_storage_close(stack->scratch);
    worker_ledger_close(&stack->ledger);
    kvt_free(stack);
}
