#include "g4/packed/manifest.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/core/alloc.h"
#include "g4/object/check.h"
#include "g4/object/little_endian.h"

enum {
    VERSION = 1,
    CHECKED = 16,

    AT_VERSION = 8,
    AT_CRC = 12,
    AT_NUMBER = 16,
    AT_EPOCH = 24,
    AT_NONCE = 32,
    AT_TIME = 40,
    AT_SEGMENTS = 48,
    AT_BLOCKS = 52,
    AT_NAMESPACE = 56, /* crc of it: a manifest of another namespace is not ours */
    AT_UNUSED = 60,

    SEGMENT_EPOCH = 0,
    SEGMENT_NONCE = 8,
    SEGMENT_BYTES = 16,
    SEGMENT_BLOCKS = 24,
    SEGMENT_UNUSED = 28,

    BLOCK_SEGMENT = G4_SEGMENT_ENTRY_FREE,
    BLOCK_STATE = G4_SEGMENT_ENTRY_FREE + 4,

    NAME_DIGITS = 16,
};

#define KEY_MIDDLE G4_SEGMENT_FOLDER "manifest/"

static const char magic[8] = {'K', 'V', 'T', 'M', 'A', 'N', '\r', '\n'};

/* ---- names ---- */

enum kvt_err
g4_manifest_key(char out[KVT_KEY_MAX], const char *namespace_, uint64_t number)
{
    int size;

    out[0] = '\0';
    if (namespace_[0] == '\0')
        return KVT_INVALID;
    size = snprintf(out, KVT_KEY_MAX, "%s" KEY_MIDDLE "%016" PRIx64, namespace_, number);
    if (size >= 0 && size < KVT_KEY_MAX)
        return KVT_OK;
    out[0] = '\0';
    return KVT_RANGE;
}

enum kvt_err
g4_manifest_key_parse(const char *key, const char *namespace_, uint64_t *number)
{
    const size_t size = strlen(key);
    char again[KVT_KEY_MAX];

    *number = 0;
    if (size > NAME_DIGITS && kvt_hash_parse(key + size - NAME_DIGITS, number) && *number > 0 &&
        g4_manifest_key(again, namespace_, *number) == KVT_OK && strcmp(again, key) == 0)
        return KVT_OK;
    *number = 0;
    return KVT_INVALID;
}

bool
g4_manifest_key_like(const char *key)
{
    const size_t tail = strlen(KEY_MIDDLE) + NAME_DIGITS;
    const size_t size = strlen(key);
    char namespace_[KVT_KEY_MAX];
    uint64_t number;

    if (size <= tail || size >= sizeof(namespace_))
        return false;
    memcpy(namespace_, key, size - tail);
    namespace_[size - tail] = '\0';
    return g4_manifest_key_parse(key, namespace_, &number) == KVT_OK;
}

/* ---- rows ---- */

void
g4_manifest_release(struct g4_manifest *manifest)
{
    kvt_free(manifest->segments);
    kvt_free(manifest->blocks);
    memset(manifest, 0, sizeof(*manifest));
}

static int
compare_blocks(const void *a, const void *b)
{
    const struct g4_manifest_block *one = a;
    const struct g4_manifest_block *other = b;

    return g4_segment_entry_compare(&one->entry, &other->entry);
}

const struct g4_manifest_block *
g4_manifest_find(const struct g4_manifest *manifest, const struct g4_segment_entry *entry)
{
    const struct g4_manifest_block wanted = {.entry = *entry};

    if (manifest->block_count == 0)
        return NULL;
    return bsearch(&wanted, manifest->blocks, manifest->block_count, sizeof(wanted),
                   compare_blocks);
}

static enum kvt_err
make_room(struct g4_manifest *manifest, size_t segments, size_t blocks)
{
    if (segments > 0)
        manifest->segments = kvt_calloc(segments, sizeof(*manifest->segments));
    if (blocks > 0)
        manifest->blocks = kvt_calloc(blocks, sizeof(*manifest->blocks));
    if ((segments == 0 || manifest->segments != NULL) && (blocks == 0 || manifest->blocks != NULL))
        return KVT_OK;
    g4_manifest_release(manifest);
    return KVT_NOMEM;
}

/* ---- bytes ---- */

static size_t
whole_size(size_t segments, size_t blocks)
{
    return G4_MANIFEST_HEADER_SIZE + segments * G4_MANIFEST_SEGMENT_SIZE +
           blocks * G4_SEGMENT_ENTRY_SIZE;
}

