/*
 * What is tested: kvbm/volume/volume_set.h: numbers, limits and refusals; waiting, cancelling and
 * taking a volume away while it works; many threads at once; and every failing allocation.
 */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/core/random.h"
#include "base/thread/cond.h"
#include "kvbm/volume/volume_set.h"

#include "tests/unit/kvbm/support/volume_bed.h"

enum { WAIT = 20000 };

/* A volume that works only while it is let. */
struct slow {
    struct kvbm_volume head;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool open;
    bool inside;
    unsigned calls;
    _Atomic unsigned stops;
    _Atomic unsigned *closes;
};

static void
slow_get(struct kvbm_volume *volume, struct kvt_volume_item *items, size_t count)
{
    struct slow *slow = (struct slow *)volume;

    (void)pthread_mutex_lock(&slow->lock);
    slow->inside = true;
    slow->calls++;
    (void)pthread_cond_broadcast(&slow->changed);
    while (!slow->open)
        (void)pthread_cond_wait(&slow->changed, &slow->lock);
    slow->inside = false;
    (void)pthread_mutex_unlock(&slow->lock);
    for (size_t i = 0; i < count; i++) {
        memset(items[i].bytes, 0x55, items[i].size);
        items[i].status = i % 2 == 0 ? KVT_OK : KVT_IO;
    }
}

static void
slow_let(struct slow *slow, bool open)
{
    (void)pthread_mutex_lock(&slow->lock);
    slow->open = open;
    (void)pthread_cond_broadcast(&slow->changed);
    (void)pthread_mutex_unlock(&slow->lock);
}

static void
slow_wait_inside(struct slow *slow)
{
    (void)pthread_mutex_lock(&slow->lock);
    while (!slow->inside)
        (void)pthread_cond_wait(&slow->changed, &slow->lock);
    (void)pthread_mutex_unlock(&slow->lock);
}

static void
slow_stop(struct kvbm_volume *volume)
{
    struct slow *slow = (struct slow *)volume;

    atomic_fetch_add(&slow->stops, 1);
    slow_let(slow, true);
}

static void
slow_close(struct kvbm_volume *volume)
{
    struct slow *slow = (struct slow *)volume;

    assert_false(slow->inside);
    atomic_fetch_add(slow->closes, 1);
    (void)pthread_cond_destroy(&slow->changed);
    (void)pthread_mutex_destroy(&slow->lock);
    kvt_free(slow);
}

static const struct kvbm_volume_driver slow_driver = {
    .kind = "slow", .get = slow_get, .put = slow_get, .stop = slow_stop, .close = slow_close};

static struct slow *
slow_new(_Atomic unsigned *closes)
{
    struct slow *slow = kvt_calloc(1, sizeof(*slow));

    assert_non_null(slow);
    slow->head = (struct kvbm_volume){.driver = &slow_driver, .block_size = 16};
    slow->closes = closes;
    assert_int_equal(pthread_mutex_init(&slow->lock, NULL), 0);
    assert_true(kvt_cond_init(&slow->changed));
    return slow;
}

struct asked {
    struct kvt_volume_item items[100];
    uint8_t bytes[100][16];
    struct kvt_ticket *ticket;
};

static enum kvt_err
ask(struct kvbm_volumes *set, struct asked *asked, size_t count, uint64_t wait_ms)
{
    const struct kvbm_volume_request request = {
        .volume = 1, .verb = KVT_VOLUME_GET, .items = asked->items, .count = count};

    for (size_t i = 0; i < count; i++)
        asked->items[i] = (struct kvt_volume_item){.bytes = asked->bytes[i], .size = 16};
    return kvbm_volumes_start(set, &request, wait_ms, &asked->ticket);
}

