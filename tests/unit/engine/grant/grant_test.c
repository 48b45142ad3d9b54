/*
 * What is tested: blocks that another process fills, by either rail: what was put and committed is
 * a block, found by its name and read back; what was not, or was aborted, or is late, goes back and
 * an error says so; a put that comes too late spoils nothing but what its victim then hears of, and
 * never a block; grants are bounded; random writers that do all of it at random leave only right
 * blocks; no allocation that fails leaks.
 */
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/core/random.h"

#include "tests/unit/engine/grant/grant_bed.h"
#include "tests/unit/engine/support/block_bytes.h"

enum { LONG = 20000, SHORT = 60, STEPS = 400 / TEST_ALONE_SHARE };

/* Who is silent for two seconds is away: on a busy machine that is nobody's fault. */
static void
open_hand(struct grant_bed *bed, struct grant_hand *hand)
{
    const uint64_t until_ms = kvt_clock_mono_ms() + GRANT_BED_WAIT;
    enum kvt_err rc;

    do
        rc = grant_hand_open(hand, bed->near, bed->endpoint, bed->description, bed->size);
    while (rc == KVT_UNAVAILABLE && kvt_clock_mono_ms() < until_ms);
    assert_int_equal(rc, KVT_OK);
}

static void
begin(struct grant_bed *bed, struct grant_hand *hand, bool near, uint64_t hold_ms, uint64_t rest_ms)
{
    grant_bed_open(bed, near, hold_ms, rest_ms);
    bed->alone = true;
    open_hand(bed, hand);
}

static void
end(struct grant_bed *bed, struct grant_hand *hand)
{
    grant_hand_close(hand);
    grant_bed_wait_idle(bed);
    grant_bed_close(bed);
}

/* Acquire, put, commit. */
static void
write_all(struct grant_hand *hand, const uint64_t *names, size_t count)
{
    struct engine_grant grant;

    assert_int_equal(grant_hand_acquire(hand, names, count, LONG, &grant), KVT_OK);
    if (grant.number == 0)
        return;
    assert_int_equal(grant_hand_put(hand, &grant), KVT_OK);
    assert_int_equal(engine_writer_commit(hand->writer, &grant, NULL, NULL), KVT_OK);
    for (size_t i = 0; i < count; i++)
        assert_true(grant.blocks[i].status == KVT_OK || grant.blocks[i].status == KVT_EXISTS);
}

static void
what_is_committed_is_a_block(void **state)
{
    const uint64_t first[] = {11, 12};
    const uint64_t names[] = {11, 13, 12, 14, 15};
    struct engine_block_ref refs[5];
    struct engine_grant grant;
    struct grant_hand hand;
    struct grant_bed bed;

    (void)state;
    for (unsigned near = 0; near < 2; near++) {
        begin(&bed, &hand, near != 0, LONG, LONG);
        write_all(&hand, first, 2);
        assert_int_equal(grant_hand_acquire(&hand, names, 5, LONG, &grant), KVT_OK);
        for (size_t i = 0; i < 5; i++)
            assert_int_equal(grant.blocks[i].status, i == 0 || i == 2 ? KVT_EXISTS : KVT_OK);
        assert_int_equal(engine_grants_stats(bed.grants).held, 3);
        assert_false(kvbm_pool_has(bed.pool, 13)); /* nobody finds it before it is there */
        assert_int_equal(grant_hand_put(&hand, &grant), KVT_OK);
        assert_false(kvbm_pool_has(bed.pool, 13));
        assert_int_equal(engine_writer_commit(hand.writer, &grant, refs, NULL), KVT_OK);
        for (size_t i = 0; i < 5; i++) {
            const bool is_new = i != 0 && i != 2;

            assert_int_equal(grant.blocks[i].status, is_new ? KVT_OK : KVT_EXISTS);
            assert_int_equal(refs[i].hash, is_new ? names[i] : 0);
            assert_int_equal(refs[i].generation % 2, is_new);
        }
        assert_int_equal(grant_bed_names(&bed, &hand), 5);
        assert_int_equal(engine_grants_stats(bed.grants).committed, 5);
        assert_true(grant_bed_is_idle(&bed));
        end(&bed, &hand);
    }
}

