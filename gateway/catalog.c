#include "gateway/catalog.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/db.h"
#include "base/log.h"
#include "gateway/catalog_private.h"

enum {
    GROUP_CHANGES_MAX = 16384, /* of many jobs in one transaction */
    MEASURE_MS = 200,
    RETRY_MS = 100,
};

/* Room beyond bytes_max, so that removals and event bookkeeping go on when new rows are refused. */
static uint64_t
map_bytes(uint64_t bytes_max)
{
    const uint64_t slack = bytes_max / 8;

    return bytes_max + (slack < (4u << 20) ? (4u << 20) : slack);
}

/* Pages LMDB will use again.  Its list of them opens in read transactions only. */
static uint64_t
free_pages(struct gateway_catalog *catalog)
{
    MDB_cursor *cursor = NULL;
    MDB_txn *txn = NULL;
    uint64_t pages = 0;
    MDB_val key;
    MDB_val ids;

    if (mdb_txn_begin(catalog->env, NULL, MDB_RDONLY, &txn) != 0)
        return 0;
    if (mdb_cursor_open(txn, 0, &cursor) == 0) {
        while (mdb_cursor_get(cursor, &key, &ids, MDB_NEXT) == 0) {
            size_t count = 0;

            if (ids.mv_size >= sizeof(count))
                memcpy(&count, ids.mv_data, sizeof(count));
            pages += count;
        }
        mdb_cursor_close(cursor);
    }
    mdb_txn_abort(txn);
    return pages;
}

/* Bytes in use.  The free list is only walked when it matters. */
static void
measure(struct gateway_catalog *catalog)
{
    const uint64_t now_ms = kvt_clock_mono_ms();
    const uint64_t limit = catalog->options.bytes_max;
    uint64_t pages;
    uint64_t bytes;
    MDB_envinfo info;
    MDB_stat stat;

    (void)mdb_env_info(catalog->env, &info);
    (void)mdb_env_stat(catalog->env, &stat);
    /* A file that does not grow can only have become emptier. */
    if (info.me_last_pgno == catalog->measured_page && now_ms - catalog->measured_ms < MEASURE_MS)
        return;
    catalog->measured_ms = now_ms;
    catalog->measured_page = info.me_last_pgno;
    pages = (uint64_t)info.me_last_pgno + 1;
    if (pages * stat.ms_psize >= limit / 2) {
        const uint64_t unused = free_pages(catalog);

        pages -= unused < pages ? unused : pages;
    }
    bytes = pages * stat.ms_psize;
    atomic_store(&catalog->bytes, bytes);
    atomic_store(&catalog->full, bytes >= limit);
}

static int
apply_job(struct gateway_catalog *catalog, MDB_txn *txn, struct gateway_job *job)
{
    job->status = KVT_OK;
    if (job->epoch != 0) {
        if (job->epoch < catalog->counters.epoch)
            job->status = KVT_DENIED;
        else
            catalog->counters.epoch = job->epoch;
    }
    for (size_t i = 0; i < job->count; i++) {
        const int rc = gateway_catalog_apply(catalog, txn, &job->changes[i]);

        if (rc != 0)
            return rc;
    }
    if (job->mark != NULL) {
        const int rc = gateway_catalog_mark(catalog, txn, job);

        if (rc != 0)
            return rc;
    }
    if (job->pinning != NULL) {
        const int rc = gateway_catalog_apply_pinning(catalog, txn, job);

        if (rc != 0)
            return rc;
    }
    return job->result == NULL ? 0 : gateway_catalog_remember(catalog, txn, job->result);
}

/* What the bus has by now. */
static void
take_acks(struct gateway_catalog *catalog)
{
    (void)pthread_mutex_lock(&catalog->shared.lock);
    for (uint32_t i = 0; i < catalog->counters.stream_count; i++) {
        struct gateway_sequence *sequence = &catalog->counters.streams[i];
        const uint64_t wanted = catalog->shared.acked_wanted[i];

        if (wanted > sequence->acked && wanted < sequence->next)
            sequence->acked = wanted;
    }
    catalog->shared.acked_news = false;
    (void)pthread_mutex_unlock(&catalog->shared.lock);
}

