/*
 * What is tested: base/http/http.h, base/http/http_internal.h and base/http/fetch.h against each
 * other, and by raw requests where a polite client could not
 * misbehave.
 */
#include <arpa/inet.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/http/fetch.h"
#include "base/http/http.h"
#include "base/http/http_internal.h"

#include "tests/support/seed.h"

#define TOKEN "0123456789abcdef"

/* What the handlers of the server under test share. */
struct desk {
    atomic_uint echo_count;
    atomic_uint change_count;
    atomic_bool ready;
    atomic_uint waited; /* for whoever asks to leave; has the answer: */
    atomic_bool left;
};

static struct desk desk;
static struct kvt_http *http;
static struct kvt_metrics *metrics;

static void
echo(void *arg, const struct kvt_http_request *request, struct kvt_http_response *response)
{
    struct desk *d = arg;
    const char *q = kvt_http_query(request, "q");

    atomic_fetch_add(&d->echo_count, 1);
    kvt_buffer_printf(&response->body, "%s %s [%s] q=%s body=", request->method, request->path,
                      request->tail, q == NULL ? "(none)" : q);
    kvt_buffer_append(&response->body, request->body, request->body_size);
}

static void
change(void *arg, const struct kvt_http_request *request, struct kvt_http_response *response)
{
    struct desk *d = arg;

    (void)request;
    atomic_fetch_add(&d->change_count, 1);
    response->status = 202;
    kvt_buffer_printf(&response->body, "{}");
}

static void
tell_trust(void *arg, const struct kvt_http_request *request, struct kvt_http_response *response)
{
    (void)arg;
    kvt_buffer_printf(&response->body, request->trusted ? "trusted" : "anybody");
}

static void
refuse_all(void *arg, const struct kvt_http_request *request, struct kvt_http_response *response)
{
    (void)arg;
    kvt_buffer_printf(&response->body, "half an ans");
    kvt_http_fail(response, 409, KVT_EXISTS, "\"%s\" is there", request->tail);
    response->retry_after_s = 7;
}

static void
too_much(void *arg, const struct kvt_http_request *request, struct kvt_http_response *response)
{
    (void)arg;
    (void)request;
    (void)kvt_buffer_reserve(&response->body, (size_t)KVT_HTTP_RESPONSE_MAX + 1);
}

static void
slow(void *arg, const struct kvt_http_request *request, struct kvt_http_response *response)
{
    (void)arg;
    (void)request;
    kvt_clock_sleep_ms(300);
    kvt_buffer_printf(&response->body, "late");
}

static void
patient(void *arg, const struct kvt_http_request *request, struct kvt_http_response *response)
{
    struct desk *d = arg;
    bool left = false;

    (void)response;
    atomic_fetch_add(&d->waited, 1);
    for (int i = 0; i < 500 && !left; i++) {
        left = kvt_http_is_left(request);
        kvt_clock_sleep_ms(left ? 0 : 10);
        /* Long enough to be seen, where nobody leaves. */
        if (!left && i == 20 && kvt_http_query(request, "stay") != NULL)
            break;
    }
    atomic_store(&d->left, left);
    atomic_fetch_add(&d->waited, 1);
}

static const struct kvt_http_route routes[] = {
    {"GET", "/v1/echo", false, echo},           {"POST", "/v1/echo", false, echo},
    {"GET", "/v1/tail/*", false, echo},         {"POST", "/v1/change", true, change},
    {"GET", "/v1/refuse/*", false, refuse_all}, {"GET", "/v1/much", false, too_much},
    {"GET", "/v1/slow", false, slow},           {"GET", "/v1/patient", false, patient},
    {"GET", "/v1/trust", false, tell_trust},    {"POST", "/v1/trust", true, tell_trust},
};

static bool
is_ready(void *arg, struct kvt_buffer *why)
{
    struct desk *d = arg;
    const bool ready = atomic_load(&d->ready);

    kvt_buffer_printf(why, ready ? "nats: connected" : "nats: away");
    return ready;
}

