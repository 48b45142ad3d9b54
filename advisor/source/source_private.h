/*
 * advisor/source/source_private.h -- what the kinds of sources share.
 *
 * Why: one hand-over and one state for all of them.
 * Threads:   `shared` is guarded by its lock; the rest is constant or atomic.
 */
#ifndef ADVISOR_SOURCE_SOURCE_PRIVATE_H
#define ADVISOR_SOURCE_SOURCE_PRIVATE_H

#include <pthread.h>
#include <stdatomic.h>

#include "advisor/source/inbox.h"
#include "advisor/source/source.h"
#include "wire/nats/bus.h"
#include "wire/nats/stream.h"

struct advisor_source {
    const struct advisor_source_ops *ops;
    struct advisor_source_options options;
    struct advisor_inbox *inbox;
    void *own; /* of the kind; constant while the source is open */
    _Atomic bool stopping;
    _Atomic uint64_t messages; /* received */
    pthread_t thread;
    bool threaded;
    size_t subscriptions; /* NATS core: how many of its subjects are subscribed to */
    uint64_t reconnects;  /* NATS core: those that advisor_source_lost() told of, and messages */
    uint64_t dropped;     /* that were dropped; of the thread that asks it */

    struct {
        pthread_mutex_t lock; /* guards this struct, and nothing outside it */
        struct advisor_source_state state;
        uint64_t applied_seq; /* of the stream made at `applied_of_ms` */
        uint64_t applied_of_ms;
    } shared;
};

/** Hand an item over, waiting for room; false when the source is stopping (the item is freed). */
bool advisor_source_push_wait(struct advisor_source *source, struct advisor_inbox_item *item);

/** The same with a copy of a message, which is how many small ones are handed over. */
bool advisor_source_copy_wait(struct advisor_source *source, const struct advisor_inbox_item *like,
                              const char *subject, const void *bytes, size_t size);
/** The same without waiting; false when there is no room. */
bool advisor_source_copy(struct advisor_source *source, const struct advisor_inbox_item *like,
                         const char *subject, const void *bytes, size_t size);

/** A message was lost for want of room. */
void advisor_source_count_dropped(struct advisor_source *source);

/* What kinds over NATS are made of. */
/** `other` is given the source as its argument; NULL: hand over what is heard, at once. */
enum kvt_err advisor_source_open_core(struct advisor_source *source, wire_bus_message_fn *other);
void advisor_source_close_core(struct advisor_source *source);
/** Was something of a plain bus lost since the last look, or since it was opened?  Asked by one
 *  thread, where messages have no numbers that would tell. */
bool advisor_source_lost(struct advisor_source *source);
/** Tell the engine so.  False: the source is stopping. */
bool advisor_source_tell_gap(struct advisor_source *source);
enum kvt_err advisor_source_open_stream(struct advisor_source *source);
void advisor_source_close_stream(struct advisor_source *source);

/** Hand over what the routers of a Dynamo cluster keep for those who come late, if it can be had;
 *  else the log says why not.  `state` is the stream's, and then what the stream was when the
 *  snapshot stood for all it does not have.  False: the source is stopping. */
bool advisor_source_tell_snapshot(struct advisor_source *source, struct wire_stream_state *state);

/** A store's notifications of a bucket have no numbers: after a loss the bucket is listed. */
KVT_NODISCARD enum kvt_err advisor_source_bucket_open(struct advisor_source *source);
void advisor_source_bucket_close(struct advisor_source *source);

/** Start `run` as the source's thread.  KVT_OK or KVT_NOMEM. */
KVT_NODISCARD enum kvt_err advisor_source_start(struct advisor_source *source,
                                                void *(*run)(void *arg), void *arg);
/** Wait for its end; there may be none. */
void advisor_source_join(struct advisor_source *source);

/** Up to where the stream made at `created_ms` is applied; 0: nothing of it. */
uint64_t advisor_source_applied_seq(struct advisor_source *source, uint64_t created_ms);

void advisor_source_set_running(struct advisor_source *source, bool running, const char *detail);
void advisor_source_set_last(struct advisor_source *source, uint64_t last_seq);

#endif /* ADVISOR_SOURCE_SOURCE_PRIVATE_H */
