#include "advisor/route/presence.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "advisor/store/number_map.h"
#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/core/log.h"
#include "base/core/metrics.h"

enum { WAIT_MS = 200, PATIENCE_MS = 5000 };

#define NONE UINT32_MAX

/* What a key of the bucket says. */
struct record {
    char name[KVT_NAME_MAX];
    uint32_t *ranks;
    uint32_t rank_count; /* 0: the record is free */
    uint32_t next;       /* of a free one: the next that is, or NONE */
};

struct advisor_presence {
    struct router_workers *workers;
    struct wire_kv_watch *kv; /* NULL: no bucket */
    struct wire_bus *bus;
    pthread_t thread;
    bool threaded;
    _Atomic bool stopping;

    /* The thread's own. */
    struct advisor_number_map *by_key;  /* to a place in `records` */
    struct advisor_number_map *by_name; /* to how many keys name it */
    struct record *records;
    size_t record_count; /* ever used */
    size_t record_capacity;
    uint32_t free;                       /* the first of them that is, or NONE */
    struct advisor_presence_entry entry; /* 4 KiB */
    struct kvt_metric *keys;             /* NULL: no metrics */
    struct kvt_metric *followed;
    struct kvt_metric *odd;
    struct kvt_metric *refused;
    bool was_listed;
    bool told;         /* that it is not followed */
    uint64_t since_ms; /* monotonic: it could be followed and is not; 0: it is, or cannot */

    struct {
        pthread_mutex_t lock; /* guards this struct, and nothing outside it */
        struct advisor_presence_view view;
    } shared;
};

static void
count(struct advisor_presence *presence, uint64_t *counter)
{
    (void)pthread_mutex_lock(&presence->shared.lock);
    ++*counter;
    (void)pthread_mutex_unlock(&presence->shared.lock);
}

static struct router_worker
worker_of(const char *name, uint32_t dp_rank)
{
    struct router_worker worker = {.dp_rank = dp_rank};

    (void)snprintf(worker.name, sizeof(worker.name), "%s", name);
    return worker;
}

/* ---- what was configured ---- */

static enum kvt_err
configure(struct advisor_presence *presence, const char *list, struct kvt_error *err)
{
    struct advisor_presence_entry *entry = &presence->entry;
    size_t at = 0;
    enum kvt_err rc;

    while ((rc = advisor_presence_read_list(list, &at, entry, err)) == KVT_OK)
        for (uint32_t i = 0; i < entry->rank_count; i++) {
            const struct router_worker worker = worker_of(entry->name, entry->ranks[i]);

            rc = router_workers_seen(presence->workers, &worker, ROUTER_ORIGIN_CONFIG);
            if (rc != KVT_OK)
                return kvt_error_set(err, rc, "%s: %s", entry->name, kvt_err_text(rc));
            presence->shared.view.configured++;
        }
    return rc == KVT_NOTFOUND ? KVT_OK : rc;
}

/* ---- the bucket ---- */

static bool
has_rank(const struct record *record, uint32_t dp_rank)
{
    for (uint32_t i = 0; i < record->rank_count; i++)
        if (record->ranks[i] == dp_rank)
            return true;
    return false;
}

/* How many keys name it. */
static uint32_t
named(const struct advisor_presence *presence, const char *name)
{
    uint32_t keys;

    (void)advisor_number_map_get(presence->by_name, name, strlen(name), &keys);
    return keys;
}

static enum kvt_err
name_more(struct advisor_presence *presence, const char *name)
{
    return advisor_number_map_put(presence->by_name, name, strlen(name), named(presence, name) + 1);
}

static void
name_less(struct advisor_presence *presence, const char *name)
{
    const uint32_t keys = named(presence, name);

    if (keys <= 1)
        advisor_number_map_remove(presence->by_name, name, strlen(name));
    else if (advisor_number_map_put(presence->by_name, name, strlen(name), keys - 1) != KVT_OK)
        return; /* not without room: the name is there */
}

