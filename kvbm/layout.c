#include "kvbm/layout.h"

#include <assert.h>
#include <inttypes.h>
#include <stdbool.h>
#include <string.h>
#include <xxhash.h>

#include "kvtier/block.h"

enum { VERSION = 1, MAGIC_BYTES = 4, WORDS = 9, WORD_BYTES = 4 * WORDS };

/* magic, version u32, the nine geometry words u32, fingerprint u64, checksum u32; little-endian */
static const uint8_t magic[MAGIC_BYTES] = {'K', 'V', 'T', 'L'};

_Static_assert(KVBM_LAYOUT_BYTES == MAGIC_BYTES + 4 + WORDS * 4 + 8 + 4, "descriptor size");

static bool
power_of_two(uint32_t value)
{
    return value != 0 && (value & (value - 1)) == 0;
}

static uint64_t
align_up(uint64_t value, uint64_t alignment)
{
    return (value + alignment - 1) & ~(alignment - 1);
}

static void
put_u32(uint8_t *out, uint32_t value)
{
    for (unsigned i = 0; i < 4; i++)
        out[i] = (uint8_t)(value >> (8 * i));
}

static uint32_t
get_u32(const uint8_t *bytes)
{
    uint32_t value = 0;

    for (unsigned i = 0; i < 4; i++)
        value |= (uint32_t)bytes[i] << (8 * i);
    return value;
}

/* The geometry as numbers in a fixed order; tp_rank comes last because the fingerprint omits it. */
static void
to_words(const struct kvt_geometry *geometry, uint32_t words[WORDS])
{
    words[0] = (uint32_t)geometry->kind;
    words[1] = geometry->layers;
    words[2] = geometry->outer;
    words[3] = geometry->page_size;
    words[4] = geometry->inner_dim;
    words[5] = geometry->dtype_bytes;
    words[6] = geometry->alignment;
    words[7] = geometry->tp_size;
    words[8] = geometry->tp_rank;
}

static const char *const word_names[WORDS] = {"kind",      "layers",    "outer",
                                              "page_size", "inner_dim", "dtype_bytes",
                                              "alignment", "tp_size",   "tp_rank"};

static uint64_t
fingerprint_of(const struct kvt_geometry *geometry)
{
    uint32_t words[WORDS];
    uint8_t bytes[4 + (WORDS - 1) * 4];
    uint64_t hash;

    to_words(geometry, words);
    put_u32(bytes, VERSION);
    for (size_t i = 0; i < WORDS - 1; i++)
        put_u32(bytes + 4 + 4 * i, words[i]);
    hash = XXH3_64bits(bytes, sizeof(bytes));
    return hash == 0 ? 1 : hash; /* 0 means "no fingerprint" in an object's metadata */
}

static enum kvt_err
check_geometry(const struct kvt_geometry *geometry, struct kvt_error *err)
{
    if (geometry->kind != KVT_LAYOUT_CONTIGUOUS && geometry->kind != KVT_LAYOUT_LAYERED)
        return kvt_error_set(err, KVT_INVALID, "layout: unknown kind %u", (unsigned)geometry->kind);
    if (geometry->layers == 0 || geometry->layers > KVT_LAYERS_MAX)
        return kvt_error_set(err, KVT_RANGE, "layout: layers %" PRIu32 " not in 1..%d",
                             geometry->layers, KVT_LAYERS_MAX);
    if (geometry->outer == 0 || geometry->outer > 2)
        return kvt_error_set(err, KVT_RANGE, "layout: outer %" PRIu32 " not in 1..2",
                             geometry->outer);
    if (!power_of_two(geometry->page_size) || geometry->page_size > KVT_PAGE_SIZE_MAX)
        return kvt_error_set(err, KVT_RANGE, "layout: page_size %" PRIu32 " no power of two <= %d",
                             geometry->page_size, KVT_PAGE_SIZE_MAX);
    if (geometry->inner_dim == 0 || geometry->inner_dim > KVT_INNER_DIM_MAX)
        return kvt_error_set(err, KVT_RANGE, "layout: inner_dim %" PRIu32 " not in 1..%u",
                             geometry->inner_dim, KVT_INNER_DIM_MAX);
    if (!power_of_two(geometry->dtype_bytes) || geometry->dtype_bytes > 8)
        return kvt_error_set(err, KVT_RANGE, "layout: dtype_bytes %" PRIu32 " not 1, 2, 4 or 8",
                             geometry->dtype_bytes);
    if (!power_of_two(geometry->alignment))
        return kvt_error_set(err, KVT_INVALID, "layout: alignment %" PRIu32 " no power of two",
                             geometry->alignment);
    if (geometry->tp_size == 0 || geometry->tp_size > KVT_RANKS_MAX)
        return kvt_error_set(err, KVT_RANGE, "layout: tp_size %" PRIu32 " not in 1..%d",
                             geometry->tp_size, KVT_RANKS_MAX);
    if (geometry->tp_rank >= geometry->tp_size)
        return kvt_error_set(err, KVT_RANGE, "layout: tp_rank %" PRIu32 " not below tp_size",
                             geometry->tp_rank);
    return KVT_OK;
}

enum kvt_err
kvbm_layout_make(struct kvbm_layout *out, const struct kvt_geometry *geometry,
                 struct kvt_error *err)
{
    enum kvt_err rc;
    uint64_t size;

