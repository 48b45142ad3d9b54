#include "wire/publisher/event_publisher.h"

#include <assert.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/core/random.h"
#include "base/thread/cond.h"
#include "wire/message/event_codec.h"
#include "wire/publisher/event_publisher_state.h"

enum {
    FLUSH_EVENTS_DEFAULT = 256,
    FLUSH_MS_DEFAULT = 10,
    HEARTBEAT_MS_DEFAULT = 1000,
    EVENTS_DEFAULT = 65536,
    EVENTS_LIMIT = 1 << 24,
    INCARNATION_SHIFT = 20,
};

static enum kvt_err
check_options(const struct wire_event_publisher_options *options, struct kvt_error *err)
{
    if (strlen(options->namespace_) >= KVT_NAMESPACE_MAX)
        return kvt_error_set(err, KVT_INVALID, "publisher: namespace longer than %d bytes",
                             KVT_NAMESPACE_MAX - 1);
    if (options->worker[0] == '\0' || strlen(options->worker) >= KVT_NAME_MAX)
        return kvt_error_set(err, KVT_INVALID, "publisher: worker name must have 1 to %d bytes",
                             KVT_NAME_MAX - 1);
    if (options->location_count == 0 || options->location_count > KVT_LOCATIONS_MAX)
        return kvt_error_set(err, KVT_INVALID, "publisher %s: needs 1 to %d locations",
                             options->worker, KVT_LOCATIONS_MAX);
    for (uint32_t i = 0; i < options->location_count; i++)
        if (options->locations[i].tier < KVT_TIER_G1 || options->locations[i].tier > KVT_TIER_G4)
            return kvt_error_set(err, KVT_INVALID, "publisher %s: location %u has no tier",
                                 options->worker, i);
    if (options->ring_events > EVENTS_LIMIT || options->buffer_events > EVENTS_LIMIT)
        return kvt_error_set(err, KVT_RANGE, "publisher %s: more than %d events in ring or buffer",
                             options->worker, EVENTS_LIMIT);
    return KVT_OK;
}

static uint64_t
or_default(uint64_t value, uint64_t fallback)
{
    return value != 0 ? value : fallback;
}

/* Larger in each life, also for lives within one millisecond (by chance, not by order). */
static uint64_t
make_incarnation(void)
{
    uint64_t random;

    kvt_random_system(&random, sizeof(random));
    return kvt_clock_unix_ms() << INCARNATION_SHIFT |
           (random & ((UINT64_C(1) << INCARNATION_SHIFT) - 1));
}

static void
copy_options(struct wire_event_publisher *publisher,
             const struct wire_event_publisher_options *options)
{
    struct kvt_event_batch *batch = &publisher->sender.batch;

    publisher->bus = options->bus;
    memcpy(publisher->namespace_, options->namespace_, strlen(options->namespace_));
    memcpy(publisher->worker, options->worker, strlen(options->worker));
    publisher->mode = options->mode;
    publisher->location_count = options->location_count;
    publisher->partitions = (uint32_t)or_default(options->partitions, 1);
    publisher->flush_events = (uint32_t)or_default(options->flush_events, FLUSH_EVENTS_DEFAULT);
    publisher->flush_ms = or_default(options->flush_ms, FLUSH_MS_DEFAULT);
    publisher->heartbeat_ms = or_default(options->heartbeat_ms, HEARTBEAT_MS_DEFAULT);
    publisher->ring_events = (uint32_t)or_default(options->ring_events, EVENTS_DEFAULT);
    publisher->buffer_events = (uint32_t)or_default(options->buffer_events, EVENTS_DEFAULT);
    publisher->snapshot = options->snapshot;
    publisher->snapshot_arg = options->snapshot_arg;
    publisher->incarnation = make_incarnation();

    memcpy(batch->namespace_, publisher->namespace_, sizeof(batch->namespace_));
    memcpy(batch->worker, publisher->worker, sizeof(batch->worker));
    batch->incarnation = publisher->incarnation;
    memcpy(batch->locations, options->locations,
           options->location_count * sizeof(batch->locations[0]));
    batch->location_count = options->location_count;
}

static bool
make_locks(struct wire_event_publisher *publisher)
{
    if (pthread_mutex_init(&publisher->shared.lock, NULL) != 0)
        return false;
    if (!kvt_cond_init(&publisher->shared.work))
        goto fail_lock;
    if (kvt_cond_init(&publisher->shared.done))
        return true;
    (void)pthread_cond_destroy(&publisher->shared.work);
fail_lock:
    (void)pthread_mutex_destroy(&publisher->shared.lock);
    return false;
}

