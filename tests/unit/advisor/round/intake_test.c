/*
 * What is tested: advisor/round/round.h with sources of other systems: names, numbers, gaps,
 * answers. How: a random history of RouterEvents against sets, with restarts; hand-made messages
 * of each shape; a source that answers as the test says.
 */
#include <endian.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/core/random.h"

#include "tests/support/seed.h"
#include "tests/unit/advisor/support/foreign_cluster.h"
#include "tests/unit/advisor/support/foreign_scene.h"

enum {
    WORKERS = 3,
    RANKS = 2,
    STEPS = 3000,
    RESTART_EVERY = 400,
    DEADLINE_MS = 10000,
    KILLS = 30,
    KILLS_MAX = 300,
    KILL_STEPS = 3000,
    WRITTEN_MAX = 2 * KILL_STEPS + 1,
};

/* Hand the message over, or write it down for later. */
static void
send(struct test_scene *scene, uint64_t stream_seq, uint64_t sequence)
{
    if (scene->written != NULL) {
        assert_true(stream_seq < WRITTEN_MAX);
        scene->written[stream_seq] = scene->bytes;
        kvt_buffer_init(&scene->bytes, TEST_SCENE_MESSAGE_MAX);
        return;
    }
    test_rig_foreign(&scene->rig, stream_seq, sequence, &scene->bytes);
    kvt_buffer_clear(&scene->bytes);
}

/* Is a block at a worker's tier?  Both copies must agree. */
static uint32_t
count_places(const struct test_rig *rig, uint32_t chain, uint32_t depth)
{
    struct advisor_finder_block block;
    struct index_view view;
    uint32_t ns;

    if (advisor_finder_block(&rig->finder, "ns0", test_router_name(chain, depth), &block) != KVT_OK)
        block.place_count = 0;
    view.place_count = 0;
    if (index_namespace_find(rig->index, "ns0", &ns) == KVT_OK &&
        index_get(rig->index, ns, test_router_name(chain, depth), &view) != KVT_OK)
        view.place_count = 0;
    assert_int_equal(block.place_count, view.place_count);
    return block.place_count;
}

static struct advisor_publisher_view
publisher_view(struct test_rig *rig, const char *worker, uint32_t rank)
{
    struct advisor_publisher_view *views;
    const size_t count = advisor_publishers_views(advisor_round_publishers(rig->engine), &views);
    struct advisor_publisher_view view = {.state = ADVISOR_GONE};
    bool found = false;

    for (size_t i = 0; i < count && !found; i++)
        if (strcmp(views[i].row.worker, worker) == 0 && views[i].foreign.dp_rank == rank) {
            view = views[i];
            found = true;
        }
    kvt_free(views);
    assert_true(found);
    return view;
}

/* Rounds until the publisher is in that state. */
static void
run_until(struct test_scene *scene, const char *worker, enum advisor_publisher_state state)
{
    const uint64_t deadline_ms = kvt_clock_mono_ms() + DEADLINE_MS;

    do {
        test_rig_run(&scene->rig);
        assert_true(kvt_clock_mono_ms() < deadline_ms);
    } while (publisher_view(&scene->rig, worker, 0).state != state);
    test_rig_run(&scene->rig);
}

/* ---- a random history ---- */

struct model {
    bool held[WORKERS][RANKS][2][TEST_ROUTER_CHAINS][TEST_ROUTER_DEPTH];
    uint64_t next[WORKERS][RANKS];
    uint64_t random;
    uint64_t stream_seq;
    uint32_t waited;
};

static uint32_t
below(struct model *model, uint32_t limit)
{
    return (uint32_t)kvt_random_below(&model->random, limit);
}

static bool
knows(const struct model *model, uint32_t worker, uint32_t rank, uint32_t chain, uint32_t depth)
{
    const uint32_t c = test_router_chain(chain, depth);

    return model->held[worker][rank][0][c][depth] || model->held[worker][rank][1][c][depth];
}

