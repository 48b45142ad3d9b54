/*
 * What is tested: the edges of router/request_table.h, by hand: limits, ages, other requests of
 * one id, workers that come and go, failing allocations.  slots_model_test.c does everything else.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/random.h"

#include "router/request_table.h"
#include "tests/support/seed.h"

enum { EXPIRY_MS = 1000 };

static struct router_request_table *
slots_new(uint32_t requests_max, uint64_t blocks_max)
{
    const struct router_request_table_options options = {
        .expiry_ms = EXPIRY_MS, .requests_max = requests_max, .blocks_max = blocks_max};
    struct router_request_table *slots;

    assert_int_equal(router_request_table_new(&slots, &options), KVT_OK);
    return slots;
}

static struct router_request
request_of(const char *id, const char *worker, const uint64_t *hashes, uint32_t count)
{
    struct router_request request = {
        .state = ROUTER_ADDED, .hashes = hashes, .hash_count = count, .blocks = count};

    (void)snprintf(request.id, sizeof(request.id), "%s", id);
    (void)snprintf(request.worker.name, sizeof(request.worker.name), "%s", worker);
    request.prefill_tokens = 100;
    request.added_ms = 5000;
    return request;
}

static void
bind_names(struct router_request_table *slots, const char *names)
{
    struct router_worker_row rows[8] = {0};
    size_t count = 0;

    for (; *names != '\0'; names++)
        rows[count++].worker.name[0] = *names;
    assert_int_equal(router_request_table_bind(slots, rows, count), KVT_OK);
}

static void
check_requests(struct router_request_table *slots, size_t count, const uint32_t *requests)
{
    struct router_candidates candidates;

    router_request_table_project(slots, NULL, 0, 0, &candidates);
    assert_int_equal(candidates.count, count);
    for (size_t i = 0; i < count; i++)
        assert_int_equal(candidates.active_requests[i], requests[i]);
}

static void
shared_blocks_count_once(void **state)
{
    static const uint64_t first[] = {1, 2, 3, 4};
    static const uint64_t second[] = {1, 2, 5};
    struct router_request_table *slots = slots_new(10, 100);
    struct router_request request = request_of("a", "x", first, 4);
    struct router_candidates candidates;

    (void)state;
    bind_names(slots, "xy");
    assert_int_equal(router_request_table_merge(slots, &request, 0, NULL), KVT_OK);
    request = request_of("b", "x", second, 3);
    request.blocks = 5; /* two of them have no hash */
    assert_int_equal(router_request_table_merge(slots, &request, 0, NULL), KVT_OK);
    assert_int_equal(router_request_table_stats(slots).blocks, 5);

    router_request_table_project(slots, second, 3, 3, &candidates);
    assert_int_equal(candidates.count, 2);
    assert_int_equal(candidates.decode_blocks[0], 5 + 2);
    assert_int_equal(candidates.decode_blocks[1], 3);
    assert_int_equal(candidates.active_prefill_tokens[0], 200);
    assert_int_equal(candidates.active_requests[0], 2);
    assert_int_equal(candidates.active_requests[1], 0);

    assert_int_equal(router_request_table_prefilled(slots, "a", 0, NULL), KVT_OK);
    assert_int_equal(router_request_table_end(slots, "b", 0, NULL), KVT_OK);
    router_request_table_project(slots, first, 4, 6, &candidates);
    assert_int_equal(candidates.decode_blocks[0], 4 + 2);
    assert_int_equal(candidates.decode_blocks[1], 6);
    assert_int_equal(candidates.active_prefill_tokens[0], 0);
    router_request_table_free(slots);
}

