#include "base/http/listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { BACKLOG = 512 };

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

enum kvt_err
kvt_listen(int *fd, uint16_t *used, const char *bind_text, uint16_t port, struct kvt_error *err)
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
