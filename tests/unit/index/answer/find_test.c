/*
 * What is tested: index_find(), index_find_result_*() and find_matches().
 * How: a forest of sequences that branch and share, stored in pieces, whole or as orphans, and
 * removed in any order, against a table of flags: every holder's longest prefix, by token hashes
 * and by sequence hashes, for ways through the forest, ways that leave it, ways that begin in its
 * middle and ways no sequence has.  KVT_SEED=n replays.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <xxhash.h>

#include "base/core/alloc.h"
#include "base/core/random.h"
#include "index/index.h"

#include "tests/support/seed.h"
#include "tests/unit/index/support/matches.h"

enum {
    SEQUENCES = 24,
    LENGTH = 90,
    NODES = SEQUENCES * LENGTH,
    HOLDERS = 150,
    STEPS = 6000,
    QUESTIONS = 4,
    PIECE_MAX = 40,
    NOWHERE = NODES, /* stands for a block that nobody has */
};

struct node {
    uint64_t tokens;
    uint64_t hash;
    uint32_t parent; /* NOWHERE: a root */
    uint32_t position;
};

struct visited {
    uint64_t shorter; /* holders that have less than others */
    uint64_t removed;
    uint64_t alone; /* early exits */
};

struct run {
    struct index *index;
    struct index_find_result *found;
    struct visited visited;
    uint64_t state;
    uint32_t ns;
    uint32_t holders[HOLDERS];
    uint32_t node_count;
    struct node nodes[NODES];
    uint32_t ways[SEQUENCES][LENGTH]; /* nodes of each sequence */
    uint32_t ranks[HOLDERS][NODES];
};

static uint32_t
below(struct run *run, uint64_t bound)
{
    return (uint32_t)kvt_random_below(&run->state, bound);
}

static uint64_t
chain(uint64_t before, uint64_t tokens)
{
    const uint64_t both[2] = {before, tokens};

    return XXH3_64bits_withSeed(both, sizeof(both), 1337);
}

/* Each sequence follows an earlier one for a while; some are roots of their own. */
static void
plant(struct run *run)
{
    for (uint32_t sequence = 0; sequence < SEQUENCES; sequence++) {
        const uint32_t other = sequence == 0 ? 0 : below(run, sequence);
        const uint32_t same = sequence % 6 == 0 ? 0 : below(run, LENGTH);

        for (uint32_t i = 0; i < LENGTH; i++) {
            struct node *node = &run->nodes[run->node_count];

            if (i < same) {
                run->ways[sequence][i] = run->ways[other][i];
                continue;
            }
            node->tokens = kvt_random_next(&run->state);
            node->position = i;
            node->parent = i == 0 ? NOWHERE : run->ways[sequence][i - 1];
            node->hash = i == 0 ? node->tokens : chain(run->nodes[node->parent].hash, node->tokens);
            run->ways[sequence][i] = run->node_count++;
        }
    }
}

static struct run *
run_new(void)
{
    struct run *run = kvt_calloc(1, sizeof(*run));

    assert_non_null(run);
    run->state = test_seed();
    assert_int_equal(index_new(&run->index, 64 << 20), KVT_OK);
    assert_int_equal(index_find_result_new(&run->found), KVT_OK);
    assert_int_equal(index_namespace(run->index, "n", &run->ns), KVT_OK);
    for (uint32_t i = 0; i < HOLDERS; i++) {
        struct index_holder key = {.tier = KVT_TIER_G1};

        (void)snprintf(key.name, sizeof(key.name), "w%" PRIu32, i);
        assert_int_equal(index_holder(run->index, &key, &run->holders[i]), KVT_OK);
    }
    plant(run);
    return run;
}

static void
run_free(struct run *run)
{
    index_find_result_free(run->found);
    index_free(run->index);
    kvt_free(run);
}

