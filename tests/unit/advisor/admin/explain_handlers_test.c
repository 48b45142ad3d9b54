/*
 * What is tested: GET /v1/explain: facts, rules, clauses, the winner and where a block stands, as
 * policy_decide() has them; and what comes of a hash, an event or a block that is none.
 * How: a gateway in RAM with a policy, a thread that serves as the engine's, a real HTTP server.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "advisor/admin/advisor_admin.h"
#include "advisor/store/writer_calls.h"
#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/http/fetch.h"
#include "base/text/json.h"
#include "cli/output/cli_json.h"

#include "tests/support/seed.h"
#include "tests/unit/advisor/support/obedient_gateway.h"

enum { CHAIN = 10, BLOCKS = 100, FULL_PERCENT = 60, ANSWER_MAX = 1 << 20, PATH_BYTES = 200 };

#define POLICY                                                                                     \
    "version: 1\n"                                                                                 \
    "tiers:\n"                                                                                     \
    "  hot: {level: G3}\n"                                                                         \
    "  cold: {level: G4}\n"                                                                        \
    "classes: {deep: depth >= 8}\n"                                                                \
    "defaults: {order_by: lru}\n"                                                                  \
    "rules:\n"                                                                                     \
    "  - {id: keep, do: exclude, in: hot, when: class(deep) or prefix(0000000000000015)}\n"        \
    "  - {id: cool, do: exclude, in: hot, when: not class(deep) and not tenant == acme}\n"         \
    "  - {id: back, from: cold, to: hot, on: second_cold_hit, when: hits >= 3}\n"                  \
    "  - {id: drain, from: hot, to: cold, protect_recent: 365d, when: \"tenant == acme\",\n"       \
    "     trigger: {start: 90%, stop: 80%}}\n"                                                     \
    "  - {id: drain-later, from: hot, to: cold, trigger: {start: 95%, stop: 92%}}\n"               \
    "quotas:\n"                                                                                    \
    "  - {tenant: acme, tier: cold, soft: 50KB, hard: 1MB}\n"                                      \
    "modes: {mode: enforce}\n"

struct scene {
    struct obedient *gateway;
    struct advisor_admin pages;
    struct kvt_http *http;
    struct kvt_buffer answer;
    unsigned status;
    pthread_t thread;
    atomic_bool stopping;
};

static void *
serve(void *arg)
{
    struct scene *scene = arg;

    while (!atomic_load(&scene->stopping)) {
        (void)advisor_writer_calls_serve(advisor_round_writer_calls(scene->gateway->rig.engine));
        kvt_clock_sleep_ms(1);
    }
    return NULL;
}

static void
go_on(struct scene *scene)
{
    atomic_store(&scene->stopping, false);
    assert_int_equal(pthread_create(&scene->thread, NULL, serve, scene), 0);
}

/* The engine is the test's again. */
static void
stop(struct scene *scene)
{
    atomic_store(&scene->stopping, true);
    assert_int_equal(pthread_join(scene->thread, NULL), 0);
}

static struct scene *
begin(void)
{
    struct scene *scene = kvt_calloc(1, sizeof(*scene));
    const struct kvt_http_options http = {.bind = "127.0.0.1",
                                          .token = "",
                                          .routes = advisor_admin_routes,
                                          .route_count = advisor_admin_route_count,
                                          .arg = &scene->pages};

    assert_non_null(scene);
    scene->gateway = obedient_new(POLICY, NULL, CHAIN);
    scene->gateway->capacity[OBEDIENT_HOT] = (uint64_t)BLOCKS * OBEDIENT_SIZE * 100 / FULL_PERCENT;
    obedient_store(scene->gateway, OBEDIENT_COLD, 0, BLOCKS + 1);
    obedient_store(scene->gateway, OBEDIENT_HOT, 0, BLOCKS);
    (void)obedient_step(scene->gateway, 1000);
    scene->pages = (struct advisor_admin){.round = scene->gateway->rig.engine,
                                          .planner = scene->gateway->rig.planner,
                                          .rulebook = scene->gateway->rig.rulebook,
                                          .store = scene->gateway->rig.store,
                                          .finder = scene->gateway->rig.finder,
                                          .counters = &scene->gateway->rig.counters};
    assert_int_equal(kvt_http_start(&scene->http, &http, NULL), KVT_OK);
    kvt_buffer_init(&scene->answer, ANSWER_MAX);
    go_on(scene);
    return scene;
}