/* A prompt may end within another's run, go on behind it, and leave in any order. */
static void
runs_are_cut_and_grow_together(void **state)
{
    static const uint64_t chain[] = {1, 2, 3, 4, 5, 6};
    struct router_request_table *slots = slots_new(10, 100);
    struct router_candidates candidates;

    (void)state;
    bind_names(slots, "xy");
    for (uint32_t length = 6; length > 0; length -= 2) {
        char id[2] = {(char)('0' + length), '\0'};
        struct router_request request = request_of(id, length == 4 ? "y" : "x", chain, length);

        assert_int_equal(router_request_table_merge(slots, &request, 0, NULL), KVT_OK);
    }
    router_request_table_project(slots, chain, 6, 6, &candidates);
    assert_int_equal(candidates.decode_blocks[0], 6);
    assert_int_equal(candidates.decode_blocks[1], 4 + 2);
    assert_int_equal(router_request_table_end(slots, "6", 0, NULL), KVT_OK);
    router_request_table_project(slots, chain, 5, 5, &candidates);
    assert_int_equal(candidates.decode_blocks[0], 2 + 3);
    assert_int_equal(candidates.decode_blocks[1], 4 + 1);
    assert_int_equal(router_request_table_end(slots, "2", 0, NULL), KVT_OK);
    assert_int_equal(router_request_table_end(slots, "4", 0, NULL), KVT_OK);
    assert_int_equal(router_request_table_stats(slots).blocks, 0);
    assert_int_equal(router_request_table_digest(slots), 0);
    router_request_table_free(slots);
}

static void
full_is_an_answer(void **state)
{
    static const uint64_t hashes[] = {1, 2, 3};
    static const uint64_t others[] = {1, 2, 4};
    struct router_request_table *slots = slots_new(2, 4);
    struct router_request request;
    bool changed = true;
    uint64_t digest;

    (void)state;
    bind_names(slots, "x");
    request = request_of("a", "x", hashes, 3);
    assert_int_equal(router_request_table_merge(slots, &request, 0, NULL), KVT_OK);
    digest = router_request_table_digest(slots);

    /* Blocks: three are there, two more are too many; one more is not. */
    request = request_of("b", "y", hashes, 2);
    assert_int_equal(router_request_table_merge(slots, &request, 0, &changed), KVT_FULL);
    assert_false(changed);
    assert_int_equal(router_request_table_stats(slots).untracked, 1);
    assert_int_equal(router_request_table_digest(slots), digest);
    request = request_of("b", "x", others, 3);
    assert_int_equal(router_request_table_merge(slots, &request, 0, NULL), KVT_OK);
    assert_int_equal(router_request_table_stats(slots).blocks, 4);

    /* Requests: what is remembered is no request, and what ends makes room. */
    request = request_of("c", "x", NULL, 0);
    assert_int_equal(router_request_table_merge(slots, &request, 0, NULL), KVT_FULL);
    assert_int_equal(router_request_table_end(slots, "a", 0, NULL), KVT_OK);
    assert_int_equal(router_request_table_merge(slots, &request, 0, NULL), KVT_OK);
    assert_int_equal(router_request_table_stats(slots).requests, 2);
    assert_int_equal(router_request_table_stats(slots).untracked, 2);
    router_request_table_free(slots);
}

/* However many others requests name, and whoever takes the place of a whole view. */
static void
others_leave_room_for_the_view(void **state)
{
    struct router_worker_row *rows = kvt_calloc(ROUTER_WORKERS_MAX, sizeof(*rows));
    struct router_request_table *slots = slots_new(2 * ROUTER_WORKERS_MAX, 100);
    struct router_request request = request_of("", "other", NULL, 0);

    (void)state;
    assert_non_null(rows);
    bind_names(slots, "x");
    for (uint32_t i = 0; i <= ROUTER_WORKERS_MAX; i++) {
        (void)snprintf(request.id, sizeof(request.id), "%u", i);
        request.worker.dp_rank = i;
        assert_int_equal(router_request_table_merge(slots, &request, 0, NULL),
                         i < ROUTER_WORKERS_MAX ? KVT_OK : KVT_FULL);
    }
    request = request_of("r", "x", NULL, 0);
    assert_int_equal(router_request_table_merge(slots, &request, 0, NULL), KVT_OK);
    for (size_t view = 0; view < 2; view++) {
        for (uint32_t i = 0; i < ROUTER_WORKERS_MAX; i++) {
            rows[i].worker.name[0] = "ab"[view];
            rows[i].worker.dp_rank = i;
        }
        assert_int_equal(router_request_table_bind(slots, rows, ROUTER_WORKERS_MAX), KVT_OK);
        router_request_table_drop(slots, &request.worker, NULL, NULL, 0); /* it left */
    }
    router_request_table_free(slots);
    kvt_free(rows);
}

