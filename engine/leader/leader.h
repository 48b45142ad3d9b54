/*
 * engine/leader/leader.h -- who decides for one instance: what it has, what is brought where, what
 * is held for whom.
 *
 * Why: all ranks of an instance hold shards of the same blocks, so one place keeps the books: pools
 * of G2 and G3 (names, holders, order), and who is asked when a prefix is not here.  It never sees
 * a byte; a worker (engine/rank/worker.h) does what it says.
 *
 * A find is answered at once when everything that is wanted lies in G2; else it is a *match* that
 * goes on by itself, whose state can be asked, waited for and watched:
 *
 *   SEARCHING   G2, G3, peers and the object tier are asked how much of the prefix they have
 *   HOLDING     that is known, and held here and at the peer: nothing moves (mode HOLD ends here)
 *   STAGING     G3, the object tier, and the peer's G3 are brought to a G2; mode PREPARE leaves a
 *               peer's blocks in its G2 and ends as READY there, mode FULL pulls them
 *   READY       all that will come is in our G2 and held (PREPARE: or in the peer's)
 *   COMPLETE    released by its owner; FAILED: why, in words.  Both are the end, and hold nothing
 *
 * HOLDING and STAGING are passed over where nothing is to be moved; a prefix of which nothing is
 * anywhere is READY with 0 blocks, and one of mode HOLD that lies in our G2 is READY, too.
 *
 * What fails on the way shortens the match, it does not fail it: what is held from its beginning on
 * without a hole is the answer, with how it ended (`shortened`, and by what).  FAILED is a match
 * that could not be made at all (its deadline, out of memory, cancelled).  A batch that is
 * under way when a match ends goes on for nobody: it keeps its blocks until it has ended.
 *
 * Room in G2 is what is free, then what goes down to G3, then what nobody holds; where all is held
 * a match waits 200 ms for some, and is shortened.
 *
 * A peer's leader is asked by the messages of engine/leader/session_internal.h.
 *
 * A rank in another process that is restarted (engine/rank/rank_client.h, `restarted`) has lost its
 * shards of all blocks, while pools and peers' books still name them.  The leader is not told, and
 * cannot go on: jobs that were meant for the life before fail, but a find may still be answered
 * READY. Its owner stops asking, closes the leader, its pools and the workers, and opens all of
 * them anew under another number of instance, so that peers take nothing for what it was.
 *
 * Ownership: worker, pools and fence are borrowed and outlive the leader.  A match is its owner's
 *            until engine_match_release(), and with it the blocks it holds.
 * Threads:   any thread may call; one thread of the leader's decides.  `changed` runs on it, and
 *            must neither wait nor call the leader but for engine_match_view().
 * Limits:    ENGINE_MATCHES_MAX matches at once, ENGINE_FIND_MAX blocks each, ENGINE_PEERS_MAX
 *            peers.  Every wait has a deadline.
 */
#ifndef ENGINE_LEADER_LEADER_H
#define ENGINE_LEADER_LEADER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kvbm/pool/block_pool.h"

#include "engine/rank/worker.h"

#define ENGINE_MATCHES_MAX 1024
#define ENGINE_FIND_MAX    16384 /* blocks of one prefix */
#define ENGINE_STAGE_CHUNK 16    /* blocks brought by one job, unless the options say otherwise */

enum engine_mode {
    ENGINE_HOLD,    /* leave everything where it is */
    ENGINE_PREPARE, /* into a G2, each where it is */
    ENGINE_FULL,    /* into our G2 */
};

enum engine_state {
    ENGINE_SEARCHING,
    ENGINE_HOLDING,
    ENGINE_STAGING,
    ENGINE_READY,
    ENGINE_COMPLETE,
    ENGINE_FAILED,
};

#define ENGINE_STATE_BIT(state) (1u << (unsigned)(state))

struct engine_lease {
    uint64_t token;   /* larger than that of every holder before */
    uint64_t stop_ms; /* monotonic: nothing is done under it from then on */
};

/* Who stores blocks is alone with them; instances that share a bucket would else all store the
 * same.  What it means to be fenced is the object tier's (g4): each part has a holder at a time,
 * for as long as its lease.  Calls come from any thread, and wait for the object tier. */
struct engine_fence {
    uint32_t parts; /* at least 1; a block is of part prefix_hash % parts */
    /** Try once.  KVT_OK with a lease; KVT_BUSY: somebody else stores blocks of this part;
     *  KVT_UNSUPPORTED: there are no locks (yet), and blocks are stored without; else why the tier
     *  could not be asked.  What was not begun is tried again later. */
    enum kvt_err (*acquire)(void *arg, uint32_t part, struct engine_lease *lease);
    /** Once for each lease.  KVT_OK; KVT_PRECONDITION: it was lost meanwhile, what was stored under
     *  it is not to be counted on; else that it is not known: then it ends by itself. */
    enum kvt_err (*release)(void *arg, uint32_t part, const struct engine_lease *lease);
    void *arg;
};

