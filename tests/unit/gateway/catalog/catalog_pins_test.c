/*
 * What is tested: pins of gateway/catalog/catalog.h.  A long random run is compared with a model
 * (an array of what is pinned, and until when): also over removals, expiry and reopening; the
 * bound, and pins that another gateway left without a row, by hand.
 */
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/core/random.h"
#include "base/store/lmdb.h"
#include "gateway/bus/pin_report.h"
#include "gateway/catalog/catalog.h"
#include "kvtier/key.h"

#include "tests/support/seed.h"

enum { KEYS = 12, STEPS = 600, LENGTH = 1000, HOUR_MS = 3600 * 1000 };

/* Room to pin half of the keys. */
#define HOT_CAPACITY (UINT64_C(1) * KEYS * LENGTH)

struct fixture {
    char folder[128];
    struct gateway_catalog *catalog;
    uint64_t now_ms; /* the test's: no pin ends because a test takes long */
    bool there[KEYS];
    bool pinned[KEYS];
    uint64_t until_ms[KEYS];
};

static void
open_catalog(struct fixture *f)
{
    const struct gateway_catalog_options options = {.path = f->folder,
                                                    .bytes_max = 64u << 20,
                                                    .capacity = {HOT_CAPACITY},
                                                    .revision = KVT_KEY_KVBM_B};
    struct kvt_error err;

    if (gateway_catalog_open(&f->catalog, &options, &err) != KVT_OK)
        fail_msg("%s", err.text);
}

static int
set_up(void **state)
{
    struct fixture *f = kvt_calloc(1, sizeof(*f));

    (void)test_folder_make(f->folder, sizeof(f->folder));
    f->now_ms = kvt_clock_unix_ms() + HOUR_MS;
    open_catalog(f);
    *state = f;
    return 0;
}

static int
tear_down(void **state)
{
    struct fixture *f = *state;

    gateway_catalog_close(f->catalog);
    test_folder_remove(f->folder);
    kvt_free(f);
    return 0;
}

static const char *
key_of(char out[KVT_KEY_MAX], unsigned number)
{
    const struct kvt_block_id block = {.hash = number + 1, .parent = number, .position = 9};

    assert_int_equal(kvt_key_format(out, KVT_KEY_MAX, KVT_KEY_KVBM_B, "a", 0, &block), KVT_OK);
    return out;
}

static void
change_row(struct fixture *f, unsigned number, enum gateway_state state, bool erase)
{
    char key[KVT_KEY_MAX];
    struct gateway_change change = {
        .key = key_of(key, number),
        .erase = erase,
        .record = {.state = state, .tiers = GATEWAY_HOT | GATEWAY_COLD, .length = LENGTH}};

    assert_int_equal(gateway_catalog_change(f->catalog, &change, 1, GATEWAY_APPLIED), KVT_OK);
    assert_int_equal(change.status, KVT_OK);
    f->there[number] = !erase && state == GATEWAY_STORED;
    if (erase || state == GATEWAY_RETIRING)
        f->pinned[number] = false;
}

static unsigned
pinned_in_model(const struct fixture *f)
{
    unsigned count = 0;

    for (unsigned i = 0; i < KEYS; i++)
        count += f->pinned[i];
    return count;
}

static void
pin(struct fixture *f, unsigned number, uint64_t until_ms)
{
    const bool full = !f->pinned[number] && pinned_in_model(f) == KEYS / 2;
    const enum kvt_err wanted = !f->there[number] ? KVT_NOTFOUND : full ? KVT_FULL : KVT_OK;
    char key[KVT_KEY_MAX];

    assert_int_equal(gateway_catalog_pin(f->catalog, key_of(key, number), until_ms), wanted);
    if (wanted != KVT_OK)
        return;
    f->pinned[number] = true;
    f->until_ms[number] = until_ms;
}

static void
unpin(struct fixture *f, unsigned number)
{
    char key[KVT_KEY_MAX];

    assert_int_equal(gateway_catalog_unpin(f->catalog, key_of(key, number)), KVT_OK);
    f->pinned[number] = false;
}

