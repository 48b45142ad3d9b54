/*
 * What is tested: advisor/publisher/own_publisher.h, the state machine that follows one publisher.
 * How: tables of what arrives and what must come of it; no network, no store, time by hand.
 */
#include <stdio.h>
#include <string.h>

#include "advisor/publisher/own_publisher.h"

#include "tests/support/seed.h"
#include "tests/unit/advisor/support/stack_publisher.h"

/* One arrival and its expected verdict. */
struct arrival {
    const char *what;
    uint64_t incarnation;
    uint64_t first_seq;
    uint32_t count; /* 0: heartbeat */
    enum advisor_verdict verdict;
    uint32_t skip;
    uint32_t duplicates;
    bool gap;
    bool replaced;
    uint64_t last_seq; /* afterwards */
    bool uncertain;    /* afterwards */
};

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

static void
arrive(struct advisor_publisher *publisher, const struct arrival *arrival)
{
    const struct kvt_event_batch batch =
        batch_of(arrival->incarnation, arrival->first_seq, arrival->count);
    const struct advisor_step step = advisor_publisher_see(publisher, &batch, 0, 5);

    if (step.verdict == ADVISOR_SEE_APPLY)
        advisor_publisher_applied(publisher, &batch, 0);
    if (step.verdict != arrival->verdict || step.skip != arrival->skip ||
        step.duplicates != arrival->duplicates || step.gap != arrival->gap ||
        step.replaced != arrival->replaced || publisher->row.last_seq != arrival->last_seq ||
        advisor_publisher_uncertain(publisher) != arrival->uncertain)
        fail_msg("%s: verdict %d skip %u duplicates %u gap %d replaced %d last %llu uncertain %d",
                 arrival->what, (int)step.verdict, step.skip, step.duplicates, step.gap,
                 step.replaced, (unsigned long long)publisher->row.last_seq,
                 advisor_publisher_uncertain(publisher));
}

static void
run_table(struct advisor_publisher *publisher, const struct arrival *table, size_t count)
{
    for (size_t i = 0; i < count; i++)
        arrive(publisher, &table[i]);
}

#define RUN(publisher, table) run_table(publisher, table, sizeof(table) / sizeof((table)[0]))

static void
in_order(void **state)
{
    static const struct arrival table[] = {
        {"first", 7, 1, 3, ADVISOR_SEE_APPLY, 0, 0, false, false, 3, false},
        {"next", 7, 4, 2, ADVISOR_SEE_APPLY, 0, 0, false, false, 5, false},
        {"same again", 7, 4, 2, ADVISOR_SEE_DROP, 0, 2, false, false, 5, false},
        {"overlap", 7, 2, 6, ADVISOR_SEE_APPLY, 4, 4, false, false, 7, false},
        {"old", 7, 1, 1, ADVISOR_SEE_DROP, 0, 1, false, false, 7, false},
        {"heartbeat", 7, 8, 0, ADVISOR_SEE_DROP, 0, 0, false, false, 7, false},
        {"earlier life", 6, 8, 2, ADVISOR_SEE_DROP, 0, 2, false, false, 7, true},
    };
    STACK_PUBLISHER publisher = {0};

    (void)state;
    RUN(&publisher, table);
}

