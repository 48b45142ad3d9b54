/*
 * What is tested: the advisor's picture of 300 workers: every answer after every message.
 * How: random stores, removals in any order, moves between tiers, clears and new lives; messages
 * that are lost, doubled, late or garbled; questions that are answered late, in pages, too late or
 * not at all; restarts of the advisor.  The model is each worker's own story (crowd.h): at any time
 * the picture is that of the event the advisor says it has come to, and who may be ahead of it is
 * said to be uncertain.  The run proves that it met what it is there for.  KVT_SEED=n replays.
 */
#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "wire/message/event_codec.h"

#include "tests/support/seed.h"
#include "tests/unit/advisor/fake/crowd.h"
#include "tests/unit/advisor/support/rig.h"

enum {
    MESSAGES = 2500,
    ALL_EVERY = 100,   /* messages until all of RAM is compared, and what a restart would read */
    START_EVERY = 600, /* messages until the advisor is started anew */
    SETTLE_MS = 60000,
    HOLDERS_MAX = TEST_CROWD_WORKERS * TEST_CROWD_TIERS,
};

/* What the advisor knows of a worker, and what it should. */
struct known {
    struct test_crowd_picture picture;
    bool met;
    bool uncertain;
    bool midway; /* what it is told anew is not all there yet */
};

struct scene {
    char folder[256];
    struct test_rig_options options;
    struct test_rig rig;
    struct known known[TEST_CROWD_WORKERS];
    struct kvt_buffer late[TEST_CROWD_WORKERS]; /* a message the next one overtakes */
    struct kvt_buffer stream[3 * MESSAGES + 2 * TEST_CROWD_WORKERS];
    uint64_t stream_seq; /* as JetStream counts: from 1 on */
    uint64_t lives;
    uint64_t lost;
    uint64_t doubled;
    uint64_t overtaken;
    uint64_t garbled;
    uint64_t repeated; /* messages read again after a restart */
    uint64_t doubts;   /* answers that name uncertain holders */
    uint64_t halves;   /* workers that were seen midway */
    uint64_t compared; /* places */
};

/* ---- on their way ---- */

static void
send(struct scene *scene, const struct kvt_buffer *bytes)
{
    struct kvt_buffer *kept = &scene->stream[++scene->stream_seq];

    assert_true(scene->stream_seq < sizeof(scene->stream) / sizeof(scene->stream[0]));
    kvt_buffer_init(kept, WIRE_EVENT_BATCH_MAX);
    kvt_buffer_append(kept, bytes->data, bytes->size);
    assert_true(kvt_buffer_ok(kept));
    test_rig_bytes(&scene->rig, scene->stream_seq, kept->data, kept->size);
}

static void
send_late(struct scene *scene, uint32_t worker)
{
    struct kvt_buffer *late = &scene->late[worker];

    if (late->size == 0)
        return;
    send(scene, late);
    kvt_buffer_clear(late);
    scene->overtaken++;
}

static void
send_somehow(struct scene *scene, uint32_t worker, struct kvt_buffer *bytes)
{
    const uint32_t dice = test_crowd_below(100);

    if (dice < 5) {
        scene->lost++;
    } else if (dice < 10) {
        send(scene, bytes);
        send(scene, bytes);
        scene->doubled++;
    } else if (dice < 15 && scene->late[worker].size == 0) {
        kvt_buffer_append(&scene->late[worker], bytes->data, bytes->size);
        return;
    } else if (dice < 17) {
        bytes->size = test_crowd_below((uint32_t)bytes->size);
        send(scene, bytes);
        scene->garbled++;
    } else {
        send(scene, bytes);
    }
    send_late(scene, worker);
}

static void
next(struct scene *scene)
{
    const uint32_t worker = test_crowd_below(TEST_CROWD_WORKERS);
    struct kvt_buffer bytes;

    kvt_buffer_init(&bytes, WIRE_EVENT_BATCH_MAX);
    if (test_crowd_below(40) == 0 && test_crowd_now(worker)->seq > 0) {
        test_crowd_restart(worker);
        scene->lives++;
    }
    if (test_crowd_below(8) == 0)
        test_crowd_heartbeat(worker, &bytes);
    else
        test_crowd_act(worker, &bytes);
    send_somehow(scene, worker, &bytes);
    kvt_buffer_release(&bytes);
}

