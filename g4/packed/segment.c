#include "g4/packed/segment.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/buffer.h"
#include "g4/object/check.h"
#include "g4/object/little_endian.h"

enum {
    VERSION = 1,
    CHECKED = 16, /* crcs of header and trailer cover what lies behind them */

    AT_VERSION = 8,
    AT_CRC = 12,

    HEADER_EPOCH = 16,
    HEADER_NONCE = 24,

    TRAILER_INDEX = 16,
    TRAILER_SIZE = 24,
    TRAILER_COUNT = 32,
    TRAILER_INDEX_CRC = 36,
    TRAILER_EPOCH = 40,
    TRAILER_NONCE = 48,
    TRAILER_UNUSED = 56,

    ROW_HASH = 0,
    ROW_PARENT = 8,
    ROW_FINGERPRINT = 16,
    ROW_PLACE = 24, /* rank << 24 | position */
    ROW_CRC = 28,
    ROW_OFFSET = 32,
    ROW_LENGTH = 36,
    ROW_MODIFIED = 48,
    ROW_ETAG = 56,

    NAME_DIGITS = 16,
};

#define KEY_MIDDLE G4_SEGMENT_FOLDER "segment/"

_Static_assert(G4_SEGMENT_BYTES_MAX <= UINT32_MAX, "offsets have 32 bits");
_Static_assert(KVT_RANKS_MAX <= 256 && KVT_POSITION_MAX < (1u << 24), "a place has 32 bits");

static const char header_magic[8] = {'K', 'V', 'T', 'S', 'E', 'G', '\r', '\n'};
static const char trailer_magic[8] = {'K', 'V', 'T', 'S', 'E', 'N', 'D', '\n'};

/* ---- names ---- */

enum kvt_err
g4_segment_key(char out[KVT_KEY_MAX], const char *namespace_, const struct g4_segment_name *name)
{
    int size;

    out[0] = '\0';
    if (namespace_[0] == '\0')
        return KVT_INVALID;
    size = snprintf(out, KVT_KEY_MAX, "%s" KEY_MIDDLE "%016" PRIx64 "-%016" PRIx64, namespace_,
                    name->epoch, name->nonce);
    if (size >= 0 && size < KVT_KEY_MAX)
        return KVT_OK;
    out[0] = '\0';
    return KVT_RANGE;
}

enum kvt_err
g4_segment_key_parse(const char *key, const char *namespace_, struct g4_segment_name *name)
{
    const size_t before = strlen(namespace_);
    char digits[NAME_DIGITS + 1];
    char again[KVT_KEY_MAX];

    memset(name, 0, sizeof(*name));
    if (strncmp(key, namespace_, before) != 0 ||
        strncmp(key + before, KEY_MIDDLE, strlen(KEY_MIDDLE)) != 0)
        return KVT_INVALID;
    key += before + strlen(KEY_MIDDLE);
    if (strlen(key) != 2 * NAME_DIGITS + 1)
        return KVT_INVALID;
    (void)snprintf(digits, sizeof(digits), "%.16s", key);
    if (!kvt_hash_parse(digits, &name->epoch) ||
        !kvt_hash_parse(key + NAME_DIGITS + 1, &name->nonce) ||
        g4_segment_key(again, namespace_, name) != KVT_OK ||
        strcmp(again + before + strlen(KEY_MIDDLE), key) != 0) {
        memset(name, 0, sizeof(*name));
        return KVT_INVALID;
    }
    return KVT_OK;
}

int
g4_segment_name_compare(const struct g4_segment_name *a, const struct g4_segment_name *b)
{
    if (a->epoch != b->epoch)
        return a->epoch < b->epoch ? -1 : 1;
    return a->nonce < b->nonce ? -1 : a->nonce > b->nonce;
}

/* ---- entries ---- */

