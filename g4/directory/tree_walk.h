/*
 * g4/directory/tree_walk.h -- over all keys of a directory store, in order.
 *
 * Why: LIST must answer as S3 does: in UTF-8 byte order, from any key on.  The same walk counts
 * what is there and puts right what a power cut left behind.
 *
 * Ownership: results belong to the caller.
 * Threads:   any; g4_tree_walk_recover() only while the store is opened alone.
 * Limits:    G4_LIST_KEYS_MAX keys a page; memory of one folder's names per level.
 */
#ifndef G4_DIRECTORY_TREE_WALK_H
#define G4_DIRECTORY_TREE_WALK_H

#include "g4/directory/tree.h"
#include "g4/object/g4_store.h"
#include "kvtier/error.h"

/** Fill one page of a G4_LIST request.  The token is the last key of the page before. */
KVT_NODISCARD enum kvt_err g4_tree_walk_list(struct g4_tree *tree, struct g4_request *request);

/** Count bodies, put misplaced files into their folders, remove empty folders and the files that
 *  were on their way when their process ended. */
KVT_NODISCARD enum kvt_err g4_tree_walk_recover(struct g4_tree *tree, struct kvt_error *err);

#endif /* G4_DIRECTORY_TREE_WALK_H */
