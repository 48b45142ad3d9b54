#include <string.h>

#include "cli/frame/cli_settings.h"
#include "cli/frame/command.h"
#include "cli/help/cmd_help.h"
#include "cli/help/help_commands.h"

/* ---- what all three need ---- */

/* What prints the names of contexts when they are to be completed. */
#define NAMES "kvtier context ls --names 2>/dev/null"

static bool
is_context(const struct kvt_param *param)
{
    return strcmp(param->key, "context") == 0;
}

static const char *
words_of(const struct cli_command *command)
{
    return command->words == NULL ? "" : command->words;
}

/* Words of "a|b" separated by blanks. */
static void
print_words(FILE *out, const char *words)
{
    for (; *words != '\0'; words++)
        (void)fputc(*words == '|' ? ' ' : *words, out);
}

static void
print_flags(FILE *out, const struct kvt_param *params, size_t count)
{
    char name[CLI_HELP_FLAG_MAX];
    char value[CLI_HELP_FLAG_MAX];

    for (size_t i = 0; i < count; i++) {
        cli_help_flag(&params[i], name, value);
        (void)fprintf(out, " %s", name);
    }
}

/* Call `each` for every first word once, with the `count` commands that begin with it. */
static void
each_noun(FILE *out, const struct cli_command_list *list,
          void (*each)(FILE *out, const char *noun, const struct cli_command *rows, size_t count))
{
    char noun[CLI_HELP_FLAG_MAX];

    for (size_t i = 0; i < list->count;) {
        const size_t size = strcspn(list->rows[i].path, " ");
        size_t end = i + 1;

        (void)snprintf(noun, sizeof(noun), "%.*s", (int)size, list->rows[i].path);
        while (end < list->count && strncmp(list->rows[end].path, noun, size) == 0 &&
               list->rows[end].path[size] == ' ')
            end++;
        each(out, noun, &list->rows[i], end - i);
        i = end;
    }
}

static void
print_noun(FILE *out, const char *noun, const struct cli_command *rows, size_t count)
{
    (void)rows;
    (void)count;
    (void)fprintf(out, " %s", noun);
}

/* Inside single quotes. */
static void
print_quoted(FILE *out, const char *text, const char *also)
{
    for (; *text != '\0'; text++) {
        if (*text == '\'')
            (void)fputs("'\\''", out);
        else if (strchr(also, *text) != NULL)
            (void)fprintf(out, "\\%c", *text);
        else
            (void)fputc(*text, out);
    }
}

/* ---- bash ---- */

static void
bash_verbs(FILE *out, const char *noun, const struct cli_command *rows, size_t count)
{
    const char *blank = strchr(rows[0].path, ' ');

    if (blank == NULL)
        return;
    (void)fprintf(out, "        %s) words='", noun);
    for (size_t i = 0; i < count; i++)
        (void)fprintf(out, "%s%s", i == 0 ? "" : " ", strchr(rows[i].path, ' ') + 1);
    (void)fputs("' ;;\n", out);
}

/* What may stand behind a flag: `path` is its command's, "" for the flags of all. */
static void
bash_values(FILE *out, const char *path, const struct kvt_param *params, size_t count)
{
    char name[CLI_HELP_FLAG_MAX];
    char value[CLI_HELP_FLAG_MAX];

    for (size_t i = 0; i < count; i++) {
        if (params[i].type == KVT_CONFIG_BOOL)
            continue;
        cli_help_flag(&params[i], name, value);
        (void)fprintf(out, "        '%s'*' %s') ", path, name);
        if (is_context(&params[i])) {
            (void)fputs("words=$(" NAMES ") ;;\n", out);
        } else if (params[i].type == KVT_CONFIG_ENUM) {
            (void)fputs("words='", out);
            print_words(out, params[i].max);
            (void)fputs("' ;;\n", out);
        } else if (params[i].type == KVT_CONFIG_PATH || params[i].type == KVT_CONFIG_SECRET) {
            (void)fputs("COMPREPLY=($(compgen -f -- \"$word\")); return ;;\n", out);
        } else {
            (void)fputs("return ;;\n", out);
        }
    }
}

