#include <assert.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/core/file.h"
#include "base/core/redact.h"
#include "base/text/json.h"
#include "cli/frame/cli_settings.h"
#include "cli/frame/interrupt.h"
#include "cli/frame/options.h"
#include "cli/ops/child_process.h"
#include "cli/ops/dev_state.h"
#include "cli/ops/ops_commands.h"
#include "cli/output/cli_json.h"
#include "cli/remote/cli_credentials.h"
#include "g4/s3/s3.h"

enum {
    ARGUMENTS_MAX = 64,
    ARGUMENT_MAX = CLI_DEV_PATH_MAX,
    POLL_MS = 50,
    WATCH_MS = 250,
    GRACE_MS = 20000, /* a gateway finishes its uploads */
    LOG_TAIL = 2048,
    LOG_MAX = 64 << 20,
    FILE_MAX = 65536,
};

enum { NATS, ADVISOR, GATEWAY, CHILDREN };

/* An argument list under construction; what does not fit sets `failed`. */
struct arguments {
    char *texts[ARGUMENTS_MAX + 1]; /* ends with NULL */
    size_t count;
    bool failed;
};

struct dev {
    const struct cli_context *context;
    struct cli_dev_state state;
    struct cli_dev_endpoints endpoints;
    struct cli_child_process children[CHILDREN];
    struct arguments arguments;
    bool told_to_stop;
};

/* ---- argument lists ---- */

static void
arguments_clear(struct arguments *arguments)
{
    for (size_t i = 0; i < arguments->count; i++)
        kvt_free(arguments->texts[i]);
    *arguments = (struct arguments){0};
}

static void add(struct arguments *arguments, const char *format, ...) KVT_PRINTF(2, 3);

static void
add(struct arguments *arguments, const char *format, ...)
{
    char text[ARGUMENT_MAX];
    va_list values;
    char *copy;
    int size;

    va_start(values, format);
    size = vsnprintf(text, sizeof(text), format, values);
    va_end(values);
    copy = size < 0 || (size_t)size >= sizeof(text) || arguments->count == ARGUMENTS_MAX
               ? NULL
               : kvt_strdup(text);
    if (copy == NULL)
        arguments->failed = true;
    else
        arguments->texts[arguments->count++] = copy;
}

static void
add_file(struct dev *dev, const char *flag, const char *name)
{
    char path[CLI_DEV_PATH_MAX];

    cli_dev_state_path(&dev->state, name, path);
    add(&dev->arguments, "%s", flag);
    add(&dev->arguments, "%s", path);
}

static void
add_pair(struct dev *dev, const char *flag, const char *value)
{
    add(&dev->arguments, "%s", flag);
    add(&dev->arguments, "%s", value);
}

/* ---- children ---- */

static void
show_log(const struct dev *dev, const char *name)
{
    char path[CLI_DEV_PATH_MAX];
    char *text = NULL;
    size_t size = 0;
    const char *tail;

    cli_dev_state_path(&dev->state, name, path);
    if (kvt_file_read(&text, &size, path, LOG_MAX, NULL) != KVT_OK)
        return;
    tail = size > LOG_TAIL ? text + size - LOG_TAIL : text;
    (void)fprintf(dev->context->err, "  the end of %s:\n%s%s", path, tail,
                  size > 0 && text[size - 1] != '\n' ? "\n" : "");
    kvt_free(text);
}

static enum kvt_err
start(struct dev *dev, int which, const char *name, const char *log, struct kvt_error *err)
{
    char path[CLI_DEV_PATH_MAX];
    enum kvt_err rc;

    cli_dev_state_path(&dev->state, log, path);
    if (dev->arguments.failed)
        rc = kvt_error_set(err, KVT_NOMEM, "start %s: an argument is too long", name);
    else
        rc = cli_child_process_start(&dev->children[which], name,
                                     (const char *const *)dev->arguments.texts, path, err);
    arguments_clear(&dev->arguments);
    return rc;
}

