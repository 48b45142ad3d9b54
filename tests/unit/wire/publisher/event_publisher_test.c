/*
 * What is tested: wire/publisher/event_publisher.h against a real nats-server.
 * How: a reader that believes nothing but the bytes: it decodes every batch of the stream, checks
 * that numbers follow each other, and compares each event with the one given under that number.
 */
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "wire/message/event_codec.h"
#include "wire/message/query.h"
#include "wire/message/subject.h"
#include "wire/nats/bus.h"
#include "wire/nats/stream.h"
#include "wire/publisher/event_publisher.h"

#include "tests/support/seed.h"
#include "tests/unit/wire/support/test_bus.h"

enum { DEADLINE_MS = 20000, WAIT_MS = 10000, ASK_MS = 2000 };

static const struct kvt_location locations[] = {
    {.tier = KVT_TIER_G2, .name = "host"},
    {.tier = KVT_TIER_G3, .name = "/var/cache"},
};

static struct wire_event_publisher_options
base_options(struct wire_bus *bus)
{
    return (struct wire_event_publisher_options){.bus = bus,
                                                 .namespace_ = "tenant/model",
                                                 .worker = "worker.1",
                                                 .locations = locations,
                                                 .location_count = 2,
                                                 .heartbeat_ms = 60000};
}

static struct wire_event_publisher *
open_publisher(const struct wire_event_publisher_options *options)
{
    struct wire_event_publisher *publisher = NULL;
    struct kvt_error err;

    assert_int_equal(wire_event_publisher_open(&publisher, options, &err), KVT_OK);
    return publisher;
}

/* The event that gets number `seq` in most tests. */
static struct kvt_event
event_of(uint64_t seq)
{
    return (struct kvt_event){.sequence_hash = seq * 3,
                              .prefix_hash = seq / 16,
                              .block_size = 65536,
                              .parent = seq,
                              .position = (uint32_t)seq % 1000,
                              .ranks = 1,
                              .location = seq % 2,
                              .type = seq % 5 == 0 ? KVT_EVENT_REMOVE : KVT_EVENT_STORE};
}

static void
assert_same_event(const struct kvt_event *event, const struct kvt_event *given)
{
    assert_int_equal(event->sequence_hash, given->sequence_hash);
    assert_int_equal(event->prefix_hash, given->prefix_hash);
    assert_int_equal(event->block_size, given->block_size);
    assert_int_equal(event->parent, given->parent);
    assert_int_equal(event->tokens_hash, given->tokens_hash);
    assert_int_equal(event->position, given->position);
    assert_int_equal(event->ranks, given->ranks);
    assert_int_equal(event->location, given->location);
    assert_int_equal(event->type, given->type);
}

static void
give(struct wire_event_publisher *publisher, uint64_t from, uint64_t to)
{
    for (uint64_t seq = from; seq <= to; seq++) {
        const struct kvt_event event = event_of(seq);

        wire_event_publisher_publish(publisher, &event);
    }
}

static struct wire_event_publisher_stats
stats_of(struct wire_event_publisher *publisher)
{
    struct wire_event_publisher_stats stats;

    wire_event_publisher_stats(publisher, &stats);
    return stats;
}

struct reader {
    struct wire_stream *stream;
    struct kvt_event_batch batch;
    struct kvt_event events[KVT_EVENTS_PER_BATCH_MAX];
    uint64_t next_seq;
    uint64_t missing; /* numbers that never came */
    uint64_t batches;
    uint64_t beats; /* heartbeats */
    bool bye;
    bool content; /* compare with event_of() */
};

static struct reader *
open_reader(struct wire_bus *bus)
{
    const struct wire_stream_options options = {.stream = WIRE_STREAM_EVENTS, .start_seq = 1};
    struct reader *reader = kvt_calloc(1, sizeof(*reader));

    assert_non_null(reader);
    reader->batch.events = reader->events;
    reader->next_seq = 1;
    reader->content = true;
    assert_int_equal(wire_stream_open(&reader->stream, bus, &options), KVT_OK);
    return reader;
}

static void
close_reader(struct reader *reader)
{
    wire_stream_close(reader->stream);
    kvt_free(reader);
}

