/*
 * What is tested: the kinds of sources over NATS, with an engine that is slower than the plane.
 * How: a real nats-server; a stream and a bus of another system, written to by the test.
 */
#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "wire/nats/bus.h"
#include "wire/nats/bus_state.h"

#include "tests/support/nats_server.h"
#include "tests/support/seed.h"
#include "tests/unit/advisor/support/rig.h"

enum {
    DEADLINE_MS = 60000,
    MESSAGES = 2400,
    PADDING = 30000, /* of a message: all of them together are twice what a source keeps */
    MESSAGE_MAX = PADDING + 512,
    WORKER = 5,
};

static const char stream_name[] = "namespace-n-component-c-kv-events";
static const char stream_subject[] = "namespace-n-component-c-kv-events.queue";
static const char core_subject[] = "namespace.n.component.c.kv-events";

struct scene {
    char folder[256];
    struct test_nats server;
    struct wire_bus *bus;
    struct advisor_source_options reads;
    struct test_rig_options options;
    struct test_rig rig;
    char message[MESSAGE_MAX];
};

static void
begin(struct scene *scene, const struct advisor_source_ops *ops)
{
    const struct wire_bus_options bus = {
        .url = scene->server.url, .name = "test", .connect_now = true};

    test_nats_start(&scene->server);
    assert_int_equal(wire_bus_open(&scene->bus, &bus, NULL), KVT_OK);
    scene->reads = advisor_source_unset;
    scene->reads.bus = scene->bus;
    scene->options = (struct test_rig_options){
        .mode = ADVISOR_MODE_OFF, .foreign = ops, .reads = &scene->reads, .give_up_after_ms = 100};
    scene->options.path = test_folder_make(scene->folder, sizeof(scene->folder));
}

static void
end(struct scene *scene)
{
    wire_bus_close(scene->bus);
    test_nats_stop(&scene->server);
    test_folder_remove(scene->folder);
}

static void
make_stream(const struct scene *scene)
{
    const char *subjects[] = {"namespace-n-component-c-kv-events.*"};
    jsStreamConfig config;
    jsErrCode code = 0;

    assert_int_equal(jsStreamConfig_Init(&config), NATS_OK);
    config.Name = stream_name;
    config.Subjects = subjects;
    config.SubjectsLen = 1;
    assert_int_equal(js_AddStream(NULL, scene->bus->js, &config, NULL, &code), NATS_OK);
}

/* Event `id` stores the block of that number; most of the message is what nobody reads. */
static size_t
write_event(struct scene *scene, uint64_t id, size_t padding)
{
    int size = snprintf(scene->message, MESSAGE_MAX,
                        "{\"worker_id\":%d,\"event\":{\"event_id\":%llu,\"data\":{\"stored\":{"
                        "\"parent_hash\":null,\"blocks\":[{\"block_hash\":%llu,\"tokens_hash\":0}]"
                        "}}},\"later\":\"",
                        WORKER, (unsigned long long)id, (unsigned long long)(id + 1000));

    assert_true(size > 0 && (size_t)size + padding + 3 <= MESSAGE_MAX);
    memset(scene->message + size, 'x', padding);
    memcpy(scene->message + size + padding, "\"}", 2);
    return (size_t)size + padding + 2;
}

static uint64_t
count_blocks(const struct test_rig *rig)
{
    struct index_stats stats;

    index_stats(rig->index, &stats);
    return stats.blocks;
}

static struct advisor_source_state
state_of(struct test_rig *rig)
{
    struct advisor_source_state state;

    advisor_source_state(rig->foreign, &state);
    return state;
}

/* Until nothing more comes to the source, or it takes nothing more. */
static struct advisor_source_state
wait_full(struct test_rig *rig)
{
    const uint64_t deadline_ms = kvt_clock_mono_ms() + DEADLINE_MS;
    struct advisor_source_state state = state_of(rig);

    for (uint64_t before = UINT64_MAX;
         before != state.waiting + state.dropped || state.waiting == 0;) {
        before = state.waiting + state.dropped;
        kvt_clock_sleep_ms(300);
        state = state_of(rig);
        assert_true(kvt_clock_mono_ms() < deadline_ms);
    }
    return state;
}

/* The engine stands still: memory is bounded, the stream keeps the rest, and nothing is lost, not
 * even over a restart in the middle. */
