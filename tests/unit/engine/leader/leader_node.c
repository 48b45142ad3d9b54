#include "tests/unit/engine/leader/leader_node.h"

#include <assert.h>
#include <pthread.h>
#include <string.h>

#include "base/core/alloc.h"
#include "kvbm/pool/mutable_block.h"

#include "tests/unit/engine/support/content.h"

/* ---- the gate ---- */

struct gate {
    struct engine_worker worker;
    struct engine_worker *inner;
    pthread_mutex_t lock; /* guards what follows */
    enum engine_verb shut;
    struct engine_job *held[ENGINE_JOBS_MAX];
    size_t count;
};

static struct gate *
gate_of(struct engine_worker *worker)
{
    return (struct gate *)worker;
}

static enum kvt_err
gate_start(struct engine_worker *worker, struct engine_job *job)
{
    struct gate *gate = gate_of(worker);
    bool held;

    (void)pthread_mutex_lock(&gate->lock);
    held = job->verb == gate->shut;
    if (held) {
        assert(gate->count < ENGINE_JOBS_MAX);
        gate->held[gate->count++] = job;
    }
    (void)pthread_mutex_unlock(&gate->lock);
    return held ? KVT_OK : engine_worker_start(gate->inner, job);
}

static void
gate_cancel(struct engine_worker *worker, struct engine_job *job)
{
    engine_worker_cancel(gate_of(worker)->inner, job);
}

static enum kvt_err
gate_describe(struct engine_worker *worker, struct kvt_buffer *out, uint64_t wait_ms,
              struct kvt_error *err)
{
    return engine_worker_describe(gate_of(worker)->inner, out, wait_ms, err);
}

static enum kvt_err
gate_connect(struct engine_worker *worker, uint64_t peer, const uint8_t *bytes, size_t size,
             uint64_t wait_ms, struct kvt_error *err)
{
    return engine_worker_connect(gate_of(worker)->inner, peer, bytes, size, wait_ms, err);
}

static void
gate_disconnect(struct engine_worker *worker, uint64_t peer)
{
    engine_worker_disconnect(gate_of(worker)->inner, peer);
}

static void
gate_close(struct engine_worker *worker)
{
    struct gate *gate = gate_of(worker);

    assert(gate->count == 0);
    engine_worker_close(gate->inner);
    (void)pthread_mutex_destroy(&gate->lock);
    kvt_free(gate);
}

static const struct engine_worker_ops gate_ops = {
    .kind = "gate",
    .start = gate_start,
    .cancel = gate_cancel,
    .describe = gate_describe,
    .connect = gate_connect,
    .disconnect = gate_disconnect,
    .close = gate_close,
};

static struct engine_worker *
open_gate(struct engine_worker *inner)
{
    struct gate *gate = kvt_calloc(1, sizeof(*gate));

    assert(gate != NULL);
    gate->worker = *inner;
    gate->worker.ops = &gate_ops;
    gate->inner = inner;
    (void)pthread_mutex_init(&gate->lock, NULL);
    return &gate->worker;
}

void
node_gate(struct node *node, enum engine_verb verb)
{
    struct gate *gate = gate_of(node->worker);
    struct engine_job *jobs[ENGINE_JOBS_MAX];
    size_t count;

    (void)pthread_mutex_lock(&gate->lock);
    gate->shut = verb;
    count = gate->count;
    memcpy(jobs, gate->held, count * sizeof(struct engine_job *));
    gate->count = 0;
    (void)pthread_mutex_unlock(&gate->lock);
    for (size_t i = 0; i < count; i++) {
        const enum kvt_err rc = engine_worker_start(gate->inner, jobs[i]);

        if (rc == KVT_OK)
            continue;
        engine_job_fail(jobs[i], rc);
        engine_job_finish(&gate->worker, jobs[i], NULL);
    }
}

size_t
node_gated(struct node *node)
{
    struct gate *gate = gate_of(node->worker);
    size_t count;

    (void)pthread_mutex_lock(&gate->lock);
    count = gate->count;
    (void)pthread_mutex_unlock(&gate->lock);
    return count;
}

/* ---- an instance ---- */

static struct kvbm_layout
layout_of(void)
{
    const struct kvt_geometry geometry = {
        .size = sizeof(geometry),
        .kind = KVT_LAYOUT_UNIVERSAL,
        .layers = 2,
        .outer = 2,
        .page_size = 16,
        .inner_dim = 64,
        .dtype_bytes = 2,
        .alignment = 4096,
        .tp_size = 1,
        .heads = 2,
    };
    struct kvbm_layout layout;
    const enum kvt_err rc = kvbm_layout_make(&layout, &geometry, NULL);

    assert(rc == KVT_OK);
    (void)rc;
    return layout;
}

static enum kvt_err
open_rank(struct node *node, bool far)
{
    const struct engine_fabric_options fabric = {.near = far ? "" : NULL, .far = far ? "tcp" : ""};
    struct engine_rank_options *rank = &node->rank;
    struct engine_worker *worker;
    enum kvt_err rc = engine_fabric_open(&rank->fabric, &fabric, NULL);

    rank->layout = layout_of();
    if (rc == KVT_OK)
        rc = engine_blockset_open(&rank->shown, rank->fabric, &rank->layout, NODE_BLOCKS, NULL);
    if (rc == KVT_OK)
        rc = kvbm_storage_open_memory(&rank->tiers[KVT_TIER_G3].storage, KVBM_STORAGE_SYSTEM,
                                      NODE_BLOCKS, rank->layout.block_size, NULL);
    if (rc == KVT_OK)
        rc = kvbm_transfer_new(&rank->transfer, 64, NULL);
    if (rc != KVT_OK)
        return rc;
    rank->tiers[KVT_TIER_G2].storage = engine_blockset_storage(rank->shown);
    rc = engine_rank_open(&worker, rank, NULL);
    if (rc == KVT_OK)
        node->worker = open_gate(worker);
    return rc;
}

