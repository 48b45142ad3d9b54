/*
 * What is tested: router/request_table.h against a model that knows nothing of trees and columns:
 * a list of requests, and sets of blocks counted one by one.
 * How: random steps on few ids, in any order, twice, late, of other ages, with a clock that goes
 * back; after each, every number of the table is compared.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/random.h"

#include "router/request_table.h"
#include "tests/support/seed.h"

enum {
    IDS = 24,
    VARIANTS = 3, /* other requests of the same id */
    WORKERS = 5,
    BLOCKS = 10,
    EXPIRY_MS = 1000,
    STEPS = 60000 / TEST_ALONE_SHARE,
};

struct model_row {
    bool known;
    bool live;
    enum router_state state;
    int variant;
    uint64_t due_ms;
};

struct world {
    uint64_t random;
    uint64_t now_ms;
    uint64_t expired;
    struct router_request_table *slots;
    struct model_row rows[IDS];
    struct router_request requests[IDS][VARIANTS];
    uint64_t hashes[IDS][VARIANTS][BLOCKS];
    struct router_worker_row view[WORKERS];
    size_t view_count;
};

/* A prompt out of a small tree, so that beginnings are shared; hashes chain. */
static uint32_t
make_prompt(uint64_t *random, uint64_t *hashes)
{
    const uint32_t count = (uint32_t)kvt_random_below(random, BLOCKS + 1);
    uint64_t chain = 7;

    for (uint32_t i = 0; i < count; i++) {
        chain = chain * 31 + 1 + (kvt_random_below(random, 3) == 0);
        hashes[i] = chain;
    }
    return count;
}

static struct router_worker
worker_of(uint64_t number)
{
    struct router_worker worker = {.dp_rank = (uint32_t)(number % 2)};

    (void)snprintf(worker.name, sizeof(worker.name), "worker-%d", (int)(number / 2));
    return worker;
}

static void
make_requests(struct world *world)
{
    for (int id = 0; id < IDS; id++) {
        for (int variant = 0; variant < VARIANTS; variant++) {
            struct router_request *request = &world->requests[id][variant];

            (void)snprintf(request->id, sizeof(request->id), "request-%d", id);
            request->worker = worker_of(kvt_random_below(&world->random, WORKERS));
            request->router = (uint64_t)(variant % 2); /* first by time, then by router */
            request->added_ms = 5000 + (uint64_t)(variant / 2);
            request->prefill_tokens = kvt_random_below(&world->random, 100);
            request->hashes = world->hashes[id][variant];
            request->hash_count = make_prompt(&world->random, world->hashes[id][variant]);
            request->blocks = request->hash_count + (uint32_t)kvt_random_below(&world->random, 3);
        }
    }
}

static bool
same_worker(const struct router_worker *a, const struct router_worker *b)
{
    return a->dp_rank == b->dp_rank && strcmp(a->name, b->name) == 0;
}

static const struct router_request *
added(const struct world *world, int id)
{
    return &world->requests[id][world->rows[id].variant];
}

/* Does a live request of the worker, among the first `ids`, hold the block? */
static bool
is_active(const struct world *world, const struct router_worker *worker, uint64_t hash, int ids)
{
    for (int id = 0; id < ids; id++) {
        if (!world->rows[id].live || !same_worker(&added(world, id)->worker, worker))
            continue;
        for (uint32_t i = 0; i < added(world, id)->hash_count; i++)
            if (added(world, id)->hashes[i] == hash)
                return true;
    }
    return false;
}

struct load {
    uint64_t tokens;
    uint64_t pairs;
    uint64_t blocks;
    uint32_t requests;
};

static struct load
load_of(const struct world *world, const struct router_worker *worker)
{
    struct load load = {0};

    for (int id = 0; id < IDS; id++) {
        const struct router_request *request = added(world, id);

        if (!world->rows[id].live || !same_worker(&request->worker, worker))
            continue;
        load.requests++;
        load.tokens += world->rows[id].state == ROUTER_ADDED ? request->prefill_tokens : 0;
        load.blocks += request->blocks - request->hash_count;
        for (uint32_t i = 0; i < request->hash_count; i++)
            load.pairs += !is_active(world, worker, request->hashes[i], id);
    }
    load.blocks += load.pairs;
    return load;
}

