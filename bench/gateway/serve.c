#include "bench/gateway/serve.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/core/alloc.h"

enum { BACKLOG = 128 };

struct call {
    void (*answer)(int fd, void *arg);
    void *arg;
    int fd;
};

static void *
run_call(void *arg)
{
    struct call *call = arg;

    call->answer(call->fd, call->arg);
    (void)close(call->fd);
    kvt_free(call);
    return NULL;
}

static enum kvt_err
start_call(int fd, void (*answer)(int fd, void *arg), void *arg, struct kvt_error *err)
{
    struct call *call = kvt_calloc(1, sizeof(*call));
    const int on = 1;
    pthread_t thread;

    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    if (call != NULL) {
        *call = (struct call){.answer = answer, .arg = arg, .fd = fd};
        if (pthread_create(&thread, NULL, run_call, call) == 0) {
            (void)pthread_detach(thread);
            return KVT_OK;
        }
    }
    kvt_free(call);
    (void)close(fd);
    return kvt_error_set(err, KVT_NOMEM, "no thread for a connection");
}

enum kvt_err
serve_loopback(void (*answer)(int fd, void *arg), void *arg, struct kvt_error *err)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(address);
    const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    enum kvt_err rc = KVT_OK;

    if (listener < 0 || bind(listener, (const struct sockaddr *)&address, sizeof(address)) != 0 ||
        listen(listener, BACKLOG) != 0 ||
        getsockname(listener, (struct sockaddr *)&address, &size) != 0) {
        rc = kvt_error_sys(err, errno, "listen on loopback");
        goto fail;
    }
    (void)printf("port %u\n", ntohs(address.sin_port));
    (void)fflush(stdout);
    while (rc == KVT_OK) {
        const int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);

        if (fd >= 0)
            rc = start_call(fd, answer, arg, err);
        else if (errno != EINTR && errno != ECONNABORTED)
            rc = kvt_error_sys(err, errno, "accept");
    }

fail:
    if (listener >= 0)
        (void)close(listener);
    return rc;
}
