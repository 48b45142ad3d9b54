#include "bench/g4/work.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/thread/queue.h"
#include "g4/object/check.h"
#include "g4/s3/s3.h"

#include "bench/g4/file.h"

enum { TIMEOUT_MS = 120000 };

struct slot {
    struct g4_request request;
    struct kvt_queue *idle; /* slots whose answer came */
    char key[KVT_KEY_MAX];
    char path[512];
    uint8_t *body;
    bool used;
};

struct work {
    const struct work_options *options;
    struct g4_store *store;
    struct kvt_queue *idle;
    struct slot *slots;
    uint64_t bytes;
};

static enum kvt_err
open_store(const struct work_options *options, struct g4_store **store, struct kvt_error *err)
{
    const struct g4_s3_options s3 = {.endpoint = options->endpoint,
                                     .bucket = options->bucket,
                                     .region = "",
                                     .access_key = options->access_key,
                                     .secret_key = options->secret_key,
                                     .session_token = "",
                                     .ca_file = "",
                                     .path_style = true,
                                     .threads = 1,
                                     .connections_max = options->slots,
                                     .timeout_ms = TIMEOUT_MS};

    return g4_s3_open(store, &s3, err);
}

static void
on_done(struct g4_request *request, void *arg)
{
    struct slot *slot = arg;
    const enum kvt_err rc = kvt_queue_put(slot->idle, slot);

    (void)request;
    assert(rc == KVT_OK); /* as many places as slots */
    (void)rc;
}

/* ---- one object ---- */

static enum kvt_err
start(struct work *work, struct slot *slot, unsigned number, struct kvt_error *err)
{
    struct g4_request *request = &slot->request;
    size_t size;
    enum kvt_err rc = KVT_OK;

    (void)snprintf(slot->key, sizeof(slot->key), "%s/%06u", work->options->prefix, number);
    (void)snprintf(slot->path, sizeof(slot->path), "%s/%06u", work->options->folder, number);
    *request = (struct g4_request){.verb = work->options->up ? G4_PUT : G4_GET,
                                   .key = slot->key,
                                   .done = on_done,
                                   .arg = slot};
    if (work->options->up) {
        rc = work_read_file(slot->path, slot->body, &size, err);
        request->condition = G4_IF_ABSENT;
        request->body = slot->body;
        request->body_size = size;
        request->meta = (struct g4_meta){
            .present = true, .length = size, .crc32c = g4_check_crc32c(slot->body, size)};
    } else {
        request->buffer = slot->body;
        request->buffer_capacity = WORK_BODY_MAX;
    }
    slot->used = true;
    if (rc == KVT_OK)
        rc = g4_store_submit(work->store, request);
    return rc;
}

static enum kvt_err
finish(struct work *work, struct slot *slot, struct kvt_error *err)
{
    struct g4_request *request = &slot->request;
    enum kvt_err rc = request->status;

    slot->used = false;
    if (rc != KVT_OK) {
        *err = request->error;
        return rc;
    }
    if (work->options->up) {
        work->bytes += request->body_size;
        return KVT_OK;
    }
    work->bytes += request->buffer_size;
    if (!request->meta.present)
        return kvt_error_set(err, KVT_CORRUPT, "%s came without its crc32c", slot->key);
    rc = g4_check_body(&request->meta, NULL, slot->body, request->buffer_size, err);
    return rc == KVT_OK ? work_write_file(slot->path, slot->body, request->buffer_size, err) : rc;
}

static enum kvt_err
run_all(struct work *work, struct kvt_error *err)
{
    enum kvt_err rc = KVT_OK;
    unsigned started = 0;
    unsigned idle = work->options->slots;

    while (rc == KVT_OK && (started < work->options->count || idle < work->options->slots)) {
        void *item = NULL;

        if (kvt_queue_take(work->idle, &item, 1, TIMEOUT_MS) == 0)
            return kvt_error_set(err, KVT_TIMEOUT, "no answer within %d ms", TIMEOUT_MS);
        struct slot *slot = item;
        if (slot->used) {
            rc = finish(work, slot, err);
            idle++;
        }
        if (rc == KVT_OK && started < work->options->count) {
            rc = start(work, slot, started++, err);
            idle--;
        }
    }
    return rc;
}

