/* Where blocks come from here: G2, in which they stay, and G3. */
#include <assert.h>
#include <string.h>

#include "engine/leader/leader_internal.h"

enum { RUN = 256 }; /* names looked up under one lock of a pool */

/* Hold what a pool has from match->found on, without a hole. */
static void
hold_run(struct engine_match *match, struct kvbm_pool *pool, enum engine_place place,
         struct kvt_handle *handles)
{
    uint64_t hashes[RUN];
    size_t wanted = RUN;
    size_t got = RUN;

    while (pool != NULL && got == wanted && match->found < match->count) {
        wanted = match->count - match->found;
        if (wanted > RUN)
            wanted = RUN;
        for (size_t i = 0; i < wanted; i++)
            hashes[i] = match->labels[match->found + i].id.hash;
        got = kvbm_pool_match(pool, hashes, wanted, handles + match->found);
        memset(match->place + match->found, (int)place, got);
        match->found += (uint32_t)got;
        atomic_fetch_add(&match->leader->pins, got);
    }
}

void
engine_origin_near(struct engine_match *match)
{
    const struct engine_leader_options *options = &match->leader->options;
    uint32_t before;

    do {
        before = match->found;
        hold_run(match, options->g2, ENGINE_PLACE_G2, match->g2);
        hold_run(match, options->g3, ENGINE_PLACE_G3, match->source);
    } while (match->found > before && match->found < match->count);
}

/* What is wanted of one, held: the handle, or none. */
static struct kvt_handle
hold_one(const struct engine_match *match, struct kvbm_pool *pool, enum kvt_tier tier, size_t at,
         engine_scan_fn *wants, void *arg)
{
    const struct kvbm_label *label = &match->labels[at];
    struct kvt_handle handle = {0};

    if (pool == NULL || kvbm_pool_find(pool, label->id.hash, &handle) != KVT_OK)
        return (struct kvt_handle){0};
    if (wants == NULL || wants(arg, at, label, tier))
        return handle;
    kvbm_pool_drop_same(pool, handle);
    return (struct kvt_handle){0};
}

void
engine_origin_scan(struct engine_match *match, engine_scan_fn *wants, void *arg)
{
    const struct engine_leader_options *options = &match->leader->options;

    for (uint32_t i = 0; i < match->count; i++) {
        const uint32_t to = match->found;
        struct kvt_handle source = {0};
        struct kvt_handle g2 = hold_one(match, options->g2, KVT_TIER_G2, i, wants, arg);

        if (g2.generation == 0)
            source = hold_one(match, options->g3, KVT_TIER_G3, i, wants, arg);
        if (g2.generation == 0 && source.generation == 0)
            continue;
        match->g2[to] = g2;
        match->source[to] = source;
        match->place[to] = g2.generation != 0 ? ENGINE_PLACE_G2 : ENGINE_PLACE_G3;
        match->labels[to] = match->labels[i];
        match->found++;
        atomic_fetch_add(&match->leader->pins, 1);
    }
}

/* A block goes on under the name that its tier knows it by: who asks may be wrong about the rest of
 * its label. */
static void
fill_from_g3(struct engine_match *match, uint32_t first, struct engine_job *job)
{
    job->verb = ENGINE_COPY;
    job->from = KVT_TIER_G3;
    for (size_t i = 0; i < job->count; i++) {
        const struct kvt_handle source = match->source[first + i];

        job->items[i].label = kvbm_pool_label(match->leader->options.g3, source);
        job->items[i].source = source.block;
    }
}

const struct engine_origin engine_origin_g2 = {.search = NULL};
const struct engine_origin engine_origin_g3 = {.fill = fill_from_g3};
