/*
 * What is tested: advisor/publisher/foreign_publisher.h, by tables of arrivals, time by hand.
 */
#include <stdio.h>
#include <string.h>

#include "advisor/publisher/foreign_publisher.h"

#include "tests/support/seed.h"
#include "tests/unit/advisor/support/stack_publisher.h"

enum { GIVE_UP_MS = 1000 };

static const struct advisor_patience patience = {
    .silent_after_ms = 100000, .gone_after_ms = 100000000, .give_up_after_ms = GIVE_UP_MS};
static const struct advisor_patience loud = {
    .silent_after_ms = 100, .gone_after_ms = 200, .give_up_after_ms = GIVE_UP_MS};

/* One arrival and what must come of it. */
struct arrival {
    const char *what;
    uint64_t number;
    uint64_t life;
    bool new_life;
    bool clears;
    enum advisor_verdict verdict;
    bool gap;
    bool late;
    bool renewed;
    bool certain;
    uint64_t last_seq; /* afterwards */
    bool uncertain;    /* afterwards */
};

static struct advisor_publisher
fresh(bool messages)
{
    return (struct advisor_publisher){
        .is_foreign = true, .row = {.incarnation = 1}, .foreign = {.messages = messages ? 1 : 0}};
}

/* Asked, and there is no answer.  True: it was given up. */
static bool
ask_in_vain(struct advisor_publisher *publisher, enum kvt_err why, uint64_t now_ms, uint64_t after)
{
    struct advisor_question question;

    assert_true(advisor_foreign_question(publisher, now_ms, &question));
    advisor_publisher_asked(publisher, 1);
    return advisor_foreign_unanswered(publisher, why, "nobody", now_ms, after);
}

static struct advisor_foreign_step
see_it(struct advisor_publisher *publisher, const struct arrival *arrival, bool held)
{
    const struct advisor_mark mark = {.number = arrival->number,
                                      .life = arrival->life,
                                      .new_life = arrival->new_life,
                                      .clears = arrival->clears,
                                      .held = held};
    const struct advisor_foreign_step step = advisor_foreign_see(publisher, &mark, 5);

    if (step.verdict == ADVISOR_SEE_APPLY)
        advisor_foreign_applied(publisher, mark.number, 5);
    return step;
}

static void
check(const struct advisor_publisher *publisher, const struct arrival *arrival,
      const struct advisor_foreign_step *step)
{
    if (step->verdict != arrival->verdict || step->gap != arrival->gap ||
        step->late != arrival->late || step->renewed != arrival->renewed ||
        step->certain != arrival->certain || publisher->row.last_seq != arrival->last_seq ||
        advisor_publisher_doubtful(publisher) != arrival->uncertain)
        fail_msg("%s: verdict %d gap %d late %d renewed %d certain %d last %llu uncertain %d",
                 arrival->what, (int)step->verdict, step->gap, step->late, step->renewed,
                 step->certain, (unsigned long long)publisher->row.last_seq,
                 advisor_publisher_doubtful(publisher));
}

/* It comes just now. */
static void
live(struct advisor_publisher *publisher, const struct arrival *arrival)
{
    const struct advisor_foreign_step step = see_it(publisher, arrival, false);

    check(publisher, arrival, &step);
}

static void
run_table(struct advisor_publisher *publisher, const struct arrival *table, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct advisor_foreign_step step = see_it(publisher, &table[i], true);

        check(publisher, &table[i], &step);
    }
}

#define RUN(publisher, table) run_table(publisher, table, sizeof(table) / sizeof((table)[0]))
#define APPLY                 .verdict = ADVISOR_SEE_APPLY
#define HOLD                  .verdict = ADVISOR_SEE_HOLD
#define DROP                  .verdict = ADVISOR_SEE_DROP

static void
events_count_from_0_or_1(void **state)
{
    static const struct arrival from_0[] = {
        {"id 0", .number = 1, APPLY, .last_seq = 1},
        {"id 1", .number = 2, APPLY, .last_seq = 2},
        {"id 1 again", .number = 2, DROP, .last_seq = 2},
    };
    static const struct arrival from_1[] = {
        {"id 1", .number = 2, APPLY, .last_seq = 2},
        {"id 2", .number = 3, APPLY, .last_seq = 3},
        {"id 0 is late for ever", .number = 1, DROP, .last_seq = 3},
    };
    STACK_PUBLISHER publisher = fresh(false);

    (void)state;
    RUN(&publisher, from_0);
    stack_publisher_replace(&publisher, fresh(false));
    RUN(&publisher, from_1);
}

