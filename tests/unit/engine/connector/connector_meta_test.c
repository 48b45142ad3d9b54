/* engine/connector/connector_meta.h: what is said comes back, and nothing else does. */
#include <stdlib.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/random.h"
#include "kvbm/layout/checksum.h"

#include "engine/connector/connector_meta.h"
#include "tests/support/seed.h"

enum { RUNS = 200, TRANSFERS = 6, PAIRS = 40 };

/* Numbers of every width a message has for them. */
static uint64_t
number(uint64_t *state)
{
    return kvt_random_next(state) >> kvt_random_below(state, 64);
}

static void
fill(struct engine_meta *meta, uint64_t *state)
{
    uint64_t id = 0;

    meta->iteration = number(state);
    for (uint64_t i = kvt_random_below(state, TRANSFERS); i > 0; i--)
        assert_int_equal(engine_meta_fence(meta, number(state)), KVT_OK);
    for (uint64_t i = kvt_random_below(state, TRANSFERS); i > 0; i--) {
        id += 1 + kvt_random_below(state, UINT64_C(1) << 40);
        assert_int_equal(
            engine_meta_transfer(meta, id, (enum engine_transfer)(1 + kvt_random_below(state, 3))),
            KVT_OK);
        for (uint64_t j = 1 + kvt_random_below(state, PAIRS); j > 0; j--)
            assert_int_equal(
                engine_meta_pair(meta, (uint32_t)number(state), (uint32_t)number(state)), KVT_OK);
    }
}

static void
what_is_ordered_arrives(void **unused)
{
    uint64_t state = test_seed();

    (void)unused;
    for (int run = 0; run < RUNS; run++) {
        struct engine_meta meta = {0};
        struct engine_meta back;
        struct kvt_buffer out;

        fill(&meta, &state);
        kvt_buffer_init(&out, ENGINE_META_MAX);
        kvt_buffer_puts(&out, "before");
        assert_int_equal(engine_meta_encode(&meta, &out), KVT_OK);
        assert_memory_equal(out.data, "before", 6);
        assert_int_equal(engine_meta_decode(&back, out.data + 6, out.size - 6, NULL), KVT_OK);
        assert_true(back.iteration == meta.iteration);
        assert_int_equal(back.fence_count, meta.fence_count);
        assert_int_equal(back.transfer_count, meta.transfer_count);
        assert_int_equal(back.pair_count, meta.pair_count);
        for (size_t i = 0; i < meta.fence_count; i++)
            assert_true(back.fences[i] == meta.fences[i]);
        for (size_t i = 0; i < meta.transfer_count; i++) {
            assert_true(back.transfers[i].id == meta.transfers[i].id);
            assert_int_equal(back.transfers[i].kind, meta.transfers[i].kind);
            assert_int_equal(back.transfers[i].first, meta.transfers[i].first);
            assert_int_equal(back.transfers[i].count, meta.transfers[i].count);
        }
        if (meta.pair_count > 0)
            assert_memory_equal(back.pairs, meta.pairs, meta.pair_count * sizeof(*meta.pairs));
        engine_meta_release(&meta);
        engine_meta_release(&back);
        kvt_buffer_release(&out);
    }
}

