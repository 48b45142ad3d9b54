/*
 * What is tested: the admin interface to jobs: what is given arrives, and what makes no sense is
 * answered with what is wrong.
 * How: the daemon in this process on a free port, NATS away; real HTTP.
 */
#include <stdio.h>
#include <string.h>

#include "advisor/daemon.h"
#include "base/buffer.h"
#include "base/clock.h"
#include "base/fetch.h"
#include "base/json.h"

#include "policy/ordering.h"
#include "tests/support/seed.h"

#define TOKEN "test-token-0123456789"

struct scene {
    char folder[256];
    struct advisor_daemon *daemon;
    struct kvt_buffer answer;
    unsigned status;
};

static void
open_daemon(struct scene *scene)
{
    const struct advisor_settings settings = {
        .state_dir = scene->folder,
        .db_max = 16u << 20,
        .index_max = 16u << 20,
        .commit_max_wait_ms = 200,
        .silent_after_ms = 10000,
        .gone_after_ms = 30000,
        .mode = ADVISOR_MODE_OFF,
        .ordering = "lru",
        .hot_start_ppm = 850000,
        .hot_stop_ppm = 700000,
        .cold_start_ppm = 950000,
        .cold_stop_ppm = 900000,
        .plan_interval_ms = 1000,
        .order_expiry_ms = 60000,
        .order_key = {.size = WIRE_ORDER_KEY_MIN},
        .admin_bind = "127.0.0.1",
        .admin_token = TOKEN,
        .ports_file = "",
        .bus = {.url = "nats://127.0.0.1:1", /* nobody is there */
                .name = "test",
                .user_file = "",
                .token_file = "",
                .creds_file = "",
                .ca_file = ""},
    };
    struct kvt_error err;

    assert_int_equal(advisor_daemon_open(&scene->daemon, &settings, &err), KVT_OK);
}

static const char *
ask(struct scene *scene, const char *path, const char *body, const char *token)
{
    char url[256];
    const struct kvt_fetch fetch = {.method = body == NULL ? "GET" : "POST",
                                    .url = url,
                                    .token = token,
                                    .body = body,
                                    .body_size = body == NULL ? 0 : strlen(body)};

    (void)snprintf(url, sizeof(url), "http://127.0.0.1:%u%s", advisor_daemon_port(scene->daemon),
                   path);
    kvt_buffer_clear(&scene->answer);
    assert_int_equal(kvt_fetch(&fetch, &scene->status, &scene->answer, NULL), KVT_OK);
    return kvt_buffer_text(&scene->answer);
}

static void
begin(struct scene *scene)
{
    memset(scene, 0, sizeof(*scene));
    (void)test_folder_make(scene->folder, sizeof(scene->folder));
    kvt_buffer_init(&scene->answer, 1u << 20);
    open_daemon(scene);
}

static void
end(struct scene *scene)
{
    kvt_buffer_release(&scene->answer);
    advisor_daemon_close(scene->daemon);
    test_folder_remove(scene->folder);
}

static const char GOOD[] =
    "{\"kind\":\"test\",\"title\":\"two\",\"key\":\"k\",\"moves\":[{\"verb\":\"demote\","
    "\"gateway\":\"gw0\",\"namespace\":\"ns\",\"blocks\":[{\"hash\":\"00000000000000aa\","
    "\"parent\":\"0000000000000000\",\"position\":0,\"ranks\":3,\"size\":10},"
    "{\"hash\":\"00000000000000ab\"}]}]}";

static void
what_is_given_is_kept(void **state)
{
    struct scene scene;
    const char *text;

    (void)state;
    begin(&scene);
    text = ask(&scene, "/v1/jobs", GOOD, TOKEN);
    assert_int_equal(scene.status, 200);
    assert_non_null(strstr(text, "\"id\":1,"));
    assert_non_null(strstr(text, "\"state\":\"queued\",\"blocks\":2,"));
    assert_non_null(strstr(text, "\"batches\":1,"));
    assert_non_null(strstr(text, "\"bytes\":20,")); /* two shards of the first */
    text = ask(&scene, "/v1/jobs", GOOD, TOKEN);    /* said twice */
    assert_non_null(strstr(text, "\"id\":1,"));

    /* It is durable. */
    advisor_daemon_close(scene.daemon);
    open_daemon(&scene);
    text = ask(&scene, "/v1/jobs?key=k", NULL, NULL);
    assert_non_null(strstr(text, "\"paused\":false,\"mode\":\"off\",\"jobs\":[{\"id\":1,"));
    assert_null(strstr(ask(&scene, "/v1/jobs?key=other", NULL, NULL), "\"id\""));
    text = ask(&scene, "/v1/jobs/1", NULL, NULL);
    assert_int_equal(scene.status, 200);
    assert_non_null(strstr(text, "\"failures\":[]"));
    end(&scene);
}

