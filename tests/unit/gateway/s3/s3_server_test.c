/*
 * What is tested: gateway/s3/s3_server.h over real sockets, where blocks are read while they are
 * sent: all of a block and parts of it, also what is not in memory; what comes out of sealed
 * memory, and what does not; the hot copy damaged or removed in the middle of an answer; clients
 * that take their time, and thousands that say nothing.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/core/file.h"
#include "base/core/random.h"
#include "g4/directory/file_name.h"
#include "g4/directory/object_file.h"
#include "g4/s3/s3.h"
#include "gateway/s3/s3_server.h"
#include "gateway/tier/hot_memory.h"

#include "tests/support/certificate.h"
#include "tests/unit/gateway/support/scene.h"

/* SIZE is more than a socket's buffers take on their way to a client that does not read. */
enum { PIECE = 1 << G4_PIECES_SHIFT_MIN, SIZE = 8 << 20, WAIT_S = 30, IDLE = 2000, NUMBER = 1 };

struct fixture {
    struct test_scene scene;
    struct gateway_auth *auth;
    struct gateway_s3_server *front;
    uint16_t port;
    struct kvt_tls *tls; /* NULL: plain HTTP */
    unsigned mostly;     /* answers that were most of the block */
    char key[KVT_KEY_MAX];
    char file[512]; /* of the hot copy */
    uint8_t *wanted;
    uint8_t *found;
};

static void
start_front(struct fixture *f, uint64_t patience_ms)
{
    const struct gateway_s3_server_options options = {.bind = "127.0.0.1",
                                                      .http_threads = 2,
                                                      .io_threads = 2,
                                                      .connections_max = IDLE + 100,
                                                      .patience_ms = patience_ms,
                                                      .domains = "",
                                                      .tls = f->tls,
                                                      .auth = f->auth,
                                                      .s3 = &f->scene.s3};
    struct kvt_error err;

    if (gateway_s3_server_start(&f->front, &options, &err) != KVT_OK)
        fail_msg("%s", err.text);
    f->port = gateway_s3_server_port(f->front);
}

static int
set_up(void **state)
{
    struct fixture *f = kvt_calloc(1, sizeof(*f));
    struct gateway_client_credentials *credentials;
    char name[G4_FILE_NAME_MAX];

    test_scene_open(&f->scene, 64u << 20);
    f->scene.budget.max = 64u << 20;
    f->scene.s3.batch_max = SIZE;
    f->scene.gateway.context->body_limits.object_max = SIZE;
    assert_int_equal(gateway_client_credentials_parse(&credentials, "access:secret\n", NULL),
                     KVT_OK);
    assert_int_equal(gateway_auth_new(&f->auth, credentials, NULL), KVT_OK);
    start_front(f, WAIT_S * 1000);
    f->wanted = kvt_calloc(1, SIZE);
    f->found = kvt_calloc(1, SIZE);
    test_gateway_fill(f->wanted, SIZE, NUMBER);
    assert_int_equal(test_gateway_put(&f->scene.gateway, NUMBER, SIZE), KVT_OK);
    g4_file_name_format(test_gateway_key(f->key, NUMBER), name);
    (void)snprintf(f->file, sizeof(f->file), "%s/objects/%s", f->scene.gateway.hot, name);
    *state = f;
    return 0;
}

static int
tear_down(void **state)
{
    struct fixture *f = *state;

    gateway_s3_server_stop(f->front);
    gateway_auth_free(f->auth);
    kvt_tls_free(f->tls);
    kvt_free(f->wanted);
    kvt_free(f->found);
    test_scene_close(&f->scene);
    kvt_free(f);
    return 0;
}

/* A socket whose reads end after WAIT_S; `room`: of its receive buffer, 0 = as the system likes. */
static int
connect_front(const struct fixture *f, int room)
{
    const struct sockaddr_in address = {.sin_family = AF_INET,
                                        .sin_port = htons(f->port),
                                        .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const struct timeval wait = {.tv_sec = WAIT_S};
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0);
    if (room > 0)
        assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &room, sizeof(room)), 0);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait)), 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)&address, sizeof(address)), 0);
    return fd;
}

