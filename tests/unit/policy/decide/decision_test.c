/*
 * What is tested: policy/decide/decision.h.
 * How: each reason not to match by hand; the words of an explanation; long random runs of facts in
 * which deciding with and without a trace must agree.
 */
#include <stdio.h>
#include <string.h>

#include "base/core/random.h"

#include "policy/decide/decision.h"
#include "policy/file/policy_parse.h"
#include "tests/support/seed.h"

enum { RUNS = 20000, TEXT_LIMIT = 1 << 16 };

static const char text[] = "version: 1\n"
                           "tiers:\n"
                           "  hot: {level: G3}\n"
                           "  cold: {level: G4}\n"
                           "classes:\n"
                           "  shared: fanout >= 8 and depth <= 64\n"
                           "  kept: class(shared) or tenant == gold\n"
                           "defaults: {protect_recent: 10m}\n"
                           "rules:\n"
                           "  - id: hands-off\n"
                           "    do: exclude\n"
                           "    when: tenant ~ \"lab-*\"\n"
                           "  - id: keep\n"
                           "    when: class(kept)\n"
                           "    pin: {tiers: hot, ttl: 24h}\n"
                           "  - id: bring-back\n"
                           "    from: cold\n"
                           "    to: hot\n"
                           "    on: [second_cold_hit, session_end]\n"
                           "  - id: idle\n"
                           "    from: hot\n"
                           "    to: cold\n"
                           "    when: last_access > 30m and not (hits >= 3 or pinned)\n"
                           "    trigger: {start: 85%, stop: 70%}\n"
                           "  - id: forget\n"
                           "    in: cold\n"
                           "    do: expire\n"
                           "    when: age > 7d and prefix(0x7)\n"
                           "    protect_recent: 1h\n";

struct scene {
    struct policy *policy;
    struct policy_decision *decision;
};

static void
begin(struct scene *scene)
{
    struct policy_problems problems;
    struct kvt_error err;

    if (policy_parse(&scene->policy, "text", text, strlen(text), &problems, &err) != KVT_OK)
        fail_msg("%s", err.text);
    assert_int_equal(policy_decision_new(&scene->decision, scene->policy), KVT_OK);
}

static void
end(struct scene *scene)
{
    policy_decision_free(scene->decision);
    policy_free(scene->policy);
}

static const char *
rule_of(const struct scene *scene, struct policy_facts facts, enum policy_event event)
{
    policy_decide(scene->policy, &facts, event, scene->decision);
    if (scene->decision->rule < 0)
        return "none";
    return policy_rule_at(scene->policy, (size_t)scene->decision->rule)->id;
}

static void
reasons_not_to_match(void **state)
{
    struct policy_facts idle = {.tier = "hot", .last_access_ms = 7200000, .fill_ppm = 900000};
    struct policy_facts facts;
    struct scene scene;

    (void)state;
    begin(&scene);
    assert_string_equal(rule_of(&scene, idle, POLICY_ON_NOTHING), "idle");
    assert_int_equal(scene.decision->to, 1);
    assert_false(scene.decision->waits);
    facts = idle;
    facts.fill_ppm = 849999;
    assert_string_equal(rule_of(&scene, facts, POLICY_ON_NOTHING), "idle");
    assert_true(scene.decision->waits);
    facts = idle;
    facts.pinned = true;
    assert_string_equal(rule_of(&scene, facts, POLICY_ON_NOTHING), "none");
    assert_int_equal(scene.decision->verdicts[3].refusals,
                     POLICY_REFUSES_PINNED | POLICY_REFUSES_WHEN);
    facts = idle;
    facts.tenant = "lab-7";
    assert_string_equal(rule_of(&scene, facts, POLICY_ON_NOTHING), "hands-off");
    facts = idle;
    facts.tenant = "gold";
    assert_string_equal(rule_of(&scene, facts, POLICY_ON_NOTHING), "keep");
    facts.last_access_ms = 86400000;
    assert_string_equal(rule_of(&scene, facts, POLICY_ON_NOTHING), "keep");
    facts.last_access_ms++; /* not read for longer than pins last */
    assert_string_equal(rule_of(&scene, facts, POLICY_ON_NOTHING), "idle");
    assert_int_equal(scene.decision->verdicts[1].refusals, POLICY_REFUSES_TTL);
    facts = idle;
    facts.tenant = "gold";
    assert_int_equal(policy_match_behind(scene.policy, &facts, POLICY_ON_NOTHING, 1), 3);
    assert_int_equal(policy_match_behind(scene.policy, &facts, POLICY_ON_NOTHING, 3), -1);
    facts.tier = "cold"; /* that pin is of the other tier */
    assert_string_equal(rule_of(&scene, facts, POLICY_ON_NOTHING), "none");
    assert_string_equal(rule_of(&scene, facts, POLICY_ON_STORED), "none");
    assert_string_equal(rule_of(&scene, facts, POLICY_ON_SESSION_END), "bring-back");
    assert_int_equal(scene.decision->to, 0);
    facts = (struct policy_facts){.tier = "cold",
                                  .age_ms = 8 * 86400000ull,
                                  .last_access_ms = 3600000,
                                  .prefixes = (const uint64_t[]){9, 7},
                                  .prefix_count = 2};
    assert_string_equal(rule_of(&scene, facts, POLICY_ON_NOTHING), "forget");
    facts.last_access_ms--;
    assert_string_equal(rule_of(&scene, facts, POLICY_ON_NOTHING), "none");
    assert_int_equal(scene.decision->verdicts[4].refusals, POLICY_REFUSES_RECENT);
    facts = idle;
    facts.tier = "nowhere";
    assert_string_equal(rule_of(&scene, facts, POLICY_ON_NOTHING), "none");
    end(&scene);
}

