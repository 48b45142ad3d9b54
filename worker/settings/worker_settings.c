#include "worker/settings/worker_settings.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/http/http.h"
#include "kvbm/storage/tier_storage.h"

enum {
    LAYERS = 4,
    OUTER = 2,
    PAGE_SIZE = 16,
    DTYPE_BYTES = 2,
    BYTES_A_DIMENSION = LAYERS * OUTER * PAGE_SIZE * DTYPE_BYTES,
};

const struct kvt_param worker_settings_table[WORKER_SETTING_COUNT] = {
#define PARAM(...) KVT_PARAM_ROW(__VA_ARGS__)
#include "config/common.def"
#include "config/worker.def"
#undef PARAM
};

#define ROW(id) ((size_t)WORKER_SETTING_##id)

/* Names become parts of subjects and file names, and "-<number>" is added. */
static enum kvt_err
load_name(struct worker_settings *settings, const struct kvt_config *config, struct kvt_error *err)
{
    const char *name = kvt_config_string(config, ROW(NAME));
    char host[KVT_NAME_MAX] = "worker";
    int size;

    if (name[0] != '\0') {
        size = snprintf(settings->name, sizeof(settings->name), "%s", name);
    } else {
        if (gethostname(host, sizeof(host)) != 0)
            host[0] = '\0';
        host[sizeof(host) - 1] = '\0';
        host[strcspn(host, ".")] = '\0';
        size = snprintf(settings->name, sizeof(settings->name), "%.40s-%ld", host, (long)getpid());
    }
    if (size < 0 || (size_t)size > sizeof(settings->name) - 8)
        return kvt_error_set(err, KVT_RANGE, "name: longer than %zu bytes",
                             sizeof(settings->name) - 8);
    for (const char *at = settings->name; *at != '\0'; at++)
        if (!isalnum((unsigned char)*at) && strchr("-_.", *at) == NULL)
            return kvt_error_set(err, KVT_INVALID, "name: \"%s\" may hold A-Z a-z 0-9 - _ . only",
                                 settings->name);
    return KVT_OK;
}

/* "i/n", i below n. */
static bool
parse_shard(const char *text, uint64_t *shard, uint64_t *shards)
{
    const char *slash = strchr(text, '/');
    char first[24];

    *shard = 0;
    *shards = 1;
    if (slash == NULL || (size_t)(slash - text) >= sizeof(first))
        return false;
    memcpy(first, text, (size_t)(slash - text));
    first[slash - text] = '\0';
    return kvt_parse_u64(first, shard) == KVT_OK && kvt_parse_u64(slash + 1, shards) == KVT_OK &&
           *shard < *shards;
}

static enum kvt_err
load_trace(struct worker_settings *settings, const struct kvt_config *config, struct kvt_error *err)
{
    const char *shard = kvt_config_string(config, ROW(TRACE_SHARD));
    const char *speed = kvt_config_string(config, ROW(SPEED));

    settings->trace = kvt_config_string(config, ROW(TRACE));
    if (settings->trace[0] == '\0' && settings->attach_engines == 0)
        return kvt_error_set(err, KVT_INVALID, "trace: no file given (--trace FILE)");
    if (settings->trace[0] == '\0') {
        settings->trace = "/dev/null"; /* engines are all there is to serve */
        settings->stay = true;
    }
    settings->until_ms = kvt_config_u64(config, ROW(TRACE_UNTIL));
    if (!parse_shard(shard, &settings->shard, &settings->shards))
        return kvt_error_set(err, KVT_INVALID, "trace.shard: \"%s\" is no i/n with i below n",
                             shard);
    settings->speed = 0;
    if (strcmp(speed, "max") != 0) {
        char *rest;

        settings->speed = strtod(speed, &rest);
        if (rest == speed || *rest != '\0' || !isfinite(settings->speed) || settings->speed <= 0)
            return kvt_error_set(err, KVT_INVALID,
                                 "speed: \"%s\" is neither max nor a positive number", speed);
    }
    return KVT_OK;
}

