#include "cli/bus.h"

#include "cli/settings.h"

enum { CAUSE_MAX = 160 };

enum kvt_err
cli_bus_open(const struct cli_context *context, struct wire_bus **bus, struct kvt_error *err)
{
    const struct kvt_config *settings = context->settings;
    const struct wire_bus_options options = {
        .url = kvt_config_string(settings, CLI_SETTING_NATS_URL),
        .name = "kvtier",
        .user_file = kvt_config_string(settings, CLI_SETTING_NATS_USER_FILE),
        .token_file = kvt_config_string(settings, CLI_SETTING_NATS_TOKEN_FILE),
        .creds_file = kvt_config_string(settings, CLI_SETTING_NATS_CREDS_FILE),
        .ca_file = kvt_config_string(settings, CLI_SETTING_NATS_CA_FILE),
        .connect_now = true,
    };
    struct kvt_error cause = {0};
    enum kvt_err rc;

    rc = wire_bus_open(bus, &options, &cause);
    if (rc == KVT_OK)
        return KVT_OK;
    *bus = NULL;
    return kvt_error_set(err, rc, "no NATS at %s: %.*s", options.url, CAUSE_MAX, cause.text);
}
