#include "cli/cli_app.h"

#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/config/config.h"
#include "base/core/alloc.h"
#include "base/core/log.h"
#include "base/text/parse.h"
#include "cli/command_table.h"
#include "cli/frame/cli_settings.h"
#include "cli/frame/context.h"
#include "cli/frame/contexts.h"
#include "cli/help/cmd_help.h"
#include "cli/help/help_commands.h"
#include "cli/output/csv_output.h"
#include "cli/output/yaml_output.h"

enum { FLAG_MAX = 64, SUGGEST_MAX = 128 };

/* As in config/cli.def. */
enum output { OUTPUT_TABLE, OUTPUT_WIDE, OUTPUT_JSON, OUTPUT_JSONL, OUTPUT_YAML, OUTPUT_CSV };

/* What the command line said, before anything is done about it. */
struct line {
    const struct cli_command *command;
    const char *pending; /* a noun that still wants its verb */
    struct kvt_config *settings;
    struct kvt_config *options;
    const char *file; /* --config */
    const char **arguments;
    size_t argument_count;
    bool help;
    bool version;
    bool literal; /* behind "--" */
};

static enum kvt_err
take_word(struct line *line, const char *word, struct kvt_error *err)
{
    const char *near;
    size_t words;

    if (line->command != NULL) {
        line->arguments[line->argument_count++] = word;
        return KVT_OK;
    }
    if (line->pending == NULL)
        line->command = cli_command_find(&cli_command_table, word, NULL, &words);
    else
        line->command = cli_command_find(&cli_command_table, line->pending, word, &words);
    if (line->command != NULL) {
        if (line->command->option_count == 0)
            return KVT_OK;
        return kvt_config_new(&line->options, line->command->options, line->command->option_count,
                              err);
    }
    if (line->pending == NULL && cli_command_is_noun(&cli_command_table, word)) {
        line->pending = word;
        return KVT_OK;
    }
    near = cli_command_suggest(&cli_command_table, line->pending == NULL ? word : line->pending,
                               line->pending == NULL ? NULL : word);
    return kvt_error_set(err, KVT_INVALID, "unknown command \"%s%s%s\"%s%s%s",
                         line->pending == NULL ? "" : line->pending,
                         line->pending == NULL ? "" : " ", word,
                         near == NULL ? "" : " (did you mean \"", near == NULL ? "" : near,
                         near == NULL ? "" : "\"?)");
}

static void
flag_of(const struct kvt_param *param, char flag[FLAG_MAX])
{
    (void)snprintf(flag, FLAG_MAX, "%s", param->key);
    for (char *at = flag; *at != '\0'; at++)
        if (*at == '.' || *at == '_')
            *at = '-';
}

static bool
has_flag(const struct kvt_param *params, size_t count, const char *name)
{
    char flag[FLAG_MAX];

    for (size_t i = 0; i < count; i++) {
        flag_of(&params[i], flag);
        if (strcmp(flag, name) == 0)
            return true;
    }
    return false;
}

static enum kvt_err
unknown_flag(const struct line *line, const char *name, struct kvt_error *err)
{
    char texts[SUGGEST_MAX][FLAG_MAX];
    static const char *const plain[] = {"config", "json", "help", "version"};
    const char *words[SUGGEST_MAX];
    const char *near;
    size_t count = 0;

    for (size_t i = 0; i < sizeof(plain) / sizeof(plain[0]); i++)
        words[count++] = plain[i];
    for (size_t i = 0; line->command != NULL && i < line->command->option_count; i++) {
        flag_of(&line->command->options[i], texts[count]);
        words[count] = texts[count];
        count++;
    }
    for (size_t i = 0; i < CLI_SETTING_COUNT; i++) {
        flag_of(&cli_settings[i], texts[count]);
        words[count] = texts[count];
        count++;
    }
    assert(count <= SUGGEST_MAX);
    near = kvt_suggest(name, words, count);
    return kvt_error_set(err, KVT_INVALID, "unknown flag --%s%s%s%s", name,
                         near == NULL ? "" : " (did you mean --", near == NULL ? "" : near,
                         near == NULL ? "" : "?)");
}

/* A flag of the command or of all: `value` is what stood behind '=', or NULL; `next` the argument
 * behind, which is used (and `used` set) when the flag wants a value. */
static enum kvt_err
take_flag(struct line *line, const char *name, const char *value, const char *next, bool *used,
          struct kvt_error *err)
{
    const struct cli_command *command = line->command;
    const bool own = command != NULL && has_flag(command->options, command->option_count, name);
    struct kvt_config *config = own ? line->options : line->settings;

