/*
 * What is tested: advisor/rule/block_facts.h: the facts of a block in a tier.
 * How: a chain with branches in an index, and rows made by hand; each fact against its definition
 * in policy/expression/fact.def.
 */
#include <stdio.h>
#include <string.h>

#include "advisor/rule/block_facts.h"
#include "base/core/alloc.h"

#include "tests/support/seed.h"

enum { CHAIN = 6, NOW_MS = 1000000, MIB = 1 << 20 };

/* A chain 1, 2, ... CHAIN, and two more children of 3. */
static struct index *
make_index(uint32_t *ns)
{
    const struct index_holder key = {.name = "w0", .tier = KVT_TIER_G2};
    struct index *index;
    uint32_t holder;

    assert_int_equal(index_new(&index, 16u << 20), KVT_OK);
    assert_int_equal(index_namespace(index, "team/llama/v1", ns), KVT_OK);
    assert_int_equal(index_holder(index, &key, &holder), KVT_OK);
    for (uint64_t hash = 1; hash <= CHAIN + 2; hash++) {
        const bool branch = hash > CHAIN;
        const struct index_block block = {.id = {.hash = hash,
                                                 .parent = branch ? 3 : hash - 1,
                                                 .position = branch ? 3 : (uint32_t)hash - 1},
                                          .size = 64,
                                          .ranks = 1};

        assert_int_equal(index_store(index, *ns, holder, &block, NULL), KVT_OK);
    }
    return index;
}

static struct policy_facts
facts_of(struct advisor_block_facts *facts, const struct advisor_block_facts_source *source)
{
    memset(facts, 0xa5, sizeof(*facts)); /* nothing of it may be left */
    advisor_block_facts_of(facts, source);
    return facts->facts;
}

static void
a_block_with_all_there_is(void **state)
{
    const uint64_t asked[] = {2, 77, 5};
    const struct advisor_rules rules = {.prefixes = asked, .prefix_count = 3};
    const struct advisor_store_block block = {.hash = 3,
                                              .position = 2,
                                              .size = MIB,
                                              .hits = 9,
                                              .cold_hits = 4,
                                              .stored_ms = NOW_MS - 500,
                                              .touched_ms = NOW_MS - 20,
                                              .last_access_ms = NOW_MS - 20};
    struct advisor_block_facts_source source = {.block = &block,
                                                .rules = &rules,
                                                .namespace_ = "team/llama/v1",
                                                .tier = "fast",
                                                .ranks = 0xd,
                                                .fill_ppm = 12345,
                                                .pinned = true,
                                                .now_ms = NOW_MS};
    struct advisor_block_facts facts;
    struct policy_facts is;

    (void)state;
    source.index = make_index(&source.index_ns);
    is = facts_of(&facts, &source);
    assert_int_equal(is.depth, 2);
    assert_int_equal(is.fanout, 3);
    assert_int_equal(is.hits, 9);
    assert_int_equal(is.cold_hits, 4);
    assert_int_equal(is.last_access_ms, 20);
    assert_int_equal(is.age_ms, 500);
    assert_int_equal(is.size, 3 * MIB);
    assert_int_equal(is.fill_ppm, 12345);
    assert_string_equal(is.tenant, "team");
    assert_string_equal(is.model, "llama");
    assert_string_equal(is.namespace_, "team/llama/v1");
    assert_string_equal(is.tier, "fast");
    assert_true(is.pinned);
    assert_int_equal(is.prefix_count, 1); /* behind 2; 5 comes behind it */
    assert_int_equal(is.prefixes[0], 2);
    source.no_fanout = true;
    assert_int_equal(facts_of(&facts, &source).fanout, 0);
    index_free(source.index);
}

static void
prefixes_are_the_block_and_all_before_it(void **state)
{
    const uint64_t asked[] = {6, 1, 4};
    const struct advisor_rules rules = {.prefixes = asked, .prefix_count = 3};
    struct advisor_store_block block = {.hash = 6};
    struct advisor_block_facts_source source = {
        .block = &block, .rules = &rules, .namespace_ = "", .tier = "hot", .ranks = 1};
    struct advisor_block_facts facts;

    (void)state;
    source.index = make_index(&source.index_ns);
    assert_int_equal(facts_of(&facts, &source).prefix_count, 3);
    block.hash = CHAIN + 1;
    assert_int_equal(facts_of(&facts, &source).prefix_count, 1);
    assert_int_equal(facts.prefixes[0], 1);
    block.hash = 99; /* nobody knows what is before it */
    assert_int_equal(facts_of(&facts, &source).prefix_count, 0);
    block.parent = 4; /* but for its row */
    assert_int_equal(facts_of(&facts, &source).prefix_count, 2);
    index_free(source.index);
    source.index = NULL;
    assert_int_equal(facts_of(&facts, &source).prefix_count, 1);
    assert_int_equal(facts.facts.fanout, 0);
}

static void
what_is_not_known(void **state)
{
    static const struct {
        const char *namespace_;
        const char *tenant;
        const char *model;
    } table[] = {{"", "", ""},      {"a", "a", ""},      {"a/", "a", ""},
                 {"a/b", "a", "b"}, {"a/b/c", "a", "b"}, {"/b", "", "b"}};
    const struct advisor_rules rules = {.prefix_count = 0};
    const struct advisor_store_block block = {.hash = 1, .touched_ms = NOW_MS + 5};
    struct advisor_block_facts_source source = {
        .block = &block, .rules = &rules, .tier = "hot", .now_ms = NOW_MS};
    struct advisor_block_facts facts;

    (void)state;
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        source.namespace_ = table[i].namespace_;
        (void)facts_of(&facts, &source);
        assert_string_equal(facts.facts.tenant, table[i].tenant);
        assert_string_equal(facts.facts.model, table[i].model);
        assert_int_equal(facts.facts.last_access_ms, 0); /* a clock that is ahead */
        assert_int_equal(facts.facts.age_ms, 0);
        assert_int_equal(facts.facts.size, 0);
    }
    assert_int_equal(advisor_block_facts_fill(5, 0), 0);
    assert_int_equal(advisor_block_facts_fill(UINT64_MAX, UINT64_MAX), 1000000);
    assert_int_equal(advisor_block_facts_fill(1, 3), 333333);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_block_with_all_there_is),
        cmocka_unit_test(prefixes_are_the_block_and_all_before_it),
        cmocka_unit_test(what_is_not_known),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
