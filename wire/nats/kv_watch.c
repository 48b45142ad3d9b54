#include "wire/nats/kv_watch.h"

#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "wire/nats/consumer.h"
#include "wire/nats/kv_watch_internal.h"

/*
 * A listing is a consumer that begins with the last message of each key and goes on with what
 * comes.  It is whole when the server says that nothing more waits; nothing else ends it, for keys
 * that were not told yet would be taken for gone.
 */

enum {
    INACTIVE_MS = 30000, /* a consumer nobody asks goes */
    IDLE_CHECK_MS = 1000,
    BEHIND_CHECKS = 3, /* with messages in the bucket and none that comes, in a row */
    AGAIN_MS = 60000,  /* listed again when nothing asks for it */
    AWAY_WAIT_MS = 50,
    NOTHING_WAIT_MS = 200, /* how long a call waits when there is no bucket, or nobody answers */
    ANSWER_MS = 1000,      /* how long an answer about what there is may take */
    LOOK_UP_AGAIN_MS = 50, /* it is there still */
    FETCH_MAX = 256,
    POLL_MAX = 4096,
    WAITING_MAX = 64,
};

#define NS_PER_MS INT64_C(1000000)

struct wire_kv_watch {
    struct wire_bus *bus;
    wire_kv_watch_fn *callback;
    void *arg;
    char stream[sizeof("KV_") + WIRE_KV_WATCH_BUCKET_MAX];
    char subject[sizeof("$KV..>") + WIRE_KV_WATCH_BUCKET_MAX];
    size_t prefix; /* of `subject`, before the key */

    struct wire_consumer consumer;
    uint64_t consumer_seq;     /* of the last message that came */
    uint64_t bound_reconnects; /* of the bus, then */
    bool back;                 /* this listing comes behind an absence of the server */
    bool anew;                 /* the bucket is another one than the keys are of */
    bool listing;
    bool heard; /* something, since it was looked at */
    uint32_t listing_number;

    uint64_t created_ms; /* of the bucket; 0: not known */
    uint64_t last_seq;   /* of the bucket, that came or is known to have no message */
    uint64_t messages;   /* in the bucket, when it was last looked at */
    uint64_t looked_ms;  /* when that was */
    uint64_t listed_ms;
    unsigned behind;

    struct wire_kv_watch_keys keys;
    uint64_t due_ms; /* no key's age is over before; UINT64_MAX: none's is */
    struct wire_kv_watch_state state;
};

bool
wire_kv_watch_bucket_ok(const char *bucket)
{
    return wire_bus_bucket_ok(bucket, WIRE_KV_WATCH_BUCKET_MAX);
}

enum kvt_err
wire_kv_watch_open(struct wire_kv_watch **out, struct wire_bus *bus, const char *bucket,
                   wire_kv_watch_fn *callback, void *arg)
{
    struct wire_kv_watch *kv;

    *out = NULL;
    if (!wire_kv_watch_bucket_ok(bucket))
        return KVT_INVALID;
    kv = kvt_calloc(1, sizeof(*kv));
    if (kv == NULL)
        return KVT_NOMEM;
    kv->bus = bus;
    kv->callback = callback;
    kv->arg = arg;
    kv->due_ms = UINT64_MAX;
    (void)snprintf(kv->stream, sizeof(kv->stream), "KV_%s", bucket);
    (void)snprintf(kv->subject, sizeof(kv->subject), "$KV.%s.>", bucket);
    kv->prefix = strlen(kv->subject) - 1;
    kv->consumer = (struct wire_consumer){.bus = bus, .stream = kv->stream};
    *out = kv;
    return KVT_OK;
}

void
wire_kv_watch_close(struct wire_kv_watch *kv)
{
    if (kv == NULL)
        return;
    wire_consumer_unbind(&kv->consumer);
    wire_kv_watch_keys_clear(&kv->keys);
    kvt_free(kv);
}

struct wire_kv_watch_state
wire_kv_watch_state(const struct wire_kv_watch *kv)
{
    struct wire_kv_watch_state state = kv->state;

    state.keys = kv->keys.count;
    return state;
}

