/*
 * cli/frame/exit.h -- what a command's exit status means (docs/api.md, "Exit codes of every
 * command").
 *
 * Why: scripts act on the number, so it comes from one table and never from habit.
 */
#ifndef CLI_FRAME_EXIT_H
#define CLI_FRAME_EXIT_H

#include "kvtier/error.h"

/* X(name, number, text) */
#define CLI_EXIT_MAP(X)                                                                            \
    X(DONE, 0, "done")                                                                             \
    X(FAILED, 1, "failed")                                                                         \
    X(USAGE, 2, "usage: unknown command or flag, or a bad value")                                  \
    X(NOTFOUND, 3, "not found")                                                                    \
    X(PARTIAL, 4, "finished, but some items failed")                                               \
    X(TEMPORARY, 5, "temporary: a server is away or busy; retry")                                  \
    X(PRECONDITION, 6, "lock or precondition lost")                                                \
    X(LIMIT, 7, "refused by a safety limit")                                                       \
    X(INTEGRITY, 8, "integrity error found")                                                       \
    X(NOTHING, 9, "nothing to do")                                                                 \
    X(PENDING, 10, "changes pending")

enum cli_exit {
#define X(name, number, text) CLI_EXIT_##name = (number),
    CLI_EXIT_MAP(X)
#undef X
};

/** The exit status that tells a script what `code` means for it. */
enum cli_exit cli_exit_of(enum kvt_err code);

#endif /* CLI_FRAME_EXIT_H */