static enum kvt_err
tier_blocks(uint32_t *blocks, const struct kvt_config *config, size_t row, uint64_t block_size,
            struct kvt_error *err)
{
    const uint64_t count = kvt_config_u64(config, row) / block_size;

    if (count < WORKER_SETTINGS_BLOCKS_MIN || count > KVBM_STORAGE_BLOCKS_MAX)
        return kvt_error_set(err, KVT_RANGE,
                             "%s: %" PRIu64 " blocks of %" PRIu64 " bytes, not in %d..%" PRIu32,
                             worker_settings_table[row].key, count, block_size,
                             WORKER_SETTINGS_BLOCKS_MIN, KVBM_STORAGE_BLOCKS_MAX);
    *blocks = (uint32_t)count;
    return KVT_OK;
}

static enum kvt_err
load_tiers(struct worker_settings *settings, const struct kvt_config *config, struct kvt_error *err)
{
    const uint64_t block_size = kvt_config_u64(config, ROW(BLOCK_SIZE));
    struct kvt_geometry geometry = {
        .kind = KVT_LAYOUT_CONTIGUOUS,
        .layers = LAYERS,
        .outer = OUTER,
        .page_size = PAGE_SIZE,
        .dtype_bytes = DTYPE_BYTES,
        .alignment = KVBM_STORAGE_ALIGN,
        .tp_size = 1,
        .tp_rank = 0,
    };
    enum kvt_err rc;

    if (block_size % KVBM_STORAGE_ALIGN != 0)
        return kvt_error_set(err, KVT_INVALID, "block.size: %" PRIu64 " is no multiple of %d",
                             block_size, KVBM_STORAGE_ALIGN);
    geometry.inner_dim = (uint32_t)(block_size / BYTES_A_DIMENSION);
    rc = kvbm_layout_make(&settings->layout, &geometry, err);
    if (rc == KVT_OK)
        rc = tier_blocks(&settings->g1_blocks, config, ROW(G1_SIZE), block_size, err);
    if (rc == KVT_OK)
        rc = tier_blocks(&settings->g2_blocks, config, ROW(G2_SIZE), block_size, err);
    if (rc == KVT_OK && kvt_config_u64(config, ROW(G3_SIZE)) > 0)
        rc = tier_blocks(&settings->g3_blocks, config, ROW(G3_SIZE), block_size, err);
    if (rc != KVT_OK)
        return rc;
    settings->g3_dir = kvt_config_string(config, ROW(G3_DIR));
    settings->g3_direct = kvt_config_bool(config, ROW(G3_DIRECT));
    settings->g3_keep = kvt_config_bool(config, ROW(G3_KEEP));
    if (rc == KVT_OK && settings->g3_keep && kvt_config_string(config, ROW(NAME))[0] == '\0')
        return kvt_error_set(err, KVT_INVALID,
                             "g3.keep: needs a name, by which the next process finds the tier");
    settings->pool_order = kvt_config_string(config, ROW(POOL_ORDER));
    settings->gpu = (enum worker_settings_gpu)kvt_config_enum(config, ROW(GPU));
    settings->high_ppm = kvt_config_ppm(config, ROW(OFFLOAD_HIGH));
    settings->low_ppm = kvt_config_ppm(config, ROW(OFFLOAD_LOW));
    settings->room_wait_ms = kvt_config_u64(config, ROW(OFFLOAD_WAIT));
    settings->prefill_rate = kvt_config_u64(config, ROW(ONBOARD_PREFILL_RATE));
    settings->deadline_ms = kvt_config_u64(config, ROW(ONBOARD_DEADLINE));
    settings->block_tokens = (uint32_t)kvt_config_u64(config, ROW(BLOCK_TOKENS));
    if (settings->low_ppm >= settings->high_ppm)
        return kvt_error_set(err, KVT_INVALID, "offload.low must be below offload.high");
    return KVT_OK;
}