static jsOptions
patience(void)
{
    jsOptions options;

    (void)jsOptions_Init(&options);
    options.Wait = ANSWER_MS;
    return options;
}

static void
tell(struct wire_kv_watch *kv, enum wire_kv_watch_what what, const char *key)
{
    const struct wire_kv_watch_news news = {.what = what, .key = key};

    kv->callback(kv->arg, &news);
}

/* ---- ages ---- */

static void
set_due(struct wire_kv_watch *kv, struct wire_kv_watch_key *key, uint64_t due_ms)
{
    key->due_ms = due_ms;
    if (due_ms < kv->due_ms)
        kv->due_ms = due_ms;
}

/* What was written just now lives for a whole age, and so does what its owner could not renew for a
 * while.  What was written before we looked is as old as the two clocks make it, at most: it is
 * looked up then, and may turn out to be younger. */
static void
set_age(struct wire_kv_watch *kv, struct wire_kv_watch_key *key, uint64_t written_ms)
{
    const uint64_t max_age = kv->state.max_age;
    const uint64_t now_ms = kvt_clock_mono_ms();
    const uint64_t unix_ms = kvt_clock_unix_ms();
    uint64_t age_ms = 0;

    key->due_ms = 0;
    if (max_age == 0)
        return;
    if (kv->listing && !kv->back && written_ms < unix_ms)
        age_ms = unix_ms - written_ms < max_age ? unix_ms - written_ms : max_age;
    key->over_ms = now_ms + max_age;
    set_due(kv, key, now_ms + max_age - age_ms);
}

/* Its age should be over.  False: nobody can be asked now. */
static bool
look_up(struct wire_kv_watch *kv, struct wire_kv_watch_key *key, uint64_t now_ms, bool *gone)
{
    char subject[sizeof(kv->subject) + WIRE_KV_WATCH_KEY_MAX];
    jsOptions options = patience();
    natsMsg *nats = NULL;
    jsErrCode code = 0;
    natsStatus s;

    (void)snprintf(subject, sizeof(subject), "%.*s%s", (int)kv->prefix, kv->subject, key->name);
    s = js_GetLastMsg(&nats, kv->bus->js, kv->stream, subject, &options, &code);
    /* The very revision that came an age ago is too old, whether or not the server has removed it
     * yet.  A later one is on its way to us. */
    if (s == NATS_OK)
        *gone = natsMsg_GetSequence(nats) == key->revision && now_ms >= key->over_ms;
    else if (code == JSNoMessageFoundErr)
        *gone = true;
    else
        *gone = false;
    natsMsg_Destroy(nats);
    if (!*gone)
        key->due_ms = now_ms + LOOK_UP_AGAIN_MS;
    return s == NATS_OK || code == JSNoMessageFoundErr;
}

/* The ends of those that grew too old.  KVT_UNAVAILABLE: nobody can be asked. */
static enum kvt_err
expire(struct wire_kv_watch *kv)
{
    const uint64_t now_ms = kvt_clock_mono_ms();
    struct wire_kv_watch_walk walk = {.next = NULL};
    struct wire_kv_watch_key *key;
    bool answered = true;

    if (now_ms < kv->due_ms)
        return KVT_OK;
    kv->due_ms = UINT64_MAX;
    while ((key = wire_kv_watch_keys_walk(&kv->keys, &walk)) != NULL) {
        bool gone = false;

        if (key->due_ms == 0)
            continue;
        if (key->due_ms <= now_ms && answered)
            answered = look_up(kv, key, now_ms, &gone);
        if (gone && kv->bound_reconnects != wire_bus_reconnects(kv->bus))
            answered = gone = false; /* it came back while we asked */
        if (gone) {
            tell(kv, WIRE_KV_WATCH_GONE, key->name);
            wire_kv_watch_keys_remove(&kv->keys, key);
        } else if (key->due_ms < kv->due_ms) {
            kv->due_ms = key->due_ms;
        }
    }
    return answered ? KVT_OK : KVT_UNAVAILABLE;
}

/* ---- listings ---- */