static void
gap_holds_and_range_fills(void **state)
{
    static const struct arrival table[] = {
        {"first", 7, 1, 3, ADVISOR_SEE_APPLY, 0, 0, false, false, 3, false},
        {"gap", 7, 6, 2, ADVISOR_SEE_HOLD, 0, 0, true, false, 3, true},
        {"behind the gap", 7, 8, 2, ADVISOR_SEE_HOLD, 0, 0, false, false, 3, true},
        {"heartbeat meanwhile", 7, 10, 0, ADVISOR_SEE_DROP, 0, 0, false, false, 3, true},
    };
    STACK_PUBLISHER publisher = {0};
    struct kvt_event_batch filler = batch_of(7, 3, 3);
    struct advisor_page page = {.status = KVT_OK, .batch = &filler};
    struct advisor_question question;
    struct advisor_page_step step;

    (void)state;
    RUN(&publisher, table);
    assert_true(advisor_publisher_question(&publisher, 5, &question));
    assert_int_equal(question.what, ADVISOR_RESYNC_RANGE);
    assert_int_equal(question.incarnation, 7);
    assert_int_equal(question.from, 4);
    assert_int_equal(question.to, 5);
    advisor_publisher_asked(&publisher, 1);
    assert_false(advisor_publisher_question(&publisher, 5, &question));
    step = advisor_publisher_answer(&publisher, &page, 6);
    assert_true(step.apply);
    assert_true(step.finished);
    assert_int_equal(step.skip, 1); /* it began one event early */
    advisor_publisher_paged(&publisher, &page, &step);
    assert_int_equal(publisher.row.last_seq, 5);
    assert_false(advisor_publisher_uncertain(&publisher));
    assert_int_equal(publisher.row.gaps, 1);
    assert_int_equal(publisher.row.resyncs, 1);
}

/* Asked for what comes before a message, the publisher has nothing: once it may have crossed, twice
 * it is a lie, and dropped; but the next one is asked for again. */
static void
numbers_from_far_ahead_are_not_waited_for(void **state)
{
    static const struct arrival first = {"first", 7,     1, 3,    ADVISOR_SEE_APPLY, 0, 0,
                                         false,   false, 3, false};
    static const struct arrival next = {"next", 7,     4, 1,    ADVISOR_SEE_APPLY, 0, 0,
                                        false,  false, 4, false};
    const struct kvt_event_batch far = batch_of(7, UINT64_C(1) << 60, 1);
    STACK_PUBLISHER publisher = {0};
    struct kvt_event_batch nothing = batch_of(7, 4, 0);
    const struct advisor_page page = {.status = KVT_OK, .batch = &nothing};
    struct advisor_question question;
    struct advisor_page_step denied;
    struct advisor_step step;

    (void)state;
    arrive(&publisher, &first);
    for (uint64_t turn = 0; turn < 3; turn++) {
        for (uint64_t ask = 1; ask <= 2; ask++) {
            step = advisor_publisher_see(&publisher, &far, 0, 5);
            assert_int_equal(step.verdict, ADVISOR_SEE_HOLD);
            assert_true(step.gap);
            assert_true(advisor_publisher_question(&publisher, 5, &question));
            advisor_publisher_asked(&publisher, ask);
            denied = advisor_publisher_answer(&publisher, &page, 6);
            assert_true(denied.finished);
            advisor_publisher_paged(&publisher, &page, &denied);
        }
        step = advisor_publisher_see(&publisher, &far, 0, 5);
        assert_int_equal(step.verdict, ADVISOR_SEE_DROP);
        assert_true(step.lie);
        assert_false(advisor_publisher_uncertain(&publisher));
    }
    arrive(&publisher, &next);
}

static void
heartbeat_reveals_a_lost_tail(void **state)
{
    static const struct arrival table[] = {
        {"first", 7, 1, 3, ADVISOR_SEE_APPLY, 0, 0, false, false, 3, false},
        {"heartbeat", 7, 6, 0, ADVISOR_SEE_DROP, 0, 0, true, false, 3, true},
    };
    STACK_PUBLISHER publisher = {0};
    struct advisor_question question;

    (void)state;
    RUN(&publisher, table);
    assert_true(advisor_publisher_question(&publisher, 5, &question));
    assert_int_equal(question.from, 4);
    assert_int_equal(question.to, 5);
}