static void
store(struct run *run)
{
    const uint32_t sequence = below(run, SEQUENCES);
    const uint32_t from = below(run, 2) == 0 ? 0 : below(run, LENGTH);
    const uint32_t count = 1 + below(run, LENGTH - from < PIECE_MAX ? LENGTH - from : PIECE_MAX);
    const uint32_t holder = below(run, 3) == 0 ? below(run, 3) : below(run, HOLDERS);
    const struct node *first = &run->nodes[run->ways[sequence][from]];
    uint64_t hashes[PIECE_MAX];
    uint64_t tokens[PIECE_MAX];
    struct index_change change = {
        .hashes = hashes,
        .tokens = tokens,
        .parent = from == 0 ? 0 : run->nodes[first->parent].hash,
        .size = 4096,
        .position = from,
        .count = count,
        .ns = run->ns,
        .holder = run->holders[holder],
        .ranks = below(run, 4) == 0 ? 1 : 3,
        .kind = INDEX_STORE,
    };

    for (uint32_t i = 0; i < count; i++) {
        const uint32_t at = run->ways[sequence][from + i];

        hashes[i] = run->nodes[at].hash;
        tokens[i] = run->nodes[at].tokens;
        run->ranks[holder][at] |= change.ranks;
    }
    index_apply(run->index, &change, 1);
    assert_int_equal(change.status, KVT_OK);
    assert_int_equal(change.done, count);
}

static void
take(struct run *run)
{
    const uint32_t sequence = below(run, SEQUENCES);
    const uint32_t from = below(run, LENGTH);
    const uint32_t step = 1 + below(run, 3);
    const uint32_t holder = below(run, HOLDERS);
    uint64_t hashes[LENGTH];
    struct index_change change = {
        .hashes = hashes,
        .ns = run->ns,
        .holder = run->holders[holder],
        .ranks = below(run, 4) == 0 ? 1 : UINT32_MAX,
        .kind = INDEX_REMOVE,
    };

    for (uint32_t i = from; i < LENGTH && change.count < 12; i += step) {
        const uint32_t at = run->ways[sequence][i];

        hashes[change.count++] = run->nodes[at].hash;
        run->visited.removed += run->ranks[holder][at] != 0;
        run->ranks[holder][at] &= ~change.ranks;
    }
    index_apply(run->index, &change, 1);
    assert_int_equal(change.status, KVT_OK);
}

/* A way to ask for: nodes, some of them NOWHERE. */
static uint32_t
make_way(struct run *run, uint32_t way[LENGTH], bool from_root)
{
    const uint32_t sequence = below(run, SEQUENCES);
    const uint32_t from = from_root || below(run, 2) == 0 ? 0 : below(run, LENGTH);
    const uint32_t count = 1 + below(run, LENGTH - from);
    const uint32_t kind = below(run, 8);

    for (uint32_t i = 0; i < count; i++)
        way[i] = run->ways[sequence][from + i];
    if (kind == 0)
        way[below(run, count)] = NOWHERE;
    else if (kind == 1 && !from_root)
        way[below(run, count)] = below(run, run->node_count);
    return count;
}

static uint32_t
model_length(const struct run *run, uint32_t holder, const uint32_t *way, uint32_t count)
{
    uint32_t length = 0;

    while (length < count && way[length] != NOWHERE && run->ranks[holder][way[length]] != 0)
        length++;
    return length;
}

static void
check_answer(struct run *run, const uint32_t *way, uint32_t count, bool early_exit)
{
    struct index_match matches[HOLDERS];
    const size_t given = index_find_result_best(run->found, matches, HOLDERS);
    uint32_t longest = 0;
    uint32_t second = 0;
    size_t expected = 0;

    for (uint32_t holder = 0; holder < HOLDERS; holder++) {
        const uint32_t length = model_length(run, holder, way, count);

        expected += length > 0;
        if (length > longest) {
            second = longest;
            longest = length;
        } else if (length > second) {
            second = length;
        }
    }
    assert_int_equal(given, expected);
    assert_int_equal(index_find_result_count(run->found), expected);
    if (!early_exit)
        assert_int_equal(index_find_result_length(run->found), longest);
    for (size_t i = 0; i < given; i++) {
        const uint32_t length = model_length(run, matches[i].holder, way, count);

        run->visited.shorter += length < longest;
        if (i > 0)
            assert_true(matches[i - 1].blocks > matches[i].blocks ||
                        (matches[i - 1].blocks == matches[i].blocks &&
                         matches[i - 1].holder < matches[i].holder));
        if (early_exit && i == 0 && matches[i].blocks < length) {
            assert_true(matches[i].blocks > second);
            run->visited.alone++;
            continue;
        }
        assert_int_equal(matches[i].blocks, length);
    }
}

