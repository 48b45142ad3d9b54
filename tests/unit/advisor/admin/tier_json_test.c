/*
 * What is tested: what the admin interface says of gateways with up to four tiers: what hangs on a
 * block and what a namespace has, tier by tier; what is warmed, to which of them; the overview.
 * How: the blocks of places.h behind a real HTTP server.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "advisor/admin/advisor_admin.h"
#include "advisor/order/planner_private.h"
#include "advisor/order/traffic.h"
#include "base/core/clock.h"
#include "base/http/fetch.h"
#include "base/text/json.h"
#include "wire/nats/bus.h"

#include "tests/support/seed.h"
#include "tests/unit/advisor/support/block_forest.h"

enum { ANSWER_MAX = 1 << 20, PATH_BYTES = 200, READS = 5 };

static const char *const rung_names[ADVISOR_TIER_KIND_COUNT] = {"hot", "warm", "cold", "far"};
static const unsigned rung_of_place[TEST_PLACE_G2] = {0, 0, 1, 2, 2, 3, 2};

struct scene {
    struct test_places *places;
    struct advisor_traffic *tally;
    struct wire_bus *bus;
    struct advisor_admin pages;
    struct kvt_http *http;
    struct kvt_buffer answer;
    unsigned status;
};

static void
begin(struct scene *scene)
{
    const struct wire_bus_options bus = {.url = "nats://127.0.0.1:1", .name = "test"};
    struct kvt_http_options http = {.bind = "127.0.0.1",
                                    .token = "secret",
                                    .routes = advisor_admin_routes,
                                    .route_count = advisor_admin_route_count,
                                    .arg = &scene->pages};
    struct test_rig *rig;

    memset(scene, 0, sizeof(*scene));
    scene->places = test_places_begin();
    rig = &scene->places->rig;
    rig->planner->options.can_enforce = true; /* no order leaves: it observes */
    assert_int_equal(advisor_traffic_new(&scene->tally, rig->metrics), KVT_OK);
    rig->planner->options.traffic = scene->tally;
    assert_int_equal(wire_bus_open(&scene->bus, &bus, NULL), KVT_OK);
    scene->pages = (struct advisor_admin){.round = rig->engine,
                                          .planner = rig->planner,
                                          .rulebook = rig->rulebook,
                                          .jobs = rig->jobs,
                                          .store = rig->store,
                                          .sources = rig->sources,
                                          .finder = rig->finder,
                                          .bus = scene->bus,
                                          .counters = &rig->counters,
                                          .tally = scene->tally,
                                          .nats_url = bus.url};
    assert_int_equal(kvt_http_start(&scene->http, &http, NULL), KVT_OK);
    kvt_buffer_init(&scene->answer, ANSWER_MAX);
}

static void
end(struct scene *scene)
{
    kvt_http_stop(scene->http);
    wire_bus_close(scene->bus);
    scene->places->rig.planner->options.traffic = NULL;
    advisor_traffic_free(scene->tally);
    kvt_buffer_release(&scene->answer);
    test_places_end(scene->places);
}

static const char *
ask(struct scene *scene, const char *path, const char *body)
{
    char url[PATH_BYTES + 64];
    const struct kvt_fetch fetch = {.method = body == NULL ? "GET" : "POST",
                                    .url = url,
                                    .token = "secret",
                                    .body = body,
                                    .body_size = body == NULL ? 0 : strlen(body)};

    (void)snprintf(url, sizeof(url), "http://127.0.0.1:%u%s", kvt_http_port(scene->http), path);
    kvt_buffer_clear(&scene->answer);
    assert_int_equal(kvt_fetch(&fetch, &scene->status, &scene->answer, NULL), KVT_OK);
    return kvt_buffer_text(&scene->answer);
}

static void
assert_has(const char *text, const char *part)
{
    if (strstr(text, part) == NULL)
        fail_msg("no %s in %s", part, text);
}

/* Over blocks that somebody holds: nobody tells what a block hangs on that nobody has. */
static bool
hangs_on_first(const struct test_places *places, unsigned block)
{
    while (block != 0 && block < TEST_PLACES_BLOCKS) {
        const uint32_t *ranks = places->blocks[block].ranks;
        unsigned place = 0;

        while (place < TEST_PLACE_COUNT && ranks[place] == 0)
            place++;
        if (place == TEST_PLACE_COUNT)
            return false;
        block = places->blocks[block].parent;
    }
    return block == 0;
}

static void
what_hangs_on_a_block_is_told_by_tier(void **state)
{
    uint64_t blocks[ADVISOR_TIER_KIND_COUNT] = {0};
    uint64_t bytes[ADVISOR_TIER_KIND_COUNT] = {0};
    struct scene scene;
    char path[PATH_BYTES];
    const char *text;

    (void)state;
    begin(&scene);
    for (unsigned i = 0; i < TEST_PLACES_BLOCKS; i++) {
        const struct test_place_block *block = &scene.places->blocks[i];
        bool here[ADVISOR_TIER_KIND_COUNT] = {false};

        for (unsigned place = 0; place < TEST_PLACE_G2; place++) {
            if (block->ranks[place] == 0 || !hangs_on_first(scene.places, i))
                continue;
            here[rung_of_place[place]] = true;
            bytes[rung_of_place[place]] +=
                block->size * (uint64_t)__builtin_popcount(block->ranks[place]);
        }
        for (unsigned rung = 0; rung < ADVISOR_TIER_KIND_COUNT; rung++)
            blocks[rung] += here[rung];
    }
    (void)snprintf(path, sizeof(path), "/v1/index/subtree?hash=%016" PRIx64 "&namespace=tenant",
                   test_place_hash(0));
    text = ask(&scene, path, NULL);
    assert_int_equal(scene.status, 200);
    for (unsigned rung = 0; rung < ADVISOR_TIER_KIND_COUNT; rung++) {
        char part[128];

        assert_true(blocks[rung] > 0);
        (void)snprintf(part, sizeof(part), "\"%s\":{\"blocks\":%" PRIu64 ",\"bytes\":%" PRIu64 "}",
                       rung_names[rung], blocks[rung], bytes[rung]);
        assert_has(text, part);
    }
    end(&scene);
}

