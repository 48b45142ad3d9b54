#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "advisor/archive/index_export.h"
#include "advisor/archive/index_import.h"
#include "advisor/archive/nats_snapshot.h"
#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/core/log.h"
#include "wire/message/subject.h"
#include "wire/nats/bus.h"
#include "wire/nats/stream.h"

enum { NAP_MS = 20, RETRY_MS = 1000, PATH_BYTES = 4096, BLOCK_BYTES = 16384 };

/* Why a snapshot is not taken. */
static void
tell(const struct advisor_nats_snapshot_object *object, const char *why)
{
    kvt_log_warn("advisor.deposit", "refused", "%s, which stands for sequence %" PRIu64 ": %s",
                 object->info.name, object->seq, why);
}

static void
tell_none(const char *why)
{
    kvt_log_warn("advisor.deposit", "none", "the index starts empty, and workers are asked: %s",
                 why);
}

/* ---- from a file ---- */

/* The lines of a block, and what it begins of the next. */
static enum kvt_err
import_block(struct advisor_index_import *import, struct kvt_buffer *line, const char *at,
             size_t size, struct kvt_error *err)
{
    const char *end = at + size;
    enum kvt_err rc = KVT_OK;

    while (rc == KVT_OK && at < end) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));

        kvt_buffer_append(line, at, (size_t)((stop != NULL ? stop : end) - at));
        if (!kvt_buffer_ok(line))
            return kvt_error_set(err, KVT_RANGE, "a line of more than %zu bytes", line->size);
        if (stop == NULL)
            return KVT_OK;
        rc = advisor_index_import_line(import, kvt_buffer_text(line), line->size, err);
        kvt_buffer_clear(line);
        at = stop + 1;
    }
    return rc;
}

static enum kvt_err
import_lines(struct advisor_index_import *import, FILE *file, struct kvt_error *err)
{
    char block[BLOCK_BYTES];
    struct kvt_buffer line;
    enum kvt_err rc = KVT_OK;
    size_t size;

    kvt_buffer_init(&line, ADVISOR_INDEX_IMPORT_LINE_MAX);
    while (rc == KVT_OK && (size = fread(block, 1, sizeof(block), file)) > 0)
        rc = import_block(import, &line, block, size, err);
    if (rc == KVT_OK && ferror(file) != 0)
        rc = kvt_error_sys(err, errno, "read the snapshot");
    kvt_buffer_release(&line);
    return rc;
}

static enum kvt_err
import_file(struct advisor_index_import *import, const char *path,
            struct advisor_index_import_counts *counts, struct kvt_error *err)
{
    FILE *file = fopen(path, "re");
    enum kvt_err rc;

    if (file == NULL)
        return kvt_error_sys(err, errno, "%.120s", path);
    rc = import_lines(import, file, err);
    (void)fclose(file);
    return rc == KVT_OK ? advisor_index_import_finish(import, counts, err) : rc;
}

static enum kvt_err
open_import(struct advisor_index_import **import, const struct advisor_restore_options *options,
            struct kvt_error *err)
{
    const struct advisor_index_import_options into = {.path = options->path,
                                                      .map_bytes = options->map_bytes};

    return advisor_index_import_open(import, &into, err);
}

/* ---- from the bucket ---- */

/* One object.  What fails leaves nothing behind, and the next one is tried. */
static enum kvt_err
restore(const struct advisor_restore_options *options,
        const struct advisor_nats_snapshot_object *object)
{
    struct advisor_index_import_counts counts;
    struct advisor_index_import *import = NULL;
    struct kvt_error err = {.text = ""};
    char path[PATH_BYTES];
    enum kvt_err rc;

    if (snprintf(path, sizeof(path), "%s/" ADVISOR_NATS_SNAPSHOT_FILE, options->path) >= PATH_BYTES)
        return KVT_RANGE;
    rc = open_import(&import, options, &err);
    if (rc == KVT_OK)
        rc = wire_object_get_file(options->bus, options->bucket, &object->info, path,
                                  options->size_max, &err);
    if (rc == KVT_OK)
        rc = import_file(import, path, &counts, &err);
    (void)unlink(path);
    advisor_index_import_free(import);
    if (rc != KVT_OK) {
        tell(object, err.text);
        return rc;
    }
    kvt_log_info("advisor.deposit", "restored",
                 "the index as of sequence %" PRIu64 ": %" PRIu64 " blocks, %" PRIu64
                 " places, %" PRIu64 " publishers",
                 object->seq, counts.blocks, counts.places, counts.publishers);
    return KVT_OK;
}

