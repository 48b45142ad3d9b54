/*
 * What is tested: what the engine says of publishers whose events it may have missed: after a
 * restart of either side, behind answers that are not whole, and after the program was killed.
 * How: hand-made messages, a source that answers as the test says, and stores opened again.
 */
#include <endian.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"

#include "tests/support/seed.h"
#include "tests/unit/advisor/rig.h"
#include "tests/unit/advisor/router.h"

enum { MESSAGE_MAX = 1u << 20, DEADLINE_MS = 10000, GIVE_UP_MS = 60000, AFTER_MS = 100 };

/* What the source answers; one test runs at a time. */
struct answer {
    enum kvt_err rc;
    enum advisor_answer_kind kind;
    struct kvt_buffer bytes;
    _Atomic int asked;
    uint64_t from;
};

static struct answer answer;

static enum kvt_err
ask(struct advisor_source *source, const struct advisor_ask *question,
    enum advisor_answer_kind *kind, struct kvt_buffer *out, struct kvt_error *err)
{
    (void)source;
    answer.from = question->from;
    *kind = answer.kind;
    kvt_buffer_append(out, answer.bytes.data, answer.bytes.size);
    answer.asked++;
    return answer.rc == KVT_OK ? KVT_OK : kvt_error_set(err, answer.rc, "as the test says");
}

static const struct advisor_source_ops dynamo = {.name = "dynamo-test",
                                                 .dialect = WIRE_DIALECT_DYNAMO,
                                                 .open = test_rig_source_open,
                                                 .close = test_rig_source_close,
                                                 .ask = ask};
static const struct advisor_source_ops engine = {.name = "engine-test",
                                                 .dialect = WIRE_DIALECT_ENGINE,
                                                 .open = test_rig_source_open,
                                                 .close = test_rig_source_close,
                                                 .ask = ask};

struct scene {
    char folder[256];
    struct test_rig_options options;
    struct test_rig rig;
    struct kvt_buffer bytes;
};

static void
begin(struct scene *scene, const struct advisor_source_ops *ops, bool kept)
{
    memset(scene, 0, sizeof(*scene));
    kvt_buffer_init(&scene->bytes, MESSAGE_MAX);
    kvt_buffer_init(&answer.bytes, MESSAGE_MAX);
    answer.rc = KVT_UNSUPPORTED;
    answer.asked = 0;
    scene->options = (struct test_rig_options){
        .mode = ADVISOR_MODE_OFF, .foreign = ops, .kept = kept, .give_up_after_ms = GIVE_UP_MS};
    scene->options.path = test_folder_make(scene->folder, sizeof(scene->folder));
    test_rig_open(&scene->rig, &scene->options);
}

static void
restart(struct scene *scene)
{
    test_rig_close(&scene->rig);
    test_rig_open(&scene->rig, &scene->options);
}

static void
end(struct scene *scene)
{
    test_rig_close(&scene->rig);
    kvt_buffer_release(&scene->bytes);
    kvt_buffer_release(&answer.bytes);
    test_folder_remove(scene->folder);
}

static struct advisor_publisher_view
view_of(struct test_rig *rig)
{
    struct advisor_publisher_view view = {.state = ADVISOR_GONE};
    struct advisor_publisher_view *views;

    assert_int_equal(advisor_publishers_views(advisor_engine_publishers(rig->engine), &views), 1);
    view = views[0];
    kvt_free(views);
    return view;
}

static void
run_until_asked(struct scene *scene, int times)
{
    const uint64_t deadline_ms = kvt_clock_mono_ms() + DEADLINE_MS;

    while (answer.asked < times) {
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
    struct advisor_find_block block;

    if (advisor_find_block(&rig->finder, "ns0", test_router_name(chain, depth), &block) != KVT_OK)
        return 0;
    return block.place_count;
}

/* ---- engines that begin anew while nobody listens ---- */

static const struct test_router_blocks former = {.chain = 1, .depth = 0, .count = 6};
static const struct test_router_blocks latter = {.chain = 2, .depth = 0, .count = 6};

static void
say(struct scene *scene, uint64_t sequence, const struct test_router_blocks *blocks)
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

    kvt_buffer_init(&message, MESSAGE_MAX);
    test_router_engine(&message, 1, blocks);
    head[0] = htole64(sequence);
    head[1] = htole64(message.size);
    kvt_buffer_append(&answer.bytes, head, sizeof(head));
    kvt_buffer_append(&answer.bytes, message.data, message.size);
    kvt_buffer_release(&message);
}

