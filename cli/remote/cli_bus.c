#include "cli/remote/cli_bus.h"

#include <stdio.h>
#include <string.h>

#include "base/core/redact.h"
#include "cli/frame/cli_settings.h"
#include "cli/frame/command.h"

enum { CAUSE_MAX = 160, PREFIX_MAX = 256 };

/* What the bus says without the address in front, which is said anyway; NULL when it is about
 * something else: a file with a secret, say. */
static const char *
without_address(const char *text, const char *url)
{
    char prefix[PREFIX_MAX];
    const int size = snprintf(prefix, sizeof(prefix), "NATS %s: ", url);

    if (size < 0 || (size_t)size >= sizeof(prefix) || strncmp(text, prefix, (size_t)size) != 0)
        return NULL;
    return text + size;
}

static bool
given(const struct kvt_config *settings)
{
    return kvt_config_is_set(settings, CLI_SETTING_NATS_USER_FILE) ||
           kvt_config_is_set(settings, CLI_SETTING_NATS_TOKEN_FILE) ||
           kvt_config_is_set(settings, CLI_SETTING_NATS_CREDS_FILE);
}

enum kvt_err
cli_bus_open(const struct cli_context *context, struct wire_bus **bus, struct kvt_error *err)
{
    const struct kvt_config *settings = context->settings;
    struct wire_bus_options options = wire_bus_options_of(settings, CLI_SETTING_NATS_URL);
    char shown[KVT_REDACT_URL_MAX];
    struct kvt_error cause = {0};
    const char *answer;
    enum kvt_err rc;

    options.name = "kvtier";
    options.connect_now = true;
    rc = wire_bus_open(bus, &options, &cause);
    if (rc == KVT_OK)
        return KVT_OK;
    *bus = NULL;
    kvt_redact_url(shown, sizeof(shown), options.url);
    answer = without_address(cause.text, shown);
    if (answer == NULL)
        return kvt_error_set(err, rc, "NATS: %.*s", CAUSE_MAX, cause.text);
    if (rc == KVT_DENIED)
        return kvt_error_set(err, rc, "NATS at %s refuses %s: %.*s", shown,
                             given(settings) ? "these credentials" : "us without credentials",
                             CAUSE_MAX, answer);
    return kvt_error_set(err, rc, "no NATS at %s: %.*s", shown, CAUSE_MAX, answer);
}

const char *
cli_bus_fix(enum kvt_err code)
{
    return code == KVT_UNAVAILABLE || code == KVT_TIMEOUT
               ? "start nats-server -js, or say where it is with --nats-url"
               : "give what this server wants: --nats-user-file, --nats-token-file or "
                 "--nats-creds-file, readable by you alone";
}

enum cli_exit
cli_bus_fail(const struct cli_context *context, const struct kvt_error *err)
{
    const enum cli_exit status = cli_context_fail(context, err);

    if (err->code == KVT_UNAVAILABLE || err->code == KVT_TIMEOUT)
        (void)fprintf(context->err,
                      "  start one here:  kvtier dev\n"
                      "  it is elsewhere: kvtier --nats-url URL %s\n"
                      "  what is wrong:   kvtier doctor\n",
                      context->command->path);
    else if (err->code == KVT_DENIED)
        (void)fprintf(context->err, "  next: %s\n", cli_bus_fix(err->code));
    return status;
}
