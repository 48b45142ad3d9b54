/*
 * What is tested: what /metrics shows of quotas (advisor/admin/advisor_admin.h): three numbers of
 * each, families in one piece, odd names escaped; of too many those that are exceeded; and those
 * of the policy that is in force, no longer those of the one before.
 * How: views made up here; a whole advisor that is given policies.
 */
#include <stdio.h>
#include <string.h>

#include "advisor/admin/advisor_admin.h"
#include "base/core/clock.h"
#include "base/http/fetch.h"

#include "tests/support/seed.h"
#include "tests/unit/advisor/support/admin_bed.h"

#define HEAD "version: 1\ntiers:\n  hot: {level: G3}\n  cold: {level: G4}\nrules: []\n"

enum { MANY = 200, SOFT_AT = 150, HARD_AT = 199 };

static size_t
count_of(const char *text, const char *needle)
{
    size_t count = 0;

    for (; (text = strstr(text, needle)) != NULL; text += strlen(needle))
        count++;
    return count;
}

static void
each_has_three_numbers(void **state)
{
    const struct advisor_quota_view views[] = {
        {.tenant = "zeta", .tier = "hot", .soft = 10, .hard = 20, .used = 15},
        {.tenant = "a\"b\\c\nd", .soft = 1, .hard = UINT64_MAX, .used = 2},
    };
    struct kvt_buffer out;

    (void)state;
    kvt_buffer_init(&out, 1 << 20);
    advisor_admin_format_quotas(views, 2, &out);
    assert_string_equal(
        kvt_buffer_text(&out),
        "# HELP kvtier_advisor_quota_used_bytes What a tenant has of what a quota counts.\n"
        "# TYPE kvtier_advisor_quota_used_bytes gauge\n"
        "kvtier_advisor_quota_used_bytes{tenant=\"zeta\",tier=\"hot\"} 15\n"
        "kvtier_advisor_quota_used_bytes{tenant=\"a\\\"b\\\\c\\nd\"} 2\n"
        "# HELP kvtier_advisor_quota_soft_bytes Beyond it blocks of the tenant leave.\n"
        "# TYPE kvtier_advisor_quota_soft_bytes gauge\n"
        "kvtier_advisor_quota_soft_bytes{tenant=\"zeta\",tier=\"hot\"} 10\n"
        "kvtier_advisor_quota_soft_bytes{tenant=\"a\\\"b\\\\c\\nd\"} 1\n"
        "# HELP kvtier_advisor_quota_hard_bytes Beyond it nothing more is promoted.\n"
        "# TYPE kvtier_advisor_quota_hard_bytes gauge\n"
        "kvtier_advisor_quota_hard_bytes{tenant=\"zeta\",tier=\"hot\"} 20\n"
        "kvtier_advisor_quota_hard_bytes{tenant=\"a\\\"b\\\\c\\nd\"} 18446744073709551615\n");
    kvt_buffer_clear(&out);
    advisor_admin_format_quotas(views, 0, &out);
    assert_string_equal(kvt_buffer_text(&out), "");
    kvt_buffer_release(&out);
}

static void
of_too_many_those_that_are_exceeded_are_shown(void **state)
{
    static struct advisor_quota_view views[MANY];
    struct kvt_buffer out;
    const char *text;

    (void)state;
    for (size_t i = 0; i < MANY; i++) {
        views[i] = (struct advisor_quota_view){.soft = 1, .hard = 2};
        (void)snprintf(views[i].tenant, sizeof(views[i].tenant), "t%zu", i);
    }
    views[SOFT_AT].over = ADVISOR_QUOTA_SOFT;
    views[HARD_AT].over = ADVISOR_QUOTA_HARD;
    kvt_buffer_init(&out, 1 << 20);
    advisor_admin_format_quotas(views, MANY, &out);
    text = kvt_buffer_text(&out);
    assert_int_equal(count_of(text, "{tenant="), 3 * ADVISOR_METRIC_QUOTAS_MAX);
    assert_int_equal(count_of(text, "{tenant=\"t199\"}"), 3);
    assert_int_equal(count_of(text, "{tenant=\"t150\"}"), 3);
    assert_int_equal(count_of(text, "{tenant=\"t0\"}"), 3);
    assert_int_equal(count_of(text, "{tenant=\"t61\"}"), 3);
    assert_int_equal(count_of(text, "{tenant=\"t62\"}"), 0);
    kvt_buffer_release(&out);
}

static void
put(struct test_admin *scene, const char *policy)
{
    char url[256];
    const struct kvt_fetch fetch = {.method = "PUT",
                                    .url = url,
                                    .token = TEST_ADMIN_TOKEN,
                                    .type = "application/yaml",
                                    .body = policy,
                                    .body_size = strlen(policy)};

    (void)snprintf(url, sizeof(url), "http://127.0.0.1:%u/v1/policy",
                   advisor_daemon_port(scene->daemon));
    kvt_buffer_clear(&scene->answer);
    assert_int_equal(kvt_fetch(&fetch, &scene->status, &scene->answer, NULL), KVT_OK);
    assert_int_equal(scene->status, 200);
}

/* The engine follows a policy at its next look. */
static void
wait_for(struct test_admin *scene, const char *line, const char *gone)
{
    const uint64_t end_ms = kvt_clock_mono_ms() + 20000;
    const char *text;

    do {
        assert_true(kvt_clock_mono_ms() < end_ms);
        kvt_clock_sleep_ms(20);
        text = test_admin_ask(scene, "/metrics", NULL, NULL);
    } while (strstr(text, line) == NULL || strstr(text, gone) != NULL);
}

static void
those_of_the_policy_in_force(void **state)
{
    struct test_admin scene;

    (void)state;
    test_admin_begin(&scene, ADVISOR_MODE_OBSERVE, false, NULL);
    assert_null(strstr(test_admin_ask(&scene, "/metrics", NULL, NULL), "kvtier_advisor_quota_"));
    put(&scene, HEAD "quotas:\n  - {tenant: zeta, tier: hot, soft: 1KB, hard: 2KB}\n");
    wait_for(&scene, "\nkvtier_advisor_quota_hard_bytes{tenant=\"zeta\",tier=\"hot\"} 2000\n",
             "tenant=\"acme\"");
    put(&scene, HEAD "quotas:\n  - {tenant: acme, hard: 3KB}\n");
    wait_for(&scene, "\nkvtier_advisor_quota_soft_bytes{tenant=\"acme\"} 3000\n",
             "tenant=\"zeta\"");
    test_admin_end(&scene);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_has_three_numbers),
        cmocka_unit_test(of_too_many_those_that_are_exceeded_are_shown),
        cmocka_unit_test(those_of_the_policy_in_force),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
