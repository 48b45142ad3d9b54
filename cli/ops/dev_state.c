#include "cli/ops/dev_state.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/core/alloc.h"
#include "base/core/buffer.h"
#include "base/core/file.h"
#include "base/core/random.h"
#include "base/text/hex.h"

enum { SECRET_BYTES = 32, FILE_MAX = 65536, PID_TEXT_MAX = 32 };

static const char *const folders[] = {"nats",   "advisor", "gateway", "hot",    "cold",
                                      "worker", "run",     "log",     "secrets"};

void
cli_dev_state_path(const struct cli_dev_state *state, const char *name, char path[CLI_DEV_PATH_MAX])
{
    (void)snprintf(path, CLI_DEV_PATH_MAX, "%s/%.*s", state->folder, CLI_DEV_ROOM - 2, name);
}

/* ---- making ---- */

static enum kvt_err
usual_folder(char *path, size_t size, struct kvt_error *err)
{
    const char *base = getenv("XDG_STATE_HOME");
    const char *home = getenv("HOME");
    int length;

    if (base != NULL && base[0] == '/')
        length = snprintf(path, size, "%s/kvtier/dev", base);
    else if (home != NULL && home[0] == '/')
        length = snprintf(path, size, "%s/.local/state/kvtier/dev", home);
    else
        return kvt_error_set(err, KVT_INVALID, "no $HOME: name a folder with --state");
    return length > 0 && (size_t)length < size
               ? KVT_OK
               : kvt_error_set(err, KVT_RANGE, "the path of the state folder is too long");
}

static enum kvt_err
lock(struct cli_dev_state *state, struct kvt_error *err)
{
    char path[CLI_DEV_PATH_MAX];
    char pid[PID_TEXT_MAX] = "";
    int size;

    cli_dev_state_path(state, "lock", path);
    state->lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (state->lock < 0)
        return kvt_error_sys(err, errno, "%s", path);
    if (flock(state->lock, LOCK_EX | LOCK_NB) != 0) {
        if (read(state->lock, pid, sizeof(pid) - 1) < 0)
            pid[0] = '\0';
        pid[strspn(pid, "0123456789")] = '\0';
        return kvt_error_set(
            err, KVT_BUSY,
            "another kvtier dev (process %s) runs on %.150s: stop it, or give this "
            "one another --state",
            pid, state->folder);
    }
    size = snprintf(pid, sizeof(pid), "%" PRIdMAX "\n", (intmax_t)getpid());
    if (ftruncate(state->lock, 0) != 0 || pwrite(state->lock, pid, (size_t)size, 0) != size)
        return kvt_error_sys(err, errno, "%s", path);
    return KVT_OK;
}

/* A file of its own for each secret, made once: workers of an earlier run still fit. */
static enum kvt_err
make_secret(const struct cli_dev_state *state, const char *name, const char *prefix,
            struct kvt_error *err)
{
    char path[CLI_DEV_PATH_MAX];
    char text[2 * SECRET_BYTES + CLI_DEV_ROOM];
    uint8_t bytes[SECRET_BYTES];
    enum kvt_err rc;
    int size;

    cli_dev_state_path(state, name, path);
    if (access(path, F_OK) == 0)
        return KVT_OK;
    kvt_random_system(bytes, sizeof(bytes));
    size = snprintf(text, sizeof(text), "%s", prefix);
    kvt_hex_format(bytes, SECRET_BYTES, text + size);
    size += 2 * SECRET_BYTES;
    text[size++] = '\n';
    rc = kvt_file_write(path, text, (size_t)size, 0600, err);
    explicit_bzero(text, sizeof(text));
    explicit_bzero(bytes, sizeof(bytes));
    return rc;
}

/* A file the user may fill; what is in it stays. */
static enum kvt_err
make_settings(const struct cli_dev_state *state, const char *name, struct kvt_error *err)
{
    static const char text[] = "# Settings for this kvtier dev; its own flags win over them.\n{}\n";
    char path[CLI_DEV_PATH_MAX];

    cli_dev_state_path(state, name, path);
    if (access(path, F_OK) == 0)
        return KVT_OK;
    return kvt_file_write(path, text, sizeof(text) - 1, 0600, err);
}

enum kvt_err
cli_dev_state_open(struct cli_dev_state *state, const char *path, struct kvt_error *err)
{
    char wanted[sizeof(state->folder)];
    char real[PATH_MAX];
    enum kvt_err rc = KVT_OK;

    *state = (struct cli_dev_state){.lock = -1};
    if (path[0] == '\0')
        rc = usual_folder(wanted, sizeof(wanted), err);
    else if ((size_t)snprintf(wanted, sizeof(wanted), "%s", path) >= sizeof(wanted))
        rc = kvt_error_set(err, KVT_RANGE, "the path of the state folder is too long");
    if (rc == KVT_OK)
        rc = kvt_folder_make(wanted, err);
    if (rc != KVT_OK)
        return rc;
    if (realpath(wanted, real) == NULL)
        return kvt_error_sys(err, errno, "%s", wanted);
    if ((size_t)snprintf(state->folder, sizeof(state->folder), "%s", real) >= sizeof(state->folder))
        return kvt_error_set(err, KVT_RANGE, "the path of the state folder is too long");
    rc = lock(state, err);
    for (size_t i = 0; rc == KVT_OK && i < sizeof(folders) / sizeof(folders[0]); i++) {
        cli_dev_state_path(state, folders[i], real);
        rc = kvt_folder_make(real, err);
    }
    if (rc == KVT_OK)
        rc = make_secret(state, "secrets/admin-token", "", err);
    if (rc == KVT_OK)
        rc = make_secret(state, "secrets/orders-key", "", err);
    if (rc == KVT_OK)
        rc = make_secret(state, "secrets/front", "kvtier-dev:", err);
    if (rc == KVT_OK)
        rc = make_settings(state, "advisor.yaml", err);
    if (rc == KVT_OK)
        rc = make_settings(state, "gateway.yaml", err);
    if (rc != KVT_OK)
        cli_dev_state_close(state);
    return rc;
}