static void
numbers_and_refusals(void **state)
{
    _Atomic unsigned closes = 0;
    struct asked *asked = kvt_calloc(1, sizeof(*asked));
    struct kvbm_volume_request request = {
        .volume = 1, .verb = KVT_VOLUME_GET, .items = asked->items, .count = 1};
    struct kvt_volume_stats stats;
    struct kvbm_volumes *set;
    struct slow *other = slow_new(&closes);

    (void)state;
    assert_int_equal(kvbm_volumes_new(&set, NULL), KVT_OK);
    assert_int_equal(ask(set, asked, 1, 0), KVT_NOTFOUND);
    assert_int_equal(kvbm_volumes_stats(set, 1, &stats), KVT_NOTFOUND);
    for (uint64_t id = 0; id < KVT_VOLUMES_MAX; id++)
        assert_int_equal(kvbm_volumes_register(set, id, &slow_new(&closes)->head, 2, NULL), KVT_OK);
    assert_int_equal(kvbm_volumes_register(set, 1, &other->head, 2, NULL), KVT_EXISTS);
    assert_int_equal(kvbm_volumes_register(set, 999, &other->head, 2, NULL), KVT_FULL);
    assert_int_equal(kvbm_volumes_register(set, 999, &other->head, 0, NULL), KVT_INVALID);
    kvbm_volume_close(&other->head);

    assert_int_equal(ask(set, asked, 0, 0), KVT_INVALID);
    asked->items[0] = (struct kvt_volume_item){.bytes = asked->bytes[0], .size = 15};
    assert_int_equal(kvbm_volumes_run(set, &request), KVT_INVALID);
    assert_int_equal(asked->items[0].status, KVT_INVALID);
    asked->items[0] = (struct kvt_volume_item){.size = 0};
    request.verb = KVT_VOLUME_REMOVE;
    assert_int_equal(kvbm_volumes_run(set, &request), KVT_UNSUPPORTED);
    request.verb = KVT_VOLUME_HAS;
    assert_int_equal(kvbm_volumes_run(set, &request), KVT_UNSUPPORTED);
    request.count = KVT_VOLUME_ITEMS_MAX + 1;
    assert_int_equal(kvbm_volumes_run(set, &(struct kvbm_volume_request){.volume = 1}),
                     KVT_INVALID);
    kvbm_volumes_free(set);
    assert_int_equal(closes, KVT_VOLUMES_MAX + 1);
    kvt_free(asked);
}

static void
full_cancelled_and_half(void **state)
{
    _Atomic unsigned closes = 0;
    struct asked *asked = kvt_calloc(4, sizeof(*asked));
    struct slow *slow = slow_new(&closes);
    struct kvbm_volumes *set;

    (void)state;
    assert_int_equal(kvbm_volumes_new(&set, NULL), KVT_OK);
    assert_int_equal(kvbm_volumes_register(set, 1, &slow->head, 2, NULL), KVT_OK);
    assert_int_equal(ask(set, &asked[0], 100, 0), KVT_OK);
    slow_wait_inside(slow);
    assert_int_equal(ask(set, &asked[1], 2, 0), KVT_OK);
    assert_int_equal(ask(set, &asked[2], 2, 0), KVT_OK);
    assert_int_equal(ask(set, &asked[3], 2, 0), KVT_AGAIN);
    assert_null(asked[3].ticket);
    assert_int_equal(ask(set, &asked[3], 2, 20), KVT_AGAIN);

    /* Not begun: at once.  Begun: the slice under way is finished, no other is begun. */
    assert_int_equal(kvt_ticket_cancel(asked[2].ticket), KVT_OK);
    assert_int_equal(kvt_ticket_wait(asked[2].ticket, 0), KVT_CANCELLED);
    kvt_ticket_release(asked[2].ticket);
    assert_int_equal(kvt_ticket_wait(asked[0].ticket, 10), KVT_TIMEOUT);
    assert_int_equal(kvt_ticket_cancel(asked[0].ticket), KVT_BUSY);
    slow_let(slow, true);
    assert_int_equal(kvt_ticket_wait(asked[0].ticket, WAIT), KVT_IO);
    for (size_t i = 0; i < 100; i++) {
        const bool begun = i < KVT_VOLUME_SLICE;

        assert_int_equal(asked[0].items[i].status, !begun       ? KVT_CANCELLED
                                                   : i % 2 == 0 ? KVT_OK
                                                                : KVT_IO);
        /* Half a body is nobody's. */
        assert_int_equal(asked[0].bytes[i][3], begun && i % 2 == 0 ? 0x55 : 0);
    }
    assert_int_equal(kvt_ticket_wait(asked[1].ticket, WAIT), KVT_IO);
    kvt_ticket_release(asked[0].ticket);
    kvt_ticket_release(asked[1].ticket);
    kvbm_volumes_free(set);
    assert_int_equal(closes, 1);
    kvt_free(asked);
}

struct leaver {
    struct kvbm_volumes *set;
    bool cancel;
    _Atomic bool done;
};

static void *
leave(void *arg)
{
    struct leaver *leaver = arg;

    assert_int_equal(kvbm_volumes_unregister(leaver->set, 1, leaver->cancel), KVT_OK);
    atomic_store(&leaver->done, true);
    return NULL;
}

