#include "kvbm/disk_index.h"

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

#include "base/alloc.h"
#include "base/random.h"
#include "kvbm/checksum.h"

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

struct kvbm_disk_index {
    int fd;
    struct kvbm_aio *aio;
    uint32_t block_count;
    uint64_t block_size;
    uint32_t parts;
    size_t record_bytes;
    uint64_t fingerprint;
    uint64_t nonce;
    uint8_t *live;  /* one writer a block at a time */
    uint8_t *found; /* records as they were at opening, or NULL; all zero: none */
    _Atomic uint64_t serial;
    _Atomic bool broken;
    pthread_mutex_t found_lock; /* leaf; of `found` after opening */
    pthread_mutex_t sync_lock;  /* leaf; a sync and what it says are one step */
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
        index->live[block] = 1;
        if (record->serial > atomic_load(&index->serial))
            atomic_store(&index->serial, record->serial);
    }
    return KVT_OK;
}

/* By name, the latest first. */
static int
by_name(const void *a, const void *b, void *arg)
{
    const struct kvbm_disk_index *index = arg;
    const struct record *x = found_at(index, *(const uint32_t *)a);
    const struct record *y = found_at(index, *(const uint32_t *)b);

    if (x->hash != y->hash)
        return x->hash < y->hash ? -1 : 1;
    return (x->serial < y->serial) - (x->serial > y->serial);
}

/* Of each name only the latest record counts.  The others stay live: they are erased before their
 * blocks are used again. */
static enum kvt_err
drop_doubles(struct kvbm_disk_index *index, struct kvt_error *err)
{
    uint32_t *blocks = kvt_calloc(index->block_count, sizeof(*blocks));
    size_t count = 0;
    uint64_t hash = 0;

    if (blocks == NULL)
        return kvt_error_set(err, KVT_NOMEM, "disk tier's index");
    for (uint32_t block = 0; block < index->block_count; block++)
        if (index->live[block])
            blocks[count++] = block;
    qsort_r(blocks, count, sizeof(*blocks), by_name, index);
    for (size_t i = 0; i < count; i++) {
        struct record *record = found_at(index, blocks[i]);

        if (i > 0 && record->hash == hash)
            memset(record, 0, index->record_bytes);
        else
            hash = record->hash;
    }
    kvt_free(blocks);
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
    (void)pthread_mutex_init(&index->found_lock, NULL);
    (void)pthread_mutex_init(&index->sync_lock, NULL);
    index->record_bytes = (record_size(index) + RECORD_ALIGN - 1) / RECORD_ALIGN * RECORD_ALIGN;
    index->live = kvt_calloc(index->block_count, 1);
    index->found = kvt_calloc(index->block_count, index->record_bytes);
    if (index->live == NULL || index->found == NULL) {
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
        if (rc == KVT_OK)
            rc = drop_doubles(index, err);
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
    (void)pthread_mutex_destroy(&index->found_lock);
    kvt_free(index->found);
    kvt_free(index->live);
    kvt_free(index);
}

bool
kvbm_disk_index_live(const struct kvbm_disk_index *index, uint32_t block)
{
    return index->live[block] != 0;
}

/* What was there at opening is there no more: its block is written, named or forgotten anew. */
static void
unfind(struct kvbm_disk_index *index, uint32_t first, uint32_t count)
{
    (void)pthread_mutex_lock(&index->found_lock);
    if (index->found != NULL)
        memset(found_at(index, first), 0, count * index->record_bytes);
    (void)pthread_mutex_unlock(&index->found_lock);
}

bool
kvbm_disk_index_get(struct kvbm_disk_index *index, uint32_t block, struct kvbm_storage_name *entry,
                    uint32_t *crcs)
{
    const struct record *record;
    bool there = false;

    memset(entry, 0, sizeof(*entry));
    (void)pthread_mutex_lock(&index->found_lock);
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
    (void)pthread_mutex_unlock(&index->found_lock);
    return there;
}

void
kvbm_disk_index_forget_found(struct kvbm_disk_index *index)
{
    (void)pthread_mutex_lock(&index->found_lock);
    kvt_free(index->found);
    index->found = NULL;
    (void)pthread_mutex_unlock(&index->found_lock);
}

enum kvt_err
kvbm_disk_index_erase(struct kvbm_disk_index *index, const uint32_t *blocks, size_t count)
{
    static const uint8_t zeros[FIXED_BYTES];
    enum kvt_err rc = atomic_load(&index->broken) ? KVT_IO : KVT_OK;

    /* Without its nonce a record is none; its crcs may stay. */
    for (size_t i = 0; rc == KVT_OK && i < count; i++)
        rc = kvbm_aio_write(index->aio, index->fd, zeros, sizeof(zeros),
                            record_offset(index, blocks[i]));
    if (rc == KVT_OK)
        rc = kvbm_disk_index_sync(index);
    for (size_t i = 0; rc == KVT_OK && i < count; i++) {
        index->live[blocks[i]] = 0;
        unfind(index, blocks[i], 1);
    }
    return rc == KVT_OK ? KVT_OK : KVT_IO;
}

enum kvt_err
kvbm_disk_index_put(struct kvbm_disk_index *index, const struct kvbm_storage_name *entry,
                    const uint32_t *crcs)
{
    union {
        struct record record;
        uint8_t bytes[FIXED_BYTES + (KVBM_DISK_PARTS_MAX + 1) * sizeof(uint32_t)];
    } out;
    const size_t size = record_size(index);
    const size_t checked = size - sizeof(uint32_t);
    uint32_t crc;

    if (atomic_load(&index->broken))
        return KVT_IO;
    out.record = (struct record){
        .block = entry->block,
        .position = entry->id.position,
        .nonce = index->nonce,
        .serial = atomic_fetch_add(&index->serial, 1) + 1,
        .hash = entry->id.hash,
        .parent = entry->id.parent,
        .prefix_hash = entry->prefix_hash,
        .tokens_hash = entry->tokens_hash,
        .parts = index->parts,
    };
    memcpy(out.bytes + FIXED_BYTES, crcs, index->parts * sizeof(*crcs));
    crc = kvbm_crc32c(0, out.bytes, checked);
    memcpy(out.bytes + checked, &crc, sizeof(crc));
    unfind(index, entry->block, 1);
    index->live[entry->block] = 1; /* also where the write fails half-way */
    return kvbm_aio_write(index->aio, index->fd, out.bytes, size,
                          record_offset(index, entry->block));
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

enum kvt_err
kvbm_disk_index_clear(struct kvbm_disk_index *index)
{
    if (atomic_load(&index->broken))
        return KVT_IO;
    if (write_header(index) != KVT_OK) {
        atomic_store(&index->broken, true);
        return KVT_IO;
    }
    memset(index->live, 0, index->block_count);
    unfind(index, 0, index->block_count);
    return KVT_OK;
}
