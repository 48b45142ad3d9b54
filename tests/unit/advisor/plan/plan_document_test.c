/*
 * What is tested: advisor/plan/plan_document.h: the document of a plan, its sums and its signature.
 * How: moves in any order against sums counted by hand; what was changed must not fit its digest;
 * every allocation fails once.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "advisor/job/jobs.h"
#include "advisor/plan/plan_document.h"
#include "base/core/alloc.h"
#include "base/text/json.h"

#include "tests/support/seed.h"

static const char POLICY[] = "version: 1\n"
                             "tiers:\n"
                             "  hot: {level: G3}\n"
                             "  cold: {level: G4, prices: {put_1k: \"0.005\"}}\n"
                             "rules:\n"
                             "  - id: drain\n"
                             "    from: hot\n"
                             "    to: cold\n"
                             "    trigger: {start: 80%, stop: 50%}\n"
                             "  - id: old\n"
                             "    in: cold\n"
                             "    do: expire\n"
                             "    trigger: {start: 95%, stop: 90%}\n";

struct scene {
    struct advisor_rules *rules;
    struct advisor_plan *plan;
    struct kvt_buffer out;
};

static void
begin(struct scene *scene)
{
    struct policy_problems *problems = kvt_calloc(1, sizeof(*problems));
    struct kvt_error err = {.text = ""};

    assert_non_null(problems);
    if (advisor_rules_new(&scene->rules, POLICY, sizeof(POLICY) - 1, problems, &err) != KVT_OK)
        fail_msg("%s %s", err.text, problems->list[0].text);
    kvt_free(problems);
    assert_int_equal(advisor_plan_new(&scene->plan), KVT_OK);
    kvt_buffer_init(&scene->out, 16u << 20);
}

static void
end(struct scene *scene)
{
    kvt_buffer_release(&scene->out);
    advisor_plan_free(scene->plan);
    advisor_rules_free(scene->rules);
}

static struct advisor_plan_move
move_of(uint64_t hash, bool deletes, const char *namespace_)
{
    return (struct advisor_plan_move){
        .verb = deletes ? KVT_ORDER_DELETE : KVT_ORDER_DEMOTE,
        .gateway = "gw0",
        .goes = "",
        .tier = deletes ? "cold@b" : "hot@gw0",
        .namespace_ = namespace_,
        .rule = deletes ? "old" : "drain",
        .item = {.block = {.hash = hash, .parent = hash - 1}, .ranks = 3},
        .size = 100,
        .from = deletes ? 1 : 0,
        .to = deletes ? -1 : 1};
}

static const char *
write_it(struct scene *scene, uint64_t created_ms)
{
    static const char *const warnings[] = {"take \"care\""};
    static const struct advisor_plan_sum classes[] = {
        {.name = "small", .blocks = 2, .bytes = 20}, {.name = "none"}, {.name = "big", 1, 300}};
    static const struct advisor_plan_sum pins[] = {{.name = "keep", .blocks = 7, .bytes = 70}};
    const struct advisor_plan_frame frame = {.rules = scene->rules,
                                             .base_version = 7,
                                             .base_digest = "base",
                                             .created_ms = created_ms,
                                             .bytes_per_s = 1000,
                                             .classes = classes,
                                             .class_count = 3,
                                             .pins = pins,
                                             .pin_count = 1,
                                             .warnings = warnings,
                                             .warning_count = 1};

    kvt_buffer_clear(&scene->out);
    assert_int_equal(advisor_plan_write(scene->plan, &frame, &scene->out), KVT_OK);
    return kvt_buffer_text(&scene->out);
}

static void
moves_are_summed_and_put_together(void **state)
{
    struct scene scene;
    const char *text;

    (void)state;
    begin(&scene);
    /* Two kinds in turn: each becomes batches of at most an order's size, in its own order. */
    for (uint64_t i = 1; i <= 3000; i++) {
        const struct advisor_plan_move move =
            move_of(i, i % 3 == 0, i % 2 == 0 ? "acme/a" : "beta/b");

        assert_int_equal(advisor_plan_append(scene.plan, &move), KVT_OK);
    }
    text = write_it(&scene, 1);
    assert_non_null(strstr(text, "\"blocks\":3000,\"bytes\":600000,\"requests\":6000,"
                                 "\"eta_s\":601,"));
    /* 2,000 blocks of two shards at 0.005 a thousand; deleting is free */
    assert_non_null(strstr(text, "\"cost\":0.020000000,"));
    assert_non_null(strstr(text, "\"demote\":{\"blocks\":2000,\"bytes\":400000}"));
    assert_non_null(strstr(text, "\"delete\":{\"blocks\":1000,\"bytes\":200000}"));
    assert_non_null(strstr(text, "\"tiers\":[{\"name\":\"hot@gw0\",\"blocks\":2000,"));
    assert_non_null(strstr(text, "\"rules\":[{\"name\":\"drain\",\"blocks\":2000,"));
    assert_non_null(strstr(text, "\"tenants\":[{\"name\":\"acme\",\"blocks\":1500,"));
    assert_non_null(strstr(text, "\"classes\":[{\"name\":\"big\",\"blocks\":1,\"bytes\":300},"
                                 "{\"name\":\"small\",\"blocks\":2,\"bytes\":20}],"
                                 "\"pins\":[{\"name\":\"keep\",\"blocks\":7,\"bytes\":70}]"));
    assert_non_null(strstr(text, "\"warnings\":[\"take \\\"care\\\"\"]"));
    assert_non_null(strstr(text, "\"rule\":\"drain\",\"blocks\":[\"0000000000000001 "
                                 "0000000000000000 0 3 100\",\"0000000000000005 "));
    end(&scene);
}

