#include "cli/frame/daemon_settings.h"

#include <inttypes.h>

enum { PPM_PERCENT = 10000 };

const struct kvt_param cli_advisor_settings[CLI_ADVISOR_COUNT] = {
#define PARAM KVT_PARAM_ROW
#include "config/advisor.def"
#include "config/common.def"
#undef PARAM
};

const struct kvt_param cli_gateway_settings[CLI_GATEWAY_COUNT] = {
#define PARAM KVT_PARAM_ROW
#include "config/common.def"
#include "config/gateway.def"
#undef PARAM
};

static enum kvt_err
load(struct kvt_config **config, const struct kvt_param *params, size_t count, const char *path,
     struct kvt_error *err)
{
    enum kvt_err rc;

    rc = kvt_config_new(config, params, count, err);
    if (rc == KVT_OK)
        rc = kvt_config_load_file(*config, path, err);
    if (rc != KVT_OK) {
        kvt_config_free(*config);
        *config = NULL;
    }
    return rc;
}

static enum kvt_err
check_pair(const struct kvt_config *config, size_t start, size_t stop, const char *path,
           struct kvt_error *err)
{
    const uint32_t start_ppm = kvt_config_ppm(config, start);
    const uint32_t stop_ppm = kvt_config_ppm(config, stop);

    if (stop_ppm < start_ppm)
        return KVT_OK;
    return kvt_error_set(err, KVT_INVALID,
                         "%s: %s (%" PRIu32 "%%) must be below %s (%" PRIu32
                         "%%), or what starts never stops",
                         path, cli_advisor_settings[stop].key, stop_ppm / PPM_PERCENT,
                         cli_advisor_settings[start].key, start_ppm / PPM_PERCENT);
}

enum kvt_err
cli_daemon_settings_advisor(const char *path, struct kvt_config **config, struct kvt_error *err)
{
    enum kvt_err rc;

    *config = NULL;
    rc = load(config, cli_advisor_settings, CLI_ADVISOR_COUNT, path, err);
    if (rc == KVT_OK)
        rc = check_pair(*config, CLI_ADVISOR_POLICY_HOT_START, CLI_ADVISOR_POLICY_HOT_STOP, path,
                        err);
    if (rc == KVT_OK)
        rc = check_pair(*config, CLI_ADVISOR_POLICY_COLD_START, CLI_ADVISOR_POLICY_COLD_STOP, path,
                        err);
    if (rc != KVT_OK) {
        kvt_config_free(*config);
        *config = NULL;
    }
    return rc;
}

enum kvt_err
cli_daemon_settings_gateway(const char *path, struct kvt_config **config, struct kvt_error *err)
{
    *config = NULL;
    return load(config, cli_gateway_settings, CLI_GATEWAY_COUNT, path, err);
}