static void
end(struct scene *scene)
{
    stop(scene);
    kvt_http_stop(scene->http);
    kvt_buffer_release(&scene->answer);
    obedient_free(scene->gateway);
    kvt_free(scene);
}

/* What is said of a block, by its number. */
static struct json_object *
explain(struct scene *scene, const char *hash, const char *query)
{
    struct json_object *answer = NULL;
    char url[PATH_BYTES];
    const struct kvt_fetch fetch = {.url = url};

    (void)snprintf(url, sizeof(url), "http://127.0.0.1:%u/v1/explain/%s?namespace=acme/llama%s",
                   kvt_http_port(scene->http), hash, query);
    kvt_buffer_clear(&scene->answer);
    assert_int_equal(kvt_fetch(&fetch, &scene->status, &scene->answer, NULL), KVT_OK);
    assert_int_equal(kvt_json_parse(&answer, kvt_buffer_text(&scene->answer), scene->answer.size,
                                    "answer", NULL),
                     KVT_OK);
    return answer;
}

static struct json_object *
tier_of(struct json_object *answer, const char *holder)
{
    for (size_t i = 0; i < cli_json_count(answer, "tiers"); i++)
        if (strcmp(cli_json_text(cli_json_item(answer, "tiers", i), "holder"), holder) == 0)
            return cli_json_item(answer, "tiers", i);
    fail_msg("no %s", holder);
    return NULL;
}

static struct json_object *
clause_of(struct json_object *tier, const char *id, const char *text)
{
    for (size_t i = 0; i < cli_json_count(tier, "rules"); i++) {
        struct json_object *rule = cli_json_item(tier, "rules", i);

        for (size_t k = 0;
             strcmp(cli_json_text(rule, "id"), id) == 0 && k < cli_json_count(rule, "clauses"); k++)
            if (strcmp(cli_json_text(cli_json_item(rule, "clauses", k), "clause"), text) == 0)
                return cli_json_item(rule, "clauses", k);
    }
    fail_msg("no clause %s of %s", text, id);
    return NULL;
}

static void
a_block_of_a_hot_volume(void **state)
{
    struct scene *scene = begin();
    struct json_object *answer = explain(scene, "000000000000000f", ""); /* number 14, depth 4 */
    struct json_object *tier;

    (void)state;
    assert_int_equal(scene->status, 200);
    assert_int_equal(cli_json_u64(answer, "version"), 1);
    assert_string_equal(cli_json_text(answer, "effective_mode"), "enforce");
    assert_int_equal(cli_json_count(answer, "tiers"), 2);
    tier = tier_of(answer, "hot@gw0");
    assert_string_equal(cli_json_text(tier, "tier"), "hot");
    assert_int_equal(cli_json_u64(tier, "facts.depth"), 4);
    assert_int_equal(cli_json_u64(tier, "facts.fanout"), 1);
    assert_string_equal(cli_json_text(tier, "facts.tenant"), "acme");
    assert_string_equal(cli_json_text(tier, "facts.model"), "llama");
    assert_string_equal(cli_json_text(tier, "facts.fill"), "60%");
    assert_string_equal(cli_json_text(tier, "facts.size"), "1000B");
    /* drain would have it but for protect_recent, and the watermark of the other is far. */
    assert_string_equal(cli_json_text(tier, "rule"), "drain-later");
    assert_true(cli_json_bool(tier, "waits"));
    assert_non_null(strstr(cli_json_text(tier, "sum"), "hot@gw0 is 60% full"));
    assert_true(cli_json_bool(clause_of(tier, "drain", "in hot"), "is"));
    assert_true(cli_json_bool(clause_of(tier, "drain", "tenant == acme"), "is"));
    assert_false(cli_json_bool(clause_of(tier, "drain", "protect_recent 365d"), "is"));
    assert_non_null(strstr(cli_json_text(clause_of(tier, "drain", "protect_recent 365d"), "change"),
                           "-> 365d"));
    assert_false(cli_json_bool(clause_of(tier, "keep", "class(deep)"), "is"));
    assert_false(cli_json_bool(clause_of(tier, "keep", "prefix(0000000000000015)"), "is"));
    /* A clause below a not is told with it. */
    assert_true(cli_json_bool(clause_of(tier, "cool", "not class(deep)"), "is"));
    assert_false(cli_json_bool(clause_of(tier, "cool", "not tenant == acme"), "is"));
    assert_string_equal(cli_json_text(cli_json_item(tier, "classes", 0), "name"), "deep");
    assert_null(strstr(kvt_buffer_text(&scene->answer), ":-0"));
    assert_true(cli_json_bool(tier, "order.known"));
    assert_string_equal(cli_json_text(tier, "order.by"), "lru");
    assert_int_equal(cli_json_u64(tier, "order.blocks"), BLOCKS);
    assert_false(cli_json_bool(tier, "order.leaving"));
    json_object_put(answer);
    end(scene);
}

