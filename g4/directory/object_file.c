#include "g4/directory/object_file.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "g4/object/check.h"
#include "g4/object/little_endian.h"

enum {
    VERSION = 1,
    FLAG_META = 1,
    AT_VERSION = 8,
    AT_CRC = 12,
    AT_CHECKED = 16, /* the header's crc covers everything from here */
    AT_LENGTH = 16,
    AT_BODY_CRC = 24,
    AT_FLAGS = 28,
    AT_FINGERPRINT = 32,
    AT_MODIFIED = 40,
    AT_WRITER = 48,
    AT_ETAG = 112,
    AT_KEY = 192,
    AT_ATTRIBUTES = 704,
    AT_ATTRIBUTES_CRC = 708,
    AT_PIECES_SHIFT = 712,
    AT_PIECES = 716,
};

static const char magic[8] = {'K', 'V', 'T', 'O', 'B', 'J', '\r', '\n'};

static uint32_t
header_crc(const uint8_t *header)
{
    return g4_check_crc32c(header + AT_CHECKED, G4_OBJECT_FILE_HEADER_SIZE - AT_CHECKED);
}

/* Texts are copied whole into zeroed room: every field ends with at least one NUL. */
static void
put_text(uint8_t *at, const char *text, size_t room)
{
    memcpy(at, text, strnlen(text, room - 1));
}

void
g4_object_file_encode(const struct g4_object_file *object,
                      uint8_t header[G4_OBJECT_FILE_HEADER_SIZE])
{
    _Static_assert(AT_PIECES + 4 * G4_PIECES_MAX <= G4_OBJECT_FILE_HEADER_SIZE, "pieces fit");
    memset(header, 0, G4_OBJECT_FILE_HEADER_SIZE);
    memcpy(header, magic, sizeof(magic));
    g4_little_endian_put(header + AT_VERSION, VERSION, 4);
    g4_little_endian_put(header + AT_LENGTH, object->meta.length, 8);
    g4_little_endian_put(header + AT_BODY_CRC, object->body_crc32c, 4);
    g4_little_endian_put(header + AT_FLAGS, object->meta.present ? FLAG_META : 0, 4);
    g4_little_endian_put(header + AT_FINGERPRINT, object->meta.fingerprint, 8);
    g4_little_endian_put(header + AT_MODIFIED, object->modified_ms, 8);
    put_text(header + AT_WRITER, object->meta.writer, sizeof(object->meta.writer));
    put_text(header + AT_ETAG, object->etag, sizeof(object->etag));
    put_text(header + AT_KEY, object->key, sizeof(object->key));
    g4_little_endian_put(header + AT_ATTRIBUTES, object->attributes_size, 4);
    g4_little_endian_put(header + AT_ATTRIBUTES_CRC, object->attributes_crc32c, 4);
    g4_little_endian_put(header + AT_PIECES_SHIFT, object->pieces.shift, 4);
    for (size_t i = 0; i < G4_PIECES_MAX; i++)
        g4_little_endian_put(header + AT_PIECES + 4 * i, object->pieces.crc32c[i], 4);
    g4_little_endian_put(header + AT_CRC, header_crc(header), 4);
}

/* A text field must end inside its room; the header's crc fits, so this only fails for a bad
 * writer. */
static bool
get_text(char *out, const uint8_t *at, size_t room)
{
    memcpy(out, at, room);
    return memchr(out, '\0', room) != NULL;
}

/* KVT_OK or KVT_CORRUPT with the reason. */
static enum kvt_err
decode(const uint8_t header[G4_OBJECT_FILE_HEADER_SIZE], struct g4_object_file *object,
       struct kvt_error *err)
{
    memset(object, 0, sizeof(*object));
    if (memcmp(header, magic, sizeof(magic)) != 0)
        return kvt_error_set(err, KVT_CORRUPT, "not an object file");
    if (g4_little_endian_get(header + AT_VERSION, 4) != VERSION)
        return kvt_error_set(err, KVT_CORRUPT, "object file version %" PRIu64 ", expected %d",
                             g4_little_endian_get(header + AT_VERSION, 4), VERSION);
    if (g4_little_endian_get(header + AT_CRC, 4) != header_crc(header))
        return kvt_error_set(err, KVT_CORRUPT, "object header fails its crc");

    if (!get_text(object->meta.writer, header + AT_WRITER, sizeof(object->meta.writer)) ||
        !get_text(object->etag, header + AT_ETAG, sizeof(object->etag)) ||
        !get_text(object->key, header + AT_KEY, sizeof(object->key)) || object->key[0] == '\0') {
        memset(object, 0, sizeof(*object));
        return kvt_error_set(err, KVT_CORRUPT, "object header holds an endless text");
    }
    object->meta.length = g4_little_endian_get(header + AT_LENGTH, 8);
    object->body_crc32c = (uint32_t)g4_little_endian_get(header + AT_BODY_CRC, 4);
    object->meta.present = (g4_little_endian_get(header + AT_FLAGS, 4) & FLAG_META) != 0;
    object->meta.crc32c = object->meta.present ? object->body_crc32c : 0;
    object->meta.fingerprint = g4_little_endian_get(header + AT_FINGERPRINT, 8);
    object->modified_ms = g4_little_endian_get(header + AT_MODIFIED, 8);
    object->attributes_size = (uint32_t)g4_little_endian_get(header + AT_ATTRIBUTES, 4);
    object->attributes_crc32c = (uint32_t)g4_little_endian_get(header + AT_ATTRIBUTES_CRC, 4);
    object->pieces.shift = (uint32_t)g4_little_endian_get(header + AT_PIECES_SHIFT, 4);
    for (size_t i = 0; i < G4_PIECES_MAX; i++)
        object->pieces.crc32c[i] = (uint32_t)g4_little_endian_get(header + AT_PIECES + 4 * i, 4);
    return KVT_OK;
}

