/*
 * What is tested: worker/settings/worker_settings.h and worker/settings/pool_order.h: what the
 * defaults mean, that every setting that cannot work is refused with its name in the message, and
 * what names an order.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/core/file.h"

#include "tests/support/seed.h"
#include "worker/settings/pool_order.h"
#include "worker/settings/worker_settings.h"

static struct kvt_config *
new_config(void)
{
    struct kvt_config *config;
    struct kvt_error err;

    assert_int_equal(kvt_config_new(&config, worker_settings_table, WORKER_SETTING_COUNT, &err),
                     KVT_OK);
    assert_int_equal(kvt_config_set_flag(config, "trace", "some.jsonl", &err), KVT_OK);
    return config;
}

static int
set_up(void **unused)
{
    (void)unused;
    (void)setenv("AWS_ACCESS_KEY_ID", "access", 1);
    (void)setenv("AWS_SECRET_ACCESS_KEY", "secret", 1);
    return 0;
}

/* A bucket takes the gateway's place; its keys come from a file, or are looked for later. */
static void
a_bucket_needs_no_gateway(void **unused)
{
    static const struct {
        const char *pair;
        const char *message; /* NULL: fine */
    } rows[] = {
        {"key:secret", NULL},
        {"key:secret:a:token", NULL},
        {"key", "s3.credentials_file: not access:secret"},
    };
    struct worker_settings settings;
    struct kvt_error err;
    char folder[256];
    char path[300];

    (void)unused;
    (void)test_folder_make(folder, sizeof(folder));
    (void)snprintf(path, sizeof(path), "%s/keys", folder);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct kvt_config *config = new_config();

        assert_int_equal(kvt_file_write(path, rows[i].pair, strlen(rows[i].pair), 0600, NULL),
                         KVT_OK);
        assert_int_equal(kvt_config_set_flag(config, "s3-endpoint", "http://s3", &err), KVT_OK);
        assert_int_equal(kvt_config_set_flag(config, "s3-credentials-file", path, &err), KVT_OK);
        assert_int_equal(worker_settings_load(&settings, config, &err) == KVT_OK,
                         rows[i].message == NULL);
        if (rows[i].message == NULL) {
            assert_string_equal(settings.endpoint, "");
            assert_string_equal(settings.s3.endpoint, "http://s3");
            assert_string_equal(settings.access_key, "key");
            assert_string_equal(settings.secret_key, "secret");
            assert_string_equal(settings.s3.session_token, i == 1 ? "a:token" : "");
        } else {
            assert_non_null(strstr(err.text, rows[i].message));
        }
        kvt_config_free(config);
    }
    {
        struct kvt_config *config = new_config();

        assert_int_equal(kvt_config_set_flag(config, "s3-endpoint", "http://s3", &err), KVT_OK);
        assert_int_equal(worker_settings_load(&settings, config, &err), KVT_OK);
        assert_string_equal(settings.access_key, ""); /* looked for when it is opened */
        kvt_config_free(config);
    }
    test_folder_remove(folder);
}

static void
defaults_are_usable(void **unused)
{
    struct kvt_config *config = new_config();
    struct worker_settings settings;
    struct kvt_error err;

    (void)unused;
    assert_int_equal(worker_settings_load(&settings, config, &err), KVT_OK);
    assert_true(settings.name[0] != '\0');
    assert_int_equal(settings.salt, 0);
    assert_int_equal(settings.shard, 0);
    assert_int_equal(settings.shards, 1);
    assert_true(settings.speed == 0);
    assert_int_equal(settings.layout.block_size, 256 << 10);
    assert_int_equal(settings.g1_blocks, 256);
    assert_int_equal(settings.g2_blocks, 1024);
    assert_int_equal(settings.g3_blocks, 4096);
    assert_int_equal(settings.high_ppm, 900000);
    assert_int_equal(settings.low_ppm, 750000);
    assert_int_equal(settings.revision, KVT_KEY_KVBM_B);
    assert_string_equal(settings.pool_order, "lru");
    assert_string_equal(settings.access_key, "access");
    assert_string_equal(settings.secret_key, "secret");
    kvt_config_free(config);
}

/* The pool's own orders, KVTier's orderings, and shared objects, by one name. */
static void
orders_have_names(void **unused)
{
    static const char *const own[] = {"lru", "priority", "lineage"};
    struct worker_pool_order order;
    struct kvt_error err;

    (void)unused;
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(worker_pool_order_open(&order, own[i], &err), KVT_OK);
        assert_int_equal(order.order, i);
        assert_null(order.ordering);
        worker_pool_order_close(&order);
    }
    assert_int_equal(worker_pool_order_open(&order, "s3fifo", &err), KVT_OK);
    assert_int_equal(order.order, KVT_POOL_ORDER_ORDERING);
    assert_string_equal(order.ordering->name, "s3fifo");
    worker_pool_order_close(&order);
    assert_int_equal(worker_pool_order_open(&order, CLOCK, &err), KVT_OK);
    assert_int_equal(order.order, KVT_POOL_ORDER_ORDERING);
    assert_string_equal(order.ordering->name, "clock");
    worker_pool_order_close(&order);
    assert_int_equal(worker_pool_order_open(&order, "newest", &err), KVT_NOTFOUND);
    assert_non_null(strstr(err.text, "lineage rhi"));
    assert_null(order.ordering);
    assert_int_equal(worker_pool_order_open(&order, "/nowhere.so", &err), KVT_NOTFOUND);
    assert_null(order.ordering);
    worker_pool_order_close(&order);
}