/* A store; when its parent is not there, the child first and the parents behind it. */
static void
model_store(struct test_scene *scene, struct model *model, struct test_router_head *head)
{
    const uint32_t worker = (uint32_t)head->worker;
    bool(*held)[TEST_ROUTER_DEPTH] =
        model->held[worker][head->rank][head->tier == KVT_TIER_G2 ? 1 : 0];
    struct test_router_blocks blocks = {.chain = below(model, TEST_ROUTER_CHAINS),
                                        .depth = below(model, TEST_ROUTER_DEPTH)};
    uint32_t from = blocks.depth;

    blocks.count = 1 + below(model, TEST_ROUTER_DEPTH - blocks.depth);
    for (uint32_t i = 0; i < blocks.count; i++)
        held[test_router_chain(blocks.chain, blocks.depth + i)][blocks.depth + i] = true;
    test_router_store(&scene->bytes, head, &blocks);
    send(scene, ++model->stream_seq, UINT64_MAX);
    /* An engine's child without its parent cannot be named: the parents follow. */
    while (from > 0 && !knows(model, worker, head->rank, blocks.chain, from - 1))
        from--;
    if (from == blocks.depth)
        return;
    model->waited++;
    blocks.count = blocks.depth - from;
    blocks.depth = from;
    for (uint32_t i = 0; i < blocks.count; i++)
        held[test_router_chain(blocks.chain, blocks.depth + i)][blocks.depth + i] = true;
    head->id = model->next[worker][head->rank]++;
    test_router_store(&scene->bytes, head, &blocks);
    send(scene, ++model->stream_seq, UINT64_MAX);
}

static void
model_remove(struct test_scene *scene, struct model *model, const struct test_router_head *head)
{
    const uint32_t depth = below(model, TEST_ROUTER_DEPTH);
    const struct test_router_blocks blocks = {
        .chain = test_router_chain(below(model, TEST_ROUTER_CHAINS), depth),
        .depth = depth,
        .count = 1};

    model->held[head->worker][head->rank][head->tier == KVT_TIER_G2 ? 1 : 0][blocks.chain][depth] =
        false;
    test_router_remove(&scene->bytes, head, &blocks);
    send(scene, ++model->stream_seq, UINT64_MAX);
}

static void
model_step(struct test_scene *scene, struct model *model)
{
    const uint32_t worker = below(model, WORKERS);
    const uint32_t rank = below(model, RANKS);
    struct test_router_head head = {.worker = worker,
                                    .rank = rank,
                                    .tier = below(model, 2) == 0 ? KVT_TIER_G1 : KVT_TIER_G2,
                                    .id = model->next[worker][rank]++};
    const uint32_t dice = below(model, 200);

    if (dice == 0) {
        memset(model->held[worker][rank], 0, sizeof(model->held[worker][rank]));
        test_router_clear(&scene->bytes, &head);
        send(scene, ++model->stream_seq, UINT64_MAX);
    } else if (dice < 60) {
        model_store(scene, model, &head);
    } else {
        model_remove(scene, model, &head);
    }
}

struct check {
    const struct model *model;
    bool seen[WORKERS][RANKS][2][TEST_ROUTER_CHAINS][TEST_ROUTER_DEPTH];
};

static void
check_row(void *arg, const struct advisor_finder_row *row)
{
    struct check *check = arg;
    const uint32_t worker = (uint32_t)(row->holder.name[0] - '0');

    assert_string_equal(row->namespace_, "ns0");
    assert_true(worker < WORKERS && row->holder.dp_rank < RANKS);
    for (uint32_t c = 0; c < TEST_ROUTER_CHAINS; c++)
        for (uint32_t d = 0; d < TEST_ROUTER_DEPTH; d++)
            if (test_router_chain(c, d) == c && test_router_name(c, d) == row->block.id.hash) {
                check->seen[worker][row->holder.dp_rank][row->holder.tier == KVT_TIER_G2 ? 1 : 0][c]
                           [d] = true;
                return;
            }
    fail_msg("a block nobody ever held");
}

