#include "worker/instances/leader_process.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <string.h>

#include "base/config/program.h"
#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/core/log.h"

#include "engine/connector/connector.h"
#include "engine/connector/forward_hook.h"
#include "engine/leader/leader.h"
#include "engine/rank/group.h"
#include "engine/rank/rank_client.h"
#include "engine/replica/broadcast.h"
#include "engine/replica/replica_group.h"
#include "engine/rpc/rpc.h"
#include "worker/instances/instance_message.h"
#include "worker/instances/instance_stats.h"
#include "worker/instances/leader_fence.h"
#include "worker/instances/rank_set.h"
#include "worker/instances/scheduler.h"
#include "worker/instances/trace_prefix.h"
#include "worker/replay/ledger.h"
#include "worker/settings/pool_order.h"

enum {
    TICK = 100,        /* ms */
    STORE_AGAIN = 250, /* ms; a batch is under a lock for less, mostly */
    AGAIN = 1000,      /* ms after streams could not be made */
    FIND_WAIT = 10000, /* ms that a request waits for its match */
    PEER_WAIT = 5000,  /* ms for another leader's description */
    SHARE_WAIT = 5000, /* ms for what ranks say of their devices */
    HOLD = 10000,      /* ms that a silent peer holds blocks here */
};

struct leader {
    const struct worker_instance_plan *plan;
    uint32_t ranks;
    struct engine_worker *worker;       /* all ranks */
    struct engine_broadcast *broadcast; /* the worker's, of ranks that hold the same, or NULL */
    struct worker_pool_order order;
    struct worker_counters counters;
    struct worker_ledger ledger;
    struct wire_bus *bus;
    bool connected;         /* as it was told last */
    uint64_t streams_at;    /* wire_bus_keep_streams() */
    uint64_t streams_ms;    /* not before */
    _Atomic bool nats_away; /* or has no streams */
    struct kvbm_pool *g2;
    struct kvbm_pool *g3;
    struct worker_store_lock *locks; /* NULL: none */
    struct engine_fence fence;       /* of these */
    struct engine_leader *leader;
    struct engine_connector *connector;
    struct engine_hook *hook; /* of ranks that hold the same */
    struct worker_rank_set *rank_set;
    struct worker_scheduler *scheduler;
    struct engine_rpc_server *supervisor;
    uint64_t lives[WORKER_INSTANCES_MAX]; /* of peers; of the server's slow thread */
};

/* ---- calls ---- */

static struct worker_instance_stats
stats_of(struct leader *leader)
{
    struct engine_broadcast_state cast = {.why = ""};
    struct worker_scheduler_stats served;
    struct engine_leader_stats led;

    if (leader->broadcast != NULL)
        engine_broadcast_state(leader->broadcast, &cast);
    worker_scheduler_stats(leader->scheduler, &served);
    engine_leader_stats(leader->leader, &led);
    return (struct worker_instance_stats){.requests = served.requests,
                                          .blocks = served.blocks,
                                          .matched = served.matched,
                                          .computed = served.computed,
                                          .computed_again = served.again,
                                          .compared = served.compared,
                                          .wrong_bytes = served.wrong_bytes,
                                          .iterations = served.iterations,
                                          .hits_g2 = led.blocks_g2,
                                          .hits_g3 = led.blocks_g3,
                                          .hits_peer = led.blocks_peer,
                                          .hits_objects = led.blocks_objects,
                                          .shortened = led.shortened,
                                          .stored = led.stored,
                                          .store_failed = led.store_failed,
                                          .store_again = led.store_again,
                                          .lost = led.lost,
                                          .demoted = led.demoted,
                                          .peer_expired = led.peer_expired,
                                          .broadcast_ipc = cast.blocks[ENGINE_BY_IPC],
                                          .broadcast_fabric = cast.blocks[ENGINE_BY_FABRIC],
                                          .pins = led.pins,
                                          .matches = led.matches,
                                          .peer_sessions = led.peer_sessions,
                                          .unstored = led.unstored,
                                          .nats_away = atomic_load(&leader->nats_away) ? 1 : 0,
                                          .objects_away = worker_rank_set_away(leader->rank_set),
                                          .devices = worker_rank_set_devices(leader->rank_set)};
}

