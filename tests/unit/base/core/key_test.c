/*
 * What is tested: kvtier/key.h, against the vectors of the KVBM revisions, its header's refusals,
 * and a round trip over random blocks.
 */
#include <stdio.h>
#include <string.h>

#include "base/core/random.h"
#include "kvtier/key.h"

#include "tests/support/seed.h"

enum { ROUNDS = 20000 };

/* Tokens 1..12 in blocks of 4, salt and chain seed 1337. */
static const struct kvt_block_id chain[] = {
    {UINT64_C(14643705804678351452), 0, 0},
    {UINT64_C(4945711292740353085), UINT64_C(14643705804678351452), 1},
    {UINT64_C(12583592247330656132), UINT64_C(4945711292740353085), 2},
};

static void
formats_the_vectors_of_both_revisions(void **state)
{
    static const char *const a[] = {"3/0:YG4uhF52FD", "3/1:myHeYrDr4U:YG4uhF52FD",
                                    "3/2:27LtDiDVX1D:myHeYrDr4U"};
    static const char *const b[] = {"3/0:azWbh91idkf", "3/1:CUrLYDFnmBa:13A3sGnbCSf",
                                    "3/2:WD9tZKnMfx7:12KG5vAW7Me"};
    char key[KVT_KEY_MAX];

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(kvt_key_format(key, sizeof(key), KVT_KEY_KVBM_A, "", 3, &chain[i]),
                         KVT_OK);
        assert_string_equal(key, a[i]);
        assert_int_equal(kvt_key_format(key, sizeof(key), KVT_KEY_KVBM_B, "", 3, &chain[i]),
                         KVT_OK);
        assert_string_equal(key, b[i]);
    }
    assert_int_equal(
        kvt_key_format(key, sizeof(key), KVT_KEY_KVBM_B, "acme/llama-1f", 0, &chain[1]), KVT_OK);
    assert_string_equal(key, "acme/llama-1f/0/1:CUrLYDFnmBa:13A3sGnbCSf");
}

static void
parent_fragments_are_as_wide_as_the_position_leaves(void **state)
{
    static const struct {
        enum kvt_key_revision revision;
        uint32_t position;
        unsigned bits;
    } rows[] = {
        {KVT_KEY_KVBM_A, 1, 59},     {KVT_KEY_KVBM_A, 255, 59},   {KVT_KEY_KVBM_A, 256, 55},
        {KVT_KEY_KVBM_A, 65535, 55}, {KVT_KEY_KVBM_A, 65536, 51}, {KVT_KEY_KVBM_B, 255, 54},
        {KVT_KEY_KVBM_B, 256, 46},   {KVT_KEY_KVBM_B, 65535, 46}, {KVT_KEY_KVBM_B, 65536, 38},
        {KVT_KEY_KVBM_C, 1, 64},     {KVT_KEY_KVBM_C, 65536, 64},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        assert_true(kvt_key_parent_fragment(rows[i].revision, rows[i].position, UINT64_MAX) ==
                    UINT64_MAX >> (64 - rows[i].bits));
    assert_true(kvt_key_parent_fragment(KVT_KEY_KVBM_C, 0, UINT64_MAX) == 0);
}

/* Revision A: what stands for a block at 255 is what its child at 256 names as its parent. */
static void
revision_a_agrees_across_position_widths(void **state)
{
    static const uint32_t last[] = {255, 65535};

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        const struct kvt_block_id own = {UINT64_MAX - 5, 7, last[i]};
        const struct kvt_block_id child = {9, UINT64_MAX - 5, last[i] + 1};
        struct kvt_key parsed_own;
        struct kvt_key parsed_child;
        char key[KVT_KEY_MAX];

        assert_int_equal(kvt_key_format(key, sizeof(key), KVT_KEY_KVBM_A, "", 0, &own), KVT_OK);
        assert_int_equal(kvt_key_parse(key, &parsed_own), KVT_OK);
        assert_int_equal(kvt_key_format(key, sizeof(key), KVT_KEY_KVBM_A, "", 0, &child), KVT_OK);
        assert_int_equal(kvt_key_parse(key, &parsed_child), KVT_OK);
        assert_true(parsed_own.hash == parsed_child.parent_fragment);
    }
}

static void
base58_writes_leading_zero_bytes_as_ones(void **state)
{
    static const struct {
        uint64_t value;
        const char *text;
    } rows[] = {
        {0, "11111111"},
        {1, "11111112"},
        {57, "1111111z"},
        {58, "111111121"},
        {255, "11111115Q"},
        {256, "1111115R"},
        {UINT64_MAX, "jpXCZedGfVQ"},
    };
    char text[KVT_KEY_BASE58_MAX];
    uint64_t value;

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        kvt_key_base58(rows[i].value, text);
        assert_string_equal(text, rows[i].text);
        assert_int_equal(kvt_key_base58_parse(text, strlen(text), &value), KVT_OK);
        assert_true(value == rows[i].value);
    }
}

static void
base58_refuses_other_texts(void **state)
{
    static const char *const texts[] = {
        "",
        "0",
        "jpXCZedGfV0",
        "jpXCZedGfVI",
        "jpXCZedGfVO",
        "jpXCZedGfVl",
        "jpXCZedGfVR" /* 2^64 */,
        "zzzzzzzzzzz",
        "111111111",
        "1111111",
        "1111112",
        "111111112",
        "jpXCZedGfVQ1",
    };
    uint64_t value = 1;

    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        assert_int_equal(kvt_key_base58_parse(texts[i], strlen(texts[i]), &value), KVT_INVALID);
        assert_true(value == 0);
    }
    assert_int_equal(kvt_key_base58_parse("1111\0111", 8, &value), KVT_INVALID);
}

