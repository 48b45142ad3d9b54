#include <string.h>

#include "advisor/source/source_private.h"
#include "base/core/clock.h"
#include "wire/message/event_codec.h"
#include "wire/nats/bus.h"

enum { SUBJECT_MAX = 512, NAP_MS = 100 };

/* Plain messages: heard once, on a NATS thread, which copies and leaves. */

static void
heard(void *arg, const char *subject, const char *reply, const void *bytes, size_t size)
{
    const struct advisor_inbox_item like = {.kind = ADVISOR_INBOX_ITEM_MESSAGE,
                                            .time_ms = kvt_clock_unix_coarse_ms()};

    (void)reply;
    /* What there is no room for is dropped: its numbers will be missed. */
    (void)advisor_source_copy(arg, &like, subject, bytes, size);
}

/* The subject at `*at` of the list, copied; false: there is none left. */
static bool
next_subject(const char **at, char subject[SUBJECT_MAX])
{
    const size_t size = strcspn(*at, ",");

    if (size == 0 || size >= SUBJECT_MAX)
        return false;
    memcpy(subject, *at, size);
    subject[size] = '\0';
    *at += size + ((*at)[size] == ',' ? 1 : 0);
    return true;
}

enum kvt_err
advisor_source_open_core(struct advisor_source *source, wire_bus_message_fn *other)
{
    const char *at = source->options.subject;
    char subject[SUBJECT_MAX];
    struct kvt_error err = {.text = ""};
    enum kvt_err rc = KVT_OK;

    source->reconnects = wire_bus_reconnects(source->options.bus);
    while (rc == KVT_OK && next_subject(&at, subject)) {
        rc = wire_bus_subscribe(source->options.bus, subject, other == NULL ? heard : other, source,
                                &err);
        if (rc == KVT_OK)
            source->subscriptions++;
    }
    if (rc == KVT_OK && (source->subscriptions == 0 || *at != '\0'))
        rc = kvt_error_set(&err, KVT_INVALID, "subject \"%s\" is none", source->options.subject);
    advisor_source_set_running(source, rc == KVT_OK, rc == KVT_OK ? "" : err.text);
    return rc;
}

void
advisor_source_close_core(struct advisor_source *source)
{
    const char *at = source->options.subject;
    char subject[SUBJECT_MAX];

    for (; source->subscriptions > 0 && next_subject(&at, subject); source->subscriptions--)
        wire_bus_unsubscribe(source->options.bus, subject, source);
}

bool
advisor_source_lost(struct advisor_source *source)
{
    const uint64_t reconnects = wire_bus_reconnects(source->options.bus);
    struct advisor_source_state state;
    bool lost;

    advisor_source_state(source, &state);
    lost = reconnects != source->reconnects || state.dropped != source->dropped;
    source->reconnects = reconnects;
    source->dropped = state.dropped;
    return lost;
}

bool
advisor_source_tell_gap(struct advisor_source *source)
{
    struct advisor_inbox_item *item;

    while (advisor_inbox_item_new(&item, ADVISOR_INBOX_ITEM_GAP, "", NULL, 0) != KVT_OK) {
        if (atomic_load(&source->stopping))
            return false;
        kvt_clock_sleep_ms(NAP_MS);
    }
    item->time_ms = kvt_clock_unix_ms();
    return advisor_source_push_wait(source, item);
}

static enum kvt_err
open(struct advisor_source *source)
{
    return advisor_source_open_core(source, NULL);
}

const struct advisor_source_ops advisor_source_core = {
    .name = "kvtier-core",
    .dialect = WIRE_DIALECT_KVTIER,
    .open = open,
    .close = advisor_source_close_core,
    .decode = wire_event_decode,
};
