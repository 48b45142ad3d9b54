#include "wire/nats/bus.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/log.h"
#include "base/core/random.h"
#include "base/core/redact.h"
#include "wire/message/subject.h"
#include "wire/nats/bus_state.h"

enum {
    CONNECT_TIMEOUT_MS = 2000,
    RECONNECT_WAIT_MS = 250,
    RECONNECT_JITTER_MS = 100,
    PING_INTERVAL_MS = 10000,
    PINGS_OUT_MAX = 2,
    WRITE_DEADLINE_MS = 5000,
    API_WAIT_MS = 5000,
    SECRET_FILE_MAX = 4096,
};

enum { ROW_URL, ROW_USER_FILE, ROW_TOKEN_FILE, ROW_CREDS_FILE, ROW_CA_FILE }; /* config/nats.def */

struct wire_bus_options
wire_bus_options_of(const struct kvt_config *config, size_t url)
{
    return (struct wire_bus_options){
        .url = kvt_config_string(config, url + ROW_URL),
        .user_file = kvt_config_string(config, url + ROW_USER_FILE),
        .token_file = kvt_config_string(config, url + ROW_TOKEN_FILE),
        .creds_file = kvt_config_string(config, url + ROW_CREDS_FILE),
        .ca_file = kvt_config_string(config, url + ROW_CA_FILE),
    };
}

enum kvt_err
wire_bus_error(natsStatus status)
{
    switch (status) {
    case NATS_OK: return KVT_OK;
    case NATS_TIMEOUT: return KVT_TIMEOUT;
    case NATS_NO_MEMORY: return KVT_NOMEM;
    case NATS_MAX_PAYLOAD: return KVT_RANGE;
    case NATS_INSUFFICIENT_BUFFER: return KVT_AGAIN;
    case NATS_NOT_FOUND: return KVT_NOTFOUND;
    case NATS_NOT_PERMITTED:
    case NATS_CONNECTION_AUTH_FAILED: return KVT_DENIED;
    case NATS_INVALID_ARG:
    case NATS_INVALID_SUBJECT:
    case NATS_ADDRESS_MISSING: return KVT_INVALID;
    default: return KVT_UNAVAILABLE;
    }
}

/* Without one the library waits for its first connection. */
static void
on_connected(natsConnection *nc, void *arg)
{
    (void)nc;
    (void)arg;
}

/* The last callback of a connection: the library calls them in order, on one thread. */
static void
on_closed(natsConnection *nc, void *arg)
{
    struct wire_bus *bus = arg;

    (void)nc;
    (void)pthread_mutex_lock(&bus->shared.lock);
    bus->shared.closed = true;
    (void)pthread_cond_broadcast(&bus->shared.completed);
    (void)pthread_mutex_unlock(&bus->shared.lock);
}

/* Without a handler the library prints to stderr.  What matters of an asynchronous error shows in
 * the connection's state and in the caller's timeouts. */
static void
on_error(natsConnection *nc, natsSubscription *subscription, natsStatus status, void *arg)
{
    (void)nc;
    (void)subscription;
    (void)status;
    (void)arg;
}

/* The first line of a secret's file, NUL-terminated. */
static enum kvt_err
read_secret(char **out, const char *path, struct kvt_error *err)
{
    size_t size;
    enum kvt_err rc = kvt_file_read(out, &size, path, SECRET_FILE_MAX, err);

    if (rc == KVT_OK)
        (*out)[strcspn(*out, "\r\n")] = '\0';
    return rc;
}

static void
wipe(char *secret)
{
    if (secret != NULL)
        explicit_bzero(secret, strlen(secret));
    kvt_free(secret);
}

static bool
is_set(const char *text)
{
    return text != NULL && text[0] != '\0';
}

