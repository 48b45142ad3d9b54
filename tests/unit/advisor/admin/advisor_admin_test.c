/*
 * What is tested: the admin interface of a whole advisor, while NATS is away.
 * How: the daemon in this process on a free port; real HTTP; bodies good and bad.
 */
#include <stdio.h>
#include <string.h>

#include "advisor/admin/advisor_admin.h"
#include "advisor/index/advisor_counters.h"
#include "advisor/round/round.h"
#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/http/fetch.h"
#include "base/text/json.h"
#include "base/text/yaml.h"

#include "tests/support/seed.h"
#include "tests/unit/advisor/support/admin_bed.h"

#define TOKEN TEST_ADMIN_TOKEN

/* A policy. */
static const char *
put(struct test_admin *scene, const char *text, size_t size, const char *expected)
{
    char url[256];
    char line[64];
    const char *headers[] = {line, NULL};
    const struct kvt_fetch fetch = {.method = "PUT",
                                    .url = url,
                                    .token = TOKEN,
                                    .headers = headers,
                                    .type = "application/yaml",
                                    .body = text,
                                    .body_size = size};

    (void)snprintf(line, sizeof(line), "%s: %s", expected == NULL ? "X-None" : "If-Match",
                   expected == NULL ? "1" : expected);
    (void)snprintf(url, sizeof(url), "http://127.0.0.1:%u/v1/policy",
                   advisor_daemon_port(scene->daemon));
    kvt_buffer_clear(&scene->answer);
    assert_int_equal(kvt_fetch(&fetch, &scene->status, &scene->answer, NULL), KVT_OK);
    return kvt_buffer_text(&scene->answer);
}

static void
begin(struct test_admin *scene)
{
    test_admin_begin(scene, ADVISOR_MODE_OBSERVE, false, NULL);
}

static void
assert_json(struct test_admin *scene, const char *path)
{
    const char *text = test_admin_ask(scene, path, NULL, NULL);
    struct json_object *json;

    assert_int_equal(scene->status, 200);
    assert_int_equal(kvt_json_parse(&json, text, strlen(text), path, NULL), KVT_OK);
    json_object_put(json);
}

/* An engine that has not begun its first round. */
static void
says_how_far_it_has_loaded(void **state)
{
    const struct wire_bus_options bus = {.url = "nats://127.0.0.1:1", .name = "test"};
    struct advisor_store_options store = {.map_bytes = 16u << 20};
    struct advisor_round_options engine = {.commit_max_wait_ms = 200};
    struct advisor_admin http = {.nats_url = bus.url};
    struct advisor_counters counters;
    struct kvt_metrics *metrics;
    struct wire_bus *nats;
    struct kvt_buffer why;
    struct kvt_error err;
    char folder[256];

    (void)state;
    kvt_buffer_init(&why, 4096);
    store.path = test_folder_make(folder, sizeof(folder));
    assert_int_equal(kvt_metrics_new(&metrics), KVT_OK);
    advisor_counters_register(&counters, metrics);
    engine.counters = &counters;
    assert_int_equal(index_new(&engine.index, 16u << 20), KVT_OK);
    assert_int_equal(advisor_store_open(&engine.store, &store, &err), KVT_OK);
    assert_int_equal(advisor_round_new(&http.round, &engine, &err), KVT_OK);
    assert_int_equal(wire_bus_open(&nats, &bus, &err), KVT_OK);
    http.bus = nats;
    http.finder.memory = advisor_round_memory(http.round);
    assert_false(advisor_admin_ready(&http, &why));
    assert_non_null(strstr(kvt_buffer_text(&why), "index: loading, 0 % of the log"));
    kvt_buffer_clear(&why);
    atomic_store(&http.finder.memory->loading, false);
    assert_false(advisor_admin_ready(&http, &why)); /* there is no NATS */
    assert_null(strstr(kvt_buffer_text(&why), "loading"));
    wire_bus_close(nats);
    advisor_round_free(http.round);
    advisor_store_close(engine.store);
    index_free(engine.index);
    kvt_metrics_free(metrics);
    kvt_buffer_release(&why);
    test_folder_remove(folder);
}

static void
says_what_is_wrong(void **state)
{
    struct test_admin scene;

    (void)state;
    begin(&scene);
    assert_non_null(strstr(test_admin_ask(&scene, "/readyz?verbose", NULL, NULL), "nats"));
    assert_int_equal(scene.status, 503);
    (void)test_admin_ask(&scene, "/livez", NULL, NULL);
    assert_int_equal(scene.status, 200);
    assert_non_null(
        strstr(test_admin_ask(&scene, "/v1/status", NULL, NULL), "\"connected\":false"));
    assert_non_null(
        strstr(test_admin_ask(&scene, "/metrics", NULL, NULL), "kvtier_advisor_gaps_total 0"));
    test_admin_end(&scene);
}