/* A dump of two pages, whose snapshot is the first page's. */
static void
dump_replaces_at(struct advisor_publisher *publisher, uint64_t now_ms)
{
    struct kvt_event_batch batch = batch_of(7, 40, 2);
    struct advisor_page page = {.status = KVT_OK, .next_cursor = 2, .batch = &batch};
    const uint32_t gen = publisher->row.gen;
    struct advisor_question question;
    struct advisor_page_step step;

    assert_true(advisor_publisher_question(publisher, now_ms, &question));
    assert_int_equal(question.what, ADVISOR_RESYNC_DUMP);
    assert_int_equal(question.cursor, 0);
    advisor_publisher_asked(publisher, 2);
    step = advisor_publisher_answer(publisher, &page, now_ms);
    assert_true(step.fresh && step.apply && !step.sweep && !step.finished);
    assert_int_equal(publisher->row.gen, gen + 1);
    advisor_publisher_paged(publisher, &page, &step);
    assert_true(advisor_publisher_question(publisher, now_ms, &question));
    assert_int_equal(question.cursor, 2);
    advisor_publisher_asked(publisher, 3);
    batch.first_seq = 45;
    page.next_cursor = 0;
    step = advisor_publisher_answer(publisher, &page, now_ms);
    assert_true(!step.fresh && step.apply && step.sweep && step.finished);
    advisor_publisher_paged(publisher, &page, &step);
    assert_int_equal(publisher->row.last_seq, 40);
    assert_int_equal(publisher->row.need_dump, 0);
    assert_false(advisor_publisher_uncertain(publisher));
}

static void
dump_replaces(struct advisor_publisher *publisher)
{
    dump_replaces_at(publisher, 5);
}

static void
met_in_the_middle(void **state)
{
    static const struct arrival batch = {"discovery", 7,     30, 3,   ADVISOR_SEE_HOLD, 0, 0,
                                         false,       false, 0,  true};
    static const struct arrival beat = {
        "discovery by heartbeat", 7, 30, 0, ADVISOR_SEE_DROP, 0, 0, false, false, 0, true};
    static const struct arrival idle = {
        "a fresh worker's heartbeat", 7, 1, 0, ADVISOR_SEE_DROP, 0, 0, false, false, 0, false};
    struct advisor_publisher publishers[3] = {{.asked = false}};

    (void)state;
    arrive(&publishers[0], &batch);
    dump_replaces(&publishers[0]);
    arrive(&publishers[1], &beat);
    dump_replaces(&publishers[1]);
    arrive(&publishers[2], &idle);
    for (size_t i = 0; i < 3; i++)
        stack_publisher_release(&publishers[i]);
}

static void
range_gives_up_for_dump(void **state)
{
    const struct kvt_event_batch other = batch_of(9, 4, 2);
    const struct kvt_event_batch later = batch_of(7, 5, 2);
    const struct advisor_page answers[] = {
        {.status = KVT_NOTFOUND},            /* the ring no longer has it */
        {.status = KVT_OK, .batch = &other}, /* another life answered */
        {.status = KVT_OK, .batch = &later}, /* it begins behind what is missing */
    };

    (void)state;
    for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++) {
        static const struct arrival table[] = {
            {"first", 7, 1, 3, ADVISOR_SEE_APPLY, 0, 0, false, false, 3, false},
            {"gap", 7, 6, 2, ADVISOR_SEE_HOLD, 0, 0, true, false, 3, true},
        };
        STACK_PUBLISHER publisher = {0};
        struct advisor_page_step step;

        RUN(&publisher, table);
        advisor_publisher_asked(&publisher, 1);
        step = advisor_publisher_answer(&publisher, &answers[i], 6);
        assert_false(step.apply || step.finished);
        advisor_publisher_paged(&publisher, &answers[i], &step);
        dump_replaces(&publisher);
    }
}

