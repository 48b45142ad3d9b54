#include "g4/batch/batch_client.h"

#include <assert.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/core/random.h"
#include "base/thread/cond.h"
#include "g4/batch/batch.h"
#include "g4/object/check.h"
#include "g4/object/g4_store.h"
#include "g4/s3/endpoint.h"
#include "g4/s3/s3_answer.h"
#include "kvtier/key.h"

enum {
    CONNECTIONS_DEFAULT = 8,
    CONNECTIONS_MAX = 256,
    TIMEOUT_DEFAULT_MS = 30000,
    BYTES_DEFAULT = 16 * 1024 * 1024,
    BACKOFF_FIRST_MS = 20,
    BACKOFF_MAX_MS = 1000,
    NAP_MS = 50,             /* between looks at `stopping` */
    STOP_PATIENCE_MS = 1000, /* what a request under way still gets after g4_batch_client_stop() */
    PATH_MAX_SIZE = 128,
    TROUBLE_MAX = 4096,
    UNWANTED_MAX = 64 * 1024, /* of an error's body, before the connection is closed */
};

#define NO_END UINT64_MAX

struct g4_batch_client {
    struct g4_endpoint *endpoint;
    uint64_t timeout_ms;
    uint64_t retry_ms;
    size_t batch_bytes_max;
    char fingerprint[17]; /* "": of any layout */
    bool (*progress)(void *arg, size_t done, size_t count);
    void *progress_arg;
    CURL **handles;
    unsigned handle_count;
    atomic_bool stopping;
    atomic_uint_fast64_t stopped_ms;

    struct {
        pthread_mutex_t lock; /* guards the free handles: the first `free_count` of `free` */
        pthread_cond_t changed;
        CURL **free;
        unsigned free_count;
    } shared;
};

/* What a call has time for. */
struct patience {
    uint64_t again_ms; /* nothing is tried again after this moment */
    uint64_t end_ms;   /* by then the call has returned; NO_END: when it is answered */
};

/* One HTTP request of a call. */
struct transfer {
    struct g4_batch_client *client;
    uint64_t began_ms;
    CURL *easy;
    struct g4_endpoint_signed prepared;
    struct g4_batch batch;
    char path[PATH_MAX_SIZE];
    char trouble[TROUBLE_MAX];
    size_t trouble_size;
    size_t unwanted;
    bool enough; /* an error's body was cut off */
};

static const char *
verb_name(enum g4_batch_verb verb)
{
    return verb == G4_BATCH_HAS ? "has" : verb == G4_BATCH_GET ? "get" : "put";
}

static uint64_t
time_left(uint64_t end_ms)
{
    const uint64_t now_ms = kvt_clock_mono_ms();

    return end_ms > now_ms ? end_ms - now_ms : 0;
}

/* NULL: none came free in time. */
static CURL *
take_handle(struct g4_batch_client *client, uint64_t end_ms)
{
    CURL *easy = NULL;

    pthread_mutex_lock(&client->shared.lock);
    while (client->shared.free_count == 0 && time_left(end_ms) > 0) {
        const struct timespec until = kvt_cond_deadline(time_left(end_ms));

        (void)kvt_cond_wait(&client->shared.changed, &client->shared.lock, &until);
    }
    /* The one given back last: its connection is the warmest. */
    if (client->shared.free_count > 0)
        easy = client->shared.free[--client->shared.free_count];
    pthread_mutex_unlock(&client->shared.lock);
    return easy;
}

static void
give_handle(struct g4_batch_client *client, CURL *easy)
{
    pthread_mutex_lock(&client->shared.lock);
    client->shared.free[client->shared.free_count++] = easy;
    pthread_cond_signal(&client->shared.changed);
    pthread_mutex_unlock(&client->shared.lock);
}

static size_t
on_read(char *out, size_t unit, size_t count, void *arg)
{
    struct transfer *transfer = arg;

    return g4_batch_read(&transfer->batch, out, unit * count);
}

/* libcurl sends again when a connection it kept turns out to be closed: only from the start. */
static int
on_seek(void *arg, curl_off_t offset, int origin)
{
    struct transfer *transfer = arg;
    struct g4_batch *batch = &transfer->batch;

    if (origin != SEEK_SET || offset != 0)
        return CURL_SEEKFUNC_CANTSEEK;
    g4_batch_begin(batch, batch->verb, batch->entries, batch->count);
    return CURL_SEEKFUNC_OK;
}

