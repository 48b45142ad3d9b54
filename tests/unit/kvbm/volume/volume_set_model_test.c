/*
 * What is tested: volumes of all kinds that need no server, beside an array, over damage on the
 * disk, system calls that fail or do half their work, cancelling and opening again.
 *
 * How: what the array knows of a block is "there", "not there", or (after a fault) "nobody knows".
 * Whatever it is: bytes that are given are right, and a get that fails leaves zeroes.
 */
#include <errno.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/random.h"
#include "kvbm/volume/volume_set.h"

#include "tests/unit/kvbm/support/volume_bed.h"

enum { STEPS = 3000, BATCH = KVT_VOLUME_SLICE + 8, VOLUME = 77 };

enum known { ABSENT, THERE, BROKEN, ANY };

struct world {
    struct volume_bed bed;
    struct kvbm_volumes *set;
    enum known blocks[BED_IDS];
    uint64_t random;
    uint8_t (*bytes)[BED_SIZE];
    struct kvt_volume_item items[BATCH];
    uint32_t numbers[BATCH];
    uint64_t seen[KVT_ERR_COUNT][KVT_VOLUME_VERB_COUNT];
};

static void
open_again(struct world *world)
{
    struct kvbm_volume *volume;

    assert_int_equal(volume_bed_volume(&world->bed, &volume), KVT_OK);
    assert_int_equal(kvbm_volumes_register(world->set, VOLUME, volume, 4, NULL), KVT_OK);
}

static uint32_t
count_of(const struct world *world, enum known known)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < BED_IDS; i++)
        count += world->blocks[i] == known;
    return count;
}

/* Different blocks, by lot. */
static size_t
pick(struct world *world, enum kvt_volume_verb verb)
{
    const size_t count = 1 + (size_t)kvt_random_below(&world->random, BATCH);
    const uint32_t first = (uint32_t)kvt_random_below(&world->random, BED_IDS);
    const bool moves = verb == KVT_VOLUME_GET || verb == KVT_VOLUME_PUT;

    for (size_t i = 0; i < count; i++) {
        const uint32_t number = (first + (uint32_t)i * 7) % BED_IDS; /* 7 and 60 share nothing */

        world->numbers[i] = number;
        world->items[i] = (struct kvt_volume_item){
            .id = volume_bed_id(number),
            .bytes = moves ? world->bytes[i] : NULL,
            .size = moves ? BED_SIZE : 0,
            .status = KVT_ERR_COUNT,
        };
        if (verb == KVT_VOLUME_PUT)
            volume_bed_fill(number, world->bytes[i]);
        else
            memset(world->bytes[i], 0xee, BED_SIZE);
    }
    return count;
}

static void
judge_get(const struct world *world, size_t at, enum kvt_err status, enum known *known)
{
    const uint8_t *bytes = world->bytes[at];

    switch (status) {
    case KVT_OK: assert_true(volume_bed_is(world->numbers[at], bytes)); break;
    case KVT_NOTFOUND:
    case KVT_CANCELLED: assert_int_equal(bytes[0], 0xee); break;
    default: assert_true(volume_bed_is_zero(bytes)); break;
    }
    if (volume_bed_failed() || status == KVT_CANCELLED)
        return;
    switch (*known) {
    case ABSENT: assert_int_equal(status, KVT_NOTFOUND); break;
    case THERE: assert_int_equal(status, KVT_OK); break;
    case BROKEN: assert_true(status == KVT_CORRUPT || status == KVT_NOTFOUND); break;
    case ANY:
        assert_true(status == KVT_OK || status == KVT_NOTFOUND || status == KVT_CORRUPT);
        *known = status == KVT_OK ? THERE : status == KVT_NOTFOUND ? ABSENT : BROKEN;
        break;
    }
}

static void
judge_put(enum kvt_err status, enum known *known)
{
    if (status == KVT_CANCELLED)
        return;
    if (status == KVT_OK || status == KVT_EXISTS) {
        if (!volume_bed_failed())
            assert_true(status == (*known == THERE ? KVT_EXISTS : KVT_OK) || *known == ANY ||
                        *known == BROKEN);
        *known = THERE;
        return;
    }
    assert_true(status == KVT_FULL || volume_bed_failed());
    if (volume_bed_failed())
        *known = ANY;
    else
        assert_true(*known != THERE);
}

static void
judge_remove(enum kvt_err status, enum known *known)
{
    if (status == KVT_CANCELLED)
        return;
    if (!volume_bed_failed())
        assert_true(status == (*known == ABSENT ? KVT_NOTFOUND : KVT_OK) || *known == ANY ||
                    *known == BROKEN);
    *known = status == KVT_OK || status == KVT_NOTFOUND ? ABSENT : ANY;
}

/* Bytes are not looked at: one that is broken may be there. */
static void
judge_has(enum kvt_err status, enum known known)
{
    if (status == KVT_CANCELLED || volume_bed_failed())
        return;
    if (known == THERE)
        assert_int_equal(status, KVT_OK);
    else if (known == ABSENT)
        assert_int_equal(status, KVT_NOTFOUND);
    else
        assert_true(status == KVT_OK || status == KVT_NOTFOUND || status == KVT_CORRUPT);
}