static void
assert_same(struct test_scene *scene, const struct model *model,
            const struct advisor_finder *finder)
{
    static struct check check;
    uint64_t cursor = 0;

    (void)scene;
    memset(&check, 0, sizeof(check));
    check.model = model;
    do
        assert_int_equal(advisor_finder_rows(finder, cursor, 100, &cursor, check_row, &check),
                         KVT_OK);
    while (cursor != 0);
    assert_memory_equal(check.seen, model->held, sizeof(check.seen));
}

static void
random_against_sets(void **state)
{
    static struct model model;
    struct test_scene scene;

    (void)state;
    test_scene_begin(&scene, &test_scene_dynamo, true);
    memset(&model, 0, sizeof(model));
    model.random = test_seed();
    for (uint32_t w = 0; w < WORKERS; w++)
        for (uint32_t r = 0; r < RANKS; r++)
            model.next[w][r] = w == 0 ? 0 : 1;
    for (uint32_t step = 1; step <= STEPS; step++) {
        struct test_rig_copy copy;

        model_step(&scene, &model);
        if (step % 50 != 0)
            continue;
        test_rig_run(&scene.rig);
        assert_same(&scene, &model, &scene.rig.finder);
        test_rig_copy(&scene.rig, &copy);
        assert_same(&scene, &model, &copy.finder);
        test_rig_copy_free(&copy);
        assert_int_equal(test_rig_view(&scene.rig).committed_seq, model.stream_seq);
        if (step % RESTART_EVERY == 0)
            test_scene_restart(&scene);
    }
    assert_int_equal(test_rig_value(scene.rig.counters.uncertain), 0);
    assert_int_equal(test_rig_value(scene.rig.counters.gaps), 0);
    assert_true(model.waited > 50);
    test_scene_end(&scene);
}

/* Feed what the store does not have yet; a child is killed somewhere in it. */
static void
feed_written(struct test_scene *scene, uint64_t last)
{
    for (uint64_t seq = test_rig_view(&scene->rig).committed_seq + 1; seq <= last; seq++) {
        test_rig_foreign(&scene->rig, seq, UINT64_MAX, &scene->written[seq]);
        if (seq % 7 == 0)
            advisor_round_step(scene->rig.engine, 0);
    }
    test_rig_run(&scene->rig);
}

static void
feed_and_be_killed(struct test_scene *scene, uint64_t last, uint64_t after_ms)
{
    pid_t child;
    int status;
    int ends[2];
    char byte;

    assert_int_equal(pipe(ends), 0);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        test_rig_open(&scene->rig, &scene->options);
        if (write(ends[1], "x", 1) == 1)
            feed_written(scene, last);
        for (;;)
            (void)pause();
    }
    assert_int_equal(read(ends[0], &byte, 1), 1);
    kvt_clock_sleep_ms(after_ms);
    (void)close(ends[0]);
    (void)close(ends[1]);
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
}

/* Killed at any moment, what a stream keeps is applied once: index, names and stores that wait. */
static void
killed_at_random_points(void **state)
{
    static struct model model;
    struct test_scene scene;
    uint64_t before = 0;
    uint64_t at = 0;
    int points = 0;

    (void)state;
    test_scene_begin(&scene, &test_scene_dynamo, true);
    test_rig_close(&scene.rig);
    scene.written = kvt_calloc(WRITTEN_MAX, sizeof(*scene.written));
    assert_non_null(scene.written);
    memset(&model, 0, sizeof(model));
    model.random = test_seed() + 1;
    for (uint32_t step = 1; step <= KILL_STEPS; step++)
        model_step(&scene, &model);
    for (int i = 0; i < KILLS_MAX && points < KILLS; i++) {
        /* At first only a part comes, so that a quick one is on its way at its end, too. */
        const uint64_t rest = model.stream_seq - before;
        const uint64_t last =
            points == 0 ? before + 1 + below(&model, (uint32_t)(rest - 1)) : model.stream_seq;

        feed_and_be_killed(&scene, last, below(&model, 20));
        test_rig_open(&scene.rig, &scene.options);
        at = test_rig_view(&scene.rig).committed_seq;
        points += at > before && at < model.stream_seq ? 1 : 0;
        before = at;
        if (at == model.stream_seq || points == KILLS)
            break;
        test_rig_close(&scene.rig);
    }
    print_message("killed on its way %d times\n", points);
    assert_true(points > 0);
    feed_written(&scene, model.stream_seq);
    assert_same(&scene, &model, &scene.rig.finder);
    assert_int_equal(test_rig_view(&scene.rig).committed_seq, model.stream_seq);
    assert_int_equal(test_rig_value(scene.rig.counters.uncertain), 0);
    for (size_t i = 0; i < WRITTEN_MAX; i++)
        kvt_buffer_release(&scene.written[i]);
    kvt_free(scene.written);
    test_scene_end(&scene);
}

