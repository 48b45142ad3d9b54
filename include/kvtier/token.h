/*
 * kvtier/token.h -- Dynamo's hashes of tokens and of sequences.
 *
 * Why: engines whose block hashes differ from process to process are told apart by what is in the
 * blocks.  All producers that send tokens, or Dynamo's hashes of them, then speak of the same
 * blocks by the same name.
 *
 * Limits:    whole blocks only.
 *
 * Formula (dynamo-kv-router 1.6.1; vectors in tests/unit/base/core/token_test.c):
 *   local    h   = XXH3-64(tokens as LE32 || media hashes as LE64, ascending; seed)
 *   seed         = 1337 + (adapter ? XXH3-64(adapter; 0) : 0) + (salt ? XXH3-64(salt; 1) : 0)
 *   sequence s_0 = h_0,  s_i = XXH3-64(LE64(s_{i-1}) || LE64(h_i); 1337)
 */
#ifndef KVTIER_TOKEN_H
#define KVTIER_TOKEN_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define KVT_TOKEN_SEED UINT64_C(1337)

/** Empty or NULL names count as absent. */
uint64_t kvt_token_seed(const char *adapter, size_t adapter_size, const char *salt,
                        size_t salt_size);

/** Local hash of one block of `count` tokens. */
uint64_t kvt_token_block(const uint32_t *tokens, size_t count, const uint64_t *media,
                         size_t media_count, uint64_t seed);

/** Sequence hash of a block: of its own local hash at position 0, of the chain behind it. */
uint64_t kvt_token_chain(uint64_t parent_sequence, uint64_t local);

#ifdef __cplusplus
}
#endif

#endif /* KVTIER_TOKEN_H */
