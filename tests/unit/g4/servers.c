#include "tests/unit/g4/servers.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"

#include "tests/support/seed.h"

enum { SERVER_READY_MS = 60000, POLL_MS = 50, PATH_SIZE = 512, HEAD_MAX = 8192 };

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
    pthread_t thread;
    const char *const *replies;
    size_t count;
    char endpoint[64];
    struct g4_s3_options options;

    struct {
        pthread_mutex_t lock; /* guards what follows */
        bool stop;
        size_t seen;
        char head[HEAD_MAX];
    } shared;
};

static bool
stopping(struct hostile *hostile)
{
    bool stop;

    pthread_mutex_lock(&hostile->shared.lock);
    stop = hostile->shared.stop;
    pthread_mutex_unlock(&hostile->shared.lock);
    return stop;
}

/* Wait for bytes, but not beyond the end of the test. */
static bool
readable(struct hostile *hostile, int fd)
{
    struct pollfd one = {.fd = fd, .events = POLLIN};

    while (!stopping(hostile))
        if (poll(&one, 1, POLL_MS) > 0)
            return true;
    return false;
}

/* Read a request with its body; false when there is none. */
static bool
read_request(struct hostile *hostile, int fd, char head[HEAD_MAX])
{
    const char *length;
    size_t body = 0;
    size_t size = 0;
    char *end;

    do {
        ssize_t got;

        if (!readable(hostile, fd))
            return false;
        got = recv(fd, head + size, HEAD_MAX - 1 - size, 0);
        if (got <= 0)
            return false;
        size += (size_t)got;
        head[size] = '\0';
        end = strstr(head, "\r\n\r\n");
    } while (end == NULL && size < HEAD_MAX - 1);
    length = strcasestr(head, "\r\nContent-Length: ");
    if (length != NULL)
        body = strtoul(length + 18, NULL, 10);
    for (size_t had = end == NULL ? 0 : size - (size_t)(end + 4 - head); had < body;) {
        char rest[4096];
        ssize_t got;

        if (!readable(hostile, fd))
            return false;
        got = recv(fd, rest, sizeof(rest), 0);
        if (got <= 0)
            return false;
        had += (size_t)got;
    }
    return true;
}

static void
answer(struct hostile *hostile, int fd)
{
    char head[HEAD_MAX];
    const char *reply;

    if (!read_request(hostile, fd, head))
        return;
    pthread_mutex_lock(&hostile->shared.lock);
    reply = hostile->replies[hostile->shared.seen < hostile->count ? hostile->shared.seen
                                                                   : hostile->count - 1];
    hostile->shared.seen++;
    memcpy(hostile->shared.head, head, sizeof(head));
    pthread_mutex_unlock(&hostile->shared.lock);
    if (reply != NULL)
        (void)!send(fd, reply, strlen(reply), MSG_NOSIGNAL);
    else
        (void)readable(hostile, fd);
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
hostile_start(const char *const *replies, size_t count)
{
    struct hostile *hostile = kvt_calloc(1, sizeof(*hostile));
    uint16_t port;

    assert_non_null(hostile);
    (void)pthread_mutex_init(&hostile->shared.lock, NULL);
    hostile->replies = replies;
    hostile->count = count;
    hostile->fd = listen_on(0, &port);
    (void)snprintf(hostile->endpoint, sizeof(hostile->endpoint), "http://127.0.0.1:%u", port);
    hostile->options = (struct g4_s3_options){.endpoint = hostile->endpoint,
                                              .bucket = SERVER_BUCKET,
                                              .region = "",
                                              .access_key = "a",
                                              .secret_key = "s",
                                              .path_style = true};
    assert_int_equal(pthread_create(&hostile->thread, NULL, run, hostile), 0);
    return hostile;
}

void
hostile_stop(struct hostile *hostile)
{
    pthread_mutex_lock(&hostile->shared.lock);
    hostile->shared.stop = true;
    pthread_mutex_unlock(&hostile->shared.lock);
    (void)pthread_join(hostile->thread, NULL);
    (void)close(hostile->fd);
    (void)pthread_mutex_destroy(&hostile->shared.lock);
    kvt_free(hostile);
}

const struct g4_s3_options *
hostile_options(const struct hostile *hostile)
{
    return &hostile->options;
}

size_t
hostile_seen(struct hostile *hostile, char *head, size_t size)
{
    size_t seen;

    pthread_mutex_lock(&hostile->shared.lock);
    seen = hostile->shared.seen;
    (void)snprintf(head, size, "%s", hostile->shared.head);
    pthread_mutex_unlock(&hostile->shared.lock);
    return seen;
}