static void
add_metrics(void *arg, struct kvt_buffer *out)
{
    assert_ptr_equal(arg, &desk);
    kvt_buffer_printf(out, "more 7\n");
}

static struct kvt_http_options
options_with(const char *token)
{
    return (struct kvt_http_options){.bind = "127.0.0.1",
                                     .port = 0,
                                     .token = token,
                                     .routes = routes,
                                     .route_count = sizeof(routes) / sizeof(routes[0]),
                                     .arg = &desk,
                                     .ready = is_ready,
                                     .metrics = metrics,
                                     .more_metrics = add_metrics};
}

static int
set_up(void **state)
{
    struct kvt_http_options options;
    struct kvt_error err;

    (void)state;
    atomic_store(&desk.ready, true);
    assert_int_equal(kvt_metrics_new(&metrics), KVT_OK);
    options = options_with(TOKEN);
    assert_int_equal(kvt_http_start(&http, &options, &err), KVT_OK);
    return 0;
}

static int
tear_down(void **state)
{
    (void)state;
    kvt_http_stop(http);
    kvt_metrics_free(metrics);
    assert_int_equal(kvt_alloc_live(), 0);
    return 0;
}

/* A polite request; the answer stays valid until the next. */
static unsigned
ask(const char *method, const char *path, const char *token, const char *body, const char **text)
{
    static struct kvt_buffer answer;
    static char copy[4096];
    struct kvt_error err;
    unsigned status;
    char url[256];

    (void)snprintf(url, sizeof(url), "http://127.0.0.1:%u%s", kvt_http_port(http), path);
    kvt_buffer_init(&answer, 1u << 20);
    if (kvt_fetch(&(struct kvt_fetch){.method = method,
                                      .url = url,
                                      .token = token,
                                      .body = body,
                                      .body_size = body == NULL ? 0 : strlen(body)},
                  &status, &answer, &err) != KVT_OK)
        fail_msg("%s", err.text);
    (void)snprintf(copy, sizeof(copy), "%s", kvt_buffer_text(&answer));
    kvt_buffer_release(&answer);
    if (text != NULL)
        *text = copy;
    return status;
}

static int
connect_raw(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(kvt_http_port(http))};
    const struct timeval limit = {.tv_sec = 10};
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_true(fd >= 0);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)), 0);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit)), 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    return fd;
}

/* Send exactly `request`, read to the end of the connection, return the status; 0: no answer. */
static unsigned
ask_raw(const char *request, char *answer, size_t size)
{
    const int fd = connect_raw();
    unsigned status = 0;
    size_t count = 0;
    ssize_t got;

    assert_int_equal(send(fd, request, strlen(request), MSG_NOSIGNAL), (ssize_t)strlen(request));
    while (count + 1 < size && (got = recv(fd, answer + count, size - 1 - count, 0)) > 0)
        count += (size_t)got;
    answer[count] = '\0';
    (void)close(fd);
    if (count > 12 && strncmp(answer, "HTTP/1.", 7) == 0)
        status = (unsigned)strtoul(answer + 9, NULL, 10);
    return status;
}

static unsigned
ask_with(const char *headers)
{
    char request[1024];
    char answer[4096];

    (void)snprintf(request, sizeof(request), "GET /v1/echo HTTP/1.1\r\nConnection: close\r\n%s\r\n",
                   headers);
    return ask_raw(request, answer, sizeof(answer));
}

