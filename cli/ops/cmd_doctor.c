#include <errno.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/core/redact.h"
#include "base/text/parse.h"
#include "cli/frame/cli_settings.h"
#include "cli/frame/daemon_settings.h"
#include "cli/frame/options.h"
#include "cli/ops/doctor_checks.h"
#include "cli/ops/doctor_store.h"
#include "cli/ops/ops_commands.h"
#include "cli/output/cli_json.h"
#include "cli/remote/admin_client.h"
#include "cli/remote/cli_bus.h"
#include "wire/message/subject.h"
#include "wire/nats/stream.h"

enum {
    SECRET_MAX = 4096,
    DISK_WARN_PERCENT = 10,
    DISK_FAIL_PERCENT = 2,
    LAG_WARN_MS = 10000,
    PUBLISH_WAIT_MS = 1000,
};

/* ---- files ---- */

static void
check_file(struct cli_doctor_checks *checks, const char *name, const char *path,
           enum kvt_err (*load)(const char *path, struct kvt_config **config,
                                struct kvt_error *err))
{
    struct kvt_config *config = NULL;
    struct kvt_error err = {0};

    if (access(path, F_OK) != 0) {
        cli_doctor_check_add(checks, CLI_DOCTOR_CHECK_OK, name, "",
                             "%s is absent: defaults, flags and variables", path);
        return;
    }
    if (load(path, &config, &err) == KVT_OK)
        cli_doctor_check_add(checks, CLI_DOCTOR_CHECK_OK, name, "", "%s is good", path);
    else
        cli_doctor_check_add(checks, CLI_DOCTOR_CHECK_FAIL, name,
                             "correct the line; the daemon refuses it too", "%s", err.text);
    kvt_config_free(config);
}

static void
check_token(const struct cli_context *context, struct cli_doctor_checks *checks)
{
    char secret[SECRET_MAX];
    struct kvt_error err = {0};

    if (!kvt_config_is_set(context->settings, CLI_SETTING_ADMIN_TOKEN_FILE)) {
        cli_doctor_check_add(checks, CLI_DOCTOR_CHECK_WARN, "admin token",
                             "set admin.token_file in " CLI_SETTINGS_FILE,
                             "none set: policy mode and g4 verify will be refused");
        return;
    }
    if (kvt_config_secret(context->settings, CLI_SETTING_ADMIN_TOKEN_FILE, secret, sizeof(secret),
                          &err) == KVT_OK)
        cli_doctor_check_add(checks, CLI_DOCTOR_CHECK_OK, "admin token", "",
                             "%s is readable by its owner alone",
                             kvt_config_string(context->settings, CLI_SETTING_ADMIN_TOKEN_FILE));
    else
        cli_doctor_check_add(checks, CLI_DOCTOR_CHECK_FAIL, "admin token",
                             "make the file, then chmod 600", "%s", err.text);
    explicit_bzero(secret, sizeof(secret));
}

static void
check_disk(struct cli_doctor_checks *checks, const char *path)
{
    char text[KVT_SIZE_TEXT_MAX];
    struct statvfs about;
    uint64_t percent;
    enum cli_doctor_check_state state = CLI_DOCTOR_CHECK_OK;

    if (statvfs(path, &about) != 0) {
        cli_doctor_check_add(checks, CLI_DOCTOR_CHECK_WARN, "disk",
                             "name the daemons' folder with --state", "%s: %s", path,
                             strerror(errno));
        return;
    }
    percent = about.f_blocks == 0 ? 0 : (uint64_t)about.f_bavail * 100 / about.f_blocks;
    if (percent < DISK_FAIL_PERCENT)
        state = CLI_DOCTOR_CHECK_FAIL;
    else if (percent < DISK_WARN_PERCENT)
        state = CLI_DOCTOR_CHECK_WARN;
    kvt_size_format((uint64_t)about.f_bavail * about.f_frsize, text);
    cli_doctor_check_add(checks, state, "disk", "free space, or lower hot.capacity and db.max",
                         "%s has %s free (%" PRIu64 "%%)", path, text, percent);
}

/* ---- NATS ---- */

static void
check_stream(struct cli_doctor_checks *checks, struct wire_bus *bus, const char *stream)
{
    struct wire_stream_state state = {0};
    const enum kvt_err rc = wire_stream_state(bus, stream, &state);

    if (rc == KVT_OK && (state.last_seq == 0 || state.last_seq < state.first_seq))
        cli_doctor_check_add(checks, CLI_DOCTOR_CHECK_OK, "nats stream", "", "%s is empty", stream);
    else if (rc == KVT_OK)
        cli_doctor_check_add(checks, CLI_DOCTOR_CHECK_OK, "nats stream", "",
                             "%s holds messages %" PRIu64 " to %" PRIu64, stream, state.first_seq,
                             state.last_seq);
    else if (rc == KVT_NOTFOUND)
        cli_doctor_check_add(checks, CLI_DOCTOR_CHECK_WARN, "nats stream",
                             "advisor and gateway make it when they start: start them",
                             "%s is missing", stream);
    else
        cli_doctor_check_add(checks, CLI_DOCTOR_CHECK_FAIL, "nats stream",
                             "start nats-server with -js, and let this user publish to $JS.API.>",
                             "%s: %s", stream, kvt_err_text(rc));
}

