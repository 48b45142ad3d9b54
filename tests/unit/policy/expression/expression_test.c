/*
 * What is tested: policy/expression/expression.h.
 * How: the words of every mistake with its place; limits at their edges; random expressions against
 * an evaluator that walks the tree it wrote the text from; failing allocations.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/core/random.h"

#include "policy/expression/expression.h"
#include "policy/expression/expression_private.h"
#include "tests/support/seed.h"

enum { TEXT_MAX = 8192, RUNS = 3000, FACTS_A_RUN = 8, TREE_MAX = 64 };

static const bool no_classes[1] = {false};

static struct policy_expression *
parse(const char *text)
{
    struct policy_expression *expression;
    struct policy_expression_errors faults;
    enum kvt_err rc = policy_expression_parse(&expression, text, strlen(text), &faults);

    if (rc != KVT_OK)
        print_error("%s\n%zu: %s\n", text, faults.list[0].offset, faults.list[0].text);
    assert_int_equal(rc, KVT_OK);
    return expression;
}

static bool
is_true(const char *text, const struct policy_facts *facts)
{
    struct policy_expression *expression = parse(text);
    const bool value = policy_expression_evaluate(expression, facts, no_classes, NULL);

    policy_expression_free(expression);
    return value;
}

static const struct policy_facts sample = {
    .depth = 900,
    .fanout = 8,
    .hits = 1,
    .last_access_ms = 7200000,
    .age_ms = 86400000,
    .size = 2097152,
    .fill_ppm = 850000,
    .tenant = "team-a",
    .model = "llama-70b",
    .tier = "nvme",
    .pinned = true,
    .prefixes = (const uint64_t[]){0x1234, 77},
    .prefix_count = 2,
};

static void
facts_are_compared(void **state)
{
    static const struct {
        const char *text;
        bool value;
    } table[] = {
        {"depth == 900", true},
        {"depth != 900", false},
        {"fanout >= 8 and depth <= 64", false},
        {"fanout >= 8 and not depth <= 64", true},
        {"last_access > 2h", false},
        {"last_access >= 120m", true},
        {"2h <= last_access", true},
        {"1d > age or age == 1d", true},
        {"size == 2 MiB", true},
        {"size < 2MB", false},
        {"fill >= 85 %", true},
        {"fill > 0.85", false},
        {"age > last_access", true},
        {"hits < 1k", true},
        {"tenant == team-a", true},
        {"tenant == 'team-a' and tenant != \"team-b\"", true},
        {"tenant in (x, \"team-a\")", true},
        {"tenant not in (x, y)", true},
        {"hits in (0, 2, 3)", false},
        {"model ~ \"llama-*\"", true},
        {"model ~ \"*70?\"", true},
        {"model ~ \"70\"", false},
        {"namespace == \"\"", true},
        {"pinned and (tier == nvme)", true},
        {"not not pinned", true},
        {"prefix(0x1234)", true},
        {"prefix(000000000000004d)", true},
        {"prefix(0x4e)", false},
        {"true or false and false", true},
        {"(true or false) and false", false},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
        if (is_true(table[i].text, &sample) != table[i].value)
            fail_msg("%s is not %d", table[i].text, table[i].value);
}

static void
mistakes_are_told(void **state)
{
    static const struct {
        const char *text;
        size_t offset;
        const char *told;
    } table[] = {
        {"", 0, "a condition is missing at the end"},
        {"hits > 3 and", 12, "a condition is missing at the end"},
        {"dept > 3", 0, "unknown fact \"dept\" (did you mean \"depth\"?)"},
        {"xyzzyx > 3", 0, "unknown fact \"xyzzyx\""},
        {"hits => 3", 5, "\"=>\" means nothing here (did you mean \">=\"?)"},
        {"hits = 3", 5, "\"=\" means nothing here (did you mean \"==\"?)"},
        {"hits > 3 && depth < 2", 9, "\"&&\" means nothing here (did you mean \"and\"?)"},
        {"!pinned", 0, "\"!\" means nothing here (did you mean \"not\"?)"},
        {"hits > -1", 7, "no fact is ever below 0"},
        {"last_access > 30", 14,
         "last_access is a duration, and 30 is a count (did you mean 30s?)"},
        {"last_access > 2GiB", 14,
         "last_access is a duration, and 2GiB is a size (did you mean size?)"},
        {"size > 30m", 7, "size is a size, and 30m is a duration (did you mean age?)"},
        {"fill > 85", 7, "fill is a ratio, and 85 is a count (did you mean 85%?)"},
        {"hits > foo", 7, "hits is a count, and foo is text"},
        {"tenant == 5", 10, "tenant is text, and 5 is a count (did you mean '5'?)"},
        {"tenant > a", 7, "tenant is text: == != ~ and in compare it, > does not"},
        {"hits ~ \"a\"", 5, "~ matches text, and hits is a count"},
        {"tier ~ model", 7, "~ wants a pattern in quotes, not a fact"},
        {"age > size", 6, "age is a duration, and size is a size"},
        {"age > age", 6, "age is compared with itself"},
        {"pinned == true", 7,
         "pinned is true or false by itself: write \"pinned\" or \"not pinned\""},
        {"1 < hits < 5", 9, "a comparison has one operator: write two with \"and\""},
        {"hits > 1 < 5", 9, "a comparison has one operator: write two with \"and\""},
        {"hits 5", 5, "an operator (== != < <= > >= ~ in) is wanted before \"5\""},
        {"hits > 3 depth < 2", 9, "\"and\" or \"or\" is wanted before \"depth\""},
        {"(hits > 3", 9, "\"and\", \"or\" or ) is missing at the end"},
        {"hits > 3)", 8, "\"and\" or \"or\" is wanted before \")\""},
        {"hits in 3", 8, "( behind in is wanted before \"3\""},
        {"hits in (3", 10, ", or ) is missing at the end"},
        {"hits in ()", 9, "a value is wanted before \")\""},
        {"class()", 6, "the name of a class is wanted before \")\""},
        {"prefix(zz)", 7, "prefix() wants a block's hash: sixteen hex digits or 0x..."},
        {"age > 5 M", 6, "age is a duration, and 5 is a count (did you mean 5s?)"},
        {"age > 5M", 7, "\"M\" is no unit (did you mean \"m\"?)"},
        {"size > 5gib", 8, "\"gib\" is no unit (did you mean \"GiB\"?)"},
        {"age > 5w", 7, "\"w\" is no unit: ms s m h d, B KiB MiB GiB TiB KB MB GB TB, %, k"},
        {"hits > 99999999999999999999", 7, "99999999999999999999 is too large to count"},
        {"size > 99999999999TiB", 7, "99999999999TiB is too large to count"},
        {"hits > 1.2.3", 7, "\"1.2.3\" is no number"},
        {"tenant == \"abc", 10, "a text that does not end: \" is missing"},
        {"model ~ *70b", 8, "a pattern wants quotes: ~ \"llama-*\""},
        {"\"a\" ~ model", 4, "the pattern stands behind ~: model ~ \"llama-*\""},
        {"5 < 6", 4, "a fact is wanted before \"6\""},
        {"hits > 3 ; true", 9, "\";\" means nothing here"},
        {"\x01", 0, "byte 0x01 means nothing outside of quotes"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        struct policy_expression *expression;
        struct policy_expression_errors faults;

        assert_int_equal(
            policy_expression_parse(&expression, table[i].text, strlen(table[i].text), &faults),
            KVT_INVALID);
        assert_null(expression);
        assert_int_equal(faults.count, 1); /* and nothing that follows from it */
        if (strcmp(faults.list[0].text, table[i].told) != 0 ||
            faults.list[0].offset != table[i].offset)
            fail_msg("%s\n%zu: %s\nand not\n%zu: %s", table[i].text, faults.list[0].offset,
                     faults.list[0].text, table[i].offset, table[i].told);
    }
}

