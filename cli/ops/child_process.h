/*
 * cli/ops/child_process.h -- a child that runs until we stop it.
 *
 * Why: `kvtier dev` must not leave anything behind: a child has its own process group (Ctrl-C on
 * the terminal reaches us alone, and we stop the children in order) and dies with us, whatever
 * kills us.
 *
 * Ownership: the struct belongs to the caller; cli_child_process_stop() reaps the child.
 * Threads:   the main thread, before it starts others.
 * Limits:    CLI_CHILD_PROCESS_PATH_MAX bytes in a path.
 */
#ifndef CLI_OPS_CHILD_PROCESS_H
#define CLI_OPS_CHILD_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "kvtier/error.h"

#define CLI_CHILD_PROCESS_PATH_MAX 4096

struct cli_child_process {
    const char *name; /* a literal; "" = not started */
    pid_t pid;        /* 0 = not running */
    int wait_status;  /* after it ended */
};

/**
 * Find a program: as given when it has a '/', else beside this program, in the build folder's
 * `folder`, in $PATH and where Debian keeps servers.
 *
 * @return KVT_OK, or KVT_NOTFOUND with the places named in `err`
 */
KVT_NODISCARD enum kvt_err cli_child_process_find(const char *name, const char *folder,
                                                  char path[CLI_CHILD_PROCESS_PATH_MAX],
                                                  struct kvt_error *err);

/** Run argv[0] with standard output and error in the file `log`. */
KVT_NODISCARD enum kvt_err cli_child_process_start(struct cli_child_process *process,
                                                   const char *name, const char *const *argv,
                                                   const char *log, struct kvt_error *err);

/** Did it end by itself? */
bool cli_child_process_ended(struct cli_child_process *process);

/** "exited with status 1", "was killed by signal 9". */
void cli_child_process_explain(const struct cli_child_process *process, char *text, size_t size);

/** SIGTERM, wait up to `grace_ms`, SIGKILL, reap.  `hurry` may turn true to cut the wait short. */
void cli_child_process_stop(struct cli_child_process *process, uint64_t grace_ms,
                            bool (*hurry)(void));

#endif /* CLI_OPS_CHILD_PROCESS_H */
