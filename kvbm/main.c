/* kvtier-worker: replays a workload through a block manager's tiers. */
#include "base/program.h"
#include "kvbm/worker/app.h"
#include "kvbm/worker/settings.h"

static const struct kvt_program program = {
    .name = "kvtier-worker",
    .summary = "replay a workload over KV cache tiers, checking every byte, or serve engines",
    .usage = "(--trace FILE | --attach-socket PATH)",
    .params = kvbm_settings_table,
    .param_count = KVBM_SETTING_COUNT,
    .run = kvbm_app_run,
};

int
main(int argc, char **argv)
{
    return kvt_program_main(argc, argv, &program);
}
