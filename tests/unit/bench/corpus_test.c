/*
 * What is tested: bench/index/corpus.h and bench/index/trace.h make the workloads that bench/peers/
 * makes.  The constants came from that program; a figure compared between different workloads would
 * be worth nothing.
 */
#include <stdio.h>
#include <string.h>

#include "bench/index/corpus.h"
#include "bench/index/trace.h"
#include "tests/support/seed.h"

static void
mix_is_splitmix64(void **state)
{
    (void)state;
    assert_int_equal(corpus_mix(0), UINT64_C(0xe220a8397b1dcdaf));
    assert_int_equal(corpus_mix(UINT64_C(0x9e3779b97f4a7c15)), UINT64_C(0x6e789e6aa1b965f4));
}

static void
chain_sums_are_the_peers(void **state)
{
    static const struct {
        const char *load;
        size_t asked;
        uint64_t seed;
        size_t memberships;
        uint64_t sum;
    } cases[] = {
        {"A", 20000, 42, 16384, UINT64_C(0x8214672882d57110)},
        {"B", 20000, 42, 16384, UINT64_C(0xd424e4fa654c0055)},
        {"C", 100000, 7, 98304, UINT64_C(0x497321d0eef1635f)},
        {"D", 100000, 42, 65536, UINT64_C(0xb506e1e8bab0735d)},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct corpus corpus;
        size_t memberships;
        uint64_t sum;

        assert_int_equal(corpus_load(&corpus, cases[i].load, cases[i].asked, cases[i].seed),
                         KVT_OK);
        corpus_checksum(&corpus, &memberships, &sum);
        assert_int_equal(memberships, cases[i].memberships);
        assert_int_equal(sum, cases[i].sum);
        corpus_release(&corpus);
    }
}

static void
point_sums_are_the_peers(void **state)
{
    static const struct {
        uint32_t depth;
        uint32_t holders;
        const char *shape;
        uint64_t seed;
        size_t memberships;
        uint64_t sum;
    } cases[] = {
        {128, 16, "full", 42, 18432, UINT64_C(0x5303df3cff74b490)},
        {128, 16, "cutoff", 42, 9416, UINT64_C(0x3f8c210f146befab)},
        {128, 16, "branch", 42, 12160, UINT64_C(0x0386558983e2e920)},
        {64, 300, "branch", 9, 67168, UINT64_C(0x57a1867d989dff8d)},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct corpus corpus;
        size_t memberships;
        uint64_t sum;

        assert_int_equal(corpus_points(&corpus, cases[i].depth, cases[i].holders, cases[i].shape,
                                       20000, cases[i].seed),
                         KVT_OK);
        corpus_checksum(&corpus, &memberships, &sum);
        assert_int_equal(memberships, cases[i].memberships);
        assert_int_equal(sum, cases[i].sum);
        corpus_release(&corpus);
    }
}

static void
order_is_a_permutation(void **state)
{
    struct corpus corpus;
    bool seen[256] = {false};

    (void)state;
    assert_int_equal(corpus_load(&corpus, "A", 20000, 42), KVT_OK);
    assert_int_equal(corpus.chains, 256);
    for (uint32_t i = 0; i < corpus.chains; i++) {
        assert_in_range(corpus.order[i], 0, 255);
        assert_false(seen[corpus.order[i]]);
        seen[corpus.order[i]] = true;
    }
    corpus_release(&corpus);
}

static void
unknown_loads_are_refused(void **state)
{
    struct corpus corpus;

    (void)state;
    assert_int_equal(corpus_load(&corpus, "E", 20000, 42), KVT_INVALID);
    assert_int_equal(corpus_points(&corpus, 128, 16, "round", 20000, 42), KVT_INVALID);
    assert_int_equal(corpus_points(&corpus, CORPUS_CHAIN_MAX, 16, "full", 20000, 42), KVT_INVALID);
}

static void
trace_is_the_peers(void **state)
{
    static const char text[] =
        "{\"timestamp\": 0, \"input_length\": 2048, \"output_length\": 1, \"hash_ids\": [0, 1, 2, "
        "3]}\n"
        "{\"timestamp\": 1, \"input_length\": 1536, \"output_length\": 1, \"hash_ids\": [0, 1, "
        "4]}\n"
        "{\"timestamp\": 2, \"input_length\": 512, \"output_length\": 1, \"hash_ids\": [5]}\n";
    char folder[256];
    char path[300];
    struct kvt_error error;
    struct trace trace;
    size_t stored;
    uint64_t sum;
    FILE *file;

    (void)state;
    (void)test_folder_make(folder, sizeof(folder));
    (void)snprintf(path, sizeof(path), "%s/trace.jsonl", folder);
    file = fopen(path, "we");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, sizeof(text) - 1, file), sizeof(text) - 1);
    assert_int_equal(fclose(file), 0);
    const struct trace_options options = {
        .path = path, .length = 2, .copies = 3, .workers = 2, .seed = 42};

    assert_int_equal(trace_read(&trace, &options, &error), KVT_OK);
    assert_int_equal(trace.count, 9);
    assert_int_equal(trace.longest, 8);
    assert_int_equal(trace_checksum(&trace, &stored, &sum), KVT_OK);
    assert_int_equal(stored, 40);
    assert_int_equal(sum, UINT64_C(0xa367a7f51fb9d55f));
    /* All requests are of one window, so that every lookup is before every store. */
    for (size_t i = 0; i < trace.count; i++)
        assert_int_equal(trace.requests[i].scores, 0);
    trace_release(&trace);
    test_folder_remove(folder);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mix_is_splitmix64),         cmocka_unit_test(chain_sums_are_the_peers),
        cmocka_unit_test(point_sums_are_the_peers),  cmocka_unit_test(order_is_a_permutation),
        cmocka_unit_test(unknown_loads_are_refused), cmocka_unit_test(trace_is_the_peers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