/* Forged orders do no harm, so that this is never more than a warning. */
static void
check_orders(struct cli_doctor_checks *checks, struct wire_bus *bus)
{
    char subject[WIRE_SUBJECT_MAX];
    enum kvt_err rc = wire_subject_named(WIRE_SUBJECT_ORDERS, subject, sizeof(subject), "doctor");

    if (rc == KVT_OK)
        rc = wire_bus_may_publish(bus, subject, PUBLISH_WAIT_MS);
    if (rc == KVT_OK)
        cli_doctor_check_add(
            checks, CLI_DOCTOR_CHECK_WARN, "nats orders",
            "nothing must be done; NATS permissions can keep " WIRE_SUBJECT_ORDERS_ALL
            " to the advisor",
            "this client may publish orders; gateways execute only those signed with "
            "the advisor's key");
    else if (rc == KVT_DENIED)
        cli_doctor_check_add(checks, CLI_DOCTOR_CHECK_OK, "nats orders", "",
                             "this client may not publish orders, which are signed as well");
}

static void
check_nats(const struct cli_context *context, struct cli_doctor_checks *checks)
{
    static const char *const streams[] = {WIRE_STREAM_EVENTS, WIRE_STREAM_ORDERS,
                                          WIRE_STREAM_REPORTS};
    char shown[KVT_REDACT_URL_MAX];
    struct wire_bus *bus;
    struct kvt_error err = {0};

    if (cli_bus_open(context, &bus, &err) != KVT_OK) {
        cli_doctor_check_add(checks, CLI_DOCTOR_CHECK_FAIL, "nats", cli_bus_fix(err.code), "%s",
                             err.text);
        return;
    }
    kvt_redact_url(shown, sizeof(shown),
                   kvt_config_string(context->settings, CLI_SETTING_NATS_URL));
    cli_doctor_check_add(checks, CLI_DOCTOR_CHECK_OK, "nats", "", "connected to %s", shown);
    for (size_t i = 0; i < sizeof(streams) / sizeof(streams[0]); i++)
        check_stream(checks, bus, streams[i]);
    check_orders(checks, bus);
    wire_bus_close(bus);
}

/* ---- daemons ---- */

static struct json_object *
check_daemon(const struct cli_context *context, struct cli_doctor_checks *checks,
             enum cli_admin server)
{
    const char *name = cli_admin_name(server);
    struct json_object *status = NULL;
    struct kvt_error err = {0};
    const char *state;

    if (cli_admin_ask(context, server, "/v1/status", NULL, false, &status, &err) != KVT_OK) {
        cli_doctor_check_add(checks, CLI_DOCTOR_CHECK_FAIL, name,
                             server == CLI_ADMIN_ADVISOR
                                 ? "start kvtier-advisor, or say where it is with --advisor-url"
                                 : "start kvtier-gateway, or say where it is with --gateway-url",
                             "%s", err.text);
        return NULL;
    }
    state = cli_json_text(status, "state");
    if (strcmp(state, "ready") == 0)
        cli_doctor_check_add(checks, CLI_DOCTOR_CHECK_OK, name, "", "%s at %s is ready",
                             cli_json_text(status, "version"), cli_admin_url(context, server));
    for (size_t i = 0; strcmp(state, "ready") != 0 && i < cli_json_count(status, "reasons"); i++)
        cli_doctor_check_add(checks, CLI_DOCTOR_CHECK_WARN, name, "its log says more", "%s: %s",
                             state, json_object_get_string(cli_json_item(status, "reasons", i)));
    if (!cli_json_bool(status, "nats.connected"))
        cli_doctor_check_add(checks, CLI_DOCTOR_CHECK_FAIL, name,
                             "check its nats.url; when the server's log says that it refused the "
                             "credentials, correct them and restart the daemon: it asks only once",
                             "it has no connection to NATS at %s",
                             cli_json_text(status, "nats.url"));
    return status;
}