static void
pages_are_json(void **state)
{
    static const char *const paths[] = {
        "/v1/status", "/v1/publishers",     "/v1/index/stats", "/v1/index/dump",
        "/v1/orders", "/v1/orders?limit=5", "/v1/policy",      "/v1/quotas",
    };
    struct test_admin scene;

    (void)state;
    begin(&scene);
    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++)
        assert_json(&scene, paths[i]);
    test_admin_end(&scene);
}

static void
bad_questions_are_answered(void **state)
{
    static const struct {
        const char *path;
        const char *body;
        unsigned status;
        const char *says;
    } table[] = {
        {"/v1/find_matches", "", 400, "body"},
        {"/v1/find_matches", "{", 400, "body:1:"},
        {"/v1/find_matches", "[]", 400, "hashes"},
        {"/v1/find_matches", "{\"hashes\":1}", 400, "hashes"},
        {"/v1/find_matches", "{\"namespace\":3,\"hashes\":[]}", 400, "namespace"},
        {"/v1/find_matches", "{\"hashes\":[\"0000000000000001\",\"x\"]}", 400, "hashes[1]"},
        {"/v1/match", "{\"hashes\":[null]}", 400, "hashes[0]"},
        {"/v1/match", "{\"hashes\":[]}", 200, "\"blocks\":[]"},
        {"/v1/match", "{\"namespace\":\"never seen\",\"hashes\":[\"00000000000000ff\"]}", 200,
         "{\"hash\":\"00000000000000ff\",\"tiers\":[]}"},
        {"/v1/find_matches", "{\"namespace\":\"\",\"hashes\":[\"00000000000000ff\"]}", 200,
         "\"matches\":[]"},
        {"/v1/blocks/zz", NULL, 400, "no hash"},
        {"/v1/blocks/", NULL, 400, "no hash"},
        {"/v1/blocks/00000000000000ff?namespace=a", NULL, 404, "NOTFOUND"},
        {"/v1/blocks/00000000000000ff", NULL, 404, "give --namespace NS"},
        {"/v1/orders?limit=x", NULL, 400, "limit"},
        {"/v1/orders?limit=99999999", NULL, 400, "limit"},
        {"/v1/index/dump?cursor=-1", NULL, 400, "cursor"},
        {"/v1/index/subtree", NULL, 400, "hash"},
        {"/v1/index/subtree?hash=00000000000000ff&namespace=a", NULL, 404, "namespace"},
        {"/v1/index/history?hash=ff&limit=x", NULL, 400, "limit"},
        {"/v1/index/candidates?order=coldest", NULL, 400, "tier"},
        {"/v1/index/candidates?tier=G2&order=best", NULL, 400, "order"},
        {"/v1/index/candidates?tier=g2&order=hottest", NULL, 200, "\"candidates\":[]"},
        {"/v1/nothing", NULL, 404, "NOTFOUND"},
    };
    struct test_admin scene;

    (void)state;
    begin(&scene);
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        const char *text = test_admin_ask(&scene, table[i].path, table[i].body, NULL);

        if (scene.status != table[i].status || strstr(text, table[i].says) == NULL)
            fail_msg("%s %s: %u %s", table[i].path, table[i].body == NULL ? "" : table[i].body,
                     scene.status, text);
    }
    test_admin_end(&scene);
}

static void
mode_needs_the_token(void **state)
{
    struct test_admin scene;

    (void)state;
    begin(&scene);
    (void)test_admin_ask(&scene, "/v1/policy/mode", "{\"mode\":\"off\"}", NULL);
    assert_int_equal(scene.status, 401);
    (void)test_admin_ask(&scene, "/v1/policy/mode", "{\"mode\":\"off\"}", "test-token-0123456780");
    assert_int_equal(scene.status, 401);
    (void)test_admin_ask(&scene, "/v1/policy/mode", "{\"mode\":\"on\"}", TOKEN);
    assert_int_equal(scene.status, 400);
    /* Without a key to sign with, nothing can be enforced. */
    (void)test_admin_ask(&scene, "/v1/policy/mode", "{\"mode\":\"enforce\"}", TOKEN);
    assert_int_equal(scene.status, 409);
    assert_non_null(
        strstr(test_admin_ask(&scene, "/v1/policy", NULL, NULL), "\"mode\":\"observe\""));
    (void)test_admin_ask(&scene, "/v1/policy/mode", "{\"mode\":\"off\"}", TOKEN);
    assert_int_equal(scene.status, 200);
    assert_non_null(strstr(test_admin_ask(&scene, "/v1/policy", NULL, NULL), "\"mode\":\"off\""));
    assert_non_null(strstr(test_admin_ask(&scene, "/v1/policy", NULL, NULL),
                           "\"configured_mode\":\"observe\""));
    test_admin_end(&scene);
}