static void
newer_life_replaces(void **state)
{
    static const struct arrival table[] = {
        {"first", 7, 1, 3, ADVISOR_SEE_APPLY, 0, 0, false, false, 3, false},
        {"next life", 8, 1, 2, ADVISOR_SEE_APPLY, 0, 0, false, true, 2, false},
        {"former life", 7, 4, 2, ADVISOR_SEE_DROP, 0, 2, false, false, 2, true},
        {"another, met late", 9, 5, 1, ADVISOR_SEE_HOLD, 0, 0, false, true, 0, true},
    };
    STACK_PUBLISHER publisher = {0};
    STACK_PUBLISHER gateway = {0};
    static const struct arrival forgot = {
        "a gateway that forgot", 8, 1, 1, ADVISOR_SEE_HOLD, 0, 0, false, true, 0, true};

    (void)state;
    RUN(&publisher, table);
    assert_int_equal(publisher.row.gen, 3); /* once a life: the older ones' places can be told */
    arrive(&gateway, &table[0]);
    gateway.row.holds_g4 = 1;
    arrive(&gateway, &forgot);
}

static void
unknown_kinds_keep_their_numbers(void **state)
{
    const struct kvt_event_batch batch = batch_of(7, 1, 2);
    const struct kvt_event_batch next = batch_of(7, 4, 1);
    const struct kvt_event_batch overlap = batch_of(7, 4, 1);
    STACK_PUBLISHER publisher = {0};

    (void)state;
    assert_int_equal(advisor_publisher_see(&publisher, &batch, 1, 5).verdict, ADVISOR_SEE_APPLY);
    advisor_publisher_applied(&publisher, &batch, 1);
    assert_int_equal(publisher.row.last_seq, 3);
    assert_int_equal(advisor_publisher_see(&publisher, &next, 0, 5).verdict, ADVISOR_SEE_APPLY);
    advisor_publisher_applied(&publisher, &next, 0);
    /* Seen in part, with one left out: which one cannot be known, so everything is asked for. */
    assert_int_equal(advisor_publisher_see(&publisher, &overlap, 1, 5).verdict, ADVISOR_SEE_HOLD);
    assert_int_equal(publisher.resync, ADVISOR_RESYNC_DUMP);
}

static void
silence(void **state)
{
    static const struct arrival first = {"first", 7,     1, 3,    ADVISOR_SEE_APPLY, 0, 0,
                                         false,   false, 3, false};
    static const struct arrival back = {
        "back from the dead", 7, 4, 1, ADVISOR_SEE_HOLD, 0, 0, false, false, 3, true};
    STACK_PUBLISHER publisher = {0};
    struct advisor_question question;

    (void)state;
    arrive(&publisher, &first); /* heard at 5 */
    assert_int_equal(advisor_publisher_age(&publisher, 1004, 1000, 3000), ADVISOR_AGE_FRESH);
    assert_int_equal(advisor_publisher_age(&publisher, 1005, 1000, 3000), ADVISOR_AGE_SILENT);
    assert_int_equal(advisor_publisher_age(&publisher, 1500, 1000, 3000), ADVISOR_AGE_FRESH);
    assert_false(advisor_publisher_question(&publisher, 1500, &question));
    /* Silent for long: asked first, and taken for gone only when it does not answer. */
    assert_int_equal(advisor_publisher_age(&publisher, 3005, 1000, 3000), ADVISOR_AGE_FRESH);
    assert_true(advisor_publisher_question(&publisher, 3005, &question));
    advisor_publisher_asked(&publisher, 1);
    assert_int_equal(advisor_publisher_age(&publisher, 3500, 1000, 3000), ADVISOR_AGE_FRESH);
    advisor_publisher_unanswered(&publisher, "nobody there", 3600);
    assert_int_equal(advisor_publisher_age(&publisher, 3601, 1000, 3000), ADVISOR_AGE_GONE);
    assert_int_equal(publisher.row.gone, 1);
    assert_false(advisor_publisher_uncertain(&publisher));
    assert_false(advisor_publisher_question(&publisher, 9000, &question));
    assert_int_equal(advisor_publisher_age(&publisher, 9000, 1000, 3000), ADVISOR_AGE_FRESH);
    /* A repeated old message does not bring it back; a new one does, and it must tell all. */
    {
        static const struct arrival again = {"a repeat", 7,     1, 3,    ADVISOR_SEE_DROP, 0, 3,
                                             false,      false, 3, false};

        arrive(&publisher, &again);
        assert_int_equal(publisher.row.gone, 1);
    }
    arrive(&publisher, &back);
    dump_replaces(&publisher);
}