    *used = false;
    if (!own && !has_flag(cli_settings, CLI_SETTING_COUNT, name))
        return unknown_flag(line, name, err);
    if (value == NULL && own && command->bare != NULL && strcmp(command->bare, name) == 0)
        value = command->bare_as;
    if (value == NULL && !kvt_config_flag_is_bool(config, name)) {
        if (next == NULL)
            return kvt_error_set(err, KVT_INVALID, "--%s wants a value", name);
        value = next;
        *used = true;
    }
    return kvt_config_set_flag(config, name, value, err);
}

/* -o is a file elsewhere, and here how to print. */
static enum kvt_err
take_output(struct line *line, const char *value, const char *next, bool *used,
            struct kvt_error *err)
{
    const struct cli_command *command = line->command;
    const char *text = value != NULL ? value : next;
    const enum kvt_err rc = take_flag(line, "output", value, next, used, err);

    if (rc != KVT_INVALID || text == NULL || strpbrk(text, "./") == NULL)
        return rc;
    return kvt_error_set(
        err, rc, "-o: \"%.60s\" looks like a file, and -o says how to print%s", text,
        command != NULL && has_flag(command->options, command->option_count, "out") ? ": --out FILE"
                                                                                    : "");
}

static enum kvt_err
take_long(struct line *line, const char *text, const char *next, bool *used, struct kvt_error *err)
{
    const char *equals = strchr(text, '=');
    char name[FLAG_MAX];

    *used = false;
    if (equals == NULL)
        (void)snprintf(name, sizeof(name), "%s", text);
    else
        (void)snprintf(name, sizeof(name), "%.*s", (int)(equals - text), text);
    if (strcmp(name, "help") == 0) {
        line->help = true;
        return KVT_OK;
    }
    if (strcmp(name, "version") == 0) {
        line->version = true;
        return KVT_OK;
    }
    if (strcmp(name, "json") == 0)
        return kvt_config_set_flag(line->settings, "output", "json", err);
    if (strcmp(name, "config") != 0)
        return take_flag(line, name, equals == NULL ? NULL : equals + 1, next, used, err);
    line->file = equals == NULL ? next : equals + 1;
    *used = equals == NULL;
    if (line->file == NULL)
        return kvt_error_set(err, KVT_INVALID, "--config wants a file");
    return KVT_OK;
}

static enum kvt_err
take_short(struct line *line, const char *text, const char *next, bool *used, struct kvt_error *err)
{
    *used = false;
    switch (text[0]) {
    case 'h': line->help = true; break;
    case 'V': line->version = true; break;
    case 'o': return take_output(line, text[1] != '\0' ? text + 1 : NULL, next, used, err);
    default: return kvt_error_set(err, KVT_INVALID, "unknown flag -%s", text);
    }
    if (text[1] != '\0')
        return kvt_error_set(err, KVT_INVALID, "unknown flag -%s", text);
    return KVT_OK;
}

static enum kvt_err
parse(struct line *line, int argc, const char *const *argv, struct kvt_error *err)
{
    enum kvt_err rc = KVT_OK;

    for (int i = 1; i < argc && rc == KVT_OK; i++) {
        const char *text = argv[i];
        const char *next = i + 1 < argc ? argv[i + 1] : NULL;
        bool used = false;

        if (line->literal || text[0] != '-' || text[1] == '\0')
            rc = take_word(line, text, err);
        else if (strcmp(text, "--") == 0)
            line->literal = true;
        else if (text[1] == '-')
            rc = take_long(line, text + 2, next, &used, err);
        else
            rc = take_short(line, text + 1, next, &used, err);
        if (used)
            i++;
    }
    return rc;
}

/* These change the file of contexts, or repair it: they must not stumble over what is in it. */
static bool
is_about_contexts(const struct cli_command *command)
{
    return strncmp(command->path, "context ", strlen("context ")) == 0;
}

/* The file: the one named must be there, the usual one may be missing.  One that is named is the
 * installation that is meant: the context in use, perhaps of another, stays out of it. */
static enum kvt_err
load(struct line *line, struct kvt_error *err)
{
    enum kvt_err rc = KVT_OK;

    if (line->file != NULL)
        rc = kvt_config_load_file(line->settings, line->file, err);
    else if (access(CLI_SETTINGS_FILE, F_OK) == 0)
        rc = kvt_config_load_file(line->settings, CLI_SETTINGS_FILE, err);
    if (rc == KVT_OK)
        rc = kvt_config_load_env(line->settings, err);
    if (rc == KVT_OK && !is_about_contexts(line->command))
        rc = cli_contexts_apply(line->settings, line->file == NULL, err);
    return rc;
}