static size_t
on_body(char *bytes, size_t unit, size_t count, void *arg)
{
    struct transfer *transfer = arg;
    const size_t size = unit * count;
    const size_t room = sizeof(transfer->trouble) - transfer->trouble_size;
    const size_t kept = size < room ? size : room;
    long http = 0;

    (void)curl_easy_getinfo(transfer->easy, CURLINFO_RESPONSE_CODE, &http);
    if (http == 200)
        return g4_batch_write(&transfer->batch, bytes, size) ? size : 0;
    memcpy(transfer->trouble + transfer->trouble_size, bytes, kept);
    transfer->trouble_size += kept;
    transfer->unwanted += size;
    transfer->enough = transfer->unwanted > UNWANTED_MAX;
    return transfer->enough ? 0 : size;
}

/* A gateway that hangs must not keep a program from ending. */
static int
on_progress(void *arg, curl_off_t in_all, curl_off_t in, curl_off_t out_all, curl_off_t out)
{
    const struct transfer *transfer = arg;
    uint64_t from_ms;

    (void)in_all, (void)in, (void)out_all, (void)out;
    if (!atomic_load(&transfer->client->stopping))
        return 0;
    from_ms = atomic_load(&transfer->client->stopped_ms);
    if (from_ms < transfer->began_ms)
        from_ms = transfer->began_ms;
    return kvt_clock_mono_ms() - from_ms >= STOP_PATIENCE_MS ? 1 : 0;
}

static bool
set_body_options(struct transfer *transfer)
{
    const curl_off_t size = (curl_off_t)g4_batch_size(&transfer->batch);
    CURL *easy = transfer->easy;
    bool ok = true;

    ok &= curl_easy_setopt(easy, CURLOPT_POST, 1L) == CURLE_OK;
    ok &= curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, size) == CURLE_OK;
    ok &= curl_easy_setopt(easy, CURLOPT_READFUNCTION, on_read) == CURLE_OK;
    ok &= curl_easy_setopt(easy, CURLOPT_READDATA, transfer) == CURLE_OK;
    ok &= curl_easy_setopt(easy, CURLOPT_SEEKFUNCTION, on_seek) == CURLE_OK;
    ok &= curl_easy_setopt(easy, CURLOPT_SEEKDATA, transfer) == CURLE_OK;
    ok &= curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_body) == CURLE_OK;
    ok &= curl_easy_setopt(easy, CURLOPT_WRITEDATA, transfer) == CURLE_OK;
    ok &= curl_easy_setopt(easy, CURLOPT_XFERINFOFUNCTION, on_progress) == CURLE_OK;
    ok &= curl_easy_setopt(easy, CURLOPT_XFERINFODATA, transfer) == CURLE_OK;
    ok &= curl_easy_setopt(easy, CURLOPT_NOPROGRESS, 0L) == CURLE_OK;
    return ok;
}

/* What the gateway's answer, or the lack of one, means for the whole request. */
static enum kvt_err
judge(struct transfer *transfer, CURLcode code, bool *again, struct kvt_error *err)
{
    struct g4_request request = {.verb = G4_PUT, .key = transfer->path};
    struct g4_s3_answer answer;
    enum kvt_err rc;
    long http = 0;

    if (transfer->batch.malformed) {
        *again = false;
        return kvt_error_set(err, KVT_IO, "%s: an answer that cannot be one to what was asked",
                             transfer->path);
    }
    if (code != CURLE_OK && !transfer->enough) {
        rc = g4_endpoint_failure(code, again);
        return kvt_error_set(err, rc, "%s: %s", transfer->path, curl_easy_strerror(code));
    }
    (void)curl_easy_getinfo(transfer->easy, CURLINFO_RESPONSE_CODE, &http);
    request.http = (int)http;
    rc = g4_s3_answer_status(&request, transfer->trouble, transfer->trouble_size, &answer);
    *again = answer.again;
    if (rc != KVT_OK) {
        *again |= g4_endpoint_refused(transfer->client->endpoint, transfer->easy,
                                      &transfer->prepared, (int)http, answer.cause);
        if (err != NULL)
            *err = request.error;
        return rc;
    }
    if (!g4_batch_complete(&transfer->batch)) {
        *again = true;
        return kvt_error_set(err, KVT_IO, "%s: the answer ends after %zu of %zu keys",
                             transfer->path, transfer->batch.in_entry, transfer->batch.count);
    }
    return KVT_OK;
}