/* ---- gaps and answers ---- */

static const struct test_router_blocks first_blocks = {.chain = 1, .depth = 0, .count = 2};
static const struct test_router_blocks middle_blocks = {.chain = 1, .depth = 2, .count = 3};
static const struct test_router_blocks last_blocks = {.chain = 1, .depth = 5, .count = 1};

static void
store(struct test_scene *scene, uint64_t id, const struct test_router_blocks *blocks)
{
    const struct test_router_head head = {.worker = 1, .tier = KVT_TIER_G1, .id = id};

    test_router_store(&scene->bytes, &head, blocks);
    send(scene, 0, UINT64_MAX);
}

/* Event 2 is missing: the worker is asked, and has it. */
static void
gap_is_filled_with_events(void **state)
{
    const struct test_router_head missing = {.worker = 1, .tier = KVT_TIER_G1, .id = 2};
    struct test_scene scene;

    (void)state;
    test_scene_begin(&scene, &test_scene_dynamo, false);
    kvt_buffer_printf(&test_answer.bytes, "{\"Events\":{\"events\":[");
    test_router_store(&test_answer.bytes, &missing, &middle_blocks);
    kvt_buffer_printf(&test_answer.bytes, "],\"last_event_id\":2}}");
    test_answer.rc = KVT_OK;
    test_answer.kind = ADVISOR_ANSWER_QUERY;
    store(&scene, 1, &first_blocks);
    store(&scene, 3, &last_blocks);
    run_until(&scene, "1", ADVISOR_LIVE);
    assert_int_equal(test_answer.asked, 1);
    assert_int_equal(test_answer.from, 2);
    assert_int_equal(test_answer.to, 2);
    for (uint32_t depth = 0; depth < 6; depth++)
        assert_int_equal(count_places(&scene.rig, 1, depth), 1);
    assert_int_equal(publisher_view(&scene.rig, "1", 0).row.last_seq, 4);
    assert_int_equal(test_rig_view(&scene.rig).counts.gaps, 1);
    test_scene_end(&scene);
}

