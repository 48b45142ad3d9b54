#include "tests/unit/g4/support/servers.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"

#include "tests/support/seed.h"

enum { SERVER_READY_MS = 60000, POLL_MS = 50, PATH_SIZE = 512 };
enum { RECEIVE_MAX = 64 * 1024, BODY_LIMIT = 64 * 1024 * 1024 };

struct server {
    enum server_kind kind;
    char program[PATH_SIZE];
    char folder[PATH_SIZE];
    char address[64]; /* 127.0.0.1:port */
    char endpoint[80];
    pid_t pid;
    struct g4_s3_options options;
};

static bool
find_program(enum server_kind kind, char program[PATH_SIZE])
{
    const char *name = kind == SERVER_MINIO ? "minio" : "versitygw";
    const char *given = getenv(kind == SERVER_MINIO ? "KVT_MINIO" : "KVT_VERSITYGW");
    const char *cache = getenv("XDG_CACHE_HOME");
    const char *home = getenv("HOME");
    char pattern[PATH_SIZE];
    glob_t found;
    bool there;

    if (given != NULL && given[0] != '\0') {
        (void)snprintf(program, PATH_SIZE, "%s", given);
        return access(program, X_OK) == 0;
    }
    (void)snprintf(pattern, sizeof(pattern), "%s%s/kvtier/tools/%s-*/%s",
                   cache != NULL  ? cache
                   : home != NULL ? home
                                  : "",
                   cache != NULL ? "" : "/.cache", name, name);
    there = glob(pattern, 0, NULL, &found) == 0 && found.gl_pathc > 0;
    if (there)
        (void)snprintf(program, PATH_SIZE, "%s", found.gl_pathv[0]);
    globfree(&found);
    return there;
}

/* A listening socket on a free loopback port. */
static int
listen_on(uint16_t port, uint16_t *chosen)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    socklen_t size = sizeof(address);
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, size), 0);
    assert_int_equal(listen(fd, 64), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &size), 0);
    *chosen = ntohs(address.sin_port);
    return fd;
}

static void
exec_server(const struct server *server)
{
    char log[PATH_SIZE + 8];
    int fd;

    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)snprintf(log, sizeof(log), "%s.log", server->folder);
    fd = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (fd >= 0) {
        (void)dup2(fd, 1);
        (void)dup2(fd, 2);
    }
    (void)setenv("MINIO_ROOT_USER", SERVER_ACCESS_KEY, 1);
    (void)setenv("MINIO_ROOT_PASSWORD", SERVER_SECRET_KEY, 1);
    (void)setenv("MINIO_BROWSER", "off", 1);
    (void)setenv("MINIO_CI_CD", "on", 1);
    (void)setenv("ROOT_ACCESS_KEY", SERVER_ACCESS_KEY, 1);
    (void)setenv("ROOT_SECRET_KEY", SERVER_SECRET_KEY, 1);
    if (server->kind == SERVER_MINIO)
        (void)execl(server->program, "minio", "server", server->folder, "--address",
                    server->address, "--quiet", (char *)NULL);
    else
        (void)execl(server->program, "versitygw", "--port", server->address, "posix",
                    server->folder, (char *)NULL);
    _exit(127);
}

static void
spawn(struct server *server)
{
    const uint64_t until_ms = kvt_clock_mono_ms() + SERVER_READY_MS;
    struct kvt_error err;
    enum kvt_err rc;

    server->pid = fork();
    assert_true(server->pid >= 0);
    if (server->pid == 0)
        exec_server(server);
    do {
        rc = g4_s3_create_bucket(&server->options, &err);
        if (rc == KVT_OK || rc == KVT_EXISTS)
            return;
        kvt_clock_sleep_ms(POLL_MS);
    } while (kvt_clock_mono_ms() < until_ms && waitpid(server->pid, NULL, WNOHANG) == 0);
    fail_msg("%s did not come up: %s", server->program, err.text);
}

struct server *
server_start(enum server_kind kind)
{
    char program[PATH_SIZE];
    struct server *server;
    uint16_t port;

    if (!find_program(kind, program)) {
        const char *ci = getenv("CI");

        if (ci != NULL && strcmp(ci, "true") == 0)
            fail_msg("%s is not on this machine", kind == SERVER_MINIO ? "minio" : "versitygw");
        return NULL;
    }
    server = kvt_calloc(1, sizeof(*server));
    assert_non_null(server);
    server->kind = kind;
    memcpy(server->program, program, sizeof(program));
    (void)test_folder_make(server->folder, sizeof(server->folder));
    (void)close(listen_on(0, &port));
    (void)snprintf(server->address, sizeof(server->address), "127.0.0.1:%u", port);
    (void)snprintf(server->endpoint, sizeof(server->endpoint), "http://%s", server->address);
    server->options = (struct g4_s3_options){.endpoint = server->endpoint,
                                             .bucket = SERVER_BUCKET,
                                             .region = "us-east-1",
                                             .access_key = SERVER_ACCESS_KEY,
                                             .secret_key = SERVER_SECRET_KEY,
                                             .path_style = true};
    spawn(server);
    return server;
}

const struct g4_s3_options *
server_options(const struct server *server)
{
    return &server->options;
}

