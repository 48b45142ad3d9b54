/*
 * cli/frame/cli_settings.h -- the settings every command shares (config/cli.def).
 *
 * Why: one table makes flags, KVTIER_* names, /etc/kvtier/cli.yaml, --help and the manual.
 * Ownership: static.
 * Threads:   read-only.
 * Limits:    as base/config/config.h.
 */
#ifndef CLI_FRAME_CLI_SETTINGS_H
#define CLI_FRAME_CLI_SETTINGS_H

#include <stddef.h>

#include "base/config/config.h"

enum cli_setting {
#define PARAM(id, key, type, fallback, min, max, env_alias, help) CLI_SETTING_##id,
#include "config/cli.def"
#undef PARAM
    CLI_SETTING_COUNT
};

extern const struct kvt_param cli_settings[CLI_SETTING_COUNT];

#define CLI_SETTINGS_FILE "/etc/kvtier/cli.yaml"

#endif /* CLI_FRAME_CLI_SETTINGS_H */
