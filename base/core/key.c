#include "kvtier/key.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

static const char alphabet[] = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz";

enum { BASE = 58, HASH_BYTES = 8 };

static uint64_t
low_bits(uint64_t value, unsigned bits)
{
    return bits >= 64 ? value : value & ((UINT64_C(1) << bits) - 1);
}

/* Bits of the parent fragment: a longer position leaves it less room in KVBM's 128 bits. */
static unsigned
parent_bits(enum kvt_key_revision revision, uint32_t position)
{
    const unsigned mode = position < (1u << 8) ? 0 : position < (1u << 16) ? 1 : 2;

    if (revision == KVT_KEY_KVBM_A)
        return 59 - 4 * mode;
    if (revision == KVT_KEY_KVBM_B)
        return 54 - 8 * mode;
    return 64;
}

/* What stands in the key for the block itself.  Revision A also cuts it to the width that its child
 * will have for a parent, so that both fragments agree across the boundary of a position width. */
static uint64_t
current_part(enum kvt_key_revision revision, const struct kvt_block_id *block)
{
    if (revision != KVT_KEY_KVBM_A)
        return block->hash;
    return low_bits(block->hash, parent_bits(revision, block->position + 1));
}

uint64_t
kvt_key_parent_fragment(enum kvt_key_revision revision, uint32_t position, uint64_t parent)
{
    return position == 0 ? 0 : low_bits(parent, parent_bits(revision, position));
}

/* Bytes of `value` that are not leading zeros. */
static unsigned
significant_bytes(uint64_t value)
{
    unsigned count = 0;

    for (; value != 0; value >>= 8)
        count++;
    return count;
}

void
kvt_key_base58(uint64_t value, char out[KVT_KEY_BASE58_MAX])
{
    char reversed[KVT_KEY_BASE58_MAX];
    size_t zeros = HASH_BYTES - significant_bytes(value);
    size_t digits = 0;
    size_t at = 0;

    for (; value != 0; value /= BASE)
        reversed[digits++] = alphabet[value % BASE];
    while (zeros-- > 0)
        out[at++] = alphabet[0];
    while (digits > 0)
        out[at++] = reversed[--digits];
    out[at] = '\0';
    assert(at < KVT_KEY_BASE58_MAX);
}

enum kvt_err
kvt_key_base58_parse(const char *text, size_t size, uint64_t *value)
{
    char again[KVT_KEY_BASE58_MAX];
    uint64_t sum = 0;

    *value = 0;
    if (size == 0 || size >= KVT_KEY_BASE58_MAX)
        return KVT_INVALID;
    for (size_t i = 0; i < size; i++) {
        const char *digit = text[i] == '\0' ? NULL : strchr(alphabet, text[i]);

        if (digit == NULL || __builtin_mul_overflow(sum, (uint64_t)BASE, &sum) ||
            __builtin_add_overflow(sum, (uint64_t)(digit - alphabet), &sum))
            return KVT_INVALID;
    }
    /* One hash, one text: too few or too many leading ones would be a second name for one block. */
    kvt_key_base58(sum, again);
    if (strlen(again) != size || memcmp(again, text, size) != 0)
        return KVT_INVALID;
    *value = sum;
    return KVT_OK;
}

/* What begins like this in a bucket is KVTier's own, whatever follows. */
#define RESERVED ".kvtier-"

/* Segments must be there and must not be "." or "..": they end up in URLs and folders. */
static bool
namespace_valid(const char *text, size_t size)
{
    size_t start = 0;

    if (size >= KVT_NAMESPACE_MAX)
        return false;
    if (size == 0)
        return true;
    if (size >= strlen(RESERVED) && memcmp(text, RESERVED, strlen(RESERVED)) == 0)
        return false;
    for (size_t i = 0; i <= size; i++) {
        size_t length;

        if (i < size && text[i] != '/') {
            if ((unsigned char)text[i] < 0x20 || text[i] == 0x7f)
                return false;
            continue;
        }
        length = i - start;
        if (length == 0 || (length == 1 && text[start] == '.') ||
            (length == 2 && text[start] == '.' && text[start + 1] == '.'))
            return false;
        start = i + 1;
    }
    return true;
}