/* Does another key name the worker, or this rank of it? */
static bool
is_named_elsewhere(const struct advisor_presence *presence, const struct record *but,
                   const uint32_t *rank)
{
    if (named(presence, but->name) <= 1)
        return false;
    for (size_t i = 0; i < presence->record_count; i++) {
        const struct record *record = &presence->records[i];

        if (record != but && record->rank_count > 0 && strcmp(record->name, but->name) == 0 &&
            (rank == NULL || has_rank(record, *rank)))
            return true;
    }
    return false;
}

/* A free place for what a key says. */
static enum kvt_err
add_record(struct advisor_presence *presence, const char *key, struct record **out)
{
    const bool fresh = presence->free == NONE;
    const uint32_t at = fresh ? (uint32_t)presence->record_count : presence->free;
    enum kvt_err rc;
    void *grown;

    *out = NULL;
    grown = kvt_grow(presence->records, &presence->record_capacity, (size_t)at + 1,
                     sizeof(*presence->records));
    if (grown == NULL)
        return KVT_NOMEM;
    presence->records = grown;
    rc = advisor_number_map_put(presence->by_key, key, strlen(key), at);
    if (rc != KVT_OK)
        return rc;
    if (fresh)
        presence->record_count++;
    else
        presence->free = presence->records[at].next;
    presence->records[at] = (struct record){.ranks = NULL};
    *out = &presence->records[at];
    return KVT_OK;
}

static struct record *
find_record(const struct advisor_presence *presence, const char *key)
{
    uint32_t at;

    return advisor_number_map_get(presence->by_key, key, strlen(key), &at) ? &presence->records[at]
                                                                           : NULL;
}

static void
remove_record(struct advisor_presence *presence, const char *key, struct record *record)
{
    name_less(presence, record->name);
    kvt_free(record->ranks);
    *record = (struct record){.rank_count = 0, .next = presence->free};
    presence->free = (uint32_t)(record - presence->records);
    advisor_number_map_remove(presence->by_key, key, strlen(key));
}

/* The worker's key says something else, or nothing any more. */
static void
leave(struct advisor_presence *presence, const struct record *record,
      const struct advisor_presence_entry *now)
{
    const bool other = now == NULL || strcmp(now->name, record->name) != 0;

    if (other && !is_named_elsewhere(presence, record, NULL)) {
        kvt_log_info("advisor.presence", "left", "%s left its bucket", record->name);
        router_workers_gone_name(presence->workers, record->name); /* ranks that events told, too */
        return;
    }
    for (uint32_t i = 0; i < record->rank_count; i++) {
        const struct router_worker worker = worker_of(record->name, record->ranks[i]);
        bool stays = false;

        for (uint32_t k = 0; !other && !stays && k < now->rank_count; k++)
            stays = now->ranks[k] == record->ranks[i];
        if (!stays && !is_named_elsewhere(presence, record, &record->ranks[i]))
            router_workers_gone(presence->workers, &worker);
    }
}

static void
join(struct advisor_presence *presence, const struct record *record)
{
    for (uint32_t i = 0; i < record->rank_count; i++) {
        const struct router_worker worker = worker_of(record->name, record->ranks[i]);
        const enum kvt_err rc =
            router_workers_seen(presence->workers, &worker, ROUTER_ORIGIN_BUCKET);

        if (rc == KVT_OK)
            continue;
        count(presence, &presence->shared.view.refused);
        kvt_log_error("advisor.presence", "refused", "%s: %s", record->name, kvt_err_text(rc));
        return;
    }
}

/* The key says this now.  Out of memory it is as it was. */
static enum kvt_err
keep(struct advisor_presence *presence, const char *key, const struct advisor_presence_entry *entry,
     struct record **out)
{
    uint32_t *ranks = kvt_calloc(entry->rank_count, sizeof(*ranks));
    struct record *record = find_record(presence, key);
    enum kvt_err rc = ranks == NULL ? KVT_NOMEM : name_more(presence, entry->name);

    *out = NULL;
    if (rc == KVT_OK && record == NULL) {
        rc = add_record(presence, key, &record);
        if (rc != KVT_OK)
            name_less(presence, entry->name);
    } else if (rc == KVT_OK) {
        leave(presence, record, entry);
        name_less(presence, record->name);
    }
    if (rc != KVT_OK) {
        kvt_free(ranks);
        return rc;
    }
    memcpy(ranks, entry->ranks, entry->rank_count * sizeof(*ranks));
    memcpy(record->name, entry->name, sizeof(record->name));
    kvt_free(record->ranks);
    record->ranks = ranks;
    record->rank_count = entry->rank_count;
    *out = record;
    return KVT_OK;
}

