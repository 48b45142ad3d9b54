/*
 * advisor/source.h -- where events and reports come from.
 *
 * Why: the engine must not care whether messages are read from a stream that keeps them, or heard
 * once on the bus; nor, later, in which dialect they are written.  A source copies what arrives
 * into a bounded queue on its own or on NATS's thread; the engine takes from it at its own pace.
 *
 * Ownership: items taken from a source belong to the taker.
 * Threads:   open, poll and close on the engine's thread (one taker); state on any thread.
 * Limits:    ADVISOR_SOURCE_ITEMS_MAX items and ADVISOR_SOURCE_BYTES_MAX bytes wait in a source.  A
 *            stream is then not read on; core messages are dropped, which their numbers reveal.
 */
#ifndef ADVISOR_SOURCE_H
#define ADVISOR_SOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "advisor/item.h"
#include "kvtier/error.h"
#include "kvtier/event.h"

#define ADVISOR_SOURCE_ITEMS_MAX 2048
#define ADVISOR_SOURCE_BYTES_MAX (32u << 20)

struct wire_bus;
struct advisor_source;

struct advisor_source_options {
    struct wire_bus *bus;
    const char *stream;  /* JetStream */
    const char *subject; /* core */
    uint64_t seq;        /* JetStream: applied up to here */
    uint64_t created_ms; /* JetStream: of the stream that was; 0 = none yet */
};

struct advisor_source_state {
    bool running;      /* there is something to read from */
    uint64_t last_seq; /* JetStream: newest in the stream, as far as known */
    uint64_t dropped;  /* core: messages there was no room for */
    char detail[128];  /* why it is not running */
};

struct advisor_source_ops {
    const char *name;
    enum kvt_err (*open)(struct advisor_source *source);
    void (*close)(struct advisor_source *source); /* half-open is allowed */
    /** One message's bytes as a batch; as wire_event_decode(). */
    enum kvt_err (*decode)(const void *bytes, size_t size, struct kvt_event_batch *batch,
                           size_t capacity, uint32_t *unknown, struct kvt_error *err);
};

/* The canonical format, from a JetStream stream and from core NATS. */
extern const struct advisor_source_ops advisor_source_jetstream;
extern const struct advisor_source_ops advisor_source_core;

KVT_NODISCARD enum kvt_err advisor_source_open(struct advisor_source **out,
                                               const struct advisor_source_ops *ops,
                                               const struct advisor_source_options *options);
void advisor_source_close(struct advisor_source *source);

/** Up to `max` items, waiting up to `wait_ms` for the first. */
size_t advisor_source_poll(struct advisor_source *source, struct advisor_item **items, size_t max,
                           uint64_t wait_ms);

void advisor_source_state(struct advisor_source *source, struct advisor_source_state *state);

const struct advisor_source_ops *advisor_source_dialect(const struct advisor_source *source);

#endif /* ADVISOR_SOURCE_H */
