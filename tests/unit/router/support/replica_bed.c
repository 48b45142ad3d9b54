#include "tests/unit/router/support/replica_bed.h"

#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/random.h"

static void
post(struct group_bed *bed, int to, uint64_t delay_ms, const void *bytes, size_t size)
{
    struct bed_message *message = kvt_calloc(1, sizeof(*message) + size);
    struct bed_message **link = &bed->under_way;

    assert_non_null(message);
    message->at_ms = bed->now_ms + delay_ms;
    message->to = to;
    message->size = size;
    memcpy(message->bytes, bytes, size);
    while (*link != NULL && (*link)->at_ms <= message->at_ms)
        link = &(*link)->next;
    message->next = *link;
    *link = message;
}

/* To all, the sender too, as a bus does. */
static void
on_send(void *arg, const void *bytes, size_t size)
{
    const struct bed_router *router = arg;
    struct group_bed *bed = router->bed;
    struct wire_route_sync message;

    assert_true(size <= ROUTER_MESSAGE_MAX);
    assert_int_equal(wire_route_sync_decode(bytes, size, &message, NULL), KVT_OK);
    for (int to = 0; to < bed->count; to++) {
        const bool twice = kvt_random_below(&bed->random, 100) < bed->network.twice_percent;

        if (bed->network.pass != NULL &&
            !bed->network.pass(bed->network.arg, &message, router->number, to))
            continue;
        for (int copy = 0; copy < 1 + twice; copy++) {
            if (bed->apart[router->number][to] ||
                kvt_random_below(&bed->random, 100) < bed->network.loss_percent)
                continue;
            bed->messages++;
            post(bed, to, kvt_random_below(&bed->random, bed->network.delay_ms + 1), bytes, size);
        }
    }
}

struct group_bed *
bed_new(uint64_t seed, int count, uint64_t expiry_ms)
{
    struct group_bed *bed = kvt_calloc(1, sizeof(*bed));

    assert_non_null(bed);
    assert_true(count <= BED_ROUTERS_MAX);
    bed->random = seed;
    bed->count = count;
    bed->expiry_ms = expiry_ms;
    for (int i = 0; i < count; i++)
        bed->routers[i] = (struct bed_router){
            .bed = bed, .number = i, .clock_ms = kvt_random_below(&bed->random, 1u << 30)};
    return bed;
}

void
bed_free(struct group_bed *bed)
{
    for (int i = 0; i < bed->count; i++)
        bed_kill(bed, i);
    while (bed->under_way != NULL) {
        struct bed_message *message = bed->under_way;

        bed->under_way = message->next;
        kvt_free(message);
    }
    kvt_free(bed);
}

void
bed_start(struct group_bed *bed, int number)
{
    struct bed_router *router = &bed->routers[number];
    const struct router_request_table_options options = {
        .expiry_ms = bed->expiry_ms, .requests_max = 100000, .blocks_max = 10000000};
    struct router_replica_options replica = {
        .router = 100 + (uint64_t)number,
        .incarnation = ++router->incarnation,
        .beat_ms = BED_BEAT_MS,
        .join_ms = BED_JOIN_MS,
        .gone_ms = BED_GONE_MS,
    };
    struct router_worker_row view[BED_WORKERS] = {0};

    assert_false(router->up);
    for (int i = 0; i < BED_WORKERS; i++)
        (void)snprintf(view[i].worker.name, sizeof(view[i].worker.name), "worker-%d", i);
    assert_int_equal(router_request_table_new(&router->slots, &options), KVT_OK);
    assert_int_equal(router_request_table_bind(router->slots, view, BED_WORKERS), KVT_OK);
    bed_adopt(bed, number, &replica);
    router->up = true;
}

void
bed_adopt(struct group_bed *bed, int number, struct router_replica_options *options)
{
    struct bed_router *router = &bed->routers[number];

    options->send = on_send;
    options->arg = router;
    assert_int_equal(router_replica_new(&router->replica, router->slots, options), KVT_OK);
}

void
bed_kill(struct group_bed *bed, int number)
{
    struct bed_router *router = &bed->routers[number];

    router_replica_free(router->replica);
    router_request_table_free(router->slots);
    router->replica = NULL;
    router->slots = NULL;
    router->up = false;
}

static uint64_t
clock_of(const struct bed_router *router)
{
    return router->clock_ms + router->bed->now_ms;
}

void
bed_run(struct group_bed *bed, uint64_t ms)
{
    for (const uint64_t end_ms = bed->now_ms + ms; bed->now_ms < end_ms;) {
        bed->now_ms++;
        while (bed->under_way != NULL && bed->under_way->at_ms <= bed->now_ms) {
            struct bed_message *message = bed->under_way;
            const struct bed_router *router = &bed->routers[message->to];

            bed->under_way = message->next;
            if (router->up)
                router_replica_take(router->replica, message->bytes, message->size,
                                    clock_of(router));
            kvt_free(message);
        }
        for (int i = 0; i < bed->count; i++) {
            const struct bed_router *router = &bed->routers[i];

            if (!router->up || (bed->now_ms + (uint64_t)i * 7) % BED_TICK_MS != 0)
                continue;
            router_request_table_expire(router->slots, clock_of(router));
            router_replica_tick(router->replica, clock_of(router));
        }
    }
}

