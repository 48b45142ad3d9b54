#include "kvbm/attach/channel.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/core/clock.h"

enum {
    DRAIN_MAX = 64, /* wake-ups taken at once */
};

/* Room for one descriptor; what the alignment leaves may hold a second. */
union control {
    struct cmsghdr header;
    char bytes[CMSG_SPACE(sizeof(int))];
};

enum kvt_err
kvbm_channel_send(int fd, const void *message, size_t size, int pass)
{
    union {
        const void *from;
        void *base;
    } bytes = {.from = message};
    struct iovec part = {.iov_base = bytes.base, .iov_len = size};
    struct msghdr header = {.msg_iov = &part, .msg_iovlen = 1};
    union control control = {.bytes = {0}};
    ssize_t sent;

    if (pass >= 0) {
        header.msg_control = control.bytes;
        header.msg_controllen = sizeof(control.bytes);
        control.header.cmsg_level = SOL_SOCKET;
        control.header.cmsg_type = SCM_RIGHTS;
        control.header.cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(&control.header), &pass, sizeof(int));
    }
    do
        sent = sendmsg(fd, &header, MSG_DONTWAIT | MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    if (sent == (ssize_t)size)
        return KVT_OK;
    return sent < 0 && (errno == EPIPE || errno == ECONNRESET) ? KVT_UNAVAILABLE : KVT_IO;
}

/* Keep the first descriptor that came if one is wanted, and no other. */
static void
take_descriptors(struct msghdr *header, int *passed)
{
    for (struct cmsghdr *row = CMSG_FIRSTHDR(header); row != NULL; row = CMSG_NXTHDR(header, row)) {
        size_t count;

        if (row->cmsg_level != SOL_SOCKET || row->cmsg_type != SCM_RIGHTS)
            continue;
        count = (row->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < count; i++) {
            int fd;

            memcpy(&fd, CMSG_DATA(row) + i * sizeof(int), sizeof(int));
            if (passed != NULL && *passed < 0)
                *passed = fd;
            else
                (void)close(fd);
        }
    }
}

static int
milliseconds_until(uint64_t until_ms)
{
    const uint64_t now_ms = kvt_clock_mono_ms();

    if (until_ms <= now_ms)
        return 0;
    return until_ms - now_ms > INT_MAX ? INT_MAX : (int)(until_ms - now_ms);
}

enum kvt_err
kvbm_channel_receive(int fd, void *message, size_t room, uint64_t until_ms, size_t *size,
                     int *passed)
{
    struct pollfd watched = {.fd = fd, .events = POLLIN};
    struct iovec part = {.iov_base = message, .iov_len = room};
    union control control = {.bytes = {0}};
    struct msghdr header;
    ssize_t got;

    *size = 0;
    if (passed != NULL)
        *passed = -1;
    for (;;) {
        const int ready = poll(&watched, 1, milliseconds_until(until_ms));

        if (ready == 0)
            return KVT_TIMEOUT;
        if (ready < 0 && errno != EINTR)
            return KVT_IO;
        header = (struct msghdr){
            .msg_iov = &part,
            .msg_iovlen = 1,
            .msg_control = control.bytes,
            .msg_controllen = sizeof(control.bytes),
        };
        got = recvmsg(fd, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
        if (got >= 0)
            break;
        if (errno == ECONNRESET)
            return KVT_UNAVAILABLE;
        if (errno != EINTR && errno != EAGAIN)
            return KVT_IO;
    }
    take_descriptors(&header, passed);
    if (got == 0)
        return KVT_UNAVAILABLE;
    if ((header.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0) {
        if (passed != NULL && *passed >= 0)
            (void)close(*passed);
        if (passed != NULL)
            *passed = -1;
        return KVT_INVALID;
    }
    *size = (size_t)got;
    return KVT_OK;
}

void
kvbm_channel_nudge(int fd)
{
    /* Where the socket is full, the other side has wake-ups enough; where it is gone, a wait says
     * so. */
    (void)!send(fd, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
}

enum kvt_err
kvbm_channel_wait(int fd, int death, uint64_t until_ms)
{
    struct pollfd watched[2] = {{.fd = fd, .events = POLLIN}, {.fd = death, .events = POLLIN}};
    char bytes[8];

    if (poll(watched, 2, milliseconds_until(until_ms)) == 0)
        return KVT_TIMEOUT;
    if (watched[1].revents != 0)
        return KVT_UNAVAILABLE;
    if (watched[0].revents == 0)
        return KVT_OK; /* a signal */
    for (int i = 0; i < DRAIN_MAX; i++) {
        /* A descriptor that comes with a wake-up is not taken. */
        const ssize_t got = recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT);

        if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR))
            return KVT_UNAVAILABLE;
        if (got < 0)
            break;
    }
    return KVT_OK;
}
