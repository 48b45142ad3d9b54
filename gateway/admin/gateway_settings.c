#include "gateway/admin/gateway_settings.h"

#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/file.h"
#include "g4/s3/placement.h"

enum { CREDENTIALS_TEXT_MAX = 128 * 1024 };

const struct kvt_param gateway_settings_table[GATEWAY_SETTING_COUNT] = {
#define PARAM KVT_PARAM_ROW
#include "config/common.def"
#include "config/gateway.def"
#include "gateway/tier/bucket_tier.h"
#undef PARAM
};

/* An unset secret is "", which is a legitimate answer for the caller to judge. */
static enum kvt_err
secret(const struct kvt_config *config, size_t row, char *text, size_t size, struct kvt_error *err)
{
    const enum kvt_err rc = kvt_config_secret(config, row, text, size, err);

    if (rc == KVT_NOTFOUND && !kvt_config_is_set(config, row)) {
        text[0] = '\0';
        return KVT_OK;
    }
    return rc;
}

enum kvt_err
gateway_settings_credentials(struct gateway_client_credentials **out,
                             const struct kvt_config *config, struct kvt_error *err)
{
    const char *path = kvt_config_string(config, GATEWAY_SETTING_FRONT_CREDENTIALS_FILE);
    const size_t size = strlen(path);
    char *text;
    enum kvt_err rc;

    *out = NULL;
    if (!kvt_config_is_set(config, GATEWAY_SETTING_FRONT_CREDENTIALS_FILE))
        return kvt_error_set(err, KVT_INVALID,
                             "front.credentials_file is not set: name a 0600 file with one "
                             "access:secret a line, for the clients of the S3 port");
    text = kvt_calloc(1, CREDENTIALS_TEXT_MAX);
    if (text == NULL)
        return kvt_error_set(err, KVT_NOMEM, "credentials of the S3 port");
    /* Read as a secret first, which refuses a file that others may read. */
    rc = kvt_config_secret_lines(config, GATEWAY_SETTING_FRONT_CREDENTIALS_FILE, text,
                                 CREDENTIALS_TEXT_MAX, err);
    if (rc == KVT_OK && size > 5 && strcmp(path + size - 5, ".yaml") == 0)
        rc = gateway_client_credentials_load(out, path, err);
    else if (rc == KVT_OK)
        rc = gateway_client_credentials_parse(out, text, err);
    explicit_bzero(text, CREDENTIALS_TEXT_MAX);
    kvt_free(text);
    return rc;
}

enum kvt_err
gateway_settings_certificate(struct kvt_tls *tls, const struct kvt_config *config,
                             struct kvt_error *err)
{
    const char *path = kvt_config_string(config, GATEWAY_SETTING_FRONT_TLS_CERTIFICATE_FILE);
    char *certificate = NULL;
    char *key = kvt_calloc(1, GATEWAY_TLS_KEY_MAX);
    size_t size;
    enum kvt_err rc;

    if (key == NULL)
        return kvt_error_set(err, KVT_NOMEM, "certificate of the S3 port");
    rc = kvt_config_secret_lines(config, GATEWAY_SETTING_FRONT_TLS_KEY_FILE, key,
                                 GATEWAY_TLS_KEY_MAX, err);
    if (rc == KVT_OK)
        rc = kvt_file_read(&certificate, &size, path, GATEWAY_CERTIFICATE_MAX, err);
    if (rc == KVT_OK)
        rc = kvt_tls_load(tls, certificate, key, err);
    kvt_free(certificate);
    explicit_bzero(key, GATEWAY_TLS_KEY_MAX);
    kvt_free(key);
    return rc;
}

static enum kvt_err
load_tls(struct gateway_settings *settings, const struct kvt_config *config, struct kvt_error *err)
{
    const bool wanted = kvt_config_is_set(config, GATEWAY_SETTING_FRONT_TLS_KEY_FILE);
    const char *path = kvt_config_string(config, GATEWAY_SETTING_FRONT_TLS_CERTIFICATE_FILE);

    if ((path[0] != '\0') != wanted)
        return kvt_error_set(err, KVT_INVALID,
                             "front.tls_certificate_file and front.tls_key_file go together");
    if (!wanted)
        return KVT_OK;
    if (kvt_tls_new(&settings->front_tls) != KVT_OK)
        return kvt_error_set(err, KVT_NOMEM, "certificate of the S3 port");
    return gateway_settings_certificate(settings->front_tls, config, err);
}

static enum kvt_err
load_front(struct gateway_settings *settings, const struct kvt_config *config,
           struct kvt_error *err)
{
    enum kvt_err rc;