static bool
is_settled(const struct group_bed *bed)
{
    const struct router_request_table *first = NULL;

    for (int i = 0; i < bed->count; i++) {
        if (!bed->routers[i].up)
            continue;
        if (first == NULL)
            first = bed->routers[i].slots;
        if (!bed_stats(bed, i).converged || router_request_table_digest(bed->routers[i].slots) !=
                                                router_request_table_digest(first))
            return false;
    }
    return true;
}

bool
bed_settle(struct group_bed *bed, uint64_t ms)
{
    for (const uint64_t end_ms = bed->now_ms + ms; !is_settled(bed); bed_run(bed, BED_TICK_MS))
        if (bed->now_ms >= end_ms)
            return false;
    return true;
}

void
bed_request(struct router_request *request, uint64_t *hashes, uint64_t number)
{
    uint64_t random = number;
    uint64_t chain = 1;

    *request = (struct router_request){.state = ROUTER_ADDED, .hashes = hashes};
    (void)snprintf(request->id, sizeof(request->id), "request-%llu", (unsigned long long)number);
    (void)snprintf(request->worker.name, sizeof(request->worker.name), "worker-%d",
                   (int)kvt_random_below(&random, BED_WORKERS));
    request->prefill_tokens = kvt_random_below(&random, 1000);
    request->hash_count = (uint32_t)kvt_random_below(&random, BED_HASHES_MAX);
    request->blocks = request->hash_count + 1;
    for (uint32_t i = 0; i < request->hash_count; i++) {
        chain = chain * 31 + kvt_random_below(&random, i < 4 ? 2 : 1000) + 1;
        hashes[i] = chain;
    }
}

void
bed_add(struct group_bed *bed, int number, uint64_t request)
{
    const struct bed_router *router = &bed->routers[number];
    struct router_request added;
    uint64_t hashes[BED_HASHES_MAX];
    bool changed;
    enum kvt_err rc;

    bed_request(&added, hashes, request);
    added.router = 100 + (uint64_t)number;
    added.added_ms = 1700000000000 + bed->now_ms + (uint64_t)number * 2500; /* clocks differ */
    rc = router_request_table_merge(router->slots, &added, clock_of(router), &changed);
    assert_true(rc == KVT_OK || rc == KVT_EXISTS);
    if (changed)
        router_replica_tell(router->replica, added.id, ROUTER_ADDED);
}

static void
step(struct group_bed *bed, int number, uint64_t request, enum router_state state)
{
    const struct bed_router *router = &bed->routers[number];
    struct router_request added;
    uint64_t hashes[BED_HASHES_MAX];
    bool changed;
    enum kvt_err rc;

    bed_request(&added, hashes, request);
    rc = state == ROUTER_FREED
             ? router_request_table_end(router->slots, added.id, clock_of(router), &changed)
             : router_request_table_prefilled(router->slots, added.id, clock_of(router), &changed);
    assert_true(rc == KVT_OK || rc == KVT_NOTFOUND);
    if (changed)
        router_replica_tell(router->replica, added.id, state);
}

void
bed_prefilled(struct group_bed *bed, int number, uint64_t request)
{
    step(bed, number, request, ROUTER_PREFILLED);
}

void
bed_end(struct group_bed *bed, int number, uint64_t request)
{
    step(bed, number, request, ROUTER_FREED);
}

void
bed_left(struct group_bed *bed, int number, int worker)
{
    const struct bed_router *router = &bed->routers[number];
    struct router_worker left = {.dp_rank = 0};

    (void)snprintf(left.name, sizeof(left.name), "worker-%d", worker);
    router_replica_left(router->replica, &left, clock_of(router));
}

uint64_t
bed_live(const struct group_bed *bed, int number)
{
    return router_request_table_stats(bed->routers[number].slots).requests;
}

struct router_replica_stats
bed_stats(const struct group_bed *bed, int number)
{
    return router_replica_stats(bed->routers[number].replica);
}

void
bed_check_same_load(struct group_bed *bed, int a, int b)
{
    struct router_candidates left = {0};
    struct router_candidates right = {0};
    struct router_request asked;
    uint64_t hashes[BED_HASHES_MAX];

    for (uint64_t number = 0; number < 20; number++) {
        bed_request(&asked, hashes, number);
        router_request_table_project(bed->routers[a].slots, hashes, asked.hash_count, asked.blocks,
                                     &left);
        router_request_table_project(bed->routers[b].slots, hashes, asked.hash_count, asked.blocks,
                                     &right);
        assert_int_equal(left.count, BED_WORKERS);
        assert_int_equal(right.count, BED_WORKERS);
        for (size_t i = 0; i < BED_WORKERS; i++) {
            assert_int_equal(left.active_prefill_tokens[i], right.active_prefill_tokens[i]);
            assert_int_equal(left.decode_blocks[i], right.decode_blocks[i]);
            assert_int_equal(left.active_requests[i], right.active_requests[i]);
        }
    }
}
