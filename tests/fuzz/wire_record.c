/*
 * Property: any bytes are refused, or are records of which each is sound, in order, within the
 * file; reading ends; and what is left over at the end is counted.
 */
#include <assert.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "wire/message/recording.h"

#include "tests/fuzz/target.h"

int
LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    const int fd = memfd_create("recording", MFD_CLOEXEC);
    struct wire_recording_reader *reader;
    struct wire_recording record;
    struct kvt_error err = {0};
    uint64_t before = 0;
    size_t written = 0;
    enum kvt_err rc;

    assert(fd >= 0);
    while (written < size) {
        const ssize_t count = write(fd, bytes + written, size - written);

        assert(count > 0);
        written += (size_t)count;
    }
    assert(lseek(fd, 0, SEEK_SET) == 0);
    rc = wire_recording_attach(&reader, fd, "input", &err);
    if (rc != KVT_OK) {
        assert((rc == KVT_CORRUPT || rc == KVT_UNSUPPORTED) && reader == NULL);
        assert(err.text[0] != '\0');
        return 0;
    }
    while ((rc = wire_recording_next(reader, &record, &err)) != KVT_NOTFOUND) {
        const uint64_t offset = wire_recording_offset(reader);

        assert(rc == KVT_OK || rc == KVT_CORRUPT);
        assert(offset > before && offset <= size);
        before = offset;
        if (rc == KVT_OK)
            assert(record.size <= size && memchr(record.subject, 0, sizeof(record.subject)));
        else
            assert(record.bytes == NULL && err.text[0] != '\0');
    }
    assert(wire_recording_torn(reader) <= size);
    wire_recording_free(reader);
    return 0;
}