/* One transaction for the jobs from `first` on (`single`: that one only).  Nothing of a failed
 * transaction is left, neither in the file nor in the counters. */
static int
commit_jobs(struct gateway_catalog *catalog, struct gateway_job *first, bool single)
{
    const struct gateway_counters before = catalog->counters;
    const struct gateway_adoption_mark marked = catalog->adoption;
    const struct gateway_pins pinned = catalog->pinned;
    MDB_txn *txn = NULL;
    int rc;

    measure(catalog);
    rc = mdb_txn_begin(catalog->env, NULL, 0, &txn);
    if (rc != 0)
        return rc;
    for (struct gateway_job *job = first; rc == 0 && job != NULL; job = single ? NULL : job->next)
        rc = apply_job(catalog, txn, job);
    take_acks(catalog);
    if (rc == 0)
        rc = gateway_catalog_trim(catalog, txn);
    if (rc == 0)
        rc = gateway_catalog_store(catalog, txn);
    if (rc == 0)
        rc = mdb_txn_commit(txn);
    else
        mdb_txn_abort(txn);
    if (rc != 0) {
        catalog->counters = before;
        catalog->adoption = marked;
        catalog->pinned = pinned;
    }
    return rc;
}

static void
fail_job(struct gateway_job *job, int rc)
{
    struct kvt_error err;

    job->status = kvt_db_error(&err, rc, "write the catalog");
    if (rc == MDB_MAP_FULL)
        job->status = KVT_FULL;
    kvt_log_error("gateway.catalog", "write_failed", "%s", err.text);
}

/* Tell the waiters of `wait` (and all whose job failed) and unlink them.  From here on those jobs
 * are no longer ours. */
static struct gateway_job *
finish_jobs(struct gateway_catalog *catalog, struct gateway_job *jobs, bool durable, bool synced)
{
    struct gateway_job *kept = NULL;
    struct gateway_job **tail = &kept;

    (void)pthread_mutex_lock(&catalog->shared.lock);
    catalog->shared.counters = catalog->counters;
    catalog->shared.adoption = catalog->adoption;
    catalog->shared.pinned = catalog->pinned;
    memcpy(catalog->shared.names, catalog->names, sizeof(catalog->names));
    if (synced)
        for (uint32_t i = 0; i < catalog->counters.stream_count; i++)
            catalog->shared.durable[i] = catalog->counters.streams[i].next - 1;
    while (jobs != NULL) {
        struct gateway_job *job = jobs;

        jobs = job->next;
        if (durable || job->wait == GATEWAY_APPLIED || job->status != KVT_OK) {
            job->finished = true;
        } else {
            job->next = NULL;
            *tail = job;
            tail = &job->next;
        }
    }
    (void)pthread_cond_broadcast(&catalog->shared.done);
    (void)pthread_mutex_unlock(&catalog->shared.lock);
    return kept;
}

static void
run_group(struct gateway_catalog *catalog, struct gateway_job *jobs)
{
    struct kvt_error err;
    bool failed = false;
    enum kvt_err synced;

    if (commit_jobs(catalog, jobs, false) != 0) {
        /* One job that does not fit must not fail its neighbours: each on its own. */
        struct gateway_job *job = jobs;

        kvt_db_forget_dead(catalog->env); /* a full map may be full of what nobody reads */
        do {
            const int rc = commit_jobs(catalog, job, true);

            failed = failed || rc != 0;
            if (job == NULL)
                break;
            if (rc == MDB_MAP_FULL)
                atomic_store(&catalog->full, true); /* until the next measurement */
            if (rc != 0)
                fail_job(job, rc);
            job = job->next;
        } while (job != NULL);
    }
    atomic_store(&catalog->failed, failed);
    if (failed && jobs == NULL)
        kvt_clock_sleep_ms(RETRY_MS); /* only bookkeeping is waiting: do not spin on a full disk */
    jobs = finish_jobs(catalog, jobs, false, false);
    synced = kvt_db_sync(catalog->env, &err);
    if (synced != KVT_OK) {
        kvt_log_error("gateway.catalog", "sync_failed", "%s", err.text);
        atomic_store(&catalog->failed, true);
        for (struct gateway_job *job = jobs; job != NULL; job = job->next)
            job->status = synced;
    }
    (void)finish_jobs(catalog, jobs, true, synced == KVT_OK);
}