/* ---- what must be known ---- */

static void
follow(struct scene *scene)
{
    struct advisor_publishers *table = advisor_round_publishers(scene->rig.engine);

    for (size_t i = 0; i < advisor_publishers_count(table); i++) {
        const struct advisor_publisher *publisher = advisor_publishers_at(table, i);
        const uint32_t worker = test_crowd_worker(publisher->row.worker);
        struct known *known = &scene->known[worker];

        known->met = true;
        known->uncertain = advisor_publisher_uncertain(publisher);
        /* Also when the dump broke off, until another one was told to its end. */
        known->midway =
            known->uncertain && (known->midway || (publisher->resync == ADVISOR_RESYNC_DUMP &&
                                                   publisher->dump_incarnation != 0));
        scene->halves += known->midway ? 1 : 0;
        assert_int_equal(publisher->row.gone, 0);
        test_crowd_at(worker, test_crowd_life(publisher->row.incarnation), publisher->row.last_seq,
                      &known->picture);
    }
}

/* What a stream has not been told that it was taken comes again. */
static void
start_anew(struct scene *scene)
{
    struct advisor_position events;
    struct advisor_position reports;

    follow(scene);
    test_rig_close(&scene->rig);
    test_rig_open(&scene->rig, &scene->options);
    advisor_round_positions(scene->rig.engine, &events, &reports);
    assert_true(events.seq <= scene->stream_seq);
    for (uint64_t seq = events.seq + 1; seq <= scene->stream_seq; seq++, scene->repeated++)
        test_rig_bytes(&scene->rig, seq, scene->stream[seq].data, scene->stream[seq].size);
    test_rig_run(&scene->rig);
}

static uint32_t
prefix(const struct known *known, uint32_t tier, uint32_t chain)
{
    const bool *held = &known->picture.held[tier][(size_t)chain * TEST_CROWD_DEPTH];
    uint32_t blocks = 0;

    while (blocks < TEST_CROWD_DEPTH && held[blocks])
        blocks++;
    return blocks;
}

/* Who has how much of a sequence from its beginning, and who is uncertain. */
static void
assert_matches(struct scene *scene, const char *namespace_, uint32_t chain)
{
    static struct wire_query_holder holders[HOLDERS_MAX];
    bool seen[TEST_CROWD_WORKERS][TEST_CROWD_TIERS] = {{false}};
    uint64_t hashes[TEST_CROWD_DEPTH];
    struct wire_query query = {.hashes = hashes, .hash_count = TEST_CROWD_DEPTH};
    size_t count;

    (void)snprintf(query.namespace_, sizeof(query.namespace_), "%s", namespace_);
    for (uint32_t i = 0; i < TEST_CROWD_DEPTH; i++)
        hashes[i] = test_crowd_hash(chain * TEST_CROWD_DEPTH + i);
    assert_int_equal(
        advisor_finder_matches(&scene->rig.finder, &query, holders, HOLDERS_MAX, &count), KVT_OK);
    for (size_t i = 0; i < count; i++) {
        const uint32_t worker = test_crowd_worker(holders[i].name);
        const uint32_t tier = holders[i].tier == KVT_TIER_G3 ? 1 : 0;
        const struct known *known = &scene->known[worker];

        assert_true(!seen[worker][tier]);
        seen[worker][tier] = true;
        assert_string_equal(namespace_, test_crowd_namespace(worker));
        assert_true(holders[i].blocks > 0);
        assert_int_equal(holders[i].uncertain, known->uncertain);
        scene->doubts += known->uncertain ? 1 : 0;
        if (!known->midway)
            assert_int_equal(holders[i].blocks, prefix(known, tier, chain));
    }
    for (uint32_t w = 0; w < TEST_CROWD_WORKERS; w++)
        for (uint32_t tier = 0; tier < TEST_CROWD_TIERS; tier++)
            if (!seen[w][tier] && !scene->known[w].midway &&
                strcmp(namespace_, test_crowd_namespace(w)) == 0)
                assert_int_equal(prefix(&scene->known[w], tier, chain), 0);
}