static void
write_header(const struct g4_manifest *manifest, const char *namespace_, uint8_t *bytes)
{
    memset(bytes, 0, G4_MANIFEST_HEADER_SIZE);
    memcpy(bytes, magic, sizeof(magic));
    g4_little_endian_put(bytes + AT_VERSION, VERSION, 4);
    g4_little_endian_put(bytes + AT_NUMBER, manifest->number, 8);
    g4_little_endian_put(bytes + AT_EPOCH, manifest->epoch, 8);
    g4_little_endian_put(bytes + AT_NONCE, manifest->nonce, 8);
    g4_little_endian_put(bytes + AT_TIME, manifest->time_ms, 8);
    g4_little_endian_put(bytes + AT_SEGMENTS, manifest->segment_count, 4);
    g4_little_endian_put(bytes + AT_BLOCKS, manifest->block_count, 4);
    g4_little_endian_put(bytes + AT_NAMESPACE, g4_check_crc32c(namespace_, strlen(namespace_)), 4);
}

enum kvt_err
g4_manifest_encode(const struct g4_manifest *manifest, const char *namespace_,
                   struct kvt_buffer *out)
{
    const size_t size = whole_size(manifest->segment_count, manifest->block_count);
    uint8_t *bytes = kvt_buffer_reserve(out, size);
    uint8_t *row;

    if (bytes == NULL)
        return KVT_NOMEM;
    write_header(manifest, namespace_, bytes);
    row = bytes + G4_MANIFEST_HEADER_SIZE;
    for (size_t i = 0; i < manifest->segment_count; i++, row += G4_MANIFEST_SEGMENT_SIZE) {
        const struct g4_manifest_segment *segment = &manifest->segments[i];

        g4_little_endian_put(row + SEGMENT_EPOCH, segment->name.epoch, 8);
        g4_little_endian_put(row + SEGMENT_NONCE, segment->name.nonce, 8);
        g4_little_endian_put(row + SEGMENT_BYTES, segment->size, 8);
        g4_little_endian_put(row + SEGMENT_BLOCKS, segment->blocks, 4);
        g4_little_endian_put(row + SEGMENT_UNUSED, 0, 4);
    }
    for (size_t i = 0; i < manifest->block_count; i++, row += G4_SEGMENT_ENTRY_SIZE) {
        g4_segment_entry_put(row, &manifest->blocks[i].entry);
        g4_little_endian_put(row + BLOCK_SEGMENT, manifest->blocks[i].segment, 4);
        g4_little_endian_put(row + BLOCK_STATE, manifest->blocks[i].state, 4);
    }
    g4_little_endian_put(bytes + AT_CRC, g4_check_crc32c(bytes + CHECKED, size - CHECKED), 4);
    out->size += size;
    return KVT_OK;
}

static bool
read_segment(const uint8_t *row, struct g4_manifest_segment *segment)
{
    segment->name = (struct g4_segment_name){.epoch = g4_little_endian_get(row + SEGMENT_EPOCH, 8),
                                             .nonce = g4_little_endian_get(row + SEGMENT_NONCE, 8)};
    segment->size = g4_little_endian_get(row + SEGMENT_BYTES, 8);
    segment->blocks = (uint32_t)g4_little_endian_get(row + SEGMENT_BLOCKS, 4);
    return segment->size <= G4_SEGMENT_BYTES_MAX && segment->blocks > 0 &&
           segment->blocks <= G4_SEGMENT_BLOCKS_MAX &&
           segment->size > G4_SEGMENT_HEADER_SIZE + G4_SEGMENT_TRAILER_SIZE +
                               (uint64_t)segment->blocks * G4_SEGMENT_ENTRY_SIZE &&
           g4_little_endian_get(row + SEGMENT_UNUSED, 4) == 0;
}

/* Where the bodies of a segment end. */
static uint64_t
bodies_end(const struct g4_manifest_segment *segment)
{
    return segment->size - G4_SEGMENT_TRAILER_SIZE -
           (uint64_t)segment->blocks * G4_SEGMENT_ENTRY_SIZE;
}

static bool
read_block(const uint8_t *row, struct g4_manifest *manifest, struct g4_manifest_block *block)
{
    const uint64_t segment = g4_little_endian_get(row + BLOCK_SEGMENT, 4);
    const uint64_t state = g4_little_endian_get(row + BLOCK_STATE, 4);
    struct g4_manifest_segment *at;

    if (!g4_segment_entry_get(row, &block->entry) || segment >= manifest->segment_count ||
        state > G4_MANIFEST_PACKED)
        return false;
    block->segment = (uint32_t)segment;
    block->state = (enum g4_manifest_state)state;
    at = &manifest->segments[segment];
    at->live_blocks++;
    at->live_bytes += block->entry.length;
    at->pending += block->state == G4_MANIFEST_PENDING;
    return (uint64_t)block->entry.offset + block->entry.length <= bodies_end(at) &&
           at->live_blocks <= at->blocks;
}

