#include "cli/frame/cli_settings.h"

#define PARAM KVT_PARAM_ROW
const struct kvt_param cli_settings[CLI_SETTING_COUNT] = {
#include "config/cli.def"
};
#undef PARAM
