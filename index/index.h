/*
 * index/index.h -- who holds which block, in RAM.
 *
 * Why: one structure answers the worker's "do I have it?" and the advisor's "who has the longest
 * prefix of this request?".  A block is (namespace, sequence hash); the same hash with another
 * parent or position is a counted collision, refused and never merged.  How it is built, and what
 * each part costs, is index/DESIGN.md.  A block that nobody has any more is in no answer, but keeps
 * its parent and position while others hang on it.
 *
 * Ownership: the index owns everything; views copy out.
 * Threads:   index_find*(), index_match(), index_get(), index_has() and index_places() at any
 *            time, without a lock (a reader whose run changes again and again waits for the writer
 *            once); the rest one at a time, behind locks of the index's own.  No call calls back
 *            while holding one except index_walk(), index_scan_next(), index_coldest_next() and
 *            index_drop_report(), whose callbacks must be short and must not call the index.
 * Limits:    `bytes_max` of memory: a block that does not fit is KVT_FULL and does not come.
 */
#ifndef INDEX_INDEX_H
#define INDEX_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kvtier/block.h"
#include "kvtier/error.h"

#define INDEX_HOLDERS_MAX    65536
#define INDEX_NAMESPACES_MAX 65536

struct index;

struct index_holder {
    char name[KVT_NAME_MAX]; /* worker, or the G4 holder's name */
    uint32_t dp_rank;
    enum kvt_tier tier;
};

struct index_block {
    struct kvt_block_id id;
    uint64_t tokens_hash;
    uint64_t size; /* bytes of one shard */
    uint32_t ranks;
};

/* One (block, holder) pair, copied out. */
struct index_place {
    uint32_t holder;
    uint32_t ranks;
};

#define INDEX_PLACES_MAX 64 /* places one view shows; more are counted */

struct index_view {
    struct index_block block; /* ranks: union over the places */
    uint32_t place_count;     /* all of them, also beyond INDEX_PLACES_MAX */
    struct index_place places[INDEX_PLACES_MAX];
};

struct index_match {
    uint32_t holder;
    uint32_t blocks; /* length of the longest prefix this holder has, starting at the first hash */
};

struct index_stats {
    uint64_t blocks;
    uint64_t places; /* (block, holder) pairs */
    uint64_t holders;
    uint64_t namespaces;
    uint64_t bytes;
    uint64_t bytes_max;
    uint64_t collisions;
    uint64_t orphans; /* sequences whose parent was not seen yet */
};

KVT_NODISCARD enum kvt_err index_new(struct index **out, uint64_t bytes_max);
void index_free(struct index *index);
/** Move the ceiling, to up to INDEX_LIMIT_SHARE more than index_new() was given.  What is beyond it
 *  stays, and nothing comes until enough has gone. */
void index_limit(struct index *index, uint64_t bytes_max);
#define INDEX_LIMIT_SHARE 3 /* a third */

/** Number of a namespace, made on first use.  KVT_FULL beyond INDEX_NAMESPACES_MAX. */
KVT_NODISCARD enum kvt_err index_namespace(struct index *index, const char *name, uint32_t *ns);
/** The number of a known namespace; KVT_NOTFOUND otherwise.  Never makes one. */
KVT_NODISCARD enum kvt_err index_namespace_find(struct index *index, const char *name,
                                                uint32_t *ns);
/** Copy the name of `ns` (asserted to exist). */
void index_namespace_name(struct index *index, uint32_t ns, char out[KVT_NAMESPACE_MAX]);

/** Has the namespace no block, also none that nobody has and others hang on? */
bool index_namespace_is_empty(struct index *index, uint32_t ns);
/**
 * Give the number of an empty namespace (asserted) to another name.
 *
 * @return KVT_OK, KVT_EXISTS (`name` has a number), KVT_RANGE (too long) or KVT_FULL (no memory);
 *         unchanged then
 */
KVT_NODISCARD enum kvt_err index_namespace_rename(struct index *index, uint32_t ns,
                                                  const char *name);

