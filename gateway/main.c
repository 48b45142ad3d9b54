/* kvtier-gateway: the S3 front of the KV cache tier, its hot volume and its mover. */
#include "base/config/program.h"
#include "gateway/admin/gateway_settings.h"
#include "gateway/gateway_app.h"

static const struct kvt_program program = {
    .name = "kvtier-gateway",
    .summary = "serve KV cache blocks from a hot volume and an S3 bucket",
    .usage = "",
    .params = gateway_settings_table,
    .param_count = GATEWAY_SETTING_COUNT,
    .run = gateway_app_run,
};

int
main(int argc, char **argv)
{
    return kvt_program_main(argc, argv, &program);
}
