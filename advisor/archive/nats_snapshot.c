#include "advisor/archive/nats_snapshot.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "advisor/archive/index_export.h"
#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/core/log.h"
#include "base/text/json.h"
#include "base/text/parse.h"
#include "wire/nats/bus.h"

enum {
    LOOK_EVERY_MS = 1000,
    NAP_MS = 100,
    RETRY_MS = 30000, /* after one that failed */
    PAGE_ROWS = 10000,
    PAGE_BYTES_MAX = 64 << 20, /* a page and the longest row */
};

struct advisor_nats_snapshot {
    struct advisor_nats_snapshot_options options;
    char *bucket;
    /* Of the newest one of our stream, when it was looked at last: most looks need no more. */
    uint64_t seq;
    uint64_t time_ms; /* 0: there is none */
    uint64_t created_ms;
    struct kvt_buffer page;
    pthread_t thread;
    bool threaded;
    _Atomic bool stopping;
};

/* ---- how a snapshot is named and describes itself ---- */

/* How a snapshot describes itself, beside its bytes: who looks for the newest reads no more. */

static const char format_key[] = "Kvtier-Export";
static const char seq_key[] = "Kvtier-Stream-Sequence";
static const char created_key[] = "Kvtier-Stream-Created";

static void
put_name(char name[ADVISOR_NATS_SNAPSHOT_NAME_MAX], unsigned number)
{
    (void)snprintf(name, ADVISOR_NATS_SNAPSHOT_NAME_MAX, "index.%u", number);
}

static bool
read_number(const struct wire_object_info *info, const char *key, uint64_t *number)
{
    return kvt_parse_u64(wire_object_header(info, key), number) == KVT_OK;
}

enum kvt_err
advisor_nats_snapshot_read(
    struct wire_bus *bus, const char *bucket,
    struct advisor_nats_snapshot_object objects[ADVISOR_NATS_SNAPSHOT_OBJECTS],
    struct kvt_error *err)
{
    for (unsigned i = 0; i < ADVISOR_NATS_SNAPSHOT_OBJECTS; i++) {
        struct advisor_nats_snapshot_object *object = &objects[i];
        char name[ADVISOR_NATS_SNAPSHOT_NAME_MAX];
        enum kvt_err rc;

        *object = (struct advisor_nats_snapshot_object){.readable = false};
        put_name(name, i);
        rc = wire_object_info(bus, bucket, name, &object->info, err);
        if (kvt_err_retryable(rc))
            return rc;
        object->readable = rc == KVT_OK &&
                           read_number(&object->info, format_key, &object->format) &&
                           read_number(&object->info, seq_key, &object->seq) &&
                           read_number(&object->info, created_key, &object->created_ms);
    }
    return KVT_OK;
}

const struct advisor_nats_snapshot_object *
advisor_nats_snapshot_newest(
    const struct advisor_nats_snapshot_object objects[ADVISOR_NATS_SNAPSHOT_OBJECTS],
    uint64_t created_ms, uint64_t below)
{
    const struct advisor_nats_snapshot_object *newest = NULL;

    for (unsigned i = 0; i < ADVISOR_NATS_SNAPSHOT_OBJECTS; i++) {
        const struct advisor_nats_snapshot_object *object = &objects[i];

        if (object->readable && object->created_ms == created_ms && object->seq < below &&
            (newest == NULL || object->seq > newest->seq))
            newest = object;
    }
    return newest;
}

static enum kvt_err
put_number(struct wire_object_put *put, const char *key, uint64_t number)
{
    char text[24];

    (void)snprintf(text, sizeof(text), "%" PRIu64, number);
    return wire_object_put_header(put, key, text);
}

static enum kvt_err
describe(struct wire_object_put *put, uint64_t seq, uint64_t created_ms)
{
    enum kvt_err rc = put_number(put, format_key, ADVISOR_INDEX_EXPORT_VERSION);

    if (rc == KVT_OK)
        rc = put_number(put, seq_key, seq);
    if (rc == KVT_OK)
        rc = put_number(put, created_key, created_ms);
    return rc;
}

