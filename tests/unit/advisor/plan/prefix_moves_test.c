/*
 * What is tested: advisor/plan/prefix_moves.h: the blocks of a prefix and the gateways that are to
 * move them are those of the simple way over a table; order, limits, and memory that fails.
 */
#include <stdio.h>
#include <string.h>

#include "advisor/plan/prefix_moves.h"
#include "base/core/alloc.h"

#include "tests/support/seed.h"
#include "tests/unit/advisor/support/block_forest.h"

static const struct asked {
    enum kvt_order_verb verb;
    enum advisor_tier_kind to;
} all[] = {{KVT_ORDER_PIN, ADVISOR_TIER_KIND_HOT},    {KVT_ORDER_UNPIN, ADVISOR_TIER_KIND_HOT},
           {KVT_ORDER_DELETE, ADVISOR_TIER_KIND_HOT}, {KVT_ORDER_WARM, ADVISOR_TIER_KIND_HOT},
           {KVT_ORDER_WARM, ADVISOR_TIER_KIND_WARM},  {KVT_ORDER_WARM, ADVISOR_TIER_KIND_COLD}};

enum { ALL = sizeof(all) / sizeof(all[0]), REPORTED = TEST_PLACE_COLD_LOST };

/* ---- the simple way ---- */

static bool
is_known(const struct test_place_block *block)
{
    for (unsigned place = 0; place < TEST_PLACE_COUNT; place++)
        if (block->ranks[place] != 0)
            return true;
    return false;
}

/* Over blocks that somebody holds: nobody tells what a block hangs on that nobody has. */
static bool
hangs_on(const struct test_places *places, unsigned block, unsigned root)
{
    while (block != root) {
        block = places->blocks[block].parent;
        if (block == TEST_PLACES_BLOCKS || !is_known(&places->blocks[block]))
            return false;
    }
    return true;
}

static const enum advisor_tier_kind rungs[REPORTED] = {
    ADVISOR_TIER_KIND_HOT,  ADVISOR_TIER_KIND_HOT,  ADVISOR_TIER_KIND_WARM,
    ADVISOR_TIER_KIND_COLD, ADVISOR_TIER_KIND_COLD, ADVISOR_TIER_KIND_FAR,
};

static enum advisor_tier_kind
top_of(const struct test_place_block *block)
{
    unsigned place = 0; /* they are in order */

    while (place < REPORTED && block->ranks[place] == 0)
        place++;
    return place < REPORTED ? rungs[place] : ADVISOR_TIER_KIND_GONE;
}

/* The gateway that warms what lies there; -1: none can. */
static int
warmer_of(unsigned place, enum advisor_tier_kind to)
{
    if (rungs[place] <= to)
        return -1;
    if (to != ADVISOR_TIER_KIND_WARM)
        return test_place_gateway(place);
    return place == TEST_PLACE_COLD1 ? -1 : 0; /* the other one has no warm volume */
}

/* The shards that the gateway is to bring from there. */
static uint32_t
warmed_from(const struct test_place_block *block, enum advisor_tier_kind to, int gateway,
            enum advisor_tier_kind from)
{
    uint32_t above = 0;
    uint32_t ranks = 0;

    if (top_of(block) <= to)
        return 0;
    for (unsigned place = 0; place < REPORTED; place++) {
        if (warmer_of(place, to) != gateway)
            continue;
        if (rungs[place] < from)
            above |= block->ranks[place];
        if (rungs[place] == from)
            ranks |= block->ranks[place];
    }
    return ranks & ~above;
}

static uint32_t
moved_at(const struct test_place_block *block, const struct asked *asked, int gateway,
         enum advisor_tier_kind from)
{
    const enum advisor_tier_kind top = top_of(block);
    uint32_t ranks = 0;
    bool here = false;

