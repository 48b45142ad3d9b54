#include "worker/replay/block_content.h"

#include <assert.h>
#include <endian.h>

enum { GROUP = 8 }; /* words compared before one branch */

static uint64_t
start_of(uint64_t hash)
{
    hash ^= hash >> 30;
    hash *= UINT64_C(0xbf58476d1ce4e5b9);
    hash ^= hash >> 27;
    hash *= UINT64_C(0x94d049bb133111eb);
    return hash ^ (hash >> 31);
}

static inline uint64_t
word_at(uint64_t start, size_t i)
{
    const uint64_t mixed = (start + i) * UINT64_C(0x9e3779b97f4a7c15);

    return htole64(mixed ^ (mixed >> 29));
}

static void
assert_shape(const void *bytes, size_t size)
{
    assert((uintptr_t)bytes % sizeof(uint64_t) == 0);
    assert(size % (GROUP * sizeof(uint64_t)) == 0);
    (void)bytes;
}

void
worker_content_fill(uint64_t hash, void *bytes, size_t size)
{
    const uint64_t start = start_of(hash);
    const size_t words = size / sizeof(uint64_t);
    uint64_t *out = bytes;

    assert_shape(bytes, size);
    for (size_t i = 0; i < words; i++)
        out[i] = word_at(start, i);
}

/* Only for words known to differ. */
static size_t
differing_bytes(uint64_t difference)
{
    size_t count = 0;

    for (; difference != 0; difference >>= 8)
        if ((difference & 0xff) != 0)
            count++;
    return count;
}

/* Offset of the lowest differing byte of a word, as it lies in memory. */
static size_t
first_in_word(uint64_t difference)
{
    return (size_t)__builtin_ctzll(le64toh(difference)) / 8;
}

size_t
worker_content_check(uint64_t hash, const void *bytes, size_t size, size_t *first)
{
    const uint64_t start = start_of(hash);
    const size_t words = size / sizeof(uint64_t);
    const uint64_t *in = bytes;
    size_t wrong = 0;

    assert_shape(bytes, size);
    *first = 0;
    for (size_t at = 0; at < words; at += GROUP) {
        uint64_t difference = 0;

        for (size_t i = at; i < at + GROUP; i++)
            difference |= in[i] ^ word_at(start, i);
        if (difference == 0)
            continue;
        for (size_t i = at; i < at + GROUP; i++) {
            const uint64_t word = in[i] ^ word_at(start, i);

            if (word == 0)
                continue;
            if (wrong == 0)
                *first = i * sizeof(uint64_t) + first_in_word(word);
            wrong += differing_bytes(word);
        }
    }
    return wrong;
}
