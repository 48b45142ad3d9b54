#include "gateway/tier/packer.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/core/log.h"
#include "g4/packed/packed_store.h"
#include "gateway/tier/stats.h"

enum {
    TICK_MS = 200,
    PAUSE_MS = 100, /* between two runs: who waits for the lock has a chance */
    PAUSE_MAX_MS = 10000,
    SHOW_AGAIN_MS = 1000, /* after a look that failed */
    AGAIN_MS = 1000,      /* after somebody else was found packing what was asked for */
    PPM = 1000000,
};

/* What is known of one namespace. */
struct space {
    struct gateway_packer_state state;
    uint64_t ran_ms; /* monotonic end of the last run of its own, or the start */
    bool asked;      /* to be packed soon, */
    uint64_t due_ms; /* but not before this monotonic time */
    bool look;       /* to be looked at */
    uint64_t ticket; /* of the last who asked for one of the two */
    uint64_t serves; /* the last ticket that is seen to at the moment */
};

struct gateway_packer {
    struct gateway_bucket_tier *buckets;
    struct g4_store *store;
    struct gateway_stats *stats;
    struct gateway_packer_options options;
    size_t count;
    _Atomic bool stop;
    pthread_t thread;
    bool started;

    struct {
        pthread_mutex_t lock; /* guards `spaces` */
        struct space spaces[G4_PACKED_STORE_SPACES];
    } shared;
};

enum kvt_err
gateway_packer_new(struct gateway_packer **out, struct gateway_bucket_tier *buckets,
                   struct gateway_stats *stats, const struct gateway_packer_options *options,
                   struct kvt_error *err)
{
    enum kvt_err rc = g4_compaction_settings_check(&options->settings, err);
    struct gateway_packer *packer;

    *out = NULL;
    if (rc != KVT_OK)
        return rc;
    packer = kvt_calloc(1, sizeof(*packer));
    if (packer == NULL)
        return kvt_error_set(err, KVT_NOMEM, "packer");
    (void)pthread_mutex_init(&packer->shared.lock, NULL);
    packer->buckets = buckets;
    packer->store = gateway_bucket_tier_store(buckets);
    packer->stats = stats;
    packer->options = *options;
    packer->options.settings.bytes_max = GATEWAY_PACKER_BYTES;
    packer->count = g4_packed_store_count(packer->store);
    for (size_t i = 0; i < packer->count; i++)
        packer->shared.spaces[i].state = (struct gateway_packer_state){
            .namespace_ = g4_packed_store_name(packer->store, i), .last_reason = ""};
    *out = packer;
    return KVT_OK;
}

void
gateway_packer_cancel(struct gateway_packer *packer)
{
    if (packer == NULL)
        return;
    atomic_store(&packer->stop, true);
    g4_packed_store_stop(packer->store);
}

void
gateway_packer_stop(struct gateway_packer *packer)
{
    if (packer == NULL)
        return;
    gateway_packer_cancel(packer);
    if (packer->started)
        (void)pthread_join(packer->thread, NULL);
    packer->started = false;
}

void
gateway_packer_free(struct gateway_packer *packer)
{
    if (packer == NULL)
        return;
    gateway_packer_stop(packer);
    (void)pthread_mutex_destroy(&packer->shared.lock);
    kvt_free(packer);
}

/* ---- one run after another ---- */

static void
add_report(struct g4_compaction_report *total, const struct g4_compaction_report *one)
{
    const struct g4_compaction_report before = *total;

    *total = *one; /* the newest word on what there is */
    total->packed += before.packed;
    total->forwarded += before.forwarded;
    total->copied_bytes += before.copied_bytes;
    total->settled += before.settled;
    total->dropped += before.dropped;
    total->removed += before.removed;
    total->segments_written += before.segments_written;
    total->segments_deleted += before.segments_deleted;
    total->manifests_deleted += before.manifests_deleted;
    total->bad += before.bad;
}

/* While requests come the bucket is theirs for as long as it was the packer's. */
static void
pause_after(struct gateway_packer *packer, struct gateway_stats_traffic *traffic, uint64_t took_ms)
{
    uint64_t wait_ms = gateway_stats_traffic_seen(traffic) ? took_ms + PAUSE_MS : PAUSE_MS;

    if (wait_ms > PAUSE_MAX_MS)
        wait_ms = PAUSE_MAX_MS;
    for (const uint64_t end_ms = kvt_clock_mono_ms() + wait_ms;
         kvt_clock_mono_ms() < end_ms && !atomic_load(&packer->stop);)
        kvt_clock_sleep_ms(PAUSE_MS);
}