static void
jobs_and_everything_are_told_to_stop(void **state)
{
    struct scene scene;

    (void)state;
    begin(&scene);
    (void)ask(&scene, "/v1/jobs", GOOD, TOKEN);
    assert_non_null(strstr(ask(&scene, "/v1/jobs/1/pause", "", TOKEN), "\"state\":\"paused\""));
    assert_non_null(strstr(ask(&scene, "/v1/jobs/1/resume", "", TOKEN), "\"state\":\"queued\""));
    assert_non_null(strstr(ask(&scene, "/v1/jobs/1/cancel", "", TOKEN), "\"state\":\"cancelled\""));
    (void)ask(&scene, "/v1/jobs/1/resume", "", TOKEN);
    assert_int_equal(scene.status, 409);
    (void)ask(&scene, "/v1/jobs/2/pause", "", TOKEN);
    assert_int_equal(scene.status, 404);
    (void)ask(&scene, "/v1/jobs/1/stop", "", TOKEN);
    assert_int_equal(scene.status, 400);
    assert_non_null(strstr(ask(&scene, "/v1/planner/pause", "", TOKEN), "\"paused\":true"));
    advisor_daemon_close(scene.daemon);
    open_daemon(&scene);
    assert_non_null(strstr(ask(&scene, "/v1/jobs", NULL, NULL), "\"paused\":true"));
    assert_non_null(strstr(ask(&scene, "/v1/planner/resume", "", TOKEN), "\"paused\":false"));
    end(&scene);
}

/* A stop switch that nobody sees is forgotten, and the tiers fill. */
static void
that_all_is_paused_is_seen(void **state)
{
    struct scene scene;
    const char *text;

    (void)state;
    begin(&scene);
    text = ask(&scene, "/v1/overview", NULL, NULL);
    assert_non_null(strstr(text, "\"effective_mode\":\"off\",\"paused\":false,"));
    assert_null(strstr(text, "kvtier migrate resume"));
    (void)ask(&scene, "/v1/planner/pause", "", TOKEN);
    text = ask(&scene, "/v1/overview", NULL, NULL);
    assert_non_null(strstr(text, "\"paused\":true,"));
    assert_non_null(strstr(text, "{\"text\":\"orders: all are paused"));
    assert_non_null(strstr(text, "\"command\":\"kvtier migrate resume\"}"));
    text = ask(&scene, "/v1/status", NULL, NULL);
    assert_non_null(strstr(text, "\"orders: all are paused"));
    assert_non_null(strstr(text, "\"paused\":true,"));
    (void)ask(&scene, "/v1/planner/resume", "", TOKEN);
    text = ask(&scene, "/v1/status", NULL, NULL);
    assert_null(strstr(text, "orders: all are paused"));
    assert_non_null(strstr(text, "\"paused\":false,"));
    end(&scene);
}

static void
nothing_is_done_without_the_token(void **state)
{
    static const char *const paths[] = {"/v1/jobs", "/v1/jobs/1/cancel", "/v1/planner/pause",
                                        "/v1/planner/resume", "/v1/plan"};
    struct scene scene;

    (void)state;
    begin(&scene);
    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
        (void)ask(&scene, paths[i], GOOD, NULL);
        assert_int_equal(scene.status, 401);
    }
    assert_null(strstr(ask(&scene, "/v1/jobs", NULL, NULL), "\"id\""));
    end(&scene);
}

#define PREFIX(text) "{\"verb\":\"delete\",\"hash\":\"00000000000000aa\"," text "}"
#define MOVES(text)  "{\"kind\":\"t\",\"title\":\"t\",\"moves\":[" text "]}"

