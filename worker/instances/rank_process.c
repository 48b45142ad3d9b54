#include "worker/instances/rank_process.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/config/program.h"
#include "base/core/alloc.h"
#include "base/core/log.h"
#include "kvbm/storage/disk.h"

#include "engine/connector/connector_meta.h"
#include "engine/connector/forward_hook.h"
#include "engine/rank/rank.h"
#include "engine/rank/rank_client.h"
#include "engine/rpc/rpc.h"
#include "worker/instances/instance_message.h"
#include "worker/instances/rank_memory.h"
#include "worker/instances/shard.h"
#include "worker/object/gateway_volume.h"

enum {
    TICK = 200,         /* ms */
    LAYER_WAIT = 30000, /* ms for a layer */
    QUEUE_MAX = 128,    /* tickets on one path */
    VOLUME_QUEUE = 16,
};

struct rank {
    const struct worker_instance_plan *plan;
    struct worker_settings settings; /* with this rank's block and number */
    struct worker_shard shard;
    struct engine_fabric *fabric;
    struct engine_blockset *shown;
    struct worker_rank_memory memory; /* G1 */
    struct kvbm_storage *g3;
    struct kvbm_transfer *transfer;
    struct worker_object_tier *remote;
    struct kvbm_volumes *volumes;
    struct engine_worker *worker;
    struct engine_rank_server *serve;
    struct engine_hook *hook;
    struct engine_rpc_server *steps;
};

/* ---- an iteration ---- */

struct step_block {
    uint32_t block; /* of G1 */
    uint64_t hash;
    size_t wrong;
};

struct step_list {
    struct step_block *blocks;
    size_t count;
};

struct step {
    struct step_list loads, checks, computes;
    const uint8_t *meta;
    size_t meta_size;
};

static bool
read_list(struct worker_message *message, const struct rank *rank, struct step_list *list)
{
    list->count = worker_message_get_count(message, 2);
    list->blocks = kvt_calloc(list->count + 1, sizeof(*list->blocks));
    if (list->blocks == NULL)
        return false;
    for (size_t i = 0; i < list->count; i++) {
        const uint64_t block = worker_message_get(message);

        message->bad = message->bad || block >= rank->memory.g1->block_count;
        list->blocks[i] = (struct step_block){(uint32_t)block, worker_message_get(message), 0};
    }
    return !message->bad;
}

static bool
read_step(struct step *step, const struct rank *rank, const uint8_t *bytes, size_t size)
{
    struct worker_message message = {.bytes = bytes, .size = size};

    if (!read_list(&message, rank, &step->loads) || !read_list(&message, rank, &step->checks) ||
        !read_list(&message, rank, &step->computes))
        return false;
    step->meta = worker_message_get_bytes(&message, &step->meta_size);
    return worker_message_end(&message);
}

static void
check(struct rank *rank, struct step_list *list, uint32_t layer)
{
    for (size_t i = 0; i < list->count; i++) {
        struct step_block *at = &list->blocks[i];

        at->wrong +=
            worker_rank_memory_check(&rank->memory, &rank->shard, at->block, at->hash, layer);
    }
}

/* A layer of a model: it reads what was there, and writes what is new. */
static void
compute(struct rank *rank, struct step *step, uint32_t layer)
{
    if (step->meta_size > 0)
        (void)engine_hook_wait_for_layer_load(rank->hook, layer, LAYER_WAIT);
    check(rank, &step->loads, layer);
    check(rank, &step->checks, layer);
    for (size_t i = 0; i < step->computes.count; i++)
        worker_rank_memory_fill(&rank->memory, &rank->shard, step->computes.blocks[i].block,
                                step->computes.blocks[i].hash, layer);
    if (step->meta_size > 0)
        engine_hook_save_layer(rank->hook, layer);
}

/* What could not be loaded is known to be wrong: by its number in `failed`. */
static uint64_t
wrong_of(const struct rank *rank, const struct step_list *list, const bool *failed)
{
    uint64_t wrong = 0;

    for (size_t i = 0; i < list->count; i++) {
        if (list->blocks[i].wrong == 0 || failed[list->blocks[i].block])
            continue;
        kvt_log_error("worker.instance", "wrong_bytes",
                      "%" PRIu32 "-%" PRIu32 ": block %016" PRIx64 ": %zu bytes are wrong",
                      rank->plan->instance, rank->plan->rank, list->blocks[i].hash,
                      list->blocks[i].wrong);
        wrong += list->blocks[i].wrong;
    }
    return wrong;
}

