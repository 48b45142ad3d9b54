/*
 * What is tested: g4/s3/s3_internal.h and g4/s3/latency.h: what is tried again and how often, that
 * retries end with the deadline and with their budget, and hedged GETs: the first good answer
 * counts, whichever attempt brings it, and no more are asked than their share.
 */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/core/random.h"
#include "base/thread/cond.h"
#include "g4/object/check.h"
#include "g4/s3/latency.h"
#include "g4/s3/s3_internal.h"

#include "tests/support/seed.h"
#include "tests/unit/g4/support/helpers.h"
#include "tests/unit/g4/support/servers.h"

enum { WAIT_MS = 30000, CROWD = 150, CROWD_THREADS = 4 };

#define HELLO                                                                                      \
    "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nETag: \"tag\"\r\nConnection: close\r\n\r\nhello"
#define SLOW_DOWN                                                                                  \
    "HTTP/1.1 503 Slow Down\r\nConnection: close\r\n\r\n<Error><Code>SlowDown</Code></Error>"

/* A peer that several connections talk to at once. */
struct peer {
    pthread_mutex_t lock; /* guards this struct */
    pthread_cond_t changed;
    unsigned seen;
    unsigned answered;
    const char *reply;
    const char *first; /* the first one gets this instead; "" = silence */
    bool first_waits;  /* ... once the second has been seen */
    bool second_waits; /* the second answers once the first did */
    uint64_t delay_ms; /* of every answer */
    struct g4_s3_options options;
    struct hostile *hostile;
    struct g4_store *store;
    struct fetched fetched;
};

static void
wait_until(struct peer *peer, const unsigned *count, unsigned least)
{
    const struct timespec deadline = kvt_cond_deadline(WAIT_MS);

    while (*count < least)
        assert_true(kvt_cond_wait(&peer->changed, &peer->lock, &deadline));
}

static void
play(void *arg, const char *head, const uint8_t *body, size_t size, struct kvt_buffer *reply)
{
    struct peer *peer = arg;
    const char *text;
    uint64_t delay_ms;
    unsigned number;

    (void)head;
    (void)body;
    (void)size;
    (void)pthread_mutex_lock(&peer->lock);
    number = ++peer->seen;
    (void)pthread_cond_broadcast(&peer->changed);
    if (number == 1 && peer->first_waits)
        wait_until(peer, &peer->seen, 2);
    if (number == 2 && peer->second_waits)
        wait_until(peer, &peer->answered, 1);
    text = number == 1 && peer->first != NULL ? peer->first : peer->reply;
    delay_ms = peer->delay_ms;
    (void)pthread_mutex_unlock(&peer->lock);
    kvt_clock_sleep_ms(delay_ms);
    kvt_buffer_append(reply, text, strlen(text));
    (void)pthread_mutex_lock(&peer->lock);
    peer->answered++;
    (void)pthread_cond_broadcast(&peer->changed);
    (void)pthread_mutex_unlock(&peer->lock);
}

static struct peer *
peer_new(const char *reply, unsigned threads)
{
    struct peer *peer = kvt_calloc(1, sizeof(*peer));

    assert_non_null(peer);
    (void)pthread_mutex_init(&peer->lock, NULL);
    assert_true(kvt_cond_init(&peer->changed));
    peer->reply = reply;
    peer->hostile = hostile_start_wide(play, peer, threads);
    peer->options = *hostile_options(peer->hostile);
    peer->options.timeout_ms = WAIT_MS;
    peer->options.hedge_share_ppm = 1000000;
    return peer;
}

static void
open_store(struct peer *peer)
{
    assert_int_equal(g4_s3_open(&peer->store, &peer->options, NULL), KVT_OK);
}

/* Ends both, so that its numbers stand still. */
static void
peer_end(struct peer *peer)
{
    g4_store_close(peer->store);
    hostile_stop(peer->hostile);
    peer->store = NULL;
}

static void
peer_free(struct peer *peer)
{
    (void)pthread_cond_destroy(&peer->changed);
    (void)pthread_mutex_destroy(&peer->lock);
    kvt_free(peer);
}

static void
kinds_of_failure_decide_whether_it_is_tried_again(void **state)
{
    static const struct {
        const char *status;
        unsigned attempts;
    } rows[] = {
        {"500 Internal", 3}, {"502 Bad Gateway", 3}, {"503 Busy", 3},    {"504 Late", 3},
        {"429 Too Many", 3}, {"409 Conflict", 3},    {"408 Timeout", 3}, {"400 Bad", 1},
        {"401 Who", 1},      {"403 No", 1},          {"404 Absent", 1},  {"412 Precondition", 1},
        {"416 Outside", 1},  {"501 Not Yet", 1},     {"507 Full", 1},    {"301 Elsewhere", 1},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct peer *peer = peer_new("", 1);
        char reply[128];

        (void)snprintf(reply, sizeof(reply),
                       "HTTP/1.1 %s\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
                       rows[i].status);
        peer->reply = reply;
        peer->options.attempts_max = 3;
        open_store(peer);
        assert_int_not_equal(get(peer->store, "k", &peer->fetched), KVT_OK);
        peer_end(peer);
        if (peer->seen != rows[i].attempts)
            fail_msg("%s: %u attempts", rows[i].status, peer->seen);
        peer_free(peer);
    }
}