static void
take_batch(struct reader *reader, const void *bytes, size_t size)
{
    uint32_t skipped;

    assert_int_equal(
        wire_event_decode(bytes, size, &reader->batch, KVT_EVENTS_PER_BATCH_MAX, &skipped, NULL),
        KVT_OK);
    assert_int_equal(skipped, 0);
    assert_string_equal(reader->batch.namespace_, "tenant/model");
    assert_string_equal(reader->batch.worker, "worker.1");
    assert_int_equal(reader->batch.location_count, 2);
    assert_true(reader->batch.time_ms > 0);
    if (reader->batch.event_count == 0) {
        reader->beats++;
        return;
    }
    if (reader->batch.first_seq < reader->next_seq)
        return; /* an outage longer than the duplicate window; sequences make it harmless */
    reader->batches++;
    reader->missing += reader->batch.first_seq - reader->next_seq;
    for (uint32_t i = 0; i < reader->batch.event_count; i++) {
        const struct kvt_event *event = &reader->batch.events[i];
        const struct kvt_event given = event_of(reader->batch.first_seq + i);

        reader->bye = event->type == KVT_EVENT_BYE;
        if (reader->content && !reader->bye)
            assert_same_event(event, &given);
    }
    reader->next_seq = reader->batch.first_seq + reader->batch.event_count;
}

static void
read_until(struct reader *reader, uint64_t next_seq)
{
    const uint64_t deadline_ms = kvt_clock_mono_ms() + DEADLINE_MS;
    struct wire_message *messages[WIRE_STREAM_FETCH_MAX];
    size_t count;
    size_t size;

    while (reader->next_seq < next_seq) {
        const enum kvt_err rc =
            wire_stream_fetch(reader->stream, messages, WIRE_STREAM_FETCH_MAX, 100, &count);

        assert_true(rc == KVT_OK || rc == KVT_UNAVAILABLE);
        assert_true(kvt_clock_mono_ms() < deadline_ms);
        for (size_t i = 0; i < count; i++) {
            const void *bytes = wire_message_bytes(messages[i], &size);

            take_batch(reader, bytes, size);
            wire_message_free(messages[i]);
        }
    }
}

static void
options_are_checked(void **state)
{
    struct wire_event_publisher_options options = {.location_count = 0};
    struct wire_event_publisher *publisher = NULL;
    struct test_nats server;
    struct kvt_location nowhere = {.name = "x"};
    struct wire_bus *bus;

    (void)state;
    test_nats_start(&server);
    bus = test_bus_open(&server, false);
    options = base_options(bus);
    options.location_count = 0;
    assert_int_equal(wire_event_publisher_open(&publisher, &options, NULL), KVT_INVALID);
    options = base_options(bus);
    options.worker = "";
    assert_int_equal(wire_event_publisher_open(&publisher, &options, NULL), KVT_INVALID);
    options = base_options(bus);
    options.locations = &nowhere;
    options.location_count = 1;
    assert_int_equal(wire_event_publisher_open(&publisher, &options, NULL), KVT_INVALID);
    assert_null(publisher);
    wire_bus_close(bus);
    test_nats_stop(&server);
}

static void
numbers_have_no_holes(void **state)
{
    enum { EVENTS = 20000 };
    struct wire_event_publisher_options options;
    struct wire_event_publisher *publisher;
    struct test_nats server;
    struct reader *reader;
    struct wire_bus *bus;

    (void)state;
    bus = test_bus_start(&server);
    options = base_options(bus);
    publisher = open_publisher(&options);
    reader = open_reader(bus);
    give(publisher, 1, EVENTS);
    assert_int_equal(wire_event_publisher_flush(publisher, WAIT_MS), KVT_OK);
    assert_int_equal(stats_of(publisher).acked_seq, EVENTS);
    assert_int_equal(stats_of(publisher).buffered, 0);
    assert_int_equal(stats_of(publisher).lost, 0);
    read_until(reader, EVENTS + 1);
    assert_int_equal(reader->missing, 0);
    assert_int_equal(reader->batches, stats_of(publisher).batches);
    assert_int_equal(reader->batch.incarnation, stats_of(publisher).incarnation);

    /* One alone is not kept until a batch is full. */
    give(publisher, EVENTS + 1, EVENTS + 1);
    read_until(reader, EVENTS + 2);

    /* Bye is the last word; a later life has a larger number. */
    wire_event_publisher_close(publisher, true);
    read_until(reader, EVENTS + 3);
    assert_true(reader->bye);
    publisher = open_publisher(&options);
    assert_true(stats_of(publisher).incarnation > reader->batch.incarnation);
    wire_event_publisher_close(publisher, false);
    close_reader(reader);
    wire_bus_close(bus);
    test_nats_stop(&server);
}

