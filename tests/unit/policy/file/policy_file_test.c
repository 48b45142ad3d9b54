/*
 * What is tested: policy/file/policy_file.h, policy/file/policy_rows.h,
 * policy/file/policy_schema.h. How: every file of tests/policies/wrong against the words beside it
 * (KVTIER_UPDATE=1 writes them); the policies that come with KVTier are good and pass their own
 * tests; random damage to them never does more than be told; limits at their edges; failing
 * allocations.
 */
#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/file.h"
#include "base/core/random.h"

#include "policy/decide/decision.h"
#include "policy/file/policy_file.h"
#include "policy/file/policy_keys.h"
#include "policy/file/policy_parse.h"
#include "policy/file/policy_rows.h"
#include "policy/file/policy_schema.h"
#include "tests/support/long_text.h"
#include "tests/support/seed.h"

enum { PATH_SIZE = 512, FILE_LIMIT = 1 << 20, MUTATIONS = 4000 };

static char *
read_file(const char *path, size_t *size)
{
    struct kvt_error err;
    char *text;

    if (kvt_file_read(&text, size, path, FILE_LIMIT, &err) != KVT_OK)
        fail_msg("%s", err.text);
    return text;
}

/* ---- what is wrong is told ---- */

static void
print_problems(const struct policy_problems *problems, struct kvt_buffer *out)
{
    for (size_t i = 0; i < problems->count; i++)
        kvt_buffer_printf(out, "%zu:%zu: %s\n", problems->list[i].mark.line,
                          problems->list[i].mark.column, problems->list[i].text);
}

/* The words beside a file. */
static bool
compare_golden(const char *path, const char *told)
{
    const char *update = getenv("KVTIER_UPDATE");
    struct kvt_error err;
    char *expected;
    size_t size;
    bool same;

    if (update != NULL && update[0] != '\0') {
        assert_int_equal(kvt_file_write(path, told, strlen(told), 0644, &err), KVT_OK);
        return true;
    }
    expected = read_file(path, &size);
    same = strcmp(expected, told) == 0;
    if (!same)
        print_error("%s:\n%s\nand not\n%s\n", path, told, expected);
    kvt_free(expected);
    return same;
}

static bool
check_wrong(const char *folder, const char *name)
{
    struct policy_problems problems;
    struct policy *policy;
    struct kvt_buffer told;
    struct kvt_error err;
    char path[PATH_SIZE];
    size_t size;
    char *text;
    bool same;

    (void)snprintf(path, sizeof(path), "%s/%s", folder, name);
    text = read_file(path, &size);
    assert_int_equal(policy_parse(&policy, name, text, size, &problems, &err), KVT_INVALID);
    assert_null(policy);
    kvt_buffer_init(&told, FILE_LIMIT);
    print_problems(&problems, &told);
    (void)snprintf(path + strlen(path) - 5, 6, ".txt");
    same = compare_golden(path, kvt_buffer_text(&told));
    kvt_buffer_release(&told);
    kvt_free(text);
    return same;
}

static void
every_mistake_has_its_message(void **state)
{
    DIR *folder = opendir(POLICIES "/wrong");
    const struct dirent *entry;
    size_t count = 0;
    size_t failed = 0;

    (void)state;
    assert_non_null(folder);
    while ((entry = readdir(folder)) != NULL) { // NOLINT(concurrency-mt-unsafe)
        const size_t size = strlen(entry->d_name);

        if (size < 5 || strcmp(entry->d_name + size - 5, ".yaml") != 0)
            continue;
        count++;
        failed += check_wrong(POLICIES "/wrong", entry->d_name) ? 0 : 1;
    }
    (void)closedir(folder);
    assert_int_equal(failed, 0);
    assert_true(count >= 50);
}

/* ---- what comes with KVTier is good ---- */