/* How far the store is, and of which stream. */
static enum kvt_err
read_position(const struct advisor_nats_snapshot *deposit, uint64_t *seq, uint64_t *created_ms,
              struct kvt_error *err)
{
    struct advisor_txn txn;
    enum kvt_err rc = advisor_store_read(deposit->options.store, &txn, err);

    if (rc != KVT_OK)
        return rc;
    rc = advisor_store_number(&txn, ADVISOR_META_EVENTS_SEQ, seq);
    if (rc == KVT_OK)
        rc = advisor_store_number(&txn, ADVISOR_META_EVENTS_CREATED, created_ms);
    advisor_store_end(&txn);
    return rc == KVT_OK ? KVT_OK : kvt_error_set(err, rc, "index: %s", kvt_err_text(rc));
}

static bool
is_due(const struct advisor_nats_snapshot *deposit, uint64_t seq, uint64_t created_ms)
{
    const uint64_t now_ms = kvt_clock_unix_ms();

    if (created_ms == 0)
        return false; /* no stream was ever read */
    if (deposit->time_ms == 0 || deposit->created_ms != created_ms)
        return seq > 0;
    if (seq <= deposit->seq)
        return false;
    return seq - deposit->seq >= deposit->options.events ||
           now_ms >= deposit->time_ms + deposit->options.every_ms;
}

static void
remember(struct advisor_nats_snapshot *deposit, const struct advisor_nats_snapshot_object *newest,
         uint64_t created_ms)
{
    deposit->seq = newest != NULL ? newest->seq : 0;
    deposit->time_ms = newest != NULL ? newest->info.time_ms : 0;
    deposit->created_ms = created_ms;
    kvt_metric_set(deposit->options.counters->deposit_seq, (int64_t)deposit->seq);
}

/* What is worth least: what cannot be read or is of another stream, else the older one. */
static unsigned
choose_object(const struct advisor_nats_snapshot_object objects[ADVISOR_NATS_SNAPSHOT_OBJECTS],
              uint64_t created_ms)
{
    unsigned chosen = 0;

    for (unsigned i = 0; i < ADVISOR_NATS_SNAPSHOT_OBJECTS; i++) {
        if (!objects[i].readable || objects[i].created_ms != created_ms)
            return i;
        if (objects[i].seq < objects[chosen].seq)
            chosen = i;
    }
    return chosen;
}

/* ---- writing ---- */

/* The first row says up to where the rest is at least. */
static enum kvt_err
read_head(const struct kvt_buffer *page, uint64_t *seq, uint64_t *created_ms, struct kvt_error *err)
{
    const uint8_t *end = memchr(page->data, '\n', page->size);
    struct json_object *row = NULL;
    enum kvt_err rc = KVT_CORRUPT;

    if (end != NULL)
        rc = kvt_json_parse(&row, (const char *)page->data, (size_t)(end - page->data), "export",
                            err);
    if (rc == KVT_OK && (!kvt_json_u64(row, "events_seq", seq) ||
                         !kvt_json_u64(row, "events_created_ms", created_ms)))
        rc = kvt_error_set(err, KVT_CORRUPT, "the export has no head");
    (void)json_object_put(row);
    return rc;
}

static uint64_t
count_lines(const struct kvt_buffer *page)
{
    uint64_t lines = 0;

    for (size_t i = 0; i < page->size; i++)
        lines += page->data[i] == '\n' ? 1 : 0;
    return lines;
}

static enum kvt_err
write_page(struct advisor_nats_snapshot *deposit, struct wire_object_put *put,
           struct kvt_error *err)
{
    const struct kvt_buffer *page = &deposit->page;

    return page->size == 0 ? KVT_OK : wire_object_put_write(put, page->data, page->size, err);
}