static void *
give_many(void *publisher)
{
    give(publisher, 1, 5000);
    return NULL;
}

static void
many_threads_share_one_publisher(void **state)
{
    enum { THREADS = 4 };
    struct wire_event_publisher_options options;
    struct wire_event_publisher *publisher;
    pthread_t threads[THREADS];
    struct test_nats server;
    struct reader *reader;
    struct wire_bus *bus;

    (void)state;
    bus = test_bus_start(&server);
    options = base_options(bus);
    publisher = open_publisher(&options);
    reader = open_reader(bus);
    reader->content = false;
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, give_many, publisher), 0);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_int_equal(wire_event_publisher_flush(publisher, WAIT_MS), KVT_OK);
    read_until(reader, THREADS * 5000 + 1);
    assert_int_equal(reader->missing, 0);
    wire_event_publisher_close(publisher, false);
    close_reader(reader);
    wire_bus_close(bus);
    test_nats_stop(&server);
}

/* JetStream: the server is killed again and again while events keep coming. */
static void
an_outage_loses_nothing(void **state)
{
    struct wire_event_publisher_options options;
    struct wire_event_publisher *publisher;
    struct test_nats server;
    struct reader *reader;
    struct wire_bus *bus;
    uint64_t seq = 0;

    (void)state;
    bus = test_bus_start(&server);
    options = base_options(bus);
    publisher = open_publisher(&options);
    reader = open_reader(bus);
    for (int round = 0; round < 3; round++) {
        give(publisher, seq + 1, seq + 2000);
        seq += 2000;
        kvt_clock_sleep_ms(3); /* die in the middle of it */
        test_nats_kill(&server);
        for (int i = 0; i < 20; i++) {
            give(publisher, seq + 1, seq + 100);
            seq += 100;
            kvt_clock_sleep_ms(5);
        }
        assert_int_equal(wire_event_publisher_flush(publisher, 50), KVT_TIMEOUT);
        assert_true(stats_of(publisher).buffered >= 2000);
        test_nats_restart(&server);
        assert_int_equal(wire_event_publisher_flush(publisher, WAIT_MS), KVT_OK);
    }
    assert_int_equal(stats_of(publisher).lost, 0);
    assert_int_equal(stats_of(publisher).acked_seq, seq);
    read_until(reader, seq + 1);
    assert_int_equal(reader->missing, 0);
    wire_event_publisher_close(publisher, false);
    close_reader(reader);
    wire_bus_close(bus);
    test_nats_stop(&server);
}

static void
a_full_buffer_gives_up_the_oldest_and_counts(void **state)
{
    struct wire_event_publisher_options options;
    struct wire_event_publisher_stats stats;
    struct wire_event_publisher *publisher;
    struct test_nats server;
    struct reader *reader;
    struct wire_bus *bus;

    (void)state;
    bus = test_bus_start(&server);
    options = base_options(bus);
    options.buffer_events = 1000;
    options.ring_events = 1000;
    publisher = open_publisher(&options);
    reader = open_reader(bus);
    give(publisher, 1, 500);
    assert_int_equal(wire_event_publisher_flush(publisher, WAIT_MS), KVT_OK);
    test_nats_kill(&server);
    give(publisher, 501, 5500);
    stats = stats_of(publisher);
    /* The buffer, and what the sender had in its hands already. */
    assert_in_range(stats.lost, 5000 - 2000, 4999);
    assert_true(stats.buffered <= 2000);
    assert_int_equal(stats.lost + stats.buffered + 500, 5500);
    test_nats_restart(&server);
    assert_int_equal(wire_event_publisher_flush(publisher, WAIT_MS), KVT_OK);
    read_until(reader, 5501);
    assert_int_equal(reader->missing, stats_of(publisher).lost);
    assert_int_equal(stats_of(publisher).lost, stats.lost);
    wire_event_publisher_close(publisher, false);
    close_reader(reader);
    wire_bus_close(bus);
    test_nats_stop(&server);
}