static enum kvt_err
make_state(struct wire_event_publisher *publisher)
{
    const uint32_t capacity = publisher->ring_events > publisher->buffer_events
                                  ? publisher->ring_events
                                  : publisher->buffer_events;
    enum kvt_err rc;

    publisher->shared.ring = kvt_calloc(capacity, sizeof(struct kvt_event));
    publisher->shared.ring_capacity = capacity;
    publisher->shared.next_seq = publisher->shared.unsent_seq = publisher->shared.done_seq = 1;
    publisher->shared.questions = kvt_calloc(WIRE_EVENT_PUBLISHER_QUESTIONS_MAX,
                                             sizeof(struct wire_event_publisher_question));
    publisher->sender.events = kvt_calloc(KVT_EVENTS_PER_BATCH_MAX, sizeof(struct kvt_event));
    publisher->sender.answer = kvt_calloc(KVT_EVENTS_PER_BATCH_MAX, sizeof(struct kvt_event));
    publisher->sender.piece_max = KVT_EVENTS_PER_BATCH_MAX;
    publisher->sender.random = publisher->incarnation;
    if (publisher->shared.ring == NULL || publisher->shared.questions == NULL ||
        publisher->sender.events == NULL || publisher->sender.answer == NULL)
        return KVT_NOMEM;
    rc = wire_subject_named(WIRE_SUBJECT_DUMP, publisher->dump_subject, WIRE_SUBJECT_MAX,
                            publisher->worker);
    if (rc == KVT_OK)
        rc = wire_subject_named(WIRE_SUBJECT_RANGE, publisher->range_subject, WIRE_SUBJECT_MAX,
                                publisher->worker);
    /* Who asks without encoding the name is answered, too. */
    (void)!wire_subject_bare(WIRE_SUBJECT_DUMP, publisher->bare_dump_subject, WIRE_SUBJECT_MAX,
                             publisher->worker);
    (void)!wire_subject_bare(WIRE_SUBJECT_RANGE, publisher->bare_range_subject, WIRE_SUBJECT_MAX,
                             publisher->worker);
    return rc;
}

static enum kvt_err
start(struct wire_event_publisher *publisher, struct kvt_error *err)
{
    enum kvt_err rc;
    int sys;

    rc = wire_bus_subscribe(publisher->bus, publisher->dump_subject,
                            wire_event_publisher_answer_on_dump, publisher, err);
    if (rc == KVT_OK)
        rc = wire_bus_subscribe(publisher->bus, publisher->range_subject,
                                wire_event_publisher_answer_on_range, publisher, err);
    if (rc == KVT_OK && publisher->bare_dump_subject[0] != '\0')
        rc = wire_bus_subscribe(publisher->bus, publisher->bare_dump_subject,
                                wire_event_publisher_answer_on_dump, publisher, err);
    if (rc == KVT_OK && publisher->bare_range_subject[0] != '\0')
        rc = wire_bus_subscribe(publisher->bus, publisher->bare_range_subject,
                                wire_event_publisher_answer_on_range, publisher, err);
    if (rc != KVT_OK)
        return rc;
    sys = pthread_create(&publisher->thread, NULL, wire_event_publisher_sender_run, publisher);
    if (sys != 0)
        return kvt_error_sys(err, sys, "publisher %s: thread", publisher->worker);
    publisher->started = true;
    return KVT_OK;
}

enum kvt_err
wire_event_publisher_open(struct wire_event_publisher **out,
                          const struct wire_event_publisher_options *options, struct kvt_error *err)
{
    struct wire_event_publisher *publisher;
    enum kvt_err rc;

    assert(out != NULL && options != NULL && options->bus != NULL);
    *out = NULL;
    rc = check_options(options, err);
    if (rc != KVT_OK)
        return rc;
    publisher = kvt_calloc(1, sizeof(*publisher));
    if (publisher == NULL || !make_locks(publisher)) {
        kvt_free(publisher);
        return kvt_error_set(err, KVT_NOMEM, "publisher %s: out of memory", options->worker);
    }
    kvt_buffer_init(&publisher->sender.bytes, WIRE_EVENT_BATCH_MAX);
    kvt_buffer_init(&publisher->sender.page, WIRE_QUERY_MAX);
    copy_options(publisher, options);
    rc = make_state(publisher);
    if (rc != KVT_OK)
        rc = kvt_error_set(err, rc, "publisher %s: %s", options->worker, kvt_err_text(rc));
    else
        rc = start(publisher, err);
    if (rc != KVT_OK) {
        wire_event_publisher_close(publisher, false);
        return rc;
    }
    *out = publisher;
    return KVT_OK;
}