static void
expire(struct fixture *f)
{
    assert_int_equal(gateway_catalog_expire_pins(f->catalog, f->now_ms), KVT_OK);
    for (unsigned i = 0; i < KEYS; i++)
        if (f->until_ms[i] != 0 && f->until_ms[i] <= f->now_ms)
            f->pinned[i] = false;
}

static void
compare(struct fixture *f)
{
    const unsigned count = pinned_in_model(f);
    struct gateway_catalog_stats stats;

    gateway_catalog_stats(f->catalog, &stats);
    assert_int_equal(stats.pinned_blocks, count);
    assert_int_equal(stats.pinned_bytes, (uint64_t)count * LENGTH);
    assert_int_equal(stats.pinned_max, HOT_CAPACITY / GATEWAY_PIN_SHARE);
    for (unsigned i = 0; i < KEYS; i++) {
        const bool holds = f->pinned[i] && (f->until_ms[i] == 0 || f->until_ms[i] > f->now_ms);
        char key[KVT_KEY_MAX];
        uint64_t until_ms;

        assert_int_equal(gateway_catalog_pinned(f->catalog, key_of(key, i), f->now_ms, &until_ms),
                         holds ? KVT_OK : KVT_NOTFOUND);
        assert_int_equal(until_ms, holds ? f->until_ms[i] : 0);
        /* Whoever waits for the first end must not oversleep. */
        if (f->pinned[i] && f->until_ms[i] != 0)
            assert_true(stats.pin_end_ms != 0 && stats.pin_end_ms <= f->until_ms[i]);
    }
}

static void
step(struct fixture *f, uint64_t *random)
{
    const unsigned number = (unsigned)(kvt_random_next(random) % KEYS);
    const uint64_t later_ms = 1 + kvt_random_next(random) % 8;

    switch (kvt_random_next(random) % 12) {
    case 0:
    case 1:
    case 2: change_row(f, number, GATEWAY_STORED, false); break;
    case 3: change_row(f, number, GATEWAY_RETIRING, false); break;
    case 4: change_row(f, number, GATEWAY_STORED, true); break;
    case 5:
    case 6: pin(f, number, f->now_ms + later_ms); break;
    case 7: pin(f, number, 0); break;
    case 8: unpin(f, number); break;
    case 9: change_row(f, number, GATEWAY_INTENT, false); break;
    case 10: f->now_ms += later_ms; break;
    default: expire(f); break;
    }
}

/* A round names each pin once, whichever change came before it; without one nothing is told. */
static void
tell(struct fixture *f, struct gateway_pin_report *told, uint64_t mono_ms)
{
    bool named[KEYS] = {false};
    struct kvt_report report;
    uint64_t count = 0;
    bool last = false;

    while (gateway_pin_report_next(told, f->catalog, mono_ms, f->now_ms, &report)) {
        assert_false(last);
        assert_true(report.pins.count == 0 || strcmp(report.namespace_, "a") == 0);
        for (uint32_t i = 0; i < report.pins.count; i++) {
            const uint64_t number = report.pins.rows[i].hash - 1;

            assert_true(number < KEYS && !named[number]);
            named[number] = true;
            assert_int_equal(report.pins.rows[i].until_ms, f->until_ms[number]);
        }
        count += report.pins.count;
        assert_int_equal(report.pins.told, count);
        last = report.pins.last;
        gateway_pin_report_sent(told, true);
    }
    assert_true(last);
    for (unsigned i = 0; i < KEYS; i++)
        assert_int_equal(named[i],
                         f->pinned[i] && (f->until_ms[i] == 0 || f->until_ms[i] > f->now_ms));
    assert_false(gateway_pin_report_next(told, f->catalog, mono_ms + GATEWAY_PINS_GAP_MS, f->now_ms,
                                         &report));
}

