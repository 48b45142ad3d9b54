/*
 * What is tested: advisor/round/round_workers.c, who is there by its events.
 * How: an engine over a rig tells a set of workers, with publishers of our own and of another
 * system.
 */
#include <stdio.h>
#include <string.h>

#include "advisor/publisher/publishers.h"
#include "advisor/source/source_private.h"
#include "base/core/alloc.h"

#include "router/workers.h"
#include "tests/support/seed.h"
#include "tests/unit/advisor/support/foreign_cluster.h"
#include "tests/unit/advisor/support/rig.h"

static const struct advisor_source_ops dynamo = {.name = "dynamo-test",
                                                 .dialect = WIRE_DIALECT_DYNAMO,
                                                 .open = test_rig_source_open,
                                                 .close = test_rig_source_close};

struct bed {
    char folder[256];
    struct test_rig_options options;
    struct test_rig rig;
    struct router_workers *workers;
    struct kvt_buffer bytes;
    uint64_t stream_seq;
};

static void
start(struct bed *bed)
{
    memset(bed, 0, sizeof(*bed));
    kvt_buffer_init(&bed->bytes, 1 << 20);
    assert_int_equal(router_workers_new(&bed->workers), KVT_OK);
    bed->options = (struct test_rig_options){.mode = ADVISOR_MODE_OFF,
                                             .foreign = &dynamo,
                                             .kept = true,
                                             .give_up_after_ms = 10000,
                                             .workers = bed->workers};
    bed->options.path = test_folder_make(bed->folder, sizeof(bed->folder));
    test_rig_open(&bed->rig, &bed->options);
}

/* The program ends and starts again; it knows of nobody but by what it kept. */
static void
restart(struct bed *bed)
{
    test_rig_close(&bed->rig);
    router_workers_free(bed->workers);
    assert_int_equal(router_workers_new(&bed->workers), KVT_OK);
    bed->options.workers = bed->workers;
    test_rig_open(&bed->rig, &bed->options);
}

static void
stop(struct bed *bed)
{
    test_rig_close(&bed->rig);
    router_workers_free(bed->workers);
    kvt_buffer_release(&bed->bytes);
    test_folder_remove(bed->folder);
}

/* "name/rank name/rank", who is there. */
static const char *
there(struct bed *bed)
{
    static char text[512];
    struct router_worker_row rows[16];
    size_t used = 0;
    size_t count;

    text[0] = '\0';
    router_workers_view(bed->workers, rows, 16, &count, NULL);
    for (size_t i = 0; i < count; i++)
        used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%s/%u", used > 0 ? " " : "",
                                 rows[i].worker.name, (unsigned)rows[i].worker.dp_rank);
    return text;
}

static uint32_t
life(struct bed *bed, const char *name)
{
    struct router_worker_row rows[8];
    size_t count;

    router_workers_view(bed->workers, rows, 8, &count, NULL);
    for (size_t i = 0; i < count && i < 8; i++)
        if (rows[i].worker.dp_rank == 0 && strcmp(rows[i].worker.name, name) == 0)
            return rows[i].life;
    fail_msg("%s is not there", name);
    return 0;
}

/* What a publisher of our own says. */
struct word {
    const char *worker;
    const char *namespace_; /* NULL: ns0 */
    const char *holder;     /* G4; else NULL */
    uint64_t incarnation;   /* 0: 1 */
    uint64_t seq;
    uint32_t dp_rank;
    enum kvt_tier tier;
    enum kvt_event_type type;
};

static void
say(struct bed *bed, const struct word *word)
{
    struct kvt_event event = {.type = (uint8_t)word->type,
                              .sequence_hash = 424242 + word->seq,
                              .block_size = 9,
                              .ranks = 1};
    struct kvt_event_batch batch = {
        .incarnation = word->incarnation == 0 ? 1 : word->incarnation,
        .first_seq = word->seq,
        .location_count = 1,
        .locations = {{.tier = word->tier == 0 ? KVT_TIER_G1 : word->tier,
                       .dp_rank = word->dp_rank}},
        .events = &event,
        .event_count = 1};

    (void)snprintf(batch.worker, sizeof(batch.worker), "%s", word->worker);
    (void)snprintf(batch.namespace_, sizeof(batch.namespace_), "%s",
                   word->namespace_ == NULL ? "ns0" : word->namespace_);
    if (word->holder != NULL)
        (void)snprintf(batch.locations[0].name, sizeof(batch.locations[0].name), "%s",
                       word->holder);
    test_rig_batch(&bed->rig, 0, &batch);
    test_rig_run(&bed->rig);
}

static void
store_foreign(struct bed *bed, uint64_t worker, uint32_t rank, uint64_t id)
{
    const struct test_router_head head = {
        .worker = worker, .rank = rank, .tier = KVT_TIER_G1, .id = id};
    const struct test_router_blocks blocks = {.count = 3};

    bed->bytes.size = 0;
    test_router_store(&bed->bytes, &head, &blocks);
    test_rig_foreign(&bed->rig, ++bed->stream_seq, UINT64_MAX, &bed->bytes);
    test_rig_run(&bed->rig);
}