/* The digest of a document, as whoever applies it reckons. */
static void
digest_of(const char *text, char hex[ADVISOR_PLAN_DIGEST_MAX])
{
    const char *at = strstr(text, "\"digest\":\"");

    assert_non_null(at);
    memcpy(hex, at + 10, ADVISOR_PLAN_DIGEST_MAX - 1);
    hex[ADVISOR_PLAN_DIGEST_MAX - 1] = '\0';
}

static void
the_same_moves_are_the_same_plan(void **state)
{
    struct scene scene[2];
    char hex[3][ADVISOR_PLAN_DIGEST_MAX];
    const char *text[2];
    struct advisor_plan_move more = move_of(99, true, "n");

    (void)state;
    for (int i = 0; i < 2; i++) {
        begin(&scene[i]);
        for (uint64_t hash = 1; hash < 50; hash++) {
            const struct advisor_plan_move move = move_of(hash, hash % 2 == 0, "n");

            assert_int_equal(advisor_plan_append(scene[i].plan, &move), KVT_OK);
        }
        text[i] = write_it(&scene[i], 5);
        digest_of(text[i], hex[i]);
    }
    assert_string_equal(text[0], text[1]);
    /* When it was made counts, or the job of one that was done would stand for the next; and each
     * block does. */
    digest_of(write_it(&scene[0], 6), hex[1]);
    assert_string_not_equal(hex[0], hex[1]);
    assert_int_equal(advisor_plan_append(scene[0].plan, &more), KVT_OK);
    digest_of(write_it(&scene[0], 5), hex[2]);
    assert_string_not_equal(hex[0], hex[2]);
    end(&scene[0]);
    end(&scene[1]);
}

/* One value's own digest. */
static void
sign_json(const char *text, char hex[ADVISOR_PLAN_DIGEST_MAX])
{
    struct advisor_plan_digest *digest = advisor_plan_digest_new();
    struct json_object *value = NULL;
    struct kvt_error err;

    assert_non_null(digest);
    assert_int_equal(kvt_json_parse(&value, text, strlen(text), "value", &err), KVT_OK);
    advisor_plan_digest_json(digest, value);
    advisor_plan_digest_end(digest, hex);
    (void)json_object_put(value);
}

static void
a_value_is_signed_by_what_it_means(void **state)
{
    static const char *const same[][2] = {
        {"[0.250000000, 2.0, 0.000000000]", "[2.5e-1,2,0]"},
        {"{\"a\":[1.5,null,true]}", "{ \"a\" : [1.50, null, true] }"},
        {"[\"a/b\"]", "[\"a\\/b\"]"},
    };
    static const char *const other[][2] = {
        {"[\"a\",\"b\"]", "[[\"a\"],\"b\"]"},
        {"[[],[1]]", "[[1],[]]"},
        {"{\"a\":1}", "{\"a\":2}"},
        {"{\"a\":1}", "{\"b\":1}"},
        {"[0.000000001]", "[0.000000002]"},
        {"[false]", "[true]"},
        {"[null]", "[\"\"]"},
        {"[\"take care\"]", "[]"},
    };
    char hex[2][ADVISOR_PLAN_DIGEST_MAX];

    (void)state;
    for (size_t i = 0; i < sizeof(same) / sizeof(same[0]); i++) {
        sign_json(same[i][0], hex[0]);
        sign_json(same[i][1], hex[1]);
        assert_string_equal(hex[0], hex[1]);
    }
    for (size_t i = 0; i < sizeof(other) / sizeof(other[0]); i++) {
        sign_json(other[i][0], hex[0]);
        sign_json(other[i][1], hex[1]);
        assert_string_not_equal(hex[0], hex[1]);
    }
}

/* What people read and agree to: of two plans that differ in nothing but a warning or how long it
 * takes, one was not agreed to. */
