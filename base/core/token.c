#include "kvtier/token.h"

#include <string.h>
/* The hash of a few dozen bytes is less work than a call: take the code in, and with it a state
 * that may lie on the stack. */
#define XXH_INLINE_ALL
#include <xxhash.h>

/* The formulas speak of little-endian bytes, and numbers are hashed where they lie. */
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "hashes are of little-endian bytes");

enum { ADAPTER_SEED = 0, SALT_SEED = 1, JOINED_MAX = 2048 };

uint64_t
kvt_token_seed(const char *adapter, size_t adapter_size, const char *salt, size_t salt_size)
{
    uint64_t seed = KVT_TOKEN_SEED;

    if (adapter != NULL && adapter_size > 0)
        seed += XXH3_64bits_withSeed(adapter, adapter_size, ADAPTER_SEED);
    if (salt != NULL && salt_size > 0)
        seed += XXH3_64bits_withSeed(salt, salt_size, SALT_SEED);
    return seed;
}

uint64_t
kvt_token_block(const uint32_t *tokens, size_t count, const uint64_t *media, size_t media_count,
                uint64_t seed)
{
    const size_t tokens_size = count * sizeof(*tokens);
    const size_t media_size = media_count * sizeof(*media);
    uint8_t joined[JOINED_MAX];
    XXH3_state_t state;

    if (media_count == 0)
        return XXH3_64bits_withSeed(tokens, tokens_size, seed);
    if (tokens_size <= sizeof(joined) && media_size <= sizeof(joined) - tokens_size) {
        memcpy(joined, tokens, tokens_size);
        memcpy(joined + tokens_size, media, media_size);
        return XXH3_64bits_withSeed(joined, tokens_size + media_size, seed);
    }
    XXH3_INITSTATE(&state);
    (void)XXH3_64bits_reset_withSeed(&state, seed);
    (void)XXH3_64bits_update(&state, tokens, tokens_size);
    (void)XXH3_64bits_update(&state, media, media_size);
    return XXH3_64bits_digest(&state);
}

uint64_t
kvt_token_chain(uint64_t parent_sequence, uint64_t local)
{
    const uint64_t link[2] = {parent_sequence, local};

    return XXH3_64bits_withSeed(link, sizeof(link), KVT_TOKEN_SEED);
}
