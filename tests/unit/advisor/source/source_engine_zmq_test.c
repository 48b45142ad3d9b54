/*
 * What is tested: the engine-zmq source: vLLM, SGLang and the KVBM consolidator, and their replay.
 * How: publishers and replay sockets in this process over loopback TCP.
 */
#include <stdio.h>
#include <string.h>

#include "advisor/source/source.h"
#include "base/core/alloc.h"
#include "base/core/clock.h"

#include "tests/support/seed.h"
#include "tests/unit/advisor/support/zmq_peer.h"
#include "tests/unit/advisor/support/zmq_source.h"

/* Within GIVEN_MS a busy machine connects and hears what is sent; all of it is waited for. */
enum { PATIENCE_MS = 20000, GIVEN_MS = 1500, STEP_MS = 50, QUICK_MS = 5000 };
enum { ANSWER_MAX = 1 << 20 };

static struct advisor_source_options
options_of(const char *endpoints, const char *replay)
{
    struct advisor_source_options options = test_zmq_source_options("engine", endpoints);

    options.replay = replay;
    return options;
}

static struct advisor_source *
open_source(const struct advisor_source_options *options)
{
    return test_zmq_source_open(&advisor_source_engine_zmq, options);
}

struct expected {
    const char *subject;
    const char *payload;
    uint64_t sequence;
    uint32_t endpoint;
    bool new_life;
};

static void
expect(struct advisor_source *source, const struct expected *expected)
{
    struct advisor_inbox_item *item = test_zmq_source_take(source);

    assert_int_equal(item->kind, ADVISOR_INBOX_ITEM_MESSAGE);
    assert_string_equal(item->subject, expected->subject);
    assert_true(item->has_sequence);
    assert_int_equal(item->sequence, expected->sequence);
    assert_int_equal(item->endpoint, expected->endpoint);
    assert_int_equal(item->new_life, expected->new_life);
    assert_int_equal(item->size, strlen(expected->payload));
    assert_memory_equal(item->bytes, expected->payload, item->size);
    assert_true(item->time_ms > 0);
    advisor_inbox_item_free(item);
}

/* Three engines, each known by the place of its address; the consolidator sends an empty topic. */
static void
messages_say_where_they_came_from(void **state)
{
    struct test_zmq_publisher engines[3];
    struct advisor_source_options options;
    struct advisor_source *source;
    struct advisor_source_state now;
    char endpoints[256] = "";

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        const size_t used = strlen(endpoints);

        test_zmq_publisher_bind(&engines[i], NULL, 0);
        (void)snprintf(endpoints + used, sizeof(endpoints) - used, "%s %s", i == 0 ? "" : ",",
                       engines[i].endpoint);
    }
    options = options_of(endpoints, "");
    source = open_source(&options);
    for (size_t i = 0; i < 3; i++)
        test_zmq_publisher_await(&engines[i], 1);
    test_zmq_publish(&engines[0], "kv@pod@model", 0, "first");
    expect(source, &(struct expected){"engine:0", "first", 0, 0, false});
    test_zmq_publish(&engines[2], "", 41, "consolidated");
    expect(source, &(struct expected){"engine:2", "consolidated", 41, 2, false});
    test_zmq_publish(&engines[1], "x", 0, "other");
    expect(source, &(struct expected){"engine:1", "other", 0, 1, false});
    test_zmq_publish(&engines[0], "kv@pod@model", 1, "second");
    expect(source, &(struct expected){"engine:0", "second", 1, 0, false});
    test_zmq_source_wait_running(source, true);
    test_zmq_publisher_close(&engines[1]);
    for (now.detail[0] = '\0'; strstr(now.detail, engines[1].endpoint) == NULL;)
        advisor_source_state(source, &now);
    assert_non_null(strstr(now.detail, "2 of 3"));
    assert_true(now.running);
    test_zmq_source_close(source);
    test_zmq_publisher_close(&engines[0]);
    test_zmq_publisher_close(&engines[2]);
}

