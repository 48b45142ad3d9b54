#include "g4/s3/s3.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "g4/s3/exchange.h"
#include "g4/s3/s3_internal.h"

enum {
    THREADS_MAX = 16,
    CONNECTIONS_DEFAULT = 32,
    CONNECTIONS_MAX = 1024,
    QUEUE_DEFAULT = 4096,
    ATTEMPTS_DEFAULT = 4,
    TIMEOUT_DEFAULT_MS = 30000,
    PROBE_DEADLINE_MS = 5000,
    BODY_MAX = 512,
    PART_DEFAULT = 16 << 20,
    HEDGE_SHARE_DEFAULT_PPM = 50000,
};

struct s3 {
    struct g4_endpoint *endpoint;
    struct g4_s3_parts parts;
    struct g4_s3_loop *loops[THREADS_MAX];
    unsigned loop_count;
    atomic_uint next;
};

static enum kvt_err
submit_one(void *self, struct g4_request *request)
{
    struct s3 *s3 = self;

    return g4_s3_loop_submit(s3->loops[atomic_fetch_add(&s3->next, 1) % s3->loop_count], request);
}

static enum kvt_err
s3_submit(void *self, struct g4_request *request)
{
    struct s3 *s3 = self;

    return g4_s3_parts_wanted(&s3->parts, request) ? g4_s3_parts_start(&s3->parts, request)
                                                   : submit_one(s3, request);
}

static void
s3_close(void *self)
{
    struct s3 *s3 = self;

    g4_upload_notes_settle(s3->parts.notes); /* uploads begin from there */
    /* What ends on one loop may go on on another: a part, or the abort of an upload. */
    for (unsigned i = 0; i < THREADS_MAX; i++)
        g4_s3_loop_stop(s3->loops[i]);
    for (unsigned i = 0; i < THREADS_MAX; i++)
        g4_s3_loop_free(s3->loops[i]);
    g4_endpoint_free(s3->endpoint);
    kvt_free(s3);
    curl_global_cleanup();
}

static const struct g4_store_driver s3_driver = {
    .name = "s3", .submit = s3_submit, .close = s3_close};

static unsigned
or_default(unsigned value, unsigned otherwise)
{
    return value == 0 ? otherwise : value;
}

static struct g4_s3_loop_options
loop_options(const struct g4_s3_options *options, unsigned threads)
{
    const unsigned queue_max = or_default(options->queue_max, QUEUE_DEFAULT);

    return (struct g4_s3_loop_options){
        .connections_max = or_default(options->connections_max, CONNECTIONS_DEFAULT),
        .queue_max = (queue_max + threads - 1) / threads,
        .attempts_max = or_default(options->attempts_max, ATTEMPTS_DEFAULT),
        .timeout_ms = options->timeout_ms == 0 ? TIMEOUT_DEFAULT_MS : options->timeout_ms,
        .hedge_ms = options->hedge_ms,
        .hedge_p95 = options->hedge_p95,
        .hedge_share_ppm = or_default(options->hedge_share_ppm, HEDGE_SHARE_DEFAULT_PPM),
    };
}

static enum kvt_err
endpoint_of(struct g4_endpoint **out, const struct g4_s3_options *options, struct kvt_error *err)
{
    return g4_endpoint_new(
        out,
        &(struct g4_endpoint_options){.url = options->endpoint,
                                      .bucket = options->bucket,
                                      .region = options->region,
                                      .access_key = options->access_key,
                                      .secret_key = options->secret_key,
                                      .session_token = options->session_token,
                                      .find_credentials = options->find_credentials,
                                      .ca_file = options->ca_file,
                                      .path_style = options->path_style,
                                      .placement = options->placement},
        err);
}

