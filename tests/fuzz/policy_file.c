/*
 * Property: any text is a policy or every problem is told with a place; a policy decides its own
 * tests the same with and without a trace, is explained, makes rows, and does not differ from
 * itself.
 */
#include "policy/file/policy_file.h"

#include <assert.h>

#include "policy/decide/decision.h"
#include "policy/file/policy_parse.h"
#include "policy/file/policy_rows.h"
#include "tests/fuzz/target.h"

enum { EXPLAINED_MAX = 1 << 24 };

static void
decide(const struct policy *policy)
{
    struct policy_decision *decision;
    struct kvt_buffer text;
    enum kvt_err rc = policy_decision_new(&decision, policy);

    assert(rc == KVT_OK);
    for (size_t i = 0; i < policy->tests.count; i++) {
        const struct policy_test *test = policy_test_at(policy, i);
        const struct policy_facts facts = policy_test_facts(test);

        policy_decide(policy, &facts, policy_test_event(test), decision);
        assert(policy_match(policy, &facts, policy_test_event(test)) == decision->rule);
        (void)policy_test_holds(policy, test, decision);
        kvt_buffer_init(&text, EXPLAINED_MAX);
        policy_explain(policy, &facts, decision, &text);
        assert(text.size > 0);
        kvt_buffer_release(&text);
    }
    policy_decision_free(decision);
}

static void
compare(const struct policy *policy)
{
    struct policy_difference difference;
    struct policy_rows rows;
    enum kvt_err rc = policy_rows_make(&rows, policy);
    size_t cursor = 0;
    bool differs;

    assert(rc == KVT_OK && rows.count > 0);
    differs = policy_rows_differ(&rows, &rows, &cursor, &difference);
    assert(!differs);
    policy_rows_release(&rows);
}

int
LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    static struct policy_problems problems;
    struct policy *policy;
    struct kvt_error err;
    enum kvt_err rc = policy_parse(&policy, "f", (const char *)bytes, size, &problems, &err);

    if (rc != KVT_OK) {
        assert(rc == KVT_INVALID && policy == NULL && problems.count > 0);
        for (size_t i = 0; i < problems.count; i++)
            assert(problems.list[i].text[0] != '\0' && problems.list[i].mark.line > 0);
        return 0;
    }
    decide(policy);
    compare(policy);
    policy_free(policy);
    return 0;
}
