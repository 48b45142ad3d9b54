#include "wire/nats/ack_marks.h"

#include <string.h>

#include "base/core/alloc.h"

/* The newest stays, as it is what is acknowledged when all is quiet. */
static void
thin(struct wire_ack_marks *marks)
{
    size_t kept = 0;

    for (size_t i = 0; i < marks->count; i++) {
        if (i % 2 == 1)
            marks->at[kept++] = marks->at[i];
        else
            kvt_free(marks->at[i].subject);
    }
    marks->count = kept;
}

void
wire_ack_marks_add(struct wire_ack_marks *marks, uint64_t seq, const char *subject)
{
    char *copy = kvt_strdup(subject);

    if (copy == NULL)
        return;
    if (marks->count == WIRE_ACK_MARKS_MAX)
        thin(marks);
    marks->at[marks->count++] = (struct wire_ack_mark){.seq = seq, .subject = copy};
}

struct wire_ack_mark
wire_ack_marks_take(struct wire_ack_marks *marks, uint64_t seq)
{
    struct wire_ack_mark mark = {.subject = NULL};
    size_t count = 0;

    while (count < marks->count && marks->at[count].seq <= seq) {
        kvt_free(mark.subject);
        mark = marks->at[count++];
    }
    if (count == 0)
        return mark;
    marks->count -= count;
    memmove(marks->at, marks->at + count, marks->count * sizeof(marks->at[0]));
    return mark;
}

void
wire_ack_marks_clear(struct wire_ack_marks *marks)
{
    for (size_t i = 0; i < marks->count; i++)
        kvt_free(marks->at[i].subject);
    marks->count = 0;
}