/* The server was away, and nobody could renew a key: each has one age more from now on, whether or
 * not the server has dropped it.  A revision gets it once, or a connection that comes and goes
 * would keep those who vanished for ever.  True: it is to be waited for. */
static bool
excuse(struct wire_kv_watch *kv, struct wire_kv_watch_key *key, uint64_t now_ms)
{
    if (kv->back && kv->state.max_age != 0 && !key->excused) {
        key->excused = true;
        key->over_ms = now_ms + kv->state.max_age;
        set_due(kv, key, key->over_ms);
    }
    return key->excused && now_ms < key->over_ms;
}

/* Whoever is not in it is not there. */
static void
settle(struct wire_kv_watch *kv)
{
    const uint64_t now_ms = kvt_clock_mono_ms();
    struct wire_kv_watch_walk walk = {.next = NULL};
    struct wire_kv_watch_key *key;

    while ((key = wire_kv_watch_keys_walk(&kv->keys, &walk)) != NULL) {
        if (excuse(kv, key, now_ms) && !kv->anew)
            continue;
        if (key->listing == kv->listing_number)
            continue;
        tell(kv, kv->anew ? WIRE_KV_WATCH_FORGOTTEN : WIRE_KV_WATCH_GONE, key->name);
        wire_kv_watch_keys_remove(&kv->keys, key);
    }
    kv->listing = false;
    kv->back = false;
    kv->anew = false;
    kv->listed_ms = now_ms;
    kv->state.listed = true;
    kv->state.lists++;
}

static void
unbind(struct wire_kv_watch *kv)
{
    jsOptions options = patience();
    jsErrCode code = 0;

    if (kv->consumer.name != NULL && wire_bus_connected(kv->bus))
        (void)js_DeleteConsumer(kv->bus->js, kv->stream, kv->consumer.name, &options, &code);
    wire_consumer_unbind(&kv->consumer);
    kv->state.listed = false;
}

/* Look at the bucket.  KVT_NOTFOUND: there is none; KVT_AGAIN: it is not as we have it. */
static enum kvt_err
look(struct wire_kv_watch *kv)
{
    const bool quiet = kv->consumer.nats != NULL && !kv->heard;
    jsOptions options = patience();
    jsStreamInfo *info = NULL;
    jsErrCode code = 0;
    const natsStatus s = js_GetStreamInfo(&info, kv->bus->js, kv->stream, &options, &code);
    enum kvt_err rc = KVT_OK;
    uint64_t created_ms;

    if (s != NATS_OK) {
        jsStreamInfo_Destroy(info);
        if (code != JSStreamNotFoundErr)
            return KVT_UNAVAILABLE;
        kv->state.there = false;
        return KVT_NOTFOUND;
    }
    created_ms = (uint64_t)(info->Created / NS_PER_MS);
    if (kv->created_ms != created_ms) {
        /* Its revisions begin anew: none says that a key is as it was. */
        if (kv->created_ms != 0)
            kv->anew = true;
        wire_kv_watch_keys_forget_revisions(&kv->keys);
        rc = KVT_AGAIN;
    } else if (quiet && info->State.LastSeq > kv->last_seq) {
        rc = ++kv->behind >= BEHIND_CHECKS ? KVT_AGAIN : KVT_OK;
    } else if (quiet && info->State.Msgs != kv->messages) {
        rc = KVT_AGAIN; /* something went without a word */
    }
    if (!quiet || info->State.LastSeq <= kv->last_seq)
        kv->behind = 0;
    if (!quiet)
        kv->last_seq = info->State.LastSeq;
    kv->messages = info->State.Msgs;
    kv->created_ms = created_ms;
    kv->heard = false;
    kv->state.there = true;
    kv->state.max_age = info->Config == NULL ? 0 : (uint64_t)(info->Config->MaxAge / NS_PER_MS);
    jsStreamInfo_Destroy(info);
    return rc;
}

