#include "tests/unit/engine/connector/engine_loop.h"

#include <stdio.h>
#include <string.h>

#include "base/core/clock.h"
#include "base/core/random.h"
#include "kvtier/token.h"

#include "engine/rank/group.h"
#include "tests/unit/engine/connector/engine_loop_internal.h"

#define MILLION 1000000u

enum {
    CHAINS = 3, /* prompts begin like one of so many */
    ITERATIONS_MAX = 40000,
    SETTLE_MS = 20000,
    DELAY_US = 200,
};

enum state { WAITING, LOADING, RUNNING, ENDING, DONE };

struct loop_request {
    char id[16];
    enum state state;
    uint32_t epoch;
    uint32_t tokens[LOOP_TOKENS];
    uint32_t count, total; /* tokens it has by now, and at its end */
    uint32_t computed;
    uint32_t blocks[LOOP_BLOCKS];
    uint32_t block_count;
    uint32_t told_tokens, told_blocks; /* to the connector */
    uint32_t local, external;          /* blocks of the engine's cache, and to be loaded */
    uint64_t loaded_in;                /* iteration */
    bool scheduled;                    /* in this one */
};

struct block {
    uint32_t refs;
    uint64_t hash; /* in the engine's cache under this name; 0: not */
    uint64_t used;
};

struct loop {
    struct loop_options options;
    struct loop_result *result;
    uint64_t random;
    uint64_t iteration, report;
    struct loop_rank ranks[LOOP_RANKS];
    struct fake_objects *objects;
    struct engine_worker *group;
    struct kvbm_pool *g2, *g3;
    struct engine_leader *leader;
    struct engine_connector *connector;
    struct loop_request *requests;
    uint32_t arrived, over;
    struct block blocks[LOOP_G1];
    struct loop_pass passes[LOOP_LAG]; /* that were not heard of, the oldest first */
    uint32_t pass_count;
};

static bool
chance(struct loop *loop, uint32_t ppm)
{
    return kvt_random_below(&loop->random, MILLION) < ppm;
}

/* ---- content ---- */

/* What the first `filled` tokens of block `at` are called; of a full one its sequence hash. */
static uint64_t
name_of(const struct loop_request *request, uint32_t at, uint32_t filled)
{
    uint64_t parent = 0;

    for (uint32_t i = 0; i < at; i++) {
        const uint64_t local = kvt_token_block(request->tokens + (size_t)i * LOOP_BLOCK, LOOP_BLOCK,
                                               NULL, 0, KVT_TOKEN_SEED);

        parent = i == 0 ? local : kvt_token_chain(parent, local);
    }
    {
        const uint64_t local = kvt_token_block(request->tokens + (size_t)at * LOOP_BLOCK, filled,
                                               NULL, 0, KVT_TOKEN_SEED);

        return at == 0 ? local : kvt_token_chain(parent, local);
    }
}

static uint64_t
content(const struct loop_request *request, uint32_t at, uint32_t computed)
{
    const uint32_t filled = computed <= at * LOOP_BLOCK ? 0 : computed - at * LOOP_BLOCK;

    return filled == 0 ? 0 : name_of(request, at, filled < LOOP_BLOCK ? filled : LOOP_BLOCK);
}

/* ---- the engine's blocks ---- */

static uint32_t
take_block(struct loop *loop)
{
    uint32_t best = LOOP_NONE;

    for (uint32_t i = 0; i < LOOP_G1; i++) {
        const struct block *block = &loop->blocks[i];

        if (block->refs > 0)
            continue;
        if (best == LOOP_NONE || (block->hash == 0 && loop->blocks[best].hash != 0) ||
            ((block->hash == 0) == (loop->blocks[best].hash == 0) &&
             block->used < loop->blocks[best].used))
            best = i;
    }
    if (best != LOOP_NONE)
        loop->blocks[best] = (struct block){.refs = 1, .used = loop->iteration};
    return best;
}

static void
free_blocks(struct loop *loop, struct loop_request *request)
{
    for (uint32_t i = 0; i < request->block_count; i++) {
        struct block *block = &loop->blocks[request->blocks[i]];

        assert_true(block->refs > 0);
        block->refs--;
        block->used = loop->iteration;
    }
    request->block_count = request->told_blocks = 0;
}