static void
built_in_routes(void **state)
{
    const char *text;

    (void)state;
    assert_int_equal(ask("GET", "/livez", NULL, NULL, &text), 200);
    assert_string_equal(text, "ok\n");
    assert_int_equal(ask("GET", "/healthz", NULL, NULL, NULL), 200);
    assert_int_equal(ask("HEAD", "/livez", NULL, NULL, &text), 200);
    assert_string_equal(text, "");
    assert_int_equal(ask("GET", "/readyz", NULL, NULL, &text), 200);
    assert_string_equal(text, "ok\n");
    assert_int_equal(ask("GET", "/readyz?verbose", NULL, NULL, &text), 200);
    assert_string_equal(text, "nats: connected\nok\n");
    atomic_store(&desk.ready, false);
    assert_int_equal(ask("GET", "/readyz", NULL, NULL, &text), 503);
    assert_string_equal(text, "nats: away\nnot ready\n");
    assert_int_equal(ask("GET", "/livez", NULL, NULL, NULL), 200);
    assert_int_equal(ask("POST", "/livez", NULL, "x", NULL), 405);
    assert_int_equal(ask("GET", "/metrics", NULL, NULL, &text), 200);
    assert_non_null(strstr(text, "\nkvtier_http_answers_total{code=\"2xx\"} 6\n"));
    assert_non_null(strstr(text, "\nkvtier_http_answers_total{code=\"4xx\"} 1\n"));
    assert_non_null(strstr(text, "\nkvtier_http_answers_total{code=\"5xx\"} 1\n"));
    assert_non_null(strstr(text, "\nmore 7\n"));
}

static void
routes_get_method_tail_query_and_body(void **state)
{
    const char *text;

    (void)state;
    assert_int_equal(ask("GET", "/v1/echo?q=a%20b&r", NULL, NULL, &text), 200);
    assert_string_equal(text, "GET /v1/echo [] q=a b body=");
    assert_int_equal(ask("GET", "/v1/echo?q", NULL, NULL, &text), 200);
    assert_string_equal(text, "GET /v1/echo [] q= body=");
    assert_int_equal(ask("POST", "/v1/echo", NULL, "{\"x\":1}", &text), 200);
    assert_string_equal(text, "POST /v1/echo [] q=(none) body={\"x\":1}");
    assert_int_equal(ask("GET", "/v1/tail/a%2Fb", NULL, NULL, &text), 200);
    assert_string_equal(text, "GET /v1/tail/a/b [a/b] q=(none) body=");
    assert_int_equal(ask("HEAD", "/v1/echo", NULL, NULL, &text), 200);
}

static void
unknown_paths_and_methods_are_refused(void **state)
{
    char answer[4096];
    const char *text;

    (void)state;
    assert_int_equal(ask("GET", "/v1/echo/x", NULL, NULL, &text), 404);
    assert_string_equal(text, "{\"error\":{\"code\":\"NOTFOUND\",\"message\":\"no such path\"}}\n");
    assert_int_equal(ask("GET", "/", NULL, NULL, NULL), 404);
    assert_int_equal(ask("GET", "/v1/echo%00/x", NULL, NULL, NULL), 404);
    assert_int_equal(ask("DELETE", "/v1/echo", NULL, NULL, &text), 405);
    assert_int_equal(ask("GET", "/v1/change", NULL, NULL, NULL), 405);
    assert_int_equal(ask_raw("PUT /v1/echo HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
                             "Content-Length: 0\r\n\r\n",
                             answer, sizeof(answer)),
                     405);
    assert_non_null(strstr(answer, "\r\nAllow: GET, POST\r\n"));
    assert_int_equal(ask("GET", "/v1/refuse/a\"b", NULL, NULL, &text), 409);
    assert_string_equal(
        text, "{\"error\":{\"code\":\"EXISTS\",\"message\":\"\\\"a\\\"b\\\" is there\"}}\n");
    assert_int_equal(ask_raw("GET /v1/refuse/it HTTP/1.1\r\nHost: localhost\r\nConnection: "
                             "close\r\n\r\n",
                             answer, sizeof(answer)),
                     409);
    assert_non_null(strstr(answer, "\r\nRetry-After: 7\r\n"));
}