/* No share of what has no cap is reached. */
static void
a_block_of_a_tier_without_a_cap(void **state)
{
    struct scene *scene = begin();
    struct json_object *answer;
    struct json_object *tier;

    (void)state;
    stop(scene);
    scene->gateway->capacity[OBEDIENT_HOT] = 0;
    (void)obedient_step(scene->gateway, 1000);
    go_on(scene);
    answer = explain(scene, "000000000000000f", "");
    tier = tier_of(answer, "hot@gw0");
    assert_string_equal(cli_json_text(tier, "rule"), "drain-later");
    assert_non_null(strstr(cli_json_text(tier, "sum"),
                           ", but never starts: hot@gw0 has no cap (tiers.hot.capacity)"));
    json_object_put(answer);
    end(scene);
}

static void
what_is_behind_a_prefix_and_what_is_deep(void **state)
{
    struct scene *scene = begin();
    struct json_object *answer = explain(scene, "0000000000000019", ""); /* behind 0x15 */
    struct json_object *tier = tier_of(answer, "hot@gw0");

    (void)state;
    assert_string_equal(cli_json_text(tier, "rule"), "keep");
    assert_true(cli_json_bool(clause_of(tier, "keep", "prefix(0000000000000015)"), "is"));
    assert_string_equal(cli_json_text(tier, "sum"), "keep has it: it stays");
    json_object_put(answer);
    answer = explain(scene, "000000000000000a", ""); /* depth 9 */
    tier = tier_of(answer, "hot@gw0");
    assert_string_equal(cli_json_text(tier, "rule"), "keep");
    assert_true(cli_json_bool(clause_of(tier, "keep", "class(deep)"), "is"));
    json_object_put(answer);
    end(scene);
}

static void
what_if_something_happened(void **state)
{
    struct scene *scene = begin();
    struct json_object *answer = explain(scene, "000000000000000f", "");
    struct json_object *tier = tier_of(answer, "cold@b");

    (void)state;
    assert_string_equal(cli_json_text(tier, "rule"), "");
    assert_string_equal(cli_json_text(tier, "sum"), "no rule has it: it stays");
    assert_false(cli_json_bool(clause_of(tier, "back", "on second_cold_hit"), "is"));
    assert_string_equal(cli_json_text(clause_of(tier, "back", "hits >= 3"), "change"),
                        "hits 0 -> 3");
    json_object_put(answer);
    answer = explain(scene, "000000000000000f", "&on=second_cold_hit");
    tier = tier_of(answer, "cold@b");
    assert_true(cli_json_bool(clause_of(tier, "back", "on second_cold_hit"), "is"));
    assert_string_equal(cli_json_text(tier, "rule"), "");
    json_object_put(answer);
    end(scene);
}