static void
late_is_uncertain(void **state)
{
    static const struct arrival events[] = {
        {"id 2 first", .number = 3, HOLD, .late = true, .last_seq = 0, .uncertain = true},
        {"what is behind waits", .number = 4, HOLD, .last_seq = 0, .uncertain = true},
        {"also the very first", .number = 1, HOLD, .last_seq = 0, .uncertain = true},
    };
    static const struct arrival messages[] = {
        {"sequence 1 first", .number = 2, HOLD, .late = true, .last_seq = 0, .uncertain = true},
        {"sequence 0 comes", .number = 1, APPLY, .certain = true, .last_seq = 1},
        {"and 1", .number = 2, APPLY, .last_seq = 2},
    };
    STACK_PUBLISHER publisher = fresh(false);
    struct advisor_question question;

    (void)state;
    RUN(&publisher, events);
    assert_true(advisor_foreign_question(&publisher, 10, &question));
    assert_int_equal(question.what, ADVISOR_RESYNC_DUMP);
    assert_int_equal(question.from, 0);
    stack_publisher_replace(&publisher, fresh(true));
    run_table(&publisher, messages, 1);
    assert_true(advisor_foreign_question(&publisher, 10, &question));
    assert_int_equal(question.what, ADVISOR_RESYNC_RANGE);
    assert_int_equal(question.from, 1);
    assert_int_equal(question.to, 1);
    run_table(&publisher, messages + 1, 2);
}

static void
gap_is_filled(void **state)
{
    static const struct arrival table[] = {
        {"first", .number = 1, APPLY, .last_seq = 1},
        {"4 of 2..3", .number = 4, HOLD, .gap = true, .last_seq = 1, .uncertain = true},
        {"behind it", .number = 5, HOLD, .last_seq = 1, .uncertain = true},
        {"a missing one, late", .number = 2, APPLY, .last_seq = 2, .uncertain = true},
        {"the last missing one", .number = 3, APPLY, .certain = true, .last_seq = 3},
        {"what waited", .number = 4, APPLY, .last_seq = 4},
        {"and the next", .number = 5, APPLY, .last_seq = 5},
    };
    STACK_PUBLISHER publisher = fresh(false);
    struct advisor_question question;

    (void)state;
    run_table(&publisher, table, 3);
    assert_int_equal(publisher.row.gaps, 1);
    assert_true(advisor_foreign_question(&publisher, 10, &question));
    assert_int_equal(question.what, ADVISOR_RESYNC_RANGE);
    assert_int_equal(question.from, 2);
    assert_int_equal(question.to, 3);
    run_table(&publisher, table + 3, 4);
}

/* A plane that may have lost something: the next number tells. */
static void
doubt_ends_with_the_next_number(void **state)
{
    static const struct arrival before[] = {
        {"first", .number = 1, APPLY, .last_seq = 1},
    };
    static const struct arrival next[] = {
        {"the very next", .number = 2, APPLY, .certain = true, .last_seq = 2},
    };
    static const struct arrival beyond[] = {
        {"one is missing", .number = 4, HOLD, .gap = true, .last_seq = 2, .uncertain = true},
    };
    STACK_PUBLISHER publisher = fresh(false);
    struct advisor_question question;

    (void)state;
    RUN(&publisher, before);
    advisor_foreign_doubt(&publisher, 10);
    assert_true(advisor_publisher_uncertain(&publisher));
    RUN(&publisher, next);
    advisor_foreign_doubt(&publisher, 10);
    /* Nobody can be asked: it waits for the next number, and is not given up. */
    assert_false(ask_in_vain(&publisher, KVT_UNSUPPORTED, 20, 0));
    assert_false(advisor_foreign_question(&publisher, 100000, &question));
    assert_int_equal(publisher.foreign.lost, 0);
    RUN(&publisher, beyond);
    assert_true(advisor_foreign_question(&publisher, 100000, &question));
    assert_int_equal(question.to, 3);
}

