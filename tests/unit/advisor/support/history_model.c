#include "tests/unit/advisor/support/history_model.h"

#include <stdio.h>
#include <string.h>

#include "base/core/random.h"

#include "tests/support/seed.h"

enum { CHAIN = 15, RANKS_MAX = 3 };

void
test_model_init(struct test_model *model, uint64_t seed)
{
    memset(model, 0, sizeof(*model));
    model->seed = seed;
    model->random = seed;
    for (int p = 0; p < TEST_MODEL_PUBLISHERS; p++) {
        model->incarnation[p] = 100;
        model->next_seq[p] = 1;
    }
}

uint64_t
test_model_hash(const struct test_model *model, uint32_t block)
{
    uint64_t state = model->seed ^ (block * UINT64_C(0x9e37));

    return kvt_random_next(&state);
}

static struct kvt_event
event_of(const struct test_model *model, uint32_t block, uint16_t location)
{
    const uint32_t position = block % CHAIN;

    return (struct kvt_event){
        .sequence_hash = test_model_hash(model, block),
        .prefix_hash = test_model_hash(model, block - position),
        .parent = position == 0 ? 0 : test_model_hash(model, block - 1),
        .position = position,
        .block_size = 100 + block,
        .location = location,
    };
}

static void
start_batch(struct test_model *model, uint32_t p)
{
    struct kvt_event_batch *batch = &model->batch;

    *batch = (struct kvt_event_batch){
        .incarnation = model->incarnation[p],
        .first_seq = model->next_seq[p],
        .time_ms = 1000000 + model->step,
        .location_count = 2,
        .events = model->events,
    };
    /* The last one is a gateway: its tiers outlive it. */
    (void)snprintf(batch->worker, sizeof(batch->worker), "p%u", p);
    (void)snprintf(batch->namespace_, sizeof(batch->namespace_), "ns%u", p % 2);
    batch->locations[0].tier = p == TEST_MODEL_PUBLISHERS - 1 ? KVT_TIER_G4 : KVT_TIER_G2;
    batch->locations[1].tier = p == TEST_MODEL_PUBLISHERS - 1 ? KVT_TIER_G4 : KVT_TIER_G3;
    (void)snprintf(batch->locations[0].name, KVT_NAME_MAX, "hot@p%u", p);
    (void)snprintf(batch->locations[1].name, KVT_NAME_MAX, "cold@b");
}

static void
add_event(struct test_model *model, uint32_t p)
{
    const uint32_t block = (uint32_t)kvt_random_below(&model->random, TEST_MODEL_BLOCKS);
    const uint16_t location = (uint16_t)kvt_random_below(&model->random, 2);
    const uint32_t ranks = 1 + (uint32_t)kvt_random_below(&model->random, RANKS_MAX);
    struct kvt_event event = event_of(model, block, location);
    uint32_t *held = &model->held[p][location][block];

    event.ranks = ranks;
    switch (kvt_random_below(&model->random, 60)) {
    case 0:
        event = (struct kvt_event){.type = KVT_EVENT_CLEAR, .location = location, .ranks = 1};
        memset(model->held[p][location], 0, sizeof(model->held[p][location]));
        break;
    case 1 ... 20:
        event.type = KVT_EVENT_REMOVE;
        *held &= ~ranks;
        break;
    default:
        event.type = KVT_EVENT_STORE;
        *held |= ranks;
        break;
    }
    model->events[model->batch.event_count++] = event;
}

void
test_model_next(struct test_model *model)
{
    const uint32_t p = (uint32_t)kvt_random_below(&model->random, TEST_MODEL_PUBLISHERS);
    const bool gateway = p == TEST_MODEL_PUBLISHERS - 1;
    const uint32_t count = 1 + (uint32_t)kvt_random_below(&model->random, TEST_MODEL_EVENTS_MAX);

    model->step++;
    if (!gateway && kvt_random_below(&model->random, 40) == 0) {
        model->incarnation[p]++;
        model->next_seq[p] = 1;
        memset(model->held[p], 0, sizeof(model->held[p]));
    }
    start_batch(model, p);
    while (model->batch.event_count < count)
        add_event(model, p);
    model->next_seq[p] += count;
}

/* ---- comparing ---- */

struct check {
    const struct test_model *model;
    uint32_t seen[TEST_MODEL_PUBLISHERS][2][TEST_MODEL_BLOCKS];
    bool wrong;
};

static void
check_row(void *arg, const struct advisor_finder_row *row)
{
    struct check *check = arg;
    uint32_t location = row->holder.tier == KVT_TIER_G3 ? 1 : 0;
    uint32_t p = TEST_MODEL_PUBLISHERS - 1;

    if (row->holder.tier == KVT_TIER_G4)
        location = strcmp(row->holder.name, "cold@b") == 0 ? 1 : 0;
    else
        p = (uint32_t)(row->holder.name[1] - '0');
    for (uint32_t block = row->block.id.position; block < TEST_MODEL_BLOCKS; block += CHAIN)
        if (test_model_hash(check->model, block) == row->block.id.hash) {
            check->seen[p][location][block] = row->block.ranks;
            if (row->block.size != 100 + block || row->namespace_[2] != (char)('0' + p % 2)) {
                print_message("block %u of publisher %u has size %llu in namespace %s\n", block, p,
                              (unsigned long long)row->block.size, row->namespace_);
                check->wrong = true;
            }
            return;
        }
    print_message("%s has a block that nobody ever held\n", row->holder.name);
    check->wrong = true;
}

bool
test_model_same(const struct test_model *model, const struct advisor_finder *finder)
{
    struct check check = {.model = model};
    uint64_t cursor = 0;

    do
        assert_int_equal(advisor_finder_rows(finder, cursor, 100, &cursor, check_row, &check),
                         KVT_OK);
    while (cursor != 0);
    for (uint32_t p = 0; p < TEST_MODEL_PUBLISHERS; p++)
        for (uint32_t location = 0; location < 2; location++)
            for (uint32_t block = 0; block < TEST_MODEL_BLOCKS; block++)
                if (check.seen[p][location][block] != model->held[p][location][block]) {
                    print_message("after batch %llu: publisher %u location %u block %u has ranks "
                                  "%u, should have %u\n",
                                  (unsigned long long)model->step, p, location, block,
                                  check.seen[p][location][block], model->held[p][location][block]);
                    return false;
                }
    return !check.wrong;
}