static void
parse_takes_keys_apart(void **state)
{
    struct kvt_key key;

    (void)state;
    assert_int_equal(kvt_key_parse("31/16777215:11111112:11111111", &key), KVT_OK);
    assert_string_equal(key.namespace_, "");
    assert_int_equal(key.rank, 31);
    assert_int_equal(key.position, KVT_POSITION_MAX);
    assert_true(key.hash == 1 && key.parent_fragment == 0);
    assert_int_equal(kvt_key_parse("a/0/5/0:11111112", &key), KVT_OK);
    assert_string_equal(key.namespace_, "a/0");
    assert_int_equal(key.rank, 5);
    assert_int_equal(kvt_key_parse("caf\xc3\xa9 +@%=:/7/0:11111112", &key), KVT_OK);
    assert_string_equal(key.namespace_, "caf\xc3\xa9 +@%=:");
}

static void
parse_refuses_what_is_not_a_block(void **state)
{
    static const char *const keys[] = {
        "",
        "0:11111112",
        "/0:11111112",
        "/0/0:11111112",
        "a//0/0:11111112",
        "./0/0:11111112",
        "a/../0/0:11111112",
        "a\n/0/0:11111112",
        "32/0:11111112",
        "-1/0:11111112",
        "00/0:11111112",
        "+1/0:11111112",
        "0/:11111112",
        "0/00:11111112",
        "0/16777216:11111112:11111112",
        "0/4294967297:11111112:11111112",
        "0/1:11111112",
        "0/0:11111112:11111112",
        "0/1:11111112:",
        "0/1::11111112",
        "0/1:11111112:11111112:11111112",
        "0/0:11111112.lock",
        "0/0:11111112.meta",
        "0/0:11111112 ",
        "0/0",
        "0/",
        ".kvtier-selftest/ab12",
    };
    char long_key[2 * KVT_KEY_MAX];
    struct kvt_key key;

    (void)state;
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
        assert_int_equal(kvt_key_parse(keys[i], &key), KVT_INVALID);
    memset(long_key, 'a', sizeof(long_key));
    memcpy(long_key + KVT_NAMESPACE_MAX, "/0/0:11111112", 14);
    assert_int_equal(kvt_key_parse(long_key, &key), KVT_INVALID);
    memcpy(long_key + KVT_NAMESPACE_MAX - 1, "/0/0:11111112", 14);
    assert_int_equal(kvt_key_parse(long_key, &key), KVT_OK);
}

static void
format_refuses_what_parse_would_not_take_back(void **state)
{
    const struct kvt_block_id far = {1, 1, KVT_POSITION_MAX + 1};
    char long_namespace[KVT_NAMESPACE_MAX + 1];
    char key[KVT_KEY_MAX];

    (void)state;
    memset(long_namespace, 'n', sizeof(long_namespace) - 1);
    long_namespace[sizeof(long_namespace) - 1] = '\0';
    assert_int_equal(kvt_key_format(key, sizeof(key), KVT_KEY_KVBM_B, "", 0, &far), KVT_RANGE);
    assert_string_equal(key, "");
    assert_int_equal(kvt_key_format(key, sizeof(key), KVT_KEY_KVBM_B, "", 32, &chain[0]),
                     KVT_RANGE);
    assert_int_equal(kvt_key_format(key, 10, KVT_KEY_KVBM_B, "", 0, &chain[0]), KVT_RANGE);
    assert_int_equal(kvt_key_format(key, sizeof(key), KVT_KEY_KVBM_B, "a//b", 0, &chain[0]),
                     KVT_INVALID);
    assert_int_equal(kvt_key_format(key, sizeof(key), KVT_KEY_KVBM_B, "a/", 0, &chain[0]),
                     KVT_INVALID);
    assert_int_equal(kvt_key_format(key, sizeof(key), KVT_KEY_KVBM_B, long_namespace, 0, &chain[0]),
                     KVT_INVALID);
}

static void
random_blocks_come_back(void **state)
{
    uint64_t random = test_seed();

    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        const enum kvt_key_revision revision = (enum kvt_key_revision)kvt_random_below(&random, 3);
        const struct kvt_block_id block = {
            .hash = kvt_random_next(&random) >> kvt_random_below(&random, 64),
            .parent = kvt_random_next(&random),
            .position = (uint32_t)(kvt_random_below(&random, KVT_POSITION_MAX + 1) >>
                                   kvt_random_below(&random, 24)),
        };
        const uint32_t rank = (uint32_t)kvt_random_below(&random, KVT_RANKS_MAX);
        char text[KVT_KEY_MAX];
        struct kvt_key key;

        assert_int_equal(kvt_key_format(text, sizeof(text), revision, "t/m", rank, &block), KVT_OK);
        assert_int_equal(kvt_key_parse(text, &key), KVT_OK);
        assert_string_equal(key.namespace_, "t/m");
        assert_int_equal(key.rank, rank);
        assert_int_equal(key.position, block.position);
        assert_true(revision == KVT_KEY_KVBM_A || key.hash == block.hash);
        assert_true(key.parent_fragment ==
                    kvt_key_parent_fragment(revision, block.position, block.parent));
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(formats_the_vectors_of_both_revisions),
        cmocka_unit_test(parent_fragments_are_as_wide_as_the_position_leaves),
        cmocka_unit_test(revision_a_agrees_across_position_widths),
        cmocka_unit_test(base58_writes_leading_zero_bytes_as_ones),
        cmocka_unit_test(base58_refuses_other_texts),
        cmocka_unit_test(parse_takes_keys_apart),
        cmocka_unit_test(parse_refuses_what_is_not_a_block),
        cmocka_unit_test(format_refuses_what_parse_would_not_take_back),
        cmocka_unit_test(random_blocks_come_back),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
