#include "bench/gateway/raw.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/core/alloc.h"

#include "bench/gateway/load.h"
#include "bench/gateway/serve.h"

struct raw {
    int files[RAW_FILES_MAX];
    unsigned count;
};

static bool
send_file(int fd, int file, size_t size)
{
    off_t at = 0;

    while ((size_t)at < size) {
        const ssize_t sent = sendfile(fd, file, &at, size - (size_t)at);

        if (sent == 0 || (sent < 0 && errno != EINTR))
            return false;
    }
    return true;
}

static void
answer(int fd, void *arg)
{
    const struct raw *raw = arg;
    struct raw_request request;

    while (recv(fd, &request, sizeof(request), MSG_WAITALL) == (ssize_t)sizeof(request))
        if (request.object >= raw->count ||
            !send_file(fd, raw->files[request.object], request.size))
            return;
}

/* Object `number` in a file without a name. */
static enum kvt_err
make_file(struct raw *raw, const char *folder, uint8_t *body, size_t size, struct kvt_error *err)
{
    const int file = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    size_t done = 0;

    if (file < 0)
        return kvt_error_sys(err, errno, "a file in %s", folder);
    raw->files[raw->count] = file;
    load_fill(body, size, raw->count);
    raw->count++;
    while (done < size) {
        const ssize_t put = write(file, body + done, size - done);

        if (put < 0 && errno != EINTR)
            return kvt_error_sys(err, errno, "write to a file in %s", folder);
        done += put > 0 ? (size_t)put : 0;
    }
    return KVT_OK;
}

enum kvt_err
raw_serve(const char *folder, size_t size, unsigned count, struct kvt_error *err)
{
    struct raw *raw = kvt_calloc(1, sizeof(*raw));
    uint8_t *body = kvt_calloc(1, size);
    enum kvt_err rc = raw == NULL || body == NULL ? KVT_NOMEM : KVT_OK;

    if (rc != KVT_OK)
        (void)kvt_error_set(err, rc, "no memory for a body");
    for (unsigned i = 0; i < count && rc == KVT_OK; i++)
        rc = make_file(raw, folder, body, size, err);
    if (rc == KVT_OK)
        rc = serve_loopback(answer, raw, err);
    for (unsigned i = 0; raw != NULL && i < raw->count; i++)
        (void)close(raw->files[i]);
    kvt_free(body);
    kvt_free(raw);
    return rc;
}