static void
silent_but_answering_is_not_gone(void **state)
{
    static const struct arrival first = {"first", 7,     1, 3,    ADVISOR_SEE_APPLY, 0, 0,
                                         false,   false, 3, false};
    const struct kvt_event_batch nothing = batch_of(7, 4, 0);
    const struct advisor_page page = {.status = KVT_OK, .batch = &nothing};
    STACK_PUBLISHER publisher = {0};
    struct advisor_page_step step;

    (void)state;
    arrive(&publisher, &first);
    (void)advisor_publisher_age(&publisher, 3005, 1000, 3000);
    advisor_publisher_asked(&publisher, 1);
    step = advisor_publisher_answer(&publisher, &page, 3100);
    assert_true(step.finished && !step.apply);
    advisor_publisher_paged(&publisher, &page, &step);
    assert_false(advisor_publisher_uncertain(&publisher));
    assert_int_equal(advisor_publisher_age(&publisher, 4000, 1000, 3000), ADVISOR_AGE_FRESH);
}

static void
retries_back_off(void **state)
{
    static const struct arrival table[] = {
        {"first", 7, 1, 3, ADVISOR_SEE_APPLY, 0, 0, false, false, 3, false},
        {"gap", 7, 6, 2, ADVISOR_SEE_HOLD, 0, 0, true, false, 3, true},
    };
    STACK_PUBLISHER publisher = {0};
    struct advisor_question question;
    uint64_t now_ms = 10;
    uint64_t wait_ms = ADVISOR_RETRY_MIN_MS;

    (void)state;
    RUN(&publisher, table);
    for (int i = 0; i < 8; i++) {
        assert_true(advisor_publisher_question(&publisher, now_ms, &question));
        advisor_publisher_asked(&publisher, 1);
        advisor_publisher_unanswered(&publisher, "deadline passed", now_ms);
        assert_false(advisor_publisher_question(&publisher, now_ms + wait_ms - 1, &question));
        now_ms += wait_ms;
        wait_ms = wait_ms * 2 > ADVISOR_RETRY_MAX_MS ? ADVISOR_RETRY_MAX_MS : wait_ms * 2;
    }
    assert_string_equal(publisher.error, "deadline passed");
}

/* A dump that breaks off is asked for again, but never without a pause. */
static void
broken_dumps_back_off(void **state)
{
    static const struct arrival late = {"met late", 7,     30, 3,   ADVISOR_SEE_HOLD, 0, 0,
                                        false,      false, 0,  true};
    const struct kvt_event_batch nobody = batch_of(0, 1, 0);
    const struct kvt_event_batch first = batch_of(7, 40, 2);
    const struct kvt_event_batch second = batch_of(8, 1, 1);
    const struct advisor_page broken[] = {
        {.status = KVT_NOTFOUND},
        {.status = KVT_OK, .batch = &nobody},
    };
    const struct advisor_page mixed[] = {
        {.status = KVT_OK, .next_cursor = 2, .batch = &first},
        {.status = KVT_OK, .batch = &second},
    };
    STACK_PUBLISHER publisher = {0};
    struct advisor_question question;
    struct advisor_page_step step;
    uint64_t now_ms = 10;
    uint64_t wait_ms = ADVISOR_RETRY_MIN_MS;

    (void)state;
    arrive(&publisher, &late);
    for (int i = 0; i < 8; i++) {
        const bool two = i % 4 >= 2; /* two lives answer in turn: each begins, none goes on */
        const struct advisor_page *page = two ? &mixed[0] : &broken[i % 2];

        assert_true(advisor_publisher_question(&publisher, now_ms, &question));
        assert_int_equal(question.cursor, 0);
        advisor_publisher_asked(&publisher, 1);
        step = advisor_publisher_answer(&publisher, page, now_ms);
        assert_int_equal(step.apply, two);
        advisor_publisher_paged(&publisher, page, &step);
        if (two) {
            assert_true(advisor_publisher_question(&publisher, now_ms, &question));
            advisor_publisher_asked(&publisher, 2);
            step = advisor_publisher_answer(&publisher, &mixed[1], now_ms);
            assert_false(step.apply);
            advisor_publisher_paged(&publisher, &mixed[1], &step);
        }
        assert_false(advisor_publisher_question(&publisher, now_ms + wait_ms - 1, &question));
        now_ms += wait_ms;
        wait_ms = wait_ms * 2 > ADVISOR_RETRY_MAX_MS ? ADVISOR_RETRY_MAX_MS : wait_ms * 2;
    }
    dump_replaces_at(&publisher, now_ms);
}

