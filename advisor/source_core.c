#include "advisor/source_private.h"
#include "base/clock.h"
#include "wire/bus.h"
#include "wire/event.h"

/* Plain messages: heard once, on a NATS thread, which copies and leaves. */

static void
heard(void *arg, const char *subject, const char *reply, const void *bytes, size_t size)
{
    struct advisor_source *source = arg;
    struct advisor_item *item;

    (void)reply;
    if (advisor_item_new(&item, ADVISOR_ITEM_MESSAGE, subject, bytes, size) != KVT_OK)
        return; /* its numbers will be missed */
    item->time_ms = kvt_clock_unix_ms();
    (void)advisor_source_push(source, item);
}

static enum kvt_err
core_open(struct advisor_source *source)
{
    struct kvt_error err;
    const enum kvt_err rc =
        wire_bus_subscribe(source->options.bus, source->options.subject, heard, source, &err);

    source->subscribed = rc == KVT_OK;
    advisor_source_set_running(source, rc == KVT_OK, rc == KVT_OK ? "" : err.text);
    return rc;
}

static void
core_close(struct advisor_source *source)
{
    if (source->subscribed)
        wire_bus_unsubscribe(source->options.bus, source->options.subject, source);
    source->subscribed = false;
}

const struct advisor_source_ops advisor_source_core = {
    .name = "kvtier-core",
    .open = core_open,
    .close = core_close,
    .decode = wire_event_decode,
};