static void
ask(struct world *world)
{
    const enum kvt_volume_verb verb =
        (enum kvt_volume_verb)kvt_random_below(&world->random, KVT_VOLUME_VERB_COUNT);
    const size_t count = pick(world, verb);
    const struct kvbm_volume_request request = {
        .volume = VOLUME, .verb = verb, .items = world->items, .count = count};
    struct kvt_ticket *ticket;
    enum kvt_err rc;

    assert_int_equal(kvbm_volumes_start(world->set, &request, 10000, &ticket), KVT_OK);
    if (kvt_random_below(&world->random, 8) == 0)
        (void)kvt_ticket_cancel(ticket);
    do
        rc = kvt_ticket_wait(ticket, 20000);
    while (rc == KVT_TIMEOUT);
    kvt_ticket_release(ticket);
    for (size_t i = 0; i < count; i++) {
        const enum kvt_err status = world->items[i].status;
        enum known *known = &world->blocks[world->numbers[i]];

        assert_true(status < KVT_ERR_COUNT);
        world->seen[status][verb]++;
        if (rc == KVT_OK)
            assert_true(status == KVT_OK || status == KVT_EXISTS);
        switch (verb) {
        case KVT_VOLUME_GET: judge_get(world, i, status, known); break;
        case KVT_VOLUME_PUT: judge_put(status, known); break;
        case KVT_VOLUME_HAS: judge_has(status, *known); break;
        default: judge_remove(status, known); break;
        }
    }
}

static void
ask_with_fault(struct world *world)
{
    static const int errors[] = {0, EIO, ENOSPC};

    volume_bed_fail_after((uint32_t)kvt_random_below(&world->random, 60),
                          errors[kvt_random_below(&world->random, 3)]);
    ask(world);
    volume_bed_fail_after(UINT32_MAX, 0);
    /* A failed sync makes a kept disk distrust itself for good: a process would start anew. */
    if (world->bed.kind == BED_FILE) {
        assert_int_equal(kvbm_volumes_unregister(world->set, VOLUME, false), KVT_OK);
        open_again(world);
        for (uint32_t i = 0; i < BED_IDS; i++)
            if (world->blocks[i] != ABSENT)
                world->blocks[i] = ANY;
    }
}

static void
damage(struct world *world)
{
    if (!volume_bed_damage(&world->bed, &world->random))
        return;
    for (uint32_t i = 0; i < BED_IDS; i++)
        if (world->blocks[i] == THERE)
            world->blocks[i] = ANY;
}

static void
leave_and_come(struct world *world)
{
    assert_int_equal(
        kvbm_volumes_unregister(world->set, VOLUME, kvt_random_below(&world->random, 2) == 0),
        KVT_OK);
    assert_int_equal(kvbm_volumes_unregister(world->set, VOLUME, true), KVT_NOTFOUND);
    open_again(world);
    for (uint32_t i = 0; i < BED_IDS; i++) {
        if (world->bed.kind == BED_RAM)
            world->blocks[i] = ABSENT;
        else if (world->bed.kind == BED_FILE && world->blocks[i] == BROKEN)
            world->blocks[i] = ANY; /* opening reads them all, and drops what is wrong */
    }
}

static void
follow(enum bed_kind kind)
{
    struct world *world = kvt_calloc(1, sizeof(*world));

    assert_non_null(world);
    world->random = test_seed() + kind;
    world->bytes = kvt_aligned(4096, (size_t)BATCH * BED_SIZE);
    assert_non_null(world->bytes);
    assert_int_equal(kvbm_volumes_new(&world->set, NULL), KVT_OK);
    volume_bed_open(&world->bed, kind);
    open_again(world);
    for (uint32_t step = 0; step < STEPS / TEST_ALONE_SHARE; step++) {
        const uint64_t what = kvt_random_below(&world->random, 100);

        if (what < 80)
            ask(world);
        else if (what < 90)
            ask_with_fault(world);
        else if (what < 97)
            damage(world);
        else
            leave_and_come(world);
        assert_true(count_of(world, THERE) <= BED_BLOCKS);
    }
    assert_true(world->seen[KVT_OK][KVT_VOLUME_GET] > 0);
    assert_true(world->seen[KVT_NOTFOUND][KVT_VOLUME_GET] > 0);
    assert_true(world->seen[KVT_OK][KVT_VOLUME_HAS] > 0);
    assert_true(world->seen[KVT_NOTFOUND][KVT_VOLUME_HAS] > 0);
    assert_true(world->seen[KVT_EXISTS][KVT_VOLUME_PUT] > 0);
    assert_true(world->seen[KVT_FULL][KVT_VOLUME_PUT] > 0);
    if (kind != BED_RAM)
        assert_true(world->seen[KVT_CORRUPT][KVT_VOLUME_GET] > 0);
    kvbm_volumes_free(world->set);
    volume_bed_close(&world->bed);
    kvt_free(world->bytes);
    kvt_free(world);
}

static void
ram_follows_a_model(void **state)
{
    (void)state;
    follow(BED_RAM);
}

static void
file_follows_a_model(void **state)
{
    (void)state;
    follow(BED_FILE);
}

static void
directory_follows_a_model(void **state)
{
    (void)state;
    follow(BED_DIRECTORY);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ram_follows_a_model),
        cmocka_unit_test(file_follows_a_model),
        cmocka_unit_test(directory_follows_a_model),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