/* Deleting takes all copies of a block, so what a rule pins in one tier stays in all. */
static void
what_is_pinned_in_another_tier(void **state)
{
    struct scene *scene = begin();
    struct json_object *answer;
    struct json_object *tier;
    const char *clause = "no copy that a rule pins (stay does in hot@gw0)";

    (void)state;
    stop(scene);
    obedient_install(scene->gateway,
                     "version: 1\ntiers:\n  hot: {level: G3}\n  cold: {level: G4}\nrules:\n"
                     "  - {id: stay, do: pin, when: depth == 4, pin: {tiers: [hot]}}\n"
                     "  - {id: forget, do: expire, in: cold, when: depth >= 4}\n"
                     "modes: {mode: observe}\n");
    (void)obedient_step(scene->gateway, 1000);
    go_on(scene);
    answer = explain(scene, "000000000000000f", ""); /* depth 4 */
    tier = tier_of(answer, "cold@b");
    assert_string_equal(cli_json_text(tier, "rule"), "stay");
    assert_string_equal(cli_json_text(tier, "kept_in"), "hot@gw0");
    assert_string_equal(cli_json_text(tier, "sum"), "stay pins its copy in hot@gw0: it stays");
    assert_false(cli_json_bool(clause_of(tier, "forget", clause), "is"));
    assert_true(cli_json_bool(clause_of(tier, "forget", "depth >= 4"), "is"));
    assert_false(cli_json_bool(cli_json_item(tier, "rules", 1), "matches"));
    assert_false(cli_json_bool(cli_json_item(tier, "rules", 1), "wins"));
    assert_true(cli_json_bool(cli_json_item(tier, "rules", 0), "wins"));
    tier = tier_of(answer, "hot@gw0");
    assert_string_equal(cli_json_text(tier, "rule"), "stay");
    assert_string_equal(cli_json_text(tier, "sum"), "stay has it: it stays");
    assert_null(cli_json_at(tier, "kept_in"));
    json_object_put(answer);
    answer = explain(scene, "0000000000000010", ""); /* depth 5 */
    tier = tier_of(answer, "cold@b");
    assert_string_equal(cli_json_text(tier, "rule"), "forget");
    assert_null(cli_json_at(tier, "kept_in"));
    assert_null(strstr(kvt_buffer_text(&scene->answer), "no copy that a rule pins"));
    json_object_put(answer);
    answer = explain(scene, "0000000000000065", ""); /* in the bucket alone */
    assert_null(strstr(kvt_buffer_text(&scene->answer), "no copy that a rule pins"));
    json_object_put(answer);
    end(scene);
}

/* The other rules may act; this one moved what it may. */
static void
a_rule_that_rests(void **state)
{
    static const char resting[] = "version: 1\n"
                                  "tiers: {hot: {level: G3}, cold: {level: G4}}\n"
                                  "rules:\n"
                                  "  - {id: drain, from: hot, to: cold, limits: {per_run: 3},\n"
                                  "     trigger: {start: 40%, stop: 20%}}\n"
                                  "modes: {mode: enforce}\n";
    static const char canary[] = "version: 1\n"
                                 "tiers: {hot: {level: G3}, cold: {level: G4}}\n"
                                 "rules:\n"
                                 "  - {id: drain, from: hot, to: cold,\n"
                                 "     trigger: {start: 40%, stop: 20%}}\n"
                                 "modes: {mode: enforce, canary: 0%}\n";
    struct scene *scene = begin();
    struct json_object *answer;

    (void)state;
    answer = explain(scene, "000000000000000f", "");
    assert_null(strstr(cli_json_text(tier_of(answer, "hot@gw0"), "sum"), "but not now"));
    json_object_put(answer);
    stop(scene);
    obedient_install(scene->gateway, resting);
    scene->gateway->now_ms = kvt_clock_unix_ms() - 10000; /* it rests for a minute from then on */
    for (int i = 0; i < 3; i++)
        (void)obedient_step(scene->gateway, 1000);
    go_on(scene);
    answer = explain(scene, "000000000000000f", "");
    assert_non_null(
        strstr(cli_json_text(tier_of(answer, "hot@gw0"), "sum"), "limits.per_run blocks"));
    json_object_put(answer);
    stop(scene);
    obedient_install(scene->gateway, canary);
    go_on(scene);
    answer = explain(scene, "000000000000000f", "");
    assert_non_null(strstr(cli_json_text(tier_of(answer, "hot@gw0"), "sum"), "modes.canary"));
    json_object_put(answer);
    end(scene);
}

