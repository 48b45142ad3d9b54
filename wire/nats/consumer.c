#include "wire/nats/consumer.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"

enum {
    ANSWER_MS = 2000, /* how long an answer about what there is may take */
    REQUEST_MAX = 128,
    REPLY_MAX = 128,
};

#define NS_PER_MS UINT64_C(1000000)

/* What the server says in the header "Status" of a message that is none of the stream's. */
enum {
    STATUS_HEARTBEAT = 100,
    STATUS_NO_MESSAGES = 404,
    STATUS_OVER = 408,
    STATUS_REFUSED = 409,
};

/* An inbox, with a place for each request's number. */
static natsStatus
subscribe_inbox(struct wire_consumer *consumer)
{
    char subject[REPLY_MAX];
    natsStatus s = natsInbox_Create(&consumer->inbox);
    int size;

    if (s != NATS_OK)
        return s;
    size = snprintf(subject, sizeof(subject), "%s.*", consumer->inbox);
    if (size < 0 || (size_t)size >= sizeof(subject))
        return NATS_INSUFFICIENT_BUFFER;
    s = natsConnection_SubscribeSync(&consumer->nats, consumer->bus->nc, subject);
    /* What is on its way is bounded by one request; the library must not drop any of it. */
    return s == NATS_OK ? natsSubscription_SetPendingLimits(consumer->nats, -1, -1) : s;
}

enum kvt_err
wire_consumer_bind(struct wire_consumer *consumer, jsConsumerConfig *config)
{
    jsConsumerInfo *info = NULL;
    jsErrCode code = 0;
    natsStatus s;

    s = js_AddConsumer(&info, consumer->bus->js, consumer->stream, config, NULL, &code);
    if (s == NATS_OK) {
        consumer->name = kvt_strdup(info->Name);
        s = consumer->name != NULL ? subscribe_inbox(consumer) : NATS_NO_MEMORY;
    }
    jsConsumerInfo_Destroy(info);
    if (s == NATS_OK)
        return KVT_OK;
    wire_consumer_unbind(consumer);
    return s == NATS_NO_MEMORY ? KVT_NOMEM : KVT_UNAVAILABLE;
}

void
wire_consumer_unbind(struct wire_consumer *consumer)
{
    if (consumer->nats != NULL) {
        (void)natsSubscription_Unsubscribe(consumer->nats);
        wire_bus_settle(consumer->bus);
    }
    natsSubscription_Destroy(consumer->nats);
    natsInbox_Destroy(consumer->inbox);
    kvt_free(consumer->name);
    consumer->nats = NULL;
    consumer->inbox = NULL;
    consumer->name = NULL;
    consumer->asked = 0;
}

bool
wire_consumer_exists(struct wire_consumer *consumer)
{
    jsConsumerInfo *info = NULL;
    jsErrCode code = 0;
    const natsStatus s =
        js_GetConsumerInfo(&info, consumer->bus->js, consumer->stream, consumer->name, NULL, &code);

    jsConsumerInfo_Destroy(info);
    return s == NATS_OK;
}

/* Ask for up to `count` messages that there are now; or, with `wait_ms`, for one that may come. */
static natsStatus
ask(struct wire_consumer *consumer, size_t count, uint64_t wait_ms)
{
    const int64_t largest = natsConnection_GetMaxPayload(consumer->bus->nc);
    const int64_t bytes =
        2 * largest > WIRE_CONSUMER_ASK_BYTES ? 2 * largest : WIRE_CONSUMER_ASK_BYTES;
    char subject[sizeof("$JS.API.CONSUMER.MSG.NEXT..") + 2 * WIRE_CONSUMER_DURABLE_MAX];
    char reply[REPLY_MAX];
    char request[REQUEST_MAX];
    int length[3];

    length[0] = snprintf(subject, sizeof(subject), "$JS.API.CONSUMER.MSG.NEXT.%s.%s",
                         consumer->stream, consumer->name);
    length[1] =
        snprintf(reply, sizeof(reply), "%s.%" PRIu64, consumer->inbox, consumer->request + 1);
    if (wait_ms > 0)
        length[2] = snprintf(request, sizeof(request), "{\"batch\":1,\"expires\":%" PRIu64 "}",
                             wait_ms * NS_PER_MS);
    else
        length[2] =
            snprintf(request, sizeof(request),
                     "{\"batch\":%zu,\"no_wait\":true,\"max_bytes\":%" PRId64 "}", count, bytes);
    if (length[0] < 0 || (size_t)length[0] >= sizeof(subject) || length[1] < 0 ||
        (size_t)length[1] >= sizeof(reply) || length[2] < 0 || (size_t)length[2] >= sizeof(request))
        return NATS_INSUFFICIENT_BUFFER;
    consumer->request++;
    consumer->asked = wait_ms > 0 ? 1 : count;
    consumer->asked_end_ms = kvt_clock_mono_ms() + (wait_ms > 0 ? wait_ms : ANSWER_MS);
    return natsConnection_PublishRequest(consumer->bus->nc, subject, reply, request, length[2]);
}

natsStatus
wire_consumer_next(struct wire_consumer *consumer, natsMsg **nats, size_t max, uint64_t end_ms,
                   bool enough, bool *asked_now)
{
    natsStatus s = natsSubscription_NextMsg(nats, consumer->nats, 0);
    uint64_t now_ms;
    bool over;

    if (s != NATS_TIMEOUT)
        return s;
    now_ms = kvt_clock_mono_ms();
    over = consumer->asked == 0 || now_ms >= consumer->asked_end_ms;
    if (now_ms >= end_ms || (over && enough))
        return NATS_TIMEOUT;
    s = over ? ask(consumer, max, *asked_now ? end_ms - now_ms : 0) : NATS_OK;
    *asked_now = *asked_now || over;
    return s == NATS_OK ? natsSubscription_NextMsg(nats, consumer->nats, (int64_t)(end_ms - now_ms))
                        : s;
}

/* Is this about the last request, not about an earlier one? */
static bool
is_about_last(const struct wire_consumer *consumer, natsMsg *nats)
{
    const char *dot = strrchr(natsMsg_GetSubject(nats), '.');

    return dot != NULL && strtoull(dot + 1, NULL, 10) == consumer->request;
}

enum kvt_err
wire_consumer_understand(struct wire_consumer *consumer, natsMsg *nats, bool *of_stream)
{
    const char *text = natsMsg_GetReply(nats);
    long status;

    *of_stream = text != NULL && text[0] != '\0';
    if (*of_stream) {
        if (consumer->asked > 0)
            consumer->asked--;
        return KVT_OK;
    }
    if (natsMsgHeader_Get(nats, "Status", &text) != NATS_OK)
        return KVT_OK; /* of somebody who guessed the inbox */
    status = strtol(text, NULL, 10);
    if (status == STATUS_HEARTBEAT || !is_about_last(consumer, nats))
        return KVT_OK;
    consumer->asked = 0;
    if (status == STATUS_NO_MESSAGES || status == STATUS_OVER)
        return KVT_OK;
    /* The next one does not fit in what is left of the request; a request for one has no limit. */
    if (status == STATUS_REFUSED && natsMsgHeader_Get(nats, "Description", &text) == NATS_OK &&
        strstr(text, "Exceeds MaxBytes") != NULL)
        return KVT_OK;
    return KVT_UNAVAILABLE;
}
