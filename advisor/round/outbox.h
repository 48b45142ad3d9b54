/*
 * advisor/round/outbox.h -- questions and orders that wait for an answer, off the writer's thread.
 *
 * Why: a worker that hangs must cost the outbox two seconds and the writer none.
 *
 * Ownership: a message belongs to whoever holds it: the sender until advisor_outbox_send() took it,
 *            then the outbox, then whoever took it back with advisor_outbox_take().
 * Threads:   send and take on any thread; ADVISOR_OUTBOX_THREADS own threads.
 * Limits:    ADVISOR_OUTBOX_MESSAGES_MAX messages under way; sending more is KVT_AGAIN.
 */
#ifndef ADVISOR_ROUND_OUTBOX_H
#define ADVISOR_ROUND_OUTBOX_H

#include <stddef.h>
#include <stdint.h>

#include "advisor/source/source.h"
#include "base/core/buffer.h"
#include "kvtier/error.h"

#define ADVISOR_OUTBOX_THREADS      2
#define ADVISOR_OUTBOX_MESSAGES_MAX 256
#define ADVISOR_OUTBOX_WAIT_MS      2000
#define ADVISOR_OUTBOX_FILL_MS      10000 /* what a worker holds may be much */
#define ADVISOR_OUTBOX_ANSWER_MAX   (256u << 20)

struct wire_bus;
struct advisor_outbox;

enum advisor_outbox_message_kind {
    ADVISOR_OUTBOX_MESSAGE_ASK,   /* request-reply */
    ADVISOR_OUTBOX_MESSAGE_ORDER, /* publish on the stream and wait for its word */
    ADVISOR_OUTBOX_MESSAGE_FILL,  /* ask a source for what a publisher's gap lacks */
};

struct advisor_outbox_message {
    enum advisor_outbox_message_kind kind;
    uint64_t number; /* the sender's own */
    uint64_t about;  /* the sender's own: a publisher's number, an order's id */
    char subject[512];
    char message_id[64];           /* ORDER */
    struct advisor_source *source; /* FILL */
    struct advisor_ask ask;        /* FILL */
    char worker[KVT_NAME_MAX];     /* FILL: what ask.worker points to */
    char asked_by[128];            /* FILL: what ask.subject points to */
    struct kvt_buffer bytes;
    struct kvt_buffer answer;             /* ASK, FILL */
    enum advisor_answer_kind answer_kind; /* FILL */
    enum kvt_err rc;                      /* how it went */
    struct kvt_error err;                 /* FILL */
};

KVT_NODISCARD enum kvt_err advisor_outbox_message_new(struct advisor_outbox_message **out,
                                                      enum advisor_outbox_message_kind kind);
/** NULL is allowed. */
void advisor_outbox_message_free(struct advisor_outbox_message *message);

KVT_NODISCARD enum kvt_err advisor_outbox_new(struct advisor_outbox **out, struct wire_bus *bus);
/** Waits for what is under way, at most about ADVISOR_OUTBOX_FILL_MS. */
void advisor_outbox_free(struct advisor_outbox *outbox);

/** KVT_OK: taken over.  KVT_AGAIN: still the caller's. */
KVT_NODISCARD enum kvt_err advisor_outbox_send(struct advisor_outbox *outbox,
                                               struct advisor_outbox_message *message);

/** A message that is done, or NULL. */
struct advisor_outbox_message *advisor_outbox_take(struct advisor_outbox *outbox);

#endif /* ADVISOR_ROUND_OUTBOX_H */