static enum kvt_err
load_attach(struct worker_settings *settings, const struct kvt_config *config,
            struct kvt_error *err)
{
    const uint64_t block_size = kvt_config_u64(config, ROW(BLOCK_SIZE));
    const uint64_t blocks = kvt_config_u64(config, ROW(ATTACH_MEMORY)) / block_size;

    settings->attach_socket = kvt_config_string(config, ROW(ATTACH_SOCKET));
    if (settings->attach_socket[0] == '\0')
        return KVT_OK;
    if (settings->workers != 1)
        return kvt_error_set(err, KVT_INVALID,
                             "attach.socket: engines attach to one logical "
                             "worker, set workers to 1");
    if (blocks == 0 || blocks > KVBM_STORAGE_BLOCKS_MAX)
        return kvt_error_set(err, KVT_RANGE,
                             "attach.memory: %" PRIu64 " blocks of %" PRIu64
                             " bytes, not in 1..%" PRIu32,
                             blocks, block_size, KVBM_STORAGE_BLOCKS_MAX);
    settings->attach_engines = (uint32_t)kvt_config_u64(config, ROW(ATTACH_ENGINES));
    settings->attach_blocks = (uint32_t)blocks;
    return KVT_OK;
}

/* access:secret, and for an S3 service also :token. */
static enum kvt_err
load_pair(struct worker_settings *settings, const struct kvt_config *config, size_t row,
          const char *key, bool token, struct kvt_error *err)
{
    char text[2 * WORKER_SETTINGS_SECRET_MAX + WORKER_SETTINGS_TOKEN_MAX];
    char *secret;
    char *rest;
    enum kvt_err rc = kvt_config_secret(config, row, text, sizeof(text), err);

    if (rc != KVT_OK)
        return rc;
    secret = strchr(text, ':');
    if (secret == NULL)
        return kvt_error_set(err, KVT_INVALID, "%s: not access:secret", key);
    *secret++ = '\0';
    rest = token ? strchr(secret, ':') : NULL;
    if (rest != NULL)
        *rest++ = '\0';
    else
        rest = secret + strlen(secret);
    if ((size_t)snprintf(settings->access_key, sizeof(settings->access_key), "%s", text) >=
            sizeof(settings->access_key) ||
        (size_t)snprintf(settings->secret_key, sizeof(settings->secret_key), "%s", secret) >=
            sizeof(settings->secret_key) ||
        (size_t)snprintf(settings->s3.session_token, sizeof(settings->s3.session_token), "%s",
                         rest) >= sizeof(settings->s3.session_token))
        return kvt_error_set(err, KVT_RANGE, "%s: longer than %d bytes", key,
                             WORKER_SETTINGS_SECRET_MAX - 1);
    return KVT_OK;
}

static enum kvt_err
load_gateway_keys(struct worker_settings *settings, const struct kvt_config *config,
                  struct kvt_error *err)
{
    const char *access = getenv("AWS_ACCESS_KEY_ID");
    const char *secret = getenv("AWS_SECRET_ACCESS_KEY");

    if (kvt_config_is_set(config, ROW(GATEWAY_CREDENTIALS_FILE)))
        return load_pair(settings, config, ROW(GATEWAY_CREDENTIALS_FILE),
                         "gateway.credentials_file", false, err);
    if (access == NULL || secret == NULL)
        return kvt_error_set(err, KVT_INVALID,
                             "no credentials for the gateway: set gateway.credentials_file, or "
                             "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY");
    if ((size_t)snprintf(settings->access_key, sizeof(settings->access_key), "%s", access) >=
            sizeof(settings->access_key) ||
        (size_t)snprintf(settings->secret_key, sizeof(settings->secret_key), "%s", secret) >=
            sizeof(settings->secret_key))
        return kvt_error_set(err, KVT_RANGE, "gateway credentials longer than %d bytes",
                             WORKER_SETTINGS_SECRET_MAX - 1);
    return KVT_OK;
}