/** Number of a holder, made on first use.  KVT_FULL beyond INDEX_HOLDERS_MAX. */
KVT_NODISCARD enum kvt_err index_holder(struct index *index, const struct index_holder *key,
                                        uint32_t *holder);
/**
 * Give the number of a holder that holds nothing (asserted) to another.
 *
 * @return KVT_OK, KVT_EXISTS (`key` has a number) or KVT_FULL (no memory); unchanged then
 */
KVT_NODISCARD enum kvt_err index_holder_rename(struct index *index, uint32_t holder,
                                               const struct index_holder *key);
/** Copy out who `holder` is (asserted to exist) and how much it holds. */
void index_holder_info(struct index *index, uint32_t holder, struct index_holder *key,
                       uint64_t *blocks, uint64_t *bytes);
uint32_t index_holder_count(struct index *index);
/** Grows when a number goes to another holder: what was learned of numbers holds until then. */
uint64_t index_holder_renames(struct index *index);

/**
 * The block is now at `holder` (its `ranks` are added to what was there).
 *
 * @param[out] added  true when the pair is new; may be NULL
 * @return KVT_OK, KVT_EXISTS (collision: same hash, other parent or position; counted, unchanged;
 *         a parent of 0 at a position > 0 means "unknown" and collides with nothing), KVT_FULL,
 *         KVT_RANGE (it makes one bitmap of shards, or one size, too many in the life of the
 *         index; unchanged), KVT_INVALID (no shard in `ranks`)
 */
KVT_NODISCARD enum kvt_err index_store(struct index *index, uint32_t ns, uint32_t holder,
                                       const struct index_block *block, bool *added);

/**
 * The shards `ranks` of the block are no longer at `holder`; the pair goes with its last shard, the
 * block with its last pair.
 *
 * @return KVT_OK, KVT_NOTFOUND (the holder did not have it; unchanged), KVT_FULL (the heap has
 *         nothing to take a range apart with; unchanged) or KVT_RANGE (the shards that stay are one
 *         bitmap too many; unchanged, which all of UINT32_MAX never is)
 */
KVT_NODISCARD enum kvt_err index_remove(struct index *index, uint32_t ns, uint32_t holder,
                                        uint64_t hash, uint32_t ranks);

/* ---- batches: the way events come in ---- */

enum index_change_kind { INDEX_STORE, INDEX_REMOVE };

/* Blocks of one sequence that came to, or went from, one holder. */
struct index_change {
    const uint64_t *hashes; /* STORE: consecutive, root side first; REMOVE: in any order */
    const uint64_t *tokens; /* STORE: their local token hashes; NULL: not known */
    uint64_t parent;        /* STORE: sequence hash before the first; 0: root, or unknown */
    uint64_t size;          /* STORE: bytes of one shard of each */
    uint64_t time_ms;       /* for the history; 0: not known */
    uint32_t position;      /* STORE: of the first */
    uint32_t count;
    uint32_t ns;
    uint32_t holder;
    uint32_t ranks;
    enum index_change_kind kind;
    bool evicted; /* REMOVE: nobody let go of it, so that the history does not show it */

    /* The answer. */
    enum kvt_err status; /* of the first block that was refused: STORE: as index_store(); REMOVE:
                          * KVT_OK, also when some or all were not there, KVT_FULL or KVT_RANGE */
    uint32_t done;       /* blocks before that one; they are in, or gone */
    uint32_t changed;    /* (block, holder) pairs that came or went */
};

/**
 * Apply changes in their order, each as its blocks one by one would be, and much faster: memory is
 * asked for ahead, and what is consecutive is stored and removed as one.
 */
void index_apply(struct index *index, struct index_change *changes, size_t count);

/**
 * The same as far as the first change that is refused a block, so that what is to be done about it
 * comes before the changes behind it.
 *
 * @return how many were applied; of these only the last may have a status other than KVT_OK, and
 *         the answers of those behind it are not set
 */
KVT_NODISCARD size_t index_apply_some(struct index *index, struct index_change *changes,
                                      size_t count);