/* The stream itself is gone with the server's store: it is made again, and publishing goes on. */
static void
a_lost_stream_is_made_again(void **state)
{
    struct wire_event_publisher_options options;
    struct wire_event_publisher *publisher;
    struct test_nats server;
    struct wire_stream_state info;
    struct wire_bus *bus;

    (void)state;
    test_nats_start(&server);
    bus = test_bus_open(&server, false);
    options = base_options(bus);
    publisher = open_publisher(&options); /* nobody made the streams */
    give(publisher, 1, 10);
    assert_int_equal(wire_event_publisher_flush(publisher, WAIT_MS), KVT_OK);
    test_nats_kill(&server);
    test_nats_forget(&server);
    test_nats_restart(&server);
    give(publisher, 11, 20);
    assert_int_equal(wire_event_publisher_flush(publisher, WAIT_MS), KVT_OK);
    assert_int_equal(wire_stream_state(bus, WIRE_STREAM_EVENTS, &info), KVT_OK);
    assert_true(info.last_seq >= 1);
    wire_event_publisher_close(publisher, false);
    wire_bus_close(bus);
    test_nats_stop(&server);
}

static void
closing_without_a_server_is_bounded(void **state)
{
    struct wire_event_publisher_options options;
    struct wire_event_publisher *publisher;
    struct test_nats server;
    struct wire_bus *bus;
    uint64_t start_ms;

    (void)state;
    test_nats_start(&server);
    test_nats_kill(&server);
    bus = test_bus_open(&server, false);
    options = base_options(bus);
    publisher = open_publisher(&options);
    give(publisher, 1, 10);
    assert_false(stats_of(publisher).connected);
    start_ms = kvt_clock_mono_ms();
    wire_event_publisher_close(publisher, true);
    assert_true(kvt_clock_mono_ms() - start_ms < 6000);
    wire_bus_close(bus);
    test_nats_stop(&server);
}

struct inbox {
    pthread_mutex_t lock;
    struct reader *reader;
    uint64_t last_beat;
    bool partitions_fit;
};

static void
on_batch(void *arg, const char *subject, const char *reply, const void *bytes, size_t size)
{
    struct inbox *inbox = arg;
    unsigned partition = 99;

    (void)reply;
    (void)pthread_mutex_lock(&inbox->lock);
    take_batch(inbox->reader, bytes, size);
    if (inbox->reader->batch.event_count == 0)
        inbox->last_beat = inbox->reader->batch.first_seq;
    if (sscanf(subject, "kvtier.v1.events.tenant/model.%u.worker%%2E1", &partition) != 1)
        inbox->partitions_fit = false;
    for (uint32_t i = 0; i < inbox->reader->batch.event_count; i++)
        inbox->partitions_fit &= inbox->reader->batch.events[i].prefix_hash % 4 == partition;
    (void)pthread_mutex_unlock(&inbox->lock);
}

static void
core_mode_sends_batches_partitions_and_heartbeats(void **state)
{
    const uint64_t deadline_ms = kvt_clock_mono_ms() + DEADLINE_MS;
    struct wire_event_publisher_options options;
    struct wire_event_publisher *publisher;
    struct inbox inbox = {.partitions_fit = true};
    struct test_nats server;
    struct wire_bus *bus;
    bool done = false;

    (void)state;
    test_nats_start(&server);
    bus = test_bus_open(&server, false);
    (void)pthread_mutex_init(&inbox.lock, NULL);
    inbox.reader = open_reader(bus);
    assert_int_equal(wire_bus_subscribe(bus, WIRE_SUBJECT_EVENTS_ALL, on_batch, &inbox, NULL),
                     KVT_OK);
    options = base_options(bus);
    options.mode = WIRE_EVENT_PUBLISHER_CORE;
    options.heartbeat_ms = 50;
    options.partitions = 4;
    publisher = open_publisher(&options);
    give(publisher, 1, 1000);
    assert_int_equal(wire_event_publisher_flush(publisher, WAIT_MS), KVT_OK);
    while (!done) {
        (void)pthread_mutex_lock(&inbox.lock);
        done = inbox.reader->next_seq == 1001 && inbox.last_beat == 1001 && inbox.reader->beats > 2;
        (void)pthread_mutex_unlock(&inbox.lock);
        assert_true(kvt_clock_mono_ms() < deadline_ms);
        kvt_clock_sleep_ms(10);
    }
    assert_int_equal(inbox.reader->missing, 0);
    assert_true(inbox.partitions_fit);
    wire_event_publisher_close(publisher, false);
    wire_bus_unsubscribe(bus, WIRE_SUBJECT_EVENTS_ALL, &inbox);
    close_reader(inbox.reader);
    (void)pthread_mutex_destroy(&inbox.lock);
    wire_bus_close(bus);
    test_nats_stop(&server);
}