static void
malformed_messages_are_counted(void **state)
{
    static const struct test_zmq_frame short_number[] = {{"", 0}, {"1234567", 7}, {"p", 1}};
    static const struct test_zmq_frame no_payload[] = {{"", 0}, {"12345678", 8}, {"", 0}};
    static const struct test_zmq_frame lone[] = {{"p", 1}};
    static const struct test_zmq_frame four[] = {{"", 0}, {"", 0}, {"12345678", 8}, {"p", 1}};
    struct test_zmq_frame many[20];
    struct test_zmq_publisher engine;
    struct advisor_source_options options;
    struct advisor_source *source;

    (void)state;
    test_zmq_publisher_bind(&engine, NULL, 0);
    options = options_of(engine.endpoint, "");
    source = open_source(&options);
    test_zmq_publisher_await(&engine, 1);
    for (size_t i = 0; i < 20; i++)
        many[i] = (struct test_zmq_frame){"12345678", 8};
    test_zmq_send(&engine, short_number, 3);
    test_zmq_send(&engine, no_payload, 3);
    test_zmq_send(&engine, lone, 1);
    test_zmq_send(&engine, four, 4);
    test_zmq_send(&engine, many, 20);
    test_zmq_publish(&engine, "", 9, "fine");
    expect(source, &(struct expected){"engine:0", "fine", 9, 0, false});
    test_zmq_source_wait_refused(source, 5);
    test_zmq_source_expect_nothing(source);
    test_zmq_source_close(source);
    test_zmq_publisher_close(&engine);
}

/* A slow reader: the publisher drops at its mark, and the numbers show it; it is no new life. */
static void
a_slow_reader_sees_a_gap(void **state)
{
    enum { SENT = 12000, SIZE = 4096 };
    struct test_zmq_publisher engine;
    struct advisor_source_options options;
    struct advisor_source *source;
    struct advisor_source_state now;
    char *payload = kvt_calloc(SIZE + 1, 1);
    uint64_t next = 0;
    uint64_t lost = 0;
    size_t quiet = 0;

    (void)state;
    assert_non_null(payload);
    memset(payload, 'p', SIZE);
    test_zmq_publisher_bind(&engine, NULL, 10);
    options = options_of(engine.endpoint, "");
    source = open_source(&options);
    test_zmq_publisher_await(&engine, 1);
    for (uint64_t n = 0; n < SENT; n++)
        test_zmq_publish(&engine, "", n, payload);
    advisor_source_state(source, &now);
    assert_true(now.waiting <= ADVISOR_SOURCE_ITEMS_MAX);
    assert_true(now.bytes <= ADVISOR_SOURCE_BYTES_MAX + SIZE);
    while (quiet < 10) {
        struct advisor_inbox_item *item;

        if (advisor_source_poll(source, &item, 1, STEP_MS) == 0) {
            quiet++;
            continue;
        }
        quiet = 0;
        assert_true(item->sequence >= next); /* in order, nothing twice */
        assert_false(item->new_life);
        lost += item->sequence - next;
        next = item->sequence + 1;
        advisor_inbox_item_free(item);
    }
    assert_true(lost + SENT - next > 0);
    test_zmq_publish(&engine, "", SENT, "end");
    expect(source, &(struct expected){"engine:0", "end", SENT, 0, false});
    kvt_free(payload);
    test_zmq_source_close(source);
    test_zmq_publisher_close(&engine);
}

