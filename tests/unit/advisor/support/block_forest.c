#include "tests/unit/advisor/support/block_forest.h"

#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/core/random.h"

#include "tests/support/seed.h"

const char *const test_places_spaces[3] = {"tenant", "tenant/model", "tenants"};

static const struct {
    const char *publisher;
    enum kvt_tier tier;
    const char *holder;
    int gateway;
} kinds[TEST_PLACE_COUNT] = {
    {"gw0", KVT_TIER_G4, "hot@gw0", 0},    {"gw1", KVT_TIER_G4, "hot@gw1", 1},
    {"gw0", KVT_TIER_G4, "warm@gw0", 0},   {"gw0", KVT_TIER_G4, "cold@a", 0},
    {"gw1", KVT_TIER_G4, "cold@b", 1},     {"gw1", KVT_TIER_G4, "cold@far", 1},
    {"gw0", KVT_TIER_G4, "cold@lost", -1}, {"w0", KVT_TIER_G2, "", -1},
};

int
test_place_gateway(unsigned place)
{
    return kinds[place].gateway;
}

static void
plant(struct test_places *places)
{
    unsigned roots = 0;

    for (unsigned i = 0; i < TEST_PLACES_BLOCKS; i++) {
        struct test_place_block *block = &places->blocks[i];

        block->parent = TEST_PLACES_BLOCKS;
        if (i > 0 && i <= TEST_PLACES_WIDE)
            block->parent = 0;
        else if (i > TEST_PLACES_WIDE + 3 && kvt_random_below(&places->random, 8) > 0)
            block->parent = (unsigned)kvt_random_below(&places->random, i);
        block->space = block->parent < TEST_PLACES_BLOCKS ? places->blocks[block->parent].space
                                                          : roots++ % 3; /* some of each */
        block->position =
            block->parent < TEST_PLACES_BLOCKS ? places->blocks[block->parent].position + 1 : 0;
        block->size = 1 + kvt_random_below(&places->random, 10000);
        for (unsigned place = 0; place < TEST_PLACE_COUNT; place++)
            if (kvt_random_below(&places->random, 4) == 0)
                block->ranks[place] = 1 + (uint32_t)kvt_random_below(&places->random, 15);
        if (i == 0)
            block->ranks[TEST_PLACE_G2] = 1;
    }
}

/* A batch for each place and namespace, parents first. */
static void
tell(struct test_places *places, unsigned place, unsigned space)
{
    struct kvt_event *events = kvt_calloc(TEST_PLACES_BLOCKS, sizeof(*events));
    struct kvt_event_batch batch = {.incarnation = 1,
                                    .first_seq = 1 + (uint64_t)place * TEST_PLACES_BLOCKS,
                                    .location_count = 1,
                                    .events = events};

    assert_non_null(events);
    (void)snprintf(batch.namespace_, sizeof(batch.namespace_), "%s", test_places_spaces[space]);
    if (kinds[place].tier == KVT_TIER_G4)
        (void)snprintf(batch.worker, sizeof(batch.worker), "gateway:%s:%u", kinds[place].publisher,
                       place * 100 + space);
    else
        (void)snprintf(batch.worker, sizeof(batch.worker), "%s-%u-%u", kinds[place].publisher,
                       place, space);
    batch.locations[0].tier = kinds[place].tier;
    (void)snprintf(batch.locations[0].name, sizeof(batch.locations[0].name), "%s",
                   kinds[place].holder);
    batch.first_seq = 1;
    for (unsigned i = 0; i < TEST_PLACES_BLOCKS; i++) {
        const struct test_place_block *block = &places->blocks[i];

        if (block->space != space || block->ranks[place] == 0)
            continue;
        events[batch.event_count++] = (struct kvt_event){
            .sequence_hash = test_place_hash(i),
            .prefix_hash = test_place_hash(i),
            .parent = block->parent < TEST_PLACES_BLOCKS ? test_place_hash(block->parent) : 0,
            .block_size = block->size,
            .position = block->position,
            .ranks = block->ranks[place],
            .type = KVT_EVENT_STORE};
    }
    if (batch.event_count > 0)
        test_rig_batch(&places->rig, ++places->sequence, &batch);
    kvt_free(events);
}

static void
report(struct test_places *places, unsigned gateway)
{
    struct kvt_report message = {.seq = 1,
                                 .incarnation = 1,
                                 .time_ms = kvt_clock_unix_ms(),
                                 .healthy = true,
                                 .tier_count = gateway == 0 ? 4 : 3};

    (void)snprintf(message.gateway, sizeof(message.gateway), "gw%u", gateway);
    (void)snprintf(message.tiers[0].name, sizeof(message.tiers[0].name), "hot@gw%u", gateway);
    (void)snprintf(message.tiers[1].name, sizeof(message.tiers[1].name), "cold@%s",
                   gateway == 0 ? "a" : "b");
    if (gateway == 0) /* as gateways do: behind the two that all have */
        (void)snprintf(message.tiers[2].name, sizeof(message.tiers[2].name), "warm@gw0");
    (void)snprintf(message.tiers[message.tier_count - 1].name, sizeof(message.tiers[0].name),
                   "cold@far");
    test_rig_report(&places->rig, gateway + 1, &message);
}

struct test_places *
test_places_begin(void)
{
    struct test_places *places = kvt_calloc(1, sizeof(*places));
    struct test_rig_options options = {.mode = ADVISOR_MODE_OBSERVE};

    assert_non_null(places);
    places->random = test_seed();
    (void)test_folder_make(places->folder, sizeof(places->folder));
    options.path = places->folder;
    test_rig_open(&places->rig, &options);
    /* The store's numbers of namespaces are others than those of the index. */
    assert_int_equal(index_namespace(places->rig.index, "nobody's", &(uint32_t){0}), KVT_OK);
    plant(places);
    for (unsigned place = 0; place < TEST_PLACE_COUNT; place++)
        for (unsigned space = 0; space < 3; space++)
            tell(places, place, space);
    report(places, 0);
    report(places, 1);
    test_rig_run(&places->rig);
    return places;
}

void
test_places_end(struct test_places *places)
{
    test_rig_close(&places->rig);
    test_folder_remove(places->folder);
    kvt_free(places);
}
