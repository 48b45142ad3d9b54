/*
 * What is tested: base/config/config.h with a table of its own: precedence whatever the order of
 * loading, where an error points, what is suggested, and that everything generated from the table
 * is true (the example file loads, and says what the defaults say).
 */
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/config/config.h"
#include "base/core/alloc.h"
#include "base/core/random.h"
#include "base/text/yaml.h"

#include "tests/support/seed.h"

enum { NAME, DRY, PORT, CAP, WAIT, START, FOLDER, TOKEN, MODE, QUOTA, URL, COUNT };

#define LONG_HELP                                                                                  \
    "Name of this \"node\", as others see it in events, reports and tables: keep it short, "       \
    "because "                                                                                     \
    "it stands in every one of them. 'Quotes' and a \\ must survive the manual."

static const struct kvt_param params[COUNT] = {
    {"name", KVT_CONFIG_STRING, "node", "", "", "", LONG_HELP},
    {"admin.dry_run", KVT_CONFIG_BOOL, "false", "", "", "", "Only say."},
    {"admin.port", KVT_CONFIG_INT, "9471", "1", "65535", "", "Port."},
    {"hot.cap", KVT_CONFIG_SIZE, "1GiB", "1MiB", "", "", "Cap."},
    {"hot.wait", KVT_CONFIG_DURATION, "1.5s", "", "1m", "", "Wait."},
    {"hot.start", KVT_CONFIG_RATIO, "85%", "1%", "100%", "", "Start."},
    {"hot.folder", KVT_CONFIG_PATH, "/var/lib/x", "", "", "", "Folder."},
    {"admin.token_file", KVT_CONFIG_SECRET, "", "", "", "", "Token."},
    {"events.mode", KVT_CONFIG_ENUM, "jetstream", "", "core|jetstream", "", "Mode."},
    {"cold.quota", KVT_CONFIG_SIZE, "", "", "", "", "Quota; unset is none."},
    {"nats.url", KVT_CONFIG_STRING, "", "", "", "NATS_URL|NATS_SERVER", "Where NATS is."},
};

static const char *const variables[] = {"KVTIER_ADMIN_PORT", "KVTIER_NATS_URL", "NATS_URL",
                                        "NATS_SERVER", "CREDENTIALS_DIRECTORY"};

struct world {
    struct kvt_config *config;
    struct kvt_error err;
    char folder[200];
    char file[256];
};

static struct world world;

static int
set_up(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++)
        assert_int_equal(unsetenv(variables[i]), 0);
    (void)test_folder_make(world.folder, sizeof(world.folder));
    (void)snprintf(world.file, sizeof(world.file), "%s/c.yaml", world.folder);
    assert_int_equal(kvt_config_new(&world.config, params, COUNT, &world.err), KVT_OK);
    return 0;
}

static int
tear_down(void **state)
{
    (void)state;
    kvt_config_free(world.config);
    assert_int_equal(kvt_alloc_live(), 0);
    test_folder_remove(world.folder);
    return 0;
}

/* Thousands of files are written here: kvt_file_write() would wait for the disk each time, and so
 * do some file systems when a file that is cut to nothing is closed. */
static enum kvt_err
load_text(const char *text)
{
    FILE *file;

    (void)unlink(world.file);
    file = fopen(world.file, "we");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
    return kvt_config_load_file(world.config, world.file, &world.err);
}

/* Loading `text` must fail with "<file>:<rest>". */
static void
assert_refused(const char *text, const char *rest)
{
    char expected[KVT_ERROR_TEXT_MAX];

    assert_int_equal(load_text(text), KVT_INVALID);
    (void)snprintf(expected, sizeof(expected), "%.160s:%s", world.file, rest);
    assert_string_equal(world.err.text, expected);
}