/* The next group: jobs up to GROUP_CHANGES_MAX changes.  False when there is nothing and never will
 * be. */
static bool
take_group(struct gateway_catalog *catalog, struct gateway_job **jobs)
{
    struct gateway_job *last;
    size_t changes;
    bool more;

    (void)pthread_mutex_lock(&catalog->shared.lock);
    while (catalog->shared.first == NULL && !catalog->shared.stop && !catalog->shared.acked_news)
        (void)pthread_cond_wait(&catalog->shared.work, &catalog->shared.lock);
    *jobs = last = catalog->shared.first;
    more = last != NULL || !catalog->shared.stop;
    if (last != NULL) {
        for (changes = last->count; last->next != NULL; last = last->next) {
            changes += last->next->count;
            if (changes > GROUP_CHANGES_MAX)
                break;
        }
        catalog->shared.first = last->next;
        if (last->next == NULL)
            catalog->shared.last = NULL;
        last->next = NULL;
    }
    (void)pthread_mutex_unlock(&catalog->shared.lock);
    return more;
}

static void *
writer_main(void *arg)
{
    struct gateway_catalog *catalog = arg;
    struct gateway_job *jobs;

    while (take_group(catalog, &jobs))
        run_group(catalog, jobs);
    return NULL;
}

enum kvt_err
gateway_catalog_submit(struct gateway_catalog *catalog, struct gateway_job *job)
{
    (void)pthread_mutex_lock(&catalog->shared.lock);
    assert(!catalog->shared.stop);
    if (catalog->shared.last == NULL)
        catalog->shared.first = job;
    else
        catalog->shared.last->next = job;
    catalog->shared.last = job;
    (void)pthread_cond_signal(&catalog->shared.work);
    while (!job->finished)
        (void)pthread_cond_wait(&catalog->shared.done, &catalog->shared.lock);
    (void)pthread_mutex_unlock(&catalog->shared.lock);
    return job->status;
}

enum kvt_err
gateway_catalog_change(struct gateway_catalog *catalog, struct gateway_change *changes,
                       size_t count, enum gateway_catalog_wait wait)
{
    struct gateway_job job = {.changes = changes, .count = count, .wait = wait};

    if (count == 0)
        return KVT_OK;
    return gateway_catalog_submit(catalog, &job);
}

enum kvt_err
gateway_catalog_adopt(struct gateway_catalog *catalog, struct gateway_change *changes, size_t count,
                      const struct gateway_adoption_mark *mark, enum gateway_catalog_wait wait)
{
    struct gateway_job job = {.changes = changes, .count = count, .mark = mark, .wait = wait};

    return gateway_catalog_submit(catalog, &job);
}

enum kvt_err
gateway_catalog_epoch(struct gateway_catalog *catalog, uint64_t epoch)
{
    struct gateway_job job = {.epoch = epoch, .wait = GATEWAY_DURABLE};
    uint64_t known;

    (void)pthread_mutex_lock(&catalog->shared.lock);
    known = catalog->shared.counters.epoch;
    (void)pthread_mutex_unlock(&catalog->shared.lock);
    if (epoch == known)
        return KVT_OK;
    return epoch < known ? KVT_DENIED : gateway_catalog_submit(catalog, &job);
}

enum kvt_err
gateway_catalog_finished(struct gateway_catalog *catalog, const struct kvt_order_result *result)
{
    struct gateway_job job = {.result = result, .wait = GATEWAY_DURABLE};

    return gateway_catalog_submit(catalog, &job);
}

void
gateway_catalog_acked(struct gateway_catalog *catalog, uint32_t stream, uint64_t seq)
{
    assert(stream < GATEWAY_STREAMS_MAX);
    (void)pthread_mutex_lock(&catalog->shared.lock);
    if (seq > catalog->shared.acked_wanted[stream]) {
        catalog->shared.acked_wanted[stream] = seq;
        catalog->shared.acked_news = true;
    }
    (void)pthread_cond_signal(&catalog->shared.work);
    (void)pthread_mutex_unlock(&catalog->shared.lock);
}

