/*
 * What is tested: what the engine says of publishers whose events it may have missed: after a
 * restart of either side, behind answers that are not whole, and after the program was killed.
 * How: hand-made messages, a source that answers as the test says, and stores opened again.
 */
#include <endian.h>
#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"

#include "tests/support/seed.h"
#include "tests/unit/advisor/support/foreign_cluster.h"
#include "tests/unit/advisor/support/foreign_scene.h"

enum { DEADLINE_MS = 10000, AFTER_MS = 100 };

static struct advisor_publisher_view
view_of(struct test_rig *rig)
{
    struct advisor_publisher_view view = {.state = ADVISOR_GONE};
    struct advisor_publisher_view *views;

    assert_int_equal(advisor_publishers_views(advisor_round_publishers(rig->engine), &views), 1);
    view = views[0];
    kvt_free(views);
    return view;
}

static void
run_until_asked(struct test_scene *scene, int times)
{
    const uint64_t deadline_ms = kvt_clock_mono_ms() + DEADLINE_MS;

    while (test_answer.asked < times) {
        test_rig_run(&scene->rig);
        assert_true(kvt_clock_mono_ms() < deadline_ms);
    }
    /* The answer is on its way. */
    for (uint64_t from_ms = kvt_clock_mono_ms(); kvt_clock_mono_ms() < from_ms + AFTER_MS;)
        test_rig_run(&scene->rig);
}

static uint32_t
count_places(const struct test_rig *rig, uint32_t chain, uint32_t depth)
{
    struct advisor_finder_block block;

    if (advisor_finder_block(&rig->finder, "ns0", test_router_name(chain, depth), &block) != KVT_OK)
        return 0;
    return block.place_count;
}

/* ---- engines that begin anew while nobody listens ---- */

static const struct test_router_blocks former = {.chain = 1, .depth = 0, .count = 6};
static const struct test_router_blocks latter = {.chain = 2, .depth = 0, .count = 6};

static void
say(struct test_scene *scene, uint64_t sequence, const struct test_router_blocks *blocks)
{
    test_router_engine(&scene->bytes, 1, blocks);
    test_rig_foreign(&scene->rig, 0, sequence, &scene->bytes);
    kvt_buffer_clear(&scene->bytes);
    test_rig_run(&scene->rig);
}

static void
put_message(uint64_t sequence, const struct test_router_blocks *blocks)
{
    struct kvt_buffer message;
    uint64_t head[2];

    kvt_buffer_init(&message, TEST_SCENE_MESSAGE_MAX);
    test_router_engine(&message, 1, blocks);
    head[0] = htole64(sequence);
    head[1] = htole64(message.size);
    kvt_buffer_append(&test_answer.bytes, head, sizeof(head));
    kvt_buffer_append(&test_answer.bytes, message.data, message.size);
    kvt_buffer_release(&message);
}

static void
speak_and_restart(struct test_scene *scene)
{
    test_scene_begin(scene, &test_scene_engine, false);
    say(scene, 0, &former);
    say(scene, 1, &former);
    assert_int_equal(view_of(&scene->rig).state, ADVISOR_LIVE);
    test_scene_restart(scene);
    test_rig_run(&scene->rig);
    assert_int_equal(view_of(&scene->rig).state, ADVISOR_UNCERTAIN);
}

/* Its numbers go back: what the former life held is void, and its first message is no duplicate. */
static void
engine_that_began_anew(void **state)
{
    struct test_scene scene;

    (void)state;
    speak_and_restart(&scene);
    say(&scene, 0, &latter);
    assert_int_equal(view_of(&scene.rig).state, ADVISOR_LIVE);
    assert_int_equal(count_places(&scene.rig, 2, 5), 1);
    assert_int_equal(count_places(&scene.rig, 1, 5), 0);
    assert_int_equal(test_rig_view(&scene.rig).counts.duplicates, 0);
    test_scene_end(&scene);
}

/* They fit by chance, and nobody can be asked: never certain again without a word. */
static void
engine_that_may_have_begun_anew(void **state)
{
    struct test_scene scene;

    (void)state;
    speak_and_restart(&scene);
    say(&scene, 2, &latter);
    run_until_asked(&scene, 1);
    assert_int_equal(view_of(&scene.rig).state, ADVISOR_UNCERTAIN);
    assert_int_equal(view_of(&scene.rig).foreign.lost, 1);
    assert_int_equal(count_places(&scene.rig, 2, 5), 1);
    say(&scene, 0, &latter); /* and then it does begin anew */
    assert_int_equal(view_of(&scene.rig).state, ADVISOR_LIVE);
    assert_int_equal(count_places(&scene.rig, 1, 5), 0);
    test_scene_end(&scene);
}