static enum kvt_err
make_slots(struct work *work, struct kvt_error *err)
{
    for (unsigned i = 0; i < work->options->slots; i++) {
        struct slot *slot = &work->slots[i];

        slot->idle = work->idle;
        slot->body = kvt_calloc(1, WORK_BODY_MAX);
        if (slot->body == NULL || kvt_queue_put(work->idle, slot) != KVT_OK)
            return kvt_error_set(err, KVT_NOMEM, "no memory for bodies");
        memset(slot->body, 1, WORK_BODY_MAX); /* a worker's memory is touched long before */
    }
    return KVT_OK;
}

enum kvt_err
work_run(const struct work_options *options, struct work_result *result, struct kvt_error *err)
{
    struct work work = {.options = options};
    enum kvt_err rc;
    double before;

    *result = (struct work_result){0};
    work.slots = kvt_calloc(options->slots, sizeof(*work.slots));
    if (work.slots == NULL || kvt_queue_new(&work.idle, options->slots) != KVT_OK) {
        rc = kvt_error_set(err, KVT_NOMEM, "no memory for requests");
        goto fail;
    }
    rc = make_slots(&work, err);
    if (rc == KVT_OK)
        rc = open_store(options, &work.store, err);
    if (rc != KVT_OK)
        goto fail;
    before = work_cpu_s();
    rc = run_all(&work, err);
    *result = (struct work_result){.bytes = work.bytes, .cpu_s = work_cpu_s() - before};

fail:
    g4_store_close(work.store); /* waits for what is in the air */
    for (unsigned i = 0; work.slots != NULL && i < options->slots; i++)
        kvt_free(work.slots[i].body);
    kvt_free(work.slots);
    kvt_queue_free(work.idle);
    return rc;
}

/* ---- waiting times of single PUTs ---- */

static enum kvt_err
one_put(struct g4_store *store, const char *key, bool conditional, const uint8_t *body,
        uint32_t size, uint64_t *wait_ns, struct kvt_error *err)
{
    struct g4_request request = {
        .verb = G4_PUT,
        .key = key,
        .condition = conditional ? G4_IF_ABSENT : G4_ALWAYS,
        .body = body,
        .body_size = size,
        .meta = {.present = true, .length = size, .crc32c = g4_check_crc32c(body, size)}};
    const uint64_t begin = kvt_clock_mono_ns();
    const enum kvt_err rc = g4_store_perform(store, &request);

    *wait_ns = kvt_clock_mono_ns() - begin;
    if (rc != KVT_OK)
        *err = request.error;
    return rc;
}

static int
by_size(const void *left, const void *right)
{
    const uint64_t *a = left;
    const uint64_t *b = right;

    return *a < *b ? -1 : *a > *b;
}

enum kvt_err
work_conditional(const struct work_options *options, uint32_t size, struct work_waits *waits,
                 struct kvt_error *err)
{
    struct g4_store *store = NULL;
    uint64_t *wait_ns = kvt_calloc(2 * (size_t)options->count, sizeof(*wait_ns));
    uint8_t *body = kvt_calloc(1, size);
    enum kvt_err rc = KVT_NOMEM;

    *waits = (struct work_waits){0};
    if (wait_ns == NULL || body == NULL)
        (void)kvt_error_set(err, rc, "no memory for a body");
    else
        rc = open_store(options, &store, err);
    /* The first pair opens the connection and is not counted; who goes first changes. */
    for (unsigned i = 0; i <= options->count && rc == KVT_OK; i++)
        for (unsigned half = 0; half < 2 && rc == KVT_OK; half++) {
            const bool conditional = (i + half) % 2 == 0;
            uint64_t *place = &wait_ns[(conditional ? 0 : options->count) + (i == 0 ? 0 : i - 1)];
            char key[KVT_KEY_MAX];

            (void)snprintf(key, sizeof(key), "%s/%c%06u", options->prefix, conditional ? 'c' : 'p',
                           i);
            rc = one_put(store, key, conditional, body, size, place, err);
        }
    if (rc == KVT_OK) {
        qsort(wait_ns, options->count, sizeof(*wait_ns), by_size);
        qsort(wait_ns + options->count, options->count, sizeof(*wait_ns), by_size);
        waits->conditional_p50_us = (double)wait_ns[options->count / 2] / 1e3;
        waits->plain_p50_us = (double)wait_ns[options->count + options->count / 2] / 1e3;
    }
    g4_store_close(store);
    kvt_free(body);
    kvt_free(wait_ns);
    return rc;
}