static enum kvt_err
read_rows(struct g4_manifest *manifest, const uint8_t *row, struct kvt_error *err)
{
    for (size_t i = 0; i < manifest->segment_count; i++, row += G4_MANIFEST_SEGMENT_SIZE) {
        struct g4_manifest_segment *segment = &manifest->segments[i];

        if (!read_segment(row, segment) ||
            (i > 0 && g4_segment_name_compare(&segment[-1].name, &segment->name) >= 0))
            return kvt_error_set(err, KVT_CORRUPT, "segment %zu of a manifest cannot be so", i);
    }
    for (size_t i = 0; i < manifest->block_count; i++, row += G4_SEGMENT_ENTRY_SIZE) {
        struct g4_manifest_block *block = &manifest->blocks[i];

        if (!read_block(row, manifest, block) || (i > 0 && compare_blocks(block - 1, block) >= 0))
            return kvt_error_set(err, KVT_CORRUPT, "block %zu of a manifest cannot be so", i);
    }
    for (size_t i = 0; i < manifest->segment_count; i++)
        if (manifest->segments[i].live_blocks == 0)
            return kvt_error_set(err, KVT_CORRUPT, "a manifest with segment %zu for nothing", i);
    return KVT_OK;
}

static enum kvt_err
read_header(struct g4_manifest *manifest, const uint8_t *bytes, size_t size, const char *namespace_,
            struct kvt_error *err)
{
    if (size < G4_MANIFEST_HEADER_SIZE || size > G4_MANIFEST_BYTES_MAX ||
        memcmp(bytes, magic, sizeof(magic)) != 0)
        return kvt_error_set(err, KVT_CORRUPT, "%zu bytes are no manifest", size);
    if (g4_little_endian_get(bytes + AT_VERSION, 4) != VERSION)
        return kvt_error_set(err, KVT_CORRUPT, "manifest version %" PRIu64 ", expected %d",
                             g4_little_endian_get(bytes + AT_VERSION, 4), VERSION);
    if (g4_little_endian_get(bytes + AT_CRC, 4) != g4_check_crc32c(bytes + CHECKED, size - CHECKED))
        return kvt_error_set(err, KVT_CORRUPT, "the manifest fails its crc");
    manifest->number = g4_little_endian_get(bytes + AT_NUMBER, 8);
    manifest->epoch = g4_little_endian_get(bytes + AT_EPOCH, 8);
    manifest->nonce = g4_little_endian_get(bytes + AT_NONCE, 8);
    manifest->time_ms = g4_little_endian_get(bytes + AT_TIME, 8);
    if (g4_little_endian_get(bytes + AT_NAMESPACE, 4) !=
        g4_check_crc32c(namespace_, strlen(namespace_)))
        return kvt_error_set(err, KVT_CORRUPT, "a manifest of another namespace");
    return KVT_OK;
}

enum kvt_err
g4_manifest_decode(struct g4_manifest *manifest, const void *bytes, size_t size,
                   const char *namespace_, uint64_t number, struct kvt_error *err)
{
    const uint8_t *at = bytes;
    size_t segments = 0;
    size_t blocks = 0;
    enum kvt_err rc;

    memset(manifest, 0, sizeof(*manifest));
    rc = read_header(manifest, at, size, namespace_, err);
    if (rc == KVT_OK) {
        segments = (size_t)g4_little_endian_get(at + AT_SEGMENTS, 4);
        blocks = (size_t)g4_little_endian_get(at + AT_BLOCKS, 4);
        if (segments > G4_MANIFEST_SEGMENTS_MAX || blocks > G4_MANIFEST_BLOCKS_MAX ||
            whole_size(segments, blocks) != size || g4_little_endian_get(at + AT_UNUSED, 4) != 0 ||
            manifest->number != number)
            rc = kvt_error_set(err, KVT_CORRUPT,
                               "manifest %" PRIu64 " of %zu bytes, number %" PRIu64, number, size,
                               manifest->number);
    }
    if (rc == KVT_OK && make_room(manifest, segments, blocks) != KVT_OK)
        rc = kvt_error_set(err, KVT_NOMEM, "no memory for a manifest of %zu blocks", blocks);
    if (rc == KVT_OK) {
        manifest->segment_count = segments;
        manifest->block_count = blocks;
        rc = read_rows(manifest, at + G4_MANIFEST_HEADER_SIZE, err);
    }
    if (rc != KVT_OK)
        g4_manifest_release(manifest);
    return rc;
}

