#include <inttypes.h>
#include <json-c/json.h>
#include <string.h>

#include "base/config/config.h"
#include "cli/frame/daemon_settings.h"
#include "cli/frame/options.h"
#include "cli/output/cli_json.h"
#include "cli/policy/cmd_policy_file.h"
#include "cli/policy/cmd_policy_versions.h"
#include "cli/policy/policy_commands.h"
#include "cli/remote/admin_client.h"

enum { PPM_PERCENT = 10000 };

static enum cli_exit
show(const struct cli_context *context, struct json_object *body)
{
    struct json_object *policy;
    struct kvt_error err = {0};

    if (cli_admin_ask(context, CLI_ADMIN_ADVISOR, body == NULL ? "/v1/policy" : "/v1/policy/mode",
                      body, body != NULL, &policy, &err) != KVT_OK)
        return cli_admin_fail(context, CLI_ADMIN_ADVISOR, &err);
    cli_policy_print(context, policy);
    (void)json_object_put(policy);
    return CLI_EXIT_DONE;
}

/* As it was written, to be changed and installed again. */
static enum cli_exit
show_text(const struct cli_context *context)
{
    struct json_object *policy;
    struct kvt_error err = {0};

    if (cli_admin_ask(context, CLI_ADMIN_ADVISOR, "/v1/policy?text=1", NULL, false, &policy,
                      &err) != KVT_OK)
        return cli_admin_fail(context, CLI_ADMIN_ADVISOR, &err);
    (void)fputs(cli_json_text(policy, "text"), context->raw);
    (void)json_object_put(policy);
    return CLI_EXIT_DONE;
}

enum cli_exit
cli_policy_show(const struct cli_context *context)
{
    if (kvt_config_bool(context->options, CLI_POLICY_SHOW_TEXT))
        return context->argument_count > 0
                   ? cli_context_usage(context, "--text is of the policy in force, without FILE")
                   : show_text(context);
    if (context->argument_count > 0)
        return cli_policy_file_show(context);
    return show(context, NULL);
}

enum cli_exit
cli_policy_mode(const struct cli_context *context)
{
    const char *mode = context->arguments[0];
    struct json_object *body;
    enum cli_exit status;

    if (strcmp(mode, "off") != 0 && strcmp(mode, "observe") != 0 && strcmp(mode, "enforce") != 0)
        return cli_context_usage(context, "no mode \"%s\": off, observe or enforce", mode);
    body = json_object_new_object();
    (void)json_object_object_add(body, "mode", json_object_new_string(mode));
    status = show(context, body);
    (void)json_object_put(body);
    return status;
}

/* ---- validate ---- */

static void
print_valid(const struct cli_context *context, const struct kvt_config *config)
{
    const char *path = context->arguments[0];
    struct json_object *answer;

    if (!context->json) {
        (void)fprintf(context->out,
                      "%s: good: mode %s, ordering %s, hot %" PRIu32 "%% to %" PRIu32
                      "%%, cold %" PRIu32 "%% to %" PRIu32 "%%, promote after %" PRIu64 "\n",
                      path, kvt_config_string(config, CLI_ADVISOR_POLICY_MODE),
                      kvt_config_string(config, CLI_ADVISOR_POLICY_ORDERING),
                      kvt_config_ppm(config, CLI_ADVISOR_POLICY_HOT_START) / PPM_PERCENT,
                      kvt_config_ppm(config, CLI_ADVISOR_POLICY_HOT_STOP) / PPM_PERCENT,
                      kvt_config_ppm(config, CLI_ADVISOR_POLICY_COLD_START) / PPM_PERCENT,
                      kvt_config_ppm(config, CLI_ADVISOR_POLICY_COLD_STOP) / PPM_PERCENT,
                      kvt_config_u64(config, CLI_ADVISOR_POLICY_PROMOTE_AFTER));
        return;
    }
    answer = json_object_new_object();
    (void)json_object_object_add(answer, "schema_version", json_object_new_int(1));
    (void)json_object_object_add(answer, "file", json_object_new_string(path));
    (void)json_object_object_add(answer, "valid", json_object_new_boolean(true));
    cli_json_print(context->out, answer);
    (void)json_object_put(answer);
}

enum cli_exit
cli_policy_validate(const struct cli_context *context)
{
    struct kvt_config *config;
    struct kvt_error err = {0};
    enum kvt_err rc;

    if (!cli_policy_file_is_settings(context->arguments[0]))
        return cli_policy_file_validate(context);
    rc = cli_daemon_settings_advisor(context->arguments[0], &config, &err);
    if (rc == KVT_OK)
        print_valid(context, config);
    kvt_config_free(config);
    if (rc == KVT_OK)
        return CLI_EXIT_DONE;
    (void)cli_context_fail(context, &err);
    return rc == KVT_NOTFOUND ? CLI_EXIT_NOTFOUND : CLI_EXIT_FAILED;
}