static enum kvt_err
run_all(struct gateway_packer *packer, size_t index, const struct gateway_packer_asker *asker,
        struct g4_compaction_report *total, struct kvt_error *err)
{
    struct gateway_stats_traffic traffic = {.stats = packer->stats};
    enum kvt_err rc = KVT_OK;

    (void)gateway_stats_traffic_seen(&traffic); /* from here on */
    *total = (struct g4_compaction_report){.more = true};
    for (unsigned i = 0; i < GATEWAY_PACKER_RUNS && total->more; i++) {
        const uint64_t began_ms = kvt_clock_mono_ms();
        struct g4_compaction_report report;

        rc = g4_packed_store_compact(packer->store, index, &packer->options.settings, &report, err);
        add_report(total, &report);
        if (atomic_load(&packer->stop))
            return KVT_CANCELLED;
        if (rc != KVT_OK && rc != KVT_CANCELLED) /* that one: a deletion had waited */
            break;
        if (asker != NULL)
            asker->working(asker->arg);
        if (total->more)
            pause_after(packer, &traffic, kvt_clock_mono_ms() - began_ms);
    }
    return rc == KVT_BUSY || rc == KVT_PRECONDITION || rc == KVT_CANCELLED ? KVT_AGAIN : rc;
}

static void
note(struct gateway_packer *packer, size_t index, const char *reason, uint64_t took_ms,
     enum kvt_err rc, const struct g4_compaction_report *total, const struct kvt_error *err)
{
    struct gateway_packer_state *state = &packer->shared.spaces[index].state;

    pthread_mutex_lock(&packer->shared.lock);
    state->runs++;
    state->last_ms = kvt_clock_unix_ms();
    state->last_took_ms = took_ms;
    state->last_reason = reason;
    state->last = *total;
    memset(state->last_error, 0, sizeof(state->last_error));
    if (rc != KVT_OK)
        memcpy(state->last_error, err->text, strnlen(err->text, sizeof(state->last_error) - 1));
    pthread_mutex_unlock(&packer->shared.lock);
    gateway_stats_add(packer->stats,
                      rc == KVT_OK ? GATEWAY_STAT_PACKER_DONE : GATEWAY_STAT_PACKER_FAILED, 1);
    gateway_stats_add(packer->stats, GATEWAY_STAT_PACKER_PACKED, total->packed);
    gateway_stats_add(packer->stats, GATEWAY_STAT_PACKER_FORWARDED, total->forwarded);
    gateway_stats_add(packer->stats, GATEWAY_STAT_PACKER_BYTES, total->copied_bytes);
}

/* Ask the bucket, which may take its time; without an answer what was kept stays. */
static enum kvt_err
see_totals(struct gateway_packer *packer, size_t index, struct g4_packed_totals *totals)
{
    struct kvt_error err;
    const enum kvt_err rc = g4_packed_store_totals(packer->store, index, totals, &err);

    if (rc != KVT_OK)
        return rc;
    pthread_mutex_lock(&packer->shared.lock);
    packer->shared.spaces[index].state.totals = *totals;
    pthread_mutex_unlock(&packer->shared.lock);
    return KVT_OK;
}

static enum kvt_err
run_index(struct gateway_packer *packer, size_t index, const char *reason,
          const struct gateway_packer_asker *asker, struct g4_compaction_report *total,
          struct kvt_error *err)
{
    const char *name = g4_packed_store_name(packer->store, index);
    const uint64_t began_ms = kvt_clock_mono_ms();
    struct g4_packed_totals totals;
    enum kvt_err rc;