static void
lives_have_no_order(void **state)
{
    static const struct arrival table[] = {
        {"life 9", .number = 2, .life = 9, APPLY, .last_seq = 2},
        {"goes on", .number = 3, .life = 9, APPLY, .last_seq = 3},
        {"life 4", .number = 2, .life = 4, APPLY, .renewed = true, .last_seq = 2},
        {"the former is late", .number = 4, .life = 9, DROP, .last_seq = 2},
        {"life 4 goes on", .number = 3, .life = 4, APPLY, .last_seq = 3},
        {"life 7, late", .number = 9, .life = 7, HOLD, .renewed = true, .late = true, .last_seq = 0,
         .uncertain = true},
    };
    static const struct arrival flagged[] = {
        {"sequence 0", .number = 1, APPLY, .last_seq = 1},
        {"sequence 1", .number = 2, APPLY, .last_seq = 2},
        {"began anew", .number = 1, .new_life = true, APPLY, .renewed = true, .last_seq = 1},
    };
    STACK_PUBLISHER publisher = fresh(false);
    const uint32_t gen = publisher.row.gen;

    (void)state;
    RUN(&publisher, table);
    assert_int_equal(publisher.row.gen, gen + 2);
    assert_int_equal(publisher.foreign.floor, publisher.row.gen);
    stack_publisher_replace(&publisher, fresh(true));
    RUN(&publisher, flagged);
}

static void
given_up_goes_on(void **state)
{
    static const struct arrival before[] = {
        {"first", .number = 1, APPLY, .last_seq = 1},
        {"a gap", .number = 5, HOLD, .gap = true, .last_seq = 1, .uncertain = true},
    };
    static const struct arrival after[] = {
        {"what waited", .number = 5, APPLY, .last_seq = 5, .uncertain = true},
        {"goes on", .number = 6, APPLY, .last_seq = 6, .uncertain = true},
        {"another gap", .number = 9, APPLY, .gap = true, .last_seq = 9, .uncertain = true},
        {"a clear absolves", .number = 10, .clears = true, APPLY, .last_seq = 10},
    };
    STACK_PUBLISHER publisher = fresh(false);
    struct advisor_question question;
    bool gave_up;

    (void)state;
    RUN(&publisher, before);
    assert_false(ask_in_vain(&publisher, KVT_TIMEOUT, 20, GIVE_UP_MS));
    assert_false(advisor_foreign_question(&publisher, 21, &question)); /* it backs off */
    (void)advisor_foreign_age(&publisher, 500, &patience, &gave_up);
    assert_false(gave_up);
    (void)advisor_foreign_age(&publisher, 5 + GIVE_UP_MS, &patience, &gave_up);
    assert_true(gave_up);
    assert_int_equal(publisher.foreign.lost, 1);
    assert_string_equal(publisher.foreign.reason, "events are missing: nobody answers");
    assert_false(advisor_foreign_question(&publisher, 100000, &question));
    RUN(&publisher, after);
    assert_int_equal(publisher.foreign.lost, 0);
}

/* A clear makes whatever was missing void. */
static void
clear_ends_a_gap(void **state)
{
    static const struct arrival table[] = {
        {"first", .number = 1, APPLY, .last_seq = 1},
        {"a gap", .number = 5, HOLD, .gap = true, .last_seq = 1, .uncertain = true},
        {"a clear: is its number true?", .number = 7, .clears = true, APPLY, .last_seq = 7,
         .uncertain = true},
        {"what waited", .number = 5, DROP, .last_seq = 7, .uncertain = true},
        {"next", .number = 8, APPLY, .certain = true, .last_seq = 8},
        {"a clear in its turn", .number = 9, .clears = true, APPLY, .last_seq = 9},
    };
    STACK_PUBLISHER publisher = fresh(false);

    (void)state;
    RUN(&publisher, table);
}

/* A clear whose number is far ahead: it is asked, and who goes on from before it shows the lie. */
static void
clears_that_lie_are_found_out(void **state)
{
    static const struct arrival table[] = {
        {"first", .number = 1, APPLY, .last_seq = 1},
        {"a clear that lies", .number = 1000000, .clears = true, APPLY, .last_seq = 1000000,
         .uncertain = true},
    };
    static const struct arrival next = {"next", .number = 2, HOLD, .last_seq = 1,
                                        .uncertain = true};
    STACK_PUBLISHER publisher = fresh(false);
    struct advisor_question question;

    (void)state;
    RUN(&publisher, table);
    assert_int_equal(publisher.row.doubted, 1); /* also after a restart */
    assert_true(advisor_foreign_question(&publisher, 10, &question));
    assert_int_equal(question.from, 1000001);
    assert_int_equal(question.to, ADVISOR_FOREIGN_TO_NEWEST);
    live(&publisher, &next);
    assert_true(advisor_foreign_question(&publisher, 10, &question));
    assert_int_equal(question.what, ADVISOR_RESYNC_DUMP);
    advisor_publisher_asked(&publisher, 2);
    advisor_foreign_dump_begin(&publisher);
    advisor_foreign_dump_end(&publisher, 2);
    assert_int_equal(publisher.row.last_seq, 2);
    assert_false(advisor_publisher_doubtful(&publisher));
}

