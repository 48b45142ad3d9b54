#include <string.h>

#include "advisor/source/source_zmq.h"
#include "base/core/alloc.h"

/* KVBM's own events over ZMQ: its connectors are publishers that connect to a hub, and here we are
 * the hub.  Frames: topic, payload.  Nothing is numbered, so nothing can be asked for again. */

static const char TOPIC[] = "kvbm.kv_index";

enum { FRAMES = 2 };

struct hub {
    struct advisor_source_zmq_list list;
    struct advisor_zmq *zmq;
};

static void
receive(struct advisor_source *source, struct advisor_zmq *zmq)
{
    struct advisor_zmq_message message;
    uint64_t told_ms = 0;

    while (!atomic_load(&source->stopping)) {
        const enum kvt_err rc = advisor_zmq_receive(zmq, ADVISOR_SOURCE_ZMQ_WAIT_MS, &message);
        struct advisor_inbox_item *item;
        char subject[KVT_NAMESPACE_MAX];
        size_t size;

        advisor_source_zmq_tell(source, zmq, &told_ms, "");
        if (rc != KVT_OK)
            continue;
        if (message.count != FRAMES) {
            advisor_source_zmq_refuse(source);
            continue;
        }
        size =
            message.frames[0].size < sizeof(subject) ? message.frames[0].size : sizeof(subject) - 1;
        memcpy(subject, message.frames[0].bytes, size);
        subject[size] = '\0';
        item = advisor_source_zmq_item(subject, &message.frames[1]);
        if (item != NULL && !advisor_source_push_wait(source, item))
            return;
    }
}

static void *
run(void *arg)
{
    struct advisor_source *source = arg;
    const struct hub *hub = source->own;
    bool going = true;

    for (size_t i = 0; going && i < hub->list.count; i++)
        going = advisor_source_zmq_bind(source, hub->zmq, 0, hub->list.texts[i]);
    if (going)
        receive(source, hub->zmq);
    return NULL;
}

static enum kvt_err
kvbm_open(struct advisor_source *source)
{
    const char *topic = source->options.topic;
    struct hub *hub = kvt_calloc(1, sizeof(*hub));
    struct kvt_error err = {.text = "no address to listen on"};
    uint32_t socket;
    enum kvt_err rc;

    source->own = hub;
    if (hub == NULL)
        return KVT_NOMEM;
    rc = advisor_source_zmq_split(&hub->list, source->options.endpoints, false, &err);
    if (rc == KVT_OK && hub->list.count == 0)
        rc = KVT_INVALID;
    if (rc != KVT_OK)
        return advisor_source_zmq_fail(source, rc, &err);
    rc = advisor_zmq_new(&hub->zmq);
    if (rc != KVT_OK)
        return rc;
    rc = advisor_zmq_open(hub->zmq, ADVISOR_ZMQ_SUBSCRIBER,
                          topic == NULL || topic[0] == '\0' ? TOPIC : topic, &socket, &err);
    if (rc != KVT_OK)
        return advisor_source_zmq_fail(source, rc, &err);
    return advisor_source_zmq_start(source, run);
}

static void
kvbm_close(struct advisor_source *source)
{
    struct hub *hub = source->own;

    advisor_source_join(source);
    if (hub != NULL) {
        advisor_source_zmq_release(&hub->list);
        advisor_zmq_free(hub->zmq);
    }
    kvt_free(hub);
    source->own = NULL;
}

const struct advisor_source_ops advisor_source_kvbm_zmq = {
    .name = "kvbm-zmq",
    .dialect = WIRE_DIALECT_KVBM,
    .open = kvbm_open,
    .close = kvbm_close,
};