/* It no longer has it, and tells all it holds instead: what it does not name is void. */
static void
gap_is_filled_with_a_dump(void **state)
{
    const struct test_router_head synthetic = {.worker = 1, .tier = KVT_TIER_G1, .id = 0};
    const struct test_router_blocks other = {.chain = 2, .depth = 0, .count = 6};
    struct test_scene scene;

    (void)state;
    test_scene_begin(&scene, &test_scene_dynamo, false);
    kvt_buffer_printf(&test_answer.bytes, "{\"TreeDump\":{\"events\":[");
    test_router_store(&test_answer.bytes, &synthetic, &other);
    kvt_buffer_printf(&test_answer.bytes, "],\"last_event_id\":3}}");
    test_answer.rc = KVT_OK;
    test_answer.kind = ADVISOR_ANSWER_QUERY;
    store(&scene, 1, &(const struct test_router_blocks){.chain = 1, .depth = 0, .count = 6});
    store(&scene, 3, &last_blocks); /* in the dump, or not */
    run_until(&scene, "1", ADVISOR_LIVE);
    for (uint32_t depth = TEST_ROUTER_SHARED; depth < 6; depth++) {
        assert_int_equal(count_places(&scene.rig, 1, depth), 0);
        assert_int_equal(count_places(&scene.rig, 2, depth), 1);
    }
    /* Names of before the dump are void, those of the dump hold, also after a restart. */
    test_scene_restart(&scene);
    kvt_buffer_clear(&scene.bytes);
    test_router_remove(&scene.bytes,
                       &(const struct test_router_head){.worker = 1, .tier = KVT_TIER_G1, .id = 4},
                       &(const struct test_router_blocks){.chain = 2, .depth = 5, .count = 1});
    send(&scene, 0, UINT64_MAX);
    run_until(&scene, "1", ADVISOR_LIVE);
    assert_int_equal(count_places(&scene.rig, 2, 5), 0);
    assert_int_equal(test_rig_view(&scene.rig).counts.unmatched, 0);
    test_scene_end(&scene);
}

/* Nobody can be asked: its events go on, and it stays uncertain until it clears. */
static void
given_up_until_it_clears(void **state)
{
    const struct test_router_head clear = {.worker = 1, .tier = KVT_TIER_G1, .id = 5};
    struct test_scene scene;

    (void)state;
    test_scene_begin(&scene, &test_scene_dynamo, false);
    store(&scene, 1, &first_blocks);
    test_rig_run(&scene.rig);
    assert_int_equal(publisher_view(&scene.rig, "1", 0).state, ADVISOR_LIVE);
    store(&scene, 4, &(const struct test_router_blocks){.chain = 2, .depth = 0, .count = 6});
    run_until(&scene, "1", ADVISOR_UNCERTAIN);
    while (publisher_view(&scene.rig, "1", 0).foreign.lost == 0)
        test_rig_run(&scene.rig);
    test_rig_run(&scene.rig);
    assert_string_equal(publisher_view(&scene.rig, "1", 0).error,
                        "events are missing: as the test says");
    assert_int_equal(count_places(&scene.rig, 2, 5), 1);
    assert_int_equal(test_rig_view(&scene.rig).uncertain, 1);
    test_scene_restart(&scene);
    test_rig_run(&scene.rig);
    assert_int_equal(publisher_view(&scene.rig, "1", 0).state, ADVISOR_UNCERTAIN);
    test_router_clear(&scene.bytes, &clear);
    send(&scene, 0, UINT64_MAX);
    run_until(&scene, "1", ADVISOR_LIVE);
    assert_int_equal(count_places(&scene.rig, 2, 5), 0);
    assert_int_equal(count_places(&scene.rig, 1, 1), 0);
    test_scene_end(&scene);
}

/* Who does not answer in time is given up, too. */
static void
given_up_after_a_while(void **state)
{
    struct test_scene scene;

    (void)state;
    test_scene_begin(&scene, &test_scene_dynamo, false);
    test_rig_close(&scene.rig);
    scene.options.give_up_after_ms = 300;
    test_rig_open(&scene.rig, &scene.options);
    test_answer.rc = KVT_TIMEOUT;
    store(&scene, 7, &first_blocks);
    run_until(&scene, "1", ADVISOR_UNCERTAIN);
    assert_int_equal(count_places(&scene.rig, 1, 0), 0); /* it waits */
    while (publisher_view(&scene.rig, "1", 0).foreign.lost == 0) {
        test_rig_run(&scene.rig);
        kvt_clock_sleep_ms(5);
    }
    test_rig_run(&scene.rig);
    assert_int_equal(count_places(&scene.rig, 1, 0), 1);
    test_scene_end(&scene);
}