/* The same for one that was given up: its events are to go on. */
static void
lost_ones_go_on_behind_a_lie(void **state)
{
    static const struct arrival table[] = {
        {"a lie", .number = 1ull << 60, APPLY, .gap = true, .last_seq = 1ull << 60,
         .uncertain = true},
        {"what is true", .number = 3, APPLY, .last_seq = 3, .uncertain = true},
        {"again", .number = 3, DROP, .last_seq = 3, .uncertain = true},
        {"a clear", .number = 4, .clears = true, APPLY, .last_seq = 4},
    };
    static const struct arrival first = {"first", .number = 1, APPLY, .last_seq = 1};
    STACK_PUBLISHER publisher = fresh(false);

    (void)state;
    live(&publisher, &first);
    advisor_foreign_lose(&publisher, "as the test says");
    publisher.rebase = false;
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
        live(&publisher, &table[i]);
}

static void
hold_one(struct advisor_publisher *publisher)
{
    struct advisor_inbox_item *item;

    assert_int_equal(advisor_inbox_item_new(&item, ADVISOR_INBOX_ITEM_MESSAGE, "s", "x", 1),
                     KVT_OK);
    (void)advisor_publisher_hold(publisher, item);
}

static void
ask_for_all(struct advisor_publisher *publisher, uint64_t now_ms)
{
    struct advisor_question question;

    assert_true(advisor_foreign_question(publisher, now_ms, &question));
    assert_int_equal(question.what, ADVISOR_RESYNC_DUMP);
    advisor_publisher_asked(publisher, now_ms);
    advisor_foreign_dump_begin(publisher);
}

/* What was dropped while a dump was on its way is in it, or not: where it ends is not said. */
static void
dropped_while_a_dump_came(void **state)
{
    static const struct arrival late = {"late", .number = 10, HOLD, .late = true,
                                        .uncertain = true};
    STACK_PUBLISHER publisher = fresh(false);

    (void)state;
    live(&publisher, &late);
    ask_for_all(&publisher, 10);
    for (int i = 0; i <= ADVISOR_HOLD_MESSAGES_MAX; i++)
        hold_one(&publisher);
    assert_int_equal(publisher.held_count, 0);
    advisor_foreign_dump_end(&publisher, 0);
    assert_true(advisor_publisher_doubtful(&publisher));
    ask_for_all(&publisher, 10 + ADVISOR_RETRY_MAX_MS); /* again; nothing is dropped this time */
    advisor_foreign_dump_end(&publisher, 0);
    assert_false(advisor_publisher_doubtful(&publisher));
    assert_int_equal(publisher.row.doubted, 0);
}

/* The dump ends before one that was lost on its way, and one that waits is behind that. */
static void
lost_behind_a_dump(void **state)
{
    static const struct arrival late = {"late", .number = 50, HOLD, .late = true,
                                        .uncertain = true};
    static const struct arrival waits = {"waited", .number = 103, DROP, .last_seq = 101,
                                         .uncertain = true};
    static const struct arrival missing = {"it is told", .number = 102, APPLY, .certain = true,
                                           .last_seq = 102};
    STACK_PUBLISHER publisher = fresh(false);
    struct advisor_question question;

    (void)state;
    live(&publisher, &late);
    ask_for_all(&publisher, 10);
    advisor_foreign_dump_end(&publisher, 101);
    assert_false(advisor_publisher_doubtful(&publisher));
    hold_one(&publisher);
    run_table(&publisher, &waits, 1);
    assert_int_equal(publisher.held_count, 0);
    assert_true(advisor_foreign_question(&publisher, 20, &question));
    assert_int_equal(question.from, 102);
    assert_int_equal(question.to, ADVISOR_FOREIGN_TO_NEWEST);
    run_table(&publisher, &missing, 1);
}