    if (asked->verb == KVT_ORDER_WARM)
        return warmed_from(block, asked->to, gateway, from);
    if (from != ADVISOR_TIER_KIND_GONE)
        return 0;
    for (unsigned place = 0; place < REPORTED; place++) {
        if (block->ranks[place] == 0 || (asked->verb == KVT_ORDER_PIN && rungs[place] != top))
            continue;
        ranks |= block->ranks[place];
        here = here || test_place_gateway(place) == gateway;
    }
    return here ? ranks : 0;
}

/* ---- the answer ---- */

static size_t
position_of(const struct advisor_prefix_moves_part *part, uint64_t hash)
{
    size_t at = part->count;

    for (size_t i = 0; i < part->count; i++)
        if (part->items[i].block.hash == hash) {
            assert_int_equal(at, part->count); /* once */
            at = i;
        }
    return at;
}

static const struct advisor_prefix_moves_part *
part_of(const struct advisor_prefix_moves *selection, int gateway, enum advisor_tier_kind from)
{
    static const struct advisor_prefix_moves_part none;
    const struct advisor_prefix_moves_part *part = &none;
    char name[KVT_NAME_MAX];

    (void)snprintf(name, sizeof(name), "gw%d", gateway);
    for (size_t i = 0; i < selection->part_count; i++)
        if (strcmp(selection->parts[i].gateway, name) == 0 && selection->parts[i].from == from) {
            assert_ptr_equal(part, &none);
            part = &selection->parts[i];
        }
    return part;
}

/* As orders name it: nothing of what is between the bucket and the hot volume. */
static void
expect_edge(const struct advisor_prefix_moves_part *part, const struct asked *asked, int gateway)
{
    static const char *const names[2][ADVISOR_TIER_KIND_COUNT] = {
        {"hot@gw0", "warm@gw0", "cold@a", "cold@far"}, {"hot@gw1", "", "cold@b", "cold@far"}};
    const bool is_plain =
        part->from == ADVISOR_TIER_KIND_GONE ||
        (part->from == ADVISOR_TIER_KIND_COLD && asked->to == ADVISOR_TIER_KIND_HOT);

    assert_string_equal(part->from_holder, is_plain ? "" : names[gateway][part->from]);
    assert_string_equal(part->to_holder, is_plain ? "" : names[gateway][asked->to]);
}

static void
expect_part(const struct test_places *places, unsigned root, const struct asked *asked,
            const struct advisor_prefix_moves *selection, int gateway, enum advisor_tier_kind from)
{
    const struct advisor_prefix_moves_part *part = part_of(selection, gateway, from);
    size_t count = 0;
    uint64_t bytes = 0;

    for (unsigned i = 0; i < TEST_PLACES_BLOCKS; i++) {
        const struct test_place_block *block = &places->blocks[i];
        const uint32_t ranks =
            hangs_on(places, i, root) ? moved_at(block, asked, gateway, from) : 0;
        const size_t at = position_of(part, test_place_hash(i));
        size_t parent;

        if (ranks == 0) {
            assert_int_equal(at, part->count);
            continue;
        }
        assert_true(at < part->count);
        assert_int_equal(part->items[at].ranks, ranks);
        count++;
        bytes += block->size * (uint64_t)__builtin_popcount(ranks);
        parent = block->parent < TEST_PLACES_BLOCKS
                     ? position_of(part, test_place_hash(block->parent))
                     : part->count;
        if (parent < part->count)
            assert_true(asked->verb == KVT_ORDER_DELETE ? at < parent : at > parent);
    }
    assert_int_equal(part->count, count);
    assert_int_equal(part->bytes, bytes);
    if (count > 0)
        expect_edge(part, asked, gateway);
}

static struct advisor_prefix_moves_options
options_of(struct test_places *places, unsigned root, const struct asked *asked)
{
    return (struct advisor_prefix_moves_options){.finder = &places->rig.finder,
                                                 .planner = places->rig.planner,
                                                 .namespace_ =
                                                     test_places_spaces[places->blocks[root].space],
                                                 .hash = test_place_hash(root),
                                                 .verb = asked->verb,
                                                 .to = asked->to};
}

