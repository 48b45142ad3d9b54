#include "wire/message/recording.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <libgen.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/core/alloc.h"
#include "base/core/buffer.h"
#include "base/core/file.h"
#include "base/text/msgpack.h"
#include "wire/message/recording_internal.h"

enum { MEMBERS = 6, PATH_BYTES = 4096, NAME_SHOWN = 160 };

struct wire_recording_writer {
    struct kvt_buffer body;
    struct kvt_buffer pending; /* not written yet */
    uint64_t size;
    uint64_t size_max;
    char path[PATH_BYTES];
    int fd;
};

static enum kvt_err
fail(const struct wire_recording_writer *writer, enum kvt_err rc, const char *text,
     struct kvt_error *err)
{
    return kvt_error_set(err, rc, "%.*s: %s", NAME_SHOWN, writer->path, text);
}

static enum kvt_err
write_all(struct wire_recording_writer *writer, struct kvt_error *err)
{
    const int sys = kvt_file_put(writer->fd, writer->pending.data, writer->pending.size);

    /* What is written stays as it is: a torn record is what readers expect then. */
    kvt_buffer_clear(&writer->pending);
    return sys == 0 ? KVT_OK : kvt_error_sys(err, sys, "write %.*s", NAME_SHOWN, writer->path);
}

enum kvt_err
wire_recording_create(struct wire_recording_writer **out, const char *path,
                      const struct wire_recording_options *options, struct kvt_error *err)
{
    struct wire_recording_writer *writer = kvt_calloc(1, sizeof(*writer));
    enum kvt_err rc = KVT_OK;

    *out = NULL;
    if (writer == NULL)
        return kvt_error_set(err, KVT_NOMEM, "%.*s: out of memory", NAME_SHOWN, path);
    writer->fd = -1;
    writer->size_max = options->size_max;
    kvt_buffer_init(&writer->body, WIRE_RECORDING_BODY_MAX);
    kvt_buffer_init(&writer->pending,
                    WIRE_RECORDING_BUFFER + WIRE_RECORDING_HEADER + WIRE_RECORDING_BODY_MAX);
    if (snprintf(writer->path, sizeof(writer->path), "%s", path) >= (int)sizeof(writer->path)) {
        rc = kvt_error_set(err, KVT_RANGE, "%.*s...: name too long", NAME_SHOWN, path);
        goto fail;
    }
    kvt_buffer_append(&writer->pending, WIRE_RECORDING_MAGIC, strlen(WIRE_RECORDING_MAGIC));
    if (!kvt_buffer_ok(&writer->pending)) {
        rc = fail(writer, KVT_NOMEM, "out of memory", err);
        goto fail;
    }
    writer->size = writer->pending.size;
    writer->fd =
        open(path, O_WRONLY | O_CREAT | O_CLOEXEC | (options->replace ? O_TRUNC : O_EXCL), 0600);
    if (writer->fd < 0) {
        rc = errno == EEXIST ? fail(writer, KVT_EXISTS, "there is such a file already", err)
                             : kvt_error_sys(err, errno, "open %.*s", NAME_SHOWN, path);
        goto fail;
    }
    *out = writer;
    return KVT_OK;

fail:
    kvt_buffer_release(&writer->body);
    kvt_buffer_release(&writer->pending);
    kvt_free(writer);
    return rc;
}

static enum kvt_err
encode(struct wire_recording_writer *writer, const struct wire_recording *record,
       struct kvt_error *err)
{
    struct kvt_msgpack_writer body;
    enum kvt_err rc;

    kvt_buffer_clear(&writer->body);
    kvt_msgpack_write(&body, &writer->body, WIRE_RECORDING_BODY_MAX);
    kvt_msgpack_put_array(&body, MEMBERS);
    kvt_msgpack_put_uint(&body, record->time_ns);
    kvt_msgpack_put_str(&body, record->dialect);
    kvt_msgpack_put_str(&body, record->source);
    kvt_msgpack_put_str(&body, record->subject);
    kvt_msgpack_put_uint(&body, record->sequence);
    kvt_msgpack_put_bin(&body, record->bytes, record->size);
    rc = kvt_msgpack_done(&body);
    return rc == KVT_OK ? KVT_OK : fail(writer, rc, "a record", err);
}

enum kvt_err
wire_recording_put(struct wire_recording_writer *writer, const struct wire_recording *record,
                   struct kvt_error *err)
{
    uint32_t header[2];
    enum kvt_err rc;

    if (record->size > WIRE_RECORDING_BYTES_MAX)
        return kvt_error_set(err, KVT_RANGE, "%.*s: a message of %zu bytes; a recording takes %u",
                             NAME_SHOWN, record->subject, record->size, WIRE_RECORDING_BYTES_MAX);
    rc = encode(writer, record, err);
    if (rc != KVT_OK)
        return rc;
    if (writer->size_max != 0 &&
        writer->size + sizeof(header) + writer->body.size > writer->size_max)
        return kvt_error_set(err, KVT_FULL,
                             "%.*s: full at %" PRIu64 " of %" PRIu64
                             " bytes; recordings do not rotate, begin another file",
                             NAME_SHOWN, writer->path, writer->size, writer->size_max);
    header[0] = htole32((uint32_t)writer->body.size);
    header[1] = htole32(wire_recording_crc(writer->body.data, writer->body.size));
    /* Room for both first, so that a header never stands alone in the file. */
    if (kvt_buffer_reserve(&writer->pending, sizeof(header) + writer->body.size) == NULL) {
        return fail(writer, KVT_NOMEM, "out of memory", err);
    }
    kvt_buffer_append(&writer->pending, header, sizeof(header));
    kvt_buffer_append(&writer->pending, writer->body.data, writer->body.size);
    writer->size += sizeof(header) + writer->body.size;
    return writer->pending.size < WIRE_RECORDING_BUFFER ? KVT_OK : write_all(writer, err);
}

enum kvt_err
wire_recording_flush(struct wire_recording_writer *writer, struct kvt_error *err)
{
    return write_all(writer, err);
}

uint64_t
wire_recording_size(const struct wire_recording_writer *writer)
{
    return writer->size;
}

enum kvt_err
wire_recording_close(struct wire_recording_writer *writer, struct kvt_error *err)
{
    enum kvt_err rc;

    if (writer == NULL)
        return KVT_OK;
    rc = write_all(writer, err);
    /* A pipe or a device cannot be synced, and need not be. */
    if (fsync(writer->fd) != 0 && errno != EINVAL && errno != EROFS && rc == KVT_OK)
        rc = kvt_error_sys(err, errno, "sync %.*s", NAME_SHOWN, writer->path);
    if (close(writer->fd) != 0 && rc == KVT_OK)
        rc = kvt_error_sys(err, errno, "close %.*s", NAME_SHOWN, writer->path);
    if (rc == KVT_OK)
        rc = kvt_folder_sync(dirname(writer->path), err);
    kvt_buffer_release(&writer->body);
    kvt_buffer_release(&writer->pending);
    kvt_free(writer);
    return rc;
}
