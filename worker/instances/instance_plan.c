#include "worker/instances/instance_plan.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text/parse.h"

#include "worker/instances/shard.h"

enum { LEASE_MIN = 1000 }; /* ms */

#define ROW(id) ((size_t)WORKER_SETTING_##id)

/* "2", or "4,2": one number an instance. */
static enum kvt_err
load_tp(struct worker_instance_plan *plan, const char *text, struct kvt_error *err)
{
    const char *at = text;

    for (uint32_t i = 0; i < plan->instances; i++) {
        char *rest;
        unsigned long tp;

        if (*at == '\0' && i > 0) { /* the last one counts for all others */
            plan->tp[i] = plan->tp[i - 1];
            continue;
        }
        tp = strtoul(at, &rest, 10);
        if (rest == at || (*rest != '\0' && *rest != ',') || tp == 0 ||
            tp > WORKER_INSTANCE_RANKS_MAX)
            return kvt_error_set(err, KVT_INVALID,
                                 "tp: \"%s\" is no number of ranks from 1 to %d, or one an "
                                 "instance (4,2)",
                                 text, WORKER_INSTANCE_RANKS_MAX);
        plan->tp[i] = (uint32_t)tp;
        at = *rest == ',' ? rest + 1 : rest;
    }
    if (*at != '\0')
        return kvt_error_set(err, KVT_INVALID, "tp: \"%s\" has more numbers than instances", text);
    return KVT_OK;
}

/* "INSTANCE/leader/LIFE" or "INSTANCE/RANK/LIFE". */
static bool
parse_part(struct worker_instance_plan *plan, const char *text)
{
    enum { INSTANCE, WHICH, LIFE, WORDS };
    char copy[64];
    char *rest = copy;
    const char *message[WORDS] = {"", "", ""};
    uint64_t instance;
    uint64_t rank;

    if (snprintf(copy, sizeof(copy), "%s", text) >= (int)sizeof(copy))
        return false;
    for (size_t i = 0; i < WORDS && rest != NULL; i++)
        message[i] = strsep(&rest, "/");
    if (rest != NULL || kvt_parse_u64(message[INSTANCE], &instance) != KVT_OK ||
        kvt_parse_u64(message[LIFE], &plan->life) != KVT_OK || instance >= plan->instances ||
        plan->life == 0)
        return false;
    plan->instance = (uint32_t)instance;
    if (strcmp(message[WHICH], "leader") == 0) {
        plan->part = WORKER_PART_LEADER;
        plan->rank = WORKER_INSTANCE_LEADER;
        return true;
    }
    plan->part = WORKER_PART_RANK;
    if (kvt_parse_u64(message[WHICH], &rank) != KVT_OK || rank >= plan->tp[instance])
        return false;
    plan->rank = (uint32_t)rank;
    return true;
}

static enum kvt_err
load_part(struct worker_instance_plan *plan, const char *text, struct kvt_error *err)
{
    plan->part = WORKER_PART_FRONT;
    if (text[0] == '\0' || parse_part(plan, text))
        return KVT_OK;
    return kvt_error_set(err, KVT_INVALID, "engine.part: \"%s\" is no process of this plan", text);
}

/* Keys of shards have a rank and no TP size: who splits blocks otherwise would find, and replace,
 * others' shards under its own keys. */
static enum kvt_err
check_shared(const struct worker_instance_plan *plan, struct kvt_error *err)
{
    const struct worker_settings *settings = plan->settings;

    if (settings->endpoint[0] == '\0' && settings->s3.endpoint[0] == '\0')
        return KVT_OK;
    for (uint32_t i = 1; i < plan->instances; i++)
        if (worker_instance_plan_shards(plan, i) != worker_instance_plan_shards(plan, 0))
            return kvt_error_set(err, KVT_INVALID,
                                 "tp: instances of %" PRIu32 " and %" PRIu32
                                 " ranks cannot share an object tier: run them without one",
                                 worker_instance_plan_shards(plan, 0),
                                 worker_instance_plan_shards(plan, i));
    return KVT_OK;
}

