/* What leaders say: arrays of numbers. */
#include "engine/session_internal.h"

enum {
    FIXINT_MAX = 0x7f,
    UINT8 = 0xcc,
    UINT64 = 0xcf,
    ARRAY32 = 0xdd,
};

static void
put(struct kvt_buffer *out, uint8_t lead, uint64_t value, unsigned width)
{
    uint8_t bytes[9] = {lead};

    for (unsigned i = 0; i < width; i++)
        bytes[1 + i] = (uint8_t)(value >> (8 * (width - 1 - i)));
    kvt_buffer_append(out, bytes, 1 + width);
}

void
engine_words_put(struct kvt_buffer *out, const uint64_t *words, size_t count)
{
    put(out, ARRAY32, count, 4);
    for (size_t i = 0; i < count; i++) {
        const uint64_t word = words[i];
        const unsigned shift = word <= UINT8_MAX    ? 0
                               : word <= UINT16_MAX ? 1
                               : word <= UINT32_MAX ? 2
                                                    : 3;

        if (word <= FIXINT_MAX)
            put(out, (uint8_t)word, 0, 0);
        else
            put(out, (uint8_t)(UINT8 + shift), word, 1u << shift);
    }
}

static uint64_t
big_endian(struct engine_words *words, unsigned width)
{
    uint64_t value = 0;

    if (words->bad || words->size - words->at < width) {
        words->bad = true;
        return 0;
    }
    for (unsigned i = 0; i < width; i++)
        value = value << 8 | words->bytes[words->at++];
    return value;
}

void
engine_words_read(struct engine_words *words, const uint8_t *bytes, size_t size)
{
    *words = (struct engine_words){.bytes = bytes, .size = size};
    words->bad = big_endian(words, 1) != ARRAY32;
    words->left = big_endian(words, 4);
    if (words->left > size) /* a word is a byte or more */
        words->bad = true;
}

uint64_t
engine_words_next(struct engine_words *words, uint64_t max)
{
    uint64_t value;

    if (words->left == 0)
        words->bad = true;
    value = big_endian(words, 1);
    if (value >= UINT8 && value <= UINT64)
        value = big_endian(words, 1u << (value - UINT8));
    else if (value > FIXINT_MAX)
        words->bad = true;
    if (value > max)
        words->bad = true;
    if (words->bad)
        return 0;
    words->left--;
    return value;
}

bool
engine_words_end(const struct engine_words *words)
{
    return !words->bad && words->left == 0 && words->at == words->size;
}

void
engine_words_of_label(uint64_t words[ENGINE_LABEL_WORDS], const struct kvbm_label *label)
{
    words[0] = label->id.hash;
    words[1] = label->id.parent;
    words[2] = label->id.position;
    words[3] = label->prefix_hash;
    words[4] = label->tokens_hash;
}

void
engine_words_label(struct engine_words *words, struct kvbm_label *label)
{
    label->id.hash = engine_words_next(words, UINT64_MAX);
    label->id.parent = engine_words_next(words, UINT64_MAX);
    label->id.position = (uint32_t)engine_words_next(words, KVT_POSITION_MAX);
    label->prefix_hash = engine_words_next(words, UINT64_MAX);
    label->tokens_hash = engine_words_next(words, UINT64_MAX);
}