static void
worker_that_left_is_forgotten(void **state)
{
    struct advisor_inbox_item *item;
    struct test_scene scene;

    (void)state;
    test_scene_begin(&scene, &test_scene_dynamo, false);
    store(&scene, 1, &first_blocks);
    test_rig_run(&scene.rig);
    assert_int_equal(count_places(&scene.rig, 1, 0), 1);
    assert_int_equal(advisor_inbox_item_new(&item, ADVISOR_INBOX_ITEM_GONE, "", NULL, 0), KVT_OK);
    item->worker_id = 1;
    test_rig_foreign_item(&scene.rig, item);
    test_rig_run(&scene.rig);
    assert_int_equal(count_places(&scene.rig, 1, 0), 0);
    assert_int_equal(publisher_view(&scene.rig, "1", 0).state, ADVISOR_GONE);
    test_scene_end(&scene);
}

/* A source that is not followed any more leaves nothing behind. */
static void
source_that_was_dropped(void **state)
{
    struct test_scene scene;

    (void)state;
    test_scene_begin(&scene, &test_scene_dynamo, true);
    store(&scene, 1, &first_blocks);
    test_rig_run(&scene.rig);
    scene.options.foreign = NULL;
    test_scene_restart(&scene);
    test_rig_run(&scene.rig);
    assert_int_equal(count_places(&scene.rig, 1, 0), 0);
    test_scene_end(&scene);
}

/* ---- envelopes ---- */

static void
envelope(struct test_scene *scene, uint64_t publisher, uint64_t sequence, uint64_t worker,
         uint64_t id)
{
    const struct test_router_head head = {.worker = worker, .tier = KVT_TIER_G1, .id = id};

    test_router_envelope(&scene->bytes, publisher, sequence, &head, &first_blocks);
    send(scene, 0, UINT64_MAX);
}

static void
envelopes_come_twice_and_go_missing(void **state)
{
    struct test_scene scene;

    (void)state;
    test_scene_begin(&scene, &test_scene_dynamo, false);
    envelope(&scene, 42, 0, 1, 1);
    envelope(&scene, 42, 0, 1, 1); /* from another broker */
    envelope(&scene, 42, 1, 2, 1);
    test_rig_run(&scene.rig);
    assert_int_equal(test_rig_view(&scene.rig).counts.duplicates, 1);
    assert_int_equal(test_rig_value(scene.rig.counters.uncertain), 0);
    /* One message of theirs is missing: both are in doubt until they speak. */
    envelope(&scene, 42, 3, 1, 2);
    test_rig_run(&scene.rig);
    assert_int_equal(publisher_view(&scene.rig, "1", 0).state, ADVISOR_LIVE);
    assert_int_equal(publisher_view(&scene.rig, "2", 0).state, ADVISOR_UNCERTAIN);
    envelope(&scene, 42, 4, 2, 2);
    test_rig_run(&scene.rig);
    assert_int_equal(publisher_view(&scene.rig, "2", 0).state, ADVISOR_LIVE);
    /* The missing one comes late after all; its events are known to be none of these. */
    envelope(&scene, 42, 2, 1, 2);
    test_rig_run(&scene.rig);
    assert_int_equal(test_rig_value(scene.rig.counters.uncertain), 0);
    test_scene_end(&scene);
}

static void
another_publisher_is_another_life(void **state)
{
    struct test_scene scene;

    (void)state;
    test_scene_begin(&scene, &test_scene_dynamo, false);
    envelope(&scene, 42, 0, 1, 1);
    store(&scene, 2, &first_blocks);
    test_rig_run(&scene.rig);
    assert_int_equal(count_places(&scene.rig, 1, 1), 1);
    envelope(&scene, 43, 0, 1, 1);
    test_rig_run(&scene.rig);
    assert_int_equal(count_places(&scene.rig, 1, 1), 0);
    assert_int_equal(publisher_view(&scene.rig, "1", 0).state, ADVISOR_LIVE);
    envelope(&scene, 42, 1, 1, 3); /* late words of the former one */
    test_rig_run(&scene.rig);
    assert_int_equal(publisher_view(&scene.rig, "1", 0).row.last_seq, 2);
    test_scene_end(&scene);
}

/* ---- engines ---- */