uint64_t
g4_object_file_body_size(uint64_t file_size)
{
    return file_size > G4_OBJECT_FILE_BODY_AT ? file_size - G4_OBJECT_FILE_BODY_AT : 0;
}

enum kvt_err
g4_object_file_attributes(int fd, const struct g4_object_file *object, char text[G4_ATTRIBUTES_MAX],
                          struct kvt_error *err)
{
    const size_t size = object->attributes_size;
    size_t done = 0;

    _Static_assert(G4_OBJECT_FILE_HEADER_SIZE + G4_ATTRIBUTES_MAX <= G4_OBJECT_FILE_BODY_AT,
                   "attributes end where the body starts");
    text[0] = '\0';
    if (size >= G4_ATTRIBUTES_MAX)
        return kvt_error_set(err, KVT_CORRUPT, "attributes of %zu bytes", size);
    while (done < size) {
        const ssize_t got =
            pread(fd, text + done, size - done, (off_t)(G4_OBJECT_FILE_HEADER_SIZE + done));

        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return kvt_error_sys(err, errno, "read an object's attributes");
        if (got == 0)
            break;
        done += (size_t)got;
    }
    text[done] = '\0';
    if (done == size && strlen(text) == size &&
        (size == 0 || g4_check_crc32c(text, size) == object->attributes_crc32c))
        return KVT_OK;
    text[0] = '\0';
    return kvt_error_set(err, KVT_CORRUPT, "attributes fail their crc");
}

/* What can still be said of a file whose header cannot be believed. */
static void
describe_bad(const struct stat *about, struct g4_object_file *object)
{
    memset(object, 0, sizeof(*object));
    object->meta.length = g4_object_file_body_size((uint64_t)about->st_size);
    object->modified_ms =
        (uint64_t)about->st_mtim.tv_sec * 1000 + (uint64_t)about->st_mtim.tv_nsec / 1000000;
    (void)snprintf(object->etag, sizeof(object->etag), "bad-%jx-%jx-%jx.%lx",
                   (uintmax_t)about->st_ino, (uintmax_t)about->st_size,
                   (uintmax_t)about->st_mtim.tv_sec, (unsigned long)about->st_mtim.tv_nsec);
}

/* What was read of the header, which may be too little of it. */
static enum kvt_err
judge(const uint8_t header[G4_OBJECT_FILE_HEADER_SIZE], ssize_t got, int fd, const char *key,
      struct g4_object_file *object, struct kvt_error *err)
{
    struct stat about;
    enum kvt_err rc;

    memset(object, 0, sizeof(*object));
    if (fstat(fd, &about) != 0)
        return kvt_error_sys(err, errno, "look at an object file");
    if ((size_t)got < G4_OBJECT_FILE_HEADER_SIZE)
        rc = kvt_error_set(err, KVT_CORRUPT, "object file of %jd bytes has no header",
                           (intmax_t)about.st_size);
    else
        rc = decode(header, object, err);
    if (rc == KVT_OK && key != NULL && strcmp(key, object->key) != 0)
        rc = kvt_error_set(err, KVT_CORRUPT, "object file of another key");
    if (rc == KVT_OK && ((uint64_t)about.st_size < G4_OBJECT_FILE_BODY_AT ||
                         g4_object_file_body_size((uint64_t)about.st_size) != object->meta.length))
        rc = kvt_error_set(err, KVT_CORRUPT, "length %" PRIu64 ", expected %" PRIu64,
                           g4_object_file_body_size((uint64_t)about.st_size), object->meta.length);
    if (rc != KVT_OK)
        describe_bad(&about, object);
    return rc;
}

enum kvt_err
g4_object_file_read(int fd, const char *key, struct g4_object_file *object, struct kvt_error *err)
{
    uint8_t header[G4_OBJECT_FILE_HEADER_SIZE];
    ssize_t got;

    memset(object, 0, sizeof(*object));
    do
        got = pread(fd, header, sizeof(header), 0);
    while (got < 0 && errno == EINTR);
    if (got < 0)
        return kvt_error_sys(err, errno, "read an object header");
    return judge(header, got, fd, key, object, err);
}

/* Whatever stands in the way of a read that does not wait, the one that waits tells of it. */
enum kvt_err
g4_object_file_read_at_once(int fd, const char *key, struct g4_object_file *object,
                            struct kvt_error *err)
{
    uint8_t header[G4_OBJECT_FILE_HEADER_SIZE];
    struct iovec part = {.iov_base = header, .iov_len = sizeof(header)};

    memset(object, 0, sizeof(*object));
    if (preadv2(fd, &part, 1, 0, RWF_NOWAIT) != (ssize_t)sizeof(header))
        return KVT_AGAIN;
    return judge(header, (ssize_t)sizeof(header), fd, key, object, err);
}