/* Another stream drops what was held back while missing events are asked for. */
static void
doubt_while_it_is_asked(void **state)
{
    static const struct arrival gap[] = {
        {"first", .number = 1, APPLY, .last_seq = 1},
        {"a gap", .number = 4, HOLD, .gap = true, .last_seq = 1, .uncertain = true},
    };
    static const struct arrival told[] = {
        {"a missing one", .number = 2, APPLY, .last_seq = 2, .uncertain = true},
        {"the last missing one", .number = 3, APPLY, .last_seq = 3, .uncertain = true},
    };
    static const struct arrival after = {"the one that was dropped", .number = 4, APPLY,
                                         .certain = true, .last_seq = 4};
    STACK_PUBLISHER publisher = fresh(false);
    struct advisor_question question;

    (void)state;
    RUN(&publisher, gap);
    assert_true(advisor_foreign_question(&publisher, 10, &question));
    advisor_publisher_asked(&publisher, 1);
    advisor_publisher_unhold_all(&publisher);
    advisor_foreign_doubt(&publisher, 11);
    RUN(&publisher, told);
    assert_true(advisor_foreign_question(&publisher, 12, &question));
    assert_int_equal(question.from, 4);
    assert_int_equal(question.to, ADVISOR_FOREIGN_TO_NEWEST);
    run_table(&publisher, &after, 1);
    assert_false(advisor_foreign_question(&publisher, 13, &question));
}

/* What the store has of a publisher after a restart. */
static struct advisor_publisher
again(const struct advisor_publisher *publisher)
{
    return (struct advisor_publisher){
        .is_foreign = true, .row = publisher->row, .foreign = publisher->foreign};
}

/* Met late, and the program was killed before its ring answered. */
static void
late_over_a_restart(void **state)
{
    static const struct arrival late = {"late", .number = 5, HOLD, .late = true, .uncertain = true};
    STACK_PUBLISHER before = fresh(true);
    STACK_PUBLISHER publisher;
    struct advisor_question question;

    (void)state;
    live(&before, &late);
    publisher = again(&before);
    advisor_foreign_unheard(&publisher, 10);
    assert_int_equal(publisher.foreign.lost, 0);
    assert_true(advisor_foreign_question(&publisher, 10, &question));
    assert_int_equal(question.from, 1);
    assert_true(advisor_publisher_doubtful(&publisher));
}

/* In doubt for long, and only now something is known to be missing: the time to fill it begins. */
static void
gap_after_a_long_doubt(void **state)
{
    static const struct arrival first = {"first", .number = 1, APPLY, .last_seq = 1};
    const struct advisor_mark beyond = {.number = 4};
    STACK_PUBLISHER publisher = fresh(false);
    bool gave_up;

    (void)state;
    live(&publisher, &first);
    advisor_foreign_doubt(&publisher, 10);
    assert_int_equal(advisor_foreign_see(&publisher, &beyond, 10 + 2 * GIVE_UP_MS).verdict,
                     ADVISOR_SEE_HOLD);
    (void)advisor_foreign_age(&publisher, 10 + 2 * GIVE_UP_MS, &patience, &gave_up);
    assert_false(gave_up);
    (void)advisor_foreign_age(&publisher, 10 + 3 * GIVE_UP_MS, &patience, &gave_up);
    assert_true(gave_up);
}

