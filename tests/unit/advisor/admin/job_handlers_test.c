/*
 * What is tested: the admin interface to jobs: what is given arrives, and what makes no sense is
 * answered with what is wrong.
 * How: the daemon in this process on a free port, NATS away; real HTTP.
 */
#include <stdio.h>
#include <string.h>

#include "base/core/clock.h"

#include "tests/support/seed.h"
#include "tests/unit/advisor/support/admin_bed.h"

#define TOKEN TEST_ADMIN_TOKEN

static void
begin(struct test_admin *scene)
{
    test_admin_begin(scene, ADVISOR_MODE_OFF, true, "gw0");
}

static const char GOOD[] =
    "{\"kind\":\"test\",\"title\":\"two\",\"key\":\"k\",\"moves\":[{\"verb\":\"demote\","
    "\"gateway\":\"gw0\",\"namespace\":\"ns\",\"blocks\":[{\"hash\":\"00000000000000aa\","
    "\"parent\":\"0000000000000000\",\"position\":0,\"ranks\":3,\"size\":10},"
    "{\"hash\":\"00000000000000ab\"}]}]}";

static void
what_is_given_is_kept(void **state)
{
    struct test_admin scene;
    const char *text;

    (void)state;
    begin(&scene);
    text = test_admin_ask(&scene, "/v1/jobs", GOOD, TOKEN);
    assert_int_equal(scene.status, 200);
    assert_non_null(strstr(text, "\"id\":1,"));
    assert_non_null(strstr(text, "\"state\":\"queued\",\"blocks\":2,"));
    assert_non_null(strstr(text, "\"batches\":1,"));
    assert_non_null(strstr(text, "\"bytes\":20,"));         /* two shards of the first */
    text = test_admin_ask(&scene, "/v1/jobs", GOOD, TOKEN); /* said twice */
    assert_non_null(strstr(text, "\"id\":1,"));

    /* It is durable. */
    test_admin_close(&scene);
    test_admin_open(&scene);
    text = test_admin_ask(&scene, "/v1/jobs?key=k", NULL, NULL);
    assert_non_null(strstr(text, "\"paused\":false,\"mode\":\"off\",\"jobs\":[{\"id\":1,"));
    assert_null(strstr(test_admin_ask(&scene, "/v1/jobs?key=other", NULL, NULL), "\"id\""));
    text = test_admin_ask(&scene, "/v1/jobs/1", NULL, NULL);
    assert_int_equal(scene.status, 200);
    assert_non_null(strstr(text, "\"failures\":[]"));
    test_admin_end(&scene);
}

static void
jobs_and_everything_are_told_to_stop(void **state)
{
    struct test_admin scene;

    (void)state;
    begin(&scene);
    (void)test_admin_ask(&scene, "/v1/jobs", GOOD, TOKEN);
    assert_non_null(
        strstr(test_admin_ask(&scene, "/v1/jobs/1/pause", "", TOKEN), "\"state\":\"paused\""));
    assert_non_null(
        strstr(test_admin_ask(&scene, "/v1/jobs/1/resume", "", TOKEN), "\"state\":\"queued\""));
    assert_non_null(
        strstr(test_admin_ask(&scene, "/v1/jobs/1/cancel", "", TOKEN), "\"state\":\"cancelled\""));
    (void)test_admin_ask(&scene, "/v1/jobs/1/resume", "", TOKEN);
    assert_int_equal(scene.status, 409);
    (void)test_admin_ask(&scene, "/v1/jobs/2/pause", "", TOKEN);
    assert_int_equal(scene.status, 404);
    (void)test_admin_ask(&scene, "/v1/jobs/1/stop", "", TOKEN);
    assert_int_equal(scene.status, 400);
    assert_non_null(
        strstr(test_admin_ask(&scene, "/v1/planner/pause", "", TOKEN), "\"paused\":true"));
    test_admin_close(&scene);
    test_admin_open(&scene);
    assert_non_null(strstr(test_admin_ask(&scene, "/v1/jobs", NULL, NULL), "\"paused\":true"));
    assert_non_null(
        strstr(test_admin_ask(&scene, "/v1/planner/resume", "", TOKEN), "\"paused\":false"));
    test_admin_end(&scene);
}