struct g4_segment_entry
g4_segment_entry_of(const struct kvt_key *key)
{
    return (struct g4_segment_entry){.hash = key->hash,
                                     .parent = key->parent_fragment,
                                     .rank = key->rank,
                                     .position = key->position};
}

int
g4_segment_entry_compare(const struct g4_segment_entry *a, const struct g4_segment_entry *b)
{
    if (a->hash != b->hash)
        return a->hash < b->hash ? -1 : 1;
    if (a->parent != b->parent)
        return a->parent < b->parent ? -1 : 1;
    if (a->rank != b->rank)
        return a->rank < b->rank ? -1 : 1;
    return a->position < b->position ? -1 : a->position > b->position;
}

static int
compare(const void *a, const void *b)
{
    return g4_segment_entry_compare(a, b);
}

enum kvt_err
g4_segment_entry_key(char out[KVT_KEY_MAX], const char *namespace_,
                     const struct g4_segment_entry *entry)
{
    const struct kvt_block_id block = {
        .hash = entry->hash, .parent = entry->parent, .position = entry->position};

    /* Revision C keeps all bits, so what stood in the key of any revision stands in it again. */
    return kvt_key_format(out, KVT_KEY_MAX, KVT_KEY_KVBM_C, namespace_, entry->rank, &block);
}

void
g4_segment_entry_put(uint8_t row[G4_SEGMENT_ENTRY_SIZE], const struct g4_segment_entry *entry)
{
    g4_little_endian_put(row + ROW_HASH, entry->hash, 8);
    g4_little_endian_put(row + ROW_PARENT, entry->parent, 8);
    g4_little_endian_put(row + ROW_FINGERPRINT, entry->fingerprint, 8);
    g4_little_endian_put(row + ROW_PLACE, entry->rank << 24 | entry->position, 4);
    g4_little_endian_put(row + ROW_CRC, entry->crc32c, 4);
    g4_little_endian_put(row + ROW_OFFSET, entry->offset, 4);
    g4_little_endian_put(row + ROW_LENGTH, entry->length, 4);
    g4_little_endian_put(row + ROW_MODIFIED, entry->modified_ms, 8);
    memcpy(row + ROW_ETAG, entry->etag, G4_SEGMENT_ETAG);
}

/* Printable, with nothing behind its end. */
static bool
etag_valid(const char etag[G4_SEGMENT_ETAG])
{
    const size_t size = strnlen(etag, G4_SEGMENT_ETAG);

    for (size_t i = 0; i < G4_SEGMENT_ETAG; i++)
        if (i < size ? etag[i] <= ' ' || etag[i] > '~' : etag[i] != '\0')
            return false;
    return true;
}

bool
g4_segment_entry_get(const uint8_t row[G4_SEGMENT_ENTRY_SIZE], struct g4_segment_entry *entry)
{
    const uint32_t place = (uint32_t)g4_little_endian_get(row + ROW_PLACE, 4);

    *entry = (struct g4_segment_entry){
        .hash = g4_little_endian_get(row + ROW_HASH, 8),
        .parent = g4_little_endian_get(row + ROW_PARENT, 8),
        .fingerprint = g4_little_endian_get(row + ROW_FINGERPRINT, 8),
        .rank = place >> 24,
        .position = place & KVT_POSITION_MAX,
        .crc32c = (uint32_t)g4_little_endian_get(row + ROW_CRC, 4),
        .offset = (uint32_t)g4_little_endian_get(row + ROW_OFFSET, 4),
        .length = (uint32_t)g4_little_endian_get(row + ROW_LENGTH, 4),
        .modified_ms = g4_little_endian_get(row + ROW_MODIFIED, 8),
    };
    memcpy(entry->etag, row + ROW_ETAG, G4_SEGMENT_ETAG);
    if (entry->rank < KVT_RANKS_MAX && entry->length > 0 &&
        entry->offset >= G4_SEGMENT_HEADER_SIZE && entry->offset < G4_SEGMENT_BYTES_MAX &&
        entry->length <= G4_SEGMENT_BYTES_MAX - entry->offset &&
        (entry->position > 0 || entry->parent == 0) && etag_valid(entry->etag))
        return true;
    memset(entry, 0, sizeof(*entry));
    return false;
}

