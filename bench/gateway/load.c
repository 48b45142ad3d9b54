#include "bench/gateway/load.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "kvtier/key.h"

#include "bench/gateway/raw.h"

#define HEADS_MAX ((size_t)1 << 30)

struct worker {
    const struct load *load;
    unsigned number;
    pthread_t thread;
    struct connection connection;
    uint8_t *body;
    uint8_t *wanted; /* thorough */
};

/* What all workers read. */
struct load {
    const struct load_options *options;
    struct kvt_buffer heads; /* one behind the other, signed before the clock starts */
    size_t *head_at;         /* objects + 1 places */
    uint32_t *wait_ns;       /* one a request */
    struct worker *workers;
};

static uint64_t
mark_of(unsigned object, size_t page)
{
    return (object * UINT64_C(0x9e3779b97f4a7c15)) ^ ((page + 1) * UINT64_C(0xd1342543de82ef95));
}

static void
stamp(uint8_t *body, size_t size, unsigned object)
{
    for (size_t at = 0; at + sizeof(uint64_t) <= size; at += LOAD_PAGE) {
        const uint64_t mark = mark_of(object, at / LOAD_PAGE);

        memcpy(body + at, &mark, sizeof(mark));
    }
}

void
load_fill(uint8_t *body, size_t size, unsigned object)
{
    for (size_t i = 0; i < size; i++)
        body[i] = (uint8_t)(i * 131 + (i >> 9));
    stamp(body, size, object);
}

/* Where part `number` of all objects' parts is. */
static size_t
part_of(const struct load_options *options, unsigned number, unsigned *object)
{
    const size_t parts = (options->whole - options->offset) / options->body_size;

    *object = (unsigned)(number / parts);
    return options->offset + number % parts * options->body_size;
}

static bool
is_part(const struct worker *worker, unsigned number)
{
    const struct load_options *options = worker->load->options;
    unsigned object;
    const size_t begin = part_of(options, number, &object);
    const size_t end = begin + options->body_size;
    bool marked = false; /* what has no mark cannot be told from anything */

    for (size_t at = (begin + LOAD_PAGE - 1) / LOAD_PAGE * LOAD_PAGE; at + sizeof(uint64_t) <= end;
         at += LOAD_PAGE) {
        const uint64_t mark = mark_of(object, at / LOAD_PAGE);

        if (memcmp(worker->body + at - begin, &mark, sizeof(mark)) != 0)
            return false;
        marked = true;
    }
    return marked;
}

static bool
is_object(const struct worker *worker, unsigned object)
{
    const size_t size = worker->load->options->body_size;

    if (worker->load->options->whole > 0)
        return is_part(worker, object);
    if (worker->load->options->thorough) {
        stamp(worker->wanted, size, object);
        return memcmp(worker->body, worker->wanted, size) == 0;
    }
    for (size_t at = 0; at + sizeof(uint64_t) <= size; at += LOAD_PAGE) {
        const uint64_t mark = mark_of(object, at / LOAD_PAGE);

        if (memcmp(worker->body + at, &mark, sizeof(mark)) != 0)
            return false;
    }
    return true;
}

static enum kvt_err
one_request(struct worker *worker, unsigned object)
{
    const struct load *load = worker->load;
    const struct load_options *options = load->options;
    struct connection *connection = &worker->connection;
    const struct raw_request raw = {.object = object, .size = (uint32_t)options->body_size};
    const bool put = options->kind == LOAD_PUT;
    const void *head = load->heads.data + load->head_at[object];
    size_t head_size = load->head_at[object + 1] - load->head_at[object];
    size_t size = options->body_size;
    enum kvt_err rc;

    if (put)
        stamp(worker->body, options->body_size, object);
    if (options->kind == LOAD_RAW) {
        head = &raw;
        head_size = sizeof(raw);
    }
    rc = connection_send(connection, head, head_size, worker->body, put ? options->body_size : 0);
    if (rc == KVT_OK && options->kind == LOAD_RAW)
        rc = connection_receive(connection, worker->body, size);
    else if (rc == KVT_OK)
        rc = connection_answer(connection, options->whole > 0, worker->body, options->body_size,
                               &size);
    if (rc == KVT_OK && !put && (size != options->body_size || !is_object(worker, object)))
        rc = kvt_error_set(&connection->error, KVT_CORRUPT, "object %u came back as something else",
                           object);
    return rc;
}

static void *
run_worker(void *arg)
{
    struct worker *worker = arg;
    const struct load_options *options = worker->load->options;

    for (unsigned i = worker->number; i < options->requests; i += options->connections) {
        const uint64_t begin = kvt_clock_mono_ns();
        uint64_t wait;

        if (one_request(worker, i % options->objects) != KVT_OK)
            break;
        wait = kvt_clock_mono_ns() - begin;
        worker->load->wait_ns[i] = wait < UINT32_MAX ? (uint32_t)wait : UINT32_MAX;
    }
    return NULL;
}

