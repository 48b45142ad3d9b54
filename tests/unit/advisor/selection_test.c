/*
 * What is tested: advisor/selection.h: the blocks of a prefix and the gateways that are to move
 * them are those of the simple way over a table; order, limits, and memory that fails.
 */
#include <stdio.h>
#include <string.h>

#include "advisor/selection.h"
#include "base/alloc.h"

#include "tests/support/seed.h"
#include "tests/unit/advisor/places.h"

static const enum kvt_order_verb verbs[] = {KVT_ORDER_PIN, KVT_ORDER_UNPIN, KVT_ORDER_WARM,
                                            KVT_ORDER_DELETE};

enum { VERBS = sizeof(verbs) / sizeof(verbs[0]) };

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

static bool
moves_at(const struct test_place_block *block, enum kvt_order_verb verb, int gateway,
         uint32_t *ranks)
{
    const bool hot = block->ranks[TEST_PLACE_HOT0] != 0 || block->ranks[TEST_PLACE_HOT1] != 0;
    bool here = false;

    *ranks = 0;
    if (verb == KVT_ORDER_WARM && hot)
        return false;
    for (unsigned place = 0; place <= TEST_PLACE_COLD1; place++) {
        const bool cold = place >= TEST_PLACE_COLD0;

        if (block->ranks[place] == 0 || (verb == KVT_ORDER_PIN && hot && cold))
            continue;
        *ranks |= block->ranks[place];
        here = here || test_place_gateway(place) == gateway;
    }
    return here;
}

/* ---- the answer ---- */

static size_t
position_of(const struct advisor_selection_part *part, uint64_t hash)
{
    size_t at = part->count;

    for (size_t i = 0; i < part->count; i++)
        if (part->items[i].block.hash == hash) {
            assert_int_equal(at, part->count); /* once */
            at = i;
        }
    return at;
}

static const struct advisor_selection_part *
part_of(const struct advisor_selection *selection, int gateway)
{
    static const struct advisor_selection_part none;
    char name[KVT_NAME_MAX];

    (void)snprintf(name, sizeof(name), "gw%d", gateway);
    for (size_t i = 0; i < selection->part_count; i++)
        if (strcmp(selection->parts[i].gateway, name) == 0)
            return &selection->parts[i];
    return &none;
}

static void
expect_part(const struct test_places *places, unsigned root, enum kvt_order_verb verb,
            const struct advisor_selection *selection, int gateway)
{
    const struct advisor_selection_part *part = part_of(selection, gateway);
    size_t count = 0;
    uint64_t bytes = 0;

    for (unsigned i = 0; i < TEST_PLACES_BLOCKS; i++) {
        const struct test_place_block *block = &places->blocks[i];
        const size_t at = position_of(part, test_place_hash(i));
        uint32_t ranks;
        size_t parent;

        if (!hangs_on(places, i, root) || !moves_at(block, verb, gateway, &ranks)) {
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
            assert_true(verb == KVT_ORDER_DELETE ? at < parent : at > parent);
    }
    assert_int_equal(part->count, count);
    assert_int_equal(part->bytes, bytes);
}

static struct advisor_selection_options
options_of(struct test_places *places, unsigned root, enum kvt_order_verb verb)
{
    return (struct advisor_selection_options){.finder = &places->rig.finder,
                                              .planner = places->rig.planner,
                                              .namespace_ =
                                                  test_places_spaces[places->blocks[root].space],
                                              .hash = test_place_hash(root),
                                              .verb = verb};
}

static void
prefixes_are_what_hangs_on_them(void **state)
{
    struct test_places *places = test_places_begin();

    (void)state;
    for (unsigned root = 0; root < TEST_PLACES_BLOCKS; root++)
        for (size_t v = 0; v < VERBS; v++) {
            const struct advisor_selection_options options = options_of(places, root, verbs[v]);
            struct advisor_selection selection;
            struct kvt_error err;
            const enum kvt_err rc = advisor_selection_make(&selection, &options, &err);
            uint64_t blocks = 0;
            uint64_t chosen = 0;
            uint64_t elsewhere = 0;

            if (!is_known(&places->blocks[root])) {
                assert_int_equal(rc, KVT_NOTFOUND);
                advisor_selection_release(&selection);
                continue;
            }
            assert_int_equal(rc, KVT_OK);
            for (unsigned i = 0; i < TEST_PLACES_BLOCKS; i++) {
                const struct test_place_block *block = &places->blocks[i];
                bool reported = false;
                uint32_t ranks;

                if (!hangs_on(places, i, root) || !is_known(block))
                    continue;
                for (unsigned place = 0; place <= TEST_PLACE_COLD1; place++)
                    reported = reported || block->ranks[place] != 0;
                blocks++;
                elsewhere += !reported;
                chosen +=
                    moves_at(block, verbs[v], 0, &ranks) || moves_at(block, verbs[v], 1, &ranks);
            }
            assert_int_equal(selection.blocks, blocks);
            assert_int_equal(selection.chosen, chosen);
            assert_int_equal(selection.elsewhere, elsewhere);
            for (int gateway = 0; gateway < 2; gateway++)
                expect_part(places, root, verbs[v], &selection, gateway);
            advisor_selection_release(&selection);
        }
    test_places_end(places);
}

static bool
attempt(void *arg)
{
    struct test_places *places = arg;
    const struct advisor_selection_options options = options_of(places, 0, KVT_ORDER_UNPIN);
    struct advisor_selection selection;
    struct kvt_error err;
    const enum kvt_err rc = advisor_selection_make(&selection, &options, &err);

    assert_true(rc == KVT_OK || rc == KVT_NOMEM);
    advisor_selection_release(&selection);
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
    struct advisor_selection_options options = options_of(places, 0, KVT_ORDER_PIN);
    struct advisor_selection selection;
    struct kvt_error err;

    (void)state;
    options.hash = 1;
    assert_int_equal(advisor_selection_make(&selection, &options, &err), KVT_NOTFOUND);
    advisor_selection_release(&selection);
    options = options_of(places, 0, KVT_ORDER_PIN);
    options.namespace_ = "nobody";
    assert_int_equal(advisor_selection_make(&selection, &options, &err), KVT_NOTFOUND);
    advisor_selection_release(&selection);
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
    struct advisor_selection_options options = {
        .namespace_ = "ns", .hash = 1, .verb = KVT_ORDER_PIN};
    struct advisor_selection selection;
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
    for (uint64_t seq = 1; hash <= ADVISOR_SELECTION_BLOCKS_MAX; seq++) {
        batch.first_seq = hash + 1;
        batch.event_count = 0;
        while (hash <= ADVISOR_SELECTION_BLOCKS_MAX &&
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
        if (hash == ADVISOR_SELECTION_BLOCKS_MAX + 1)
            break;
    }
    assert_int_equal(advisor_selection_make(&selection, &options, &err), KVT_RANGE);
    assert_non_null(strstr(err.text, "500000"));
    advisor_selection_release(&selection);
    options.hash = 2; /* one of its ends */
    assert_int_equal(advisor_selection_make(&selection, &options, &err), KVT_OK);
    assert_int_equal(selection.blocks, 1);
    advisor_selection_release(&selection);
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
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
