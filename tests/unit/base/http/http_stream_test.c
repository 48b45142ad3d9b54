/*
 * What is tested: base/http/http_stream.h behind base/http/http.h: when an event comes, and for
 * whom. How: raw sockets that read, that do not, and that go away; a document that the test
 * changes.
 */
#include <arpa/inet.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/http/http.h"

#include "tests/support/seed.h"

enum {
    EVERY_MS = 20,
    HEARTBEAT_MS = 300,
    SLOW_MS = 200,
    SUBSCRIBERS = 3,
    LARGE = 900000,
    SMALL = 12000
};

struct scene {
    struct kvt_http_stream *stream;
    struct kvt_http *http;
    struct kvt_metric current;
    struct kvt_metric dropped;
    atomic_uint number; /* what the document says */
    atomic_uint large;  /* bytes that are added to it */
    atomic_uint looks;
};

static struct scene scene;

/* Its first line is another every time. */
static void
render(void *arg, struct kvt_buffer *out)
{
    struct scene *s = arg;
    const unsigned large = atomic_load(&s->large);

    kvt_buffer_printf(out, "{\"look\":%u,\n\"number\":%u}", atomic_fetch_add(&s->looks, 1),
                      atomic_load(&s->number));
    if (large > 0 && kvt_buffer_reserve(out, large) != NULL) {
        memset(out->data + out->size, ' ', large);
        out->size += large;
    }
}

static void
answer(void *arg, const struct kvt_http_request *request, struct kvt_http_response *response)
{
    struct scene *s = arg;

    (void)request;
    response->stream = s->stream;
}

static const struct kvt_http_route routes[] = {{"GET", "/v1/stream", false, answer}};

static int
set_up(void **state)
{
    const struct kvt_http_stream_options stream = {.render = render,
                                                   .arg = &scene,
                                                   .every_ms = EVERY_MS,
                                                   .heartbeat_ms = HEARTBEAT_MS,
                                                   .slow_ms = SLOW_MS,
                                                   .subscriber_max = SUBSCRIBERS,
                                                   .current = &scene.current,
                                                   .dropped = &scene.dropped};
    const struct kvt_http_options http = {
        .bind = "127.0.0.1", .token = "", .routes = routes, .route_count = 1, .arg = &scene};
    struct kvt_error err;

    (void)state;
    memset(&scene, 0, sizeof(scene));
    assert_int_equal(kvt_http_stream_new(&scene.stream, &stream), KVT_OK);
    assert_int_equal(kvt_http_start(&scene.http, &http, &err), KVT_OK);
    return 0;
}

static int
tear_down(void **state)
{
    (void)state;
    kvt_http_stream_close(scene.stream);
    kvt_http_stop(scene.http);
    kvt_http_stream_free(scene.stream);
    assert_int_equal(kvt_metric_get(&scene.current), 0);
    assert_int_equal(kvt_alloc_live(), 0);
    return 0;
}

static int
dial(const char *method, const char *version, const char *more)
{
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons(kvt_http_port(scene.http)),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const int small = 4096;
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    char ask[256];
    int size;

    assert_true(fd >= 0);
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small));
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
    size = snprintf(ask, sizeof(ask), "%s /v1/stream HTTP/%s\r\nHost: 127.0.0.1\r\n%s\r\n", method,
                    version, more);
    assert_int_equal(send(fd, ask, (size_t)size, 0), size);
    return fd;
}

static char text[1 << 16]; /* what hear() read last */

/* Read until `wanted` was seen; false: the end came, or `wait_ms` were over. */
static bool
hear(int fd, const char *wanted, int wait_ms)
{
    const uint64_t end_ms = kvt_clock_mono_ms() + (uint64_t)wait_ms;
    size_t size = 0;

    text[0] = '\0';
    for (uint64_t now_ms = kvt_clock_mono_ms(); now_ms < end_ms; now_ms = kvt_clock_mono_ms()) {
        struct pollfd one = {.fd = fd, .events = POLLIN};
        ssize_t got;

        if (poll(&one, 1, (int)(end_ms - now_ms)) <= 0)
            return false;
        got = recv(fd, text + size, sizeof(text) - 1 - size, 0);
        if (got <= 0)
            return false;
        size += (size_t)got;
        text[size] = '\0';
        if (strstr(text, wanted) != NULL)
            return true;
    }
    return false;
}

static void
wait_for_followers(int64_t count)
{
    for (int i = 0; i < 500 && kvt_metric_get(&scene.current) != count; i++)
        kvt_clock_sleep_ms(10);
    assert_int_equal(kvt_metric_get(&scene.current), count);
}

