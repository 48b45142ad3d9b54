/*
 * What is tested: gateway/bus/delete_guard.h: which rows of a deletion may go.
 * How: cases by hand, and random orders against a model that sums what went; a full hour at any
 * minute never has more than its share.
 */
#include "base/core/random.h"
#include "gateway/bus/delete_guard.h"

#include "tests/support/seed.h"

enum { ROUNDS = 2000, ITEMS = 64, MINUTE_MS = 60000, HOUR_MS = 3600000 };

static const struct kvt_delete_cause room = {.kind = KVT_DELETE_ROOM,
                                             .policy_version = 3,
                                             .rule = "down",
                                             .tier = "cold@kvtier",
                                             .stop_ppm = 900000};
static const struct gateway_delete_facts facts = {
    .tier = GATEWAY_COLD, .used = 1000, .capacity = 1000, .rows = 100, .share_ppm = 100000};

static const char *
begin(const struct kvt_delete_cause *cause, const struct gateway_delete_facts *known)
{
    struct gateway_delete_guard guard;

    return gateway_delete_guard_begin(&guard, cause, known);
}

/* How many rows of `bytes` in that tier may go. */
static unsigned
admitted(const struct kvt_delete_cause *cause, const struct gateway_delete_facts *known,
         unsigned tiers, uint64_t bytes)
{
    struct gateway_delete_guard guard;
    unsigned count = 0;

    assert_null(gateway_delete_guard_begin(&guard, cause, known));
    for (unsigned i = 0; i < 10000; i++)
        count += gateway_delete_guard_admit(&guard, tiers, bytes) == NULL;
    return count;
}

static void
room_ends_at_the_stop_mark(void **state)
{
    struct gateway_delete_facts known = facts;
    struct kvt_delete_cause cause = room;

    (void)state;
    assert_int_equal(admitted(&cause, &known, GATEWAY_COLD, 10), 10); /* 1000 to 900 */
    assert_int_equal(admitted(&cause, &known, GATEWAY_HOT | GATEWAY_COLD, 30),
                     4);                                            /* the last crosses */
    assert_int_equal(admitted(&cause, &known, GATEWAY_HOT, 10), 0); /* makes no room there */
    known.leaving = 60;                                             /* goes already */
    assert_int_equal(admitted(&cause, &known, GATEWAY_COLD, 10), 4);
    known.leaving = 2000;
    assert_int_equal(admitted(&cause, &known, GATEWAY_COLD, 10), 0);
    known = facts;
    known.used = 900;
    assert_int_equal(admitted(&cause, &known, GATEWAY_COLD, 10), 0);
    known.used = 901;
    assert_int_equal(admitted(&cause, &known, GATEWAY_COLD, 10), 1);
    /* A policy may say less than the gateway has, and never more. */
    known = facts;
    cause.capacity = 500;
    assert_int_equal(admitted(&cause, &known, GATEWAY_COLD, 10), 55);
    cause.capacity = 5000;
    assert_int_equal(admitted(&cause, &known, GATEWAY_COLD, 10), 10);
    known.capacity = 0; /* a bucket that only the policy caps */
    known.used = 4600;
    assert_int_equal(admitted(&cause, &known, GATEWAY_COLD, 10), 10);
    cause.capacity = 0;
    assert_non_null(begin(&cause, &known));
    known = facts;
    known.tier = 0;
    assert_non_null(begin(&cause, &known));
    /* The gateway's own mark holds, whatever the order says of the tier. */
    known = facts;
    known.mark_ppm = 950000;
    assert_int_equal(admitted(&room, &known, GATEWAY_COLD, 10), 5);
    cause.stop_ppm = 0;
    cause.capacity = 1;
    assert_int_equal(admitted(&cause, &known, GATEWAY_COLD, 10), 5);
    known.mark_ppm = 100000;
    assert_int_equal(admitted(&room, &known, GATEWAY_COLD, 10), 10);
    cause.capacity = 0;
    /* No overflow at the largest values. */
    known = facts;
    known.used = known.capacity = UINT64_MAX;
    cause.stop_ppm = 1000000;
    assert_int_equal(admitted(&cause, &known, GATEWAY_COLD, UINT64_MAX), 0);
    cause.stop_ppm = 0;
    assert_int_equal(admitted(&cause, &known, GATEWAY_COLD, UINT64_MAX), 1);
}

static void
rules_and_jobs_are_named(void **state)
{
    static const enum kvt_delete_cause_kind kinds[] = {KVT_DELETE_ROOM, KVT_DELETE_QUOTA,
                                                       KVT_DELETE_EXPIRE};
    struct kvt_delete_cause cause = {.kind = KVT_DELETE_JOB};

    (void)state;
    assert_non_null(begin(&cause, &facts));
    cause.job = 1;
    assert_int_equal(admitted(&cause, &facts, GATEWAY_HOT, 10), 10000);
    for (unsigned i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        cause = room;
        cause.kind = kinds[i];
        assert_null(begin(&cause, &facts));
        cause.policy_version = 0;
        assert_non_null(begin(&cause, &facts));
        cause = room;
        cause.kind = kinds[i];
        cause.rule[0] = '\0';
        assert_non_null(begin(&cause, &facts));
    }
    cause.kind = KVT_DELETE_CAUSE_COUNT;
    assert_non_null(begin(&cause, &facts));
}