static void
leaves_while_it_works(bool cancel)
{
    _Atomic unsigned closes = 0;
    struct asked *asked = kvt_calloc(2, sizeof(*asked));
    struct slow *slow = slow_new(&closes);
    struct leaver leaver = {.cancel = cancel};
    pthread_t thread;

    assert_int_equal(kvbm_volumes_new(&leaver.set, NULL), KVT_OK);
    assert_int_equal(kvbm_volumes_register(leaver.set, 1, &slow->head, 2, NULL), KVT_OK);
    assert_int_equal(ask(leaver.set, &asked[0], 1, 0), KVT_OK);
    slow_wait_inside(slow);
    assert_int_equal(ask(leaver.set, &asked[1], 1, 0), KVT_OK);
    assert_int_equal(pthread_create(&thread, NULL, leave, &leaver), 0);
    if (!cancel) {
        struct kvt_volume_stats stats;

        /* It is nobody's any more, but waits for what was asked. */
        while (kvbm_volumes_stats(leaver.set, 1, &stats) == KVT_OK)
            kvt_clock_sleep_ms(1);
        kvt_clock_sleep_ms(20);
        assert_false(atomic_load(&leaver.done));
        assert_int_equal(atomic_load(&closes), 0);
        slow_let(slow, true);
    }
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(closes, 1);
    /* Tickets outlive it. */
    assert_int_equal(kvt_ticket_wait(asked[0].ticket, 0), KVT_OK);
    assert_int_equal(kvt_ticket_wait(asked[1].ticket, 0), cancel ? KVT_CANCELLED : KVT_OK);
    kvt_ticket_release(asked[0].ticket);
    kvt_ticket_release(asked[1].ticket);
    kvbm_volumes_free(leaver.set);
    kvt_free(asked);
}

static void
leaving_waits(void **state)
{
    (void)state;
    leaves_while_it_works(false);
}

static void
leaving_cancels(void **state)
{
    (void)state;
    leaves_while_it_works(true);
}

/* Threads that put, get, remove and cancel, while a volume comes and goes. */
struct crowd {
    struct kvbm_volumes *set;
    struct volume_bed bed;
    uint64_t seed;
    _Atomic unsigned right;
    _Atomic bool over;
};

static void *
use(void *arg)
{
    struct crowd *crowd = arg;
    uint64_t random = crowd->seed ^ (uint64_t)pthread_self();
    uint8_t *bytes = kvt_aligned(4096, BED_SIZE);

    assert_non_null(bytes);
    while (!atomic_load(&crowd->over)) {
        const enum kvt_volume_verb verb =
            (enum kvt_volume_verb)kvt_random_below(&random, KVT_VOLUME_VERB_COUNT);
        const uint32_t number = (uint32_t)kvt_random_below(&random, 8);
        struct kvt_volume_item item = {.id = volume_bed_id(number)};
        const struct kvbm_volume_request request = {
            .volume = 5, .verb = verb, .items = &item, .count = 1};
        struct kvt_ticket *ticket;

        if (verb == KVT_VOLUME_GET || verb == KVT_VOLUME_PUT) {
            item.bytes = bytes;
            item.size = BED_SIZE;
            volume_bed_fill(number, bytes);
        }
        if (kvbm_volumes_start(crowd->set, &request, kvt_random_below(&random, 2), &ticket) !=
            KVT_OK)
            continue;
        if (kvt_random_below(&random, 4) == 0)
            (void)kvt_ticket_cancel(ticket);
        while (kvt_ticket_wait(ticket, WAIT) == KVT_TIMEOUT)
            continue;
        if (verb == KVT_VOLUME_GET && item.status == KVT_OK) {
            assert_true(volume_bed_is(number, bytes));
            atomic_fetch_add(&crowd->right, 1);
        }
        kvt_ticket_release(ticket);
    }
    kvt_free(bytes);
    return NULL;
}

static void
comes_and_goes_in_a_crowd(void **state)
{
    struct crowd crowd = {.seed = test_seed()};
    pthread_t threads[4];

    (void)state;
    volume_bed_open(&crowd.bed, BED_DIRECTORY);
    assert_int_equal(kvbm_volumes_new(&crowd.set, NULL), KVT_OK);
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, use, &crowd), 0);
    for (unsigned life = 0; life < 20 || atomic_load(&crowd.right) < 20; life++) {
        struct kvbm_volume *volume;

        assert_int_equal(volume_bed_volume(&crowd.bed, &volume), KVT_OK);
        assert_int_equal(kvbm_volumes_register(crowd.set, 5, volume, 2, NULL), KVT_OK);
        kvt_clock_sleep_ms(5);
        assert_int_equal(kvbm_volumes_unregister(crowd.set, 5, life % 2 == 0), KVT_OK);
    }
    atomic_store(&crowd.over, true);
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    kvbm_volumes_free(crowd.set);
    volume_bed_close(&crowd.bed);
}