/* Give the event its number.  When the buffer is full the oldest unsent one is given up. */
static void
append_locked(struct wire_event_publisher *publisher, const struct kvt_event *event)
{
    uint64_t pending;

    publisher->shared.ring[publisher->shared.next_seq % publisher->shared.ring_capacity] = *event;
    publisher->shared.next_seq++;
    pending = publisher->shared.next_seq - publisher->shared.unsent_seq;
    if (pending > publisher->buffer_events) {
        publisher->shared.unsent_seq++;
        publisher->shared.lost++;
        return;
    }
    if (pending == 1)
        publisher->shared.pending_since_ms = kvt_clock_mono_ms();
    if (pending == 1 || pending == publisher->flush_events)
        (void)pthread_cond_signal(&publisher->shared.work);
}

void
wire_event_publisher_publish(struct wire_event_publisher *publisher, const struct kvt_event *event)
{
    assert(publisher != NULL && event != NULL);
    assert(event->type >= KVT_EVENT_STORE && event->type <= KVT_EVENT_CLEAR);
    assert(event->location < publisher->location_count);
    (void)pthread_mutex_lock(&publisher->shared.lock);
    append_locked(publisher, event);
    (void)pthread_mutex_unlock(&publisher->shared.lock);
}

void
wire_event_publisher_stats(struct wire_event_publisher *publisher,
                           struct wire_event_publisher_stats *stats)
{
    assert(publisher != NULL && stats != NULL);
    (void)pthread_mutex_lock(&publisher->shared.lock);
    *stats = (struct wire_event_publisher_stats){
        .incarnation = publisher->incarnation,
        .next_seq = publisher->shared.next_seq,
        .acked_seq = publisher->shared.acked_seq,
        .lost = publisher->shared.lost,
        .buffered =
            publisher->shared.next_seq - publisher->shared.unsent_seq + publisher->shared.in_flight,
        .batches = publisher->shared.batches,
    };
    (void)pthread_mutex_unlock(&publisher->shared.lock);
    stats->connected = wire_bus_connected(publisher->bus);
}

enum kvt_err
wire_event_publisher_flush(struct wire_event_publisher *publisher, uint64_t timeout_ms)
{
    const struct timespec until = kvt_cond_deadline(timeout_ms);
    uint64_t target;
    bool done;

    assert(publisher != NULL);
    (void)pthread_mutex_lock(&publisher->shared.lock);
    target = publisher->shared.next_seq;
    publisher->shared.flushers++;
    (void)pthread_cond_signal(&publisher->shared.work);
    while (publisher->shared.done_seq < target &&
           kvt_cond_wait(&publisher->shared.done, &publisher->shared.lock, &until))
        ;
    publisher->shared.flushers--;
    done = publisher->shared.done_seq >= target;
    (void)pthread_mutex_unlock(&publisher->shared.lock);
    return done ? KVT_OK : KVT_TIMEOUT;
}

void
wire_event_publisher_close(struct wire_event_publisher *publisher, bool bye)
{
    const struct kvt_event farewell = {.type = KVT_EVENT_BYE, .ranks = 1};

    if (publisher == NULL)
        return;
    if (publisher->started) {
        (void)pthread_mutex_lock(&publisher->shared.lock);
        if (bye)
            append_locked(publisher, &farewell);
        publisher->shared.stop = true;
        publisher->shared.stop_deadline_ms =
            kvt_clock_mono_ms() + WIRE_EVENT_PUBLISHER_CLOSE_WAIT_MS;
        (void)pthread_cond_signal(&publisher->shared.work);
        (void)pthread_mutex_unlock(&publisher->shared.lock);
        (void)pthread_join(publisher->thread, NULL);
    }
    wire_bus_unsubscribe(publisher->bus, publisher->dump_subject, publisher);
    wire_bus_unsubscribe(publisher->bus, publisher->range_subject, publisher);
    if (publisher->bare_dump_subject[0] != '\0')
        wire_bus_unsubscribe(publisher->bus, publisher->bare_dump_subject, publisher);
    if (publisher->bare_range_subject[0] != '\0')
        wire_bus_unsubscribe(publisher->bus, publisher->bare_range_subject, publisher);
    kvt_buffer_release(&publisher->sender.page);
    kvt_buffer_release(&publisher->sender.bytes);
    kvt_free(publisher->sender.answer);
    kvt_free(publisher->sender.events);
    kvt_free(publisher->shared.questions);
    kvt_free(publisher->shared.ring);
    (void)pthread_cond_destroy(&publisher->shared.done);
    (void)pthread_cond_destroy(&publisher->shared.work);
    (void)pthread_mutex_destroy(&publisher->shared.lock);
    kvt_free(publisher);
}