static void
changing_needs_the_token(void **state)
{
    const unsigned before = atomic_load(&desk.change_count);

    (void)state;
    assert_int_equal(ask("POST", "/v1/change", NULL, "{}", NULL), 401);
    assert_int_equal(ask("POST", "/v1/change", "", "{}", NULL), 401);
    assert_int_equal(ask("POST", "/v1/change", "wrong", "{}", NULL), 401);
    assert_int_equal(ask("POST", "/v1/change", "0123456789abcdeF", "{}", NULL), 401);
    assert_int_equal(ask("POST", "/v1/change", TOKEN "0", "{}", NULL), 401);
    assert_int_equal(atomic_load(&desk.change_count), before);
    assert_int_equal(ask("POST", "/v1/change", TOKEN, "{}", NULL), 202);
    assert_int_equal(atomic_load(&desk.change_count), before + 1);
}

static void
without_a_token_nothing_can_be_changed(void **state)
{
    struct kvt_http_options options = options_with("");
    const unsigned before = atomic_load(&desk.change_count);
    struct kvt_http *saved = http;

    (void)state;
    assert_int_equal(kvt_http_start(&http, &options, NULL), KVT_OK);
    assert_int_equal(ask("POST", "/v1/change", "", "{}", NULL), 403);
    assert_int_equal(ask("POST", "/v1/change", TOKEN, "{}", NULL), 403);
    assert_int_equal(ask("GET", "/v1/echo", NULL, NULL, NULL), 200);
    kvt_http_stop(http);
    http = saved;
    assert_int_equal(atomic_load(&desk.change_count), before);
}

static void
hosts_and_origins_of_others_are_refused(void **state)
{
    const unsigned before = atomic_load(&desk.echo_count);
    char same[128];

    (void)state;
    assert_int_equal(ask_with("Host: evil.example\r\n"), 403);
    assert_int_equal(ask_with("Host: 127.0.0.1.evil.example:80\r\n"), 403);
    assert_int_equal(ask_with("Host: 127.0.0.1\r\nOrigin: http://evil.example\r\n"), 403);
    assert_int_equal(ask_with("Host: 127.0.0.1\r\nOrigin: null\r\n"), 403);
    assert_int_equal(ask_with("Host: 127.0.0.1:1\r\nOrigin: http://127.0.0.1:2\r\n"), 403);
    assert_int_equal(atomic_load(&desk.echo_count), before);
    assert_int_equal(ask_with("Host: LocalHost:99\r\n"), 200);
    (void)snprintf(same, sizeof(same), "Host: 127.0.0.1:%u\r\nOrigin: http://127.0.0.1:%u\r\n",
                   kvt_http_port(http), kvt_http_port(http));
    assert_int_equal(ask_with(same), 200);
    assert_int_equal(atomic_load(&desk.echo_count), before + 2);
}

static void
guards(void **state)
{
    char machine[300] = "";

    (void)state;
    assert_true(kvt_http_host_ok("[::1]:9471", "127.0.0.1", NULL));
    assert_true(kvt_http_host_ok("10.1.2.3", "0.0.0.0", NULL));
    assert_true(kvt_http_host_ok("kvt.svc:80", "0.0.0.0", "a, kvt.svc"));
    assert_false(kvt_http_host_ok("kvt.svc2", "0.0.0.0", "a,kvt.svc"));
    assert_false(kvt_http_host_ok("kvt", "0.0.0.0", "a,kvt.svc"));
    assert_int_equal(gethostname(machine, sizeof(machine) - 1), 0);
    assert_true(kvt_http_host_ok(machine, "127.0.0.1", NULL));
    assert_false(kvt_http_host_ok(NULL, "127.0.0.1", NULL));
    assert_false(kvt_http_host_ok("", "127.0.0.1", ""));
    assert_false(kvt_http_host_ok("[::1", "::1", NULL));
    assert_false(kvt_http_host_ok("localhost:80x", "127.0.0.1", NULL));
    assert_false(kvt_http_host_ok("localhost/x", "127.0.0.1", NULL));
    assert_true(kvt_http_origin_ok(NULL, "h"));
    assert_true(kvt_http_origin_ok("https://h:1", "h:1"));
    assert_false(kvt_http_origin_ok("ftp://h", "h"));
    assert_false(kvt_http_origin_ok("http://h", NULL));
    assert_false(kvt_http_origin_ok("http://h.evil", "h"));
    assert_true(kvt_http_token_ok("bearer abc", "abc"));
    assert_false(kvt_http_token_ok("Bearer ", ""));
    assert_false(kvt_http_token_ok(NULL, "abc"));
    assert_false(kvt_http_token_ok("Basic abc", "abc"));
    assert_false(kvt_http_token_ok("Bearer ab", "abc"));
    assert_false(kvt_http_token_ok("Bearer abc ", "abc"));
}