static void
answer_stats(struct leader *leader, struct engine_rpc_call *call, enum kvt_err status)
{
    const struct worker_instance_stats stats = stats_of(leader);
    struct kvt_buffer out;

    kvt_buffer_init(&out, 4096);
    worker_instance_stats_put(&stats, &out);
    if (!kvt_buffer_ok(&out) && status == KVT_OK)
        status = KVT_NOMEM;
    engine_rpc_answer(call, status, out.data, status == KVT_OK ? out.size : 0);
    kvt_buffer_release(&out);
}

/* The ids that a call names; the caller's to free. */
static enum kvt_err
read_ids(struct engine_rpc_call *call, uint64_t **ids, size_t *count)
{
    size_t size;
    const uint8_t *bytes = engine_rpc_call_bytes(call, &size);
    struct worker_message message = {.bytes = bytes, .size = size};

    *count = worker_message_get_count(&message, 1);
    *ids = kvt_calloc(*count + 1, sizeof(**ids));
    if (*ids == NULL)
        return KVT_NOMEM;
    for (size_t i = 0; i < *count; i++)
        (*ids)[i] = worker_message_get(&message);
    if (worker_message_end(&message))
        return KVT_OK;
    kvt_free(*ids);
    *ids = NULL;
    return KVT_INVALID;
}

/* A call of the supervisor that waits for its request. */
struct waiter {
    struct leader *leader;
    struct engine_rpc_call *call;
};

/* worker_served_fn */
static void
on_served(void *arg, enum kvt_err status)
{
    struct waiter *waiter = arg;

    answer_stats(waiter->leader, waiter->call, status);
    kvt_free(waiter);
}

/* engine_rpc_handler_fn */
static void
on_serve(void *arg, struct engine_rpc_call *call)
{
    struct leader *leader = arg;
    struct waiter *waiter = kvt_calloc(1, sizeof(*waiter));
    uint64_t *ids;
    size_t count;
    enum kvt_err rc = waiter != NULL ? read_ids(call, &ids, &count) : KVT_NOMEM;

    if (rc == KVT_OK) {
        *waiter = (struct waiter){leader, call};
        rc = worker_scheduler_add(leader->scheduler, ids, count, on_served, waiter);
        kvt_free(ids);
    }
    if (rc == KVT_OK)
        return;
    kvt_free(waiter);
    engine_rpc_answer(call, rc, NULL, 0);
}

/* engine_rpc_handler_fn; waits */
static void
on_peer(void *arg, struct engine_rpc_call *call)
{
    struct leader *leader = arg;
    size_t size;
    const uint8_t *bytes = engine_rpc_call_bytes(call, &size);
    struct worker_message message = {.bytes = bytes, .size = size};
    const uint64_t number = worker_message_get(&message);
    const uint64_t life = worker_message_get(&message);
    char endpoint[WORKER_INSTANCE_ENDPOINT];
    struct kvt_error err = {.text = ""};
    enum kvt_err rc = KVT_INVALID;

    if (worker_message_end(&message) && number < leader->plan->instances) {
        if (leader->lives[number] != 0)
            engine_leader_remove_peer(leader->leader, leader->lives[number]);
        leader->lives[number] = 0;
        worker_instance_plan_endpoint(leader->plan, WORKER_DOOR_PEER, (uint32_t)number,
                                      WORKER_INSTANCE_LEADER, endpoint);
        rc = engine_leader_add_peer(leader->leader, life, endpoint, PEER_WAIT, &err);
        if (rc == KVT_OK)
            leader->lives[number] = life;
        else
            kvt_log_warn("worker.instance", "peer", "%" PRIu32 ": instance %" PRIu64 ": %s",
                         leader->plan->instance, number, err.text);
    }
    engine_rpc_answer(call, rc, NULL, 0);
}

