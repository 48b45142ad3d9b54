#include "advisor/round/outbox.h"
#include "base/core/alloc.h"
#include "wire/nats/bus.h"

enum kvt_err
advisor_letter_new(struct advisor_letter **out, enum advisor_letter_kind kind)
{
    struct advisor_letter *letter = kvt_calloc(1, sizeof(*letter));

    *out = letter;
    if (letter == NULL)
        return KVT_NOMEM;
    kvt_buffer_init(&letter->bytes, WIRE_BUS_MESSAGE_MAX);
    letter->kind = kind;
    kvt_buffer_init(&letter->answer, kind == ADVISOR_LETTER_FILL ? ADVISOR_COURIER_ANSWER_MAX
                                                                 : WIRE_BUS_MESSAGE_MAX);
    return KVT_OK;
}

void
advisor_letter_free(struct advisor_letter *letter)
{
    if (letter == NULL)
        return;
    kvt_buffer_release(&letter->bytes);
    kvt_buffer_release(&letter->answer);
    kvt_free(letter);
}
