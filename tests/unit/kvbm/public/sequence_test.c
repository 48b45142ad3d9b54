/*
 * What is tested: sequences of tokens (kvtier/kvbm.h): Dynamo's published chain, salts, and a long
 * random run of appends, truncations and unwindings against a plain array that is hashed anew.
 */
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/random.h"
#include "kvtier/kvbm.h"
#include "kvtier/token.h"

#include "tests/support/seed.h"

static struct kvt_sequence *
new_sequence(uint32_t block_tokens, uint64_t seed)
{
    struct kvt_sequence *sequence;

    assert_int_equal(kvt_sequence_new(&sequence, block_tokens, seed, NULL), KVT_OK);
    return sequence;
}

static void
published_chain(void **unused)
{
    static const uint32_t tokens[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13};
    static const uint64_t chain[] = {UINT64_C(14643705804678351452), UINT64_C(4945711292740353085),
                                     UINT64_C(12583592247330656132)};
    struct kvt_sequence *sequence = new_sequence(4, KVT_TOKEN_SEED);
    struct kvt_block_id id;
    uint64_t tokens_hash;
    size_t count;

    (void)unused;
    assert_int_equal(kvt_sequence_append(sequence, tokens, 13, NULL), KVT_OK);
    assert_memory_equal(kvt_sequence_hashes(sequence, &count), chain, sizeof(chain));
    assert_int_equal(count, 3); /* the thirteenth token fills no block */
    assert_int_equal(kvt_sequence_block(sequence, 1, &id, &tokens_hash), KVT_OK);
    assert_int_equal(id.hash, chain[1]);
    assert_int_equal(id.parent, chain[0]);
    assert_int_equal(id.position, 1);
    assert_int_equal(tokens_hash, UINT64_C(16777012769546811212));
    assert_int_equal(kvt_sequence_block(sequence, 3, &id, &tokens_hash), KVT_NOTFOUND);
    assert_int_equal(id.hash, 0);
    assert_int_equal(tokens_hash, 0);
    kvt_sequence_free(sequence);
}

static void
a_salt_changes_every_name(void **unused)
{
    static const uint32_t tokens[] = {0, 1, 2, 3, 4, 5, 6, 7};
    struct kvt_sequence *plain = new_sequence(4, KVT_TOKEN_SEED);
    struct kvt_sequence *salted =
        new_sequence(4, kvt_token_seed(NULL, 0, "tenant-a", strlen("tenant-a")));
    const uint64_t *hashes;
    size_t count;

    (void)unused;
    assert_int_equal(kvt_sequence_append(plain, tokens, 8, NULL), KVT_OK);
    assert_int_equal(kvt_sequence_append(salted, tokens, 8, NULL), KVT_OK);
    hashes = kvt_sequence_hashes(salted, &count);
    assert_int_equal(count, 2);
    assert_int_equal(hashes[0], UINT64_C(17009624042690211646)); /* a published vector */
    assert_int_not_equal(hashes[1], kvt_sequence_hashes(plain, &count)[1]);
    kvt_sequence_free(plain);
    kvt_sequence_free(salted);
}

static void
refusals(void **unused)
{
    struct kvt_error err = {.code = KVT_OK};
    struct kvt_sequence *sequence;

    (void)unused;
    assert_int_equal(kvt_sequence_new(&sequence, 0, 0, &err), KVT_INVALID);
    assert_null(sequence);
    assert_int_equal(kvt_sequence_new(&sequence, KVT_BLOCK_TOKENS_MAX + 1, 0, &err), KVT_INVALID);
    sequence = new_sequence(4, 0);
    assert_int_equal(kvt_sequence_append(sequence, (uint32_t[]){1, 2}, 2, &err), KVT_OK);
    assert_int_equal(kvt_sequence_truncate(sequence, 3, &err), KVT_RANGE);
    assert_string_equal(err.text, "a sequence of 2 tokens has no first 3");
    assert_int_equal(kvt_sequence_unwind(sequence, 3, &err), KVT_RANGE);
    assert_string_equal(err.text, "a sequence of 2 tokens has no last 3");
    assert_int_equal(kvt_sequence_append(sequence, (uint32_t[]){1}, KVT_SEQUENCE_TOKENS_MAX, &err),
                     KVT_RANGE);
    assert_int_equal(kvt_sequence_append(sequence, NULL, 0, &err), KVT_OK);
    kvt_sequence_free(sequence);
    kvt_sequence_free(NULL);
}