static void
of_too_many_tombstones_the_oldest_goes(void **state)
{
    struct router_request_table *slots = slots_new(2, 100);
    struct router_request request;

    (void)state;
    assert_int_equal(router_request_table_end(slots, "a", 10, NULL), KVT_NOTFOUND);
    assert_int_equal(router_request_table_end(slots, "b", 20, NULL), KVT_NOTFOUND);
    assert_int_equal(router_request_table_end(slots, "c", 30, NULL), KVT_NOTFOUND);
    assert_int_equal(router_request_table_stats(slots).tombstones, 2);
    assert_int_equal(router_request_table_get(slots, "a", &request), KVT_NOTFOUND);
    assert_int_equal(router_request_table_get(slots, "b", &request), KVT_OK);
    assert_int_equal(request.state, ROUTER_FREED);
    router_request_table_free(slots);
}

static void
steps_may_come_first(void **state)
{
    struct router_request_table *slots = slots_new(10, 100);
    struct router_request request = request_of("a", "x", NULL, 0);
    bool changed;

    (void)state;
    bind_names(slots, "x");
    assert_int_equal(router_request_table_prefilled(slots, "a", 0, &changed), KVT_NOTFOUND);
    assert_true(changed);
    assert_int_equal(router_request_table_prefilled(slots, "a", 0, &changed), KVT_NOTFOUND);
    assert_false(changed);
    assert_int_equal(router_request_table_merge(slots, &request, 0, &changed), KVT_OK);
    assert_true(changed);
    assert_int_equal(router_request_table_get(slots, "a", &request), KVT_OK);
    assert_int_equal(request.state, ROUTER_PREFILLED);
    assert_string_equal(request.worker.name, "x");

    /* A request that ended does not begin: not while that is remembered. */
    assert_int_equal(router_request_table_end(slots, "b", 0, NULL), KVT_NOTFOUND);
    assert_int_equal(router_request_table_end(slots, "b", 0, &changed), KVT_OK);
    assert_false(changed);
    assert_int_equal(router_request_table_prefilled(slots, "b", 0, &changed), KVT_OK);
    assert_false(changed);
    request = request_of("b", "x", NULL, 0);
    assert_int_equal(router_request_table_merge(slots, &request, 0, &changed), KVT_OK);
    assert_false(changed);
    check_requests(slots, 1, (const uint32_t[]){1});
    router_request_table_expire(slots, EXPIRY_MS);
    assert_int_equal(router_request_table_merge(slots, &request, EXPIRY_MS, &changed), KVT_OK);
    assert_true(changed);
    router_request_table_free(slots);
}

static void
of_two_requests_of_an_id_one_stays(void **state)
{
    static const uint64_t hashes[] = {1, 2};
    struct router_request_table *slots = slots_new(10, 100);
    struct router_request first = request_of("a", "x", hashes, 2);
    struct router_request second = request_of("a", "y", hashes, 1);
    bool changed;
    uint64_t digest;

    (void)state;
    bind_names(slots, "xy");
    second.router = 1;
    assert_int_equal(router_request_table_merge(slots, &second, 0, NULL), KVT_OK);
    check_requests(slots, 2, (const uint32_t[]){0, 1});
    /* The smaller router's takes its place, whenever it comes. */
    assert_int_equal(router_request_table_merge(slots, &first, 0, &changed), KVT_OK);
    assert_true(changed);
    check_requests(slots, 2, (const uint32_t[]){1, 0});
    digest = router_request_table_digest(slots);
    assert_int_equal(router_request_table_merge(slots, &second, 0, &changed), KVT_EXISTS);
    assert_false(changed);
    assert_int_equal(router_request_table_digest(slots), digest);
    /* That it went on counts, whoever says so. */
    second.state = ROUTER_PREFILLED;
    assert_int_equal(router_request_table_merge(slots, &second, 0, &changed), KVT_EXISTS);
    assert_true(changed);
    assert_int_equal(router_request_table_get(slots, "a", &first), KVT_OK);
    assert_int_equal(first.state, ROUTER_PREFILLED);
    assert_string_equal(first.worker.name, "x");
    router_request_table_free(slots);
}

