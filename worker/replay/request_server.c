#include "worker/replay/request_server.h"

#include <assert.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"

#include "worker/replay/request_server_internal.h"

enum { GROW_STEP = 256 };

enum kvt_err
worker_request_server_new(struct worker_request_server **out, struct worker_stack *stack)
{
    *out = kvt_calloc(1, sizeof(**out));
    if (*out == NULL)
        return KVT_NOMEM;
    (*out)->stack = stack;
    return KVT_OK;
}

void
worker_request_server_free(struct worker_request_server *serve)
{
    if (serve == NULL)
        return;
    kvt_free(serve->labels);
    kvt_free(serve->ids);
    kvt_free(serve->masks);
    kvt_free(serve->present);
    kvt_free(serve);
}

/* Room for a request of `count` blocks; grows to the longest request seen and stays. */
static enum kvt_err
reserve(struct worker_request_server *serve, uint32_t count)
{
    const uint32_t capacity = (count / GROW_STEP + 1) * GROW_STEP;

    if (count <= serve->capacity)
        return KVT_OK;
    kvt_free(serve->labels);
    kvt_free(serve->ids);
    kvt_free(serve->masks);
    kvt_free(serve->present);
    serve->labels = kvt_calloc(capacity, sizeof(*serve->labels));
    serve->ids = kvt_calloc(capacity, sizeof(*serve->ids));
    serve->masks = kvt_calloc(capacity, sizeof(*serve->masks));
    serve->present = kvt_calloc(capacity, sizeof(*serve->present));
    serve->capacity = capacity;
    if (serve->labels != NULL && serve->ids != NULL && serve->masks != NULL &&
        serve->present != NULL)
        return KVT_OK;
    serve->capacity = 0;
    return KVT_NOMEM;
}

static void
name_blocks(struct worker_request_server *serve, const uint64_t *hashes, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t prefix =
            i < WORKER_REQUEST_SERVER_PREFIX_DEPTH ? i : WORKER_REQUEST_SERVER_PREFIX_DEPTH - 1;

        serve->ids[i] = (struct kvt_block_id){
            .hash = hashes[i],
            .parent = i > 0 ? hashes[i - 1] : 0,
            .position = i,
        };
        serve->labels[i] = (struct kvbm_label){serve->ids[i], hashes[prefix], 0};
    }
}

/* Ask the gateway about everything from `from` on that no local tier has.  The answer is kept as
 * the G4 bit of the masks. */
static void
ask_remote(struct worker_request_server *serve, uint32_t from, uint32_t count)
{
    struct worker_stack *stack = serve->stack;

    worker_counter_add(&stack->counters.g4_asked, count - from);
    if (!worker_object_tier_has(stack->shared->remote, serve->ids + from, count - from,
                                serve->present)) {
        worker_counter_add(&stack->counters.g4_failed, 1);
        return;
    }
    for (uint32_t i = from; i < count; i++)
        if (serve->present[i - from])
            serve->masks[i] |= (uint8_t)KVT_TIER_MASK(KVT_TIER_G4);
}

/* Length of the longest prefix that is somewhere; `masks` then say where. */
static uint32_t
plan(struct worker_request_server *serve, const uint64_t *hashes, uint32_t count)
{
    struct worker_ledger *ledger = &serve->stack->ledger;
    bool asked = serve->stack->shared->remote == NULL;
    uint32_t prefix = 0;

    index_match(ledger->index, ledger->ns, hashes, count, serve->masks);
    for (; prefix < count; prefix++) {
        if (serve->masks[prefix] == 0 && !asked) {
            ask_remote(serve, prefix, count);
            asked = true;
        }
        if (serve->masks[prefix] == 0)
            break;
    }
    return prefix;
}

/* What is left of a request's time; false: nothing. */
static bool
time_left(const struct worker_settings *settings, uint64_t began_ms, uint64_t *left_ms)
{
    const uint64_t spent_ms = kvt_clock_mono_ms() - began_ms;

    *left_ms = settings->deadline_ms > spent_ms ? settings->deadline_ms - spent_ms : 0;
    return settings->deadline_ms == 0 || *left_ms > 0;
}

/* What was planned and not taken. */
static void
count_rest(struct worker_counters *counters, enum kvt_err why, uint32_t blocks)
{
    switch (why) {
    case KVT_TIMEOUT: worker_counter_add(&counters->late, blocks); break;
    case KVT_RANGE: worker_counter_add(&counters->dearer, blocks); break;
    case KVT_AGAIN: worker_counter_add(&counters->unplaced, blocks); break;
    default: worker_counter_add(&counters->lost_hits, blocks); break;
    }
}

/* Take the planned prefix of a request.  Returns how much of it there really was. */
static uint32_t
take_prefix(struct worker_request_server *serve, uint64_t began_ms, uint32_t prefix)
{
    struct worker_stack *stack = serve->stack;
    uint32_t retried = 0; /* 1 + the block that was asked for a second time; 0: none yet */
    uint32_t at = 0;
    enum kvt_err why = KVT_OK;

    while (at < prefix) {
        const uint32_t left = prefix - at;
        uint64_t left_ms;
        bool again;

        why = KVT_TIMEOUT;
        if (!time_left(stack->shared->settings, began_ms, &left_ms))
            break;
        at += worker_request_server_take(serve, at, left < stack->take_max ? left : stack->take_max,
                                         left_ms, &why, &again);
        if (why == KVT_OK)
            continue;
        if (!again || retried == at + 1)
            break;
        retried = at + 1;
    }
    count_rest(&stack->counters, why, prefix - at);
    return at;
}

enum kvt_err
worker_request_server_run(struct worker_request_server *serve, const uint64_t *hashes,
                          uint32_t count)
{
    struct worker_counters *counters = &serve->stack->counters;
    const uint64_t began_ms = kvt_clock_mono_ms();
    const uint32_t chunk = serve->stack->chunk;
    uint32_t at;

    if (reserve(serve, count) != KVT_OK)
        return KVT_NOMEM;
    name_blocks(serve, hashes, count);
    at = take_prefix(serve, began_ms, plan(serve, hashes, count));
    for (; at < count; at += chunk)
        worker_request_server_compute(serve, at, count - at < chunk ? count - at : chunk);
    worker_counter_add(&counters->blocks, count);
    worker_counter_add(&counters->requests, 1);
    return KVT_OK;
}