struct g4_meta
g4_segment_entry_meta(const struct g4_segment_entry *entry)
{
    return (struct g4_meta){.present = true,
                            .length = entry->length,
                            .crc32c = entry->crc32c,
                            .fingerprint = entry->fingerprint};
}

bool
g4_segment_entry_set_etag(struct g4_segment_entry *entry, const char *etag)
{
    const size_t size = strlen(etag);

    memset(entry->etag, 0, sizeof(entry->etag));
    if (size > sizeof(entry->etag))
        return false;
    memcpy(entry->etag, etag, size);
    return true;
}

void
g4_segment_entry_etag(const struct g4_segment_entry *entry, char out[G4_ETAG_MAX])
{
    memset(out, 0, G4_ETAG_MAX);
    memcpy(out, entry->etag, sizeof(entry->etag));
}

bool
g4_segment_entry_same(const struct g4_segment_entry *a, const struct g4_segment_entry *b)
{
    return g4_segment_entry_compare(a, b) == 0 && a->length == b->length &&
           a->crc32c == b->crc32c && a->fingerprint == b->fingerprint &&
           memcmp(a->etag, b->etag, sizeof(a->etag)) == 0;
}

/* ---- writing ---- */

struct g4_segment_builder {
    struct kvt_buffer bytes;
    struct g4_segment_entry *entries;
    size_t count;
    size_t blocks_max;
    bool finished;
};

/* Bytes of a segment whose bodies end at `end`. */
static size_t
whole_size(size_t end, size_t count)
{
    return end + count * G4_SEGMENT_ENTRY_SIZE + G4_SEGMENT_TRAILER_SIZE;
}

void
g4_segment_builder_clear(struct g4_segment_builder *builder)
{
    kvt_buffer_clear(&builder->bytes);
    builder->count = 0;
    builder->finished = false;
}

enum kvt_err
g4_segment_builder_new(struct g4_segment_builder **out, size_t bytes_max, size_t blocks_max)
{
    struct g4_segment_builder *builder;

    *out = NULL;
    if (bytes_max > G4_SEGMENT_BYTES_MAX || blocks_max == 0 || blocks_max > G4_SEGMENT_BLOCKS_MAX ||
        bytes_max < whole_size(G4_SEGMENT_HEADER_SIZE + 1, 1))
        return KVT_RANGE;
    builder = kvt_calloc(1, sizeof(*builder));
    if (builder == NULL)
        return KVT_NOMEM;
    kvt_buffer_init(&builder->bytes, bytes_max);
    builder->blocks_max = blocks_max;
    builder->entries = kvt_calloc(blocks_max, sizeof(*builder->entries));
    if (builder->entries == NULL) {
        kvt_free(builder);
        return KVT_NOMEM;
    }
    *out = builder;
    return KVT_OK;
}

void
g4_segment_builder_free(struct g4_segment_builder *builder)
{
    if (builder == NULL)
        return;
    kvt_buffer_release(&builder->bytes);
    kvt_free(builder->entries);
    kvt_free(builder);
}

size_t
g4_segment_builder_count(const struct g4_segment_builder *builder)
{
    return builder->count;
}

