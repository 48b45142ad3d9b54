/*
 * Property: a trace file of any bytes is read to its end, and each of its lines is a request or an
 * error that names the line.
 */
#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "wire/message/trace.h"

#include "tests/fuzz/target.h"

int
LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    struct wire_trace_request request;
    struct wire_trace *trace = NULL;
    struct kvt_error err;
    enum kvt_err rc;
    char path[64];
    size_t lines = 1;
    size_t seen = 0;
    const int fd = memfd_create("trace", MFD_CLOEXEC);

    if (fd < 0)
        return 0;
    for (size_t i = 0; i < size; i++)
        lines += bytes[i] == '\n';
    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    if (write(fd, bytes, size) == (ssize_t)size && wire_trace_open(&trace, path, &err) == KVT_OK) {
        for (;;) {
            rc = wire_trace_next(trace, &request, &err);
            if (rc == KVT_NOTFOUND)
                break;
            assert(rc == KVT_OK || rc == KVT_INVALID);
            assert(rc == KVT_OK || strncmp(err.text, path, strlen(path)) == 0);
            assert(rc == KVT_OK || request.hash_count == 0);
            assert(request.hash_count <= WIRE_TRACE_HASHES_MAX);
            seen++;
            assert(seen <= lines);
        }
        wire_trace_close(trace);
    }
    (void)close(fd);
    return 0;
}