static struct policy *
parse(const char *text, size_t size)
{
    struct policy_problems problems;
    struct policy *policy;
    struct kvt_error err;
    const enum kvt_err rc = policy_parse(&policy, "policy", text, size, &problems, &err);

    if (rc != KVT_OK)
        print_error("%s\n", err.text);
    assert_int_equal(rc, KVT_OK);
    return policy;
}

static void
pass_tests(const struct policy *policy)
{
    struct policy_decision *decision;

    assert_true(policy->tests.count > 0);
    assert_int_equal(policy_decision_new(&decision, policy), KVT_OK);
    for (size_t i = 0; i < policy->tests.count; i++) {
        const struct policy_test *test = policy_test_at(policy, i);
        const struct policy_facts facts = policy_test_facts(test);

        policy_decide(policy, &facts, policy_test_event(test), decision);
        if (!policy_test_holds(policy, test, decision))
            print_error("test %zu\n", i + 1);
        assert_true(policy_test_holds(policy, test, decision));
        assert_int_equal(policy_match(policy, &facts, policy_test_event(test)), decision->rule);
    }
    policy_decision_free(decision);
}

static const char *const examples[] = {"default", "small-hot", "tenants", "four-tiers"};

enum { EXAMPLES = sizeof(examples) / sizeof(examples[0]) };

static char *
read_example(size_t at, size_t *size)
{
    char path[PATH_SIZE];

    (void)snprintf(path, sizeof(path), EXAMPLES_FOLDER "/%s.yaml", examples[at]);
    return read_file(path, size);
}

static void
examples_are_good(void **state)
{
    (void)state;
    for (size_t i = 0; i < EXAMPLES; i++) {
        size_t size;
        char *text = read_example(i, &size);
        struct policy *policy = parse(text, size);

        pass_tests(policy);
        policy_free(policy);
        kvt_free(text);
    }
}

/* Whatever happens to a text, it is a policy or it is told. */
static void
damage_is_told(void **state)
{
    static struct policy_problems problems;
    static const char odd[] = "{}[]:,&*#\"'%-> \n0G";
    uint64_t random = test_seed();
    size_t good = 0;

    (void)state;
    for (size_t run = 0; run < MUTATIONS; run++) {
        size_t size;
        char *text = read_example(run % EXAMPLES, &size);
        const size_t changes = 1 + kvt_random_below(&random, 4);
        struct policy *policy;
        struct kvt_error err;
        enum kvt_err rc;

        for (size_t i = 0; i < changes; i++)
            text[kvt_random_below(&random, size)] = odd[kvt_random_below(&random, sizeof(odd) - 1)];
        rc = policy_parse(&policy, "policy", text, size, &problems, &err);
        assert_true(rc == KVT_OK || (rc == KVT_INVALID && problems.count > 0));
        for (size_t i = 1; i < problems.count; i++)
            assert_true(problems.list[i - 1].mark.line <= problems.list[i].mark.line);
        good += rc == KVT_OK ? 1 : 0;
        policy_free(policy);
        kvt_free(text);
    }
    assert_true(good > 10 && good < MUTATIONS - 10);
}

/* ---- limits ---- */

/* `count` times `each`, with the number where it has a #. */
static enum kvt_err
parse_many(const char *before, const char *each, size_t count, struct policy_problems *problems)
{
    struct kvt_buffer text;
    struct policy *policy;
    struct kvt_error err;
    enum kvt_err rc;

    kvt_buffer_init(&text, 4 * FILE_LIMIT);
    kvt_buffer_printf(&text, "%s", before);
    for (size_t i = 0; i < count; i++) {
        const size_t size = strcspn(each, "#");

        kvt_buffer_printf(&text, "%.*s%zu%s", (int)size, each, i, each + size + 1);
    }
    rc = policy_parse(&policy, "policy", kvt_buffer_text(&text), text.size, problems, &err);
    policy_free(policy);
    kvt_buffer_release(&text);
    return rc;
}

