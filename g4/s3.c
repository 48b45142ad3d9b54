#include "g4/s3.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/queue.h"
#include "base/random.h"
#include "g4/endpoint.h"
#include "g4/exchange.h"

enum {
    THREADS_MAX = 16,
    CONNECTIONS_DEFAULT = 32,
    CONNECTIONS_MAX = 1024,
    QUEUE_DEFAULT = 4096,
    ATTEMPTS_DEFAULT = 4,
    TIMEOUT_DEFAULT_MS = 30000,
    PROBE_DEADLINE_MS = 5000,
    BACKOFF_FIRST_MS = 50,
    BACKOFF_MAX_MS = 2000,
    CLOCKS_MS = 20, /* that libcurl's clock and ours may differ by within a deadline */
    IDLE_MS = 1000,
    BODY_MAX = 512,
};

struct s3_settings {
    unsigned attempts_max;
    uint64_t timeout_ms;
};

enum slot_state { SLOT_FREE, SLOT_RUNNING, SLOT_WAITING };

/* One connection's worth of work: a request from its first attempt to its last. */
struct slot {
    struct g4_exchange exchange;
    enum slot_state state;
    unsigned attempts;
    uint64_t deadline_ms;
    uint64_t due_ms;        /* WAITING: when the next attempt starts */
    char etag[G4_ETAG_MAX]; /* what the caller gave: answers overwrite the request's */
    char token[G4_TOKEN_MAX];
};

struct io_thread {
    pthread_t thread;
    bool running;
    struct g4_endpoint *endpoint;
    struct s3_settings settings;
    struct kvt_queue *queue; /* of struct g4_request */
    CURLM *multi;
    struct slot *slots;
    unsigned slot_count;
    uint64_t random;
};

struct s3 {
    struct g4_endpoint *endpoint;
    struct io_thread threads[THREADS_MAX];
    unsigned thread_count;
    atomic_uint next;
};

static void
complete(struct slot *slot)
{
    struct g4_request *request = slot->exchange.request;

    slot->state = SLOT_FREE;
    slot->exchange.request = NULL;
    if (request->status == KVT_OK)
        memset(&request->error, 0, sizeof(request->error));
    request->done(request, request->arg);
}

/* Start the next attempt, or complete the request when it cannot even be made. */
static void
start(struct io_thread *io, struct slot *slot)
{
    struct g4_request *request = slot->exchange.request;
    const uint64_t now_ms = kvt_clock_mono_ms();
    enum kvt_err rc;

    memcpy(request->etag, slot->etag, sizeof(request->etag));
    if (request->verb == G4_LIST)
        memcpy(request->token, slot->token, sizeof(request->token));
    if (now_ms >= slot->deadline_ms)
        rc = kvt_error_set(&request->error, KVT_TIMEOUT, "%s: waited too long", request->key);
    else
        rc = g4_exchange_begin(&slot->exchange, io->endpoint, request, slot->deadline_ms - now_ms);
    if (rc == KVT_OK && curl_easy_setopt(slot->exchange.easy, CURLOPT_PRIVATE, slot) == CURLE_OK &&
        curl_multi_add_handle(io->multi, slot->exchange.easy) == CURLM_OK) {
        slot->state = SLOT_RUNNING;
        slot->attempts++;
        return;
    }
    if (rc == KVT_OK)
        rc = kvt_error_set(&request->error, KVT_NOMEM, "%s", request->key);
    request->status = rc;
    complete(slot);
}

static void
accept_request(struct io_thread *io, struct slot *slot, struct g4_request *request)
{
    slot->exchange.request = request;
    slot->attempts = 0;
    slot->deadline_ms = request->deadline_ms != 0 ? request->deadline_ms
                                                  : kvt_clock_mono_ms() + io->settings.timeout_ms;
    memcpy(slot->etag, request->etag, sizeof(slot->etag));
    if (request->verb == G4_LIST)
        memcpy(slot->token, request->token, sizeof(slot->token));
    start(io, slot);
}