enum kvt_err
g4_segment_builder_add(struct g4_segment_builder *builder, const struct g4_segment_entry *block,
                       const void *body, size_t size, struct kvt_error *err)
{
    struct g4_meta stored = g4_segment_entry_meta(block);
    const size_t end = builder->count == 0 ? G4_SEGMENT_HEADER_SIZE : builder->bytes.size;
    struct g4_segment_entry *entry = &builder->entries[builder->count];
    enum kvt_err rc;

    assert(!builder->finished);
    if (size == 0)
        return kvt_error_set(err, KVT_INVALID, "a block without bytes cannot be packed");
    if (size > builder->bytes.limit ||
        whole_size(G4_SEGMENT_HEADER_SIZE + size, 1) > builder->bytes.limit)
        return kvt_error_set(err, KVT_RANGE, "a block of %zu bytes, segments have %zu", size,
                             builder->bytes.limit);
    if (builder->count == builder->blocks_max ||
        whole_size(end + size, builder->count + 1) > builder->bytes.limit)
        return kvt_error_set(err, KVT_FULL, "the segment is full");
    if (stored.length == 0)
        stored.length = size;
    rc = g4_check_body(&stored, NULL, body, size, err);
    if (rc != KVT_OK)
        return rc;

    if (builder->count == 0) {
        uint8_t *header = kvt_buffer_reserve(&builder->bytes, G4_SEGMENT_HEADER_SIZE);

        if (header != NULL) {
            memset(header, 0, G4_SEGMENT_HEADER_SIZE);
            builder->bytes.size += G4_SEGMENT_HEADER_SIZE;
        }
    }
    kvt_buffer_append(&builder->bytes, body, size);
    if (!kvt_buffer_ok(&builder->bytes)) {
        builder->bytes.size = builder->count == 0 ? 0 : end;
        builder->bytes.failed = false;
        return kvt_error_set(err, KVT_NOMEM, "no memory for a segment");
    }
    *entry = *block;
    entry->offset = (uint32_t)end;
    entry->length = (uint32_t)size;
    builder->count++;
    return KVT_OK;
}

static void
write_header(uint8_t header[G4_SEGMENT_HEADER_SIZE], const struct g4_segment_name *name)
{
    memcpy(header, header_magic, sizeof(header_magic));
    g4_little_endian_put(header + AT_VERSION, VERSION, 4);
    g4_little_endian_put(header + HEADER_EPOCH, name->epoch, 8);
    g4_little_endian_put(header + HEADER_NONCE, name->nonce, 8);
    g4_little_endian_put(header + AT_CRC,
                         g4_check_crc32c(header + CHECKED, G4_SEGMENT_HEADER_SIZE - CHECKED), 4);
}

/* `index` is where it begins, `count` rows of it are written; the trailer follows them. */
static void
write_trailer(uint8_t *trailer, const struct g4_segment_name *name, size_t index, size_t count)
{
    const size_t rows = count * G4_SEGMENT_ENTRY_SIZE;

    memset(trailer, 0, G4_SEGMENT_TRAILER_SIZE);
    memcpy(trailer, trailer_magic, sizeof(trailer_magic));
    g4_little_endian_put(trailer + AT_VERSION, VERSION, 4);
    g4_little_endian_put(trailer + TRAILER_INDEX, index, 8);
    g4_little_endian_put(trailer + TRAILER_SIZE, whole_size(index, count), 8);
    g4_little_endian_put(trailer + TRAILER_COUNT, count, 4);
    g4_little_endian_put(trailer + TRAILER_INDEX_CRC, g4_check_crc32c(trailer - rows, rows), 4);
    g4_little_endian_put(trailer + TRAILER_EPOCH, name->epoch, 8);
    g4_little_endian_put(trailer + TRAILER_NONCE, name->nonce, 8);
    g4_little_endian_put(trailer + AT_CRC,
                         g4_check_crc32c(trailer + CHECKED, G4_SEGMENT_TRAILER_SIZE - CHECKED), 4);
}