static void
what_may_be_sent_once_is_not_tried_again(void **state)
{
    struct peer *peer = peer_new(SLOW_DOWN, 1);
    struct g4_request request = {.verb = G4_DELETE, .key = "k", .once = true};

    (void)state;
    open_store(peer);
    assert_int_equal(g4_store_perform(peer->store, &request), KVT_UNAVAILABLE);
    peer_end(peer);
    assert_int_equal(peer->seen, 1);
    peer_free(peer);
}

static void
retries_end_with_the_deadline(void **state)
{
    struct peer *peer = peer_new(SLOW_DOWN, 1);
    const uint64_t before_ms = kvt_clock_mono_ms();
    enum kvt_err rc;

    (void)state;
    peer->options.attempts_max = 1000;
    peer->options.timeout_ms = 300;
    open_store(peer);
    rc = get(peer->store, "k", &peer->fetched);
    assert_true(rc == KVT_UNAVAILABLE || rc == KVT_TIMEOUT); /* the latter under load */
    assert_true(kvt_clock_mono_ms() - before_ms < WAIT_MS / 2);
    peer_end(peer);
    assert_true(peer->seen < 300);
    peer_free(peer);
}

struct crowd {
    pthread_mutex_t lock; /* guards this struct */
    pthread_cond_t changed;
    unsigned left;
    struct g4_request requests[CROWD];
};

static void
on_done(struct g4_request *request, void *arg)
{
    struct crowd *crowd = arg;

    (void)request;
    (void)pthread_mutex_lock(&crowd->lock);
    if (--crowd->left == 0)
        (void)pthread_cond_signal(&crowd->changed);
    (void)pthread_mutex_unlock(&crowd->lock);
}

/* CROWD heads at once; returns how many were answered with `status`. */
static unsigned
ask_in_a_crowd(struct g4_store *store, enum kvt_err status)
{
    const struct timespec deadline = kvt_cond_deadline(WAIT_MS);
    struct crowd *crowd = kvt_calloc(1, sizeof(*crowd));
    unsigned count = 0;

    assert_non_null(crowd);
    (void)pthread_mutex_init(&crowd->lock, NULL);
    assert_true(kvt_cond_init(&crowd->changed));
    crowd->left = CROWD;
    for (int i = 0; i < CROWD; i++) {
        crowd->requests[i] =
            (struct g4_request){.verb = G4_HEAD, .key = "k", .done = on_done, .arg = crowd};
        assert_int_equal(g4_store_submit(store, &crowd->requests[i]), KVT_OK);
    }
    (void)pthread_mutex_lock(&crowd->lock);
    while (crowd->left > 0)
        assert_true(kvt_cond_wait(&crowd->changed, &crowd->lock, &deadline));
    (void)pthread_mutex_unlock(&crowd->lock);
    for (int i = 0; i < CROWD; i++)
        count += crowd->requests[i].status == status;
    (void)pthread_cond_destroy(&crowd->changed);
    (void)pthread_mutex_destroy(&crowd->lock);
    kvt_free(crowd);
    return count;
}

/* A service that is down is asked again G4_S3_RETRY_BUDGET times in all, not with each request. */
static void
retries_have_a_budget(void **state)
{
    struct peer *peer = peer_new(
        "HTTP/1.1 503 Busy\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", CROWD_THREADS);
    struct g4_s3_counts counts;

    (void)state;
    peer->options.attempts_max = 3;
    open_store(peer);
    assert_int_equal(ask_in_a_crowd(peer->store, KVT_UNAVAILABLE), CROWD);
    g4_s3_count(peer->store, &counts);
    assert_int_equal(counts.retries, G4_S3_RETRY_BUDGET);
    assert_true(counts.unretried > 0);
    (void)pthread_mutex_lock(&peer->lock);
    assert_int_equal(peer->seen, CROWD + G4_S3_RETRY_BUDGET);
    peer->reply = HELLO;
    (void)pthread_mutex_unlock(&peer->lock);
    for (int i = 0; i < 5; i++) /* which pay for one */
        assert_int_equal(get(peer->store, "k", &peer->fetched), KVT_OK);
    (void)pthread_mutex_lock(&peer->lock);
    peer->reply = SLOW_DOWN;
    (void)pthread_mutex_unlock(&peer->lock);
    assert_int_equal(get(peer->store, "k", &peer->fetched), KVT_UNAVAILABLE);
    g4_s3_count(peer->store, &counts);
    assert_int_equal(counts.retries, G4_S3_RETRY_BUDGET + 1);
    peer_end(peer);
    peer_free(peer);
}

