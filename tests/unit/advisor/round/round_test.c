/*
 * What is tested: advisor/round/round.h with the store, the RAM index and the sweeper behind it.
 * How: a random history against a model, with the process killed in the middle of it; a full map;
 * messages that make no sense.
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/core/random.h"

#include "tests/support/seed.h"
#include "tests/unit/advisor/support/history_model.h"
#include "tests/unit/advisor/support/rig.h"

enum { BATCHES = 600, KILLS = 25, KILLS_MAX = 200, MOVED_MIN = 6, KILL_BATCHES = 120 };

struct scene {
    char folder[256];
    struct test_rig rig;
    struct test_model model;
};

static void
begin(struct scene *scene, const struct test_rig_options *wanted)
{
    struct test_rig_options options = *wanted;

    options.path = test_folder_make(scene->folder, sizeof(scene->folder));
    test_rig_open(&scene->rig, &options);
    test_model_init(&scene->model, test_seed());
}

static void
end(struct scene *scene)
{
    test_rig_close(&scene->rig);
    test_folder_remove(scene->folder);
}

/* Both copies must be right: RAM, and what a restart would read. */
static void
assert_same(const struct test_model *model, const struct test_rig *rig)
{
    struct test_rig_copy copy;

    assert_true(advisor_ram_index_whole(rig->finder.memory));
    assert_true(test_model_same(model, &rig->finder));
    test_rig_copy(rig, &copy);
    assert_true(test_model_same(model, &copy.finder));
    test_rig_copy_free(&copy);
}

/* RAM and the store must answer a prefix alike, and rightly. */
static void
assert_same_matches(struct test_model *model, const struct test_rig *rig)
{
    const struct advisor_finder from_store = {.store = rig->store};
    const uint32_t first = 15 * (uint32_t)kvt_random_below(&model->random, 20);
    struct wire_query_holder ram[16];
    struct wire_query_holder disk[16];
    uint64_t hashes[15];
    const struct wire_query query = {.namespace_ = "ns0", .hashes = hashes, .hash_count = 15};
    size_t ram_count;
    size_t disk_count;

    for (uint32_t i = 0; i < 15; i++)
        hashes[i] = test_model_hash(model, first + i);
    assert_int_equal(advisor_finder_matches(&rig->finder, &query, ram, 16, &ram_count), KVT_OK);
    assert_int_equal(advisor_finder_matches(&from_store, &query, disk, 16, &disk_count), KVT_OK);
    assert_int_equal(ram_count, disk_count);
    for (size_t i = 0; i < ram_count; i++) {
        const uint32_t location = ram[i].tier == KVT_TIER_G3 ? 1 : 0;
        const uint32_t p = (uint32_t)(ram[i].name[1] - '0');
        bool found = false;

        for (size_t j = 0; j < disk_count; j++)
            found = found || (strcmp(disk[j].name, ram[i].name) == 0 &&
                              disk[j].tier == ram[i].tier && disk[j].blocks == ram[i].blocks);
        assert_true(found);
        assert_true(i == 0 || ram[i].blocks <= ram[i - 1].blocks);
        for (uint32_t block = 0; block < ram[i].blocks; block++)
            assert_true(model->held[p][location][first + block] != 0);
        assert_true(ram[i].blocks == 15 || model->held[p][location][first + ram[i].blocks] == 0);
    }
}

static void
random_against_model(void **state)
{
    const struct test_rig_options options = {.mode = ADVISOR_MODE_OFF};
    struct scene *scene = kvt_calloc(1, sizeof(*scene));

    (void)state;
    assert_non_null(scene);
    begin(scene, &options);
    for (uint64_t i = 1; i <= BATCHES; i++) {
        test_model_next(&scene->model);
        test_rig_batch(&scene->rig, i, &scene->model.batch);
        if (kvt_random_below(&scene->model.random, 4) == 0)
            test_rig_batch(&scene->rig, i, &scene->model.batch); /* a repeat is nothing new */
        if (kvt_random_below(&scene->model.random, 10) == 0) {
            test_rig_run(&scene->rig);
            assert_same(&scene->model, &scene->rig);
            assert_same_matches(&scene->model, &scene->rig);
        }
    }
    test_rig_run(&scene->rig);
    assert_same(&scene->model, &scene->rig);
    assert_true(test_rig_value(scene->rig.counters.duplicates) > 100);
    assert_int_equal(test_rig_value(scene->rig.counters.gaps), 0);
    end(scene);
    kvt_free(scene);
}