/** About so many blocks are to come to a namespace that had none: make room for them at once, which
 *  is faster than little by little.  Without memory to spare it is made as they come. */
void index_expect(struct index *index, uint32_t ns, uint64_t blocks);

#define INDEX_NAMESPACE_ALL UINT32_MAX
#define INDEX_DROP_PAGES    1024       /* of up to 1,024 blocks, that a call looks at, */
#define INDEX_DROP_PAIRS    (1u << 16) /* and pairs that go in it, but for what one page has more */
#define INDEX_DROPS_MAX     64         /* losses of one pass */

/**
 * A holder loses all it has in a namespace (or INDEX_NAMESPACE_ALL), a bounded piece a call:
 *
 *   for (uint64_t cursor = 0; index_drop(index, holder, ns, &cursor, &pairs);) {}
 *
 * Needs no memory.  Nothing may be stored for the holder in between.  It looks at the pages that
 * the holder may have blocks of in the namespace, and costs nothing where it has none.
 *
 * @param[in,out] cursor  0 at first
 * @param[out] pairs      (block, holder) pairs that went in this call
 * @return false: all is gone
 */
bool index_drop(struct index *index, uint32_t holder, uint32_t ns, uint64_t *cursor,
                uint64_t *pairs);

/* A holder that loses what it has in a namespace. */
struct index_loss {
    uint32_t holder;
    uint32_t ns; /* or INDEX_NAMESPACE_ALL */
};

/* Consecutive blocks of one sequence that a holder loses; valid during the call that gives it. */
struct index_dropped {
    const uint64_t *hashes; /* root side first */
    uint64_t parent;        /* hash before the first; 0: a root, or not known */
    uint32_t count;         /* at most INDEX_DROPPED_MAX */
    uint32_t loss;          /* which of the losses it is */
    uint8_t tiers;          /* KVT_TIER_MASK bits of all that have blocks of the run, and maybe of
                             * some that had */
};

#define INDEX_DROPPED_MAX 1024

typedef void index_dropped_fn(void *arg, const struct index_dropped *dropped);

/** Several losses, at most INDEX_DROPS_MAX, in one pass.  Each piece is given to the callback
 *  before it goes; NULL: no reports.  The callback runs under the writer's lock: it must be
 *  short and must not call the index. */
bool index_drop_report(struct index *index, const struct index_loss *losses, size_t count,
                       index_dropped_fn *callback, void *arg, uint64_t *cursor, uint64_t *pairs);

/* ---- all there is, run by run: what a snapshot writes ---- */

/* A holder of consecutive blocks of a run. */
struct index_held {
    uint32_t holder;
    uint32_t ranks;
    uint32_t from;
    uint32_t count;
};

/* Consecutive blocks of one sequence and of one size; valid during the call that gives it. */
struct index_run_view {
    const uint64_t *hashes;
    const uint64_t *tokens;        /* 0 where not known; NULL: none is */
    const struct index_held *held; /* in the order of (holder, from) */
    uint64_t parent;               /* hash before the first; 0: a root, or not known */
    uint64_t size;
    uint32_t held_count; /* 0: nobody has any, and something hangs on them */
    uint32_t position;
    uint32_t count; /* at most INDEX_RUN_VIEW_MAX */
    uint32_t ns;
    uint32_t stored_s;
};

#define INDEX_RUN_VIEW_MAX 112

struct index_scan; /* one pass over an index */

/** Begin a pass: KVT_OK or KVT_NOMEM.  It does not outlive the index. */
KVT_NODISCARD enum kvt_err index_scan_new(struct index_scan **out, struct index *index);
void index_scan_free(struct index_scan *runs);

typedef void index_scan_fn(void *arg, const struct index_run_view *run);

/**
 * Give the runs of the next numbers, until there are `blocks_max` blocks and holders of pieces; the
 * last run is given whole.  The index may change between calls: what was there during the whole
 * pass is given.  What came or went meanwhile is given or not: changes since index_scan_new(),
 * applied in their order over what was given, lead to what is there (index/DESIGN.md).  The
 * callback runs under the writer's lock: it must be short and must not call the index.
 *
 * @param[out] done  that was all
 * @return KVT_OK or KVT_NOMEM (nothing is lost: the next call goes on with the same run)
 */
