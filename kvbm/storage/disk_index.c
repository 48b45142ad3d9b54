#include "kvbm/storage/disk_index.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/core/alloc.h"
#include "base/core/random.h"
#include "kvbm/layout/checksum.h"
#include "kvbm/pool/block_map.h"

enum {
    VERSION = 1,
    FIXED_BYTES = 64,  /* of a record, before the crcs */
    RECORD_ALIGN = 64, /* and the size of a record is a multiple of it */
    READ_BYTES = 1 << 20,
};

static const char magic[8] = {'K', 'V', 'T', 'G', '3', 'I', 'X', '\n'};

/* Little-endian on the disk; what is not is no index of ours. */
struct header {
    char magic[8];
    uint32_t version;
    uint32_t block_count;
    uint64_t block_size;
    uint32_t parts;
    uint32_t record_bytes;
    uint64_t fingerprint;
    uint64_t nonce;
    uint32_t reserved;
    uint32_t crc; /* of all before */
};

struct record {
    uint32_t block;
    uint32_t position;
    uint64_t nonce;
    uint64_t serial;
    uint64_t hash;
    uint64_t parent;
    uint64_t prefix_hash;
    uint64_t tokens_hash;
    uint32_t parts;
    uint32_t reserved;
    uint32_t crcs[]; /* `parts` of them, and one of all before */
};

_Static_assert(sizeof(struct header) == 56, "header");
_Static_assert(sizeof(struct record) == FIXED_BYTES, "record");

/* What the file may say of a block.  No serial: nothing.  A row whose name leads to another block
 * is a double: its record is not erased yet, or not surely. */
struct row {
    uint64_t hash;
    uint64_t serial;
};

struct kvbm_disk_index {
    int fd;
    struct kvbm_aio *aio;
    uint32_t block_count;
    uint64_t block_size;
    uint32_t parts;
    size_t record_bytes;
    uint64_t fingerprint;
    uint64_t nonce;
    _Atomic bool broken;
    pthread_mutex_t sync_lock; /* leaf; a sync and what it says are one step */

    /* Guards what follows, and is held while a record is written: the record of a block and what is
     * known of it change together, also where a commit erases the record of somebody else's. */
    pthread_mutex_t lock;
    struct row *rows;
    struct kvbm_block_map names; /* hash -> the block that was committed last under it */
    uint64_t serial;
    uint8_t *found; /* records as they were at opening, or NULL; all zero: none */
};

static uint64_t
record_offset(const struct kvbm_disk_index *index, uint32_t block)
{
    return KVBM_DISK_HEADER_BYTES + (uint64_t)block * index->record_bytes;
}

static size_t
record_size(const struct kvbm_disk_index *index)
{
    return FIXED_BYTES + ((size_t)index->parts + 1) * sizeof(uint32_t);
}

static enum kvt_err
write_header(struct kvbm_disk_index *index)
{
    uint8_t bytes[KVBM_DISK_HEADER_BYTES] = {0};
    struct header header = {
        .version = VERSION,
        .block_count = index->block_count,
        .block_size = index->block_size,
        .parts = index->parts,
        .record_bytes = (uint32_t)index->record_bytes,
        .fingerprint = index->fingerprint,
    };
    enum kvt_err rc;

    /* Drawn, not counted: a counter that a torn header lost would start again at numbers that old
     * records have. */
    kvt_random_system(&header.nonce, sizeof(header.nonce));
    memcpy(header.magic, magic, sizeof(magic));
    header.crc = kvbm_crc32c(0, &header, offsetof(struct header, crc));
    memcpy(bytes, &header, sizeof(header));
    rc = kvbm_aio_write(index->aio, index->fd, bytes, sizeof(bytes), 0);
    if (rc == KVT_OK)
        rc = kvbm_aio_sync(index->aio, index->fd);
    if (rc == KVT_OK)
        index->nonce = header.nonce;
    return rc;
}

static bool
header_fits(struct kvbm_disk_index *index)
{
    struct header header;
    struct stat info;

    /* Cut off while it was made: nothing was acknowledged in it. */
    if (fstat(index->fd, &info) != 0 ||
        info.st_size < (off_t)record_offset(index, index->block_count))
        return false;
    if (kvbm_aio_read(index->aio, index->fd, &header, sizeof(header), 0) != KVT_OK)
        return false;
    if (memcmp(header.magic, magic, sizeof(magic)) != 0 || header.version != VERSION ||
        header.crc != kvbm_crc32c(0, &header, offsetof(struct header, crc)))
        return false;
    index->nonce = header.nonce;
    return header.block_count == index->block_count && header.block_size == index->block_size &&
           header.parts == index->parts && header.record_bytes == index->record_bytes &&
           header.fingerprint == index->fingerprint;
}