/* ---- kill -9 ---- */

/* Give the history from `from` on to an engine, endlessly slow or fast, until it is killed. */
static void
apply_until_killed(const char *path, uint64_t seed, uint64_t limit)
{
    const struct test_rig_options options = {.path = path, .mode = ADVISOR_MODE_OFF};
    struct test_model *model = kvt_calloc(1, sizeof(*model));
    struct advisor_position events;
    struct advisor_position reports;
    struct test_rig rig;

    test_rig_open(&rig, &options);
    advisor_round_positions(rig.engine, &events, &reports);
    test_model_init(model, seed);
    for (uint64_t i = 1; i <= limit; i++) {
        test_model_next(model);
        if (i <= events.seq)
            continue; /* committed: the stream goes on behind it */
        test_rig_batch(&rig, i, &model->batch);
        if (i % 5 == 0)
            advisor_round_step(rig.engine, 0);
    }
    for (;;)
        advisor_round_step(rig.engine, 1);
}

/* What was committed is the model's state after exactly that many batches. */
static uint64_t
assert_model_at_committed(const char *path, uint64_t seed)
{
    const struct test_rig_options options = {.path = path, .mode = ADVISOR_MODE_OFF};
    struct test_model *model = kvt_calloc(1, sizeof(*model));
    struct advisor_position events;
    struct advisor_position reports;
    struct test_rig rig;

    assert_non_null(model);
    test_rig_open(&rig, &options);
    advisor_round_positions(rig.engine, &events, &reports);
    test_model_init(model, seed);
    while (model->step < events.seq)
        test_model_next(model);
    test_rig_run(&rig); /* sweeps that were under way go on */
    assert_same(model, &rig);
    test_rig_close(&rig);
    kvt_free(model);
    return events.seq;
}

static void
killed_at_random_points(void **state)
{
    const uint64_t seed = test_seed();
    uint64_t random = seed;
    uint64_t committed = 0;
    uint64_t moved = 0;
    uint64_t within_ms = 60; /* longer where it takes longer to get anywhere */
    char folder[256];

    (void)state;
    (void)test_folder_make(folder, sizeof(folder));
    for (int round = 0; round < KILLS || (moved < MOVED_MIN && round < KILLS_MAX); round++) {
        const pid_t child = fork();
        uint64_t now;

        assert_true(child >= 0);
        if (child == 0)
            apply_until_killed(folder, seed, committed + KILL_BATCHES);
        kvt_clock_sleep_ms(kvt_random_below(&random, within_ms));
        assert_int_equal(kill(child, SIGKILL), 0);
        assert_int_equal(waitpid(child, NULL, 0), child);
        now = assert_model_at_committed(folder, seed);
        assert_true(now >= committed);
        moved += now > committed ? 1 : 0;
        within_ms += now > committed ? 0 : 20;
        committed = now;
    }
    assert_true(moved >= MOVED_MIN); /* else the kills always came too early to say anything */
    test_folder_remove(folder);
}

/* ---- a full map ---- */

static struct kvt_event_batch
big_batch(struct kvt_event *events, uint64_t first_seq)
{
    struct kvt_event_batch batch = {.incarnation = 1,
                                    .first_seq = first_seq,
                                    .time_ms = 5,
                                    .worker = "w",
                                    .location_count = 1,
                                    .locations = {{.tier = KVT_TIER_G2, .name = "host"}},
                                    .events = events,
                                    .event_count = 1000};

    for (uint64_t i = 0; i < 1000; i++)
        events[i] = (struct kvt_event){
            .type = KVT_EVENT_STORE, .sequence_hash = first_seq + i, .block_size = 1, .ranks = 1};
    return batch;
}