static void
a_worker_is_there_from_its_first_place_to_its_bye(void **state)
{
    struct bed bed;

    (void)state;
    start(&bed);
    say(&bed, &(struct word){.worker = "w", .seq = 1, .type = KVT_EVENT_STORE});
    assert_string_equal(there(&bed), "w/0");
    say(&bed, &(struct word){.worker = "w", .seq = 2, .dp_rank = 3, .type = KVT_EVENT_STORE});
    say(&bed,
        &(struct word){.worker = "v", .seq = 1, .tier = KVT_TIER_G3, .type = KVT_EVENT_STORE});
    assert_string_equal(there(&bed), "v/0 w/0 w/3");
    say(&bed, &(struct word){.worker = "w", .seq = 3, .type = KVT_EVENT_CLEAR});
    assert_string_equal(there(&bed), "v/0 w/0 w/3"); /* an empty cache is no reason to go */
    say(&bed, &(struct word){.worker = "w", .seq = 4, .type = KVT_EVENT_BYE});
    assert_string_equal(there(&bed), "v/0");
    say(&bed, &(struct word){.worker = "w", .seq = 1, .incarnation = 2, .type = KVT_EVENT_STORE});
    assert_string_equal(there(&bed), "v/0 w/0 w/3");
    assert_int_equal(life(&bed, "w"), 2);
    stop(&bed);
}

static void
gateways_are_no_workers(void **state)
{
    struct bed bed;

    (void)state;
    start(&bed);
    say(&bed, &(struct word){.worker = "gw",
                             .holder = "hot@gw",
                             .seq = 1,
                             .tier = KVT_TIER_G4,
                             .type = KVT_EVENT_STORE});
    assert_string_equal(there(&bed), "");
    stop(&bed);
}

static void
another_life_is_another_worker(void **state)
{
    struct bed bed;

    (void)state;
    start(&bed);
    say(&bed, &(struct word){.worker = "w", .seq = 1, .type = KVT_EVENT_STORE});
    assert_int_equal(life(&bed, "w"), 1);
    say(&bed, &(struct word){.worker = "w", .seq = 2, .type = KVT_EVENT_STORE});
    assert_int_equal(life(&bed, "w"), 1);
    say(&bed, &(struct word){.worker = "w", .seq = 1, .incarnation = 2, .type = KVT_EVENT_STORE});
    assert_int_equal(life(&bed, "w"), 2);
    stop(&bed);
}

/* One that is ending goes on telling what it lets go of. */
static void
who_was_said_to_be_gone_does_not_come_back_with_the_next_event(void **state)
{
    struct bed bed;

    (void)state;
    start(&bed);
    say(&bed, &(struct word){.worker = "w", .seq = 1, .type = KVT_EVENT_STORE});
    router_workers_gone_name(bed.workers, "w");
    say(&bed, &(struct word){.worker = "w", .seq = 2, .type = KVT_EVENT_STORE});
    say(&bed, &(struct word){.worker = "w", .seq = 3, .type = KVT_EVENT_REMOVE});
    assert_string_equal(there(&bed), "");
    say(&bed, &(struct word){.worker = "w", .seq = 1, .incarnation = 2, .type = KVT_EVENT_STORE});
    assert_string_equal(there(&bed), "w/0");
    stop(&bed);
}

static void
a_worker_of_two_namespaces_leaves_with_the_last(void **state)
{
    struct bed bed;

    (void)state;
    start(&bed);
    say(&bed, &(struct word){.worker = "w", .seq = 1, .type = KVT_EVENT_STORE});
    say(&bed,
        &(struct word){.worker = "w", .namespace_ = "ns1", .seq = 1, .type = KVT_EVENT_STORE});
    say(&bed,
        &(struct word){
            .worker = "w", .namespace_ = "ns1", .seq = 2, .dp_rank = 1, .type = KVT_EVENT_STORE});
    assert_string_equal(there(&bed), "w/0 w/1");
    say(&bed, &(struct word){.worker = "w", .namespace_ = "ns1", .seq = 3, .type = KVT_EVENT_BYE});
    assert_string_equal(there(&bed), "w/0");
    assert_int_equal(life(&bed, "w"), 1);
    say(&bed, &(struct word){.worker = "w", .seq = 2, .type = KVT_EVENT_BYE});
    assert_string_equal(there(&bed), "");
    stop(&bed);
}

static void
other_systems_tell_workers_and_ranks_by_number(void **state)
{
    struct advisor_inbox_item *item;
    struct bed bed;

    (void)state;
    start(&bed);
    store_foreign(&bed, 7, 0, 0);
    store_foreign(&bed, 7, 2, 0);
    store_foreign(&bed, 8, 1, 0);
    assert_string_equal(there(&bed), "7/0 7/2 8/1");
    store_foreign(&bed, 7, 0, 5); /* events are missing: it is uncertain, and stays */
    assert_string_equal(there(&bed), "7/0 7/2 8/1");
    assert_int_equal(advisor_inbox_item_new(&item, ADVISOR_INBOX_ITEM_GONE, "", NULL, 0), KVT_OK);
    item->worker_id = 7; /* discovery says so */
    test_rig_foreign_item(&bed.rig, item);
    test_rig_run(&bed.rig);
    assert_string_equal(there(&bed), "8/1");
    stop(&bed);
}

