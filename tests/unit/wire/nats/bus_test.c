/*
 * What is tested: wire/nats/bus.h where something takes its first connections and closes them, as a
 * proxy does whose server is away; and that a connection which came back is counted at once.
 * How: a listener on the port of a nats-server that is not running yet; the library's thread of
 * callbacks, held up.
 */
#include <nats/nats.h>
#include <netinet/in.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/core/clock.h"

#include "tests/support/seed.h"
#include "tests/unit/wire/support/test_bus.h"

enum { DEADLINE_MS = 20000, TIMES = 3 };

/* Takes so many connections, says something and closes them; then it is gone. */
struct door {
    pthread_t thread;
    int fd;
    const char *says; /* NULL: nothing */
    int taken;
};

static void *
keep(void *arg)
{
    struct door *door = arg;

    while (door->taken < TIMES) {
        const int fd = accept(door->fd, NULL, NULL);
        char heard[512];

        assert_true(fd >= 0);
        door->taken++;
        if (door->says != NULL) {
            assert_true(send(fd, door->says, strlen(door->says), MSG_NOSIGNAL) > 0);
            (void)!recv(fd, heard, sizeof(heard), 0); /* CONNECT */
        }
        (void)close(fd);
    }
    (void)close(door->fd);
    return NULL;
}

static void
begin(struct door *door, const struct test_nats *server, const char *says)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)strtoul(server->port, NULL, 10))};
    const int on = 1;

    *door = (struct door){.says = says, .fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    (void)setsockopt(door->fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    assert_int_equal(bind(door->fd, (struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(listen(door->fd, 4), 0);
    assert_int_equal(pthread_create(&door->thread, NULL, keep, door), 0);
}

static void
check_door(const char *says)
{
    const uint64_t deadline_ms = kvt_clock_mono_ms() + DEADLINE_MS;
    struct test_nats server;
    struct wire_bus *bus;
    struct door door;

    test_nats_start(&server);
    test_nats_kill(&server);
    begin(&door, &server, says);
    bus = test_bus_open(&server, false);
    assert_false(wire_bus_connected(bus));
    assert_int_equal(pthread_join(door.thread, NULL), 0);
    assert_int_equal(door.taken, TIMES);
    test_nats_restart(&server);
    while (!wire_bus_connected(bus)) {
        assert_true(kvt_clock_mono_ms() < deadline_ms);
        kvt_clock_sleep_ms(10);
    }
    test_bus_ensure_streams(bus);
    wire_bus_close(bus);
    test_nats_stop(&server);
}

static void
a_connection_that_is_closed_at_once_is_tried_again(void **state)
{
    (void)state;
    check_door(NULL);
}

static void
one_that_is_closed_instead_of_an_answer_is_too(void **state)
{
    (void)state;
    check_door("INFO {\"server_id\":\"x\",\"version\":\"2.9.0\",\"max_payload\":1048576}\r\n");
}

/* Of something that is no NATS server, too: it may be one by and by. */
static void
one_that_says_something_else_is_too(void **state)
{
    (void)state;
    check_door("HTTP/1.1 503 Service Unavailable\r\n\r\n");
}

static void
a_list_of_servers_may_have_holes(void **state)
{
    const uint64_t deadline_ms = kvt_clock_mono_ms() + DEADLINE_MS;
    struct wire_bus_options options = {.connect_now = false};
    struct test_nats server;
    struct wire_bus *bus;
    struct kvt_error err;
    char urls[512];

    (void)state;
    test_nats_start(&server);
    (void)snprintf(urls, sizeof(urls), "nats://127.0.0.1:1,,%s,", server.url);
    options.url = urls;
    assert_int_equal(wire_bus_open(&bus, &options, &err), KVT_OK);
    while (!wire_bus_connected(bus)) {
        assert_true(kvt_clock_mono_ms() < deadline_ms);
        kvt_clock_sleep_ms(10);
    }
    wire_bus_close(bus);
    test_nats_stop(&server);
    options.url = ","; /* of nobody */
    assert_int_equal(wire_bus_open(&bus, &options, &err), KVT_INVALID);
    assert_null(bus);
}

/* Whoever wants to know at once does. */
static void
who_connects_now_is_told(void **state)
{
    struct wire_bus_options options = {.connect_now = true};
    struct test_nats server;
    struct wire_bus *bus;
    struct kvt_error err;
    struct door door;

    (void)state;
    test_nats_start(&server);
    test_nats_kill(&server);
    begin(&door, &server, NULL);
    options.url = server.url;
    for (int i = 0; i < TIMES; i++) {
        assert_int_equal(wire_bus_open(&bus, &options, &err), KVT_UNAVAILABLE);
        assert_null(bus);
        assert_non_null(strstr(err.text, server.url));
    }
    assert_int_equal(pthread_join(door.thread, NULL), 0);
    test_nats_stop(&server);
}

static void
hold_up(natsConnection *nc, void *arg)
{
    sem_t *may_go = arg;

    (void)nc;
    while (sem_wait(may_go) != 0)
        continue;
}

/* All callbacks of the library come from one thread, which may be late. */
static void
an_absence_is_counted_when_its_end_is_told(void **state)
{
    natsConnection *other = NULL;
    natsOptions *options = NULL;
    struct test_nats server;
    struct wire_bus *bus;
    sem_t may_go;

    (void)state;
    test_nats_start(&server);
    bus = test_bus_open(&server, true);
    assert_int_equal(wire_bus_reconnects(bus), 0);
    assert_int_equal(sem_init(&may_go, 0, 0), 0);
    assert_int_equal(natsOptions_Create(&options), NATS_OK);
    assert_int_equal(natsOptions_SetURL(options, server.url), NATS_OK);
    assert_int_equal(natsOptions_SetClosedCB(options, hold_up, &may_go), NATS_OK);
    assert_int_equal(natsConnection_Connect(&other, options), NATS_OK);
    natsConnection_Close(other);
    test_nats_kill(&server);
    test_bus_wait(bus, false);
    test_nats_restart(&server);
    test_bus_wait(bus, true);
    assert_true(wire_bus_reconnects(bus) >= 1);
    assert_int_equal(sem_post(&may_go), 0);
    wire_bus_close(bus);
    natsConnection_Destroy(other);
    natsOptions_Destroy(options);
    test_nats_stop(&server);
    (void)sem_destroy(&may_go);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_connection_that_is_closed_at_once_is_tried_again),
        cmocka_unit_test(one_that_is_closed_instead_of_an_answer_is_too),
        cmocka_unit_test(one_that_says_something_else_is_too),
        cmocka_unit_test(a_list_of_servers_may_have_holes),
        cmocka_unit_test(who_connects_now_is_told),
        cmocka_unit_test(an_absence_is_counted_when_its_end_is_told),
    };

    test_nats_require();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