/* ---- against a plain array ---- */

enum { TOKENS_MAX = 600, STEPS = 20000 / TEST_ALONE_SHARE };

static void
compare(const struct kvt_sequence *sequence, const uint32_t *tokens, size_t count, size_t size,
        uint64_t seed)
{
    uint64_t chain = 0;
    size_t found;

    assert_memory_equal(kvt_sequence_tokens(sequence, &found), tokens, count * sizeof(*tokens));
    assert_int_equal(found, count);
    (void)kvt_sequence_hashes(sequence, &found);
    assert_int_equal(found, count / size);
    for (size_t i = 0; i < count / size; i++) {
        const uint64_t local = kvt_token_block(tokens + i * size, size, NULL, 0, seed);
        struct kvt_block_id id;
        uint64_t tokens_hash;

        assert_int_equal(kvt_sequence_block(sequence, i, &id, &tokens_hash), KVT_OK);
        assert_int_equal(id.parent, chain);
        chain = i == 0 ? local : kvt_token_chain(chain, local);
        assert_int_equal(id.hash, chain);
        assert_int_equal(tokens_hash, local);
    }
}

static void
random_against_a_plain_array(void **unused)
{
    uint64_t random = test_seed();
    const size_t size = 1 + kvt_random_below(&random, 20);
    struct kvt_sequence *sequence = new_sequence((uint32_t)size, 7);
    uint32_t tokens[TOKENS_MAX] = {0};
    size_t count = 0;

    (void)unused;
    for (int step = 0; step < STEPS; step++) {
        const size_t wish = kvt_random_below(&random, 60);

        if (kvt_random_below(&random, 2) == 0 && count + wish <= TOKENS_MAX) {
            for (size_t i = 0; i < wish; i++)
                tokens[count + i] = (uint32_t)kvt_random_below(&random, 5);
            assert_int_equal(kvt_sequence_append(sequence, tokens + count, wish, NULL), KVT_OK);
            count += wish;
        } else if (kvt_random_below(&random, 2) == 0) {
            assert_int_equal(kvt_sequence_unwind(sequence, wish, NULL),
                             wish <= count ? KVT_OK : KVT_RANGE);
            count -= wish <= count ? wish : 0;
        } else {
            assert_int_equal(kvt_sequence_truncate(sequence, wish * 10, NULL),
                             wish * 10 <= count ? KVT_OK : KVT_RANGE);
            count = wish * 10 <= count ? wish * 10 : count;
        }
        if (step % 16 == 0 && count > 0)
            compare(sequence, tokens, count, size, 7);
    }
    kvt_sequence_free(sequence);
}

static bool
attempt(void *arg)
{
    const uint32_t *tokens = arg;
    struct kvt_sequence *sequence;
    enum kvt_err rc = kvt_sequence_new(&sequence, 2, 0, NULL);
    size_t count;

    if (rc != KVT_OK) {
        assert_null(sequence);
        return false;
    }
    for (size_t i = 0; i < 64 && rc == KVT_OK; i++) {
        rc = kvt_sequence_append(sequence, tokens, 3, NULL);
        (void)kvt_sequence_tokens(sequence, &count);
        assert_int_equal(count, 3 * (rc == KVT_OK ? i + 1 : i)); /* all or none */
    }
    kvt_sequence_free(sequence);
    return rc == KVT_OK;
}

static void
every_allocation_may_fail(void **unused)
{
    uint32_t tokens[3] = {1, 2, 3};

    (void)unused;
    assert_true(test_sweep_allocations(attempt, tokens) > 3);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(published_chain),
        cmocka_unit_test(a_salt_changes_every_name),
        cmocka_unit_test(refusals),
        cmocka_unit_test(random_against_a_plain_array),
        cmocka_unit_test(every_allocation_may_fail),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
