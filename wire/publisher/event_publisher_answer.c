#include <assert.h>
#include <string.h>

#include "base/core/clock.h"
#include "wire/message/event_codec.h"
#include "wire/message/query.h"
#include "wire/publisher/event_publisher_state.h"

/* NATS's thread: decode into the queue and leave.  When it is full, the asker's deadline passes. */
static void
enqueue(struct wire_event_publisher *publisher,
        const struct wire_event_publisher_question *question, const char *reply)
{
    uint32_t at;

    if (reply == NULL || strlen(reply) >= WIRE_SUBJECT_MAX)
        return;
    (void)pthread_mutex_lock(&publisher->shared.lock);
    if (publisher->shared.question_count < WIRE_EVENT_PUBLISHER_QUESTIONS_MAX) {
        at = (publisher->shared.question_head + publisher->shared.question_count) %
             WIRE_EVENT_PUBLISHER_QUESTIONS_MAX;
        publisher->shared.questions[at] = *question;
        memcpy(publisher->shared.questions[at].reply, reply, strlen(reply) + 1);
        publisher->shared.question_count++;
        (void)pthread_cond_signal(&publisher->shared.work);
    }
    (void)pthread_mutex_unlock(&publisher->shared.lock);
}

void
wire_event_publisher_answer_on_dump(void *publisher, const char *subject, const char *reply,
                                    const void *bytes, size_t size)
{
    struct wire_event_publisher_question question = {.asked = WIRE_EVENT_PUBLISHER_DUMP};

    (void)subject;
    if (wire_query_decode_dump(bytes, size, &question.dump, &question.nonsense) != KVT_OK)
        question.asked = WIRE_EVENT_PUBLISHER_NONSENSE;
    enqueue(publisher, &question, reply);
}

void
wire_event_publisher_answer_on_range(void *publisher, const char *subject, const char *reply,
                                     const void *bytes, size_t size)
{
    struct wire_event_publisher_question question = {.asked = WIRE_EVENT_PUBLISHER_RANGE};

    (void)subject;
    if (wire_query_decode_range(bytes, size, &question.range, &question.nonsense) != KVT_OK)
        question.asked = WIRE_EVENT_PUBLISHER_NONSENSE;
    enqueue(publisher, &question, reply);
}

/* sender.page becomes a page of `count` events of sender.answer. */
static enum kvt_err
make_page(struct wire_event_publisher *publisher, uint64_t first_seq, uint32_t count,
          uint64_t next_cursor)
{
    struct kvt_event_batch *batch = &publisher->sender.batch;
    enum kvt_err rc;

    batch->events = publisher->sender.answer;
    batch->event_count = count;
    batch->first_seq = first_seq;
    batch->time_ms = kvt_clock_unix_ms();
    kvt_buffer_clear(&publisher->sender.bytes);
    rc = wire_event_encode(batch, &publisher->sender.bytes);
    if (rc == KVT_OK)
        rc = wire_query_encode_page(KVT_OK, next_cursor, publisher->sender.bytes.data,
                                    publisher->sender.bytes.size, &publisher->sender.page);
    return rc;
}

/*
 * One page.  The number is read before the snapshot: what changes behind it comes again as an
 * event, which is harmless, and nothing that the snapshot misses has a number at or below it.
 */
static enum kvt_err
answer_dump(struct wire_event_publisher *publisher, const struct wire_query_dump *dump)
{
    size_t limit = dump->limit;
    uint64_t cursor = dump->cursor;
    uint64_t last_seq;
    size_t count;

    if (publisher->snapshot == NULL)
        return KVT_UNSUPPORTED;
    if (limit == 0 || limit > KVT_EVENTS_PER_BATCH_MAX)
        limit = KVT_EVENTS_PER_BATCH_MAX;
    (void)pthread_mutex_lock(&publisher->shared.lock);
    last_seq = publisher->shared.next_seq - 1;
    (void)pthread_mutex_unlock(&publisher->shared.lock);
    count = publisher->snapshot(publisher->snapshot_arg, &cursor, publisher->sender.answer, limit);
    assert(count <= limit);
    for (size_t i = 0; i < count; i++) {
        assert(publisher->sender.answer[i].location < publisher->location_count);
        publisher->sender.answer[i].type = KVT_EVENT_STORE;
    }
    return make_page(publisher, last_seq, (uint32_t)count, count > 0 ? cursor : 0);
}

static enum kvt_err
answer_range(struct wire_event_publisher *publisher, const struct wire_query_range *range)
{
    uint64_t oldest;
    uint64_t next;
    uint64_t seq;
    uint32_t count = 0;

    if (range->incarnation != publisher->incarnation)
        return KVT_NOTFOUND;
    (void)pthread_mutex_lock(&publisher->shared.lock);
    next = publisher->shared.next_seq;
    oldest = next - 1 > publisher->ring_events ? next - publisher->ring_events : 1;
    for (seq = range->from;
         seq >= oldest && seq < next && seq <= range->to && count < KVT_EVENTS_PER_BATCH_MAX; seq++)
        publisher->sender.answer[count++] =
            publisher->shared.ring[seq % publisher->shared.ring_capacity];
    (void)pthread_mutex_unlock(&publisher->shared.lock);
    if (range->from < oldest)
        return KVT_NOTFOUND;
    /* Nothing there yet: as a heartbeat, the number to come. */
    return make_page(publisher, count > 0 ? range->from : next, count, 0);
}

void
wire_event_publisher_answer(struct wire_event_publisher *publisher,
                            const struct wire_event_publisher_question *question)
{
    struct kvt_buffer *page = &publisher->sender.page;
    const char *text;
    enum kvt_err rc;

    kvt_buffer_clear(page);
    switch (question->asked) {
    case WIRE_EVENT_PUBLISHER_DUMP: rc = answer_dump(publisher, &question->dump); break;
    case WIRE_EVENT_PUBLISHER_RANGE: rc = answer_range(publisher, &question->range); break;
    default: rc = KVT_INVALID; break;
    }
    if (rc == KVT_NOTFOUND) {
        rc = wire_query_encode_page(rc, 0, NULL, 0, page);
    } else if (rc != KVT_OK) {
        text = rc == KVT_INVALID ? question->nonsense.text : kvt_err_text(rc);
        kvt_buffer_clear(page);
        rc = wire_query_encode_failure(rc, text, page);
    }
    if (rc == KVT_OK)
        rc = wire_bus_publish(publisher->bus, question->reply, page->data, page->size);
    (void)rc; /* the asker has a deadline, and asks again */
}
