#include "policy/file/policy_parse.h"

#include <string.h>

#include "base/core/alloc.h"

#include "policy/file/section_reader.h"

static void
read_root(struct policy_reader *reader, struct kvt_yaml_value root, struct policy *policy)
{
    if (root.node == 0 || kvt_yaml_is_null(root)) {
        policy_problems_add(reader->problems, (struct kvt_yaml_mark){1, 1},
                            "the file is empty: a policy begins with \"version: 1\"; the one "
                            "in force to begin with: kvtier policy show --text");
        return;
    }
    policy_section_read(reader, root, POLICY_SECTION_FILE, policy);
    if (reader->rc != KVT_OK || kvt_yaml_kind(root) != KVT_YAML_MAPPING)
        return;
    policy_resolve(policy, root.file, reader->problems);
    policy_check_tiers(policy, reader->problems);
    policy_check_holders(policy, reader->problems);
    policy_check_rules(policy, reader->problems);
    policy_check_pairs(policy, reader->problems);
    policy_check_quotas(policy, reader->problems);
    policy_check_tests(policy, reader->problems);
}

/* YAML's own words for a tab are hard to understand. */
static bool
is_tab(const char *text, size_t size, struct kvt_yaml_mark mark)
{
    size_t line = 1;
    size_t at = 0;

    while (at < size && line < mark.line)
        line += text[at++] == '\n' ? 1 : 0;
    while (at < size && text[at] == ' ')
        at++;
    return at < size && text[at] == '\t';
}

/* "name:line:column: what" without its beginning. */
static const char *
bare_text(const struct kvt_error *err)
{
    const char *text = strstr(err->text, ": ");

    return text == NULL ? err->text : text + 2;
}

enum kvt_err
policy_parse(struct policy **out, const char *name, const char *text, size_t size,
             struct policy_problems *problems, struct kvt_error *err)
{
    struct policy_reader reader = {.problems = problems, .rc = KVT_OK};
    struct kvt_yaml_mark mark;
    struct kvt_yaml_value root;
    struct kvt_yaml *file = NULL;
    struct policy *policy;

    *out = NULL;
    *problems = (struct policy_problems){.count = 0};
    policy = kvt_calloc(1, sizeof(*policy));
    if (policy == NULL)
        return kvt_error_set(err, KVT_NOMEM, "%s: out of memory", name);
    policy_section_init(POLICY_SECTION_FILE, policy);
    reader.rc = kvt_yaml_parse(&file, "policy", text, size, &root, &mark, err);
    if (reader.rc == KVT_OK)
        read_root(&reader, root, policy);
    else if (reader.rc != KVT_NOMEM)
        policy_problems_add(problems, mark, "%s",
                            is_tab(text, size, mark) ? "a tab: YAML is indented with blanks"
                                                     : bare_text(err));
    kvt_yaml_free(file);
    if (reader.rc == KVT_OK && problems->count == 0) {
        *out = policy;
        return KVT_OK;
    }
    policy_free(policy);
    if (reader.rc == KVT_NOMEM)
        return kvt_error_set(err, KVT_NOMEM, "%s: out of memory", name);
    policy_problems_sort(problems);
    return kvt_error_set(err, KVT_INVALID, "%s:%zu:%zu: %s", name, problems->list[0].mark.line,
                         problems->list[0].mark.column, problems->list[0].text);
}

void
policy_free(struct policy *policy)
{
    if (policy == NULL)
        return;
    policy_section_release(POLICY_SECTION_FILE, policy);
    kvt_free(policy);
}
