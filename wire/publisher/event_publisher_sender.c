#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/core/clock.h"
#include "base/core/random.h"
#include "wire/message/event_codec.h"
#include "wire/publisher/event_publisher_state.h"

/*
 * The one thread that talks to NATS for a publisher.  A batch is sent and acknowledged before the
 * next one is taken: the stream then has the sequences in order whatever happens to the connection,
 * and while one batch is under way the next grows, so that a slow server sees larger batches and
 * not a longer queue.
 */

enum {
    BACKOFF_FIRST_MS = 20,
    BACKOFF_MAX_MS = 500,
    MESSAGE_ID_MAX = 128,
};

enum work { WORK_WAIT, WORK_ANSWER, WORK_SEND, WORK_HEARTBEAT, WORK_END };

/* What there is to send at `now_ms`; `until_ms` becomes the time at which that may change. */
static enum work
choose_send_locked(const struct wire_event_publisher *publisher, uint64_t now_ms,
                   uint64_t *until_ms)
{
    const uint64_t pending = publisher->shared.next_seq - publisher->shared.unsent_seq;
    const bool stop = publisher->shared.stop;
    uint64_t due_ms;

    *until_ms = publisher->sender.heartbeat_ms;
    if (publisher->sender.sent < publisher->sender.count) {
        if (stop && now_ms >= publisher->shared.stop_deadline_ms)
            return WORK_END;
        if (now_ms >= publisher->sender.retry_ms)
            return WORK_SEND;
        *until_ms = publisher->sender.retry_ms;
        return WORK_WAIT;
    }
    if (pending > 0) {
        due_ms = publisher->shared.pending_since_ms + publisher->flush_ms;
        if (stop || publisher->shared.flushers > 0 || pending >= publisher->flush_events ||
            now_ms >= due_ms)
            return WORK_SEND;
        *until_ms = due_ms;
        return WORK_WAIT;
    }
    if (stop)
        return WORK_END;
    return now_ms >= publisher->sender.heartbeat_ms ? WORK_HEARTBEAT : WORK_WAIT;
}

/* Answers go first, but not twice in a row while events are due. */
static enum work
choose_locked(const struct wire_event_publisher *publisher, uint64_t now_ms, uint64_t *until_ms)
{
    const enum work work = choose_send_locked(publisher, now_ms, until_ms);

    if (publisher->shared.question_count == 0 || publisher->shared.stop)
        return work;
    return publisher->sender.answered && work == WORK_SEND ? WORK_SEND : WORK_ANSWER;
}

static void
wait_locked(struct wire_event_publisher *publisher, uint64_t until_ms)
{
    const struct timespec until = {.tv_sec = (time_t)(until_ms / 1000),
                                   .tv_nsec = (long)(until_ms % 1000) * 1000000};

    (void)pthread_cond_timedwait(&publisher->shared.work, &publisher->shared.lock, &until);
}

static uint32_t
partition_of(const struct wire_event_publisher *publisher, const struct kvt_event *event)
{
    return (uint32_t)(event->prefix_hash % publisher->partitions);
}

/* Copy the oldest unsent events, as many as go into one batch: one run of one partition. */
static void
take_locked(struct wire_event_publisher *publisher)
{
    const struct kvt_event *ring = publisher->shared.ring;
    uint64_t seq = publisher->shared.unsent_seq;
    uint32_t count = 0;

    assert(publisher->shared.next_seq - seq <= publisher->shared.ring_capacity);
    while (seq < publisher->shared.next_seq && count < KVT_EVENTS_PER_BATCH_MAX) {
        const struct kvt_event *event = &ring[seq % publisher->shared.ring_capacity];

        if (count > 0 &&
            partition_of(publisher, event) != partition_of(publisher, publisher->sender.events))
            break;
        publisher->sender.events[count++] = *event;
        seq++;
    }
    publisher->sender.first_seq = publisher->shared.unsent_seq;
    publisher->sender.count = count;
    publisher->sender.sent = 0;
    publisher->shared.unsent_seq = seq;
    publisher->shared.in_flight = count;
    /* What was given up before these is settled: nobody waits for it. */
    publisher->shared.done_seq = publisher->sender.first_seq;
}

static enum kvt_err
encode(struct wire_event_publisher *publisher, struct kvt_event *events, uint32_t count,
       uint64_t first_seq)
{
    struct kvt_event_batch *batch = &publisher->sender.batch;

    batch->events = events;
    batch->event_count = count;
    batch->first_seq = first_seq;
    batch->time_ms = kvt_clock_unix_ms();
    kvt_buffer_clear(&publisher->sender.bytes);
    return wire_event_encode(batch, &publisher->sender.bytes);
}

static enum kvt_err
publish(struct wire_event_publisher *publisher, uint32_t partition, bool acked)
{
    const struct kvt_buffer *bytes = &publisher->sender.bytes;
    char subject[WIRE_SUBJECT_MAX];
    char id[MESSAGE_ID_MAX];
    enum kvt_err rc;

    rc = wire_subject_events(subject, sizeof(subject), publisher->namespace_, partition,
                             publisher->worker);
    if (rc != KVT_OK)
        return rc;
    if (!acked)
        return wire_bus_publish(publisher->bus, subject, bytes->data, bytes->size);
    (void)snprintf(id, sizeof(id), "%s:%" PRIu64 ":%" PRIu64, publisher->worker,
                   publisher->incarnation, publisher->sender.batch.first_seq);
    rc = wire_bus_publish_acked(publisher->bus, subject, id, bytes->data, bytes->size,
                                WIRE_EVENT_PUBLISHER_ACK_WAIT_MS, NULL);
    /* A server that came back without its store has no stream to put this in.  Nor is there an
     * answer then where somebody else listens to the subject. */
    if ((rc == KVT_UNAVAILABLE || rc == KVT_TIMEOUT) && wire_bus_connected(publisher->bus) &&
        wire_bus_ensure_streams(publisher->bus, NULL) != KVT_OK)
        return KVT_UNAVAILABLE;
    return rc;
}