static void
check_advisor(const struct cli_context *context, struct cli_doctor_checks *checks)
{
    struct json_object *status = check_daemon(context, checks, CLI_ADMIN_ADVISOR);
    const uint64_t last = cli_json_u64(status, "events.last_event_ms");
    const uint64_t lag = cli_json_u64(status, "events.lag_ms");
    const uint64_t now = kvt_clock_unix_ms();

    if (status == NULL)
        return;
    if (last == 0)
        cli_doctor_check_add(checks, CLI_DOCTOR_CHECK_WARN, "events",
                             "check that engines publish to this NATS: kvtier events tail",
                             "the advisor has not seen one event");
    else
        cli_doctor_check_add(
            checks, lag > LAG_WARN_MS ? CLI_DOCTOR_CHECK_WARN : CLI_DOCTOR_CHECK_OK, "events",
            "the advisor is behind: look at its CPU and disk",
            "last one %" PRIu64 " s ago, %" PRIu64 " ms behind, %" PRIu64 " publishers uncertain",
            (now > last ? now - last : 0) / 1000, lag, cli_json_u64(status, "events.uncertain"));
    (void)json_object_put(status);
}

static void
check_gateway(const struct cli_context *context, struct cli_doctor_checks *checks)
{
    struct json_object *status = check_daemon(context, checks, CLI_ADMIN_GATEWAY);
    struct json_object *cold = cli_json_at(status, "cold");
    struct json_object *far = cli_json_at(status, "far");

    if (status == NULL)
        return;
    cli_doctor_check_add(
        checks, cli_json_bool(cold, "healthy") ? CLI_DOCTOR_CHECK_OK : CLI_DOCTOR_CHECK_FAIL,
        "cold store", "check that the store runs, its address, bucket and credentials",
        "%s %s is %s, %" PRIu64 " ms", cli_json_text(cold, "kind"), cli_json_text(cold, "endpoint"),
        cli_json_bool(cold, "healthy") ? "healthy" : "not healthy",
        cli_json_u64(cold, "latency_ms"));
    cli_doctor_check_add(
        checks,
        cli_json_bool(cold, "selftest.put_if_absent") ? CLI_DOCTOR_CHECK_OK : CLI_DOCTOR_CHECK_FAIL,
        "conditional put", "use a store that honours If-None-Match; see doctor --s3 URL",
        "the gateway's self-test says PUT If-None-Match %s",
        cli_json_bool(cold, "selftest.put_if_absent") ? "works" : "is not proven");
    if (strcmp(cli_json_text(cold, "kind"), "s3") == 0)
        cli_doctor_store_skew(checks, "clock", cli_json_i64(cold, "clock_skew_ms"));
    if (far != NULL)
        cli_doctor_check_add(
            checks, cli_json_bool(far, "healthy") ? CLI_DOCTOR_CHECK_OK : CLI_DOCTOR_CHECK_WARN,
            "far store", "check that it runs, far.endpoint, far.bucket and credentials",
            "%s is %s, %" PRIu64 " ms", cli_json_text(far, "endpoint"),
            cli_json_bool(far, "healthy") ? "healthy" : "not healthy",
            cli_json_u64(far, "latency_ms"));
    if (cli_json_u64(status, "integrity.corrupt") > 0)
        cli_doctor_check_add(checks, CLI_DOCTOR_CHECK_WARN, "integrity",
                             "look for who else writes to the bucket, and at the disk's health",
                             "%" PRIu64 " bad copies were found and are not served",
                             cli_json_u64(status, "integrity.corrupt"));
    (void)json_object_put(status);
}

enum cli_exit
cli_doctor_run(const struct cli_context *context)
{
    struct cli_doctor_checks *checks = kvt_calloc(1, sizeof(*checks));
    struct kvt_error err = {0};
    enum cli_exit status;

    if (checks == NULL) {
        (void)kvt_error_set(&err, KVT_NOMEM, "out of memory");
        return cli_context_fail(context, &err);
    }
    cli_doctor_check_add(checks, CLI_DOCTOR_CHECK_OK, "settings", "",
                         "this program's settings are good");
    check_file(checks, "advisor file", CLI_ADVISOR_FILE, cli_daemon_settings_advisor);
    check_file(checks, "gateway file", CLI_GATEWAY_FILE, cli_daemon_settings_gateway);
    check_token(context, checks);
    check_nats(context, checks);
    check_advisor(context, checks);
    check_gateway(context, checks);
    cli_doctor_store_front(context, checks);
    cli_doctor_store_direct(context, checks);
    check_disk(checks, kvt_config_string(context->options, CLI_DOCTOR_STATE));
    if (context->json)
        cli_doctor_check_print_json(checks, context->out);
    else
        cli_doctor_check_print(checks, context->out);
    status = checks->failed > 0 ? CLI_EXIT_FAILED : CLI_EXIT_DONE;
    kvt_free(checks);
    return status;
}