enum kvt_err
kvt_key_format(char *out, size_t size, enum kvt_key_revision revision, const char *namespace_,
               uint32_t rank, const struct kvt_block_id *block)
{
    char current[KVT_KEY_BASE58_MAX];
    char parent[KVT_KEY_BASE58_MAX] = "";
    int length;

    assert(out != NULL && size > 0);
    out[0] = '\0';
    if (block->position > KVT_POSITION_MAX || rank >= KVT_RANKS_MAX)
        return KVT_RANGE;
    if (!namespace_valid(namespace_, strlen(namespace_)))
        return KVT_INVALID;

    kvt_key_base58(current_part(revision, block), current);
    if (block->position > 0)
        kvt_key_base58(kvt_key_parent_fragment(revision, block->position, block->parent), parent);
    length = snprintf(out, size, "%s%s%u/%u:%s%s%s", namespace_, namespace_[0] == '\0' ? "" : "/",
                      rank, block->position, current, block->position > 0 ? ":" : "", parent);
    if (length < 0 || (size_t)length >= size) {
        out[0] = '\0';
        return KVT_RANGE;
    }
    return KVT_OK;
}

/* A canonical decimal number (no sign, no leading zero) of at most `limit` in all of `size` bytes.
 */
static bool
parse_number(const char *text, size_t size, uint32_t limit, uint32_t *value)
{
    uint64_t sum = 0;

    *value = 0;
    if (size == 0 || size > 10 || (size > 1 && text[0] == '0'))
        return false;
    for (size_t i = 0; i < size; i++) {
        if (text[i] < '0' || text[i] > '9')
            return false;
        sum = sum * 10 + (uint64_t)(text[i] - '0');
    }
    if (sum > limit)
        return false;
    *value = (uint32_t)sum;
    return true;
}

/* "<pos>:<b58>" at position 0, "<pos>:<b58>:<b58>" elsewhere. */
static bool
parse_block(const char *text, struct kvt_key *key)
{
    const char *colon = strchr(text, ':');
    const char *second;
    size_t size;

    if (colon == NULL ||
        !parse_number(text, (size_t)(colon - text), KVT_POSITION_MAX, &key->position))
        return false;
    second = strchr(colon + 1, ':');
    if ((second != NULL) != (key->position > 0))
        return false;
    size = second == NULL ? strlen(colon + 1) : (size_t)(second - colon - 1);
    if (kvt_key_base58_parse(colon + 1, size, &key->hash) != KVT_OK)
        return false;
    return second == NULL ||
           kvt_key_base58_parse(second + 1, strlen(second + 1), &key->parent_fragment) == KVT_OK;
}

enum kvt_err
kvt_key_parse(const char *key, struct kvt_key *out)
{
    const char *slash = strrchr(key, '/');
    const char *rank;
    size_t namespace_size = 0;

    *out = (struct kvt_key){.rank = 0};
    if (slash == NULL || strlen(key) >= KVT_KEY_MAX)
        return KVT_INVALID;
    for (rank = slash; rank > key && rank[-1] != '/'; rank--)
        ;
    if (rank > key) {
        namespace_size = (size_t)(rank - key) - 1;
        if (namespace_size == 0 || !namespace_valid(key, namespace_size))
            return KVT_INVALID;
    }
    if (!parse_number(rank, (size_t)(slash - rank), KVT_RANKS_MAX - 1, &out->rank) ||
        !parse_block(slash + 1, out)) {
        *out = (struct kvt_key){.rank = 0};
        return KVT_INVALID;
    }
    memcpy(out->namespace_, key, namespace_size);
    out->namespace_[namespace_size] = '\0';
    return KVT_OK;
}