/* engine_rpc_handler_fn */
static void
on_status(void *arg, struct engine_rpc_call *call)
{
    struct leader *leader = arg;
    const struct worker_instance_stats stats = stats_of(leader);
    struct engine_broadcast_state cast;
    struct kvt_buffer out;

    kvt_buffer_init(&out, 4096);
    worker_instance_stats_put(&stats, &out);
    worker_message_put(&out, leader->broadcast != NULL ? 1 : 0);
    if (leader->broadcast != NULL) {
        engine_broadcast_state(leader->broadcast, &cast);
        worker_message_put(&out, cast.way);
        worker_message_put_bytes(&out, cast.why, strlen(cast.why));
    }
    engine_rpc_answer(call, kvt_buffer_ok(&out) ? KVT_OK : KVT_NOMEM, out.data, out.size);
    kvt_buffer_release(&out);
}

/* How long a prefix one tier has. */
static size_t
prefix_in(struct kvbm_pool *pool, const struct kvbm_label *labels, size_t count)
{
    size_t at = 0;

    while (pool != NULL && at < count && kvbm_pool_has(pool, labels[at].id.hash))
        at++;
    return at;
}

/* engine_rpc_handler_fn */
static void
on_find(void *arg, struct engine_rpc_call *call)
{
    struct leader *leader = arg;
    struct kvbm_label *labels = NULL;
    struct kvt_buffer out;
    uint64_t *ids;
    size_t count;
    enum kvt_err rc = read_ids(call, &ids, &count);

    kvt_buffer_init(&out, ENGINE_RPC_PAYLOAD_MAX);
    if (rc == KVT_OK) {
        labels = kvt_calloc(count + 1, sizeof(*labels));
        rc = labels == NULL
                 ? KVT_NOMEM
                 : worker_trace_prefix_labels(ids, count, leader->plan->settings->salt, labels);
        kvt_free(ids);
    }
    if (rc == KVT_OK) {
        worker_message_put(&out, engine_leader_has(leader->leader, labels, count));
        worker_message_put(&out, prefix_in(leader->g2, labels, count));
        worker_message_put(&out, prefix_in(leader->g3, labels, count));
        for (size_t i = 0; i < count; i++)
            worker_message_put(&out, labels[i].id.hash);
        rc = kvt_buffer_ok(&out) ? KVT_OK : KVT_NOMEM;
    }
    engine_rpc_answer(call, rc, out.data, rc == KVT_OK ? out.size : 0);
    kvt_buffer_release(&out);
    kvt_free(labels);
}

/* ---- what it is made of ---- */

/* One worker of all. */
static enum kvt_err
join(struct leader *leader, struct engine_worker *const *ranks, struct kvt_error *err)
{
    struct engine_broadcast *broadcast;
    enum kvt_err rc;

    if (!leader->plan->replicated)
        return engine_group_open(&leader->worker, ranks, leader->ranks, err);
    rc = engine_broadcast_choose(&broadcast, ranks, leader->ranks, WORKER_INSTANCE_STAGED,
                                 leader->plan->by_devices, SHARE_WAIT, err);
    if (rc != KVT_OK)
        return rc;
    rc = engine_replica_open(&leader->worker, ranks, leader->ranks, broadcast, err);
    if (rc == KVT_OK)
        leader->broadcast = broadcast;
    else
        engine_broadcast_close(broadcast);
    return rc;
}

static enum kvt_err
open_ranks(struct leader *leader, struct kvt_error *err)
{
    struct engine_worker *ranks[WORKER_INSTANCE_RANKS_MAX] = {NULL};
    enum kvt_err rc = KVT_OK;

    for (uint32_t rank = 0; rank < leader->ranks && rc == KVT_OK; rank++) {
        char endpoint[WORKER_INSTANCE_ENDPOINT];

        worker_instance_plan_endpoint(leader->plan, WORKER_DOOR_WORK, leader->plan->instance, rank,
                                      endpoint);
        rc = engine_rank_client_open(&ranks[rank],
                                     &(struct engine_rank_client_options){
                                         .endpoint = endpoint, .wait_ms = WORKER_INSTANCE_START_MS},
                                     err);
    }
    if (rc == KVT_OK)
        rc = join(leader, ranks, err);
    for (uint32_t rank = 0; rank < leader->ranks && rc != KVT_OK; rank++)
        engine_worker_close(ranks[rank]);
    return rc;
}

