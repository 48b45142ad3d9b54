#include "cli/policy/cmd_policy_file.h"

#include <json-c/json.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/buffer.h"
#include "base/core/file.h"
#include "cli/frame/options.h"
#include "cli/output/cli_json.h"
#include "cli/output/cli_table.h"
#include "cli/policy/policy_commands.h"

#include "policy/file/policy_keys.h"
#include "policy/file/policy_parse.h"
#include "policy/file/policy_rows.h"
#include "policy/file/policy_schema.h"

enum { SHOWN_MAX = 200, ORIGIN_MAX = 48 };

bool
cli_policy_file_is_settings(const char *path)
{
    struct kvt_yaml_value root;
    struct kvt_yaml_value key;
    struct kvt_yaml_value value;
    struct kvt_yaml *file;
    bool section = false; /* policy: */
    bool filled = false;  /* and something in it */
    bool others = false;
    bool policy = false;
    size_t at;

    if (kvt_yaml_load(&file, path, &root, NULL) != KVT_OK)
        return false;
    for (size_t i = 0; kvt_yaml_pair(root, i, &key, &value); i++) {
        const char *name = kvt_yaml_text(key);

        if (name == NULL)
            continue;
        if (strcmp(name, "policy") == 0) {
            section = true;
            filled = filled || !kvt_yaml_is_null(value);
        } else {
            others = true;
            filled = filled || strncmp(name, "policy.", strlen("policy.")) == 0;
        }
        policy = policy || policy_key_find(POLICY_SECTION_FILE, name, &at) != NULL;
    }
    kvt_yaml_free(file);
    return !policy && (filled || (section && others));
}

/* ---- what is wrong with one ---- */

static void
add_text(struct json_object *object, const char *key, const char *text)
{
    (void)json_object_object_add(object, key, json_object_new_string(text));
}

static void
print_problems_json(const struct cli_context *context, const char *path,
                    const struct policy_problems *problems)
{
    struct json_object *answer = json_object_new_object();
    struct json_object *list = json_object_new_array();

    for (size_t i = 0; i < problems->count; i++) {
        const struct policy_problem *problem = &problems->list[i];
        struct json_object *row = json_object_new_object();

        (void)json_object_object_add(row, "line", json_object_new_uint64(problem->mark.line));
        (void)json_object_object_add(row, "column", json_object_new_uint64(problem->mark.column));
        add_text(row, "message", problem->text);
        (void)json_object_array_add(list, row);
    }
    (void)json_object_object_add(answer, "schema_version", json_object_new_int(1));
    add_text(answer, "file", path);
    (void)json_object_object_add(answer, "valid", json_object_new_boolean(false));
    (void)json_object_object_add(answer, "problems", list);
    (void)json_object_object_add(answer, "left_out", json_object_new_uint64(problems->left_out));
    cli_json_print(context->out, answer);
    (void)json_object_put(answer);
}

/* The line a problem is in, with its place below. */
static void
print_line(FILE *out, const char *text, size_t size, struct kvt_yaml_mark mark)
{
    const char *end;
    char shown[SHOWN_MAX];
    int width;

    for (size_t line = 1; line < mark.line; line++) {
        end = memchr(text, '\n', size);
        if (end == NULL)
            return;
        size -= (size_t)(end + 1 - text);
        text = end + 1;
    }
    end = memchr(text, '\n', size);
    (void)snprintf(shown, sizeof(shown), "%.*s", (int)(end == NULL ? size : (size_t)(end - text)),
                   text);
    for (char *at = shown; *at != '\0'; at++)
        *at = *at == '\t' ? ' ' : *at;
    width = fprintf(out, "  %zu | ", mark.line);
    cli_table_text(out, shown);
    (void)fprintf(out, "\n%*s%*s^\n", width, "", mark.column > SHOWN_MAX ? 0 : (int)mark.column - 1,
                  "");
}

static void
print_problems(const struct cli_context *context, const char *path, const char *text, size_t size,
               const struct policy_problems *problems)
{
    for (size_t i = 0; i < problems->count; i++) {
        const struct policy_problem *problem = &problems->list[i];

        (void)fprintf(context->err, "%s:%zu:%zu: ", path, problem->mark.line, problem->mark.column);
        cli_table_text(context->err, problem->text);
        (void)fputc('\n', context->err);
        print_line(context->err, text, size, problem->mark);
    }
    if (problems->left_out > 0)
        (void)fprintf(context->err, "and %zu more\n", problems->left_out);
}

