/*
 * g4/directory/tree.h -- the folders of a directory store, the locks on them, and how much they
 * hold.
 *
 * Why: no folder may grow without bound, listing must be in key order, and two processes may share
 * one store.  The folders are a trie over the bytes of the keys that grows only where it is full:
 *
 *   <path>/objects/+k/+e/+y/=key...   the file of a key is in the deepest folder along its bytes
 *   <path>/tmp                         files on their way to replace another
 *   <path>/locks                       gate, tree, owner and stripes: flock()ed, empty
 *   <path>/usage                       counters and the split under way, mapped by all processes
 *
 * Invariants:
 *   1. The tree lock held shared: no folder appears, disappears or loses a file to another folder.
 *   2. A key's file, if any, is in the deepest folder that exists along the key, unless
 *      usage->splitting says that its folder was being split when somebody died
 *      (g4/directory/folder_split.h).
 *   3. usage->bytes is never less than the bodies there are.  The first to open recounts.
 *
 * Ownership: g4_tree_close() frees.  Functions that return a file descriptor give it to the caller;
 *            closing the descriptor of a lock releases it.
 * Threads:   any; every lock is held by a descriptor, so threads exclude each other as processes
 *            do.  Order: stripe, tree.
 * Limits:    G4_DEPTH_MAX folders deep; a folder is split at G4_TREE_SPLIT_AT files, and full at
 *            G4_TREE_ENTRIES_MAX.
 */
#ifndef G4_DIRECTORY_TREE_H
#define G4_DIRECTORY_TREE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kvtier/error.h"
#include "kvtier/key.h"

#define G4_TREE_SPLIT_AT    2048
#define G4_TREE_ENTRIES_MAX 3840 /* below 4,096 by more than what comes in between two counts */

struct g4_tree;

/* Lives in a mapped file.  Only counters and one name: it is rebuilt when nobody has it open. */
struct g4_tree_usage {
    _Atomic uint64_t bytes; /* of bodies */
    _Atomic uint64_t objects;
    _Atomic uint32_t splitting;
    char split_prefix[KVT_KEY_MAX];
};

/** Opens (and makes) the folders.  `alone` tells that nobody else has it open: the caller must then
 *  recover, and call g4_tree_share(). */
KVT_NODISCARD enum kvt_err g4_tree_open(struct g4_tree **out, const char *path, bool *alone,
                                        struct kvt_error *err);

/** Let others open it too. */
KVT_NODISCARD enum kvt_err g4_tree_share(struct g4_tree *tree, struct kvt_error *err);

/** NULL is allowed. */
void g4_tree_close(struct g4_tree *tree);

struct g4_tree_usage *g4_tree_usage(struct g4_tree *tree);

/** The folder <path>/tmp. */
int g4_tree_tmp(const struct g4_tree *tree);

/** Wait for the tree lock; the descriptor that holds it, or -1 with errno. */
int g4_tree_lock(struct g4_tree *tree, bool exclusive);

/** Wait for the lock of the key's stripe: who replaces or deletes holds it. */
int g4_tree_lock_stripe(struct g4_tree *tree, const char *key);

/** Open file `name` of `key` if nothing has to be waited for: the system knows the way, no lock is
 *  taken, and it lies about as deep as what was looked for last.  -1: it may be there all the same.
 */
int g4_tree_peek(struct g4_tree *tree, const char *key, const char *name);

/** Open the deepest folder along `key`; how deep it is in `depth`.  -1 with errno. */
int g4_tree_deepest(struct g4_tree *tree, const char *key, size_t *depth);

/** Open the folder for the first `depth` bytes of `key`; with `make`, make it durably. */
int g4_tree_folder(struct g4_tree *tree, const char *key, size_t depth, bool make);

/** Is it time to count the files of this folder before another is put in?  Asked once per new file;
 *  true at least every few hundred of them, and always at a process's first. */
bool g4_tree_count_due(struct g4_tree *tree, const char *key, size_t depth);

#endif /* G4_DIRECTORY_TREE_H */
