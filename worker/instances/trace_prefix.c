#include "worker/instances/trace_prefix.h"

#include "base/core/alloc.h"
#include "kvtier/kvbm.h"

void
worker_trace_prefix_tokens(const uint64_t *ids, size_t count, uint32_t *tokens)
{
    for (size_t i = 0; i < count; i++) {
        tokens[WORKER_TRACE_PREFIX_TOKENS * i] = (uint32_t)ids[i];
        tokens[WORKER_TRACE_PREFIX_TOKENS * i + 1] = (uint32_t)(ids[i] >> 32);
    }
}

enum kvt_err
worker_trace_prefix_labels(const uint64_t *ids, size_t count, uint64_t seed,
                           struct kvbm_label *labels)
{
    uint32_t *tokens = kvt_calloc(count * WORKER_TRACE_PREFIX_TOKENS + 1, sizeof(*tokens));
    struct kvt_sequence *sequence = NULL;
    enum kvt_err rc = KVT_NOMEM;

    if (tokens != NULL)
        rc = kvt_sequence_new(&sequence, WORKER_TRACE_PREFIX_TOKENS, seed, NULL);
    if (rc == KVT_OK) {
        worker_trace_prefix_tokens(ids, count, tokens);
        rc = kvt_sequence_append(sequence, tokens, count * WORKER_TRACE_PREFIX_TOKENS, NULL);
    }
    for (size_t i = 0; i < count && rc == KVT_OK; i++) {
        labels[i] = (struct kvbm_label){.prefix_hash = 0};
        rc = kvt_sequence_block(sequence, i, &labels[i].id, &labels[i].tokens_hash);
    }
    kvt_sequence_free(sequence);
    kvt_free(tokens);
    return rc;
}