static uint32_t
find_cached(struct loop *loop, uint64_t hash)
{
    for (uint32_t i = 0; loop->options.cache && i < LOOP_G1; i++)
        if (loop->blocks[i].hash == hash)
            return i;
    return LOOP_NONE;
}

/* Blocks of positions [from, end) are worth finding from now on. */
static void
cache_blocks(struct loop *loop, const struct loop_request *request, uint32_t from, uint32_t end)
{
    for (uint32_t i = from; i < end; i++) {
        const uint64_t hash = name_of(request, i, LOOP_BLOCK);

        if (find_cached(loop, hash) == LOOP_NONE)
            loop->blocks[request->blocks[i]].hash = hash;
    }
}

/* ---- lives of requests ---- */

static void
arrive(struct loop *loop)
{
    struct loop_request *request = &loop->requests[loop->arrived];
    const uint32_t chain = (uint32_t)kvt_random_below(&loop->random, CHAINS);
    const uint32_t shared = (uint32_t)kvt_random_below(&loop->random, LOOP_TOKENS - 16);
    uint64_t seed;

    memset(request, 0, sizeof(*request));
    (void)snprintf(request->id, sizeof(request->id), "r%u", loop->arrived);
    request->count = shared + 1 + (uint32_t)kvt_random_below(&loop->random, 8);
    request->total =
        request->count + (uint32_t)kvt_random_below(&loop->random, LOOP_TOKENS - request->count);
    if (request->total > request->count + 24)
        request->total = request->count + 24;
    seed = chain + 1;
    for (uint32_t i = 0; i < LOOP_TOKENS; i++) {
        if (i == shared)
            seed = loop->random + loop->arrived;
        request->tokens[i] = (uint32_t)kvt_random_next(&seed);
    }
    loop->arrived++;
}

static void
preempt(struct loop *loop, struct loop_request *request)
{
    engine_connector_preempted(loop->connector, request->id);
    free_blocks(loop, request);
    request->computed = 0;
    request->state = WAITING;
    request->epoch++;
    loop->result->preemptions++;
}

static void
end(struct loop *loop, struct loop_request *request)
{
    if (engine_connector_request_finished(loop->connector, request->id)) {
        request->state = ENDING;
        return;
    }
    free_blocks(loop, request);
    request->state = DONE;
    loop->over++;
}

/* Those that read while it was loaded have heard whether it was. */
static bool
may_preempt(const struct loop *loop, const struct loop_request *request)
{
    return request->state == RUNNING && request->loaded_in <= loop->report && !request->scheduled;
}

static struct loop_request *
request_of(struct loop *loop, const char *id)
{
    for (uint32_t i = 0; i < loop->arrived; i++)
        if (strcmp(loop->requests[i].id, id) == 0)
            return &loop->requests[i];
    fail_msg("nobody is called %s", id);
    return NULL;
}

/* ---- what ranks said ---- */

/* From position `at` on it is not what it should be. */
static void
go_back(struct loop *loop, struct loop_request *request, uint32_t at)
{
    bool alone = chance(loop, MILLION / 2);

    for (uint32_t i = at; i < request->block_count; i++) {
        loop->blocks[request->blocks[i]].hash = 0;
        alone = alone && loop->blocks[request->blocks[i]].refs == 1;
    }
    loop->result->returned++;
    if (request->state == ENDING)
        return;
    if (request->state == LOADING) /* it will be told when its load has ended */
        request->external = at < request->local ? 0 : at - request->local;
    else if (alone)
        request->computed = at * LOOP_BLOCK;
    else
        preempt(loop, request);
}

static void
lose_block(struct loop *loop, uint32_t block)
{
    loop->blocks[block].hash = 0;
    for (uint32_t p = 0; p < loop->pass_count; p++)
        for (uint32_t e = 0; e < loop->passes[p].count; e++) {
            struct loop_entry *entry = &loop->passes[p].entries[e];
            const uint32_t end_ =
                (entry->computed + entry->scheduled + LOOP_BLOCK - 1) / LOOP_BLOCK;

            for (uint32_t i = 0; i < end_ && i < entry->excused; i++)
                if (entry->blocks[i] == block)
                    entry->excused = i;
        }
    for (uint32_t r = 0; r < loop->arrived; r++) {
        struct loop_request *request = &loop->requests[r];
        const uint32_t there = request->state == LOADING ? request->local + request->external
                                                         : request->computed / LOOP_BLOCK;

        if (request->state != RUNNING && request->state != LOADING && request->state != ENDING)
            continue;
        for (uint32_t i = 0; i < there && i < request->block_count; i++)
            if (request->blocks[i] == block) {
                go_back(loop, request, i);
                break;
            }
    }
}