static void
an_event_comes_with_a_change_and_not_without(void **state)
{
    const int fd = dial("GET", "1.1", "");
    int later;

    (void)state;
    /* At once, both lines. */
    assert_true(hear(fd, "\ndata: \"number\":0}\n\n", 5000));
    assert_non_null(strstr(text, "Content-Type: text/event-stream"));
    assert_non_null(strstr(text, "data: {\"look\":"));
    assert_false(hear(fd, "data:", 5 * EVERY_MS)); /* its clock goes on, nothing else */
    atomic_store(&scene.number, 7);
    assert_true(hear(fd, "\ndata: \"number\":7}\n\n", 5000));
    /* Who comes later has what is, though it did not change; the other hears nothing of it. */
    later = dial("GET", "1.1", "");
    assert_true(hear(later, "\ndata: \"number\":7}\n\n", 5000));
    assert_false(hear(fd, "data:", 3 * EVERY_MS));
    assert_true(hear(fd, ": still here\n\n", 5000));
    (void)close(fd);
    (void)close(later);
    wait_for_followers(0); /* the next comment finds out */
}

static void
it_ends_as_other_answers_do(void **state)
{
    int fd = dial("HEAD", "1.1", "");

    (void)state;
    assert_true(hear(fd, "text/event-stream", 5000));
    wait_for_followers(0);
    (void)close(fd);
    fd = dial("GET", "1.1", "Connection: close\r\n");
    assert_true(hear(fd, "\"number\":0}\n\n", 5000));
    (void)close(fd);
    fd = dial("GET", "1.0", "");
    assert_true(hear(fd, "\"number\":0}\n\n", 5000));
    wait_for_followers(1);
    /* The server ends it, not the other way round: tear_down() must not wait. */
    kvt_http_stream_close(scene.stream);
    assert_false(hear(fd, "never", 5000));
    (void)close(fd);
}

static void
there_are_not_too_many(void **state)
{
    int fds[SUBSCRIBERS];
    int one_more;

    (void)state;
    for (size_t i = 0; i < SUBSCRIBERS; i++) {
        fds[i] = dial("GET", "1.1", "");
        assert_true(hear(fds[i], "\"number\":0}", 5000));
    }
    one_more = dial("GET", "1.1", "");
    assert_true(hear(one_more, "503 Service Unavailable", 5000));
    (void)close(one_more);
    for (size_t i = 0; i < SUBSCRIBERS; i++)
        (void)close(fds[i]);
    wait_for_followers(0);
    one_more = dial("GET", "1.1", "");
    assert_true(hear(one_more, "\"number\":0}", 5000));
    (void)close(one_more);
}

/* One that takes nothing costs two frames and delays nobody, then it goes. */
static void
who_is_too_slow_is_dropped(void **state)
{
    int slow;
    int fast;
    size_t live;

    (void)state;
    atomic_store(&scene.large, LARGE);
    slow = dial("GET", "1.1", "");
    wait_for_followers(1);
    kvt_clock_sleep_ms(5 * EVERY_MS);
    atomic_store(&scene.large, LARGE + 1);
    kvt_clock_sleep_ms(5 * EVERY_MS);
    live = kvt_alloc_live();
    for (unsigned i = 0; i < 30; i++) {
        atomic_store(&scene.large, LARGE + 2 + i);
        kvt_clock_sleep_ms(EVERY_MS);
    }
    /* Of thirty frames a slow machine may hold some, with its two not even begun at `live`. */
    assert_true(kvt_alloc_live() <= live + 8);
    assert_int_equal(kvt_metric_get(&scene.dropped), 1);
    atomic_store(&scene.large, 0);
    fast = dial("GET", "1.1", "");
    assert_true(hear(fast, "\"number\":0}", 5000));
    (void)close(fast);
    (void)close(slow);
    wait_for_followers(0);
}

/* Its frames fit into one read of the server's, so none of them is ever half sent. */
static void
who_takes_nothing_small_is_dropped(void **state)
{
    const int fd = dial("GET", "1.1", "");

    (void)state;
    atomic_store(&scene.large, SMALL);
    wait_for_followers(1);
    for (unsigned i = 0; i < 1500 && kvt_metric_get(&scene.dropped) == 0; i++) {
        atomic_store(&scene.number, i + 1);
        kvt_clock_sleep_ms(EVERY_MS / 2);
    }
    assert_int_equal(kvt_metric_get(&scene.dropped), 1);
    (void)close(fd);
    wait_for_followers(0);
}

static bool
make(void *arg)
{
    const struct kvt_http_stream_options options = {
        .render = render, .arg = &scene, .every_ms = 1, .subscriber_max = 1};
    struct kvt_http_stream *stream;

    (void)arg;
    if (kvt_http_stream_new(&stream, &options) != KVT_OK) {
        assert_null(stream);
        return false;
    }
    kvt_http_stream_free(stream);
    return true;
}

static void
it_is_made_or_not(void **state)
{
    (void)state;
    assert_true(test_sweep_allocations(make, NULL) > 0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(an_event_comes_with_a_change_and_not_without, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(it_ends_as_other_answers_do, set_up, tear_down),
        cmocka_unit_test_setup_teardown(there_are_not_too_many, set_up, tear_down),
        cmocka_unit_test_setup_teardown(who_is_too_slow_is_dropped, set_up, tear_down),
        cmocka_unit_test_setup_teardown(who_takes_nothing_small_is_dropped, set_up, tear_down),
        cmocka_unit_test(it_is_made_or_not),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
