/*
 * g4/directory/file_name.h -- keys as names of files and folders.
 *
 * Why: a key is any text up to 511 bytes; a file name is not.  A folder stands for one more byte of
 * the key, so that folders in byte order are keys in S3's order; a file carries its whole key, or,
 * when that is too long for a name, the key's hash (the key itself is in the object's header).
 * Ownership: the caller gives the buffers.
 * Limits:    the buffers below.
 */
#ifndef G4_DIRECTORY_FILE_NAME_H
#define G4_DIRECTORY_FILE_NAME_H

#include <stdbool.h>
#include <stddef.h>

#include "kvtier/key.h"

#define G4_FILE_NAME_MAX 256
#define G4_DEPTH_MAX     256                    /* folders below each other */
#define G4_PATH_MAX      (5 * G4_DEPTH_MAX + 2) /* "+%2F/" each */

/** "=<key>", with other bytes than letters, digits and "-_.:=@+," as %XX; "#<sha256>" when that is
 *  too long. */
void g4_file_name_format(const char *key, char out[G4_FILE_NAME_MAX]);

/** Back again; false for a name this module does not make.  A hashed name gives an empty key. */
bool g4_file_name_parse(const char *name, char key[KVT_KEY_MAX]);

/** The byte of a folder's name ("+k", "+%2F"), or -1. */
int g4_file_name_folder_parse(const char *name);

/**
 * The path of the folder for the first `depth` bytes of `key`, relative to the root: "." for none.
 *
 * @param[out] ends  NULL, or room for depth + 1 offsets: where the path for each depth ends
 */
void g4_file_name_path(const char *key, size_t depth, char out[G4_PATH_MAX], size_t *ends);

#endif /* G4_DIRECTORY_FILE_NAME_H */