/* Numbers that go back are another life, wherever the publisher is. */
static void
a_restarted_publisher_is_another(void **state)
{
    struct test_zmq_publisher engine;
    struct advisor_source_options options;
    struct advisor_source *source;
    char endpoint[64];

    (void)state;
    test_zmq_free_endpoint(endpoint, sizeof(endpoint));
    options = options_of(endpoint, "");
    source = open_source(&options);
    test_zmq_publisher_bind(&engine, endpoint, 0);
    test_zmq_publisher_await(&engine, 1);
    test_zmq_publish(&engine, "", 0, "a");
    test_zmq_publish(&engine, "", 1, "b");
    expect(source, &(struct expected){"engine:0", "a", 0, 0, false});
    expect(source, &(struct expected){"engine:0", "b", 1, 0, false});
    test_zmq_publisher_close(&engine);
    test_zmq_source_wait_running(source, false);

    test_zmq_publisher_bind(&engine, endpoint, 0);
    test_zmq_publisher_await(&engine, 1);
    test_zmq_publish(&engine, "", 0, "c");
    test_zmq_publish(&engine, "", 1, "d");
    expect(source, &(struct expected){"engine:0", "c", 0, 0, true});
    expect(source, &(struct expected){"engine:0", "d", 1, 0, false});
    test_zmq_publisher_close(&engine);
    test_zmq_source_wait_running(source, false);

    /* It is ahead of where we were when we hear it: nobody vouches for it. */
    test_zmq_publisher_bind(&engine, endpoint, 0);
    test_zmq_publisher_await(&engine, 1);
    test_zmq_publish(&engine, "", 7, "e");
    test_zmq_publish(&engine, "", 9, "f");
    expect(source, &(struct expected){"engine:0", "e", 7, 0, true});
    expect(source, &(struct expected){"engine:0", "f", 9, 0, false}); /* a gap, as any */
    test_zmq_publisher_close(&engine);
    test_zmq_source_close(source);
}

/* The connection was lost and messages with it: the replay socket knows whether it is the same. */
static void
a_replay_socket_vouches(void **state)
{
    struct test_zmq_replay replay = {.count = 4, .messages = {"a", "b", "c", "d"}};
    struct test_zmq_publisher engine;
    struct advisor_source_options options;
    struct advisor_source *source;
    char endpoint[64];

    (void)state;
    test_zmq_free_endpoint(endpoint, sizeof(endpoint));
    test_zmq_replay_start(&replay);
    options = options_of(endpoint, replay.endpoint);
    source = open_source(&options);
    test_zmq_publisher_bind(&engine, endpoint, 0);
    test_zmq_publisher_await(&engine, 1);
    test_zmq_publish(&engine, "", 0, "a");
    test_zmq_publish(&engine, "", 1, "b");
    expect(source, &(struct expected){"engine:0", "a", 0, 0, false});
    expect(source, &(struct expected){"engine:0", "b", 1, 0, false});
    assert_int_equal(atomic_load(&replay.questions), 0);

    test_zmq_publisher_close(&engine); /* "c" goes past us */
    test_zmq_source_wait_running(source, false);
    test_zmq_publisher_bind(&engine, endpoint, 0);
    test_zmq_publisher_await(&engine, 1);
    test_zmq_publish(&engine, "", 3, "d");
    expect(source, &(struct expected){"engine:0", "d", 3, 0, false});
    assert_int_equal(atomic_load(&replay.questions), 1);

    test_zmq_publisher_close(&engine); /* and now it is another, with other messages */
    test_zmq_source_wait_running(source, false);
    test_zmq_replay_stop(&replay);
    test_zmq_source_close(source);
}

static void
a_replay_socket_denies(void **state)
{
    struct test_zmq_replay replay = {.count = 4, .messages = {"z", "y", "x", "w"}};
    struct test_zmq_publisher engine;
    struct advisor_source_options options;
    struct advisor_source *source;
    char endpoint[64];

    (void)state;
    test_zmq_free_endpoint(endpoint, sizeof(endpoint));
    test_zmq_replay_start(&replay);
    options = options_of(endpoint, replay.endpoint);
    source = open_source(&options);
    test_zmq_publisher_bind(&engine, endpoint, 0);
    test_zmq_publisher_await(&engine, 1);
    test_zmq_publish(&engine, "", 1, "b");
    expect(source, &(struct expected){"engine:0", "b", 1, 0, false});
    test_zmq_publisher_close(&engine);
    test_zmq_source_wait_running(source, false);
    test_zmq_publisher_bind(&engine, endpoint, 0);
    test_zmq_publisher_await(&engine, 1);
    test_zmq_publish(&engine, "", 3, "w");
    expect(source, &(struct expected){"engine:0", "w", 3, 0, true});
    assert_int_equal(atomic_load(&replay.questions), 1);
    test_zmq_publisher_close(&engine);
    test_zmq_replay_stop(&replay);
    test_zmq_source_close(source);
}