static void
hear_finished(struct loop *loop)
{
    struct engine_finished finished;

    while (engine_connector_finished(loop->connector, &finished)) {
        struct loop_request *request = request_of(loop, finished.request);

        if (finished.loaded) {
            assert_int_equal(request->state, LOADING);
            request->computed = (request->local + request->external) * LOOP_BLOCK;
            request->state = RUNNING;
            request->told_blocks = 0; /* it is told of its blocks again */
            cache_blocks(loop, request, request->local, request->local + request->external);
        } else {
            assert_int_equal(request->state, ENDING);
            free_blocks(loop, request);
            request->state = DONE;
            loop->over++;
        }
    }
}

/* Every read of the pass was right, or it is known by now why not. */
static void
verify(struct loop *loop, const struct loop_pass *pass)
{
    for (uint32_t r = 0; r < loop->options.ranks; r++)
        for (uint32_t e = 0; e < pass->count; e++) {
            const struct loop_entry *entry = &pass->entries[e];

            if (pass->wrong[r][e] == LOOP_NONE)
                continue;
            loop->result->wrong++;
            if (entry->request->epoch == entry->epoch && pass->wrong[r][e] < entry->excused)
                fail_msg("iteration %llu, rank %u: %s read wrong bytes in block %u (position %u)",
                         (unsigned long long)pass->iteration, r, entry->request->id,
                         entry->blocks[pass->wrong[r][e]], pass->wrong[r][e]);
        }
}

/* Of the oldest pass. */
static void
hear(struct loop *loop)
{
    struct loop_pass *pass = &loop->passes[0];
    const uint32_t first = (uint32_t)kvt_random_below(&loop->random, loop->options.ranks);
    uint32_t invalid[LOOP_G1];
    size_t count;

    for (uint32_t i = 0; i < loop->options.ranks; i++) {
        const uint32_t rank = (first + i) % loop->options.ranks;

        assert_int_equal(engine_connector_report(loop->connector, rank, pass->report[rank].data,
                                                 pass->report[rank].size, NULL),
                         KVT_OK);
    }
    loop->report = pass->iteration;
    while ((count = engine_connector_invalid(loop->connector, invalid, LOOP_G1)) > 0) {
        loop->result->invalid += count;
        for (size_t i = 0; i < count; i++)
            lose_block(loop, invalid[i]);
    }
    hear_finished(loop);
    verify(loop, pass);
    for (uint32_t rank = 0; rank < loop->options.ranks; rank++)
        kvt_buffer_release(&pass->report[rank]);
    kvt_buffer_release(&pass->meta);
    loop->pass_count--;
    memmove(loop->passes, loop->passes + 1, loop->pass_count * sizeof(*loop->passes));
}

/* ---- the schedule ---- */

static void
put_entry(struct loop *loop, struct loop_pass *pass, struct loop_request *request,
          uint32_t scheduled)
{
    struct loop_entry *entry = &pass->entries[pass->count++];
    const uint32_t then = request->computed + scheduled;

    *entry = (struct loop_entry){.request = request,
                                 .epoch = request->epoch,
                                 .computed = request->computed,
                                 .scheduled = scheduled,
                                 .excused = LOOP_NONE};
    memcpy(entry->blocks, request->blocks, sizeof(entry->blocks));
    for (uint32_t i = 0; i < request->block_count; i++) {
        entry->before[i] = content(request, i, request->computed);
        entry->after[i] = content(request, i, then);
    }
    request->scheduled = true;
    loop->result->passes++;
}

static bool
grow(struct loop *loop, struct loop_request *request, uint32_t tokens)
{
    while (request->block_count * LOOP_BLOCK < tokens) {
        const uint32_t block = take_block(loop);

        if (block == LOOP_NONE)
            return false;
        request->blocks[request->block_count++] = block;
    }
    return true;
}