static void
a_handler_knows_who_has_the_token(void **state)
{
    const char *text;

    (void)state;
    assert_int_equal(ask("GET", "/v1/trust", NULL, NULL, &text), 200);
    assert_non_null(strstr(text, "anybody"));
    assert_int_equal(ask("GET", "/v1/trust", TOKEN "x", NULL, &text), 200);
    assert_non_null(strstr(text, "anybody"));
    assert_int_equal(ask("GET", "/v1/trust", TOKEN, NULL, &text), 200);
    assert_non_null(strstr(text, "trusted"));
    assert_int_equal(ask("POST", "/v1/trust", TOKEN, "", &text), 200);
    assert_non_null(strstr(text, "trusted"));
}

static void
a_body_that_says_it_is_too_large_is_not_read(void **state)
{
    char answer[4096];
    char request[256];

    (void)state;
    (void)snprintf(request, sizeof(request),
                   "POST /v1/echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: %u\r\n\r\n",
                   KVT_HTTP_BODY_MAX + 1);
    assert_int_equal(ask_raw(request, answer, sizeof(answer)), 413);
    assert_non_null(strstr(answer, "\"code\":\"RANGE\""));
}

/* A chunked body says its size only by being sent; the server must count. */
static void
a_body_that_turns_out_too_large_is_refused(void **state)
{
    static const char head[] = "POST /v1/echo HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
                               "Transfer-Encoding: chunked\r\n\r\n";
    static char chunk[65536 + 16];
    const unsigned before = atomic_load(&desk.echo_count);
    const int fd = connect_raw();
    char answer[64] = "";
    size_t size;

    (void)state;
    size = (size_t)snprintf(chunk, sizeof(chunk), "10000\r\n");
    memset(chunk + size, 'x', 65536);
    size += 65536;
    memcpy(chunk + size, "\r\n", 2);
    size += 2;
    assert_int_equal(send(fd, head, sizeof(head) - 1, MSG_NOSIGNAL), (ssize_t)sizeof(head) - 1);
    for (unsigned i = 0; i <= KVT_HTTP_BODY_MAX / 65536; i++)
        assert_int_equal(send(fd, chunk, size, MSG_NOSIGNAL), (ssize_t)size);
    assert_int_equal(send(fd, "0\r\n\r\n", 5, MSG_NOSIGNAL), 5);
    assert_true(recv(fd, answer, sizeof(answer) - 1, 0) > 12);
    assert_int_equal(strtoul(answer + 9, NULL, 10), 413);
    (void)close(fd);
    assert_int_equal(atomic_load(&desk.echo_count), before);
}

static void
the_largest_body_is_taken(void **state)
{
    static char body[KVT_HTTP_BODY_MAX + 1];
    const unsigned before = atomic_load(&desk.echo_count);

    (void)state;
    memset(body, 'x', KVT_HTTP_BODY_MAX);
    body[KVT_HTTP_BODY_MAX] = '\0';
    /* The echo is larger than what ask() takes, so ask a route that answers shortly. */
    assert_int_equal(ask("POST", "/v1/change", TOKEN, body, NULL), 202);
    assert_int_equal(atomic_load(&desk.echo_count), before);
}