static void
limits_hold_at_their_edges(void **state)
{
    static struct policy_problems problems;
    const char *tiers = "version: 1\ntiers:\n  a: {level: G4}\nrules:\n";
    const char *rule = "  - {id: r#, in: a, do: expire, when: hits < 5}\n";

    (void)state;
    assert_int_equal(
        parse_many("version: 1\ntiers:\n", "  t#: {level: G3}\n", POLICY_TIERS_MAX, &problems),
        KVT_OK);
    assert_int_equal(
        parse_many("version: 1\ntiers:\n", "  t#: {level: G3}\n", POLICY_TIERS_MAX + 1, &problems),
        KVT_INVALID);
    assert_string_equal(problems.list[0].text, "tiers: more than 16");
    /* All but the first ask the same: more problems than are kept. */
    assert_int_equal(parse_many(tiers, rule, 100, &problems), KVT_INVALID);
    assert_int_equal(problems.count, POLICY_PROBLEMS_MAX);
    assert_int_equal(problems.left_out, 99 - POLICY_PROBLEMS_MAX);
    assert_int_equal(parse_many(tiers, rule, 129, &problems), KVT_INVALID);
    assert_string_equal(problems.list[0].text, "rules: more than 128");
}

/* A few lines whose aliases stand for very many are not walked to their end. */
static void
aliases_are_bounded(void **state)
{
    static struct policy_problems problems;
    struct kvt_buffer text;
    struct policy *policy;
    struct kvt_error err;

    (void)state;
    kvt_buffer_init(&text, FILE_LIMIT);
    kvt_buffer_printf(&text, "version: 1\ntiers: {a: {level: G4}}\nrules:\n  - &r\n");
    for (size_t i = 0; i < 5000; i++)
        kvt_buffer_printf(&text, "    key%zu: 1\n", i);
    for (size_t i = 0; i < 20; i++)
        kvt_buffer_printf(&text, "  - *r\n");
    assert_int_equal(
        policy_parse(&policy, "policy", kvt_buffer_text(&text), text.size, &problems, &err),
        KVT_INVALID);
    assert_int_equal(problems.count, POLICY_PROBLEMS_MAX);
    assert_true(problems.left_out < 70000);
    kvt_buffer_release(&text);
}

/* Conditions at the end of a large file, each with many words, and each word with a place that has
 * to be counted out. */
static void
places_take_no_time(void **state)
{
    static struct policy_problems problems;
    struct kvt_buffer text;
    struct policy *policy;
    struct kvt_error err;
#ifdef __SANITIZE_THREAD__
    const uint64_t limit_ms = 100000; /* twenty times as slow */
#else
    const uint64_t limit_ms = 10000;
#endif
    uint64_t start;
    uint64_t took;

    (void)state;
    kvt_buffer_init(&text, FILE_LIMIT);
    kvt_buffer_printf(&text, "version: 1\ntiers: {a: {level: G4}}\n");
    while (text.size < FILE_LIMIT - 32000)
        kvt_buffer_printf(&text, "# A line that nobody reads.\n");
    kvt_buffer_printf(&text, "rules:\n  - id: r\n    in: a\n    do: expire\n    when: &w >-\n"
                             "      tier in (a");
    for (size_t i = 0; i < 120; i++)
        kvt_buffer_printf(&text, ",\n      a");
    kvt_buffer_printf(&text, ")");
    for (size_t i = 0; i < 100; i++)
        kvt_buffer_printf(&text, "\n      and class(none%zu)", i);
    for (size_t i = 1; i < 128; i++)
        kvt_buffer_printf(&text, "\n  - {id: r%zu, in: a, do: expire, when: *w}", i);
    kvt_buffer_printf(&text, "\n");
    assert_true(kvt_buffer_ok(&text));
    start = test_cpu_ms();
    assert_int_equal(
        policy_parse(&policy, "policy", kvt_buffer_text(&text), text.size, &problems, &err),
        KVT_INVALID);
    took = test_cpu_ms() - start;
    assert_int_equal(problems.count, POLICY_PROBLEMS_MAX);
    assert_true(problems.count + problems.left_out >= 128 * 100);
    if (took > limit_ms)
        fail_msg("took %" PRIu64 " ms", took);
    kvt_buffer_release(&text);
}

