/*
 * advisor/selection/rerank.h -- another order of a tier's blocks, made while the old one decides.
 *
 * Why: tens of millions of blocks are not put into another order between two events.  A thread
 * makes it of the rows of the store, as a start does, and then hears what happened since these were
 * read; so what comes out is what an advisor would have that was started then, with that ordering.
 * When it has caught up, whoever asked for it takes it in a moment.
 *
 * Ownership: the rerank owns its read transaction, its rosters until they are taken, and those that
 *            it was given to end (which takes a while where they are large).
 * Threads:   one of its own, which owns the rosters until it has caught up; all calls are the
 *            writer's thread's.  A lock guards what was heard and not yet told.
 * Limits:    ADVISOR_RERANK_HEARD_MAX of what is heard and waits: beyond that it fails, KVT_FULL.
 *            advisor_rerank_take() tells ADVISOR_RERANK_REST at most.  The store's pages of the
 *            begin stay until all rows are read.
 */
#ifndef ADVISOR_SELECTION_RERANK_H
#define ADVISOR_SELECTION_RERANK_H

#include "advisor/selection/ranking.h"
#include "advisor/store/durable_store.h"

struct advisor_rerank;

#define ADVISOR_RERANK_HEARD_MAX (UINT64_C(1) << 22) /* 192 MiB */
#define ADVISOR_RERANK_REST      1024                /* that is left to be told when it is taken */

struct advisor_rerank_options {
    const char *tier;
    struct advisor_orders orders;             /* that are made */
    struct policy_tier_blocks_options roster; /* without an ordering */
    const bool *holders;                      /* by number: is it the tier?  Copied */
    uint32_t holder_count;
    struct index *index;        /* that may know of parents; NULL: none */
    const uint32_t *namespaces; /* of the index, by our own numbers; copied */
    uint32_t namespace_count;
};

/**
 * Begin.  What happens from now on is to be heard.
 *
 * @param txn  a read of what was told so far; taken over in every case
 * @return KVT_OK, KVT_NOMEM, or what the store says
 */
KVT_NODISCARD enum kvt_err advisor_rerank_new(struct advisor_rerank **out,
                                              const struct advisor_rerank_options *options,
                                              struct advisor_txn *txn);
/** At any time; waits for the thread, which looks whether it is to end with every page of rows and
 *  with every POLICY_TIER_BLOCKS_PIECE blocks that it sorts.  NULL is allowed. */
void advisor_rerank_free(struct advisor_rerank *rerank);

void advisor_rerank_hear(struct advisor_rerank *rerank, const struct advisor_ranking_event *heard);

/** Rows that were read, and that there are. */
void advisor_rerank_progress(struct advisor_rerank *rerank, uint64_t *done, uint64_t *total);

/** The rosters, once.  KVT_AGAIN: not yet; KVT_FULL, KVT_NOMEM or what else went wrong: never.
 *  `cut`: they have no room for all blocks. */
KVT_NODISCARD enum kvt_err
advisor_rerank_take(struct advisor_rerank *rerank,
                    struct policy_tier_blocks *rosters[ADVISOR_RANKINGS_MAX], bool *cut);
/** Nothing is to be made any more: rosters that were taken or of another order are ended by the
 *  thread. */
void advisor_rerank_retire(struct advisor_rerank *rerank, struct policy_tier_blocks *const *rosters,
                           uint32_t count);
/** Is it through, so that advisor_rerank_free() waits for nothing? */
bool advisor_rerank_is_over(struct advisor_rerank *rerank);

#endif /* ADVISOR_SELECTION_RERANK_H */