static void
speak_and_restart(struct scene *scene)
{
    begin(scene, &engine, false);
    say(scene, 0, &former);
    say(scene, 1, &former);
    assert_int_equal(view_of(&scene->rig).state, ADVISOR_LIVE);
    restart(scene);
    test_rig_run(&scene->rig);
    assert_int_equal(view_of(&scene->rig).state, ADVISOR_UNCERTAIN);
}

/* Its numbers go back: what the former life held is void, and its first message is no duplicate. */
static void
engine_that_began_anew(void **state)
{
    struct scene scene;

    (void)state;
    speak_and_restart(&scene);
    say(&scene, 0, &latter);
    assert_int_equal(view_of(&scene.rig).state, ADVISOR_LIVE);
    assert_int_equal(count_places(&scene.rig, 2, 5), 1);
    assert_int_equal(count_places(&scene.rig, 1, 5), 0);
    assert_int_equal(test_rig_view(&scene.rig).counts.duplicates, 0);
    end(&scene);
}

/* They fit by chance, and nobody can be asked: never certain again without a word. */
static void
engine_that_may_have_begun_anew(void **state)
{
    struct scene scene;

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
    end(&scene);
}

/* Its ring knows the last message that was heard: the same life goes on. */
static void
engine_that_vouches(void **state)
{
    struct scene scene;

    (void)state;
    speak_and_restart(&scene);
    test_rig_close(&scene.rig);
    answer.rc = KVT_OK;
    answer.kind = ADVISOR_ANSWER_MESSAGES;
    put_message(1, &former);
    put_message(2, &latter);
    answer.asked = 0;
    test_rig_open(&scene.rig, &scene.options);
    run_until_asked(&scene, 1);
    assert_int_equal(answer.from, 1);
    assert_int_equal(view_of(&scene.rig).state, ADVISOR_LIVE);
    assert_int_equal(count_places(&scene.rig, 1, 5), 1);
    assert_int_equal(count_places(&scene.rig, 2, 5), 1);
    end(&scene);
}

/* Its ring has another one under that number: another life, which is asked for from its start. */
static void
engine_that_does_not_vouch(void **state)
{
    struct scene scene;

    (void)state;
    speak_and_restart(&scene);
    test_rig_close(&scene.rig);
    answer.rc = KVT_OK;
    answer.kind = ADVISOR_ANSWER_MESSAGES;
    put_message(1, &latter);
    put_message(2, &latter);
    answer.asked = 0;
    test_rig_open(&scene.rig, &scene.options);
    run_until_asked(&scene, 2);
    assert_int_equal(answer.from, 0);
    assert_int_equal(count_places(&scene.rig, 1, 5), 0);
    /* Its ring begins behind its first message. */
    assert_int_equal(view_of(&scene.rig).state, ADVISOR_UNCERTAIN);
    assert_int_equal(view_of(&scene.rig).foreign.lost, 1);
    end(&scene);
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
event(struct scene *scene, uint64_t stream_seq, uint32_t id)
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
    struct scene scene;

    begin(&scene, &dynamo, false);
    event(&scene, 0, 1);
    event(&scene, 0, 2);
    assert_int_equal(test_rig_value(scene.rig.counters.blocks), 2);
    answer.rc = KVT_OK;
    answer.kind = ADVISOR_ANSWER_DUMP;
    kvt_buffer_printf(&answer.bytes, "%s", text);
    event(&scene, 0, 5);
    run_until_asked(&scene, 1);
    assert_int_equal(view_of(&scene.rig).state, ADVISOR_UNCERTAIN);
    assert_int_equal(test_rig_value(scene.rig.counters.blocks), 2);
    end(&scene);
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
    struct scene scene;

    (void)state;
    begin(&scene, &dynamo, false);
    event(&scene, 0, 1);
    answer.rc = KVT_OK;
    answer.kind = ADVISOR_ANSWER_QUERY;
    kvt_buffer_printf(&answer.bytes, "{\"TreeDump\":{\"events\":[");
    put_event(&answer.bytes, 0, "77");
    kvt_buffer_printf(&answer.bytes, ",");
    put_event(&answer.bytes, 0, "\"x\"");
    kvt_buffer_printf(&answer.bytes, "],\"last_event_id\":4}}");
    event(&scene, 0, 4);
    run_until_asked(&scene, 1);
    assert_int_equal(view_of(&scene.rig).state, ADVISOR_UNCERTAIN);
    assert_string_equal(view_of(&scene.rig).foreign.reason,
                        "an event of what it holds cannot be read");
    assert_int_equal(view_of(&scene.rig).row.last_seq, 5);
    assert_int_equal(test_rig_value(scene.rig.counters.blocks), 1);
    end(&scene);
}

