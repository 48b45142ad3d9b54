#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/core/alloc.h"
#include "base/text/msgpack.h"
#include "wire/message/recording.h"
#include "wire/message/recording_internal.h"

/* SEARCH_MAX: checksummed while looking for the next sound record, so that a file made to look like
 * records everywhere costs no more than a moment. */
enum { MEMBERS = 6, BODY_MIN = 7, NAME_SHOWN = 160, WINDOW = 64 << 10, SEARCH_MAX = 256 << 20 };

/* A window on the file: `bytes[at..end)` is read and not handed out; `bytes[0]` is at `base`. */
struct wire_recording_reader {
    uint8_t *bytes;
    size_t capacity;
    size_t at;
    size_t end;
    uint64_t base;
    uint64_t torn;
    bool eof;
    int fd;
    char name[NAME_SHOWN];
};

uint64_t
wire_recording_offset(const struct wire_recording_reader *reader)
{
    return reader->base + reader->at;
}

uint64_t
wire_recording_torn(const struct wire_recording_reader *reader)
{
    return reader->torn;
}

void
wire_recording_free(struct wire_recording_reader *reader)
{
    if (reader == NULL)
        return;
    if (reader->fd > STDERR_FILENO)
        (void)close(reader->fd);
    kvt_free(reader->bytes);
    kvt_free(reader);
}

/* ---- the window ---- */

static enum kvt_err
make_room(struct wire_recording_reader *reader, size_t wanted, struct kvt_error *err)
{
    uint8_t *more;

    if (reader->at > 0) {
        memmove(reader->bytes, reader->bytes + reader->at, reader->end - reader->at);
        reader->base += reader->at;
        reader->end -= reader->at;
        reader->at = 0;
    }
    if (wanted <= reader->capacity)
        return KVT_OK;
    more = kvt_realloc(reader->bytes, wanted, 1);
    if (more == NULL)
        return kvt_error_set(err, KVT_NOMEM, "%s: no memory for %zu bytes", reader->name, wanted);
    reader->bytes = more;
    reader->capacity = wanted;
    return KVT_OK;
}

/* Have `wanted` bytes from `at` on, or all there are. */
static enum kvt_err
fill(struct wire_recording_reader *reader, size_t wanted, struct kvt_error *err)
{
    if (reader->end - reader->at >= wanted || reader->eof)
        return KVT_OK;
    if (reader->at + wanted > reader->capacity) {
        const enum kvt_err rc = make_room(reader, wanted < WINDOW ? WINDOW : wanted, err);

        if (rc != KVT_OK)
            return rc;
    }
    while (reader->end - reader->at < wanted && !reader->eof) {
        const ssize_t count =
            read(reader->fd, reader->bytes + reader->end, reader->capacity - reader->end);

        if (count < 0 && errno == EINTR)
            continue;
        if (count < 0)
            return kvt_error_sys(err, errno, "read %s", reader->name);
        reader->eof = count == 0;
        reader->end += (size_t)count;
    }
    return KVT_OK;
}

static size_t
left(const struct wire_recording_reader *reader)
{
    return reader->end - reader->at;
}

/* ---- one record ---- */

struct header {
    uint32_t length;
    uint32_t crc;
};

/* Of the record at `at`; false when there cannot be one. */
static bool
read_header(const struct wire_recording_reader *reader, struct header *header)
{
    uint32_t words[2];

    *header = (struct header){0};
    if (left(reader) < WIRE_RECORDING_HEADER)
        return false;
    memcpy(words, reader->bytes + reader->at, sizeof(words));
    header->length = le32toh(words[0]);
    header->crc = le32toh(words[1]);
    return header->length >= BODY_MIN && header->length <= WIRE_RECORDING_BODY_MAX;
}

static bool
is_sound(const struct wire_recording_reader *reader, const struct header *header)
{
    return left(reader) >= WIRE_RECORDING_HEADER + (size_t)header->length &&
           wire_recording_crc(reader->bytes + reader->at + WIRE_RECORDING_HEADER, header->length) ==
               header->crc;
}

/* Does the body of a record at `at` begin as one may: an array of at least MEMBERS? */
static bool
may_begin(const struct wire_recording_reader *reader)
{
    const uint8_t first = reader->bytes[reader->at + WIRE_RECORDING_HEADER];

    return (first >= (0x90 | MEMBERS) && first <= 0x9f) || first == 0xdc || first == 0xdd;
}

/* Move to the next sound record behind `at`; KVT_NOTFOUND: there is none, and `at` is the end. */
static enum kvt_err
search(struct wire_recording_reader *reader, struct kvt_error *err)
{
    size_t checked = 0;

    for (;;) {
        struct header header;
        enum kvt_err rc;

        if (left(reader) > 0)
            reader->at++;
        rc = fill(reader, WIRE_RECORDING_HEADER + BODY_MIN, err);
        if (rc != KVT_OK)
            return rc;
        if (left(reader) < WIRE_RECORDING_HEADER + BODY_MIN || checked > SEARCH_MAX) {
            reader->at = reader->end;
            reader->eof = true;
            return KVT_NOTFOUND;
        }
        if (!read_header(reader, &header) || !may_begin(reader))
            continue;
        rc = fill(reader, WIRE_RECORDING_HEADER + (size_t)header.length, err);
        if (rc != KVT_OK)
            return rc;
        checked += header.length;
        if (is_sound(reader, &header))
            return KVT_OK;
    }
}

