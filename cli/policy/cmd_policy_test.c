#include <json-c/json.h>
#include <string.h>

#include "base/core/buffer.h"
#include "cli/output/cli_json.h"
#include "cli/output/cli_table.h"
#include "cli/policy/cmd_policy_file.h"
#include "cli/policy/policy_commands.h"

#include "policy/decide/decision.h"
#include "policy/file/policy_parse.h"

enum { EXPLANATION_MAX = 1 << 20 };

/* One run over the tests of a policy. */
struct run {
    const struct cli_context *context;
    const struct policy *policy;
    struct policy_decision *decision;
    struct kvt_buffer why;
    struct json_object *tests; /* NULL: for people */
    size_t passed;
    size_t failed;
};

static const char *
name_of(const struct run *run, int32_t rule)
{
    return rule < 0 ? "none" : policy_rule_at(run->policy, (size_t)rule)->id;
}

static const char *
tier_of(const struct run *run, int32_t tier)
{
    return tier < 0 ? "" : policy_tier_at(run->policy, (size_t)tier)->name;
}

static void
print_test(struct run *run, const struct policy_test *test, size_t number, bool passed)
{
    FILE *out = run->context->out;
    const struct policy_expect *expect = &test->expect;

    (void)fprintf(out, "%-4s  %zu", passed ? "ok" : "FAIL", number);
    if (test->name[0] != '\0') {
        (void)fputs("  ", out);
        cli_table_text(out, test->name);
    }
    (void)fputc('\n', out);
    if (passed)
        return;
    (void)fprintf(out, "  expected %s%s%s, and it is %s%s%s (line %u)\n", expect->rule.text,
                  expect->to.text[0] == '\0' ? "" : " to ", expect->to.text,
                  name_of(run, run->decision->rule), run->decision->to < 0 ? "" : " to ",
                  tier_of(run, run->decision->to), test->head.place.line);
    (void)fputs(kvt_buffer_text(&run->why), out);
}

static void
add_text(struct json_object *object, const char *key, const char *text)
{
    (void)json_object_object_add(object, key, json_object_new_string(text));
}

/* The explanation, one text a line. */
static struct json_object *
lines_of(const char *text)
{
    struct json_object *lines = json_object_new_array();

    while (*text != '\0') {
        const size_t size = strcspn(text, "\n");

        (void)json_object_array_add(lines, json_object_new_string_len(text, (int)size));
        text += size + (text[size] == '\n' ? 1 : 0);
    }
    return lines;
}

static void
add_test(struct run *run, const struct policy_test *test, size_t number, bool passed)
{
    const struct policy_decision *decision = run->decision;
    struct json_object *row = json_object_new_object();

    (void)json_object_object_add(row, "test", json_object_new_uint64(number));
    add_text(row, "name", test->name);
    (void)json_object_object_add(row, "line", json_object_new_uint64(test->head.place.line));
    (void)json_object_object_add(row, "passed", json_object_new_boolean(passed));
    add_text(row, "expected_rule", test->expect.rule.text);
    add_text(row, "rule", name_of(run, decision->rule));
    add_text(row, "to", tier_of(run, decision->to));
    (void)json_object_object_add(row, "waits", json_object_new_boolean(decision->waits));
    (void)json_object_object_add(row, "why", lines_of(kvt_buffer_text(&run->why)));
    (void)json_object_array_add(run->tests, row);
}

static void
run_test(struct run *run, size_t at)
{
    const struct policy_test *test = policy_test_at(run->policy, at);
    const struct policy_facts facts = policy_test_facts(test);
    bool passed;

    policy_decide(run->policy, &facts, policy_test_event(test), run->decision);
    passed = policy_test_holds(run->policy, test, run->decision);
    run->passed += passed ? 1 : 0;
    run->failed += passed ? 0 : 1;
    kvt_buffer_clear(&run->why);
    policy_explain(run->policy, &facts, run->decision, &run->why);
    if (run->tests == NULL)
        print_test(run, test, at + 1, passed);
    else
        add_test(run, test, at + 1, passed);
}

static void
print_summary(const struct run *run)
{
    struct json_object *answer;

    if (run->tests == NULL && run->passed + run->failed == 0) {
        (void)fprintf(run->context->out,
                      "no tests in %s; they go below tests: (docs/policies.md)\n",
                      run->context->arguments[0]);
        return;
    }
    if (run->tests == NULL) {
        (void)fprintf(run->context->out, "%zu passed, %zu failed\n", run->passed, run->failed);
        return;
    }
    answer = json_object_new_object();
    (void)json_object_object_add(answer, "schema_version", json_object_new_int(1));
    add_text(answer, "file", run->context->arguments[0]);
    (void)json_object_object_add(answer, "tests", run->tests);
    (void)json_object_object_add(answer, "passed", json_object_new_uint64(run->passed));
    (void)json_object_object_add(answer, "failed", json_object_new_uint64(run->failed));
    cli_json_print(run->context->out, answer);
    (void)json_object_put(answer);
}

enum cli_exit
cli_policy_test(const struct cli_context *context)
{
    struct run run = {.context = context};
    struct kvt_error err = {0};
    struct policy *policy;
    enum cli_exit status = cli_policy_file_load(context, context->arguments[0], &policy);

    if (policy == NULL)
        return status;
    run.policy = policy;
    kvt_buffer_init(&run.why, EXPLANATION_MAX);
    if (policy_decision_new(&run.decision, policy) != KVT_OK) {
        (void)kvt_error_set(&err, KVT_NOMEM, "out of memory");
        status = cli_context_fail(context, &err);
        goto done;
    }
    if (context->json)
        run.tests = json_object_new_array();
    for (size_t i = 0; i < policy->tests.count; i++)
        run_test(&run, i);
    print_summary(&run);
    status = run.failed == 0 ? CLI_EXIT_DONE : CLI_EXIT_FAILED;
done:
    kvt_buffer_release(&run.why);
    policy_decision_free(run.decision);
    policy_free(policy);
    return status;
}
