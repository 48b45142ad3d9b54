#include "bench/sink.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"

enum { HEAD_MAX = 8192, CHUNK = 256 << 10 };

struct connection {
    struct sink *sink;
    pthread_t thread;
    int fd;
};

struct sink {
    int listener;
    int folder;
    uint16_t port;
    pthread_t acceptor;
    bool accepting;
    struct connection connections[SINK_CONNECTIONS_MAX]; /* the acceptor's until it ended */
    unsigned connection_count;
};

struct head {
    char text[HEAD_MAX + CHUNK];
    size_t size; /* bytes read */
    size_t end;  /* of the head */
    bool put;
    size_t length;
    char name[256]; /* the path with '/' as '_' */
};

static bool
read_head(int fd, struct head *head)
{
    char *end = NULL;
    const char *field;
    const char *path;

    head->size = 0;
    while (end == NULL) {
        const ssize_t got = recv(fd, head->text + head->size, HEAD_MAX - head->size, 0);

        if (got <= 0)
            return false;
        head->size += (size_t)got;
        head->text[head->size] = '\0';
        end = strstr(head->text, "\r\n\r\n");
        if (end == NULL && head->size >= HEAD_MAX)
            return false;
    }
    head->end = (size_t)(end + 4 - head->text);
    head->put = strncmp(head->text, "PUT ", 4) == 0;
    field = strcasestr(head->text, "\r\nContent-Length:");
    head->length = field == NULL || field > end ? 0 : strtoul(field + 17, NULL, 10);
    path = head->text + 5; /* behind "PUT /" or "GET /" */
    for (size_t i = 0; i < sizeof(head->name) - 1; i++) {
        head->name[i] = path[i] == '/' ? '_' : path[i];
        if (path[i] == ' ') {
            head->name[i] = '\0';
            return true;
        }
    }
    return false;
}

static bool
write_all(int fd, const char *bytes, size_t size)
{
    while (size > 0) {
        const ssize_t put = write(fd, bytes, size);

        if (put < 0)
            return false;
        bytes += put;
        size -= (size_t)put;
    }
    return true;
}

static bool
store(struct sink *sink, int fd, struct head *head)
{
    const int file = openat(sink->folder, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    size_t have = head->size - head->end;
    size_t left = head->length;
    char *chunk = head->text + head->end;
    char from[64];
    bool ok = file >= 0;

    while (ok) {
        ok = write_all(file, chunk, have);
        left -= have;
        if (!ok || left == 0)
            break;
        chunk = head->text;
        const ssize_t got = recv(fd, chunk, left < CHUNK ? left : CHUNK, 0);

        ok = got > 0;
        have = ok ? (size_t)got : 0;
    }
    (void)snprintf(from, sizeof(from), "/proc/self/fd/%d", file);
    ok = ok && fdatasync(file) == 0 &&
         linkat(AT_FDCWD, from, sink->folder, head->name, AT_SYMLINK_FOLLOW) == 0 &&
         fsync(sink->folder) == 0;
    if (file >= 0)
        (void)close(file);
    return ok;
}

static bool
serve_put(struct sink *sink, int fd, struct head *head)
{
    static const char yes[] = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";

    return store(sink, fd, head) && write_all(fd, yes, sizeof(yes) - 1);
}

static bool
serve_get(struct sink *sink, int fd, const struct head *head)
{
    const int file = openat(sink->folder, head->name, O_RDONLY | O_CLOEXEC);
    struct stat about;
    char answer[128];
    bool ok = file >= 0 && fstat(file, &about) == 0;

    if (ok) {
        off_t at = 0;

        (void)snprintf(answer, sizeof(answer), "HTTP/1.1 200 OK\r\nContent-Length: %jd\r\n\r\n",
                       (intmax_t)about.st_size);
        ok = send(fd, answer, strlen(answer), MSG_MORE) > 0;
        while (ok && at < about.st_size)
            ok = sendfile(fd, file, &at, (size_t)(about.st_size - at)) > 0;
    }
    if (file >= 0)
        (void)close(file);
    return ok;
}

static void *
serve(void *arg)
{
    struct connection *connection = arg;
    struct head *head = kvt_calloc(1, sizeof(*head));

    while (head != NULL && read_head(connection->fd, head))
        if (!(head->put ? serve_put(connection->sink, connection->fd, head)
                        : serve_get(connection->sink, connection->fd, head)))
            break;
    kvt_free(head);
    (void)close(connection->fd);
    return NULL;
}

static void *
accept_all(void *arg)
{
    struct sink *sink = arg;
    const int on = 1;

    while (sink->connection_count < SINK_CONNECTIONS_MAX) {
        struct connection *connection = &sink->connections[sink->connection_count];

        connection->sink = sink;
        connection->fd = accept4(sink->listener, NULL, NULL, SOCK_CLOEXEC);
        if (connection->fd < 0)
            break; /* sink_stop() shut the listener down */
        (void)setsockopt(connection->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
        if (pthread_create(&connection->thread, NULL, serve, connection) != 0) {
            (void)close(connection->fd);
            break;
        }
        sink->connection_count++;
    }
    return NULL;
}

enum kvt_err
sink_start(struct sink **out, const char *folder, struct kvt_error *err)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(address);
    struct sink *sink = kvt_calloc(1, sizeof(*sink));
    enum kvt_err rc;

    *out = NULL;
    if (sink == NULL)
        return kvt_error_set(err, KVT_NOMEM, "sink");
    sink->folder = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    sink->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (sink->folder < 0 || sink->listener < 0 ||
        bind(sink->listener, (const struct sockaddr *)&address, sizeof(address)) != 0 ||
        listen(sink->listener, SINK_CONNECTIONS_MAX) != 0 ||
        getsockname(sink->listener, (struct sockaddr *)&address, &size) != 0) {
        rc = kvt_error_sys(err, errno, "sink on %s", folder);
        goto fail;
    }
    sink->port = ntohs(address.sin_port);
    if (pthread_create(&sink->acceptor, NULL, accept_all, sink) != 0) {
        rc = kvt_error_set(err, KVT_NOMEM, "sink: cannot start a thread");
        goto fail;
    }
    sink->accepting = true;
    *out = sink;
    return KVT_OK;

fail:
    sink_stop(sink);
    return rc;
}

uint16_t
sink_port(const struct sink *sink)
{
    return sink->port;
}

void
sink_stop(struct sink *sink)
{
    if (sink == NULL)
        return;
    if (sink->accepting) {
        (void)shutdown(sink->listener, SHUT_RDWR);
        (void)pthread_join(sink->acceptor, NULL);
    }
    for (unsigned i = 0; i < sink->connection_count; i++)
        (void)pthread_join(sink->connections[i].thread, NULL);
    if (sink->listener >= 0)
        (void)close(sink->listener);
    if (sink->folder >= 0)
        (void)close(sink->folder);
    kvt_free(sink);
}
