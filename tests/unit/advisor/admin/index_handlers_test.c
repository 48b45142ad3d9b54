/*
 * What is tested: what the admin interface says of the index: all of it, page by page, and what it
 * says while the index is still read into memory.
 * How: an engine without network behind a real HTTP server.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "advisor/admin/advisor_admin.h"
#include "base/core/alloc.h"
#include "base/http/fetch.h"
#include "base/text/json.h"

#include "tests/support/seed.h"
#include "tests/unit/advisor/support/rig.h"

enum { BLOCKS = 250, FIRST = 1000, ANSWER_MAX = 1 << 20, PATH_BYTES = 200 };

struct scene {
    struct test_rig rig;
    char folder[256];
    struct advisor_admin pages;
    struct kvt_http *http;
    struct kvt_buffer answer;
    unsigned status;
};

/* A chain that a worker and a bucket have. */
static void
store_chain(struct scene *scene)
{
    static const enum kvt_tier tiers[] = {KVT_TIER_G2, KVT_TIER_G4};
    struct kvt_event events[BLOCKS];
    struct kvt_event_batch batch = {.worker = "w",
                                    .namespace_ = "ns",
                                    .incarnation = 1,
                                    .location_count = 1,
                                    .locations = {{.name = "cold@b"}},
                                    .events = events,
                                    .event_count = BLOCKS};

    for (size_t t = 0; t < 2; t++) {
        batch.locations[0].tier = tiers[t];
        batch.first_seq = 1 + t * BLOCKS;
        for (uint32_t i = 0; i < BLOCKS; i++)
            events[i] = (struct kvt_event){.type = KVT_EVENT_STORE,
                                           .sequence_hash = FIRST + i,
                                           .parent = i == 0 ? 0 : FIRST + i - 1,
                                           .position = i,
                                           .block_size = 64,
                                           .ranks = 1};
        test_rig_batch(&scene->rig, 0, &batch);
    }
    test_rig_run(&scene->rig);
}

static void
begin(struct scene *scene)
{
    struct test_rig_options rig = {.mode = ADVISOR_MODE_OFF};
    struct kvt_http_options http = {
        .bind = "127.0.0.1", .token = "", .routes = advisor_admin_routes, .arg = &scene->pages};

    memset(scene, 0, sizeof(*scene));
    rig.path = test_folder_make(scene->folder, sizeof(scene->folder));
    http.route_count = advisor_admin_route_count;
    test_rig_open(&scene->rig, &rig);
    store_chain(scene);
    scene->pages = (struct advisor_admin){.round = scene->rig.engine,
                                          .planner = scene->rig.planner,
                                          .store = scene->rig.store,
                                          .finder = scene->rig.finder,
                                          .counters = &scene->rig.counters};
    assert_int_equal(kvt_http_start(&scene->http, &http, NULL), KVT_OK);
    kvt_buffer_init(&scene->answer, ANSWER_MAX);
}

static void
end(struct scene *scene)
{
    kvt_http_stop(scene->http);
    kvt_buffer_release(&scene->answer);
    test_rig_close(&scene->rig);
    test_folder_remove(scene->folder);
}

static const char *
ask(struct scene *scene, const char *path, const char *body)
{
    char url[PATH_BYTES + 64];
    const struct kvt_fetch fetch = {.method = body == NULL ? "GET" : "POST",
                                    .url = url,
                                    .body = body,
                                    .body_size = body == NULL ? 0 : strlen(body)};

    (void)snprintf(url, sizeof(url), "http://127.0.0.1:%u%s", kvt_http_port(scene->http), path);
    kvt_buffer_clear(&scene->answer);
    assert_int_equal(kvt_fetch(&fetch, &scene->status, &scene->answer, NULL), KVT_OK);
    return kvt_buffer_text(&scene->answer);
}

static struct json_object *
ask_json(struct scene *scene, const char *path, const char *body)
{
    const char *text = ask(scene, path, body);
    struct json_object *answer;

    assert_int_equal(scene->status, 200);
    assert_int_equal(kvt_json_parse(&answer, text, strlen(text), path, NULL), KVT_OK);
    return answer;
}

static unsigned
count(const char *text, const char *what)
{
    unsigned found = 0;

    for (const char *at = text; (at = strstr(at, what)) != NULL; at++)
        found++;
    return found;
}

/* The cursor of a page, "" at the end. */
static void
cursor_of(const char *page, char *cursor, size_t size)
{
    static const char mark[] = "{\"next_cursor\":\"";
    const char *at = strstr(page, mark);
    size_t length;

    assert_non_null(at);
    at += strlen(mark);
    length = strcspn(at, "\"");
    assert_true(length < size);
    memcpy(cursor, at, length);
    cursor[length] = '\0';
}