struct engine_leader_options {
    uint64_t instance; /* of this life of this instance; not 0 */
    struct engine_worker *worker;
    struct kvbm_pool *g2;
    struct kvbm_pool *g3;             /* NULL: none */
    const struct engine_fence *fence; /* NULL: none */
    const char *endpoint;             /* peers' leaders ask there; NULL: no peers */
    uint32_t stage_chunk;             /* 0: ENGINE_STAGE_CHUNK */
    uint32_t min_remote_blocks;       /* a shorter rest is not asked of peers; 0: 1 */
    uint64_t hold_ms; /* what a peer holds here and says nothing of ends then; 0: 30 s */
    uint32_t g2_high_ppm, g2_low_ppm; /* G2 to G3: above, down to; 0: 900,000 and 850,000 */
    uint64_t job_ms; /* a job lasts at most, whoever waits for it or nobody; 0: 30 s */
    bool store; /* what is registered in G2 and G3 goes to the object tier, too: at once if that
                   takes it, else as often as it needs, from the tier it is in by then */
    uint64_t store_again_ms; /* what was not stored at once is tried again after this, and after
                                twice as long up to eight times when none of it was; 0: 1 s */
};

struct engine_leader;

KVT_NODISCARD enum kvt_err engine_leader_open(struct engine_leader **out,
                                              const struct engine_leader_options *options,
                                              struct kvt_error *err);

/** Ends what goes on, tells peers, waits for jobs.  Every match must be released (asserted).  NULL
 *  is allowed. */
void engine_leader_close(struct engine_leader *leader);

/* ---- matches ---- */

struct engine_match;

/* What is known of one. */
struct engine_match_view {
    enum engine_state state;
    uint32_t wanted; /* blocks asked for */
    uint32_t found;  /* of them without a hole from the first on, wherever they are */
    uint32_t ready;  /* of these in our G2 and held, without a hole from the first on */
    uint32_t in_g2, in_g3, in_peer, in_objects; /* where `found` were found */
    bool shortened;                             /* something that was found did not come: */
    enum kvt_err why;                           /* ... the first reason; of FAILED the reason */
    char text[KVT_ERROR_TEXT_MAX];
    uint64_t peer; /* the instance whose blocks are among them; 0: none */
};

typedef void engine_match_fn(void *arg, struct engine_match *match,
                             const struct engine_match_view *view);

struct engine_find {
    const struct kvbm_label *labels; /* a prefix, root first; copied */
    size_t count;
    enum engine_mode mode;
    bool peers;               /* ask other instances for what is not here */
    bool objects;             /* ask the object tier, too */
    uint64_t wait_ms;         /* until READY (HOLDING of mode HOLD); then it is FAILED as
                                 KVT_TIMEOUT if nothing is ready, else READY and shortened */
    engine_match_fn *changed; /* may be NULL: at each change of state behind the first;
                                 never of COMPLETE */
    void *arg;
};

/** `*out` is a match in any state: READY at once when all is in G2.  `changed` may run before
 *  this returns.  KVT_OK, KVT_RANGE (more than ENGINE_FIND_MAX), KVT_FULL (as many matches go on as
 *  may), KVT_INVALID, KVT_NOMEM. */
KVT_NODISCARD enum kvt_err engine_leader_find(struct engine_leader *leader,
                                              const struct engine_find *find,
                                              struct engine_match **out);

/** How long a prefix G2 and G3 have, without holding or warming anything: the local tree's answer.
 *  */
size_t engine_leader_has(struct engine_leader *leader, const struct kvbm_label *labels,
                         size_t count);

/* Which of scattered blocks to hold. */
typedef bool engine_scan_fn(void *arg, size_t at, const struct kvbm_label *label,
                            enum kvt_tier tier);

/** Hold each of `labels` that G2 or G3 has and `wants` (NULL: all) says yes to, holes or not: a
 *  match of mode HOLD of these alone, in their order, READY when all of them lie in G2;
 *  engine_match_stage() brings those of G3 up.  `wants` runs in here, without a lock.  As find. */
KVT_NODISCARD enum kvt_err engine_leader_scan(struct engine_leader *leader,
                                              const struct kvbm_label *labels, size_t count,
                                              engine_scan_fn *wants, void *arg,
                                              struct engine_match **out);

void engine_match_view(struct engine_match *match, struct engine_match_view *view);

