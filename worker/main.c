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
    struct worker_settings settings;
    struct worker_instance_plan plan;
    enum kvt_err rc = worker_settings_load(&settings, config, err);

    if (rc == KVT_OK)
        rc = worker_instance_plan_load(&plan, &settings, config, err);
    if (rc != KVT_OK)
        return rc;
    if (plan.part != WORKER_PART_FRONT) {
        char name[WORKER_INSTANCE_PLAN_PART_NAME];

        worker_instance_plan_part_name(&plan, name);
        kvt_program_part(name, config);
    }
    if (plan.instances == 0)
        return worker_app_run(config, err);
    switch (plan.part) {
    case WORKER_PART_FRONT: return worker_supervisor_run(&plan, err);
    case WORKER_PART_LEADER: return worker_leader_run(&plan, err);
    case WORKER_PART_RANK: return worker_rank_run(&plan, err);
    }
    return KVT_INVALID;
}

static const struct kvt_program program = {
    .name = "kvtier-worker",
    .summary = "replay a workload over KV cache tiers, checking every byte, or serve engines",
    .usage = "(--trace FILE | --attach-socket PATH)",
    .params = worker_settings_table,
    .param_count = WORKER_SETTING_COUNT,
    .run = run,
};

int
main(int argc, char **argv)
{
    return kvt_program_main(argc, argv, &program);
}
