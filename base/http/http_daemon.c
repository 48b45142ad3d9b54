#include "base/http/http_daemon.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/core/clock.h"
#include "base/core/log.h"
#include "base/http/tls.h"

enum { BACKLOG = 512, STALL_S = 30, DRAIN_STEP_MS = 5 };

union address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
};

static bool
parse_address(const char *bind, uint16_t port, union address *address, socklen_t *size)
{
    if (strcmp(bind, "localhost") == 0)
        bind = "127.0.0.1";
    memset(address, 0, sizeof(*address));
    if (inet_pton(AF_INET, bind, &address->v4.sin_addr) == 1) {
        address->v4.sin_family = AF_INET;
        address->v4.sin_port = htons(port);
        *size = sizeof(address->v4);
        return true;
    }
    if (inet_pton(AF_INET6, bind, &address->v6.sin6_addr) == 1) {
        address->v6.sin6_family = AF_INET6;
        address->v6.sin6_port = htons(port);
        *size = sizeof(address->v6);
        return true;
    }
    return false;
}

/* `*used` is the port it got; `*fd` is -1 on failure. */
static enum kvt_err
listen_on(int *fd, uint16_t *used, const char *bind_text, uint16_t port, struct kvt_error *err)
{
    const int on = 1;
    union address address;
    socklen_t size;
    enum kvt_err rc;

    *fd = -1;
    *used = 0;
    if (!parse_address(bind_text, port, &address, &size))
        return kvt_error_set(err, KVT_INVALID, "\"%s\" is no address to listen on", bind_text);
    *fd = socket(address.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (*fd < 0)
        return kvt_error_sys(err, errno, "make a socket");
    /* A restart must not wait for the old connections' last minute. */
    (void)setsockopt(*fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (bind(*fd, &address.any, size) != 0 || listen(*fd, BACKLOG) != 0 ||
        getsockname(*fd, &address.any, &size) != 0) {
        rc = kvt_error_sys(err, errno, "listen on %s port %u", bind_text, (unsigned)port);
        if (rc == KVT_BUSY)
            rc = kvt_error_set(
                err, rc, "listen on %s port %u: it is taken (by whom: ss -ltnp 'sport = :%u')",
                bind_text, (unsigned)port, (unsigned)port);
        (void)close(*fd);
        *fd = -1;
        return rc;
    }
    *used = ntohs(address.any.sa_family == AF_INET ? address.v4.sin_port : address.v6.sin6_port);
    return KVT_OK;
}

/* The library's words. */
static void
log_text(void *area, const char *format, va_list args)
{
    char text[256];

    if (vsnprintf(text, sizeof(text), format, args) < 0)
        return;
    text[strcspn(text, "\n")] = '\0';
    kvt_log_debug(area, "library", "%s", text);
}

static enum MHD_Result
accept_unless_draining(void *life, const struct sockaddr *address, socklen_t size)
{
    (void)address;
    (void)size;
    return atomic_load(&((struct kvt_http_daemon *)life)->drains) ? MHD_NO : MHD_YES;
}

enum kvt_err
kvt_http_daemon_start(struct kvt_http_daemon *life, const struct kvt_http_daemon_options *options,
                      struct kvt_error *err)
{
    const unsigned flags = MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ITC |
                           MHD_USE_ERROR_LOG | options->flags;
    const struct MHD_OptionItem none = {MHD_OPTION_END, 0, NULL};
    const struct MHD_OptionItem secure[] = {
        (flags & MHD_USE_TLS) == MHD_USE_TLS ? kvt_tls_priorities() : none, none};
    enum kvt_err rc;
    int fd;

    rc = listen_on(&fd, &life->port, options->bind, options->port, err);
    if (rc != KVT_OK)
        return rc;
    life->daemon = MHD_start_daemon(
        flags, life->port, accept_unless_draining, life, options->on_request, options->arg,
        MHD_OPTION_EXTERNAL_LOGGER, log_text, options->area, MHD_OPTION_LISTEN_SOCKET, fd,
        MHD_OPTION_THREAD_POOL_SIZE, options->threads < 2 ? 0u : options->threads,
        MHD_OPTION_CONNECTION_LIMIT, options->connections_max, MHD_OPTION_CONNECTION_TIMEOUT,
        (unsigned)STALL_S, MHD_OPTION_UNESCAPE_CALLBACK, options->unescape, NULL,
        MHD_OPTION_NOTIFY_COMPLETED, options->on_completed, options->arg,
        MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_ARRAY, secure, MHD_OPTION_ARRAY,
        options->more == NULL ? &none : options->more, MHD_OPTION_END);
    if (life->daemon != NULL)
        return KVT_OK; /* it closes the socket */
    (void)close(fd);
    return kvt_error_set(err, KVT_IO, "start %s on %s port %u", options->what, options->bind,
                         (unsigned)life->port);
}

/* ---- heads that could be read in two ways ---- */

/* What one header says, over and over. */
struct head {
    unsigned hosts;
    unsigned lengths;
    unsigned encodings;
    unsigned authorizations;
    bool malformed;
};

static bool
is_token(const char *name, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (!isalnum((unsigned char)name[i]) &&
            (name[i] == '\0' || strchr("!#$%&'*+-.^_`|~", name[i]) == NULL))
            return false;
    return size > 0;
}

static bool
is_text(const char *value, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (((unsigned char)value[i] < 0x20 && value[i] != '\t') || value[i] == 0x7f)
            return false;
    return true;
}

/* Digits alone: "+5", "0x5" and "5, 5" are lengths for one reader and none for the next. */
static bool
is_length(const char *value, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (!isdigit((unsigned char)value[i]))
            return false;
    return size > 0;
}

static enum MHD_Result
look_at_header(void *arg, enum MHD_ValueKind kind, const char *name, size_t name_size,
               const char *value, size_t value_size)
{
    struct head *head = arg;

    (void)kind;
    if (!is_token(name, name_size) || (value != NULL && !is_text(value, value_size)))
        head->malformed = true;
    else if (strcasecmp(name, MHD_HTTP_HEADER_HOST) == 0)
        head->hosts++;
    else if (strcasecmp(name, MHD_HTTP_HEADER_AUTHORIZATION) == 0)
        head->authorizations++;
    else if (strcasecmp(name, MHD_HTTP_HEADER_TRANSFER_ENCODING) == 0)
        head->encodings += value != NULL && strcasecmp(value, "chunked") == 0 ? 1 : 2;
    else if (strcasecmp(name, MHD_HTTP_HEADER_CONTENT_LENGTH) == 0)
        head->lengths += value != NULL && is_length(value, value_size) ? 1 : 2;
    return MHD_YES;
}

const char *
kvt_http_daemon_fault(struct MHD_Connection *connection)
{
    struct head head = {0};

    (void)MHD_get_connection_values_n(connection, MHD_HEADER_KIND, look_at_header, &head);
    if (head.malformed)
        return "a header line is malformed";
    if (head.hosts > 1)
        return "Host is given twice";
    if (head.authorizations > 1)
        return "Authorization is given twice";
    if (head.lengths > 1)
        return "Content-Length is given twice, or is no number";
    if (head.encodings > 1)
        return "Transfer-Encoding is given twice, or is not \"chunked\"";
    if (head.encodings == 1 && head.lengths == 1)
        return "Content-Length and Transfer-Encoding are both given";
    return NULL;
}

void
kvt_http_daemon_drain(struct kvt_http_daemon *life)
{
    const uint64_t deadline_ms = kvt_clock_mono_ms() + KVT_HTTP_DAEMON_DRAIN_MS;

    if (life->daemon == NULL)
        return;
    atomic_store(&life->drains, true);
    while (atomic_load(&life->call_count) > 0 && kvt_clock_mono_ms() < deadline_ms)
        kvt_clock_sleep_ms(DRAIN_STEP_MS);
}

void
kvt_http_daemon_end(struct kvt_http_daemon *life)
{
    if (life->daemon != NULL)
        MHD_stop_daemon(life->daemon);
    life->daemon = NULL;
}