/* What a request that begins now may take; 0: there is no time for one. */
static uint64_t
request_ms(const struct g4_batch_client *client, uint64_t end_ms)
{
    const uint64_t left_ms = time_left(end_ms);

    return left_ms < client->timeout_ms ? left_ms : client->timeout_ms;
}

/* Send one request once. */
static enum kvt_err
attempt(struct g4_batch_client *client, enum g4_batch_verb verb, struct g4_batch_entry *entries,
        size_t count, uint64_t end_ms, bool *again, struct kvt_error *err)
{
    const struct g4_sigv4_header headers[] = {{"Content-Type", "application/octet-stream"},
                                              {"x-kvtier-fingerprint", client->fingerprint}};
    struct transfer transfer = {.client = client, .began_ms = kvt_clock_mono_ms()};
    uint64_t timeout_ms;
    enum kvt_err rc;

    *again = false;
    (void)snprintf(transfer.path, sizeof(transfer.path), "/_kvtier/v1/%s/%s", verb_name(verb),
                   g4_endpoint_bucket(client->endpoint));
    g4_batch_begin(&transfer.batch, verb, entries, count);
    transfer.easy = take_handle(client, end_ms);
    if (transfer.easy == NULL)
        return kvt_error_set(err, KVT_TIMEOUT, "%s: every connection was in use", transfer.path);
    timeout_ms = request_ms(client, end_ms);
    if (timeout_ms == 0) {
        give_handle(client, transfer.easy);
        return kvt_error_set(err, KVT_TIMEOUT, "%s: no time is left", transfer.path);
    }
    curl_easy_reset(transfer.easy);
    rc = g4_endpoint_prepare(
        client->endpoint, transfer.easy,
        &(struct g4_endpoint_call){.method = "POST",
                                   .path = transfer.path,
                                   .query = "",
                                   .headers = headers,
                                   .header_count = client->fingerprint[0] == '\0' ? 1 : 2},
        timeout_ms, &transfer.prepared, err);
    if (rc == KVT_OK && !set_body_options(&transfer))
        rc = kvt_error_set(err, KVT_NOMEM, "%s", transfer.path);
    if (rc == KVT_OK)
        rc = judge(&transfer, curl_easy_perform(transfer.easy), again, err);
    curl_slist_free_all(transfer.prepared.headers);
    give_handle(client, transfer.easy);
    return rc;
}

static void
set_all(struct g4_batch_entry *entries, size_t count, enum kvt_err status)
{
    for (size_t i = 0; i < count; i++) {
        entries[i].item->status = status;
        if (entries[i].room != 0)
            entries[i].item->size = 0;
    }
}

/* Nothing was asked: every item carries why. */
static enum kvt_err
refuse(struct g4_batch_client_item *items, size_t count, enum kvt_err status, struct kvt_error *err)
{
    for (size_t i = 0; i < count; i++)
        items[i].status = status;
    return kvt_error_set(err, status, "batch of %zu keys: %s", count, kvt_err_text(status));
}

static bool
keys_valid(const struct g4_batch_client_item *items, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (items[i].key[0] == '\0' || strlen(items[i].key) >= KVT_KEY_MAX)
            return false;
    return true;
}

/* Move the entries the gateway had no room for to the front; returns how many there are. */
static size_t
keep_busy(struct g4_batch_entry *entries, size_t count)
{
    size_t kept = 0;

    for (size_t i = 0; i < count; i++)
        if (entries[i].item->status == KVT_AGAIN)
            entries[kept++] = entries[i];
    return kept;
}

