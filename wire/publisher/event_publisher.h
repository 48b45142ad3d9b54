/*
 * wire/publisher/event_publisher.h -- how whoever holds blocks publishes its KV events.
 *
 * Why: numbering, batching, buffering while NATS is away, repeating what was lost and answering
 * "what do you hold?" are the same for every engine, and a mistake in any of them is a wrong
 * picture at the advisor.  One publisher is one (namespace, worker, incarnation).  It knows of no
 * blocks: what is held is its user's, here through a callback.  Engines link kvtier/publisher.h,
 * which is this, a connection and a table of what is held.
 *
 * Ownership: the publisher copies what it is given; free it with wire_event_publisher_close().
 * Threads:   wire_event_publisher_publish() may be called from any thread and never waits for
 *            NATS.  Own sender thread.  The snapshot callback runs on that thread, without a lock
 *            of ours.
 * Limits:    `ring_events` last events for range(); `buffer_events` not yet acknowledged: when that
 *            is full the oldest unsent are given up, counted in `lost`, and the advisor sees a gap
 *            (which it can still fill with range() while the ring has them).
 *
 * Order: a dump is right only when (a) what the snapshot shows has changed before the event that
 * tells of it is given, and (b) two changes of one block are given in the order in which they
 * happened.
 *
 * Names: `worker` is unique on the bus.  One process that publishes for several namespaces opens
 * one publisher for each, under different names; G4 holders are named by their location, not by it.
 */
#ifndef WIRE_PUBLISHER_EVENT_PUBLISHER_H
#define WIRE_PUBLISHER_EVENT_PUBLISHER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kvtier/block.h"
#include "kvtier/error.h"
#include "kvtier/event.h"

#ifdef __cplusplus
extern "C" {
#endif

struct wire_event_publisher;
struct wire_bus;

enum wire_event_publisher_mode { WIRE_EVENT_PUBLISHER_JETSTREAM, WIRE_EVENT_PUBLISHER_CORE };

/**
 * Copy everything the publisher holds now into `events` (Store events; sequence numbers are the
 * publisher's business), from `cursor` on, at most `capacity`; advance `cursor`.  Returns the
 * number, 0 at the end; leaving `cursor` at 0 says the same one call earlier.  Blocks present
 * during the whole walk must be given at least once.
 */
typedef size_t wire_event_publisher_snapshot_fn(void *arg, uint64_t *cursor,
                                                struct kvt_event *events, size_t capacity);

struct wire_event_publisher_options {
    struct wire_bus *bus; /* shared; outlives the publisher */
    const char *namespace_;
    const char *worker;
    enum wire_event_publisher_mode mode;
    const struct kvt_location *locations; /* fixed for the publisher's life */
    uint32_t location_count;              /* at least 1 */
    uint32_t partitions;                  /* P; 0 = 1 */
    uint32_t flush_events;                /* 0 = 256 */
    uint64_t flush_ms;     /* 0 = 10; an idle publisher still sends a heartbeat each heartbeat_ms */
    uint64_t heartbeat_ms; /* 0 = 1000 */
    uint32_t ring_events;  /* 0 = 65536 */
    uint32_t buffer_events; /* 0 = 65536 */
    wire_event_publisher_snapshot_fn *snapshot;
    void *snapshot_arg; /* `snapshot` NULL: dump is answered with UNSUPPORTED */
};

struct wire_event_publisher_stats {
    uint64_t incarnation;
    uint64_t next_seq;
    uint64_t acked_seq;
    uint64_t lost;     /* events given up before they were sent */
    uint64_t buffered; /* events waiting */
    uint64_t batches;
    bool connected;
};

KVT_NODISCARD enum kvt_err
wire_event_publisher_open(struct wire_event_publisher **out,
                          const struct wire_event_publisher_options *options,
                          struct kvt_error *err);

/** Publish one event; `event->type` is STORE, REMOVE or CLEAR, `event->location` an index into the
 *  options' locations (asserted).  Order of calls = order of sequences. */
void wire_event_publisher_publish(struct wire_event_publisher *publisher,
                                  const struct kvt_event *event);

void wire_event_publisher_stats(struct wire_event_publisher *publisher,
                                struct wire_event_publisher_stats *stats);

/** Wait until everything given so far is acknowledged (JetStream), handed over (core) or given up
 *  (`lost`).  KVT_OK or KVT_TIMEOUT. */
KVT_NODISCARD enum kvt_err wire_event_publisher_flush(struct wire_event_publisher *publisher,
                                                      uint64_t timeout_ms);

/** Send what is buffered, for 3 s at most, and free.  `bye`: tell the advisor that this worker
 *  leaves.  NULL is allowed.  Nobody may be inside another call. */
void wire_event_publisher_close(struct wire_event_publisher *publisher, bool bye);

#ifdef __cplusplus
}
#endif

#endif /* WIRE_PUBLISHER_EVENT_PUBLISHER_H */
