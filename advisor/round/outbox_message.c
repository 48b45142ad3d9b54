#include "advisor/round/outbox.h"
#include "base/core/alloc.h"
#include "wire/nats/bus.h"

enum kvt_err
advisor_outbox_message_new(struct advisor_outbox_message **out,
                           enum advisor_outbox_message_kind kind)
{
    struct advisor_outbox_message *message = kvt_calloc(1, sizeof(*message));

    *out = message;
    if (message == NULL)
        return KVT_NOMEM;
    kvt_buffer_init(&message->bytes, WIRE_BUS_MESSAGE_MAX);
    message->kind = kind;
    kvt_buffer_init(&message->answer, kind == ADVISOR_OUTBOX_MESSAGE_FILL
                                          ? ADVISOR_OUTBOX_ANSWER_MAX
                                          : WIRE_BUS_MESSAGE_MAX);
    return KVT_OK;
}

void
advisor_outbox_message_free(struct advisor_outbox_message *message)
{
    if (message == NULL)
        return;
    kvt_buffer_release(&message->bytes);
    kvt_buffer_release(&message->answer);
    kvt_free(message);
}