/* Sign all requests. */
static enum kvt_err
make_heads(struct load *load, struct kvt_error *err)
{
    const struct load_options *options = load->options;
    const bool put = options->kind == LOAD_PUT;

    for (unsigned i = 0; i < options->objects; i++) {
        unsigned object = i;
        const size_t at = options->whole > 0 ? part_of(options, i, &object) : 0;
        const struct kvt_block_id block = {.hash = object * UINT64_C(0xd1342543de82ef95) + 7};
        char key[KVT_KEY_MAX] = "";
        enum kvt_err rc = KVT_OK;

        load->head_at[i] = load->heads.size;
        if (options->kind != LOAD_RAW)
            rc = kvt_key_format(key, sizeof(key), KVT_KEY_KVBM_B, options->prefix, 0, &block);
        if (rc == KVT_OK && options->kind != LOAD_RAW)
            rc = connection_head(&options->target, put ? "PUT" : "GET", key, "",
                                 put ? options->body_size : 0, &load->heads);
        if (rc == KVT_OK && options->whole > 0)
            rc = connection_range(&load->heads, at, options->body_size);
        if (rc != KVT_OK)
            return kvt_error_set(err, rc, "cannot make a request of prefix %s", options->prefix);
    }
    load->head_at[options->objects] = load->heads.size;
    return KVT_OK;
}

static enum kvt_err
prepare(struct load *load, struct kvt_error *err)
{
    const struct load_options *options = load->options;
    const enum kvt_err rc = make_heads(load, err);

    for (unsigned i = 0; i < options->connections && rc == KVT_OK; i++) {
        struct worker *worker = &load->workers[i];

        worker->load = load;
        worker->number = i;
        worker->body = kvt_calloc(1, options->body_size);
        worker->wanted = options->thorough ? kvt_calloc(1, options->body_size) : NULL;
        if (worker->body == NULL || (options->thorough && worker->wanted == NULL))
            return kvt_error_set(err, KVT_NOMEM, "no memory for bodies");
        load_fill(worker->body, options->body_size, 0);
        if (worker->wanted != NULL)
            load_fill(worker->wanted, options->body_size, 0);
        if (connection_open(&worker->connection, options->target.port) != KVT_OK) {
            *err = worker->connection.error;
            return err->code;
        }
    }
    return rc;
}

static int
by_size(const void *left, const void *right)
{
    const uint32_t *a = left;
    const uint32_t *b = right;

    return *a < *b ? -1 : *a > *b;
}

static enum kvt_err
measure(struct load *load, struct load_result *result, struct kvt_error *err)
{
    const struct load_options *options = load->options;
    const uint64_t begin = kvt_clock_mono_ns();
    enum kvt_err rc = KVT_OK;
    unsigned started = 0;
    uint64_t elapsed_ns;

    for (; started < options->connections && rc == KVT_OK; started++)
        if (pthread_create(&load->workers[started].thread, NULL, run_worker,
                           &load->workers[started]) != 0) {
            rc = kvt_error_set(err, KVT_NOMEM, "cannot start a thread");
            break;
        }
    for (unsigned i = 0; i < started; i++)
        (void)pthread_join(load->workers[i].thread, NULL);
    elapsed_ns = kvt_clock_mono_ns() - begin;
    for (unsigned i = 0; i < started && rc == KVT_OK; i++)
        if (load->workers[i].connection.error.code != KVT_OK) {
            *err = load->workers[i].connection.error;
            rc = err->code;
        }
    if (rc != KVT_OK)
        return rc;
    qsort(load->wait_ns, options->requests, sizeof(*load->wait_ns), by_size);
    result->bytes_per_s =
        (double)options->body_size * options->requests * 1e9 / (double)(elapsed_ns + 1);
    result->p50_us = load->wait_ns[options->requests / 2] / 1e3;
    result->p99_us = load->wait_ns[(size_t)options->requests * 99 / 100] / 1e3;
    return KVT_OK;
}

enum kvt_err
load_run(const struct load_options *options, struct load_result *result, struct kvt_error *err)
{
    struct load load = {.options = options};
    enum kvt_err rc;

    *result = (struct load_result){0};
    kvt_buffer_init(&load.heads, HEADS_MAX);
    load.head_at = kvt_calloc((size_t)options->objects + 1, sizeof(*load.head_at));
    load.wait_ns = kvt_calloc(options->requests, sizeof(*load.wait_ns));
    load.workers = kvt_calloc(options->connections, sizeof(*load.workers));
    if (load.head_at == NULL || load.wait_ns == NULL || load.workers == NULL) {
        rc = kvt_error_set(err, KVT_NOMEM, "no memory for connections");
        goto fail;
    }
    for (unsigned i = 0; i < options->connections; i++)
        load.workers[i].connection.fd = -1;
    rc = prepare(&load, err);
    if (rc == KVT_OK)
        rc = measure(&load, result, err);

fail:
    for (unsigned i = 0; i < options->connections && load.workers != NULL; i++) {
        connection_close(&load.workers[i].connection);
        kvt_free(load.workers[i].body);
        kvt_free(load.workers[i].wanted);
    }
    kvt_free(load.workers);
    kvt_free(load.wait_ns);
    kvt_free(load.head_at);
    kvt_buffer_release(&load.heads);
    return rc;
}