static struct record *
found_at(const struct kvbm_disk_index *index, uint32_t block)
{
    return (struct record *)(void *)(index->found + block * index->record_bytes);
}

/* Without its nonce a record is none; its crcs may stay. */
static enum kvt_err
write_zeros(struct kvbm_disk_index *index, uint32_t block)
{
    static const uint8_t zeros[FIXED_BYTES];

    return kvbm_aio_write(index->aio, index->fd, zeros, sizeof(zeros), record_offset(index, block));
}

/* What was there at opening is there no more: its block is written, named or forgotten anew. */
static void
unfind_locked(struct kvbm_disk_index *index, uint32_t block)
{
    if (index->found != NULL)
        memset(found_at(index, block), 0, index->record_bytes);
}

static bool
is_double(const struct kvbm_disk_index *index, uint32_t block)
{
    uint32_t latest;

    return index->rows[block].serial != 0 &&
           !(kvbm_block_map_get(&index->names, index->rows[block].hash, &latest) &&
             latest == block);
}

/* The file says nothing of the block, for good. */
static void
clear_locked(struct kvbm_disk_index *index, uint32_t block)
{
    if (index->rows[block].serial != 0 && !is_double(index, block))
        kvbm_block_map_remove(&index->names, index->rows[block].hash);
    index->rows[block] = (struct row){0, 0};
    unfind_locked(index, block);
}

static bool
record_valid(const struct kvbm_disk_index *index, const struct record *record, uint32_t block)
{
    const size_t size = record_size(index) - sizeof(uint32_t);

    return record->nonce == index->nonce && record->block == block &&
           record->parts == index->parts &&
           record->crcs[index->parts] == kvbm_crc32c(0, record, size);
}

/* Read all of them; what is no record becomes zero. */
static enum kvt_err
load(struct kvbm_disk_index *index, struct kvt_error *err)
{
    const size_t size = (size_t)index->block_count * index->record_bytes;

    for (size_t at = 0; at < size; at += READ_BYTES) {
        const size_t part = size - at < READ_BYTES ? size - at : READ_BYTES;
        const enum kvt_err rc = kvbm_aio_read(index->aio, index->fd, index->found + at, part,
                                              KVBM_DISK_HEADER_BYTES + at);

        if (rc != KVT_OK)
            return kvt_error_set(err, rc, "read the disk tier's index");
    }
    for (uint32_t block = 0; block < index->block_count; block++) {
        struct record *record = found_at(index, block);

        if (!record_valid(index, record, block)) {
            memset(record, 0, index->record_bytes);
            continue;
        }
        index->rows[block] = (struct row){record->hash, record->serial};
        if (record->serial > index->serial)
            index->serial = record->serial;
    }
    return KVT_OK;
}

/* Of each name the latest record counts. */
static void
name_rows(struct kvbm_disk_index *index)
{
    for (uint32_t block = 0; block < index->block_count; block++) {
        const struct row *row = &index->rows[block];
        uint32_t other;

        if (row->serial == 0 || kvbm_block_map_add(&index->names, row->hash, block, &other) ||
            index->rows[other].serial > row->serial)
            continue;
        kvbm_block_map_remove(&index->names, row->hash);
        kvbm_block_map_put(&index->names, row->hash, block);
    }
}

/* A crash came between a commit and the erasing of the record it took the place of. */
static enum kvt_err
erase_found_doubles(struct kvbm_disk_index *index, struct kvt_error *err)
{
    enum kvt_err rc = KVT_OK;
    bool any = false;

    for (uint32_t block = 0; rc == KVT_OK && block < index->block_count; block++)
        if (is_double(index, block)) {
            rc = write_zeros(index, block);
            any = true;
        }
    if (rc == KVT_OK && any)
        rc = kvbm_disk_index_sync(index);
    if (rc != KVT_OK)
        return kvt_error_set(err, KVT_IO, "write the disk tier's index");
    for (uint32_t block = 0; any && block < index->block_count; block++)
        if (is_double(index, block))
            clear_locked(index, block);
    return KVT_OK;
}

static enum kvt_err
open_file(struct kvbm_disk_index *index, const char *path, struct kvt_error *err)
{
    index->fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (index->fd < 0)
        return kvt_error_sys(err, errno, "open %s", path);
    if (flock(index->fd, LOCK_EX | LOCK_NB) != 0)
        return kvt_error_set(err, KVT_BUSY, "%s is in use by another process", path);
    return KVT_OK;
}

/* Empty, but for a header: records of any earlier life have another nonce. */
static enum kvt_err
begin_anew(struct kvbm_disk_index *index, const char *path, struct kvt_error *err)
{
    const off_t size = (off_t)record_offset(index, index->block_count);

    if (ftruncate(index->fd, 0) != 0 || ftruncate(index->fd, size) != 0)
        return kvt_error_sys(err, errno, "make %s", path);
    if (write_header(index) != KVT_OK)
        return kvt_error_set(err, KVT_IO, "write %s", path);
    return KVT_OK;
}

