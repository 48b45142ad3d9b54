/*
 * What is tested: advisor/admin/age_lines.h: which ages of a policy are told, and how many.
 */
#include <string.h>

#include "advisor/admin/age_lines.h"
#include "base/core/alloc.h"

#include "policy/file/policy_parse.h"
#include "policy/file/problems.h"
#include "tests/support/seed.h"

#define HEAD "version: 1\ntiers:\n  hot: {level: G3}\n  cold: {level: G4}\n"
#define RULES                                                                                      \
    "rules:\n  - id: down\n    from: hot\n    to: cold\n    trigger: {start: 85%, stop: 70%}\n"

static void
lines_are(const char *text, const char *expected)
{
    struct policy_problems *problems = kvt_calloc(1, sizeof(*problems));
    struct policy *policy;
    struct kvt_buffer out;
    struct kvt_error err;

    assert_non_null(problems);
    assert_int_equal(policy_parse(&policy, "test", text, strlen(text), problems, &err), KVT_OK);
    kvt_buffer_init(&out, 1u << 16);
    advisor_admin_add_lines(&out, policy);
    assert_string_equal(kvt_buffer_text(&out), expected);
    kvt_buffer_release(&out);
    policy_free(policy);
    kvt_free(problems);
    assert_int_equal(kvt_alloc_live(), 0);
}

static void
a_policy_without_ages_has_none(void **state)
{
    (void)state;
    lines_are(HEAD RULES, "\"lines\":[]");
    lines_are(HEAD "classes:\n  c: hits > 3 and size < 5MiB and age > 3h\n" RULES, "\"lines\":[]");
}

static void
ages_come_with_who_asks_for_them(void **state)
{
    (void)state;
    lines_are(HEAD "defaults: {protect_recent: 10m}\n" RULES,
              "\"lines\":[{\"seconds\":600,\"text\":\"all rules: left alone until then\"}]");
    lines_are(HEAD "classes:\n  cool: not pinned and (last_access>90s or hits < 2)\n" RULES
                   "    when: last_access >= 2h and class(cool)\n    protect_recent: 1m\n",
              "\"lines\":[{\"seconds\":90,\"text\":\"cool: last_access>90s\"},"
              "{\"seconds\":60,\"text\":\"down: left alone until then\"},"
              "{\"seconds\":7200,\"text\":\"down: last_access >= 2h\"}]");
}

static void
there_are_not_too_many(void **state)
{
    static const char many[] = HEAD
        "classes:\n  c: last_access in (1m,2m)\n" RULES
        "    when: last_access > 1m or last_access > 2m or last_access > 3m or last_access > 4m or "
        "last_access > 5m or last_access > 6m or last_access > 7m or last_access > 8m or "
        "last_access > 9m or last_access > 10m or last_access > 11m or last_access > 12m or "
        "last_access > 13m\n";
    struct policy_problems *problems = kvt_calloc(1, sizeof(*problems));
    struct policy *policy;
    struct kvt_buffer out;
    struct kvt_error err;
    size_t count = 0;

    (void)state;
    assert_non_null(problems);
    assert_int_equal(policy_parse(&policy, "test", many, strlen(many), problems, &err), KVT_OK);
    kvt_buffer_init(&out, 1u << 16);
    advisor_admin_add_lines(&out, policy);
    for (const char *at = kvt_buffer_text(&out); (at = strstr(at, "\"seconds\"")) != NULL; at++)
        count++;
    assert_int_equal(count, ADVISOR_LINES_MAX);
    kvt_buffer_release(&out);
    policy_free(policy);
    kvt_free(problems);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_policy_without_ages_has_none),
        cmocka_unit_test(ages_come_with_who_asks_for_them),
        cmocka_unit_test(there_are_not_too_many),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