static void
run_on(struct loop *loop, struct loop_pass *pass, struct loop_request *request)
{
    uint32_t tokens = request->count - request->computed;

    assert_true(tokens > 0);
    if (tokens > LOOP_CHUNK)
        tokens = LOOP_CHUNK;
    if (!grow(loop, request, request->computed + tokens)) {
        if (may_preempt(loop, request))
            preempt(loop, request);
        return;
    }
    if (request->told_blocks == 0) {
        assert_int_equal(engine_connector_update_state_after_alloc(loop->connector, request->id,
                                                                   request->blocks,
                                                                   request->block_count, 0),
                         KVT_OK);
        request->told_blocks = request->block_count;
    }
    put_entry(loop, pass, request, tokens);
}

/* False: there are no blocks for it now. */
static bool
admit(struct loop *loop, struct loop_pass *pass, struct loop_request *request)
{
    struct engine_matched matched;
    uint32_t tokens;

    request->local = 0;
    while ((request->local + 1) * LOOP_BLOCK < request->count) {
        const uint32_t block = find_cached(loop, name_of(request, request->local, LOOP_BLOCK));

        if (block == LOOP_NONE)
            break;
        request->blocks[request->local++] = block;
    }
    assert_int_equal(engine_connector_get_num_new_matched_tokens(
                         loop->connector, request->id, request->tokens, request->count,
                         request->local * LOOP_BLOCK, &matched),
                     KVT_OK);
    request->told_tokens = request->count;
    if (!matched.known)
        return true;
    assert_true(request->local * LOOP_BLOCK + matched.tokens < request->count);
    assert_int_equal(matched.async, loop->options.async && matched.tokens > 0);
    if (chance(loop, 50000)) /* it has its reasons */
        matched.tokens -=
            (uint32_t)kvt_random_below(&loop->random, matched.tokens / LOOP_BLOCK + 1) * LOOP_BLOCK;
    request->external = matched.tokens / LOOP_BLOCK;
    request->block_count = request->local;
    for (uint32_t i = 0; i < request->local; i++)
        loop->blocks[request->blocks[i]].refs++;
    tokens = (request->local + request->external) * LOOP_BLOCK;
    if (!matched.async || request->external == 0)
        tokens = request->count - tokens < LOOP_CHUNK ? request->count : tokens + LOOP_CHUNK;
    if (!grow(loop, request, tokens)) {
        free_blocks(loop, request);
        return false;
    }
    loop->result->hits += (uint64_t)request->local * LOOP_BLOCK;
    assert_int_equal(engine_connector_update_state_after_alloc(
                         loop->connector, request->id, request->blocks, request->block_count,
                         (size_t)request->external * LOOP_BLOCK),
                     KVT_OK);
    request->told_blocks = request->block_count;
    request->loaded_in = request->external > 0 ? loop->iteration : 0;
    if (loop->options.async && request->external > 0) {
        request->state = LOADING;
        return true;
    }
    request->state = RUNNING;
    request->computed = (request->local + request->external) * LOOP_BLOCK;
    put_entry(loop, pass, request, tokens - request->computed);
    cache_blocks(loop, request, request->local, request->computed / LOOP_BLOCK);
    return true;
}

static uint32_t
count_of(const struct loop *loop, enum state state)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < loop->arrived; i++)
        count += loop->requests[i].state == state;
    return count;
}

static void
disturb(struct loop *loop)
{
    struct loop_request *request = &loop->requests[kvt_random_below(&loop->random, loop->arrived)];

    if (chance(loop, loop->options.preempt_ppm) && may_preempt(loop, request))
        preempt(loop, request);
    if (chance(loop, loop->options.abort_ppm) && request->state < ENDING) {
        request->epoch++;
        loop->result->aborts++;
        end(loop, request);
    }
}

static void
schedule(struct loop *loop, struct loop_pass *pass)
{
    for (uint32_t i = 0; i < loop->arrived; i++)
        loop->requests[i].scheduled = false;
    if (loop->arrived < loop->options.requests && chance(loop, MILLION / 3))
        arrive(loop);
    disturb(loop);
    for (uint32_t i = 0; i < loop->arrived; i++)
        if (loop->requests[i].state == RUNNING)
            run_on(loop, pass, &loop->requests[i]);
    for (uint32_t i = 0; i < loop->arrived; i++) {
        if (count_of(loop, RUNNING) + count_of(loop, LOADING) >= LOOP_RUNNING)
            break;
        if (loop->requests[i].state == WAITING && !admit(loop, pass, &loop->requests[i]))
            break;
    }
}