KVT_NODISCARD enum kvt_err index_scan_next(struct index_scan *runs, size_t blocks_max,
                                           index_scan_fn *callback, void *arg, bool *done);

/* ---- what was stored to longest ago: for who keeps some of it elsewhere ---- */

#define INDEX_COLDEST_PIECES 256 /* a run with more pieces of holders is cheap where it is */

struct index_coldest; /* a hand that goes round an index */

/** What somebody holds in the tier `but` is not given. */
KVT_NODISCARD enum kvt_err index_coldest_new(struct index_coldest **out, struct index *index,
                                             enum kvt_tier but);
void index_coldest_free(struct index_coldest *coldest);

/**
 * Give whole runs that were stored to longest ago, as index_scan_next() does: runs that nothing
 * hangs on but what was given before them in this call, so that their memory is free once all of
 * their holders have lost them.  A bounded part of the index is looked at; which age is old is a
 * guess from a sample.
 *
 * @param pairs_max   (block, holder) pairs, about
 * @param[out] pairs  how many were given; maybe none
 * @return KVT_OK, KVT_NOTFOUND (nothing was found all around), or KVT_NOMEM
 */
KVT_NODISCARD enum kvt_err index_coldest_next(struct index_coldest *coldest, size_t pairs_max,
                                              index_scan_fn *callback, void *arg, size_t *pairs);

/**
 * Give all of pages that are half empty and would be empty: their memory is of use to others then
 * than runs of their length.  As index_coldest_next() otherwise, whatever their age.
 */
KVT_NODISCARD enum kvt_err index_coldest_pages(struct index_coldest *coldest, size_t pairs_max,
                                               index_scan_fn *callback, void *arg, size_t *pairs);

/** Bytes that are taken for blocks and empty: what removals left behind.  Of `stats.bytes`;
 *  `pages` (may be NULL): of those, what is of use for everything. */
uint64_t index_room(struct index *index, uint64_t *pages);

/** All places of a block, in the order of holders, at most `capacity`; returns how many there are.
 */
size_t index_places(struct index *index, uint32_t ns, uint64_t hash, struct index_place *places,
                    size_t capacity);

/** Has this holder the block? */
bool index_has(struct index *index, uint32_t ns, uint64_t hash, uint32_t holder);

/* ---- the longest prefix, for routers ---- */

/* An answer, kept and used again from question to question by one thread. */
struct index_find_result;

KVT_NODISCARD enum kvt_err index_find_result_new(struct index_find_result **out);
void index_find_result_free(struct index_find_result *found);

enum index_key {
    INDEX_BY_SEQUENCE, /* sequence hashes */
    INDEX_BY_TOKENS,   /* local token hashes; finds blocks whose sequence hash is Dynamo's chain
                        * over them (kvtier/token.h) and whose token hashes are known */
};

struct index_question {
    const uint64_t *hashes; /* root first */
    size_t count;
    uint32_t ns;
    enum index_key key;
    bool early_exit; /* stop as soon as one holder is ahead of all others; its length is then a
                      * lower bound */
};

/**
 * Every holder that has the first block, with the length of its longest prefix.  Holders are kept
 * as sets by length, so that thousands of them cost little until they are asked for one by one.
 *
 * @return KVT_OK (also when nobody has it) or KVT_NOMEM
 */
KVT_NODISCARD enum kvt_err index_find(struct index *index, const struct index_question *question,
                                      struct index_find_result *found);

/** How many holders were found. */
size_t index_find_result_count(const struct index_find_result *found);
/** Of the longest prefix; 0: nobody. */
uint32_t index_find_result_length(const struct index_find_result *found);
/** The best ones, longest first, of equal length in the order of their numbers; at most
 *  `capacity`. */
size_t index_find_result_best(const struct index_find_result *found, struct index_match *matches,
                              size_t capacity);

