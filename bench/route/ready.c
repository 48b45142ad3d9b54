#include "bench/route/ready.h"

#include <string.h>

#include "base/core/alloc.h"

#include "bench/index/corpus.h"

void
ready_release(struct ready *ready)
{
    for (uint32_t i = 0; i < ready->requests; i++) {
        struct ready_columns *columns = &ready->columns[i];

        kvt_free(columns->active_prefill_tokens);
        kvt_free(columns->decode_blocks);
        kvt_free(columns->active_requests);
        for (int tier = 0; tier < ROUTER_TIERS; tier++)
            kvt_free(columns->cached[tier]);
    }
    memset(ready, 0, sizeof *ready);
}

static enum kvt_err
make_columns(struct ready_columns *columns, uint32_t workers)
{
    bool made = true;

    columns->active_prefill_tokens = kvt_calloc(workers, sizeof(uint64_t));
    columns->decode_blocks = kvt_calloc(workers, sizeof(uint64_t));
    columns->active_requests = kvt_calloc(workers, sizeof(uint32_t));
    for (int tier = 0; tier < ROUTER_TIERS; tier++) {
        columns->cached[tier] = kvt_calloc(workers, sizeof(uint32_t));
        made = made && columns->cached[tier] != NULL;
    }
    made = made && columns->active_prefill_tokens != NULL && columns->decode_blocks != NULL &&
           columns->active_requests != NULL;
    return made ? KVT_OK : KVT_NOMEM;
}

uint32_t
ready_part(uint64_t draw, uint64_t at, uint32_t bound)
{
    return (uint32_t)(corpus_mix(draw + at) % bound);
}

static uint64_t
fill(struct ready_columns *columns, uint32_t worker, uint64_t draw, uint64_t sum)
{
    uint32_t device = ready_part(draw, 1, 2) == 0 ? ready_part(draw, 2, 100) : 0;
    uint32_t host = ready_part(draw, 3, 4) == 0 ? ready_part(draw, 4, READY_BLOCKS - device) : 0;
    uint32_t disk =
        ready_part(draw, 5, 8) == 0 ? ready_part(draw, 6, READY_BLOCKS - device - host) : 0;

    columns->cached[0][worker] = device;
    columns->cached[1][worker] = host;
    columns->cached[2][worker] = disk;
    columns->active_prefill_tokens[worker] = ready_part(draw, 7, 32768);
    columns->decode_blocks[worker] = ready_part(draw, 8, 20000) + ready_part(draw, 9, READY_BLOCKS);
    columns->active_requests[worker] = ready_part(draw, 10, 64);
    for (int tier = 0; tier < 3; tier++)
        sum = corpus_mix(sum ^ columns->cached[tier][worker]);
    sum = corpus_mix(sum ^ columns->active_prefill_tokens[worker]);
    sum = corpus_mix(sum ^ columns->decode_blocks[worker]);
    return corpus_mix(sum ^ columns->active_requests[worker]);
}

enum kvt_err
ready_new(struct ready *ready, uint32_t workers, uint32_t requests, uint64_t seed)
{
    memset(ready, 0, sizeof *ready);
    ready->workers = workers;
    for (uint32_t q = 0; q < requests; q++) {
        ready->requests++;
        if (make_columns(&ready->columns[q], workers) != KVT_OK) {
            ready_release(ready);
            return KVT_NOMEM;
        }
        for (uint32_t w = 0; w < workers; w++)
            ready->sum = fill(&ready->columns[q], w,
                              corpus_mix(seed ^ corpus_mix((uint64_t)q << 32 | w)), ready->sum);
    }
    return KVT_OK;
}

struct router_candidates
ready_candidates(const struct ready *ready, uint32_t request)
{
    const struct ready_columns *columns = &ready->columns[request];

    return (struct router_candidates){
        .count = ready->workers,
        .active_prefill_tokens = columns->active_prefill_tokens,
        .decode_blocks = columns->decode_blocks,
        .active_requests = columns->active_requests,
        .cached = {columns->cached[0], columns->cached[1], columns->cached[2], columns->cached[3]},
    };
}
