/*
 * advisor/source/source_zmq.h -- what the sources that read ZMQ share.
 *
 * Why: lists of addresses, items made of frames and what is said about connections are the same
 * whoever publishes.
 * Ownership: see each call.
 * Threads:   a source's own thread, the list excepted: it is constant once made.
 * Limits:    ADVISOR_ENDPOINTS_MAX addresses of ADVISOR_ZMQ_ENDPOINT_MAX bytes.
 */
#ifndef ADVISOR_SOURCE_SOURCE_ZMQ_H
#define ADVISOR_SOURCE_SOURCE_ZMQ_H

#include "advisor/source/source_private.h"
#include "advisor/transport/zmq.h"

#define ADVISOR_SOURCE_ZMQ_WAIT_MS 100 /* how long a source's thread may not look up */

/* Addresses, in the order they were written. */
struct advisor_source_zmq_list {
    char (*texts)[ADVISOR_ZMQ_ENDPOINT_MAX];
    size_t count;
};

/**
 * Take a list of addresses apart: "tcp://host:port, ipc://path".  An empty place between commas
 * stays as "" where `gaps` allows it.
 *
 * @return KVT_OK, KVT_INVALID, KVT_RANGE or KVT_NOMEM; `list` is empty on failure
 */
KVT_NODISCARD enum kvt_err advisor_source_zmq_split(struct advisor_source_zmq_list *list,
                                                    const char *text, bool gaps,
                                                    struct kvt_error *err);
void advisor_source_zmq_release(struct advisor_source_zmq_list *list);

/** A message with the frame as its bytes, or NULL: no memory, its number will be missed. */
struct advisor_inbox_item *advisor_source_zmq_item(const char *subject,
                                                   const struct advisor_zmq_frame *body);

/** Count a message that nobody can read. */
void advisor_source_zmq_refuse(struct advisor_source *source);

/** Say what the connections are like, a few times a second at most; `*told_ms` is the caller's.
 *  `extra` is appended to the detail. */
void advisor_source_zmq_tell(struct advisor_source *source, struct advisor_zmq *zmq,
                             uint64_t *told_ms, const char *extra);

/** Bind, again and again until it works; false when the source is stopping. */
bool advisor_source_zmq_bind(struct advisor_source *source, struct advisor_zmq *zmq,
                             uint32_t socket, const char *endpoint);

/** Say why it does not run, to whoever looks and in the log.  Returns `code`. */
enum kvt_err advisor_source_zmq_fail(struct advisor_source *source, enum kvt_err code,
                                     const struct kvt_error *err);

uint64_t advisor_source_zmq_be64(const uint8_t bytes[8]);

/** Start `run` as the source's thread.  KVT_OK or KVT_NOMEM. */
KVT_NODISCARD enum kvt_err advisor_source_zmq_start(struct advisor_source *source,
                                                    void *(*run)(void *arg));

#endif /* ADVISOR_SOURCE_SOURCE_ZMQ_H */