enum cli_exit
cli_policy_file_load(const struct cli_context *context, const char *path, struct policy **out)
{
    struct policy_problems *problems = kvt_calloc(1, sizeof(*problems));
    struct kvt_error err = {0};
    char *text = NULL;
    size_t size = 0;
    enum kvt_err rc;

    *out = NULL;
    if (problems == NULL)
        rc = kvt_error_set(&err, KVT_NOMEM, "%s: out of memory", path);
    else
        rc = kvt_file_read(&text, &size, path, KVT_YAML_FILE_MAX, &err);
    if (rc == KVT_OK)
        rc = policy_parse(out, path, text, size, problems, &err);
    if (rc == KVT_OK)
        goto done;
    if (problems == NULL || problems->count == 0) {
        (void)cli_context_fail(context, &err);
    } else {
        print_problems(context, path, text, size, problems);
        if (context->json)
            print_problems_json(context, path, problems);
    }
done:
    kvt_free(text);
    kvt_free(problems);
    if (rc == KVT_OK)
        return CLI_EXIT_DONE;
    return rc == KVT_NOTFOUND ? CLI_EXIT_NOTFOUND : CLI_EXIT_FAILED;
}

/* ---- validate ---- */

static void
print_counts(const struct cli_context *context, const struct policy *policy)
{
    static const char *const modes[] = {"off", "observe", "enforce"};
    const struct {
        const char *name;
        size_t count;
    } counts[] = {{"tiers", policy->tiers.count},
                  {"classes", policy->classes.count},
                  {"rules", policy->rules.count},
                  {"quotas", policy->quotas.count},
                  {"tests", policy->tests.count}};
    struct json_object *answer;

    if (!context->json) {
        (void)fprintf(context->out, "%s: good: mode %s", context->arguments[0],
                      modes[policy->modes.mode]);
        for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++)
            (void)fprintf(context->out, ", %s %zu", counts[i].name, counts[i].count);
        (void)fputc('\n', context->out);
        return;
    }
    answer = json_object_new_object();
    (void)json_object_object_add(answer, "schema_version", json_object_new_int(1));
    add_text(answer, "file", context->arguments[0]);
    (void)json_object_object_add(answer, "valid", json_object_new_boolean(true));
    add_text(answer, "mode", modes[policy->modes.mode]);
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++)
        (void)json_object_object_add(answer, counts[i].name,
                                     json_object_new_uint64(counts[i].count));
    cli_json_print(context->out, answer);
    (void)json_object_put(answer);
}

enum cli_exit
cli_policy_file_validate(const struct cli_context *context)
{
    struct policy *policy;
    enum cli_exit status = cli_policy_file_load(context, context->arguments[0], &policy);

    if (policy != NULL)
        print_counts(context, policy);
    policy_free(policy);
    return status;
}

/* ---- show ---- */

static enum cli_exit
load_rows(const struct cli_context *context, const char *path, struct policy_rows *rows)
{
    struct kvt_error err = {0};
    struct policy *policy;
    enum cli_exit status = cli_policy_file_load(context, path, &policy);

    *rows = (struct policy_rows){.list = NULL};
    if (policy != NULL && policy_rows_make(rows, policy) != KVT_OK) {
        (void)kvt_error_set(&err, KVT_NOMEM, "%s: out of memory", path);
        status = cli_context_fail(context, &err);
    }
    policy_free(policy);
    return status;
}

static void
format_origin(const struct policy_place *place, char text[ORIGIN_MAX])
{
    if (place->line == 0)
        (void)snprintf(text, ORIGIN_MAX, "%s", policy_origin_text(place->origin));
    else
        (void)snprintf(text, ORIGIN_MAX, "%s, line %u", policy_origin_text(place->origin),
                       place->line);
}

static void
print_rows(const struct cli_context *context, const struct policy_rows *rows)
{
    static const struct cli_column columns[] = {
        {"KEY", false}, {"VALUE", false}, {"ORIGIN", false}, {"WHAT", false}};
    struct cli_table table;
    char origin[ORIGIN_MAX];

    cli_table_init(&table, columns, sizeof(columns) / sizeof(columns[0]) - (context->wide ? 0 : 1));
    for (size_t i = 0; i < rows->count; i++) {
        format_origin(&rows->list[i].place, origin);
        cli_table_add(&table, "%s", rows->list[i].path);
        cli_table_add(&table, "%s", rows->list[i].value);
        cli_table_add(&table, "%s", origin);
        if (context->wide)
            cli_table_add(&table, "%s", rows->list[i].help);
    }
    cli_table_print(&table, context->out);
    cli_table_release(&table);
}

static void
print_rows_json(const struct cli_context *context, const struct policy_rows *rows)
{
    struct json_object *answer = json_object_new_object();
    struct json_object *list = json_object_new_array();

    for (size_t i = 0; i < rows->count; i++) {
        const struct policy_row *row = &rows->list[i];
        struct json_object *line = json_object_new_object();

        add_text(line, "key", row->path);
        add_text(line, "value", row->value);
        add_text(line, "origin", policy_origin_text(row->place.origin));
        (void)json_object_object_add(line, "line", json_object_new_uint64(row->place.line));
        (void)json_object_array_add(list, line);
    }
    (void)json_object_object_add(answer, "schema_version", json_object_new_int(1));
    add_text(answer, "file", context->arguments[0]);
    (void)json_object_object_add(answer, "policy", list);
    cli_json_print(context->out, answer);
    (void)json_object_put(answer);
}