/* A stop switch that nobody sees is forgotten, and the tiers fill. */
static void
that_all_is_paused_is_seen(void **state)
{
    struct test_admin scene;
    const char *text;

    (void)state;
    begin(&scene);
    text = test_admin_ask(&scene, "/v1/overview", NULL, NULL);
    assert_non_null(strstr(text, "\"effective_mode\":\"off\",\"paused\":false,"));
    assert_null(strstr(text, "kvtier migrate resume"));
    (void)test_admin_ask(&scene, "/v1/planner/pause", "", TOKEN);
    text = test_admin_ask(&scene, "/v1/overview", NULL, NULL);
    assert_non_null(strstr(text, "\"paused\":true,"));
    assert_non_null(strstr(text, "{\"text\":\"orders: all are paused"));
    assert_non_null(strstr(text, "\"command\":\"kvtier migrate resume\"}"));
    text = test_admin_ask(&scene, "/v1/status", NULL, NULL);
    assert_non_null(strstr(text, "\"orders: all are paused"));
    assert_non_null(strstr(text, "\"paused\":true,"));
    (void)test_admin_ask(&scene, "/v1/planner/resume", "", TOKEN);
    text = test_admin_ask(&scene, "/v1/status", NULL, NULL);
    assert_null(strstr(text, "orders: all are paused"));
    assert_non_null(strstr(text, "\"paused\":false,"));
    test_admin_end(&scene);
}

static void
nothing_is_done_without_the_token(void **state)
{
    static const char *const paths[] = {"/v1/jobs", "/v1/jobs/1/cancel", "/v1/planner/pause",
                                        "/v1/planner/resume", "/v1/plan"};
    struct test_admin scene;

    (void)state;
    begin(&scene);
    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
        (void)test_admin_ask(&scene, paths[i], GOOD, NULL);
        assert_int_equal(scene.status, 401);
    }
    assert_null(strstr(test_admin_ask(&scene, "/v1/jobs", NULL, NULL), "\"id\""));
    test_admin_end(&scene);
}

#define PREFIX(text) "{\"verb\":\"delete\",\"hash\":\"00000000000000aa\"," text "}"
#define BLOCK        "\"blocks\":[{\"hash\":\"00000000000000aa\"}]"
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
        {MOVES("{\"verb\":\"demote\",\"gateway\":\"gw0\",\"namespace\":\"\"}"), "want blocks"},
        {MOVES("{\"verb\":\"demote\",\"gateway\":\"gw0\",\"namespace\":\"\",\"blocks\":[{}]}"),
         "without \\\"hash\\\""},
        {MOVES("{\"verb\":\"demote\",\"gateway\":\"gw0\",\"namespace\":\"\",\"blocks\":[{\"hash\":"
               "\"00000000000000aa\",\"ranks\":0}]}"),
         "00000000000000aa"},
        {MOVES("{\"verb\":\"pin\",\"gateway\":\"gw0\",\"namespace\":\"\",\"until_ms\":\"x\"}"),
         "until_ms"},
        {"{\"kind\":\"t\",\"title\":\"t\",\"more\":true,\"moves\":[]}", "needs a key"},
        {"{\"kind\":\"t\",\"title\":\"t\",\"key\":7,\"moves\":[]}", "key"},
        {"{\"kind\":\"t\",\"title\":\"t\",\"key\":null,\"moves\":[]}", "key"},
        {"{\"kind\":\"t\",\"title\":\"t\",\"dry_run\":\"true\",\"moves\":[]}", "dry_run"},
        {"{\"kind\":\"t\",\"title\":\"t\",\"dry_run\":1,\"moves\":[]}", "dry_run"},
        {"{\"kind\":\"t\",\"title\":\"t\",\"dry_run\":null,\"moves\":[]}", "dry_run"},
        {MOVES("{\"verb\":\"demote\",\"gateway\":\"gw0\",\"namespace\":\"\",\"keep\":true," BLOCK
               "}"),
         "keep: want from and to"},
        {MOVES("{\"verb\":\"demote\",\"gateway\":\"gw0\",\"namespace\":\"\",\"keep\":true,"
               "\"tier\":\"hot@gw0\"," BLOCK "}"),
         "keep: want from and to"},
        {MOVES("{\"verb\":\"demote\",\"gateway\":\"gw0\",\"namespace\":\"\",\"keep\":1," BLOCK "}"),
         "keep true or false"},
        {MOVES("{\"verb\":\"demote\",\"gateway\":\"gw0\",\"namespace\":\"\",\"from\":\"hot@"
               "gw0\"," BLOCK "}"),
         "two tiers of the gateway"},
        {PREFIX("\"dry_run\":1"), "dry_run"},
        {PREFIX("\"moves\":[]"), "moves"},
        {PREFIX("\"key\":\"k\""), "key"},
        {PREFIX("\"namespace\":7"), "namespace"},
        /* A dry run looks at the same things. */
        {"{\"kind\":\"t\",\"title\":\"t\",\"dry_run\":true,\"moves\":[{\"verb\":\"demote\","
         "\"gateway\":\"gw0\",\"namespace\":\"\"}]}",
         "want blocks"},
        {"{\"kind\":\"a kind that is far too long\",\"title\":\"t\",\"dry_run\":true,"
         "\"moves\":[]}",
         "kind"},
        {"{\"kind\":\"t\",\"title\":\"t\",\"suspend_ppm\":2000000,\"moves\":[]}", "suspend_ppm"},
    };
    struct test_admin scene;

    (void)state;
    begin(&scene);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const char *text = test_admin_ask(&scene, "/v1/jobs", cases[i].body, TOKEN);

        assert_int_equal(scene.status, 400);
        if (strstr(text, cases[i].says) == NULL)
            fail_msg("%s: %s", cases[i].body, text);
    }
    (void)test_admin_ask(&scene, "/v1/jobs/one", NULL, NULL);
    assert_int_equal(scene.status, 400);
    (void)test_admin_ask(&scene, "/v1/jobs/1", NULL, NULL);
    assert_int_equal(scene.status, 404);
    assert_null(strstr(test_admin_ask(&scene, "/v1/jobs", NULL, NULL), "\"id\""));
    test_admin_end(&scene);
}