/* Also of two that differ in nothing that says which came first. */
static void
it_is_the_same_one_in_any_order(void **state)
{
    const struct router_request pair[2] = {request_of("a", "x", NULL, 0),
                                           request_of("a", "y", NULL, 0)};
    uint64_t digests[2];

    (void)state;
    for (int order = 0; order < 2; order++) {
        struct router_request_table *slots = slots_new(10, 100);
        const enum kvt_err one = router_request_table_merge(slots, &pair[order], 0, NULL);
        const enum kvt_err two = router_request_table_merge(slots, &pair[1 - order], 0, NULL);

        assert_int_equal(one, KVT_OK);
        assert_true(two == KVT_OK || two == KVT_EXISTS);
        digests[order] = router_request_table_digest(slots);
        router_request_table_free(slots);
    }
    assert_int_equal(digests[0], digests[1]);
}

static void
requests_expire_by_their_age(void **state)
{
    struct router_request_table *slots = slots_new(10, 100);
    struct router_request request = request_of("a", "x", NULL, 0);
    bool changed;

    (void)state;
    bind_names(slots, "x");
    /* It is older than this clock. */
    request.age_ms = EXPIRY_MS - 100;
    assert_int_equal(router_request_table_merge(slots, &request, 10, NULL), KVT_OK);
    assert_int_equal(router_request_table_get(slots, "a", &request), KVT_OK);
    assert_int_equal(request.age_ms, EXPIRY_MS - 100);
    router_request_table_expire(slots, 109);
    assert_int_equal(router_request_table_stats(slots).expired, 0);
    router_request_table_expire(slots, 110);
    assert_int_equal(router_request_table_stats(slots).expired, 1);
    check_requests(slots, 1, (const uint32_t[]){0});

    /* Nobody's copy brings it back, and one that is too old does not begin. */
    request = request_of("a", "x", NULL, 0);
    assert_int_equal(router_request_table_merge(slots, &request, 110, &changed), KVT_OK);
    assert_false(changed);
    request = request_of("b", "x", NULL, 0);
    request.age_ms = EXPIRY_MS;
    assert_int_equal(router_request_table_merge(slots, &request, 110, &changed), KVT_OK);
    assert_false(changed);

    /* Of two ages of one request the larger one counts. */
    request.age_ms = 0;
    assert_int_equal(router_request_table_merge(slots, &request, 110, NULL), KVT_OK);
    request.age_ms = 600;
    assert_int_equal(router_request_table_merge(slots, &request, 110, &changed), KVT_OK);
    assert_false(changed);
    router_request_table_expire(slots, 110 + EXPIRY_MS - 600);
    assert_int_equal(router_request_table_stats(slots).requests, 0);
    router_request_table_free(slots);
}

static void
a_clock_that_jumps_harms_nothing(void **state)
{
    struct router_request_table *slots = slots_new(10, 100);
    struct router_request request = request_of("a", "x", NULL, 0);

    (void)state;
    assert_int_equal(router_request_table_merge(slots, &request, 5000, NULL), KVT_OK);
    /* Back: it stands still. */
    router_request_table_expire(slots, 0);
    request = request_of("b", "x", NULL, 0);
    assert_int_equal(router_request_table_merge(slots, &request, 7, NULL), KVT_OK);
    router_request_table_expire(slots, 5000 + EXPIRY_MS - 1);
    assert_int_equal(router_request_table_stats(slots).requests, 2);
    /* Far ahead: all is over at once, and later requests are not. */
    router_request_table_expire(slots, UINT64_MAX / 2);
    assert_int_equal(router_request_table_stats(slots).requests, 0);
    request = request_of("c", "x", NULL, 0);
    assert_int_equal(router_request_table_merge(slots, &request, UINT64_MAX / 2, NULL), KVT_OK);
    router_request_table_expire(slots, UINT64_MAX / 2 + EXPIRY_MS - 1);
    assert_int_equal(router_request_table_stats(slots).requests, 1);
    router_request_table_free(slots);
}

