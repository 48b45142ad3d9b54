/*
 * Request heads that another server could read differently: all are refused, and the connection
 * ends.
 */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/core/alloc.h"
#include "base/http/http.h"

#include "tests/support/seed.h"

static struct kvt_http *http;

static void
echo(void *arg, const struct kvt_http_request *request, struct kvt_http_response *response)
{
    (void)arg;
    kvt_buffer_append(&response->body, request->body, request->body_size);
}

static const struct kvt_http_route routes[] = {{"POST", "/v1/echo", false, echo}};

static int
set_up(void **state)
{
    const struct kvt_http_options options = {
        .bind = "127.0.0.1", .token = "", .routes = routes, .route_count = 1};
    struct kvt_error err;

    (void)state;
    assert_int_equal(kvt_http_start(&http, &options, &err), KVT_OK);
    return 0;
}

static int
tear_down(void **state)
{
    (void)state;
    kvt_http_stop(http);
    assert_int_equal(kvt_alloc_live(), 0);
    return 0;
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

/* A second request comes after each head.  It must never be answered. */
static void
heads_with_two_readings_are_refused(void **state)
{
    static const char *const heads[] = {
        "Host: localhost\r\nContent-Length: 4\r\nContent-Length: 5\r\n",
        "Host: localhost\r\nContent-Length: 4\r\nContent-Length: 4\r\n",
        "Host: localhost\r\nContent-Length: +4\r\n",
        "Host: localhost\r\nContent-Length: 4, 4\r\n",
        "Host: localhost\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n",
        "Host: localhost\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
        "Host: localhost\r\nTransfer-Encoding: gzip, chunked\r\n",
        "Host: localhost\r\nTransfer-Encoding: identity\r\nContent-Length: 4\r\n",
        "Host: localhost\r\nHost: localhost\r\n",
        "Host: localhost\r\nAuthorization: Bearer a\r\nauthorization: Bearer b\r\n",
        "Host: localhost\r\nContent-Length : 4\r\n",
        "Host: localhost\r\nX-A: b\001c\r\n",
        "Host: localhost\r\nX(A): b\r\n",
    };

    (void)state;
    for (size_t i = 0; i < sizeof(heads) / sizeof(heads[0]); i++) {
        char request[1024];
        char answer[4096];
        unsigned status;

        (void)snprintf(request, sizeof(request),
                       "POST /v1/echo HTTP/1.1\r\n%s\r\nabcdGET /livez HTTP/1.1\r\nHost: "
                       "localhost\r\n\r\n",
                       heads[i]);
        status = ask_raw(request, answer, sizeof(answer));
        if (status != 400 && status != 0)
            fail_msg("%s: %u", heads[i], status);
        if (strstr(answer, "\r\nok\n") != NULL)
            fail_msg("%s: a second answer", heads[i]);
    }
}

/* The same request with a sound head is answered, and so is the second one. */
static void
a_sound_head_is_answered(void **state)
{
    char answer[4096];

    (void)state;
    assert_int_equal(ask_raw("POST /v1/echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: "
                             "4\r\n\r\nabcdGET /livez HTTP/1.1\r\nHost: "
                             "localhost\r\nConnection: close\r\n\r\n",
                             answer, sizeof(answer)),
                     200);
    assert_non_null(strstr(answer, "\r\nok\n"));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(heads_with_two_readings_are_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_sound_head_is_answered, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