static void
check_columns(const struct world *world)
{
    const struct router_request *asked = &world->requests[0][0];
    const uint64_t digest = router_request_table_digest(world->slots);
    struct router_candidates candidates = {0};

    router_request_table_project(world->slots, asked->hashes, asked->hash_count, asked->blocks,
                                 &candidates);
    assert_int_equal(candidates.count, world->view_count);
    for (size_t i = 0; i < world->view_count; i++) {
        const struct router_worker *worker = &world->view[i].worker;
        const struct load load = load_of(world, worker);
        uint64_t decode = load.blocks + asked->blocks;

        for (uint32_t j = 0; j < asked->hash_count; j++)
            decode -= is_active(world, worker, asked->hashes[j], IDS);
        assert_int_equal(candidates.active_prefill_tokens[i], load.tokens);
        assert_int_equal(candidates.active_requests[i], load.requests);
        assert_int_equal(candidates.decode_blocks[i], decode);
    }
    assert_int_equal(router_request_table_digest(world->slots), digest);
}

struct seen {
    const struct world *world;
    bool rows[IDS];
};

static bool
check_row(void *arg, const struct router_request *shown)
{
    struct seen *seen = arg;
    const struct world *world = seen->world;
    int id = -1;
    const struct model_row *row;
    const struct router_request *request;
    int64_t age_ms;

    assert_int_equal(sscanf(shown->id, "request-%d", &id), 1);
    row = &world->rows[id];
    assert_true(row->known && !seen->rows[id]);
    seen->rows[id] = true;
    assert_int_equal(shown->state, row->state);
    age_ms = EXPIRY_MS + (int64_t)world->now_ms - (int64_t)row->due_ms;
    assert_int_equal(shown->age_ms, age_ms);
    if (!row->live) {
        assert_string_equal(shown->worker.name, "");
        return true;
    }
    request = added(world, id);
    assert_true(same_worker(&shown->worker, &request->worker));
    assert_int_equal(shown->router, request->router);
    assert_int_equal(shown->added_ms, request->added_ms);
    assert_int_equal(shown->prefill_tokens, request->prefill_tokens);
    assert_int_equal(shown->blocks, request->blocks);
    assert_int_equal(shown->hash_count, request->hash_count);
    if (request->hash_count > 0)
        assert_memory_equal(shown->hashes, request->hashes, 8 * request->hash_count);
    return true;
}

static void
check_rows(struct world *world)
{
    const struct router_request_table_stats stats = router_request_table_stats(world->slots);
    struct seen seen = {.world = world};
    uint64_t cursor = 0;
    uint64_t live = 0;
    uint64_t remembered = 0;
    uint64_t pairs = 0;

    while (router_request_table_each(world->slots, &cursor, 1 + kvt_random_below(&world->random, 9),
                                     check_row, &seen))
        continue;
    for (int id = 0; id < IDS; id++) {
        assert_int_equal(seen.rows[id], world->rows[id].known);
        live += world->rows[id].live;
        remembered += world->rows[id].known && !world->rows[id].live;
    }
    for (uint64_t i = 0; i < WORKERS; i++) {
        const struct router_worker worker = worker_of(i);

        pairs += load_of(world, &worker).pairs;
    }
    assert_int_equal(stats.requests, live);
    assert_int_equal(stats.tombstones, remembered);
    assert_int_equal(stats.blocks, pairs);
    assert_int_equal(stats.expired, world->expired);
    assert_int_equal(stats.untracked, 0);
}

static uint64_t
due(const struct world *world, uint64_t age_ms)
{
    return world->now_ms + (age_ms < EXPIRY_MS ? EXPIRY_MS - age_ms : 0);
}