static enum kvt_err
open_pool(struct leader *leader, struct kvbm_pool **pool, enum kvt_tier tier, struct kvt_error *err)
{
    const uint32_t blocks = leader->worker->blocks[tier];

    return blocks == 0
               ? KVT_OK
               : worker_ledger_pool(pool, &leader->ledger, tier, &leader->order, blocks, err);
}

/* Without them JetStream takes no event; NATS may have come back without what it had. */
static void
keep_streams(struct leader *leader)
{
    const uint64_t now_ms = kvt_clock_mono_ms();
    struct kvt_error err = {.text = ""};
    enum kvt_err rc;

    if (leader->bus == NULL)
        return;
    wire_bus_tell(leader->bus, "worker.instance", "the advisor hears nothing of this instance",
                  &leader->connected);
    if (now_ms < leader->streams_ms)
        return;
    rc = wire_bus_keep_streams(leader->bus, &leader->streams_at, &err);
    if (rc != KVT_OK && wire_bus_connected(leader->bus)) {
        kvt_log_warn("worker.instance", "streams", "%s", err.text);
        leader->streams_ms = kvt_clock_mono_ms() + AGAIN;
    }
    atomic_store(&leader->nats_away, rc != KVT_OK);
}

static enum kvt_err
open_books(struct leader *leader, struct kvt_error *err)
{
    const struct worker_settings *settings = leader->plan->settings;
    struct kvbm_pool *pools[WORKER_LEDGER_TIERS] = {NULL};
    char name[KVT_NAME_MAX];
    enum kvt_err rc = worker_pool_order_open(&leader->order, settings->pool_order, err);

    worker_instance_plan_name(leader->plan, leader->plan->instance, name);
    if (rc == KVT_OK && settings->bus.url[0] != '\0')
        rc = wire_bus_open(&leader->bus, &settings->bus, err);
    if (rc == KVT_OK)
        keep_streams(leader);
    if (rc == KVT_OK)
        rc = worker_ledger_open(&leader->ledger, settings, name, &leader->counters, err);
    if (rc == KVT_OK)
        rc = open_pool(leader, &leader->g2, KVT_TIER_G2, err);
    if (rc == KVT_OK)
        rc = open_pool(leader, &leader->g3, KVT_TIER_G3, err);
    pools[1] = leader->g2;
    pools[2] = leader->g3;
    return rc == KVT_OK ? worker_ledger_attach(&leader->ledger, leader->bus, pools, err) : rc;
}

static enum kvt_err
open_fence(struct leader *leader, struct kvt_error *err)
{
    const struct worker_instance_plan *plan = leader->plan;
    char name[KVT_NAME_MAX];

    if (plan->lease_ms == 0 || !leader->worker->objects)
        return KVT_OK;
    worker_instance_plan_name(plan, plan->instance, name);
    return worker_store_lock_open(&leader->locks, plan->settings, name, plan->lease_ms, err);
}

static enum kvt_err
open_engine(struct leader *leader, struct kvt_error *err)
{
    const struct worker_instance_plan *plan = leader->plan;
    char endpoint[WORKER_INSTANCE_ENDPOINT];
    struct engine_leader_options options = {
        .instance = plan->life,
        .worker = leader->worker,
        .g2 = leader->g2,
        .g3 = leader->g3,
        .endpoint = endpoint,
        .hold_ms = HOLD,
        .g2_high_ppm = plan->settings->high_ppm,
        .g2_low_ppm = plan->settings->low_ppm,
        .store = leader->worker->objects,
        .store_again_ms = STORE_AGAIN,
    };
    enum kvt_err rc = open_fence(leader, err);

    worker_instance_plan_endpoint(plan, WORKER_DOOR_PEER, plan->instance, WORKER_INSTANCE_LEADER,
                                  endpoint);
    leader->fence = worker_leader_fence(leader->locks);
    options.fence = leader->locks == NULL ? NULL : &leader->fence;
    if (rc == KVT_OK)
        rc = engine_leader_open(&leader->leader, &options, err);
    if (rc == KVT_OK)
        rc = engine_connector_open(&leader->connector,
                                   &(struct engine_connector_options){
                                       .leader = leader->leader,
                                       .g2 = leader->g2,
                                       .ranks = plan->replicated ? 1 : leader->ranks,
                                       .g1_blocks = leader->worker->blocks[KVT_TIER_G1],
                                       .block_tokens = WORKER_TRACE_PREFIX_TOKENS,
                                       .seed = plan->settings->salt,
                                       .find_ms = FIND_WAIT,
                                       .peers = true,
                                       .objects = leader->worker->objects,
                                   },
                                   err);
    if (rc == KVT_OK && plan->replicated)
        rc = engine_hook_open(&leader->hook, leader->worker, err);
    if (rc == KVT_OK)
        rc = worker_rank_set_open(&leader->rank_set, plan, err);
    if (rc != KVT_OK)
        return rc;
    return worker_scheduler_open(&leader->scheduler,
                                 &(struct worker_scheduler_options){
                                     .connector = leader->connector,
                                     .rank_set = leader->rank_set,
                                     .hook = leader->hook,
                                     .ranks = leader->ranks,
                                     .g1_blocks = leader->worker->blocks[KVT_TIER_G1],
                                 },
                                 err);
}