static void
bash_command(FILE *out, const struct cli_command *command)
{
    (void)fprintf(out, "        '%s'*) words=", command->path);
    if (strcmp(words_of(command), "CONTEXT") == 0) {
        (void)fputs("$(" NAMES ") flags='", out);
    } else {
        (void)fputc('\'', out);
        if (strcmp(words_of(command), "FILE") != 0)
            print_words(out, words_of(command));
        (void)fputs("' flags='", out);
    }
    print_flags(out, command->options, command->option_count);
    (void)fputs("' ;;\n", out);
}

static void
print_bash(FILE *out, const struct cli_command_list *list)
{
    (void)fputs("# bash completion of kvtier, made from its command table.\n"
                "_kvtier() {\n"
                "    local word words='' flags='' path='' i\n"
                "    COMPREPLY=()\n"
                "    word=${COMP_WORDS[COMP_CWORD]}\n"
                "    for ((i = 1; i < COMP_CWORD; i++)); do\n"
                "        case ${COMP_WORDS[i]} in -*) break ;; esac\n"
                "        path=${path:+$path }${COMP_WORDS[i]}\n"
                "    done\n"
                "    case \"$path ${COMP_WORDS[COMP_CWORD-1]}\" in\n"
                "        *' -o') words='",
                out);
    print_words(out, cli_settings[CLI_SETTING_OUTPUT].max);
    (void)fputs("' ;;\n"
                "        *' --config') COMPREPLY=($(compgen -f -- \"$word\")); return ;;\n",
                out);
    for (size_t i = 0; i < list->count; i++)
        bash_values(out, list->rows[i].path, list->rows[i].options, list->rows[i].option_count);
    bash_values(out, "", cli_settings, CLI_SETTING_COUNT);
    (void)fputs("    esac\n"
                "    if [[ -n $words ]]; then\n"
                "        COMPREPLY=($(compgen -W \"$words\" -- \"$word\")); return\n"
                "    fi\n"
                "    case $path in\n        '') words='",
                out);
    each_noun(out, list, print_noun);
    (void)fputs("' ;;\n", out);
    each_noun(out, list, bash_verbs);
    for (size_t i = 0; i < list->count; i++)
        bash_command(out, &list->rows[i]);
    (void)fputs("    esac\n"
                "    [[ $word == -* ]] && words=\"$flags --help --json --config",
                out);
    print_flags(out, cli_settings, CLI_SETTING_COUNT);
    (void)fputs("\"\n    COMPREPLY=($(compgen -W \"$words\" -- \"$word\"))\n"
                "    if [[ ${#COMPREPLY[@]} -eq 0 ]]; then\n"
                "        COMPREPLY=($(compgen -f -- \"$word\"))\n    fi\n"
                "}\ncomplete -F _kvtier kvtier\n",
                out);
}

/* ---- zsh ---- */

static void
zsh_params(FILE *out, const struct kvt_param *params, size_t count, const char *bare)
{
    char name[CLI_HELP_FLAG_MAX];
    char value[CLI_HELP_FLAG_MAX];

    for (size_t i = 0; i < count; i++) {
        const enum kvt_config_type type = params[i].type;
        const bool optional = bare != NULL && strcmp(bare, params[i].key) == 0;

        cli_help_flag(&params[i], name, value);
        (void)fprintf(out, " \\\n            '%s%s[", name,
                      type == KVT_CONFIG_BOOL ? "" : (optional ? "=-" : "="));
        print_quoted(out, params[i].help, "[]:\\");
        (void)fputs("]", out);
        if (is_context(&params[i])) {
            (void)fputs(":context:{compadd -- $(" NAMES ")}", out);
        } else if (type == KVT_CONFIG_ENUM) {
            (void)fputs(":value:(", out);
            print_words(out, params[i].max);
            (void)fputc(')', out);
        } else if (type == KVT_CONFIG_PATH || type == KVT_CONFIG_SECRET) {
            (void)fputs(":file:_files", out);
        } else if (type != KVT_CONFIG_BOOL) {
            (void)fprintf(out, "%s:value:", optional ? ":" : "");
        }
        (void)fputc('\'', out);
    }
}

