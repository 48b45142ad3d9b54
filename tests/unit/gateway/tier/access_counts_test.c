/*
 * What is tested: gateway/tier/access_counts.h against a model: every read that was counted is
 * reported once, in the namespace and tier it belongs to; what does not fit is refused, not lost
 * silently.
 */
#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/random.h"
#include "gateway/tier/access_counts.h"

#include "tests/support/seed.h"

enum { READS = 20000, HASHES = 300, SPACES = 3 };

static void
counts_match_a_model(void **state)
{
    struct kvt_report_access *rows = kvt_calloc(GATEWAY_ACCESS_COUNTS_ROWS, sizeof(*rows));
    static uint32_t model[SPACES][HASHES][2];
    struct gateway_access_counts *access;
    char namespace_[KVT_NAMESPACE_MAX];
    uint64_t seed = test_seed();
    unsigned spaces = 0;
    size_t count;

    (void)state;
    assert_int_equal(gateway_access_counts_new(&access), KVT_OK);
    for (int round = 0; round < 2; round++) {
        memset(model, 0, sizeof(model));
        for (int i = 0; i < READS; i++) {
            const unsigned space = (unsigned)kvt_random_below(&seed, SPACES);
            const uint64_t hash = kvt_random_below(&seed, HASHES);
            const unsigned tier = (unsigned)kvt_random_below(&seed, 2);

            (void)snprintf(namespace_, sizeof(namespace_), "n%u", space);
            assert_true(gateway_access_counts_add(access, namespace_, hash, tier, 10));
            model[space][hash][tier]++;
        }
        while ((count = gateway_access_counts_take(access, namespace_, rows,
                                                   GATEWAY_ACCESS_COUNTS_ROWS)) > 0) {
            const unsigned space = (unsigned)(namespace_[1] - '0');

            spaces++;
            for (size_t i = 0; i < count; i++) {
                assert_int_equal(model[space][rows[i].hash][rows[i].tier_index], rows[i].count);
                assert_int_equal(rows[i].bytes, 10 * (uint64_t)rows[i].count);
                model[space][rows[i].hash][rows[i].tier_index] = 0;
            }
        }
        for (size_t i = 0; i < sizeof(model) / sizeof(model[0][0][0]); i++)
            assert_int_equal((&model[0][0][0])[i], 0);
    }
    assert_int_equal(spaces, 2 * SPACES);
    gateway_access_counts_free(access);
    kvt_free(rows);
}

static void
bounds(void **state)
{
    struct kvt_report_access *rows = kvt_calloc(GATEWAY_ACCESS_COUNTS_ROWS, sizeof(*rows));
    struct gateway_access_counts *access;
    char namespace_[KVT_NAMESPACE_MAX];

    (void)state;
    assert_int_equal(gateway_access_counts_new(&access), KVT_OK);
    for (uint64_t i = 0; i < GATEWAY_ACCESS_COUNTS_ROWS; i++)
        assert_true(gateway_access_counts_add(access, "", i, 0, 1));
    assert_false(gateway_access_counts_add(access, "", GATEWAY_ACCESS_COUNTS_ROWS, 0, 1));
    assert_true(
        gateway_access_counts_add(access, "", 0, 0, 1)); /* a row that is there still counts */
    assert_int_equal(
        gateway_access_counts_take(access, namespace_, rows, GATEWAY_ACCESS_COUNTS_ROWS),
        GATEWAY_ACCESS_COUNTS_ROWS);
    assert_int_equal(
        gateway_access_counts_take(access, namespace_, rows, GATEWAY_ACCESS_COUNTS_ROWS), 0);
    for (unsigned i = 0; i <= GATEWAY_ACCESS_COUNTS_NAMESPACES; i++) {
        (void)snprintf(namespace_, sizeof(namespace_), "n%u", i);
        assert_int_equal(gateway_access_counts_add(access, namespace_, 1, 0, 1),
                         i < GATEWAY_ACCESS_COUNTS_NAMESPACES);
    }
    gateway_access_counts_free(access);
    kvt_free(rows);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts_match_a_model),
        cmocka_unit_test(bounds),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