/* Page by page, beside the engine.  `*seq` and `*created_ms` are those of its head. */
static enum kvt_err
write_export(struct advisor_nats_snapshot *deposit, struct wire_object_put *put, uint64_t *seq,
             uint64_t *created_ms, struct kvt_error *err)
{
    const struct advisor_nats_snapshot_options *options = &deposit->options;
    struct advisor_index_export_cursor cursor = {0};
    uint64_t lines = 0;
    enum kvt_err rc = KVT_OK;

    while (rc == KVT_OK && cursor.part != ADVISOR_INDEX_EXPORT_DONE) {
        if (atomic_load(&deposit->stopping))
            return kvt_error_set(err, KVT_CANCELLED, "the advisor stops");
        kvt_buffer_clear(&deposit->page);
        rc = advisor_index_export_page(options->store, options->memory, &cursor, PAGE_ROWS,
                                       &deposit->page);
        if (rc != KVT_OK)
            return kvt_error_set(err, rc, "index: %s", kvt_err_text(rc));
        if (lines == 0)
            rc = read_head(&deposit->page, seq, created_ms, err);
        lines += count_lines(&deposit->page);
        if (rc == KVT_OK)
            rc = write_page(deposit, put, err);
    }
    if (rc != KVT_OK)
        return rc;
    kvt_buffer_clear(&deposit->page);
    kvt_buffer_printf(&deposit->page, "{\"row\":\"end\",\"lines\":%" PRIu64 "}\n", lines);
    return write_page(deposit, put, err);
}

static enum kvt_err
write_object(struct advisor_nats_snapshot *deposit, struct wire_object_put *put,
             uint64_t created_ms, struct advisor_nats_snapshot_object *made, struct kvt_error *err)
{
    enum kvt_err rc = write_export(deposit, put, &made->seq, &made->created_ms, err);

    if (rc == KVT_OK &&
        (made->created_ms != created_ms || (deposit->time_ms != 0 && made->seq <= deposit->seq)))
        return kvt_error_set(err, KVT_PRECONDITION, "the stream began anew meanwhile");
    if (rc == KVT_OK)
        rc = describe(put, made->seq, made->created_ms);
    return rc == KVT_OK ? wire_object_put_finish(put, &made->info, err) : rc;
}

/* In place of `former`. */
static enum kvt_err
make(struct advisor_nats_snapshot *deposit, unsigned number,
     const struct advisor_nats_snapshot_object *former, uint64_t created_ms, struct kvt_error *err)
{
    char name[ADVISOR_NATS_SNAPSHOT_NAME_MAX];
    const struct wire_object_put_options options = {.bucket = deposit->bucket,
                                                    .name = name,
                                                    .size_max = deposit->options.size_max,
                                                    .version = former->info.version};
    const uint64_t began_ms = kvt_clock_mono_ms();
    struct advisor_nats_snapshot_object made = {.readable = true};
    struct wire_object_put *put;
    enum kvt_err rc;

    put_name(name, number);
    rc = wire_object_put_open(&put, deposit->options.bus, &options, err);
    if (rc != KVT_OK)
        return rc;
    rc = write_object(deposit, put, created_ms, &made, err);
    wire_object_put_free(put);
    if (rc != KVT_OK)
        return rc;
    remember(deposit, &made, created_ms);
    kvt_log_info("advisor.deposit", "made",
                 "%s of bucket %s stands for sequence %" PRIu64 ": %" PRIu64 " bytes, %" PRIu64
                 " ms",
                 name, deposit->bucket, made.seq, made.info.size, kvt_clock_mono_ms() - began_ms);
    return KVT_OK;
}

/* KVT_OK: one was made; KVT_AGAIN: none is due, or the index is not read yet; KVT_PRECONDITION:
 * another advisor was faster; else why there is none. */