static void
defaults_are_read_by_type(void **state)
{
    (void)state;
    assert_string_equal(kvt_config_string(world.config, NAME), "node");
    assert_false(kvt_config_bool(world.config, DRY));
    assert_int_equal(kvt_config_u64(world.config, PORT), 9471);
    assert_int_equal(kvt_config_u64(world.config, CAP), 1u << 30);
    assert_int_equal(kvt_config_u64(world.config, WAIT), 1500);
    assert_int_equal(kvt_config_ppm(world.config, START), 850000);
    assert_int_equal(kvt_config_enum(world.config, MODE), 1);
    assert_string_equal(kvt_config_string(world.config, MODE), "jetstream");
    assert_int_equal(kvt_config_u64(world.config, QUOTA), 0);
    assert_false(kvt_config_is_set(world.config, QUOTA));
    assert_true(kvt_config_is_set(world.config, CAP));
    for (size_t i = 0; i < COUNT; i++)
        assert_int_equal(kvt_config_origin(world.config, i), KVT_ORIGIN_DEFAULT);
}

static void
apply(enum kvt_config_origin source)
{
    switch (source) {
    case KVT_ORIGIN_FILE: assert_int_equal(load_text("admin:\n  port: 1001\n"), KVT_OK); break;
    case KVT_ORIGIN_CONTEXT:
        assert_int_equal(
            kvt_config_set_context(world.config, "admin.port", "1002", "context c", &world.err),
            KVT_OK);
        break;
    case KVT_ORIGIN_ENV:
        assert_int_equal(setenv("KVTIER_ADMIN_PORT", "1003", 1), 0);
        assert_int_equal(kvt_config_load_env(world.config, &world.err), KVT_OK);
        break;
    case KVT_ORIGIN_FLAG:
        assert_int_equal(kvt_config_set_flag(world.config, "admin-port", "1004", &world.err), 0);
        break;
    case KVT_ORIGIN_DEFAULT: break;
    }
}

static void
the_higher_source_wins_in_every_order(void **state)
{
    static const enum kvt_config_origin orders[][3] = {
        {KVT_ORIGIN_FILE, KVT_ORIGIN_ENV, KVT_ORIGIN_FLAG},
        {KVT_ORIGIN_FLAG, KVT_ORIGIN_ENV, KVT_ORIGIN_FILE},
        {KVT_ORIGIN_ENV, KVT_ORIGIN_FLAG, KVT_ORIGIN_FILE},
        {KVT_ORIGIN_FLAG, KVT_ORIGIN_FILE, KVT_ORIGIN_ENV},
        {KVT_ORIGIN_ENV, KVT_ORIGIN_FILE, KVT_ORIGIN_DEFAULT},
        {KVT_ORIGIN_FILE, KVT_ORIGIN_ENV, KVT_ORIGIN_DEFAULT},
        {KVT_ORIGIN_FILE, KVT_ORIGIN_DEFAULT, KVT_ORIGIN_DEFAULT},
        {KVT_ORIGIN_CONTEXT, KVT_ORIGIN_FILE, KVT_ORIGIN_DEFAULT},
        {KVT_ORIGIN_ENV, KVT_ORIGIN_CONTEXT, KVT_ORIGIN_FILE},
        {KVT_ORIGIN_FILE, KVT_ORIGIN_FLAG, KVT_ORIGIN_CONTEXT},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(orders) / sizeof(orders[0]); i++) {
        enum kvt_config_origin highest = KVT_ORIGIN_DEFAULT;

        kvt_config_free(world.config);
        assert_int_equal(kvt_config_new(&world.config, params, COUNT, &world.err), KVT_OK);
        for (size_t j = 0; j < 3; j++) {
            apply(orders[i][j]);
            highest = orders[i][j] > highest ? orders[i][j] : highest;
        }
        assert_int_equal(kvt_config_origin(world.config, PORT), highest);
        assert_int_equal(kvt_config_u64(world.config, PORT), 1000 + (unsigned)highest);
    }
}

static void
an_alias_counts_after_the_own_name_and_empty_is_unset(void **state)
{
    (void)state;
    assert_int_equal(setenv("NATS_SERVER", "nats://c", 1), 0);
    assert_int_equal(kvt_config_load_env(world.config, &world.err), KVT_OK);
    assert_string_equal(kvt_config_string(world.config, URL), "nats://c");
    assert_int_equal(setenv("NATS_URL", "nats://b", 1), 0);
    assert_int_equal(setenv("KVTIER_NATS_URL", "", 1), 0);
    assert_int_equal(kvt_config_load_env(world.config, &world.err), KVT_OK);
    assert_string_equal(kvt_config_string(world.config, URL), "nats://b");
    assert_int_equal(setenv("KVTIER_NATS_URL", "nats://a", 1), 0);
    assert_int_equal(kvt_config_load_env(world.config, &world.err), KVT_OK);
    assert_string_equal(kvt_config_string(world.config, URL), "nats://a");
    assert_int_equal(setenv("KVTIER_ADMIN_PORT", "many", 1), 0);
    assert_int_equal(kvt_config_load_env(world.config, &world.err), KVT_INVALID);
    assert_string_equal(world.err.text, "KVTIER_ADMIN_PORT: \"many\" is not a whole number");
}