/* Its ring knows the last message that was heard: the same life goes on. */
static void
engine_that_vouches(void **state)
{
    struct test_scene scene;

    (void)state;
    speak_and_restart(&scene);
    test_rig_close(&scene.rig);
    test_answer.rc = KVT_OK;
    test_answer.kind = ADVISOR_ANSWER_MESSAGES;
    put_message(1, &former);
    put_message(2, &latter);
    test_answer.asked = 0;
    test_rig_open(&scene.rig, &scene.options);
    run_until_asked(&scene, 1);
    assert_int_equal(test_answer.from, 1);
    assert_int_equal(view_of(&scene.rig).state, ADVISOR_LIVE);
    assert_int_equal(count_places(&scene.rig, 1, 5), 1);
    assert_int_equal(count_places(&scene.rig, 2, 5), 1);
    test_scene_end(&scene);
}

/* Its ring has another one under that number: another life, which is asked for from its start. */
static void
engine_that_does_not_vouch(void **state)
{
    struct test_scene scene;

    (void)state;
    speak_and_restart(&scene);
    test_rig_close(&scene.rig);
    test_answer.rc = KVT_OK;
    test_answer.kind = ADVISOR_ANSWER_MESSAGES;
    put_message(1, &latter);
    put_message(2, &latter);
    test_answer.asked = 0;
    test_rig_open(&scene.rig, &scene.options);
    run_until_asked(&scene, 2);
    assert_int_equal(test_answer.from, 0);
    assert_int_equal(count_places(&scene.rig, 1, 5), 0);
    /* Its ring begins behind its first message. */
    assert_int_equal(view_of(&scene.rig).state, ADVISOR_UNCERTAIN);
    assert_int_equal(view_of(&scene.rig).foreign.lost, 1);
    test_scene_end(&scene);
}

/* ---- answers that are not whole ---- */

static void
put_event(struct kvt_buffer *out, uint32_t id, const char *block)
{
    kvt_buffer_printf(out,
                      "{\"worker_id\":7,\"storage_tier\":\"device\",\"event\":{\"event_id\":%u,"
                      "\"data\":{\"stored\":{\"parent_hash\":null,\"blocks\":[{\"block_hash\":%s,"
                      "\"tokens_hash\":%u}]}},\"dp_rank\":0}}",
                      id, block, 100 + id);
}

static void
event(struct test_scene *scene, uint64_t stream_seq, uint32_t id)
{
    char block[16];

    (void)snprintf(block, sizeof(block), "%u", 10 + id);
    put_event(&scene->bytes, id, block);
    test_rig_foreign(&scene->rig, stream_seq, UINT64_MAX, &scene->bytes);
    kvt_buffer_clear(&scene->bytes);
    test_rig_run(&scene->rig);
}

/* A gap that is answered with what is in `answer`: nothing of what is known may be swept. */
static void
ask_and_keep(const char *text)
{
    struct test_scene scene;

    test_scene_begin(&scene, &test_scene_dynamo, false);
    event(&scene, 0, 1);
    event(&scene, 0, 2);
    assert_int_equal(test_rig_value(scene.rig.counters.blocks), 2);
    test_answer.rc = KVT_OK;
    test_answer.kind = ADVISOR_ANSWER_DUMP;
    kvt_buffer_printf(&test_answer.bytes, "%s", text);
    event(&scene, 0, 5);
    run_until_asked(&scene, 1);
    assert_int_equal(view_of(&scene.rig).state, ADVISOR_UNCERTAIN);
    assert_int_equal(test_rig_value(scene.rig.counters.blocks), 2);
    test_scene_end(&scene);
}

static void
dumps_that_failed_sweep_nothing(void **state)
{
    (void)state;
    ask_and_keep("{\"m:default\":{\"error\":\"indexer is down\"}}");
    ask_and_keep(
        "{\"m:default\":{\"block_size\":16,\"events\":[]},\"n:default\":{\"error\":\"x\"}}");
    ask_and_keep("{}");
    ask_and_keep("{\"m:default\":{\"block_size\":16,\"events\":[]}}"); /* without the worker */
}

