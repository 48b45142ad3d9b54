/*
 * What is tested: config/policies/default.yaml against config/advisor.def.
 * How: what the advisor does with the settings it comes with is what that policy says, value by
 * value; whoever changes one is told of the other.
 */
#include <string.h>

#include "base/config/config.h"
#include "base/core/alloc.h"
#include "base/core/file.h"
#include "cli/frame/daemon_settings.h"

#include "policy/file/policy_file.h"
#include "policy/file/policy_parse.h"
#include "tests/support/seed.h"

static const struct policy_rule *
rule_named(const struct policy *policy, const char *id)
{
    for (size_t i = 0; i < policy->rules.count; i++)
        if (strcmp(policy_rule_at(policy, i)->id, id) == 0)
            return policy_rule_at(policy, i);
    fail_msg("no rule %s", id);
    return NULL;
}

static void
the_policy_is_what_the_advisor_does(void **state)
{
    static const char *const modes[] = {"off", "observe", "enforce"};
    const struct policy_rule *hot;
    const struct policy_rule *cold;
    struct policy_problems problems;
    struct kvt_config *config;
    struct policy *policy;
    struct kvt_error err;
    char *text;
    size_t size;

    (void)state;
    assert_int_equal(kvt_config_new(&config, cli_advisor_settings, CLI_ADVISOR_COUNT, &err),
                     KVT_OK);
    assert_int_equal(kvt_file_read(&text, &size, DEFAULT_POLICY, KVT_YAML_FILE_MAX, &err), KVT_OK);
    assert_int_equal(policy_parse(&policy, "default.yaml", text, size, &problems, &err), KVT_OK);
    hot = rule_named(policy, "drain-hot");
    cold = rule_named(policy, "drain-cold");
    assert_int_equal(hot->trigger.start, kvt_config_ppm(config, CLI_ADVISOR_POLICY_HOT_START));
    assert_int_equal(hot->trigger.stop, kvt_config_ppm(config, CLI_ADVISOR_POLICY_HOT_STOP));
    assert_int_equal(cold->trigger.start, kvt_config_ppm(config, CLI_ADVISOR_POLICY_COLD_START));
    assert_int_equal(cold->trigger.stop, kvt_config_ppm(config, CLI_ADVISOR_POLICY_COLD_STOP));
    assert_string_equal(hot->order_by.text, kvt_config_string(config, CLI_ADVISOR_POLICY_ORDERING));
    assert_string_equal(cold->order_by.text,
                        kvt_config_string(config, CLI_ADVISOR_POLICY_ORDERING));
    assert_string_equal(modes[policy->modes.mode],
                        kvt_config_string(config, CLI_ADVISOR_POLICY_MODE));
    assert_int_equal(rule_named(policy, "bring-back")->on, POLICY_ON_SECOND_COLD_HIT);
    assert_int_equal(kvt_config_u64(config, CLI_ADVISOR_POLICY_PROMOTE_AFTER), 2);
    assert_int_equal(hot->protect_recent + cold->protect_recent, 0);
    assert_null(hot->when);
    assert_null(cold->when);
    policy_free(policy);
    kvt_free(text);
    kvt_config_free(config);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_policy_is_what_the_advisor_does),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
