/*
 * cli/frame/context.h -- what a command is given, and how it complains.
 *
 * Why: commands never look at argv, the environment or a file themselves.
 * Ownership: everything is borrowed for the command's run.
 * Threads:   the main thread.
 */
#ifndef CLI_FRAME_CONTEXT_H
#define CLI_FRAME_CONTEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "base/config/config.h"
#include "cli/frame/exit.h"
#include "kvtier/error.h"

struct cli_command;
struct cli_command_list;

struct cli_context {
    const struct cli_command_list *commands; /* all */
    const struct cli_command *command;       /* this one; NULL: none was named */
    const struct kvt_config *settings;       /* cli/frame/cli_settings.h */
    const struct kvt_config *options;        /* the command's own rows of cli/frame/options.h */
    const char *const *arguments;
    size_t argument_count;
    const char *gateway_url; /* in place of the setting; NULL: the setting */
    bool json;               /* or what is made of it */
    bool wide;               /* tables with all their columns */
    FILE *out;               /* the answer */
    FILE *raw; /* standard output for what has a form of its own: help, scripts, files called - */
    FILE *err; /* complaints and progress */
};

/** "kvtier: <text>" on the error stream, and for JSON output {"error":{...}} on the answer's.
 *  Returns the exit status for err->code. */
enum cli_exit cli_context_fail(const struct cli_context *context, const struct kvt_error *err);

/** A command line that cannot be meant: message, and where the help is.  Returns CLI_EXIT_USAGE. */
enum cli_exit cli_context_usage(const struct cli_context *context, const char *format, ...)
    KVT_PRINTF(2, 3);

/** True when the error stream is a terminal, so that progress may be drawn. */
bool cli_context_interactive(const struct cli_context *context);

#endif /* CLI_FRAME_CONTEXT_H */