static enum kvt_err
set_credentials(natsOptions *nats, const struct wire_bus_options *options, struct kvt_error *err)
{
    char *secret = NULL;
    natsStatus s = NATS_OK;
    enum kvt_err rc;
    char *colon;

    if (is_set(options->user_file)) {
        rc = read_secret(&secret, options->user_file, err);
        if (rc != KVT_OK)
            return rc;
        colon = strchr(secret, ':');
        if (colon == NULL) {
            wipe(secret);
            return kvt_error_set(err, KVT_INVALID, "%s: expected user:password",
                                 options->user_file);
        }
        *colon = '\0';
        s = natsOptions_SetUserInfo(nats, secret, colon + 1);
        *colon = ':';
        wipe(secret);
    } else if (is_set(options->token_file)) {
        rc = read_secret(&secret, options->token_file, err);
        if (rc != KVT_OK)
            return rc;
        s = natsOptions_SetToken(nats, secret);
        wipe(secret);
    } else if (is_set(options->creds_file)) {
        s = natsOptions_SetUserCredentialsFromFiles(nats, options->creds_file, NULL);
    }
    if (s != NATS_OK)
        return kvt_error_set(err, wire_bus_error(s), "NATS credentials: %s", natsStatus_GetText(s));
    return KVT_OK;
}

/* The library gives up for good where the last server of its list takes the first connection and
 * fails behind that: it has lost its place in the list.  So the last one is one to which there is
 * no connection, nor a packet on the way to one. */
static const char *const nowhere = "nats://255.255.255.255:4222";

static void
shuffle(const char **urls, size_t count)
{
    uint64_t random;

    kvt_random_system(&random, sizeof(random));
    for (size_t i = count; i > 1; i--) {
        const size_t other = kvt_random_below(&random, i);
        const char *url = urls[other];

        urls[other] = urls[i - 1];
        urls[i - 1] = url;
    }
}

/* The servers of a bus that keeps trying, in an order of our own. */
static natsStatus
set_servers(natsOptions *nats, const char *list)
{
    char *copy = kvt_strdup(list);
    const char **urls = kvt_calloc(strlen(list) + 2, sizeof(*urls));
    natsStatus s = copy == NULL || urls == NULL ? NATS_NO_MEMORY : NATS_OK;
    size_t count = 0;
    char *rest = copy;

    while (s == NATS_OK && rest != NULL) {
        urls[count] = strsep(&rest, ",");
        count += urls[count][0] != '\0' ? 1 : 0;
    }
    if (s == NATS_OK && count == 0)
        s = NATS_INVALID_ARG;
    if (s == NATS_OK) {
        shuffle(urls, count);
        urls[count] = nowhere;
        s = natsOptions_SetServers(nats, urls, (int)count + 1);
    }
    if (s == NATS_OK)
        s = natsOptions_SetNoRandomize(nats, true);
    kvt_free(urls);
    kvt_free(copy);
    return s;
}

/* One call after the other as long as all succeed; `s` carries the first failure. */
static natsStatus
set_connection(natsOptions *nats, struct wire_bus *bus, const struct wire_bus_options *options)
{
    natsStatus s = options->connect_now ? natsOptions_SetURL(nats, options->url)
                                        : set_servers(nats, options->url);

    if (s == NATS_OK)
        s = natsOptions_SetName(nats, is_set(options->name) ? options->name : "kvtier");
    if (s == NATS_OK)
        s = natsOptions_SetTimeout(nats, CONNECT_TIMEOUT_MS);
    if (s == NATS_OK)
        s = natsOptions_SetAllowReconnect(nats, true);
    if (s == NATS_OK)
        s = natsOptions_SetMaxReconnect(nats, -1);
    if (s == NATS_OK)
        s = natsOptions_SetReconnectWait(nats, RECONNECT_WAIT_MS);
    if (s == NATS_OK)
        s = natsOptions_SetReconnectJitter(nats, RECONNECT_JITTER_MS, RECONNECT_JITTER_MS);
    if (s == NATS_OK)
        s = natsOptions_SetReconnectBufSize(nats, WIRE_BUS_RECONNECT_BUFFER);
    if (s == NATS_OK)
        s = natsOptions_SetPingInterval(nats, PING_INTERVAL_MS);
    if (s == NATS_OK)
        s = natsOptions_SetMaxPingsOut(nats, PINGS_OUT_MAX);
    if (s == NATS_OK)
        s = natsOptions_SetWriteDeadline(nats, WRITE_DEADLINE_MS);
    if (s == NATS_OK)
        s = natsOptions_SetFailRequestsOnDisconnect(nats, true);
    if (s == NATS_OK)
        s = natsOptions_SetErrorHandler(nats, on_error, NULL);
    if (s == NATS_OK)
        s = natsOptions_SetClosedCB(nats, on_closed, bus);
    if (s == NATS_OK && !options->connect_now)
        s = natsOptions_SetRetryOnFailedConnect(nats, true, on_connected, NULL);
    if (s == NATS_OK && is_set(options->ca_file))
        s = natsOptions_LoadCATrustedCertificates(nats, options->ca_file);
    if (s == NATS_OK && (is_set(options->ca_file) || strncmp(options->url, "tls://", 6) == 0))
        s = natsOptions_SetSecure(nats, true);
    return s;
}