/* Send a signed GET of the block, with a Range if that is not NULL. */
static void
ask(const struct fixture *f, int fd, const char *range)
{
    const struct g4_sigv4_header headers[] = {
        {"host", "gateway"}, {"x-amz-content-sha256", G4_SIGV4_UNSIGNED}, {"x-amz-date", NULL}};
    struct g4_sigv4_header signed_headers[3];
    char path[KVT_KEY_MAX + 16];
    char date[G4_SIGV4_DATE_MAX];
    const time_t now = time(NULL);
    struct g4_sigv4_request request = {.method = "GET",
                                       .path = path,
                                       .query = "",
                                       .headers = signed_headers,
                                       .header_count = 3,
                                       .payload_hash = G4_SIGV4_UNSIGNED,
                                       .date = date,
                                       .region = "us-east-1",
                                       .service = "s3"};
    struct kvt_buffer text;
    struct tm parts;

    (void)gmtime_r(&now, &parts);
    (void)strftime(date, sizeof(date), "%Y%m%dT%H%M%SZ", &parts);
    memcpy(signed_headers, headers, sizeof(headers));
    signed_headers[2].value = date;
    (void)snprintf(path, sizeof(path), "/kvtier/%s", f->key);
    kvt_buffer_init(&text, 8192);
    kvt_buffer_printf(&text, "GET ");
    g4_sigv4_encode(&text, path, true);
    kvt_buffer_printf(&text,
                      " HTTP/1.1\r\nHost: gateway\r\nx-amz-content-sha256: %s\r\nx-amz-date: %s\r\n"
                      "Authorization: ",
                      G4_SIGV4_UNSIGNED, date);
    assert_int_equal(g4_sigv4_authorization(&request, "access", "secret", &text), KVT_OK);
    kvt_buffer_printf(&text, "\r\n");
    if (range != NULL)
        kvt_buffer_printf(&text, "Range: %s\r\n", range);
    kvt_buffer_printf(&text, "\r\n");
    assert_true(kvt_buffer_ok(&text));
    assert_int_equal(send(fd, text.data, text.size, MSG_NOSIGNAL), text.size);
    kvt_buffer_release(&text);
}

/* Read the head of an answer, byte by byte; its status and Content-Length. */
static unsigned
read_head(int fd, size_t *length)
{
    char head[4096] = "";
    const char *field;
    size_t size = 0;

    while (strstr(head, "\r\n\r\n") == NULL) {
        assert_true(size < sizeof(head) - 1);
        assert_int_equal(recv(fd, head + size, 1, 0), 1);
        size++;
    }
    field = strcasestr(head, "\r\nContent-Length:");
    assert_non_null(field);
    *length = strtoul(field + strlen("\r\nContent-Length:"), NULL, 10);
    return (unsigned)strtoul(head + strlen("HTTP/1.1 "), NULL, 10);
}

/* Read up to `size` bytes of body, and compare each with the block's from `at` on; how many came
 * before the end. */
static size_t
read_body(struct fixture *f, int fd, size_t at, size_t size)
{
    size_t done = 0;

    while (done < size) {
        const ssize_t got = recv(fd, f->found + done, size - done, 0);

        assert_false(got < 0 && (errno == EAGAIN || errno == EINTR)); /* nothing came for long */
        if (got <= 0)
            break;
        done += (size_t)got;
    }
    assert_memory_equal(f->found, f->wanted + at, done);
    return done;
}

static void
flip(const struct fixture *f, size_t at)
{
    const uint8_t byte = f->wanted[at] ^ 1;
    const int fd = open(f->file, O_WRONLY | O_CLOEXEC);

    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, &byte, 1, (off_t)(G4_OBJECT_FILE_BODY_AT + at)), 1);
    (void)close(fd);
}

/* What is on disk goes out of memory, so that it has to be waited for. */
static void
forget_pages(const struct fixture *f)
{
    const int fd = open(f->file, O_RDONLY | O_CLOEXEC);

    assert_true(fd >= 0);
    assert_int_equal(posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED), 0);
    (void)close(fd);
}

static void
whole_and_in_part(void **state)
{
    struct fixture *f = *state;
    uint64_t random = test_seed();
    const int fd = connect_front(f, 0);
    size_t length;

    for (int i = 0; i < 3; i++) {
        if (i == 1)
            forget_pages(f);
        ask(f, fd, NULL);
        assert_int_equal(read_head(fd, &length), 200);
        assert_int_equal(length, SIZE);
        assert_int_equal(read_body(f, fd, 0, SIZE), SIZE);
        f->mostly++;
    }
    for (int i = 0; i < 20; i++) {
        const uint64_t from = kvt_random_below(&random, SIZE);
        const uint64_t size = 1 + kvt_random_below(&random, (SIZE - from) >> (i % 10));
        char range[80];

        (void)snprintf(range, sizeof(range), "bytes=%llu-%llu", (unsigned long long)from,
                       (unsigned long long)(from + size - 1));
        ask(f, fd, range);
        assert_int_equal(read_head(fd, &length), 206);
        assert_int_equal(length, size);
        assert_int_equal(read_body(f, fd, from, size), size);
        f->mostly += size >= SIZE / 2 ? 1 : 0;
    }
    (void)close(fd);
}