/* A reference that a commit gave is as good as any: until its owner hides the block. */
static void
its_references_can_be_read(void **state)
{
    static uint8_t into[1 << 20];
    const uint64_t name = 77;
    struct engine_import_read read = {.host = into};
    const struct engine_import_request request = {.reads = &read, .count = 1, .wait_ms = LONG};
    struct engine_grant grant;
    struct grant_hand hand;
    struct grant_bed bed;

    (void)state;
    begin(&bed, &hand, true, LONG, LONG);
    assert_int_equal(grant_hand_acquire(&hand, &name, 1, LONG, &grant), KVT_OK);
    assert_int_equal(grant_hand_put(&hand, &grant), KVT_OK);
    assert_int_equal(engine_writer_commit(hand.writer, &grant, &read.ref, NULL), KVT_OK);
    assert_int_equal(engine_import_run(hand.import, &request, NULL), KVT_OK);
    assert_true(blocks_are(into, engine_import_shape(hand.import)->layout.block_size, name));
    engine_blockset_hide(bed.set, read.ref.block);
    assert_int_equal(engine_import_run(hand.import, &request, NULL), KVT_NOTFOUND);
    end(&bed, &hand);
}

static void
what_is_not_put_goes_back(void **state)
{
    const uint64_t names[] = {1, 2, 3};
    const void *blocks[3] = {NULL};
    struct engine_grant grant;
    struct grant_hand hand;
    struct grant_bed bed;
    uint8_t *bytes;

    (void)state;
    begin(&bed, &hand, true, LONG, LONG);
    bytes = kvt_calloc(1, engine_import_shape(hand.import)->layout.block_size);
    assert_non_null(bytes);
    blocks_write(bytes, engine_import_shape(hand.import)->layout.block_size, 2);
    assert_int_equal(grant_hand_acquire(&hand, names, 3, LONG, &grant), KVT_OK);
    assert_int_equal(engine_writer_put(hand.writer, &grant, blocks, NULL), KVT_PRECONDITION);
    blocks[1] = bytes;
    assert_int_equal(engine_writer_put(hand.writer, &grant, blocks, NULL), KVT_OK);
    assert_int_equal(engine_writer_commit(hand.writer, &grant, NULL, NULL), KVT_OK);
    assert_int_equal(grant.blocks[0].status, KVT_CANCELLED);
    assert_int_equal(grant.blocks[1].status, KVT_OK);
    assert_int_equal(grant.blocks[2].status, KVT_CANCELLED);
    assert_int_equal(grant_bed_names(&bed, &hand), 1);
    assert_int_equal(grant_hand_acquire(&hand, names, 3, LONG, &grant), KVT_OK);
    assert_int_equal(grant.blocks[1].status, KVT_EXISTS);
    assert_int_equal(grant_hand_put(&hand, &grant), KVT_OK);
    engine_writer_abort(hand.writer, &grant);
    assert_int_equal(grant_bed_names(&bed, &hand), 1);
    assert_true(grant_bed_is_idle(&bed));
    assert_int_equal(engine_grants_stats(bed.grants).returned, 4);
    assert_int_equal(engine_grants_stats(bed.grants).resting, 0);
    kvt_free(bytes);
    end(&bed, &hand);
}