static void
files_may_be_nested_dotted_quoted_or_empty(void **state)
{
    (void)state;
    assert_int_equal(load_text(""), KVT_OK);
    assert_int_equal(load_text("# nothing\n---\n"), KVT_OK);
    assert_int_equal(load_text("admin:\n  # all commented out\nhot: ~\nname: null\n"), KVT_OK);
    assert_string_equal(kvt_config_string(world.config, NAME), "node");
    assert_int_equal(load_text("admin: {port: 7, dry_run: yes}\nhot.cap: 2 MiB\nname: \"a: b\"\n"
                               "events:\n  mode: core\n"),
                     KVT_OK);
    assert_int_equal(kvt_config_u64(world.config, PORT), 7);
    assert_true(kvt_config_bool(world.config, DRY));
    assert_int_equal(kvt_config_u64(world.config, CAP), 2u << 20);
    assert_string_equal(kvt_config_string(world.config, NAME), "a: b");
    assert_int_equal(kvt_config_enum(world.config, MODE), 0);
    assert_int_equal(kvt_config_origin(world.config, CAP), KVT_ORIGIN_FILE);
}

static void
file_errors_name_line_column_and_the_nearest_key(void **state)
{
    (void)state;
    assert_refused("admin:\n  prot: 1\n",
                   "2:3: unknown key \"admin.prot\" (did you mean \"admin.port\"?)");
    assert_refused("admn:\n  port: 1\n", "1:1: unknown key \"admn\" (did you mean \"admin\"?)");
    assert_refused("x: 1\n\nzebra_stripes: 2\n", "1:1: unknown key \"x\"");
    assert_refused("admin:\n  port: 70000\n", "2:9: admin.port: 70000 is above the most, 65535");
    assert_refused("admin:\n  port: 0\n", "2:9: admin.port: 0 is below the least, 1");
    assert_refused("events: {mode: jetstrem}\n", "1:16: events.mode: \"jetstrem\" is none of "
                                                 "core|jetstream (did you mean \"jetstream\"?)");
    assert_refused("admin:\n  port: [1]\n",
                   "2:9: admin.port wants one value, not a list or a section");
    assert_refused("admin: 5\n", "1:8: admin is a section: indent its keys under it");
    assert_refused("name: a\nname: b\n", "2:1: name is given twice");
    assert_refused("admin: {port: 1}\nadmin.port: 2\n", "2:1: admin.port is given twice");
    assert_refused("name: a\n---\nname: b\n", "3:1: a second document");
    assert_refused("just text\n", "1:1: a settings file is made of \"key: value\" lines");
    assert_refused("? [a]\n: 1\n", "1:3: a key must be a word");
    assert_refused("name: \"a\\0b\"\n", "1:7: name has a NUL byte in its value");
    assert_refused("name: \"a\\nb\"\n", "1:7: name: control character in the value");
    assert_refused("admin:\n  port: [3\n", "3:1: did not find expected ',' or ']', while parsing a "
                                           "flow sequence that begins in line 2");
    assert_refused("name: a\n\xff\n", "2:1: invalid leading UTF-8 octet");
    /* A section that holds itself must not send the reader round for ever. */
    assert_refused("admin: &a\n  admin: *a\n",
                   "1:8: aliases nest deeper than 64 levels, or one contains itself");
}

