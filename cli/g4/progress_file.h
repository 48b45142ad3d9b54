/*
 * cli/g4/progress_file.h -- how far a long walk over keys came, in a file.
 *
 * Why: a check of millions of objects must survive Ctrl-C, a lost connection and a restart, and
 * go on where it was instead of from the first key.
 *
 * Ownership: the caller owns the struct.
 * Threads:   the main thread.
 * Limits:    saved each CLI_PROGRESS_FILE_EVERY_MS at most: that much is done again.
 */
#ifndef CLI_G4_PROGRESS_FILE_H
#define CLI_G4_PROGRESS_FILE_H

#include <stdbool.h>
#include <stdint.h>

#include "kvtier/error.h"
#include "kvtier/key.h"

#define CLI_PROGRESS_FILE_EVERY_MS 2000
#define CLI_PROGRESS_FILE_WHAT_MAX 1024

struct cli_progress_file {
    const char *path;                      /* "" = nothing is kept */
    char what[CLI_PROGRESS_FILE_WHAT_MAX]; /* of what walk: another one's file is refused */
    char after[KVT_KEY_MAX];               /* the last key that is done; "" = none */
    uint64_t done;                         /* objects, the earlier runs' included */
    uint64_t bad;
    uint64_t saved_ms; /* monotonic */
    bool resumed;      /* an earlier run's file was read */
};

/**
 * Read what an earlier run of the same walk left; nothing, or that of one that came to its end,
 * begins anew.
 *
 * @param what  the walk in words of its command line; cut at CLI_PROGRESS_FILE_WHAT_MAX - 1
 * @return KVT_OK, KVT_EXISTS (the file is of another walk), or why it could not be read
 */
KVT_NODISCARD enum kvt_err cli_progress_file_begin(struct cli_progress_file *resume,
                                                   const char *path, const char *what,
                                                   struct kvt_error *err);

/** `key` is done; now and then that is written down.  KVT_OK, or why it could not be. */
KVT_NODISCARD enum kvt_err cli_progress_file_done(struct cli_progress_file *resume, const char *key,
                                                  bool bad, struct kvt_error *err);

/** The run ends; `all`: it came to the end of the walk. */
KVT_NODISCARD enum kvt_err cli_progress_file_end(struct cli_progress_file *resume, bool all,
                                                 struct kvt_error *err);

#endif /* CLI_G4_PROGRESS_FILE_H */
