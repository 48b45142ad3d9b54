#include "kvbm/worker/serve.h"

#include <assert.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "kvbm/worker/serve_internal.h"

enum { GROW_STEP = 256 };

enum kvt_err
kvbm_serve_new(struct kvbm_serve **out, struct kvbm_stack *stack)
{
    *out = kvt_calloc(1, sizeof(**out));
    if (*out == NULL)
        return KVT_NOMEM;
    (*out)->stack = stack;
    return KVT_OK;
}

void
kvbm_serve_free(struct kvbm_serve *serve)
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
reserve(struct kvbm_serve *serve, uint32_t count)
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
name_blocks(struct kvbm_serve *serve, const uint64_t *hashes, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t prefix = i < KVBM_SERVE_PREFIX_DEPTH ? i : KVBM_SERVE_PREFIX_DEPTH - 1;

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
ask_remote(struct kvbm_serve *serve, uint32_t from, uint32_t count)
{
    struct kvbm_stack *stack = serve->stack;

    kvbm_count(&stack->counters.g4_asked, count - from);
    if (!kvbm_remote_has(stack->shared->remote, serve->ids + from, count - from, serve->present)) {
        kvbm_count(&stack->counters.g4_failed, 1);
        return;
    }
    for (uint32_t i = from; i < count; i++)
        if (serve->present[i - from])
            serve->masks[i] |= (uint8_t)KVT_TIER_MASK(KVT_TIER_G4);
}

/* Length of the longest prefix that is somewhere; `masks` then say where. */
static uint32_t
plan(struct kvbm_serve *serve, const uint64_t *hashes, uint32_t count)
{
    struct kvbm_ledger *ledger = &serve->stack->ledger;
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

static enum kvt_tier
nearest(uint8_t mask)
{
    for (unsigned tier = KVT_TIER_G1; tier < KVT_TIER_G4; tier++)
        if ((mask & KVT_TIER_MASK(tier)) != 0)
            return (enum kvt_tier)tier;
    return KVT_TIER_G4;
}

/* Blocks in a row that are taken from one tier at once. */
static uint32_t
run_of(const struct kvbm_serve *serve, uint32_t at, uint32_t prefix)
{
    const enum kvt_tier tier = nearest(serve->masks[at]);
    uint32_t run = 1;

    while (at + run < prefix && run < serve->stack->chunk && serve->masks[at + run] != 0 &&
           nearest(serve->masks[at + run]) == tier)
        run++;
    return run;
}

/* What was planned is gone from `tier`: taking the blocks before it may have pushed it down.  Look
 * again, once a block; the gateway's answer stays what it was. */
static void
plan_again(struct kvbm_serve *serve, const uint64_t *hashes, uint32_t at, uint32_t prefix,
           enum kvt_tier tier)
{
    const uint8_t remote = (uint8_t)KVT_TIER_MASK(KVT_TIER_G4);
    struct kvbm_ledger *ledger = &serve->stack->ledger;

    if (serve->retried == at + 1) {
        serve->masks[at] &= (uint8_t)~KVT_TIER_MASK(tier);
        return;
    }
    serve->retried = at + 1;
    for (uint32_t i = at; i < prefix; i++) {
        uint8_t local;

        index_match(ledger->index, ledger->ns, &hashes[i], 1, &local);
        serve->masks[i] = (uint8_t)((serve->masks[i] & remote) | local);
    }
    if (tier == KVT_TIER_G4)
        serve->masks[at] &= (uint8_t)~remote;
}

/* Where the planned prefix ends when what is not worth its wait is left out.  Asked again before
 * each step: time passes, and estimates change. */
static uint32_t
worth_end(struct kvbm_serve *serve, uint32_t at, uint32_t prefix, uint64_t began_ms)
{
    struct kvbm_stack *stack = serve->stack;
    const uint64_t now_ms = kvt_clock_mono_ms();
    struct kvbm_cost_run runs[KVBM_COST_RUNS_MAX];
    enum kvbm_cost_reason reason;
    uint32_t seen = at;
    uint32_t chosen;
    size_t count = 0;

    if (stack->shared->cost == NULL)
        return prefix;
    while (seen < prefix && serve->masks[seen] != 0 && count < KVBM_COST_RUNS_MAX) {
        const uint32_t run = run_of(serve, seen, prefix);

        runs[count++] = (struct kvbm_cost_run){nearest(serve->masks[seen]), run};
        seen += run;
    }
    chosen = kvbm_cost_choose(stack->shared->cost, runs, count, now_ms - began_ms, now_ms, &reason);
    if (reason == KVBM_COST_TAKEN)
        return prefix;
    kvbm_count(reason == KVBM_COST_LATE ? &stack->counters.late : &stack->counters.dearer,
               prefix - at - chosen);
    return at + chosen;
}

/* Take the planned prefix, in runs of one tier.  Returns how much of it there really was. */
static uint32_t
take_prefix(struct kvbm_serve *serve, const uint64_t *hashes, uint32_t prefix)
{
    const uint64_t began_ms = kvt_clock_mono_ms();
    uint32_t at = 0;

    serve->retried = 0;
    while ((prefix = worth_end(serve, at, prefix, began_ms)) > at && serve->masks[at] != 0) {
        const enum kvt_tier tier = nearest(serve->masks[at]);
        const uint32_t run = run_of(serve, at, prefix);
        uint32_t taken;

        taken = kvbm_serve_take(serve, tier, at, run);
        at += taken;
        if (taken < run)
            plan_again(serve, hashes, at, prefix, tier);
    }
    kvbm_count(&serve->stack->counters.lost_hits, prefix - at);
    return at;
}

enum kvt_err
kvbm_serve_request(struct kvbm_serve *serve, const uint64_t *hashes, uint32_t count)
{
    struct kvbm_counters *counters = &serve->stack->counters;
    const uint32_t chunk = serve->stack->chunk;
    uint32_t at;

    if (reserve(serve, count) != KVT_OK)
        return KVT_NOMEM;
    name_blocks(serve, hashes, count);
    at = take_prefix(serve, hashes, plan(serve, hashes, count));
    for (; at < count; at += chunk)
        kvbm_serve_compute(serve, at, count - at < chunk ? count - at : chunk);
    kvbm_count(&counters->blocks, count);
    kvbm_count(&counters->requests, 1);
    return KVT_OK;
}
