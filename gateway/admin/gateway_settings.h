/*
 * gateway/admin/gateway_settings.h -- what the operator asked for, checked and ready to use.
 *
 * Why: a setting that cannot work must stop the start with a clear message, before anything runs.
 * Ownership: strings belong to the configuration, which outlives the settings; secrets are copied
 *            in.
 * Threads:   read-only after loading.
 * Limits:    none of its own.
 */
#ifndef GATEWAY_ADMIN_GATEWAY_SETTINGS_H
#define GATEWAY_ADMIN_GATEWAY_SETTINGS_H

#include "base/config/config.h"
#include "base/http/tls.h"
#include "gateway/block/backlog.h"
#include "gateway/block/context_open.h"
#include "gateway/bus/orders.h"
#include "gateway/http/client_credentials.h"
#include "kvtier/error.h"
#include "wire/message/key_ring.h"
#include "wire/nats/bus.h"

enum gateway_setting {
#define PARAM(id, ...) GATEWAY_SETTING_##id,
#include "config/common.def"
#include "config/gateway.def"
#undef PARAM
    GATEWAY_SETTING_COUNT
};

extern const struct kvt_param gateway_settings_table[GATEWAY_SETTING_COUNT];

#define GATEWAY_SECRET_MAX      4096
#define GATEWAY_TLS_KEY_MAX     (16 * 1024)
#define GATEWAY_CERTIFICATE_MAX (64 * 1024)

struct g4_placement;

/* As found in a file; "" where there was none. */
struct gateway_s3_keys {
    char access[128];
    char secret[256];
    char token[GATEWAY_SECRET_MAX];
};

struct gateway_settings {
    const char *bucket;
    const char *region;
    const char *cold_endpoint;      /* S3 endpoint, or the folder */
    struct g4_placement *placement; /* NULL = none; whoever loaded it frees it */
    struct g4_placement *far_placement;
    struct gateway_context_options context;
    struct gateway_backlog_options backlog;
    struct gateway_client_credentials
        *credentials;         /* of the S3 port; whoever uses them takes them */
    const char *far_endpoint; /* the same of the second bucket */
    struct gateway_s3_keys s3;
    struct gateway_s3_keys far;

    const char *front_bind;
    const char *front_domains;
    size_t front_buckets_max;
    struct kvt_tls *front_tls; /* NULL: plain HTTP; whoever loaded it frees it */
    uint16_t front_port;
    unsigned front_threads;
    unsigned front_connections;
    uint64_t front_patience_ms;
    unsigned io_threads;
    uint64_t batch_max;
    uint64_t memory_max;

    const char *admin_bind;
    uint16_t admin_port;
    char admin_token[256];
    const char *ports_file;

    struct wire_bus_options bus;
    struct gateway_orders_options orders; /* key of size 0: take no orders */
    uint64_t report_ms;
};

/** Read the credentials of the S3 port, from lines or, where the file's name ends in ".yaml", with
 * rights per prefix. */
KVT_NODISCARD enum kvt_err gateway_settings_credentials(struct gateway_client_credentials **out,
                                                        const struct kvt_config *config,
                                                        struct kvt_error *err);

/** Read the S3 port's certificate and its key, and put them in force. */
KVT_NODISCARD enum kvt_err gateway_settings_certificate(struct kvt_tls *tls,
                                                        const struct kvt_config *config,
                                                        struct kvt_error *err);

/** Read and check everything.  KVT_INVALID with one clear line. */
KVT_NODISCARD enum kvt_err gateway_settings_load(struct gateway_settings *settings,
                                                 const struct kvt_config *config,
                                                 struct kvt_error *err);

#endif /* GATEWAY_ADMIN_GATEWAY_SETTINGS_H */