/* Can the stream be followed from where it stands? */
static bool
is_followed(const struct advisor_nats_snapshot_object *object,
            const struct wire_stream_state *stream)
{
    if (object->format > ADVISOR_INDEX_EXPORT_VERSION)
        tell(object, "a newer advisor wrote it");
    else if (object->seq > stream->last_seq)
        tell(object, "the stream ends before it");
    else if (object->seq + 1 < stream->first_seq)
        tell(object, "the stream has lost messages that came behind it");
    else
        return true;
    return false;
}

static enum kvt_err
restore_newest(const struct advisor_restore_options *options,
               const struct wire_stream_state *stream)
{
    struct advisor_nats_snapshot_object objects[ADVISOR_NATS_SNAPSHOT_OBJECTS];
    const struct advisor_nats_snapshot_object *object;
    struct kvt_error err = {.text = ""};
    uint64_t below = UINT64_MAX;
    enum kvt_err rc = advisor_nats_snapshot_read(options->bus, options->bucket, objects, &err);

    if (rc != KVT_OK) {
        tell_none(err.text);
        return rc;
    }
    for (unsigned i = 0; i < ADVISOR_NATS_SNAPSHOT_OBJECTS; i++)
        if (objects[i].readable && objects[i].created_ms != stream->created_ms)
            tell(&objects[i], "it stands for another stream than the one there is");
    rc = KVT_NOTFOUND;
    while (rc != KVT_OK && !kvt_err_retryable(rc) &&
           (object = advisor_nats_snapshot_newest(objects, stream->created_ms, below)) != NULL) {
        below = object->seq;
        if (is_followed(object, stream))
            rc = restore(options, object);
    }
    if (rc != KVT_OK)
        tell_none("there is no snapshot that it can begin with");
    return rc;
}

static bool
wait_connected(const struct advisor_restore_options *options, uint64_t until_ms)
{
    while (!wire_bus_connected(options->bus)) {
        if (kvt_clock_mono_ms() >= until_ms)
            return false;
        kvt_clock_sleep_ms(NAP_MS);
    }
    return true;
}

/* One attempt. */
static enum kvt_err
try_all(const struct advisor_restore_options *options)
{
    struct wire_stream_state stream;
    const enum kvt_err rc = wire_stream_state(options->bus, WIRE_STREAM_EVENTS, &stream);

    if (rc == KVT_OK)
        return restore_newest(options, &stream);
    tell_none(rc == KVT_NOTFOUND ? "there is no stream of events yet"
                                 : "NATS does not say what the stream of events is");
    return rc;
}

enum kvt_err
advisor_nats_snapshot_restore(const struct advisor_restore_options *options)
{
    const uint64_t until_ms = kvt_clock_mono_ms() + options->wait_ms;
    struct advisor_index_import *import;
    enum kvt_err rc = open_import(&import, options, NULL);

    /* Whatever is wrong with the folder is told by who opens it next. */
    advisor_index_import_free(import);
    if (rc != KVT_OK)
        return rc;
    for (;;) {
        if (!wait_connected(options, until_ms)) {
            tell_none("NATS does not answer");
            return KVT_UNAVAILABLE;
        }
        rc = try_all(options);
        if (!kvt_err_retryable(rc) || kvt_clock_mono_ms() + RETRY_MS >= until_ms)
            return rc;
        kvt_clock_sleep_ms(RETRY_MS);
    }
}