enum cli_exit
cli_policy_file_show(const struct cli_context *context)
{
    struct policy_rows rows;
    enum cli_exit status = load_rows(context, context->arguments[0], &rows);

    if (status == CLI_EXIT_DONE && context->json)
        print_rows_json(context, &rows);
    else if (status == CLI_EXIT_DONE)
        print_rows(context, &rows);
    policy_rows_release(&rows);
    return status;
}

/* ---- diff ---- */

#define TESTS "tests."

struct comparison {
    const struct cli_context *context;
    struct policy_rows before;
    struct policy_rows after;
    size_t count;
    size_t left_out; /* of tests */
};

static const char *
path_of(const struct policy_difference *difference)
{
    return difference->before == NULL ? difference->after->path : difference->before->path;
}

/* The next difference that is to be told.  What a policy's tests expect changes nothing by itself,
 * and one that is put in front makes all behind it others. */
static bool
next_difference(struct comparison *comparison, size_t *cursor, struct policy_difference *difference)
{
    const bool tests = kvt_config_bool(comparison->context->options, CLI_POLICY_DIFF_TESTS);

    while (policy_rows_differ(&comparison->before, &comparison->after, cursor, difference)) {
        if (tests || strncmp(path_of(difference), TESTS, strlen(TESTS)) != 0) {
            comparison->count++;
            return true;
        }
        comparison->left_out++;
    }
    return false;
}

static const char *
change_text(const struct policy_difference *difference)
{
    if (difference->before == NULL)
        return "added";
    return difference->after == NULL ? "removed" : "changed";
}

static void
print_differences(struct comparison *comparison)
{
    static const struct cli_column columns[] = {
        {"CHANGE", false}, {"KEY", false}, {"OLD", false}, {"NEW", false}};
    struct policy_difference difference;
    struct cli_table table;
    size_t cursor = 0;

    cli_table_init(&table, columns, sizeof(columns) / sizeof(columns[0]));
    while (next_difference(comparison, &cursor, &difference)) {
        cli_table_add(&table, "%s", change_text(&difference));
        cli_table_add(&table, "%s", path_of(&difference));
        cli_table_add(&table, "%s", difference.before == NULL ? "-" : difference.before->value);
        cli_table_add(&table, "%s", difference.after == NULL ? "-" : difference.after->value);
    }
    if (comparison->count > 0)
        cli_table_print(&table, comparison->context->out);
    cli_table_release(&table);
}

static void
print_differences_json(struct comparison *comparison)
{
    struct json_object *answer = json_object_new_object();
    struct json_object *list = json_object_new_array();
    struct policy_difference difference;
    size_t cursor = 0;

    while (next_difference(comparison, &cursor, &difference)) {
        struct json_object *row = json_object_new_object();

        add_text(row, "change", change_text(&difference));
        add_text(row, "key", path_of(&difference));
        if (difference.before != NULL)
            add_text(row, "old", difference.before->value);
        if (difference.after != NULL)
            add_text(row, "new", difference.after->value);
        (void)json_object_array_add(list, row);
    }
    (void)json_object_object_add(answer, "schema_version", json_object_new_int(1));
    (void)json_object_object_add(answer, "changes", list);
    cli_json_print(comparison->context->out, answer);
    (void)json_object_put(answer);
}

enum cli_exit
cli_policy_file_diff(const struct cli_context *context)
{
    struct comparison comparison = {.context = context};
    enum cli_exit status = load_rows(context, context->arguments[0], &comparison.before);

    if (status == CLI_EXIT_DONE)
        status = load_rows(context, context->arguments[1], &comparison.after);
    if (status == CLI_EXIT_DONE && context->json)
        print_differences_json(&comparison);
    else if (status == CLI_EXIT_DONE)
        print_differences(&comparison);
    if (comparison.left_out > 0)
        (void)fprintf(context->err, "%zu more in tests; --tests shows them\n", comparison.left_out);
    if (status == CLI_EXIT_DONE && comparison.count > 0 &&
        kvt_config_bool(context->options, CLI_POLICY_DIFF_DETAILED))
        status = CLI_EXIT_PENDING;
    policy_rows_release(&comparison.before);
    policy_rows_release(&comparison.after);
    return status;
}

/* ---- schema ---- */

enum { AS_JSON_SCHEMA, AS_MARKDOWN }; /* as in cli/frame/options.h */

enum cli_exit
cli_policy_file_schema(const struct cli_context *context)
{
    struct kvt_error err = {0};
    struct kvt_buffer text;
    enum cli_exit status = CLI_EXIT_DONE;

    kvt_buffer_init(&text, POLICY_SCHEMA_MAX);
    if (kvt_config_enum(context->options, CLI_POLICY_SCHEMA_AS) == AS_MARKDOWN)
        policy_schema_print_markdown(&text);
    else
        policy_schema_print(&text);
    if (kvt_buffer_ok(&text)) {
        (void)fputs(kvt_buffer_text(&text), context->raw);
    } else {
        (void)kvt_error_set(&err, KVT_NOMEM, "out of memory");
        status = cli_context_fail(context, &err);
    }
    kvt_buffer_release(&text);
    return status;
}
