#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/core/random.h"
#include "base/thread/queue.h"
#include "g4/object/check.h"
#include "g4/s3/exchange.h"
#include "g4/s3/latency.h"
#include "g4/s3/s3_internal.h"

enum {
    BACKOFF_FIRST_MS = 50,
    BACKOFF_MAX_MS = 2000,
    KEYS_LOOK_MS = 20,   /* between two looks for keys in the place of refused ones, */
    KEYS_WAIT_MS = 5000, /* ... in all: a request that waits keeps others from its slot */
    CLOCKS_MS = 20,      /* that libcurl's clock and ours may differ by within a deadline */
    IDLE_MS = 1000,
    RETRY_COST = 5, /* in units of what an answered request gives back */
    RETRY_PURSE = G4_S3_RETRY_BUDGET * RETRY_COST,
    HEDGE_COST = 1000000, /* a GET pays its share of it in */
    HEDGE_PURSE = 8 * HEDGE_COST,
};

enum slot_state { SLOT_FREE, SLOT_RUNNING, SLOT_WAITING };

struct slot;

/* One transfer. */
struct attempt {
    struct g4_exchange exchange;
    struct slot *slot;
    bool running;
};

/* The second question for a slot's request, into memory of its own. */
struct hedge {
    struct attempt attempt;
    struct g4_request request;
    char attributes[G4_ATTRIBUTES_MAX];
};

struct slot {
    struct attempt attempt;
    struct hedge *hedge; /* NULL until the first one is needed */
    struct g4_request *request;
    enum slot_state state;
    unsigned attempts;
    uint64_t deadline_ms;
    uint64_t began_ms;      /* of the attempt */
    uint64_t due_ms;        /* WAITING: when the next attempt starts */
    uint64_t keys;          /* WAITING: not with these, which were refused; */
    uint64_t keys_until_ms; /* ... no longer than this; 0 = with any */
    uint64_t hedge_ms;      /* RUNNING: when a hedge is due; UINT64_MAX = never */
    char etag[G4_ETAG_MAX]; /* what the caller gave: answers overwrite the request's */
    char token[G4_TOKEN_MAX];
};

struct g4_s3_loop {
    pthread_t thread;
    bool running;
    struct g4_endpoint *endpoint;
    struct g4_s3_loop_options options;
    struct kvt_queue *queue; /* of struct g4_request */
    CURLM *multi;
    struct slot *slots;
    unsigned slot_count;
    uint64_t random;
    unsigned retry_purse;
    uint64_t hedge_purse;
    struct g4_latency latency; /* of GETs */
    atomic_uint_fast64_t retries;
    atomic_uint_fast64_t unretried;
    atomic_uint_fast64_t hedges;
    atomic_uint_fast64_t hedges_won;
};

static bool
launch(struct g4_s3_loop *loop, struct attempt *attempt)
{
    CURL *easy = attempt->exchange.easy;

    attempt->running = curl_easy_setopt(easy, CURLOPT_PRIVATE, attempt) == CURLE_OK &&
                       curl_multi_add_handle(loop->multi, easy) == CURLM_OK;
    return attempt->running;
}

/* Cut an attempt off whose answer nobody needs. */
static void
cut_off(struct g4_s3_loop *loop, struct attempt *attempt)
{
    if (!attempt->running)
        return;
    (void)curl_multi_remove_handle(loop->multi, attempt->exchange.easy);
    g4_exchange_abandon(&attempt->exchange);
    attempt->running = false;
}

static void
complete(struct slot *slot)
{
    struct g4_request *request = slot->request;

    slot->state = SLOT_FREE;
    slot->request = NULL;
    if (request->status == KVT_OK)
        memset(&request->error, 0, sizeof(request->error));
    request->done(request, request->arg);
}

