#include "g4/packed/manifest_log.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/core/random.h"
#include "g4/object/check.h"
#include "g4/packed/list_pages.h"

static enum kvt_err
perform(const struct g4_manifest_log *log, struct g4_request *request, struct kvt_error *err)
{
    enum kvt_err rc;

    request->deadline_ms = log->request_ms == 0 ? 0 : kvt_clock_mono_ms() + log->request_ms;
    rc = g4_store_perform(log->store, request);
    if (rc != KVT_OK && err != NULL)
        *err = request->error;
    return rc;
}

/* ---- which ones there are ---- */

/* What a walk along the manifests has found. */
struct numbers {
    const struct g4_manifest_log *log;
    uint64_t newest;
    uint64_t dead; /* delete this one and those below; 0: none */
    uint64_t deleted;
};

static enum kvt_err
on_row(void *arg, const struct g4_listed *row, struct kvt_error *err)
{
    struct numbers *numbers = arg;
    const struct g4_manifest_log *log = numbers->log;
    struct g4_request request = {.verb = G4_DELETE, .key = row->key};
    uint64_t number;
    enum kvt_err rc = KVT_OK;

    if (g4_manifest_key_parse(row->key, log->namespace_, &number) != KVT_OK)
        return KVT_OK; /* whatever it is, it is not ours */
    if (number > numbers->newest)
        numbers->newest = number;
    if (number > numbers->dead)
        return KVT_OK;
    if (log->guard != NULL)
        rc = log->guard(log->guard_arg, err);
    if (rc != KVT_OK)
        return rc;
    rc = perform(log, &request, err);
    if (rc == KVT_NOTFOUND)
        return KVT_OK;
    numbers->deleted += rc == KVT_OK;
    return rc;
}

/* All manifests behind `after` (0: from the first). */
static enum kvt_err
walk(struct numbers *numbers, uint64_t after, struct kvt_error *err)
{
    const struct g4_manifest_log *log = numbers->log;
    char prefix[KVT_KEY_MAX];
    char last[KVT_KEY_MAX];
    enum kvt_err rc = g4_manifest_key(last, log->namespace_, after);

    if (rc != KVT_OK)
        return kvt_error_set(err, rc, "no manifests can be in \"%.80s\"", log->namespace_);
    (void)snprintf(prefix, sizeof(prefix), "%.*s", (int)(strrchr(last, '/') - last + 1), last);
    return g4_list_pages_walk(log->store, prefix, after == 0 ? NULL : last, log->request_ms, on_row,
                              numbers, err);
}

/* ---- reading one ---- */

static enum kvt_err
fetch(const struct g4_manifest_log *log, uint64_t number, struct g4_manifest *manifest,
      struct kvt_error *err)
{
    char key[KVT_KEY_MAX];
    struct g4_request request = {
        .verb = G4_GET, .key = key, .buffer_capacity = G4_MANIFEST_BYTES_MAX};
    enum kvt_err rc = g4_manifest_key(key, log->namespace_, number);

    memset(manifest, 0, sizeof(*manifest));
    if (rc == KVT_OK)
        rc = perform(log, &request, err);
    if (rc == KVT_OK)
        rc = g4_manifest_decode(manifest, request.buffer, request.buffer_size, log->namespace_,
                                number, err);
    kvt_free(request.buffer);
    return rc;
}

enum kvt_err
g4_manifest_log_load(const struct g4_manifest_log *log, struct g4_manifest *manifest,
                     struct kvt_error *err)
{
    for (int i = 0; i < G4_MANIFEST_LOG_TRIES; i++) {
        struct numbers numbers = {.log = log, .newest = manifest->number};
        struct g4_manifest found;
        enum kvt_err rc = walk(&numbers, manifest->number, err);

        if (rc != KVT_OK || numbers.newest == manifest->number)
            return rc;
        rc = fetch(log, numbers.newest, &found, err);
        if (rc == KVT_OK) {
            g4_manifest_release(manifest);
            *manifest = found;
            return KVT_OK;
        }
        if (rc != KVT_NOTFOUND) /* so old by now that it was deleted: look again */
            return rc;
    }
    return kvt_error_set(err, KVT_UNAVAILABLE,
                         "the manifests of %.80s change faster than they can be read",
                         log->namespace_);
}