/* At a limit every message would be refused, and a dump asked for each. */
static void
refusals_are_asked_for_with_a_pause(void **state)
{
    static const struct arrival first = {"first", 7,     1, 3,    ADVISOR_SEE_APPLY, 0, 0,
                                         false,   false, 3, false};
    STACK_PUBLISHER publisher = {0};
    struct advisor_question question;

    (void)state;
    arrive(&publisher, &first);
    for (uint64_t now_ms = 1000; now_ms <= 30000; now_ms += 29000) {
        advisor_publisher_refused(&publisher, now_ms);
        assert_true(advisor_publisher_uncertain(&publisher));
        assert_false(
            advisor_publisher_question(&publisher, now_ms + ADVISOR_RETRY_MAX_MS - 1, &question));
        dump_replaces_at(&publisher, now_ms + ADVISOR_RETRY_MAX_MS);
    }
}

/* The clock stepped back over a restart: the lower life is the one that answers. */
static void
who_answers_lives(void **state)
{
    static const struct arrival table[] = {
        {"first", 7, 1, 3, ADVISOR_SEE_APPLY, 0, 0, false, false, 3, false},
    };
    static const struct arrival next = {
        "of the lower life", 5, 3, 1, ADVISOR_SEE_APPLY, 0, 0, false, false, 3, false};
    const struct kvt_event_batch lower = batch_of(5, 2, 2);
    const struct advisor_page none = {.status = KVT_NOTFOUND};
    const struct advisor_page page = {.status = KVT_OK, .batch = &lower};

    (void)state;
    for (int gone = 0; gone < 2; gone++) {
        STACK_PUBLISHER publisher = {0};
        struct advisor_question question;
        struct advisor_page_step step;
        uint32_t gen;

        RUN(&publisher, table);
        if (gone == 1)
            advisor_publisher_leave(&publisher);
        assert_true(advisor_publisher_see(&publisher, &lower, 0, ADVISOR_RETRY_MAX_MS).former);
        assert_true(advisor_publisher_question(&publisher, 20000, &question));
        advisor_publisher_asked(&publisher, 1);
        if (gone == 0) {
            assert_int_equal(question.what, ADVISOR_RESYNC_RANGE);
            step = advisor_publisher_answer(&publisher, &none, 20000);
            assert_false(step.apply);
            assert_true(advisor_publisher_question(&publisher, 20000, &question));
            advisor_publisher_asked(&publisher, 2);
        }
        assert_int_equal(question.what, ADVISOR_RESYNC_DUMP);
        gen = publisher.row.gen;
        step = advisor_publisher_answer(&publisher, &page, 20000);
        assert_true(step.apply && step.replaced && step.sweep && step.finished);
        advisor_publisher_paged(&publisher, &page, &step);
        assert_int_equal(publisher.row.incarnation, 5);
        assert_int_equal(publisher.row.last_seq, 2);
        assert_int_equal(publisher.row.gen, gen + 1);
        assert_int_equal(publisher.row.gone, 0);
        arrive(&publisher, &next);
    }
}

