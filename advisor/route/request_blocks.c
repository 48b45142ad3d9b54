#include "advisor/route/request_blocks.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>
#include <xxhash.h>

#include "base/core/alloc.h"
#include "kvtier/token.h"

void
advisor_request_blocks_release(struct advisor_request_blocks *prompt)
{
    kvt_free(prompt->hashes);
    *prompt = (struct advisor_request_blocks){.hashes = NULL};
}

uint64_t *
advisor_request_blocks_running(const uint64_t *hashes, uint32_t count, const char *namespace_)
{
    const size_t length = strlen(namespace_);
    const uint64_t space = length == 0 ? 0 : XXH3_64bits(namespace_, length);
    uint64_t *running = kvt_calloc((size_t)count + 1, sizeof(*running));

    for (uint32_t i = 0; running != NULL && i < count; i++)
        running[i] = hashes[i] ^ space;
    return running;
}

/* Local hashes of the whole blocks of tokens. */
static enum kvt_err
hash_tokens(struct advisor_request_blocks *prompt, const struct wire_route_question *question,
            struct kvt_error *err)
{
    const uint64_t seed = kvt_token_seed(question->adapter, strlen(question->adapter),
                                         question->salt, strlen(question->salt));
    uint32_t *tokens = kvt_calloc((size_t)question->value_count + 1, sizeof(*tokens));

    if (tokens == NULL)
        return kvt_error_set(err, KVT_NOMEM, "no memory for %u tokens", question->value_count);
    for (uint32_t i = 0; i < question->value_count; i++) {
        tokens[i] = (uint32_t)question->values[i];
        if (question->values[i] <= UINT32_MAX)
            continue;
        kvt_free(tokens);
        return kvt_error_set(err, KVT_INVALID, "tokens[%u]: %" PRIu64 " is no token: at most %u", i,
                             question->values[i], UINT32_MAX);
    }
    for (uint32_t i = 0; i < prompt->hash_count; i++)
        prompt->hashes[i] = kvt_token_block(tokens + (size_t)i * prompt->block_tokens,
                                            prompt->block_tokens, NULL, 0, seed);
    kvt_free(tokens);
    return KVT_OK;
}

/* From local hashes to the chain over them. */
static void
chain(struct advisor_request_blocks *prompt)
{
    for (uint32_t i = 1; i < prompt->hash_count; i++)
        prompt->hashes[i] = kvt_token_chain(prompt->hashes[i - 1], prompt->hashes[i]);
}

/* How long it is and how many blocks that makes. */
static enum kvt_err
measure(struct advisor_request_blocks *prompt, const struct wire_route_question *question,
        struct kvt_error *err)
{
    const bool tokens = question->kind == WIRE_ROUTE_TOKENS;
    uint64_t least = question->value_count;
    uint64_t blocks;

    if (question->adapter[0] != '\0' || question->salt[0] != '\0')
        if (!tokens)
            return kvt_error_set(
                err, KVT_INVALID,
                "adapter and salt are part of tokens; hashes have them in already");
    if (!tokens)
        least *= prompt->block_tokens;
    prompt->hash_count =
        tokens ? question->value_count / prompt->block_tokens : question->value_count;
    prompt->isl_tokens = question->isl_tokens == 0 ? least : question->isl_tokens;
    if (prompt->isl_tokens == 0)
        return kvt_error_set(err, KVT_INVALID, "a request without tokens, hashes or isl_tokens");
    if (prompt->isl_tokens < least)
        return kvt_error_set(err, KVT_INVALID,
                             "isl_tokens: %" PRIu64 " are fewer than the %" PRIu64
                             " that are given",
                             prompt->isl_tokens, least);
    blocks = prompt->isl_tokens / prompt->block_tokens +
             (prompt->isl_tokens % prompt->block_tokens != 0);
    if (blocks > WIRE_ROUTE_BLOCKS_MAX)
        return kvt_error_set(err, KVT_RANGE, "a request of %" PRIu64 " blocks; at most %d", blocks,
                             WIRE_ROUTE_BLOCKS_MAX);
    prompt->blocks = (uint32_t)blocks;
    return KVT_OK;
}

enum kvt_err
advisor_request_blocks_read(struct advisor_request_blocks *prompt,
                            const struct wire_route_question *question, uint32_t block_tokens,
                            struct kvt_error *err)
{
    enum kvt_err rc;

    assert(block_tokens > 0 && block_tokens <= WIRE_ROUTE_BLOCK_MAX);
    *prompt = (struct advisor_request_blocks){
        .block_tokens = question->block_tokens == 0 ? block_tokens : question->block_tokens};
    if (prompt->block_tokens > WIRE_ROUTE_BLOCK_MAX)
        return kvt_error_set(err, KVT_RANGE, "block_tokens: %u; at most %d", prompt->block_tokens,
                             WIRE_ROUTE_BLOCK_MAX);
    rc = measure(prompt, question, err);
    if (rc != KVT_OK)
        return rc;
    prompt->hashes = kvt_calloc((size_t)prompt->hash_count + 1, sizeof(*prompt->hashes));
    if (prompt->hashes == NULL)
        return kvt_error_set(err, KVT_NOMEM, "no memory for %u hashes", prompt->hash_count);
    if (question->kind == WIRE_ROUTE_TOKENS) {
        rc = hash_tokens(prompt, question, err);
        if (rc != KVT_OK) {
            advisor_request_blocks_release(prompt);
            return rc;
        }
    } else if (prompt->hash_count > 0) {
        memcpy(prompt->hashes, question->values, prompt->hash_count * sizeof(*prompt->hashes));
    }
    if (question->kind != WIRE_ROUTE_HASHES)
        chain(prompt);
    return KVT_OK;
}