/* ---- adding one ---- */

/* The PUT did not say that it was done.  Whose is what has the number? */
static enum kvt_err
look_again(const struct g4_manifest_log *log, const struct g4_manifest *next, enum kvt_err said,
           struct kvt_error *err)
{
    struct g4_manifest found;
    const enum kvt_err rc = fetch(log, next->number, &found, NULL);
    const bool ours = rc == KVT_OK && found.nonce == next->nonce;

    g4_manifest_release(&found);
    if (ours)
        return KVT_OK;
    if (rc == KVT_OK || (rc == KVT_NOTFOUND && said == KVT_EXISTS))
        return kvt_error_set(err, KVT_EXISTS, "another has written manifest %" PRIu64,
                             next->number);
    return said == KVT_EXISTS ? rc : said;
}

/* Numbers are deleted when G4_MANIFEST_KEEP newer ones are there, and the newest never is: as long
 * as the newest is nearer than that, ours was created for the first time. */
static enum kvt_err
confirm(const struct g4_manifest_log *log, const struct g4_manifest *next, struct kvt_error *err)
{
    struct numbers numbers = {.log = log, .newest = next->number};
    const enum kvt_err rc = walk(&numbers, next->number, err);

    if (rc == KVT_OK && numbers.newest - next->number >= G4_MANIFEST_KEEP)
        return kvt_error_set(err, KVT_UNAVAILABLE,
                             "manifest %" PRIu64 " is written, and others are at %" PRIu64,
                             next->number, numbers.newest);
    return rc;
}

static enum kvt_err
put_whole(const struct g4_manifest_log *log, const struct g4_manifest *next, const char *key,
          struct kvt_error *err)
{
    struct g4_request request = {.verb = G4_PUT, .key = key, .condition = G4_IF_ABSENT};
    struct g4_manifest again;
    struct kvt_buffer bytes;
    enum kvt_err rc;

    kvt_buffer_init(&bytes, G4_MANIFEST_BYTES_MAX);
    rc = g4_manifest_encode(next, log->namespace_, &bytes);
    if (rc != KVT_OK) {
        rc = kvt_error_set(err, rc, "no memory for a manifest of %zu blocks", next->block_count);
        goto fail;
    }
    /* One that nobody can read would stop the namespace for good. */
    rc = g4_manifest_decode(&again, bytes.data, bytes.size, log->namespace_, next->number, err);
    g4_manifest_release(&again);
    if (rc != KVT_OK) {
        rc = rc == KVT_NOMEM ? rc : KVT_RANGE;
        goto fail;
    }
    request.body = bytes.data;
    request.body_size = bytes.size;
    request.meta = (struct g4_meta){
        .present = true, .length = bytes.size, .crc32c = g4_check_crc32c(bytes.data, bytes.size)};
    rc = perform(log, &request, err);
fail:
    kvt_buffer_release(&bytes);
    return rc;
}

enum kvt_err
g4_manifest_log_commit(const struct g4_manifest_log *log, struct g4_manifest *next,
                       struct kvt_error *err)
{
    char key[KVT_KEY_MAX];
    enum kvt_err rc = g4_manifest_key(key, log->namespace_, next->number);

    if (rc != KVT_OK)
        return kvt_error_set(err, rc, "no manifests can be in \"%.80s\"", log->namespace_);
    kvt_random_system(&next->nonce, sizeof(next->nonce));
    next->time_ms = kvt_clock_unix_ms();
    rc = put_whole(log, next, key, err);
    if (rc == KVT_NOMEM || rc == KVT_RANGE)
        return rc;
    if (rc != KVT_OK)
        rc = look_again(log, next, rc, err);
    return rc == KVT_OK ? confirm(log, next, err) : rc;
}

enum kvt_err
g4_manifest_log_prune(const struct g4_manifest_log *log, uint64_t newest, uint64_t *deleted,
                      struct kvt_error *err)
{
    struct numbers numbers = {.log = log,
                              .dead = newest > G4_MANIFEST_KEEP ? newest - G4_MANIFEST_KEEP : 0};
    const enum kvt_err rc = numbers.dead == 0 ? KVT_OK : walk(&numbers, 0, err);

    *deleted = numbers.deleted;
    return rc;
}
