/*
 * tests/powercut/recorder_path.h -- is this path below the recorded folder, and what is it called
 * there?
 *
 * Why: programs name files relative to anything; the log names them relative to one folder.
 * Ownership: the answer points into the caller's buffer.
 * Limits:    paths of PATH_MAX bytes; symbolic links are not followed, so the folder must be given
 *            resolved.
 */
#ifndef TESTS_POWERCUT_RECORDER_PATH_H
#define TESTS_POWERCUT_RECORDER_PATH_H

#include <limits.h>

#define RECORDER_PATH_SIZE (2 * PATH_MAX)

/** The path below `root`, without a leading '/' ("" for the root itself), or NULL: elsewhere. */
const char *recorder_path_below(const char *root, int at, const char *path,
                                char full[RECORDER_PATH_SIZE]);

#endif /* TESTS_POWERCUT_RECORDER_PATH_H */