/* Into the caller's memory, and into the store's own. */
static void
a_hedge_brings_what_the_first_attempt_does_not(void **state)
{
    (void)state;
    for (int own = 0; own < 2; own++) {
        struct peer *peer = peer_new(HELLO, 2);
        struct g4_request request = {
            .verb = G4_GET, .key = "k", .buffer_capacity = 100, .sum = true};
        struct g4_s3_counts counts;
        char room[100];

        peer->first = "";
        peer->options.hedge_ms = 5;
        open_store(peer);
        request.buffer = own ? NULL : room;
        assert_int_equal(g4_store_perform(peer->store, &request), KVT_OK);
        assert_int_equal(request.buffer_size, 5);
        assert_memory_equal(request.buffer, "hello", 5);
        assert_true(request.summed);
        assert_int_equal(request.body_crc32c, g4_check_crc32c("hello", 5));
        assert_string_equal(request.etag, "tag");
        if (own)
            kvt_free(request.buffer);
        g4_s3_count(peer->store, &counts);
        assert_int_equal(counts.hedges, 1);
        assert_int_equal(counts.hedges_won, 1);
        assert_int_equal(counts.retries, 0);
        peer_end(peer);
        assert_int_equal(peer->seen, 2);
        peer_free(peer);
    }
}

/* Either attempt may fail, before or after the other is asked: the other one is waited for. */
static void
a_bad_answer_does_not_beat_a_good_one(void **state)
{
    (void)state;
    for (int slow_fails = 0; slow_fails < 2; slow_fails++) {
        struct peer *peer = peer_new(slow_fails ? SLOW_DOWN : HELLO, 2);
        struct g4_s3_counts counts;

        peer->first = slow_fails ? HELLO : SLOW_DOWN;
        peer->first_waits = true;
        peer->second_waits = !slow_fails;
        peer->options.hedge_ms = 5;
        open_store(peer);
        assert_int_equal(get(peer->store, "k", &peer->fetched), KVT_OK);
        assert_memory_equal(peer->fetched.body, "hello", 5);
        g4_s3_count(peer->store, &counts);
        assert_int_equal(counts.hedges, 1);
        assert_int_equal(counts.retries, 0);
        assert_int_equal(counts.hedges_won, slow_fails ? 0 : 1);
        peer_end(peer);
        peer_free(peer);
    }
}

static void
hedges_keep_to_their_share_and_to_gets(void **state)
{
    struct peer *peer = peer_new(HELLO, 8);
    struct g4_s3_counts counts;

    (void)state;
    peer->delay_ms = 30;
    peer->options.hedge_ms = 1;
    peer->options.hedge_share_ppm = 250000;
    open_store(peer);
    for (int i = 0; i < 3; i++)
        assert_int_equal(put_plain(peer->store, "k", "hello", 5), KVT_OK);
    g4_s3_count(peer->store, &counts);
    assert_int_equal(counts.hedges, 0);
    for (int i = 0; i < 16; i++)
        assert_int_equal(get(peer->store, "k", &peer->fetched), KVT_OK);
    g4_s3_count(peer->store, &counts);
    assert_in_range(counts.hedges, 1, 4);
    peer_end(peer);
    peer_free(peer);
}

static void
without_the_setting_nothing_is_hedged(void **state)
{
    struct peer *peer = peer_new(HELLO, 2);
    struct g4_s3_counts counts;

    (void)state;
    peer->delay_ms = 50;
    open_store(peer);
    assert_int_equal(get(peer->store, "k", &peer->fetched), KVT_OK);
    g4_s3_count(peer->store, &counts);
    assert_int_equal(counts.hedges, 0);
    peer_end(peer);
    assert_int_equal(peer->seen, 1);
    peer_free(peer);
}

static void
nineteen_in_twenty_took_no_longer(void **state)
{
    struct g4_latency latency = {.count = 0};
    uint64_t seed = test_seed();

    (void)state;
    for (int i = 1; i < G4_LATENCY_LEAST; i++) {
        g4_latency_add(&latency, 10);
        assert_true(g4_latency_p95_ms(&latency) == UINT32_MAX);
    }
    g4_latency_add(&latency, 10);
    assert_int_equal(g4_latency_p95_ms(&latency), 10);
    for (int i = 0; i < 100000; i++)
        g4_latency_add(&latency, 1 + kvt_random_below(&seed, 100));
    assert_in_range(g4_latency_p95_ms(&latency), 80, 100);
    for (int i = 0; i < G4_LATENCY_SAMPLES; i++)
        g4_latency_add(&latency, UINT64_MAX);
    assert_true(g4_latency_p95_ms(&latency) == UINT32_MAX - 1);
    for (int i = 0; i < G4_LATENCY_SAMPLES; i++)
        g4_latency_add(&latency, 0);
    assert_int_equal(g4_latency_p95_ms(&latency), 0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kinds_of_failure_decide_whether_it_is_tried_again),
        cmocka_unit_test(what_may_be_sent_once_is_not_tried_again),
        cmocka_unit_test(retries_end_with_the_deadline),
        cmocka_unit_test(retries_have_a_budget),
        cmocka_unit_test(a_hedge_brings_what_the_first_attempt_does_not),
        cmocka_unit_test(a_bad_answer_does_not_beat_a_good_one),
        cmocka_unit_test(hedges_keep_to_their_share_and_to_gets),
        cmocka_unit_test(without_the_setting_nothing_is_hedged),
        cmocka_unit_test(nineteen_in_twenty_took_no_longer),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
