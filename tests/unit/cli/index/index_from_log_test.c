/*
 * What is tested: cli/index/index_from_log.h.
 * How: messages of one or two publishers, and what is held after each.
 */
#include <stdio.h>
#include <string.h>

#include "base/core/buffer.h"
#include "cli/index/index_from_log.h"
#include "kvtier/event.h"
#include "wire/message/event_codec.h"

#include "tests/support/seed.h"

enum { EVENTS_MAX = 8 };

static const struct kvt_location places[] = {
    {.tier = KVT_TIER_G1, .dp_rank = 0},
    {.tier = KVT_TIER_G2, .dp_rank = 1},
    {.tier = KVT_TIER_G4, .name = "cold@b"},
};

static void
take(struct cli_index_from_log *log, const char *worker, uint64_t incarnation, uint64_t first_seq,
     const struct kvt_event *events, uint32_t count)
{
    struct kvt_event copy[EVENTS_MAX];
    struct kvt_event_batch batch = {.incarnation = incarnation,
                                    .first_seq = first_seq,
                                    .location_count = 3,
                                    .events = copy,
                                    .event_count = count};
    struct wire_recording message = {.dialect = "kvtier"};
    struct kvt_buffer bytes;

    memcpy(batch.locations, places, sizeof(places));
    if (count > 0)
        memcpy(copy, events, count * sizeof(*events));
    (void)snprintf(batch.worker, sizeof(batch.worker), "%s", worker);
    kvt_buffer_init(&bytes, WIRE_EVENT_BATCH_MAX);
    assert_int_equal(wire_event_encode(&batch, &bytes), KVT_OK);
    message.bytes = bytes.data;
    message.size = bytes.size;
    assert_int_equal(cli_index_from_log_take(log, &message), KVT_OK);
    kvt_buffer_release(&bytes);
}

static struct kvt_event
event_of(enum kvt_event_type type, uint64_t hash, uint16_t location, uint32_t ranks)
{
    return (struct kvt_event){.type = (uint8_t)type,
                              .sequence_hash = hash,
                              .location = location,
                              .ranks = ranks,
                              .position = 1};
}

static uint32_t
ranks_of(const struct cli_index_from_log *log, const char *worker, unsigned location, uint64_t hash)
{
    struct index_holder holder;

    memset(&holder, 0, sizeof(holder));
    holder.tier = places[location].tier;
    holder.dp_rank = places[location].dp_rank;
    (void)snprintf(holder.name, sizeof(holder.name), "%s",
                   holder.tier == KVT_TIER_G4 ? places[location].name : worker);
    return cli_index_from_log_ranks(log, "", &holder, hash);
}

static struct cli_index_from_log_counts
counts_of(const struct cli_index_from_log *log)
{
    struct cli_index_from_log_counts counts;

    cli_index_from_log_count(log, &counts);
    return counts;
}

static int
set_up(void **state)
{
    struct cli_index_from_log *log;

    assert_int_equal(cli_index_from_log_new(&log), KVT_OK);
    *state = log;
    return 0;
}

static int
tear_down(void **state)
{
    cli_index_from_log_free(*state);
    cli_index_from_log_free(NULL);
    return 0;
}

static void
shards_are_added_and_taken_away(void **state)
{
    struct cli_index_from_log *log = *state;
    const struct kvt_event first[] = {event_of(KVT_EVENT_STORE, 7, 0, 1),
                                      event_of(KVT_EVENT_STORE, 7, 0, 2),
                                      event_of(KVT_EVENT_STORE, 7, 1, 1)};
    const struct kvt_event then[] = {event_of(KVT_EVENT_REMOVE, 7, 0, 1),
                                     event_of(KVT_EVENT_REMOVE, 8, 0, 1),
                                     event_of(KVT_EVENT_REMOVE, 7, 1, 1)};

    take(log, "w", 1, 1, first, 3);
    assert_int_equal(ranks_of(log, "w", 0, 7), 3);
    assert_int_equal(ranks_of(log, "w", 1, 7), 1);
    assert_int_equal(ranks_of(log, "v", 0, 7), 0);
    take(log, "w", 1, 4, then, 3);
    assert_int_equal(ranks_of(log, "w", 0, 7), 2);
    assert_int_equal(ranks_of(log, "w", 1, 7), 0);
    assert_int_equal(counts_of(log).places, 1);
    assert_int_equal(counts_of(log).gaps, 0);
}