/* Messages after a restart: numbers that go on may be another life's, those that go back are. */
static void
unheard_for_a_while(void **state)
{
    static const struct arrival first[] = {
        {"first", .number = 1, APPLY, .last_seq = 1},
        {"second", .number = 2, APPLY, .last_seq = 2},
    };
    static const struct arrival next = {"the very next", .number = 3, HOLD, .last_seq = 2,
                                        .uncertain = true};
    static const struct arrival waited = {"it waited", .number = 3, APPLY, .last_seq = 3};
    static const struct arrival lost = {"it waited", .number = 3, APPLY, .last_seq = 3,
                                        .uncertain = true};
    static const struct arrival back = {"back", .number = 1, APPLY, .renewed = true, .last_seq = 1};
    STACK_PUBLISHER before = fresh(true);
    STACK_PUBLISHER publisher;
    struct advisor_question question;

    (void)state;
    RUN(&before, first);
    publisher = again(&before);
    advisor_foreign_unheard(&publisher, 10);
    live(&publisher, &next);
    assert_true(advisor_foreign_question(&publisher, 10, &question));
    assert_int_equal(question.from, 2); /* with the one that was heard last */
    assert_int_equal(question.to, 2);
    advisor_publisher_asked(&publisher, 1);
    advisor_foreign_vouched(&publisher);
    assert_true(advisor_foreign_ranged(&publisher, 11));
    run_table(&publisher, &waited, 1);
    stack_publisher_replace(&publisher, again(&before));
    advisor_foreign_unheard(&publisher, 10);
    live(&publisher, &next);
    advisor_publisher_asked(&publisher, 1);
    assert_true(advisor_foreign_unanswered(&publisher, KVT_UNSUPPORTED, "nobody", 11, GIVE_UP_MS));
    run_table(&publisher, &lost, 1);

    stack_publisher_replace(&publisher, again(&before));
    advisor_foreign_unheard(&publisher, 10);
    live(&publisher, &back);
}

/* Late words of one that is gone are no life; new ones are, while somebody vouches for them. */
static void
gone_ones_do_not_walk(void **state)
{
    static const struct arrival before[] = {
        {"first", .number = 1, .life = 3, APPLY, .last_seq = 1},
        {"second", .number = 2, .life = 3, APPLY, .last_seq = 2},
        {"third", .number = 3, .life = 3, APPLY, .last_seq = 3},
    };
    static const struct arrival words[] = {
        {"the last one again", .number = 3, .life = 3, DROP, .last_seq = 3},
        {"the first one again", .number = 1, .life = 3, DROP, .last_seq = 3},
        {"from a plane without lives", .number = 3, DROP, .last_seq = 3},
    };
    static const struct arrival beyond = {
        "one that was on its way", .number = 4,  .life = 3,        HOLD,
        .renewed = true,           .late = true, .uncertain = true};
    STACK_PUBLISHER publisher = fresh(false);
    bool gave_up;

    (void)state;
    RUN(&publisher, before);
    advisor_foreign_leave(&publisher);
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        live(&publisher, &words[i]);
    assert_int_equal(publisher.row.gone, 1);
    live(&publisher, &beyond);
    advisor_foreign_lose(&publisher, "nobody answers");
    assert_int_equal(advisor_foreign_age(&publisher, 100, &loud, &gave_up), ADVISOR_AGE_FRESH);
    assert_int_equal(advisor_foreign_age(&publisher, 205, &loud, &gave_up), ADVISOR_AGE_GONE);
}

static void
answers(void **state)
{
    static const struct arrival gap[] = {
        {"first", .number = 1, APPLY, .last_seq = 1},
        {"a gap", .number = 5, HOLD, .gap = true, .last_seq = 1, .uncertain = true},
    };
    static const struct arrival behind[] = {
        {"what waited is in the dump", .number = 5, DROP, .last_seq = 6},
        {"the next is not", .number = 7, APPLY, .last_seq = 7},
    };
    static const struct arrival unknown[] = {
        {"as it comes", .number = 12, APPLY, .last_seq = 12},
        {"then in order", .number = 14, HOLD, .gap = true, .last_seq = 12, .uncertain = true},
    };
    STACK_PUBLISHER publisher = fresh(false);
    struct advisor_question question;
    uint32_t gen;

    (void)state;
    RUN(&publisher, gap);
    /* They are no longer there: everything. */
    assert_false(ask_in_vain(&publisher, KVT_NOTFOUND, 20, GIVE_UP_MS));
    assert_true(advisor_foreign_question(&publisher, 20, &question));
    assert_int_equal(question.what, ADVISOR_RESYNC_DUMP);
    gen = publisher.row.gen;
    advisor_foreign_dump_begin(&publisher);
    assert_int_equal(publisher.row.gen, gen + 1);
    assert_int_equal(publisher.foreign.floor, gen + 1);
    advisor_foreign_dump_end(&publisher, 6);
    assert_false(advisor_publisher_doubtful(&publisher));
    RUN(&publisher, behind);
    /* A dump that does not say which event it speaks for. */
    advisor_foreign_want_dump(&publisher, 30);
    advisor_foreign_dump_begin(&publisher);
    advisor_foreign_dump_end(&publisher, 0);
    RUN(&publisher, unknown);
}