static void
a_missing_or_huge_file_is_an_error(void **state)
{
    static char huge[KVT_YAML_FILE_MAX + 2];

    (void)state;
    assert_int_equal(kvt_config_load_file(world.config, "/nonexistent/x.yaml", &world.err),
                     KVT_NOTFOUND);
    memset(huge, '#', sizeof(huge) - 1);
    assert_int_equal(load_text(huge), KVT_RANGE);
    memset(huge, 'a', KVT_CONFIG_VALUE_MAX);
    huge[KVT_CONFIG_VALUE_MAX] = '\0';
    assert_int_equal(kvt_config_set_flag(world.config, "name", huge, &world.err), KVT_RANGE);
}

static void
flags(void **state)
{
    struct kvt_config *config = world.config;
    struct kvt_error *err = &world.err;

    (void)state;
    assert_int_equal(kvt_config_set_flag(config, "admin-dry-run", NULL, err), KVT_OK);
    assert_true(kvt_config_bool(config, DRY));
    assert_int_equal(kvt_config_set_flag(config, "no-admin-dry-run", NULL, err), KVT_OK);
    assert_false(kvt_config_bool(config, DRY));
    assert_int_equal(kvt_config_set_flag(config, "admin-dry-run", "On", err), KVT_OK);
    assert_true(kvt_config_bool(config, DRY));
    assert_int_equal(kvt_config_set_flag(config, "admin-dry-run", "perhaps", err), KVT_INVALID);
    assert_int_equal(kvt_config_set_flag(config, "no-admin-dry-run", "x", err), KVT_INVALID);
    assert_int_equal(kvt_config_set_flag(config, "admin-port", NULL, err), KVT_INVALID);
    assert_string_equal(err->text, "--admin-port needs a value");
    assert_int_equal(kvt_config_set_flag(config, "no-admin-port", NULL, err), KVT_NOTFOUND);
    assert_int_equal(kvt_config_set_flag(config, "admin-prot", "1", err), KVT_NOTFOUND);
    assert_string_equal(err->text, "unknown flag --admin-prot (did you mean --admin-port?)");
    assert_int_equal(kvt_config_set_flag(config, "zzz", "1", err), KVT_NOTFOUND);
    assert_string_equal(err->text, "unknown flag --zzz");
    assert_int_equal(kvt_config_set_flag(config, "cold-quota", "", err), KVT_OK);
    assert_int_equal(kvt_config_set_flag(config, "hot-cap", "", err), KVT_INVALID);
    assert_true(kvt_config_flag_is_bool(config, "admin-dry-run"));
    assert_true(kvt_config_flag_is_bool(config, "no-admin-dry-run"));
    assert_false(kvt_config_flag_is_bool(config, "admin-port"));
    assert_false(kvt_config_flag_is_bool(config, "zzz"));
    /* A refused value changes nothing. */
    assert_int_equal(kvt_config_u64(config, CAP), 1u << 30);
}

static void
what_is_out_of_reach_is_told_apart_from_what_is_wrong(void **state)
{
    struct kvt_error *err = &world.err;

    (void)state;
    assert_int_equal(kvt_config_set_flag(world.config, "hot-cap", "99999999TiB", err), KVT_RANGE);
    assert_string_equal(err->text, "--hot-cap: 99999999TiB is too large to count");
    assert_int_equal(kvt_config_set_flag(world.config, "hot-start", "most", err), KVT_INVALID);
    assert_string_equal(err->text, "--hot-start: \"most\" is not a ratio (85% or 0.85)");
    assert_int_equal(kvt_config_set_flag(world.config, "events-mode", "zzz", err), KVT_INVALID);
    assert_string_equal(err->text, "--events-mode: \"zzz\" is none of core|jetstream");
}

/* The end of a long path tells files apart, and must not push line and column off the message. */
static void
a_long_path_keeps_line_and_column(void **state)
{
    char folder[400];
    char path[500];

    (void)state;
    (void)snprintf(folder, sizeof(folder), "%s/%0150d", world.folder, 7);
    assert_int_equal(kvt_folder_make(folder, NULL), KVT_OK);
    (void)snprintf(path, sizeof(path), "%s/c.yaml", folder);
    assert_int_equal(kvt_file_write(path, "x: 1\n", 5, 0600, NULL), KVT_OK);
    assert_int_equal(kvt_config_load_file(world.config, path, &world.err), KVT_INVALID);
    assert_int_equal(strncmp(world.err.text, "...000", 6), 0);
    assert_non_null(strstr(world.err.text, "7/c.yaml:1:1: unknown key \"x\""));
}

