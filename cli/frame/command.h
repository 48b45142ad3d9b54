/*
 * cli/frame/command.h -- a command, and the list of all commands (cli/command_table.h).
 *
 * Why: dispatch, help, completion and manual pages are made from one list, so none can forget a
 * command.  They take the list as a parameter, because it lies above them: it names every command's
 * function.
 * Ownership: static.
 * Threads:   read-only.
 * Limits:    a path has one or two words.
 */
#ifndef CLI_FRAME_COMMAND_H
#define CLI_FRAME_COMMAND_H

#include <stdbool.h>
#include <stddef.h>

#include "base/config/config.h"
#include "cli/frame/exit.h"

struct cli_context;

struct cli_command {
    const char *path;      /* "block show" */
    const char *arguments; /* "HASH", "[PREFIX]", "HASH..." or "" */
    size_t argument_max;   /* of "..."; 0: any number */
    const char *summary;   /* one line, no final stop */
    const char *details;   /* a paragraph for help and manual */
    const char *example;   /* a command line that works, without "kvtier " */
    const char *lists;     /* columns for cli/output/csv_output.h; NULL: they are not known */
    const char *words;     /* "a|b": completions of the first argument; "FILE" = a file name,
                              "CONTEXT" = the name of a context; NULL: there are none */
    bool bucket_alone;     /* --bucket means something without --s3 too */
    const char *bare;      /* flag that may come without a value, or NULL */
    const char *bare_as;   /* its value then */
    const struct kvt_param *options;
    size_t option_count;
    enum cli_exit (*run)(const struct cli_context *context);
};

struct cli_command_list {
    const struct cli_command *rows; /* those of one noun side by side, in the order of the help */
    size_t count;
};

/** The command named by `first` and `second` (NULL allowed); `words` receives how many of the two
 *  belong to its path.  NULL when there is none. */
const struct cli_command *cli_command_find(const struct cli_command_list *list, const char *first,
                                           const char *second, size_t *words);

/** True when a command's path begins with `noun` and has a second word. */
bool cli_command_is_noun(const struct cli_command_list *list, const char *noun);

/** The path nearest to what was typed, or NULL. */
const char *cli_command_suggest(const struct cli_command_list *list, const char *first,
                                const char *second);

/** How many arguments it takes, as its `arguments` say: NAME is one, [NAME] is one or none, and
 *  NAME... is one or more. */
void cli_command_arguments(const struct cli_command *command, size_t *min, size_t *max);

#endif /* CLI_FRAME_COMMAND_H */
