/*
 * What is tested: g4/object/commit.h.
 * How: keys by hand; random records there and back, cut short at every byte; a bucket in memory
 * where a record meets none, an equal one, KVBM's, another, garbage, and somebody who is quicker.
 */
#include <stdio.h>
#include <string.h>

#include "base/core/random.h"
#include "g4/object/commit.h"

#include "tests/support/seed.h"
#include "tests/unit/g4/support/memory_bucket.h"

#define KEY "7:11111113:11111112.meta"

static void
a_block_of_the_nameless_namespace_has_a_record(void **state)
{
    char key[KVT_KEY_MAX];
    char block[KVT_KEY_MAX];

    (void)state;
    assert_true(g4_commit_key("31/7:11111113:11111112", key));
    assert_string_equal(key, KEY);
    g4_commit_rank_key(key, 31, block);
    assert_string_equal(block, "31/7:11111113:11111112");
    assert_true(g4_commit_key("0/0:11111112", key));
    assert_string_equal(key, "0:11111112.meta");
    assert_false(g4_commit_key("t/0/0:11111112", key));
    assert_string_equal(key, "");
    assert_false(g4_commit_key("0:11111112", key));
    assert_false(g4_commit_key("notes/0:1", key));
}

static void
make_random(struct g4_commit *record, uint64_t *random)
{
    *record = (struct g4_commit){.ranks = 1 + (uint32_t)kvt_random_below(random, KVT_RANKS_MAX)};
    for (uint32_t i = 0; i < record->ranks; i++)
        record->rank[i] = (struct g4_commit_rank){.length = kvt_random_next(random),
                                                  .crc32c = (uint32_t)kvt_random_next(random),
                                                  .fingerprint = kvt_random_next(random)};
    for (size_t i = 0, size = kvt_random_below(random, KVT_NAME_MAX); i < size; i++)
        record->writer[i] = (char)(1 + kvt_random_below(random, 127));
}

static void
what_is_written_is_read(void **state)
{
    uint64_t random = test_seed();

    (void)state;
    for (int round = 0; round < 200; round++) {
        struct g4_commit record;
        struct g4_commit again;
        struct kvt_buffer body;
        struct kvt_error err;

        make_random(&record, &random);
        kvt_buffer_init(&body, G4_COMMIT_BODY_MAX);
        g4_commit_format(&record, &body);
        assert_true(kvt_buffer_ok(&body));
        assert_int_equal(g4_commit_parse(&again, kvt_buffer_text(&body), body.size, &err), KVT_OK);
        assert_memory_equal(&again, &record, sizeof(record));
        assert_true(g4_commit_same(&again, &record));
        again.rank[kvt_random_below(&random, again.ranks)].crc32c ^= 1;
        assert_false(g4_commit_same(&again, &record));
        for (size_t size = 1; size < body.size; size += round == 0 ? 1 : body.size / 3) {
            assert_int_equal(g4_commit_parse(&again, kvt_buffer_text(&body), size, &err),
                             KVT_INVALID);
            assert_int_equal(again.ranks, 0);
        }
        kvt_buffer_release(&body);
    }
}