static void
the_quota_of_its_tenant(void **state)
{
    struct scene *scene = begin();
    struct json_object *answer = explain(scene, "000000000000000f", "");
    struct json_object *tier = tier_of(answer, "cold@b");

    (void)state;
    assert_string_equal(cli_json_text(tier, "quota.tier"), "cold");
    assert_string_equal(cli_json_text(tier, "quota.above"), "soft");
    assert_int_equal(cli_json_u64(tier, "quota.used_bytes"), (BLOCKS + 1) * OBEDIENT_SIZE);
    assert_int_equal(cli_json_u64(tier, "quota.soft_bytes"), 50000);
    /* Nothing lies below, and no rule deletes from there. */
    assert_string_equal(cli_json_text(tier, "sum"), "no rule has it: it stays");
    assert_int_equal(cli_json_u64(tier_of(answer, "hot@gw0"), "quota.hard_bytes"), 0);
    json_object_put(answer);
    stop(scene);
    obedient_install(scene->gateway,
                     "version: 1\ntiers:\n  hot: {level: G3}\n  cold: {level: G4}\nrules:\n"
                     "  - {id: stay, do: pin, when: depth == 4, pin: {tiers: [hot]}}\n"
                     "  - {id: forget, do: expire, in: cold, when: depth >= 1000}\n"
                     "quotas:\n  - {tenant: acme, tier: cold, hard: 50KB}\n"
                     "modes: {mode: observe}\n");
    (void)obedient_step(scene->gateway, 1000);
    go_on(scene);
    answer = explain(scene, "000000000000000f", ""); /* deleting would take the copy above */
    assert_string_equal(cli_json_text(tier_of(answer, "cold@b"), "sum"),
                        "no rule has it: it stays");
    json_object_put(answer);
    answer = explain(scene, "0000000000000010", "");
    assert_non_null(strstr(cli_json_text(tier_of(answer, "cold@b"), "sum"), "go first"));
    json_object_put(answer);
    end(scene);
}

static void
what_cannot_be_explained(void **state)
{
    struct scene *scene = begin();

    (void)state;
    json_object_put(explain(scene, "none", ""));
    assert_int_equal(scene->status, 400);
    json_object_put(explain(scene, "000000000000000f", "&on=tuesday"));
    assert_int_equal(scene->status, 400);
    json_object_put(explain(scene, "ffffffffffffffff", ""));
    assert_int_equal(scene->status, 404);
    assert_non_null(
        strstr(kvt_buffer_text(&scene->answer),
               "kvtier block show ffffffffffffffff --namespace acme/llama; of another"));
    json_object_put(explain(scene, "000000000000000f", "/other"));
    assert_int_equal(scene->status, 404);
    end(scene);
}

/* Another ordering takes a restart, and both answers say so. */
static void
the_ordering_that_is_followed(void **state)
{
    struct scene *scene = begin();
    struct json_object *answer = explain(scene, "0000000000000003", "");
    struct json_object *order = cli_json_at(tier_of(answer, "hot@gw0"), "order");
    char url[PATH_BYTES];
    const struct kvt_fetch fetch = {.url = url};

    (void)state;
    assert_string_equal(cli_json_text(order, "by"), "lru");
    assert_string_equal(cli_json_text(order, "next"), "");
    json_object_put(answer);
    stop(scene);
    obedient_install(scene->gateway,
                     "version: 1\ntiers:\n  hot: {level: G3}\n  cold: {level: G4}\n"
                     "defaults: {order_by: fifo}\nrules:\n  - {id: keep, do: exclude}\n");
    go_on(scene);
    answer = explain(scene, "0000000000000003", "");
    order = cli_json_at(tier_of(answer, "hot@gw0"), "order");
    assert_string_equal(cli_json_text(order, "by"), "lru");
    assert_string_equal(cli_json_text(order, "next"), "fifo");
    json_object_put(answer);
    (void)snprintf(url, sizeof(url), "http://127.0.0.1:%u/v1/policy", kvt_http_port(scene->http));
    kvt_buffer_clear(&scene->answer);
    assert_int_equal(kvt_fetch(&fetch, &scene->status, &scene->answer, NULL), KVT_OK);
    assert_non_null(
        strstr(kvt_buffer_text(&scene->answer), "\"ordering\":\"lru\",\"next_ordering\":\"fifo\""));
    stop(scene);
    do {
        advisor_planner_tick(scene->gateway->rig.planner, scene->gateway->now_ms);
        test_rig_run(&scene->gateway->rig);
    } while (test_rig_value(scene->gateway->rig.counters.reranking) > 0);
    go_on(scene);
    answer = explain(scene, "0000000000000003", "");
    order = cli_json_at(tier_of(answer, "hot@gw0"), "order");
    assert_string_equal(cli_json_text(order, "by"), "fifo");
    assert_string_equal(cli_json_text(order, "next"), "");
    json_object_put(answer);
    kvt_buffer_clear(&scene->answer);
    assert_int_equal(kvt_fetch(&fetch, &scene->status, &scene->answer, NULL), KVT_OK);
    assert_non_null(
        strstr(kvt_buffer_text(&scene->answer), "\"ordering\":\"fifo\",\"next_ordering\":\"\""));
    end(scene);
}