static void
put(struct advisor_presence *presence, const struct wire_kv_watch_news *news)
{
    struct advisor_presence_entry *entry = &presence->entry;
    struct record *record;
    struct kvt_error err = {.text = ""};
    enum kvt_err rc = advisor_presence_read_key(news->key, news->value, news->size, entry, &err);

    if (rc == KVT_NOTFOUND)
        return;
    if (rc != KVT_OK) {
        count(presence, &presence->shared.view.odd);
        kvt_log_warn("advisor.presence", "odd", "key %s: %s", news->key, err.text);
        return;
    }
    rc = keep(presence, news->key, entry, &record);
    if (rc == KVT_OK) {
        join(presence, record);
        return;
    }
    count(presence, &presence->shared.view.refused);
    kvt_log_error("advisor.presence", "refused", "key %s: %s", news->key, kvt_err_text(rc));
}

static void
heard(void *arg, const struct wire_kv_watch_news *news)
{
    struct advisor_presence *presence = arg;
    struct record *record;

    if (news->what == WIRE_KV_WATCH_PUT) {
        put(presence, news);
        return;
    }
    record = find_record(presence, news->key);
    if (record == NULL)
        return;
    for (uint32_t i = 0; news->what == WIRE_KV_WATCH_FORGOTTEN && i < record->rank_count; i++) {
        const struct router_worker worker = worker_of(record->name, record->ranks[i]);

        if (!is_named_elsewhere(presence, record, &record->ranks[i]))
            router_workers_forgotten(presence->workers, &worker, ROUTER_ORIGIN_BUCKET);
    }
    if (news->what == WIRE_KV_WATCH_GONE)
        leave(presence, record, NULL);
    remove_record(presence, news->key, record);
}

/* Why it is not followed, once, when that has lasted. */
static void
complain(struct advisor_presence *presence, enum kvt_err rc)
{
    const uint64_t now_ms = kvt_clock_mono_ms();
    const bool waits = rc == KVT_OK || !wire_bus_connected(presence->bus);

    if (waits || presence->since_ms == 0)
        presence->since_ms = waits ? 0 : now_ms;
    if (rc == KVT_OK)
        presence->told = false;
    if (presence->since_ms == 0 || presence->told || now_ms - presence->since_ms < PATIENCE_MS)
        return;
    presence->told = true;
    kvt_log_warn("advisor.presence", "away", "the bucket of workers %s: nobody comes or goes by it",
                 rc == KVT_NOTFOUND ? "is not there" : "cannot be read (is JetStream on?)");
}

static void
show(struct advisor_presence *presence)
{
    const struct wire_kv_watch_state state = wire_kv_watch_state(presence->kv);
    struct advisor_presence_view view;

    (void)pthread_mutex_lock(&presence->shared.lock);
    presence->shared.view.bucket = state;
    view = presence->shared.view;
    (void)pthread_mutex_unlock(&presence->shared.lock);
    if (presence->keys != NULL) {
        kvt_metric_set(presence->keys, (int64_t)state.keys);
        kvt_metric_set(presence->followed, state.listed ? 1 : 0);
        kvt_metric_set(presence->odd, (int64_t)(view.odd + state.over));
        kvt_metric_set(presence->refused, (int64_t)view.refused);
    }
    if (state.listed && !presence->was_listed)
        kvt_log_info("advisor.presence", "listed", "the bucket of workers has %zu keys",
                     (size_t)state.keys);
    presence->was_listed = state.listed;
}

static void *
run(void *arg)
{
    struct advisor_presence *presence = arg;

    while (!atomic_load(&presence->stopping)) {
        const enum kvt_err rc = wire_kv_watch_poll(presence->kv, WAIT_MS);

        show(presence);
        complain(presence, rc);
    }
    return NULL;
}

/* ---- life ---- */

