/*
 * What is tested: cli/ops/doctor_bucket.c.
 * How: settings by hand, and how bad each is said to be.
 */
#include <stdio.h>
#include <string.h>

#include "cli/ops/doctor_store.h"

#include "tests/support/seed.h"

static struct cli_doctor_checks checks;

/* The worst that is said about `name`. */
static enum cli_doctor_check_state
state_of(const struct g4_bucket_settings *settings, const char *name)
{
    enum cli_doctor_check_state worst = CLI_DOCTOR_CHECK_OK;

    memset(&checks, 0, sizeof(checks));
    cli_doctor_bucket_judge(settings, &checks);
    for (size_t i = 0; i < checks.count; i++)
        if (strcmp(checks.rows[i].name, name) == 0 && checks.rows[i].state > worst)
            worst = checks.rows[i].state;
    return worst;
}

static bool
says(const char *text)
{
    for (size_t i = 0; i < checks.count; i++)
        if (strstr(checks.rows[i].text, text) != NULL)
            return true;
    return false;
}

static void
versions_and_locks_break_a_cap(void **state)
{
    struct g4_bucket_settings settings = {.versions = G4_BUCKET_OFF, .locks = G4_BUCKET_OFF};

    (void)state;
    assert_int_equal(state_of(&settings, "s3 versions"), CLI_DOCTOR_CHECK_OK);
    assert_int_equal(state_of(&settings, "s3 object lock"), CLI_DOCTOR_CHECK_OK);
    settings.versions = G4_BUCKET_ON;
    assert_int_equal(state_of(&settings, "s3 versions"), CLI_DOCTOR_CHECK_WARN);
    settings.rules[settings.rule_count++] =
        (struct g4_bucket_rule){.enabled = true, .old_versions = true, .prefix = "0/"};
    assert_int_equal(state_of(&settings, "s3 versions"), CLI_DOCTOR_CHECK_WARN);
    settings.rules[0].prefix[0] = '\0';
    assert_int_equal(state_of(&settings, "s3 versions"), CLI_DOCTOR_CHECK_OK);
    settings.locks = G4_BUCKET_ON;
    assert_int_equal(state_of(&settings, "s3 object lock"), CLI_DOCTOR_CHECK_WARN);
    settings.lock_days = 1;
    assert_int_equal(state_of(&settings, "s3 object lock"), CLI_DOCTOR_CHECK_FAIL);
}

static void
rules_that_part_data_from_records_are_told(void **state)
{
    static const struct {
        const char *prefix;
        bool parts;
    } rows[] = {{"", false},      {"t/", false}, {"t/m", false}, {"0/", true},
                {"t/m/0/", true}, {"12", true},  {"t1/", false}, {"t/3/5:1", true}};

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct g4_bucket_settings settings = {.lifecycle = G4_BUCKET_ON, .rule_count = 1};

        settings.rules[0] = (struct g4_bucket_rule){.enabled = true, .expires = true, .days = 7};
        (void)snprintf(settings.rules[0].prefix, sizeof(settings.rules[0].prefix), "%s",
                       rows[i].prefix);
        assert_int_equal(state_of(&settings, "s3 lifecycle"), CLI_DOCTOR_CHECK_WARN);
        if (says("but not the .meta") != rows[i].parts)
            fail_msg("prefix \"%s\"", rows[i].prefix);
        settings.rules[0].narrowed = true;
        (void)state_of(&settings, "s3 lifecycle");
        assert_true(says("but not the .meta"));
        settings.rules[0].enabled = false;
        assert_int_equal(state_of(&settings, "s3 lifecycle"), CLI_DOCTOR_CHECK_OK);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(versions_and_locks_break_a_cap),
        cmocka_unit_test(rules_that_part_data_from_records_are_told),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
