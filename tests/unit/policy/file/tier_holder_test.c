/*
 * What is tested: which tier of a policy a live volume or bucket is (policy/file/tier_holder.c).
 * How: a table by hand; and that two patterns are refused exactly where some short text is matched
 * by both, found by trying all texts.
 */
#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/random.h"

#include "policy/expression/expression.h"
#include "policy/file/policy_file.h"
#include "policy/file/policy_parse.h"
#include "tests/support/seed.h"

enum { STEPS = 2000, PATTERN_MAX = 4, TRIED_MAX = 9, TEXT_MAX_BYTES = 1024 };

static struct policy *
parse(const char *text, struct policy_problems *problems)
{
    struct policy *policy;
    struct kvt_error err;
    const enum kvt_err rc = policy_parse(&policy, "test", text, strlen(text), problems, &err);

    assert_int_equal(policy != NULL, rc == KVT_OK);
    return policy;
}

static void
a_pattern_wins_and_the_first_without_one_has_the_rest(void **state)
{
    static const struct {
        const char *holder;
        int32_t tier;
    } table[] = {
        {"hot@fast-0", 1}, {"hot@fast-", 1},    {"hot@gw0", 2},
        {"hot@", 2},       {"cold@archive", 4}, {"cold@b", 5},
        {"gw0", -1},       {"worker:0", -1},    {"hot", -1},
        {"", -1},          {"HOT@x", -1},       {"hot@x/y", 2},
        {"cold@arch", 5},  {"cold@archivb", 4},
    };
    struct policy_problems problems;
    struct policy *policy = parse("version: 1\n"
                                  "tiers:\n"
                                  "  ram: {level: G2}\n"
                                  "  fast: {level: G3, holders: \"hot@fast-*\"}\n"
                                  "  rest: {level: G3}\n"
                                  "  none: {level: G3}\n"
                                  "  far: {level: G4, holders: \"cold@archiv?\"}\n"
                                  "  near: {level: G4}\n"
                                  "rules: [{id: a, from: fast, to: rest}]\n",
                                  &problems);

    (void)state;
    assert_non_null(policy);
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
        assert_int_equal(policy_tier_of_holder(policy, table[i].holder), table[i].tier);
    policy_free(policy);
}

/* Of all texts of "a" and "b" up to TRIED_MAX bytes: is there one that both match? */
static bool
some_text_matches(const char *one, const char *other)
{
    char text[TRIED_MAX + 1];

    for (int size = 0; size <= TRIED_MAX; size++)
        for (unsigned bits = 0; bits < 1u << size; bits++) {
            for (int i = 0; i < size; i++)
                text[i] = (bits >> i & 1) != 0 ? 'b' : 'a';
            text[size] = '\0';
            if (policy_glob_match(one, text) && policy_glob_match(other, text))
                return true;
        }
    return false;
}

static void
make_pattern(uint64_t *random, char pattern[PATTERN_MAX + 1])
{
    const size_t size = kvt_random_below(random, PATTERN_MAX + 1);

    for (size_t i = 0; i < size; i++)
        pattern[i] = "aab?*"[kvt_random_below(random, 5)];
    pattern[size] = '\0';
}

static void
patterns_that_can_meet_are_refused(void **state)
{
    uint64_t random = test_seed();
    struct policy_problems *problems = kvt_calloc(1, sizeof(*problems));
    size_t refused = 0;

    (void)state;
    assert_non_null(problems);
    for (int i = 0; i < STEPS; i++) {
        char text[TEXT_MAX_BYTES];
        char one[PATTERN_MAX + 1];
        char other[PATTERN_MAX + 1];
        struct policy *policy;

        make_pattern(&random, one);
        make_pattern(&random, other);
        (void)snprintf(text, sizeof(text),
                       "version: 1\n"
                       "tiers:\n"
                       "  one: {level: G3, holders: \"hot@%s\"}\n"
                       "  other: {level: G3, holders: \"hot@%s\"}\n"
                       "rules: [{id: a, from: one, to: other}]\n",
                       one, other);
        policy = parse(text, problems);
        if ((policy == NULL) != some_text_matches(one, other))
            fail_msg("\"%s\" and \"%s\": %s", one, other,
                     policy == NULL ? problems->list[0].text : "not refused");
        if (policy == NULL) {
            refused++;
            assert_non_null(strstr(problems->list[0].text, "in common"));
        }
        policy_free(policy);
    }
    assert_true(refused > STEPS / 20 && refused < STEPS);
    kvt_free(problems);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pattern_wins_and_the_first_without_one_has_the_rest),
        cmocka_unit_test(patterns_that_can_meet_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