/* An event of the dump cannot be read: the rest replaces what was known, and is not all. */
static void
dumps_nobody_can_read(void **state)
{
    struct test_scene scene;

    (void)state;
    test_scene_begin(&scene, &test_scene_dynamo, false);
    event(&scene, 0, 1);
    test_answer.rc = KVT_OK;
    test_answer.kind = ADVISOR_ANSWER_QUERY;
    kvt_buffer_printf(&test_answer.bytes, "{\"TreeDump\":{\"events\":[");
    put_event(&test_answer.bytes, 0, "77");
    kvt_buffer_printf(&test_answer.bytes, ",");
    put_event(&test_answer.bytes, 0, "\"x\"");
    kvt_buffer_printf(&test_answer.bytes, "],\"last_event_id\":4}}");
    event(&scene, 0, 4);
    run_until_asked(&scene, 1);
    assert_int_equal(view_of(&scene.rig).state, ADVISOR_UNCERTAIN);
    assert_string_equal(view_of(&scene.rig).foreign.reason,
                        "an event of what it holds cannot be read");
    assert_int_equal(view_of(&scene.rig).row.last_seq, 5);
    assert_int_equal(test_rig_value(scene.rig.counters.blocks), 1);
    test_scene_end(&scene);
}

/* As 1.0.2 answers: what comes behind it goes on, wherever its numbers are. */
static void
dumps_without_a_number(void **state)
{
    struct test_scene scene;

    (void)state;
    test_scene_begin(&scene, &test_scene_dynamo, false);
    event(&scene, 0, 1);
    test_answer.rc = KVT_OK;
    test_answer.kind = ADVISOR_ANSWER_QUERY;
    kvt_buffer_printf(&test_answer.bytes, "{\"TreeDump\":[");
    put_event(&test_answer.bytes, 0, "77");
    kvt_buffer_printf(&test_answer.bytes, "]}");
    event(&scene, 0, 4);
    run_until_asked(&scene, 1);
    event(&scene, 0, 5);
    event(&scene, 0, 6);
    test_rig_run(&scene.rig);
    assert_int_equal(view_of(&scene.rig).state, ADVISOR_LIVE);
    assert_int_equal(view_of(&scene.rig).row.last_seq, 7);
    assert_int_equal(test_rig_value(scene.rig.counters.blocks), 4);
    assert_int_equal(test_answer.asked, 1);
    test_scene_end(&scene);
}

/* ---- killed while in doubt ---- */

/* The stream lost messages, and nobody answered before the program ended: it is asked again. */
static void
doubt_survives(void **state)
{
    struct advisor_inbox_item *item;
    struct test_scene scene;

    (void)state;
    test_scene_begin(&scene, &test_scene_dynamo, true);
    test_answer.rc = KVT_TIMEOUT;
    event(&scene, 1, 1);
    assert_int_equal(view_of(&scene.rig).state, ADVISOR_LIVE);
    assert_int_equal(advisor_inbox_item_new(&item, ADVISOR_INBOX_ITEM_GAP, "s", NULL, 0), KVT_OK);
    item->stream_seq = 50;
    test_rig_foreign_item(&scene.rig, item);
    run_until_asked(&scene, 1);
    for (int i = 0; i < 2; i++) {
        test_scene_restart(&scene);
        test_rig_run(&scene.rig);
        assert_int_equal(test_rig_view(&scene.rig).committed_seq, 50);
        assert_int_equal(view_of(&scene.rig).state, ADVISOR_UNCERTAIN);
    }
    test_rig_close(&scene.rig); /* the outbox may be asking */
    test_answer.rc = KVT_OK;
    test_answer.kind = ADVISOR_ANSWER_QUERY;
    kvt_buffer_printf(&test_answer.bytes, "{\"Events\":{\"events\":[");
    put_event(&test_answer.bytes, 2, "12");
    kvt_buffer_printf(&test_answer.bytes, "],\"last_event_id\":2}}");
    test_answer.asked = 0;
    test_rig_open(&scene.rig, &scene.options);
    run_until_asked(&scene, 1);
    assert_int_equal(view_of(&scene.rig).state, ADVISOR_LIVE);
    assert_int_equal(view_of(&scene.rig).row.last_seq, 3);
    test_scene_restart(&scene);
    test_rig_run(&scene.rig);
    assert_int_equal(view_of(&scene.rig).state, ADVISOR_LIVE);
    test_scene_end(&scene);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(engine_that_began_anew),
        cmocka_unit_test(engine_that_may_have_begun_anew),
        cmocka_unit_test(engine_that_vouches),
        cmocka_unit_test(engine_that_does_not_vouch),
        cmocka_unit_test(dumps_that_failed_sweep_nothing),
        cmocka_unit_test(dumps_nobody_can_read),
        cmocka_unit_test(dumps_without_a_number),
        cmocka_unit_test(doubt_survives),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
