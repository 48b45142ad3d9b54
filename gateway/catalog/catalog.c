#include "gateway/catalog/catalog.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/statvfs.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/core/log.h"
#include "base/store/lmdb.h"
#include "base/thread/cond.h"
#include "gateway/catalog/catalog_private.h"

enum {
    GROUP_CHANGES_MAX = 16384, /* of many jobs in one transaction */
    MEASURE_MS = 200,
    SYNC_LAG_MS = 10, /* at most, of what nobody waits for to be durable */
    RETRY_MS = 100,
    NO_ROOM_BYTES = 1 << 20,
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
    if (job->deletions != NULL) {
        const int rc = gateway_catalog_store_deletions(catalog, txn, job->deletions);

        if (rc != 0)
            return rc;
    }
    if (job->synced_count > 0) {
        const int rc = gateway_catalog_apply_synced(catalog, txn, job);

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
    const struct gateway_unsynced unsynced = catalog->unsynced_now;
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
        catalog->unsynced_now = unsynced;
    }
    return rc;
}

static void
fail_job(struct gateway_job *job, int rc)
{
    struct kvt_error err;

    job->status = kvt_lmdb_error(&err, rc, "write the catalog");
    if (rc == MDB_MAP_FULL)
        job->status = KVT_FULL;
    kvt_log_error("gateway.catalog", "write_failed", "%s", err.text);
}

/* Tell who waits for no more than this (and all whose job failed) and unlink them: from here on
 * those jobs are no longer ours.  The others are late until they are durable. */
static void
tell_applied(struct gateway_catalog *catalog, struct gateway_job *jobs)
{
    (void)pthread_mutex_lock(&catalog->shared.lock);
    catalog->shared.counters = catalog->counters;
    catalog->shared.adoption = catalog->adoption;
    catalog->shared.pinned = catalog->pinned;
    catalog->shared.unsynced = catalog->unsynced_now;
    memcpy(catalog->shared.names, catalog->names, sizeof(catalog->names));
    while (jobs != NULL) {
        struct gateway_job *job = jobs;

        jobs = job->next;
        if (job->wait == GATEWAY_APPLIED || job->status != KVT_OK) {
            job->finished = true;
        } else {
            job->next = catalog->late;
            catalog->late = job;
        }
    }
    (void)pthread_cond_broadcast(&catalog->shared.done);
    (void)pthread_mutex_unlock(&catalog->shared.lock);
}

/* Everything up to the last commit is durable; or that it is cannot be said. */
static void
tell_durable(struct gateway_catalog *catalog, enum kvt_err status)
{
    if (catalog->lost)
        status = KVT_IO;
    (void)pthread_mutex_lock(&catalog->shared.lock);
    if (status == KVT_OK)
        memcpy(catalog->shared.durable, catalog->committed, sizeof(catalog->committed));
    while (catalog->late != NULL) {
        struct gateway_job *job = catalog->late;

        catalog->late = job->next;
        job->status = status;
        job->finished = true;
    }
    catalog->lags = false;
    (void)pthread_cond_broadcast(&catalog->shared.done);
    (void)pthread_mutex_unlock(&catalog->shared.lock);
}

/* No room is another matter than a disk that failed: then nothing was taken.  LMDB calls a write
 * that was cut short for it EIO too. */
static bool
is_no_room(struct gateway_catalog *catalog, int rc)
{
    struct statvfs system;
    int fd;

    if (rc == ENOSPC || rc == EDQUOT || rc == ENOMEM)
        return true;
    return rc == EIO && mdb_env_get_fd(catalog->env, &fd) == 0 && fstatvfs(fd, &system) == 0 &&
           system.f_bavail * (uint64_t)system.f_frsize < NO_ROOM_BYTES;
}

/* The kernel tells of a failed write once, and the next sync says OK without the pages: what was
 * built on them is not durable either, for the rest of this life. */
static void
lose(struct gateway_catalog *catalog)
{
    if (!catalog->lost)
        kvt_log_error("gateway.catalog", "lost",
                      "the disk did not take a write of the catalog: nothing is acknowledged from "
                      "now on; see to the disk, then restart the gateway");
    catalog->lost = true;
    atomic_store(&catalog->failed, true);
}

/* LMDB syncs the pages of a commit before it writes the root that shows them, and with them the
 * root of the commit before: that one needs no sync of its own when another follows at once.  A
 * system's error may be of any page; LMDB's own come before it writes. */
static int
commit_next(struct gateway_catalog *catalog, struct gateway_job *first, bool single)
{
    const int rc = commit_jobs(catalog, first, single);

    if (rc > 0 && !is_no_room(catalog, rc))
        lose(catalog);
    if (rc == 0 && catalog->lags)
        tell_durable(catalog, KVT_OK);
    else if (rc > 0)
        tell_durable(catalog, KVT_IO);
    if (rc != 0)
        return rc;
    for (uint32_t i = 0; i < catalog->counters.stream_count; i++)
        catalog->committed[i] = catalog->counters.streams[i].next - 1;
    catalog->lags = true;
    return 0;
}

/* A job that does not fit must not fail its neighbours: each on its own, and each told before the
 * next one, whose sync is its own. */
