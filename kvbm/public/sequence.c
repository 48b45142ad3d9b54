#include <assert.h>
#include <inttypes.h>
#include <string.h>

#include "base/core/alloc.h"
#include "kvtier/kvbm.h"
#include "kvtier/token.h"

struct kvt_sequence {
    uint64_t seed;
    uint32_t block_tokens;
    uint32_t *tokens;
    size_t token_count;
    size_t token_capacity;
    uint64_t *hashes; /* of full blocks: the chain ... */
    size_t hash_capacity;
    uint64_t *locals; /* ... and each block's own tokens */
    size_t local_capacity;
};

enum kvt_err
kvt_sequence_new(struct kvt_sequence **out, uint32_t block_tokens, uint64_t seed,
                 struct kvt_error *err)
{
    struct kvt_sequence *sequence;

    assert(out != NULL);
    *out = NULL;
    if (block_tokens == 0 || block_tokens > KVT_BLOCK_TOKENS_MAX)
        return kvt_error_set(err, KVT_INVALID, "a block has 1 to %d tokens, not %" PRIu32,
                             KVT_BLOCK_TOKENS_MAX, block_tokens);
    sequence = kvt_calloc(1, sizeof(*sequence));
    if (sequence == NULL)
        return kvt_error_set(err, KVT_NOMEM, "sequence");
    sequence->block_tokens = block_tokens;
    sequence->seed = seed;
    *out = sequence;
    return KVT_OK;
}

void
kvt_sequence_free(struct kvt_sequence *sequence)
{
    if (sequence == NULL)
        return;
    kvt_free(sequence->locals);
    kvt_free(sequence->hashes);
    kvt_free(sequence->tokens);
    kvt_free(sequence);
}

/* Room for so many tokens and the names of their blocks; false changes nothing to be seen. */
static bool
reserve(struct kvt_sequence *sequence, size_t tokens)
{
    const size_t blocks = tokens / sequence->block_tokens;
    void *grown;

    grown = kvt_grow(sequence->tokens, &sequence->token_capacity, tokens, sizeof(uint32_t));
    if (grown == NULL)
        return false;
    sequence->tokens = grown;
    if (blocks == 0)
        return true;
    grown = kvt_grow(sequence->hashes, &sequence->hash_capacity, blocks, sizeof(uint64_t));
    if (grown == NULL)
        return false;
    sequence->hashes = grown;
    grown = kvt_grow(sequence->locals, &sequence->local_capacity, blocks, sizeof(uint64_t));
    if (grown == NULL)
        return false;
    sequence->locals = grown;
    return true;
}

enum kvt_err
kvt_sequence_append(struct kvt_sequence *sequence, const uint32_t *tokens, size_t count,
                    struct kvt_error *err)
{
    const size_t size = sequence->block_tokens;
    size_t block = sequence->token_count / size;

    if (count > KVT_SEQUENCE_TOKENS_MAX - sequence->token_count)
        return kvt_error_set(err, KVT_RANGE, "a sequence has at most %" PRIu32 " tokens",
                             KVT_SEQUENCE_TOKENS_MAX);
    if (count == 0)
        return KVT_OK;
    if (!reserve(sequence, sequence->token_count + count))
        return kvt_error_set(err, KVT_NOMEM, "a sequence of %zu tokens",
                             sequence->token_count + count);
    memcpy(sequence->tokens + sequence->token_count, tokens, count * sizeof(*tokens));
    sequence->token_count += count;
    for (; block < sequence->token_count / size; block++) {
        const uint64_t local =
            kvt_token_block(sequence->tokens + block * size, size, NULL, 0, sequence->seed);

        sequence->locals[block] = local;
        sequence->hashes[block] =
            block == 0 ? local : kvt_token_chain(sequence->hashes[block - 1], local);
    }
    return KVT_OK;
}

enum kvt_err
kvt_sequence_truncate(struct kvt_sequence *sequence, size_t count, struct kvt_error *err)
{
    if (count > sequence->token_count)
        return kvt_error_set(err, KVT_RANGE, "a sequence of %zu tokens has no first %zu",
                             sequence->token_count, count);
    sequence->token_count = count; /* full blocks are counted by it */
    return KVT_OK;
}

enum kvt_err
kvt_sequence_unwind(struct kvt_sequence *sequence, size_t count, struct kvt_error *err)
{
    if (count > sequence->token_count)
        return kvt_error_set(err, KVT_RANGE, "a sequence of %zu tokens has no last %zu",
                             sequence->token_count, count);
    return kvt_sequence_truncate(sequence, sequence->token_count - count, err);
}

const uint32_t *
kvt_sequence_tokens(const struct kvt_sequence *sequence, size_t *count)
{
    *count = sequence->token_count;
    return sequence->tokens;
}

const uint64_t *
kvt_sequence_hashes(const struct kvt_sequence *sequence, size_t *count)
{
    *count = sequence->token_count / sequence->block_tokens;
    return sequence->hashes;
}

enum kvt_err
kvt_sequence_block(const struct kvt_sequence *sequence, size_t position, struct kvt_block_id *id,
                   uint64_t *tokens_hash)
{
    const bool there = position < sequence->token_count / sequence->block_tokens;

    *id = (struct kvt_block_id){0};
    if (tokens_hash != NULL)
        *tokens_hash = there ? sequence->locals[position] : 0;
    if (!there)
        return KVT_NOTFOUND;
    id->hash = sequence->hashes[position];
    id->parent = position == 0 ? 0 : sequence->hashes[position - 1];
    id->position = (uint32_t)position;
    return KVT_OK;
}