static void
what_was_said_before_changes_nothing(void **state)
{
    struct cli_index_from_log *log = *state;
    const struct kvt_event store = event_of(KVT_EVENT_STORE, 7, 0, 1);
    const struct kvt_event later[] = {event_of(KVT_EVENT_REMOVE, 7, 0, 1),
                                      event_of(KVT_EVENT_STORE, 9, 0, 1)};

    take(log, "w", 1, 1, &store, 1);
    take(log, "w", 1, 2, later, 1);
    take(log, "w", 1, 1, &store, 1); /* again */
    assert_int_equal(ranks_of(log, "w", 0, 7), 0);
    take(log, "w", 1, 2, later, 2); /* half of it new */
    assert_int_equal(ranks_of(log, "w", 0, 9), 1);
    assert_int_equal(counts_of(log).gaps, 0);
    take(log, "w", 1, 9, &store, 1);
    assert_int_equal(counts_of(log).gaps, 1);
}

static void
a_life_a_clear_and_a_bye_end_what_was_held(void **state)
{
    struct cli_index_from_log *log = *state;
    const struct kvt_event all[] = {event_of(KVT_EVENT_STORE, 7, 0, 1),
                                    event_of(KVT_EVENT_STORE, 7, 1, 1),
                                    event_of(KVT_EVENT_STORE, 7, 2, 1)};
    const struct kvt_event clear = event_of(KVT_EVENT_CLEAR, 0, 1, 1);
    const struct kvt_event clear_cold = event_of(KVT_EVENT_CLEAR, 0, 2, 1);
    const struct kvt_event bye = event_of(KVT_EVENT_BYE, 0, 0, 1);

    take(log, "v", 1, 1, all, 1);
    take(log, "w", 1, 1, all, 3);
    take(log, "w", 1, 4, &clear, 1);
    assert_int_equal(ranks_of(log, "w", 0, 7), 1);
    assert_int_equal(ranks_of(log, "w", 1, 7), 0);
    take(log, "w", 1, 5, &bye, 1);
    assert_int_equal(ranks_of(log, "w", 0, 7), 0);
    assert_int_equal(ranks_of(log, "w", 2, 7), 1); /* G4 outlives its reporter */
    take(log, "w", 2, 1, all, 2);
    take(log, "w", 1, 6, all, 3); /* of a life that is over */
    assert_int_equal(ranks_of(log, "w", 0, 7), 1);
    take(log, "w", 3, 1, NULL, 0); /* a new life that only says it is there */
    assert_int_equal(ranks_of(log, "w", 0, 7), 0);
    assert_int_equal(ranks_of(log, "w", 2, 7), 1);
    take(log, "v", 1, 2, &clear_cold, 1); /* what another reported stays */
    assert_int_equal(ranks_of(log, "w", 2, 7), 1);
    assert_int_equal(ranks_of(log, "v", 0, 7), 1);
    take(log, "w", 3, 1, &clear_cold, 1);
    assert_int_equal(ranks_of(log, "w", 2, 7), 0);
}

static void
what_it_cannot_read_is_counted(void **state)
{
    struct cli_index_from_log *log = *state;
    struct wire_recording message = {.dialect = "dynamo", .bytes = "{}", .size = 2};
    const struct kvt_event store = event_of(KVT_EVENT_STORE, 7, 0, 1);

    assert_int_equal(cli_index_from_log_take(log, &message), KVT_OK);
    (void)snprintf(message.dialect, sizeof(message.dialect), "kvtier");
    assert_int_equal(cli_index_from_log_take(log, &message), KVT_OK);
    assert_int_equal(counts_of(log).others, 2);
    assert_int_equal(counts_of(log).messages, 2);
    take(log, "late", 1, 5, &store, 1); /* its first ones are not in the log */
    assert_int_equal(counts_of(log).gaps, 1);
}

static void
it_grows(void **state)
{
    struct cli_index_from_log *log = *state;

    for (uint64_t i = 0; i < 5000; i++) {
        const struct kvt_event store = event_of(KVT_EVENT_STORE, i << 40, (uint16_t)(i % 3), 1);

        take(log, "w", 1, i + 1, &store, 1);
    }
    assert_int_equal(counts_of(log).places, 5000);
    for (uint64_t i = 0; i < 5000; i++)
        assert_int_equal(ranks_of(log, "w", (unsigned)(i % 3), i << 40), 1);
    assert_int_equal(ranks_of(log, "w", 1, 0), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(shards_are_added_and_taken_away),
        TEST(what_was_said_before_changes_nothing),
        TEST(a_life_a_clear_and_a_bye_end_what_was_held),
        TEST(what_it_cannot_read_is_counted),
        TEST(it_grows),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
