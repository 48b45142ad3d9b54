#include "tests/support/hostile_store.h"

#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"

#include "tests/support/hostile_store_internal.h"
#include "tests/support/seed.h"

enum {
    THREADS_MAX = 16,
    POLL_MS = 10,
    DRIP_MS = 2,
    RECEIVE_MAX = 64 * 1024,
    REQUEST_MAX = 1 << 20,
};

struct hostile_store {
    int fd;
    pthread_t threads[THREADS_MAX];
    unsigned thread_count;
    atomic_uint lie;
    atomic_bool stop;
    atomic_uint_fast64_t asked;
    atomic_uint_fast64_t seed;
    char url[64];
};

/* ---- the wire ---- */

/* Ready for `events`, but not beyond the end of the test. */
static bool
ready(struct hostile_store *store, int fd, short events)
{
    struct pollfd one = {.fd = fd, .events = events};

    while (!atomic_load(&store->stop))
        if (poll(&one, 1, POLL_MS) > 0)
            return true;
    return false;
}

static bool
send_all(struct hostile_store *store, int fd, const void *bytes, size_t size)
{
    const uint8_t *at = bytes;

    while (size > 0) {
        ssize_t sent;

        if (!ready(store, fd, POLLOUT))
            return false;
        sent = send(fd, at, size, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent <= 0)
            return false;
        at += sent;
        size -= (size_t)sent;
    }
    return true;
}

/* Until the peer has had enough. */
static void
wait_for_close(struct hostile_store *store, int fd)
{
    char byte[512];

    while (ready(store, fd, POLLIN))
        if (recv(fd, byte, sizeof(byte), 0) <= 0)
            return;
}

static void
send_endless(struct told *told, int fd)
{
    static const char line[] = "x-amz-meta-endless: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\r\n";
    static const char interim[] = "HTTP/1.1 100 Continue\r\n\r\n";
    const char *unit = told->endless == HEADERS   ? line
                       : told->endless == INTERIM ? interim
                                                  : "aaaaaaaaaaaaaaaa";
    struct kvt_buffer block;
    size_t sent = 0;

    kvt_buffer_init(&block, 70000);
    while (block.size < 60000)
        kvt_buffer_append(&block, unit, strlen(unit));
    if (told->endless == HEADER_LINE)
        (void)send_all(told->store, fd, "x-amz-meta-a: ", 14);
    while (sent < HOSTILE_STORE_ANSWER_MAX) {
        char size[32];
        bool ok = true;

        if (told->endless == CHUNKS) {
            (void)snprintf(size, sizeof(size), "%zx\r\n", block.size);
            ok = send_all(told->store, fd, size, strlen(size));
        }
        ok = ok && send_all(told->store, fd, block.data, block.size);
        if (told->endless == CHUNKS)
            ok = ok && send_all(told->store, fd, "\r\n", 2);
        if (!ok)
            break;
        sent += block.size;
    }
    if (sent >= HOSTILE_STORE_ANSWER_MAX)
        wait_for_close(told->store, fd);
    kvt_buffer_release(&block);
}

static void
render_body(struct told *told, struct kvt_buffer *out)
{
    size_t at = 0;

    if (told->face == HEAD && !told->chunked)
        return;
    if (!told->chunked) {
        kvt_buffer_append(out, told->body.data, told->body.size);
        kvt_buffer_append(out, told->after.data, told->after.size);
        return;
    }
    while (at < told->body.size) {
        const size_t left = told->body.size - at;
        const size_t size = 1 + (size_t)hostile_store_below(told, left);

        kvt_buffer_printf(out, "%zx\r\n", size);
        kvt_buffer_append(out, told->body.data + at, size);
        kvt_buffer_printf(out, "\r\n");
        at += size;
    }
    if (told->endless == CHUNKS)
        return;
    kvt_buffer_printf(out, "0\r\n");
    kvt_buffer_append(out, told->after.data, told->after.size);
    kvt_buffer_printf(out, "\r\n");
}

static void
render(struct told *told, struct kvt_buffer *out)
{
    kvt_buffer_append(out, told->before.data, told->before.size);
    if (told->endless == INTERIM)
        return;
    kvt_buffer_printf(out, "HTTP/1.1 %s\r\n", told->status);
    if (told->endless == HEADERS || told->endless == HEADER_LINE)
        return;
    kvt_buffer_append(out, told->headers.data, told->headers.size);
    if (told->length[0] != '\0')
        kvt_buffer_printf(out, "Content-Length: %s\r\n", told->length);
    if (told->chunked)
        kvt_buffer_printf(out, "Transfer-Encoding: chunked\r\n");
    if (!told->keep)
        kvt_buffer_printf(out, "Connection: close\r\n");
    kvt_buffer_printf(out, "\r\n");
    render_body(told, out);
}

static void
send_answer(struct told *told, int fd)
{
    struct kvt_buffer out;
    size_t size;

    kvt_buffer_init(&out, 1u << 20);
    render(told, &out);
    size = out.size < told->cut_at ? out.size : told->cut_at;
    if (told->stall_at < size) {
        if (send_all(told->store, fd, out.data, told->stall_at))
            wait_for_close(told->store, fd);
    } else if (told->drip) {
        for (size_t at = 0; at < size; at++) {
            if (!send_all(told->store, fd, out.data + at, 1))
                break;
            kvt_clock_sleep_ms(DRIP_MS);
        }
    } else if (send_all(told->store, fd, out.data, size) && told->endless != ENDS) {
        send_endless(told, fd);
    }
    kvt_buffer_release(&out);
}

/* ---- requests ---- */