static void
expect_sums(const struct test_places *places, unsigned root, const struct asked *asked,
            const struct advisor_prefix_moves *selection)
{
    uint64_t blocks = 0;
    uint64_t chosen = 0;
    uint64_t elsewhere = 0;
    uint64_t bytes = 0;

    for (unsigned i = 0; i < TEST_PLACES_BLOCKS; i++) {
        const struct test_place_block *block = &places->blocks[i];
        uint32_t ranks = 0;

        if (!hangs_on(places, i, root) || !is_known(block))
            continue;
        for (int part = 0; part < 2 * (ADVISOR_TIER_KIND_GONE + 1); part++)
            ranks |= moved_at(block, asked, part % 2, (enum advisor_tier_kind)(part / 2));
        blocks++;
        elsewhere += top_of(block) == ADVISOR_TIER_KIND_GONE;
        chosen += ranks != 0;
        bytes += block->size * (uint64_t)__builtin_popcount(ranks);
    }
    assert_int_equal(selection->blocks, blocks);
    assert_int_equal(selection->chosen, chosen);
    assert_int_equal(selection->elsewhere, elsewhere);
    assert_int_equal(selection->bytes, bytes);
}

static void
prefixes_are_what_hangs_on_them(void **state)
{
    struct test_places *places = test_places_begin();

    (void)state;
    for (unsigned root = 0; root < TEST_PLACES_BLOCKS; root++)
        for (size_t a = 0; a < ALL; a++) {
            const struct advisor_prefix_moves_options options = options_of(places, root, &all[a]);
            struct advisor_prefix_moves selection;
            struct kvt_error err;
            const enum kvt_err rc = advisor_prefix_moves_make(&selection, &options, &err);

            assert_int_equal(rc, is_known(&places->blocks[root]) ? KVT_OK : KVT_NOTFOUND);
            if (rc == KVT_OK) {
                expect_sums(places, root, &all[a], &selection);
                for (int part = 0; part < 2 * (ADVISOR_TIER_KIND_GONE + 1); part++)
                    expect_part(places, root, &all[a], &selection, part % 2,
                                (enum advisor_tier_kind)(part / 2));
            }
            advisor_prefix_moves_release(&selection);
        }
    test_places_end(places);
}

static void
a_tier_that_no_gateway_has_is_told(void **state)
{
    struct test_rig_options rig_options = {.mode = ADVISOR_MODE_OFF};
    struct advisor_prefix_moves_options options = {
        .namespace_ = "ns", .hash = 1, .verb = KVT_ORDER_WARM, .to = ADVISOR_TIER_KIND_WARM};
    struct advisor_prefix_moves selection;
    struct test_rig rig;
    struct kvt_error err;
    char folder[256];

    (void)state;
    (void)test_folder_make(folder, sizeof(folder));
    rig_options.path = folder;
    test_rig_open(&rig, &rig_options);
    options.finder = &rig.finder;
    options.planner = rig.planner;
    assert_int_equal(advisor_prefix_moves_make(&selection, &options, &err), KVT_NOTFOUND);
    assert_string_equal(err.text, "no gateway has a warm tier; which there are: kvtier tier ls");
    advisor_prefix_moves_release(&selection);
    test_rig_close(&rig);
    test_folder_remove(folder);
}

static bool
attempt(void *arg)
{
    struct test_places *places = arg;
    const struct advisor_prefix_moves_options options = options_of(places, 0, &all[1]);
    struct advisor_prefix_moves selection;
    struct kvt_error err;
    const enum kvt_err rc = advisor_prefix_moves_make(&selection, &options, &err);

    assert_true(rc == KVT_OK || rc == KVT_NOMEM);
    advisor_prefix_moves_release(&selection);
    return rc == KVT_OK;
}