static void
model_step(struct world *world, struct model_row *row, enum router_state state, uint64_t age_ms)
{
    if (!row->known && age_ms >= EXPIRY_MS)
        return;
    if (!row->known || (!row->live && state > row->state) || (row->live && state == ROUTER_FREED)) {
        *row = (struct model_row){.known = true, .state = state, .due_ms = due(world, age_ms)};
    } else if (row->live) {
        row->state = state > row->state ? state : row->state;
    } else if (state == row->state && due(world, age_ms) < row->due_ms) {
        row->due_ms = due(world, age_ms);
    }
}

static enum kvt_err
model_merge(struct world *world, int id, int variant, enum router_state state, uint64_t age_ms)
{
    struct model_row *row = &world->rows[id];

    if (state == ROUTER_FREED) {
        model_step(world, row, state, age_ms);
        return KVT_OK;
    }
    if (!row->live) {
        if (age_ms >= EXPIRY_MS || (row->known && row->state == ROUTER_FREED))
            return KVT_OK;
        row->state = row->known && row->state > state ? row->state : state;
        row->known = true;
        row->live = true;
        row->variant = variant;
        row->due_ms = due(world, age_ms);
        return KVT_OK;
    }
    model_step(world, row, state, age_ms);
    if (variant > row->variant)
        return KVT_EXISTS;
    row->variant = variant;
    row->due_ms = due(world, age_ms) < row->due_ms ? due(world, age_ms) : row->due_ms;
    return KVT_OK;
}

static void
merge(struct world *world, int id)
{
    const int variant = (int)kvt_random_below(&world->random, VARIANTS);
    const struct model_row before = world->rows[id];
    struct router_request request = world->requests[id][variant];
    bool changed;
    enum kvt_err rc;

    request.state = (enum router_state)(1 + kvt_random_below(&world->random, 3));
    if (kvt_random_below(&world->random, 3) == 0)
        request.age_ms = kvt_random_below(&world->random, EXPIRY_MS + EXPIRY_MS / 4);
    rc = router_request_table_merge(world->slots, &request, world->now_ms, &changed);
    assert_int_equal(rc, model_merge(world, id, variant, request.state, request.age_ms));
    assert_int_equal(changed, before.known != world->rows[id].known ||
                                  before.live != world->rows[id].live ||
                                  before.state != world->rows[id].state ||
                                  (before.live && before.variant != world->rows[id].variant));
}

static void
take_step(struct world *world, int id, enum router_state state)
{
    const char *name = world->requests[id][0].id;
    const bool live = world->rows[id].live;
    const enum router_state before = world->rows[id].known ? world->rows[id].state : 0;
    bool changed;
    enum kvt_err rc;

    rc = state == ROUTER_FREED
             ? router_request_table_end(world->slots, name, world->now_ms, &changed)
             : router_request_table_prefilled(world->slots, name, world->now_ms, &changed);
    assert_int_equal(rc, live || before == ROUTER_FREED ? KVT_OK : KVT_NOTFOUND);
    assert_int_equal(changed, state > before);
    model_step(world, &world->rows[id], state, 0);
}

/* A clock that goes back is not believed. */
static void
expire(struct world *world)
{
    router_request_table_expire(world->slots, world->now_ms);
    router_request_table_expire(world->slots, kvt_random_below(&world->random, world->now_ms));
    for (int id = 0; id < IDS; id++) {
        struct model_row *row = &world->rows[id];

        if (!row->known || row->due_ms > world->now_ms)
            continue;
        world->expired += row->live;
        if (row->live)
            *row = (struct model_row){
                .known = true, .state = ROUTER_FREED, .due_ms = world->now_ms + EXPIRY_MS};
        else
            *row = (struct model_row){0};
    }
}

static void
drop(struct world *world)
{
    const struct router_worker worker = worker_of(kvt_random_below(&world->random, WORKERS + 1));

    router_request_table_drop(world->slots, &worker, NULL, NULL, world->now_ms);
    for (int id = 0; id < IDS; id++)
        if (world->rows[id].live && same_worker(&added(world, id)->worker, &worker))
            world->rows[id] = (struct model_row){
                .known = true, .state = ROUTER_FREED, .due_ms = world->now_ms + EXPIRY_MS};
}

