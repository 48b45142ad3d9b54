#include "gateway/care/housekeeping.h"

#include <pthread.h>
#include <stdatomic.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/core/log.h"
#include "gateway/block/move_lock.h"
#include "gateway/block/unsynced.h"
#include "gateway/move/recover.h"
#include "gateway/tier/body_cache.h"
#include "gateway/tier/bucket_tier.h"
#include "gateway/tier/gateway_tiers.h"
#include "gateway/tier/hot_memory.h"
#include "gateway/upload/unfinished_uploads.h"
#include "gateway/upload/uploads.h"

enum {
    TICK_MS = 200,
    SWEEP_MS = 10 * 60 * 1000, /* from one sweep of the hot volume to the next */
    PROBE_MS = 2000,           /* while the bucket answers; each tick while it does not */
    SYNC_MS = 5000,            /* from one sync of hot copies to the next, unless many wait */
    SYNC_PATIENCE_MS = 1000,   /* of one, so that the rest of a tick is not kept waiting */
    SYNC_LAST_MS = 5000,
};

struct gateway_housekeeping {
    struct gateway_context *context;
    struct gateway_budget *budget;
    struct wire_bus *bus;
    uint64_t probed_ms;
    uint64_t synced_ms;
    char synced_key[KVT_KEY_MAX]; /* where the last sync ended */
    uint64_t streams_at;          /* wire_bus_keep_streams() */
    uint64_t swept_ms;            /* end of the last whole sweep; 0: under way */
    unsigned sweep_tier;          /* the volume it is at */
    char sweep_token[G4_TOKEN_MAX];
    char swept_lock[KVT_KEY_MAX]; /* where the last sweep of move locks ended */
    _Atomic bool stop;
    pthread_t thread;
};

static void
probe(struct gateway_housekeeping *keeper)
{
    const uint64_t now_ms = kvt_clock_mono_ms();

    if (keeper->probed_ms != 0 && gateway_bucket_tier_healthy(keeper->context->tiers.buckets) &&
        now_ms - keeper->probed_ms < PROBE_MS)
        return;
    gateway_bucket_tier_probe(keeper->context->tiers.buckets);
    keeper->probed_ms = now_ms;
}

static void
recover(struct gateway_housekeeping *keeper)
{
    struct gateway_catalog_stats stats;
    enum kvt_err rc;

    gateway_catalog_stats(keeper->context->catalog, &stats);
    if (stats.pending > 0)
        (void)gateway_recover_pending(keeper->context);
    if (stats.pin_end_ms != 0 && stats.pin_end_ms <= kvt_clock_unix_ms())
        (void)!gateway_catalog_expire_pins(keeper->context->catalog, kvt_clock_unix_ms());
    if (keeper->swept_ms != 0 && kvt_clock_mono_ms() - keeper->swept_ms < SWEEP_MS)
        return;
    rc = gateway_recover_orphans(keeper->context, keeper->sweep_tier, keeper->sweep_token);
    if (rc != KVT_OK)
        kvt_log_warn("gateway.keeper", "sweep", "%s volume: %s",
                     keeper->sweep_tier == GATEWAY_WARM ? "warm" : "hot", kvt_err_text(rc));
    keeper->swept_ms = 0;
    if (rc == KVT_OK && keeper->sweep_token[0] == '\0') {
        keeper->swept_ms = keeper->sweep_tier == GATEWAY_WARM ? kvt_clock_mono_ms() : 0;
        keeper->sweep_tier = keeper->sweep_tier == GATEWAY_WARM ? GATEWAY_HOT : GATEWAY_WARM;
    }
    if (keeper->swept_ms != 0)
        gateway_uploads_expire(keeper->context, kvt_clock_unix_ms());
    if (keeper->swept_ms != 0 && gateway_bucket_tier_healthy(keeper->context->tiers.buckets))
        gateway_unfinished_uploads_settle(keeper->context, kvt_clock_unix_ms());
    if (keeper->swept_ms != 0 && gateway_tier_exists(&keeper->context->tiers, GATEWAY_TIER_FAR) &&
        gateway_bucket_tier_writable(keeper->context->tiers.buckets))
        (void)gateway_move_lock_sweep(keeper->context, keeper->swept_lock);
}

/* Many at a time, so that the file system commits once for all of them. */
static void
sync_hot(struct gateway_housekeeping *keeper)
{
    const uint64_t now_ms = kvt_clock_mono_ms();
    struct gateway_catalog_stats stats;

    gateway_catalog_stats(keeper->context->catalog, &stats);
    if (stats.unsynced_blocks == 0 ||
        (now_ms - keeper->synced_ms < SYNC_MS && !gateway_unsynced_many(&stats)))
        return;
    (void)!gateway_unsynced_sync(keeper->context, keeper->synced_key, SYNC_PATIENCE_MS);
    keeper->synced_ms = now_ms;
}

static void
keep_streams(struct gateway_housekeeping *keeper)
{
    struct kvt_error err;

    if (keeper->bus != NULL && wire_bus_connected(keeper->bus) &&
        wire_bus_keep_streams(keeper->bus, &keeper->streams_at, &err) != KVT_OK)
        kvt_log_warn("gateway.keeper", "streams", "%s", err.text);
}