void
cli_dev_state_close(struct cli_dev_state *state)
{
    if (state->lock >= 0)
        (void)close(state->lock);
    state->lock = -1;
}

/* ---- telling ---- */

/* A JSON string is a YAML string too. */
static void
add_path(struct kvt_buffer *text, const struct cli_dev_state *state, const char *name)
{
    char path[CLI_DEV_PATH_MAX];

    cli_dev_state_path(state, name, path);
    kvt_buffer_json_string(text, path);
}

static enum kvt_err
save(const struct cli_dev_state *state, const char *name, struct kvt_buffer *text,
     struct kvt_error *err)
{
    char path[CLI_DEV_PATH_MAX];

    if (!kvt_buffer_ok(text))
        return kvt_error_set(err, KVT_NOMEM, "%s", name);
    cli_dev_state_path(state, name, path);
    return kvt_file_write(path, text->data, text->size, 0600, err);
}

static enum kvt_err
publish_cli(const struct cli_dev_state *state, const struct cli_dev_endpoints *endpoints,
            struct kvt_buffer *text, struct kvt_error *err)
{
    kvt_buffer_clear(text);
    kvt_buffer_printf(text,
                      "advisor:\n  url: \"%s\"\ngateway:\n  url: \"%s\"\n  data_url: \"%s\"\n",
                      endpoints->advisor_url, endpoints->gateway_url, endpoints->data_url);
    kvt_buffer_printf(text, "  credentials_file: ");
    add_path(text, state, "secrets/front");
    kvt_buffer_printf(text, "\nbucket: ");
    kvt_buffer_json_string(text, endpoints->bucket);
    kvt_buffer_printf(text, "\nnats:\n  url: \"%s\"\nadmin:\n  token_file: ", endpoints->nats_url);
    add_path(text, state, "secrets/admin-token");
    kvt_buffer_printf(text, "\n");
    return save(state, "cli.yaml", text, err);
}

static enum kvt_err
publish_worker(const struct cli_dev_state *state, const struct cli_dev_endpoints *endpoints,
               struct kvt_buffer *text, struct kvt_error *err)
{
    kvt_buffer_clear(text);
    kvt_buffer_printf(text, "nats:\n  url: \"%s\"\nbucket: ", endpoints->nats_url);
    kvt_buffer_json_string(text, endpoints->bucket);
    kvt_buffer_printf(text,
                      "\ngateway:\n  endpoint: \"%s\"\n  credentials_file: ", endpoints->data_url);
    add_path(text, state, "secrets/front");
    kvt_buffer_printf(text, "\nadmin:\n  port: 0\n  token_file: ");
    add_path(text, state, "secrets/admin-token");
    kvt_buffer_printf(text, "\ng3:\n  dir: ");
    add_path(text, state, "worker");
    kvt_buffer_printf(text, "\n");
    return save(state, "worker.yaml", text, err);
}

static enum kvt_err
publish_json(const struct cli_dev_state *state, const struct cli_dev_endpoints *endpoints,
             struct kvt_buffer *text, struct kvt_error *err)
{
    static const struct {
        const char *key;
        const char *name;
    } files[] = {{"admin_token_file", "secrets/admin-token"},
                 {"orders_key_file", "secrets/orders-key"},
                 {"front_credentials_file", "secrets/front"},
                 {"cli_config", "cli.yaml"},
                 {"worker_config", "worker.yaml"},
                 {"log_dir", "log"}};

    kvt_buffer_clear(text);
    kvt_buffer_printf(text,
                      "{\"schema_version\":1,\"pid\":%" PRIdMAX
                      ",\"nats_url\":\"%s\",\"advisor_url\":\"%s\",\"gateway_url\":\"%s\","
                      "\"gateway_data_url\":\"%s\",\"bucket\":",
                      (intmax_t)getpid(), endpoints->nats_url, endpoints->advisor_url,
                      endpoints->gateway_url, endpoints->data_url);
    kvt_buffer_json_string(text, endpoints->bucket);
    kvt_buffer_printf(text, ",\"state_dir\":");
    kvt_buffer_json_string(text, state->folder);
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        kvt_buffer_printf(text, ",\"%s\":", files[i].key);
        add_path(text, state, files[i].name);
    }
    kvt_buffer_printf(text, "}\n");
    return save(state, "dev.json", text, err);
}

enum kvt_err
cli_dev_state_publish(const struct cli_dev_state *state, const struct cli_dev_endpoints *endpoints,
                      struct kvt_error *err)
{
    struct kvt_buffer text;
    enum kvt_err rc;

    kvt_buffer_init(&text, FILE_MAX);
    rc = publish_cli(state, endpoints, &text, err);
    if (rc == KVT_OK)
        rc = publish_worker(state, endpoints, &text, err);
    if (rc == KVT_OK)
        rc = publish_json(state, endpoints, &text, err);
    kvt_buffer_release(&text);
    return rc;
}

void
cli_dev_state_withdraw(const struct cli_dev_state *state)
{
    char path[CLI_DEV_PATH_MAX];

    cli_dev_state_path(state, "dev.json", path);
    (void)unlink(path);
}