    settings->front_bind = kvt_config_string(config, GATEWAY_SETTING_FRONT_BIND);
    settings->front_domains = kvt_config_string(config, GATEWAY_SETTING_FRONT_DOMAINS);
    settings->front_buckets_max = (size_t)kvt_config_u64(config, GATEWAY_SETTING_FRONT_BUCKETS_MAX);
    settings->front_port = (uint16_t)kvt_config_u64(config, GATEWAY_SETTING_FRONT_PORT);
    settings->front_threads = (unsigned)kvt_config_u64(config, GATEWAY_SETTING_FRONT_THREADS);
    settings->front_connections =
        (unsigned)kvt_config_u64(config, GATEWAY_SETTING_FRONT_CONNECTIONS);
    settings->front_patience_ms = kvt_config_u64(config, GATEWAY_SETTING_FRONT_PATIENCE);
    settings->io_threads = (unsigned)kvt_config_u64(config, GATEWAY_SETTING_IO_THREADS);
    settings->batch_max = kvt_config_u64(config, GATEWAY_SETTING_FRONT_BATCH_MAX);
    settings->memory_max = kvt_config_u64(config, GATEWAY_SETTING_MEMORY_MAX);
    if (settings->memory_max < settings->batch_max)
        return kvt_error_set(err, KVT_INVALID,
                             "memory.max must be at least front.batch_max: one request must fit");
    rc = load_tls(settings, config, err);
    return rc == KVT_OK ? gateway_settings_credentials(&settings->credentials, config, err) : rc;
}

/* End the text at its first colon; what follows, or NULL. */
static char *
split_at_colon(char *text)
{
    char *colon = strchr(text, ':');

    if (colon == NULL)
        return NULL;
    *colon = '\0';
    return colon + 1;
}

/* "access:secret[:token]" from the file; without one the store looks where AWS tools do. */
static enum kvt_err
load_s3_credentials(struct gateway_s3_keys *keys, const struct kvt_config *config, size_t row,
                    const char *name, struct kvt_error *err)
{
    char text[GATEWAY_SECRET_MAX];
    char *token = NULL;
    char *key;
    enum kvt_err rc;

    rc = secret(config, row, text, sizeof(text), err);
    if (rc != KVT_OK || text[0] == '\0')
        return rc;
    key = split_at_colon(text);
    if (key != NULL)
        token = split_at_colon(key);
    if (key == NULL || text[0] == '\0' || key[0] == '\0' || strlen(text) >= sizeof(keys->access) ||
        strlen(key) >= sizeof(keys->secret))
        rc = kvt_error_set(err, KVT_INVALID, "%s: this is not access:secret[:token]", name);
    if (rc == KVT_OK) {
        memcpy(keys->access, text, strlen(text) + 1);
        memcpy(keys->secret, key, strlen(key) + 1);
        if (token != NULL)
            memcpy(keys->token, token, strlen(token) + 1);
    }
    explicit_bzero(text, sizeof(text));
    return rc;
}

static enum kvt_err
load_placement(struct gateway_settings *settings, const struct kvt_config *config,
               struct kvt_error *err)
{
    const char *path = kvt_config_string(config, GATEWAY_SETTING_S3_PLACEMENT_FILE);

    if (path[0] == '\0')
        return KVT_OK;
    if (settings->context.cold.kind != GATEWAY_BUCKET_TIER_S3)
        return kvt_error_set(
            err, KVT_INVALID,
            "s3.placement_file is set, but cold.kind is %s, which encrypts nothing "
            "and knows no storage classes",
            gateway_bucket_tier_kind_name(settings->context.cold.kind));
    return g4_placement_load(&settings->placement, path, err);
}

/* A bucket that is reached through a library of others (g4/driver/driver_store.h). */
static enum kvt_err
load_driver(struct gateway_settings *settings, const struct kvt_config *config,
            struct kvt_error *err)
{
    if (settings->s3.access[0] == '\0' || settings->s3.token[0] != '\0')
        return kvt_error_set(err, KVT_INVALID,
                             "cold.kind is driver: s3.credentials_file must have access:secret, "
                             "which are all that the old signature knows");
    settings->context.cold.driver = (struct g4_driver_store_options){
        .path = kvt_config_string(config, GATEWAY_SETTING_COLD_DRIVER),
        .endpoint = settings->cold_endpoint,
        .bucket = settings->bucket,
        .access_key = settings->s3.access,
        .secret_key = settings->s3.secret,
        .path_style = kvt_config_bool(config, GATEWAY_SETTING_S3_PATH_STYLE),
        .trusted = kvt_config_bool(config, GATEWAY_SETTING_COLD_TRUSTED),
        .writer = settings->context.name,
        .threads = settings->io_threads < 64 ? settings->io_threads : 64,
    };
    return KVT_OK;
}