static void
stream_keeps_what_we_cannot_take(void **state)
{
    static struct scene scene;
    struct advisor_source_state full;
    uint64_t deadline_ms;

    (void)state;
    memset(&scene, 0, sizeof(scene));
    begin(&scene, &advisor_source_dynamo_jetstream);
    make_stream(&scene);
    scene.reads.stream = stream_name;
    scene.reads.subject = "namespace-n-component-c-kv-events.*";
    test_rig_open(&scene.rig, &scene.options);
    for (uint64_t id = 1; id <= MESSAGES; id++)
        assert_int_equal(wire_bus_publish_acked(scene.bus, stream_subject, NULL, scene.message,
                                                write_event(&scene, id, PADDING), 5000, NULL),
                         KVT_OK);
    full = wait_full(&scene.rig);
    assert_true(full.waiting <= ADVISOR_SOURCE_ITEMS_MAX);
    assert_true(full.bytes <= ADVISOR_SOURCE_BYTES_MAX + MESSAGE_MAX);
    assert_true(full.waiting < MESSAGES);
    assert_int_equal(full.dropped, 0);
    deadline_ms = kvt_clock_mono_ms() + DEADLINE_MS;
    while (count_blocks(&scene.rig) < MESSAGES / 2) {
        advisor_round_step(scene.rig.engine, 10);
        assert_true(kvt_clock_mono_ms() < deadline_ms);
    }
    test_rig_close(&scene.rig);
    test_rig_open(&scene.rig, &scene.options);
    while (count_blocks(&scene.rig) < MESSAGES) {
        advisor_round_step(scene.rig.engine, 10);
        assert_true(kvt_clock_mono_ms() < deadline_ms);
    }
    test_rig_run(&scene.rig);
    assert_int_equal(count_blocks(&scene.rig), MESSAGES);
    assert_int_equal(test_rig_value(scene.rig.counters.gaps), 0);
    assert_int_equal(test_rig_value(scene.rig.counters.duplicates), 0);
    assert_int_equal(test_rig_value(scene.rig.counters.uncertain), 0);
    assert_int_equal(test_rig_view(&scene.rig).committed_seq, MESSAGES);
    assert_int_equal(test_rig_view(&scene.rig).lag, 0);
    test_rig_close(&scene.rig);
    end(&scene);
}

/* A stream that was emptied: the worker is in doubt, and its next number shows the gap. */
static void
purged_stream_is_a_gap(void **state)
{
    static struct scene scene;
    const uint64_t deadline_ms = kvt_clock_mono_ms() + DEADLINE_MS;
    jsErrCode code = 0;

    (void)state;
    memset(&scene, 0, sizeof(scene));
    begin(&scene, &advisor_source_dynamo_jetstream);
    make_stream(&scene);
    scene.reads.stream = stream_name;
    scene.reads.subject = "namespace-n-component-c-kv-events.*";
    test_rig_open(&scene.rig, &scene.options);
    for (uint64_t id = 1; id <= 3; id++)
        assert_int_equal(wire_bus_publish_acked(scene.bus, stream_subject, NULL, scene.message,
                                                write_event(&scene, id, 0), 5000, NULL),
                         KVT_OK);
    while (count_blocks(&scene.rig) < 3) {
        advisor_round_step(scene.rig.engine, 10);
        assert_true(kvt_clock_mono_ms() < deadline_ms);
    }
    test_rig_close(&scene.rig);
    for (uint64_t id = 4; id <= 6; id++)
        assert_int_equal(wire_bus_publish_acked(scene.bus, stream_subject, NULL, scene.message,
                                                write_event(&scene, id, 0), 5000, NULL),
                         KVT_OK);
    assert_int_equal(js_PurgeStream(scene.bus->js, stream_name, NULL, &code), NATS_OK);
    assert_int_equal(wire_bus_publish_acked(scene.bus, stream_subject, NULL, scene.message,
                                            write_event(&scene, 7, 0), 5000, NULL),
                     KVT_OK);
    test_rig_open(&scene.rig, &scene.options);
    while (count_blocks(&scene.rig) < 4) { /* given up, since nobody can be asked */
        advisor_round_step(scene.rig.engine, 10);
        assert_true(kvt_clock_mono_ms() < deadline_ms);
    }
    test_rig_run(&scene.rig);
    assert_int_equal(test_rig_value(scene.rig.counters.uncertain), 1);
    assert_true(test_rig_value(scene.rig.counters.gaps) >= 1);
    test_rig_close(&scene.rig);
    end(&scene);
}

