#include "cli/ops/doctor_checks.h"

#include <json-c/json.h>
#include <stdarg.h>

#include "cli/output/cli_json.h"

static const char *const state_names[] = {[CLI_DOCTOR_CHECK_OK] = "ok",
                                          [CLI_DOCTOR_CHECK_WARN] = "warn",
                                          [CLI_DOCTOR_CHECK_FAIL] = "fail"};

void
cli_doctor_check_add(struct cli_doctor_checks *checks, enum cli_doctor_check_state state,
                     const char *name, const char *fix, const char *format, ...)
{
    struct cli_doctor_check *check;
    va_list arguments;

    checks->failed += state == CLI_DOCTOR_CHECK_FAIL;
    checks->warned += state == CLI_DOCTOR_CHECK_WARN;
    if (checks->count == CLI_DOCTOR_CHECKS_MAX) /* a server may give any number of reasons */
        return;
    check = &checks->rows[checks->count++];
    check->state = state;
    check->name = name;
    check->fix = fix;
    va_start(arguments, format);
    (void)vsnprintf(check->text, sizeof(check->text), format, arguments);
    va_end(arguments);
}

void
cli_doctor_check_print(const struct cli_doctor_checks *checks, FILE *out)
{
    for (size_t i = 0; i < checks->count; i++) {
        const struct cli_doctor_check *check = &checks->rows[i];

        (void)fprintf(out, "%-4s  %-16s  %s\n", state_names[check->state], check->name,
                      check->text);
        if (check->state != CLI_DOCTOR_CHECK_OK && check->fix[0] != '\0')
            (void)fprintf(out, "      %-16s  -> %s\n", "", check->fix);
    }
    (void)fprintf(out, "\n%zu checks: %zu warning%s, %zu failed\n", checks->count, checks->warned,
                  checks->warned == 1 ? "" : "s", checks->failed);
}

void
cli_doctor_check_print_json(const struct cli_doctor_checks *checks, FILE *out)
{
    struct json_object *all = json_object_new_object();
    struct json_object *rows = json_object_new_array();

    for (size_t i = 0; i < checks->count; i++) {
        const struct cli_doctor_check *check = &checks->rows[i];
        struct json_object *row = json_object_new_object();

        (void)json_object_object_add(row, "check", json_object_new_string(check->name));
        (void)json_object_object_add(row, "state",
                                     json_object_new_string(state_names[check->state]));
        (void)json_object_object_add(row, "text", json_object_new_string(check->text));
        (void)json_object_object_add(
            row, "fix",
            json_object_new_string(check->state == CLI_DOCTOR_CHECK_OK ? "" : check->fix));
        (void)json_object_array_add(rows, row);
    }
    (void)json_object_object_add(all, "schema_version", json_object_new_int(1));
    (void)json_object_object_add(all, "failed", json_object_new_uint64(checks->failed));
    (void)json_object_object_add(all, "warned", json_object_new_uint64(checks->warned));
    (void)json_object_object_add(all, "checks", rows);
    cli_json_print(out, all);
    (void)json_object_put(all);
}