    err->text[0] = '\0';
    if (!gateway_bucket_tier_writable(packer->buckets)) {
        *total = (struct g4_compaction_report){.more = true};
        rc = kvt_error_set(err, KVT_AGAIN, "the bucket takes nothing at the moment");
    } else {
        rc = gateway_bucket_tier_ended(packer->buckets, run_all(packer, index, asker, total, err));
        (void)!see_totals(packer, index, &totals);
    }
    note(packer, index, reason, kvt_clock_mono_ms() - began_ms, rc, total, err);
    if (rc == KVT_OK && total->packed + total->forwarded + total->dropped + total->removed > 0)
        kvt_log_info("gateway.packer", "packed",
                     "%s (%s): %" PRIu64 " blocks packed, %" PRIu64 " forwarded, %" PRIu64
                     " bytes copied, manifest %" PRIu64,
                     name, reason, total->packed, total->forwarded, total->copied_bytes,
                     total->manifest);
    else if (rc != KVT_OK && rc != KVT_AGAIN && rc != KVT_CANCELLED)
        kvt_log_warn("gateway.packer", "not_packed", "%s (%s): %s", name, reason, err->text);
    return rc;
}

static size_t
index_of(const struct gateway_packer *packer, const char *namespace_)
{
    size_t i = 0;

    while (i < packer->count && strcmp(g4_packed_store_name(packer->store, i), namespace_) != 0)
        i++;
    return i;
}

enum kvt_err
gateway_packer_run(struct gateway_packer *packer, const char *namespace_, const char *reason,
                   const struct gateway_packer_asker *asker, struct g4_compaction_report *total,
                   struct kvt_error *err)
{
    const size_t index = packer == NULL ? 0 : index_of(packer, namespace_);

    *total = (struct g4_compaction_report){0};
    if (packer == NULL || index == packer->count)
        return kvt_error_set(err, KVT_NOTFOUND, "%.80s is not among packed.namespaces", namespace_);
    return run_index(packer, index, reason, asker, total, err);
}

enum kvt_err
gateway_packer_ask(struct gateway_packer *packer, const char *namespace_, bool only_look,
                   uint64_t *ticket)
{
    const size_t index = packer == NULL ? 0 : index_of(packer, namespace_);
    struct space *space;

    *ticket = 0;
    if (packer == NULL || index == packer->count)
        return KVT_NOTFOUND;
    space = &packer->shared.spaces[index];
    pthread_mutex_lock(&packer->shared.lock);
    if (only_look)
        space->look = true;
    else
        space->asked = true;
    *ticket = ++space->ticket;
    pthread_mutex_unlock(&packer->shared.lock);
    return KVT_OK;
}

/* ---- deciding ---- */

/* Why should it be packed now?  NULL: it need not. */
static const char *
reason_to_run(struct gateway_packer *packer, size_t index, uint64_t now_ms, bool writable)
{
    struct space *space = &packer->shared.spaces[index];
    struct g4_packed_totals totals;
    uint64_t ran_ms;
    bool asked;

    pthread_mutex_lock(&packer->shared.lock);
    ran_ms = space->ran_ms;
    asked = space->asked && now_ms >= space->due_ms;
    space->asked = space->asked && !asked;
    if (asked)
        space->serves = space->ticket;
    pthread_mutex_unlock(&packer->shared.lock);
    if (asked) /* who asked hears also that nothing can be written */
        return "asked";
    if (!writable)
        return NULL;
    if (now_ms - ran_ms >= packer->options.interval_ms)
        return "interval";
    /* A run that could not mend it is not repeated at once. */
    if (now_ms - ran_ms < packer->options.interval_ms / 4 ||
        see_totals(packer, index, &totals) != KVT_OK || totals.segment_bytes == 0)
        return NULL;
    return totals.live_bytes * PPM / totals.segment_bytes < packer->options.settings.live_min_ppm
               ? "live share"
               : NULL;
}

/* False: of some namespaces nothing is known at the moment. */
static bool
show(struct gateway_packer *packer)
{
    struct g4_packed_totals sum = {0};
    bool all = true;

    for (size_t i = 0; i < packer->count && !atomic_load(&packer->stop); i++) {
        struct g4_packed_totals totals;

        all &= see_totals(packer, i, &totals) == KVT_OK; /* else they are as they were */
        sum.segments += totals.segments;
        sum.blocks += totals.blocks;
        sum.live_bytes += totals.live_bytes;
        sum.segment_bytes += totals.segment_bytes;
    }
    gateway_stats_set(packer->stats, GATEWAY_STAT_PACKED_SEGMENTS, sum.segments);
    gateway_stats_set(packer->stats, GATEWAY_STAT_PACKED_BLOCKS, sum.blocks);
    gateway_stats_set(packer->stats, GATEWAY_STAT_PACKED_LIVE, sum.live_bytes);
    gateway_stats_set(packer->stats, GATEWAY_STAT_PACKED_SEGMENT_BYTES, sum.segment_bytes);
    return all;
}