/* When a hedge for an attempt that starts at `now_ms` is due. */
static uint64_t
hedge_due_ms(const struct g4_s3_loop *loop, const struct slot *slot, uint64_t now_ms)
{
    const struct g4_s3_loop_options *options = &loop->options;
    uint64_t wait_ms = options->hedge_ms;

    if (slot->request->verb != G4_GET || (wait_ms == 0 && !options->hedge_p95))
        return UINT64_MAX;
    if (options->hedge_p95) {
        const uint32_t p95_ms = g4_latency_p95_ms(&loop->latency);

        if (p95_ms == UINT32_MAX)
            return UINT64_MAX;
        if (p95_ms >= wait_ms)
            wait_ms = (uint64_t)p95_ms + 1;
    }
    return now_ms + wait_ms;
}

/* Start the next attempt, or complete the request when it cannot even be made. */
static void
start(struct g4_s3_loop *loop, struct slot *slot)
{
    struct g4_request *request = slot->request;
    const uint64_t now_ms = kvt_clock_mono_ms();
    enum kvt_err rc;

    memcpy(request->etag, slot->etag, sizeof(request->etag));
    if (request->verb == G4_LIST)
        memcpy(request->token, slot->token, sizeof(request->token));
    if (now_ms >= slot->deadline_ms)
        rc = kvt_error_set(&request->error, KVT_TIMEOUT, "%s: waited too long", request->key);
    else
        rc = g4_exchange_begin(&slot->attempt.exchange, loop->endpoint, request,
                               slot->deadline_ms - now_ms);
    if (rc == KVT_OK && launch(loop, &slot->attempt)) {
        slot->state = SLOT_RUNNING;
        slot->attempts++;
        if (request->store_private != NULL)
            ((struct g4_exchange_step *)request->store_private)->attempts = slot->attempts;
        slot->began_ms = now_ms;
        slot->hedge_ms = hedge_due_ms(loop, slot, now_ms);
        return;
    }
    if (rc == KVT_OK)
        rc = kvt_error_set(&request->error, KVT_NOMEM, "%s", request->key);
    request->status = rc;
    complete(slot);
}

static void
accept_request(struct g4_s3_loop *loop, struct slot *slot, struct g4_request *request)
{
    slot->request = request;
    slot->attempts = 0;
    slot->deadline_ms = request->deadline_ms != 0 ? request->deadline_ms
                                                  : kvt_clock_mono_ms() + loop->options.timeout_ms;
    memcpy(slot->etag, request->etag, sizeof(slot->etag));
    if (request->verb == G4_LIST)
        memcpy(slot->token, request->token, sizeof(slot->token));
    if (request->verb == G4_GET && loop->hedge_purse < HEDGE_PURSE)
        loop->hedge_purse += loop->options.hedge_share_ppm;
    start(loop, slot);
}

static void
accept_all(struct g4_s3_loop *loop)
{
    for (unsigned i = 0; i < loop->slot_count; i++) {
        void *item;

        if (loop->slots[i].state != SLOT_FREE)
            continue;
        if (kvt_queue_take(loop->queue, &item, 1, 0) == 0)
            return;
        accept_request(loop, &loop->slots[i], item);
    }
}

/* ---- hedges ---- */

static struct hedge *
hedge_of(struct slot *slot)
{
    struct hedge *hedge = slot->hedge;

    if (hedge != NULL)
        return hedge;
    hedge = kvt_calloc(1, sizeof(*hedge));
    if (hedge != NULL && g4_exchange_init(&hedge->attempt.exchange) != KVT_OK) {
        kvt_free(hedge);
        hedge = NULL;
    }
    if (hedge != NULL)
        hedge->attempt.slot = slot;
    slot->hedge = hedge;
    return hedge;
}

/* Ask a second time.  It is a favour: whatever stands in its way, the first attempt goes on. */
static void
start_hedge(struct g4_s3_loop *loop, struct slot *slot, uint64_t now_ms)
{
    struct hedge *hedge;

    slot->hedge_ms = UINT64_MAX;
    if (loop->hedge_purse < HEDGE_COST || now_ms >= slot->deadline_ms)
        return;
    hedge = hedge_of(slot);
    if (hedge == NULL)
        return;
    hedge->request = *slot->request;
    hedge->request.buffer = NULL;
    if (slot->request->attributes != NULL)
        hedge->request.attributes = hedge->attributes;
    memcpy(hedge->request.etag, slot->etag, sizeof(hedge->request.etag));
    if (g4_exchange_begin(&hedge->attempt.exchange, loop->endpoint, &hedge->request,
                          slot->deadline_ms - now_ms) != KVT_OK ||
        !launch(loop, &hedge->attempt)) {
        g4_exchange_abandon(&hedge->attempt.exchange);
        return;
    }
    loop->hedge_purse -= HEDGE_COST;
    atomic_fetch_add(&loop->hedges, 1);
}