static enum kvt_err
open_supervisor(struct leader *leader, struct kvt_error *err)
{
    static const struct engine_rpc_method methods[] = {
        {.number = WORKER_SUPERVISOR_SERVE, .name = "serve", .run = on_serve},
        {.number = WORKER_SUPERVISOR_PEER, .name = "peer", .run = on_peer, .slow = true},
        {.number = WORKER_SUPERVISOR_STATUS, .name = "status", .run = on_status},
        {.number = WORKER_SUPERVISOR_FIND, .name = "find", .run = on_find, .slow = true},
    };
    char endpoint[WORKER_INSTANCE_ENDPOINT];

    worker_instance_plan_endpoint(leader->plan, WORKER_DOOR_FRONT, leader->plan->instance,
                                  WORKER_INSTANCE_LEADER, endpoint);
    return engine_rpc_server_open(&leader->supervisor,
                                  &(struct engine_rpc_server_options){
                                      .endpoint = endpoint,
                                      .methods = methods,
                                      .method_count = sizeof(methods) / sizeof(methods[0]),
                                      .arg = leader,
                                      .threads = 1,
                                  },
                                  err);
}

static void
close_leader(struct leader *leader)
{
    if (leader->supervisor != NULL)
        engine_rpc_server_stop(leader->supervisor);
    worker_scheduler_stop(leader->scheduler); /* answers what it has */
    engine_rpc_server_close(leader->supervisor);
    worker_scheduler_close(leader->scheduler); /* behind the last call that was being begun */
    worker_rank_set_close(leader->rank_set);
    engine_hook_close(leader->hook);
    engine_connector_close(leader->connector);
    engine_leader_close(leader->leader);
    worker_store_lock_close(leader->locks);
    engine_worker_close(leader->worker);
    worker_ledger_leave(&leader->ledger);
    kvbm_pool_free(leader->g2);
    kvbm_pool_free(leader->g3);
    worker_ledger_close(&leader->ledger);
    wire_bus_close(leader->bus);
    worker_pool_order_close(&leader->order);
}

enum kvt_err
worker_leader_run(const struct worker_instance_plan *plan, struct kvt_error *err)
{
    struct leader leader = {.plan = plan, .ranks = plan->tp[plan->instance], .connected = true};
    enum kvt_err rc = open_ranks(&leader, err);

    if (rc == KVT_OK)
        rc = open_books(&leader, err);
    if (rc == KVT_OK)
        rc = open_engine(&leader, err);
    if (rc == KVT_OK)
        rc = open_supervisor(&leader, err);
    while (rc == KVT_OK && !kvt_program_wait(TICK)) {
        keep_streams(&leader);
        worker_rank_set_look(leader.rank_set);
        if (worker_scheduler_failed(leader.scheduler))
            rc = kvt_error_set(err, KVT_UNAVAILABLE, "a rank of instance %" PRIu32 " is gone",
                               plan->instance);
    }
    close_leader(&leader);
    return rc;
}