enum kvt_err
kvbm_disk_index_open(struct kvbm_disk_index **out, const struct kvbm_disk_index_options *options,
                     struct kvt_error *err)
{
    struct kvbm_disk_index *index;
    enum kvt_err rc;

    assert(options->parts > 0 && options->parts <= KVBM_DISK_PARTS_MAX);
    *out = NULL;
    index = kvt_calloc(1, sizeof(*index));
    if (index == NULL)
        return kvt_error_set(err, KVT_NOMEM, "disk tier's index");
    *index = (struct kvbm_disk_index){
        .fd = -1,
        .aio = options->aio,
        .block_count = options->block_count,
        .block_size = options->block_size,
        .parts = options->parts,
        .fingerprint = options->fingerprint,
    };
    (void)pthread_mutex_init(&index->lock, NULL);
    (void)pthread_mutex_init(&index->sync_lock, NULL);
    index->record_bytes = (record_size(index) + RECORD_ALIGN - 1) / RECORD_ALIGN * RECORD_ALIGN;
    index->rows = kvt_calloc(index->block_count, sizeof(*index->rows));
    index->found = kvt_calloc(index->block_count, index->record_bytes);
    if (index->rows == NULL || index->found == NULL ||
        kvbm_block_map_init(&index->names, index->block_count) != KVT_OK) {
        rc = kvt_error_set(err, KVT_NOMEM, "disk tier's index");
        goto fail;
    }
    rc = open_file(index, options->path, err);
    if (rc != KVT_OK)
        goto fail;
    if (!header_fits(index)) {
        rc = begin_anew(index, options->path, err);
    } else {
        rc = load(index, err);
        name_rows(index);
        if (rc == KVT_OK)
            rc = erase_found_doubles(index, err);
    }
    if (rc != KVT_OK)
        goto fail;
    *out = index;
    return KVT_OK;

fail:
    kvbm_disk_index_close(index);
    return rc;
}

void
kvbm_disk_index_close(struct kvbm_disk_index *index)
{
    if (index == NULL)
        return;
    if (index->fd >= 0)
        (void)close(index->fd); /* and with it the lock */
    (void)pthread_mutex_destroy(&index->sync_lock);
    (void)pthread_mutex_destroy(&index->lock);
    kvbm_block_map_release(&index->names);
    kvt_free(index->found);
    kvt_free(index->rows);
    kvt_free(index);
}

bool
kvbm_disk_index_live(struct kvbm_disk_index *index, uint32_t block)
{
    bool live;

    (void)pthread_mutex_lock(&index->lock);
    live = index->rows[block].serial != 0;
    (void)pthread_mutex_unlock(&index->lock);
    return live;
}

bool
kvbm_disk_index_get(struct kvbm_disk_index *index, uint32_t block, struct kvbm_storage_name *entry,
                    uint32_t *crcs)
{
    const struct record *record;
    bool there = false;

    memset(entry, 0, sizeof(*entry));
    (void)pthread_mutex_lock(&index->lock);
    if (index->found == NULL || block >= index->block_count)
        goto done;
    record = found_at(index, block);
    if (record->parts == 0)
        goto done;
    there = true;
    *entry = (struct kvbm_storage_name){
        .block = block,
        .id = {record->hash, record->parent, record->position},
        .prefix_hash = record->prefix_hash,
        .tokens_hash = record->tokens_hash,
    };
    memcpy(crcs, record->crcs, index->parts * sizeof(*crcs));

done:
    (void)pthread_mutex_unlock(&index->lock);
    return there;
}

void
kvbm_disk_index_forget_found(struct kvbm_disk_index *index)
{
    (void)pthread_mutex_lock(&index->lock);
    kvt_free(index->found);
    index->found = NULL;
    (void)pthread_mutex_unlock(&index->lock);
}

enum kvt_err
kvbm_disk_index_erase(struct kvbm_disk_index *index, const uint32_t *blocks, size_t count)
{
    enum kvt_err rc = atomic_load(&index->broken) ? KVT_IO : KVT_OK;

    (void)pthread_mutex_lock(&index->lock);
    for (size_t i = 0; rc == KVT_OK && i < count; i++)
        rc = write_zeros(index, blocks[i]);
    (void)pthread_mutex_unlock(&index->lock);
    if (rc == KVT_OK)
        rc = kvbm_disk_index_sync(index);
    (void)pthread_mutex_lock(&index->lock);
    for (size_t i = 0; rc == KVT_OK && i < count; i++)
        clear_locked(index, blocks[i]);
    (void)pthread_mutex_unlock(&index->lock);
    return rc == KVT_OK ? KVT_OK : KVT_IO;
}