static void
the_summary_is_signed(void **state)
{
    static const char *const warnings[] = {"it deletes"};
    struct scene scene;
    char hex[3][ADVISOR_PLAN_DIGEST_MAX];
    const struct advisor_plan_move move = move_of(1, false, "n");

    (void)state;
    begin(&scene);
    assert_int_equal(advisor_plan_append(scene.plan, &move), KVT_OK);
    for (int i = 0; i < 3; i++) {
        const struct advisor_plan_frame frame = {.rules = scene.rules,
                                                 .base_digest = "base",
                                                 .bytes_per_s = i == 1 ? 1000 : 0,
                                                 .warnings = warnings,
                                                 .warning_count = i == 2 ? 1 : 0};

        kvt_buffer_clear(&scene.out);
        assert_int_equal(advisor_plan_write(scene.plan, &frame, &scene.out), KVT_OK);
        digest_of(kvt_buffer_text(&scene.out), hex[i]);
    }
    assert_string_not_equal(hex[0], hex[1]);
    assert_string_not_equal(hex[0], hex[2]);
    end(&scene);
}

/* Of quotas those that matter, the one first for which most leaves. */
static void
quotas_are_told(void **state)
{
    static const struct advisor_plan_quota quotas[] = {
        {.tenant = "within", .tier = "hot", .soft = 10, .hard = 20, .before = 9, .after = 9},
        {.tenant = "stays", .tier = "", .soft = 10, .hard = 20, .before = 30, .after = 30},
        {.tenant = "full",
         .tier = "hot",
         .soft = 10,
         .hard = 20,
         .before = 20,
         .after = 10,
         .blocks = 1,
         .bytes = 10,
         .refused_blocks = 3,
         .refused_bytes = 6},
        {.tenant = "kept", .tier = "cold", .soft = 9, .hard = 9, .refused_blocks = 1},
    };
    struct scene scene;
    char hex[2][ADVISOR_PLAN_DIGEST_MAX];

    (void)state;
    begin(&scene);
    for (int i = 0; i < 2; i++) {
        const struct advisor_plan_frame frame = {.rules = scene.rules,
                                                 .base_digest = "base",
                                                 .quotas = quotas,
                                                 .quota_count = i == 0 ? 4 : 3};

        kvt_buffer_clear(&scene.out);
        assert_int_equal(advisor_plan_write(scene.plan, &frame, &scene.out), KVT_OK);
        digest_of(kvt_buffer_text(&scene.out), hex[i]);
        assert_null(strstr(kvt_buffer_text(&scene.out), "within"));
        assert_non_null(
            strstr(kvt_buffer_text(&scene.out),
                   "\"quotas\":[{\"tenant\":\"full\",\"tier\":\"hot\",\"blocks\":1,\"bytes\":10,"
                   "\"soft_bytes\":10,\"hard_bytes\":20,\"used_bytes\":20,\"left_bytes\":10,"
                   "\"refused_blocks\":3,\"refused_bytes\":6},"));
    }
    assert_non_null(strstr(kvt_buffer_text(&scene.out), "{\"tenant\":\"stays\",\"tier\":\"\","));
    assert_string_not_equal(hex[0], hex[1]);
    end(&scene);
}

/* What is signed cannot be read in two ways. */
static void
texts_are_signed_with_their_lengths(void **state)
{
    static const char *const words[2][2] = {{"ab", "c"}, {"a", "bc"}};
    char hex[2][ADVISOR_PLAN_DIGEST_MAX];

    (void)state;
    for (int i = 0; i < 2; i++) {
        struct advisor_plan_digest *digest = advisor_plan_digest_new();

        assert_non_null(digest);
        advisor_plan_digest_text(digest, words[i][0]);
        advisor_plan_digest_text(digest, words[i][1]);
        advisor_plan_digest_end(digest, hex[i]);
    }
    assert_string_not_equal(hex[0], hex[1]);
    /* printf '2:ab\n1:c\n' | sha256sum */
    assert_string_equal(hex[0], "e45c872a8561b073078255341cbfc8e35b3ac2f363fc6f34d7b962b2734b42fe");
}