static void
every_cut_and_every_flipped_bit_is_refused(void **unused)
{
    uint64_t state = test_seed();
    struct engine_meta meta = {0};
    struct engine_meta back;
    struct kvt_buffer out;

    (void)unused;
    do {
        engine_meta_release(&meta);
        fill(&meta, &state);
    } while (meta.pair_count == 0);
    kvt_buffer_init(&out, ENGINE_META_MAX);
    assert_int_equal(engine_meta_encode(&meta, &out), KVT_OK);
    for (size_t size = 0; size < out.size; size++)
        assert_int_not_equal(engine_meta_decode(&back, out.data, size, NULL), KVT_OK);
    for (size_t bit = 0; bit < 8 * out.size; bit++) {
        out.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
        assert_int_equal(engine_meta_decode(&back, out.data, out.size, NULL), KVT_CORRUPT);
        assert_null(back.pairs);
        out.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    engine_meta_release(&meta);
    kvt_buffer_release(&out);
}

/* A message of these bytes, with the right checksum. */
static enum kvt_err
decode(const char *body, size_t size)
{
    const uint32_t crc = kvbm_crc32c(0, body, size);
    uint8_t bytes[128];
    struct engine_meta back;
    enum kvt_err rc;

    assert_true(size + 4 <= sizeof(bytes));
    memcpy(bytes, body, size);
    for (size_t i = 0; i < 4; i++)
        bytes[size + i] = (uint8_t)(crc >> (8 * i));
    rc = engine_meta_decode(&back, bytes, size + 4, NULL);
    engine_meta_release(&back);
    return rc;
}

#define DECODE(text) decode(text, sizeof(text) - 1)

static void
what_is_not_as_said_is_refused(void **unused)
{
    (void)unused;
    assert_int_equal(DECODE("\x94\x01\x05\x90\x91\x93\x07\x01\x92\x03\x04"), KVT_OK);
    assert_int_equal(DECODE("\x94\x01\x05\x90\x90"), KVT_OK);
    assert_int_equal(DECODE("\x94\x02\x05\x90\x90"), KVT_UNSUPPORTED); /* version */
    assert_int_equal(DECODE("\x93\x01\x05\x90"), KVT_INVALID);         /* a member short */
    assert_int_equal(DECODE("\x94\x01\x05\x90\x90\x00"), KVT_INVALID); /* one too many */
    assert_int_equal(DECODE("\x94\x01\xff\x90\x90"), KVT_INVALID);     /* negative */
    assert_int_equal(DECODE("\x94\x01\x05\x90\xdd\xff\xff\xff\xff"), KVT_INVALID); /* a lie */
    assert_int_equal(DECODE("\x94\x01\x05\x90\x91\x93\x07\x00\x92\x03\x04"),
                     KVT_INVALID); /* kind */
    assert_int_equal(DECODE("\x94\x01\x05\x90\x91\x93\x07\x04\x92\x03\x04"), KVT_INVALID);
    assert_int_equal(DECODE("\x94\x01\x05\x90\x91\x93\x07\x01\x91\x03"), KVT_INVALID); /* half */
    assert_int_equal(DECODE("\x94\x01\x05\x90\x91\x93\x07\x01\x90"), KVT_INVALID);     /* none */
    assert_int_equal(DECODE("\x94\x01\x05\x90\x91\x93\x07\x01\x92\x03\xcf\0\0\0\1\0\0\0\0"),
                     KVT_INVALID); /* no block has that number */
    assert_int_equal(DECODE("\x94\x01\x05\x90\x92\x93\x07\x01\x92\x03\x04\x93\x07\x01\x92\x03\x04"),
                     KVT_INVALID); /* the same id again */
}

static void
what_ended_arrives(void **unused)
{
    struct engine_meta_report report = {0};
    struct engine_meta_report back;
    struct kvt_buffer out;

    (void)unused;
    assert_int_equal(engine_meta_report_transfer(&report, 9), KVT_OK);
    assert_int_equal(engine_meta_report_transfer(&report, UINT64_MAX), KVT_OK);
    assert_int_equal(engine_meta_report_failure(&report, 3, KVT_IO), KVT_OK);
    assert_int_equal(engine_meta_report_failure(&report, 300, KVT_TIMEOUT), KVT_OK);
    kvt_buffer_init(&out, 64);
    assert_int_equal(engine_meta_report_encode(&report, &out), KVT_OK);
    assert_int_equal(engine_meta_report_decode(&back, out.data, out.size, NULL), KVT_OK);
    assert_int_equal(back.transfer_count, 2);
    assert_true(back.transfers[0].id == 9 && back.transfers[0].count == 0);
    assert_true(back.transfers[1].id == UINT64_MAX && back.transfers[1].count == 2);
    assert_int_equal(back.failures[1].at, 300);
    assert_int_equal(back.failures[1].why, KVT_TIMEOUT);
    engine_meta_report_release(&back);
    for (size_t size = 0; size < out.size; size++)
        assert_int_not_equal(engine_meta_report_decode(&back, out.data, size, NULL), KVT_OK);
    engine_meta_report_release(&report);
    kvt_buffer_release(&out);
}

static void
what_does_not_fit_leaves_the_buffer_as_it_was(void **unused)
{
    uint64_t state = test_seed();
    struct engine_meta meta = {0};
    struct kvt_buffer out;

    (void)unused;
    fill(&meta, &state);
    kvt_buffer_init(&out, 8);
    kvt_buffer_puts(&out, "abcd");
    assert_int_equal(engine_meta_encode(&meta, &out), KVT_RANGE);
    assert_int_equal(out.size, 4);
    assert_true(kvt_buffer_ok(&out));
    engine_meta_release(&meta);
    kvt_buffer_release(&out);
}

static bool
decode_once(void *arg)
{
    const struct kvt_buffer *bytes = arg;
    struct engine_meta back;
    const enum kvt_err rc = engine_meta_decode(&back, bytes->data, bytes->size, NULL);

    assert_true(rc == KVT_OK || rc == KVT_NOMEM);
    engine_meta_release(&back);
    return rc == KVT_OK;
}

static void
every_allocation_may_fail(void **unused)
{
    uint64_t state = test_seed();
    struct engine_meta meta = {0};
    struct kvt_buffer out;

    (void)unused;
    do {
        engine_meta_release(&meta);
        fill(&meta, &state);
    } while (meta.pair_count == 0);
    kvt_buffer_init(&out, ENGINE_META_MAX);
    assert_int_equal(engine_meta_encode(&meta, &out), KVT_OK);
    assert_true(test_sweep_allocations(decode_once, &out) > 0);
    engine_meta_release(&meta);
    kvt_buffer_release(&out);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_ordered_arrives),
        cmocka_unit_test(every_cut_and_every_flipped_bit_is_refused),
        cmocka_unit_test(what_is_not_as_said_is_refused),
        cmocka_unit_test(what_ended_arrives),
        cmocka_unit_test(what_does_not_fit_leaves_the_buffer_as_it_was),
        cmocka_unit_test(every_allocation_may_fail),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
