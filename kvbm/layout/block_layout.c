/* The portable description: fingerprint and descriptor.  Shapes are in layout_shape.c. */
#include "kvbm/layout/block_layout.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>
#define XXH_INLINE_ALL /* libkvbm needs no library for it */
#include <xxhash.h>

enum { VERSION_1 = 1, VERSION = 2, MAGIC_BYTES = 4, HEAD_BYTES = MAGIC_BYTES + 4 };
enum { WORDS_1 = 9, WORDS = 11, TAIL_BYTES = 8 + 4 };

/* magic, version u32, the geometry's words u32, fingerprint u64, checksum u32; little-endian */
static const uint8_t magic[MAGIC_BYTES] = {'K', 'V', 'T', 'L'};

_Static_assert(KVBM_LAYOUT_BYTES_V1 == HEAD_BYTES + WORDS_1 * 4 + TAIL_BYTES, "descriptor 1");
_Static_assert(KVBM_LAYOUT_BYTES == HEAD_BYTES + WORDS * 4 + TAIL_BYTES, "descriptor 2");

enum { TP_RANK = 8 }; /* the word that the fingerprint leaves out */

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
    words[TP_RANK] = geometry->tp_rank;
    words[9] = geometry->heads;
    words[10] = (uint32_t)geometry->order;
}

static const char *const word_names[WORDS] = {"kind",      "layers",      "outer",     "page_size",
                                              "inner_dim", "dtype_bytes", "alignment", "tp_size",
                                              "tp_rank",   "heads",       "order"};

/* Heads not told apart is all that version 1 could say: such a layout is named as it was then. */
static uint64_t
fingerprint_of(const struct kvt_geometry *geometry)
{
    const unsigned count = geometry->heads == 0 ? WORDS_1 : WORDS;
    uint8_t bytes[4 + WORDS * 4];
    uint32_t words[WORDS];
    size_t size = 4;
    uint64_t hash;

    to_words(geometry, words);
    put_u32(bytes, geometry->heads == 0 ? VERSION_1 : VERSION);
    for (size_t i = 0; i < count; i++) {
        if (i == TP_RANK)
            continue;
        put_u32(bytes + size, words[i]);
        size += 4;
    }
    hash = XXH3_64bits(bytes, size);
    return hash == 0 ? 1 : hash; /* 0 means "no fingerprint" in an object's metadata */
}

enum kvt_err
kvbm_layout_make(struct kvbm_layout *out, const struct kvt_geometry *geometry,
                 struct kvt_error *err)
{
    const enum kvt_err rc = kvbm_layout_shape(out, geometry, err);

    if (rc == KVT_OK)
        out->fingerprint = fingerprint_of(geometry);
    return rc;
}

void
kvbm_layout_serialize(const struct kvbm_layout *layout, uint8_t out[KVBM_LAYOUT_BYTES])
{
    const uint64_t fingerprint = fingerprint_of(&layout->geometry);
    uint32_t words[WORDS];
    uint8_t *at = out;

    memcpy(at, magic, MAGIC_BYTES);
    at += MAGIC_BYTES;
    put_u32(at, VERSION);
    at += 4;
    to_words(&layout->geometry, words);
    for (size_t i = 0; i < WORDS; i++, at += 4)
        put_u32(at, words[i]);
    put_u32(at, (uint32_t)fingerprint);
    put_u32(at + 4, (uint32_t)(fingerprint >> 32));
    at += 8;
    put_u32(at, (uint32_t)XXH3_64bits(out, (size_t)(at - out)));
}

static struct kvt_geometry
from_words(const uint32_t words[WORDS])
{
    return (struct kvt_geometry){
        .kind = (enum kvt_layout_kind)words[0],
        .layers = words[1],
        .outer = words[2],
        .page_size = words[3],
        .inner_dim = words[4],
        .dtype_bytes = words[5],
        .alignment = words[6],
        .tp_size = words[7],
        .tp_rank = words[TP_RANK],
        .heads = words[9],
        .order = (enum kvt_layout_order)words[10],
    };
}

enum kvt_err
kvbm_layout_deserialize(struct kvbm_layout *out, const uint8_t *bytes, size_t size,
                        struct kvt_error *err)
{
    uint32_t words[WORDS] = {0};
    struct kvt_geometry geometry;
    const uint8_t *tail;
    uint32_t version;
    uint64_t fingerprint;
    enum kvt_err rc;

    assert(out != NULL);
    memset(out, 0, sizeof(*out));
    if (size < HEAD_BYTES || memcmp(bytes, magic, MAGIC_BYTES) != 0)
        return kvt_error_set(err, KVT_INVALID, "no layout descriptor (%zu bytes)", size);
    version = get_u32(bytes + MAGIC_BYTES);
    if (version != VERSION_1 && version != VERSION)
        return kvt_error_set(err, KVT_INVALID,
                             "layout descriptor of version %" PRIu32 ", and 1 and 2 are known",
                             version);
    if (size != (version == VERSION ? KVBM_LAYOUT_BYTES : KVBM_LAYOUT_BYTES_V1))
        return kvt_error_set(err, KVT_INVALID, "layout descriptor of %zu bytes", size);
    if (get_u32(bytes + size - 4) != (uint32_t)XXH3_64bits(bytes, size - 4))
        return kvt_error_set(err, KVT_CORRUPT, "layout descriptor fails its checksum");
    for (size_t i = 0; i < (version == VERSION ? WORDS : WORDS_1); i++)
        words[i] = get_u32(bytes + HEAD_BYTES + 4 * i);
    geometry = from_words(words);
    rc = kvbm_layout_make(out, &geometry, err);
    if (rc != KVT_OK)
        return rc;
    tail = bytes + size - TAIL_BYTES;
    fingerprint = get_u32(tail) | (uint64_t)get_u32(tail + 4) << 32;
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
    for (size_t i = 0; i < WORDS; i++)
        if (i != TP_RANK && our_words[i] != their_words[i])
            return kvt_error_set(err, KVT_PRECONDITION,
                                 "layout mismatch: %s is %" PRIu32 " here, %" PRIu32 " there",
                                 word_names[i], our_words[i], their_words[i]);
    return KVT_OK;
}