/* An engine's ring has no dump: what it no longer has is lost. */
static void
ring_that_forgot(void **state)
{
    static const struct arrival gap[] = {
        {"first", .number = 1, APPLY, .last_seq = 1},
        {"a gap", .number = 5, HOLD, .gap = true, .last_seq = 1, .uncertain = true},
    };
    STACK_PUBLISHER publisher = fresh(true);

    (void)state;
    RUN(&publisher, gap);
    assert_true(ask_in_vain(&publisher, KVT_NOTFOUND, 20, GIVE_UP_MS));
    assert_true(advisor_publisher_doubtful(&publisher));
    assert_false(advisor_publisher_uncertain(&publisher)); /* nothing is waited for */
}

static void
gone_and_back(void **state)
{
    static const struct arrival before[] = {
        {"first", .number = 2, .life = 3, APPLY, .last_seq = 2},
    };
    static const struct arrival after[] = {
        {"it is back", .number = 3, .life = 3, HOLD, .renewed = true, .late = true, .last_seq = 0,
         .uncertain = true},
    };
    STACK_PUBLISHER publisher = fresh(false);
    struct advisor_question question;

    (void)state;
    RUN(&publisher, before);
    advisor_foreign_leave(&publisher);
    assert_int_equal(publisher.row.gone, 1);
    assert_false(advisor_foreign_question(&publisher, 10, &question));
    assert_false(advisor_publisher_doubtful(&publisher));
    RUN(&publisher, after);
}

static enum advisor_age
age(struct advisor_publisher *publisher, uint64_t now_ms)
{
    bool gave_up;
    const enum advisor_age age = advisor_foreign_age(publisher, now_ms, &loud, &gave_up);

    assert_false(gave_up);
    return age;
}

/* Silence is told once, and ends nothing where nobody can be asked. */
static void
silence_of_who_cannot_be_asked(void **state)
{
    static const struct arrival first[] = {{"first", .number = 1, APPLY, .last_seq = 1}};
    static const struct arrival next[] = {{"next", .number = 2, APPLY, .last_seq = 2}};
    STACK_PUBLISHER publisher = fresh(false);
    struct advisor_question question;

    (void)state;
    RUN(&publisher, first);
    assert_int_equal(age(&publisher, 50), ADVISOR_AGE_FRESH);
    assert_int_equal(age(&publisher, 105), ADVISOR_AGE_SILENT);
    assert_int_equal(age(&publisher, 205), ADVISOR_AGE_FRESH);
    /* Nobody is there: it has never answered, so perhaps it lives where we cannot reach it. */
    assert_false(ask_in_vain(&publisher, KVT_UNAVAILABLE, 205, 0));
    assert_false(advisor_publisher_doubtful(&publisher));
    assert_int_equal(age(&publisher, 1u << 30), ADVISOR_AGE_FRESH);
    assert_false(advisor_foreign_question(&publisher, 1u << 30, &question));
    assert_int_equal(publisher.row.gone, 0);
    RUN(&publisher, next);
}

/* Who can be asked and does not answer is gone; who answers stays. */
static void
silence_of_who_can_be_asked(void **state)
{
    static const struct arrival first[] = {{"first", .number = 1, APPLY, .last_seq = 1}};
    STACK_PUBLISHER publisher = fresh(false);
    struct advisor_question question;
    uint64_t now_ms = 205;

    (void)state;
    RUN(&publisher, first);
    (void)age(&publisher, now_ms); /* silent */
    (void)age(&publisher, now_ms);
    assert_true(advisor_foreign_question(&publisher, now_ms, &question));
    advisor_publisher_asked(&publisher, 1);
    assert_true(advisor_foreign_ranged(&publisher, now_ms)); /* it has nothing more */
    assert_false(advisor_publisher_doubtful(&publisher));
    now_ms += 200;
    (void)age(&publisher, now_ms);
    (void)age(&publisher, now_ms);
    for (int i = 0; i < 3; i++) {
        now_ms += ADVISOR_RETRY_MAX_MS;
        assert_false(ask_in_vain(&publisher, KVT_UNAVAILABLE, now_ms, 1));
        assert_int_equal(age(&publisher, now_ms), i < 2 ? ADVISOR_AGE_FRESH : ADVISOR_AGE_GONE);
    }
}

