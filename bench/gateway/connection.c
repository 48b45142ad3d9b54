#include "bench/gateway/connection.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/core/clock.h"
#include "g4/s3/sigv4.h"
#include "kvtier/key.h"

enum kvt_err
connection_head(const struct target *target, const char *method, const char *key, const char *query,
                size_t length, struct kvt_buffer *out)
{
    char date[G4_SIGV4_DATE_MAX];
    char host[32];
    char path[KVT_KEY_MAX + 64];

    kvt_clock_format_basic(kvt_clock_unix_ms(), date);
    (void)snprintf(host, sizeof(host), "127.0.0.1:%u", target->port);
    (void)snprintf(path, sizeof(path), "/%s%s%s", target->bucket, key[0] == '\0' ? "" : "/", key);
    const struct g4_sigv4_header headers[] = {
        {"host", host}, {"x-amz-content-sha256", G4_SIGV4_UNSIGNED}, {"x-amz-date", date}};
    const struct g4_sigv4_request request = {
        .method = method,
        .path = path,
        .query = query,
        .headers = headers,
        .header_count = sizeof(headers) / sizeof(headers[0]),
        .payload_hash = G4_SIGV4_UNSIGNED,
        .date = date,
        .region = "us-east-1",
        .service = "s3",
    };

    kvt_buffer_printf(out, "%s ", method);
    g4_sigv4_encode(out, path, true);
    kvt_buffer_printf(out,
                      "%s%s HTTP/1.1\r\nHost: %s\r\nx-amz-date: %s\r\nx-amz-content-sha256: %s\r\n"
                      "Content-Length: %zu\r\nAuthorization: ",
                      query[0] == '\0' ? "" : "?", query, host, date, G4_SIGV4_UNSIGNED, length);
    if (g4_sigv4_authorization(&request, target->access_key, target->secret_key, out) != KVT_OK)
        return KVT_INVALID;
    kvt_buffer_printf(out, "\r\n\r\n");
    return kvt_buffer_ok(out) ? KVT_OK : KVT_NOMEM;
}

enum kvt_err
connection_range(struct kvt_buffer *out, size_t at, size_t size)
{
    out->size -= strlen("\r\n"); /* the empty line, which ends a head */
    kvt_buffer_printf(out, "Range: bytes=%zu-%zu\r\n\r\n", at, at + size - 1);
    return kvt_buffer_ok(out) ? KVT_OK : KVT_NOMEM;
}

enum kvt_err
connection_open(struct connection *connection, uint16_t port)
{
    const struct sockaddr_in address = {
        .sin_family = AF_INET,
        .sin_port = htons(port),
        .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
    };
    const int on = 1;

    connection->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connection->fd < 0)
        return kvt_error_sys(&connection->error, errno, "socket");
    if (connect(connection->fd, (const struct sockaddr *)&address, sizeof(address)) != 0)
        return kvt_error_sys(&connection->error, errno, "connect to port %u", port);
    (void)setsockopt(connection->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    return KVT_OK;
}

void
connection_close(struct connection *connection)
{
    if (connection->fd >= 0)
        (void)close(connection->fd);
    connection->fd = -1;
}

enum kvt_err
connection_send(struct connection *connection, const void *head, size_t head_size, const void *body,
                size_t body_size)
{
    struct iovec parts[2] = {{(void *)(uintptr_t)head, head_size},
                             {(void *)(uintptr_t)body, body_size}};
    struct iovec *next = parts;
    int count = body_size > 0 ? 2 : 1;

    while (count > 0) {
        const ssize_t sent = writev(connection->fd, next, count);
        size_t left;

        if (sent < 0 && errno == EINTR)
            continue;
        if (sent < 0)
            return kvt_error_sys(&connection->error, errno, "send");
        left = (size_t)sent;
        while (count > 0 && left >= next->iov_len) {
            left -= next->iov_len;
            next++;
            count--;
        }
        if (count > 0) {
            next->iov_base = (uint8_t *)next->iov_base + left;
            next->iov_len -= left;
        }
    }
    return KVT_OK;
}

enum kvt_err
connection_receive(struct connection *connection, uint8_t *room, size_t size)
{
    size_t have = 0;

    while (have < size) {
        const ssize_t got = recv(connection->fd, room + have, size - have, 0);

        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return kvt_error_set(&connection->error, KVT_IO, "a body ends after %zu of %zu bytes",
                                 have, size);
        have += (size_t)got;
    }
    return KVT_OK;
}

/* Up to the empty line; what came behind it stays in the head, `extra` bytes from `end` on. */
static enum kvt_err
receive_head(struct connection *connection, const char **end, size_t *extra)
{
    char *const head = connection->head;
    size_t size = 0;

    *end = NULL;
    *extra = 0;
    while (*end == NULL) {
        const ssize_t got = recv(connection->fd, head + size, CONNECTION_HEAD_MAX - size, 0);

        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return kvt_error_set(&connection->error, KVT_IO, "the server closed the connection");
        size += (size_t)got;
        head[size] = '\0';
        *end = strstr(head, "\r\n\r\n");
        if (*end == NULL && size == CONNECTION_HEAD_MAX)
            return kvt_error_set(&connection->error, KVT_RANGE, "an answer's head is too long");
    }
    *end += 4;
    *extra = size - (size_t)(*end - head);
    return KVT_OK;
}

enum kvt_err
connection_answer(struct connection *connection, bool part, uint8_t *room, size_t capacity,
                  size_t *size)
{
    const char *field;
    const char *end;
    size_t extra;
    enum kvt_err rc;

    *size = 0;
    rc = receive_head(connection, &end, &extra);
    if (rc != KVT_OK)
        return rc;
    if (strncmp(connection->head, part ? "HTTP/1.1 206" : "HTTP/1.1 200", 12) != 0)
        return kvt_error_set(&connection->error, KVT_IO, "the server says %.*s",
                             (int)strcspn(connection->head, "\r\n"), connection->head);
    field = strcasestr(connection->head, "\r\nContent-Length:");
    if (field == NULL || field > end)
        return kvt_error_set(&connection->error, KVT_UNSUPPORTED, "an answer without its length");
    *size = strtoul(field + strlen("\r\nContent-Length:"), NULL, 10);
    if (*size > capacity || extra > *size)
        return kvt_error_set(&connection->error, KVT_RANGE, "an answer of %zu bytes", *size);
    memcpy(room, end, extra);
    return connection_receive(connection, room + extra, *size - extra);
}
