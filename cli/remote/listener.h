/*
 * cli/remote/listener.h -- messages of an event plane, one after the other: as they pass, from a
 * stream, or from a recording.
 *
 * Why: tail and record take the same from the same places.  NATS's threads copy into a bounded
 * queue and leave; what there is no room for is counted, never waited for.  ZMQ is heard by the
 * advisor's own sources.
 *
 * Ownership: a message lives for the call.
 * Threads:   the main thread; cli_interrupt_begin() was called before.
 * Limits:    CLI_LISTENER_QUEUED messages of together CLI_LISTENER_BYTES wait;
 *            CLI_LISTENER_SUBJECTS subjects.
 */
#ifndef CLI_REMOTE_LISTENER_H
#define CLI_REMOTE_LISTENER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/thread/queue.h"
#include "cli/frame/context.h"
#include "wire/dialect/dialect.h"
#include "wire/message/recording.h"
#include "wire/nats/bus.h"

#define CLI_LISTENER_QUEUED   16384
#define CLI_LISTENER_BYTES    (64u << 20)
#define CLI_LISTENER_SUBJECTS 16

struct cli_listener {
    const struct cli_context *context;
    enum wire_dialect dialect;
    uint64_t deadline_ms;                                          /* monotonic; 0 = none */
    bool (*each)(void *arg, const struct wire_recording *message); /* false: enough */
    bool (*pause)(void *arg); /* nothing waits at the moment, or a while went by; false: enough */
    void (*heard)(void *arg); /* what is sent to a subject from now on is heard; NULL: no matter */
    void *arg;

    struct kvt_queue *queue; /* between NATS and us */
    _Atomic uint64_t queued; /* bytes */
    _Atomic uint64_t dropped;
    uint64_t bad;  /* records of a recording that were skipped */
    uint64_t torn; /* bytes of its last one */
    uint64_t gaps; /* places where the stream no longer had what came next */
};

/** What people mean by a dialect when they name no subject: subjects with commas between them, or
 *  NULL. */
const char *cli_listener_subjects(enum wire_dialect dialect);

/** Core NATS: what passes from now on.  `subjects` has commas between them. */
KVT_NODISCARD enum kvt_err cli_listener_core(struct cli_listener *listener, struct wire_bus *bus,
                                             const char *subjects, struct kvt_error *err);

/** A stream from `from_seq` on (1 = its oldest); `stop`: at what is its newest now. */
KVT_NODISCARD enum kvt_err cli_listener_stream(struct cli_listener *listener, struct wire_bus *bus,
                                               const char *name, const char *subject,
                                               uint64_t from_seq, bool stop, struct kvt_error *err);

/** ZMQ publishers of the dialect; `endpoints` has commas between them, `bind`: they connect to us.
 *  KVT_UNSUPPORTED: nobody publishes this dialect over ZMQ. */
KVT_NODISCARD enum kvt_err cli_listener_zmq(struct cli_listener *listener, const char *endpoints,
                                            bool bind, struct kvt_error *err);

/** A recording; a bad record is KVT_CORRUPT, or counted with `skip_bad`. */
KVT_NODISCARD enum kvt_err cli_listener_recording(struct cli_listener *listener, const char *path,
                                                  bool skip_bad, struct kvt_error *err);

/** Say on the error stream what was lost: `dropped`, `bad`, `torn`, `gaps`.  True when anything. */
bool cli_listener_complain(const struct cli_listener *listener);

#endif /* CLI_REMOTE_LISTENER_H */