static uint64_t
count_blocks(const struct advisor_finder *finder, uint64_t upto)
{
    uint64_t hashes[500]; /* of a question: the store's log is read once for each */
    uint8_t masks[500];
    uint64_t found = 0;

    for (uint64_t hash = 1; hash <= upto;) {
        size_t count = 0;

        while (count < 500 && hash <= upto)
            hashes[count++] = hash++;
        assert_int_equal(advisor_finder_masks(finder, "", hashes, count, masks), KVT_OK);
        for (size_t i = 0; i < count; i++)
            found += masks[i] != 0 ? 1 : 0;
    }
    return found;
}

static void
full_map_loses_nothing(void **state)
{
    struct test_rig_options options = {.mode = ADVISOR_MODE_OFF, .map_bytes = 1u << 20};
    struct kvt_event *events = kvt_calloc(1000, sizeof(*events));
    struct advisor_position reports;
    struct advisor_position at;
    char text[KVT_ERROR_TEXT_MAX];
    uint64_t sent = 0;
    struct scene scene;

    (void)state;
    assert_non_null(events);
    begin(&scene, &options);
    while (!advisor_round_blocked(scene.rig.engine, text)) {
        const struct kvt_event_batch batch = big_batch(events, sent * 1000 + 1);

        assert_true(sent < 100);
        test_rig_batch(&scene.rig, ++sent, &batch);
        advisor_round_step(scene.rig.engine, 0);
    }
    assert_true(sent > 2);
    assert_non_null(strstr(text, "capacity limit reached"));
    /* It says so, takes nothing more, answers what it had, and does not crash. */
    {
        const struct kvt_event_batch batch = big_batch(events, sent * 1000 + 1);

        test_rig_batch(&scene.rig, sent + 1, &batch);
    }
    for (int i = 0; i < 3; i++)
        advisor_round_step(scene.rig.engine, 0);
    assert_int_equal(count_blocks(&scene.rig.finder, (sent + 1) * 1000), (sent - 1) * 1000);
    assert_int_equal(test_rig_value(scene.rig.counters.events_seq), sent - 1);

    /* With more room the same messages are read again, and all is there. */
    test_rig_close(&scene.rig);
    options.path = scene.folder;
    options.map_bytes = 64u << 20;
    test_rig_open(&scene.rig, &options);
    advisor_round_positions(scene.rig.engine, &at, &reports);
    assert_int_equal(at.seq, sent - 1);
    for (uint64_t seq = at.seq + 1; seq <= sent + 1; seq++) {
        const struct kvt_event_batch batch = big_batch(events, (seq - 1) * 1000 + 1);

        test_rig_batch(&scene.rig, seq, &batch);
    }
    test_rig_run(&scene.rig);
    assert_false(advisor_round_blocked(scene.rig.engine, text));
    assert_int_equal(count_blocks(&scene.rig.finder, (sent + 1) * 1000), (sent + 1) * 1000);
    kvt_free(events);
    end(&scene);
}

/* What does not fit into RAM is answered from the store. */
static void
small_memory_answers_from_the_store(void **state)
{
    const struct test_rig_options options = {.mode = ADVISOR_MODE_OFF, .index_bytes = 600u << 10};
    struct kvt_event *events = kvt_calloc(1000, sizeof(*events));
    struct scene scene;

    (void)state;
    assert_non_null(events);
    begin(&scene, &options);
    for (uint64_t i = 0; i < 20; i++) {
        const struct kvt_event_batch batch = big_batch(events, i * 1000 + 1);

        test_rig_batch(&scene.rig, i + 1, &batch);
        test_rig_run(&scene.rig);
    }
    assert_false(advisor_ram_index_whole(scene.rig.finder.memory));
    assert_int_equal(count_blocks(&scene.rig.finder, 21000), 20000);
    kvt_free(events);
    end(&scene);
}

/* ---- what makes no sense ---- */