enum kvt_err
g4_s3_open(struct g4_store **out, const struct g4_s3_options *options, struct kvt_error *err)
{
    const unsigned threads = or_default(options->threads, 1);
    struct g4_s3_loop_options loop;
    struct s3 *s3;
    enum kvt_err rc;

    *out = NULL;
    if (threads > THREADS_MAX || options->connections_max > CONNECTIONS_MAX)
        return kvt_error_set(err, KVT_INVALID, "s3 store: at most %d threads, %d connections",
                             THREADS_MAX, CONNECTIONS_MAX);
    if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
        return kvt_error_set(err, KVT_NOMEM, "s3 store: libcurl does not start");
    s3 = kvt_calloc(1, sizeof(*s3));
    if (s3 == NULL) {
        curl_global_cleanup();
        return kvt_error_set(err, KVT_NOMEM, "s3 store");
    }
    rc = endpoint_of(&s3->endpoint, options, err);
    if (rc != KVT_OK)
        goto fail;
    loop = loop_options(options, threads);
    s3->parts = (struct g4_s3_parts){.part_size = options->part_size == 0 ? PART_DEFAULT
                                                                          : options->part_size,
                                     .timeout_ms = loop.timeout_ms,
                                     .submit = submit_one,
                                     .arg = s3,
                                     .notes = options->notes};
    s3->loop_count = threads;
    for (unsigned i = 0; i < threads && rc == KVT_OK; i++)
        rc = g4_s3_loop_start(&s3->loops[i], s3->endpoint, &loop);
    if (rc == KVT_OK)
        rc = g4_store_new(out, &s3_driver, s3);
    if (rc != KVT_OK) {
        (void)kvt_error_set(err, rc, "s3 store %s", options->endpoint);
        goto fail;
    }
    return KVT_OK;

fail:
    s3_close(s3);
    return rc;
}

void
g4_s3_count(const struct g4_store *store, struct g4_s3_counts *counts)
{
    const struct s3 *s3 = g4_store_self(store, &s3_driver);

    memset(counts, 0, sizeof(*counts));
    for (unsigned i = 0; s3 != NULL && i < s3->loop_count; i++)
        g4_s3_loop_count(s3->loops[i], counts);
}

const struct g4_endpoint *
g4_s3_endpoint(const struct g4_store *store)
{
    const struct s3 *s3 = g4_store_self(store, &s3_driver);

    return s3 == NULL ? NULL : s3->endpoint;
}

enum kvt_err
g4_s3_probe(struct g4_store *store, int64_t *skew_ms, struct kvt_error *err)
{
    struct g4_request request = {.verb = G4_LIST,
                                 .key = ".kvtier-probe/",
                                 .deadline_ms = kvt_clock_mono_ms() + PROBE_DEADLINE_MS};
    enum kvt_err rc;

    if (skew_ms != NULL)
        *skew_ms = 0;
    request.listed = kvt_calloc(G4_LIST_KEYS_MAX, sizeof(*request.listed));
    if (request.listed == NULL)
        return kvt_error_set(err, KVT_NOMEM, "probe");
    rc = g4_store_perform(store, &request);
    if (rc == KVT_UNAVAILABLE && request.http == 404) /* here the bucket is what was asked for */
        rc = request.error.code = KVT_NOTFOUND;
    kvt_free(request.listed);
    if (skew_ms != NULL && request.server_ms != 0)
        *skew_ms = (int64_t)request.server_ms - (int64_t)kvt_clock_unix_ms();
    if (err != NULL)
        *err = request.error;
    return rc;
}

enum kvt_err
g4_s3_create_bucket(const struct g4_s3_options *options, struct kvt_error *err)
{
    struct g4_request request = {.verb = G4_PUT, .key = "", .status = KVT_NOMEM};
    struct g4_exchange exchange = {.easy = NULL};
    struct g4_endpoint *endpoint;
    char body[BODY_MAX] = "";
    enum kvt_err rc;

    rc = endpoint_of(&endpoint, options, err);
    if (rc != KVT_OK)
        return rc;
    if (strcmp(g4_endpoint_region(endpoint), "us-east-1") != 0)
        (void)snprintf(body, sizeof(body),
                       "<CreateBucketConfiguration><LocationConstraint>%.64s"
                       "</LocationConstraint></CreateBucketConfiguration>",
                       g4_endpoint_region(endpoint));
    request.body = body;
    request.body_size = strlen(body);
    if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) {
        g4_endpoint_free(endpoint);
        return kvt_error_set(err, KVT_NOMEM, "libcurl does not start");
    }
    rc = g4_exchange_init(&exchange);
    if (rc == KVT_OK)
        rc = g4_exchange_begin(&exchange, endpoint, &request,
                               options->timeout_ms == 0 ? TIMEOUT_DEFAULT_MS : options->timeout_ms);
    if (rc == KVT_OK) {
        (void)g4_exchange_finish(&exchange, curl_easy_perform(exchange.easy));
        rc = request.status;
    }
    g4_exchange_release(&exchange);
    curl_global_cleanup();
    g4_endpoint_free(endpoint);
    if (err != NULL)
        *err = request.error;
    return rc;
}
