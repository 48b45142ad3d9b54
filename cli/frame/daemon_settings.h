/*
 * cli/frame/daemon_settings.h -- the daemons' tables of settings, to check their files without
 * running them.
 *
 * Why: what `policy validate` and `doctor` accept must be what the daemons accept.
 * Ownership: static.
 * Threads:   read-only.
 */
#ifndef CLI_FRAME_DAEMON_SETTINGS_H
#define CLI_FRAME_DAEMON_SETTINGS_H

#include <stddef.h>

#include "base/config/config.h"

enum cli_advisor_setting {
#define PARAM(id, key, type, fallback, min, max, env_alias, help) CLI_ADVISOR_##id,
#include "config/advisor.def"
#include "config/common.def"
#undef PARAM
    CLI_ADVISOR_COUNT
};

enum cli_gateway_setting {
#define PARAM(id, key, type, fallback, min, max, env_alias, help) CLI_GATEWAY_##id,
#include "config/common.def"
#include "config/gateway.def"
#undef PARAM
    CLI_GATEWAY_COUNT
};

extern const struct kvt_param cli_advisor_settings[CLI_ADVISOR_COUNT];
extern const struct kvt_param cli_gateway_settings[CLI_GATEWAY_COUNT];

#define CLI_ADVISOR_FILE "/etc/kvtier/advisor.yaml"
#define CLI_GATEWAY_FILE "/etc/kvtier/gateway.yaml"

/** Check an advisor's file: every key and value, and that what starts also stops.  On KVT_OK the
 *  config belongs to the caller. */
KVT_NODISCARD enum kvt_err cli_daemon_settings_advisor(const char *path, struct kvt_config **config,
                                                       struct kvt_error *err);

/** The same for a gateway's. */
KVT_NODISCARD enum kvt_err cli_daemon_settings_gateway(const char *path, struct kvt_config **config,
                                                       struct kvt_error *err);

#endif /* CLI_FRAME_DAEMON_SETTINGS_H */