static void
a_default_that_breaks_its_own_rule_is_found_at_once(void **state)
{
    static const struct kvt_param broken[] = {
        {"port", KVT_CONFIG_INT, "70000", "", "65535", "", ""}};
    struct kvt_config *config = world.config;

    (void)state;
    assert_int_equal(kvt_config_new(&config, broken, 1, &world.err), KVT_INVALID);
    assert_null(config);
}

static enum kvt_err
read_secret(const char *bytes, size_t size, unsigned mode, char text[16])
{
    char path[256];

    (void)snprintf(path, sizeof(path), "%s/secret", world.folder);
    assert_int_equal(kvt_file_write(path, bytes, size, mode, NULL), KVT_OK);
    assert_int_equal(kvt_config_set_flag(world.config, "admin-token-file", path, NULL), KVT_OK);
    return kvt_config_secret(world.config, TOKEN, text, 16, &world.err);
}

static void
secrets_come_from_files_only_we_can_read(void **state)
{
    char text[16] = "before";

    (void)state;
    assert_int_equal(kvt_config_secret(world.config, TOKEN, text, 16, &world.err), KVT_NOTFOUND);
    assert_string_equal(text, "");
    assert_int_equal(read_secret("s3cret\r\n\n", 9, 0600, text), KVT_OK);
    assert_string_equal(text, "s3cret");
    assert_int_equal(read_secret("s3cret", 6, 0400, text), KVT_OK);
    assert_int_equal(read_secret("s3cret", 6, 0644, text), KVT_DENIED);
    assert_string_equal(text, "");
    assert_non_null(strstr(world.err.text, "chmod 600"));
    assert_non_null(strstr(world.err.text, "admin.token_file: "));
    assert_null(strstr(world.err.text, "s3cret"));
    assert_int_equal(read_secret("s3cret", 6, 0640, text), KVT_DENIED);
    assert_int_equal(read_secret("s3cret", 6, 0602, text), KVT_DENIED);
    assert_int_equal(read_secret("\n\n", 2, 0600, text), KVT_INVALID);
    assert_int_equal(read_secret("a\nb", 3, 0600, text), KVT_INVALID);
    assert_string_equal(text, "");
    assert_int_equal(kvt_config_secret_lines(world.config, TOKEN, text, 16, NULL), KVT_OK);
    assert_string_equal(text, "a\nb");
    assert_int_equal(read_secret("a\0b", 3, 0600, text), KVT_INVALID);
    assert_int_equal(read_secret("123456789012345", 15, 0600, text), KVT_OK);
    assert_int_equal(read_secret("1234567890123456", 16, 0600, text), KVT_RANGE);
    assert_string_equal(text, "");
    /* The service manager's own folder: a group bit there is an access list's mask. */
    assert_int_equal(setenv("CREDENTIALS_DIRECTORY", world.folder, 1), 0);
    assert_int_equal(read_secret("s3cret", 6, 0440, text), KVT_OK);
    assert_int_equal(read_secret("s3cret", 6, 0444, text), KVT_DENIED);
}

static void
a_secret_is_a_plain_file(void **state)
{
    char text[16];
    char path[256];

    (void)state;
    (void)snprintf(path, sizeof(path), "%s/fifo", world.folder);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(kvt_config_set_flag(world.config, "admin-token-file", path, NULL), KVT_OK);
    assert_int_equal(kvt_config_secret(world.config, TOKEN, text, 16, &world.err), KVT_INVALID);
    assert_int_equal(kvt_config_set_flag(world.config, "admin-token-file", world.folder, NULL), 0);
    assert_int_equal(kvt_config_secret(world.config, TOKEN, text, 16, &world.err), KVT_INVALID);
    assert_int_equal(kvt_config_set_flag(world.config, "admin-token-file", "/none", NULL), KVT_OK);
    assert_int_equal(kvt_config_secret(world.config, TOKEN, text, 16, &world.err), KVT_NOTFOUND);
    assert_string_equal(world.err.text,
                        "admin.token_file: open secret file /none: No such file or directory");
}

