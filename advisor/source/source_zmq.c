#include "advisor/source/source_zmq.h"

#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/core/log.h"

enum { TELL_EVERY_MS = 250, BIND_AGAIN_MS = 500 };

static const char BLANKS[] = " \t\r\n";

static bool
is_address(const char *text)
{
    return strncmp(text, "tcp://", 6) == 0 || strncmp(text, "ipc://", 6) == 0;
}

/* The part of `text` in front of the next comma, without blanks around it. */
static size_t
trim(const char **text, size_t size)
{
    const size_t lead = strspn(*text, BLANKS);

    if (lead >= size)
        return 0;
    *text += lead;
    size -= lead;
    while (size > 0 && strchr(BLANKS, (*text)[size - 1]) != NULL)
        size--;
    return size;
}

static enum kvt_err
add(struct advisor_source_zmq_list *list, const char *part, size_t size, bool gaps,
    struct kvt_error *err)
{
    char *text;

    if (list->count == ADVISOR_ENDPOINTS_MAX)
        return kvt_error_set(err, KVT_RANGE, "more than %d addresses", ADVISOR_ENDPOINTS_MAX);
    if (size >= ADVISOR_ZMQ_ENDPOINT_MAX)
        return kvt_error_set(err, KVT_RANGE, "an address of more than %d bytes",
                             ADVISOR_ZMQ_ENDPOINT_MAX - 1);
    text = list->texts[list->count];
    memcpy(text, part, size);
    text[size] = '\0';
    if (!(gaps && size == 0) && !is_address(text))
        return kvt_error_set(err, KVT_INVALID,
                             "\"%s\" is no address: tcp://host:port or ipc://path", text);
    list->count++;
    return KVT_OK;
}

enum kvt_err
advisor_source_zmq_split(struct advisor_source_zmq_list *list, const char *text, bool gaps,
                         struct kvt_error *err)
{
    size_t capacity = 1;

    *list = (struct advisor_source_zmq_list){0};
    if (text == NULL || text[strspn(text, BLANKS)] == '\0')
        return KVT_OK;
    for (const char *at = text; *at != '\0' && capacity < ADVISOR_ENDPOINTS_MAX; at++)
        capacity += *at == ',' ? 1 : 0;
    list->texts = kvt_calloc(capacity, sizeof(*list->texts));
    if (list->texts == NULL)
        return kvt_error_set(err, KVT_NOMEM, "out of memory");
    for (;;) {
        const size_t size = strcspn(text, ",");
        const char *part = text;
        const size_t trimmed = trim(&part, size);
        const enum kvt_err rc = add(list, part, trimmed, gaps, err);

        if (rc != KVT_OK) {
            advisor_source_zmq_release(list);
            return rc;
        }
        if (text[size] == '\0')
            return KVT_OK;
        text += size + 1;
    }
}

void
advisor_source_zmq_release(struct advisor_source_zmq_list *list)
{
    kvt_free(list->texts);
    *list = (struct advisor_source_zmq_list){0};
}

struct advisor_inbox_item *
advisor_source_zmq_item(const char *subject, const struct advisor_zmq_frame *body)
{
    struct advisor_inbox_item *item;

    if (advisor_inbox_item_new(&item, ADVISOR_INBOX_ITEM_MESSAGE, subject, body->bytes,
                               body->size) != KVT_OK)
        return NULL;
    item->time_ms = kvt_clock_unix_ms();
    return item;
}

void
advisor_source_zmq_refuse(struct advisor_source *source)
{
    (void)pthread_mutex_lock(&source->shared.lock);
    source->shared.state.refused++;
    (void)pthread_mutex_unlock(&source->shared.lock);
}

void
advisor_source_zmq_tell(struct advisor_source *source, struct advisor_zmq *zmq, uint64_t *told_ms,
                        const char *extra)
{
    const uint64_t now_ms = kvt_clock_mono_ms();
    struct advisor_zmq_state state;
    char detail[128] = "";

    if (*told_ms != 0 && now_ms - *told_ms < TELL_EVERY_MS)
        return;
    *told_ms = now_ms;
    advisor_zmq_state(zmq, &state);
    if (state.connected < state.wanted && state.away[0] != '\0')
        (void)snprintf(detail, sizeof(detail), "%u of %u connected; not %.60s%s", state.connected,
                       state.wanted, state.away, extra);
    else if (state.connected < state.wanted)
        (void)snprintf(detail, sizeof(detail), "%u of %u connected%s", state.connected,
                       state.wanted, extra);
    else if (state.wanted == 0 && state.bound == 0)
        (void)snprintf(detail, sizeof(detail), "no publisher is known%s", extra);
    else
        (void)snprintf(detail, sizeof(detail), "%s", extra[0] == ';' ? extra + 2 : extra);
    advisor_source_set_running(source, state.bound > 0 || state.connected > 0, detail);
    (void)pthread_mutex_lock(&source->shared.lock);
    source->shared.state.refused += state.refused;
    (void)pthread_mutex_unlock(&source->shared.lock);
}

bool
advisor_source_zmq_bind(struct advisor_source *source, struct advisor_zmq *zmq, uint32_t socket,
                        const char *endpoint)
{
    bool told = false;

    while (!atomic_load(&source->stopping)) {
        struct kvt_error err;
        uint64_t left_ms = BIND_AGAIN_MS;

        if (advisor_zmq_bind(zmq, socket, endpoint, &err) == KVT_OK)
            return true;
        advisor_source_set_running(source, false, err.text);
        if (!told)
            kvt_log_warn("advisor.source", "bind", "%s: %s", source->options.name, err.text);
        told = true;
        for (; left_ms > 0 && !atomic_load(&source->stopping);
             left_ms -= ADVISOR_SOURCE_ZMQ_WAIT_MS)
            kvt_clock_sleep_ms(ADVISOR_SOURCE_ZMQ_WAIT_MS);
    }
    return false;
}

enum kvt_err
advisor_source_zmq_fail(struct advisor_source *source, enum kvt_err code,
                        const struct kvt_error *err)
{
    advisor_source_set_running(source, false, err->text);
    kvt_log_error("advisor.source", "open", "%s: %s", source->options.name, err->text);
    return code;
}

uint64_t
advisor_source_zmq_be64(const uint8_t bytes[8])
{
    uint64_t value = 0;

    for (int i = 0; i < 8; i++)
        value = value << 8 | bytes[i];
    return value;
}

enum kvt_err
advisor_source_zmq_start(struct advisor_source *source, void *(*run)(void *arg))
{
    advisor_source_set_running(source, false, "connecting");
    return advisor_source_start(source, run, source);
}