static enum kvt_err
connect_now(struct wire_bus *bus, const struct wire_bus_options *options, struct kvt_error *err)
{
    natsOptions *nats = NULL;
    jsOptions js;
    natsStatus s;
    enum kvt_err rc = KVT_OK;

    s = natsOptions_Create(&nats);
    if (s == NATS_OK)
        s = set_connection(nats, bus, options);
    if (s == NATS_OK)
        rc = set_credentials(nats, options, err);
    if (s == NATS_OK && rc == KVT_OK) {
        s = natsConnection_Connect(&bus->nc, nats);
        if (s == NATS_NOT_YET_CONNECTED)
            s = NATS_OK; /* the library keeps trying */
    }
    natsOptions_Destroy(nats);
    if (rc != KVT_OK)
        return rc;
    if (s == NATS_OK)
        s = jsOptions_Init(&js);
    if (s == NATS_OK) {
        js.Wait = API_WAIT_MS;
        s = natsConnection_JetStream(&bus->js, bus->nc, &js);
    }
    if (s != NATS_OK)
        return kvt_error_set(err, wire_bus_error(s), "NATS %s: %s", bus->url,
                             natsStatus_GetText(s));
    return KVT_OK;
}

enum kvt_err
wire_bus_open(struct wire_bus **out, const struct wire_bus_options *options, struct kvt_error *err)
{
    char shown[KVT_REDACT_URL_MAX];
    struct wire_bus *bus;
    enum kvt_err rc;

    assert(out != NULL && options != NULL && options->url != NULL);
    *out = NULL;
    kvt_redact_url(shown, sizeof(shown), options->url);
    bus = kvt_calloc(1, sizeof(*bus));
    if (bus == NULL)
        return kvt_error_set(err, KVT_NOMEM, "NATS %s: out of memory", shown);
    (void)pthread_mutex_init(&bus->shared.lock, NULL);
    (void)pthread_cond_init(&bus->shared.completed, NULL);
    bus->url = kvt_strdup(shown);
    rc = bus->url == NULL ? kvt_error_set(err, KVT_NOMEM, "NATS %s: out of memory", shown)
                          : connect_now(bus, options, err);
    if (rc != KVT_OK) {
        wire_bus_close(bus);
        return rc;
    }
    *out = bus;
    return KVT_OK;
}

void
wire_bus_close(struct wire_bus *bus)
{
    if (bus == NULL)
        return;
    for (size_t i = 0; i < WIRE_BUS_SUBSCRIPTIONS_MAX; i++)
        wire_bus_subscription_end(bus, i);
    if (bus->nc != NULL && wire_bus_connected(bus))
        (void)natsConnection_FlushTimeout(bus->nc, CONNECT_TIMEOUT_MS);
    jsCtx_Destroy(bus->js);
    if (bus->nc != NULL) {
        natsConnection_Close(bus->nc);
        /* A callback that was already queued must not find the bus gone. */
        (void)pthread_mutex_lock(&bus->shared.lock);
        while (!bus->shared.closed)
            (void)pthread_cond_wait(&bus->shared.completed, &bus->shared.lock);
        (void)pthread_mutex_unlock(&bus->shared.lock);
        natsConnection_Destroy(bus->nc);
    }
    (void)pthread_cond_destroy(&bus->shared.completed);
    (void)pthread_mutex_destroy(&bus->shared.lock);
    kvt_free(bus->url);
    kvt_free(bus);
}

bool
wire_bus_connected(struct wire_bus *bus)
{
    return natsConnection_Status(bus->nc) == NATS_CONN_STATUS_CONNECTED;
}

void
wire_bus_tell(struct wire_bus *bus, const char *area, const char *loss, bool *connected)
{
    const bool there = bus == NULL || wire_bus_connected(bus);

    if (there == *connected)
        return;
    *connected = there;
    if (there)
        kvt_log_info(area, "nats_back", "NATS answers");
    else
        kvt_log_warn(area, "nats_away", "no connection to NATS at %s: %s", bus->url, loss);
}