static enum kvt_err
load_cold(struct gateway_settings *settings, const struct kvt_config *config, struct kvt_error *err)
{
    const size_t hedge = kvt_config_enum(config, GATEWAY_SETTING_S3_HEDGE); /* off after p95 */
    struct gateway_bucket_tier_options *cold = &settings->context.cold;
    enum kvt_err rc;

    settings->region = kvt_config_string(config, GATEWAY_SETTING_S3_REGION);
    cold->kind = (enum gateway_bucket_tier_kind)kvt_config_enum(config, GATEWAY_SETTING_COLD_KIND);
    cold->folder = kvt_config_string(config, GATEWAY_SETTING_COLD_DIR);
    cold->threads = settings->io_threads;
    settings->cold_endpoint = cold->folder;
    rc = load_placement(settings, config, err);
    if (rc != KVT_OK || cold->kind == GATEWAY_BUCKET_TIER_DIRECTORY)
        return rc;
    settings->cold_endpoint = kvt_config_string(config, GATEWAY_SETTING_S3_ENDPOINT);
    if (settings->cold_endpoint[0] == '\0')
        return kvt_error_set(err, KVT_INVALID, "cold.kind is %s, but s3.endpoint is not set",
                             gateway_bucket_tier_kind_name(cold->kind));
    rc = load_s3_credentials(&settings->s3, config, GATEWAY_SETTING_S3_CREDENTIALS_FILE,
                             "s3.credentials_file", err);
    if (rc == KVT_OK && cold->kind == GATEWAY_BUCKET_TIER_DRIVER)
        return load_driver(settings, config, err);
    if (rc != KVT_OK)
        return rc;
    cold->s3 = (struct g4_s3_options){
        .endpoint = settings->cold_endpoint,
        .bucket = settings->bucket,
        .region = settings->region,
        .access_key = settings->s3.access,
        .secret_key = settings->s3.secret,
        .session_token = settings->s3.token,
        .find_credentials = settings->s3.access[0] == '\0',
        .ca_file = kvt_config_string(config, GATEWAY_SETTING_S3_CA_FILE),
        .path_style = kvt_config_bool(config, GATEWAY_SETTING_S3_PATH_STYLE),
        .connections_max = (unsigned)kvt_config_u64(config, GATEWAY_SETTING_S3_CONNECTIONS),
        .part_size = kvt_config_u64(config, GATEWAY_SETTING_S3_PART_SIZE),
        .hedge_ms = hedge == 0 ? 0 : kvt_config_u64(config, GATEWAY_SETTING_S3_HEDGE_AFTER),
        .hedge_p95 = hedge == 2,
        .hedge_share_ppm = kvt_config_ppm(config, GATEWAY_SETTING_S3_HEDGE_SHARE),
        .placement = settings->placement,
    };
    return KVT_OK;
}

static enum kvt_err
load_far_placement(struct gateway_settings *settings, const struct kvt_config *config,
                   struct kvt_error *err)
{
    const char *path = kvt_config_string(config, GATEWAY_SETTING_FAR_PLACEMENT_FILE);
    const char *class = kvt_config_string(config, GATEWAY_SETTING_FAR_STORAGE_CLASS);
    struct kvt_error why;
    enum kvt_err rc = KVT_OK;

    if (path[0] == '\0' && class[0] == '\0')
        return KVT_OK;
    if (settings->context.far.kind != GATEWAY_FAR_S3)
        return kvt_error_set(err, KVT_INVALID,
                             "%s is set, but far.kind is not s3: nothing else encrypts, or knows "
                             "storage classes",
                             path[0] != '\0' ? "far.placement_file" : "far.storage_class");
    if (path[0] != '\0')
        rc = g4_placement_load(&settings->far_placement, path, err);
    if (rc != KVT_OK || class[0] == '\0')
        return rc;
    rc = g4_placement_set_class(&settings->far_placement, class, &why);
    return rc == KVT_OK ? rc : kvt_error_set(err, rc, "far.storage_class: %.200s", why.text);
}