struct mistakes {
    const char *text;
    const char *told; /* "offset: text" a line */
};

/* What is wrong behind one mistake is told too, and what only follows from it is not. */
static void
all_mistakes_are_told(void **state)
{
    static const struct mistakes table[] = {
        {"dept > 3 and hitz < 2", "0: unknown fact \"dept\" (did you mean \"depth\"?)\n"
                                  "13: unknown fact \"hitz\" (did you mean \"hits\"?)\n"},
        {"hits = 3 && (!pined || size > 30m)",
         "5: \"=\" means nothing here (did you mean \"==\"?)\n"
         "9: \"&&\" means nothing here (did you mean \"and\"?)\n"
         "13: \"!\" means nothing here (did you mean \"not\"?)\n"
         "14: unknown fact \"pined\" (did you mean \"pinned\"?)\n"
         "20: \"||\" means nothing here (did you mean \"or\"?)\n"
         "30: size is a size, and 30m is a duration (did you mean age?)\n"},
        {"(hits > -1 or depth >> 2) and fill > 85",
         "8: no fact is ever below 0\n"
         "21: a value is wanted before \">\"\n"
         "37: fill is a ratio, and 85 is a count (did you mean 85%?)\n"},
        {"tenant in (5, a, 7) and age > 5w",
         "11: tenant is text, and 5 is a count (did you mean '5'?)\n"
         "17: tenant is text, and 7 is a count (did you mean '7'?)\n"
         "31: \"w\" is no unit: ms s m h d, B KiB MiB GiB TiB KB MB GB TB, %, k\n"},
        {"hits > 3 depth > foo", "9: \"and\" or \"or\" is wanted before \"depth\"\n"
                                 "17: depth is a count, and foo is text\n"},
        {"class(a and hits > 3) or prefix(zz) or dept > 1",
         "8: ) is wanted before \"and\"\n"
         "32: prefix() wants a block's hash: sixteen hex digits or 0x...\n"
         "39: unknown fact \"dept\" (did you mean \"depth\"?)\n"},
        {"hits > 3) and dept > 1", "8: \"and\" or \"or\" is wanted before \")\"\n"
                                   "14: unknown fact \"dept\" (did you mean \"depth\"?)\n"},
        {"and or (", "0: a condition is wanted before \"and\"\n"
                     "4: a condition is wanted before \"or\"\n"
                     "8: a condition is missing at the end\n"},
        {"nott (hits > 3 and x) and (dept > 1 or (hitz",
         "0: unknown fact \"nott\" (did you mean \"not\"?)\n"
         "27: unknown fact \"dept\" (did you mean \"depth\"?)\n"
         "40: unknown fact \"hitz\" (did you mean \"hits\"?)\n"
         "44: \"and\", \"or\" or ) is missing at the end\n"},
        {"model ~ llama-* and tier > hot",
         "14: a pattern wants quotes: ~ \"llama-*\"\n"
         "25: tier is text: == != ~ and in compare it, > does not\n"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        struct policy_expression *expression;
        struct policy_expression_errors faults;
        struct kvt_buffer told;

        assert_int_equal(
            policy_expression_parse(&expression, table[i].text, strlen(table[i].text), &faults),
            KVT_INVALID);
        kvt_buffer_init(&told, TEXT_MAX);
        for (size_t at = 0; at < faults.count; at++)
            kvt_buffer_printf(&told, "%zu: %s\n", faults.list[at].offset, faults.list[at].text);
        if (strcmp(kvt_buffer_text(&told), table[i].told) != 0)
            fail_msg("%s\n%sand not\n%s", table[i].text, kvt_buffer_text(&told), table[i].told);
        kvt_buffer_release(&told);
    }
}

static void
more_mistakes_than_are_told_are_counted(void **state)
{
    char text[TEXT_MAX] = "x0 > 1";
    struct policy_expression *expression;
    struct policy_expression_errors faults;

    (void)state;
    for (int i = 1; i < POLICY_EXPRESSION_FAULTS_MAX + 5; i++)
        (void)snprintf(text + strlen(text), sizeof(text) - strlen(text), " or x%d > 1", i);
    assert_int_equal(policy_expression_parse(&expression, text, strlen(text), &faults),
                     KVT_INVALID);
    assert_int_equal(faults.count, POLICY_EXPRESSION_FAULTS_MAX);
    assert_int_equal(faults.left_out, 5);
}

/* `count` times `before`, then `middle`, then `count` times `behind`. */
static enum kvt_err
parse_nested(const char *before, const char *middle, const char *behind, size_t count)
{
    struct policy_expression *expression;
    struct policy_expression_errors faults;
    char text[TEXT_MAX] = "";
    size_t size = 0;
    enum kvt_err rc;

    for (size_t i = 0; i < count; i++)
        size += (size_t)snprintf(text + size, sizeof(text) - size, "%s", before);
    size += (size_t)snprintf(text + size, sizeof(text) - size, "%s", middle);
    for (size_t i = 0; i < count; i++)
        size += (size_t)snprintf(text + size, sizeof(text) - size, "%s", behind);
    rc = policy_expression_parse(&expression, text, size, &faults);
    policy_expression_free(expression);
    return rc;
}

static void
limits_hold_at_their_edges(void **state)
{
    static char many[2 * POLICY_EXPRESSION_MAX];
    struct policy_expression *expression;
    struct policy_expression_errors faults;

    (void)state;
    assert_int_equal(parse_nested("(", "pinned", ")", POLICY_EXPRESSION_DEPTH_MAX), KVT_OK);
    assert_int_equal(parse_nested("(", "pinned", ")", POLICY_EXPRESSION_DEPTH_MAX + 1),
                     KVT_INVALID);
    assert_int_equal(parse_nested("not ", "pinned", "", POLICY_EXPRESSION_DEPTH_MAX), KVT_OK);
    assert_int_equal(parse_nested("not ", "pinned", "", POLICY_EXPRESSION_DEPTH_MAX + 1),
                     KVT_INVALID);
    /* n comparisons make 2n - 1 nodes */
    assert_int_equal(parse_nested("", "pinned", " and pinned", 127), KVT_OK);
    assert_int_equal(parse_nested("", "pinned", " and pinned", 128), KVT_INVALID);
    assert_int_equal(parse_nested("", "hits in (1", ", 1", 255), KVT_INVALID); /* no ) */
    memset(many, ' ', sizeof(many));
    memcpy(many, "pinned", 6);
    assert_int_equal(policy_expression_parse(&expression, many, POLICY_EXPRESSION_MAX, &faults),
                     KVT_OK);
    policy_expression_free(expression);
    assert_int_equal(policy_expression_parse(&expression, many, POLICY_EXPRESSION_MAX + 1, &faults),
                     KVT_INVALID);
    assert_int_equal(faults.list[0].offset, POLICY_EXPRESSION_MAX);
}

static void
globs_match(void **state)
{
    (void)state;
    assert_true(policy_glob_match("*", ""));
    assert_true(policy_glob_match("a*b*c", "aXbYbZc"));
    assert_false(policy_glob_match("a*b*c", "aXbYbZ"));
    assert_true(policy_glob_match("??", "ab"));
    assert_false(policy_glob_match("??", "a"));
    assert_true(policy_glob_match("", ""));
    assert_false(policy_glob_match("", "a"));
    assert_true(policy_glob_match("*ab", "aaab"));
}

/* ---- random trees, and a walk over them that cannot be wrong the same way ---- */

enum leaf { LEAF_HITS, LEAF_AGE, LEAF_TENANT, LEAF_PINNED, LEAF_PREFIX, LEAF_IN, LEAF_KINDS };

struct tree {
    char kind; /* & | ! or a leaf's L */
    enum leaf leaf;
    int operator_; /* 0..5: == != < <= > >= */
    uint64_t value;
    size_t left;
    size_t right;
};

struct wood {
    struct tree trees[TREE_MAX];
    size_t count;
    char text[TEXT_MAX];
    size_t size;
    uint64_t random;
};

static uint64_t
draw(struct wood *wood, uint64_t below)
{
    return kvt_random_below(&wood->random, below);
}

static size_t
grow(struct wood *wood, int depth)
{
    const size_t at = wood->count++;
    struct tree *tree = &wood->trees[at];
    const uint64_t kind = depth == 0 || wood->count > TREE_MAX / 2 ? 9 : draw(wood, 10);

    tree->kind = kind < 3 ? '&' : kind < 6 ? '|' : kind < 7 ? '!' : 'L';
    tree->leaf = (enum leaf)draw(wood, LEAF_KINDS);
    tree->operator_ = (int)draw(wood, 6);
    tree->value = draw(wood, 4);
    if (tree->kind != 'L')
        tree->left = grow(wood, depth - 1);
    if (tree->kind == '&' || tree->kind == '|')
        tree->right = grow(wood, depth - 1);
    return at;
}

static void
write_text(struct wood *wood, const char *text)
{
    wood->size += (size_t)snprintf(wood->text + wood->size, sizeof(wood->text) - wood->size, "%s%s",
                                   text, draw(wood, 3) == 0 ? "  " : " ");
}

static void
write_tree(struct wood *wood, size_t at)
{
    static const char *const operators[] = {"==", "!=", "<", "<=", ">", ">="};
    const struct tree *tree = &wood->trees[at];
    char leaf[64];

    if (tree->kind == 'L') {
        const char *operator_ = operators[tree->operator_];
        const unsigned value = (unsigned)tree->value;

        switch (tree->leaf) {
        case LEAF_HITS: (void)snprintf(leaf, sizeof(leaf), "hits %s %u", operator_, value); break;
        case LEAF_AGE: (void)snprintf(leaf, sizeof(leaf), "age%s%us", operator_, value); break;
        case LEAF_TENANT:
            (void)snprintf(leaf, sizeof(leaf), "tenant %s t%u", operators[tree->operator_ % 2],
                           value);
            break;
        case LEAF_PINNED: (void)snprintf(leaf, sizeof(leaf), "pinned"); break;
        case LEAF_PREFIX: (void)snprintf(leaf, sizeof(leaf), "prefix(0x%x)", value); break;
        case LEAF_IN:
            (void)snprintf(leaf, sizeof(leaf), "hits in (%u, %u)", value, value + 2);
            break;
        case LEAF_KINDS: break;
        }
        write_text(wood, leaf);
        return;
    }
    write_text(wood, "(");
    if (tree->kind == '!') {
        write_text(wood, "not");
        write_tree(wood, tree->left);
    } else {
        write_tree(wood, tree->left);
        write_text(wood, tree->kind == '&' ? "and" : "or");
        write_tree(wood, tree->right);
    }
    write_text(wood, ")");
}

static bool
compare(int operator_, uint64_t left, uint64_t right)
{
    const bool truth[] = {left == right, left != right, left<right, left <= right, left> right,
                          left >= right};

    return truth[operator_];
}

static bool
walk(const struct wood *wood, size_t at, const struct policy_facts *facts)
{
    const struct tree *tree = &wood->trees[at];
    char tenant[8];

    switch (tree->kind) {
    case '&': return walk(wood, tree->left, facts) && walk(wood, tree->right, facts);
    case '|': return walk(wood, tree->left, facts) || walk(wood, tree->right, facts);
    case '!': return !walk(wood, tree->left, facts);
    default: break;
    }
    (void)snprintf(tenant, sizeof(tenant), "t%u", (unsigned)tree->value);
    switch (tree->leaf) {
    case LEAF_HITS: return compare(tree->operator_, facts->hits, tree->value);
    case LEAF_AGE: return compare(tree->operator_, facts->age_ms, 1000 * tree->value);
    case LEAF_TENANT: return (strcmp(facts->tenant, tenant) == 0) == (tree->operator_ % 2 == 0);
    case LEAF_PINNED: return facts->pinned;
    case LEAF_PREFIX: return facts->prefix_count > 0 && facts->prefixes[0] == tree->value;
    case LEAF_IN: return facts->hits == tree->value || facts->hits == tree->value + 2;
    case LEAF_KINDS: break;
    }
    return false;
}

/* What it prints is read as the same, and prints the same again. */
static struct policy_expression *
again(const struct policy_expression *expression)
{
    struct policy_expression *second;
    struct kvt_buffer first_text;
    struct kvt_buffer second_text;

    kvt_buffer_init(&first_text, 1u << 16);
    kvt_buffer_init(&second_text, 1u << 16);
    policy_expression_print(expression, &first_text);
    second = parse(kvt_buffer_text(&first_text));
    policy_expression_print(second, &second_text);
    assert_string_equal(kvt_buffer_text(&first_text), kvt_buffer_text(&second_text));
    kvt_buffer_release(&first_text);
    kvt_buffer_release(&second_text);
    return second;
}

static void
random_expressions_are_what_a_walk_says(void **state)
{
    static const char *const tenants[] = {"t0", "t1", "t2", "t3", "t4"};
    struct wood wood = {.count = 0};
    size_t truths = 0;
    size_t nevers = 0;

    (void)state;
    wood.random = test_seed();
    for (size_t run = 0; run < RUNS; run++) {
        struct policy_expression *expression;
        struct policy_expression *second;

        wood.count = wood.size = 0;
        (void)grow(&wood, 5);
        write_tree(&wood, 0);
        expression = parse(wood.text);
        second = again(expression);
        nevers += policy_expression_is_never(expression) ? 1 : 0;
        for (size_t i = 0; i < FACTS_A_RUN; i++) {
            const uint64_t prefix = draw(&wood, 5);
            const struct policy_facts facts = {.hits = draw(&wood, 6),
                                               .age_ms = 1000 * draw(&wood, 5) + draw(&wood, 2),
                                               .tenant = tenants[draw(&wood, 5)],
                                               .pinned = draw(&wood, 2) == 0,
                                               .prefixes = &prefix,
                                               .prefix_count = draw(&wood, 2)};
            const bool expected = walk(&wood, 0, &facts);

            truths += expected ? 1 : 0;
            if (policy_expression_evaluate(expression, &facts, no_classes, NULL) != expected ||
                policy_expression_evaluate(second, &facts, no_classes, NULL) != expected)
                fail_msg("%s is not %d", wood.text, expected);
            assert_false(expected && policy_expression_is_never(expression));
            assert_false(!expected && policy_expression_is_always(expression));
        }
        policy_expression_free(expression);
        policy_expression_free(second);
    }
    /* Both answers came often, and so did what can never be true. */
    assert_true(truths > RUNS && truths < (size_t)RUNS * FACTS_A_RUN - RUNS);
    assert_true(nevers > 10);
}

static void
one_spelling(void **state)
{
    static const struct {
        const char *text;
        const char *printed;
    } table[] = {
        {"60m<age", "age > 1h"},
        {"((hits>1))and(pinned or not(pinned))", "hits > 1 and (pinned or not pinned)"},
        {"tenant not in(a)", "not tenant in (\"a\")"},
        {"size>=1536 KiB", "size >= 1536KiB"},
        {"fill > 0.125", "fill > 12.5%"},
        {"tenant == 'a\"b'", "tenant == 'a\"b'"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        struct policy_expression *expression;
        struct kvt_buffer text;

        expression = parse(table[i].text);
        kvt_buffer_init(&text, 1u << 16);
        policy_expression_print(expression, &text);
        assert_string_equal(kvt_buffer_text(&text), table[i].printed);
        kvt_buffer_release(&text);
        policy_expression_free(expression);
    }
}

static void
clauses_say_what_would_change_them(void **state)
{
    static const struct {
        const char *text;
        const char *change;
    } table[] = {
        {"hits >= 3", "hits 1 -> 3"},
        {"hits > 3", "hits 1 -> 4"},
        {"hits < 1", "hits 1 -> 0"},
        {"hits < 5", "hits 1 -> 5"}, /* true: what would make it false */
        {"depth >= 0", ""},
        {"last_access > 7d", "last_access 2h -> over 7d"},
        {"last_access < 1h", "last_access 2h -> under 1h"},
        {"age <= 30m", "age 1d -> 30m"},
        {"hits in (7, 3, 12)", "hits 1 -> 3"},
        {"tenant == b", "tenant \"team-a\" -> \"b\""},
        {"tenant != team-a", "tenant \"team-a\" -> another"},
        {"tier in (s3, hot)", "tier \"nvme\" -> \"s3\""},
        {"model ~ 'gpt*'", "model \"llama-70b\" -> like \"gpt*\""},
        {"pinned", "pinned true -> false"},
        {"last_access > age", "last_access 2h -> over 1d"},
        {"prefix(0x9)", ""},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        struct policy_expression *expression = parse(table[i].text);
        struct policy_clause clause;
        char text[512];

        assert_true(policy_expression_clause(expression, 0, &clause));
        assert_int_equal(clause.size, strlen(table[i].text));
        policy_expression_change(expression, clause.node, &sample, text, sizeof(text));
        assert_string_equal(text, table[i].change);
        policy_expression_free(expression);
    }
}

static void
parts_are_found(void **state)
{
    struct policy_expression *expression =
        parse("class(a) and not (hits > 2 or tier in (x, y)) and tier != z and prefix(0x7)");
    struct policy_clause clause;
    uint64_t hash;
    size_t offset;

    (void)state;
    assert_string_equal(policy_expression_class(expression, 0, &offset), "a");
    assert_int_equal(offset, 6);
    assert_null(policy_expression_class(expression, 1, &offset));
    assert_string_equal(policy_expression_word(expression, POLICY_FACT_TIER, 1, &offset), "y");
    assert_string_equal(policy_expression_word(expression, POLICY_FACT_TIER, 2, &offset), "z");
    assert_null(policy_expression_word(expression, POLICY_FACT_TIER, 3, &offset));
    assert_true(policy_expression_prefix(expression, 0, &hash));
    assert_int_equal(hash, 7);
    assert_false(policy_expression_prefix(expression, 1, &hash));
    assert_true(policy_expression_clause(expression, 1, &clause));
    assert_memory_equal(clause.text, "hits > 2", clause.size);
    assert_true(clause.negated);
    assert_true(policy_expression_clause(expression, 3, &clause));
    assert_memory_equal(clause.text, "tier != z", clause.size);
    assert_false(clause.negated);
    assert_false(policy_expression_clause(expression, 5, &clause));
    policy_expression_free(expression);
}

static void
contradictions_are_seen(void **state)
{
    static const char *const never[] = {"hits > 5 and hits < 3", "hits < 0", "pinned and false",
                                        "tenant == a and pinned and tenant == b",
                                        "not (hits >= 0)"};
    static const char *const maybe[] = {"hits > 5 or hits < 3", "hits >= 5 and hits <= 5",
                                        "tenant == a or tenant == b", "pinned"};
    static const char *const always[] = {"true", "hits >= 0", "pinned or true", "tenant ~ '*'"};

    (void)state;
    for (size_t i = 0; i < sizeof(never) / sizeof(never[0]); i++) {
        struct policy_expression *expression = parse(never[i]);

        assert_true(policy_expression_is_never(expression));
        assert_false(policy_expression_is_always(expression));
        policy_expression_free(expression);
    }
    for (size_t i = 0; i < sizeof(maybe) / sizeof(maybe[0]); i++) {
        struct policy_expression *expression = parse(maybe[i]);

        assert_false(policy_expression_is_never(expression));
        assert_false(policy_expression_is_always(expression));
        policy_expression_free(expression);
    }
    for (size_t i = 0; i < sizeof(always) / sizeof(always[0]); i++) {
        struct policy_expression *expression = parse(always[i]);

        assert_true(policy_expression_is_always(expression));
        policy_expression_free(expression);
    }
}

static bool
attempt(void *arg)
{
    struct policy_expression *expression;
    struct policy_expression_errors faults;
    const enum kvt_err rc = policy_expression_parse(&expression, "hits > 3", 8, &faults);

    (void)arg;
    assert_true(rc == KVT_OK || rc == KVT_NOMEM);
    policy_expression_free(expression);
    return rc == KVT_OK;
}

static void
allocations_may_fail(void **state)
{
    (void)state;
    assert_true(test_sweep_allocations(attempt, NULL) > 0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(facts_are_compared),
        cmocka_unit_test(mistakes_are_told),
        cmocka_unit_test(all_mistakes_are_told),
        cmocka_unit_test(more_mistakes_than_are_told_are_counted),
        cmocka_unit_test(limits_hold_at_their_edges),
        cmocka_unit_test(globs_match),
        cmocka_unit_test(random_expressions_are_what_a_walk_says),
        cmocka_unit_test(one_spelling),
        cmocka_unit_test(clauses_say_what_would_change_them),
        cmocka_unit_test(parts_are_found),
        cmocka_unit_test(contradictions_are_seen),
        cmocka_unit_test(allocations_may_fail),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