static void
blocks_have_one_spelling(void **state)
{
    static const char *const bad[] = {
        "",
        "00000000000000aa",
        "00000000000000aa 00000000000000bb 1 1",
        "00000000000000aa 00000000000000bb 1 1 ",
        "00000000000000aa 00000000000000bb 1 1 1 ",
        "aa 00000000000000bb 1 1 1",
        "00000000000000aa  00000000000000bb 1 1 1",
        "00000000000000aa 00000000000000bb 1 0 1",
        "00000000000000aa 00000000000000bb 1 4294967296 1",
        "00000000000000aa 00000000000000bb 16777216 1 1",
        "00000000000000aa 00000000000000bb -1 1 1",
        "00000000000000gg 00000000000000bb 1 1 1",
    };
    const struct kvt_order_item item = {
        .block = {.hash = UINT64_MAX, .parent = 1, .position = KVT_POSITION_MAX},
        .ranks = UINT32_MAX};
    struct kvt_order_item read;
    char text[ADVISOR_PLAN_BLOCK_MAX];
    uint64_t size;

    (void)state;
    advisor_plan_block_format(&item, UINT64_MAX, text);
    assert_string_equal(
        text, "ffffffffffffffff 0000000000000001 16777215 4294967295 18446744073709551615");
    assert_true(advisor_plan_block_parse(text, &read, &size));
    assert_int_equal(read.block.hash, item.block.hash);
    assert_int_equal(read.block.parent, item.block.parent);
    assert_int_equal(read.block.position, item.block.position);
    assert_int_equal(read.ranks, item.ranks);
    assert_true(size == UINT64_MAX);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        if (advisor_plan_block_parse(bad[i], &read, &size))
            fail_msg("taken: \"%s\"", bad[i]);
}

static void
a_plan_is_cut_at_its_limits(void **state)
{
    struct scene scene;
    enum kvt_err rc = KVT_OK;
    uint64_t count = 0;
    char name[32];

    (void)state;
    begin(&scene);
    while (rc == KVT_OK && count < 2 * ADVISOR_PLAN_GROUPS_MAX) {
        struct advisor_plan_move move = move_of(count + 1, false, name);

        (void)snprintf(name, sizeof(name), "n%" PRIu64, count);
        rc = advisor_plan_append(scene.plan, &move);
        count += rc == KVT_OK ? 1 : 0;
    }
    assert_int_equal(rc, KVT_FULL);
    assert_int_equal(count, ADVISOR_PLAN_GROUPS_MAX);
    assert_non_null(strstr(write_it(&scene, 1), "\"blocks\":4096,")); /* and is whole */
    end(&scene);
}

/* What is approved can be done: a job has so many batches, and large blocks make many. */
static void
a_plan_is_what_one_job_can_do(void **state)
{
    struct scene scene;
    size_t count = 0;
    struct advisor_plan_move move = move_of(1, false, "n");
    struct advisor_plan_move other = move_of(2, false, "other");

    (void)state;
    begin(&scene);
    move.item.ranks = 1;
    move.size = UINT64_C(1) << 29; /* two in a batch */
    while (count <= 4 * (size_t)ADVISOR_JOB_BATCHES_MAX &&
           advisor_plan_append(scene.plan, &move) == KVT_OK)
        count++;
    assert_int_equal(count, 2 * ADVISOR_JOB_BATCHES_MAX);
    assert_int_equal(advisor_plan_append(scene.plan, &move), KVT_FULL);
    assert_int_equal(advisor_plan_append(scene.plan, &other), KVT_FULL);
    assert_int_equal(advisor_plan_append(scene.plan, &other), KVT_FULL);
    end(&scene);
}

static void
every_allocation_may_fail(void **state)
{
    struct scene scene;
    size_t n = 0;
    enum kvt_err rc = KVT_NOMEM;

    (void)state;
    begin(&scene);
    while (rc != KVT_OK) {
        const struct advisor_plan_frame frame = {.rules = scene.rules, .base_digest = ""};
        const struct advisor_plan_move move = move_of(1, false, "n");
        struct advisor_plan *plan;

        assert_true(n < 100);
        kvt_buffer_release(&scene.out);
        kvt_buffer_init(&scene.out, 1u << 20);
        kvt_alloc_fail_after(n++);
        rc = advisor_plan_new(&plan);
        if (rc == KVT_OK)
            rc = advisor_plan_append(plan, &move);
        if (rc == KVT_OK)
            rc = advisor_plan_write(plan, &frame, &scene.out);
        kvt_alloc_fail_after(SIZE_MAX);
        assert_true(rc == KVT_OK || rc == KVT_NOMEM || rc == KVT_RANGE);
        advisor_plan_free(plan);
    }
    assert_true(n > 5);
    end(&scene);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(moves_are_summed_and_put_together),
        cmocka_unit_test(the_same_moves_are_the_same_plan),
        cmocka_unit_test(a_value_is_signed_by_what_it_means),
        cmocka_unit_test(the_summary_is_signed),
        cmocka_unit_test(quotas_are_told),
        cmocka_unit_test(texts_are_signed_with_their_lengths),
        cmocka_unit_test(blocks_have_one_spelling),
        cmocka_unit_test(a_plan_is_cut_at_its_limits),
        cmocka_unit_test(a_plan_is_what_one_job_can_do),
        cmocka_unit_test(every_allocation_may_fail),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