enum { HELD = 1000 };

/* Blocks 1 .. HELD, by a cursor that is the number of the next one. */
static size_t
snapshot(void *arg, uint64_t *cursor, struct kvt_event *events, size_t capacity)
{
    size_t count = 0;

    (void)arg;
    while (count < capacity && *cursor < HELD) {
        (*cursor)++;
        events[count++] = (struct kvt_event){.sequence_hash = *cursor, .ranks = 1};
    }
    return count;
}

/* Ask, and decode the page into the reader's batch.  Gives the page's status. */
static enum kvt_err
ask(struct wire_bus *bus, const char *subject, const struct kvt_buffer *question,
    struct reader *reader, uint64_t *cursor, struct kvt_error *err)
{
    struct kvt_buffer answer;
    enum kvt_err status;
    const void *batch;
    uint32_t skipped;
    size_t size;

    kvt_buffer_init(&answer, WIRE_QUERY_MAX);
    assert_int_equal(
        wire_bus_request(bus, subject, question->data, question->size, ASK_MS, &answer), KVT_OK);
    assert_int_equal(
        wire_query_decode_page(answer.data, answer.size, &status, cursor, &batch, &size, err),
        KVT_OK);
    if (status == KVT_OK)
        assert_int_equal(wire_event_decode(batch, size, &reader->batch, KVT_EVENTS_PER_BATCH_MAX,
                                           &skipped, NULL),
                         KVT_OK);
    kvt_buffer_release(&answer);
    return status;
}

static enum kvt_err
ask_range(struct wire_bus *bus, uint64_t incarnation, uint64_t from, uint64_t to,
          struct reader *reader)
{
    const struct wire_query_range range = {.incarnation = incarnation, .from = from, .to = to};
    struct kvt_buffer question;
    char subject[WIRE_SUBJECT_MAX];
    enum kvt_err status;
    uint64_t cursor;

    assert_int_equal(wire_subject_named(WIRE_SUBJECT_RANGE, subject, sizeof(subject), "worker.1"),
                     KVT_OK);
    kvt_buffer_init(&question, WIRE_QUERY_MAX);
    assert_int_equal(wire_query_encode_range(&range, &question), KVT_OK);
    status = ask(bus, subject, &question, reader, &cursor, NULL);
    kvt_buffer_release(&question);
    return status;
}

static void
dump_gives_all_that_is_held_in_pages(void **state)
{
    struct wire_query_dump dump = {.limit = 64};
    struct wire_event_publisher_options options;
    struct wire_event_publisher *publisher;
    struct kvt_buffer question;
    struct kvt_error err;
    struct test_nats server;
    struct reader *reader;
    struct wire_bus *bus;
    char subject[WIRE_SUBJECT_MAX];
    uint64_t next = 1;
    uint32_t pages = 0;

    (void)state;
    bus = test_bus_start(&server);
    reader = open_reader(bus);
    options = base_options(bus);
    options.snapshot = snapshot;
    publisher = open_publisher(&options);
    give(publisher, 1, 77);
    assert_int_equal(wire_subject_named(WIRE_SUBJECT_DUMP, subject, sizeof(subject), "worker.1"),
                     KVT_OK);
    kvt_buffer_init(&question, WIRE_QUERY_MAX);
    do {
        kvt_buffer_clear(&question);
        assert_int_equal(wire_query_encode_dump(&dump, &question), KVT_OK);
        assert_int_equal(ask(bus, subject, &question, reader, &dump.cursor, NULL), KVT_OK);
        assert_int_equal(reader->batch.first_seq, 77);
        for (uint32_t i = 0; i < reader->batch.event_count; i++) {
            assert_int_equal(reader->batch.events[i].sequence_hash, next++);
            assert_int_equal(reader->batch.events[i].type, KVT_EVENT_STORE);
        }
        pages++;
    } while (dump.cursor != 0);
    assert_int_equal(next, HELD + 1);
    assert_true(pages >= HELD / 64);
    /* Also for who does not encode the name. */
    kvt_buffer_clear(&question);
    assert_int_equal(wire_query_encode_dump(&dump, &question), KVT_OK); /* from the beginning */
    assert_int_equal(
        ask(bus, "kvtier.v1.query.dump.worker.1", &question, reader, &dump.cursor, NULL), KVT_OK);
    assert_true(reader->batch.event_count > 0);
    dump.cursor = 0;

    /* Nonsense is told so, with the offset. */
    kvt_buffer_clear(&question);
    kvt_buffer_append(&question, "\x93\x01\xa1x\x01", 5);
    assert_int_equal(ask(bus, subject, &question, reader, &dump.cursor, &err), KVT_INVALID);
    assert_non_null(strstr(err.text, "byte 2"));
    wire_event_publisher_close(publisher, false);

    options.snapshot = NULL;
    publisher = open_publisher(&options);
    kvt_buffer_clear(&question);
    assert_int_equal(wire_query_encode_dump(&dump, &question), KVT_OK);
    assert_int_equal(ask(bus, subject, &question, reader, &dump.cursor, NULL), KVT_UNSUPPORTED);
    wire_event_publisher_close(publisher, false);
    kvt_buffer_release(&question);
    close_reader(reader);
    wire_bus_close(bus);
    test_nats_stop(&server);
}