/* ---- the next one ---- */

int
g4_manifest_change_compare(const void *a, const void *b)
{
    const struct g4_manifest_change *one = a;
    const struct g4_manifest_change *other = b;

    return compare_blocks(&one->block, &other->block);
}

/* Rows of both, a change in place of the row it speaks of.  False: not sorted, or too many. */
static enum kvt_err
merge_blocks(struct g4_manifest *out, const struct g4_manifest *base,
             const struct g4_manifest_change *changes, size_t count)
{
    size_t at = 0;

    for (size_t i = 0; i < count || at < base->block_count;) {
        const int order = i == count ? 1
                          : at == base->block_count
                              ? -1
                              : compare_blocks(&changes[i].block, &base->blocks[at]);
        const bool changed = order <= 0;

        if (!changed || !changes[i].drop) {
            if (out->block_count == G4_MANIFEST_BLOCKS_MAX)
                return KVT_FULL;
            out->blocks[out->block_count++] = changed ? changes[i].block : base->blocks[at];
        }
        at += order >= 0;
        if (changed && ++i < count && g4_manifest_change_compare(&changes[i - 1], &changes[i]) >= 0)
            return KVT_INVALID;
    }
    return KVT_OK;
}

/* A segment on its way into the next manifest. */
struct mover {
    struct g4_manifest_segment segment;
    uint32_t row; /* by which blocks know it */
};

static int
compare_movers(const void *a, const void *b)
{
    const struct mover *one = a;
    const struct mover *other = b;

    return g4_segment_name_compare(&one->segment.name, &other->segment.name);
}

/* Count what is needed of each segment, leave out the others, sort, and number the blocks anew. */
static enum kvt_err
merge_segments(struct g4_manifest *out, struct mover *movers, uint32_t *rows, size_t total)
{
    for (size_t i = 0; i < out->block_count; i++) {
        const struct g4_manifest_block *block = &out->blocks[i];
        struct g4_manifest_segment *segment;

        if (block->segment >= total)
            return KVT_INVALID;
        segment = &movers[block->segment].segment;
        segment->live_blocks++;
        segment->live_bytes += block->entry.length;
        segment->pending += block->state == G4_MANIFEST_PENDING;
    }
    qsort(movers, total, sizeof(*movers), compare_movers);
    for (size_t i = 0; i < total; i++) {
        if (i > 0 && compare_movers(&movers[i - 1], &movers[i]) == 0)
            return KVT_INVALID;
        if (movers[i].segment.live_blocks == 0)
            continue;
        if (movers[i].segment.live_blocks > movers[i].segment.blocks)
            return KVT_INVALID;
        if (out->segment_count == G4_MANIFEST_SEGMENTS_MAX)
            return KVT_FULL;
        rows[movers[i].row] = (uint32_t)out->segment_count;
        out->segments[out->segment_count++] = movers[i].segment;
    }
    for (size_t i = 0; i < out->block_count; i++)
        out->blocks[i].segment = rows[out->blocks[i].segment];
    return KVT_OK;
}

enum kvt_err
g4_manifest_merge(struct g4_manifest *out, const struct g4_manifest *base,
                  const struct g4_manifest_change *changes, size_t count,
                  const struct g4_manifest_segment *added, size_t added_count)
{
    const size_t total = base->segment_count + added_count;
    struct mover *movers = kvt_calloc(total + 1, sizeof(*movers));
    uint32_t *rows = kvt_calloc(total + 1, sizeof(*rows));
    enum kvt_err rc = KVT_NOMEM;

    memset(out, 0, sizeof(*out));
    if (movers == NULL || rows == NULL)
        goto fail;
    rc = make_room(out, total, base->block_count + count);
    if (rc != KVT_OK)
        goto fail;
    out->number = base->number + 1;
    out->epoch = base->epoch;
    for (size_t i = 0; i < total; i++) {
        const struct g4_manifest_segment *from =
            i < base->segment_count ? &base->segments[i] : &added[i - base->segment_count];

        movers[i] = (struct mover){.segment = *from, .row = (uint32_t)i};
        movers[i].segment.live_blocks = 0;
        movers[i].segment.live_bytes = 0;
        movers[i].segment.pending = 0;
    }
    rc = merge_blocks(out, base, changes, count);
    if (rc == KVT_OK)
        rc = merge_segments(out, movers, rows, total);
fail:
    if (rc != KVT_OK)
        g4_manifest_release(out);
    kvt_free(movers);
    kvt_free(rows);
    return rc;
}