static void
zsh_verbs(FILE *out, const char *noun, const struct cli_command *rows, size_t count)
{
    if (strchr(rows[0].path, ' ') == NULL)
        return;
    (void)fprintf(out, "        %s) verbs=(", noun);
    for (size_t i = 0; i < count; i++) {
        (void)fprintf(out, " '%s:", strchr(rows[i].path, ' ') + 1);
        print_quoted(out, rows[i].summary, ":\\");
        (void)fputc('\'', out);
    }
    (void)fputs(") ;;\n", out);
}

static void
zsh_noun(FILE *out, const char *noun, const struct cli_command *rows, size_t count)
{
    (void)fprintf(out, " '%s:", noun);
    if (count == 1) {
        print_quoted(out, rows[0].summary, ":\\");
    } else {
        for (size_t i = 0; i < count; i++)
            (void)fprintf(out, "%s%s", i == 0 ? "" : ", ", strchr(rows[i].path, ' ') + 1);
    }
    (void)fputc('\'', out);
}

static void
print_zsh(FILE *out, const struct cli_command_list *list)
{
    (void)fputs("#compdef kvtier\n# zsh completion of kvtier, made from its command table.\n"
                "_kvtier() {\n"
                "    local -a nouns verbs global\n    local path\n"
                "    nouns=(",
                out);
    each_noun(out, list, zsh_noun);
    (void)fputs(")\n    global=('--help[What the command does]' '--json[The same as -o json]' \\\n"
                "            '--config=[Settings]:file:_files' '-o[Form]:value:(",
                out);
    print_words(out, cli_settings[CLI_SETTING_OUTPUT].max);
    (void)fputs(")'", out);
    zsh_params(out, cli_settings, CLI_SETTING_COUNT, NULL);
    (void)fputs(")\n    if (( CURRENT == 2 )); then\n"
                "        _describe command nouns; return\n    fi\n"
                "    verbs=()\n    case $words[2] in\n",
                out);
    each_noun(out, list, zsh_verbs);
    (void)fputs("    esac\n    path=$words[2]\n"
                "    if (( $#verbs )); then\n"
                "        if (( CURRENT == 3 )); then _describe command verbs; return; fi\n"
                "        path=\"$words[2] $words[3]\"\n        shift words; (( CURRENT-- ))\n"
                "    fi\n    shift words; (( CURRENT-- ))\n    case $path in\n",
                out);
    for (size_t i = 0; i < list->count; i++) {
        const struct cli_command *command = &list->rows[i];

        (void)fprintf(out, "        '%s') _arguments \"$global[@]\"", command->path);
        zsh_params(out, command->options, command->option_count, command->bare);
        if (strcmp(words_of(command), "FILE") == 0) {
            (void)fputs(" '*:file:_files'", out);
        } else if (strcmp(words_of(command), "CONTEXT") == 0) {
            (void)fputs(" '1:context:{compadd -- $(" NAMES ")}'", out);
        } else if (words_of(command)[0] != '\0') {
            (void)fputs(" '1:word:(", out);
            print_words(out, words_of(command));
            (void)fputs(")'", out);
        }
        (void)fputs(" ;;\n", out);
    }
    (void)fputs("    esac\n}\n"
                "if [[ $funcstack[1] == _kvtier ]]; then _kvtier \"$@\"; "
                "else compdef _kvtier kvtier; fi\n",
                out);
}

/* ---- fish ---- */

static void
fish_params(FILE *out, const struct kvt_param *params, size_t count, const char *condition)
{
    char name[CLI_HELP_FLAG_MAX];
    char value[CLI_HELP_FLAG_MAX];

    for (size_t i = 0; i < count; i++) {
        const enum kvt_config_type type = params[i].type;

        cli_help_flag(&params[i], name, value);
        (void)fprintf(out, "complete -c kvtier%s -l %s", condition, name + 2);
        if (is_context(&params[i])) {
            (void)fputs(" -x -a '(" NAMES ")'", out);
        } else if (type == KVT_CONFIG_ENUM) {
            (void)fputs(" -x -a '", out);
            print_words(out, params[i].max);
            (void)fputc('\'', out);
        } else if (type == KVT_CONFIG_PATH || type == KVT_CONFIG_SECRET) {
            (void)fputs(" -r -F", out);
        } else if (type != KVT_CONFIG_BOOL) {
            (void)fputs(" -x", out);
        }
        (void)fputs(" -d '", out);
        for (const char *at = params[i].help; *at != '\0'; at++) {
            if (*at == '\'' || *at == '\\')
                (void)fputc('\\', out);
            (void)fputc(*at, out);
        }
        (void)fputs("'\n", out);
    }
}

