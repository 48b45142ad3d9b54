/*
 * wire/publisher/event_publisher_state.h -- inside of a publisher, for wire/publisher*.c alone.
 *
 * Why: the callers' side, the sender thread and the answers to questions are files of their own.
 *
 *   ring        the last events, the one with sequence s at s modulo the capacity
 *
 *        oldest kept      done_seq            unsent_seq            next_seq
 *            |  for range()  |  being sent (copied) |  buffered        |
 *            +---------------+----------------------+------------------+
 *
 * done_seq <= unsent_seq <= next_seq.  Everything below done_seq was acknowledged or given up. Only
 * the sender moves done_seq; when the buffer is full, a caller moves unsent_seq and counts the
 * loss.
 *
 * Ownership: the publisher owns everything but the bus.
 * Threads:   `shared` is guarded by its lock; `sender` belongs to the sender thread; the rest is
 *            constant after opening.
 * Limits:    WIRE_EVENT_PUBLISHER_QUESTIONS_MAX questions wait; more are dropped (the asker asks
 *            again).
 */
#ifndef WIRE_PUBLISHER_EVENT_PUBLISHER_STATE_H
#define WIRE_PUBLISHER_EVENT_PUBLISHER_STATE_H

#include <pthread.h>

#include "base/core/buffer.h"
#include "wire/message/query.h"
#include "wire/message/subject.h"
#include "wire/nats/bus.h"
#include "wire/publisher/event_publisher.h"

#define WIRE_EVENT_PUBLISHER_QUESTIONS_MAX 64
#define WIRE_EVENT_PUBLISHER_CLOSE_WAIT_MS 3000
#define WIRE_EVENT_PUBLISHER_ACK_WAIT_MS   2000

enum wire_event_publisher_asked {
    WIRE_EVENT_PUBLISHER_DUMP,
    WIRE_EVENT_PUBLISHER_RANGE,
    WIRE_EVENT_PUBLISHER_NONSENSE
};

struct wire_event_publisher_question {
    enum wire_event_publisher_asked asked;
    char reply[WIRE_SUBJECT_MAX];
    struct wire_query_dump dump;
    struct wire_query_range range;
    struct kvt_error nonsense;
};

struct wire_event_publisher {
    struct wire_bus *bus;
    char namespace_[KVT_NAMESPACE_MAX];
    char worker[KVT_NAME_MAX];
    char dump_subject[WIRE_SUBJECT_MAX];
    char range_subject[WIRE_SUBJECT_MAX];
    char bare_dump_subject[WIRE_SUBJECT_MAX];  /* "": the name has nothing to encode */
    char bare_range_subject[WIRE_SUBJECT_MAX]; /* likewise */
    enum wire_event_publisher_mode mode;
    uint32_t location_count;
    uint32_t partitions;
    uint32_t flush_events;
    uint64_t flush_ms;
    uint64_t heartbeat_ms;
    uint32_t ring_events;
    uint32_t buffer_events;
    wire_event_publisher_snapshot_fn *snapshot;
    void *snapshot_arg;
    uint64_t incarnation;
    pthread_t thread;
    bool started;

    struct {
        pthread_mutex_t lock; /* guards this struct, and nothing outside it */
        pthread_cond_t work;  /* for the sender */
        pthread_cond_t done;  /* done_seq moved */
        struct kvt_event *ring;
        uint32_t ring_capacity;
        uint64_t next_seq;
        uint64_t unsent_seq;
        uint64_t done_seq;
        uint64_t acked_seq;
        uint32_t in_flight; /* events copied out and not yet settled */
        uint64_t lost;
        uint64_t batches;
        uint64_t pending_since_ms; /* when the first unsent event came */
        uint32_t flushers;         /* threads that wait in flush() */
        bool stop;
        uint64_t stop_deadline_ms;
        struct wire_event_publisher_question *questions;
        uint32_t question_head;
        uint32_t question_count;
    } shared;

    struct {
        struct kvt_event *events;     /* being sent: KVT_EVENTS_PER_BATCH_MAX */
        struct kvt_event *answer;     /* being answered: as many */
        struct kvt_event_batch batch; /* header, with the locations */
        struct kvt_buffer bytes;
        struct kvt_buffer page;
        uint64_t first_seq; /* of events[0] */
        uint32_t count;
        uint32_t sent;      /* of `count` */
        uint32_t piece_max; /* events in a message; halved when the server finds one too large */
        uint64_t retry_ms;  /* not before, on the monotonic clock */
        uint64_t backoff_ms;
        uint64_t heartbeat_ms; /* when the next is due */
        bool answered;         /* the last thing done was an answer: events have a turn too */
        uint64_t random;
    } sender;
};

/** The sender thread; `arg` is the publisher. */
void *wire_event_publisher_sender_run(void *arg);

/** NATS callbacks: put the question where the sender finds it. */
void wire_event_publisher_answer_on_dump(void *publisher, const char *subject, const char *reply,
                                         const void *bytes, size_t size);
void wire_event_publisher_answer_on_range(void *publisher, const char *subject, const char *reply,
                                          const void *bytes, size_t size);

/** Answer one question; on the sender thread, without the lock. */
void wire_event_publisher_answer(struct wire_event_publisher *publisher,
                                 const struct wire_event_publisher_question *question);

#endif /* WIRE_PUBLISHER_EVENT_PUBLISHER_STATE_H */