/* As 1.0.2 answers: what comes behind it goes on, wherever its numbers are. */
static void
dumps_without_a_number(void **state)
{
    struct scene scene;

    (void)state;
    begin(&scene, &dynamo, false);
    event(&scene, 0, 1);
    answer.rc = KVT_OK;
    answer.kind = ADVISOR_ANSWER_QUERY;
    kvt_buffer_printf(&answer.bytes, "{\"TreeDump\":[");
    put_event(&answer.bytes, 0, "77");
    kvt_buffer_printf(&answer.bytes, "]}");
    event(&scene, 0, 4);
    run_until_asked(&scene, 1);
    event(&scene, 0, 5);
    event(&scene, 0, 6);
    test_rig_run(&scene.rig);
    assert_int_equal(view_of(&scene.rig).state, ADVISOR_LIVE);
    assert_int_equal(view_of(&scene.rig).row.last_seq, 7);
    assert_int_equal(test_rig_value(scene.rig.counters.blocks), 4);
    assert_int_equal(answer.asked, 1);
    end(&scene);
}

/* ---- killed while in doubt ---- */

/* The stream lost messages, and nobody answered before the program ended: it is asked again. */
static void
doubt_survives(void **state)
{
    struct advisor_item *item;
    struct scene scene;

    (void)state;
    begin(&scene, &dynamo, true);
    answer.rc = KVT_TIMEOUT;
    event(&scene, 1, 1);
    assert_int_equal(view_of(&scene.rig).state, ADVISOR_LIVE);
    assert_int_equal(advisor_item_new(&item, ADVISOR_ITEM_GAP, "s", NULL, 0), KVT_OK);
    item->stream_seq = 50;
    test_rig_foreign_item(&scene.rig, item);
    run_until_asked(&scene, 1);
    for (int i = 0; i < 2; i++) {
        restart(&scene);
        test_rig_run(&scene.rig);
        assert_int_equal(test_rig_view(&scene.rig).committed_seq, 50);
        assert_int_equal(view_of(&scene.rig).state, ADVISOR_UNCERTAIN);
    }
    answer.rc = KVT_OK;
    answer.kind = ADVISOR_ANSWER_QUERY;
    kvt_buffer_printf(&answer.bytes, "{\"Events\":{\"events\":[");
    put_event(&answer.bytes, 2, "12");
    kvt_buffer_printf(&answer.bytes, "],\"last_event_id\":2}}");
    answer.asked = 0;
    restart(&scene);
    run_until_asked(&scene, 1);
    assert_int_equal(view_of(&scene.rig).state, ADVISOR_LIVE);
    assert_int_equal(view_of(&scene.rig).row.last_seq, 3);
    restart(&scene);
    test_rig_run(&scene.rig);
    assert_int_equal(view_of(&scene.rig).state, ADVISOR_LIVE);
    end(&scene);
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