static void
explanations_have_every_clause(void **state)
{
    static const char expected[] =
        "  rule hands-off (line 10): does not match\n"
        "    false  tenant ~ \"lab-*\"  ; would do: tenant \"\" -> like \"lab-*\"\n"
        "  rule keep (line 13): does not match\n"
        "    false  class(kept)\n"
        "      false  class(shared)\n"
        "        true   fanout >= 8\n"
        "        false  depth <= 64  ; would do: depth 900 -> 64\n"
        "      false  tenant == gold  ; would do: tenant \"\" -> \"gold\"\n"
        "  rule bring-back (line 16): does not match\n"
        "    false  it is asked of blocks in cold, and this one lies in hot\n"
        "    false  it is asked when something else happens\n"
        "  rule idle (line 20): matches\n"
        "    true   last_access > 30m\n"
        "    true   not hits >= 3\n"
        "    true   not pinned\n"
        "  idle has the block: demote to cold\n"
        "  and waits: its tier is 50% full, and it starts at 85%\n";
    const struct policy_facts facts = {
        .tier = "hot", .last_access_ms = 7200000, .fanout = 9, .depth = 900, .fill_ppm = 500000};
    struct kvt_buffer out;
    struct scene scene;

    (void)state;
    begin(&scene);
    policy_decide(scene.policy, &facts, POLICY_ON_NOTHING, scene.decision);
    kvt_buffer_init(&out, TEXT_LIMIT);
    policy_explain(scene.policy, &facts, scene.decision, &out);
    assert_string_equal(kvt_buffer_text(&out), expected);
    kvt_buffer_release(&out);
    end(&scene);
}

static struct policy_facts
draw_facts(uint64_t *random, const uint64_t *prefix)
{
    static const char *const tenants[] = {"gold", "lab-1", "lab", NULL};
    static const char *const tiers[] = {"hot", "cold", "cold", "other"};

    return (struct policy_facts){.tier = tiers[kvt_random_below(random, 4)],
                                 .tenant = tenants[kvt_random_below(random, 4)],
                                 .fanout = kvt_random_below(random, 12),
                                 .depth = kvt_random_below(random, 100),
                                 .hits = kvt_random_below(random, 5),
                                 .last_access_ms = kvt_random_below(random, 7200000),
                                 .age_ms = kvt_random_below(random, 15 * 86400000ull),
                                 .fill_ppm = kvt_random_below(random, 1000001),
                                 .pinned = kvt_random_below(random, 8) == 0,
                                 .prefixes = prefix,
                                 .prefix_count = kvt_random_below(random, 2)};
}

static void
both_ways_decide_the_same(void **state)
{
    static const enum policy_event events[] = {POLICY_ON_NOTHING, POLICY_ON_STORED,
                                               POLICY_ON_SECOND_COLD_HIT};
    uint64_t random = test_seed();
    size_t wins[8] = {0};
    struct scene scene;

    (void)state;
    begin(&scene);
    for (size_t run = 0; run < RUNS; run++) {
        const uint64_t prefix = 7 + kvt_random_below(&random, 2);
        const struct policy_facts facts = draw_facts(&random, &prefix);
        const enum policy_event event = events[kvt_random_below(&random, 3)];
        const int32_t rule = policy_match(scene.policy, &facts, event);

        policy_decide(scene.policy, &facts, event, scene.decision);
        assert_int_equal(rule, scene.decision->rule);
        for (int32_t i = 0; i < rule; i++)
            assert_int_not_equal(scene.decision->verdicts[i].refusals, 0);
        if (rule >= 0)
            assert_int_equal(scene.decision->verdicts[rule].refusals, 0);
        wins[rule + 1]++;
    }
    for (size_t i = 0; i <= scene.policy->rules.count; i++)
        assert_true(wins[i] > 10); /* each rule had its blocks, and none had some */
    end(&scene);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reasons_not_to_match),
        cmocka_unit_test(explanations_have_every_clause),
        cmocka_unit_test(both_ways_decide_the_same),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