void
gateway_catalog_stats(struct gateway_catalog *catalog, struct gateway_catalog_stats *stats)
{
    struct gateway_counters counters;
    struct gateway_pins pinned;

    (void)pthread_mutex_lock(&catalog->shared.lock);
    counters = catalog->shared.counters;
    pinned = catalog->shared.pinned;
    (void)pthread_mutex_unlock(&catalog->shared.lock);
    *stats = (struct gateway_catalog_stats){
        .entries = counters.entries,
        .pending = counters.pending,
        .used = {counters.used[0], counters.used[1]},
        .blocks = {counters.blocks[0], counters.blocks[1]},
        .owed_blocks = counters.owed_blocks,
        .owed_bytes = counters.owed_bytes,
        .pinned_blocks = pinned.blocks,
        .pinned_bytes = pinned.bytes,
        .pinned_max = catalog->options.hot_capacity / GATEWAY_PIN_SHARE,
        .pin_end_ms = pinned.end_ms,
        .bytes = atomic_load(&catalog->bytes),
        .bytes_max = catalog->options.bytes_max,
        .incarnation = counters.incarnation,
        .epoch = counters.epoch,
        .full = atomic_load(&catalog->full),
        .failed = atomic_load(&catalog->failed),
    };
    for (uint32_t i = 0; i < counters.stream_count; i++) {
        stats->events += counters.streams[i].next - 1;
        stats->events_acked += counters.streams[i].acked;
        stats->events_lost += counters.streams[i].lost;
    }
}

bool
gateway_catalog_stream(struct gateway_catalog *catalog, uint32_t number,
                       struct gateway_stream *stream)
{
    bool found;

    *stream = (struct gateway_stream){0};
    (void)pthread_mutex_lock(&catalog->shared.lock);
    found = number < catalog->shared.counters.stream_count;
    if (found) {
        const struct gateway_sequence *sequence = &catalog->shared.counters.streams[number];

        memcpy(stream->namespace_, catalog->shared.names[number], sizeof(stream->namespace_));
        stream->first_seq = sequence->first;
        stream->next_seq = sequence->next;
        stream->acked_seq = sequence->acked;
        stream->lost = sequence->lost;
        stream->durable_seq = catalog->shared.durable[number];
    }
    (void)pthread_mutex_unlock(&catalog->shared.lock);
    return found;
}

static int
open_databases(struct gateway_catalog *catalog)
{
    MDB_txn *txn = NULL;
    int rc = mdb_txn_begin(catalog->env, NULL, 0, &txn);

    if (rc != 0)
        return rc;
    if ((rc = mdb_dbi_open(txn, "objects", MDB_CREATE, &catalog->objects)) != 0 ||
        (rc = mdb_dbi_open(txn, "pending", MDB_CREATE, &catalog->pending)) != 0 ||
        (rc = mdb_dbi_open(txn, "backlog", MDB_CREATE, &catalog->backlog)) != 0 ||
        (rc = mdb_dbi_open(txn, "outbox", MDB_CREATE, &catalog->outbox)) != 0 ||
        (rc = mdb_dbi_open(txn, "orders", MDB_CREATE, &catalog->finished)) != 0 ||
        (rc = mdb_dbi_open(txn, "pins", MDB_CREATE, &catalog->pins)) != 0 ||
        (rc = mdb_dbi_open(txn, "meta", MDB_CREATE, &catalog->meta)) != 0)
        goto fail;
    rc = gateway_catalog_load(catalog, txn);
    if (rc == MDB_NOTFOUND) {
        /* A new catalog is a new life of the publisher: later than any before it. */
        catalog->counters = (struct gateway_counters){.incarnation = kvt_clock_unix_ms()};
        rc = gateway_catalog_store(catalog, txn);
        if (rc == 0)
            rc = gateway_catalog_store_mark(catalog, txn, &(struct gateway_adoption_mark){0});
    } else if (rc == 0) {
        rc = gateway_catalog_load_mark(catalog, txn);
    }
    if (rc == 0)
        rc = gateway_catalog_count_pins(catalog, txn, kvt_clock_unix_ms());
    if (rc != 0)
        goto fail;
    return mdb_txn_commit(txn);

fail:
    mdb_txn_abort(txn);
    return rc;
}