/* What was asked for before comes out of memory, and only as long as the file is what it was. */
static void
again_out_of_memory(void **state)
{
    struct fixture *f = *state;
    struct gateway_stats *stats = &f->scene.gateway.stats;
    struct gateway_context *context = f->scene.gateway.context;
    const int fd = connect_front(f, 0);
    size_t length;

    assert_int_equal(gateway_hot_memory_new(&context->hot_memory, 4 * (uint64_t)SIZE), KVT_OK);
    whole_and_in_part(state);
    assert_int_equal(gateway_stats_get(stats, GATEWAY_STAT_HITS_SEALED), f->mostly - 1);
    assert_int_equal(gateway_stats_get(stats, GATEWAY_STAT_HITS_HOT), 23);
    flip(f, SIZE / 2);
    ask(f, fd, NULL);
    assert_int_equal(read_head(fd, &length), 200);
    assert_int_equal(read_body(f, fd, 0, SIZE), SIZE);
    assert_int_equal(gateway_stats_get(stats, GATEWAY_STAT_HITS_SEALED), f->mostly - 1);
    assert_int_equal(gateway_stats_get(stats, GATEWAY_STAT_CORRUPT_HOT), 1);
    (void)close(fd);
}

/* A byte of it, again and again, does not bring all of it into memory. */
static void
a_small_part_is_read(void **state)
{
    struct fixture *f = *state;
    struct gateway_context *context = f->scene.gateway.context;
    const int fd = connect_front(f, 0);
    size_t length;

    assert_int_equal(gateway_hot_memory_new(&context->hot_memory, 4 * (uint64_t)SIZE), KVT_OK);
    for (int i = 0; i < 5; i++) {
        ask(f, fd, "bytes=5-5");
        assert_int_equal(read_head(fd, &length), 206);
        assert_int_equal(read_body(f, fd, 5, 1), 1);
    }
    assert_int_equal(gateway_stats_get(&f->scene.gateway.stats, GATEWAY_STAT_HITS_SEALED), 0);
    (void)close(fd);
}

/* What TLS sends is copied in any case. */
static void
over_tls_it_is_read(void **state)
{
    struct fixture *f = *state;
    struct gateway_context *context = f->scene.gateway.context;
    const uint64_t now_ms = kvt_clock_unix_ms();
    struct g4_s3_options options = {
        .bucket = "kvtier", .access_key = "access", .secret_key = "secret", .path_style = true};
    struct test_certificate pair;
    struct g4_store *client;
    struct kvt_error err;
    char endpoint[64];
    char path[256];

    test_certificate_make(&pair, "gateway", now_ms - 3600000, now_ms + 3600000);
    (void)snprintf(path, sizeof(path), "%s/front.pem", f->scene.gateway.folder);
    assert_int_equal(kvt_file_write(path, pair.text, strlen(pair.text), 0600, NULL), KVT_OK);
    assert_int_equal(kvt_tls_new(&f->tls), KVT_OK);
    assert_int_equal(kvt_tls_load(f->tls, pair.text, pair.key, &err), KVT_OK);
    gateway_s3_server_stop(f->front);
    start_front(f, WAIT_S * 1000);
    assert_int_equal(gateway_hot_memory_new(&context->hot_memory, 4 * (uint64_t)SIZE), KVT_OK);
    (void)snprintf(endpoint, sizeof(endpoint), "https://localhost:%u", (unsigned)f->port);
    options.endpoint = endpoint;
    options.ca_file = path;
    assert_int_equal(g4_s3_open(&client, &options, &err), KVT_OK);
    for (int i = 0; i < 3; i++) {
        struct g4_request request = {.verb = G4_GET, .key = f->key, .buffer_capacity = SIZE};

        if (g4_store_perform(client, &request) != KVT_OK)
            fail_msg("%s", request.error.text);
        assert_int_equal(request.buffer_size, SIZE);
        assert_memory_equal(request.buffer, f->wanted, SIZE);
        kvt_free(request.buffer);
    }
    g4_store_close(client);
    assert_int_equal(gateway_stats_get(&f->scene.gateway.stats, GATEWAY_STAT_HITS_HOT), 3);
    assert_int_equal(gateway_stats_get(&f->scene.gateway.stats, GATEWAY_STAT_HITS_SEALED), 0);
}

