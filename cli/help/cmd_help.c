#include "cli/help/cmd_help.h"

#include <string.h>

#include "cli/frame/cli_settings.h"
#include "cli/frame/command.h"
#include "cli/help/help_commands.h"
#include "kvtier/version.h"

enum { WIDTH = 80, INDENT = 6 };

void
cli_help_flag(const struct kvt_param *param, char name[CLI_HELP_FLAG_MAX],
              char value[CLI_HELP_FLAG_MAX])
{
    static const char *const words[] = {
        [KVT_CONFIG_STRING] = "TEXT", [KVT_CONFIG_BOOL] = "",         [KVT_CONFIG_INT] = "N",
        [KVT_CONFIG_SIZE] = "SIZE",   [KVT_CONFIG_DURATION] = "TIME", [KVT_CONFIG_RATIO] = "RATIO",
        [KVT_CONFIG_PATH] = "PATH",   [KVT_CONFIG_SECRET] = "FILE",   [KVT_CONFIG_ENUM] = NULL,
    };
    const char *word = words[param->type];

    (void)snprintf(name, CLI_HELP_FLAG_MAX, "--%s", param->key);
    for (char *at = name + 2; *at != '\0'; at++)
        if (*at == '.' || *at == '_')
            *at = '-';
    (void)snprintf(value, CLI_HELP_FLAG_MAX, "%s", word == NULL ? param->max : word);
}

static void
print_wrapped(FILE *out, const char *text, size_t indent)
{
    size_t column = indent;

    (void)fprintf(out, "%*s", (int)indent, "");
    while (*text != '\0') {
        const size_t size = strcspn(text, " ");

        if (column > indent && column + 1 + size > WIDTH) {
            (void)fprintf(out, "\n%*s", (int)indent, "");
            column = indent;
        } else if (column > indent) {
            (void)fputc(' ', out);
            column++;
        }
        (void)fprintf(out, "%.*s", (int)size, text);
        column += size;
        text += size;
        text += strspn(text, " ");
    }
    (void)fputc('\n', out);
}

static void
print_param(FILE *out, const struct kvt_param *param, const char *bare)
{
    char name[CLI_HELP_FLAG_MAX];
    char value[CLI_HELP_FLAG_MAX];

    cli_help_flag(param, name, value);
    if (bare != NULL && strcmp(bare, name + 2) == 0)
        (void)fprintf(out, "  %s[=%s]", name, value);
    else
        (void)fprintf(out, "  %s%s%s", name, value[0] == '\0' ? "" : " ", value);
    if (param->fallback[0] != '\0' && param->type != KVT_CONFIG_BOOL)
        (void)fprintf(out, "  (%s)", param->fallback);
    (void)fputc('\n', out);
    print_wrapped(out, param->help, INDENT);
}

static void
print_command(FILE *out, const struct cli_command *command)
{
    (void)fprintf(out, "%s.\n\nusage: kvtier %s%s%s [flags]\n\n", command->summary, command->path,
                  command->arguments[0] == '\0' ? "" : " ", command->arguments);
    print_wrapped(out, command->details, 0);
    if (command->option_count > 0)
        (void)fputs("\nflags:\n", out);
    for (size_t i = 0; i < command->option_count; i++)
        print_param(out, &command->options[i], command->bare);
    (void)fprintf(out, "\nexample:\n  kvtier %s\n\nFlags of every command: kvtier help\n",
                  command->example);
}

static void
print_program(FILE *out, const struct cli_command_list *list, const char *noun)
{
    const size_t size = noun == NULL ? 0 : strlen(noun);

    if (noun == NULL)
        (void)fputs("kvtier: see, test and steer a cold KV-cache tier.\n\n"
                    "usage: kvtier COMMAND [arguments] [flags]\n\ncommands:\n",
                    out);
    else
        (void)fprintf(out, "usage: kvtier %s COMMAND [arguments] [flags]\n\ncommands:\n", noun);
    for (size_t i = 0; i < list->count; i++) {
        const struct cli_command *command = &list->rows[i];

        if (noun != NULL && (strncmp(command->path, noun, size) != 0 || command->path[size] != ' '))
            continue;
        (void)fprintf(out, "  %-18s %s\n", command->path, command->summary);
    }
    if (noun != NULL)
        return;
    (void)fputs("\nflags of every command:\n  -h, --help\n      What the command does.\n"
                "  -V, --version\n      The version.\n  --config FILE  (" CLI_SETTINGS_FILE ")\n"
                "      Settings; a flag or KVTIER_* variable wins over it.\n"
                "  --json\n      The same as -o json.\n",
                out);
    for (size_t i = 0; i < CLI_SETTING_COUNT; i++)
        print_param(out, &cli_settings[i], NULL);
    (void)fputs("\nexit status:\n", out);
#define X(name, number, text) (void)fprintf(out, "  %2d  %s\n", number, text);
    CLI_EXIT_MAP(X)
#undef X
    (void)fputs("\nHelp of one command: kvtier help COMMAND\n", out);
}

enum cli_exit
cli_help_print(const struct cli_context *context, const char *noun, bool asked)
{
    FILE *out = asked ? context->raw : context->err;

    if (context->command != NULL)
        print_command(out, context->command);
    else
        print_program(out, context->commands, noun);
    if (!asked && noun != NULL)
        (void)fprintf(context->err, "\nkvtier: %s wants a command\n", noun);
    return asked ? CLI_EXIT_DONE : CLI_EXIT_USAGE;
}

enum cli_exit
cli_help_run(const struct cli_context *context)
{
    struct cli_context other = *context;
    const char *first = context->argument_count > 0 ? context->arguments[0] : NULL;
    const char *second = context->argument_count > 1 ? context->arguments[1] : NULL;
    const char *near;
    size_t words;

    other.command = NULL;
    if (first == NULL)
        return cli_help_print(&other, NULL, true);
    other.command = cli_command_find(context->commands, first, second, &words);
    if (other.command != NULL)
        return cli_help_print(&other, NULL, true);
    if (second == NULL && cli_command_is_noun(context->commands, first))
        return cli_help_print(&other, first, true);
    near = cli_command_suggest(context->commands, first, second);
    return cli_context_usage(&other, "unknown command \"%s%s%s\"%s%s%s", first,
                             second == NULL ? "" : " ", second == NULL ? "" : second,
                             near == NULL ? "" : " (did you mean \"", near == NULL ? "" : near,
                             near == NULL ? "" : "\"?)");
}

enum cli_exit
cli_help_version(const struct cli_context *context)
{
    if (context->json)
        (void)fprintf(context->out,
                      "{\"schema_version\":1,\"program\":\"kvtier\",\"version\":\"" KVT_VERSION
                      "\"}\n");
    else
        (void)fprintf(context->out, "kvtier " KVT_VERSION "\n");
    return CLI_EXIT_DONE;
}