/* In which tiers a sequence's blocks are. */
static void
assert_masks(struct scene *scene, const char *namespace_, uint32_t chain)
{
    static const enum kvt_tier tiers[TEST_CROWD_TIERS] = {KVT_TIER_G2, KVT_TIER_G3};
    uint64_t hashes[TEST_CROWD_DEPTH];
    uint8_t masks[TEST_CROWD_DEPTH];
    uint8_t wanted[TEST_CROWD_DEPTH] = {0};
    bool exact = true;

    for (uint32_t w = 0; w < TEST_CROWD_WORKERS; w++) {
        if (strcmp(namespace_, test_crowd_namespace(w)) != 0)
            continue;
        exact = exact && !scene->known[w].midway;
        for (uint32_t i = 0; i < TEST_CROWD_DEPTH * TEST_CROWD_TIERS; i++) {
            const uint32_t tier = i / TEST_CROWD_DEPTH;
            const uint32_t depth = i % TEST_CROWD_DEPTH;

            if (!scene->known[w].midway &&
                scene->known[w].picture.held[tier][chain * TEST_CROWD_DEPTH + depth])
                wanted[depth] |= (uint8_t)KVT_TIER_MASK(tiers[tier]);
        }
    }
    for (uint32_t i = 0; i < TEST_CROWD_DEPTH; i++)
        hashes[i] = test_crowd_hash(chain * TEST_CROWD_DEPTH + i);
    assert_int_equal(
        advisor_finder_masks(&scene->rig.finder, namespace_, hashes, TEST_CROWD_DEPTH, masks),
        KVT_OK);
    for (uint32_t i = 0; i < TEST_CROWD_DEPTH; i++)
        assert_int_equal(exact ? masks[i] : masks[i] & wanted[i], wanted[i]);
}

struct check {
    struct scene *scene;
    bool seen[TEST_CROWD_WORKERS][TEST_CROWD_TIERS][TEST_CROWD_BLOCKS];
};

static void
check_row(void *arg, const struct advisor_finder_row *row)
{
    struct check *check = arg;
    const uint32_t worker = test_crowd_worker(row->holder.name);

    assert_string_equal(row->namespace_, test_crowd_namespace(worker));
    for (uint32_t b = row->block.id.position; b < TEST_CROWD_BLOCKS; b += TEST_CROWD_DEPTH)
        if (test_crowd_hash(b) == row->block.id.hash) {
            check->seen[worker][row->holder.tier == KVT_TIER_G3 ? 1 : 0][b] = true;
            check->scene->compared++;
            return;
        }
    fail_msg("%s has a block nobody ever held", row->holder.name);
}

/* Every place. */
static void
assert_all(struct scene *scene, const struct advisor_finder *finder)
{
    static struct check check;
    uint64_t cursor = 0;

    memset(&check, 0, sizeof(check));
    check.scene = scene;
    do
        assert_int_equal(advisor_finder_rows(finder, cursor, 1000, &cursor, check_row, &check),
                         KVT_OK);
    while (cursor != 0);
    for (uint32_t w = 0; w < TEST_CROWD_WORKERS; w++) {
        const struct known *known = &scene->known[w];

        if (known->midway || memcmp(check.seen[w], known->picture.held, sizeof(check.seen[w])) == 0)
            continue;
        print_error(
            "%s: w%u, life %u of %u, event %llu of %llu%s\n",
            finder == &scene->rig.finder ? "in RAM" : "in the store", w, known->picture.life,
            test_crowd_now(w)->life, (unsigned long long)known->picture.seq,
            (unsigned long long)test_crowd_now(w)->seq, known->uncertain ? ", uncertain" : "");
        assert_memory_equal(check.seen[w], known->picture.held, sizeof(check.seen[w]));
    }
}

static void
assert_all_copies(struct scene *scene)
{
    struct test_rig_copy copy;

    assert_all(scene, &scene->rig.finder);
    test_rig_copy(&scene->rig, &copy);
    assert_all(scene, &copy.finder);
    test_rig_copy_free(&copy);
}

static void
assert_answers(struct scene *scene)
{
    const uint32_t chain = test_crowd_below(TEST_CROWD_CHAINS);

    follow(scene);
    for (uint32_t i = 0; i < 2; i++) {
        assert_matches(scene, test_crowd_namespace(i), chain);
        assert_masks(scene, test_crowd_namespace(i), chain);
    }
}

