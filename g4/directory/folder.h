/*
 * g4/directory/folder.h -- one folder of a directory store, read and in key order.
 *
 * Why: listing, splitting and recovery all look at a folder as "these keys and these branches".
 * Ownership: release what was read; texts belong to the list.
 * Threads:   none; one owner.
 * Limits:    G4_FOLDER_READ_MAX entries: more is KVT_RANGE (nobody of ours makes such a folder).
 */
#ifndef G4_DIRECTORY_FOLDER_H
#define G4_DIRECTORY_FOLDER_H

#include <stdbool.h>
#include <stddef.h>

#include "base/core/buffer.h"
#include "kvtier/error.h"

#define G4_FOLDER_READ_MAX 65536

struct g4_folder_entry {
    const char *name;
    const char *rest; /* what the key has beyond the folder's own bytes; a branch: one byte */
    bool branch;
};

struct g4_folder {
    struct g4_folder_entry *entries; /* by `rest`, a branch before the keys it should hold */
    size_t count;
    size_t branches;
    struct kvt_buffer text;
};

/**
 * Read the folder for the first `depth` bytes of `prefix`.  Names that are not ours, and files
 * whose key does not start with the prefix or cannot be known, are left out.
 */
KVT_NODISCARD enum kvt_err g4_folder_read(struct g4_folder *folder, int fd, const char *prefix,
                                          size_t depth, struct kvt_error *err);
void g4_folder_release(struct g4_folder *folder);

/** How many entries there are, ours or not; KVT_IO when it cannot be read. */
KVT_NODISCARD enum kvt_err g4_folder_count(int fd, size_t *count, struct kvt_error *err);

#endif /* G4_DIRECTORY_FOLDER_H */
