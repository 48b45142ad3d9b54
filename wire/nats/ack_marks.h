/*
 * wire/nats/ack_marks.h -- up to where a stream can be acknowledged.
 *
 * Why: what is applied is known by sequences, and the server is told by subjects that came with the
 * messages.  A message acknowledges all before it, so a few of them are enough.
 *
 * Ownership: the marks own copies of the subjects.
 * Threads:   none; one owner.
 * Limits:    WIRE_ACK_MARKS_MAX marks; where there are more, every second one goes, never the
 *            newest.
 */
#ifndef WIRE_NATS_ACK_MARKS_H
#define WIRE_NATS_ACK_MARKS_H

#include <stddef.h>
#include <stdint.h>

#define WIRE_ACK_MARKS_MAX 256

struct wire_ack_mark {
    uint64_t seq; /* of the stream */
    char *subject;
};

struct wire_ack_marks {
    struct wire_ack_mark at[WIRE_ACK_MARKS_MAX]; /* sequences grow */
    size_t count;
};

/** Without memory it is left out: a later one does the same. */
void wire_ack_marks_add(struct wire_ack_marks *marks, uint64_t seq, const char *subject);

/** The newest one up to `seq`, whose subject is the caller's then; it and all before it are gone.
 *  Its subject is NULL: there is none. */
struct wire_ack_mark wire_ack_marks_take(struct wire_ack_marks *marks, uint64_t seq);

void wire_ack_marks_clear(struct wire_ack_marks *marks);

#endif /* WIRE_NATS_ACK_MARKS_H */
