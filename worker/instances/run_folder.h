/*
 * worker/instances/run_folder.h -- the folder in which the processes of instances meet.
 *
 * Why: their sockets are files.  The folder is one run's: two in one would answer for each other.
 * It is given, or a new one below /tmp; whoever is killed leaves his there, and the next one to
 * come removes it.
 *
 * Ownership: worker_run_folder_open() to worker_run_folder_close(), which removes the sockets, and
 *            the folder if it was made for this run.
 * Limits:    WORKER_RUN_FOLDER_PATH_MAX bytes of path, so that sockets have names that they can
 *            have.
 */
#ifndef WORKER_INSTANCES_RUN_FOLDER_H
#define WORKER_INSTANCES_RUN_FOLDER_H

#include <stdbool.h>

#include "kvtier/error.h"

#define WORKER_RUN_FOLDER_PATH_MAX                                                                 \
    96 /* a socket's path has 107 bytes at most, of them "/7-7.front" */

struct worker_run_folder {
    char path[WORKER_RUN_FOLDER_PATH_MAX + 1];
    int fd;    /* locked while it is in use; -1: not open */
    bool made; /* by this run */
};

/**
 * @param given  engine.folder; "": a new one
 * @return KVT_OK; KVT_RANGE (too long), KVT_BUSY (of another run), or the system's, in words
 */
KVT_NODISCARD enum kvt_err worker_run_folder_open(struct worker_run_folder *folder,
                                                  const char *given, struct kvt_error *err);

/** One that is not open is allowed. */
void worker_run_folder_close(struct worker_run_folder *folder);

#endif /* WORKER_INSTANCES_RUN_FOLDER_H */