static void
what_a_namespace_has_is_told_by_tier(void **state)
{
    uint64_t places[ADVISOR_TIER_KIND_COUNT] = {0};
    struct scene scene;
    const char *text;

    (void)state;
    begin(&scene);
    for (unsigned i = 0; i < TEST_PLACES_BLOCKS; i++)
        for (unsigned place = 0; place < TEST_PLACE_G2; place++)
            places[rung_of_place[place]] +=
                scene.places->blocks[i].space == 2 && scene.places->blocks[i].ranks[place] != 0;
    text = ask(&scene, "/v1/usage?namespace=tenants", NULL);
    assert_int_equal(scene.status, 200);
    for (unsigned rung = 0; rung < ADVISOR_TIER_KIND_COUNT; rung++) {
        char part[64];

        (void)snprintf(part, sizeof(part), "\"%s_places\":%" PRIu64 ",", rung_names[rung],
                       places[rung]);
        assert_has(text, part);
    }
    end(&scene);
}

static void
what_is_warmed_goes_to_a_tier(void **state)
{
    static const struct {
        const char *rest;
        unsigned status;
        const char *says;
    } cases[] = {
        {"\"verb\":\"warm\"", 200, "\"from\":\"warm\",\"to\":\"hot\""},
        {"\"verb\":\"warm\",\"to\":\"hot\"", 200, "\"from\":\"far\",\"to\":\"hot\""},
        {"\"verb\":\"warm\",\"to\":\"warm\"", 200, "\"from\":\"cold\",\"to\":\"warm\""},
        {"\"verb\":\"warm\",\"to\":\"cold\"", 200, "\"from\":\"far\",\"to\":\"cold\""},
        {"\"verb\":\"warm\",\"to\":\"far\"", 400, "want hot, warm or cold"},
        {"\"verb\":\"warm\",\"to\":\"hot@gw0\"", 400, "want hot, warm or cold"},
        {"\"verb\":\"warm\",\"to\":7", 400, "want hot, warm or cold"},
        {"\"verb\":\"pin\",\"to\":\"hot\"", 400, "and verb warm"},
    };
    struct scene scene;
    char body[256];

    (void)state;
    begin(&scene);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const char *text;

        (void)snprintf(body, sizeof(body),
                       "{%s,\"hash\":\"%016" PRIx64 "\",\"namespace\":\"tenant\",\"dry_run\":true}",
                       cases[i].rest, test_place_hash(0));
        text = ask(&scene, "/v1/jobs", body);
        assert_int_equal(scene.status, cases[i].status);
        assert_has(text, cases[i].says);
        if (scene.status == 200)
            assert_null(strstr(text, "\"from\":\"hot\""));
    }
    end(&scene);
}

/* What is read is called as whoever stored it called it, and tiers are told what they are. */
static void
the_overview_knows_tiers_and_namespaces(void **state)
{
    struct kvt_report report = {
        .seq = 2,
        .incarnation = 1,
        .time_ms = kvt_clock_unix_ms(),
        .healthy = true,
        .gateway = "gw0",
        .namespace_ = "tenants",
        .tier_count = 4,
        .tiers = {
            {.name = "hot@gw0"}, {.name = "cold@a"}, {.name = "warm@gw0"}, {.name = "cold@far"}}};
    static const char *const tiers[] = {
        "{\"name\":\"hot@gw0\",\"rung\":\"hot\",", "{\"name\":\"warm@gw0\",\"rung\":\"warm\",",
        "{\"name\":\"cold@a\",\"rung\":\"cold\",", "{\"name\":\"cold@far\",\"rung\":\"far\","};
    struct kvt_report_access access = {.count = READS};
    struct scene scene;
    const char *text;

    (void)state;
    begin(&scene);
    for (unsigned i = 0; i < TEST_PLACES_BLOCKS; i++)
        if (scene.places->blocks[i].space == 2 &&
            scene.places->blocks[i].ranks[TEST_PLACE_HOT0] != 0)
            access.hash = test_place_hash(i);
    assert_int_not_equal(access.hash, 0);
    report.accesses = &access;
    report.access_count = 1;
    test_rig_report(&scene.places->rig, 1000, &report);
    test_rig_run(&scene.places->rig);
    text = ask(&scene, "/v1/overview", NULL);
    assert_int_equal(scene.status, 200);
    assert_has(text, "\"prefixes\":[{\"namespace\":\"tenants\",");
    for (size_t i = 0; i < sizeof(tiers) / sizeof(tiers[0]); i++) { /* from the top down */
        assert_has(text, tiers[i]);
        text = strstr(text, tiers[i]);
    }
    end(&scene);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_hangs_on_a_block_is_told_by_tier),
        cmocka_unit_test(what_a_namespace_has_is_told_by_tier),
        cmocka_unit_test(what_is_warmed_goes_to_a_tier),
        cmocka_unit_test(the_overview_knows_tiers_and_namespaces),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