/* A JSON file that a child writes once it is ready. */
static enum kvt_err
wait_for_file(struct dev *dev, int which, const char *path, struct json_object **out,
              struct kvt_error *err)
{
    const uint64_t deadline_ms =
        kvt_clock_mono_ms() + kvt_config_u64(dev->context->options, CLI_DEV_READY_WAIT);
    struct cli_child_process *child = &dev->children[which];
    char how[64];

    *out = NULL;
    while (kvt_clock_mono_ms() < deadline_ms) {
        char *text = NULL;
        size_t size;
        enum kvt_err rc = KVT_NOTFOUND;

        if (kvt_file_read(&text, &size, path, FILE_MAX, NULL) == KVT_OK && size > 0)
            rc = kvt_json_parse(out, text, size, path, NULL);
        kvt_free(text);
        if (rc == KVT_OK)
            return KVT_OK;
        if (cli_child_process_ended(child)) {
            cli_child_process_explain(child, how, sizeof(how));
            return kvt_error_set(err, KVT_IO, "%s %s", child->name, how);
        }
        if (cli_interrupt_wait(POLL_MS)) {
            dev->told_to_stop = true;
            return kvt_error_set(err, KVT_CANCELLED, "stopped");
        }
    }
    return kvt_error_set(err, KVT_TIMEOUT, "%s is not ready in time (--ready-wait)", child->name);
}

static enum kvt_err
start_nats(struct dev *dev, struct kvt_error *err)
{
    char program[CLI_CHILD_PROCESS_PATH_MAX];
    char run[CLI_DEV_PATH_MAX];
    char path[CLI_DEV_PATH_MAX];
    struct json_object *ports;
    const char *url;
    enum kvt_err rc;

    rc = cli_child_process_find(kvt_config_string(dev->context->options, CLI_DEV_NATS_SERVER),
                                "nats", program, err);
    if (rc != KVT_OK)
        return rc;
    cli_dev_state_path(&dev->state, "run", run);
    add(&dev->arguments, "%s", program);
    add_pair(dev, "-a", "127.0.0.1");
    add_pair(dev, "-p", "-1");
    add(&dev->arguments, "-js");
    add_file(dev, "-sd", "nats");
    add_pair(dev, "--ports_file_dir", run);
    rc = start(dev, NATS, "nats-server", "log/nats.log", err);
    if (rc != KVT_OK)
        return rc;
    (void)snprintf(path, sizeof(path), "%.*s/nats-server_%" PRIdMAX ".ports",
                   CLI_DEV_PATH_MAX - CLI_DEV_ROOM, run, (intmax_t)dev->children[NATS].pid);
    rc = wait_for_file(dev, NATS, path, &ports, err);
    if (rc != KVT_OK)
        return rc;
    url = json_object_get_string(cli_json_item(ports, "nats", 0));
    (void)snprintf(dev->endpoints.nats_url, CLI_DEV_URL_MAX, "%s", url == NULL ? "" : url);
    (void)json_object_put(ports);
    return url == NULL ? kvt_error_set(err, KVT_IO, "nats-server named no address") : KVT_OK;
}

/* What advisor and gateway have in common. */
static enum kvt_err
begin_daemon(struct dev *dev, const char *program, const char *folder, const char *ports,
             struct kvt_error *err)
{
    char file[CLI_DEV_ROOM];
    char path[CLI_CHILD_PROCESS_PATH_MAX];
    enum kvt_err rc;

    rc = cli_child_process_find(program, folder, path, err);
    if (rc != KVT_OK)
        return rc;
    (void)snprintf(file, sizeof(file), "%s.yaml", folder);
    add(&dev->arguments, "%s", path);
    add_file(dev, "--config", file);
    add_file(dev, "--state-dir", folder);
    add_pair(dev, "--nats-url", dev->endpoints.nats_url);
    add_pair(dev, "--admin-bind", "127.0.0.1");
    add_pair(dev, "--admin-port", "0");
    add_file(dev, "--admin-token-file", "secrets/admin-token");
    add_file(dev, "--orders-key-file", "secrets/orders-key");
    add_file(dev, "--ports-file", ports);
    cli_dev_state_path(&dev->state, ports, path);
    (void)unlink(path); /* of an earlier run: it would look ready */
    return KVT_OK;
}

