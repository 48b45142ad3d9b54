#include "bench/gateway/splice.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bench/gateway/connection.h"
#include "bench/gateway/serve.h"

struct way {
    int from;
    int to;
};

/* Whatever lies in the pipe goes on before more is taken: a small request never waits. */
static bool
empty_pipe(int pipe, int to, size_t size)
{
    while (size > 0) {
        const ssize_t moved = splice(pipe, NULL, to, NULL, size, SPLICE_F_MOVE);

        if (moved == 0 || (moved < 0 && errno != EINTR))
            return false;
        size -= moved > 0 ? (size_t)moved : 0;
    }
    return true;
}

static void *
run_way(void *arg)
{
    const struct way *way = arg;
    int ends[2];

    if (pipe2(ends, O_CLOEXEC) == 0) {
        (void)fcntl(ends[1], F_SETPIPE_SZ, SPLICE_PIPE);
        for (;;) {
            const ssize_t got = splice(way->from, NULL, ends[1], NULL, SPLICE_PIPE, SPLICE_F_MOVE);

            if (got < 0 && errno == EINTR)
                continue;
            if (got <= 0 || !empty_pipe(ends[0], way->to, (size_t)got))
                break;
        }
        (void)close(ends[0]);
        (void)close(ends[1]);
    }
    (void)shutdown(way->to, SHUT_WR);
    (void)shutdown(way->from, SHUT_RD);
    return NULL;
}

static void
pass_on(int fd, void *arg)
{
    const uint16_t *port = arg;
    struct connection behind = {.fd = -1};
    struct way back;
    struct way forth;
    pthread_t thread;

    if (connection_open(&behind, *port) == KVT_OK) {
        forth = (struct way){fd, behind.fd};
        back = (struct way){behind.fd, fd};
        if (pthread_create(&thread, NULL, run_way, &back) == 0) {
            (void)run_way(&forth);
            (void)pthread_join(thread, NULL);
        }
    }
    connection_close(&behind);
}

enum kvt_err
splice_serve(uint16_t port, struct kvt_error *err)
{
    return serve_loopback(pass_on, &port, err);
}