/* SGLang writes the life into the topic. */
static void
an_epoch_names_the_life(void **state)
{
    static const char one[] = "kv\0sgl-kv-epoch=8d1f";
    static const char two[] = "kv\0sgl-kv-epoch=8d20";
    const char *const topics[] = {one, one, two};
    struct test_zmq_publisher engine;
    struct advisor_source_options options;
    struct advisor_source *source;
    uint64_t epochs[3];

    (void)state;
    test_zmq_publisher_bind(&engine, NULL, 0);
    options = options_of(engine.endpoint, "");
    source = open_source(&options);
    test_zmq_publisher_await(&engine, 1);
    for (uint64_t n = 0; n < 3; n++) {
        uint8_t number[8];
        const struct test_zmq_frame frames[] = {
            {topics[n], sizeof(one) - 1}, {number, sizeof(number)}, {"p", 1}};
        struct advisor_inbox_item *item;

        test_zmq_be64(number, n);
        test_zmq_send(&engine, frames, 3);
        item = test_zmq_source_take(source);
        epochs[n] = item->epoch;
        assert_int_equal(item->new_life, n == 2);
        assert_int_equal(item->sequence, n);
        advisor_inbox_item_free(item);
    }
    assert_true(epochs[0] != 0);
    assert_int_equal(epochs[0], epochs[1]);
    assert_true(epochs[2] != 0 && epochs[2] != epochs[1]);
    test_zmq_source_close(source);
    test_zmq_publisher_close(&engine);
}

/* Engines that connect to us are told apart by address and topic. */
static void
engines_connect_to_us(void **state)
{
    struct test_zmq_publisher engines[2];
    struct advisor_source_options options;
    struct advisor_source *source;
    struct advisor_source *second;
    char endpoint[64];

    (void)state;
    test_zmq_free_endpoint(endpoint, sizeof(endpoint));
    options = options_of(endpoint, "");
    options.bind = true;
    source = open_source(&options);
    test_zmq_source_wait_running(source, true);
    second = open_source(&options); /* the port is taken: it says so, and tries on */
    test_zmq_source_wait_running(second, false);
    test_zmq_source_close(second);
    for (size_t i = 0; i < 2; i++) {
        test_zmq_publisher_connect(&engines[i], endpoint);
        test_zmq_publisher_await(&engines[i], 1);
    }
    test_zmq_publish(&engines[0], "pod-a", 5, "p");
    expect(source, &(struct expected){"engine:0@127.0.0.1/pod-a", "p", 5, 0, false});
    test_zmq_publish(&engines[1], "pod-b", 0, "q");
    expect(source, &(struct expected){"engine:0@127.0.0.1/pod-b", "q", 0, 0, false});
    test_zmq_publish(&engines[0], "pod-a", 6, "r");
    expect(source, &(struct expected){"engine:0@127.0.0.1/pod-a", "r", 6, 0, false});
    {
        char topic[200];
        struct advisor_inbox_item *item;

        memset(topic, 't', sizeof(topic) - 1);
        topic[sizeof(topic) - 1] = '\0';
        test_zmq_publish(&engines[1], topic, 0, "long");
        item = test_zmq_source_take(source);
        assert_int_equal(strncmp(item->subject, "engine:0~", 9), 0);
        assert_int_equal(strlen(item->subject), 9 + 16);
        advisor_inbox_item_free(item);
    }
    test_zmq_source_close(source);
    test_zmq_publisher_close(&engines[0]);
    test_zmq_publisher_close(&engines[1]);
}

/* ---- ask ---- */

static enum kvt_err
ask(struct advisor_source *source, const char *worker, uint64_t from, uint64_t to,
    uint64_t patience_ms, struct kvt_buffer *answer)
{
    const struct advisor_ask question = {
        .worker = worker,
        .subject = "",
        .from = from,
        .to = to,
        .deadline_ms = kvt_clock_mono_ms() + patience_ms,
    };
    enum advisor_answer_kind kind = ADVISOR_ANSWER_PAGE;
    struct kvt_error err;
    enum kvt_err rc;

    kvt_buffer_clear(answer);
    rc = advisor_source_engine_zmq.ask(source, &question, &kind, answer, &err);
    assert_int_equal(kind, ADVISOR_ANSWER_MESSAGES);
    if (rc != KVT_OK)
        assert_true(err.text[0] != '\0');
    return rc;
}