static void
a_grant_ends_at_its_deadline(void **state)
{
    const uint64_t names[] = {1, 2};
    struct engine_grant grant;
    struct grant_hand hand;
    struct grant_bed bed;

    (void)state;
    for (unsigned near = 0; near < 2; near++) {
        begin(&bed, &hand, near != 0, LONG, LONG);
        assert_int_equal(grant_hand_acquire(&hand, names, 2, SHORT, &grant), KVT_OK);
        (void)grant_hand_put(&hand, &grant); /* in time, unless the machine is busy */
        grant_bed_wait_idle(&bed);           /* nobody says anything: it goes back by itself */
        assert_int_equal(engine_grants_stats(bed.grants).lost, 2);
        assert_int_equal(engine_grants_stats(bed.grants).resting, 2);
        assert_int_equal(grant_hand_put(&hand, &grant), KVT_TIMEOUT);
        assert_int_equal(engine_writer_commit(hand.writer, &grant, NULL, NULL), KVT_NOTFOUND);
        assert_int_equal(grant.blocks[0].status, KVT_NOTFOUND);
        assert_int_equal(engine_grants_stats(bed.grants).late, 1);
        assert_int_equal(grant_bed_names(&bed, &hand), 0);
        write_all(&hand, names, 2);
        assert_int_equal(grant_bed_names(&bed, &hand), 2);
        end(&bed, &hand);
    }
}

/* As a process that was stopped in the middle of a put, and goes on when its place is another's. */
static void
a_late_put_spoils_no_block(void **state)
{
    uint64_t names[GRANT_BED_PLACES];
    struct engine_grant late;
    struct engine_grant over;
    struct engine_grant grant;
    struct grant_hand hands[2];
    struct grant_bed bed;

    (void)state;
    for (unsigned near = 0; near < 2; near++) {
        for (size_t i = 0; i < GRANT_BED_PLACES; i++)
            names[i] = 100 + i;
        begin(&bed, &hands[0], near != 0, LONG, 1);
        open_hand(&bed, &hands[1]);
        assert_int_equal(grant_hand_acquire(&hands[0], names, 2, SHORT, &late), KVT_OK);
        late.blocks[0].hash = 1;
        late.blocks[1].hash = 2; /* other bytes than the next grant's */
        grant_bed_wait_idle(&bed);
        kvt_clock_sleep_ms(5);
        assert_int_equal(grant_hand_acquire(&hands[1], names, GRANT_BED_PLACES, LONG, &grant),
                         KVT_OK); /* every place there is */
        assert_int_equal(grant_hand_put(&hands[1], &grant), KVT_OK);
        late.deadline_ms = UINT64_MAX;
        assert_int_equal(grant_hand_put(&hands[0], &late), KVT_OK);
        over = late;
        assert_int_equal(engine_writer_commit(hands[0].writer, &over, NULL, NULL), KVT_NOTFOUND);
        assert_int_equal(engine_writer_commit(hands[1].writer, &grant, NULL, NULL), KVT_OK);
        for (size_t i = 0; i < GRANT_BED_PLACES; i++) {
            const bool spoiled = grant.blocks[i].place == late.blocks[0].place ||
                                 grant.blocks[i].place == late.blocks[1].place;

            assert_int_equal(grant.blocks[i].status, spoiled ? KVT_CORRUPT : KVT_OK);
        }
        assert_int_equal(engine_grants_stats(bed.grants).corrupt, 2);
        assert_int_equal(grant_bed_names(&bed, &hands[1]), GRANT_BED_PLACES - 2);
        write_all(&hands[1], names, GRANT_BED_PLACES);
        assert_int_equal(grant_hand_put(&hands[0], &late), KVT_OK); /* behind the commit */
        assert_int_equal(grant_bed_names(&bed, &hands[1]), GRANT_BED_PLACES);
        grant_hand_close(&hands[1]);
        end(&bed, &hands[0]);
    }
}