/* What was asked for is owed until somebody packed, whoever that was. */
static void
note_ran(struct gateway_packer *packer, struct space *space, bool asked, enum kvt_err rc)
{
    pthread_mutex_lock(&packer->shared.lock);
    space->ran_ms = kvt_clock_mono_ms();
    if (asked && rc == KVT_AGAIN) {
        space->asked = true;
        space->due_ms = space->ran_ms + AGAIN_MS;
    } else if (asked && !space->look) {
        space->state.answered = space->serves;
    }
    pthread_mutex_unlock(&packer->shared.lock);
}

/* Say what packing would do, to who asked for that. */
static void
look_ahead(struct gateway_packer *packer, size_t index)
{
    struct space *space = &packer->shared.spaces[index];
    struct g4_compaction_outlook outlook;
    struct kvt_error err;
    enum kvt_err rc;
    uint64_t ticket;
    bool wanted;

    pthread_mutex_lock(&packer->shared.lock);
    wanted = space->look;
    space->look = false;
    ticket = space->ticket;
    pthread_mutex_unlock(&packer->shared.lock);
    if (!wanted)
        return;
    rc = gateway_bucket_tier_ended(
        packer->buckets,
        g4_packed_store_look(packer->store, index, &packer->options.settings, &outlook, &err));
    pthread_mutex_lock(&packer->shared.lock);
    space->state.outlook = outlook;
    (void)snprintf(space->state.outlook_error, sizeof(space->state.outlook_error), "%s",
                   rc == KVT_OK ? "" : err.text);
    if (!space->asked) /* who asked for a run waits for that */
        space->state.answered = ticket;
    pthread_mutex_unlock(&packer->shared.lock);
}

static void
look(struct gateway_packer *packer)
{
    for (size_t i = 0; i < packer->count && !atomic_load(&packer->stop); i++) {
        const char *reason = reason_to_run(packer, i, kvt_clock_mono_ms(),
                                           gateway_bucket_tier_writable(packer->buckets));
        struct g4_compaction_report total;
        struct kvt_error err;
        enum kvt_err rc;

        if (reason == NULL)
            continue;
        rc = run_index(packer, i, reason, NULL, &total, &err);
        note_ran(packer, &packer->shared.spaces[i], strcmp(reason, "asked") == 0, rc);
    }
}

static void *
packer_main(void *arg)
{
    struct gateway_packer *packer = arg;
    uint64_t show_ms = 0;

    while (!atomic_load(&packer->stop)) {
        const uint64_t now_ms = kvt_clock_mono_ms();

        /* First, and whether or not anything may be packed: a run may take its time. */
        for (size_t i = 0; i < packer->count && !atomic_load(&packer->stop); i++)
            look_ahead(packer, i);
        if (gateway_bucket_tier_healthy(packer->buckets) && now_ms >= show_ms)
            show_ms = now_ms + (show(packer) ? GATEWAY_PACKER_SHOW_MS : SHOW_AGAIN_MS);
        look(packer);
        kvt_clock_sleep_ms(TICK_MS);
    }
    return NULL;
}

enum kvt_err
gateway_packer_start(struct gateway_packer *packer, struct kvt_error *err)
{
    int sys;

    for (size_t i = 0; i < packer->count; i++) /* the first runs are an interval away */
        packer->shared.spaces[i].ran_ms = kvt_clock_mono_ms();
    sys = pthread_create(&packer->thread, NULL, packer_main, packer);
    if (sys != 0)
        return kvt_error_sys(err, sys, "start the packer");
    packer->started = true;
    return KVT_OK;
}

/* ---- what is told ---- */

size_t
gateway_packer_count(const struct gateway_packer *packer)
{
    return packer == NULL ? 0 : packer->count;
}

void
gateway_packer_state(struct gateway_packer *packer, size_t index,
                     struct gateway_packer_state *state)
{
    pthread_mutex_lock(&packer->shared.lock);
    *state = packer->shared.spaces[index].state;
    pthread_mutex_unlock(&packer->shared.lock);
}