/* Whether openssl completes a handshake with these options, which blanks divide. */
static bool
shakes_hands(uint16_t port, const char *options)
{
    char address[32];
    char words[160];
    char program[] = "openssl";
    char verb[] = "s_client";
    char connect_to[] = "-connect";
    char *argv[16] = {program, verb, connect_to, address};
    size_t count = 4;
    char *rest = words;
    posix_spawn_file_actions_t files;
    pid_t child;
    int status = -1;

    (void)snprintf(address, sizeof(address), "127.0.0.1:%u", (unsigned)port);
    (void)snprintf(words, sizeof(words), "%s", options);
    for (char *word; (word = strtok_r(rest, " ", &rest)) != NULL && count < 15;)
        argv[count++] = word;
    assert_int_equal(posix_spawn_file_actions_init(&files), 0);
    for (int fd = 0; fd < 3; fd++)
        assert_int_equal(posix_spawn_file_actions_addopen(&files, fd, "/dev/null",
                                                          fd == 0 ? O_RDONLY : O_WRONLY, 0),
                         0);
    assert_int_equal(posix_spawnp(&child, "openssl", &files, NULL, argv, environ), 0);
    (void)posix_spawn_file_actions_destroy(&files);
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* A client that accepts every cipher (@SECLEVEL=0) gets a safe one, or no connection. */
static void
old_tls_is_refused(void **state)
{
    static const char *const good[] = {
        "-tls1_3",
        "-tls1_2",
        "-tls1_2 -cipher ECDHE-ECDSA-AES128-GCM-SHA256",
        "-tls1_2 -cipher ECDHE-ECDSA-CHACHA20-POLY1305",
    };
    static const char *const refused[] = {
        "-tls1 -cipher ALL:@SECLEVEL=0",
        "-tls1_1 -cipher ALL:@SECLEVEL=0",
        "-tls1_2 -cipher ECDHE-ECDSA-AES128-SHA:@SECLEVEL=0",
        "-tls1_2 -cipher ECDHE-ECDSA-AES256-SHA:@SECLEVEL=0",
        "-tls1_2 -cipher ECDHE-ECDSA-AES128-SHA256:@SECLEVEL=0",
        "-tls1_2 -cipher ECDHE-ECDSA-AES256-SHA384:@SECLEVEL=0",
        "-tls1_2 -cipher ECDHE-ECDSA-AES128-CCM:@SECLEVEL=0",
        "-tls1_2 -cipher aNULL:@SECLEVEL=0",
        "-tls1_2 -cipher eNULL:@SECLEVEL=0",
        "-tls1_2 -sigalgs ECDSA+SHA1 -cipher ALL:@SECLEVEL=0",
    };
    struct fixture *f = *state;
    const uint64_t now_ms = kvt_clock_unix_ms();
    struct test_certificate pair;
    struct kvt_error err;

    test_certificate_make(&pair, "gateway", now_ms - 3600000, now_ms + 3600000);
    assert_int_equal(kvt_tls_new(&f->tls), KVT_OK);
    assert_int_equal(kvt_tls_load(f->tls, pair.text, pair.key, &err), KVT_OK);
    gateway_s3_server_stop(f->front);
    start_front(f, WAIT_S * 1000);
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
        if (!shakes_hands(f->port, good[i]))
            fail_msg("%s is refused", good[i]);
    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++)
        if (shakes_hands(f->port, refused[i]))
            fail_msg("%s is taken", refused[i]);
}

static void
damaged_while_it_is_sent(void **state)
{
    struct fixture *f = *state;
    const int fd = connect_front(f, 4096);
    size_t length;

    ask(f, fd, NULL);
    assert_int_equal(read_head(fd, &length), 200);
    assert_int_equal(read_body(f, fd, 0, PIECE), PIECE);
    flip(f, SIZE - 1);
    assert_int_equal(read_body(f, fd, PIECE, SIZE - PIECE), SIZE - PIECE);
    assert_int_equal(gateway_stats_get(&f->scene.gateway.stats, GATEWAY_STAT_CORRUPT_HOT), 1);
    ask(f, fd, NULL); /* and the connection goes on */
    assert_int_equal(read_head(fd, &length), 200);
    assert_int_equal(read_body(f, fd, 0, SIZE), SIZE);
    (void)close(fd);
}