static void
accept_all(struct io_thread *io)
{
    for (unsigned i = 0; i < io->slot_count; i++) {
        void *item;

        if (io->slots[i].state != SLOT_FREE)
            continue;
        if (kvt_queue_take(io->queue, &item, 1, 0) == 0)
            return;
        accept_request(io, &io->slots[i], item);
    }
}

/* Full jitter: anything up to a bound that doubles, so that many losers do not come back at once.
 */
static uint64_t
backoff_ms(struct io_thread *io, unsigned attempts)
{
    const unsigned doublings = attempts < 6 ? attempts - 1 : 5;
    const uint64_t bound = (uint64_t)BACKOFF_FIRST_MS << doublings;

    return 1 + kvt_random_below(&io->random, bound < BACKOFF_MAX_MS ? bound : BACKOFF_MAX_MS);
}

static void
finish(struct io_thread *io, struct slot *slot, CURLcode code)
{
    const uint64_t now_ms = kvt_clock_mono_ms();
    uint64_t wait_ms;
    bool again;

    (void)curl_multi_remove_handle(io->multi, slot->exchange.easy);
    again = g4_exchange_finish(&slot->exchange, code);
    wait_ms = backoff_ms(io, slot->attempts);
    if (again && slot->attempts < io->settings.attempts_max &&
        now_ms + wait_ms < slot->deadline_ms && !kvt_queue_closed(io->queue)) {
        slot->state = SLOT_WAITING;
        slot->due_ms = now_ms + wait_ms;
        return;
    }
    /* A connection that could not be made in time is an absent peer; only our own deadline is late.
     */
    if (slot->exchange.request->status == KVT_TIMEOUT && now_ms + CLOCKS_MS < slot->deadline_ms)
        slot->exchange.request->status = slot->exchange.request->error.code = KVT_UNAVAILABLE;
    complete(slot);
}

static void
finish_all(struct io_thread *io)
{
    struct CURLMsg *message;
    int left;

    while ((message = curl_multi_info_read(io->multi, &left)) != NULL) {
        const CURLcode code = message->data.result;
        CURL *easy = message->easy_handle;
        struct slot *slot = NULL;

        if (message->msg != CURLMSG_DONE)
            continue;
        (void)curl_easy_getinfo(easy, CURLINFO_PRIVATE, (char **)&slot);
        finish(io, slot, code);
    }
}

/* Start what has waited long enough; when closing, at once: its deadline will end it. */
static void
start_due(struct io_thread *io)
{
    const uint64_t now_ms = kvt_clock_mono_ms();

    for (unsigned i = 0; i < io->slot_count; i++) {
        struct slot *slot = &io->slots[i];

        if (slot->state == SLOT_WAITING && (slot->due_ms <= now_ms || kvt_queue_closed(io->queue)))
            start(io, slot);
    }
}

/* How long there is nothing to start; `busy`: is anything under way? */
static uint64_t
idle_ms(const struct io_thread *io, bool *busy)
{
    const uint64_t now_ms = kvt_clock_mono_ms();
    uint64_t wait_ms = IDLE_MS;
    bool room = false;

    *busy = false;
    for (unsigned i = 0; i < io->slot_count; i++) {
        const struct slot *slot = &io->slots[i];
        const uint64_t left_ms = slot->due_ms > now_ms ? slot->due_ms - now_ms : 0;

        *busy |= slot->state != SLOT_FREE;
        room |= slot->state == SLOT_FREE;
        if (slot->state == SLOT_WAITING && left_ms < wait_ms)
            wait_ms = left_ms;
    }
    return room && kvt_queue_count(io->queue) > 0 ? 0 : wait_ms;
}

