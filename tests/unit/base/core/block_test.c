/*
 * What is tested: the text forms of kvtier/block.h and kvtier/order.h.
 */
#include <string.h>

#include "base/core/random.h"
#include "kvtier/block.h"
#include "kvtier/order.h"

#include "tests/support/seed.h"

static void
tiers_have_names_both_ways(void **state)
{
    static const char *const wrong[] = {"", "G", "G0", "G5", "G22", "H1", " G1", "G1 "};
    enum kvt_tier tier;

    (void)state;
    for (int i = KVT_TIER_G1; i <= KVT_TIER_G4; i++) {
        assert_true(kvt_tier_parse(kvt_tier_name((enum kvt_tier)i), &tier));
        assert_int_equal(tier, i);
    }
    assert_true(kvt_tier_parse("g4", &tier));
    assert_int_equal(tier, KVT_TIER_G4);
    assert_string_equal(kvt_tier_name((enum kvt_tier)9), "G?");
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        assert_false(kvt_tier_parse(wrong[i], &tier));
        assert_int_equal(tier, KVT_TIER_G2);
    }
}

static void
every_hash_comes_back(void **state)
{
    uint64_t seed = test_seed();

    (void)state;
    for (int i = 0; i < 10000; i++) {
        const uint64_t hash = i < 2 ? (uint64_t)0 - (uint64_t)i : kvt_random_next(&seed);
        char text[KVT_HASH_TEXT_MAX];
        uint64_t back;

        kvt_hash_format(hash, text);
        assert_int_equal(strlen(text), KVT_HASH_TEXT_MAX - 1);
        assert_true(kvt_hash_parse(text, &back));
        assert_int_equal(back, hash);
    }
}

static void
hashes_are_hex_decimal_or_refused(void **state)
{
    static const char *const wrong[] = {"",
                                        "0x",
                                        "-1",
                                        "+1",
                                        " 1",
                                        "1 ",
                                        "1g",
                                        "abc",
                                        "0xg",
                                        "0x0x1",
                                        "18446744073709551616",
                                        "0x10000000000000000",
                                        "000000000000000g"};
    uint64_t hash;

    (void)state;
    assert_true(kvt_hash_parse("12", &hash));
    assert_int_equal(hash, 12);
    assert_true(kvt_hash_parse("0xAb", &hash));
    assert_int_equal(hash, 0xab);
    assert_true(kvt_hash_parse("18446744073709551615", &hash));
    assert_int_equal(hash, UINT64_MAX);
    /* Sixteen digits are hex even when they look decimal: that is how hashes are printed. */
    assert_true(kvt_hash_parse("0000000000000010", &hash));
    assert_int_equal(hash, 16);
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        hash = 7;
        assert_false(kvt_hash_parse(wrong[i], &hash));
        assert_int_equal(hash, 0);
    }
}

static void
verbs_have_names(void **state)
{
    (void)state;
    assert_string_equal(kvt_order_verb_name(KVT_ORDER_DEMOTE), "demote");
    assert_string_equal(kvt_order_verb_name(KVT_ORDER_PROMOTE), "promote");
    assert_string_equal(kvt_order_verb_name(KVT_ORDER_DELETE), "delete");
    assert_string_equal(kvt_order_verb_name(KVT_ORDER_PIN), "pin");
    assert_string_equal(kvt_order_verb_name(KVT_ORDER_UNPIN), "unpin");
    assert_string_equal(kvt_order_verb_name(KVT_ORDER_WARM), "warm");
    assert_string_equal(kvt_delete_cause_name(KVT_DELETE_ROOM), "room");
    assert_string_equal(kvt_delete_cause_name(KVT_DELETE_JOB), "job");
    assert_string_equal(kvt_delete_cause_name(KVT_DELETE_CAUSE_COUNT), "other");
    assert_string_equal(kvt_order_verb_name(KVT_ORDER_NONE), "none");
    assert_string_equal(kvt_order_verb_name((enum kvt_order_verb)99), "none");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tiers_have_names_both_ways),
        cmocka_unit_test(every_hash_comes_back),
        cmocka_unit_test(hashes_are_hex_decimal_or_refused),
        cmocka_unit_test(verbs_have_names),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
