#include <string.h>

#include "advisor/source_zmq.h"
#include "base/alloc.h"

/* KVBM's own events over ZMQ: its connectors are publishers that connect to a hub, and here we are
 * the hub.  Frames: topic, payload.  Nothing is numbered, so nothing can be asked for again. */

static const char TOPIC[] = "kvbm.kv_index";

enum { FRAMES = 2 };

static void
receive(struct advisor_source *source, struct advisor_zmq *zmq)
{
    struct advisor_zmq_message message;
    uint64_t told_ms = 0;

    while (!atomic_load(&source->stopping)) {
        const enum kvt_err rc = advisor_zmq_receive(zmq, ADVISOR_SOURCE_ZMQ_WAIT_MS, &message);
        struct advisor_item *item;
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
    const struct advisor_source_options *options = &source->options;
    const struct advisor_source_zmq_list *list = source->own;
    const char *topic =
        options->topic == NULL || options->topic[0] == '\0' ? TOPIC : options->topic;
    struct advisor_zmq *zmq;
    struct kvt_error err = {.text = "out of memory"};
    enum kvt_err rc = advisor_zmq_new(&zmq);
    bool going = true;
    uint32_t socket;

    if (rc == KVT_OK)
        rc = advisor_zmq_open(zmq, ADVISOR_ZMQ_SUBSCRIBER, topic, &socket, &err);
    for (size_t i = 0; rc == KVT_OK && going && i < list->count; i++)
        going = advisor_source_zmq_bind(source, zmq, socket, list->texts[i]);
    if (rc != KVT_OK)
        (void)advisor_source_zmq_fail(source, rc, &err);
    else if (going)
        receive(source, zmq);
    advisor_zmq_free(zmq);
    return NULL;
}

static enum kvt_err
kvbm_open(struct advisor_source *source)
{
    struct advisor_source_zmq_list *list = kvt_calloc(1, sizeof(*list));
    struct kvt_error err = {.text = "no address to listen on"};
    enum kvt_err rc;

    source->own = list;
    if (list == NULL)
        return KVT_NOMEM;
    rc = advisor_source_zmq_split(list, source->options.endpoints, false, &err);
    if (rc == KVT_OK && list->count == 0)
        rc = KVT_INVALID;
    if (rc != KVT_OK)
        return advisor_source_zmq_fail(source, rc, &err);
    return advisor_source_zmq_start(source, run);
}

static void
kvbm_close(struct advisor_source *source)
{
    advisor_source_zmq_stop(source);
    if (source->own != NULL)
        advisor_source_zmq_release(source->own);
    kvt_free(source->own);
    source->own = NULL;
}

const struct advisor_source_ops advisor_source_kvbm_zmq = {
    .name = "kvbm-zmq",
    .dialect = WIRE_DIALECT_KVBM,
    .open = kvbm_open,
    .close = kvbm_close,
};