static void
memory_that_fails_is_told(void **state)
{
    struct test_places *places = test_places_begin();

    (void)state;
    assert_true(attempt(places)); /* what is made once is there */
    assert_true(test_sweep_allocations(attempt, places) > 5);
    test_places_end(places);
}

static void
what_nobody_knows_is_not_found(void **state)
{
    struct test_places *places = test_places_begin();
    struct advisor_prefix_moves_options options = options_of(places, 0, &all[0]);
    struct advisor_prefix_moves selection;
    struct kvt_error err;

    (void)state;
    options.hash = 1;
    assert_int_equal(advisor_prefix_moves_make(&selection, &options, &err), KVT_NOTFOUND);
    advisor_prefix_moves_release(&selection);
    options = options_of(places, 0, &all[0]);
    options.namespace_ = "nobody";
    assert_int_equal(advisor_prefix_moves_make(&selection, &options, &err), KVT_NOTFOUND);
    advisor_prefix_moves_release(&selection);
    test_places_end(places);
}

/* One more than may be named at once. */
static void
too_many_are_refused(void **state)
{
    struct kvt_event *events = kvt_calloc(KVT_EVENTS_PER_BATCH_MAX, sizeof(*events));
    struct kvt_event_batch batch = {
        .namespace_ = "ns", .worker = "w", .incarnation = 1, .location_count = 1, .events = events};
    struct test_rig_options rig_options = {
        .index_bytes = UINT64_C(512) << 20, .volatile_places = true, .mode = ADVISOR_MODE_OFF};
    struct advisor_prefix_moves_options options = {
        .namespace_ = "ns", .hash = 1, .verb = KVT_ORDER_PIN};
    struct advisor_prefix_moves selection;
    struct test_rig rig;
    struct kvt_error err;
    char folder[256];
    uint64_t hash = 0;

    (void)state;
    assert_non_null(events);
    (void)test_folder_make(folder, sizeof(folder));
    rig_options.path = folder;
    test_rig_open(&rig, &rig_options);
    batch.locations[0].tier = KVT_TIER_G2;
    for (uint64_t seq = 1; hash <= ADVISOR_PREFIX_MOVES_BLOCKS_MAX; seq++) {
        batch.first_seq = hash + 1;
        batch.event_count = 0;
        while (hash <= ADVISOR_PREFIX_MOVES_BLOCKS_MAX &&
               batch.event_count < KVT_EVENTS_PER_BATCH_MAX) {
            hash++;
            events[batch.event_count++] = (struct kvt_event){.sequence_hash = hash,
                                                             .prefix_hash = 1,
                                                             .parent = hash > 1,
                                                             .block_size = 1,
                                                             .position = hash > 1,
                                                             .ranks = 1,
                                                             .type = KVT_EVENT_STORE};
        }
        test_rig_batch(&rig, seq, &batch);
        test_rig_run(&rig);
        options.finder = &rig.finder;
        options.planner = rig.planner;
        if (hash == ADVISOR_PREFIX_MOVES_BLOCKS_MAX + 1)
            break;
    }
    assert_int_equal(advisor_prefix_moves_make(&selection, &options, &err), KVT_RANGE);
    assert_non_null(strstr(err.text, "500000"));
    advisor_prefix_moves_release(&selection);
    options.hash = 2; /* one of its ends */
    assert_int_equal(advisor_prefix_moves_make(&selection, &options, &err), KVT_OK);
    assert_int_equal(selection.blocks, 1);
    advisor_prefix_moves_release(&selection);
    test_rig_close(&rig);
    test_folder_remove(folder);
    kvt_free(events);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(prefixes_are_what_hangs_on_them),
        cmocka_unit_test(memory_that_fails_is_told),
        cmocka_unit_test(what_nobody_knows_is_not_found),
        cmocka_unit_test(too_many_are_refused),
        cmocka_unit_test(a_tier_that_no_gateway_has_is_told),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