static enum kvt_err
start_advisor(struct dev *dev, struct kvt_error *err)
{
    char path[CLI_DEV_PATH_MAX];
    struct json_object *ports;
    enum kvt_err rc;

    rc = begin_daemon(dev, "kvtier-advisor", "advisor", "run/advisor.json", err);
    if (rc != KVT_OK)
        return rc;
    add_pair(dev, "--policy-mode", kvt_config_string(dev->context->options, CLI_DEV_POLICY_MODE));
    rc = start(dev, ADVISOR, "kvtier-advisor", "log/advisor.log", err);
    if (rc != KVT_OK)
        return rc;
    cli_dev_state_path(&dev->state, "run/advisor.json", path);
    rc = wait_for_file(dev, ADVISOR, path, &ports, err);
    if (rc != KVT_OK)
        return rc;
    (void)snprintf(dev->endpoints.advisor_url, CLI_DEV_URL_MAX, "http://127.0.0.1:%" PRIu64,
                   cli_json_u64(ports, "admin"));
    (void)json_object_put(ports);
    return KVT_OK;
}

static void
add_store(struct dev *dev)
{
    const struct kvt_config *options = dev->context->options;

    add_file(dev, "--hot-dir", "hot");
    add_pair(dev, "--hot-capacity", kvt_config_string(options, CLI_DEV_HOT_CAPACITY));
    add_pair(dev, "--cold-capacity", kvt_config_string(options, CLI_DEV_COLD_CAPACITY));
    add_pair(dev, "--bucket", dev->endpoints.bucket);
    if (!kvt_config_is_set(options, CLI_DEV_S3)) {
        add_pair(dev, "--cold-kind", "directory");
        add_file(dev, "--cold-dir", "cold");
        return;
    }
    add_pair(dev, "--cold-kind", "s3");
    add_pair(dev, "--s3-endpoint", kvt_config_string(options, CLI_DEV_S3));
    if (kvt_config_is_set(options, CLI_DEV_S3_REGION))
        add_pair(dev, "--s3-region", kvt_config_string(options, CLI_DEV_S3_REGION));
    if (kvt_config_is_set(options, CLI_DEV_S3_CREDENTIALS))
        add_pair(dev, "--s3-credentials-file", kvt_config_string(options, CLI_DEV_S3_CREDENTIALS));
    if (kvt_config_is_set(options, CLI_DEV_S3_CA))
        add_pair(dev, "--s3-ca-file", kvt_config_string(options, CLI_DEV_S3_CA));
}

static enum kvt_err
start_gateway(struct dev *dev, struct kvt_error *err)
{
    char path[CLI_DEV_PATH_MAX];
    struct json_object *ports;
    enum kvt_err rc;

    rc = begin_daemon(dev, "kvtier-gateway", "gateway", "run/gateway.json", err);
    if (rc != KVT_OK)
        return rc;
    add_pair(dev, "--front-bind", "127.0.0.1");
    add_pair(dev, "--front-port", "0");
    add_file(dev, "--front-credentials-file", "secrets/front");
    add_store(dev);
    rc = start(dev, GATEWAY, "kvtier-gateway", "log/gateway.log", err);
    if (rc != KVT_OK)
        return rc;
    cli_dev_state_path(&dev->state, "run/gateway.json", path);
    rc = wait_for_file(dev, GATEWAY, path, &ports, err);
    if (rc != KVT_OK)
        return rc;
    (void)snprintf(dev->endpoints.gateway_url, CLI_DEV_URL_MAX, "http://127.0.0.1:%" PRIu64,
                   cli_json_u64(ports, "admin"));
    (void)snprintf(dev->endpoints.data_url, CLI_DEV_URL_MAX, "http://127.0.0.1:%" PRIu64,
                   cli_json_u64(ports, "front"));
    (void)json_object_put(ports);
    return KVT_OK;
}

/* ---- the bucket ---- */