static void
what_is_no_record_is_refused(void **state)
{
#define RANK "{\"length\":1,\"crc32c\":\"00000000\",\"fingerprint\":\"0000000000000000\"}"
    static const struct {
        const char *text;
        enum kvt_err rc;
    } rows[] = {
        {"", KVT_OK}, /* KVBM's */
        {"{\"version\":1,\"writer\":\"w\",\"ranks\":[" RANK "]}", KVT_OK},
        {"{\"writer\":\"w\",\"more\":[{}],\"ranks\":[" RANK "],\"version\":1}", KVT_OK},
        {"{\"version\":2,\"writer\":\"w\",\"shards\":[" RANK "]}", KVT_UNSUPPORTED},
        {"{\"version\":1,\"writer\":\"w\",\"ranks\":[]}", KVT_INVALID},
        {"{\"version\":1,\"writer\":\"w\"}", KVT_INVALID},
        {"{\"version\":1,\"version\":1,\"writer\":\"w\",\"ranks\":[" RANK "]}", KVT_INVALID},
        {"{\"version\":1,\"writer\":7,\"ranks\":[" RANK "]}", KVT_INVALID},
        {"{\"version\":1,\"writer\":\"w\",\"ranks\":[" RANK "]}x", KVT_INVALID},
        {"{\"version\":1,\"writer\":\"w\",\"ranks\":[{\"length\":1,\"crc32c\":\"0000000\","
         "\"fingerprint\":\"0000000000000000\"}]}",
         KVT_INVALID},
        {"{\"version\":1,\"writer\":\"w\",\"ranks\":[{\"length\":-1,\"crc32c\":\"00000000\","
         "\"fingerprint\":\"0000000000000000\"}]}",
         KVT_INVALID},
        {"1", KVT_INVALID},
    };
    char wide[G4_COMMIT_BODY_MAX + 1] = "{";

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct g4_commit record;
        struct kvt_error err;
        const enum kvt_err rc = g4_commit_parse(&record, rows[i].text, strlen(rows[i].text), &err);

        if (rc != rows[i].rc)
            fail_msg("%s: %s, expected %s", rows[i].text, kvt_err_text(rc),
                     kvt_err_text(rows[i].rc));
        assert_int_equal(record.ranks, rc == KVT_OK && rows[i].text[0] != '\0' ? 1 : 0);
    }
    assert_int_equal(g4_commit_parse(&(struct g4_commit){.ranks = 1}, wide, sizeof(wide), NULL),
                     KVT_RANGE);
}

/* More ranks than there may be, each of them good. */
static void
too_many_ranks_are_refused(void **state)
{
    struct g4_commit record;
    struct kvt_buffer body;

    (void)state;
    kvt_buffer_init(&body, G4_COMMIT_BODY_MAX);
    kvt_buffer_printf(&body, "{\"version\":1,\"writer\":\"w\",\"ranks\":[");
    for (int i = 0; i <= KVT_RANKS_MAX; i++)
        kvt_buffer_printf(&body, "%s" RANK, i == 0 ? "" : ",");
    kvt_buffer_printf(&body, "]}");
    assert_true(kvt_buffer_ok(&body));
    assert_int_equal(g4_commit_parse(&record, kvt_buffer_text(&body), body.size, NULL),
                     KVT_INVALID);
    kvt_buffer_release(&body);
}

/* ---- in a bucket ---- */

struct scene {
    struct memory_bucket memory;
    struct memory_bucket_client client;
    struct memory_bucket_client rival;
    struct g4_store *store;
    struct g4_store *rivals;
    struct g4_commit mine;
    struct g4_commit other;
};

static struct scene *
open_scene(void)
{
    static struct scene scene; /* it is large */

    memset(&scene, 0, sizeof(scene));
    scene.client.memory = scene.rival.memory = &scene.memory;
    scene.store = memory_bucket_open(&scene.client);
    scene.rivals = memory_bucket_open(&scene.rival);
    scene.mine = (struct g4_commit){.ranks = 2, .rank = {{5, 1, 7}, {5, 2, 7}}, .writer = "gw0"};
    scene.other = (struct g4_commit){.ranks = 2, .rank = {{5, 1, 7}, {5, 3, 7}}, .writer = "gw1"};
    return &scene;
}

static void
close_scene(struct scene *scene)
{
    g4_store_close(scene->store);
    g4_store_close(scene->rivals);
    memory_bucket_clear(&scene->memory);
}

static enum kvt_err
write_record(struct g4_store *store, const struct g4_commit *record)
{
    struct g4_request request = {.verb = G4_PUT};
    struct kvt_buffer body;
    enum kvt_err rc;

    kvt_buffer_init(&body, G4_COMMIT_BODY_MAX);
    g4_commit_format(record, &body);
    g4_commit_request(record, KEY, &body, &request);
    rc = g4_store_perform(store, &request);
    kvt_buffer_release(&body);
    return rc == KVT_EXISTS ? g4_commit_settle(store, KEY, record, NULL) : rc;
}

static void
plant(struct g4_store *store, const char *text)
{
    struct g4_request request = {
        .verb = G4_PUT, .key = KEY, .body = text, .body_size = strlen(text)};

    assert_int_equal(g4_store_perform(store, &request), KVT_OK);
}