/* Sleep before the next try; false when there is no time left for one. */
static bool
back_off(const struct g4_batch_client *client, uint64_t *random, unsigned tries, uint64_t until_ms)
{
    const uint64_t bound = (uint64_t)BACKOFF_FIRST_MS << (tries < 6 ? tries : 6);
    const uint64_t wait_ms =
        1 + kvt_random_below(random, bound < BACKOFF_MAX_MS ? bound : BACKOFF_MAX_MS);

    if (kvt_clock_mono_ms() + wait_ms >= until_ms)
        return false;
    for (uint64_t left = wait_ms; left > 0 && !atomic_load(&client->stopping);) {
        const uint64_t nap_ms = left < NAP_MS ? left : NAP_MS;

        kvt_clock_sleep_ms(nap_ms);
        left -= nap_ms;
    }
    return !atomic_load(&client->stopping);
}

/* One request's worth of entries, again and again until it is answered or time is up. */
static enum kvt_err
ask(struct g4_batch_client *client, enum g4_batch_verb verb, struct g4_batch_entry *entries,
    size_t count, const struct patience *patience, struct kvt_error *err)
{
    uint64_t random;

    kvt_random_system(&random, sizeof(random));
    for (unsigned tries = 0;; tries++) {
        bool again;
        const enum kvt_err rc =
            attempt(client, verb, entries, count, patience->end_ms, &again, err);

        if (rc == KVT_OK) {
            count = keep_busy(entries, count);
            if (count == 0 || !back_off(client, &random, tries, patience->again_ms))
                return KVT_OK;
        } else if (!again || !back_off(client, &random, tries, patience->again_ms)) {
            set_all(entries, count, rc);
            return rc;
        }
    }
}

/* How many of the entries go into one request. */
static size_t
share_of(const struct g4_batch_client *client, enum g4_batch_verb verb,
         const struct g4_batch_entry *entries, size_t count)
{
    size_t bytes = 0;
    size_t taken = 0;

    while (taken < count && taken < G4_BATCH_CLIENT_BATCH_MAX) {
        const size_t more = verb == G4_BATCH_PUT   ? entries[taken].item->size
                            : verb == G4_BATCH_GET ? entries[taken].room
                                                   : 0;

        if (taken > 0 && more > client->batch_bytes_max - bytes)
            break;
        bytes = more > client->batch_bytes_max - bytes ? client->batch_bytes_max : bytes + more;
        taken++;
    }
    return taken;
}

static enum kvt_err
call(struct g4_batch_client *client, enum g4_batch_verb verb, struct g4_batch_client_item *items,
     size_t count, uint64_t within_ms, struct kvt_error *err)
{
    const uint64_t now_ms = kvt_clock_mono_ms();
    const struct patience patience = {
        .again_ms = now_ms + (within_ms < client->retry_ms ? within_ms : client->retry_ms),
        .end_ms = within_ms == NO_END ? NO_END : now_ms + within_ms,
    };
    struct g4_batch_entry *entries;
    enum kvt_err rc = KVT_OK;

    if (!keys_valid(items, count))
        return refuse(items, count, KVT_INVALID, err);
    entries = kvt_calloc(count, sizeof(*entries));
    if (entries == NULL)
        return refuse(items, count, KVT_NOMEM, err);
    for (size_t i = 0; i < count; i++)
        entries[i] = (struct g4_batch_entry){&items[i], verb == G4_BATCH_GET ? items[i].size : 0};
    for (size_t done = 0; done < count;) {
        const size_t share = share_of(client, verb, entries + done, count - done);

        rc = ask(client, verb, entries + done, share, &patience, err);
        done += share;
        if (rc == KVT_OK && client->progress != NULL &&
            !client->progress(client->progress_arg, done, count) && done < count)
            rc = kvt_error_set(err, KVT_CANCELLED, "%zu of %zu keys were asked for", done, count);
        if (rc != KVT_OK) {
            /* Whoever did not answer just now will not answer the rest either. */
            set_all(entries + done, count - done, rc);
            break;
        }
    }
    kvt_free(entries);
    return rc;
}

enum kvt_err
g4_batch_client_has(struct g4_batch_client *client, struct g4_batch_client_item *items,
                    size_t count, struct kvt_error *err)
{
    return call(client, G4_BATCH_HAS, items, count, NO_END, err);
}

enum kvt_err
g4_batch_client_has_within(struct g4_batch_client *client, struct g4_batch_client_item *items,
                           size_t count, uint64_t within_ms, struct kvt_error *err)
{
    assert(within_ms > 0);
    return call(client, G4_BATCH_HAS, items, count, within_ms, err);
}