/* A former life's late messages do not keep us asking. */
static void
former_lives_are_asked_for_now_and_then(void **state)
{
    static const struct arrival first = {"first", 7,     1, 3,    ADVISOR_SEE_APPLY, 0, 0,
                                         false,   false, 3, false};
    const struct kvt_event_batch former = batch_of(6, 4, 2);
    const struct kvt_event_batch nothing = batch_of(7, 4, 0);
    const struct advisor_page page = {.status = KVT_OK, .batch = &nothing};
    STACK_PUBLISHER publisher = {0};
    struct advisor_page_step step;

    (void)state;
    arrive(&publisher, &first);
    assert_true(advisor_publisher_see(&publisher, &former, 0, 50000).former);
    assert_false(advisor_publisher_see(&publisher, &former, 0, 50000).former);
    advisor_publisher_asked(&publisher, 1);
    step = advisor_publisher_answer(&publisher, &page, 50001);
    advisor_publisher_paged(&publisher, &page, &step);
    assert_false(advisor_publisher_uncertain(&publisher));
    assert_false(
        advisor_publisher_see(&publisher, &former, 0, 50000 + ADVISOR_RETRY_MAX_MS - 1).former);
    assert_true(advisor_publisher_see(&publisher, &former, 0, 50000 + ADVISOR_RETRY_MAX_MS).former);
}

/* Until a new life has answered, a former one that speaks makes it uncertain, however often. */
static void
a_life_that_never_answered_is_doubted(void **state)
{
    static const struct arrival lives[] = {
        {"first", 7, 1, 3, ADVISOR_SEE_APPLY, 0, 0, false, false, 3, false},
        {"a newer one", 8, 1, 1, ADVISOR_SEE_APPLY, 0, 0, false, true, 1, false},
    };
    const struct kvt_event_batch former = batch_of(7, 4, 2);
    STACK_PUBLISHER publisher = {.former_ms = 49000};
    struct advisor_question question;

    (void)state;
    RUN(&publisher, lives);
    assert_true(advisor_publisher_see(&publisher, &former, 0, 50000).former);
    assert_true(advisor_publisher_uncertain(&publisher));
    assert_false(advisor_publisher_question(&publisher, 50000, &question));
    assert_true(advisor_publisher_question(&publisher, 49000 + ADVISOR_RETRY_MAX_MS, &question));
    assert_int_equal(question.what, ADVISOR_RESYNC_DUMP);
}

static void
holding_is_bounded(void **state)
{
    STACK_PUBLISHER publisher = {0};
    struct advisor_inbox_item *item;

    (void)state;
    for (uint64_t i = 0; i < ADVISOR_HOLD_MESSAGES_MAX; i++) {
        assert_int_equal(
            advisor_inbox_item_new(&item, ADVISOR_INBOX_ITEM_MESSAGE, "s", &i, sizeof(i)), KVT_OK);
        item->stream_seq = i + 1;
        assert_true(advisor_publisher_hold(&publisher, item));
    }
    item = advisor_publisher_unhold(&publisher);
    assert_int_equal(item->stream_seq, 1);
    advisor_publisher_rehold(&publisher, item);
    assert_int_equal(publisher.held_first->stream_seq, 1);
    assert_int_equal(advisor_inbox_item_new(&item, ADVISOR_INBOX_ITEM_MESSAGE, "s", "x", 1),
                     KVT_OK);
    assert_false(advisor_publisher_hold(&publisher, item));
    assert_int_equal(publisher.held_count, 0);
    assert_null(advisor_publisher_unhold(&publisher));
}