static void
nonsense_is_counted_and_skipped(void **state)
{
    const struct test_rig_options options = {.mode = ADVISOR_MODE_OFF};
    struct scene *scene = kvt_calloc(1, sizeof(*scene));
    struct kvt_event_batch batch;
    uint8_t junk[64];

    (void)state;
    assert_non_null(scene);
    begin(scene, &options);
    for (uint64_t i = 1; i <= 50; i++) {
        const size_t size = kvt_random_below(&scene->model.random, sizeof(junk));

        for (size_t at = 0; at < size; at++)
            junk[at] = (uint8_t)kvt_random_next(&scene->model.random);
        if (size > 0)
            junk[0] = 0x01; /* no array: certainly nothing of ours */
        test_rig_bytes(&scene->rig, 2 * i, junk, size);
        test_model_next(&scene->model);
        test_rig_batch(&scene->rig, 2 * i + 1, &scene->model.batch);
        test_rig_run(&scene->rig);
    }
    assert_int_equal(test_rig_value(scene->rig.counters.malformed), 50);
    assert_same(&scene->model, &scene->rig);
    /* A batch that speaks for nobody. */
    batch = scene->model.batch;
    batch.worker[0] = '\0';
    test_rig_batch(&scene->rig, 200, &batch);
    batch = scene->model.batch;
    batch.incarnation = 0;
    test_rig_batch(&scene->rig, 201, &batch);
    batch = scene->model.batch;
    batch.first_seq = 0;
    test_rig_batch(&scene->rig, 202, &batch);
    test_rig_run(&scene->rig);
    assert_int_equal(test_rig_value(scene->rig.counters.malformed), 53);
    assert_same(&scene->model, &scene->rig);
    end(scene);
    kvt_free(scene);
}

/* What is held back behind a gap is not yet applied: after a restart it is read again. */
static void
held_messages_hold_the_sequence_back(void **state)
{
    struct test_rig_options options = {.mode = ADVISOR_MODE_OFF};
    struct kvt_event *events = kvt_calloc(1000, sizeof(*events));
    struct kvt_event_batch batch;
    struct advisor_position reports;
    struct advisor_position at;
    struct scene scene;

    (void)state;
    assert_non_null(events);
    begin(&scene, &options);
    batch = big_batch(events, 1);
    test_rig_batch(&scene.rig, 1, &batch);
    batch = big_batch(events, 2001);
    test_rig_batch(&scene.rig, 2, &batch); /* 1001..2000 are missing */
    batch = big_batch(events, 1);
    batch.worker[0] = 'v'; /* another goes on */
    test_rig_batch(&scene.rig, 3, &batch);
    test_rig_run(&scene.rig);
    assert_int_equal(test_rig_value(scene.rig.counters.gaps), 1);
    assert_int_equal(test_rig_value(scene.rig.counters.uncertain), 1);
    assert_int_equal(test_rig_value(scene.rig.counters.applied), 2000);
    test_rig_close(&scene.rig);
    options.path = scene.folder;
    test_rig_open(&scene.rig, &options);
    advisor_round_positions(scene.rig.engine, &at, &reports);
    assert_int_equal(at.seq, 1);
    kvt_free(events);
    end(&scene);
}

/* The same hash with another parent is refused and counted, in both copies. */
static void
collisions_are_refused(void **state)
{
    const struct test_rig_options options = {.mode = ADVISOR_MODE_OFF};
    struct kvt_event event = {.type = KVT_EVENT_STORE,
                              .sequence_hash = 77,
                              .parent = 5,
                              .position = 3,
                              .block_size = 9,
                              .ranks = 1};
    struct kvt_event_batch batch = {.incarnation = 1,
                                    .first_seq = 1,
                                    .worker = "w",
                                    .location_count = 1,
                                    .locations = {{.tier = KVT_TIER_G2, .name = "host"}},
                                    .events = &event,
                                    .event_count = 1};
    struct advisor_finder_block *block = kvt_calloc(1, sizeof(*block));
    struct index_stats stats;
    struct scene scene;

    (void)state;
    assert_non_null(block);
    begin(&scene, &options);
    test_rig_batch(&scene.rig, 1, &batch);
    event.parent = 6;
    batch.first_seq = 2;
    test_rig_batch(&scene.rig, 2, &batch);
    event.parent = 0; /* not said: collides with nothing */
    batch.first_seq = 3;
    batch.locations[0].tier = KVT_TIER_G3;
    test_rig_batch(&scene.rig, 3, &batch);
    test_rig_run(&scene.rig);
    assert_int_equal(test_rig_value(scene.rig.counters.collisions), 1);
    assert_int_equal(advisor_finder_block(&scene.rig.finder, "", 77, block), KVT_OK);
    assert_int_equal(block->id.parent, 5);
    assert_int_equal(block->place_count, 2);
    index_stats(scene.rig.index, &stats);
    assert_int_equal(stats.places, 2);
    kvt_free(block);
    end(&scene);
}