static void
bad_bodies_are_answered(void **state)
{
    static const struct {
        const char *body;
        const char *says;
    } cases[] = {
        {"", "body"},
        {"[]", "kind, title, moves"},
        {"{\"kind\":\"t\",\"title\":\"t\"}", "moves: want a list"},
        {MOVES("{}"), "verb: want"},
        {MOVES("{\"verb\":\"demote\"}"), "gateway"},
        {MOVES("{\"verb\":\"demote\",\"gateway\":\"g\",\"namespace\":\"\"}"), "want blocks"},
        {MOVES("{\"verb\":\"demote\",\"gateway\":\"g\",\"namespace\":\"\",\"blocks\":[{}]}"),
         "without \\\"hash\\\""},
        {MOVES("{\"verb\":\"demote\",\"gateway\":\"g\",\"namespace\":\"\",\"blocks\":[{\"hash\":"
               "\"00000000000000aa\",\"ranks\":0}]}"),
         "00000000000000aa"},
        {MOVES("{\"verb\":\"pin\",\"gateway\":\"g\",\"namespace\":\"\",\"until_ms\":\"x\"}"),
         "until_ms"},
        {"{\"kind\":\"t\",\"title\":\"t\",\"more\":true,\"moves\":[]}", "needs a key"},
        {"{\"kind\":\"t\",\"title\":\"t\",\"key\":7,\"moves\":[]}", "key"},
        {"{\"kind\":\"t\",\"title\":\"t\",\"key\":null,\"moves\":[]}", "key"},
        {"{\"kind\":\"t\",\"title\":\"t\",\"dry_run\":\"true\",\"moves\":[]}", "dry_run"},
        {"{\"kind\":\"t\",\"title\":\"t\",\"dry_run\":1,\"moves\":[]}", "dry_run"},
        {"{\"kind\":\"t\",\"title\":\"t\",\"dry_run\":null,\"moves\":[]}", "dry_run"},
        {PREFIX("\"dry_run\":1"), "dry_run"},
        {PREFIX("\"moves\":[]"), "moves"},
        {PREFIX("\"key\":\"k\""), "key"},
        {PREFIX("\"namespace\":7"), "namespace"},
        /* A dry run looks at the same things. */
        {"{\"kind\":\"t\",\"title\":\"t\",\"dry_run\":true,\"moves\":[{\"verb\":\"demote\","
         "\"gateway\":\"g\",\"namespace\":\"\"}]}",
         "want blocks"},
        {"{\"kind\":\"a kind that is far too long\",\"title\":\"t\",\"dry_run\":true,"
         "\"moves\":[]}",
         "kind"},
        {"{\"kind\":\"t\",\"title\":\"t\",\"suspend_ppm\":2000000,\"moves\":[]}", "suspend_ppm"},
    };
    struct scene scene;

    (void)state;
    begin(&scene);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const char *text = ask(&scene, "/v1/jobs", cases[i].body, TOKEN);

        assert_int_equal(scene.status, 400);
        if (strstr(text, cases[i].says) == NULL)
            fail_msg("%s: %s", cases[i].body, text);
    }
    (void)ask(&scene, "/v1/jobs/one", NULL, NULL);
    assert_int_equal(scene.status, 400);
    (void)ask(&scene, "/v1/jobs/1", NULL, NULL);
    assert_int_equal(scene.status, 404);
    assert_null(strstr(ask(&scene, "/v1/jobs", NULL, NULL), "\"id\""));
    end(&scene);
}

static void
a_dry_run_keeps_nothing(void **state)
{
    struct scene scene;
    const char *text;

    (void)state;
    begin(&scene);
    text = ask(&scene, "/v1/jobs",
               "{\"kind\":\"t\",\"title\":\"t\",\"dry_run\":true,\"moves\":[{\"verb\":\"delete\","
               "\"gateway\":\"g\",\"namespace\":\"\",\"blocks\":[{\"hash\":\"00000000000000aa\","
               "\"size\":7}]}]}",
               TOKEN);
    assert_int_equal(scene.status, 200);
    assert_non_null(strstr(text, "\"dry_run\":true,\"blocks\":1,\"bytes\":7"));
    assert_null(strstr(ask(&scene, "/v1/jobs", NULL, NULL), "\"id\""));
    end(&scene);
}

static void
a_plan_is_of_now_or_before(void **state)
{
    struct scene scene;
    char body[64];

    (void)state;
    begin(&scene);
    assert_non_null(strstr(ask(&scene, "/v1/plan", "{\"now_ms\":1}", TOKEN), "\"digest\""));
    assert_int_equal(scene.status, 200);
    (void)snprintf(body, sizeof(body), "{\"now_ms\":%llu}",
                   (unsigned long long)kvt_clock_unix_ms() + 60000);
    assert_non_null(strstr(ask(&scene, "/v1/plan", body, TOKEN), "in the future"));
    assert_int_equal(scene.status, 400);
    end(&scene);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_given_is_kept),
        cmocka_unit_test(jobs_and_everything_are_told_to_stop),
        cmocka_unit_test(that_all_is_paused_is_seen),
        cmocka_unit_test(nothing_is_done_without_the_token),
        cmocka_unit_test(bad_bodies_are_answered),
        cmocka_unit_test(a_dry_run_keeps_nothing),
        cmocka_unit_test(a_plan_is_of_now_or_before),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
