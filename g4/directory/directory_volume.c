#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/core/random.h"
#include "g4/directory/directory_internal.h"
#include "g4/directory/file_name.h"
#include "g4/directory/folder_split.h"
#include "g4/directory/object_file.h"
#include "g4/object/check.h"

enum { SPLITS_MAX = 64 };

struct g4_directory_volume {
    struct g4_tree *tree;
    uint64_t bytes_max;
};

enum kvt_err
g4_directory_volume_open(struct g4_directory_volume **out, const char *path, uint64_t bytes_max,
                         struct kvt_error *err)
{
    struct g4_directory_volume *volume;
    enum kvt_err rc;
    bool alone;

    *out = NULL;
    volume = kvt_calloc(1, sizeof(*volume));
    if (volume == NULL)
        return kvt_error_set(err, KVT_NOMEM, "directory store %s", path);
    volume->bytes_max = bytes_max;
    rc = g4_tree_open(&volume->tree, path, &alone, err);
    if (rc == KVT_OK && alone) {
        rc = g4_tree_walk_recover(volume->tree, err);
        if (rc == KVT_OK)
            rc = g4_tree_share(volume->tree, err);
    }
    if (rc != KVT_OK) {
        g4_directory_volume_close(volume);
        return rc;
    }
    *out = volume;
    return KVT_OK;
}

void
g4_directory_volume_close(struct g4_directory_volume *volume)
{
    if (volume == NULL)
        return;
    g4_tree_close(volume->tree);
    kvt_free(volume);
}

/* A failed system call about the store itself: its names are not the caller's business. */
static enum kvt_err
fail_sys(struct g4_request *request, int sys, const char *what)
{
    enum kvt_err rc = kvt_error_sys(&request->error, sys, "%s %s", what, request->key);

    if (rc != KVT_FULL && rc != KVT_DENIED && rc != KVT_NOMEM)
        rc = request->error.code = KVT_IO;
    return rc;
}

static enum kvt_err
say(struct g4_request *request, enum kvt_err code)
{
    return kvt_error_set(&request->error, code, "%s: %s", request->key, kvt_err_text(code));
}

/* The key's file, as found: descriptors are -1 where there is none. */
struct found {
    int folder;
    int file;
    size_t depth;
    char name[G4_FILE_NAME_MAX];
};

static void
found_release(struct found *found)
{
    if (found->folder >= 0)
        (void)close(found->folder);
    if (found->file >= 0)
        (void)close(found->file);
    found->folder = found->file = -1;
}

