/* kvtier-worker: replays a workload through a block manager's tiers, or through instances of an
 * engine. */
#include "base/config/program.h"

#include "worker/instances/leader_process.h"
#include "worker/instances/rank_process.h"
#include "worker/instances/supervisor.h"
#include "worker/replay/replay_app.h"
#include "worker/settings/worker_settings.h"

static enum kvt_err
run(const struct kvt_config *config, struct kvt_error *err)
{
    struct kvbm_settings settings;
    struct kvbm_plan plan;
    enum kvt_err rc = kvbm_settings_load(&settings, config, err);

    if (rc == KVT_OK)
        rc = kvbm_plan_load(&plan, &settings, config, err);
    if (rc != KVT_OK)
        return rc;
    if (plan.part != KVBM_PART_FRONT) {
        char name[KVBM_PLAN_PART_NAME];

        kvbm_plan_part_name(&plan, name);
        kvt_program_part(name, config);
    }
    if (plan.instances == 0)
        return kvbm_app_run(config, err);
    switch (plan.part) {
    case KVBM_PART_FRONT: return kvbm_front_run(&plan, err);
    case KVBM_PART_LEADER: return kvbm_leader_run(&plan, err);
    case KVBM_PART_RANK: return kvbm_rank_run(&plan, err);
    }
    return KVT_INVALID;
}

static const struct kvt_program program = {
    .name = "kvtier-worker",
    .summary = "replay a workload over KV cache tiers, checking every byte, or serve engines",
    .usage = "(--trace FILE | --attach-socket PATH)",
    .params = kvbm_settings_table,
    .param_count = KVBM_SETTING_COUNT,
    .run = run,
};

int
main(int argc, char **argv)
{
    return kvt_program_main(argc, argv, &program);
}
