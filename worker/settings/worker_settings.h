/*
 * worker/settings/worker_settings.h -- what the operator asked for, checked and ready to use.
 *
 * Why: a setting that cannot work must stop the start with a clear message, before anything runs.
 * Ownership: strings belong to the configuration, which outlives the settings.
 * Threads:   read-only after loading.
 * Limits:    every tier has at least WORKER_SETTINGS_BLOCKS_MIN blocks.
 */
#ifndef WORKER_SETTINGS_WORKER_SETTINGS_H
#define WORKER_SETTINGS_WORKER_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/config/config.h"
#include "kvbm/layout/block_layout.h"
#include "kvtier/block.h"
#include "kvtier/error.h"
#include "kvtier/key.h"
#include "wire/nats/bus.h"
#include "wire/publisher/event_publisher.h"

#define WORKER_SETTINGS_BLOCKS_MIN 8
#define WORKER_SETTINGS_SECRET_MAX 256
#define WORKER_SETTINGS_TOKEN_MAX  4096

enum worker_setting {
#define PARAM(id, ...) WORKER_SETTING_##id,
#include "config/common.def"
#include "config/worker.def"
#undef PARAM
    WORKER_SETTING_COUNT
};

extern const struct kvt_param worker_settings_table[WORKER_SETTING_COUNT];

enum worker_settings_gpu { WORKER_GPU_AUTO, WORKER_GPU_OFF, WORKER_GPU_REQUIRE };

struct worker_settings {
    char name[KVT_NAME_MAX]; /* of the process */
    const char *namespace_;
    uint64_t salt; /* of the namespace, for sequence hashes; 0 for the empty one */
    uint32_t workers;
    uint32_t rank; /* in keys of the object tier; 0 but for ranks of instances */

    const char *trace;
    uint64_t until_ms; /* 0: all */
    uint64_t shard;
    uint64_t shards;
    double speed; /* 0: as fast as it goes */

    struct kvbm_layout layout;
    uint32_t g1_blocks;
    uint32_t g2_blocks;
    uint32_t g3_blocks; /* 0: no disk tier */
    const char *g3_dir;
    bool g3_direct;
    bool g3_keep;
    const char *pool_order; /* worker/settings/pool_order.h */
    enum worker_settings_gpu gpu;
    uint32_t high_ppm;
    uint32_t low_ppm;
    uint64_t room_wait_ms;
    uint64_t prefill_rate; /* tokens a second; 0: not known */
    uint64_t deadline_ms;  /* of a request's blocks; 0: none */
    uint32_t block_tokens;

    enum wire_event_publisher_mode transport;
    bool publish_g1;
    struct wire_bus_options bus;

    const char *endpoint; /* of the gateway; "": none */
    const char *bucket;
    char access_key[WORKER_SETTINGS_SECRET_MAX]; /* of the gateway, or of the S3 service */
    char secret_key[WORKER_SETTINGS_SECRET_MAX];
    struct {
        const char *endpoint; /* "": none; else there is no gateway */
        const char *region;
        const char *ca_file;
        char session_token[WORKER_SETTINGS_TOKEN_MAX];
        bool path_style;
        unsigned connections;
    } s3;
    uint64_t retry_ms;
    enum kvt_key_revision revision;

    const char *attach_socket; /* "": no engine attaches */
    uint32_t attach_engines;   /* 0 likewise */
    uint32_t attach_blocks;    /* of one engine */

    bool stay;
    const char *report;
    const char *acked_log;
    const char *admin_bind;
    uint16_t admin_port;
    char admin_token[WORKER_SETTINGS_SECRET_MAX];
    const char *ports_file;
};

KVT_NODISCARD enum kvt_err worker_settings_load(struct worker_settings *settings,
                                                const struct kvt_config *config,
                                                struct kvt_error *err);

#endif /* WORKER_SETTINGS_WORKER_SETTINGS_H */