/* The tree is locked.  KVT_OK, KVT_NOTFOUND (the folder is known then), or a failure. */
static enum kvt_err
find(struct g4_directory_volume *volume, struct g4_request *request, struct found *found)
{
    found->file = -1;
    g4_file_name_format(request->key, found->name);
    found->folder = g4_tree_deepest(volume->tree, request->key, &found->depth);
    if (found->folder < 0)
        return fail_sys(request, errno, "open the folder of");
    found->file = openat(found->folder, found->name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (found->file >= 0)
        return KVT_OK;
    if (errno == ENOENT)
        return say(request, KVT_NOTFOUND);
    return fail_sys(request, errno, "open");
}

/* As find(), under a lock of its own that is gone afterwards. */
static enum kvt_err
look_up(struct g4_directory_volume *volume, struct g4_request *request, struct found *found)
{
    const int lock = g4_folder_split_lock(volume->tree);
    enum kvt_err rc;

    *found = (struct found){.folder = -1, .file = -1};
    if (lock < 0)
        return fail_sys(request, errno, "lock the store for");
    rc = find(volume, request, found);
    (void)close(lock);
    return rc;
}

static void
tell(struct g4_request *request, const struct g4_object_file *object)
{
    request->meta = object->meta;
    request->modified_ms = object->modified_ms;
    memcpy(request->etag, object->etag, sizeof(request->etag));
}

/* Read `size` bytes of body from `from` on; KVT_IO when the file ends before. */
static enum kvt_err
read_body(struct g4_request *request, int fd, uint64_t from, size_t size)
{
    uint8_t *at = request->buffer;
    size_t done = 0;

    while (done < size) {
        const ssize_t got =
            pread(fd, at + done, size - done, (off_t)(G4_OBJECT_FILE_BODY_AT + from + done));

        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return fail_sys(request, errno, "read");
        if (got == 0)
            return say(request, KVT_IO); /* cut short under our hands */
        done += (size_t)got;
    }
    return KVT_OK;
}

/* Which bytes were asked for: all of them, or a part, which nobody here can check. */
static enum kvt_err
choose(struct g4_request *request, const struct g4_object_file *object, uint64_t *from,
       uint64_t *size)
{
    const uint64_t length = object->meta.length;

    *from = request->range_size == 0 ? 0 : request->range_at;
    *size = length - (*from < length ? *from : length);
    if (request->range_size != 0 && *size == 0)
        return kvt_error_set(&request->error, KVT_RANGE, "%s: %" PRIu64 " bytes, none at %" PRIu64,
                             request->key, length, *from);
    if (request->range_size != 0 && *size > request->range_size)
        *size = request->range_size;
    if (*size > request->buffer_capacity)
        return kvt_error_set(&request->error, KVT_RANGE, "%s: %" PRIu64 " bytes, room for %zu",
                             request->key, *size, request->buffer_capacity);
    return KVT_OK;
}

static enum kvt_err
get_body(struct g4_request *request, int fd, const struct g4_object_file *object)
{
    const bool own = request->buffer == NULL;
    uint64_t chosen;
    uint64_t from;
    enum kvt_err rc = choose(request, object, &from, &chosen);
    const size_t size = (size_t)chosen;

    if (rc != KVT_OK)
        return rc;
    if (own)
        request->buffer = kvt_aligned(G4_OBJECT_FILE_BODY_AT, size);
    if (request->buffer == NULL)
        return say(request, KVT_NOMEM);
    rc = read_body(request, fd, from, size);
    if (rc == KVT_OK && request->range_size == 0 &&
        g4_check_crc32c(request->buffer, size) != object->body_crc32c)
        rc = kvt_error_set(&request->error, KVT_CORRUPT, "%s: body fails its crc", request->key);
    if (rc == KVT_OK || rc == KVT_CORRUPT) {
        request->buffer_size = size;
    } else if (own) {
        kvt_free(request->buffer);
        request->buffer = NULL;
    }
    return rc;
}

/* The header cannot be believed; what stands where a body belongs is handed out as evidence, as far
 * as there is room for it. */
static void
get_evidence(struct g4_request *request, int fd, const struct g4_object_file *object)
{
    const struct kvt_error verdict = request->error;
    struct g4_object_file part = *object;

    part.body_crc32c = 0;
    if (request->range_size != 0)
        return;
    if (part.meta.length > request->buffer_capacity)
        part.meta.length = request->buffer_capacity;
    if (part.meta.length > 0)
        (void)!get_body(request, fd, &part);
    request->error = verdict;
}

static enum kvt_err
do_get(struct g4_directory_volume *volume, struct g4_request *request)
{
    char wanted[G4_ETAG_MAX];
    struct g4_object_file object;
    struct found found;
    enum kvt_err rc;

    memcpy(wanted, request->etag, sizeof(wanted));
    rc = look_up(volume, request, &found);
    if (rc == KVT_OK) {
        rc = g4_object_file_read(found.file, request->key, &object, &request->error);
        tell(request, &object);
        request->object_size = object.meta.length;
    }
    if (rc == KVT_OK && request->condition == G4_IF_MATCH && strcmp(wanted, object.etag) != 0)
        rc =
            kvt_error_set(&request->error, KVT_PRECONDITION, "%s is another version", request->key);
    if (rc == KVT_OK && request->attributes != NULL)
        rc = g4_object_file_attributes(found.file, &object, request->attributes, &request->error);
    if (rc == KVT_CORRUPT && request->verb == G4_GET)
        get_evidence(request, found.file, &object);
    else if (rc == KVT_OK && request->verb == G4_GET)
        rc = get_body(request, found.file, &object);
    else if (rc == KVT_OK)
        request->buffer_size = (size_t)object.meta.length;
    found_release(&found);
    return rc;
}

/* Write-back of all files begins before the first is waited for: the file system then commits once
 * for many of them. */
static enum kvt_err
begin_sync(struct g4_directory_volume *volume, const char *key, struct found *found,
           struct kvt_error *err)
{
    struct g4_request request = {.key = key};
    const enum kvt_err rc = look_up(volume, &request, found);

    if (rc == KVT_OK)
        (void)sync_file_range(found->file, 0, 0, SYNC_FILE_RANGE_WRITE);
    else if (rc != KVT_NOTFOUND)
        *err = request.error;
    return rc == KVT_NOTFOUND ? KVT_OK : rc;
}

static enum kvt_err
end_sync(const char *key, const struct found *found, struct kvt_error *err)
{
    struct g4_request request = {.key = key};
    enum kvt_err rc = KVT_OK;

    if (found->file >= 0 && (fsync(found->file) != 0 || fsync(found->folder) != 0)) {
        rc = fail_sys(&request, errno, "sync");
        *err = request.error;
    }
    return rc;
}

/* One that fails does not keep the others: all that could be opened are synced. */
enum kvt_err
g4_directory_volume_sync(struct g4_directory_volume *volume, const char *const *keys, size_t count,
                         bool *refused, struct kvt_error *err)
{
    struct found found[G4_SYNC_KEYS_MAX];
    enum kvt_err result = KVT_OK;
    enum kvt_err rc;

    assert(count <= G4_SYNC_KEYS_MAX);
    for (size_t i = 0; i < count; i++) {
        rc = begin_sync(volume, keys[i], &found[i], err);
        result = rc != KVT_OK ? rc : result;
    }
    for (size_t i = 0; i < count; i++) {
        rc = end_sync(keys[i], &found[i], err);
        refused[i] = rc != KVT_OK;
        result = rc != KVT_OK ? rc : result;
        found_release(&found[i]);
    }
    return result;
}

/* The header of an open file, when its body comes in pieces. */
static enum kvt_err
read_head(struct g4_body *body, const char *key, bool wait, struct kvt_error *err)
{
    struct g4_object_file *object = &body->object;
    enum kvt_err rc = wait ? g4_object_file_read(body->fd, key, object, err)
                           : g4_object_file_read_at_once(body->fd, key, object, err);

    if (rc == KVT_OK && object->pieces.shift == 0)
        rc = kvt_error_set(err, KVT_UNSUPPORTED, "%s is not in pieces", key);
    else if (rc == KVT_OK &&
             !g4_pieces_fit(&object->pieces, object->meta.length, object->body_crc32c))
        rc = kvt_error_set(err, KVT_CORRUPT, "%s: its pieces are of another body", key);
    return rc;
}

enum kvt_err
g4_directory_volume_peek(struct g4_directory_volume *volume, const char *key, struct g4_body *body)
{
    char name[G4_FILE_NAME_MAX];
    struct kvt_error err;

    memset(body, 0, sizeof(*body));
    g4_file_name_format(key, name);
    body->fd = g4_tree_peek(volume->tree, key, name);
    if (body->fd >= 0 && read_head(body, key, false, &err) == KVT_OK)
        return KVT_OK;
    g4_body_close(body);
    return KVT_AGAIN;
}

enum kvt_err
g4_directory_volume_body(struct g4_directory_volume *volume, const char *key, struct g4_body *body,
                         struct kvt_error *err)
{
    struct g4_request request = {.verb = G4_GET, .key = key};
    struct found found;
    enum kvt_err rc;

    memset(body, 0, sizeof(*body));
    rc = look_up(volume, &request, &found);
    body->fd = found.file;
    found.file = -1;
    found_release(&found);
    if (rc == KVT_OK)
        rc = read_head(body, key, true, &request.error);
    if (rc != KVT_OK) {
        g4_body_close(body);
        *err = request.error;
    }
    return rc;
}

/* Count `size` bytes as there before they are; KVT_FULL when they would be too many. */
static enum kvt_err
reserve(struct g4_directory_volume *volume, struct g4_request *request, uint64_t size)
{
    struct g4_tree_usage *usage = g4_tree_usage(volume->tree);
    const uint64_t before = atomic_fetch_add(&usage->bytes, size);

    if (volume->bytes_max == 0 || size == 0 ||
        (before <= volume->bytes_max && size <= volume->bytes_max - before))
        return KVT_OK;
    atomic_fetch_sub(&usage->bytes, size);
    return kvt_error_set(&request->error, KVT_FULL,
                         "%s: %zu bytes do not fit: %" PRIu64 " of %" PRIu64 " used", request->key,
                         request->body_size, before, volume->bytes_max);
}

/* Never below zero: a damaged file whose key nobody could tell was not counted when found. */
static void
take_off(_Atomic uint64_t *counter, uint64_t amount)
{
    uint64_t before = atomic_load(counter);

    while (!atomic_compare_exchange_weak(counter, &before, before > amount ? before - amount : 0))
        ;
}

static void
release(struct g4_directory_volume *volume, uint64_t size)
{
    take_off(&g4_tree_usage(volume->tree)->bytes, size);
}

/* Make sure that the folder has room for one more; KVT_AGAIN: it was split, look again. */
static enum kvt_err
make_room(struct g4_directory_volume *volume, struct g4_request *request, const struct found *found,
          int *lock, size_t *split_depth)
{
    enum kvt_err rc;
    size_t count;

    if (!g4_tree_count_due(volume->tree, request->key, found->depth) &&
        *split_depth != found->depth)
        return KVT_OK;
    rc = g4_folder_count(found->folder, &count, &request->error);
    if (rc != KVT_OK || count < G4_TREE_SPLIT_AT)
        return rc;
    if (*split_depth != found->depth) {
        *split_depth = found->depth;
        (void)close(*lock);
        *lock = -1;
        rc = g4_folder_split(volume->tree, request->key, found->depth, &request->error);
        return rc == KVT_OK ? KVT_AGAIN : rc;
    }
    /* It was split just now and still is this large: its keys cannot be told apart. */
    return count < G4_TREE_ENTRIES_MAX ? KVT_OK : say(request, KVT_FULL);
}

/* The caller will take "already there" for "stored": so it must be as durable as if we had
 * stored it, though whoever linked it may not have come to sync the folder yet. */
static enum kvt_err
already_there(struct g4_request *request, const struct found *found)
{
    if (fsync(found->folder) != 0)
        return fail_sys(request, errno, "sync the folder of");
    return say(request, KVT_EXISTS);
}

/* Give the staged file its name, if no other has it. */
static enum kvt_err
link_new(struct g4_directory_volume *volume, struct g4_request *request, struct g4_stage *stage)
{
    size_t split_depth = SIZE_MAX;
    enum kvt_err rc = KVT_AGAIN;

    for (int i = 0; i < SPLITS_MAX && rc == KVT_AGAIN; i++) {
        struct found found = {.folder = -1, .file = -1};
        int lock = g4_folder_split_lock(volume->tree);

        if (lock < 0)
            return fail_sys(request, errno, "lock the store for");
        rc = find(volume, request, &found);
        if (rc == KVT_OK)
            rc = already_there(request, &found);
        else if (rc == KVT_NOTFOUND)
            rc = make_room(volume, request, &found, &lock, &split_depth);
        if (rc == KVT_OK && g4_stage_link(stage, found.folder, found.name) != 0)
            rc =
                errno == EEXIST ? already_there(request, &found) : fail_sys(request, errno, "link");
        else if (rc == KVT_OK && !request->unsynced && fsync(found.folder) != 0)
            rc = fail_sys(request, errno, "sync the folder of");
        found_release(&found);
        if (lock >= 0)
            (void)close(lock);
    }
    return rc;
}

/* Rename the staged file over the one that is there; the stripe is locked. */
static enum kvt_err
rename_over(struct g4_directory_volume *volume, struct g4_request *request, struct g4_stage *stage)
{
    const int lock = g4_folder_split_lock(volume->tree);
    struct found found = {.folder = -1, .file = -1};
    enum kvt_err rc;

    if (lock < 0)
        return fail_sys(request, errno, "lock the store for");
    rc = find(volume, request, &found);
    if (rc == KVT_OK && g4_stage_rename(stage, found.folder, found.name) != 0)
        rc = fail_sys(request, errno, "rename");
    else if (rc == KVT_OK && !request->unsynced && fsync(found.folder) != 0)
        rc = fail_sys(request, errno, "sync the folder of");
    found_release(&found);
    (void)close(lock);
    return rc;
}

static enum kvt_err
describe(struct g4_request *request, struct g4_object_file *object)
{
    uint64_t nonce;

    memset(object, 0, sizeof(*object));
    if (request->pieces != NULL && request->meta.present &&
        g4_pieces_fit(request->pieces, request->body_size, request->meta.crc32c)) {
        object->pieces = *request->pieces;
        object->body_crc32c = request->meta.crc32c;
    } else {
        object->body_crc32c =
            g4_pieces_describe(&object->pieces, request->body, request->body_size);
    }
    if (request->meta.present &&
        (request->meta.length != request->body_size || request->meta.crc32c != object->body_crc32c))
        return kvt_error_set(&request->error, KVT_CORRUPT, "%s: the body to put fails its check",
                             request->key);
    memcpy(object->key, request->key, strlen(request->key) + 1);
    object->meta = request->meta;
    object->meta.length = request->body_size;
    object->modified_ms = kvt_clock_unix_ms();
    if (request->attributes != NULL) {
        object->attributes_size = (uint32_t)strlen(request->attributes);
        object->attributes_crc32c = g4_check_crc32c(request->attributes, object->attributes_size);
    }
    /* Not to be taken for an MD5 of the body, and never twice the same. */
    kvt_random_system(&nonce, sizeof(nonce));
    (void)snprintf(object->etag, sizeof(object->etag), "%08" PRIx32 "-%016" PRIx64,
                   object->body_crc32c, nonce);
    return KVT_OK;
}

static enum kvt_err
stage_body(struct g4_directory_volume *volume, struct g4_request *request,
           const struct g4_object_file *object, struct g4_stage *stage)
{
    uint8_t header[G4_OBJECT_FILE_HEADER_SIZE];

    g4_object_file_encode(object, header);
    if (g4_stage_write(stage, g4_tree_tmp(volume->tree), header, request->attributes, request->body,
                       request->body_size) != 0)
        return fail_sys(request, errno, "write");
    if (!request->unsynced && g4_stage_sync(stage) != 0)
        return fail_sys(request, errno, "sync");
    return KVT_OK;
}

static enum kvt_err
put_new(struct g4_directory_volume *volume, struct g4_request *request,
        const struct g4_object_file *object)
{
    struct g4_stage stage;
    enum kvt_err rc;

    rc = reserve(volume, request, request->body_size);
    if (rc != KVT_OK)
        return rc;
    rc = stage_body(volume, request, object, &stage);
    if (rc == KVT_OK)
        rc = link_new(volume, request, &stage);
    g4_stage_release(&stage);
    if (rc == KVT_OK)
        atomic_fetch_add(&g4_tree_usage(volume->tree)->objects, 1);
    else
        release(volume, request->body_size);
    return rc;
}

static uint64_t
size_of(int fd)
{
    struct stat about;

    return fstat(fd, &about) == 0 ? g4_object_file_body_size((uint64_t)about.st_size) : 0;
}

/* Put the new object in place of the one in `found`; the stripe is locked. */
static enum kvt_err
put_over(struct g4_directory_volume *volume, struct g4_request *request,
         const struct g4_object_file *object, const struct found *found)
{
    const uint64_t before = size_of(found->file);
    const uint64_t more = request->body_size > before ? request->body_size - before : 0;
    struct g4_stage stage;
    enum kvt_err rc;

    rc = reserve(volume, request, more);
    if (rc != KVT_OK)
        return rc;
    rc = stage_body(volume, request, object, &stage);
    if (rc == KVT_OK)
        rc = rename_over(volume, request, &stage);
    g4_stage_release(&stage);
    if (rc != KVT_OK)
        release(volume, more);
    else if (before > request->body_size)
        release(volume, before - request->body_size);
    return rc;
}

static enum kvt_err
check_match(struct g4_request *request, int file)
{
    struct g4_object_file object;
    const enum kvt_err rc = g4_object_file_read(file, request->key, &object, &request->error);

    /* A file that is no object may be replaced too: it has a tag for that. */
    if (rc != KVT_OK && rc != KVT_CORRUPT)
        return rc;
    return strcmp(object.etag, request->etag) == 0 ? KVT_OK : say(request, KVT_PRECONDITION);
}

/* PUT always or if it matches: under the key's stripe, so that what was looked at stays. */
static enum kvt_err
put_striped(struct g4_directory_volume *volume, struct g4_request *request,
            const struct g4_object_file *object)
{
    const int stripe = g4_tree_lock_stripe(volume->tree, request->key);
    struct found found;
    enum kvt_err rc;

    if (stripe < 0)
        return fail_sys(request, errno, "lock");
    do {
        rc = look_up(volume, request, &found);
        if (rc == KVT_OK && request->condition == G4_IF_MATCH)
            rc = check_match(request, found.file);
        if (rc == KVT_OK)
            rc = put_over(volume, request, object, &found);
        else if (rc == KVT_NOTFOUND && request->condition == G4_ALWAYS)
            rc = put_new(volume, request, object);
        found_release(&found);
        /* A put-if-absent may come first: it takes no stripe.  Then there is something to replace.
         */
    } while (rc == KVT_EXISTS);
    (void)close(stripe);
    return rc;
}

static enum kvt_err
do_put(struct g4_directory_volume *volume, struct g4_request *request)
{
    struct g4_object_file object;
    enum kvt_err rc;

    if (request->condition == G4_IF_ABSENT) {
        struct found found;

        /* Most duplicates are noticed here, before their bytes are written. */
        rc = look_up(volume, request, &found);
        if (rc == KVT_OK)
            rc = already_there(request, &found);
        found_release(&found);
        if (rc != KVT_NOTFOUND)
            return rc;
    }
    rc = describe(request, &object);
    if (rc == KVT_OK)
        rc = request->condition == G4_IF_ABSENT ? put_new(volume, request, &object)
                                                : put_striped(volume, request, &object);
    if (rc == KVT_OK) {
        memcpy(request->etag, object.etag, sizeof(request->etag));
        request->modified_ms = object.modified_ms;
    }
    return rc;
}

static enum kvt_err
remove_found(struct g4_directory_volume *volume, struct g4_request *request,
             const struct found *found)
{
    const uint64_t size = size_of(found->file);
    enum kvt_err rc = KVT_OK;

    if (request->condition == G4_IF_MATCH)
        rc = check_match(request, found->file);
    if (rc != KVT_OK)
        return rc;
    if (unlinkat(found->folder, found->name, 0) != 0)
        return fail_sys(request, errno, "delete");
    release(volume, size);
    take_off(&g4_tree_usage(volume->tree)->objects, 1);
    return fsync(found->folder) == 0 ? KVT_OK : fail_sys(request, errno, "sync the folder of");
}

static enum kvt_err
do_delete(struct g4_directory_volume *volume, struct g4_request *request)
{
    const int stripe = g4_tree_lock_stripe(volume->tree, request->key);
    struct found found = {.folder = -1, .file = -1};
    enum kvt_err rc;
    int lock;

    if (stripe < 0)
        return fail_sys(request, errno, "lock");
    lock = g4_folder_split_lock(volume->tree);
    if (lock < 0) {
        rc = fail_sys(request, errno, "lock the store for");
        goto done;
    }
    rc = find(volume, request, &found);
    if (rc == KVT_OK)
        rc = remove_found(volume, request, &found);
    found_release(&found);
    (void)close(lock);

done:
    (void)close(stripe);
    return rc;
}

void
g4_directory_volume_perform(struct g4_directory_volume *volume, struct g4_request *request)
{
    enum kvt_err rc = KVT_UNSUPPORTED;

    switch (request->verb) {
    case G4_GET:
    case G4_HEAD: rc = do_get(volume, request); break;
    case G4_PUT: rc = do_put(volume, request); break;
    case G4_DELETE: rc = do_delete(volume, request); break;
    case G4_LIST: rc = g4_tree_walk_list(volume->tree, request); break;
    }
    request->status = rc;
    if (rc == KVT_OK) /* the search for a free name leaves "not found" behind */
        memset(&request->error, 0, sizeof(request->error));
}