/* Does the consumer have nothing more to send?  KVT_UNAVAILABLE: it is of no use. */
static enum kvt_err
look_at_consumer(struct wire_kv_watch *kv)
{
    jsOptions options = patience();
    jsConsumerInfo *info = NULL;
    jsErrCode code = 0;
    const natsStatus s =
        js_GetConsumerInfo(&info, kv->bus->js, kv->stream, kv->consumer.name, &options, &code);

    if (s == NATS_OK && kv->listing && info->NumPending == 0 &&
        info->Delivered.Consumer == kv->consumer_seq)
        settle(kv);
    jsConsumerInfo_Destroy(info);
    return s == NATS_OK ? KVT_OK : KVT_UNAVAILABLE;
}

static enum kvt_err
bind(struct wire_kv_watch *kv)
{
    const uint64_t reconnects = wire_bus_reconnects(kv->bus);
    jsConsumerConfig config;
    enum kvt_err rc = look(kv);

    if (rc != KVT_OK && rc != KVT_AGAIN)
        return rc;
    (void)jsConsumerConfig_Init(&config);
    config.FilterSubject = kv->subject;
    config.MaxWaiting = WAITING_MAX;
    config.DeliverPolicy = js_DeliverLastPerSubject;
    config.AckPolicy = js_AckNone;
    config.InactiveThreshold = INACTIVE_MS * NS_PER_MS;
    config.MemoryStorage = true;
    rc = wire_consumer_bind(&kv->consumer, &config);
    if (rc != KVT_OK)
        return rc;
    kv->back = kv->back || kv->bound_reconnects != reconnects;
    kv->bound_reconnects = reconnects;
    kv->consumer_seq = 0;
    kv->listing = true;
    kv->listing_number++;
    kv->looked_ms = kvt_clock_mono_ms();
    kv->behind = 0;
    rc = look_at_consumer(kv); /* an empty bucket sends nothing */
    if (rc != KVT_OK)
        unbind(kv);
    return rc;
}

/* ---- messages ---- */

static enum kvt_err
put(struct wire_kv_watch *kv, const char *name, uint64_t revision, uint64_t written_ms,
    natsMsg *nats)
{
    struct wire_kv_watch_key *key = wire_kv_watch_keys_find(&kv->keys, name);
    const struct wire_kv_watch_news news = {.what = WIRE_KV_WATCH_PUT,
                                            .key = name,
                                            .revision = revision,
                                            .value = natsMsg_GetData(nats),
                                            .size = (size_t)natsMsg_GetDataLength(nats)};
    enum kvt_err rc = KVT_OK;

    if (key == NULL)
        rc = wire_kv_watch_keys_add(&kv->keys, name, &key);
    if (rc == KVT_RANGE || rc == KVT_FULL) {
        kv->state.over++;
        return KVT_OK;
    }
    if (rc != KVT_OK)
        return rc;
    key->listing = kv->listing_number;
    if (key->revision == revision)
        return KVT_OK;
    key->revision = revision;
    key->excused = false;
    set_age(kv, key, written_ms);
    kv->callback(kv->arg, &news);
    return KVT_OK;
}

/* Deleted, purged, or (of newer servers) a mark that it grew too old. */
static bool
ends(natsMsg *nats)
{
    const char *text;

    if (natsMsgHeader_Get(nats, "Nats-Marker-Reason", &text) == NATS_OK)
        return true;
    return natsMsgHeader_Get(nats, "KV-Operation", &text) == NATS_OK &&
           (strcmp(text, "DEL") == 0 || strcmp(text, "PURGE") == 0);
}