static enum kvt_err
make_if_due(struct advisor_nats_snapshot *deposit, struct kvt_error *err)
{
    struct advisor_nats_snapshot_object objects[ADVISOR_NATS_SNAPSHOT_OBJECTS];
    struct wire_bus *bus = deposit->options.bus;
    uint64_t created_ms;
    uint64_t seq;
    unsigned number;
    enum kvt_err rc = read_position(deposit, &seq, &created_ms, err);

    if (rc != KVT_OK)
        return rc;
    if (!advisor_ram_index_whole(deposit->options.memory) || !is_due(deposit, seq, created_ms))
        return KVT_AGAIN;
    rc = wire_object_ensure(bus, deposit->bucket, err);
    if (rc == KVT_OK)
        rc = advisor_nats_snapshot_read(bus, deposit->bucket, objects, err);
    if (rc != KVT_OK)
        return rc;
    /* Another advisor may have made one. */
    remember(deposit, advisor_nats_snapshot_newest(objects, created_ms, UINT64_MAX), created_ms);
    if (!is_due(deposit, seq, created_ms))
        return KVT_AGAIN;
    if (wire_object_sweep(bus, deposit->bucket, WIRE_OBJECT_ABANDONED_MS, err) != KVT_OK)
        kvt_log_info("advisor.deposit", "unswept", "%s", err->text);
    number = choose_object(objects, created_ms);
    return make(deposit, number, &objects[number], created_ms, err);
}

/* ---- the thread ---- */

static void
wait_until(const struct advisor_nats_snapshot *deposit, uint64_t until_ms)
{
    while (!atomic_load(&deposit->stopping) && kvt_clock_mono_ms() < until_ms)
        kvt_clock_sleep_ms(NAP_MS);
}

static void *
run(void *arg)
{
    struct advisor_nats_snapshot *deposit = arg;
    const struct advisor_counters *counters = deposit->options.counters;

    while (!atomic_load(&deposit->stopping)) {
        struct kvt_error err = {.text = ""};
        uint64_t wait_ms = LOOK_EVERY_MS;
        enum kvt_err rc = KVT_AGAIN;

        if (wire_bus_connected(deposit->options.bus))
            rc = make_if_due(deposit, &err);
        if (rc == KVT_OK) {
            kvt_metric_inc(counters->deposits, 1);
        } else if (rc == KVT_PRECONDITION) {
            kvt_log_info("advisor.deposit", "left", "%s", err.text);
        } else if (rc != KVT_AGAIN && rc != KVT_CANCELLED) {
            kvt_metric_inc(counters->deposit_failures, 1);
            kvt_log_warn("advisor.deposit", "failed", "no snapshot of the index: %s", err.text);
            wait_ms = RETRY_MS;
        }
        wait_until(deposit, kvt_clock_mono_ms() + wait_ms);
    }
    return NULL;
}

enum kvt_err
advisor_nats_snapshot_start(struct advisor_nats_snapshot **out,
                            const struct advisor_nats_snapshot_options *options,
                            struct kvt_error *err)
{
    struct advisor_nats_snapshot *deposit = kvt_calloc(1, sizeof(*deposit));

    *out = NULL;
    if (deposit == NULL)
        return kvt_error_set(err, KVT_NOMEM, "snapshots: out of memory");
    deposit->options = *options;
    kvt_buffer_init(&deposit->page, PAGE_BYTES_MAX);
    deposit->bucket = kvt_strdup(options->bucket);
    if (deposit->bucket == NULL) {
        (void)kvt_error_set(err, KVT_NOMEM, "snapshots: out of memory");
        goto fail;
    }
    if (pthread_create(&deposit->thread, NULL, run, deposit) != 0) {
        (void)kvt_error_set(err, KVT_NOMEM, "no thread for snapshots");
        goto fail;
    }
    deposit->threaded = true;
    *out = deposit;
    return KVT_OK;

fail:
    advisor_nats_snapshot_stop(deposit);
    return KVT_NOMEM;
}

void
advisor_nats_snapshot_stop(struct advisor_nats_snapshot *deposit)
{
    if (deposit == NULL)
        return;
    atomic_store(&deposit->stopping, true);
    if (deposit->threaded)
        (void)pthread_join(deposit->thread, NULL);
    kvt_buffer_release(&deposit->page);
    kvt_free(deposit->bucket);
    kvt_free(deposit);
}
