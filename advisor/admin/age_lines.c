#include "advisor/admin/age_lines.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/text/parse.h"

#include "policy/expression/expression.h"

enum { DURATION_TEXT_MAX = 32, LINE_TEXT_MAX = 96 };

struct lines {
    struct kvt_buffer *out;
    size_t count;
};

static void
add(struct lines *lines, uint64_t ms, const char *name, const char *what)
{
    char text[LINE_TEXT_MAX];

    if (ms == 0 || lines->count == ADVISOR_LINES_MAX)
        return;
    (void)snprintf(text, sizeof(text), "%s: %s", name, what);
    kvt_buffer_printf(lines->out,
                      "%s{\"seconds\":%" PRIu64 ",\"text\":", lines->count++ > 0 ? "," : "",
                      (ms + 999) / 1000);
    kvt_buffer_json_string(lines->out, text);
    kvt_buffer_printf(lines->out, "}");
}

/* "last_access > 30m" to its duration; false for any other clause. */
static bool
read_age(const struct policy_clause *clause, uint64_t *ms)
{
    static const char fact[] = "last_access";
    char text[DURATION_TEXT_MAX];
    size_t at = sizeof(fact) - 1;
    size_t size;

    *ms = 0;
    if (clause->size <= at || memcmp(clause->text, fact, at) != 0)
        return false;
    while (at < clause->size && strchr(" <>=", clause->text[at]) != NULL)
        at++;
    size = clause->size - at;
    if (size == 0 || size >= sizeof(text))
        return false;
    memcpy(text, clause->text + at, size);
    text[size] = '\0';
    return kvt_parse_duration(text, ms) == KVT_OK;
}

static void
add_condition(struct lines *lines, const struct policy_expression *when, const char *name)
{
    struct policy_clause clause;

    for (size_t i = 0; when != NULL && policy_expression_clause(when, i, &clause); i++) {
        char what[LINE_TEXT_MAX / 2];
        uint64_t ms;

        if (!read_age(&clause, &ms))
            continue;
        (void)snprintf(what, sizeof(what), "%.*s", (int)clause.size, clause.text);
        add(lines, ms, name, what);
    }
}

void
advisor_admin_add_lines(struct kvt_buffer *out, const struct policy *policy)
{
    struct lines lines = {.out = out};

    kvt_buffer_printf(out, "\"lines\":[");
    add(&lines, policy->defaults.protect_recent, "all rules", "left alone until then");
    for (size_t i = 0; i < policy->classes.count; i++)
        add_condition(&lines, policy_class_at(policy, i)->when, policy_class_at(policy, i)->name);
    for (size_t i = 0; i < policy->rules.count; i++) {
        const struct policy_rule *rule = policy_rule_at(policy, i);

        if (rule->protect_recent != policy->defaults.protect_recent)
            add(&lines, rule->protect_recent, rule->id, "left alone until then");
        add_condition(&lines, rule->when, rule->id);
    }
    kvt_buffer_printf(out, "]");
}