static enum kvt_err
start(struct gateway_catalog *catalog, struct kvt_error *err)
{
    enum kvt_err rc = kvt_db_sync(catalog->env, err);
    int sys;

    if (rc != KVT_OK)
        return rc;
    measure(catalog);
    catalog->shared.counters = catalog->counters;
    catalog->shared.adoption = catalog->adoption;
    catalog->shared.pinned = catalog->pinned;
    memcpy(catalog->shared.names, catalog->names, sizeof(catalog->names));
    for (uint32_t i = 0; i < catalog->counters.stream_count; i++) {
        catalog->shared.durable[i] = catalog->counters.streams[i].next - 1;
        catalog->shared.acked_wanted[i] = catalog->counters.streams[i].acked;
    }
    if (pthread_mutex_init(&catalog->shared.lock, NULL) != 0)
        return kvt_error_set(err, KVT_NOMEM, "catalog lock");
    if (pthread_cond_init(&catalog->shared.work, NULL) != 0) {
        (void)pthread_mutex_destroy(&catalog->shared.lock);
        return kvt_error_set(err, KVT_NOMEM, "catalog lock");
    }
    if (pthread_cond_init(&catalog->shared.done, NULL) != 0) {
        (void)pthread_cond_destroy(&catalog->shared.work);
        (void)pthread_mutex_destroy(&catalog->shared.lock);
        return kvt_error_set(err, KVT_NOMEM, "catalog lock");
    }
    catalog->locks_made = true;
    sys = pthread_create(&catalog->thread, NULL, writer_main, catalog);
    if (sys != 0)
        return kvt_error_sys(err, sys, "start the catalog's writer");
    catalog->started = true;
    return KVT_OK;
}

enum kvt_err
gateway_catalog_open(struct gateway_catalog **out, const struct gateway_catalog_options *options,
                     struct kvt_error *err)
{
    const struct kvt_db_options db = {
        .path = options->path, .map_bytes = map_bytes(options->bytes_max), .databases_max = 7};
    struct gateway_catalog *catalog;
    enum kvt_err rc;
    int mdb;

    *out = NULL;
    catalog = kvt_calloc(1, sizeof(*catalog));
    if (catalog == NULL)
        return kvt_error_set(err, KVT_NOMEM, "catalog");
    catalog->options = *options;
    catalog->options.path = NULL; /* borrowed for this call only */
    if (catalog->options.keep == 0)
        catalog->options.keep = GATEWAY_CATALOG_KEEP;
    if (catalog->options.backlog == 0)
        catalog->options.backlog = GATEWAY_CATALOG_BACKLOG;
    rc = kvt_db_open(&catalog->env, &db, err);
    if (rc != KVT_OK)
        goto fail;
    mdb = open_databases(catalog);
    if (mdb != 0) {
        rc = kvt_db_error(err, mdb, "open the catalog");
        goto fail;
    }
    rc = start(catalog, err);
    if (rc != KVT_OK)
        goto fail;
    *out = catalog;
    return KVT_OK;

fail:
    gateway_catalog_close(catalog);
    return rc;
}

void
gateway_catalog_close(struct gateway_catalog *catalog)
{
    if (catalog == NULL)
        return;
    if (catalog->started) {
        (void)pthread_mutex_lock(&catalog->shared.lock);
        catalog->shared.stop = true;
        (void)pthread_cond_signal(&catalog->shared.work);
        (void)pthread_mutex_unlock(&catalog->shared.lock);
        (void)pthread_join(catalog->thread, NULL);
    }
    if (catalog->locks_made) {
        (void)pthread_cond_destroy(&catalog->shared.done);
        (void)pthread_cond_destroy(&catalog->shared.work);
        (void)pthread_mutex_destroy(&catalog->shared.lock);
    }
    if (catalog->env != NULL)
        mdb_env_close(catalog->env);
    kvt_free(catalog);
}
