/* What leaders say: arrays of numbers. */
#include "engine/leader/session_internal.h"

void
engine_session_words_put(struct kvt_buffer *out, const uint64_t *words, size_t count)
{
    engine_pack_array(out, (uint32_t)count);
    for (size_t i = 0; i < count; i++)
        engine_pack_number(out, words[i]);
}

void
engine_session_words_read(struct engine_session_words *words, const uint8_t *bytes, size_t size)
{
    const uint32_t most = size < UINT32_MAX ? (uint32_t)size : UINT32_MAX;

    words->in = (struct engine_unpack){.bytes = bytes, .size = size};
    words->left = engine_unpack_array(&words->in, 0, most); /* a word is a byte or more */
}

uint64_t
engine_session_words_next(struct engine_session_words *words, uint64_t max)
{
    uint64_t value;

    if (words->left == 0)
        words->in.bad = true;
    value = engine_unpack_number(&words->in, max);
    if (!words->in.bad)
        words->left--;
    return value;
}

bool
engine_session_words_end(const struct engine_session_words *words)
{
    return words->left == 0 && engine_unpack_end(&words->in);
}

void
engine_session_words_of_label(uint64_t words[ENGINE_SESSION_LABEL_WORDS],
                              const struct kvbm_label *label)
{
    words[0] = label->id.hash;
    words[1] = label->id.parent;
    words[2] = label->id.position;
    words[3] = label->prefix_hash;
    words[4] = label->tokens_hash;
}

void
engine_session_words_label(struct engine_session_words *words, struct kvbm_label *label)
{
    label->id.hash = engine_session_words_next(words, UINT64_MAX);
    label->id.parent = engine_session_words_next(words, UINT64_MAX);
    label->id.position = (uint32_t)engine_session_words_next(words, KVT_POSITION_MAX);
    label->prefix_hash = engine_session_words_next(words, UINT64_MAX);
    label->tokens_hash = engine_session_words_next(words, UINT64_MAX);
}