static void
a_worker_that_left_does_nothing(void **state)
{
    static const uint64_t hashes[] = {1, 2, 3};
    struct router_request_table *slots = slots_new(100, 1000);
    struct router_worker worker = {.name = "x"};
    struct router_request request;

    (void)state;
    bind_names(slots, "xy");
    for (int i = 0; i < 20; i++) {
        char id[16];

        (void)snprintf(id, sizeof(id), "%d", i);
        request = request_of(id, i % 2 == 0 ? "x" : "y", hashes, (uint32_t)i % 4);
        assert_int_equal(router_request_table_merge(slots, &request, 0, NULL), KVT_OK);
    }
    router_request_table_drop(slots, &worker, NULL, NULL, 0);
    check_requests(slots, 2, (const uint32_t[]){0, 10});
    assert_int_equal(router_request_table_stats(slots).tombstones, 10);
    worker.dp_rank = 1; /* another one, that nobody heard of */
    router_request_table_drop(slots, &worker, NULL, NULL, 0);
    assert_int_equal(router_request_table_stats(slots).requests, 10);
    router_request_table_free(slots);
}

static void
views_change_and_loads_stay(void **state)
{
    struct router_request_table *slots = slots_new(100, 1000);
    struct router_request request;

    (void)state;
    check_requests(slots, 0, NULL);
    for (const char *name = "abbccc"; *name != '\0'; name++) {
        const char worker[] = {*name, '\0'};
        char id[16];

        (void)snprintf(id, sizeof(id), "%d", (int)router_request_table_stats(slots).requests);
        request = request_of(id, worker, NULL, 0);
        assert_int_equal(router_request_table_merge(slots, &request, 0, NULL), KVT_OK);
    }
    bind_names(slots, "cab");
    check_requests(slots, 3, (const uint32_t[]){3, 1, 2});
    bind_names(slots, "xb");
    check_requests(slots, 2, (const uint32_t[]){0, 2});
    bind_names(slots, "cxa");
    check_requests(slots, 3, (const uint32_t[]){3, 0, 1});
    bind_names(slots, "");
    check_requests(slots, 0, NULL);
    bind_names(slots, "bc");
    check_requests(slots, 2, (const uint32_t[]){2, 3});
    router_request_table_free(slots);
}

static bool
count_one(void *arg, const struct router_request *request)
{
    int *seen = arg;

    seen[strtoul(request->id, NULL, 10)]++;
    return true;
}

/* What is there all the while is shown once, however the table grows and shrinks meanwhile. */
static void
walks_survive_changes(void **state)
{
    enum { KEPT = 200, ALL = 3000 };
    struct router_request_table *slots = slots_new(ALL, 1000);
    int *seen = kvt_calloc(ALL, sizeof(seen[0]));
    uint64_t cursor = 0;
    int next = 0;
    bool more;

    (void)state;
    assert_non_null(seen);
    do {
        for (const int end = next + (cursor == 0 ? KEPT : 100); next < end && next < ALL; next++) {
            struct router_request request = request_of("", "x", NULL, 0);

            (void)snprintf(request.id, sizeof(request.id), "%d", next);
            assert_int_equal(router_request_table_merge(slots, &request, 0, NULL), KVT_OK);
        }
        more = router_request_table_each(slots, &cursor, 13, count_one, seen);
    } while (more);
    for (int i = 0; i < KEPT; i++)
        assert_int_equal(seen[i], 1);
    for (int i = KEPT; i < ALL; i++)
        assert_true(seen[i] <= 1);
    kvt_free(seen);
    router_request_table_free(slots);
}

static void
long_prompts_keep_their_beginning(void **state)
{
    enum { BLOCKS = ROUTER_REQUEST_HASHES_MAX + 5 };
    uint64_t *hashes = kvt_calloc(BLOCKS, sizeof(hashes[0]));
    struct router_request_table *slots = slots_new(10, 1000000);
    struct router_candidates candidates;
    struct router_request request;

    (void)state;
    assert_non_null(hashes);
    for (uint64_t i = 0; i < BLOCKS; i++)
        hashes[i] = i + 1;
    bind_names(slots, "x");
    request = request_of("a", "x", hashes, BLOCKS);
    assert_int_equal(router_request_table_merge(slots, &request, 0, NULL), KVT_OK);
    assert_int_equal(router_request_table_stats(slots).blocks, ROUTER_REQUEST_HASHES_MAX);
    router_request_table_project(slots, hashes, BLOCKS, BLOCKS, &candidates);
    assert_int_equal(candidates.decode_blocks[0], BLOCKS + 5);
    kvt_free(hashes);
    router_request_table_free(slots);
}