struct asking {
    struct scene *scene;
    pthread_t thread;
    unsigned status;
    atomic_bool done;
};

static void *
ask_once(void *arg)
{
    struct asking *asking = arg;
    struct kvt_buffer answer;
    char url[PATH_BYTES];
    const struct kvt_fetch fetch = {.url = url, .timeout_ms = 60000};

    kvt_buffer_init(&answer, ANSWER_MAX);
    (void)snprintf(url, sizeof(url), "http://127.0.0.1:%u/v1/explain/0000000000000003",
                   kvt_http_port(asking->scene->http));
    if (kvt_fetch(&fetch, &asking->status, &answer, NULL) != KVT_OK)
        asking->status = 0;
    kvt_buffer_release(&answer);
    atomic_store(&asking->done, true);
    return NULL;
}

/* While the engine does something else, who does not need it is answered. */
static void
who_waits_for_the_engine_keeps_nobody_else(void **state)
{
    struct scene *scene = begin();
    struct asking asking[KVT_HTTP_THREADS];
    const size_t count = sizeof(asking) / sizeof(asking[0]);
    char url[PATH_BYTES];
    const struct kvt_fetch fetch = {.url = url, .timeout_ms = 3000};
    size_t refused = 0;

    (void)state;
    stop(scene);
    for (size_t i = 0; i < count; i++) { /* one after the other, each on a thread that is free */
        asking[i] = (struct asking){.scene = scene};
        assert_int_equal(pthread_create(&asking[i].thread, NULL, ask_once, &asking[i]), 0);
        while (atomic_load(&scene->pages.waiting) <= i && !atomic_load(&asking[i].done))
            kvt_clock_sleep_ms(1);
    }
    assert_int_equal(atomic_load(&scene->pages.waiting), ADVISOR_ADMIN_WAIT_MAX);
    (void)snprintf(url, sizeof(url), "http://127.0.0.1:%u/livez", kvt_http_port(scene->http));
    assert_int_equal(kvt_fetch(&fetch, &scene->status, &scene->answer, NULL), KVT_OK);
    assert_int_equal(scene->status, 200);
    go_on(scene);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(pthread_join(asking[i].thread, NULL), 0);
        assert_int_not_equal(asking[i].status, 0);
        refused += asking[i].status == 503;
    }
    assert_int_equal(refused, count - ADVISOR_ADMIN_WAIT_MAX);
    assert_int_equal(atomic_load(&scene->pages.waiting), 0);
    end(scene);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_block_of_a_hot_volume),
        cmocka_unit_test(a_block_of_a_tier_without_a_cap),
        cmocka_unit_test(what_is_behind_a_prefix_and_what_is_deep),
        cmocka_unit_test(what_if_something_happened),
        cmocka_unit_test(what_is_pinned_in_another_tier),
        cmocka_unit_test(a_rule_that_rests),
        cmocka_unit_test(the_quota_of_its_tenant),
        cmocka_unit_test(what_cannot_be_explained),
        cmocka_unit_test(the_ordering_that_is_followed),
        cmocka_unit_test(who_waits_for_the_engine_keeps_nobody_else),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