/* A mode set at run time holds over a restart. */
static void
mode_is_remembered(void **state)
{
    struct advisor_settings settings;
    struct test_admin scene;

    (void)state;
    begin(&scene);
    (void)test_admin_ask(&scene, "/v1/policy/mode", "{\"mode\":\"off\"}", TOKEN);
    advisor_daemon_close(scene.daemon);
    settings = test_admin_settings(&scene);
    assert_int_equal(advisor_daemon_open(&scene.daemon, &settings, NULL), KVT_OK);
    assert_non_null(strstr(test_admin_ask(&scene, "/v1/policy", NULL, NULL), "\"mode\":\"off\""));
    test_admin_end(&scene);
}

static void
wrong_settings_are_errors(void **state)
{
    struct advisor_settings settings;
    struct advisor_daemon *second;
    struct kvt_error err;
    struct test_admin scene;
    char folder[256];

    (void)state;
    begin(&scene);
    settings = test_admin_settings(&scene);
    settings.state_dir = test_folder_make(folder, sizeof(folder));
    settings.admin_port = advisor_daemon_port(scene.daemon);
    assert_int_equal(advisor_daemon_open(&second, &settings, &err), KVT_BUSY);
    assert_null(second);
    settings.admin_port = 0;
    settings.ordering = "fifo?";
    assert_int_equal(advisor_daemon_open(&second, &settings, &err), KVT_INVALID);
    settings.ordering = "lru";
    settings.sources_file = "/nonexistent/sources.yaml";
    assert_int_equal(advisor_daemon_open(&second, &settings, &err), KVT_NOTFOUND);
    assert_null(second);
    settings.sources_file = "";
    settings.hot_stop_ppm = 900000;
    assert_int_equal(advisor_daemon_open(&second, &settings, &err), KVT_INVALID);
    settings.hot_stop_ppm = 700000;
    settings.state_dir = "/proc/kvtier";
    assert_int_not_equal(advisor_daemon_open(&second, &settings, &err), KVT_OK);
    test_folder_remove(folder);
    test_admin_end(&scene);
}

#define POLICY                                                                                     \
    "version: 1\ntiers: {hot: {level: G3}, cold: {level: G4}}\nrules:\n"                           \
    "  - {id: down, from: hot, to: cold, trigger: {start: 60%, stop: 50%}}\n"

static void
assert_has(const char *text, const char *part)
{
    if (strstr(text, part) == NULL)
        fail_msg("no %s in %s", part, text);
}

static void
a_policy_is_put_and_taken_back(void **state)
{
    const char *text;
    struct test_admin scene;

    (void)state;
    begin(&scene);
    text = test_admin_ask(&scene, "/v1/policy", NULL, NULL);
    assert_has(text, "\"mode\":\"observe\"");
    assert_has(text, "\"ordering\":\"lru\"");
    assert_has(text, "\"hot\":{\"start_ppm\":850000,\"stop_ppm\":700000}");
    assert_has(text, "\"promote_after_cold_hits\":2");
    assert_has(text, "\"version\":1,");
    assert_has(text, "\"source\":\"settings\"");
    assert_null(strstr(text, "\"text\""));
    text = put(&scene, POLICY, strlen(POLICY), "\"1\"");
    assert_int_equal(scene.status, 200);
    assert_has(text, "\"version\":2,");
    assert_has(text, "\"hot\":{\"start_ppm\":600000,\"stop_ppm\":500000}");
    assert_has(text, "\"cold\":{\"start_ppm\":0,\"stop_ppm\":0}");
    assert_has(text, "\"promote_after_cold_hits\":0");
    assert_has(text, "\"rules\":[{\"id\":\"down\",\"do\":\"demote\"}]");
    assert_has(test_admin_ask(&scene, "/v1/policy?text=1", NULL, NULL),
               "\"text\":\"version: 1\\ntiers");
    text = test_admin_ask(&scene, "/v1/policy/rollback", "{}", TOKEN);
    assert_int_equal(scene.status, 200);
    assert_has(text, "\"source\":\"rollback of 1\"");
    text = test_admin_ask(&scene, "/v1/policy/history", NULL, NULL);
    assert_has(text, "\"versions\":[{\"version\":3,");
    assert_has(text, ",{\"version\":2,");
    assert_json(&scene, "/v1/policy/history");
    assert_json(&scene, "/v1/policy?text");
    test_admin_end(&scene);
}