/* Classes that ask twice for the next, sixty deep: 2^60 questions, were each not answered once. */
static void
classes_are_asked_once(void **state)
{
    struct kvt_buffer text;
    struct policy *policy;
    const struct policy_facts facts = {.tier = "a", .hits = 1};

    (void)state;
    kvt_buffer_init(&text, FILE_LIMIT);
    kvt_buffer_printf(&text, "version: 1\ntiers: {a: {level: G4}}\nclasses:\n");
    for (size_t i = 0; i < 60; i++)
        kvt_buffer_printf(&text, "  c%zu: class(c%zu) or class(c%zu)\n", i, i + 1, i + 1);
    kvt_buffer_printf(&text, "  c60: hits > 0\nrules:\n  - {id: r, in: a, do: expire, "
                             "when: class(c0)}\n");
    policy = parse(kvt_buffer_text(&text), text.size);
    assert_int_equal(policy_match(policy, &facts, POLICY_ON_NOTHING), 0);
    policy_free(policy);
    kvt_buffer_release(&text);
}

/* ---- rows ---- */

static struct policy_rows
rows_of(const char *text)
{
    struct policy *policy = parse(text, strlen(text));
    struct policy_rows rows;

    assert_int_equal(policy_rows_make(&rows, policy), KVT_OK);
    policy_free(policy);
    return rows;
}

static const struct policy_row *
row_of(const struct policy_rows *rows, const char *path)
{
    for (size_t i = 0; i < rows->count; i++)
        if (strcmp(rows->list[i].path, path) == 0)
            return &rows->list[i];
    fail_msg("no row %s", path);
    return NULL;
}

static const char before_text[] = "version: 1\n"
                                  "tiers: {a: {level: G3, capacity: 1024GiB}, b: {level: G4}}\n"
                                  "defaults: {protect_recent: 60m}\n"
                                  "rules:\n"
                                  "  - {id: r, from: a, to: b, when: (hits<3)}\n"
                                  "  - {id: s, in: b, do: expire, when: age > 7d}\n";
static const char same_text[] = "rules:\n"
                                "  - {when: 3 > hits, to: b, from: a, id: r, protect_recent: 1h}\n"
                                "  - {id: s, do: expire, in: b, when: 'age > 168h'}\n"
                                "version: 1\n"
                                "defaults: {protect_recent: 3600s}\n"
                                "tiers: {a: {capacity: 1TiB, level: G3}, b: {level: G4}}\n";
static const char other_text[] = "version: 1\n"
                                 "tiers: {a: {level: G3, capacity: 2TiB}, b: {level: G4}}\n"
                                 "defaults: {protect_recent: 60m}\n"
                                 "rules:\n"
                                 "  - {id: s, in: b, do: expire, when: age > 7d}\n"
                                 "  - {id: r, from: a, to: b, when: (hits<3), on: stored}\n";

static void
rows_say_values_and_origins(void **state)
{
    struct policy_rows rows = rows_of(before_text);

    (void)state;
    assert_string_equal(row_of(&rows, "tiers.a.capacity")->value, "1TiB");
    assert_string_equal(row_of(&rows, "rules")->value, "r, s");
    assert_string_equal(row_of(&rows, "rules.r.do")->value, "demote");
    assert_int_equal(row_of(&rows, "rules.r.do")->place.origin, POLICY_INFERRED);
    assert_string_equal(row_of(&rows, "rules.r.protect_recent")->value, "1h");
    assert_int_equal(row_of(&rows, "rules.r.protect_recent")->place.origin, POLICY_INHERITED);
    assert_int_equal(row_of(&rows, "rules.r.protect_recent")->place.line, 3);
    assert_string_equal(row_of(&rows, "modes.mode")->value, "observe");
    assert_int_equal(row_of(&rows, "modes.mode")->place.origin, POLICY_BUILT_IN);
    policy_rows_release(&rows);
}