static void
others_have_a_share_an_hour(void **state)
{
    const struct kvt_delete_cause cause = {.kind = KVT_DELETE_OTHER};
    struct gateway_delete_facts known = facts;

    (void)state;
    assert_int_equal(admitted(&cause, &known, GATEWAY_HOT, 10), 10);
    known.deleted = 10; /* of 100; 90 are left */
    known.rows = 90;
    assert_int_equal(admitted(&cause, &known, GATEWAY_HOT, 10), 0);
    known.deleted = 4;
    known.rows = 96;
    assert_int_equal(admitted(&cause, &known, GATEWAY_HOT, 10), 6);
    known.share_ppm = 0;
    assert_int_equal(admitted(&cause, &known, GATEWAY_HOT, 10), 0);
    known = facts;
    known.share_ppm = 1000000;
    assert_int_equal(admitted(&cause, &known, GATEWAY_HOT, 10), 100);
}

/* Whatever an order names and says, the tier's use stays at the mark or one block below. */
static void
a_model_of_room(void **state)
{
    uint64_t random = test_seed();

    (void)state;
    for (unsigned round = 0; round < ROUNDS; round++) {
        const uint64_t capacity = 1 + kvt_random_below(&random, 100000);
        struct kvt_delete_cause cause = room;
        struct gateway_delete_facts known = facts;
        struct gateway_delete_guard guard;
        uint64_t used;
        uint64_t stop;

        known.capacity = capacity;
        known.used = kvt_random_below(&random, 2 * capacity);
        known.leaving = kvt_random_below(&random, 1 + known.used);
        cause.stop_ppm = (uint32_t)kvt_random_below(&random, 1000001);
        cause.capacity =
            kvt_random_below(&random, 3) == 0 ? 0 : kvt_random_below(&random, 2 * capacity);
        used = known.used - known.leaving;
        stop = cause.capacity != 0 && cause.capacity < capacity ? cause.capacity : capacity;
        stop = stop * cause.stop_ppm / 1000000;
        assert_null(gateway_delete_guard_begin(&guard, &cause, &known));
        for (unsigned i = 0; i < ITEMS; i++) {
            const unsigned tiers = (unsigned)kvt_random_below(&random, 4);
            const uint64_t bytes = kvt_random_below(&random, 1 + capacity / 8);
            const bool may = (tiers & GATEWAY_COLD) != 0 && used > stop;

            assert_int_equal(gateway_delete_guard_admit(&guard, tiers, bytes) == NULL, may);
            if (may)
                used -= bytes < used ? bytes : used;
        }
    }
}

/* Random deletions over some hours: the sum is never less than that of the last full hour, and all
 * of it is forgotten after an hour and two minutes. */
static void
a_model_of_the_hour(void **state)
{
    struct gateway_deletions deletions = {0};
    uint64_t times[ROUNDS];
    uint64_t rows[ROUNDS];
    uint64_t now_ms = UINT64_C(1700000000000);
    uint64_t random = test_seed();

    (void)state;
    for (unsigned i = 0; i < ROUNDS; i++) {
        uint64_t least = 0;
        uint64_t most = 0;
        uint64_t sum;

        now_ms +=
            kvt_random_below(&random, kvt_random_below(&random, 50) == 0 ? 2 * HOUR_MS : MINUTE_MS);
        times[i] = now_ms;
        rows[i] = kvt_random_below(&random, 100);
        gateway_deletions_add(&deletions, now_ms, rows[i]);
        for (unsigned k = 0; k <= i; k++) {
            least += times[k] + HOUR_MS > now_ms ? rows[k] : 0;
            most += times[k] + HOUR_MS + 2 * MINUTE_MS > now_ms ? rows[k] : 0;
        }
        sum = gateway_deletions_sum(&deletions, now_ms);
        assert_true(sum >= least && sum <= most);
    }
    /* A clock that is set back gives no new share. */
    gateway_deletions_add(&deletions, now_ms, 7);
    assert_true(gateway_deletions_sum(&deletions, now_ms - 5 * HOUR_MS) >= 7);
    gateway_deletions_add(&deletions, now_ms - (uint64_t)GATEWAY_DELETION_SLOTS * MINUTE_MS, 5);
    assert_true(gateway_deletions_sum(&deletions, now_ms) >= 12);
    assert_int_equal(gateway_deletions_sum(&deletions, now_ms + 2 * HOUR_MS), 0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(room_ends_at_the_stop_mark),  cmocka_unit_test(rules_and_jobs_are_named),
        cmocka_unit_test(others_have_a_share_an_hour), cmocka_unit_test(a_model_of_room),
        cmocka_unit_test(a_model_of_the_hour),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