static void
put_message(struct kvt_buffer *out, uint64_t sequence, const struct test_router_blocks *blocks)
{
    struct kvt_buffer message;
    uint64_t head[2];

    kvt_buffer_init(&message, TEST_SCENE_MESSAGE_MAX);
    test_router_engine(&message, 1, blocks);
    head[0] = htole64(sequence);
    head[1] = htole64(message.size);
    kvt_buffer_append(out, head, sizeof(head));
    kvt_buffer_append(out, message.data, message.size);
    kvt_buffer_release(&message);
}

static void
say(struct test_scene *scene, uint64_t sequence, const struct test_router_blocks *blocks)
{
    test_router_engine(&scene->bytes, 1, blocks);
    send(scene, 0, sequence);
}

static void
ring_fills_a_gap(void **state)
{
    struct test_scene scene;

    (void)state;
    test_scene_begin(&scene, &test_scene_engine, false);
    put_message(&test_answer.bytes, 1, &middle_blocks);
    put_message(&test_answer.bytes, 2, &last_blocks);
    test_answer.rc = KVT_OK;
    test_answer.kind = ADVISOR_ANSWER_MESSAGES;
    say(&scene, 0, &first_blocks);
    say(&scene, 2, &last_blocks);
    run_until(&scene, "engine:test", ADVISOR_LIVE);
    assert_int_equal(test_answer.from, 1);
    for (uint32_t depth = 0; depth < 6; depth++)
        assert_int_equal(count_places(&scene.rig, 1, depth), 1);
    test_scene_end(&scene);
}

static void
ring_that_forgot_is_given_up(void **state)
{
    struct test_scene scene;

    (void)state;
    test_scene_begin(&scene, &test_scene_engine, false);
    put_message(&test_answer.bytes, 3, &last_blocks);
    test_answer.rc = KVT_OK;
    test_answer.kind = ADVISOR_ANSWER_MESSAGES;
    say(&scene, 0, &first_blocks);
    say(&scene, 3, &last_blocks);
    run_until(&scene, "engine:test", ADVISOR_UNCERTAIN);
    while (publisher_view(&scene.rig, "engine:test", 0).foreign.lost == 0)
        test_rig_run(&scene.rig);
    test_rig_run(&scene.rig);
    assert_int_equal(publisher_view(&scene.rig, "engine:test", 0).row.last_seq, 4);
    /* Its parents are missing: it waits for them, also over a restart. */
    assert_int_equal(count_places(&scene.rig, 1, 5), 0);
    test_scene_restart(&scene);
    say(&scene, 4, &middle_blocks);
    test_rig_run(&scene.rig);
    assert_int_equal(count_places(&scene.rig, 1, 5), 1);
    test_scene_end(&scene);
}

static void
engine_that_restarts(void **state)
{
    struct advisor_inbox_item *item;
    struct test_scene scene;

    (void)state;
    test_scene_begin(&scene, &test_scene_engine, false);
    say(&scene, 0, &first_blocks);
    say(&scene, 1, &middle_blocks);
    test_rig_run(&scene.rig);
    assert_int_equal(count_places(&scene.rig, 1, 4), 1);
    test_router_engine(&scene.bytes, 1, &first_blocks);
    assert_int_equal(advisor_inbox_item_new(&item, ADVISOR_INBOX_ITEM_MESSAGE, "engine:test",
                                            scene.bytes.data, scene.bytes.size),
                     KVT_OK);
    item->has_sequence = true;
    item->new_life = true;
    test_rig_foreign_item(&scene.rig, item);
    test_rig_run(&scene.rig);
    assert_int_equal(count_places(&scene.rig, 1, 1), 1);
    assert_int_equal(count_places(&scene.rig, 1, 4), 0);
    assert_int_equal(publisher_view(&scene.rig, "engine:test", 0).state, ADVISOR_LIVE);
    test_scene_end(&scene);
}

