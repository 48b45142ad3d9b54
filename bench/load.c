#include "bench/load.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/buffer.h"
#include "base/clock.h"
#include "g4/sigv4.h"
#include "kvtier/key.h"

enum { HEAD_MAX = 8192, STAMP_AT = 8 };

struct worker {
    const struct load_options *options;
    unsigned number;
    pthread_t thread;
    int fd;
    uint8_t *body;
    struct kvt_buffer head;
    struct kvt_error error;
};

/* Object n: its number at the front and at the end, so that a read can tell whose bytes it got. */
static void
stamp(uint8_t *body, size_t size, unsigned object)
{
    const uint64_t mark = object * UINT64_C(0x9e3779b97f4a7c15) + 1;

    memcpy(body, &mark, STAMP_AT);
    memcpy(body + size - STAMP_AT, &mark, STAMP_AT);
}

static enum kvt_err
dial(struct worker *worker)
{
    const struct sockaddr_in address = {
        .sin_family = AF_INET,
        .sin_port = htons(worker->options->port),
        .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
    };
    const int on = 1;

    worker->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (worker->fd < 0)
        return kvt_error_sys(&worker->error, errno, "socket");
    if (connect(worker->fd, (const struct sockaddr *)&address, sizeof(address)) != 0)
        return kvt_error_sys(&worker->error, errno, "connect to port %u", worker->options->port);
    (void)setsockopt(worker->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    return KVT_OK;
}

static void
make_path(const struct load_options *options, unsigned object, char *path, size_t size)
{
    const struct kvt_block_id block = {.hash = object * UINT64_C(0xd1342543de82ef95) + 7};
    char key[KVT_KEY_MAX] = "";

    if (kvt_key_format(key, sizeof(key), KVT_KEY_KVBM_B, options->prefix, 0, &block) != KVT_OK)
        key[0] = '\0'; /* the server then refuses the request, which is reported */
    (void)snprintf(path, size, "/%s/%s", options->bucket, key);
}

static enum kvt_err
make_head(struct worker *worker, unsigned object)
{
    const struct load_options *options = worker->options;
    const size_t body_size = strcmp(options->method, "PUT") == 0 ? options->body_size : 0;
    char date[G4_SIGV4_DATE_MAX];
    char host[32];
    char path[KVT_KEY_MAX + 64];
    const time_t now = time(NULL);
    struct tm parts;

    (void)gmtime_r(&now, &parts);
    (void)strftime(date, sizeof(date), "%Y%m%dT%H%M%SZ", &parts);
    (void)snprintf(host, sizeof(host), "127.0.0.1:%u", options->port);
    make_path(options, object, path, sizeof(path));
    const struct g4_sigv4_header headers[] = {
        {"host", host}, {"x-amz-content-sha256", G4_SIGV4_UNSIGNED}, {"x-amz-date", date}};
    const struct g4_sigv4_request request = {
        .method = options->method,
        .path = path,
        .query = "",
        .headers = headers,
        .header_count = sizeof(headers) / sizeof(headers[0]),
        .payload_hash = G4_SIGV4_UNSIGNED,
        .date = date,
        .region = "us-east-1",
        .service = "s3",
    };

    kvt_buffer_clear(&worker->head);
    kvt_buffer_printf(&worker->head, "%s ", options->method);
    g4_sigv4_encode(&worker->head, path, true);
    kvt_buffer_printf(&worker->head,
                      " HTTP/1.1\r\nHost: %s\r\nx-amz-date: %s\r\nx-amz-content-sha256: %s\r\n"
                      "Content-Length: %zu\r\nAuthorization: ",
                      host, date, G4_SIGV4_UNSIGNED, body_size);
    if (g4_sigv4_authorization(&request, options->access_key, options->secret_key, &worker->head) !=
        KVT_OK)
        return kvt_error_set(&worker->error, KVT_INVALID, "cannot sign %s", path);
    kvt_buffer_printf(&worker->head, "\r\n\r\n");
    return kvt_buffer_ok(&worker->head)
               ? KVT_OK
               : kvt_error_set(&worker->error, KVT_NOMEM, "no memory for a request");
}

static enum kvt_err
send_all(struct worker *worker, struct iovec *parts, int count)
{
    while (count > 0) {
        const ssize_t sent = writev(worker->fd, parts, count);
        size_t left;

        if (sent < 0 && errno == EINTR)
            continue;
        if (sent < 0)
            return kvt_error_sys(&worker->error, errno, "send");
        left = (size_t)sent;
        while (count > 0 && left >= parts->iov_len) {
            left -= parts->iov_len;
            parts++;
            count--;
        }
        if (count > 0) {
            parts->iov_base = (uint8_t *)parts->iov_base + left;
            parts->iov_len -= left;
        }
    }
    return KVT_OK;
}

/* Read the answer's head; `extra` bytes of its body came along and are moved to `body`. */
static enum kvt_err
read_head(struct worker *worker, size_t *length, size_t *extra)
{
    char head[HEAD_MAX + 1];
    size_t size = 0;
    char *end = NULL;
    const char *field;

    while (end == NULL) {
        const ssize_t got = recv(worker->fd, head + size, HEAD_MAX - size, 0);

        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return kvt_error_set(&worker->error, KVT_IO, "the server closed the connection");
        size += (size_t)got;
        head[size] = '\0';
        end = strstr(head, "\r\n\r\n");
        if (end == NULL && size == HEAD_MAX)
            return kvt_error_set(&worker->error, KVT_RANGE, "an answer's head is too long");
    }
    if (strncmp(head, "HTTP/1.1 200", 12) != 0) {
        head[strcspn(head, "\r\n")] = '\0';
        return kvt_error_set(&worker->error, KVT_IO, "the server says %s", head);
    }
    field = strcasestr(head, "\r\nContent-Length:");
    *length = field == NULL || field > end ? 0 : strtoul(field + 17, NULL, 10);
    *extra = size - (size_t)(end + 4 - head);
    if (*length > worker->options->body_size || *extra > *length)
        return kvt_error_set(&worker->error, KVT_RANGE, "an answer of %zu bytes", *length);
    memcpy(worker->body, end + 4, *extra);
    return KVT_OK;
}

static enum kvt_err
one_request(struct worker *worker, unsigned object)
{
    const struct load_options *options = worker->options;
    const bool put = strcmp(options->method, "PUT") == 0;
    struct iovec parts[2];
    uint8_t wanted[STAMP_AT];
    size_t length;
    size_t got;
    enum kvt_err rc;

    stamp(worker->body, options->body_size, object);
    memcpy(wanted, worker->body, STAMP_AT);
    rc = make_head(worker, object);
    if (rc != KVT_OK)
        return rc;
    parts[0] = (struct iovec){worker->head.data, worker->head.size};
    parts[1] = (struct iovec){worker->body, put ? options->body_size : 0};
    rc = send_all(worker, parts, put ? 2 : 1);
    if (rc == KVT_OK)
        rc = read_head(worker, &length, &got);
    if (rc != KVT_OK)
        return rc;
    while (got < length) {
        const ssize_t more = recv(worker->fd, worker->body + got, length - got, 0);

        if (more < 0 && errno == EINTR)
            continue;
        if (more <= 0)
            return kvt_error_set(&worker->error, KVT_IO, "an answer ends after %zu of %zu bytes",
                                 got, length);
        got += (size_t)more;
    }
    if (!put && (length != options->body_size || memcmp(worker->body, wanted, STAMP_AT) != 0 ||
                 memcmp(worker->body + length - STAMP_AT, wanted, STAMP_AT) != 0))
        return kvt_error_set(&worker->error, KVT_CORRUPT, "object %u came back as something else",
                             object);
    return KVT_OK;
}

static void *
run_worker(void *arg)
{
    struct worker *worker = arg;
    const struct load_options *options = worker->options;

    for (unsigned i = worker->number; i < options->requests; i += options->connections)
        if (one_request(worker, i % options->objects) != KVT_OK)
            break;
    return NULL;
}

static void
release(struct worker *workers, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        if (workers[i].fd >= 0)
            (void)close(workers[i].fd);
        kvt_free(workers[i].body);
        kvt_buffer_release(&workers[i].head);
    }
    kvt_free(workers);
}