bool
wire_bus_refused(struct wire_bus *bus)
{
    bool closed;

    (void)pthread_mutex_lock(&bus->shared.lock);
    closed = bus->shared.closed;
    (void)pthread_mutex_unlock(&bus->shared.lock);
    return closed;
}

uint64_t
wire_bus_reconnects(struct wire_bus *bus)
{
    natsStatistics *counts = NULL;
    uint64_t reconnects = 0;
    natsStatus s = natsStatistics_Create(&counts);

    /* The library counts before it says that it is connected; its callbacks come some time behind
     * that, when who asks now has been answered by a server that was away. */
    if (s == NATS_OK)
        s = natsConnection_GetStats(bus->nc, counts);
    if (s == NATS_OK)
        s = natsStatistics_GetCounts(counts, NULL, NULL, NULL, NULL, &reconnects);
    natsStatistics_Destroy(counts);
    if (s != NATS_OK) /* no memory: as before */
        return atomic_load(&bus->reconnects);
    atomic_store(&bus->reconnects, reconnects);
    return reconnects;
}

enum kvt_err
wire_bus_publish(struct wire_bus *bus, const char *subject, const void *bytes, size_t size)
{
    assert(bus != NULL && subject != NULL);
    if (size > WIRE_BUS_MESSAGE_MAX)
        return KVT_RANGE;
    if (!wire_bus_connected(bus))
        return KVT_UNAVAILABLE;
    return wire_bus_error(natsConnection_Publish(bus->nc, subject, bytes, (int)size));
}

enum kvt_err
wire_bus_jetstream_error(natsStatus s, jsErrCode code)
{
    if (s == NATS_OK || code == 0)
        return wire_bus_error(s);
    switch (code) {
    case JSStreamStoreFailedErr:
    case JSStorageResourcesExceededErr:
    case JSMemoryResourcesExceededErr:
    case JSAccountResourcesExceededErr:
    case JSInsufficientResourcesErr: return KVT_FULL;
    case JSStreamMessageExceedsMaximumErr: return KVT_RANGE;
    default: return KVT_UNAVAILABLE;
    }
}

enum kvt_err
wire_bus_publish_acked(struct wire_bus *bus, const char *subject, const char *message_id,
                       const void *bytes, size_t size, uint64_t timeout_ms, uint64_t *stream_seq)
{
    jsPubOptions options;
    jsPubAck *ack = NULL;
    jsErrCode code = 0;
    natsStatus s;

    assert(bus != NULL && subject != NULL && timeout_ms > 0);
    if (stream_seq != NULL)
        *stream_seq = 0;
    if (size > WIRE_BUS_MESSAGE_MAX)
        return KVT_RANGE;
    if (!wire_bus_connected(bus))
        return KVT_UNAVAILABLE;
    (void)jsPubOptions_Init(&options);
    options.MsgId = message_id;
    options.MaxWait = (int64_t)timeout_ms;
    s = js_Publish(&ack, bus->js, subject, bytes, (int)size, &options, &code);
    if (s == NATS_OK && stream_seq != NULL)
        *stream_seq = ack->Sequence;
    jsPubAck_Destroy(ack);
    return wire_bus_jetstream_error(s, code);
}

enum kvt_err
wire_bus_may_publish(struct wire_bus *bus, const char *subject, uint64_t timeout_ms)
{
    jsPubOptions options;
    jsErrCode code = 0;
    natsStatus s;

    assert(bus != NULL && subject != NULL && timeout_ms > 0);
    if (!wire_bus_connected(bus))
        return KVT_UNAVAILABLE;
    (void)jsPubOptions_Init(&options);
    options.ExpectStream = "-"; /* no stream's name */
    options.MaxWait = (int64_t)timeout_ms;
    s = js_Publish(NULL, bus->js, subject, "", 0, &options, &code);
    if (code == JSStreamNotMatchErr)
        return KVT_OK;
    return s == NATS_TIMEOUT ? KVT_DENIED : KVT_UNAVAILABLE;
}

