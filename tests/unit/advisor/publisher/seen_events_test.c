/*
 * What is tested: advisor/publisher/seen_events.h, numbers of a publisher that come twice.
 * How: a publisher's own batches and forged ones with the same numbers, given to the state machine
 * that follows it; dumps and heartbeats by hand.
 */
#include <stdio.h>

#include "advisor/publisher/foreign_publisher.h"
#include "advisor/publisher/own_publisher.h"

#include "tests/support/seed.h"

/* Events whose hashes are their numbers. */
static struct kvt_event all[128];

static struct kvt_event_batch
batch_of(uint64_t incarnation, uint64_t first_seq, uint32_t count)
{
    struct kvt_event_batch batch = {.incarnation = incarnation,
                                    .first_seq = first_seq,
                                    .event_count = count,
                                    .events = &all[first_seq % 64],
                                    .location_count = 1,
                                    .time_ms = 1000 + first_seq};

    for (uint64_t i = 0; i < 128; i++)
        all[i].sequence_hash = i % 64;
    (void)snprintf(batch.worker, sizeof(batch.worker), "w");
    return batch;
}

static struct kvt_event forged[ADVISOR_SEEN_EVENTS_MAX * 2];

static struct kvt_event_batch
forged_batch(uint64_t first_seq, uint32_t count)
{
    struct kvt_event_batch batch = batch_of(7, first_seq, count);

    for (size_t i = 0; i < ADVISOR_SEEN_EVENTS_MAX * 2; i++)
        forged[i].sequence_hash = 1000000 + i;
    batch.events = forged;
    return batch;
}

static void
apply(struct advisor_publisher *publisher, const struct kvt_event_batch *batch)
{
    assert_int_equal(advisor_publisher_see(publisher, batch, 0, 5).verdict, ADVISOR_SEE_APPLY);
    advisor_publisher_applied(publisher, batch, 0);
}

/* Answer the dump that is asked for, which ends at the number `last`. */
static void
dump_to(struct advisor_publisher *publisher, uint64_t last)
{
    const struct kvt_event_batch batch = batch_of(7, last, 2);
    const struct advisor_page page = {.status = KVT_OK, .batch = &batch};
    struct advisor_question question;
    struct advisor_page_step step;

    assert_true(advisor_publisher_uncertain(publisher));
    assert_true(advisor_publisher_question(publisher, 5, &question));
    assert_int_equal(question.what, ADVISOR_RESYNC_DUMP);
    advisor_publisher_asked(publisher, 2);
    step = advisor_publisher_answer(publisher, &page, 6);
    advisor_publisher_paged(publisher, &page, &step);
    assert_false(advisor_publisher_uncertain(publisher));
    assert_int_equal(publisher->row.last_seq, last);
}

static void
another_event_under_a_number_is_a_conflict(void **state)
{
    const struct kvt_event_batch first = batch_of(7, 1, 3);
    const struct kvt_event_batch forgery = forged_batch(4, 50);
    const struct kvt_event_batch own = batch_of(7, 4, 10);
    const struct kvt_event_batch over = batch_of(7, 50, 10);
    const struct kvt_event_batch next = batch_of(7, 14, 2);

    (void)state;
    for (int part = 0; part < 2; part++) {
        struct advisor_publisher publisher = {0};
        struct advisor_step step;

        apply(&publisher, &first);
        apply(&publisher, &forgery);
        step = advisor_publisher_see(&publisher, &forgery, 0, 5);
        assert_int_equal(step.duplicates, 50); /* the same again */
        assert_false(step.conflict || advisor_publisher_uncertain(&publisher));
        step = advisor_publisher_see(&publisher, part == 0 ? &own : &over, 0, 5);
        assert_true(step.conflict);
        assert_int_equal(step.duplicates, 0);
        assert_int_equal(step.verdict, part == 0 ? ADVISOR_SEE_DROP : ADVISOR_SEE_HOLD);
        assert_int_equal(publisher.seen.conflicts, 1);
        dump_to(&publisher, 13);
        /* What the dump told is not doubted again, and the next number follows it. */
        step = advisor_publisher_see(&publisher, &own, 0, 5);
        assert_int_equal(step.duplicates, 10);
        assert_false(advisor_publisher_uncertain(&publisher));
        apply(&publisher, &next);
        advisor_seen_events_release(&publisher.seen);
    }
}