static char *
printed(void (*print)(const struct kvt_config *, FILE *))
{
    size_t size;
    char *text;
    FILE *out = fopen(world.file, "w");

    assert_non_null(out);
    print(world.config, out);
    assert_int_equal(fclose(out), 0);
    assert_int_equal(kvt_file_read(&text, &size, world.file, 1u << 20, NULL), KVT_OK);
    return text;
}

static void
the_example_file_says_what_the_defaults_say(void **state)
{
    char *text = printed(kvt_config_print_example);
    char *to = text;

    (void)state;
    assert_int_equal(load_text(text), KVT_OK);
    for (size_t i = 0; i < COUNT; i++)
        assert_int_equal(kvt_config_origin(world.config, i), KVT_ORIGIN_DEFAULT);
    /* Now take away every '#' that stands before a setting. */
    for (const char *at = text; *at != '\0'; at++)
        if (*at != '#' || at[1] == ' ')
            *to++ = *at;
    *to = '\0';
    assert_int_equal(load_text(text), KVT_OK);
    for (size_t i = 0; i < COUNT; i++) {
        assert_string_equal(kvt_config_string(world.config, i), params[i].fallback);
        assert_int_equal(kvt_config_origin(world.config, i), KVT_ORIGIN_FILE);
    }
    kvt_free(text);
}

static void
help_and_manual_name_every_setting(void **state)
{
    char *help = printed(kvt_config_print_flags);
    char *man = printed(kvt_config_print_man);

    (void)state;
    assert_non_null(strstr(help, "  --admin-token-file FILE\n"));
    assert_non_null(strstr(help, "  --admin-dry-run, --no-admin-dry-run\n"));
    assert_non_null(strstr(help, "  --events-mode core|jetstream\n"));
    assert_non_null(strstr(help, "(default 9471, at least 1, at most 65535; KVTIER_ADMIN_PORT)"));
    assert_non_null(strstr(help, "(no default; KVTIER_NATS_URL, NATS_URL, NATS_SERVER)"));
    assert_non_null(strstr(man, ".SH OPTIONS\n"));
    assert_non_null(strstr(man, "\\fB\\-\\-admin\\-port\\fR \\fIN\\fR\n"));
    for (size_t i = NAME + 1; i < COUNT; i++) {
        assert_non_null(strstr(help, params[i].help));
        assert_non_null(strstr(man, params[i].help));
    }
    assert_non_null(strstr(
        help, "        Name of this \"node\", as others see it in events, reports and tables:\n"
              "        keep it short, because it stands in every one of them. 'Quotes' and a \\\n"
              "        must survive the manual.\n"));
    assert_non_null(strstr(man, "'Quotes' and a \\e must survive the manual.\n"));
    kvt_free(help);
    kvt_free(man);
}

static void
print_json(const struct kvt_config *config, FILE *out)
{
    kvt_config_print_show(config, out, true, true);
}

static void
print_text(const struct kvt_config *config, FILE *out)
{
    kvt_config_print_show(config, out, true, false);
}

static void
show_tells_values_and_where_they_come_from(void **state)
{
    struct json_object *root;
    struct json_object *row;
    struct json_object *member;
    char *text;

    (void)state;
    assert_int_equal(load_text("name: \"a\\\"b\"\n"), KVT_OK);
    assert_int_equal(kvt_config_set_flag(world.config, "admin-port", "12", NULL), KVT_OK);
    text = printed(print_json);
    root = json_tokener_parse(text);
    kvt_free(text);
    assert_non_null(root);
    assert_int_equal(json_object_object_length(root), COUNT);
    assert_true(json_object_object_get_ex(root, "name", &row));
    assert_true(json_object_object_get_ex(row, "value", &member));
    assert_string_equal(json_object_get_string(member), "a\"b");
    assert_true(json_object_object_get_ex(row, "origin", &member));
    assert_string_equal(json_object_get_string(member), "file");
    assert_true(json_object_object_get_ex(row, "where", &member));
    assert_non_null(strstr(json_object_get_string(member), "c.yaml:1:7"));
    assert_true(json_object_object_get_ex(root, "admin.port", &row));
    assert_true(json_object_object_get_ex(row, "value", &member));
    assert_int_equal(json_object_get_int(member), 12);
    json_object_put(root);
    text = printed(print_text);
    assert_non_null(strstr(text, "admin.port: 12  # flag --admin-port\n"));
    assert_non_null(strstr(text, "cold.quota: \"\"  # default\n"));
    kvt_free(text);
}