enum kvt_err
wire_bus_request(struct wire_bus *bus, const char *subject, const void *bytes, size_t size,
                 uint64_t timeout_ms, struct kvt_buffer *answer)
{
    natsMsg *message = NULL;
    enum kvt_err rc;

    assert(bus != NULL && subject != NULL && answer != NULL && timeout_ms > 0);
    if (size > WIRE_BUS_MESSAGE_MAX)
        return KVT_RANGE;
    if (!wire_bus_connected(bus))
        return KVT_UNAVAILABLE;
    rc = wire_bus_error(
        natsConnection_Request(&message, bus->nc, subject, bytes, (int)size, (int64_t)timeout_ms));
    if (rc == KVT_OK && natsMsg_GetDataLength(message) > 0) {
        kvt_buffer_append(answer, natsMsg_GetData(message), (size_t)natsMsg_GetDataLength(message));
        if (!kvt_buffer_ok(answer))
            rc = KVT_RANGE;
    }
    natsMsg_Destroy(message);
    return rc;
}

/* What KVTier's streams look like when nobody made them before. */
struct stream_shape {
    const char *name;
    const char *subject;
    jsRetentionPolicy retention;
    int64_t bytes_max;
};

static const struct stream_shape shapes[] = {
    {WIRE_STREAM_EVENTS, WIRE_SUBJECT_EVENTS_ALL, js_LimitsPolicy, INT64_C(2) << 30},
    {WIRE_STREAM_ORDERS, WIRE_SUBJECT_ORDERS_ALL, js_WorkQueuePolicy, INT64_C(256) << 20},
    {WIRE_STREAM_REPORTS, WIRE_SUBJECT_REPORTS_ALL, js_LimitsPolicy, INT64_C(256) << 20},
};

static natsStatus
ensure_stream(struct wire_bus *bus, const struct stream_shape *shape, jsErrCode *code)
{
    const int64_t second_ns = INT64_C(1000000000);
    const char *subjects[] = {shape->subject};
    jsStreamConfig config;
    jsStreamInfo *info = NULL;
    natsStatus s;

    s = js_GetStreamInfo(&info, bus->js, shape->name, NULL, code);
    jsStreamInfo_Destroy(info);
    if (s == NATS_OK || *code != JSStreamNotFoundErr)
        return s;
    s = jsStreamConfig_Init(&config);
    if (s != NATS_OK)
        return s;
    config.Name = shape->name;
    config.Subjects = subjects;
    config.SubjectsLen = 1;
    config.Retention = shape->retention;
    config.MaxBytes = shape->bytes_max;
    config.MaxAge = INT64_C(24) * 3600 * second_ns;
    config.Discard = shape->retention == js_WorkQueuePolicy ? js_DiscardNew : js_DiscardOld;
    config.Storage = js_FileStorage;
    config.Duplicates = 120 * second_ns;
    *code = 0;
    s = js_AddStream(NULL, bus->js, &config, NULL, code);
    /* Another daemon was faster, and its limits were the operator's. */
    if (s != NATS_OK && *code == JSStreamNameExistErr)
        s = NATS_OK;
    return s;
}

enum kvt_err
wire_bus_ensure_streams(struct wire_bus *bus, struct kvt_error *err)
{
    assert(bus != NULL);
    if (!wire_bus_connected(bus))
        return kvt_error_set(err, KVT_UNAVAILABLE, "NATS is not connected");
    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        jsErrCode code = 0;
        const natsStatus s = ensure_stream(bus, &shapes[i], &code);

        if (s == NATS_OK)
            continue;
        return kvt_error_set(err, s == NATS_ERR ? KVT_UNAVAILABLE : wire_bus_error(s),
                             "stream %s: %s (JetStream code %d)", shapes[i].name,
                             natsStatus_GetText(s), (int)code);
    }
    return KVT_OK;
}

bool
wire_bus_bucket_ok(const char *bucket, size_t max)
{
    const size_t size = strspn(bucket, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                       "0123456789-_");

    return size > 0 && size < max && bucket[size] == '\0';
}

enum kvt_err
wire_bus_keep_streams(struct wire_bus *bus, uint64_t *made_at, struct kvt_error *err)
{
    const uint64_t now = wire_bus_reconnects(bus) + 1;
    enum kvt_err rc = KVT_OK;

    if (now != *made_at || !wire_bus_connected(bus))
        rc = wire_bus_ensure_streams(bus, err);
    if (rc == KVT_OK)
        *made_at = now;
    return rc;
}