static bool
receive(struct hostile_store *store, int fd, struct kvt_buffer *in)
{
    uint8_t *room = kvt_buffer_reserve(in, RECEIVE_MAX);
    ssize_t got;

    if (room == NULL || !ready(store, fd, POLLIN))
        return false;
    got = recv(fd, room, RECEIVE_MAX, 0);
    if (got <= 0)
        return false;
    in->size += (size_t)got;
    return true;
}

/* A request's head, and its body where there is one; false at the end of the connection. */
static bool
read_request(struct hostile_store *store, int fd, struct kvt_buffer *in, size_t *start)
{
    const char *length;
    size_t body = 0;
    char *end;

    kvt_buffer_clear(in);
    do {
        if (!receive(store, fd, in))
            return false;
        end = strstr(kvt_buffer_text(in), "\r\n\r\n");
    } while (end == NULL);
    *end = '\0';
    *start = (size_t)(end + 4 - (char *)in->data);
    length = strcasestr((const char *)in->data, "\r\nContent-Length: ");
    if (length != NULL)
        body = strtoul(length + 18, NULL, 10);
    while (in->size - *start < body)
        if (!receive(store, fd, in))
            return false;
    return true;
}

static enum face
face_of(const char *head)
{
    if (strncmp(head, "POST /_kvtier", 13) == 0)
        return BATCH;
    if (strncmp(head, "HEAD", 4) == 0)
        return HEAD;
    if (strncmp(head, "PUT", 3) == 0)
        return PUT;
    if (strncmp(head, "DELETE", 6) == 0)
        return DELETE;
    if (strncmp(head, "POST", 4) == 0)
        return strstr(head, "uploads=") != NULL ? BEGIN : MAKE;
    if (strstr(head, "list-type=2") != NULL)
        return LIST;
    return strstr(head, "uploads=") != NULL ? UPLOADS : GET;
}

static void
answer(struct hostile_store *store, int fd, const char *head, const uint8_t *body, size_t size,
       bool *keep)
{
    const char *range = strcasestr(head, "\r\nRange: bytes=");
    const char *token = strstr(head, "continuation-token=");
    struct told told = {.store = store,
                        .url = store->url,
                        .random = atomic_fetch_add(&store->seed, 1),
                        .face = face_of(head),
                        .head = head,
                        .request = body,
                        .request_size = size,
                        .cut_at = SIZE_MAX,
                        .stall_at = SIZE_MAX};
    struct kvt_buffer *const buffers[] = {&told.before, &told.headers, &told.body, &told.after};
    char *dash;

    for (size_t i = 0; i < 4; i++)
        kvt_buffer_init(buffers[i], 1u << 20);
    if (range != NULL) {
        told.range_at = strtoull(range + 15, &dash, 10);
        told.range_end = *dash == '-' ? strtoull(dash + 1, NULL, 10) + 1 : 0;
    }
    if (token != NULL)
        told.page = (unsigned)strtoul(token + 19, NULL, 10) % 100;
    (void)hostile_store_below(&told, 2); /* seeds that follow each other begin alike */
    hostile_store_tell_truth(&told);
    hostile_store_tell_lie(&told, atomic_load(&store->lie));
    send_answer(&told, fd);
    *keep = told.keep;
    for (size_t i = 0; i < 4; i++)
        kvt_buffer_release(buffers[i]);
}

static void *
serve(void *arg)
{
    struct hostile_store *store = arg;
    struct kvt_buffer in;

    kvt_buffer_init(&in, REQUEST_MAX);
    while (ready(store, store->fd, POLLIN)) {
        const int fd = accept4(store->fd, NULL, NULL, SOCK_CLOEXEC);
        bool keep = fd >= 0;
        size_t start;

        while (keep && read_request(store, fd, &in, &start)) {
            atomic_fetch_add(&store->asked, 1);
            answer(store, fd, (const char *)in.data, in.data + start, in.size - start, &keep);
        }
        if (fd >= 0)
            (void)close(fd);
    }
    kvt_buffer_release(&in);
    return NULL;
}

struct hostile_store *
hostile_store_start(uint64_t seed, unsigned threads)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    struct hostile_store *store = kvt_calloc(1, sizeof(*store));
    socklen_t size = sizeof(address);

    assert_non_null(store);
    assert_true(threads <= THREADS_MAX);
    atomic_store(&store->seed, seed);
    store->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_int_equal(bind(store->fd, (struct sockaddr *)&address, size), 0);
    assert_int_equal(listen(store->fd, 64), 0);
    assert_int_equal(getsockname(store->fd, (struct sockaddr *)&address, &size), 0);
    (void)snprintf(store->url, sizeof(store->url), "http://127.0.0.1:%u",
                   (unsigned)ntohs(address.sin_port));
    for (; store->thread_count < threads; store->thread_count++)
        assert_int_equal(pthread_create(&store->threads[store->thread_count], NULL, serve, store),
                         0);
    return store;
}

void
hostile_store_stop(struct hostile_store *store)
{
    atomic_store(&store->stop, true);
    for (unsigned i = 0; i < store->thread_count; i++)
        (void)pthread_join(store->threads[i], NULL);
    (void)close(store->fd);
    kvt_free(store);
}

const char *
hostile_store_url(const struct hostile_store *store)
{
    return store->url;
}

void
hostile_store_lie(struct hostile_store *store, unsigned lie)
{
    assert_true(lie < hostile_store_lies());
    atomic_store(&store->lie, lie);
}

uint64_t
hostile_store_asked(struct hostile_store *store)
{
    return atomic_load(&store->asked);
}