/* The hedge was first: what it got becomes the request's. */
static void
take_over(struct g4_s3_loop *loop, struct slot *slot)
{
    const struct g4_request *from = &slot->hedge->request;
    struct g4_request *to = slot->request;

    cut_off(loop, &slot->attempt);
    to->status = from->status;
    to->http = from->http;
    to->error = from->error;
    to->meta = from->meta;
    to->modified_ms = from->modified_ms;
    to->server_ms = from->server_ms;
    to->buffer_size = from->buffer_size;
    to->object_size = from->object_size;
    to->summed = from->summed;
    to->body_crc32c = from->body_crc32c;
    memcpy(to->etag, from->etag, sizeof(to->etag));
    if (to->attributes != NULL)
        memcpy(to->attributes, from->attributes, G4_ATTRIBUTES_MAX);
    if (to->buffer == NULL) {
        to->buffer = from->buffer;
    } else {
        if (from->buffer_size > 0)
            memcpy(to->buffer, from->buffer, from->buffer_size);
        kvt_free(from->buffer);
        if (to->summed) /* it speaks of these bytes, not of those they were copied from */
            to->body_crc32c = g4_check_crc32c(to->buffer, to->buffer_size);
    }
    atomic_fetch_add(&loop->hedges_won, 1);
}

/* ---- ends of attempts ---- */

/* Full jitter: anything up to a bound that doubles, so that many losers do not come back at once.
 */
static uint64_t
backoff_ms(struct g4_s3_loop *loop, unsigned attempts)
{
    const unsigned doublings = attempts < 6 ? attempts - 1 : 5;
    const uint64_t bound = (uint64_t)BACKOFF_FIRST_MS << doublings;

    return 1 + kvt_random_below(&loop->random, bound < BACKOFF_MAX_MS ? bound : BACKOFF_MAX_MS);
}

/* Is another attempt allowed, in time, and paid for? */
static bool
may_retry(struct g4_s3_loop *loop, const struct slot *slot, uint64_t due_ms)
{
    if (slot->request->once || slot->attempts >= loop->options.attempts_max ||
        due_ms >= slot->deadline_ms || kvt_queue_closed(loop->queue))
        return false;
    if (loop->retry_purse < RETRY_COST) {
        atomic_fetch_add(&loop->unretried, 1);
        return false;
    }
    loop->retry_purse -= RETRY_COST;
    atomic_fetch_add(&loop->retries, 1);
    return true;
}

static void
finish(struct g4_s3_loop *loop, struct attempt *attempt, CURLcode code)
{
    struct slot *slot = attempt->slot;
    const bool hedged = attempt != &slot->attempt;
    struct attempt *other = hedged                ? &slot->attempt
                            : slot->hedge == NULL ? NULL
                                                  : &slot->hedge->attempt;
    const uint64_t now_ms = kvt_clock_mono_ms();
    bool again;

    (void)curl_multi_remove_handle(loop->multi, attempt->exchange.easy);
    attempt->running = false;
    again = g4_exchange_finish(&attempt->exchange, code);
    if (again && other != NULL && other->running)
        return; /* the other attempt may still bring it */
    if (hedged)
        take_over(loop, slot);
    else if (other != NULL)
        cut_off(loop, other);
    if (!again && loop->retry_purse < RETRY_PURSE)
        loop->retry_purse++;
    if (slot->request->verb == G4_GET && slot->request->status == KVT_OK)
        g4_latency_add(&loop->latency, now_ms - slot->began_ms);
    if (again) {
        const uint64_t due_ms = now_ms + backoff_ms(loop, slot->attempts);

        if (may_retry(loop, slot, due_ms)) {
            slot->state = SLOT_WAITING;
            slot->due_ms = due_ms;
            slot->keys = attempt->exchange.prepared.keys;
            slot->keys_until_ms = attempt->exchange.keys_refused ? now_ms + KEYS_WAIT_MS : 0;
            return;
        }
    }
    /* A connection that could not be made in time is an absent peer; only our own deadline is late.
     */
    if (slot->request->status == KVT_TIMEOUT && now_ms + CLOCKS_MS < slot->deadline_ms)
        slot->request->status = slot->request->error.code = KVT_UNAVAILABLE;
    complete(slot);
}