/* ---- an iteration ---- */

static void
build(struct loop *loop, struct loop_pass *pass)
{
    struct engine_scheduled scheduled[LOOP_RUNNING];

    for (uint32_t i = 0; i < pass->count; i++) {
        struct loop_request *request = pass->entries[i].request;

        scheduled[i] = (struct engine_scheduled){
            .request = request->id,
            .new_blocks = request->blocks + request->told_blocks,
            .new_block_count = request->block_count - request->told_blocks,
            .new_tokens = request->tokens + request->told_tokens,
            .new_token_count = request->count - request->told_tokens,
            .computed = request->computed,
            .scheduled = pass->entries[i].scheduled,
        };
        request->told_blocks = request->block_count;
        request->told_tokens = request->count;
    }
    kvt_buffer_init(&pass->meta, ENGINE_META_MAX);
    assert_int_equal(engine_connector_build_connector_meta(loop->connector, loop->iteration,
                                                           scheduled, pass->count, &pass->meta),
                     KVT_OK);
}

/* What the pass computed is there, as far as the scheduler knows. */
static void
advance(struct loop *loop, const struct loop_pass *pass)
{
    for (uint32_t i = 0; i < pass->count; i++) {
        struct loop_request *request = pass->entries[i].request;
        const uint32_t from = request->computed / LOOP_BLOCK;

        request->computed += pass->entries[i].scheduled;
        cache_blocks(loop, request, from, request->computed / LOOP_BLOCK);
        if (request->computed < request->count)
            continue;
        if (request->count < request->total)
            request->count++;
        else
            end(loop, request);
    }
}

static void
iterate(struct loop *loop)
{
    struct loop_pass *pass = &loop->passes[loop->pass_count];

    memset(pass, 0, sizeof(*pass));
    memset(pass->wrong, 0xff, sizeof(pass->wrong));
    pass->iteration = ++loop->iteration;
    pass->seed = kvt_random_next(&loop->random);
    schedule(loop, pass);
    build(loop, pass);
    for (uint32_t r = 0; r < loop->options.ranks; r++) {
        kvt_buffer_init(&pass->report[r], ENGINE_META_MAX);
        loop_rank_tell(&loop->ranks[r], pass);
    }
    for (uint32_t r = 0; r < loop->options.ranks; r++)
        loop_rank_wait(&loop->ranks[r]);
    loop->pass_count++;
    advance(loop, pass);
    if (pass->count == 0)
        kvt_clock_sleep_ms(1);
    while (loop->pass_count > loop->options.lag)
        hear(loop);
}

/* ---- what it stands on ---- */

static struct kvbm_layout
layout_of(uint32_t ranks, uint32_t rank)
{
    const struct kvt_geometry geometry = {
        .size = sizeof(geometry),
        .kind = KVT_LAYOUT_UNIVERSAL,
        .layers = LOOP_LAYERS,
        .outer = 2,
        .page_size = LOOP_BLOCK,
        .inner_dim = 8,
        .dtype_bytes = 2,
        .alignment = 64,
        .tp_size = ranks,
        .tp_rank = rank,
        .heads = 1,
    };
    struct kvbm_layout layout;

    assert_int_equal(kvbm_layout_make(&layout, &geometry, NULL), KVT_OK);
    return layout;
}

static uint32_t
g2_blocks(const struct loop *loop)
{
    return loop->options.tight ? LOOP_G2_TIGHT : LOOP_G2;
}

static void
open_leader(struct loop *loop, struct engine_worker *const *workers)
{
    struct kvbm_pool_options pool = {.block_count = g2_blocks(loop),
                                     .dedup = KVT_POOL_DEDUP_REJECT,
                                     .order = KVT_POOL_ORDER_LINEAGE};
    struct engine_leader_options leader = {.instance = 1, .stage_chunk = 4};

    assert_int_equal(kvbm_pool_new(&loop->g2, &pool), KVT_OK);
    pool.block_count = LOOP_G3;
    assert_int_equal(kvbm_pool_new(&loop->g3, &pool), KVT_OK);
    leader.store = loop->options.objects;
    assert_int_equal(engine_group_open(&loop->group, workers, loop->options.ranks, NULL), KVT_OK);
    leader.worker = loop->group;
    leader.g2 = loop->g2;
    leader.g3 = loop->options.objects ? NULL : loop->g3;
    assert_int_equal(engine_leader_open(&loop->leader, &leader, NULL), KVT_OK);
}