enum { VOLUME = 4 };

/* Ask for one block; what a put writes and a get must find is made from `number`. */
static enum kvt_err
ask_one(struct kvbm_volumes *set, enum kvt_volume_verb verb, const struct kvt_block_id *id,
        uint32_t number)
{
    static _Alignas(4096) uint8_t bytes[BED_SIZE];
    const bool remove = verb == KVT_VOLUME_REMOVE;
    struct kvt_volume_item item = {
        .id = *id, .bytes = remove ? NULL : bytes, .size = remove ? 0 : BED_SIZE};
    enum kvt_err rc;

    volume_bed_fill(verb == KVT_VOLUME_PUT ? number : number + 1, bytes);
    rc = kvbm_volumes_run(set, &(struct kvbm_volume_request){
                                   .volume = VOLUME, .verb = verb, .items = &item, .count = 1});
    assert_int_equal(rc, item.status == KVT_EXISTS ? KVT_OK : item.status);
    if (verb == KVT_VOLUME_GET && item.status == KVT_OK)
        assert_true(volume_bed_is(number, bytes));
    return item.status;
}

static void
open_as(struct kvbm_volumes *set, const struct volume_bed *bed, uint64_t fingerprint)
{
    const struct kvbm_volume_options options = {.path = bed->path,
                                                .blocks = BED_BLOCKS,
                                                .block_size = BED_SIZE,
                                                .fingerprint = fingerprint};
    struct kvbm_volume *volume;

    if (bed->kind == BED_DIRECTORY)
        assert_int_equal(kvbm_volume_open_directory(&volume, &options, NULL), KVT_OK);
    else
        assert_int_equal(volume_bed_volume(bed, &volume), KVT_OK);
    assert_int_equal(kvbm_volumes_register(set, VOLUME, volume, 2, NULL), KVT_OK);
}

/* Whatever call fails in a put: who hears that the block is there can count on it, so the folder
 * was synced since it got its name.  What a removal says of a block that is gone likewise. */
static void
what_exists_is_durable(void **state)
{
    const struct kvt_block_id id = volume_bed_id(3);
    unsigned unsure[2] = {0, 0};
    struct kvbm_volumes *set;
    struct volume_bed bed;
    bool failed = true;
    uint32_t syncs;

    (void)state;
    volume_bed_open(&bed, BED_DIRECTORY);
    assert_int_equal(kvbm_volumes_new(&set, NULL), KVT_OK);
    open_as(set, &bed, 7);
    for (uint32_t calls = 0; failed; calls++) {
        volume_bed_fail_after(calls, EIO);
        (void)ask_one(set, KVT_VOLUME_PUT, &id, 3);
        failed = volume_bed_failed();
        volume_bed_fail_after(UINT32_MAX, 0);
        syncs = volume_bed_folder_syncs();
        if (ask_one(set, KVT_VOLUME_PUT, &id, 3) == KVT_EXISTS && failed) {
            assert_true(volume_bed_folder_syncs() > syncs);
            unsure[0]++;
        }
        syncs = volume_bed_folder_syncs();
        assert_int_equal(ask_one(set, KVT_VOLUME_PUT, &id, 3), KVT_EXISTS);
        assert_int_equal(volume_bed_folder_syncs(), syncs); /* it is known now */

        volume_bed_fail_after(calls, EIO);
        (void)ask_one(set, KVT_VOLUME_REMOVE, &id, 3);
        failed = volume_bed_failed() || failed;
        volume_bed_fail_after(UINT32_MAX, 0);
        syncs = volume_bed_folder_syncs();
        if (ask_one(set, KVT_VOLUME_REMOVE, &id, 3) == KVT_NOTFOUND && failed &&
            volume_bed_folder_syncs() > syncs)
            unsure[1]++;
        assert_int_equal(ask_one(set, KVT_VOLUME_GET, &id, 3), KVT_NOTFOUND);
    }
    assert_true(unsure[0] > 0 && unsure[1] > 0);

    /* Nor does a process know what the one before it could not say. */
    assert_int_equal(ask_one(set, KVT_VOLUME_PUT, &id, 3), KVT_OK);
    assert_int_equal(kvbm_volumes_unregister(set, VOLUME, false), KVT_OK);
    open_as(set, &bed, 7);
    syncs = volume_bed_folder_syncs();
    assert_int_equal(ask_one(set, KVT_VOLUME_PUT, &id, 3), KVT_EXISTS);
    assert_true(volume_bed_folder_syncs() > syncs);
    kvbm_volumes_free(set);
    volume_bed_close(&bed);
}