static void
run_singly(struct gateway_catalog *catalog, struct gateway_job *job)
{
    bool failed = false;

    kvt_lmdb_forget_dead(catalog->env); /* a full map may be full of what nobody reads */
    do {
        struct gateway_job *next = job == NULL ? NULL : job->next;
        const int rc = commit_next(catalog, job, true);

        failed = failed || rc != 0;
        atomic_store(&catalog->failed, failed || catalog->lost);
        if (job != NULL && rc == MDB_MAP_FULL)
            atomic_store(&catalog->full, true); /* until the next measurement */
        if (job != NULL && rc != 0)
            fail_job(job, rc);
        if (job != NULL)
            job->next = NULL;
        else if (rc != 0)
            kvt_clock_sleep_ms(RETRY_MS); /* only bookkeeping: do not spin on a full disk */
        tell_applied(catalog, job);
        job = next;
    } while (job != NULL);
}

static void
run_group(struct gateway_catalog *catalog, struct gateway_job *jobs)
{
    if (commit_next(catalog, jobs, false) != 0) {
        run_singly(catalog, jobs);
        return;
    }
    atomic_store(&catalog->failed, catalog->lost);
    tell_applied(catalog, jobs);
}

static void
sync_now(struct gateway_catalog *catalog)
{
    struct kvt_error err;
    const enum kvt_err rc = kvt_lmdb_sync(catalog->env, &err);

    if (rc != KVT_OK) {
        kvt_log_error("gateway.catalog", "sync_failed", "%s", err.text);
        lose(catalog);
    }
    tell_durable(catalog, rc);
}

/* Wait for something to commit.  False: a sync is due instead. */
static bool
wait_for_work(struct gateway_catalog *catalog)
{
    const struct timespec due = kvt_cond_deadline(SYNC_LAG_MS);

    while (catalog->shared.first == NULL && !catalog->shared.stop && !catalog->shared.acked_news) {
        if (catalog->late != NULL)
            return false;
        if (!catalog->lags)
            (void)pthread_cond_wait(&catalog->shared.work, &catalog->shared.lock);
        else if (!kvt_cond_wait(&catalog->shared.work, &catalog->shared.lock, &due))
            return catalog->shared.first != NULL;
    }
    return true;
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
    while (!wait_for_work(catalog)) {
        (void)pthread_mutex_unlock(&catalog->shared.lock);
        sync_now(catalog);
        (void)pthread_mutex_lock(&catalog->shared.lock);
    }
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
    if (catalog->lags)
        sync_now(catalog);
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
    struct gateway_unsynced unsynced;
    struct gateway_pins pinned;

    (void)pthread_mutex_lock(&catalog->shared.lock);
    counters = catalog->shared.counters;
    pinned = catalog->shared.pinned;
    unsynced = catalog->shared.unsynced;
    (void)pthread_mutex_unlock(&catalog->shared.lock);
    *stats = (struct gateway_catalog_stats){
        .entries = counters.entries,
        .pending = counters.pending,
        .owed_blocks = counters.owed_blocks,
        .owed_bytes = counters.owed_bytes,
        .pinned_blocks = pinned.blocks,
        .pinned_bytes = pinned.bytes,
        .pinned_max = catalog->options.capacity[GATEWAY_TIER_HOT] / GATEWAY_PIN_SHARE,
        .pin_end_ms = pinned.end_ms,
        .pin_changes = pinned.changes,
        .unsynced_blocks = unsynced.blocks,
        .unsynced_bytes = unsynced.bytes,
        .bytes = atomic_load(&catalog->bytes),
        .bytes_max = catalog->options.bytes_max,
        .incarnation = counters.incarnation,
        .epoch = counters.epoch,
        .full = atomic_load(&catalog->full),
        .failed = atomic_load(&catalog->failed),
    };
    for (unsigned tier = 0; tier < GATEWAY_TIERS; tier++) {
        stats->used[tier] = *gateway_counters_used(&counters, tier);
        stats->blocks[tier] = *gateway_counters_blocks(&counters, tier);
    }
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
        (rc = mdb_dbi_open(txn, "unsynced", MDB_CREATE, &catalog->unsynced)) != 0 ||
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
    if (rc == 0)
        rc = gateway_catalog_count_unsynced(catalog, txn);
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
    enum kvt_err rc = kvt_lmdb_sync(catalog->env, err);
    int sys;

    if (rc != KVT_OK)
        return rc;
    measure(catalog);
    catalog->shared.counters = catalog->counters;
    catalog->shared.adoption = catalog->adoption;
    catalog->shared.pinned = catalog->pinned;
    catalog->shared.unsynced = catalog->unsynced_now;
    memcpy(catalog->shared.names, catalog->names, sizeof(catalog->names));
    for (uint32_t i = 0; i < catalog->counters.stream_count; i++) {
        catalog->committed[i] = catalog->counters.streams[i].next - 1;
        catalog->shared.durable[i] = catalog->committed[i];
        catalog->shared.acked_wanted[i] = catalog->counters.streams[i].acked;
    }
    if (pthread_mutex_init(&catalog->shared.lock, NULL) != 0)
        return kvt_error_set(err, KVT_NOMEM, "catalog lock");
    if (!kvt_cond_init(&catalog->shared.work)) {
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
    const struct kvt_lmdb_options db = {
        .path = options->path, .map_bytes = map_bytes(options->bytes_max), .databases_max = 8};
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
    rc = kvt_lmdb_open(&catalog->env, &db, err);
    if (rc != KVT_OK)
        goto fail;
    mdb = open_databases(catalog);
    if (mdb != 0) {
        rc = kvt_lmdb_error(err, mdb, "open the catalog");
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