static void
expect_record(struct scene *scene, const struct g4_commit *wanted)
{
    struct g4_commit record;
    char etag[G4_ETAG_MAX];

    assert_int_equal(g4_commit_read(scene->rivals, KEY, &record, etag, NULL), KVT_OK);
    assert_memory_equal(&record, wanted, sizeof(record));
    assert_string_not_equal(etag, "");
}

static void
a_record_is_written_once(void **state)
{
    static const struct g4_commit kvbms = {.ranks = 0};
    static const char later[] = "{\"version\":2,\"signed\":true}";
    struct scene *scene = open_scene();
    struct g4_commit record;
    char etag[G4_ETAG_MAX];

    (void)state;
    assert_int_equal(g4_commit_read(scene->store, KEY, &record, etag, NULL), KVT_NOTFOUND);
    assert_string_equal(etag, "");
    assert_int_equal(write_record(scene->store, &scene->mine), KVT_OK);
    expect_record(scene, &scene->mine);
    scene->client.calls = 0;
    assert_int_equal(write_record(scene->store, &scene->mine), KVT_OK);
    assert_int_equal(scene->client.calls, 2); /* PUT, GET: nothing is changed */
    assert_int_equal(write_record(scene->rivals, &scene->other), KVT_OK);
    expect_record(scene, &scene->other); /* it is the ranks that changed */
    plant(scene->rivals, "garbage");
    assert_int_equal(g4_commit_read(scene->store, KEY, &record, etag, NULL), KVT_CORRUPT);
    assert_int_equal(write_record(scene->store, &scene->mine), KVT_OK);
    expect_record(scene, &scene->mine);
    plant(scene->rivals, "");
    assert_int_equal(write_record(scene->store, &scene->mine), KVT_OK);
    expect_record(scene, &kvbms);
    plant(scene->rivals, later);
    assert_int_equal(g4_commit_read(scene->store, KEY, &record, etag, NULL), KVT_UNSUPPORTED);
    assert_int_equal(write_record(scene->store, &scene->mine), KVT_OK);
    assert_int_equal(memory_bucket_find(&scene->memory, KEY)->size, strlen(later)); /* as it was */
    close_scene(scene);
}

/* ---- with somebody else at it ---- */

struct quicker {
    struct g4_store *store;
    bool removes;
};

static void
be_quicker(void *arg, const struct g4_request *request)
{
    const struct quicker *quicker = arg;
    struct g4_request drop = {.verb = G4_DELETE, .key = request->key};

    if (quicker->removes)
        assert_int_equal(g4_store_perform(quicker->store, &drop), KVT_OK);
    else
        plant(quicker->store, "somebody else's");
}

/* Between any two requests another may replace or remove what was seen: it is never written over
 * unseen, and the answer is to try again. */
static void
who_is_quicker_wins(void **state)
{
    (void)state;
    for (uint64_t at = 2; at <= 3; at++) /* before the GET, before the PUT over it */
        for (int removes = 0; removes < 2; removes++) {
            struct scene *scene = open_scene();
            struct quicker quicker = {.store = scene->rivals, .removes = removes != 0};
            enum kvt_err rc;

            assert_int_equal(write_record(scene->rivals, &scene->other), KVT_OK);
            scene->client.at = at;
            scene->client.between = be_quicker;
            scene->client.arg = &quicker;
            rc = write_record(scene->store, &scene->mine);
            if (at == 2 && removes == 0) { /* seen, and replaced */
                assert_int_equal(rc, KVT_OK);
                expect_record(scene, &scene->mine);
            } else {
                assert_int_equal(rc, KVT_AGAIN);
                assert_int_equal(memory_bucket_count(&scene->memory, KEY), removes != 0 ? 0 : 1);
            }
            close_scene(scene);
        }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_block_of_the_nameless_namespace_has_a_record),
        cmocka_unit_test(what_is_written_is_read),
        cmocka_unit_test(what_is_no_record_is_refused),
        cmocka_unit_test(too_many_ranks_are_refused),
        cmocka_unit_test(a_record_is_written_once),
        cmocka_unit_test(who_is_quicker_wins),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