static uint64_t
le64(const uint8_t *bytes)
{
    uint64_t value = 0;

    for (int i = 7; i >= 0; i--)
        value = value << 8 | bytes[i];
    return value;
}

/* The answer is exactly `count` messages from `first` on. */
static void
expect_answer(const struct kvt_buffer *answer, const char *const *messages, uint64_t first,
              size_t count)
{
    size_t at = 0;

    for (size_t i = 0; i < count; i++) {
        const size_t size = strlen(messages[i]);

        assert_true(answer->size >= at + 16 + size);
        assert_int_equal(le64(answer->data + at), first + i);
        assert_int_equal(le64(answer->data + at + 8), size);
        assert_memory_equal(answer->data + at + 16, messages[i], size);
        at += 16 + size;
    }
    assert_int_equal(answer->size, at);
}

static void
gaps_are_filled_from_the_ring(void **state)
{
    struct test_zmq_replay replay = {
        .first = 10, .count = 6, .messages = {"k", "ll", "mmm", "n", "o", "p"}};
    struct advisor_source_options options;
    struct advisor_source *source;
    struct kvt_buffer answer;
    char endpoint[64];
    char replays[80];

    (void)state;
    test_zmq_free_endpoint(endpoint, sizeof(endpoint));
    kvt_buffer_init(&answer, ANSWER_MAX);
    for (int newer = 0; newer < 2; newer++) {
        char endpoints[160];

        replay.with_topic = newer == 1;
        test_zmq_replay_start(&replay);
        (void)snprintf(endpoints, sizeof(endpoints), "%s,%s", endpoint, endpoint);
        (void)snprintf(replays, sizeof(replays), ",%s", replay.endpoint); /* the second has one */
        options = options_of(endpoints, replays);
        source = open_source(&options);
        assert_int_equal(ask(source, "engine:1", 11, 13, PATIENCE_MS, &answer), KVT_OK);
        expect_answer(&answer, &replay.messages[1], 11, 3);
        assert_int_equal(ask(source, "engine:1@h/t", 14, 0, PATIENCE_MS, &answer), KVT_OK);
        expect_answer(&answer, &replay.messages[4], 14, 2);
        /* The ring begins later than asked: what it still has. */
        assert_int_equal(ask(source, "engine:1", 3, 0, PATIENCE_MS, &answer), KVT_OK);
        expect_answer(&answer, &replay.messages[0], 10, 6);
        assert_int_equal(ask(source, "engine:1", 3, 7, PATIENCE_MS, &answer), KVT_NOTFOUND);
        /* Nothing newer, says one that has what we heard last; one that has not is another. */
        assert_int_equal(ask(source, "engine:1", 16, 0, PATIENCE_MS, &answer), KVT_OK);
        assert_int_equal(answer.size, 0);
        assert_int_equal(ask(source, "engine:1", 17, 0, PATIENCE_MS, &answer), KVT_NOTFOUND);
        assert_int_equal(ask(source, "engine:1", 16, 20, PATIENCE_MS, &answer), KVT_NOTFOUND);
        assert_int_equal(ask(source, "engine:0", 3, 0, PATIENCE_MS, &answer), KVT_UNSUPPORTED);
        assert_int_equal(ask(source, "engine:9", 3, 0, PATIENCE_MS, &answer), KVT_UNSUPPORTED);
        assert_int_equal(ask(source, "somebody", 3, 0, PATIENCE_MS, &answer), KVT_UNSUPPORTED);
        assert_int_equal(ask(source, NULL, 3, 0, PATIENCE_MS, &answer), KVT_UNSUPPORTED);
        test_zmq_source_close(source);
        test_zmq_replay_stop(&replay);
    }
    kvt_buffer_release(&answer);
}

