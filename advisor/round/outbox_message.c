#include "advisor/round/outbox.h"
#include "base/core/alloc.h"
#include "wire/nats/bus.h"

enum kvt_err
advisor_outbox_message_new(struct advisor_outbox_message **out,
                           enum advisor_outbox_message_kind kind)
{
    struct advisor_outbox_message *letter = kvt_calloc(1, sizeof(*letter));

    *out = letter;
    if (letter == NULL)
        return KVT_NOMEM;
    kvt_buffer_init(&letter->bytes, WIRE_BUS_MESSAGE_MAX);
    letter->kind = kind;
    kvt_buffer_init(&letter->answer, kind == ADVISOR_OUTBOX_MESSAGE_FILL ? ADVISOR_OUTBOX_ANSWER_MAX
                                                                         : WIRE_BUS_MESSAGE_MAX);
    return KVT_OK;
}

void
advisor_outbox_message_free(struct advisor_outbox_message *letter)
{
    if (letter == NULL)
        return;
    kvt_buffer_release(&letter->bytes);
    kvt_buffer_release(&letter->answer);
    kvt_free(letter);
}