/* Of one hash there is one block; who asks for another place of it does not get it, nor take it
 * away.  What an engine of another shape left is replaced. */
static void
others_of_one_hash(void **state)
{
    (void)state;
    for (int kind = 0; kind < BED_KIND_COUNT; kind++) {
        const struct kvt_block_id id = volume_bed_id(5);
        struct kvt_block_id other = id;
        struct kvbm_volumes *set;
        struct volume_bed bed;

        other.parent++;
        volume_bed_open(&bed, (enum bed_kind)kind);
        assert_int_equal(kvbm_volumes_new(&set, NULL), KVT_OK);
        open_as(set, &bed, 7);
        assert_int_equal(ask_one(set, KVT_VOLUME_PUT, &id, 5), KVT_OK);
        assert_int_equal(ask_one(set, KVT_VOLUME_GET, &other, 5), KVT_NOTFOUND);
        assert_int_equal(ask_one(set, KVT_VOLUME_PUT, &other, 6), KVT_PRECONDITION);
        assert_int_equal(ask_one(set, KVT_VOLUME_REMOVE, &other, 5), KVT_NOTFOUND);
        assert_int_equal(ask_one(set, KVT_VOLUME_GET, &id, 5), KVT_OK);
        if (kind == BED_DIRECTORY) {
            assert_int_equal(kvbm_volumes_unregister(set, VOLUME, false), KVT_OK);
            open_as(set, &bed, 8);
            assert_int_equal(ask_one(set, KVT_VOLUME_GET, &id, 5), KVT_NOTFOUND);
            assert_int_equal(ask_one(set, KVT_VOLUME_REMOVE, &id, 5), KVT_NOTFOUND);
            assert_int_equal(ask_one(set, KVT_VOLUME_PUT, &id, 6), KVT_OK);
            assert_int_equal(ask_one(set, KVT_VOLUME_GET, &id, 6), KVT_OK);
        }
        assert_int_equal(ask_one(set, KVT_VOLUME_REMOVE, &id, 5), KVT_OK);
        assert_int_equal(ask_one(set, KVT_VOLUME_GET, &id, 5), KVT_NOTFOUND);
        kvbm_volumes_free(set);
        volume_bed_close(&bed);
    }
}

static bool
attempt(void *arg)
{
    const struct volume_bed *bed = arg;
    struct kvbm_volumes *set;
    struct kvbm_volume *volume = NULL;
    uint8_t *bytes = NULL;
    bool done = false;

    if (kvbm_volumes_new(&set, NULL) != KVT_OK)
        return false;
    if (volume_bed_volume(bed, &volume) != KVT_OK)
        goto done;
    if (kvbm_volumes_register(set, 3, volume, 2, NULL) != KVT_OK) {
        kvbm_volume_close(volume);
        goto done;
    }
    bytes = kvt_aligned(4096, BED_SIZE);
    if (bytes != NULL) {
        struct kvt_volume_item item = {.id = volume_bed_id(1), .bytes = bytes, .size = BED_SIZE};
        enum kvt_err rc;

        volume_bed_fill(1, bytes);
        rc = kvbm_volumes_run(set,
                              &(struct kvbm_volume_request){
                                  .volume = 3, .verb = KVT_VOLUME_PUT, .items = &item, .count = 1});
        assert_int_equal(item.status == KVT_EXISTS ? KVT_OK : item.status, rc);
        done = rc == KVT_OK;
    }
done:
    kvt_free(bytes);
    kvbm_volumes_free(set);
    return done;
}

static void
survives_failing_allocations(void **state)
{
    (void)state;
    for (int kind = 0; kind < BED_KIND_COUNT; kind++) {
        struct volume_bed bed;

        volume_bed_open(&bed, (enum bed_kind)kind);
        assert_true(test_sweep_allocations(attempt, &bed) >= 5);
        volume_bed_close(&bed);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_and_refusals),
        cmocka_unit_test(full_cancelled_and_half),
        cmocka_unit_test(leaving_waits),
        cmocka_unit_test(leaving_cancels),
        cmocka_unit_test(comes_and_goes_in_a_crowd),
        cmocka_unit_test(what_exists_is_durable),
        cmocka_unit_test(others_of_one_hash),
        cmocka_unit_test(survives_failing_allocations),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