/* ---- reading the index ---- */

/* Asked to stop before it is read, the engine says so and does nothing; the next start reads it. */
static void
a_start_can_be_cancelled(void **state)
{
    struct test_rig_options options = {.mode = ADVISOR_MODE_OFF};
    struct advisor_store_options again = {.map_bytes = 64u << 20};
    struct advisor_counters counters;
    struct advisor_round_options made = {.counters = &counters};
    struct advisor_round *engine;
    struct kvt_metrics *metrics;
    struct index_stats stats;
    struct kvt_error err;
    struct scene scene;

    (void)state;
    begin(&scene, &options);
    test_model_next(&scene.model);
    test_rig_batch(&scene.rig, 1, &scene.model.batch);
    test_rig_run(&scene.rig);
    test_rig_close(&scene.rig);

    again.path = scene.folder;
    assert_int_equal(kvt_metrics_new(&metrics), KVT_OK);
    advisor_counters_register(&counters, metrics);
    assert_int_equal(advisor_store_open(&made.store, &again, NULL), KVT_OK);
    assert_int_equal(index_new(&made.index, 8u << 20), KVT_OK);
    assert_int_equal(advisor_round_new(&engine, &made, NULL), KVT_OK);
    assert_int_equal(advisor_round_failed(engine, &err), KVT_OK);
    assert_false(advisor_ram_index_whole(advisor_round_memory(engine)));
    advisor_round_cancel(engine);
    for (int i = 0; i < 2; i++) {
        advisor_round_step(engine, 0);
        assert_int_equal(advisor_round_failed(engine, &err), KVT_CANCELLED);
    }
    assert_false(advisor_ram_index_whole(advisor_round_memory(engine)));
    index_stats(made.index, &stats);
    assert_int_equal(stats.blocks, 0);
    advisor_round_free(engine);
    index_free(made.index);
    advisor_store_close(made.store);
    kvt_metrics_free(metrics);

    options.path = scene.folder;
    test_rig_open(&scene.rig, &options);
    assert_same(&scene.model, &scene.rig);
    end(&scene);
}

/* ---- numbers of holders ---- */

enum { HOLDERS = 8, RESTARTS = 40 };

/* One event of `worker` in G2, of the block `hash`. */
static void
say(struct test_rig *rig, const char *worker, uint64_t seq, enum kvt_event_type type, uint64_t hash)
{
    struct kvt_event event = {
        .type = (uint8_t)type, .sequence_hash = hash, .block_size = 9, .ranks = 1};
    struct kvt_event_batch batch = {.incarnation = 1,
                                    .first_seq = seq,
                                    .location_count = 1,
                                    .locations = {{.tier = KVT_TIER_G2, .name = "host"}},
                                    .events = &event,
                                    .event_count = 1};

    (void)snprintf(batch.worker, sizeof(batch.worker), "%s", worker);
    test_rig_batch(rig, 0, &batch);
    test_rig_run(rig);
}

/* In both copies `hash` is held by `worker` alone; by nobody for NULL. */
static void
assert_holder(const struct test_rig *rig, uint64_t hash, const char *worker)
{
    const struct wire_query query = {.hashes = &hash, .hash_count = 1};
    struct advisor_finder_block *block = kvt_calloc(1, sizeof(*block));
    struct wire_query_holder holders[4];
    size_t count;

    assert_non_null(block);
    assert_int_equal(advisor_finder_matches(&rig->finder, &query, holders, 4, &count), KVT_OK);
    assert_int_equal(count, worker == NULL ? 0 : 1);
    assert_int_equal(advisor_finder_block(&rig->finder, "", hash, block),
                     worker == NULL ? KVT_NOTFOUND : KVT_OK);
    if (worker != NULL) {
        assert_string_equal(holders[0].name, worker);
        assert_int_equal(block->place_count, 1);
        assert_string_equal(block->places[0].holder.name, worker);
    }
    kvt_free(block);
}

