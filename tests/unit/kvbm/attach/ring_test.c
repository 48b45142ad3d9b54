/*
 * What is tested: kvbm/attach/ring.h against a queue of records, alone and between two threads
 * that sleep; and that a partner who writes nonsense is found out.
 */
#include <pthread.h>
#include <semaphore.h>
#include <string.h>
#include <time.h>

#include "base/core/random.h"
#include "kvbm/attach/ring.h"

#include "tests/support/seed.h"

/* RECORD_MAX: a quarter of the ring, less the record's head. */
enum { CAPACITY = 1024, RECORD_MAX = CAPACITY / 4 - 8 };
enum { STEPS = 200000, WAITING = 256, RECORDS = 40000, WAKE_LIMIT = 20 /* s */ };

struct bed {
    struct kvbm_ring_shared shared;
    uint8_t bytes[CAPACITY];
    struct kvbm_ring in;
    struct kvbm_ring out;
};

static void
bed_init(struct bed *bed)
{
    memset(bed, 0, sizeof(*bed));
    kvbm_ring_init(&bed->in, &bed->shared, bed->bytes, CAPACITY);
    kvbm_ring_init(&bed->out, &bed->shared, bed->bytes, CAPACITY);
}

/* The bytes of record `number`. */
static size_t
make_record(uint8_t *record, uint64_t number, size_t size)
{
    for (size_t i = 0; i < size; i++)
        record[i] = (uint8_t)(number * 31 + i * 7);
    return size;
}

static void
assert_record(const uint8_t *record, size_t size, uint64_t number, size_t expected)
{
    uint8_t right[CAPACITY];

    assert_int_equal(size, expected);
    (void)make_record(right, number, expected);
    assert_memory_equal(record, right, size);
}

static void
like_a_queue(void **state)
{
    uint64_t random = test_seed();
    size_t sizes[WAITING];
    uint64_t first = 0; /* of the records in the ring */
    uint64_t next = 0;
    uint64_t used = 0;
    uint64_t refused = 0;
    uint8_t record[CAPACITY];
    struct bed bed;
    size_t size;

    (void)state;
    bed_init(&bed);
    for (int i = 0; i < STEPS / TEST_ALONE_SHARE; i++) {
        /* Fills and empties in turn, so that both edges are met. */
        const bool put = kvt_random_below(&random, 8) < ((i >> 8) % 2 == 0 ? 5U : 3U);

        if (put) {
            const size_t wanted = (size_t)kvt_random_below(&random, RECORD_MAX + 1);
            const uint64_t span = 8 + (wanted + 7) / 8 * 8;
            const bool fits = used + span <= CAPACITY;

            (void)make_record(record, next, wanted);
            assert_int_equal(kvbm_ring_room(&bed.in, wanted), fits ? KVT_OK : KVT_AGAIN);
            assert_int_equal(kvbm_ring_put(&bed.in, record, wanted), fits ? KVT_OK : KVT_AGAIN);
            if (fits) {
                sizes[next++ % WAITING] = wanted;
                used += span;
            }
            refused += !fits;
        } else if (first == next) {
            assert_int_equal(kvbm_ring_take(&bed.out, record, CAPACITY, &size), KVT_AGAIN);
            assert_int_equal(size, 0);
        } else {
            assert_int_equal(kvbm_ring_take(&bed.out, record, CAPACITY, &size), KVT_OK);
            assert_record(record, size, first, sizes[first % WAITING]);
            used -= 8 + (size + 7) / 8 * 8;
            first++;
        }
    }
    assert_true(refused > 0 && next > (uint64_t)STEPS / TEST_ALONE_SHARE / 4);
}

static void
edges(void **state)
{
    uint8_t record[CAPACITY] = {0};
    struct bed bed;
    size_t size;

    (void)state;
    bed_init(&bed);
    assert_int_equal(kvbm_ring_put(&bed.in, record, RECORD_MAX + 1), KVT_RANGE);
    for (int i = 0; i < 4; i++) /* exactly full */
        assert_int_equal(kvbm_ring_put(&bed.in, record, RECORD_MAX), KVT_OK);
    assert_int_equal(kvbm_ring_put(&bed.in, record, 0), KVT_AGAIN);
    assert_int_equal(kvbm_ring_take(&bed.out, record, CAPACITY, &size), KVT_OK);
    assert_int_equal(kvbm_ring_put(&bed.in, record, 0), KVT_OK);
    /* A record that the taker has no room for is never begun. */
    assert_int_equal(kvbm_ring_take(&bed.out, record, 8, &size), KVT_CORRUPT);
}

