#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <openssl/evp.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/core/clock.h"
#include "base/core/file.h"
#include "wire/nats/object_private.h"
#include "wire/nats/stream.h"

enum {
    FETCH = 32, /* messages */
    FETCH_WAIT_MS = 200,
    QUIET_MS = 10000, /* nothing comes: it is given up */
    API_WAIT_MS = 5000,
    FILE_MODE = 0600,
};

/* Takes bytes that may turn out to be wrong: see check_whole(). */
typedef enum kvt_err take_fn(void *arg, const void *bytes, size_t size, struct kvt_error *err);

struct reading {
    struct wire_bus *bus;
    const char *bucket;
    const struct wire_object_info *info;
    take_fn *take;
    void *arg;
    EVP_MD_CTX *hash;
    uint64_t size;
    uint64_t chunks;
    char stream[WIRE_OBJECT_STREAM_MAX];
    char subject[WIRE_OBJECT_SUBJECT_MAX];
};

static enum kvt_err
broken(const struct reading *reading, struct kvt_error *err, const char *what)
{
    return kvt_error_set(err, KVT_CORRUPT, "object %s of bucket %s: %s", reading->info->name,
                         reading->bucket, what);
}

/* Are all its chunks there?  `first_seq` is where to look for them. */
static enum kvt_err
count_chunks(const struct reading *reading, uint64_t *first_seq, struct kvt_error *err)
{
    jsStreamInfo *info = NULL;
    jsErrCode code = 0;
    jsOptions options;
    uint64_t count = 0;
    natsStatus s;

    (void)jsOptions_Init(&options);
    options.Wait = API_WAIT_MS;
    options.Stream.Info.SubjectsFilter = reading->subject;
    s = js_GetStreamInfo(&info, reading->bus->js, reading->stream, &options, &code);
    if (s != NATS_OK)
        return kvt_error_set(err, wire_bus_jetstream_error(s, code), "object bucket %s: %s",
                             reading->bucket, natsStatus_GetText(s));
    for (int i = 0; info->State.Subjects != NULL && i < info->State.Subjects->Count; i++)
        count += info->State.Subjects->List[i].Msgs;
    *first_seq = info->State.FirstSeq;
    jsStreamInfo_Destroy(info);
    if (count != reading->info->chunks)
        return kvt_error_set(err, KVT_CORRUPT,
                             "object %s of bucket %s: %" PRIu64 " of its %" PRIu64
                             " chunks are there",
                             reading->info->name, reading->bucket, count, reading->info->chunks);
    return KVT_OK;
}

static enum kvt_err
take_chunk(struct reading *reading, const struct wire_message *message, struct kvt_error *err)
{
    size_t size;
    const void *bytes = wire_message_bytes(message, &size);

    if (size > reading->info->size - reading->size)
        return broken(reading, err, "its chunks are longer than it");
    if (EVP_DigestUpdate(reading->hash, bytes, size) != 1)
        return kvt_error_set(err, KVT_NOMEM, "object %s: out of memory", reading->info->name);
    reading->size += size;
    reading->chunks++;
    return reading->take(reading->arg, bytes, size, err);
}

/* Messages of other objects lie between its chunks, so a gap says nothing; the digest does. */
static enum kvt_err
take_chunks(struct reading *reading, struct wire_stream *stream, struct kvt_error *err)
{
    struct wire_message *messages[FETCH];
    uint64_t quiet_ms = kvt_clock_mono_ms() + QUIET_MS;
    enum kvt_err rc = KVT_OK;

    while (rc == KVT_OK && reading->chunks < reading->info->chunks) {
        const uint64_t left = reading->info->chunks - reading->chunks;
        size_t count = 0;

        rc = wire_stream_fetch(stream, messages, left < FETCH ? (size_t)left : FETCH, FETCH_WAIT_MS,
                               &count);
        if (rc == KVT_NOTFOUND || rc == KVT_UNAVAILABLE)
            rc = KVT_OK;
        else if (rc != KVT_OK)
            (void)kvt_error_set(err, rc, "object %s: %s", reading->info->name, kvt_err_text(rc));
        for (size_t i = 0; i < count; i++) {
            if (rc == KVT_OK)
                rc = take_chunk(reading, messages[i], err);
            wire_message_free(messages[i]);
        }
        if (count > 0)
            quiet_ms = kvt_clock_mono_ms() + QUIET_MS;
        else if (rc == KVT_OK && kvt_clock_mono_ms() >= quiet_ms)
            rc = kvt_error_set(err, KVT_TIMEOUT, "object %s of bucket %s: its chunks do not come",
                               reading->info->name, reading->bucket);
    }
    return rc;
}