/** Wait until its state is one of `states` (ENGINE_STATE_BIT()), or COMPLETE or FAILED: KVT_OK, or
 *  KVT_TIMEOUT. */
KVT_NODISCARD enum kvt_err engine_match_wait(struct engine_match *match, uint32_t states,
                                             uint64_t wait_ms, struct engine_match_view *view);

/** Go on with one that is HOLDING (or READY after PREPARE).  KVT_OK, also where nothing is left to
 *  be done; KVT_PRECONDITION: its state is another. */
KVT_NODISCARD enum kvt_err engine_match_stage(struct engine_match *match, enum engine_mode mode,
                                              uint64_t wait_ms);

/** The blocks of our G2 that it holds, at most `capacity`: `view.ready` of them, in order.  They
 *  stay the match's. */
size_t engine_match_blocks(struct engine_match *match, struct kvt_handle *handles, size_t capacity);

/** Keep blocks that it holds beyond its end: the caller's from now on (kvbm_pool_drop()).  Once
 *  each: asked again, it gives those behind. */
size_t engine_match_take(struct engine_match *match, struct kvt_handle *handles, size_t capacity);

/** FAILED, as KVT_CANCELLED, soon; blocks it gave, and that were not taken, must not be used from
 *  now on. */
void engine_match_cancel(struct engine_match *match);

/** Let go of it, in whatever state, and, soon, of what it holds here and elsewhere.  `changed` does
 *  not run any more when this returns.  NULL is allowed. */
void engine_match_release(struct engine_match *match);

/* ---- what comes from the engine ---- */

/** Blocks of G2 that were written and registered by the caller: shown to peers, and sent on down as
 *  the options say.  Handles stay the caller's. */
void engine_leader_arrived(struct engine_leader *leader, const struct kvt_handle *handles,
                           size_t count);

/** Room for so many blocks in G2, moving others down or dropping what nobody holds.  KVT_OK;
 *  KVT_AGAIN: so many are not to be had; KVT_RANGE: G2 is smaller. */
KVT_NODISCARD enum kvt_err engine_leader_allocate(struct engine_leader *leader, size_t count,
                                                  struct kvt_handle *handles, uint64_t wait_ms);

/* ---- objects ---- */

/* Each item gets its own status; keys are rank-prefixed by the workers.  They wait. */
enum kvt_err engine_leader_has_objects(struct engine_leader *leader,
                                       const struct kvbm_label *labels, size_t count,
                                       enum kvt_err *statuses, uint64_t wait_ms);
/** Blocks of G2 that the caller holds. */
enum kvt_err engine_leader_put_objects(struct engine_leader *leader,
                                       const struct kvt_handle *handles, size_t count,
                                       enum kvt_err *statuses, uint64_t wait_ms);
/** Into G2, registered there; those that came are held by the caller. */
enum kvt_err engine_leader_get_objects(struct engine_leader *leader,
                                       const struct kvbm_label *labels, size_t count,
                                       struct kvt_handle *handles, enum kvt_err *statuses,
                                       uint64_t wait_ms);

/* ---- peers ---- */

/** Another instance: asked for its description now, and for prefixes from now on.
 *  KVT_PRECONDITION: its layout cannot be mapped on ours, in words. */
KVT_NODISCARD enum kvt_err engine_leader_add_peer(struct engine_leader *leader, uint64_t instance,
                                                  const char *endpoint, uint64_t wait_ms,
                                                  struct kvt_error *err);
void engine_leader_remove_peer(struct engine_leader *leader, uint64_t instance);

struct engine_leader_stats {
    /* Of matches that were asked for here; what peers ask for is not among them. */
    uint64_t finds, ready_at_once;
    uint64_t blocks_wanted, blocks_g2, blocks_g3, blocks_peer, blocks_objects;
    uint64_t shortened, failed;
    uint64_t pins;          /* blocks held now, by matches and for peers */
    uint64_t peer_sessions; /* that peers have here now, */
    uint64_t peer_expired;  /* ... and that ended because nothing was heard, or its link was over */
    uint64_t stored;        /* blocks, here and below: that the object tier took, */
    uint64_t store_failed;  /* ... and that it will never take */
    uint64_t store_again; /* how often one was put off: it was away, or somebody else stores them */
    uint64_t unstored; /* names in G2, and in G3, that are to be stored still; 0 unless `store` */
    uint64_t demoted;
    uint64_t dropped; /* by G2, and ... */
    uint64_t lost;    /* by G3: in no tier below; 0 unless `store` */
    uint32_t matches; /* not released, or released and (for a moment) not let go of */
};
void engine_leader_stats(struct engine_leader *leader, struct engine_leader_stats *stats);

#endif /* ENGINE_LEADER_LEADER_H */
