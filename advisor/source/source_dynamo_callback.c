#include "advisor/source/source_dynamo_callback.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/core/clock.h"
#include "wire/dialect/dynamo_rpc.h"

enum { READ_MAX = 4096 };

_Static_assert(ADVISOR_DYNAMO_GREETING_MAX >= WIRE_DYNAMO_RPC_HEADER_MAX + READ_MAX, "a name fits");

void
advisor_dynamo_callback_init(struct advisor_dynamo_callback *door, const char *subject)
{
    *door = (struct advisor_dynamo_callback){.listener = -1, .subject = subject};
    for (size_t i = 0; i < ADVISOR_DYNAMO_VISITORS_MAX; i++) {
        door->visitors[i].fd = -1;
        kvt_buffer_init(&door->visitors[i].bytes, ADVISOR_DYNAMO_GREETING_MAX);
    }
}

static void
dismiss(struct advisor_dynamo_visitor *visitor)
{
    if (visitor->fd >= 0)
        (void)close(visitor->fd);
    visitor->fd = -1;
    kvt_buffer_release(&visitor->bytes);
}

void
advisor_dynamo_callback_close(struct advisor_dynamo_callback *door)
{
    for (size_t i = 0; i < ADVISOR_DYNAMO_VISITORS_MAX; i++)
        dismiss(&door->visitors[i]);
    if (door->listener >= 0)
        (void)close(door->listener);
    door->listener = -1;
}

void
advisor_dynamo_callback_polls(const struct advisor_dynamo_callback *door, struct pollfd *items)
{
    items[0] = (struct pollfd){.fd = door->listener, .events = POLLIN};
    for (size_t i = 0; i < ADVISOR_DYNAMO_VISITORS_MAX; i++)
        items[i + 1] = (struct pollfd){.fd = door->visitors[i].fd, .events = POLLIN};
}

static enum kvt_err
welcome(struct advisor_dynamo_callback *door, struct kvt_error *err)
{
    const int fd = accept4(door->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    struct advisor_dynamo_visitor *visitor;

    if (fd < 0)
        return KVT_OK; /* it left again */
    if (door->count == ADVISOR_DYNAMO_VISITORS_MAX) {
        (void)close(fd);
        return kvt_error_set(err, KVT_UNAVAILABLE, "too many strangers dial our port");
    }
    visitor = &door->visitors[door->count++];
    visitor->fd = fd;
    visitor->until_ms = kvt_clock_mono_ms() + ADVISOR_DYNAMO_GREETING_MS;
    return KVT_OK;
}

/* False: this one will not say it any more. */
static bool
listen_to(struct advisor_dynamo_visitor *visitor)
{
    uint8_t *room = kvt_buffer_reserve(&visitor->bytes, READ_MAX);
    const ssize_t count = room == NULL ? 0 : recv(visitor->fd, room, READ_MAX, 0);

    if (count < 0)
        return errno == EAGAIN || errno == EINTR;
    visitor->bytes.size += (size_t)count;
    return count > 0;
}

/* KVT_OK: it said the name, which is `*used` bytes long; KVT_AGAIN: it may still. */
static enum kvt_err
judge(const struct advisor_dynamo_callback *door, const struct advisor_dynamo_visitor *visitor,
      size_t *used)
{
    struct wire_dynamo_rpc_frame frame;
    const enum kvt_err rc =
        wire_dynamo_rpc_read_frame(visitor->bytes.data, visitor->bytes.size, used, &frame, NULL);

    if (rc == KVT_AGAIN)
        return *used > WIRE_DYNAMO_RPC_HEADER_MAX ? KVT_INVALID : KVT_AGAIN;
    if (rc == KVT_OK &&
        (frame.kind != WIRE_DYNAMO_RPC_HANDSHAKE || strcmp(frame.subject, door->subject) != 0))
        return KVT_INVALID;
    return rc;
}

/* The rest of what it said goes with it. */
static enum kvt_err
hand_over(struct advisor_dynamo_callback *door, struct advisor_dynamo_visitor *visitor, size_t used,
          int *fd, struct kvt_buffer *frames, struct kvt_error *err)
{
    kvt_buffer_append(frames, visitor->bytes.data + used, visitor->bytes.size - used);
    if (!kvt_buffer_ok(frames))
        return kvt_error_set(err, KVT_NOMEM, "no memory for the answer");
    *fd = visitor->fd;
    visitor->fd = -1;
    advisor_dynamo_callback_close(door);
    return KVT_OK;
}

enum kvt_err
advisor_dynamo_callback_hear(struct advisor_dynamo_callback *door, const struct pollfd *items,
                             int *fd, struct kvt_buffer *frames, struct kvt_error *err)
{
    const uint64_t now_ms = kvt_clock_mono_ms();
    const uint32_t count = door->count;

    *fd = -1;
    for (uint32_t i = 0; i < count; i++) {
        struct advisor_dynamo_visitor *visitor = &door->visitors[i];
        enum kvt_err rc = KVT_AGAIN;
        size_t used = 0;

        if (visitor->fd < 0)
            continue;
        if (items[i + 1].revents != 0) {
            const bool there = listen_to(visitor);

            rc = judge(door, visitor, &used);
            if (rc == KVT_OK)
                return hand_over(door, visitor, used, fd, frames, err);
            rc = there ? rc : KVT_UNAVAILABLE;
        }
        if (rc != KVT_AGAIN || now_ms >= visitor->until_ms)
            dismiss(visitor);
    }
    return items[0].revents != 0 ? welcome(door, err) : KVT_OK;
}