static enum kvt_err
decode(struct wire_recording_reader *reader, const struct header *header,
       struct wire_recording *record, struct kvt_error *err)
{
    const uint64_t offset = wire_recording_offset(reader);
    struct kvt_msgpack_reader body;
    struct kvt_error cause = {0};
    uint32_t members;
    enum kvt_err rc;

    kvt_msgpack_read(&body, reader->bytes + reader->at + WIRE_RECORDING_HEADER, header->length);
    members = kvt_msgpack_array(&body, MEMBERS, "a record of six members");
    record->time_ns = kvt_msgpack_u64(&body, "time");
    kvt_msgpack_str(&body, record->dialect, sizeof(record->dialect), "dialect");
    kvt_msgpack_str(&body, record->source, sizeof(record->source), "source");
    kvt_msgpack_str(&body, record->subject, sizeof(record->subject), "subject");
    record->sequence = kvt_msgpack_u64(&body, "sequence");
    record->bytes = kvt_msgpack_bin(&body, &record->size, "the message");
    kvt_msgpack_rest(&body, members, MEMBERS);
    rc = kvt_msgpack_end(&body, "record", &cause);
    reader->at += WIRE_RECORDING_HEADER + header->length;
    if (rc == KVT_OK)
        return KVT_OK;
    *record = (struct wire_recording){0};
    return kvt_error_set(err, KVT_CORRUPT, "%s: at offset %" PRIu64 ": %.*s", reader->name, offset,
                         NAME_SHOWN, cause.text);
}

/* What is at `at` is no sound record.  At the end of the file it may be one whose rest was never
 * written, unless a sound one follows. */
static enum kvt_err
judge(struct wire_recording_reader *reader, const struct header *header, bool plausible,
      struct kvt_error *err)
{
    const uint64_t offset = wire_recording_offset(reader);
    const size_t rest = left(reader);
    const bool cut = rest < WIRE_RECORDING_HEADER ||
                     (plausible && rest < WIRE_RECORDING_HEADER + (size_t)header->length);
    enum kvt_err rc = search(reader, err);

    if (rc != KVT_OK && rc != KVT_NOTFOUND)
        return rc;
    if (rc == KVT_NOTFOUND && cut) {
        reader->torn = rest;
        return KVT_NOTFOUND;
    }
    if (!plausible)
        return kvt_error_set(err, KVT_CORRUPT,
                             "%s: at offset %" PRIu64 ": no record has %" PRIu32 " bytes",
                             reader->name, offset, header->length);
    return kvt_error_set(err, KVT_CORRUPT,
                         "%s: at offset %" PRIu64 ": bad checksum of %" PRIu32 " bytes",
                         reader->name, offset, header->length);
}

enum kvt_err
wire_recording_next(struct wire_recording_reader *reader, struct wire_recording *record,
                    struct kvt_error *err)
{
    struct header header;
    bool plausible;
    enum kvt_err rc;

    *record = (struct wire_recording){0};
    rc = fill(reader, WIRE_RECORDING_HEADER, err);
    if (rc != KVT_OK)
        return rc;
    if (left(reader) == 0)
        return KVT_NOTFOUND;
    plausible = read_header(reader, &header);
    if (plausible)
        rc = fill(reader, WIRE_RECORDING_HEADER + (size_t)header.length, err);
    if (rc != KVT_OK)
        return rc;
    return plausible && is_sound(reader, &header) ? decode(reader, &header, record, err)
                                                  : judge(reader, &header, plausible, err);
}

/* ---- opening ---- */

enum kvt_err
wire_recording_attach(struct wire_recording_reader **out, int fd, const char *name,
                      struct kvt_error *err)
{
    static const char magic[] = WIRE_RECORDING_MAGIC;
    const size_t size = sizeof(magic) - 1;
    struct wire_recording_reader *reader = kvt_calloc(1, sizeof(*reader));
    enum kvt_err rc;

    *out = NULL;
    if (reader == NULL) {
        if (fd > STDERR_FILENO)
            (void)close(fd);
        return kvt_error_set(err, KVT_NOMEM, "%.*s: out of memory", NAME_SHOWN, name);
    }
    reader->fd = fd;
    (void)snprintf(reader->name, sizeof(reader->name), "%s", name);
    rc = fill(reader, size, err);
    if (rc != KVT_OK)
        goto fail;
    if (left(reader) < size || memcmp(reader->bytes, magic, size - 2) != 0) {
        rc = kvt_error_set(err, KVT_CORRUPT, "%s: no recording: it does not begin with %.6s",
                           reader->name, magic);
        goto fail;
    }
    if (memcmp(reader->bytes, magic, size) != 0) {
        rc = kvt_error_set(err, KVT_UNSUPPORTED,
                           "%s: a recording of another version; this program "
                           "reads %.7s",
                           reader->name, magic);
        goto fail;
    }
    reader->at = size;
    *out = reader;
    return KVT_OK;

fail:
    wire_recording_free(reader);
    return rc;
}

enum kvt_err
wire_recording_open(struct wire_recording_reader **out, const char *path, struct kvt_error *err)
{
    const bool standard = strcmp(path, "-") == 0;
    const int fd = standard ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);

    *out = NULL;
    if (fd < 0)
        return kvt_error_sys(err, errno, "open %.*s", NAME_SHOWN, path);
    return wire_recording_attach(out, fd, standard ? "standard input" : path, err);
}