    assert(out != NULL && geometry != NULL);
    memset(out, 0, sizeof(*out));
    rc = check_geometry(geometry, err);
    if (rc != KVT_OK)
        return rc;
    /* With every factor at its limit this is 2^50: no overflow before the check. */
    size = (uint64_t)geometry->page_size * geometry->inner_dim * geometry->dtype_bytes *
           geometry->outer * geometry->layers;
    if (size > KVT_BLOCK_SIZE_MAX)
        return kvt_error_set(err, KVT_RANGE, "layout: a block of %" PRIu64 " bytes", size);
    out->geometry = *geometry;
    out->block_size = size;
    out->layer_stride = size / geometry->layers;
    out->region_size = out->layer_stride / geometry->outer;
    out->block_stride = geometry->kind == KVT_LAYOUT_CONTIGUOUS
                            ? align_up(size, geometry->alignment)
                            : align_up(out->layer_stride, geometry->alignment);
    out->fingerprint = fingerprint_of(geometry);
    return KVT_OK;
}

uint64_t
kvbm_layout_offset(const struct kvbm_layout *layout, uint32_t block, uint32_t layer, uint32_t outer)
{
    uint64_t offset = (uint64_t)block * layout->block_stride + outer * layout->region_size;

    assert(layer < layout->geometry.layers);
    assert(outer < layout->geometry.outer);
    if (layout->geometry.kind == KVT_LAYOUT_CONTIGUOUS)
        offset += layer * layout->layer_stride;
    return offset;
}

uint64_t
kvbm_layout_packed_offset(const struct kvbm_layout *layout, uint32_t layer, uint32_t outer)
{
    assert(layer < layout->geometry.layers);
    assert(outer < layout->geometry.outer);
    return layer * layout->layer_stride + outer * layout->region_size;
}

uint64_t
kvbm_layout_allocation(const struct kvbm_layout *layout, uint32_t blocks)
{
    return blocks * layout->block_stride;
}

void
kvbm_layout_serialize(const struct kvbm_layout *layout, uint8_t out[KVBM_LAYOUT_BYTES])
{
    uint32_t words[WORDS];
    uint8_t *at = out;

    memcpy(at, magic, MAGIC_BYTES);
    at += MAGIC_BYTES;
    put_u32(at, VERSION);
    at += 4;
    to_words(&layout->geometry, words);
    for (size_t i = 0; i < WORDS; i++, at += 4)
        put_u32(at, words[i]);
    put_u32(at, (uint32_t)layout->fingerprint);
    put_u32(at + 4, (uint32_t)(layout->fingerprint >> 32));
    at += 8;
    put_u32(at, (uint32_t)XXH3_64bits(out, (size_t)(at - out)));
}

enum kvt_err
kvbm_layout_deserialize(struct kvbm_layout *out, const uint8_t *bytes, size_t size,
                        struct kvt_error *err)
{
    struct kvt_geometry geometry;
    const uint8_t *words = bytes + MAGIC_BYTES + 4;
    uint64_t fingerprint;
    enum kvt_err rc;

    assert(out != NULL);
    memset(out, 0, sizeof(*out));
    if (size != KVBM_LAYOUT_BYTES || memcmp(bytes, magic, MAGIC_BYTES) != 0)
        return kvt_error_set(err, KVT_INVALID, "no layout descriptor (%zu bytes)", size);
    if (get_u32(bytes + MAGIC_BYTES) != VERSION)
        return kvt_error_set(err, KVT_INVALID, "layout descriptor of version %" PRIu32,
                             get_u32(bytes + MAGIC_BYTES));
    if (get_u32(bytes + size - 4) != (uint32_t)XXH3_64bits(bytes, size - 4))
        return kvt_error_set(err, KVT_CORRUPT, "layout descriptor fails its checksum");
    geometry = (struct kvt_geometry){
        .kind = (enum kvt_layout_kind)get_u32(words),
        .layers = get_u32(words + 4),
        .outer = get_u32(words + 8),
        .page_size = get_u32(words + 12),
        .inner_dim = get_u32(words + 16),
        .dtype_bytes = get_u32(words + 20),
        .alignment = get_u32(words + 24),
        .tp_size = get_u32(words + 28),
        .tp_rank = get_u32(words + 32),
    };
    fingerprint = get_u32(words + WORD_BYTES) | (uint64_t)get_u32(words + WORD_BYTES + 4) << 32;
    rc = kvbm_layout_make(out, &geometry, err);
    if (rc != KVT_OK)
        return rc;
    if (out->fingerprint != fingerprint) {
        memset(out, 0, sizeof(*out));
        return kvt_error_set(err, KVT_CORRUPT, "layout descriptor's fingerprint does not fit it");
    }
    return KVT_OK;
}

enum kvt_err
kvbm_layout_compatible(const struct kvbm_layout *ours, const struct kvbm_layout *theirs,
                       struct kvt_error *err)
{
    uint32_t our_words[WORDS];
    uint32_t their_words[WORDS];

    to_words(&ours->geometry, our_words);
    to_words(&theirs->geometry, their_words);
    for (size_t i = 0; i < WORDS - 1; i++)
        if (our_words[i] != their_words[i])
            return kvt_error_set(err, KVT_PRECONDITION,
                                 "layout mismatch: %s is %" PRIu32 " here, %" PRIu32 " there",
                                 word_names[i], our_words[i], their_words[i]);
    return KVT_OK;
}
