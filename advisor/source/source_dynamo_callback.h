/*
 * advisor/source/source_dynamo_callback.h -- the port that a worker dials to answer, and who comes
 * to it.
 *
 * Why: anybody can dial an open port.  Who cannot say the question's name, or says nothing, must
 * not keep the worker waiting: all are heard at once, and each only for a while.
 * Ownership: a door owns its port and those who wait at it; who said the name belongs to the
 *            caller from then on.
 * Threads:   none; one owner.
 * Limits:    ADVISOR_DYNAMO_VISITORS_MAX dial in all, ADVISOR_DYNAMO_GREETING_MS and
 *            ADVISOR_DYNAMO_GREETING_MAX bytes for each to say the name.
 */
#ifndef ADVISOR_SOURCE_SOURCE_DYNAMO_CALLBACK_H
#define ADVISOR_SOURCE_SOURCE_DYNAMO_CALLBACK_H

#include <poll.h>

#include "base/core/buffer.h"
#include "kvtier/error.h"

#define ADVISOR_DYNAMO_VISITORS_MAX   16
#define ADVISOR_DYNAMO_GREETING_MS    2000
#define ADVISOR_DYNAMO_GREETING_MAX   (72u << 10) /* a header, and what comes right behind it */
#define ADVISOR_DYNAMO_CALLBACK_POLLS (ADVISOR_DYNAMO_VISITORS_MAX + 1)

struct advisor_dynamo_visitor {
    int fd; /* -1: nobody */
    uint64_t until_ms;
    struct kvt_buffer bytes;
};

struct advisor_dynamo_callback {
    int listener;        /* listens and does not block; -1: there is none */
    const char *subject; /* the name to say; borrowed */
    uint32_t count;      /* who dialled so far */
    struct advisor_dynamo_visitor visitors[ADVISOR_DYNAMO_VISITORS_MAX];
};

/** Closed, so that advisor_dynamo_callback_close() may follow. */
void advisor_dynamo_callback_init(struct advisor_dynamo_callback *door, const char *subject);
/** The port, and all who wait at it. */
void advisor_dynamo_callback_close(struct advisor_dynamo_callback *door);

/** What to wait for: ADVISOR_DYNAMO_CALLBACK_POLLS items. */
void advisor_dynamo_callback_polls(const struct advisor_dynamo_callback *door,
                                   struct pollfd *items);

/**
 * Hear who is there.
 *
 * @param items        as poll() left them
 * @param[out] fd      who said the name, -1: nobody yet; then the door is closed
 * @param[out] frames  what that one said behind it
 * @return KVT_OK, KVT_UNAVAILABLE (more dialled than may), KVT_RANGE or KVT_NOMEM
 */
KVT_NODISCARD enum kvt_err advisor_dynamo_callback_hear(struct advisor_dynamo_callback *door,
                                                        const struct pollfd *items, int *fd,
                                                        struct kvt_buffer *frames,
                                                        struct kvt_error *err);

#endif /* ADVISOR_SOURCE_SOURCE_DYNAMO_CALLBACK_H */
