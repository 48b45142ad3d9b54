#include <ctype.h>
#include <string.h>

#include "cli/frame/cli_settings.h"
#include "cli/frame/command.h"
#include "cli/help/cmd_help.h"
#include "cli/help/help_commands.h"
#include "kvtier/version.h"

/* Text as roff shows it: a leading '.' or quote is no request, '-' is a real minus. */
static void
print_text(FILE *out, const char *text)
{
    if (*text == '.' || *text == '\'')
        (void)fputs("\\&", out);
    for (; *text != '\0'; text++) {
        if (*text == '\\')
            (void)fputs("\\e", out);
        else if (*text == '-')
            (void)fputs("\\-", out);
        else
            (void)fputc(*text, out);
    }
}

static void
print_upper(FILE *out, const char *text)
{
    for (; *text != '\0'; text++)
        (void)fputc(*text == ' ' ? '-' : toupper((unsigned char)*text), out);
}

/* Sections of the page of `path` ("" = the program's) up to its description. */
static void
print_head(FILE *out, const char *path, const char *arguments, const char *summary)
{
    (void)fputs(".\\\" Made by `kvtier manual` from the command table.\n.TH KVTIER", out);
    if (path[0] != '\0')
        (void)fputc('-', out);
    print_upper(out, path);
    (void)fputs(" 1 \"\" \"kvtier " KVT_VERSION "\" \"KVTier manual\"\n.SH NAME\nkvtier", out);
    for (const char *at = path; *at != '\0'; at++)
        (void)fprintf(out, "%s%c", at == path ? "\\-" : "", *at == ' ' ? '-' : *at);
    (void)fputs(" \\- ", out);
    print_text(out, summary);
    (void)fputs("\n.SH SYNOPSIS\n.B kvtier", out);
    if (path[0] != '\0')
        (void)fprintf(out, " %s", path);
    (void)fputc('\n', out);
    if (arguments[0] != '\0')
        (void)fprintf(out, ".I %s\n", arguments);
    (void)fputs(".RI [ flags ]\n.SH DESCRIPTION\n", out);
}

static void
print_params(FILE *out, const struct kvt_param *params, size_t count, const char *bare)
{
    char name[CLI_HELP_FLAG_MAX];
    char value[CLI_HELP_FLAG_MAX];

    for (size_t i = 0; i < count; i++) {
        cli_help_flag(&params[i], name, value);
        (void)fputs(".TP\n\\fB", out);
        print_text(out, name);
        (void)fputs("\\fR", out);
        if (bare != NULL && strcmp(bare, params[i].key) == 0)
            (void)fprintf(out, "[=\\fI%s\\fR]", value);
        else if (value[0] != '\0')
            (void)fprintf(out, " \\fI%s\\fR", value);
        if (params[i].fallback[0] != '\0' && params[i].type != KVT_CONFIG_BOOL) {
            (void)fputs(" (default: ", out);
            print_text(out, params[i].fallback);
            (void)fputc(')', out);
        }
        (void)fputc('\n', out);
        print_text(out, params[i].help);
        (void)fputc('\n', out);
    }
}

static void
print_exits(FILE *out)
{
    (void)fputs(".SH \"EXIT STATUS\"\n", out);
#define X(name, number, text)                                                                      \
    (void)fprintf(out, ".TP\n%d\n", number);                                                       \
    print_text(out, text);                                                                         \
    (void)fputc('\n', out);
    CLI_EXIT_MAP(X)
#undef X
}

static void
print_command(FILE *out, const struct cli_command *command)
{
    print_head(out, command->path, command->arguments, command->summary);
    print_text(out, command->details);
    (void)fputc('\n', out);
    if (command->option_count > 0)
        (void)fputs(".SH OPTIONS\n", out);
    print_params(out, command->options, command->option_count, command->bare);
    (void)fputs(
        ".PP\nThe flags of every command are in\n.BR kvtier (1).\n.SH EXAMPLE\n.nf\nkvtier ", out);
    print_text(out, command->example);
    (void)fputs("\n.fi\n", out);
    print_exits(out);
    (void)fputs(".SH \"SEE ALSO\"\n.BR kvtier (1)\n", out);
}

static void
print_program(FILE *out, const struct cli_command_list *list)
{
    print_head(out, "", "COMMAND", "see, test and steer a cold KV-cache tier");
    (void)fputs("The answer goes to standard output, complaints and progress to standard error.\n"
                ".SH COMMANDS\n",
                out);
    for (size_t i = 0; i < list->count; i++) {
        (void)fprintf(out, ".TP\n.B %s", list->rows[i].path);
        if (list->rows[i].arguments[0] != '\0')
            (void)fprintf(out, " %s", list->rows[i].arguments);
        (void)fputc('\n', out);
        print_text(out, list->rows[i].summary);
        (void)fputs(".\n", out);
    }
    (void)fputs(".SH OPTIONS\nEach is also a setting: the flag wins over the variable\n"
                ".BR KVTIER_ KEY\n(dots as underscores), that over the file, that over the "
                "default.\n.TP\n\\fB\\-\\-config\\fR \\fIFILE\\fR\nSettings in YAML instead of\n"
                ".IR " CLI_SETTINGS_FILE ".\n",
                out);
    print_params(out, cli_settings, CLI_SETTING_COUNT, NULL);
    print_exits(out);
    (void)fputs(".SH FILES\n.TP\n.I " CLI_SETTINGS_FILE "\nSettings of this program.\n"
                ".SH \"SEE ALSO\"\n.BR kvtier\\-advisor (8),\n.BR kvtier\\-gateway (8),\n"
                ".BR kvtier\\-worker (8)\n",
                out);
}

enum cli_exit
cli_manual_run(const struct cli_context *context)
{
    const char *second = context->argument_count > 1 ? context->arguments[1] : NULL;
    const struct cli_command *command;
    size_t words;

    if (context->argument_count == 0) {
        print_program(context->raw, context->commands);
        return CLI_EXIT_DONE;
    }
    command = cli_command_find(context->commands, context->arguments[0], second, &words);
    if (command == NULL || words != context->argument_count)
        return cli_context_usage(context, "no page for \"%s%s%s\"", context->arguments[0],
                                 second == NULL ? "" : " ", second == NULL ? "" : second);
    print_command(context->raw, command);
    return CLI_EXIT_DONE;
}