/* ---- the run ---- */

/* All say what comes next, until nobody is in doubt: then the picture is what they hold. */
static void
settle(struct scene *scene)
{
    const uint64_t until_ms = kvt_clock_mono_ms() + SETTLE_MS;
    struct kvt_buffer bytes;
    uint32_t doubts;

    kvt_buffer_init(&bytes, WIRE_EVENT_BATCH_MAX);
    for (uint32_t w = 0; w < TEST_CROWD_WORKERS; w++) {
        send_late(scene, w);
        kvt_buffer_clear(&bytes);
        test_crowd_heartbeat(w, &bytes);
        send(scene, &bytes);
    }
    kvt_buffer_release(&bytes);
    do {
        assert_true(kvt_clock_mono_ms() < until_ms);
        test_crowd_tick();
        advisor_round_step(scene->rig.engine, 1);
        test_rig_run(&scene->rig);
        follow(scene);
        doubts = 0;
        for (uint32_t w = 0; w < TEST_CROWD_WORKERS; w++)
            doubts += scene->known[w].uncertain ? 1 : 0;
    } while (doubts > 0);
    for (uint32_t w = 0; w < TEST_CROWD_WORKERS; w++)
        assert_memory_equal(&scene->known[w].picture, test_crowd_now(w),
                            sizeof(scene->known[w].picture));
    assert_all_copies(scene);
}

static void
assert_visited(const struct scene *scene)
{
    const struct test_crowd_counts *counts = test_crowd_counts();
    const struct {
        const char *what;
        uint64_t times;
        uint64_t wanted;
    } visits[] = {
        {"stores", counts->stores, 5000},
        {"removals", counts->removes, 1000},
        {"removals before a child", counts->inner, 300},
        {"moves between tiers", counts->moves, 300},
        {"clears", counts->clears, 30},
        {"new lives", scene->lives, 20},
        {"messages lost", scene->lost, 50},
        {"messages doubled", scene->doubled, 50},
        {"messages overtaken", scene->overtaken, 50},
        {"messages garbled", scene->garbled, 15},
        {"messages read again", scene->repeated, 1},
        {"ranges", counts->ranges, 30},
        {"ranges too late", counts->too_late, 5},
        {"dumps", counts->dumps, 10},
        {"pages of dumps", counts->pages, 20},
        {"questions without an answer", counts->unanswered, 1},
        {"uncertain holders in answers", scene->doubts, 50},
        {"workers seen midway", scene->halves, 20},
        {"places compared", scene->compared, 100000},
    };

    for (size_t i = 0; i < sizeof(visits) / sizeof(visits[0]); i++) {
        print_message("%s: %llu\n", visits[i].what, (unsigned long long)visits[i].times);
        assert_true(visits[i].times >= visits[i].wanted);
    }
}

static void
every_answer_after_every_message(void **state)
{
    struct scene *scene = kvt_calloc(1, sizeof(*scene));

    (void)state;
    assert_non_null(scene);
    scene->options.path = test_folder_make(scene->folder, sizeof(scene->folder));
    scene->options.mode = ADVISOR_MODE_OFF;
    scene->options.asks = true;
    for (uint32_t w = 0; w < TEST_CROWD_WORKERS; w++)
        kvt_buffer_init(&scene->late[w], WIRE_EVENT_BATCH_MAX);
    test_crowd_begin(test_seed());
    test_rig_open(&scene->rig, &scene->options);
    for (uint32_t i = 1; i <= MESSAGES; i++) {
        next(scene);
        test_crowd_tick();
        test_rig_run(&scene->rig);
        if (i % START_EVERY == 0)
            start_anew(scene);
        assert_answers(scene);
        if (i % ALL_EVERY == 0)
            assert_all_copies(scene);
    }
    settle(scene);
    assert_visited(scene);
    test_rig_close(&scene->rig);
    test_crowd_end();
    for (uint32_t w = 0; w < TEST_CROWD_WORKERS; w++)
        kvt_buffer_release(&scene->late[w]);
    for (uint64_t seq = 1; seq <= scene->stream_seq; seq++)
        kvt_buffer_release(&scene->stream[seq]);
    test_folder_remove(scene->folder);
    kvt_free(scene);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_answer_after_every_message),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