/* A ROUTER that drops: what it dropped is asked for again, and the answer has no holes. */
static void
holes_are_asked_for_again(void **state)
{
    struct test_zmq_replay replay = {
        .mode = TEST_REPLAY_HOLES, .count = 6, .messages = {"a", "b", "c", "d", "e", "f"}};
    struct advisor_source_options options;
    struct advisor_source *source;
    struct kvt_buffer answer;
    char endpoint[64];

    (void)state;
    test_zmq_free_endpoint(endpoint, sizeof(endpoint));
    kvt_buffer_init(&answer, ANSWER_MAX);
    test_zmq_replay_start(&replay);
    options = options_of(endpoint, replay.endpoint);
    source = open_source(&options);
    assert_int_equal(ask(source, "engine:0", 0, 0, PATIENCE_MS, &answer), KVT_OK);
    expect_answer(&answer, replay.messages, 0, 6);
    assert_int_equal(atomic_load(&replay.questions), 3);
    kvt_buffer_release(&answer);
    test_zmq_source_close(source);
    test_zmq_replay_stop(&replay);
}

/* Whole messages only, however little room there is. */
static void
answers_are_bounded(void **state)
{
    struct test_zmq_replay replay = {.count = 4, .messages = {"aaaa", "bbbb", "cccc", "dddd"}};
    struct advisor_source_options options;
    struct advisor_source *source;
    struct kvt_buffer answer;
    char endpoint[64];

    (void)state;
    test_zmq_free_endpoint(endpoint, sizeof(endpoint));
    test_zmq_replay_start(&replay);
    options = options_of(endpoint, replay.endpoint);
    source = open_source(&options);
    kvt_buffer_init(&answer, 2 * 20 + 19);
    assert_int_equal(ask(source, "engine:0", 0, 0, PATIENCE_MS, &answer), KVT_OK);
    assert_true(kvt_buffer_ok(&answer));
    expect_answer(&answer, replay.messages, 0, 2);
    kvt_buffer_release(&answer);
    kvt_buffer_init(&answer, 19);
    assert_int_equal(ask(source, "engine:0", 0, 0, PATIENCE_MS, &answer), KVT_RANGE);
    kvt_buffer_release(&answer);
    test_zmq_source_close(source);
    test_zmq_replay_stop(&replay);
}

static void
silent_peers_cost_their_deadline(void **state)
{
    struct test_zmq_replay replay = {
        .mode = TEST_REPLAY_SILENT, .count = 4, .messages = {"a", "b", "c", "d"}};
    struct advisor_source_options options;
    struct advisor_source *source;
    struct kvt_buffer answer;
    uint64_t start_ms;
    char endpoint[64];

    (void)state;
    test_zmq_free_endpoint(endpoint, sizeof(endpoint));
    kvt_buffer_init(&answer, ANSWER_MAX);
    test_zmq_replay_start(&replay);
    options = options_of(endpoint, replay.endpoint);
    source = open_source(&options);
    start_ms = kvt_clock_mono_ms();
    assert_int_equal(ask(source, "engine:0", 0, 0, GIVEN_MS, &answer), KVT_TIMEOUT);
    assert_true(kvt_clock_mono_ms() - start_ms >= GIVEN_MS);
    assert_true(kvt_clock_mono_ms() - start_ms < GIVEN_MS + QUICK_MS);
    assert_int_equal(atomic_load(&replay.questions), 1);
    test_zmq_source_close(source);
    test_zmq_replay_stop(&replay);

    replay.mode = TEST_REPLAY_CUT; /* what came before it fell silent is worth having */
    test_zmq_replay_start(&replay);
    options = options_of(endpoint, replay.endpoint);
    source = open_source(&options);
    assert_int_equal(ask(source, "engine:0", 0, 0, GIVEN_MS, &answer), KVT_OK);
    expect_answer(&answer, replay.messages, 0, 2);
    test_zmq_source_close(source);
    test_zmq_replay_stop(&replay);

    replay.mode = TEST_REPLAY_ODD;
    test_zmq_replay_start(&replay);
    options = options_of(endpoint, replay.endpoint);
    source = open_source(&options);
    assert_int_equal(ask(source, "engine:0", 0, 0, PATIENCE_MS, &answer), KVT_INVALID);
    test_zmq_source_close(source);
    test_zmq_replay_stop(&replay);

    options = options_of(endpoint, endpoint); /* nobody is there */
    source = open_source(&options);
    assert_int_equal(ask(source, "engine:0", 0, 0, 300, &answer), KVT_TIMEOUT);
    test_zmq_source_close(source);
    kvt_buffer_release(&answer);
}