void
server_kill(struct server *server)
{
    if (server->pid <= 0)
        return;
    (void)kill(server->pid, SIGKILL);
    (void)waitpid(server->pid, NULL, 0);
    server->pid = -1;
}

void
server_restart(struct server *server)
{
    server_kill(server);
    spawn(server);
}

void
server_stop(struct server *server)
{
    char log[PATH_SIZE + 8];

    if (server == NULL)
        return;
    server_kill(server);
    (void)snprintf(log, sizeof(log), "%s.log", server->folder);
    (void)unlink(log);
    test_folder_remove(server->folder);
    kvt_free(server);
}

struct hostile {
    int fd;
    pthread_t threads[HOSTILE_THREADS_MAX];
    unsigned thread_count;
    hostile_handler *handler;
    void *arg;
    char endpoint[64];
    struct g4_s3_options options;
    atomic_bool stop;
};

/* Wait for bytes, but not beyond the end of the test. */
static bool
readable(struct hostile *hostile, int fd)
{
    struct pollfd one = {.fd = fd, .events = POLLIN};

    while (!atomic_load(&hostile->stop))
        if (poll(&one, 1, POLL_MS) > 0)
            return true;
    return false;
}

/* More bytes into `in`; false at the end of the connection or of the test. */
static bool
receive(struct hostile *hostile, int fd, struct kvt_buffer *in)
{
    uint8_t *room = kvt_buffer_reserve(in, RECEIVE_MAX);
    ssize_t got;

    assert_non_null(room);
    if (!readable(hostile, fd))
        return false;
    got = recv(fd, room, RECEIVE_MAX, 0);
    if (got <= 0)
        return false;
    in->size += (size_t)got;
    return true;
}

/* Read a request with its body; where the body starts, or 0 when there is none. */
static size_t
read_request(struct hostile *hostile, int fd, struct kvt_buffer *in)
{
    const char *length;
    size_t body = 0;
    size_t start;
    char *end;

    do {
        if (!receive(hostile, fd, in))
            return 0;
        end = strstr(kvt_buffer_text(in), "\r\n\r\n");
    } while (end == NULL);
    *end = '\0';
    start = (size_t)(end + 4 - (char *)in->data);
    length = strcasestr((const char *)in->data, "\r\nContent-Length: ");
    if (length != NULL)
        body = strtoul(length + 18, NULL, 10);
    while (in->size - start < body)
        if (!receive(hostile, fd, in))
            return 0;
    return start;
}

static void
answer(struct hostile *hostile, int fd)
{
    struct kvt_buffer reply;
    struct kvt_buffer in;
    size_t start;

    kvt_buffer_init(&in, BODY_LIMIT);
    kvt_buffer_init(&reply, BODY_LIMIT);
    start = read_request(hostile, fd, &in);
    if (start > 0) {
        hostile->handler(hostile->arg, (const char *)in.data, in.data + start, in.size - start,
                         &reply);
        if (reply.size > 0)
            (void)!send(fd, reply.data, reply.size, MSG_NOSIGNAL);
        else
            (void)readable(hostile, fd);
    }
    kvt_buffer_release(&in);
    kvt_buffer_release(&reply);
}

static void *
run(void *arg)
{
    struct hostile *hostile = arg;

    while (readable(hostile, hostile->fd)) {
        const int fd = accept(hostile->fd, NULL, NULL);

        if (fd < 0)
            continue;
        answer(hostile, fd);
        (void)shutdown(fd, SHUT_WR);
        (void)close(fd);
    }
    return NULL;
}

struct hostile *
hostile_start_wide(hostile_handler *handler, void *arg, unsigned threads)
{
    struct hostile *hostile = kvt_calloc(1, sizeof(*hostile));
    uint16_t port;

    assert_non_null(hostile);
    hostile->handler = handler;
    hostile->arg = arg;
    hostile->fd = listen_on(0, &port);
    /* Several threads see the same connection come; all but one must not wait for the next. */
    assert_int_equal(fcntl(hostile->fd, F_SETFL, O_NONBLOCK), 0);
    (void)snprintf(hostile->endpoint, sizeof(hostile->endpoint), "http://127.0.0.1:%u", port);
    hostile->options = (struct g4_s3_options){.endpoint = hostile->endpoint,
                                              .bucket = SERVER_BUCKET,
                                              .region = "",
                                              .access_key = "a",
                                              .secret_key = "s",
                                              .path_style = true};
    assert_true(threads <= HOSTILE_THREADS_MAX);
    for (; hostile->thread_count < threads; hostile->thread_count++)
        assert_int_equal(
            pthread_create(&hostile->threads[hostile->thread_count], NULL, run, hostile), 0);
    return hostile;
}

struct hostile *
hostile_start(hostile_handler *handler, void *arg)
{
    return hostile_start_wide(handler, arg, 1);
}

void
hostile_stop(struct hostile *hostile)
{
    atomic_store(&hostile->stop, true);
    for (unsigned i = 0; i < hostile->thread_count; i++)
        (void)pthread_join(hostile->threads[i], NULL);
    (void)close(hostile->fd);
    kvt_free(hostile);
}

const struct g4_s3_options *
hostile_options(const struct hostile *hostile)
{
    return &hostile->options;
}