static enum kvt_err
explain_bucket(const struct g4_s3_options *options, enum kvt_err rc, const struct kvt_error *cause,
               struct kvt_error *err)
{
    const char *text = cause->text + strspn(cause->text, ": ");

    return kvt_error_set(err, rc, "%.48s bucket %.64s: %.110s%s", options->endpoint,
                         options->bucket, text,
                         rc == KVT_NOTFOUND ? " (--create-bucket makes it)" : "");
}

/* Wrong credentials or a missing bucket would only show as a gateway that is never quite well. */
static enum kvt_err
reach_bucket(const struct g4_s3_options *options, bool create, struct kvt_error *err)
{
    struct g4_store *store = NULL;
    struct kvt_error cause = {0};
    enum kvt_err rc = KVT_OK;

    if (create)
        rc = g4_s3_create_bucket(options, &cause);
    if (rc == KVT_OK || rc == KVT_EXISTS)
        rc = g4_s3_open(&store, options, &cause);
    if (rc == KVT_OK)
        rc = g4_s3_probe(store, NULL, &cause);
    g4_store_close(store);
    return rc == KVT_OK ? KVT_OK : explain_bucket(options, rc, &cause, err);
}

/* Flags are no environment's: what AWS's own programs look at is asked for here. */
static const char *
ca_file_of(const struct kvt_config *options)
{
    const char *bundle = getenv("AWS_CA_BUNDLE");

    if (kvt_config_is_set(options, CLI_DEV_S3_CA))
        return kvt_config_string(options, CLI_DEV_S3_CA);
    return bundle == NULL ? "" : bundle;
}

static enum kvt_err
prepare_bucket(struct dev *dev, struct kvt_error *err)
{
    const struct kvt_config *options = dev->context->options;
    const bool create = kvt_config_bool(options, CLI_DEV_CREATE_BUCKET);
    struct cli_credentials credentials;
    enum kvt_err rc;

    if (!kvt_config_is_set(options, CLI_DEV_S3))
        return create ? kvt_error_set(err, KVT_INVALID, "--create-bucket wants --s3") : KVT_OK;
    rc = cli_credentials_load(options, CLI_DEV_S3_CREDENTIALS, true, &credentials, err);
    if (rc == KVT_OK)
        rc = reach_bucket(
            &(struct g4_s3_options){
                .endpoint = kvt_config_string(options, CLI_DEV_S3),
                .bucket = dev->endpoints.bucket,
                .region = kvt_config_string(options, CLI_DEV_S3_REGION),
                .access_key = credentials.access_key,
                .secret_key = credentials.secret_key,
                .session_token = credentials.session_token,
                .ca_file = ca_file_of(options),
                .path_style = true,
                .attempts_max = 1,
                .timeout_ms = kvt_config_u64(dev->context->settings, CLI_SETTING_TIMEOUT),
            },
            create, err);
    explicit_bzero(&credentials, sizeof(credentials));
    return rc;
}

/* ---- the run ---- */

static void
print_endpoints(const struct dev *dev)
{
    const struct cli_dev_endpoints *at = &dev->endpoints;
    const char *folder = dev->state.folder;
    FILE *out = dev->context->out;
    char path[CLI_DEV_PATH_MAX];
    char shown[KVT_REDACT_URL_MAX];
    char *text = NULL;
    size_t size;

    if (dev->context->json) {
        cli_dev_state_path(&dev->state, "dev.json", path);
        if (kvt_file_read(&text, &size, path, FILE_MAX, NULL) == KVT_OK)
            (void)fputs(text, out);
        kvt_free(text);
        (void)fflush(out);
        return;
    }
    kvt_redact_url(shown, sizeof(shown), at->nats_url);
    (void)fprintf(out, "KVTier runs; Ctrl-C stops it.\n\n");
    (void)fprintf(out, "  S3, bucket %-12s %s\n  gateway admin           %s\n", at->bucket,
                  at->data_url, at->gateway_url);
    (void)fprintf(out, "  advisor admin           %s\n  NATS                    %s\n",
                  at->advisor_url, shown);
    (void)fprintf(out, "  state, logs, secrets    %s\n\ntry:\n", folder);
    (void)fprintf(out, "  kvtier --config %s/cli.yaml status --watch\n", folder);
    (void)fprintf(out, "  kvtier --config %s/cli.yaml doctor --state %s\n", folder, folder);
    (void)fprintf(out, "  kvtier workload generate --requests 500 --out %s/workload.jsonl\n",
                  folder);
    (void)fprintf(out,
                  "  kvtier-worker --config %s/worker.yaml --namespace dev/model \\\n"
                  "      --g1-size 16MiB --g2-size 64MiB --g3-size 256MiB \\\n"
                  "      --trace %s/workload.jsonl\n",
                  folder, folder);
    (void)fflush(out);
}