static void
an_answer_that_does_not_fit_is_an_error(void **state)
{
    const char *text;

    (void)state;
    assert_int_equal(ask("GET", "/v1/much", NULL, NULL, &text), 500);
    assert_non_null(strstr(text, "\"code\":\"RANGE\""));
}

/* One call may hold what it wants up to the ceiling; the next one is told to come back. */
static void
bodies_and_answers_share_one_ceiling(void **state)
{
    struct kvt_http_options options = options_with(TOKEN);
    struct kvt_http *saved = http;
    static char body[30001];
    const char *text;

    (void)state;
    options.memory_max = 20000;
    assert_int_equal(kvt_http_start(&http, &options, NULL), KVT_OK);
    memset(body, 'x', sizeof(body) - 1);
    assert_int_equal(ask("POST", "/v1/echo", NULL, body, &text), 503);
    assert_non_null(strstr(text, "\"code\":\"AGAIN\""));
    body[15000] = '\0';
    /* What is held is let go again, a moment after the client has its answer. */
    for (int i = 0; i < 20; i++) {
        unsigned status = 503;

        for (int tries = 0; status == 503 && tries < 1000; tries++) {
            status = ask("POST", "/v1/echo", NULL, body, NULL);
            kvt_clock_sleep_ms(status == 503 ? 5 : 0);
        }
        assert_int_equal(status, 200);
    }
    body[15000] = 'x';
    body[19990] = '\0'; /* fits; the answer, which is longer, does not */
    assert_int_equal(ask("POST", "/v1/echo", NULL, body, NULL), 503);
    kvt_http_stop(http);
    http = saved;
}

static void
malformed_requests_do_not_reach_a_handler(void **state)
{
    static const char *const requests[] = {
        "\r\n\r\n",
        "GET\r\n\r\n",
        "GET /v1/echo HTTP/1.1\r\nHost localhost\r\n\r\n",
        "POST /v1/echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: x\r\n\r\n",
        "POST /v1/echo HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        "GET /v1/echo HTTP/1.1\r\n\r\n",
    };
    const unsigned before = atomic_load(&desk.echo_count);

    (void)state;
    for (size_t i = 0; i < sizeof(requests) / sizeof(requests[0]); i++) {
        const struct timeval limit = {.tv_usec = 100000};
        const int fd = connect_raw();
        char answer[2048];

        /* An answer or none, both are fine; some of these leave the server waiting for more. */
        assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)), 0);
        assert_true(send(fd, requests[i], strlen(requests[i]), MSG_NOSIGNAL) > 0);
        if (recv(fd, answer, sizeof(answer), 0) > 12)
            assert_true(answer[9] == '4');
        (void)close(fd);
    }
    assert_int_equal(atomic_load(&desk.echo_count), before);
    assert_int_equal(ask("GET", "/livez", NULL, NULL, NULL), 200); /* and the server carries on */
}

static void
a_taken_port_is_a_clear_error(void **state)
{
    struct kvt_http_options options = options_with(TOKEN);
    char long_token[KVT_HTTP_TOKEN_MAX + 1] = "";
    struct kvt_http *second = http;
    struct kvt_error err;

    (void)state;
    memset(long_token, 't', sizeof(long_token) - 1);
    options.port = kvt_http_port(http);
    assert_int_equal(kvt_http_start(&second, &options, &err), KVT_BUSY);
    assert_null(second);
    assert_non_null(strstr(err.text, "127.0.0.1 port "));
    assert_non_null(strstr(err.text, "by whom: ss -ltnp"));
    options.port = 0;
    options.token = long_token;
    assert_int_equal(kvt_http_start(&second, &options, &err), KVT_RANGE);
    options.token = TOKEN;
    options.bind = "not-an-address";
    assert_int_equal(kvt_http_start(&second, &options, &err), KVT_INVALID);
}