static void
doubt(void **state)
{
    static const struct arrival first = {"first", 7,     1, 3,    ADVISOR_SEE_APPLY, 0, 0,
                                         false,   false, 3, false};
    const struct kvt_event_batch one = batch_of(7, 4, 1);
    const struct kvt_event_batch none = batch_of(7, 5, 0);
    struct advisor_page page = {.status = KVT_OK, .batch = &one};
    STACK_PUBLISHER publisher = {0};
    STACK_PUBLISHER unmet = {0};
    struct advisor_question question;
    struct advisor_page_step step;

    (void)state;
    advisor_publisher_doubt(&unmet);
    assert_false(advisor_publisher_uncertain(&unmet));
    arrive(&publisher, &first);
    advisor_publisher_doubt(&publisher);
    assert_int_equal(publisher.row.doubted, 1); /* also after a restart */
    assert_true(advisor_publisher_question(&publisher, 5, &question));
    assert_int_equal(question.from, 4);
    assert_int_equal(question.to, UINT64_MAX);
    /* Page by page until it has no more. */
    advisor_publisher_asked(&publisher, 1);
    step = advisor_publisher_answer(&publisher, &page, 6);
    assert_true(step.apply && !step.finished);
    advisor_publisher_paged(&publisher, &page, &step);
    assert_true(advisor_publisher_question(&publisher, 6, &question));
    assert_int_equal(question.from, 5);
    advisor_publisher_asked(&publisher, 2);
    page.batch = &none;
    step = advisor_publisher_answer(&publisher, &page, 7);
    assert_true(!step.apply && step.finished);
    advisor_publisher_paged(&publisher, &page, &step);
    assert_false(advisor_publisher_uncertain(&publisher));
    assert_int_equal(publisher.row.doubted, 0);
}

/* In doubt while a gap is asked for: the gap's end is not the end. */
static void
doubt_behind_a_gap(void **state)
{
    static const struct arrival table[] = {
        {"first", 7, 1, 3, ADVISOR_SEE_APPLY, 0, 0, false, false, 3, false},
        {"gap", 7, 5, 1, ADVISOR_SEE_HOLD, 0, 0, true, false, 3, true},
    };
    const struct kvt_event_batch missing = batch_of(7, 4, 1);
    const struct advisor_page page = {.status = KVT_OK, .batch = &missing};
    STACK_PUBLISHER publisher = {0};
    struct advisor_question question;
    struct advisor_page_step step;

    (void)state;
    RUN(&publisher, table);
    advisor_publisher_asked(&publisher, 1);
    advisor_publisher_doubt(&publisher);
    step = advisor_publisher_answer(&publisher, &page, 6);
    assert_true(step.apply && !step.finished);
    advisor_publisher_paged(&publisher, &page, &step);
    assert_true(advisor_publisher_question(&publisher, 6, &question));
    assert_int_equal(question.from, 5);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(in_order),
        cmocka_unit_test(gap_holds_and_range_fills),
        cmocka_unit_test(numbers_from_far_ahead_are_not_waited_for),
        cmocka_unit_test(heartbeat_reveals_a_lost_tail),
        cmocka_unit_test(met_in_the_middle),
        cmocka_unit_test(range_gives_up_for_dump),
        cmocka_unit_test(newer_life_replaces),
        cmocka_unit_test(unknown_kinds_keep_their_numbers),
        cmocka_unit_test(silence),
        cmocka_unit_test(silent_but_answering_is_not_gone),
        cmocka_unit_test(retries_back_off),
        cmocka_unit_test(broken_dumps_back_off),
        cmocka_unit_test(refusals_are_asked_for_with_a_pause),
        cmocka_unit_test(who_answers_lives),
        cmocka_unit_test(former_lives_are_asked_for_now_and_then),
        cmocka_unit_test(a_life_that_never_answered_is_doubted),
        cmocka_unit_test(holding_is_bounded),
        cmocka_unit_test(doubt),
        cmocka_unit_test(doubt_behind_a_gap),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