static enum kvt_err
answer_of(struct rank *rank, const struct step *step, struct kvt_buffer *out)
{
    struct kvt_buffer report;
    bool *failed = kvt_calloc(rank->memory.g1->block_count, sizeof(*failed));
    uint32_t blocks[64];
    enum kvt_err rc;
    size_t count;

    kvt_buffer_init(&report, ENGINE_META_MAX);
    rc = failed == NULL ? KVT_NOMEM : engine_hook_report(rank->hook, &report);
    while (rc == KVT_OK && (count = engine_hook_load_errors(rank->hook, blocks, 64)) > 0)
        for (size_t i = 0; i < count; i++)
            failed[blocks[i]] = true;
    if (rc == KVT_OK) {
        worker_message_put(out, wrong_of(rank, &step->loads, failed) +
                                    wrong_of(rank, &step->checks, failed));
        worker_message_put(out, step->loads.count + step->checks.count);
        worker_message_put_bytes(out, report.data, report.size);
        rc = kvt_buffer_ok(out) ? KVT_OK : KVT_NOMEM;
    }
    kvt_buffer_release(&report);
    kvt_free(failed);
    return rc;
}

/* engine_rpc_handler_fn, on the one thread of its server */
static void
on_step(void *arg, struct engine_rpc_call *call)
{
    struct rank *rank = arg;
    struct step step = {.meta = NULL};
    struct kvt_error why = {.text = ""};
    struct kvt_buffer out;
    size_t size;
    const uint8_t *bytes = engine_rpc_call_bytes(call, &size);
    enum kvt_err rc = KVT_INVALID;

    kvt_buffer_init(&out, ENGINE_RPC_PAYLOAD_MAX);
    if (read_step(&step, rank, bytes, size))
        rc = step.meta_size == 0 ? KVT_OK
                                 : engine_hook_begin(rank->hook, step.meta, step.meta_size, &why);
    if (rc == KVT_OK) {
        if (step.meta_size > 0)
            engine_hook_start_load(rank->hook);
        for (uint32_t layer = 0; layer < WORKER_SHARD_LAYERS; layer++)
            compute(rank, &step, layer);
        if (step.meta_size > 0)
            (void)engine_hook_wait_for_save(rank->hook, LAYER_WAIT);
        rc = rank->memory.lost ? kvt_error_set(&why, KVT_IO, "the device of G1 has failed")
                               : answer_of(rank, &step, &out);
    }
    if (rc != KVT_OK)
        kvt_log_error("worker.instance", "step", "%s", why.text);
    engine_rpc_answer(call, rc, out.data, rc == KVT_OK ? out.size : 0);
    kvt_buffer_release(&out);
    kvt_free(step.loads.blocks);
    kvt_free(step.checks.blocks);
    kvt_free(step.computes.blocks);
}

/* engine_rpc_handler_fn */
static void
on_look(void *arg, struct engine_rpc_call *call)
{
    struct rank *rank = arg;
    struct worker_object_tier_stats stats = {.away = false};
    struct kvt_buffer out;

    if (rank->remote != NULL)
        worker_object_tier_stats(rank->remote, &stats);
    kvt_buffer_init(&out, 64);
    worker_message_put(&out, stats.away ? 1 : 0);
    worker_message_put(&out, rank->memory.cuda != NULL ? 1 : 0);
    engine_rpc_answer(call, kvt_buffer_ok(&out) ? KVT_OK : KVT_NOMEM, out.data, out.size);
    kvt_buffer_release(&out);
}

/* ---- tiers ---- */

static enum kvt_err
open_disk(struct rank *rank, struct kvt_error *err)
{
    const struct worker_settings *settings = &rank->settings;
    char path[PATH_MAX];

    if (settings->g3_blocks == 0)
        return KVT_OK;
    if (snprintf(path, sizeof(path), "%s/kvtier-%s-%" PRIu32 "-%" PRIu32 "-%ld.g3",
                 settings->g3_dir, settings->name, rank->plan->instance, rank->plan->rank,
                 (long)getpid()) >= (int)sizeof(path))
        return kvt_error_set(err, KVT_RANGE, "g3.dir: too long");
    (void)unlink(path);
    return kvbm_disk_open(&rank->g3,
                          &(struct kvbm_disk_options){
                              .path = path,
                              .block_count = settings->g3_blocks,
                              .block_size = rank->shard.layout.block_size,
                              .direct = settings->g3_direct,
                          },
                          err);
}

static enum kvt_err
open_objects(struct rank *rank, struct kvt_error *err)
{
    enum kvt_err rc = worker_object_tier_open(&rank->remote, &rank->settings, err);

    if (rc != KVT_OK || rank->remote == NULL)
        return rc;
    return worker_gateway_volumes(&rank->volumes, rank->remote, rank->shard.layout.block_size,
                                  VOLUME_QUEUE, err);
}