static void
an_export_goes_page_by_page(void **state)
{
    unsigned blocks = 0;
    unsigned hashes = 0;
    unsigned pages = 0;
    char cursor[40] = "";
    struct scene scene;

    (void)state;
    begin(&scene);
    do {
        char path[PATH_BYTES];
        const char *text;

        (void)snprintf(path, sizeof(path), "/v1/index/export?limit=40&cursor=%s", cursor);
        text = ask(&scene, path, NULL);
        assert_int_equal(scene.status, 200);
        assert_int_equal(count(text, "{\"row\":\"index\""), pages == 0 ? 1 : 0);
        blocks += count(text, "{\"row\":\"block\"");
        for (const char *at = text; (at = strstr(at, "{\"row\":\"run\",\"count\":")) != NULL; at++)
            hashes += (unsigned)strtoul(at + strlen("{\"row\":\"run\",\"count\":"), NULL, 10);
        cursor_of(text, cursor, sizeof(cursor));
        pages++;
    } while (cursor[0] != '\0');
    assert_int_equal(blocks, BLOCKS);
    assert_int_equal(hashes, BLOCKS);
    assert_true(pages > BLOCKS / 40);
    (void)ask(&scene, "/v1/index/export?cursor=x0000000000000000", NULL);
    assert_int_equal(scene.status, 400);
    (void)ask(&scene, "/v1/index/export?cursor=b12zz", NULL);
    assert_int_equal(scene.status, 400);
    end(&scene);
}

#define QUESTION "{\"namespace\":\"ns\",\"hashes\":[\"00000000000003e8\",\"00000000000003e9\"]}"

struct question {
    const char *path;
    const char *body;
};

static const struct question complete[] = {
    {"/v1/find_matches", QUESTION},
    {"/v1/match", QUESTION},
    {"/v1/blocks/00000000000003e9?namespace=ns", NULL},
};

static const struct question partial[] = {
    {"/v1/index/stats", NULL},
    {"/v1/index/subtree?namespace=ns&hash=00000000000003e8", NULL},
    {"/v1/index/candidates?tier=G2&order=coldest", NULL},
    {"/v1/index/history?namespace=ns&hash=00000000000003e8", NULL},
};

static void
assert_loading(struct scene *scene, const struct question *question, bool loading)
{
    struct json_object *answer = ask_json(scene, question->path, question->body);
    uint64_t bytes;
    bool flag = false;

    assert_int_equal(kvt_json_bool(answer, "loading", &flag), loading);
    assert_int_equal(flag, loading);
    assert_int_equal(kvt_json_u64(answer, "loaded_bytes", &bytes), loading);
    assert_int_equal(kvt_json_u64(answer, "load_bytes", &bytes), loading);
    json_object_put(answer);
}

/* The members that must not depend on who answers. */
static void
assert_complete(struct scene *scene)
{
    const char *text = ask(scene, complete[0].path, complete[0].body);

    assert_int_equal(count(text, "\"blocks\":2"), 2);
    text = ask(scene, complete[1].path, complete[1].body);
    assert_int_equal(count(text, "\"tiers\":[\"G2\",\"G4\"]"), 2);
    text = ask(scene, complete[2].path, complete[2].body);
    assert_int_equal(count(text, "\"place_count\":2"), 1);
    assert_int_equal(count(text, "\"parent\":\"00000000000003e8\""), 1);
    assert_int_equal(count(text, "kvtier block explain 00000000000003e9 --namespace ns\"]"), 1);
    assert_int_equal(count(text, "\"rule\":"), 0);
}

static void
while_the_index_is_read_answers_say_so(void **state)
{
    struct scene scene;

    (void)state;
    begin(&scene);
    for (unsigned loading = 0; loading < 2; loading++) {
        atomic_store(&scene.rig.finder.memory->loading, loading == 1);
        for (size_t i = 0; i < sizeof(complete) / sizeof(complete[0]); i++)
            assert_loading(&scene, &complete[i], loading == 1);
        for (size_t i = 0; i < sizeof(partial) / sizeof(partial[0]); i++) {
            assert_loading(&scene, &partial[i], loading == 1);
            if (i > 0)
                assert_int_equal(count(kvt_buffer_text(&scene.answer), "\"whole\":false"), loading);
        }
        assert_complete(&scene);
        (void)ask(&scene, "/v1/index/dump", NULL);
        assert_int_equal(scene.status, loading == 1 ? 503 : 200);
        (void)ask(&scene, "/v1/index/export", NULL);
        assert_int_equal(scene.status, loading == 1 ? 503 : 200);
        if (loading == 1)
            assert_non_null(strstr(kvt_buffer_text(&scene.answer), "try again"));
    }
    /* Not because it loads: then it does not get better. */
    atomic_store(&scene.rig.finder.memory->loading, false);
    atomic_store(&scene.rig.finder.memory->spilled, true);
    assert_complete(&scene);
    assert_non_null(strstr(ask(&scene, "/v1/index/dump", NULL), "--offline"));
    assert_int_equal(scene.status, 503);
    end(&scene);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_export_goes_page_by_page),
        cmocka_unit_test(while_the_index_is_read_answers_say_so),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
