/*
 * What is tested: advisor/source/inbox.h: what comes out is what went in, in its order, whatever
 * its size and whoever put it; bounds hold; kept items survive; nothing is lost when both sides
 * run at once. How: beside a plain list of what was put, with random sizes and takes (the seed is
 * printed), and with two putting threads; run under asan and tsan too.
 */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "advisor/source/inbox.h"
#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/core/random.h"

#include "tests/support/seed.h"

enum { ITEMS_MAX = 4096, BYTES_MAX = 1 << 20, STEPS = 4000, SIZE_MAX_SMALL = 300 };

static void
fill(uint8_t *bytes, size_t size, uint64_t number)
{
    for (size_t i = 0; i < size; i++)
        bytes[i] = (uint8_t)(number * 31 + i);
}

static void
check(const struct advisor_inbox_item *item, uint64_t number, size_t size)
{
    uint8_t wanted[ADVISOR_INBOX_CHUNK_BYTES];
    char subject[32];

    fill(wanted, size, number);
    (void)snprintf(subject, sizeof(subject), "s.%llu", (unsigned long long)number);
    assert_string_equal(item->subject, subject);
    assert_int_equal(item->stream_seq, number);
    assert_int_equal(item->size, size);
    assert_memory_equal(item->bytes, wanted, size);
}

/* Put one in either way; its size follows from its number. */
static size_t
size_of(uint64_t number)
{
    uint64_t state = number;
    const uint64_t draw = kvt_random_next(&state);

    return draw % 50 == 0 ? 20000 + draw % 20000 : (draw >> 8) % SIZE_MAX_SMALL;
}

static enum kvt_err
put(struct advisor_inbox *inbox, uint64_t number, bool own)
{
    const struct advisor_inbox_item like = {.kind = ADVISOR_INBOX_ITEM_MESSAGE,
                                            .stream_seq = number};
    const size_t size = size_of(number);
    uint8_t bytes[ADVISOR_INBOX_CHUNK_BYTES];
    struct advisor_inbox_item *item;
    char subject[32];
    enum kvt_err rc;

    fill(bytes, size, number);
    (void)snprintf(subject, sizeof(subject), "s.%llu", (unsigned long long)number);
    if (!own)
        return advisor_inbox_copy(inbox, &like, subject, bytes, size, 0);
    assert_int_equal(advisor_inbox_item_new(&item, like.kind, subject, bytes, size), KVT_OK);
    item->stream_seq = number;
    rc = advisor_inbox_put(inbox, item, 0);
    if (rc != KVT_OK)
        advisor_inbox_item_free(item);
    return rc;
}

static void
random_against_model(void **state)
{
    uint64_t random = test_seed();
    struct advisor_inbox_item *kept[64];
    struct advisor_inbox_item *items[97];
    struct advisor_inbox *inbox;
    uint64_t first = 0; /* next to come out */
    uint64_t next = 0;  /* next to go in */
    size_t kept_count = 0;
    uint64_t waiting;
    uint64_t bytes;
    size_t full = 0;

    (void)state;
    assert_int_equal(advisor_inbox_new(&inbox, ITEMS_MAX, BYTES_MAX), KVT_OK);
    for (int step = 0; step < STEPS; step++) {
        const uint64_t draw = kvt_random_next(&random);

        for (uint64_t i = 0; i < draw % 120; i++) {
            const enum kvt_err rc = put(inbox, next, (draw >> 16) % 7 == 0);

            advisor_inbox_waiting(inbox, &waiting, &bytes);
            assert_true(waiting <= ITEMS_MAX && bytes < BYTES_MAX + ADVISOR_INBOX_CHUNK_BYTES);
            if (rc == KVT_FULL) {
                full++;
                break;
            }
            assert_int_equal(rc, KVT_OK);
            next++;
        }
        const size_t count = advisor_inbox_take(inbox, items, (draw >> 32) % 97, 0);

        for (size_t i = 0; i < count; i++, first++) {
            check(items[i], first, size_of(first));
            if (first % 997 == 0 && kept_count < 64) {
                kept[kept_count] = advisor_inbox_item_keep(items[i]);
                assert_non_null(kept[kept_count++]);
            } else {
                advisor_inbox_item_free(items[i]);
            }
        }
    }
    assert_true(full > 0 && kept_count > 16);
    for (size_t count = 1; count > 0;) {
        count = advisor_inbox_take(inbox, items, 97, 0);
        for (size_t i = 0; i < count; i++, first++) {
            check(items[i], first, size_of(first));
            advisor_inbox_item_free(items[i]);
        }
    }
    assert_int_equal(first, next);
    assert_int_equal(put(inbox, next, false), KVT_OK); /* left inside */
    advisor_inbox_free(inbox);
    for (size_t i = 0; i < kept_count; i++) {
        check(kept[i], kept[i]->stream_seq, size_of(kept[i]->stream_seq));
        advisor_inbox_item_free(kept[i]);
    }
}