/* ---- open and close ---- */

static void
settings_are_checked(void **state)
{
    static const char *const wrong[] = {"",
                                        " ",
                                        "127.0.0.1:5557",
                                        "tcp://a:1,,tcp://b:2",
                                        "http://a:1",
                                        "tcp://127.0.0.1",
                                        "tcp://127.0.0.1:port"};
    struct advisor_source_options options;
    struct advisor_source *source;

    (void)state;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        options = options_of(wrong[i], "");
        assert_int_equal(advisor_source_open(&source, &advisor_source_engine_zmq, &options),
                         KVT_INVALID);
        assert_null(source);
    }
    {
        char *many = kvt_calloc(ADVISOR_ENDPOINTS_MAX + 1, 16);

        assert_non_null(many);
        for (size_t i = 0; i <= ADVISOR_ENDPOINTS_MAX; i++)
            (void)snprintf(many + strlen(many), 16, "%stcp://h:%u", i == 0 ? "" : ",",
                           1 + (unsigned)i);
        options = options_of(many, "");
        assert_int_equal(advisor_source_open(&source, &advisor_source_engine_zmq, &options),
                         KVT_RANGE);
        kvt_free(many);
    }
}

/* The queue is full and nobody takes from it: close does not wait. */
static void
closing_does_not_wait(void **state)
{
    enum { SIZE = 64 << 10 };
    struct test_zmq_publisher engine;
    struct advisor_source_options options;
    struct advisor_source *source;
    struct advisor_source_state now = {0};
    char *payload = kvt_calloc(SIZE + 1, 1);

    (void)state;
    assert_non_null(payload);
    memset(payload, 'p', SIZE);
    test_zmq_publisher_bind(&engine, NULL, 100);
    options = options_of(engine.endpoint, "");
    source = open_source(&options);
    test_zmq_publisher_await(&engine, 1);
    for (uint64_t n = 0; now.bytes < ADVISOR_SOURCE_BYTES_MAX; n++) {
        test_zmq_publish(&engine, "", n, payload);
        advisor_source_state(source, &now);
        assert_true(n < 100000);
    }
    kvt_clock_sleep_ms(STEP_MS); /* its thread waits for room now */
    test_zmq_source_close(source);
    test_zmq_publisher_close(&engine);
    kvt_free(payload);
}

static void
memory_is_short(void **state)
{
    struct advisor_source_options options;
    char endpoint[64];

    (void)state;
    test_zmq_free_endpoint(endpoint, sizeof(endpoint));
    options = options_of(endpoint, endpoint);
    test_zmq_source_sweep(&advisor_source_engine_zmq, &options);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_say_where_they_came_from),
        cmocka_unit_test(malformed_messages_are_counted),
        cmocka_unit_test(a_slow_reader_sees_a_gap),
        cmocka_unit_test(a_restarted_publisher_is_another),
        cmocka_unit_test(a_replay_socket_vouches),
        cmocka_unit_test(a_replay_socket_denies),
        cmocka_unit_test(an_epoch_names_the_life),
        cmocka_unit_test(engines_connect_to_us),
        cmocka_unit_test(gaps_are_filled_from_the_ring),
        cmocka_unit_test(holes_are_asked_for_again),
        cmocka_unit_test(answers_are_bounded),
        cmocka_unit_test(silent_peers_cost_their_deadline),
        cmocka_unit_test(settings_are_checked),
        cmocka_unit_test(closing_does_not_wait),
        cmocka_unit_test(memory_is_short),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