static bool
hurry(void)
{
    return cli_interrupt_wait(0);
}

/* The gateway still tells NATS what it did, the advisor still commits it; so NATS goes last. */
static void
stop_all(struct dev *dev)
{
    for (int which = CHILDREN - 1; which >= 0; which--)
        cli_child_process_stop(&dev->children[which], GRACE_MS, hurry);
}

/* Until told to stop (KVT_OK) or a child ends. */
static enum kvt_err
run(struct dev *dev, struct kvt_error *err)
{
    static const char *const logs[CHILDREN] = {"log/nats.log", "log/advisor.log",
                                               "log/gateway.log"};
    char how[64];

    while (!cli_interrupt_wait(WATCH_MS)) {
        for (int which = 0; which < CHILDREN; which++) {
            if (!cli_child_process_ended(&dev->children[which]))
                continue;
            cli_child_process_explain(&dev->children[which], how, sizeof(how));
            show_log(dev, logs[which]);
            return kvt_error_set(err, KVT_IO, "%s %s; stopping the others",
                                 dev->children[which].name, how);
        }
    }
    return KVT_OK;
}

static enum kvt_err
start_all(struct dev *dev, struct kvt_error *err)
{
    static const struct {
        enum kvt_err (*start)(struct dev *dev, struct kvt_error *err);
        const char *log;
    } steps[CHILDREN] = {{start_nats, "log/nats.log"},
                         {start_advisor, "log/advisor.log"},
                         {start_gateway, "log/gateway.log"}};
    enum kvt_err rc;

    for (int which = 0; which < CHILDREN; which++) {
        rc = steps[which].start(dev, err);
        arguments_clear(&dev->arguments);
        if (rc == KVT_IO || rc == KVT_TIMEOUT)
            show_log(dev, steps[which].log);
        if (rc != KVT_OK)
            return rc;
    }
    return cli_dev_state_publish(&dev->state, &dev->endpoints, err);
}

enum cli_exit
cli_dev_run(const struct cli_context *context)
{
    struct dev *dev = kvt_calloc(1, sizeof(*dev));
    struct kvt_error err = {0};
    enum kvt_err rc;

    if (dev == NULL) {
        (void)kvt_error_set(&err, KVT_NOMEM, "out of memory");
        return cli_context_fail(context, &err);
    }
    dev->context = context;
    dev->endpoints.bucket = kvt_config_string(context->settings, CLI_SETTING_BUCKET);
    cli_interrupt_begin();
    rc = cli_dev_state_open(&dev->state, kvt_config_string(context->options, CLI_DEV_STATE), &err);
    if (rc == KVT_OK)
        rc = prepare_bucket(dev, &err);
    if (rc == KVT_OK)
        rc = start_all(dev, &err);
    if (rc == KVT_OK) {
        print_endpoints(dev);
        rc = run(dev, &err);
    }
    if (dev->told_to_stop)
        rc = KVT_OK;
    if (cli_context_interactive(context))
        (void)fprintf(context->err, "stopping ...\n");
    stop_all(dev);
    cli_dev_state_withdraw(&dev->state);
    cli_dev_state_close(&dev->state);
    kvt_free(dev);
    if (rc == KVT_OK)
        return CLI_EXIT_DONE;
    (void)cli_context_fail(context, &err);
    return rc == KVT_IO || rc == KVT_TIMEOUT ? CLI_EXIT_FAILED : cli_exit_of(rc);
}