/* The second bucket.  Its server's number of connections and parts are the first one's. */
static enum kvt_err
load_far(struct gateway_settings *settings, const struct kvt_config *config, struct kvt_error *err)
{
    struct gateway_context_options *options = &settings->context;
    struct gateway_far_options *far = &options->far;
    enum kvt_err rc;

    far->kind = (enum gateway_far_kind)kvt_config_enum(config, GATEWAY_SETTING_FAR_KIND);
    far->folder = kvt_config_string(config, GATEWAY_SETTING_FAR_DIR);
    far->threads = settings->io_threads;
    options->far_bucket = kvt_config_string(config, GATEWAY_SETTING_FAR_BUCKET);
    options->far_capacity = kvt_config_u64(config, GATEWAY_SETTING_FAR_CAPACITY);
    settings->far_endpoint = far->folder;
    rc = load_far_placement(settings, config, err);
    if (rc != KVT_OK || far->kind != GATEWAY_FAR_S3)
        return rc;
    settings->far_endpoint = kvt_config_string(config, GATEWAY_SETTING_FAR_ENDPOINT);
    if (settings->far_endpoint[0] == '\0')
        return kvt_error_set(err, KVT_INVALID, "far.kind is s3, but far.endpoint is not set");
    rc = load_s3_credentials(&settings->far, config, GATEWAY_SETTING_FAR_CREDENTIALS_FILE,
                             "far.credentials_file", err);
    if (rc != KVT_OK)
        return rc;
    if (settings->far.access[0] == '\0')
        settings->far = settings->s3; /* unset: as for the first one */
    far->s3 = (struct g4_s3_options){
        .endpoint = settings->far_endpoint,
        .bucket = options->far_bucket,
        .region = kvt_config_string(config, GATEWAY_SETTING_FAR_REGION),
        .access_key = settings->far.access,
        .secret_key = settings->far.secret,
        .session_token = settings->far.token,
        .find_credentials = settings->far.access[0] == '\0',
        .ca_file = kvt_config_string(config, GATEWAY_SETTING_FAR_CA_FILE),
        .path_style = kvt_config_bool(config, GATEWAY_SETTING_FAR_PATH_STYLE),
        .connections_max = (unsigned)kvt_config_u64(config, GATEWAY_SETTING_S3_CONNECTIONS),
        .part_size = kvt_config_u64(config, GATEWAY_SETTING_S3_PART_SIZE),
        .placement = settings->far_placement,
    };
    return KVT_OK;
}

static void
load_packing(struct gateway_context_options *options, const struct kvt_config *config)
{
    struct g4_compaction_settings *settings = &options->packer.settings;

    options->packed = kvt_config_string(config, GATEWAY_SETTING_PACKED_NAMESPACES);
    options->packer.interval_ms = kvt_config_u64(config, GATEWAY_SETTING_PACKED_INTERVAL);
    *settings = g4_compaction_defaults();
    settings->block_max = kvt_config_u64(config, GATEWAY_SETTING_PACKED_BLOCK_MAX);
    settings->mean_max = kvt_config_u64(config, GATEWAY_SETTING_PACKED_MEAN_MAX);
    settings->age_ms = kvt_config_u64(config, GATEWAY_SETTING_PACKED_AGE);
    settings->segment_bytes = kvt_config_u64(config, GATEWAY_SETTING_PACKED_SEGMENT_SIZE);
    settings->bytes_min = settings->segment_bytes / 4;
    settings->live_min_ppm = kvt_config_ppm(config, GATEWAY_SETTING_PACKED_LIVE_MIN);
}

static enum kvt_err
load_context(struct gateway_settings *settings, const struct kvt_config *config,
             struct kvt_error *err)
{
    struct gateway_context_options *options = &settings->context;