static void *
run(void *arg)
{
    struct io_thread *io = arg;

    for (;;) {
        uint64_t wait_ms;
        int running;
        bool busy;

        accept_all(io);
        start_due(io);
        (void)curl_multi_perform(io->multi, &running);
        finish_all(io);
        wait_ms = idle_ms(io, &busy);
        if (!busy && kvt_queue_closed(io->queue) && kvt_queue_count(io->queue) == 0)
            return NULL;
        (void)curl_multi_poll(io->multi, NULL, 0, (int)wait_ms, NULL);
    }
}

static enum kvt_err
s3_submit(void *self, struct g4_request *request)
{
    struct s3 *s3 = self;
    struct io_thread *io = &s3->threads[atomic_fetch_add(&s3->next, 1) % s3->thread_count];
    const enum kvt_err rc = kvt_queue_put(io->queue, request);

    if (rc == KVT_OK)
        (void)curl_multi_wakeup(io->multi);
    return rc;
}

static void
io_release(struct io_thread *io)
{
    if (io->running) {
        kvt_queue_close(io->queue);
        (void)curl_multi_wakeup(io->multi);
        (void)pthread_join(io->thread, NULL);
    }
    for (unsigned i = 0; i < io->slot_count && io->slots != NULL; i++)
        g4_exchange_release(&io->slots[i].exchange);
    if (io->multi != NULL)
        (void)curl_multi_cleanup(io->multi);
    kvt_queue_free(io->queue);
    kvt_free(io->slots);
}

static void
s3_close(void *self)
{
    struct s3 *s3 = self;

    for (unsigned i = 0; i < THREADS_MAX; i++)
        io_release(&s3->threads[i]);
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

static enum kvt_err
io_start(struct io_thread *io, const struct g4_s3_options *options, unsigned threads)
{
    const unsigned queue_max = or_default(options->queue_max, QUEUE_DEFAULT);
    enum kvt_err rc;

    io->settings.attempts_max = or_default(options->attempts_max, ATTEMPTS_DEFAULT);
    io->settings.timeout_ms = options->timeout_ms == 0 ? TIMEOUT_DEFAULT_MS : options->timeout_ms;
    io->slot_count = or_default(options->connections_max, CONNECTIONS_DEFAULT);
    kvt_random_system(&io->random, sizeof(io->random));
    rc = kvt_queue_new(&io->queue, (queue_max + threads - 1) / threads);
    if (rc != KVT_OK)
        return rc;
    io->slots = kvt_calloc(io->slot_count, sizeof(*io->slots));
    io->multi = curl_multi_init();
    if (io->slots == NULL || io->multi == NULL)
        return KVT_NOMEM;
    /* As many connections as slots, and all kept: an idle one is cheaper than a new one. */
    if (curl_multi_setopt(io->multi, CURLMOPT_MAX_HOST_CONNECTIONS, (long)io->slot_count) !=
            CURLM_OK ||
        curl_multi_setopt(io->multi, CURLMOPT_MAXCONNECTS, (long)io->slot_count) != CURLM_OK)
        return KVT_NOMEM;
    for (unsigned i = 0; i < io->slot_count; i++)
        if (g4_exchange_init(&io->slots[i].exchange) != KVT_OK)
            return KVT_NOMEM;
    if (pthread_create(&io->thread, NULL, run, io) != 0)
        return KVT_NOMEM;
    io->running = true;
    return KVT_OK;
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
                                      .path_style = options->path_style},
        err);
}

enum kvt_err
g4_s3_open(struct g4_store **out, const struct g4_s3_options *options, struct kvt_error *err)
{
    const unsigned threads = or_default(options->threads, 1);
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
    s3->thread_count = threads;
    for (unsigned i = 0; i < threads && rc == KVT_OK; i++) {
        s3->threads[i].endpoint = s3->endpoint;
        rc = io_start(&s3->threads[i], options, threads);
    }
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

struct g4_credentials *
g4_s3_credentials(const struct g4_store *store)
{
    const struct s3 *s3 = g4_store_self(store, &s3_driver);

    return s3 == NULL ? NULL : g4_endpoint_credentials(s3->endpoint);
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