static void
closing_refuses_puts_and_lets_the_taker_finish(void **state)
{
    struct advisor_inbox_item *item;
    struct advisor_inbox *inbox;

    (void)state;
    assert_int_equal(advisor_inbox_new(&inbox, 2, BYTES_MAX), KVT_OK);
    assert_int_equal(advisor_inbox_take(inbox, &item, 1, 5), 0);
    assert_int_equal(put(inbox, 1, false), KVT_OK);
    assert_int_equal(put(inbox, 2, true), KVT_OK);
    assert_int_equal(put(inbox, 3, false), KVT_FULL);
    assert_int_equal(put(inbox, 3, true), KVT_FULL);
    advisor_inbox_close(inbox);
    assert_int_equal(put(inbox, 3, false), KVT_CANCELLED);
    assert_int_equal(advisor_inbox_take(inbox, &item, 1, 1000000), 1);
    advisor_inbox_item_free(item);
    assert_int_equal(advisor_inbox_take(inbox, &item, 1, 1000000), 1);
    advisor_inbox_item_free(item);
    assert_int_equal(advisor_inbox_take(inbox, &item, 1, 1000000), 0);
    advisor_inbox_free(inbox);
}

/* ---- both sides at once ---- */

enum { EACH = 100000, PUTTERS = 2 };

struct putter {
    struct advisor_inbox *inbox;
    pthread_t thread;
    uint64_t number; /* of this one */
};

static void *
keep_putting(void *arg)
{
    const struct putter *putter = arg;

    for (uint64_t i = 0; i < EACH; i++) {
        const struct advisor_inbox_item like = {.kind = ADVISOR_INBOX_ITEM_MESSAGE,
                                                .stream_seq = putter->number << 32 | i};

        while (advisor_inbox_copy(putter->inbox, &like, "x", &i, sizeof(i), 1000) == KVT_FULL) {
        }
    }
    return NULL;
}

static void
threads_lose_nothing(void **state)
{
    struct putter putters[PUTTERS];
    uint64_t next[PUTTERS] = {0};
    struct advisor_inbox *inbox;
    struct advisor_inbox_item *items[64];
    uint64_t total = 0;

    (void)state;
    assert_int_equal(advisor_inbox_new(&inbox, 512, BYTES_MAX), KVT_OK);
    for (uint64_t i = 0; i < PUTTERS; i++) {
        putters[i] = (struct putter){.inbox = inbox, .number = i};
        assert_int_equal(pthread_create(&putters[i].thread, NULL, keep_putting, &putters[i]), 0);
    }
    while (total < (uint64_t)EACH * PUTTERS) {
        const size_t count = advisor_inbox_take(inbox, items, 64, 10000);

        assert_true(count > 0);
        for (size_t i = 0; i < count; i++) {
            const uint64_t from = items[i]->stream_seq >> 32;
            uint64_t value;

            memcpy(&value, items[i]->bytes, sizeof(value));
            assert_int_equal(value, next[from]);
            assert_int_equal(items[i]->stream_seq & UINT32_MAX, next[from]);
            next[from]++;
            advisor_inbox_item_free(items[i]);
        }
        total += count;
    }
    for (int i = 0; i < PUTTERS; i++)
        (void)pthread_join(putters[i].thread, NULL);
    assert_int_equal(advisor_inbox_take(inbox, items, 64, 0), 0);
    advisor_inbox_free(inbox);
}

static bool
build_once(void *arg)
{
    const uint64_t number = 7;
    struct advisor_inbox *inbox = NULL;
    struct advisor_inbox_item *item = NULL;
    struct advisor_inbox_item *kept = NULL;
    bool done = false;

    (void)arg;
    if (advisor_inbox_new(&inbox, 16, BYTES_MAX) == KVT_OK && put(inbox, number, false) == KVT_OK &&
        advisor_inbox_take(inbox, &item, 1, 0) == 1) {
        kept = advisor_inbox_item_keep(item);
        done = kept != NULL;
        advisor_inbox_item_free(done ? kept : item);
    }
    advisor_inbox_free(inbox);
    return done;
}

static void
every_allocation_may_fail(void **state)
{
    (void)state;
    assert_true(test_sweep_allocations(build_once, NULL) >= 3);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_against_model),
        cmocka_unit_test(closing_refuses_puts_and_lets_the_taker_finish),
        cmocka_unit_test(threads_lose_nothing),
        cmocka_unit_test(every_allocation_may_fail),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