/* What cannot be read is counted, and its number is missed. */
static void
nonsense_leaves_a_gap(void **state)
{
    struct test_scene scene;

    (void)state;
    test_scene_begin(&scene, &test_scene_engine, false);
    say(&scene, 0, &first_blocks);
    kvt_buffer_printf(&scene.bytes, "nonsense");
    send(&scene, 0, 1);
    say(&scene, 2, &middle_blocks);
    run_until(&scene, "engine:test", ADVISOR_UNCERTAIN);
    assert_int_equal(test_rig_view(&scene.rig).counts.malformed, 1);
    assert_string_not_equal(test_rig_view(&scene.rig).counts.last_error, "");
    test_scene_end(&scene);
}

/* No room for names: uncertain for good, with the reason. */
static void
no_room_for_names(void **state)
{
    struct test_scene scene;

    (void)state;
    test_scene_begin(&scene, &test_scene_engine, false);
    test_rig_close(&scene.rig);
    scene.options.aliases_max = 3;
    test_rig_open(&scene.rig, &scene.options);
    say(&scene, 0, &(const struct test_router_blocks){.chain = 1, .depth = 0, .count = 5});
    test_rig_run(&scene.rig);
    assert_int_equal(publisher_view(&scene.rig, "engine:test", 0).state, ADVISOR_UNCERTAIN);
    assert_string_equal(publisher_view(&scene.rig, "engine:test", 0).error,
                        "a limit was reached: no room for its blocks");
    test_scene_end(&scene);
}

/* Our own workers send more than a round has room for: the other source has its turn all the same.
 */
static void
a_flood_leaves_others_their_turn(void **state)
{
    enum { FLOOD = 160, EVENTS = 1000 };
    struct kvt_event *events = kvt_calloc(EVENTS, sizeof(*events));
    struct test_scene scene;

    (void)state;
    test_scene_begin(&scene, &test_scene_dynamo, false);
    for (uint64_t message = 0; message < FLOOD; message++) {
        const struct kvt_event_batch batch = {
            .incarnation = 1,
            .first_seq = message * EVENTS + 1,
            .time_ms = 5,
            .worker = "flood",
            .location_count = 1,
            .locations = {{.tier = KVT_TIER_G2, .name = "host"}},
            .events = events,
            .event_count = EVENTS,
        };

        for (uint64_t i = 0; i < EVENTS; i++)
            events[i] = (struct kvt_event){.type = KVT_EVENT_STORE,
                                           .sequence_hash = batch.first_seq + i,
                                           .block_size = 1,
                                           .ranks = 1};
        test_rig_batch(&scene.rig, message + 1, &batch);
    }
    store(&scene, 1, &first_blocks);
    for (unsigned round = 0; round < 2; round++)
        advisor_round_step(scene.rig.engine, 0);
    assert_int_equal(count_places(&scene.rig, 1, 0), 1);
    assert_true(test_rig_value(scene.rig.counters.events_seq) < FLOOD);
    test_rig_run(&scene.rig);
    assert_int_equal(test_rig_value(scene.rig.counters.events_seq), FLOOD);
    kvt_free(events);
    test_scene_end(&scene);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_against_sets),
        cmocka_unit_test(killed_at_random_points),
        cmocka_unit_test(gap_is_filled_with_events),
        cmocka_unit_test(gap_is_filled_with_a_dump),
        cmocka_unit_test(given_up_until_it_clears),
        cmocka_unit_test(given_up_after_a_while),
        cmocka_unit_test(worker_that_left_is_forgotten),
        cmocka_unit_test(source_that_was_dropped),
        cmocka_unit_test(envelopes_come_twice_and_go_missing),
        cmocka_unit_test(another_publisher_is_another_life),
        cmocka_unit_test(ring_fills_a_gap),
        cmocka_unit_test(ring_that_forgot_is_given_up),
        cmocka_unit_test(engine_that_restarts),
        cmocka_unit_test(nonsense_leaves_a_gap),
        cmocka_unit_test(no_room_for_names),
        cmocka_unit_test(a_flood_leaves_others_their_turn),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
