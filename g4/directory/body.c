#include "g4/directory/body.h"

#include <errno.h>
#include <inttypes.h>
#include <sys/uio.h>
#include <unistd.h>

#include "g4/object/check.h"

/* Whatever stands in the way of a read that does not wait, the one that waits tells of it. */
static bool
read_at_once(int fd, void *buffer, size_t size, off_t at)
{
    struct iovec part = {.iov_base = buffer, .iov_len = size};

    return preadv2(fd, &part, 1, at, RWF_NOWAIT) == (ssize_t)size;
}

static enum kvt_err
read_whole(int fd, uint8_t *buffer, size_t size, off_t at, struct kvt_error *err)
{
    size_t done = 0;

    while (done < size) {
        const ssize_t got = pread(fd, buffer + done, size - done, at + (off_t)done);

        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return kvt_error_set(err, KVT_IO, "read a body: error %d", errno);
        if (got == 0)
            return kvt_error_set(err, KVT_CORRUPT, "the body ends %zu bytes too early",
                                 size - done);
        done += (size_t)got;
    }
    return KVT_OK;
}

enum kvt_err
g4_body_read(const struct g4_body *body, uint64_t number, void *buffer, bool wait,
             struct kvt_error *err)
{
    const struct g4_pieces *pieces = &body->object.pieces;
    const size_t size = g4_pieces_length(pieces, body->object.meta.length, number);
    const off_t at = (off_t)(G4_OBJECT_FILE_BODY_AT + (number << pieces->shift));
    enum kvt_err rc = KVT_OK;

    if (wait)
        rc = read_whole(body->fd, buffer, size, at, err);
    else if (!read_at_once(body->fd, buffer, size, at))
        return KVT_AGAIN;
    if (rc == KVT_OK && g4_check_crc32c(buffer, size) != pieces->crc32c[number])
        rc = kvt_error_set(err, KVT_CORRUPT, "piece %" PRIu64 " of the body fails its crc", number);
    return rc;
}

void
g4_body_close(struct g4_body *body)
{
    if (body->fd >= 0)
        (void)close(body->fd);
    body->fd = -1;
}