/* Bytes that change between put and commit, as by a rail that delivers too late. */
static void
what_is_damaged_is_no_block(void **state)
{
    const uint64_t name = 5;
    const void *blocks[1];
    struct engine_grant grant;
    struct grant_hand hand;
    struct grant_bed bed;
    uint8_t *bytes;

    (void)state;
    begin(&bed, &hand, true, LONG, LONG);
    bytes = kvt_calloc(1, engine_import_shape(hand.import)->layout.block_size);
    assert_non_null(bytes);
    blocks[0] = bytes;
    assert_int_equal(grant_hand_acquire(&hand, &name, 1, LONG, &grant), KVT_OK);
    assert_int_equal(engine_writer_put(hand.writer, &grant, blocks, NULL), KVT_OK);
    grant.blocks[0].sum ^= 1u << 7;
    assert_int_equal(engine_writer_commit(hand.writer, &grant, NULL, NULL), KVT_OK);
    assert_int_equal(grant.blocks[0].status, KVT_CORRUPT);
    assert_int_equal(grant_bed_names(&bed, &hand), 0);
    assert_true(grant_bed_is_idle(&bed));
    write_all(&hand, &name, 1);
    assert_int_equal(grant_bed_names(&bed, &hand), 1);
    kvt_free(bytes);
    end(&bed, &hand);
}

static void
two_writers_of_a_name_make_one_block(void **state)
{
    const uint64_t name = 9;
    struct engine_grant grants[2];
    struct grant_hand hands[2];
    struct grant_bed bed;

    (void)state;
    begin(&bed, &hands[0], true, LONG, LONG);
    open_hand(&bed, &hands[1]);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(grant_hand_acquire(&hands[i], &name, 1, LONG, &grants[i]), KVT_OK);
        assert_int_equal(grant_hand_put(&hands[i], &grants[i]), KVT_OK);
    }
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(engine_writer_commit(hands[i].writer, &grants[i], NULL, NULL), KVT_OK);
        assert_int_equal(grants[i].blocks[0].status, i == 0 ? KVT_OK : KVT_EXISTS);
    }
    assert_int_equal(grant_bed_names(&bed, &hands[0]), 1);
    grant_hand_close(&hands[1]);
    end(&bed, &hands[0]);
}

static void
grants_are_bounded_and_their_writers(void **state)
{
    uint64_t names[ENGINE_GRANT_BLOCKS_MAX + 1];
    struct engine_grant grant;
    struct engine_grant more;
    struct grant_hand hands[2];
    struct grant_bed bed;

    (void)state;
    for (size_t i = 0; i <= ENGINE_GRANT_BLOCKS_MAX; i++)
        names[i] = i + 1;
    begin(&bed, &hands[0], true, LONG, LONG);
    open_hand(&bed, &hands[1]);
    assert_int_equal(
        grant_hand_acquire(&hands[0], names, ENGINE_GRANT_BLOCKS_MAX + 1, LONG, &grant), KVT_RANGE);
    assert_int_equal(grant_hand_acquire(&hands[0], names, 0, LONG, &grant), KVT_RANGE);
    assert_int_equal(grant_hand_acquire(&hands[0], names, GRANT_BED_PLACES + 1, LONG, &grant),
                     KVT_AGAIN);
    assert_int_equal(grant.number, 0);
    assert_true(grant_bed_is_idle(&bed));
    assert_int_equal(grant_hand_acquire(&hands[0], names, GRANT_BED_PLACES, LONG, &grant), KVT_OK);
    assert_int_equal(grant_hand_acquire(&hands[1], &names[GRANT_BED_PLACES], 1, LONG, &more),
                     KVT_AGAIN);
    /* Whose it is decides, not the number. */
    more = grant;
    assert_int_equal(engine_writer_commit(hands[1].writer, &more, NULL, NULL), KVT_NOTFOUND);
    more = grant;
    more.count--;
    assert_int_equal(engine_writer_commit(hands[0].writer, &more, NULL, NULL), KVT_INVALID);
    assert_int_equal(engine_grants_stats(bed.grants).held, GRANT_BED_PLACES);
    more = grant;
    engine_writer_abort(hands[0].writer, &more);
    assert_int_equal(engine_writer_commit(hands[0].writer, &grant, NULL, NULL), KVT_NOTFOUND);
    write_all(&hands[1], names, GRANT_BED_PLACES);
    grant_hand_close(&hands[1]);
    end(&bed, &hands[0]);
}

