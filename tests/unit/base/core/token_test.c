/*
 * What is tested: kvtier/token.h, against the published vectors of Dynamo's hashes.
 */
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/random.h"
#include "kvtier/token.h"

#include "tests/support/seed.h"

static uint64_t
seed_of(const char *adapter, const char *salt)
{
    return kvt_token_seed(adapter, adapter == NULL ? 0 : strlen(adapter), salt,
                          salt == NULL ? 0 : strlen(salt));
}

static void
blocks_and_chain(void **state)
{
    static const uint32_t tokens[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
    static const uint64_t local[] = {UINT64_C(14643705804678351452), UINT64_C(16777012769546811212),
                                     UINT64_C(483935686894639516)};
    static const uint64_t sequence[] = {UINT64_C(14643705804678351452),
                                        UINT64_C(4945711292740353085),
                                        UINT64_C(12583592247330656132)};
    uint64_t chain = 0;

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        const uint64_t hash = kvt_token_block(tokens + 4 * i, 4, NULL, 0, KVT_TOKEN_SEED);

        assert_int_equal(hash, local[i]);
        chain = i == 0 ? hash : kvt_token_chain(chain, hash);
        assert_int_equal(chain, sequence[i]);
    }
}

static void
adapters_salts_and_objects(void **state)
{
    static const uint32_t tokens[] = {0, 1, 2, 3};
    static const uint64_t object = 42;
    static const struct {
        const char *adapter;
        const char *salt;
        uint64_t seed;
        uint64_t hash;
    } rows[] = {
        {NULL, NULL, 1337, UINT64_C(9143094415614847814)},
        {"", "", 1337, UINT64_C(9143094415614847814)},
        {"adapter-a", NULL, UINT64_C(8842669519798868182), UINT64_C(6665157333201000639)},
        {NULL, "tenant-a", UINT64_C(1948188790972764086), UINT64_C(17009624042690211646)},
        {"adapter-a", "tenant-a",
         UINT64_C(8842669519798868182) + UINT64_C(1948188790972764086) - 1337,
         UINT64_C(8269515957840517240)},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        const uint64_t seed = seed_of(rows[i].adapter, rows[i].salt);

        assert_int_equal(seed, rows[i].seed);
        assert_int_equal(kvt_token_block(tokens, 4, NULL, 0, seed), rows[i].hash);
    }
    assert_int_equal(kvt_token_block(tokens, 4, &object, 1, KVT_TOKEN_SEED),
                     UINT64_C(18280081842874931122));
}

/* Objects are hashed as the tokens' continuation, however large either is. */
static void
large_blocks_are_hashed_as_one_text(void **state)
{
    enum { TOKENS = 4096, OBJECTS = 600, ROUNDS = 200 };
    uint32_t *tokens = kvt_calloc(TOKENS + 2 * OBJECTS, sizeof(*tokens));
    uint64_t *objects = kvt_calloc(OBJECTS, sizeof(*objects));
    uint64_t random = test_seed();

    (void)state;
    assert_non_null(tokens);
    assert_non_null(objects);
    for (size_t i = 0; i < ROUNDS; i++) {
        const size_t count = kvt_random_below(&random, TOKENS + 1);
        const size_t media = 1 + kvt_random_below(&random, OBJECTS);
        const uint64_t seed = kvt_random_next(&random);

        for (size_t j = 0; j < count; j++)
            tokens[j] = (uint32_t)kvt_random_next(&random);
        for (size_t j = 0; j < media; j++)
            objects[j] = kvt_random_next(&random);
        memcpy(tokens + count, objects, media * sizeof(*objects));
        assert_int_equal(kvt_token_block(tokens, count, objects, media, seed),
                         kvt_token_block(tokens, count + 2 * media, NULL, 0, seed));
    }
    kvt_free(tokens);
    kvt_free(objects);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_and_chain),
        cmocka_unit_test(adapters_salts_and_objects),
        cmocka_unit_test(large_blocks_are_hashed_as_one_text),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