/* The first `count` of the piece that was tried are settled. */
static void
settle(struct wire_event_publisher *publisher, uint32_t count, bool lost)
{
    publisher->sender.sent += count;
    publisher->sender.backoff_ms = 0;
    publisher->sender.retry_ms = 0;
    publisher->sender.heartbeat_ms = kvt_clock_mono_ms() + publisher->heartbeat_ms;
    (void)pthread_mutex_lock(&publisher->shared.lock);
    publisher->shared.done_seq = publisher->sender.first_seq + publisher->sender.sent;
    publisher->shared.in_flight -= count;
    if (lost) {
        publisher->shared.lost += count;
    } else {
        publisher->shared.acked_seq = publisher->shared.done_seq - 1;
        publisher->shared.batches++;
    }
    (void)pthread_cond_broadcast(&publisher->shared.done);
    (void)pthread_mutex_unlock(&publisher->shared.lock);
}

static void
back_off(struct wire_event_publisher *publisher)
{
    uint64_t wait_ms = publisher->sender.backoff_ms * 2;

    if (wait_ms < BACKOFF_FIRST_MS)
        wait_ms = BACKOFF_FIRST_MS;
    if (wait_ms > BACKOFF_MAX_MS)
        wait_ms = BACKOFF_MAX_MS;
    publisher->sender.backoff_ms = wait_ms;
    /* Many publishers lose the same server at the same moment. */
    publisher->sender.retry_ms =
        kvt_clock_mono_ms() + wait_ms / 2 + kvt_random_below(&publisher->sender.random, wait_ms);
}

/* Try to send the next piece of what was taken. */
static void
send_piece(struct wire_event_publisher *publisher)
{
    struct kvt_event *events = publisher->sender.events + publisher->sender.sent;
    uint32_t count = publisher->sender.count - publisher->sender.sent;
    enum kvt_err rc;

    if (count > publisher->sender.piece_max)
        count = publisher->sender.piece_max;
    rc = encode(publisher, events, count, publisher->sender.first_seq + publisher->sender.sent);
    if (rc == KVT_OK)
        rc = publish(publisher, partition_of(publisher, events),
                     publisher->mode == WIRE_EVENT_PUBLISHER_JETSTREAM);
    if (rc == KVT_OK)
        settle(publisher, count, false);
    else if (rc == KVT_RANGE && count > 1)
        publisher->sender.piece_max = count / 2;
    else if (rc == KVT_RANGE || rc == KVT_INVALID)
        settle(publisher, count, true); /* no server will ever take it */
    else
        back_off(publisher);
}

/* A lost tail is noticed by the next number to come.  Whether it arrives is not asked: another one
 * follows. */
static void
send_heartbeat(struct wire_event_publisher *publisher, uint64_t next_seq)
{
    enum kvt_err rc = encode(publisher, NULL, 0, next_seq);

    if (rc == KVT_OK)
        rc = publish(publisher, 0, false);
    (void)rc;
    publisher->sender.heartbeat_ms = kvt_clock_mono_ms() + publisher->heartbeat_ms;
}

static struct wire_event_publisher_question
take_question_locked(struct wire_event_publisher *publisher)
{
    const uint32_t head = publisher->shared.question_head;

    assert(publisher->shared.question_count > 0);
    publisher->shared.question_head = (head + 1) % WIRE_EVENT_PUBLISHER_QUESTIONS_MAX;
    publisher->shared.question_count--;
    return publisher->shared.questions[head];
}

void *
wire_event_publisher_sender_run(void *arg)
{
    struct wire_event_publisher *publisher = arg;
    struct wire_event_publisher_question question;
    enum work work;
    uint64_t until_ms;
    uint64_t next_seq;

    (void)pthread_mutex_lock(&publisher->shared.lock);
    do {
        work = choose_locked(publisher, kvt_clock_mono_ms(), &until_ms);
        if (work == WORK_WAIT) {
            wait_locked(publisher, until_ms);
            continue;
        }
        if (work == WORK_SEND && publisher->sender.sent == publisher->sender.count)
            take_locked(publisher);
        if (work == WORK_ANSWER)
            question = take_question_locked(publisher);
        next_seq = publisher->shared.next_seq;
        (void)pthread_mutex_unlock(&publisher->shared.lock);
        publisher->sender.answered = work == WORK_ANSWER;
        if (work == WORK_SEND)
            send_piece(publisher);
        else if (work == WORK_ANSWER)
            wire_event_publisher_answer(publisher, &question);
        else if (work == WORK_HEARTBEAT)
            send_heartbeat(publisher, next_seq);
        (void)pthread_mutex_lock(&publisher->shared.lock);
    } while (work != WORK_END);
    (void)pthread_mutex_unlock(&publisher->shared.lock);
    return NULL;
}
