/*
 * What is tested: kvbm/instance/plan.h: settings that instances cannot have are refused by name,
 * with what to do instead; the same are fine without instances.
 */
#include <string.h>

#include "kvbm/instance/plan.h"

#include "tests/support/seed.h"

static enum kvt_err
load(const char *const (*flags)[2], size_t count, struct kvt_error *err)
{
    struct kvbm_settings settings;
    struct kvt_config *config;
    struct kvbm_plan plan;
    enum kvt_err rc;

    assert_int_equal(kvt_config_new(&config, kvbm_settings_table, KVBM_SETTING_COUNT, err), KVT_OK);
    assert_int_equal(kvt_config_set_flag(config, "trace", "some.jsonl", err), KVT_OK);
    assert_int_equal(kvt_config_set_flag(config, "gateway-endpoint", "", err), KVT_OK);
    assert_int_equal(kvt_config_set_flag(config, "name", "one", err), KVT_OK);
    for (size_t i = 0; i < count; i++)
        assert_int_equal(kvt_config_set_flag(config, flags[i][0], flags[i][1], err), KVT_OK);
    rc = kvbm_settings_load(&settings, config, err);
    if (rc == KVT_OK)
        rc = kvbm_plan_load(&plan, &settings, config, err);
    kvt_config_free(config);
    return rc;
}

static void
what_ranks_have_not_is_refused(void **state)
{
    static const struct {
        const char *name;
        const char *value;
        const char *instances;
        const char *message; /* NULL: fine */
    } rows[] = {
        {"g3-keep", "true", "0", NULL},
        {"g3-keep", "true", "2", "g3.keep: ranks of instances begin with an empty G3"},
        {"g3-keep", "false", "2", NULL},
        {"gpu", "require", "0", NULL},
        {"gpu", "require", "2", NULL},
        {"gpu", "auto", "2", NULL},
        {"gpu", "off", "2", NULL},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const char *const flags[][2] = {{rows[i].name, rows[i].value},
                                        {"instances", rows[i].instances}};
        struct kvt_error err = {.text = ""};
        const enum kvt_err rc = load(flags, 2, &err);

        if (rc != (rows[i].message == NULL ? KVT_OK : KVT_INVALID))
            fail_msg("%s=%s: %s", rows[i].name, rows[i].value, err.text);
        if (rows[i].message != NULL)
            assert_non_null(strstr(err.text, rows[i].message));
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_ranks_have_not_is_refused),
    };

    return cmocka_run_group_tests_name("kvbm/plan", tests, NULL, NULL);
}