/* Write a record; one that did not come through is taken back, or nothing is trusted any more. */
static enum kvt_err
write_record_locked(struct kvbm_disk_index *index, const struct kvbm_storage_name *entry,
                    const uint32_t *crcs, uint64_t serial)
{
    union {
        struct record record;
        uint8_t bytes[FIXED_BYTES + (KVBM_DISK_PARTS_MAX + 1) * sizeof(uint32_t)];
    } out;
    const size_t size = record_size(index);
    const size_t checked = size - sizeof(uint32_t);
    enum kvt_err rc;
    uint32_t crc;

    out.record = (struct record){
        .block = entry->block,
        .position = entry->id.position,
        .nonce = index->nonce,
        .serial = serial,
        .hash = entry->id.hash,
        .parent = entry->id.parent,
        .prefix_hash = entry->prefix_hash,
        .tokens_hash = entry->tokens_hash,
        .parts = index->parts,
    };
    memcpy(out.bytes + FIXED_BYTES, crcs, index->parts * sizeof(*crcs));
    crc = kvbm_crc32c(0, out.bytes, checked);
    memcpy(out.bytes + checked, &crc, sizeof(crc));
    rc = kvbm_aio_write(index->aio, index->fd, out.bytes, size, record_offset(index, entry->block));
    if (rc != KVT_OK && write_zeros(index, entry->block) != KVT_OK)
        atomic_store(&index->broken, true);
    return rc;
}

enum kvt_err
kvbm_disk_index_put(struct kvbm_disk_index *index, const struct kvbm_storage_name *entry,
                    const uint32_t *crcs, struct kvbm_disk_double *before)
{
    const uint64_t hash = entry->id.hash;
    enum kvt_err rc = KVT_IO;

    *before = (struct kvbm_disk_double){0, 0};
    (void)pthread_mutex_lock(&index->lock);
    if (!atomic_load(&index->broken)) {
        const uint64_t serial = ++index->serial;

        clear_locked(index, entry->block); /* the new record lies over the old one */
        rc = write_record_locked(index, entry, crcs, serial);
        index->rows[entry->block] = (struct row){hash, serial}; /* also where it failed half-way */
    }
    if (rc == KVT_OK) {
        uint32_t other;

        if (kvbm_block_map_get(&index->names, hash, &other)) {
            *before = (struct kvbm_disk_double){index->rows[other].serial, other};
            kvbm_block_map_remove(&index->names, hash);
        }
        kvbm_block_map_put(&index->names, hash, entry->block);
    }
    (void)pthread_mutex_unlock(&index->lock);
    return rc;
}

enum kvt_err
kvbm_disk_index_erase_doubles(struct kvbm_disk_index *index, const struct kvbm_disk_double *doubles,
                              size_t count)
{
    enum kvt_err rc = KVT_OK;
    bool any = false;

    /* A block whose record is another one by now was erased by whoever wrote it anew. */
    (void)pthread_mutex_lock(&index->lock);
    for (size_t i = 0; rc == KVT_OK && i < count; i++)
        if (doubles[i].serial != 0 && index->rows[doubles[i].block].serial == doubles[i].serial) {
            rc = write_zeros(index, doubles[i].block);
            any = true;
        }
    if (rc != KVT_OK)
        atomic_store(&index->broken, true); /* it could come back under a name that is given anew */
    (void)pthread_mutex_unlock(&index->lock);
    if (rc == KVT_OK && any)
        rc = kvbm_disk_index_sync(index);
    (void)pthread_mutex_lock(&index->lock);
    for (size_t i = 0; rc == KVT_OK && i < count; i++)
        if (doubles[i].serial != 0 && index->rows[doubles[i].block].serial == doubles[i].serial)
            clear_locked(index, doubles[i].block);
    (void)pthread_mutex_unlock(&index->lock);
    return rc == KVT_OK ? KVT_OK : KVT_IO;
}

/* The system tells of a failed write-back once: whoever syncs next must see the verdict first. */
static enum kvt_err
sync_file(struct kvbm_disk_index *index, int fd)
{
    enum kvt_err rc;

    (void)pthread_mutex_lock(&index->sync_lock);
    rc = atomic_load(&index->broken) ? KVT_IO : kvbm_aio_sync(index->aio, fd);
    if (rc != KVT_OK)
        atomic_store(&index->broken, true);
    (void)pthread_mutex_unlock(&index->sync_lock);
    return rc;
}

enum kvt_err
kvbm_disk_index_sync(struct kvbm_disk_index *index)
{
    return sync_file(index, index->fd);
}

enum kvt_err
kvbm_disk_index_sync_data(struct kvbm_disk_index *index, int fd)
{
    return sync_file(index, fd);
}