/* Digests are written with and without padding. */
static enum kvt_err
check_whole(struct reading *reading, struct kvt_error *err)
{
    unsigned char hash[EVP_MAX_MD_SIZE];
    char digest[WIRE_OBJECT_DIGEST_MAX];
    const size_t kind = sizeof("SHA-256=") - 1;
    size_t size;

    if (reading->size != reading->info->size)
        return broken(reading, err, "its chunks are shorter than it");
    if (EVP_DigestFinal_ex(reading->hash, hash, NULL) != 1)
        return kvt_error_set(err, KVT_NOMEM, "object %s: out of memory", reading->info->name);
    wire_object_digest(digest, hash);
    size = strcspn(digest + kind, "=");
    if (strncmp(digest + kind, reading->info->digest + kind, size) != 0 ||
        reading->info->digest[kind + size + strspn(reading->info->digest + kind + size, "=")] !=
            '\0')
        return broken(reading, err, "its bytes have another digest");
    return KVT_OK;
}

static enum kvt_err
read_object(struct reading *reading, struct kvt_error *err)
{
    struct wire_stream_options options = {
        .stream = reading->stream, .subject = reading->subject, .durable = "", .foreign = true};
    struct wire_stream *stream = NULL;
    enum kvt_err rc = KVT_OK;

    if (!wire_bus_connected(reading->bus))
        return kvt_error_set(err, KVT_UNAVAILABLE, "object bucket %s: NATS is not connected",
                             reading->bucket);
    wire_object_stream_name(reading->stream, reading->bucket);
    wire_object_chunks_subject(reading->subject, reading->bucket, reading->info->nuid);
    reading->hash = EVP_MD_CTX_new();
    if (reading->hash == NULL || EVP_DigestInit_ex(reading->hash, EVP_sha256(), NULL) != 1)
        rc = kvt_error_set(err, KVT_NOMEM, "object %s: out of memory", reading->info->name);
    if (rc == KVT_OK)
        rc = count_chunks(reading, &options.start_seq, err);
    if (rc == KVT_OK && reading->info->chunks > 0) {
        rc = wire_stream_open(&stream, reading->bus, &options);
        if (rc == KVT_OK)
            rc = take_chunks(reading, stream, err);
        else
            (void)kvt_error_set(err, rc, "object %s: %s", reading->info->name, kvt_err_text(rc));
        wire_stream_close(stream);
    }
    if (rc == KVT_OK)
        rc = check_whole(reading, err);
    EVP_MD_CTX_free(reading->hash);
    return rc;
}

static enum kvt_err
to_buffer(void *arg, const void *bytes, size_t size, struct kvt_error *err)
{
    struct kvt_buffer *out = arg;

    kvt_buffer_append(out, bytes, size);
    if (kvt_buffer_ok(out))
        return KVT_OK;
    return kvt_error_set(err, out->size + size > out->limit ? KVT_RANGE : KVT_NOMEM,
                         "no room for an object of more than %zu bytes", out->size);
}

enum kvt_err
wire_object_get(struct wire_bus *bus, const char *bucket, const struct wire_object_info *info,
                struct kvt_buffer *out, struct kvt_error *err)
{
    struct reading reading = {
        .bus = bus, .bucket = bucket, .info = info, .take = to_buffer, .arg = out};
    const size_t before = out->size;
    enum kvt_err rc;

    if (info->size > out->limit - before)
        return kvt_error_set(err, KVT_RANGE, "object %s of bucket %s has %" PRIu64 " bytes",
                             info->name, bucket, info->size);
    rc = read_object(&reading, err);
    if (rc != KVT_OK) {
        out->size = before;
        out->failed = false;
    }
    return rc;
}

static enum kvt_err
to_file(void *arg, const void *bytes, size_t size, struct kvt_error *err)
{
    const int sys = kvt_file_put(*(const int *)arg, bytes, size);

    return sys == 0 ? KVT_OK : kvt_error_sys(err, sys, "write an object");
}

enum kvt_err
wire_object_get_file(struct wire_bus *bus, const char *bucket, const struct wire_object_info *info,
                     const char *path, uint64_t limit, struct kvt_error *err)
{
    int fd;
    struct reading reading = {
        .bus = bus, .bucket = bucket, .info = info, .take = to_file, .arg = &fd};
    enum kvt_err rc;

    if (info->size > limit)
        return kvt_error_set(err, KVT_RANGE, "object %s of bucket %s has %" PRIu64 " bytes",
                             info->name, bucket, info->size);
    fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, FILE_MODE);
    if (fd < 0)
        return kvt_error_sys(err, errno, "%.120s", path);
    rc = read_object(&reading, err);
    if (close(fd) != 0 && rc == KVT_OK)
        rc = kvt_error_sys(err, errno, "%.120s", path);
    if (rc != KVT_OK)
        (void)unlink(path);
    return rc;
}