static void
ask(struct run *run)
{
    const bool by_tokens = below(run, 2) == 0;
    uint32_t way[LENGTH];
    const uint32_t count = make_way(run, way, by_tokens);
    uint64_t hashes[LENGTH];
    struct index_match matches[HOLDERS];
    struct index_match again[HOLDERS];
    struct index_question question = {
        .hashes = hashes,
        .count = count,
        .ns = run->ns,
        .key = by_tokens ? INDEX_BY_TOKENS : INDEX_BY_SEQUENCE,
        .early_exit = below(run, 4) == 0,
    };
    size_t given;

    for (uint32_t i = 0; i < count; i++) {
        if (way[i] == NOWHERE)
            hashes[i] = kvt_random_next(&run->state);
        else
            hashes[i] = by_tokens ? run->nodes[way[i]].tokens : run->nodes[way[i]].hash;
    }
    assert_int_equal(index_find(run->index, &question, run->found), KVT_OK);
    check_answer(run, way, count, question.early_exit);
    if (by_tokens || question.early_exit)
        return;
    given = index_find_result_best(run->found, matches, HOLDERS);
    assert_int_equal(find_matches(run->index, run->ns, hashes, count, again, HOLDERS), given);
    assert_memory_equal(matches, again, given * sizeof(*matches));
    assert_int_equal(find_matches(run->index, run->ns, hashes, count, again, 3),
                     given < 3 ? given : 3);
    assert_memory_equal(matches, again, (given < 3 ? given : 3) * sizeof(*matches));
}

static void
random_against_model(void **state)
{
    struct run *run = run_new();

    (void)state;
    for (int step = 0; step < STEPS; step++) {
        if (below(run, 100) < (step / 1000 % 2 == 0 ? 70u : 25u))
            store(run);
        else
            take(run);
        for (int i = 0; i < QUESTIONS; i++)
            ask(run);
    }
    assert_true(run->visited.shorter > 0);
    assert_true(run->visited.removed > 0);
    assert_true(run->visited.alone > 0);
    run_free(run);
}

static void
nothing_is_found(void **state)
{
    struct run *run = run_new();
    const uint64_t hash = run->nodes[0].hash;
    struct index_question question = {.hashes = &hash, .count = 1, .ns = run->ns};
    struct index_match match;

    (void)state;
    assert_int_equal(index_find(run->index, &question, run->found), KVT_OK);
    assert_int_equal(index_find_result_count(run->found), 0);
    assert_int_equal(index_find_result_length(run->found), 0);
    assert_int_equal(index_find_result_best(run->found, &match, 1), 0);
    question.count = 0;
    assert_int_equal(index_find(run->index, &question, run->found), KVT_OK);
    assert_int_equal(index_find_result_count(run->found), 0);
    run_free(run);
}

/* A token hash that is not known is no hash, not even that of a question that happens to be 0. */
static void
unknown_tokens_match_nothing(void **state)
{
    struct run *run = run_new();
    const uint64_t hashes[3] = {1000, chain(1000, 5), chain(chain(1000, 5), 6)};
    uint64_t asked[3] = {1000, 0, 0};
    struct index_question question = {
        .hashes = asked, .count = 3, .ns = run->ns, .key = INDEX_BY_TOKENS};
    struct index_change change = {
        .hashes = hashes,
        .tokens = hashes,
        .size = 4096,
        .count = 1,
        .ns = run->ns,
        .holder = run->holders[0],
        .ranks = 1,
        .kind = INDEX_STORE,
    };

    (void)state;
    index_apply(run->index, &change, 1);
    assert_int_equal(change.status, KVT_OK);
    change.tokens = NULL; /* the rest of the same run */
    change.hashes = hashes + 1;
    change.parent = hashes[0];
    change.position = 1;
    change.count = 2;
    index_apply(run->index, &change, 1);
    assert_int_equal(change.status, KVT_OK);
    assert_int_equal(index_find(run->index, &question, run->found), KVT_OK);
    assert_int_equal(index_find_result_length(run->found), 1);
    question.key = INDEX_BY_SEQUENCE;
    question.hashes = hashes;
    assert_int_equal(index_find(run->index, &question, run->found), KVT_OK);
    assert_int_equal(index_find_result_length(run->found), 3);
    run_free(run);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_against_model),
        cmocka_unit_test(nothing_is_found),
        cmocka_unit_test(unknown_tokens_match_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