static void
what_means_the_same_does_not_differ(void **state)
{
    struct policy_rows before = rows_of(before_text);
    struct policy_rows same = rows_of(same_text);
    struct policy_rows other = rows_of(other_text);
    struct policy_difference difference;
    size_t cursor = 0;

    (void)state;
    assert_false(policy_rows_differ(&before, &same, &cursor, &difference));
    cursor = 0;
    assert_true(policy_rows_differ(&before, &other, &cursor, &difference));
    assert_string_equal(difference.before->path, "tiers.a.capacity");
    assert_string_equal(difference.after->value, "2TiB");
    assert_true(policy_rows_differ(&before, &other, &cursor, &difference));
    assert_string_equal(difference.before->path, "rules");
    assert_string_equal(difference.after->value, "s, r");
    assert_true(policy_rows_differ(&before, &other, &cursor, &difference));
    assert_null(difference.before);
    assert_string_equal(difference.after->path, "rules.r.on");
    assert_false(policy_rows_differ(&before, &other, &cursor, &difference));
    policy_rows_release(&before);
    policy_rows_release(&same);
    policy_rows_release(&other);
}

/* ---- the published schema ---- */

static void
schema_is_current(void **state)
{
    struct kvt_buffer text;

    (void)state;
    kvt_buffer_init(&text, POLICY_SCHEMA_MAX);
    policy_schema_print(&text);
    assert_true(kvt_buffer_ok(&text));
    assert_true(compare_golden(EXAMPLES_FOLDER "/../policy.schema.json", kvt_buffer_text(&text)));
    kvt_buffer_release(&text);
}

static void
reference_is_current(void **state)
{
    struct kvt_buffer text;
    size_t size;
    char *page = read_file(DOCS "/policies.md", &size);

    (void)state;
    kvt_buffer_init(&text, POLICY_SCHEMA_MAX);
    policy_schema_print_markdown(&text);
    assert_true(kvt_buffer_ok(&text));
    if (strstr(page, kvt_buffer_text(&text)) == NULL)
        fail_msg("docs/policies.md: its reference is not what kvtier policy schema "
                 "--as markdown prints");
    kvt_buffer_release(&text);
    kvt_free(page);
}

/* ---- memory ---- */

static bool
attempt(void *arg)
{
    static struct policy_problems problems;
    struct policy_decision *decision = NULL;
    struct policy_rows rows = {.list = NULL};
    struct policy *policy;
    struct kvt_error err;
    enum kvt_err rc;

    rc = policy_parse(&policy, "policy", arg, strlen(arg), &problems, &err);
    if (rc == KVT_OK)
        rc = policy_decision_new(&decision, policy);
    if (rc == KVT_OK)
        rc = policy_rows_make(&rows, policy);
    if (rc != KVT_OK && rc != KVT_NOMEM)
        print_error("%s\n", err.text);
    assert_true(rc == KVT_OK || rc == KVT_NOMEM);
    policy_rows_release(&rows);
    policy_decision_free(decision);
    policy_free(policy);
    return rc == KVT_OK;
}

static void
allocations_may_fail(void **state)
{
    char text[sizeof(before_text)];

    (void)state;
    memcpy(text, before_text, sizeof(text));
    assert_true(test_sweep_allocations(attempt, text) > 10);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_mistake_has_its_message),
        cmocka_unit_test(examples_are_good),
        cmocka_unit_test(damage_is_told),
        cmocka_unit_test(limits_hold_at_their_edges),
        cmocka_unit_test(aliases_are_bounded),
        cmocka_unit_test(places_take_no_time),
        cmocka_unit_test(classes_are_asked_once),
        cmocka_unit_test(rows_say_values_and_origins),
        cmocka_unit_test(what_means_the_same_does_not_differ),
        cmocka_unit_test(schema_is_current),
        cmocka_unit_test(reference_is_current),
        cmocka_unit_test(allocations_may_fail),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