static void
add_metrics(struct advisor_presence *presence, struct kvt_metrics *metrics)
{
    if (metrics == NULL)
        return;
    presence->keys = kvt_metrics_add(metrics, KVT_METRIC_GAUGE, "kvtier_advisor_route_bucket_keys",
                                     "", "Keys in the bucket of workers.");
    presence->followed =
        kvt_metrics_add(metrics, KVT_METRIC_GAUGE, "kvtier_advisor_route_bucket_followed", "",
                        "1 while the bucket of workers is followed.");
    presence->odd = kvt_metrics_add(metrics, KVT_METRIC_GAUGE, "kvtier_advisor_route_bucket_odd",
                                    "", "Keys and values of it that could not be read, so far.");
    presence->refused =
        kvt_metrics_add(metrics, KVT_METRIC_GAUGE, "kvtier_advisor_route_bucket_refused", "",
                        "Workers of it there was no room for, so far.");
}

static enum kvt_err
open_bucket(struct advisor_presence *presence, const struct advisor_presence_options *options,
            struct kvt_error *err)
{
    enum kvt_err rc;

    if (!wire_kv_watch_bucket_ok(options->bucket))
        return kvt_error_set(err, KVT_INVALID,
                             "route.bucket: %s: want letters, digits, - and _, below %d",
                             options->bucket, WIRE_KV_WATCH_BUCKET_MAX);
    presence->shared.view.has_bucket = true;
    presence->bus = options->bus;
    add_metrics(presence, options->metrics);
    rc = advisor_number_map_new(&presence->by_key);
    if (rc == KVT_OK)
        rc = advisor_number_map_new(&presence->by_name);
    if (rc == KVT_OK)
        rc = wire_kv_watch_open(&presence->kv, options->bus, options->bucket, heard, presence);
    if (rc == KVT_OK && pthread_create(&presence->thread, NULL, run, presence) != 0)
        rc = KVT_NOMEM;
    if (rc != KVT_OK)
        return kvt_error_set(err, rc, "route.bucket: %s", kvt_err_text(rc));
    presence->threaded = true;
    return KVT_OK;
}

enum kvt_err
advisor_presence_open(struct advisor_presence **out, const struct advisor_presence_options *options,
                      struct kvt_error *err)
{
    struct advisor_presence *presence = kvt_calloc(1, sizeof(*presence));
    struct kvt_error why = {.text = ""};
    enum kvt_err rc = KVT_OK;

    *out = NULL;
    if (presence == NULL)
        return kvt_error_set(err, KVT_NOMEM, "workers: %s", kvt_err_text(KVT_NOMEM));
    if (pthread_mutex_init(&presence->shared.lock, NULL) != 0) {
        kvt_free(presence);
        return kvt_error_set(err, KVT_NOMEM, "workers: %s", kvt_err_text(KVT_NOMEM));
    }
    presence->workers = options->workers;
    presence->free = NONE;
    if (options->configured != NULL)
        rc = configure(presence, options->configured, &why);
    if (rc != KVT_OK)
        rc = kvt_error_set(err, rc, "route.workers:%s", why.text);
    else if (options->bucket != NULL && options->bucket[0] != '\0')
        rc = open_bucket(presence, options, err);
    if (rc != KVT_OK) {
        advisor_presence_close(presence);
        return rc;
    }
    *out = presence;
    return KVT_OK;
}

void
advisor_presence_close(struct advisor_presence *presence)
{
    if (presence == NULL)
        return;
    atomic_store(&presence->stopping, true);
    if (presence->threaded)
        (void)pthread_join(presence->thread, NULL);
    wire_kv_watch_close(presence->kv);
    for (size_t i = 0; i < presence->record_count; i++)
        kvt_free(presence->records[i].ranks);
    kvt_free(presence->records);
    advisor_number_map_free(presence->by_key);
    advisor_number_map_free(presence->by_name);
    (void)pthread_mutex_destroy(&presence->shared.lock);
    kvt_free(presence);
}

void
advisor_presence_view(struct advisor_presence *presence, struct advisor_presence_view *view)
{
    (void)pthread_mutex_lock(&presence->shared.lock);
    *view = presence->shared.view;
    (void)pthread_mutex_unlock(&presence->shared.lock);
}