enum kvt_err
g4_segment_builder_finish(struct g4_segment_builder *builder, const struct g4_segment_name *name,
                          const void **bytes, size_t *size, const struct g4_segment_entry **entries)
{
    const size_t index = builder->bytes.size;
    const size_t whole = whole_size(index, builder->count);
    uint8_t *row;

    *bytes = NULL;
    *size = 0;
    *entries = NULL;
    if (builder->count == 0 || builder->finished)
        return KVT_INVALID;
    qsort(builder->entries, builder->count, sizeof(*builder->entries), compare);
    for (size_t i = 1; i < builder->count; i++)
        if (compare(&builder->entries[i - 1], &builder->entries[i]) == 0)
            return KVT_INVALID;
    row = kvt_buffer_reserve(&builder->bytes, whole - index);
    if (row == NULL) {
        builder->bytes.failed = false;
        return KVT_NOMEM;
    }
    for (size_t i = 0; i < builder->count; i++, row += G4_SEGMENT_ENTRY_SIZE) {
        g4_segment_entry_put(row, &builder->entries[i]);
        g4_little_endian_put(row + G4_SEGMENT_ENTRY_FREE, 0, 8);
    }
    write_trailer(row, name, index, builder->count);
    write_header(builder->bytes.data, name);
    builder->bytes.size = whole;
    builder->finished = true;
    *bytes = builder->bytes.data;
    *size = whole;
    *entries = builder->entries;
    return KVT_OK;
}

/* ---- reading ---- */

/* What both ends of a segment have in common: magic, version, crc of what is behind them. */
static enum kvt_err
check_end(const uint8_t *end, size_t size, const char magic[8], const char *which,
          struct kvt_error *err)
{
    if (memcmp(end, magic, 8) != 0)
        return kvt_error_set(err, KVT_CORRUPT, "not the %s of a segment", which);
    if (g4_little_endian_get(end + AT_VERSION, 4) != VERSION)
        return kvt_error_set(err, KVT_CORRUPT, "segment version %" PRIu64 ", expected %d",
                             g4_little_endian_get(end + AT_VERSION, 4), VERSION);
    if (g4_little_endian_get(end + AT_CRC, 4) != g4_check_crc32c(end + CHECKED, size - CHECKED))
        return kvt_error_set(err, KVT_CORRUPT, "the segment's %s fails its crc", which);
    return KVT_OK;
}

static enum kvt_err
read_trailer(struct g4_segment *segment, const uint8_t *trailer, uint64_t size,
             struct kvt_error *err)
{
    const uint64_t index = g4_little_endian_get(trailer + TRAILER_INDEX, 8);
    const uint64_t count = g4_little_endian_get(trailer + TRAILER_COUNT, 4);
    const enum kvt_err rc =
        check_end(trailer, G4_SEGMENT_TRAILER_SIZE, trailer_magic, "trailer", err);

    if (rc != KVT_OK)
        return rc;
    if (g4_little_endian_get(trailer + TRAILER_SIZE, 8) != size || size > G4_SEGMENT_BYTES_MAX)
        return kvt_error_set(err, KVT_CORRUPT, "a segment of %" PRIu64 " bytes, expected %" PRIu64,
                             size, g4_little_endian_get(trailer + TRAILER_SIZE, 8));
    if (count == 0 || count > G4_SEGMENT_BLOCKS_MAX || index <= G4_SEGMENT_HEADER_SIZE ||
        index > size || whole_size(index, count) != size ||
        g4_little_endian_get(trailer + TRAILER_UNUSED, 8) != 0)
        return kvt_error_set(err, KVT_CORRUPT, "a segment with %" PRIu64 " blocks before %" PRIu64,
                             count, index);
    segment->name =
        (struct g4_segment_name){.epoch = g4_little_endian_get(trailer + TRAILER_EPOCH, 8),
                                 .nonce = g4_little_endian_get(trailer + TRAILER_NONCE, 8)};
    segment->size = size;
    segment->bodies_end = index;
    segment->count = count;
    return KVT_OK;
}