/* Run it, with its answer in the form that is wanted. */
static enum cli_exit
run(const struct cli_command *command, struct cli_context *context, enum output output)
{
    enum cli_exit status;
    bool whole = true;

    context->json = output != OUTPUT_TABLE && output != OUTPUT_WIDE;
    context->wide = output == OUTPUT_WIDE;
    if (output == OUTPUT_YAML)
        context->out = cli_yaml_output_open(context->raw);
    else if (output == OUTPUT_CSV)
        context->out = cli_csv_output_open(context->raw, command->lists);
    if (context->out == NULL) {
        (void)fprintf(context->err, "kvtier: out of memory\n");
        return CLI_EXIT_FAILED;
    }
    status = command->run(context);
    if (context->out != context->raw) {
        whole = ferror(context->out) == 0;
        whole = fclose(context->out) == 0 && whole;
        context->out = context->raw;
    }
    if (fflush(context->out) == 0 && ferror(context->out) == 0 && whole)
        return status;
    if (errno != EPIPE)
        (void)fprintf(context->err, "kvtier: the answer could not be written whole\n");
    return status == CLI_EXIT_DONE ? CLI_EXIT_FAILED : status;
}

/* A command that can look into a bucket at --s3 asks the gateway without it, which has one bucket:
 * then --bucket would be passed over. */
static bool
is_bucket_nowhere(const struct line *line)
{
    const struct cli_command *command = line->command;

    if (command->bucket_alone ||
        kvt_config_origin(line->settings, CLI_SETTING_BUCKET) != KVT_ORIGIN_FLAG)
        return false;
    for (size_t i = 0; i < command->option_count; i++)
        if (strcmp(command->options[i].key, "s3") == 0)
            return !kvt_config_is_set(line->options, i);
    return false;
}

static enum cli_exit
dispatch(struct line *line, struct cli_context *context)
{
    const struct cli_command *command = line->command;
    struct kvt_error err = {0};
    size_t min;
    size_t max;

    if (load(line, &err) != KVT_OK) {
        (void)cli_context_fail(context, &err);
        return err.code == KVT_NOTFOUND ? CLI_EXIT_NOTFOUND : CLI_EXIT_USAGE;
    }
    kvt_log_setup("kvtier",
                  (enum kvt_log_level)kvt_config_enum(line->settings, CLI_SETTING_LOG_LEVEL),
                  KVT_LOG_TEXT);
    cli_command_arguments(command, &min, &max);
    if (line->argument_count < min)
        return cli_context_usage(context, "%s wants %s", command->path, command->arguments);
    if (line->argument_count > max)
        return cli_context_usage(context, "%s: one argument too many: \"%s\"", command->path,
                                 line->arguments[max]);
    if (is_bucket_nowhere(line))
        return cli_context_usage(context,
                                 "%s: --bucket is of the store at --s3; without that the gateway "
                                 "is asked, about its own bucket",
                                 command->path);
    return run(command, context, (enum output)kvt_config_enum(line->settings, CLI_SETTING_OUTPUT));
}

enum cli_exit
cli_app_run(int argc, const char *const *argv)
{
    struct cli_context context = {
        .commands = &cli_command_table, .out = stdout, .raw = stdout, .err = stderr};
    enum cli_exit status = CLI_EXIT_FAILED;
    struct line line = {0};
    struct kvt_error err = {0};
    enum kvt_err rc;

    (void)signal(SIGPIPE,
                 SIG_IGN); /* a reader that left shows as EPIPE when the answer is flushed */
    rc = kvt_config_new(&line.settings, cli_settings, CLI_SETTING_COUNT, &err);
    line.arguments = kvt_calloc((size_t)argc + 1, sizeof(*line.arguments));
    if (rc != KVT_OK || line.arguments == NULL) {
        (void)fprintf(stderr, "kvtier: out of memory\n");
        goto done;
    }
    rc = parse(&line, argc, argv, &err);
    context.command = line.command;
    context.settings = line.settings;
    context.options = line.options;
    context.arguments = line.arguments;
    context.argument_count = line.argument_count;
    if (rc != KVT_OK)
        status = cli_context_usage(&context, "%s", err.text);
    else if (line.version)
        status = cli_help_version(&context);
    else if (line.help || (line.command == NULL && line.pending == NULL))
        status = cli_help_print(&context, line.pending, line.help);
    else if (line.command == NULL)
        status = cli_help_print(&context, line.pending, false);
    else
        status = dispatch(&line, &context);
done:
    kvt_free(line.arguments);
    kvt_config_free(line.options);
    kvt_config_free(line.settings);
    return status;
}