static void *
ask_slow(void *arg)
{
    unsigned *status = arg;

    *status = ask("GET", "/v1/slow", NULL, NULL, NULL);
    return NULL;
}

static void
stopping_lets_a_running_request_finish(void **state)
{
    struct kvt_http_options options = options_with(TOKEN);
    pthread_t thread;
    unsigned status = 0;

    (void)state;
    assert_int_equal(pthread_create(&thread, NULL, ask_slow, &status), 0);
    kvt_clock_sleep_ms(100);
    kvt_http_stop(http);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(status, 200);
    assert_int_equal(kvt_http_start(&http, &options, NULL), KVT_OK); /* for the teardown */
}

static void
await(unsigned count)
{
    const uint64_t until_ms = kvt_clock_mono_ms() + 10000;

    while (atomic_load(&desk.waited) < count) {
        assert_true(kvt_clock_mono_ms() < until_ms);
        kvt_clock_sleep_ms(5);
    }
}

static void
a_handler_sees_who_hangs_up(void **state)
{
    static const char request[] = "GET /v1/patient HTTP/1.1\r\nHost: localhost\r\n\r\n";
    unsigned before;
    int fd;

    (void)state;
    assert_int_equal(ask("GET", "/v1/patient?stay", NULL, NULL, NULL), 200);
    assert_false(atomic_load(&desk.left));
    before = atomic_load(&desk.waited);
    fd = connect_raw();
    assert_int_equal(send(fd, request, strlen(request), MSG_NOSIGNAL), (ssize_t)strlen(request));
    await(before + 1);
    (void)close(fd);
    await(before + 2);
    assert_true(atomic_load(&desk.left));
}

static void *
ask_many(void *arg)
{
    unsigned *failed_count = arg;
    struct kvt_buffer answer;
    char url[128];

    (void)snprintf(url, sizeof(url), "http://127.0.0.1:%u/v1/echo?q=1", kvt_http_port(http));
    kvt_buffer_init(&answer, 4096);
    for (int i = 0; i < 50; i++) {
        unsigned status;

        kvt_buffer_clear(&answer);
        if (kvt_fetch(
                &(struct kvt_fetch){.url = url, .body = "b", .body_size = 1, .method = "POST"},
                &status, &answer, NULL) != KVT_OK ||
            status != 200 || strcmp(kvt_buffer_text(&answer), "POST /v1/echo [] q=1 body=b") != 0)
            (*failed_count)++;
    }
    kvt_buffer_release(&answer);
    return NULL;
}

static void
many_clients_at_once(void **state)
{
    pthread_t threads[4];
    unsigned failed[4] = {0};

    (void)state;
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, ask_many, &failed[i]), 0);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_int_equal(failed[i], 0);
    }
}

static void
fetch_bounds_size_and_time(void **state)
{
    struct kvt_http_options options = options_with(TOKEN);
    struct kvt_fetch fetch = {.timeout_ms = 100};
    struct kvt_http *stopped;
    struct kvt_buffer answer;
    struct kvt_error err;
    unsigned status = 9;
    char url[128];

    (void)state;
    kvt_buffer_init(&answer, 3);
    fetch.url = url;
    (void)snprintf(url, sizeof(url), "http://127.0.0.1:%u/v1/slow", kvt_http_port(http));
    assert_int_equal(kvt_fetch(&fetch, &status, &answer, &err), KVT_TIMEOUT);
    assert_int_equal(status, 0);
    fetch.timeout_ms = 0;
    assert_int_equal(kvt_fetch(&fetch, &status, &answer, &err), KVT_RANGE); /* "late" */
    assert_non_null(strstr(err.text, url));
    kvt_buffer_clear(&answer);
    options.metrics = NULL;
    assert_int_equal(kvt_http_start(&stopped, &options, &err), KVT_OK);
    (void)snprintf(url, sizeof(url), "http://127.0.0.1:%u/", kvt_http_port(stopped));
    kvt_http_stop(stopped);
    assert_int_equal(kvt_fetch(&fetch, &status, &answer, &err), KVT_UNAVAILABLE);
    fetch.url = "gopher://127.0.0.1/";
    assert_int_equal(kvt_fetch(&fetch, &status, &answer, &err), KVT_INVALID);
    fetch.url = "http://";
    assert_int_equal(kvt_fetch(&fetch, &status, &answer, &err), KVT_INVALID);
    kvt_buffer_release(&answer);
}

