#include "bench/route/busy.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/core/alloc.h"

#include "bench/index/corpus.h"
#include "router/request_table.h"

#define OWN (UINT64_C(1) << 48)

/* Blocks a turn of a conversation has, after each of which a request may go its own way. */
enum { TURN = 16 };

struct busy {
    const struct ready *ready;
    struct router_request_table *slots;
    uint64_t questions[READY_REQUESTS_MAX][READY_BLOCKS];
};

/* Of a request's block: of the questions first, then of what runs. */
static uint64_t
hash(uint64_t seed, uint64_t stream, uint32_t position)
{
    return corpus_mix(corpus_mix(seed ^ corpus_mix(stream)) + position);
}

static enum kvt_err
run(struct busy *busy, uint64_t seed, const struct router_worker *worker, uint32_t w, uint32_t r)
{
    uint64_t own = OWN | (uint64_t)w << 16 | r;
    uint64_t draw = corpus_mix(seed ^ corpus_mix(own));
    uint32_t blocks = 1 + ready_part(draw, 1, 2 * READY_BLOCKS);
    uint32_t shared = TURN * ready_part(draw, 3, 1 + READY_BLOCKS / TURN);
    uint32_t common = ready_part(draw, 2, 4) == 0 ? shared : 0; /* if it is as long */
    uint32_t question = ready_part(draw, 4, busy->ready->requests);
    uint64_t hashes[2 * READY_BLOCKS];
    struct router_request request = {
        .worker = *worker,
        .prefill_tokens = ready_part(draw, 5, 16384),
        .hashes = hashes,
        .hash_count = blocks,
        .blocks = blocks,
        .state = ready_part(draw, 6, 2) == 0 ? ROUTER_PREFILLED : ROUTER_ADDED,
    };

    (void)snprintf(request.id, sizeof request.id, "%" PRIu32 "-%" PRIu32, w, r);
    for (uint32_t i = 0; i < blocks; i++)
        hashes[i] = hash(seed, i < common ? question : own, i);
    return router_request_table_merge(busy->slots, &request, 1, NULL);
}

static enum kvt_err
fill(struct busy *busy, struct router_worker_row *rows, uint64_t seed, uint32_t running)
{
    enum kvt_err rc;

    for (uint32_t w = 0; w < busy->ready->workers; w++) {
        (void)snprintf(rows[w].worker.name, sizeof rows[w].worker.name, "%016" PRIx64,
                       corpus_worker_id(w));
        rows[w].slot = w;
    }
    rc = router_request_table_bind(busy->slots, rows, busy->ready->workers);
    for (uint32_t w = 0; w < busy->ready->workers; w++)
        for (uint32_t r = 0; r < running && rc == KVT_OK; r++)
            rc = run(busy, seed, &rows[w].worker, w, r);
    return rc;
}

enum kvt_err
busy_new(struct busy **out, const struct ready *ready, uint64_t seed, uint32_t running)
{
    const struct router_request_table_options options = {
        .expiry_ms = 3600000,
        .requests_max = ready->workers * running + 1,
        .blocks_max = UINT64_C(2) * READY_BLOCKS * ready->workers * running + 1,
    };
    struct router_worker_row *rows = kvt_calloc(ready->workers, sizeof(*rows));
    struct busy *busy = kvt_calloc(1, sizeof(*busy));
    enum kvt_err rc = rows == NULL || busy == NULL ? KVT_NOMEM : KVT_OK;

    *out = NULL;
    if (rc == KVT_OK) {
        busy->ready = ready;
        for (uint32_t q = 0; q < ready->requests; q++)
            for (uint32_t i = 0; i < READY_BLOCKS; i++)
                busy->questions[q][i] = hash(seed, q, i);
        rc = router_request_table_new(&busy->slots, &options);
    }
    if (rc == KVT_OK)
        rc = fill(busy, rows, seed, running);
    kvt_free(rows);
    if (rc == KVT_OK)
        *out = busy;
    else
        busy_free(busy);
    return rc;
}

void
busy_free(struct busy *busy)
{
    if (busy == NULL)
        return;
    router_request_table_free(busy->slots);
    kvt_free(busy);
}

struct router_candidates
busy_candidates(struct busy *busy, uint32_t request)
{
    struct router_candidates candidates = ready_candidates(busy->ready, request);

    router_request_table_project(busy->slots, busy->questions[request], READY_BLOCKS, READY_BLOCKS,
                                 &candidates);
    return candidates;
}

uint64_t
busy_sum(struct busy *busy)
{
    uint64_t sum = 0;

    for (uint32_t q = 0; q < busy->ready->requests; q++) {
        struct router_candidates candidates = busy_candidates(busy, q);

        for (size_t w = 0; w < candidates.count; w++) {
            sum = corpus_mix(sum ^ candidates.active_prefill_tokens[w]);
            sum = corpus_mix(sum ^ candidates.decode_blocks[w]);
            sum = corpus_mix(sum ^ candidates.active_requests[w]);
        }
    }
    return sum;
}