enum kvt_err
g4_batch_client_get(struct g4_batch_client *client, struct g4_batch_client_item *items,
                    size_t count, struct kvt_error *err)
{
    return call(client, G4_BATCH_GET, items, count, NO_END, err);
}

enum kvt_err
g4_batch_client_put(struct g4_batch_client *client, struct g4_batch_client_item *items,
                    size_t count, struct kvt_error *err)
{
    for (size_t i = 0; i < count; i++)
        items[i].crc32c = g4_check_crc32c(items[i].body, items[i].size);
    return call(client, G4_BATCH_PUT, items, count, NO_END, err);
}

void
g4_batch_client_stop(struct g4_batch_client *client)
{
    atomic_store(&client->stopped_ms, kvt_clock_mono_ms());
    atomic_store(&client->stopping, true);
}

static enum kvt_err
make_handles(struct g4_batch_client *client, unsigned count)
{
    client->handles = kvt_calloc(count, sizeof(*client->handles));
    client->shared.free = kvt_calloc(count, sizeof(*client->shared.free));
    if (client->handles == NULL || client->shared.free == NULL)
        return KVT_NOMEM;
    for (; client->handle_count < count; client->handle_count++) {
        CURL *easy = curl_easy_init();

        if (easy == NULL)
            return KVT_NOMEM;
        client->handles[client->handle_count] = easy;
        client->shared.free[client->shared.free_count++] = easy;
    }
    return KVT_OK;
}

enum kvt_err
g4_batch_client_open(struct g4_batch_client **out, const struct g4_batch_client_options *options,
                     struct kvt_error *err)
{
    const unsigned connections =
        options->connections_max == 0 ? CONNECTIONS_DEFAULT : options->connections_max;
    struct g4_batch_client *client;
    enum kvt_err rc;

    *out = NULL;
    if (connections > CONNECTIONS_MAX)
        return kvt_error_set(err, KVT_INVALID, "gateway client: at most %d connections",
                             CONNECTIONS_MAX);
    if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
        return kvt_error_set(err, KVT_NOMEM, "gateway client: libcurl does not start");
    client = kvt_calloc(1, sizeof(*client));
    if (client == NULL || !kvt_cond_init(&client->shared.changed)) {
        kvt_free(client);
        curl_global_cleanup();
        return kvt_error_set(err, KVT_NOMEM, "gateway client");
    }
    (void)pthread_mutex_init(&client->shared.lock, NULL);
    client->timeout_ms = options->timeout_ms == 0 ? TIMEOUT_DEFAULT_MS : options->timeout_ms;
    client->retry_ms = options->retry_ms;
    client->progress = options->progress;
    client->progress_arg = options->progress_arg;
    client->batch_bytes_max =
        options->batch_bytes_max == 0 ? BYTES_DEFAULT : options->batch_bytes_max;
    if (options->fingerprint != 0)
        (void)snprintf(client->fingerprint, sizeof(client->fingerprint), "%016" PRIx64,
                       options->fingerprint);
    rc = g4_endpoint_new(&client->endpoint,
                         &(struct g4_endpoint_options){.url = options->endpoint,
                                                       .bucket = options->bucket,
                                                       .region = options->region,
                                                       .access_key = options->access_key,
                                                       .secret_key = options->secret_key,
                                                       .path_style = true},
                         err);
    if (rc == KVT_OK) {
        rc = make_handles(client, connections);
        if (rc != KVT_OK)
            (void)kvt_error_set(err, rc, "gateway client");
    }
    if (rc != KVT_OK) {
        g4_batch_client_close(client);
        return rc;
    }
    *out = client;
    return KVT_OK;
}

void
g4_batch_client_close(struct g4_batch_client *client)
{
    if (client == NULL)
        return;
    assert(client->shared.free_count == client->handle_count); /* no call is under way */
    for (unsigned i = 0; i < client->handle_count; i++)
        curl_easy_cleanup(client->handles[i]);
    kvt_free(client->handles);
    kvt_free(client->shared.free);
    g4_endpoint_free(client->endpoint);
    (void)pthread_cond_destroy(&client->shared.changed);
    (void)pthread_mutex_destroy(&client->shared.lock);
    kvt_free(client);
    curl_global_cleanup();
}