static void
a_change_is_told_and_what_was_not_sent_is_told_again(void **state)
{
    struct fixture *f = *state;
    struct gateway_pin_report *told = kvt_calloc(1, sizeof(*told));
    struct kvt_report report;
    uint64_t mono_ms = 1;

    assert_non_null(told);
    tell(f, told, mono_ms); /* that there are none */
    for (unsigned i = 0; i < 3; i++) {
        change_row(f, i, GATEWAY_STORED, false);
        pin(f, i, 0);
    }
    /* Not at once: many changes are one round. */
    assert_false(gateway_pin_report_next(told, f->catalog, mono_ms, f->now_ms, &report));
    mono_ms += GATEWAY_PINS_GAP_MS;
    assert_true(gateway_pin_report_next(told, f->catalog, mono_ms, f->now_ms, &report));
    assert_int_equal(report.pins.count, 3);
    gateway_pin_report_sent(told, false);
    mono_ms += GATEWAY_PINS_GAP_MS;
    tell(f, told, mono_ms);
    unpin(f, 1);
    mono_ms += GATEWAY_PINS_GAP_MS;
    tell(f, told, mono_ms);
    mono_ms += GATEWAY_PINS_EVERY_MS; /* and now and then without any */
    tell(f, told, mono_ms);
    kvt_free(told);
}

static void
random_run_against_model(void **state)
{
    struct fixture *f = *state;
    struct gateway_pin_report *told = kvt_calloc(1, sizeof(*told));
    uint64_t random = test_seed();

    assert_non_null(told);
    for (unsigned i = 0; i < STEPS; i++) {
        step(f, &random);
        compare(f);
        tell(f, told, (uint64_t)(i + 1) * 2 * GATEWAY_PINS_EVERY_MS);
        if (i % (STEPS / 4) == 0) {
            gateway_catalog_close(f->catalog);
            open_catalog(f);
            compare(f);
        }
    }
    kvt_free(told);
}

static void
half_of_the_hot_volume_may_be_pinned(void **state)
{
    struct fixture *f = *state;

    for (unsigned i = 0; i < KEYS; i++)
        change_row(f, i, GATEWAY_STORED, false);
    for (unsigned i = 0; i < KEYS; i++)
        pin(f, i, 0); /* the model says which are one too many */
    compare(f);
    assert_int_equal(pinned_in_model(f), KEYS / 2);
    pin(f, 0, f->now_ms + 1); /* another end takes no more room */
    unpin(f, 1);
    pin(f, KEYS - 1, 0);
    assert_true(f->pinned[KEYS - 1]);
    compare(f);
}

/* As one leaves it that knows rows, and no pins. */
static void
a_pin_without_its_row_is_forgotten(void **state)
{
    struct fixture *f = *state;
    const struct kvt_lmdb_options options = {
        .path = f->folder, .map_bytes = 128u << 20, .databases_max = 7};
    char key[KVT_KEY_MAX];
    MDB_val name;
    struct kvt_error err;
    MDB_env *env;
    MDB_txn *txn;
    MDB_dbi objects;

    for (unsigned i = 0; i < 2; i++) {
        change_row(f, i, GATEWAY_STORED, false);
        pin(f, i, 0);
    }
    compare(f);
    gateway_catalog_close(f->catalog);
    f->catalog = NULL;
    assert_int_equal(kvt_lmdb_open(&env, &options, &err), KVT_OK);
    assert_int_equal(mdb_txn_begin(env, NULL, 0, &txn), 0);
    assert_int_equal(mdb_dbi_open(txn, "objects", 0, &objects), 0);
    (void)key_of(key, 1);
    name = kvt_lmdb_val(key, strlen(key));
    assert_int_equal(mdb_del(txn, objects, &name, NULL), 0);
    assert_int_equal(mdb_txn_commit(txn), 0);
    mdb_env_close(env);
    open_catalog(f);
    f->there[1] = f->pinned[1] = false;
    compare(f);
}

/* One that ended while nothing ran is not counted afterwards. */
static void
pins_end_while_nothing_runs(void **state)
{
    struct fixture *f = *state;

    change_row(f, 0, GATEWAY_STORED, false);
    pin(f, 0, 1);
    gateway_catalog_close(f->catalog);
    open_catalog(f);
    f->pinned[0] = false;
    compare(f);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(random_run_against_model, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_change_is_told_and_what_was_not_sent_is_told_again,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(half_of_the_hot_volume_may_be_pinned, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_pin_without_its_row_is_forgotten, set_up, tear_down),
        cmocka_unit_test_setup_teardown(pins_end_while_nothing_runs, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