/* Who is known to live stays, and what it lacks is given up in the usual time. */
static void
silence_of_who_is_vouched_for(void **state)
{
    static const struct arrival first[] = {{"first", .number = 1, APPLY, .last_seq = 1}};
    static const struct arrival gap[] = {
        {"a gap", .number = 5, HOLD, .gap = true, .last_seq = 1, .uncertain = true}};
    STACK_PUBLISHER publisher = fresh(false);
    uint64_t now_ms = 205;

    (void)state;
    RUN(&publisher, first);
    (void)age(&publisher, now_ms); /* silent */
    for (int i = 0; i < 10; i++, now_ms += ADVISOR_RETRY_MAX_MS) {
        assert_int_equal(age(&publisher, now_ms), ADVISOR_AGE_FRESH);
        assert_false(ask_in_vain(&publisher, KVT_AGAIN, now_ms, 1));
        assert_int_equal(age(&publisher, now_ms), ADVISOR_AGE_FRESH);
        assert_int_equal(publisher.resync, ADVISOR_RESYNC_NONE); /* not asked again at once */
        assert_false(advisor_publisher_doubtful(&publisher));
    }
    RUN(&publisher, gap); /* at 5 */
    assert_false(ask_in_vain(&publisher, KVT_AGAIN, 10, GIVE_UP_MS));
    assert_true(ask_in_vain(&publisher, KVT_AGAIN, 5 + GIVE_UP_MS, GIVE_UP_MS));
    assert_int_equal(publisher.foreign.lost, 1);
    assert_int_equal(publisher.row.gone, 0);
}

/* A number far ahead is a gap; once the worker has told all it holds, it is a lie. */
static void
numbers_that_lie(void **state)
{
    static const struct arrival table[] = {
        {"first", .number = 1, APPLY, .last_seq = 1},
        {"far ahead", .number = UINT64_MAX, HOLD, .gap = true, .last_seq = 1, .uncertain = true},
        {"in order", .number = 2, APPLY, .last_seq = 2, .uncertain = true},
    };
    static const struct arrival after[] = {
        {"far ahead, held: is it true?", .number = UINT64_MAX, DROP, .last_seq = 2,
         .uncertain = true},
        {"in order", .number = 3, APPLY, .certain = true, .last_seq = 3},
    };
    STACK_PUBLISHER publisher = fresh(false);

    (void)state;
    RUN(&publisher, table);
    advisor_foreign_want_dump(&publisher, 10);
    advisor_foreign_dump_begin(&publisher);
    advisor_foreign_dump_end(&publisher, 2);
    RUN(&publisher, after);
}

/* Where nothing is numbered, what may be missing is lost. */
static void
doubt_without_numbers(void **state)
{
    static const struct arrival table[] = {{"a word", .number = 0, APPLY, .last_seq = 0}};
    STACK_PUBLISHER publisher = fresh(true);

    (void)state;
    RUN(&publisher, table);
    advisor_foreign_doubt(&publisher, 10);
    assert_int_equal(publisher.foreign.lost, 1);
    assert_true(advisor_publisher_doubtful(&publisher));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(events_count_from_0_or_1),
        cmocka_unit_test(late_is_uncertain),
        cmocka_unit_test(gap_is_filled),
        cmocka_unit_test(doubt_ends_with_the_next_number),
        cmocka_unit_test(lives_have_no_order),
        cmocka_unit_test(given_up_goes_on),
        cmocka_unit_test(clear_ends_a_gap),
        cmocka_unit_test(clears_that_lie_are_found_out),
        cmocka_unit_test(lost_ones_go_on_behind_a_lie),
        cmocka_unit_test(dropped_while_a_dump_came),
        cmocka_unit_test(lost_behind_a_dump),
        cmocka_unit_test(doubt_while_it_is_asked),
        cmocka_unit_test(late_over_a_restart),
        cmocka_unit_test(gap_after_a_long_doubt),
        cmocka_unit_test(unheard_for_a_while),
        cmocka_unit_test(gone_ones_do_not_walk),
        cmocka_unit_test(answers),
        cmocka_unit_test(ring_that_forgot),
        cmocka_unit_test(gone_and_back),
        cmocka_unit_test(silence_of_who_cannot_be_asked),
        cmocka_unit_test(silence_of_who_can_be_asked),
        cmocka_unit_test(silence_of_who_is_vouched_for),
        cmocka_unit_test(numbers_that_lie),
        cmocka_unit_test(doubt_without_numbers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