static void
a_writer_that_leaves_gives_all_back(void **state)
{
    const uint64_t names[] = {1, 2, 3};
    struct engine_grant grant;
    struct grant_hand hands[2];
    struct grant_bed bed;

    (void)state;
    begin(&bed, &hands[0], true, LONG, LONG);
    open_hand(&bed, &hands[1]);
    assert_int_equal(grant_hand_acquire(&hands[1], names, 3, LONG, &grant), KVT_OK);
    grant_hand_close(&hands[1]);
    grant_bed_wait_idle(&bed); /* long before the deadline */
    assert_int_equal(engine_grants_stats(bed.grants).lost, 3);
    assert_int_equal(engine_grants_stats(bed.grants).resting, 3);
    end(&bed, &hands[0]);
}

/* Whoever listens there now has another set: what was imported is of nothing. */
static void
another_set_is_not_written(void **state)
{
    const uint64_t name = 1;
    struct engine_grants_options options;
    struct engine_grant grant;
    struct grant_hand again;
    struct grant_hand hand;
    struct grant_bed bed;
    struct grant_bed other;

    (void)state;
    begin(&bed, &hand, true, LONG, LONG);
    grant_bed_open(&other, true, LONG, LONG);
    assert_int_equal(grant_hand_open(&again, true, other.endpoint, bed.description, bed.size),
                     KVT_NOTFOUND);
    engine_grants_close(bed.grants);
    options = (struct engine_grants_options){
        .fabric = other.fabric, .set = other.set, .pool = other.pool, .endpoint = bed.endpoint};
    assert_int_equal(engine_grants_open(&bed.grants, &options, NULL), KVT_OK);
    (void)grant_hand_acquire(&hand, &name, 1, LONG, &grant); /* hears that the link is over */
    for (unsigned i = 0; i < 100; i++) {
        const enum kvt_err rc = grant_hand_acquire(&hand, &name, 1, LONG, &grant);

        if (rc == KVT_NOTFOUND)
            break;
        assert_int_equal(rc, KVT_UNAVAILABLE);
        assert_true(i < 99);
        kvt_clock_sleep_ms(50);
    }
    assert_int_equal(grant.number, 0);
    grant_hand_close(&hand);
    grant_bed_close(&bed);
    grant_bed_close(&other);
}

/* Random -------------------------------------------------------------------------------------- */

struct player {
    struct grant_hand hand;
    struct engine_grant grant;
    bool has;
};

static void
step(struct player *player, uint64_t *random)
{
    const uint64_t what = kvt_random_below(random, 10);
    uint64_t names[4];
    const size_t count = 1 + kvt_random_below(random, 4);

    if (!player->has) {
        for (size_t i = 0; i < count; i++)
            names[i] = 1 + kvt_random_below(random, 2 * GRANT_BED_BLOCKS);
        player->has = grant_hand_acquire(&player->hand, names, count, what < 3 ? what : LONG,
                                         &player->grant) == KVT_OK &&
                      player->grant.number != 0;
    } else if (what < 4) {
        if (what == 0)
            player->grant.deadline_ms = UINT64_MAX; /* it will be late, and does not know */
        (void)grant_hand_put(&player->hand, &player->grant);
    } else if (what < 5) {
        engine_writer_abort(player->hand.writer, &player->grant);
        player->has = false;
    } else if (what < 9) {
        player->has =
            engine_writer_commit(player->hand.writer, &player->grant, NULL, NULL) != KVT_OK &&
            player->grant.number != 0;
    }
}