static void
a_policy_goes_no_further_than_both_modes(void **state)
{
    static const char enforcing[] = POLICY "modes: {mode: enforce}\n";
    static const char off[] = POLICY "modes: {mode: off}\n";
    struct test_admin scene;

    (void)state;
    begin(&scene);
    assert_has(put(&scene, enforcing, strlen(enforcing), NULL), "\"effective_mode\":\"observe\"");
    assert_has(test_admin_ask(&scene, "/v1/policy/mode", "{\"mode\":\"off\"}", TOKEN),
               "\"effective_mode\":\"off\"");
    assert_has(test_admin_ask(&scene, "/v1/policy", NULL, NULL), "\"policy_mode\":\"enforce\"");
    assert_has(
        test_admin_ask(&scene, "/v1/status", NULL, NULL),
        "\"mode\":\"off\",\"effective_mode\":\"off\",\"paused\":false,\"policy_version\":2,");
    (void)put(&scene, POLICY, strlen(POLICY), NULL); /* says nothing of a mode: it observes */
    assert_has(test_admin_ask(&scene, "/v1/policy", NULL, NULL), "\"policy_mode\":\"observe\"");
    (void)test_admin_ask(&scene, "/v1/policy/mode", "{\"mode\":\"observe\"}", TOKEN);
    assert_has(test_admin_ask(&scene, "/v1/overview", NULL, NULL),
               "\"mode\":\"observe\",\"effective_mode\":\"observe\",");
    (void)put(&scene, off, strlen(off), NULL);
    assert_has(test_admin_ask(&scene, "/v1/overview", NULL, NULL),
               "\"mode\":\"observe\",\"effective_mode\":\"off\",");
    test_admin_end(&scene);
}

static void
a_policy_that_is_refused(void **state)
{
    static const char wrong[] = "version: 1\ntires: {}\nrules: [{}]\n";
    char *huge = kvt_calloc(KVT_YAML_FILE_MAX + 2, 1);
    const char *text;
    struct test_admin scene;

    (void)state;
    assert_non_null(huge);
    begin(&scene);
    text = put(&scene, wrong, strlen(wrong), NULL);
    assert_int_equal(scene.status, 400);
    assert_has(text, "\"problems\":[{\"line\":1,\"column\":1,\"text\":\"");
    assert_has(text, "{\"line\":2,\"column\":1,\"text\":\"unknown key");
    (void)put(&scene, "", 0, NULL);
    assert_int_equal(scene.status, 400);
    (void)put(&scene, POLICY, strlen(POLICY), "nine");
    assert_int_equal(scene.status, 400);
    (void)put(&scene, POLICY, strlen(POLICY), "\"");
    assert_int_equal(scene.status, 400);
    text = put(&scene, POLICY, strlen(POLICY), "9");
    assert_int_equal(scene.status, 412);
    assert_has(text, "version 1 is in force, not 9");
    memset(huge, '#', KVT_YAML_FILE_MAX + 1);
    (void)put(&scene, huge, KVT_YAML_FILE_MAX + 1, NULL);
    assert_int_equal(scene.status, 413);
    (void)put(&scene, "a: \0b\n", 7, NULL);
    assert_int_equal(scene.status, 400);
    (void)test_admin_ask(&scene, "/v1/policy/rollback", "{\"version\":7}", TOKEN);
    assert_int_equal(scene.status, 404);
    (void)test_admin_ask(&scene, "/v1/policy/rollback", "{\"version\":0}", TOKEN);
    assert_int_equal(scene.status, 400);
    (void)test_admin_ask(&scene, "/v1/policy/rollback", "[", TOKEN);
    assert_int_equal(scene.status, 400);
    (void)test_admin_ask(&scene, "/v1/policy/rollback", "{}", NULL);
    assert_int_equal(scene.status, 401);
    assert_has(test_admin_ask(&scene, "/v1/policy", NULL, NULL), "\"version\":1,");
    test_admin_end(&scene);
    kvt_free(huge);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(says_how_far_it_has_loaded),
        cmocka_unit_test(says_what_is_wrong),
        cmocka_unit_test(pages_are_json),
        cmocka_unit_test(bad_questions_are_answered),
        cmocka_unit_test(mode_needs_the_token),
        cmocka_unit_test(mode_is_remembered),
        cmocka_unit_test(wrong_settings_are_errors),
        cmocka_unit_test(a_policy_is_put_and_taken_back),
        cmocka_unit_test(a_policy_goes_no_further_than_both_modes),
        cmocka_unit_test(a_policy_that_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