/* KVT_AGAIN: others before it never came. */
static enum kvt_err
take_message(struct wire_kv_watch *kv, natsMsg *nats)
{
    const char *subject = natsMsg_GetSubject(nats);
    jsMsgMetaData *meta = NULL;
    struct wire_kv_watch_key *key;
    enum kvt_err rc = KVT_OK;

    if (natsMsg_GetMetaData(&meta, nats) != NATS_OK)
        return KVT_NOMEM;
    if (meta->Sequence.Consumer != kv->consumer_seq + 1 ||
        strncmp(subject, kv->subject, kv->prefix) != 0) {
        jsMsgMetaData_Destroy(meta);
        return KVT_AGAIN;
    }
    kv->consumer_seq++;
    kv->heard = true;
    if (meta->Sequence.Stream > kv->last_seq)
        kv->last_seq = meta->Sequence.Stream;
    if (!ends(nats)) {
        rc = put(kv, subject + kv->prefix, meta->Sequence.Stream,
                 (uint64_t)(meta->Timestamp / NS_PER_MS), nats);
    } else if ((key = wire_kv_watch_keys_find(&kv->keys, subject + kv->prefix)) != NULL) {
        tell(kv, WIRE_KV_WATCH_GONE, key->name);
        wire_kv_watch_keys_remove(&kv->keys, key);
    }
    if (rc == KVT_OK && kv->listing && meta->NumPending == 0)
        settle(kv);
    jsMsgMetaData_Destroy(meta);
    return rc;
}

/* What came.  KVT_AGAIN: the consumer is of no use. */
static enum kvt_err
pull(struct wire_kv_watch *kv, uint64_t end_ms)
{
    bool asked_now = false;
    enum kvt_err rc = KVT_OK;
    size_t taken = 0;

    while (rc == KVT_OK && taken < POLL_MAX) {
        natsMsg *nats = NULL;
        bool of_stream = false;
        const natsStatus s =
            wire_consumer_next(&kv->consumer, &nats, FETCH_MAX, end_ms, taken > 0, &asked_now);

        if (s == NATS_TIMEOUT)
            return KVT_OK;
        if (s != NATS_OK)
            return s == NATS_NO_MEMORY ? KVT_NOMEM : KVT_AGAIN;
        rc = wire_consumer_understand(&kv->consumer, nats, &of_stream);
        if (rc == KVT_OK && of_stream) {
            rc = take_message(kv, nats);
            taken++;
        } else if (rc != KVT_OK) {
            rc = KVT_AGAIN;
        }
        natsMsg_Destroy(nats);
    }
    return rc;
}

/* Is all that is there on its way to us?  KVT_AGAIN: list it again. */
static enum kvt_err
check(struct wire_kv_watch *kv)
{
    const uint64_t now_ms = kvt_clock_mono_ms();
    enum kvt_err rc;

    if (now_ms - kv->looked_ms < IDLE_CHECK_MS)
        return KVT_OK;
    kv->looked_ms = now_ms;
    if (!kv->listing && now_ms - kv->listed_ms >= AGAIN_MS)
        return KVT_AGAIN;
    rc = look(kv);
    if (rc == KVT_OK && look_at_consumer(kv) != KVT_OK)
        rc = KVT_AGAIN;
    return rc;
}

static void
nap(uint64_t wait_ms, uint64_t most_ms)
{
    kvt_clock_sleep_ms(wait_ms < most_ms ? wait_ms : most_ms);
}

enum kvt_err
wire_kv_watch_poll(struct wire_kv_watch *kv, uint64_t wait_ms)
{
    uint64_t end_ms = kvt_clock_mono_ms() + (wait_ms > 0 ? wait_ms : 1);
    enum kvt_err rc = KVT_OK;

    if (!wire_bus_connected(kv->bus)) {
        nap(wait_ms, AWAY_WAIT_MS);
        return KVT_UNAVAILABLE;
    }
    if (kv->consumer.nats != NULL && kv->bound_reconnects != wire_bus_reconnects(kv->bus))
        unbind(kv);
    if (kv->consumer.nats == NULL)
        rc = bind(kv);
    if (rc == KVT_OK && !kv->listing) {
        rc = expire(kv);
        end_ms = kv->due_ms < end_ms ? kv->due_ms : end_ms;
    }
    if (rc == KVT_OK)
        rc = pull(kv, end_ms);
    if (rc == KVT_OK)
        rc = check(kv);
    if (rc == KVT_OK)
        return KVT_OK;
    unbind(kv);
    if (rc == KVT_AGAIN)
        return KVT_OK;
    kv->back = kv->back || rc == KVT_UNAVAILABLE; /* who could not renew a key there is not gone */
    nap(wait_ms, NOTHING_WAIT_MS);
    return rc;
}