static enum kvt_err
open_tiers(struct rank *rank, struct kvt_error *err)
{
    const struct kvbm_layout *layout = &rank->shard.layout;
    enum kvt_err rc = worker_rank_memory_open(&rank->memory, rank->plan, &rank->shard, err);

    if (rc == KVT_OK)
        rc = engine_fabric_open(&rank->fabric, &(struct engine_fabric_options){0}, err);
    if (rc == KVT_OK)
        rc =
            engine_blockset_open(&rank->shown, rank->fabric, layout, rank->settings.g2_blocks, err);
    if (rc == KVT_OK)
        worker_rank_memory_pin(&rank->memory, engine_blockset_storage(rank->shown));
    if (rc == KVT_OK)
        rc = open_disk(rank, err);
    if (rc == KVT_OK)
        rc = kvbm_transfer_new(&rank->transfer, QUEUE_MAX, err);
    return rc == KVT_OK ? open_objects(rank, err) : rc;
}

static enum kvt_err
open_worker(struct rank *rank, struct kvt_error *err)
{
    const struct engine_rank_options options = {
        .layout = rank->shard.layout,
        .tiers[KVT_TIER_G1].storage = rank->memory.g1,
        .tiers[KVT_TIER_G2].storage = engine_blockset_storage(rank->shown),
        .tiers[KVT_TIER_G3].storage = rank->g3,
        .transfer = rank->transfer,
        .fabric = rank->fabric,
        .shown = rank->shown,
        .volumes = rank->volumes,
        .volume_put = WORKER_GATEWAY_VOLUME_DOWN,
        .volume_get = WORKER_GATEWAY_VOLUME_UP,
    };
    char endpoint[WORKER_INSTANCE_ENDPOINT];
    enum kvt_err rc = engine_rank_open(&rank->worker, &options, err);

    if (rc == KVT_OK)
        rc = engine_hook_open(&rank->hook, rank->worker, err);
    worker_instance_plan_endpoint(rank->plan, WORKER_DOOR_WORK, rank->plan->instance,
                                  rank->plan->rank, endpoint);
    return rc == KVT_OK ? engine_rank_server_open(&rank->serve, rank->worker, endpoint, err) : rc;
}

static enum kvt_err
open_steps(struct rank *rank, struct kvt_error *err)
{
    static const struct engine_rpc_method methods[] = {
        {.number = WORKER_STEP_RUN, .name = "step", .run = on_step, .slow = true},
        {.number = WORKER_STEP_LOOK, .name = "look", .run = on_look},
    };
    char endpoint[WORKER_INSTANCE_ENDPOINT];

    worker_instance_plan_endpoint(rank->plan, WORKER_DOOR_STEP, rank->plan->instance,
                                  rank->plan->rank, endpoint);
    return engine_rpc_server_open(&rank->steps,
                                  &(struct engine_rpc_server_options){
                                      .endpoint = endpoint,
                                      .methods = methods,
                                      .method_count = sizeof(methods) / sizeof(methods[0]),
                                      .arg = rank,
                                      .threads = 1,
                                  },
                                  err);
}

static void
close_rank(struct rank *rank)
{
    worker_object_tier_stop(rank->remote);
    engine_rpc_server_close(rank->steps);
    engine_hook_close(rank->hook);
    engine_rank_server_close(rank->serve);
    engine_worker_close(rank->worker);
    kvbm_volumes_free(rank->volumes);
    worker_object_tier_close(rank->remote);
    kvbm_transfer_free(rank->transfer);
    kvbm_storage_close(rank->g3);
    worker_rank_memory_unpin(&rank->memory);
    engine_blockset_close(rank->shown);
    engine_fabric_close(rank->fabric);
    worker_rank_memory_close(&rank->memory);
}

enum kvt_err
worker_rank_run(const struct worker_instance_plan *plan, struct kvt_error *err)
{
    struct rank rank = {.plan = plan, .settings = *plan->settings};
    const uint32_t shards = worker_instance_plan_shards(plan, plan->instance);
    enum kvt_err rc = worker_shard_make(&rank.shard, plan->settings->layout.block_size, shards,
                                        plan->replicated ? 0 : plan->rank, err);

    rank.settings.layout = rank.shard.layout;
    rank.settings.rank = plan->rank;
    rank.settings.acked_log = "";
    if (plan->replicated && plan->rank > 0) { /* it has what comes from rank 0, and no more */
        rank.settings.g2_blocks = WORKER_INSTANCE_STAGED;
        rank.settings.g3_blocks = 0;
        rank.settings.endpoint = "";
        rank.settings.s3.endpoint = "";
    }
    if (rc == KVT_OK)
        rc = open_tiers(&rank, err);
    if (rc == KVT_OK)
        rc = open_worker(&rank, err);
    if (rc == KVT_OK)
        rc = open_steps(&rank, err);
    while (rc == KVT_OK && !kvt_program_wait(TICK))
        worker_object_tier_look(rank.remote);
    close_rank(&rank);
    return rc;
}