static void
finish_all(struct g4_s3_loop *loop)
{
    struct CURLMsg *message;
    int left;

    while ((message = curl_multi_info_read(loop->multi, &left)) != NULL) {
        const CURLcode code = message->data.result;
        CURL *easy = message->easy_handle;
        struct attempt *attempt = NULL;

        if (message->msg != CURLMSG_DONE)
            continue;
        (void)curl_easy_getinfo(easy, CURLINFO_PRIVATE, (char **)&attempt);
        finish(loop, attempt, code);
    }
}

/* The next attempt of a slot that has waited long enough.  With keys that were refused it would
 * only be refused again: it waits for others, and ends as it was refused when none come. */
static void
start_again(struct g4_s3_loop *loop, struct slot *slot, uint64_t now_ms)
{
    const uint64_t until_ms =
        slot->keys_until_ms < slot->deadline_ms ? slot->keys_until_ms : slot->deadline_ms;

    if (slot->keys_until_ms == 0 || slot->keys != g4_endpoint_keys(loop->endpoint))
        start(loop, slot);
    else if (now_ms + KEYS_LOOK_MS < until_ms && !kvt_queue_closed(loop->queue))
        slot->due_ms = now_ms + KEYS_LOOK_MS;
    else
        complete(slot);
}

/* Start what has waited long enough; when closing, at once: its deadline will end it. */
static void
start_due(struct g4_s3_loop *loop)
{
    const uint64_t now_ms = kvt_clock_mono_ms();

    for (unsigned i = 0; i < loop->slot_count; i++) {
        struct slot *slot = &loop->slots[i];

        if (slot->state == SLOT_WAITING &&
            (slot->due_ms <= now_ms || kvt_queue_closed(loop->queue)))
            start_again(loop, slot, now_ms);
        else if (slot->state == SLOT_RUNNING && slot->hedge_ms <= now_ms)
            start_hedge(loop, slot, now_ms);
    }
}

/* ---- the thread ---- */

/* How long there is nothing to start; `busy`: is anything under way? */
static uint64_t
idle_ms(const struct g4_s3_loop *loop, bool *busy)
{
    const uint64_t now_ms = kvt_clock_mono_ms();
    uint64_t wait_ms = IDLE_MS;
    bool room = false;

    *busy = false;
    for (unsigned i = 0; i < loop->slot_count; i++) {
        const struct slot *slot = &loop->slots[i];
        const uint64_t due_ms = slot->state == SLOT_WAITING   ? slot->due_ms
                                : slot->state == SLOT_RUNNING ? slot->hedge_ms
                                                              : UINT64_MAX;
        const uint64_t left_ms = due_ms > now_ms ? due_ms - now_ms : 0;

        *busy |= slot->state != SLOT_FREE;
        room |= slot->state == SLOT_FREE;
        if (left_ms < wait_ms)
            wait_ms = left_ms;
    }
    return room && kvt_queue_count(loop->queue) > 0 ? 0 : wait_ms;
}

static void *
run(void *arg)
{
    struct g4_s3_loop *loop = arg;

    for (;;) {
        uint64_t wait_ms;
        int running;
        bool busy;

        accept_all(loop);
        start_due(loop);
        (void)curl_multi_perform(loop->multi, &running);
        finish_all(loop);
        wait_ms = idle_ms(loop, &busy);
        if (!busy && kvt_queue_closed(loop->queue) && kvt_queue_count(loop->queue) == 0)
            return NULL;
        (void)curl_multi_poll(loop->multi, NULL, 0, (int)wait_ms, NULL);
    }
}