/* A worker that comes back under another name each time uses up nothing. */
static void
numbers_of_gone_workers_are_given_on(void **state)
{
    struct test_rig_options options = {.mode = ADVISOR_MODE_OFF, .holders_max = HOLDERS};
    struct scene scene;
    char name[32];

    (void)state;
    begin(&scene, &options);
    say(&scene.rig, "stays", 1, KVT_EVENT_STORE, 1);
    say(&scene.rig, "idle", 1, KVT_EVENT_STORE, 2);
    say(&scene.rig, "idle", 2, KVT_EVENT_REMOVE, 2);
    for (uint64_t i = 0; i < RESTARTS; i++) {
        (void)snprintf(name, sizeof(name), "host-%u", (unsigned)i);
        say(&scene.rig, name, 1, KVT_EVENT_STORE, 100 + i);
        assert_holder(&scene.rig, 100 + i, name);
        if (i + 1 < RESTARTS) {
            say(&scene.rig, name, 2, KVT_EVENT_BYE, 0);
            assert_holder(&scene.rig, 100 + i, NULL);
        }
        if (i % 7 == 0) { /* what is on disk has the same names */
            test_rig_close(&scene.rig);
            options.path = scene.folder;
            test_rig_open(&scene.rig, &options);
        }
    }
    assert_int_equal(test_rig_value(scene.rig.counters.refused), 0);
    assert_int_equal(index_holder_count(scene.rig.index), HOLDERS);
    say(&scene.rig, "idle", 3, KVT_EVENT_STORE, 3);
    test_rig_close(&scene.rig);
    test_rig_open(&scene.rig, &options);
    assert_holder(&scene.rig, 1, "stays");
    assert_holder(&scene.rig, 3, "idle");
    assert_holder(&scene.rig, 100 + RESTARTS - 1, name);
    end(&scene);
}

/* A number is not taken from who holds something or is alive: the next one is refused. */
static void
numbers_in_use_are_not_given_on(void **state)
{
    const struct test_rig_options options = {.mode = ADVISOR_MODE_OFF, .holders_max = HOLDERS};
    struct scene scene;
    char name[32];

    (void)state;
    begin(&scene, &options);
    for (uint64_t i = 0; i < HOLDERS; i++) {
        (void)snprintf(name, sizeof(name), "host-%u", (unsigned)i);
        say(&scene.rig, name, 1, KVT_EVENT_STORE, 100 + i);
    }
    say(&scene.rig, "host-0", 2, KVT_EVENT_REMOVE, 100); /* empty, and alive */
    say(&scene.rig, "late", 1, KVT_EVENT_STORE, 200);
    assert_int_equal(test_rig_value(scene.rig.counters.refused), 1);
    assert_holder(&scene.rig, 200, NULL);
    assert_holder(&scene.rig, 101, "host-1");
    say(&scene.rig, "host-0", 3, KVT_EVENT_BYE, 0);
    say(&scene.rig, "later", 1, KVT_EVENT_STORE, 201);
    assert_int_equal(test_rig_value(scene.rig.counters.refused), 1);
    assert_holder(&scene.rig, 201, "later");
    end(&scene);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_against_model),
        cmocka_unit_test(killed_at_random_points),
        cmocka_unit_test(full_map_loses_nothing),
        cmocka_unit_test(small_memory_answers_from_the_store),
        cmocka_unit_test(nonsense_is_counted_and_skipped),
        cmocka_unit_test(held_messages_hold_the_sequence_back),
        cmocka_unit_test(collisions_are_refused),
        cmocka_unit_test(a_start_can_be_cancelled),
        cmocka_unit_test(numbers_of_gone_workers_are_given_on),
        cmocka_unit_test(numbers_in_use_are_not_given_on),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