static void
bind_some(struct world *world)
{
    world->view_count = 0;
    for (uint64_t i = 0; i < WORKERS; i++)
        if (kvt_random_below(&world->random, 4) > 0)
            world->view[world->view_count++].worker = worker_of(i);
    for (size_t i = world->view_count; i > 1; i--) { /* in any order */
        const size_t other = kvt_random_below(&world->random, i);
        const struct router_worker_row row = world->view[other];

        world->view[other] = world->view[i - 1];
        world->view[i - 1] = row;
    }
    assert_int_equal(router_request_table_bind(world->slots, world->view, world->view_count),
                     KVT_OK);
}

static void
random_against_model(void **state)
{
    const struct router_request_table_options options = {
        .expiry_ms = EXPIRY_MS, .requests_max = IDS, .blocks_max = 100000};
    struct world *world = kvt_calloc(1, sizeof(*world));

    (void)state;
    assert_non_null(world);
    world->random = test_seed();
    make_requests(world);
    assert_int_equal(router_request_table_new(&world->slots, &options), KVT_OK);
    for (int i = 0; i < STEPS; i++) {
        const int id = (int)kvt_random_below(&world->random, IDS);
        const uint64_t what = kvt_random_below(&world->random, 100);

        world->now_ms += kvt_random_below(&world->random, 12);
        if (what < 60)
            merge(world, id);
        else if (what < 75)
            take_step(world, id, ROUTER_PREFILLED);
        else if (what < 82)
            take_step(world, id, ROUTER_FREED);
        else if (what < 92)
            expire(world);
        else if (what < 93)
            drop(world);
        else if (what < 96)
            bind_some(world);
        check_columns(world);
        if (what % 8 == 0) {
            expire(world); /* ages are as of the last call with a time */
            check_rows(world);
        }
    }
    router_request_table_free(world->slots);
    kvt_free(world);
}

/* The same steps in another order, some twice, are the same table. */
static void
order_does_not_matter(void **state)
{
    const struct router_request_table_options options = {
        .expiry_ms = EXPIRY_MS, .requests_max = IDS, .blocks_max = 100000};
    struct world *world = kvt_calloc(1, sizeof(*world));
    struct {
        int id;
        int variant;
        enum router_state state;
    } steps[IDS * 2];

    (void)state;
    assert_non_null(world);
    world->random = test_seed();
    for (int round = 0; round < 200; round++) {
        struct router_request_table *tables[3];

        make_requests(world);
        for (int i = 0; i < IDS * 2; i++) {
            steps[i].id = (int)kvt_random_below(&world->random, IDS);
            steps[i].variant = (int)kvt_random_below(&world->random, VARIANTS);
            steps[i].state = kvt_random_below(&world->random, 6) == 0
                                 ? ROUTER_FREED
                                 : (enum router_state)(1 + kvt_random_below(&world->random, 2));
        }
        for (int t = 0; t < 3; t++) {
            assert_int_equal(router_request_table_new(&tables[t], &options), KVT_OK);
            for (int i = 0; i < IDS * 8; i++) {
                /* The first pass is all of them, rotated; behind it, any again. */
                const int at = i < IDS * 2 ? (i * 5 + t * 7) % (IDS * 2)
                                           : (int)kvt_random_below(&world->random, IDS * 2);
                struct router_request request = world->requests[steps[at].id][steps[at].variant];
                enum kvt_err rc;

                request.state = steps[at].state;
                rc = router_request_table_merge(tables[t], &request, 10, NULL);
                assert_true(rc == KVT_OK || rc == KVT_EXISTS);
            }
            assert_int_equal(router_request_table_digest(tables[t]),
                             router_request_table_digest(tables[0]));
        }
        for (int t = 0; t < 3; t++)
            router_request_table_free(tables[t]);
    }
    kvt_free(world);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_against_model),
        cmocka_unit_test(order_does_not_matter),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