static void
every_block_size_fits_its_layout(void **unused)
{
    static const char *const sizes[] = {"4KiB", "64KiB", "100KiB", "2MiB", "64MiB"};
    static const uint64_t bytes[] = {4096, 65536, 102400, 2 << 20, 64 << 20};

    (void)unused;
    for (size_t i = 0; i < 5; i++) {
        struct kvt_config *config = new_config();
        struct worker_settings settings;
        struct kvt_error err;

        assert_int_equal(kvt_config_set_flag(config, "block-size", sizes[i], &err), KVT_OK);
        assert_int_equal(kvt_config_set_flag(config, "g1-size", "1GiB", &err), KVT_OK);
        assert_int_equal(kvt_config_set_flag(config, "g2-size", "1GiB", &err), KVT_OK);
        assert_int_equal(worker_settings_load(&settings, config, &err), KVT_OK);
        assert_int_equal(settings.layout.block_size, bytes[i]);
        kvt_config_free(config);
    }
}

static void
what_cannot_work_is_refused_by_name(void **unused)
{
    const struct {
        const char *flag;
        const char *value;
        const char *named;
    } rows[] = {
        {"trace", "", "trace"},
        {"name", "two words", "name"},
        {"name", "a-name-that-is-much-longer-than-any-worker-should-ever-be-called-", "name"},
        {"trace-shard", "2/2", "trace.shard"},
        {"trace-shard", "0/0", "trace.shard"},
        {"trace-shard", "1", "trace.shard"},
        {"trace-shard", "0/2x", "trace.shard"},
        {"speed", "fast", "speed"},
        {"speed", "-1", "speed"},
        {"speed", "0", "speed"},
        {"speed", "inf", "speed"},
        {"block-size", "5000", "block.size"},
        {"g1-size", "1MiB", "g1.size"},
        {"g2-size", "0", "g2.size"},
        {"g3-size", "1MiB", "g3.size"},
        {"offload-low", "95%", "offload.low"},
    };

    (void)unused;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct kvt_config *config = new_config();
        struct worker_settings settings;
        struct kvt_error err;

        assert_int_equal(kvt_config_set_flag(config, rows[i].flag, rows[i].value, &err), KVT_OK);
        assert_int_not_equal(worker_settings_load(&settings, config, &err), KVT_OK);
        assert_non_null(strstr(err.text, rows[i].named));
        kvt_config_free(config);
    }
}

static void
a_gateway_needs_credentials(void **unused)
{
    struct kvt_config *config = new_config();
    struct worker_settings settings;
    struct kvt_error err;

    (void)unused;
    (void)unsetenv("AWS_SECRET_ACCESS_KEY");
    assert_int_equal(worker_settings_load(&settings, config, &err), KVT_INVALID);
    assert_non_null(strstr(err.text, "gateway.credentials_file"));
    assert_int_equal(kvt_config_set_flag(config, "gateway-endpoint", "", &err), KVT_OK);
    assert_int_equal(worker_settings_load(&settings, config, &err), KVT_OK);
    kvt_config_free(config);
}

static void
namespaces_and_shards_are_taken_over(void **unused)
{
    struct kvt_config *config = new_config();
    struct worker_settings settings;
    struct kvt_error err;

    (void)unused;
    (void)setenv("AWS_SECRET_ACCESS_KEY", "secret", 1);
    assert_int_equal(kvt_config_set_flag(config, "namespace", "tenant/model", &err), KVT_OK);
    assert_int_equal(kvt_config_set_flag(config, "trace-shard", "3/5", &err), KVT_OK);
    assert_int_equal(kvt_config_set_flag(config, "speed", "2.5", &err), KVT_OK);
    assert_int_equal(kvt_config_set_flag(config, "g3-size", "0", &err), KVT_OK);
    assert_int_equal(worker_settings_load(&settings, config, &err), KVT_OK);
    assert_true(settings.salt != 0);
    assert_int_equal(settings.shard, 3);
    assert_int_equal(settings.shards, 5);
    assert_true(settings.speed > 2.4 && settings.speed < 2.6);
    assert_int_equal(settings.g3_blocks, 0);
    kvt_config_free(config);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults_are_usable),
        cmocka_unit_test(a_bucket_needs_no_gateway),
        cmocka_unit_test(orders_have_names),
        cmocka_unit_test(every_block_size_fits_its_layout),
        cmocka_unit_test(what_cannot_work_is_refused_by_name),
        cmocka_unit_test(a_gateway_needs_credentials),
        cmocka_unit_test(namespaces_and_shards_are_taken_over),
    };

    return cmocka_run_group_tests(tests, set_up, NULL);
}