static void
a_start_knows_who_was_there(void **state)
{
    struct bed bed;

    (void)state;
    start(&bed);
    say(&bed, &(struct word){.worker = "w", .seq = 1, .type = KVT_EVENT_STORE});
    say(&bed, &(struct word){.worker = "w", .seq = 2, .dp_rank = 1, .type = KVT_EVENT_STORE});
    say(&bed, &(struct word){.worker = "left", .seq = 1, .type = KVT_EVENT_STORE});
    say(&bed, &(struct word){.worker = "left", .seq = 2, .type = KVT_EVENT_BYE});
    say(&bed, &(struct word){.worker = "gw",
                             .holder = "gw",
                             .seq = 1,
                             .tier = KVT_TIER_G4,
                             .type = KVT_EVENT_STORE});
    store_foreign(&bed, 7, 2, 0);
    store_foreign(&bed, 7, 4, 0);
    say(&bed, &(struct word){.worker = "7", .seq = 1, .type = KVT_EVENT_STORE});
    restart(&bed);
    assert_string_equal(there(&bed), "7/0 7/2 7/4 w/0 w/1");
    say(&bed, &(struct word){.worker = "7", .seq = 2, .type = KVT_EVENT_BYE});
    assert_string_equal(there(&bed), "7/2 7/4 w/0 w/1"); /* the others are of one rank each */
    say(&bed, &(struct word){.worker = "w", .seq = 3, .type = KVT_EVENT_BYE});
    assert_string_equal(there(&bed), "7/2 7/4");
    stop(&bed);
}

/* The table of publishers is full: one that comes in the same round takes the place of one that
 * said goodbye in it. */
static void
who_left_and_lost_its_place_at_once_is_not_there(void **state)
{
    struct kvt_event event = {
        .type = KVT_EVENT_STORE, .sequence_hash = 7, .block_size = 9, .ranks = 1};
    struct kvt_event_batch batch = {.namespace_ = "ns0",
                                    .incarnation = 1,
                                    .first_seq = 1,
                                    .location_count = 1,
                                    .locations = {{.tier = KVT_TIER_G1}},
                                    .events = &event,
                                    .event_count = 1};
    size_t count;
    struct bed bed;

    (void)state;
    start(&bed);
    for (uint32_t i = 0; i < ADVISOR_PUBLISHERS_MAX; i++) {
        (void)snprintf(batch.worker, sizeof(batch.worker), "w%u", (unsigned)i);
        test_rig_batch(&bed.rig, 0, &batch);
        if (i % 2048 == 0)
            test_rig_run(&bed.rig);
    }
    test_rig_run(&bed.rig);
    event.type = KVT_EVENT_BYE;
    batch.first_seq = 2;
    test_rig_batch(&bed.rig, 0, &batch); /* of the last one */
    event.type = KVT_EVENT_STORE;
    batch.first_seq = 1;
    (void)snprintf(batch.worker, sizeof(batch.worker), "heir");
    test_rig_batch(&bed.rig, 0, &batch);
    test_rig_run(&bed.rig);
    assert_int_equal(life(&bed, "heir"), 2); /* in the slot of who left */
    router_workers_view(bed.workers, NULL, 0, &count, NULL);
    assert_int_equal(count, ADVISOR_PUBLISHERS_MAX);
    stop(&bed);
}

static void
without_a_router_nobody_is_told(void **state)
{
    struct bed bed;

    (void)state;
    start(&bed);
    test_rig_close(&bed.rig);
    bed.options.workers = NULL;
    test_rig_open(&bed.rig, &bed.options);
    say(&bed, &(struct word){.worker = "w", .seq = 1, .type = KVT_EVENT_STORE});
    assert_string_equal(there(&bed), "");
    stop(&bed);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_worker_is_there_from_its_first_place_to_its_bye),
        cmocka_unit_test(gateways_are_no_workers),
        cmocka_unit_test(another_life_is_another_worker),
        cmocka_unit_test(who_was_said_to_be_gone_does_not_come_back_with_the_next_event),
        cmocka_unit_test(a_worker_of_two_namespaces_leaves_with_the_last),
        cmocka_unit_test(other_systems_tell_workers_and_ranks_by_number),
        cmocka_unit_test(a_start_knows_who_was_there),
        cmocka_unit_test(who_left_and_lost_its_place_at_once_is_not_there),
        cmocka_unit_test(without_a_router_nobody_is_told),
    };

    return cmocka_run_group_tests_name("advisor/staff", tests, NULL, NULL);
}
