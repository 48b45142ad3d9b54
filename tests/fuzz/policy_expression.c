/*
 * Property: any text is a condition or is told with a place in it; what a condition prints is a
 * condition that prints the same, and both are the same of any facts; nothing is true that can
 * never be.
 */
#include <assert.h>
#include <string.h>

#include "policy/expression/expression.h"
#include "tests/fuzz/target.h"

enum { PRINTED_MAX = 1 << 20, FACTS = 4 };

static const struct policy_facts facts[FACTS] = {
    {.tenant = "", .depth = 0},
    {.tenant = "team-a",
     .model = "llama-70b",
     .tier = "nvme",
     .namespace_ = "team-a/llama-70b",
     .depth = 64,
     .fanout = 8,
     .hits = 3,
     .cold_hits = 2,
     .last_access_ms = 1800000,
     .age_ms = 604800000,
     .size = 2097152,
     .fill_ppm = 850000,
     .pinned = true},
    {.tenant = "a",
     .depth = UINT64_MAX,
     .fanout = UINT64_MAX,
     .hits = UINT64_MAX,
     .cold_hits = UINT64_MAX,
     .last_access_ms = UINT64_MAX,
     .age_ms = UINT64_MAX,
     .size = UINT64_MAX,
     .fill_ppm = UINT64_MAX},
    {.hits = 1, .last_access_ms = 1, .prefixes = (const uint64_t[]){0x1234}, .prefix_count = 1},
};

/* Everything that can be asked of a condition. */
static void
ask(const struct policy_expression *expression, const struct policy_facts *of)
{
    bool classes[POLICY_EXPRESSION_NODES_MAX] = {false};
    bool trace[POLICY_EXPRESSION_NODES_MAX];
    struct policy_clause clause;
    char text[1024];
    const bool value = policy_expression_evaluate(expression, of, classes, trace);

    assert(trace[policy_expression_nodes(expression) - 1] == value);
    for (size_t i = 0; policy_expression_clause(expression, i, &clause); i++) {
        assert(clause.size > 0 && clause.node < policy_expression_nodes(expression));
        policy_expression_change(expression, clause.node, of, text, sizeof(text));
        assert(memchr(text, '\0', sizeof(text)) != NULL);
    }
    assert(!value || !policy_expression_is_never(expression));
    assert(value || !policy_expression_is_always(expression));
}

static void
print_again(const struct policy_expression *first)
{
    const bool classes[1] = {false};
    struct policy_expression *second;
    struct policy_expression_errors faults;
    struct kvt_buffer texts[2];
    enum kvt_err rc;
    size_t offset;

    kvt_buffer_init(&texts[0], PRINTED_MAX);
    kvt_buffer_init(&texts[1], PRINTED_MAX);
    policy_expression_print(first, &texts[0]);
    rc = policy_expression_parse(&second, kvt_buffer_text(&texts[0]), texts[0].size, &faults);
    /* Units make a text longer than it was written, and a chain that leans right deeper. */
    if (rc == KVT_OK) {
        policy_expression_print(second, &texts[1]);
        assert(strcmp(kvt_buffer_text(&texts[0]), kvt_buffer_text(&texts[1])) == 0);
        for (size_t i = 0; i < FACTS && policy_expression_class(first, 0, &offset) == NULL; i++)
            assert(policy_expression_evaluate(first, &facts[i], classes, NULL) ==
                   policy_expression_evaluate(second, &facts[i], classes, NULL));
        policy_expression_free(second);
    } else {
        assert(texts[0].size > POLICY_EXPRESSION_MAX ||
               strstr(faults.list[0].text, "more than") != NULL);
    }
    kvt_buffer_release(&texts[0]);
    kvt_buffer_release(&texts[1]);
}

int
LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    struct policy_expression *expression;
    struct policy_expression_errors faults;
    enum kvt_err rc = policy_expression_parse(&expression, (const char *)bytes, size, &faults);

    if (rc != KVT_OK) {
        assert(rc == KVT_INVALID && expression == NULL);
        assert(faults.count > 0 && faults.count <= POLICY_EXPRESSION_FAULTS_MAX);
        for (size_t i = 0; i < faults.count; i++)
            assert(faults.list[i].offset <= size && faults.list[i].text[0] != '\0');
        return 0;
    }
    for (size_t i = 0; i < FACTS; i++)
        ask(expression, &facts[i]);
    print_again(expression);
    policy_expression_free(expression);
    return 0;
}