/* All bodies are in the index: their lengths are what lies before it. */
static enum kvt_err
read_index(struct g4_segment *segment, const uint8_t *row, struct kvt_error *err)
{
    uint64_t bodies = 0;

    for (size_t i = 0; i < segment->count; i++, row += G4_SEGMENT_ENTRY_SIZE) {
        struct g4_segment_entry *entry = &segment->entries[i];

        if (!g4_segment_entry_get(row, entry) ||
            (uint64_t)entry->offset + entry->length > segment->bodies_end ||
            (i > 0 && compare(entry - 1, entry) >= 0) ||
            g4_little_endian_get(row + G4_SEGMENT_ENTRY_FREE, 8) != 0)
            return kvt_error_set(err, KVT_CORRUPT, "row %zu of the segment's index cannot be so",
                                 i);
        bodies += entry->length;
    }
    if (bodies != segment->bodies_end - G4_SEGMENT_HEADER_SIZE)
        return kvt_error_set(err, KVT_CORRUPT, "a segment's index of %" PRIu64 " bytes", bodies);
    return KVT_OK;
}

enum kvt_err
g4_segment_open(struct g4_segment *segment, const void *tail, size_t tail_size, uint64_t size,
                size_t *need, struct kvt_error *err)
{
    const uint8_t *end = (const uint8_t *)tail + tail_size;
    size_t rows;
    enum kvt_err rc;

    memset(segment, 0, sizeof(*segment));
    *need = 0;
    if (tail_size < G4_SEGMENT_TRAILER_SIZE || tail_size > size)
        return kvt_error_set(err, KVT_CORRUPT, "%zu bytes are no segment", tail_size);
    rc = read_trailer(segment, end - G4_SEGMENT_TRAILER_SIZE, size, err);
    if (rc != KVT_OK)
        return rc;
    rows = segment->count * G4_SEGMENT_ENTRY_SIZE;
    if (rows + G4_SEGMENT_TRAILER_SIZE > tail_size) {
        *need = rows + G4_SEGMENT_TRAILER_SIZE;
        rc = kvt_error_set(err, KVT_AGAIN, "the index is in the last %zu bytes", *need);
        goto fail;
    }
    end -= G4_SEGMENT_TRAILER_SIZE;
    if (g4_little_endian_get(end + TRAILER_INDEX_CRC, 4) != g4_check_crc32c(end - rows, rows)) {
        rc = kvt_error_set(err, KVT_CORRUPT, "the segment's index fails its crc");
        goto fail;
    }
    segment->entries = kvt_calloc(segment->count, sizeof(*segment->entries));
    rc = segment->entries == NULL ? kvt_error_set(err, KVT_NOMEM, "no memory for a segment's index")
                                  : read_index(segment, end - rows, err);
    if (rc == KVT_OK)
        return KVT_OK;
fail:
    g4_segment_release(segment);
    return rc;
}

void
g4_segment_release(struct g4_segment *segment)
{
    kvt_free(segment->entries);
    memset(segment, 0, sizeof(*segment));
}

enum kvt_err
g4_segment_check(const struct g4_segment *segment, const void *bytes, size_t size,
                 struct kvt_error *err)
{
    const uint8_t *header = bytes;
    enum kvt_err rc;

    if (size != segment->size)
        return kvt_error_set(err, KVT_CORRUPT, "%zu bytes of a segment, expected %" PRIu64, size,
                             segment->size);
    rc = check_end(header, G4_SEGMENT_HEADER_SIZE, header_magic, "header", err);
    if (rc == KVT_OK && (g4_little_endian_get(header + HEADER_EPOCH, 8) != segment->name.epoch ||
                         g4_little_endian_get(header + HEADER_NONCE, 8) != segment->name.nonce))
        rc = kvt_error_set(err, KVT_CORRUPT, "the segment's header has another name");
    for (size_t i = 0; i < segment->count && rc == KVT_OK; i++) {
        const struct g4_segment_entry *entry = &segment->entries[i];
        const struct g4_meta meta = g4_segment_entry_meta(entry);

        rc = g4_check_body(&meta, NULL, header + entry->offset, entry->length, err);
    }
    return rc;
}