static void
a_forged_bye_does_not_hide_the_conflict(void **state)
{
    const struct kvt_event_batch first = batch_of(7, 1, 3);
    const struct kvt_event_batch forgery = forged_batch(4, 1);
    const struct kvt_event_batch own = batch_of(7, 4, 1);
    struct advisor_publisher publisher = {0};

    (void)state;
    apply(&publisher, &first);
    apply(&publisher, &forgery);
    advisor_publisher_leave(&publisher);
    assert_true(advisor_publisher_see(&publisher, &own, 0, 5).conflict);
    assert_int_equal(publisher.row.gone, 0);
    dump_to(&publisher, 4);
    advisor_seen_events_release(&publisher.seen);
}

/* So many numbers were used that the first of them cannot be compared any more. */
static void
what_cannot_be_compared_is_asked_for(void **state)
{
    const struct kvt_event_batch first = batch_of(7, 1, 3);
    const struct kvt_event_batch forgery = forged_batch(4, ADVISOR_SEEN_EVENTS_MAX + 200);
    const struct kvt_event_batch own = batch_of(7, 4, 2);
    struct advisor_publisher publisher = {0};
    struct advisor_step step;

    (void)state;
    apply(&publisher, &first);
    apply(&publisher, &forgery);
    step = advisor_publisher_see(&publisher, &own, 0, 5);
    assert_true(step.unproven && !step.conflict);
    dump_to(&publisher, 5);
    advisor_seen_events_release(&publisher.seen);
}

/* An idle publisher says in its heartbeat that it has not sent what was applied. */
static void
a_publisher_that_denies_numbers_is_asked_for_all(void **state)
{
    const struct kvt_event_batch first = batch_of(7, 1, 3);
    const struct kvt_event_batch forgery = forged_batch(4, 5);
    const struct kvt_event_batch beat = batch_of(7, 4, 0);
    const struct advisor_page page = {.status = KVT_OK, .batch = &beat};
    struct advisor_publisher publisher = {0};
    struct advisor_question question;
    struct advisor_page_step step;

    (void)state;
    apply(&publisher, &first);
    apply(&publisher, &forgery);
    assert_true(advisor_publisher_see(&publisher, &beat, 0, 50000).behind);
    assert_true(advisor_publisher_question(&publisher, 50000, &question));
    assert_int_equal(question.what, ADVISOR_RESYNC_RANGE);
    advisor_publisher_asked(&publisher, 1);
    step = advisor_publisher_answer(&publisher, &page, 50001);
    assert_true(step.conflict);
    advisor_publisher_paged(&publisher, &page, &step);
    dump_to(&publisher, 3);
    advisor_seen_events_release(&publisher.seen);
}

/* ---- publishers of other systems ---- */

static enum advisor_verdict
hear(struct advisor_publisher *publisher, uint64_t number, uint64_t digest, bool *conflict)
{
    const struct advisor_mark mark = {.number = number, .life = 9, .digest = digest};
    const struct advisor_foreign_step step = advisor_foreign_see(publisher, &mark, 5);

    *conflict = step.conflict;
    if (step.verdict == ADVISOR_SEE_APPLY) {
        advisor_seen_events_add_digest(&publisher->seen, number, digest);
        advisor_foreign_applied(publisher, number, 1000);
    }
    return step.verdict;
}

/* One that numbers its events is asked for all; one that numbers messages cannot be. */
static void
another_system_has_conflicts_too(void **state)
{
    (void)state;
    for (uint32_t messages = 0; messages < 2; messages++) {
        struct advisor_publisher publisher = {.is_foreign = true,
                                              .foreign = {.messages = messages & 1}};
        bool conflict;

        for (uint64_t number = 1; number < 5; number++)
            assert_int_equal(hear(&publisher, number, number, &conflict), ADVISOR_SEE_APPLY);
        assert_int_equal(hear(&publisher, 4, 4, &conflict), ADVISOR_SEE_DROP);
        assert_false(conflict || advisor_publisher_doubtful(&publisher));
        assert_int_equal(hear(&publisher, 4, 77, &conflict), ADVISOR_SEE_DROP);
        assert_true(conflict && advisor_publisher_doubtful(&publisher));
        assert_int_equal(publisher.seen.conflicts, 1);
        assert_int_equal(publisher.foreign.lost, messages);
        assert_int_equal(publisher.row.need_dump, 1 - messages);
        advisor_seen_events_release(&publisher.seen);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(another_event_under_a_number_is_a_conflict),
        cmocka_unit_test(a_forged_bye_does_not_hide_the_conflict),
        cmocka_unit_test(what_cannot_be_compared_is_asked_for),
        cmocka_unit_test(a_publisher_that_denies_numbers_is_asked_for_all),
        cmocka_unit_test(another_system_has_conflicts_too),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