static void
cut_short_where_nothing_is_right(void **state)
{
    struct fixture *f = *state;
    const int fd = connect_front(f, 4096);
    size_t length;
    size_t got;

    ask(f, fd, NULL);
    assert_int_equal(read_head(fd, &length), 200);
    assert_int_equal(read_body(f, fd, 0, PIECE), PIECE);
    test_gateway_fault(&f->scene.gateway, G4_GET, G4_FAULT_FLIP, KVT_OK, 1);
    flip(f, SIZE - PIECE);
    got = read_body(f, fd, PIECE, SIZE - PIECE);
    assert_true(got <= SIZE - 2 * PIECE);
    (void)close(fd);
}

static void
bad_from_the_first_piece_on(void **state)
{
    struct fixture *f = *state;
    const int fd = connect_front(f, 0);
    size_t length;

    flip(f, 5);
    test_gateway_fault(&f->scene.gateway, G4_GET, G4_FAULT_FLIP, KVT_OK, 1);
    ask(f, fd, NULL);
    assert_int_equal(read_head(fd, &length), 404);
    (void)close(fd);
}

static void
removed_while_it_is_sent(void **state)
{
    struct fixture *f = *state;
    const int fd = connect_front(f, 4096);
    size_t length;

    ask(f, fd, NULL);
    assert_int_equal(read_head(fd, &length), 200);
    assert_int_equal(read_body(f, fd, 0, PIECE), PIECE);
    forget_pages(f);
    assert_int_equal(unlink(f->file), 0);
    assert_int_equal(read_body(f, fd, PIECE, SIZE - PIECE), SIZE - PIECE);
    (void)close(fd);
}

/* Wait for the other side to close; it must not have said anything. */
static void
expect_end(int fd)
{
    char byte;

    assert_true(recv(fd, &byte, 1, 0) == 0 || errno == ECONNRESET);
    (void)close(fd);
}

static void
patience_ends(void **state)
{
    static const char head[] = "GET /kvtier/x HTTP/1.1\r\nHost: ";
    struct fixture *f = *state;
    const uint64_t end_ms = kvt_clock_mono_ms() + WAIT_S * 1000;
    int silent;
    int slow;
    int lazy;

    gateway_s3_server_stop(f->front);
    start_front(f, 200);
    silent = connect_front(f, 0);
    slow = connect_front(f, 0);
    lazy = connect_front(f, 4096);
    ask(f, lazy, NULL);
    assert_int_equal(send(slow, head, sizeof(head) - 1, MSG_NOSIGNAL), sizeof(head) - 1);
    /* Never still for long, and never done. */
    while (gateway_stats_get(&f->scene.gateway.stats, GATEWAY_STAT_CUT) < 3) {
        assert_true(kvt_clock_mono_ms() < end_ms);
        (void)!send(slow, "x", 1, MSG_NOSIGNAL);
        (void)!recv(lazy, f->found, 100, MSG_DONTWAIT);
        kvt_clock_sleep_ms(5);
    }
    expect_end(silent);
    expect_end(slow);
    while (recv(lazy, f->found, SIZE, 0) > 0)
        ;
    (void)close(lazy);
}

static void
thousands_that_say_nothing(void **state)
{
    struct fixture *f = *state;
    struct rlimit before;
    int *idle;
    size_t length;
    int fd;

    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    if (before.rlim_max != RLIM_INFINITY && before.rlim_max < 3 * IDLE)
        skip();
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &(struct rlimit){3 * IDLE, before.rlim_max}), 0);
    idle = kvt_calloc(IDLE, sizeof(*idle));
    for (int i = 0; i < IDLE; i++)
        idle[i] = connect_front(f, 0);
    fd = connect_front(f, 0);
    ask(f, fd, "bytes=0-99");
    assert_int_equal(read_head(fd, &length), 206);
    assert_int_equal(read_body(f, fd, 0, 100), 100);
    (void)close(fd);
    for (int i = 0; i < IDLE; i++)
        (void)close(idle[i]);
    kvt_free(idle);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(whole_and_in_part, set_up, tear_down),
        cmocka_unit_test_setup_teardown(again_out_of_memory, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_small_part_is_read, set_up, tear_down),
        cmocka_unit_test_setup_teardown(over_tls_it_is_read, set_up, tear_down),
        cmocka_unit_test_setup_teardown(old_tls_is_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(damaged_while_it_is_sent, set_up, tear_down),
        cmocka_unit_test_setup_teardown(cut_short_where_nothing_is_right, set_up, tear_down),
        cmocka_unit_test_setup_teardown(bad_from_the_first_piece_on, set_up, tear_down),
        cmocka_unit_test_setup_teardown(removed_while_it_is_sent, set_up, tear_down),
        cmocka_unit_test_setup_teardown(patience_ends, set_up, tear_down),
        cmocka_unit_test_setup_teardown(thousands_that_say_nothing, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
