/*
 * cli/frame/command.h -- the one table of commands.
 *
 * Why: dispatch, help, completion and manual pages are made from it, so none can forget a command.
 * Ownership: static.
 * Threads:   read-only.
 * Limits:    a path has one or two words.
 */
#ifndef CLI_FRAME_COMMAND_H
#define CLI_FRAME_COMMAND_H

#include <stdbool.h>
#include <stddef.h>

#include "base/config/config.h"
#include "cli/frame/context.h"
#include "cli/frame/exit.h"

struct cli_command {
    const char *path;      /* "block show" */
    const char *arguments; /* "HASH", "[PREFIX]", "HASH..." or "" */
    unsigned argument_min;
    unsigned argument_max;
    const char *summary; /* one line, no final stop */
    const char *details; /* a paragraph for help and manual */
    const char *example; /* a command line that works, without "kvtier " */
    const char
        *lists; /* columns of its lists, for cli/output/csv_output.h; NULL: they are not known */
    const char *words;   /* "a|b": completions of the first argument; "FILE" = a file name,
                              "CONTEXT" = the name of a context; "" */
    bool bucket_alone;   /* --bucket means something without --s3 too */
    const char *bare;    /* flag that may come without a value, or NULL */
    const char *bare_as; /* its value then */
    const struct kvt_param *options;
    size_t option_count;
    enum cli_exit (*run)(const struct cli_context *context);
};

extern const struct cli_command cli_commands[];
extern const size_t cli_command_count;

/** The command named by `first` and `second` (NULL allowed); `words` receives how many of the two
 *  belong to its path.  NULL when there is none. */
const struct cli_command *cli_command_find(const char *first, const char *second, size_t *words);

/** Does any command's path begin with `noun` and have a second word? */
bool cli_command_is_noun(const char *noun);

/** The nearest path to what was typed, or NULL. */
const char *cli_command_suggest(const char *first, const char *second);

#endif /* CLI_FRAME_COMMAND_H */