static void
show_tiers(struct gateway_context *context, const struct gateway_catalog_stats *stats)
{
    static const struct {
        enum gateway_stat used;
        enum gateway_stat capacity;
        enum gateway_stat blocks;
    } rows[GATEWAY_TIERS] = {
        {GATEWAY_STAT_HOT_USED, GATEWAY_STAT_HOT_CAPACITY, GATEWAY_STAT_HOT_BLOCKS},
        {GATEWAY_STAT_COLD_USED, GATEWAY_STAT_COLD_CAPACITY, GATEWAY_STAT_COLD_BLOCKS},
        {GATEWAY_STAT_WARM_USED, GATEWAY_STAT_WARM_CAPACITY, GATEWAY_STAT_WARM_BLOCKS},
        {GATEWAY_STAT_FAR_USED, GATEWAY_STAT_FAR_CAPACITY, GATEWAY_STAT_FAR_BLOCKS},
    };
    struct gateway_bucket_tier_state far;

    for (unsigned tier = 0; tier < GATEWAY_TIERS; tier++) {
        gateway_stats_set(context->stats, rows[tier].used, stats->used[tier]);
        gateway_stats_set(context->stats, rows[tier].capacity,
                          gateway_tier_capacity(&context->tiers, context->catalog, tier));
        gateway_stats_set(context->stats, rows[tier].blocks, stats->blocks[tier]);
    }
    if (gateway_bucket_tier_far_state(context->tiers.buckets, &far))
        gateway_stats_set(context->stats, GATEWAY_STAT_FAR_HEALTHY, far.healthy ? 1 : 0);
}

static void
show(struct gateway_housekeeping *keeper)
{
    struct gateway_context *context = keeper->context;
    struct gateway_catalog_stats stats;

    gateway_catalog_stats(context->catalog, &stats);
    show_tiers(context, &stats);
    gateway_stats_set(context->stats, GATEWAY_STAT_COLD_HEALTHY,
                      gateway_bucket_tier_healthy(context->tiers.buckets) ? 1 : 0);
    gateway_stats_set(context->stats, GATEWAY_STAT_CATALOG_BYTES, stats.bytes);
    gateway_stats_set(context->stats, GATEWAY_STAT_CATALOG_MAX, stats.bytes_max);
    gateway_stats_set(context->stats, GATEWAY_STAT_CATALOG_ENTRIES, stats.entries);
    gateway_stats_set(context->stats, GATEWAY_STAT_INTENTS, stats.pending);
    gateway_stats_set(context->stats, GATEWAY_STAT_PINNED_BLOCKS, stats.pinned_blocks);
    gateway_stats_set(context->stats, GATEWAY_STAT_PINNED_BYTES, stats.pinned_bytes);
    gateway_stats_set(context->stats, GATEWAY_STAT_PINNED_MAX, stats.pinned_max);
    gateway_stats_set(context->stats, GATEWAY_STAT_BACKLOG_MAX, context->write_back.backlog_max);
    gateway_stats_set(context->stats, GATEWAY_STAT_EVENTS_PENDING,
                      stats.events - stats.events_acked);
    gateway_stats_set(context->stats, GATEWAY_STAT_MEMORY_USED, atomic_load(&keeper->budget->used));
    gateway_stats_set(context->stats, GATEWAY_STAT_MEMORY_MAX, keeper->budget->max);
    gateway_stats_set(context->stats, GATEWAY_STAT_NATS_UP,
                      keeper->bus != NULL && wire_bus_connected(keeper->bus) ? 1 : 0);
}

static void *
keeper_main(void *arg)
{
    struct gateway_housekeeping *keeper = arg;

    while (!atomic_load(&keeper->stop)) {
        probe(keeper);
        recover(keeper);
        sync_hot(keeper);
        keep_streams(keeper);
        gateway_hot_memory_expire(keeper->context->hot_memory, kvt_clock_mono_ms());
        gateway_body_cache_expire(keeper->budget->body_cache, kvt_clock_mono_ms());
        show(keeper);
        kvt_clock_sleep_ms(TICK_MS);
    }
    /* The next life has then nothing to look at; what this leaves, it looks at. */
    (void)!gateway_unsynced_sync(keeper->context, keeper->synced_key, SYNC_LAST_MS);
    return NULL;
}

enum kvt_err
gateway_housekeeping_start(struct gateway_housekeeping **out, struct gateway_context *context,
                           struct gateway_budget *budget, struct wire_bus *bus,
                           struct kvt_error *err)
{
    struct gateway_housekeeping *keeper = kvt_calloc(1, sizeof(*keeper));
    int sys;

    *out = NULL;
    if (keeper == NULL)
        return kvt_error_set(err, KVT_NOMEM, "keeper");
    keeper->context = context;
    keeper->budget = budget;
    keeper->bus = bus;
    keeper->sweep_tier = GATEWAY_HOT;
    sys = pthread_create(&keeper->thread, NULL, keeper_main, keeper);
    if (sys != 0) {
        kvt_free(keeper);
        return kvt_error_sys(err, sys, "start the keeper");
    }
    *out = keeper;
    return KVT_OK;
}

void
gateway_housekeeping_stop(struct gateway_housekeeping *keeper)
{
    if (keeper == NULL)
        return;
    atomic_store(&keeper->stop, true);
    (void)pthread_join(keeper->thread, NULL);
    kvt_free(keeper);
}
