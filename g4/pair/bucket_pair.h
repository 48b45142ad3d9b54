/*
 * g4/pair/bucket_pair.h -- two buckets as one: blocks lie in the near one, or further down in the
 * far one.
 *
 * Why: which of two buckets has a block is for those who move it; everybody else asks one store.
 * A block is looked for in the near one, then in the far one, then in the near one again, for one
 * that moved up meanwhile was in neither when it was asked.  So another process finds every block
 * too, whoever moved it.  What is put goes to the near one.  What is deleted goes from the far one,
 * from the near one, and from the far one again, for a move may have copied it there meanwhile; one
 * that puts what it had read before can still come last.  A tombstone is no copy:
 * it is what a move leaves for a moment (gateway/move/move.h), and the other bucket is asked.  One
 * of the near bucket that says G4_KIND_REMOVED is the last word: the far one is not asked, whatever
 * lies there.  Keys that are no blocks are the near one's alone.
 *
 * The far bucket has its own troubles: what needs it and gets no answer is KVT_AGAIN, never
 * UNAVAILABLE or TIMEOUT, which are said of the near one.
 *
 * Ownership: takes over both stores when opening succeeds, and closes them.
 * Threads:   any; none of its own: `done` runs on threads of the stores below.
 * Limits:    up to three requests below for one above, each with the whole deadline; a listing of
 *            blocks goes on by key, not by the stores' tokens.  Objects of one key in both buckets
 *            are one object, the near one's.
 */
#ifndef G4_PAIR_BUCKET_PAIR_H
#define G4_PAIR_BUCKET_PAIR_H

#include <stdbool.h>

#include "g4/object/g4_store.h"
#include "kvtier/error.h"

enum g4_bucket_pair_place { G4_BUCKET_PAIR_NEAR, G4_BUCKET_PAIR_FAR }; /* `place` of an answer */

KVT_NODISCARD enum kvt_err g4_bucket_pair_open(struct g4_store **out, struct g4_store *near,
                                               struct g4_store *far);

/** Does the far bucket answer?  While it does not, nobody waits for it.  It does at first. */
void g4_bucket_pair_tell(struct g4_store *store, bool far_answers);

#endif /* G4_PAIR_BUCKET_PAIR_H */