    settings->bucket = kvt_config_string(config, GATEWAY_SETTING_BUCKET);
    if (strchr(settings->bucket, '/') != NULL)
        return kvt_error_set(err, KVT_INVALID, "bucket must not contain '/'");
    options->name = kvt_config_string(config, GATEWAY_SETTING_NAME);
    options->bucket = settings->bucket;
    options->state_dir = kvt_config_string(config, GATEWAY_SETTING_STATE_DIR);
    options->hot_dir = kvt_config_string(config, GATEWAY_SETTING_HOT_DIR);
    options->hot_new = kvt_config_bool(config, GATEWAY_SETTING_HOT_NEW);
    options->hot_capacity = kvt_config_u64(config, GATEWAY_SETTING_HOT_CAPACITY);
    options->hot_memory = kvt_config_u64(config, GATEWAY_SETTING_HOT_MEMORY);
    options->warm_dir = kvt_config_string(config, GATEWAY_SETTING_WARM_DIR);
    options->warm_new = kvt_config_bool(config, GATEWAY_SETTING_WARM_NEW);
    options->warm_capacity = kvt_config_u64(config, GATEWAY_SETTING_WARM_CAPACITY);
    options->cold_capacity = kvt_config_u64(config, GATEWAY_SETTING_COLD_CAPACITY);
    options->commit_ranks = (uint32_t)kvt_config_u64(config, GATEWAY_SETTING_COMMIT_RANKS);
    options->delete_mark_ppm = kvt_config_ppm(config, GATEWAY_SETTING_ORDERS_ROOM_MARK);
    options->delete_share_ppm = kvt_config_ppm(config, GATEWAY_SETTING_ORDERS_MAX_DELETE_SHARE);
    options->write_back = kvt_config_enum(config, GATEWAY_SETTING_WRITE_MODE) == 1;
    options->backlog_max = kvt_config_u64(config, GATEWAY_SETTING_WRITE_BACKLOG_MAX);
    settings->backlog.uploads = (unsigned)kvt_config_u64(config, GATEWAY_SETTING_WRITE_UPLOADS);
    settings->backlog.stuck_ms = kvt_config_u64(config, GATEWAY_SETTING_WRITE_STUCK_AFTER);
    options->recheck_ms = kvt_config_u64(config, GATEWAY_SETTING_COLD_RECHECK);
    options->catalog_max = kvt_config_u64(config, GATEWAY_SETTING_CATALOG_MAX);
    /* Multipart uploads make objects larger than one body, a few at a time in memory. */
    options->object_max = settings->memory_max / 4 > settings->batch_max ? settings->memory_max / 4
                                                                         : settings->batch_max;
    load_packing(options, config);
    options->quarantine_max = (size_t)kvt_config_u64(config, GATEWAY_SETTING_QUARANTINE_MAX);
    options->io_threads = settings->io_threads;
    options->revision =
        (enum kvt_key_revision)kvt_config_enum(config, GATEWAY_SETTING_KEY_REVISION);
    return KVT_OK;
}

static enum kvt_err
load_orders(struct gateway_settings *settings, const struct kvt_config *config,
            struct kvt_error *err)
{
    char text[WIRE_KEY_FILE_MAX];
    const char *name = kvt_config_string(config, GATEWAY_SETTING_NAME);
    enum kvt_err rc;

    settings->orders.mover.at_once =
        (unsigned)kvt_config_u64(config, GATEWAY_SETTING_ORDERS_AT_ONCE);
    settings->orders.mover.rate = kvt_config_u64(config, GATEWAY_SETTING_ORDERS_RATE);
    if (!kvt_config_is_set(config, GATEWAY_SETTING_ORDERS_KEY_FILE))
        return KVT_OK;
    rc = kvt_config_secret_lines(config, GATEWAY_SETTING_ORDERS_KEY_FILE, text, sizeof(text), err);
    if (rc != KVT_OK)
        return rc;
    rc = wire_key_ring_parse(&settings->orders.keys, text, "orders.key_file", err);
    explicit_bzero(text, sizeof(text));
    if (rc == KVT_OK && !wire_key_ring_signs(&settings->orders.keys, WIRE_KEY_REPORTS, name))
        rc = kvt_error_set(err, KVT_INVALID,
                           "orders.key_file: its first key is not one of gateway %s: kvtier key "
                           "derive --gateway %s MASTER-FILE",
                           name, name);
    return rc;
}

enum kvt_err
gateway_settings_load(struct gateway_settings *settings, const struct kvt_config *config,
                      struct kvt_error *err)
{
    enum kvt_err rc;

    *settings = (struct gateway_settings){0};
    settings->admin_bind = kvt_config_string(config, GATEWAY_SETTING_ADMIN_BIND);
    settings->admin_port = (uint16_t)kvt_config_u64(config, GATEWAY_SETTING_ADMIN_PORT);
    settings->ports_file = kvt_config_string(config, GATEWAY_SETTING_PORTS_FILE);
    settings->report_ms = kvt_config_u64(config, GATEWAY_SETTING_REPORT_INTERVAL);
    settings->bus = wire_bus_options_of(config, GATEWAY_SETTING_NATS_URL);
    settings->bus.name = kvt_config_string(config, GATEWAY_SETTING_NAME);
    rc = load_front(settings, config, err);
    if (rc == KVT_OK)
        rc = load_context(settings, config, err);
    if (rc == KVT_OK)
        rc = load_cold(settings, config, err);
    if (rc == KVT_OK)
        rc = load_far(settings, config, err);
    if (rc == KVT_OK)
        rc = load_orders(settings, config, err);
    if (rc == KVT_OK)
        rc = secret(config, GATEWAY_SETTING_ADMIN_TOKEN_FILE, settings->admin_token,
                    sizeof(settings->admin_token), err);
    return rc;
}
