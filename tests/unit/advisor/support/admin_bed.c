#include "tests/unit/advisor/support/admin_bed.h"

#include <stdio.h>
#include <string.h>

#include "advisor/store/durable_store.h"
#include "base/core/clock.h"
#include "base/http/fetch.h"

#include "tests/support/seed.h"

enum { LOADED_MS = 30000, MAP = 16 << 20 };

struct advisor_settings
test_admin_settings(const struct test_admin *admin)
{
    return (struct advisor_settings){
        .state_dir = admin->folder,
        .db_max = MAP,
        .index_max = MAP,
        .commit_max_wait_ms = 200,
        .silent_after_ms = 10000,
        .gone_after_ms = 30000,
        .mode = admin->mode,
        .ordering = "lru",
        .hot_start_ppm = 850000,
        .hot_stop_ppm = 700000,
        .cold_start_ppm = 950000,
        .cold_stop_ppm = 900000,
        .promote_after = 2,
        .plan_interval_ms = 1000,
        .order_expiry_ms = 60000,
        .order_keys = {.lines = {{.master = {.size = WIRE_KEY_MIN}}},
                       .count = admin->signs ? 1 : 0},
        .admin_bind = "127.0.0.1",
        .admin_token = TEST_ADMIN_TOKEN,
        .ports_file = "",
        .bus = {.url = "nats://127.0.0.1:1", /* nobody is there */
                .name = "test",
                .user_file = "",
                .token_file = "",
                .creds_file = "",
                .ca_file = ""},
    };
}

const char *
test_admin_ask(struct test_admin *admin, const char *path, const char *body, const char *token)
{
    char url[256];
    const struct kvt_fetch fetch = {.method = body == NULL ? "GET" : "POST",
                                    .url = url,
                                    .token = token,
                                    .body = body,
                                    .body_size = body == NULL ? 0 : strlen(body)};

    (void)snprintf(url, sizeof(url), "http://127.0.0.1:%u%s", advisor_daemon_port(admin->daemon),
                   path);
    kvt_buffer_clear(&admin->answer);
    assert_int_equal(kvt_fetch(&fetch, &admin->status, &admin->answer, NULL), KVT_OK);
    return kvt_buffer_text(&admin->answer);
}

void
test_admin_open(struct test_admin *admin)
{
    const uint64_t deadline_ms = kvt_clock_mono_ms() + LOADED_MS;
    const struct advisor_settings settings = test_admin_settings(admin);
    struct kvt_error err;

    assert_int_equal(advisor_daemon_open(&admin->daemon, &settings, &err), KVT_OK);
    /* Until the engine has begun there are no pages of rows, and no explanations. */
    while (strstr(test_admin_ask(admin, "/readyz?verbose", NULL, NULL), "index: loading") != NULL) {
        assert_true(kvt_clock_mono_ms() < deadline_ms);
        kvt_clock_sleep_ms(1);
    }
}

void
test_admin_close(struct test_admin *admin)
{
    advisor_daemon_close(admin->daemon);
    admin->daemon = NULL;
}

static void
put_gateway(const struct test_admin *admin, const char *name)
{
    const struct advisor_store_options options = {.path = admin->folder, .map_bytes = MAP};
    struct advisor_gateway_row row = {.incarnation = 1, .seq = 1};
    struct advisor_store *store;
    struct advisor_txn txn;

    (void)snprintf(row.name, sizeof(row.name), "%s", name);
    assert_int_equal(advisor_store_open(&store, &options, NULL), KVT_OK);
    assert_int_equal(advisor_store_write(store, &txn, NULL), KVT_OK);
    assert_int_equal(advisor_store_put(&txn, ADVISOR_ROW_GATEWAY, &row), KVT_OK);
    assert_int_equal(advisor_store_commit(&txn, NULL), KVT_OK);
    advisor_store_close(store);
}

void
test_admin_begin(struct test_admin *admin, enum advisor_mode mode, bool signs, const char *gateway)
{
    *admin = (struct test_admin){.mode = mode, .signs = signs};
    (void)test_folder_make(admin->folder, sizeof(admin->folder));
    kvt_buffer_init(&admin->answer, 1u << 20);
    if (gateway != NULL)
        put_gateway(admin, gateway);
    test_admin_open(admin);
}

void
test_admin_end(struct test_admin *admin)
{
    kvt_buffer_release(&admin->answer);
    test_admin_close(admin);
    test_folder_remove(admin->folder);
}