/* A bus keeps nothing: what there was no room for is dropped, counted and missed. */
static void
bus_drops_are_gaps(void **state)
{
    static struct scene scene;
    const uint64_t deadline_ms = kvt_clock_mono_ms() + DEADLINE_MS;
    struct advisor_source_state full;
    uint64_t id = 1;

    (void)state;
    memset(&scene, 0, sizeof(scene));
    begin(&scene, &advisor_source_dynamo_nats);
    test_rig_open(&scene.rig, &scene.options);
    do {
        for (uint64_t last = id + 500; id < last; id++)
            while (wire_bus_publish(scene.bus, core_subject, scene.message,
                                    write_event(&scene, id, 1000)) != KVT_OK)
                kvt_clock_sleep_ms(1);
        kvt_clock_sleep_ms(50);
        full = state_of(&scene.rig);
        assert_true(kvt_clock_mono_ms() < deadline_ms);
    } while (full.dropped == 0);
    /* What is still on its way must not find room behind what was dropped: that would be known. */
    assert_int_equal(natsConnection_Flush(scene.bus->nc), NATS_OK);
    full = wait_full(&scene.rig);
    assert_true(full.waiting <= ADVISOR_SOURCE_ITEMS_MAX);
    test_rig_run(&scene.rig);
    assert_int_equal(test_rig_value(scene.rig.counters.uncertain), 0); /* not known yet */
    while (test_rig_value(scene.rig.counters.uncertain) == 0) {
        while (wire_bus_publish(scene.bus, core_subject, scene.message,
                                write_event(&scene, id, 0)) != KVT_OK)
            kvt_clock_sleep_ms(1);
        id++;
        kvt_clock_sleep_ms(20);
        test_rig_run(&scene.rig);
        assert_true(kvt_clock_mono_ms() < deadline_ms);
    }
    assert_int_equal(test_rig_view(&scene.rig).dropped, state_of(&scene.rig).dropped);
    assert_true(test_rig_view(&scene.rig).counts.gaps >= 1);
    test_rig_close(&scene.rig);
    end(&scene);
}

/* A stream that is not there yet is waited for, not made. */
static void
missing_stream_is_waited_for(void **state)
{
    static struct scene scene;
    const uint64_t deadline_ms = kvt_clock_mono_ms() + DEADLINE_MS;

    (void)state;
    memset(&scene, 0, sizeof(scene));
    begin(&scene, &advisor_source_dynamo_jetstream);
    scene.reads.stream = stream_name;
    scene.reads.subject = "namespace-n-component-c-kv-events.*";
    test_rig_open(&scene.rig, &scene.options);
    while (strcmp(state_of(&scene.rig).detail, "the stream is not there") != 0) {
        kvt_clock_sleep_ms(10);
        assert_true(kvt_clock_mono_ms() < deadline_ms);
    }
    test_rig_run(&scene.rig);
    assert_int_equal(test_rig_view(&scene.rig).status, ADVISOR_SOURCE_WAITING);
    assert_true(advisor_round_caught_up(scene.rig.engine)); /* others go on */
    make_stream(&scene);
    assert_int_equal(wire_bus_publish_acked(scene.bus, stream_subject, NULL, scene.message,
                                            write_event(&scene, 1, 0), 5000, NULL),
                     KVT_OK);
    while (count_blocks(&scene.rig) < 1) {
        advisor_round_step(scene.rig.engine, 10);
        assert_true(kvt_clock_mono_ms() < deadline_ms);
    }
    test_rig_close(&scene.rig);
    end(&scene);
}

/* What KVBM says has no numbers: nothing but the connection tells that some of it was lost. */
static void
unnumbered_events_are_doubted_after_a_reconnect(void **state)
{
    /* [{"Create": [1]}, instance 7]: a block at position 0 */
    static const uint8_t created[] = "\x92\x81\xa6"
                                     "Create\x91\x01\x07";
    static struct scene scene;
    const uint64_t deadline_ms = kvt_clock_mono_ms() + DEADLINE_MS;

    (void)state;
    memset(&scene, 0, sizeof(scene));
    begin(&scene, &advisor_source_kvbm_nats);
    test_rig_open(&scene.rig, &scene.options);
    assert_int_equal(wire_bus_publish(scene.bus, "kvbm.events", created, sizeof(created) - 1),
                     KVT_OK);
    while (count_blocks(&scene.rig) < 1) {
        advisor_round_step(scene.rig.engine, 10);
        assert_true(kvt_clock_mono_ms() < deadline_ms);
    }
    test_rig_run(&scene.rig);
    kvt_clock_sleep_ms(300); /* a watch that cries wolf would be heard */
    test_rig_run(&scene.rig);
    assert_int_equal(test_rig_value(scene.rig.counters.uncertain), 0);
    test_nats_kill(&scene.server);
    test_nats_restart(&scene.server);
    while (test_rig_value(scene.rig.counters.uncertain) == 0) {
        advisor_round_step(scene.rig.engine, 10);
        assert_true(kvt_clock_mono_ms() < deadline_ms);
    }
    assert_int_equal(count_blocks(&scene.rig), 1);
    test_rig_close(&scene.rig);
    end(&scene);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stream_keeps_what_we_cannot_take),
        cmocka_unit_test(purged_stream_is_a_gap),
        cmocka_unit_test(bus_drops_are_gaps),
        cmocka_unit_test(missing_stream_is_waited_for),
        cmocka_unit_test(unnumbered_events_are_doubted_after_a_reconnect),
    };

    test_nats_require();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