static void
only_right_blocks_have_names(void **state)
{
    uint64_t random = test_seed();
    struct player players[3] = {0};
    struct engine_grants_stats stats;
    struct grant_bed bed;

    (void)state;
    for (unsigned near = 0; near < 2; near++) {
        grant_bed_open(&bed, near != 0, LONG, 1);
        for (size_t i = 0; i < 3; i++)
            open_hand(&bed, &players[i].hand);
        for (size_t i = 0; i < STEPS; i++) {
            step(&players[kvt_random_below(&random, 3)], &random);
            if (i % 50 == 0)
                (void)grant_bed_names(&bed, &players[0].hand);
        }
        assert_true(grant_bed_names(&bed, &players[0].hand) > 0);
        for (size_t i = 0; i < 3; i++) {
            grant_hand_close(&players[i].hand);
            players[i].has = false;
        }
        grant_bed_wait_idle(&bed);
        stats = engine_grants_stats(bed.grants);
        assert_true(stats.committed > 0 && stats.returned > 0 && stats.lost > 0);
        assert_int_equal(stats.granted,
                         stats.committed + stats.returned + stats.lost + stats.corrupt);
        grant_bed_close(&bed);
    }
}

/* Allocations --------------------------------------------------------------------------------- */

static bool
write_one(struct grant_hand *hand)
{
    static uint8_t bytes[1 << 20];
    const void *const blocks[] = {bytes};
    const struct kvbm_label label = {.id = {.hash = 1}};
    struct engine_grant grant;
    bool made;

    if (engine_writer_acquire(hand->writer, &label, 1, LONG, &grant, NULL) != KVT_OK)
        return false;
    made = engine_writer_put(hand->writer, &grant, blocks, NULL) == KVT_OK;
    if (made)
        made = engine_writer_commit(hand->writer, &grant, NULL, NULL) == KVT_OK &&
               grant.blocks[0].status == KVT_OK;
    else
        engine_writer_abort(hand->writer, &grant);
    return made;
}

/* Owner and writer. */
static bool
attempt(void *arg)
{
    struct grant_bed *bed = arg;
    const struct engine_grants_options options = {
        .fabric = bed->fabric, .set = bed->set, .pool = bed->pool, .endpoint = "tcp://127.0.0.1:0"};
    struct engine_grants *grants;
    struct grant_hand hand = {0};
    bool made = false;

    (void)kvbm_pool_clear(bed->pool);
    if (engine_grants_open(&grants, &options, NULL) != KVT_OK) {
        assert_null(grants);
        return false;
    }
    if (grant_hand_open(&hand, true, engine_grants_endpoint(grants), bed->description, bed->size) ==
        KVT_OK)
        made = write_one(&hand);
    grant_hand_close(&hand);
    engine_grants_close(grants);
    assert_int_equal(kvbm_pool_stats(bed->pool).active, 0);
    return made;
}

static void
no_allocation_that_fails_leaks(void **state)
{
    struct grant_bed bed;

    (void)state;
    grant_bed_open(&bed, true, LONG, LONG);
    assert_true(test_sweep_allocations(attempt, &bed) >= 4);
    grant_bed_close(&bed);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_committed_is_a_block),
        cmocka_unit_test(its_references_can_be_read),
        cmocka_unit_test(what_is_not_put_goes_back),
        cmocka_unit_test(a_grant_ends_at_its_deadline),
        cmocka_unit_test(a_late_put_spoils_no_block),
        cmocka_unit_test(what_is_damaged_is_no_block),
        cmocka_unit_test(two_writers_of_a_name_make_one_block),
        cmocka_unit_test(grants_are_bounded_and_their_writers),
        cmocka_unit_test(a_writer_that_leaves_gives_all_back),
        cmocka_unit_test(another_set_is_not_written),
        cmocka_unit_test(only_right_blocks_have_names),
        cmocka_unit_test(no_allocation_that_fails_leaks),
    };

    return cmocka_run_group_tests_name("engine/grant", tests, NULL, NULL);
}