/* ---- totals, candidates, history ---- */

/* Holders of G4: "hot@...", "warm@...", any other, and those that a question calls far. */
enum index_part { INDEX_HOT, INDEX_WARM, INDEX_COLD, INDEX_FAR, INDEX_PARTS };

struct index_totals {
    uint64_t blocks; /* a block and all below it, each once */
    uint64_t places; /* (block, holder) pairs */
    uint64_t tier_blocks[KVT_TIER_G4 + 1];
    uint64_t tier_bytes[KVT_TIER_G4 + 1]; /* size times shards, over all places of the tier */
    /* Of G4, by what the holder is; a block that is at several counts in each. */
    uint64_t part_blocks[INDEX_PARTS];
    uint64_t part_bytes[INDEX_PARTS];
};

/* Holders of G4 that are asked for apart from the other ones that are no volume. */
struct index_far {
    const char (*names)[KVT_NAME_MAX];
    size_t count;
};

#define INDEX_SUBTREE_RUNS_MAX (1u << 22) /* pieces that are known and not looked at yet */

/**
 * What hangs below a block, itself included, also by way of blocks that nobody has any more.  It is
 * looked at in steps of about a millisecond, and writers go on between them: what changes meanwhile
 * is in the totals or is not.
 *
 * @param far  holders that are INDEX_FAR; NULL: none
 * @return KVT_OK, KVT_NOTFOUND, KVT_NOMEM, or KVT_FULL: more than `blocks_max` blocks, or pieces
 *         that could not be told apart any more; the totals are then of those looked at
 */
KVT_NODISCARD enum kvt_err index_subtree(struct index *index, uint32_t ns, uint64_t hash,
                                         uint64_t blocks_max, const struct index_far *far,
                                         struct index_totals *totals);

/** A block was read `count` times; unknown blocks are passed over. */
void index_touch(struct index *index, uint32_t ns, uint64_t hash, uint32_t count, uint64_t time_ms);

struct index_candidate {
    uint64_t hash;
    uint64_t used_ms; /* last read; when it was never read, when blocks of its run were stored last;
                       * whole seconds */
    uint32_t ns;
    uint32_t hits;
};

/** Blocks of a tier that were used longest ago (`coldest`) or last, in that order; of equal ones,
 *  those deeper in their sequence are colder.  At most `capacity`. */
size_t index_candidates(struct index *index, enum kvt_tier tier, bool coldest,
                        struct index_candidate *candidates, size_t capacity);

#define INDEX_HISTORY_CHANGES (1u << 18) /* the newest ones are remembered */

struct index_past {
    uint64_t time_ms; /* whole seconds */
    uint32_t holder;
    enum index_change_kind kind;
};

/** The newest changes of one block, newest first, as far as they are remembered. */
size_t index_history(struct index *index, uint32_t ns, uint64_t hash, struct index_past *past,
                     size_t capacity);

/** Per block the mask of tiers that have it (KVT_TIER_MASK bits); 0 = nobody. */
void index_match(struct index *index, uint32_t ns, const uint64_t *hashes, size_t count,
                 uint8_t *masks);

/** KVT_OK or KVT_NOTFOUND. */
KVT_NODISCARD enum kvt_err index_get(struct index *index, uint32_t ns, uint64_t hash,
                                     struct index_view *view);

/** Children of a block that are in the index, at most `capacity` hashes; returns how many there
 * are. */
size_t index_children(struct index *index, uint32_t ns, uint64_t hash, uint64_t *hashes,
                      size_t capacity);

/**
 * Walk (block, holder) pairs in no order, from `cursor` (0 = start) on, at most `max`; returns the
 * next cursor, 0 at the end.  Pairs present during the whole walk are given at least once.
 */
typedef void index_walk_fn(void *arg, uint32_t ns, uint32_t holder,
                           const struct index_block *block);
uint64_t index_walk(struct index *index, uint64_t cursor, size_t max, index_walk_fn *callback,
                    void *arg);

void index_stats(struct index *index, struct index_stats *stats);

#endif /* INDEX_INDEX_H */