static void
show_hides_passwords(void **state)
{
    static const char *const urls[] = {"nats://user:geheim@h:4222", "user:geheim@h:4222",
                                       "nats://geheim@h,nats://u:geheim@i"};

    (void)state;
    for (size_t i = 0; i < sizeof(urls) / sizeof(urls[0]); i++) {
        char *text;

        assert_int_equal(kvt_config_set_flag(world.config, "nats-url", urls[i], NULL), KVT_OK);
        text = printed(print_json);
        assert_null(strstr(text, "geheim"));
        assert_non_null(strstr(text, "***@h"));
        kvt_free(text);
        text = printed(print_text);
        assert_null(strstr(text, "geheim"));
        kvt_free(text);
    }
}

static bool
build_once(void *arg)
{
    struct kvt_config *config;
    enum kvt_err rc;

    (void)arg;
    rc = kvt_config_new(&config, params, COUNT, NULL);
    if (rc == KVT_OK)
        rc = kvt_config_load_file(config, world.file, NULL);
    if (rc == KVT_OK)
        rc = kvt_config_load_env(config, NULL);
    if (rc == KVT_OK)
        rc = kvt_config_set_flag(config, "name", "x", NULL);
    assert_true(rc == KVT_OK || rc == KVT_NOMEM);
    kvt_config_free(config);
    return rc == KVT_OK;
}

static void
survives_every_allocation_failure(void **state)
{
    (void)state;
    assert_int_equal(setenv("NATS_URL", "nats://b", 1), 0);
    assert_int_equal(load_text("admin: {port: 7}\nname: b\n"), KVT_OK);
    assert_true(test_sweep_allocations(build_once, NULL) > COUNT);
}

/* Whatever is in the file, the answer is "fine" or a message that starts with its name. */
static void
damaged_files_are_refused_and_nothing_worse(void **state)
{
    static const char good[] = "admin:\n  port: 7\n  dry_run: yes\nhot: {cap: 2MiB, wait: 3s}\n"
                               "name: &n \"x y\"\nnats.url: *n\nevents:\n  mode: core\n";
    uint64_t seed = test_seed();
    unsigned refused_count = 0;

    (void)state;
    for (int round = 0; round < 2000; round++) {
        char text[sizeof(good)];
        enum kvt_err rc;

        memcpy(text, good, sizeof(good));
        for (uint64_t left = 1 + kvt_random_below(&seed, 3); left > 0; left--)
            text[kvt_random_below(&seed, sizeof(good) - 1)] =
                (char)(1 + kvt_random_below(&seed, 255));
        kvt_config_free(world.config);
        assert_int_equal(kvt_config_new(&world.config, params, COUNT, NULL), KVT_OK);
        rc = load_text(text);
        if (rc == KVT_OK)
            continue;
        refused_count++;
        assert_true(rc == KVT_INVALID || rc == KVT_RANGE);
        assert_ptr_equal(strstr(world.err.text, world.file), world.err.text);
    }
    assert_true(refused_count > 500);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(defaults_are_read_by_type),
        TEST(the_higher_source_wins_in_every_order),
        TEST(an_alias_counts_after_the_own_name_and_empty_is_unset),
        TEST(files_may_be_nested_dotted_quoted_or_empty),
        TEST(file_errors_name_line_column_and_the_nearest_key),
        TEST(a_missing_or_huge_file_is_an_error),
        TEST(flags),
        TEST(what_is_out_of_reach_is_told_apart_from_what_is_wrong),
        TEST(a_long_path_keeps_line_and_column),
        TEST(a_default_that_breaks_its_own_rule_is_found_at_once),
        TEST(secrets_come_from_files_only_we_can_read),
        TEST(a_secret_is_a_plain_file),
        TEST(the_example_file_says_what_the_defaults_say),
        TEST(help_and_manual_name_every_setting),
        TEST(show_tells_values_and_where_they_come_from),
        TEST(show_hides_passwords),
        TEST(survives_every_allocation_failure),
        TEST(damaged_files_are_refused_and_nothing_worse),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