enum kvt_err
worker_instance_plan_load(struct worker_instance_plan *plan, const struct worker_settings *settings,
                          const struct kvt_config *config, struct kvt_error *err)
{
    enum kvt_err rc;

    *plan = (struct worker_instance_plan){
        .settings = settings,
        .instances = (uint32_t)kvt_config_u64(config, ROW(INSTANCES)),
        .replicated = kvt_config_bool(config, ROW(REPLICATED)),
        .by_devices = kvt_config_enum(config, ROW(ENGINE_BROADCAST)) == 0,
        .split = kvt_config_enum(config, ROW(INSTANCE_ROLES)) == 1,
        .folder = kvt_config_string(config, ROW(ENGINE_FOLDER)),
        .lease_ms = kvt_config_u64(config, ROW(ENGINE_LEASE)),
    };
    if (plan->instances == 0) {
        if (strcmp(kvt_config_string(config, ROW(TP)), "1") != 0)
            return kvt_error_set(err, KVT_INVALID, "tp: needs instances (--instances 1)");
        if (plan->replicated || plan->split)
            return kvt_error_set(err, KVT_INVALID, "%s: needs instances (--instances 2)",
                                 plan->replicated ? "replicated" : "instance.roles");
        return KVT_OK;
    }
    if (plan->lease_ms != 0 && plan->lease_ms < LEASE_MIN)
        return kvt_error_set(err, KVT_INVALID, "engine.lease: 0, or at least %d s",
                             LEASE_MIN / 1000);
    if (settings->workers != 1 || settings->attach_engines > 0)
        return kvt_error_set(err, KVT_INVALID,
                             "instances: not together with workers or attach.socket");
    if (plan->split && plan->instances % 2 != 0)
        return kvt_error_set(err, KVT_INVALID,
                             "instance.roles: prefill and decode need an even number of "
                             "instances, not %" PRIu32,
                             plan->instances);
    if (settings->g3_keep && settings->g3_blocks > 0)
        return kvt_error_set(err, KVT_INVALID,
                             "g3.keep: ranks of instances begin with an empty G3, as their leader "
                             "does; leave it out, or run without instances");
    rc = load_tp(plan, kvt_config_string(config, ROW(TP)), err);
    for (uint32_t i = 0; i < plan->instances && rc == KVT_OK; i++) {
        struct worker_shard shard;

        rc = worker_shard_make(&shard, settings->layout.block_size,
                               worker_instance_plan_shards(plan, i), 0, err);
    }
    if (rc == KVT_OK)
        rc = check_shared(plan, err);
    return rc == KVT_OK ? load_part(plan, kvt_config_string(config, ROW(ENGINE_PART)), err) : rc;
}

void
worker_instance_plan_name(const struct worker_instance_plan *plan, uint32_t instance,
                          char name[KVT_NAME_MAX])
{
    (void)snprintf(name, KVT_NAME_MAX, "%.*s-%" PRIu32, KVT_NAME_MAX - 12, plan->settings->name,
                   instance);
}

void
worker_instance_plan_part_name(const struct worker_instance_plan *plan,
                               char name[WORKER_INSTANCE_PLAN_PART_NAME])
{
    const uint32_t instance = plan->instance % WORKER_INSTANCES_MAX;

    if (plan->part == WORKER_PART_LEADER)
        (void)snprintf(name, WORKER_INSTANCE_PLAN_PART_NAME, "kvtier-worker/%" PRIu32 "/leader",
                       instance);
    else
        (void)snprintf(name, WORKER_INSTANCE_PLAN_PART_NAME, "kvtier-worker/%" PRIu32 "/%" PRIu32,
                       instance, plan->rank % WORKER_INSTANCE_RANKS_MAX);
}

uint32_t
worker_instance_plan_shards(const struct worker_instance_plan *plan, uint32_t instance)
{
    return plan->replicated ? 1 : plan->tp[instance];
}

void
worker_instance_plan_endpoint(const struct worker_instance_plan *plan,
                              enum worker_instance_door door, uint32_t instance, uint32_t rank,
                              char text[WORKER_INSTANCE_ENDPOINT])
{
    static const char *const names[] = {"work", "step", "front", "peer"};

    if (rank == WORKER_INSTANCE_LEADER)
        (void)snprintf(text, WORKER_INSTANCE_ENDPOINT, "ipc://%.180s/%" PRIu32 ".%s", plan->folder,
                       instance, names[door]);
    else
        (void)snprintf(text, WORKER_INSTANCE_ENDPOINT, "ipc://%.180s/%" PRIu32 "-%" PRIu32 ".%s",
                       plan->folder, instance, rank, names[door]);
}