static void
nonsense_is_found_out(void **state)
{
    static const uint64_t ahead[] = {CAPACITY + 8, 1, 7, UINT64_MAX, UINT64_C(1) << 63};
    uint8_t record[CAPACITY] = {0};
    struct bed bed;
    size_t size;

    (void)state;
    for (size_t i = 0; i < sizeof(ahead) / sizeof(ahead[0]); i++) {
        bed_init(&bed);
        atomic_store(&bed.shared.put, ahead[i]);
        assert_int_equal(kvbm_ring_take(&bed.out, record, CAPACITY, &size), KVT_CORRUPT);
        bed_init(&bed);
        while (kvbm_ring_put(&bed.in, record, 100) == KVT_OK)
            ;
        atomic_store(&bed.shared.taken, UINT64_C(1) << 40 | ahead[i]);
        assert_int_equal(kvbm_ring_put(&bed.in, record, 100), KVT_CORRUPT);
    }
    /* Sizes that lead out of what was put, or out of the ring. */
    for (uint32_t claimed = 101; claimed != 0; claimed = claimed * 3 + 1) {
        bed_init(&bed);
        assert_int_equal(kvbm_ring_put(&bed.in, record, 96), KVT_OK);
        memcpy(bed.bytes, &claimed, sizeof(claimed));
        assert_int_equal(kvbm_ring_take(&bed.out, record, CAPACITY, &size), KVT_CORRUPT);
        assert_int_equal(size, 0);
        if (claimed > UINT32_MAX / 4)
            break;
    }
    bed_init(&bed);
    assert_int_equal(kvbm_ring_put(&bed.in, record, 96), KVT_OK);
    bed.bytes[4] = 1;
    assert_int_equal(kvbm_ring_take(&bed.out, record, CAPACITY, &size), KVT_CORRUPT);
}

static void
who_sleeps_is_woken_once(void **state)
{
    uint8_t record[8] = {0};
    struct bed bed;
    size_t size;

    (void)state;
    bed_init(&bed);
    assert_false(kvbm_ring_wake(&bed.in));
    assert_true(kvbm_ring_sleep(&bed.out));
    assert_int_equal(kvbm_ring_put(&bed.in, record, sizeof(record)), KVT_OK);
    assert_true(kvbm_ring_wake(&bed.in));
    assert_false(kvbm_ring_wake(&bed.in));
    assert_false(kvbm_ring_sleep(&bed.out)); /* something is there */
    assert_false(kvbm_ring_wake(&bed.in));
    assert_int_equal(kvbm_ring_take(&bed.out, record, sizeof(record), &size), KVT_OK);
    assert_true(kvbm_ring_sleep(&bed.out));
    kvbm_ring_rouse(&bed.out);
    assert_false(kvbm_ring_wake(&bed.in));
}

/* ---- two threads ---- */

struct pair {
    struct bed bed;
    sem_t wake;
    uint64_t seed;
    unsigned slept;
    unsigned full;
};

static void *
produce(void *arg)
{
    struct pair *pair = arg;
    uint64_t random = pair->seed;
    uint8_t record[CAPACITY];

    for (uint64_t i = 0; i < RECORDS; i++) {
        const size_t size = make_record(record, i, (size_t)kvt_random_below(&random, 200));
        enum kvt_err rc;

        while ((rc = kvbm_ring_put(&pair->bed.in, record, size)) == KVT_AGAIN) {
            pair->full++;
            (void)nanosleep(&(struct timespec){.tv_nsec = 1000}, NULL);
        }
        assert_int_equal(rc, KVT_OK);
        if (kvbm_ring_wake(&pair->bed.in))
            (void)sem_post(&pair->wake);
        if (i % 500 == 0) /* let the other one fall asleep */
            (void)nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
    }
    return NULL;
}

static void
between_threads(void **state)
{
    static struct pair pair;
    uint64_t random;
    uint8_t record[CAPACITY];
    pthread_t producer;
    struct timespec until;
    size_t size;

    (void)state;
    bed_init(&pair.bed);
    pair.seed = random = test_seed();
    assert_int_equal(sem_init(&pair.wake, 0, 0), 0);
    assert_int_equal(pthread_create(&producer, NULL, produce, &pair), 0);
    for (uint64_t i = 0; i < RECORDS;) {
        const enum kvt_err rc = kvbm_ring_take(&pair.bed.out, record, CAPACITY, &size);

        if (rc == KVT_OK) {
            assert_record(record, size, i++, (size_t)kvt_random_below(&random, 200));
            continue;
        }
        assert_int_equal(rc, KVT_AGAIN);
        if (kvbm_ring_sleep(&pair.bed.out)) {
            pair.slept++;
            (void)clock_gettime(CLOCK_REALTIME, &until);
            until.tv_sec += WAKE_LIMIT;
            assert_int_equal(sem_timedwait(&pair.wake, &until), 0); /* no wake-up is lost */
        }
        kvbm_ring_rouse(&pair.bed.out);
    }
    assert_int_equal(pthread_join(producer, NULL), 0);
    assert_true(pair.slept > 10);
    assert_int_equal(sem_destroy(&pair.wake), 0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(like_a_queue),          cmocka_unit_test(edges),
        cmocka_unit_test(nonsense_is_found_out), cmocka_unit_test(who_sleeps_is_woken_once),
        cmocka_unit_test(between_threads),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