static enum kvt_err
prepare(struct worker *worker, const struct load_options *options, unsigned number)
{
    worker->options = options;
    worker->number = number;
    worker->body = kvt_calloc(1, options->body_size);
    if (worker->body == NULL)
        return kvt_error_set(&worker->error, KVT_NOMEM, "no memory for bodies");
    for (size_t i = 0; i < options->body_size; i++)
        worker->body[i] = (uint8_t)(i * 131 + (i >> 9));
    return dial(worker);
}

enum kvt_err
load_run(const struct load_options *options, uint64_t *elapsed_ns, struct kvt_error *err)
{
    struct worker *workers = kvt_calloc(options->connections, sizeof(*workers));
    enum kvt_err rc = KVT_OK;
    unsigned started = 0;
    uint64_t begin;

    *elapsed_ns = 0;
    if (workers == NULL)
        return kvt_error_set(err, KVT_NOMEM, "no memory for connections");
    for (unsigned i = 0; i < options->connections; i++) {
        workers[i].fd = -1;
        kvt_buffer_init(&workers[i].head, HEAD_MAX);
    }
    for (unsigned i = 0; i < options->connections && rc == KVT_OK; i++)
        rc = prepare(&workers[i], options, i);
    begin = kvt_clock_mono_ns();
    for (; started < options->connections && rc == KVT_OK; started++)
        if (pthread_create(&workers[started].thread, NULL, run_worker, &workers[started]) != 0)
            rc = kvt_error_set(&workers[started].error, KVT_NOMEM, "cannot start a thread");
    for (unsigned i = 0; i < started; i++)
        (void)pthread_join(workers[i].thread, NULL);
    *elapsed_ns = kvt_clock_mono_ns() - begin;
    for (unsigned i = 0; i < options->connections; i++)
        if (workers[i].error.code != KVT_OK) {
            rc = workers[i].error.code;
            if (err != NULL)
                *err = workers[i].error;
            break;
        }
    release(workers, options->connections);
    return rc;
}