enum kvt_err
node_open(struct node *node, const struct node_options *options)
{
    enum kvt_err rc;

    memset(node, 0, sizeof(*node));
    rc = open_rank(node, options->far);
    for (unsigned tier = KVT_TIER_G2; rc == KVT_OK && tier < KVT_TIER_G4; tier++)
        rc = kvbm_pool_new(&node->pools[tier], &(struct kvbm_pool_options){
                                                   .block_count = NODE_BLOCKS,
                                                   .dedup = KVT_POOL_DEDUP_REJECT,
                                                   .order = KVT_POOL_ORDER_LRU,
                                               });
    if (rc == KVT_OK)
        rc = engine_leader_open(&node->leader,
                                &(struct engine_leader_options){
                                    .instance = options->number,
                                    .worker = node->worker,
                                    .g2 = node->pools[KVT_TIER_G2],
                                    .g3 = node->pools[KVT_TIER_G3],
                                    .endpoint = options->endpoint,
                                    .hold_ms = options->hold_ms,
                                },
                                NULL);
    return rc;
}

void
node_close(struct node *node)
{
    node_gate(node, (enum engine_verb)0);
    engine_leader_close(node->leader);
    engine_worker_close(node->worker);
    for (unsigned tier = KVT_TIER_G2; tier < KVT_TIER_G4; tier++)
        kvbm_pool_free(node->pools[tier]);
    kvbm_transfer_free(node->rank.transfer);
    kvbm_storage_close(node->rank.tiers[KVT_TIER_G3].storage);
    engine_blockset_close(node->rank.shown);
    engine_fabric_close(node->rank.fabric);
}

/* ---- its blocks ---- */

void
node_labels(struct kvbm_label *labels, uint64_t chain, size_t count)
{
    for (size_t i = 0; i < count; i++)
        labels[i] = (struct kvbm_label){
            .id = {.hash = chain * 100 + i + 1,
                   .parent = i == 0 ? 0 : chain * 100 + i,
                   .position = (uint32_t)i},
            .prefix_hash = chain * 100 + 1,
        };
}

bool
node_make(struct node *node, enum kvt_tier tier, uint64_t chain, size_t first, size_t count)
{
    struct kvbm_storage *storage = node->rank.tiers[tier].storage;
    struct kvbm_pool *pool = node->pools[tier];
    struct kvbm_label labels[NODE_CHAIN];

    node_labels(labels, chain, first + count);
    for (size_t i = first; i < first + count; i++) {
        struct kvt_handle handle;
        enum kvt_err rc;

        if (kvbm_pool_allocate(pool, 1, &handle) != KVT_OK)
            return false;
        rc = kvbm_block_begin(pool, handle, NULL);
        assert(rc == KVT_OK);
        if (tier == KVT_TIER_G2)
            engine_blockset_hide(node->rank.shown, handle.block);
        content_fill(&node->rank.layout, kvbm_storage_address(storage, handle.block),
                     labels[i].id.hash);
        rc = kvbm_block_complete(pool, handle, &labels[i], NULL);
        assert(rc == KVT_OK);
        rc = kvbm_pool_register(pool, &handle, NULL);
        if (tier == KVT_TIER_G2 && rc == KVT_OK)
            engine_leader_arrived(node->leader, &handle, 1);
        kvbm_pool_drop(pool, handle);
        if (rc != KVT_OK && rc != KVT_EXISTS)
            return false;
    }
    return true;
}

static bool
is_block(struct node *node, struct kvt_handle handle, uint64_t hash)
{
    struct kvbm_storage *storage = node->rank.tiers[KVT_TIER_G2].storage;

    return kvbm_pool_label(node->pools[KVT_TIER_G2], handle).id.hash == hash &&
           content_is(&node->rank.layout, kvbm_storage_address(storage, handle.block), hash);
}

bool
node_are(struct node *node, uint64_t chain, const struct kvt_handle *handles, size_t count)
{
    bool are = true;

    for (size_t i = 0; i < count; i++)
        are = are && is_block(node, handles[i], chain * 100 + i + 1);
    return are;
}

size_t
node_has(struct node *node, uint64_t chain)
{
    struct kvbm_pool *pool = node->pools[KVT_TIER_G2];
    bool right = true;
    size_t count = 0;

    for (uint64_t i = 1; i <= NODE_CHAIN; i++) {
        struct kvt_handle handle;

        if (kvbm_pool_find(pool, chain * 100 + i, &handle) != KVT_OK)
            continue;
        count++;
        right = right && is_block(node, handle, chain * 100 + i);
        kvbm_pool_drop(pool, handle);
    }
    return right ? count : SIZE_MAX;
}

bool
node_is_idle(struct node *node, uint64_t holders)
{
    struct engine_leader_stats stats;

    engine_leader_stats(node->leader, &stats);
    return stats.pins == 0 && stats.matches == 0 && stats.peer_sessions == 0 &&
           kvbm_pool_stats(node->pools[KVT_TIER_G2]).active == holders &&
           kvbm_pool_stats(node->pools[KVT_TIER_G3]).active == 0;
}