enum kvt_err
g4_s3_loop_submit(struct g4_s3_loop *loop, struct g4_request *request)
{
    const enum kvt_err rc = kvt_queue_put(loop->queue, request);

    if (rc == KVT_OK)
        (void)curl_multi_wakeup(loop->multi);
    return rc;
}

void
g4_s3_loop_count(struct g4_s3_loop *loop, struct g4_s3_counts *counts)
{
    counts->retries += atomic_load(&loop->retries);
    counts->unretried += atomic_load(&loop->unretried);
    counts->hedges += atomic_load(&loop->hedges);
    counts->hedges_won += atomic_load(&loop->hedges_won);
}

void
g4_s3_loop_stop(struct g4_s3_loop *loop)
{
    if (loop == NULL)
        return;
    if (loop->running) {
        kvt_queue_close(loop->queue);
        (void)curl_multi_wakeup(loop->multi);
        (void)pthread_join(loop->thread, NULL);
        loop->running = false;
    }
}

void
g4_s3_loop_free(struct g4_s3_loop *loop)
{
    if (loop == NULL)
        return;
    g4_s3_loop_stop(loop);
    for (unsigned i = 0; i < loop->slot_count && loop->slots != NULL; i++) {
        g4_exchange_release(&loop->slots[i].attempt.exchange);
        if (loop->slots[i].hedge != NULL)
            g4_exchange_release(&loop->slots[i].hedge->attempt.exchange);
        kvt_free(loop->slots[i].hedge);
    }
    if (loop->multi != NULL)
        (void)curl_multi_cleanup(loop->multi);
    kvt_queue_free(loop->queue);
    kvt_free(loop->slots);
    kvt_free(loop);
}

/* As many connections as requests, and room for hedges; all are kept: an idle connection is cheaper
 * than a new one. */
static bool
limit_connections(struct g4_s3_loop *loop)
{
    const bool hedges = loop->options.hedge_ms > 0 || loop->options.hedge_p95;
    const long most = (long)loop->slot_count * (hedges ? 2 : 1);

    return curl_multi_setopt(loop->multi, CURLMOPT_MAX_HOST_CONNECTIONS, most) == CURLM_OK &&
           curl_multi_setopt(loop->multi, CURLMOPT_MAXCONNECTS, most) == CURLM_OK;
}

enum kvt_err
g4_s3_loop_start(struct g4_s3_loop **out, struct g4_endpoint *endpoint,
                 const struct g4_s3_loop_options *options)
{
    struct g4_s3_loop *loop = kvt_calloc(1, sizeof(*loop));
    enum kvt_err rc = KVT_NOMEM;

    *out = NULL;
    if (loop == NULL)
        return KVT_NOMEM;
    loop->endpoint = endpoint;
    loop->options = *options;
    loop->slot_count = options->connections_max;
    loop->retry_purse = RETRY_PURSE;
    kvt_random_system(&loop->random, sizeof(loop->random));
    if (kvt_queue_new(&loop->queue, options->queue_max) != KVT_OK)
        goto fail;
    loop->slots = kvt_calloc(loop->slot_count, sizeof(*loop->slots));
    loop->multi = curl_multi_init();
    if (loop->slots == NULL || loop->multi == NULL || !limit_connections(loop))
        goto fail;
    for (unsigned i = 0; i < loop->slot_count; i++) {
        loop->slots[i].attempt.slot = &loop->slots[i];
        if (g4_exchange_init(&loop->slots[i].attempt.exchange) != KVT_OK)
            goto fail;
    }
    if (pthread_create(&loop->thread, NULL, run, loop) != 0)
        goto fail;
    loop->running = true;
    *out = loop;
    return KVT_OK;

fail:
    g4_s3_loop_free(loop);
    return rc;
}