static void
a_dry_run_keeps_nothing(void **state)
{
    struct test_admin scene;
    const char *text;

    (void)state;
    begin(&scene);
    text = test_admin_ask(
        &scene, "/v1/jobs",
        "{\"kind\":\"t\",\"title\":\"t\",\"dry_run\":true,\"moves\":[{\"verb\":\"delete\","
        "\"gateway\":\"gw0\",\"namespace\":\"\",\"blocks\":[{\"hash\":\"00000000000000aa\","
        "\"size\":7}]}]}",
        TOKEN);
    assert_int_equal(scene.status, 200);
    assert_non_null(strstr(text, "\"dry_run\":true,\"blocks\":1,\"bytes\":7"));
    assert_null(strstr(test_admin_ask(&scene, "/v1/jobs", NULL, NULL), "\"id\""));
    test_admin_end(&scene);
}

/* It would be tried for an hour, and fail. */
static void
a_gateway_that_nobody_heard_of_is_refused(void **state)
{
    static const char body[] =
        MOVES("{\"verb\":\"demote\",\"gateway\":\"gw9\",\"namespace\":\"ns\","
              "\"blocks\":[{\"hash\":\"00000000000000aa\"}]}");
    struct test_admin scene;
    const char *text;

    (void)state;
    begin(&scene);
    text = test_admin_ask(&scene, "/v1/jobs", body, TOKEN);
    assert_int_equal(scene.status, 404);
    assert_non_null(strstr(text, "gw9\\\" has reported; there is gw0"));
    assert_null(strstr(test_admin_ask(&scene, "/v1/jobs", NULL, NULL), "\"id\""));
    test_admin_end(&scene);
    test_admin_begin(&scene, ADVISOR_MODE_OFF, true, NULL);
    text = test_admin_ask(&scene, "/v1/jobs", body, TOKEN);
    assert_int_equal(scene.status, 404);
    assert_non_null(strstr(text, "none has"));
    test_admin_end(&scene);
}

static void
a_plan_is_of_now_or_before(void **state)
{
    struct test_admin scene;
    char body[64];

    (void)state;
    begin(&scene);
    assert_non_null(
        strstr(test_admin_ask(&scene, "/v1/plan", "{\"now_ms\":1}", TOKEN), "\"digest\""));
    assert_int_equal(scene.status, 200);
    (void)snprintf(body, sizeof(body), "{\"now_ms\":%llu}",
                   (unsigned long long)kvt_clock_unix_ms() + 60000);
    assert_non_null(strstr(test_admin_ask(&scene, "/v1/plan", body, TOKEN), "in the future"));
    assert_int_equal(scene.status, 400);
    test_admin_end(&scene);
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
        cmocka_unit_test(a_gateway_that_nobody_heard_of_is_refused),
        cmocka_unit_test(a_plan_is_of_now_or_before),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