struct attempt {
    uint64_t hashes[8];
    struct router_worker_row rows[2];
};

/* A short life; wherever memory ends, what was refused changed nothing. */
static bool
live(void *arg)
{
    const struct attempt *attempt = arg;
    const struct router_request_table_options options = {
        .expiry_ms = EXPIRY_MS, .requests_max = 100, .blocks_max = 100};
    const LargestIntegralType answers[] = {KVT_OK, KVT_NOTFOUND};
    struct router_request_table *slots;
    bool whole = true;

    if (router_request_table_new(&slots, &options) != KVT_OK) {
        assert_null(slots);
        return false;
    }
    whole = router_request_table_bind(slots, attempt->rows, 2) == KVT_OK && whole;
    for (int i = 0; i < 24; i++) {
        const struct router_request_table_stats before = router_request_table_stats(slots);
        const uint64_t digest = router_request_table_digest(slots);
        struct router_request request =
            request_of("", i % 3 == 0 ? "a" : "b", attempt->hashes, (uint32_t)(i * 5) % 8);
        bool changed;
        enum kvt_err rc;

        (void)snprintf(request.id, sizeof(request.id), "%d", i % 20);
        request.added_ms -= (uint64_t)i;
        rc = router_request_table_merge(slots, &request, 0, &changed);
        assert_true(rc == KVT_OK || rc == KVT_NOMEM);
        assert_int_equal(changed, rc == KVT_OK);
        if (rc == KVT_NOMEM) {
            whole = false;
            assert_int_equal(router_request_table_digest(slots), digest);
            assert_int_equal(router_request_table_stats(slots).requests, before.requests);
            assert_int_equal(router_request_table_stats(slots).blocks, before.blocks);
        }
    }
    for (int i = 0; i < 22; i += 2) {
        char id[16];

        (void)snprintf(id, sizeof(id), "%d", i);
        assert_in_set(router_request_table_prefilled(slots, id, 0, NULL), answers, 2);
        assert_in_set(router_request_table_end(slots, id, 0, NULL), answers, 2);
    }
    router_request_table_drop(slots, &attempt->rows[0].worker, NULL, NULL, 0);
    router_request_table_drop(slots, &attempt->rows[1].worker, NULL, NULL, 0);
    assert_int_equal(router_request_table_stats(slots).requests, 0);
    assert_int_equal(router_request_table_stats(slots).blocks, 0);
    assert_int_equal(router_request_table_digest(slots), 0);
    router_request_table_free(slots);
    return whole;
}

static void
every_allocation_may_fail(void **state)
{
    struct attempt attempt = {
        .hashes = {1, 2, 3, 4, 5, 6, 7, 8},
        .rows = {{.worker = {.name = "a"}}, {.worker = {.name = "b"}}},
    };

    (void)state;
    assert_true(test_sweep_allocations(live, &attempt) > 20);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shared_blocks_count_once),
        cmocka_unit_test(runs_are_cut_and_grow_together),
        cmocka_unit_test(full_is_an_answer),
        cmocka_unit_test(others_leave_room_for_the_view),
        cmocka_unit_test(of_too_many_tombstones_the_oldest_goes),
        cmocka_unit_test(steps_may_come_first),
        cmocka_unit_test(of_two_requests_of_an_id_one_stays),
        cmocka_unit_test(it_is_the_same_one_in_any_order),
        cmocka_unit_test(requests_expire_by_their_age),
        cmocka_unit_test(a_clock_that_jumps_harms_nothing),
        cmocka_unit_test(a_worker_that_left_does_nothing),
        cmocka_unit_test(views_change_and_loads_stay),
        cmocka_unit_test(walks_survive_changes),
        cmocka_unit_test(long_prompts_keep_their_beginning),
        cmocka_unit_test(every_allocation_may_fail),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
