/*
 * What is tested: worker/instances/instance_plan.h: settings that instances cannot have are
 * refused by name, with what to do instead; the same are fine without instances.
 */
#include <string.h>

#include "tests/support/seed.h"
#include "worker/instances/instance_plan.h"

static enum kvt_err
load(const char *const (*flags)[2], size_t count, struct kvt_error *err)
{
    struct worker_settings settings;
    struct kvt_config *config;
    struct worker_instance_plan plan;
    enum kvt_err rc;

    assert_int_equal(kvt_config_new(&config, worker_settings_table, WORKER_SETTING_COUNT, err),
                     KVT_OK);
    assert_int_equal(kvt_config_set_flag(config, "trace", "some.jsonl", err), KVT_OK);
    assert_int_equal(kvt_config_set_flag(config, "gateway-endpoint", "", err), KVT_OK);
    assert_int_equal(kvt_config_set_flag(config, "name", "one", err), KVT_OK);
    for (size_t i = 0; i < count; i++)
        assert_int_equal(kvt_config_set_flag(config, flags[i][0], flags[i][1], err), KVT_OK);
    rc = worker_settings_load(&settings, config, err);
    if (rc == KVT_OK)
        rc = worker_instance_plan_load(&plan, &settings, config, err);
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

/* Keys have a rank and no TP size: 0/... of TP 4 is 0/... of TP 2. */
static void
who_splits_blocks_otherwise_has_no_common_object_tier(void **state)
{
    static const struct {
        const char *tp;
        const char *replicated;
        const char *endpoint;
        enum kvt_err expected;
    } rows[] = {
        {"4,2", "false", "http://127.0.0.1:9000", KVT_INVALID},
        {"2,4", "false", "http://127.0.0.1:9000", KVT_INVALID},
        {"2,2", "false", "http://127.0.0.1:9000", KVT_OK},
        {"4,2", "true", "http://127.0.0.1:9000", KVT_OK}, /* whole blocks, of rank 0 */
        {"4,2", "false", "", KVT_OK},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const char *const flags[][2] = {{"instances", "2"},
                                        {"tp", rows[i].tp},
                                        {"replicated", rows[i].replicated},
                                        {"s3-endpoint", rows[i].endpoint}};
        struct kvt_error err = {.text = ""};

        assert_int_equal(load(flags, 4, &err), rows[i].expected);
        if (rows[i].expected != KVT_OK)
            assert_non_null(strstr(err.text, "cannot share an object tier"));
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_ranks_have_not_is_refused),
        cmocka_unit_test(who_splits_blocks_otherwise_has_no_common_object_tier),
    };

    return cmocka_run_group_tests_name("kvbm/plan", tests, NULL, NULL);
}