static void
fetch_keeps_loopback_from_proxies(void **state)
{
    (void)state;
    assert_int_equal(setenv("http_proxy", "http://127.0.0.1:1", 1), 0);
    assert_int_equal(setenv("all_proxy", "http://127.0.0.1:1", 1), 0);
    assert_int_equal(ask("GET", "/livez", NULL, NULL, NULL), 200);
    assert_int_equal(unsetenv("http_proxy"), 0);
    assert_int_equal(unsetenv("all_proxy"), 0);
}

static bool
start_once(void *arg)
{
    struct kvt_http_options options = options_with(TOKEN);
    struct kvt_http *second;
    enum kvt_err rc;

    (void)arg;
    options.metrics = NULL;
    rc = kvt_http_start(&second, &options, NULL);
    assert_true(rc == KVT_OK || (rc == KVT_NOMEM && second == NULL));
    kvt_http_stop(second);
    return rc == KVT_OK;
}

static void
starting_survives_every_allocation_failure(void **state)
{
    (void)state;
    assert_true(test_sweep_allocations(start_once, NULL) >= 4);
}

static void
a_server_short_of_memory_answers_again_later(void **state)
{
    const size_t live = kvt_alloc_live();
    unsigned answered_count = 0;

    (void)state;
    for (size_t n = 0; n < 12; n++) {
        unsigned status;

        kvt_alloc_fail_after(n);
        status = ask_with("Host: localhost\r\n");
        kvt_alloc_fail_after(SIZE_MAX);
        assert_true(status == 0 || status == 200 || status == 500);
        answered_count += status == 200 ? 1 : 0;
    }
    assert_in_range(answered_count, 1, 11);
    /* The server's own thread frees the last call a moment after the client has its answer. */
    for (int i = 0; i < 500 && kvt_alloc_live() != live; i++)
        kvt_clock_sleep_ms(10);
    assert_int_equal(kvt_alloc_live(), live);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(built_in_routes),
        TEST(routes_get_method_tail_query_and_body),
        TEST(unknown_paths_and_methods_are_refused),
        TEST(changing_needs_the_token),
        TEST(without_a_token_nothing_can_be_changed),
        TEST(hosts_and_origins_of_others_are_refused),
        TEST(guards),
        TEST(a_handler_knows_who_has_the_token),
        TEST(a_body_that_says_it_is_too_large_is_not_read),
        TEST(a_body_that_turns_out_too_large_is_refused),
        TEST(the_largest_body_is_taken),
        TEST(an_answer_that_does_not_fit_is_an_error),
        TEST(bodies_and_answers_share_one_ceiling),
        TEST(malformed_requests_do_not_reach_a_handler),
        TEST(a_taken_port_is_a_clear_error),
        TEST(stopping_lets_a_running_request_finish),
        TEST(a_handler_sees_who_hangs_up),
        TEST(many_clients_at_once),
        TEST(fetch_bounds_size_and_time),
        TEST(fetch_keeps_loopback_from_proxies),
        TEST(starting_survives_every_allocation_failure),
        TEST(a_server_short_of_memory_answers_again_later),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