static void
fish_noun(FILE *out, const char *noun, const struct cli_command *rows, size_t count)
{
    (void)fprintf(out, "complete -c kvtier -f -n __fish_use_subcommand -a %s -d '%s'\n", noun,
                  count == 1 ? rows[0].summary : "");
    if (strchr(rows[0].path, ' ') == NULL)
        return;
    for (size_t i = 0; i < count; i++) {
        (void)fprintf(out,
                      "complete -c kvtier -f -n '__fish_seen_subcommand_from %s; and not "
                      "__fish_seen_subcommand_from",
                      noun);
        for (size_t k = 0; k < count; k++)
            (void)fprintf(out, " %s", strchr(rows[k].path, ' ') + 1);
        (void)fprintf(out, "' -a %s -d '", strchr(rows[i].path, ' ') + 1);
        print_quoted(out, rows[i].summary, "");
        (void)fputs("'\n", out);
    }
}

static void
fish_command(FILE *out, const struct cli_command *command)
{
    char condition[2 * CLI_HELP_FLAG_MAX + 128];
    const char *blank = strchr(command->path, ' ');
    const int size = blank == NULL ? (int)strlen(command->path) : (int)(blank - command->path);

    (void)snprintf(condition, sizeof(condition), " -n '__fish_seen_subcommand_from %.*s%s%s'", size,
                   command->path, blank == NULL ? "" : "; and __fish_seen_subcommand_from",
                   blank == NULL ? "" : blank);
    fish_params(out, command->options, command->option_count, condition);
    if (words_of(command)[0] == '\0')
        return;
    (void)fprintf(out, "complete -c kvtier%s", condition);
    if (strcmp(words_of(command), "FILE") == 0) {
        (void)fputs(" -F\n", out);
        return;
    }
    (void)fputs(" -f -a '", out);
    if (strcmp(words_of(command), "CONTEXT") == 0)
        (void)fputs("(" NAMES ")", out);
    else
        print_words(out, words_of(command));
    (void)fputs("'\n", out);
}

static void
print_fish(FILE *out, const struct cli_command_list *list)
{
    (void)fputs("# fish completion of kvtier, made from its command table.\n"
                "complete -c kvtier -f\n"
                "complete -c kvtier -s h -l help -d 'What the command does'\n"
                "complete -c kvtier -l json -d 'The same as -o json'\n"
                "complete -c kvtier -l config -r -F -d 'Settings'\n"
                "complete -c kvtier -s o -x -a '",
                out);
    print_words(out, cli_settings[CLI_SETTING_OUTPUT].max);
    (void)fputs("' -d 'Form of the answer'\n", out);
    fish_params(out, cli_settings, CLI_SETTING_COUNT, "");
    each_noun(out, list, fish_noun);
    for (size_t i = 0; i < list->count; i++)
        fish_command(out, &list->rows[i]);
}

enum cli_exit
cli_completion_run(const struct cli_context *context)
{
    static const struct {
        const char *shell;
        void (*print)(FILE *out, const struct cli_command_list *list);
    } shells[] = {{"bash", print_bash}, {"zsh", print_zsh}, {"fish", print_fish}};

    for (size_t i = 0; i < sizeof(shells) / sizeof(shells[0]); i++) {
        if (strcmp(shells[i].shell, context->arguments[0]) == 0) {
            shells[i].print(context->raw, context->commands);
            return CLI_EXIT_DONE;
        }
    }
    return cli_context_usage(context, "no completion for \"%s\": bash, zsh or fish",
                             context->arguments[0]);
}