/* Of the two ways to the object tier the S3 service is taken where it is named. */
static enum kvt_err
load_objects(struct worker_settings *settings, const struct kvt_config *config,
             struct kvt_error *err)
{
    settings->bucket = kvt_config_string(config, ROW(BUCKET));
    settings->retry_ms = kvt_config_u64(config, ROW(GATEWAY_RETRY));
    settings->revision = (enum kvt_key_revision)kvt_config_enum(config, ROW(KEY_REVISION));
    settings->s3.endpoint = kvt_config_string(config, ROW(S3_ENDPOINT));
    settings->s3.region = kvt_config_string(config, ROW(S3_REGION));
    settings->s3.ca_file = kvt_config_string(config, ROW(S3_CA_FILE));
    settings->s3.path_style = kvt_config_bool(config, ROW(S3_PATH_STYLE));
    settings->s3.connections = (unsigned)kvt_config_u64(config, ROW(S3_CONNECTIONS));
    settings->endpoint = "";
    if (settings->s3.endpoint[0] != '\0') {
        if (!kvt_config_is_set(config, ROW(S3_CREDENTIALS_FILE)))
            return KVT_OK; /* looked for when it is opened */
        return load_pair(settings, config, ROW(S3_CREDENTIALS_FILE), "s3.credentials_file", true,
                         err);
    }
    settings->endpoint = kvt_config_string(config, ROW(GATEWAY_ENDPOINT));
    return settings->endpoint[0] == '\0' ? KVT_OK : load_gateway_keys(settings, config, err);
}

static enum kvt_err
load_admin(struct worker_settings *settings, const struct kvt_config *config, struct kvt_error *err)
{
    settings->admin_bind = kvt_config_string(config, ROW(ADMIN_BIND));
    settings->admin_port = (uint16_t)kvt_config_u64(config, ROW(ADMIN_PORT));
    settings->ports_file = kvt_config_string(config, ROW(PORTS_FILE));
    if (!kvt_config_is_set(config, ROW(ADMIN_TOKEN_FILE)))
        return KVT_OK;
    return kvt_config_secret(config, ROW(ADMIN_TOKEN_FILE), settings->admin_token,
                             KVT_HTTP_TOKEN_MAX, err);
}

enum kvt_err
worker_settings_load(struct worker_settings *settings, const struct kvt_config *config,
                     struct kvt_error *err)
{
    enum kvt_err rc;

    memset(settings, 0, sizeof(*settings));
    settings->namespace_ = kvt_config_string(config, ROW(NAMESPACE));
    if (strlen(settings->namespace_) >= KVT_NAMESPACE_MAX)
        return kvt_error_set(err, KVT_RANGE, "namespace: longer than %d bytes",
                             KVT_NAMESPACE_MAX - 1);
    if (settings->namespace_[0] != '\0')
        settings->salt = XXH3_64bits(settings->namespace_, strlen(settings->namespace_));
    settings->workers = (uint32_t)kvt_config_u64(config, ROW(WORKERS));
    settings->transport =
        (enum wire_event_publisher_mode)kvt_config_enum(config, ROW(EVENTS_TRANSPORT));
    settings->publish_g1 = kvt_config_bool(config, ROW(EVENTS_G1));
    settings->stay = kvt_config_bool(config, ROW(STAY));
    settings->report = kvt_config_string(config, ROW(REPORT));
    settings->acked_log = kvt_config_string(config, ROW(ACKED_LOG));
    settings->bus = wire_bus_options_of(config, ROW(NATS_URL));
    settings->bus.name = settings->name;
    rc = load_name(settings, config, err);
    if (rc == KVT_OK)
        rc = load_attach(settings, config, err);
    if (rc == KVT_OK)
        rc = load_trace(settings, config, err);
    if (rc == KVT_OK)
        rc = load_tiers(settings, config, err);
    if (rc == KVT_OK)
        rc = load_objects(settings, config, err);
    if (rc == KVT_OK)
        rc = load_admin(settings, config, err);
    return rc;
}