static void
open_loop(struct loop *loop)
{
    struct engine_connector_options connector = {.g1_blocks = LOOP_G1,
                                                 .block_tokens = LOOP_BLOCK,
                                                 .seed = KVT_TOKEN_SEED,
                                                 .find_ms = 5000,
                                                 .objects = loop->options.objects};
    struct engine_worker *workers[LOOP_RANKS];

    if (loop->options.objects)
        loop->objects = fake_objects_open();
    for (uint32_t r = 0; r < loop->options.ranks; r++) {
        const struct fake_options fake = {
            .layout = layout_of(loop->options.ranks, r),
            .blocks =
                {[KVT_TIER_G1] = LOOP_G1, [KVT_TIER_G2] = g2_blocks(loop), [KVT_TIER_G3] = LOOP_G3},
            .objects = loop->objects,
            .ending = r % 2 == 0 ? FAKE_LATER : FAKE_AT_ONCE,
            .delay_us = DELAY_US,
            .seed = loop->options.seed + r,
            .faults = loop->options.faults,
        };

        workers[r] = fake_worker_open(&fake);
        assert_non_null(workers[r]);
        loop_rank_open(&loop->ranks[r], r, workers[r], loop->options.hurried);
    }
    open_leader(loop, workers);
    connector.leader = loop->leader;
    connector.g2 = loop->g2;
    connector.ranks = loop->options.ranks;
    connector.async = loop->options.async;
    assert_int_equal(engine_connector_open(&loop->connector, &connector, NULL), KVT_OK);
    loop->requests = test_calloc(loop->options.requests, sizeof(*loop->requests));
}

/* What the leader holds for a moment longer it lets go of soon. */
static void
settle(struct loop *loop)
{
    const uint64_t until_ms = kvt_clock_mono_ms() + SETTLE_MS;
    struct engine_leader_stats *stats = &loop->result->leader;
    uint32_t held;

    for (;;) {
        engine_leader_stats(loop->leader, stats);
        held = kvbm_pool_stats(loop->g2).active + kvbm_pool_stats(loop->g3).active;
        if (stats->matches == 0 && stats->pins == 0 && held == 0)
            return;
        if (kvt_clock_mono_ms() > until_ms)
            fail_msg("%u matches, %llu pins and %u blocks are left", stats->matches,
                     (unsigned long long)stats->pins, held);
        kvt_clock_sleep_ms(1);
    }
}

static void
close_loop(struct loop *loop)
{
    struct engine_connector_stats *stats = &loop->result->connector;

    engine_connector_stats(loop->connector, stats);
    assert_int_equal(stats->requests, 0);
    assert_int_equal(stats->transfers, 0);
    assert_int_equal(stats->held, 0);
    for (uint32_t i = 0; i < LOOP_G1; i++)
        assert_int_equal(loop->blocks[i].refs, 0);
    settle(loop);
    engine_connector_close(loop->connector);
    engine_leader_close(loop->leader);
    for (uint32_t r = 0; r < loop->options.ranks; r++)
        loop_rank_close(&loop->ranks[r]);
    engine_worker_close(loop->group);
    if (loop->objects != NULL)
        fake_objects_close(loop->objects);
    kvbm_pool_free(loop->g2);
    kvbm_pool_free(loop->g3);
    test_free(loop->requests);
}

void
loop_run(const struct loop_options *options, struct loop_result *result)
{
    struct loop *loop = test_calloc(1, sizeof(*loop));

    memset(result, 0, sizeof(*result));
    assert_true(options->ranks <= LOOP_RANKS && options->lag < LOOP_LAG);
    loop->options = *options;
    loop->result = result;
    loop->random = options->seed;
    open_loop(loop);
    arrive(loop);
    while (loop->over < options->requests) {
        assert_true(loop->iteration < ITERATIONS_MAX);
        iterate(loop);
    }
    while (loop->pass_count > 0)
        hear(loop);
    result->iterations = loop->iteration;
    close_loop(loop);
    test_free(loop);
}