static void
range_repeats_what_the_ring_still_has(void **state)
{
    struct wire_event_publisher_options options;
    struct wire_event_publisher *publisher;
    struct test_nats server;
    struct reader *reader;
    struct wire_bus *bus;
    uint64_t incarnation;

    (void)state;
    bus = test_bus_start(&server);
    reader = open_reader(bus);
    options = base_options(bus);
    options.ring_events = 100;
    publisher = open_publisher(&options);
    incarnation = stats_of(publisher).incarnation;
    assert_int_equal(ask_range(bus, incarnation, 1, 9, reader), KVT_OK);
    assert_int_equal(reader->batch.event_count, 0);
    assert_int_equal(reader->batch.first_seq, 1);

    give(publisher, 1, 250);
    assert_int_equal(ask_range(bus, incarnation, 151, 160, reader), KVT_OK);
    assert_int_equal(reader->batch.first_seq, 151);
    assert_int_equal(reader->batch.event_count, 10);
    for (uint32_t i = 0; i < 10; i++) {
        const struct kvt_event given = event_of(151 + i);

        assert_same_event(&reader->batch.events[i], &given);
    }
    assert_int_equal(ask_range(bus, incarnation, 240, UINT64_MAX, reader), KVT_OK);
    assert_int_equal(reader->batch.event_count, 11);
    assert_int_equal(ask_range(bus, incarnation, 150, 160, reader), KVT_NOTFOUND);
    assert_int_equal(ask_range(bus, incarnation, 0, 160, reader), KVT_NOTFOUND);
    assert_int_equal(ask_range(bus, incarnation + 1, 200, 201, reader), KVT_NOTFOUND);
    wire_event_publisher_close(publisher, false);
    close_reader(reader);
    wire_bus_close(bus);
    test_nats_stop(&server);
}

static bool
attempt_open(void *bus)
{
    const struct wire_event_publisher_options options = base_options(bus);
    struct wire_event_publisher *publisher = NULL;
    const enum kvt_err rc = wire_event_publisher_open(&publisher, &options, NULL);

    assert_true(rc == KVT_OK || (rc == KVT_NOMEM && publisher == NULL));
    wire_event_publisher_close(publisher, false);
    return rc == KVT_OK;
}

static void
opening_survives_every_failing_allocation(void **state)
{
    struct test_nats server;
    struct wire_bus *bus;

    (void)state;
    test_nats_start(&server);
    bus = test_bus_open(&server, false);
    assert_true(test_sweep_allocations(attempt_open, bus) >= 7);
    wire_bus_close(bus);
    test_nats_stop(&server);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(options_are_checked),
        cmocka_unit_test(numbers_have_no_holes),
        cmocka_unit_test(many_threads_share_one_publisher),
        cmocka_unit_test(an_outage_loses_nothing),
        cmocka_unit_test(a_full_buffer_gives_up_the_oldest_and_counts),
        cmocka_unit_test(a_lost_stream_is_made_again),
        cmocka_unit_test(closing_without_a_server_is_bounded),
        cmocka_unit_test(core_mode_sends_batches_partitions_and_heartbeats),
        cmocka_unit_test(dump_gives_all_that_is_held_in_pages),
        cmocka_unit_test(range_repeats_what_the_ring_still_has),
        cmocka_unit_test(opening_survives_every_failing_allocation),
    };

    test_nats_require();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
