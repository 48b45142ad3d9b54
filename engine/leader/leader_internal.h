/*
 * engine/leader/leader_internal.h -- what the files of the leader share; nobody else includes it
 * but engine/session*.c.
 *
 * Why: one thread decides (leader.c), and what it decides about is a match (leader_match.c), how
 * its blocks are found (leader_find.c), the places they may come from (local_origin.c,
 * leader_objects.c, session), the batches under way (leader_job.c, leader_stage.c) and what leaves
 * G2 (demotion.c).  Another thread stores (leader_store.c).
 *
 *     find ─► search: G2 and G3, then each origin far away, and what of G2 and G3 is behind it
 *          ─► stage: tasks of a chunk each, one origin a task ─► register ─► show
 *
 * A place that blocks may come from is an *origin*, a row of a table; a peer is one, and what it
 * says comes as messages.
 *
 * Ownership: the leader owns tasks and what they hold until they have ended, whatever became of the
 *            match they were begun for; a match owns what it holds.
 * Threads:   `shared` parts are behind the leader's lock, a leaf; the rest is the leader's
 *            thread's.  Before a match is known to that thread it is its maker's.  A worker's
 *            `done` only posts.
 * Limits:    as engine/leader/leader.h; ENGINE_LEADER_JOBS batches under way, of them as many of a
 *            kind as leader_job.c says.
 */
#ifndef ENGINE_LEADER_LEADER_INTERNAL_H
#define ENGINE_LEADER_LEADER_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "engine/leader/leader.h"

#define ENGINE_ROOM_MS    200  /* a match waits for room in G2 at most, then it is shortened */
#define ENGINE_SHOW_MS    1000 /* what could not be shown is not tried again sooner */
#define ENGINE_RETRY_MS   5    /* what was refused for now is tried again after */
#define ENGINE_ARRIVALS   4096 /* blocks to be shown or stored that may wait */
#define ENGINE_BATCH      64   /* blocks that are asked for, stored or loaded by one call */
#define ENGINE_MATCH_JOBS 2    /* tasks of one match: one is moved while the next is planned */

struct engine_leader_job;

/* ---- what the leader's thread is told ---- */

/* Embedded in what it is about; posted again while it waits it comes once. */
struct engine_message {
    struct engine_message *next;
    void (*run)(struct engine_leader *leader, struct engine_message *message);
    bool queued; /* behind the leader's lock */
};

/* Runs on the leader's thread at or after `at_ms`, once.  Of the leader's thread. */
struct engine_timer {
    struct engine_timer *next;
    struct engine_timer **link; /* NULL: not set */
    uint64_t at_ms;             /* monotonic */
    void (*run)(struct engine_leader *leader, struct engine_timer *timer);
};

/* ---- where blocks come from ---- */

enum engine_place {
    ENGINE_PLACE_NONE, /* of none known */
    ENGINE_PLACE_G2,
    ENGINE_PLACE_G3,
    ENGINE_PLACE_PEER, /* asked in this order */
    ENGINE_PLACE_OBJECTS,
    ENGINE_PLACE_END
};

/* All of it is called on the leader's thread, and waits for nothing. */
struct engine_origin {
    /** Far away: how many of the blocks from `match->found` on are there, without a hole?
     *  Answered once by engine_match_found(), now or later, also with 0.  NULL: near, looked at by
     *  itself. */
    void (*search)(struct engine_match *match);
    /** Staging begins (or begins anew, for another mode): have blocks made ready where they are,
     *  and call engine_match_pump() whenever more are.  May be NULL. */
    void (*stage)(struct engine_match *match);
    /** How many of blocks [first, first + count), which are its, can be brought now.  With fewer
     *  engine_match_pump() follows, or engine_match_cut().  NULL: all. */
    uint32_t (*ready)(struct engine_match *match, uint32_t first, uint32_t count);
    /** Mode PREPARE, it leaves its blocks where they are: are all before `match->end` ready there?
     *  NULL: it does not, they are brought. */
    bool (*prepared)(struct engine_match *match);
    /** Verb, `from` and `peer` of a job, and the `source` of each of its items, for blocks from
     *  `first` on.  The rest is filled in. */
    void (*fill)(struct engine_match *match, uint32_t first, struct engine_job *job);
    /** Nothing of it is wanted from block `from` on (0: nothing at all, the last call; jobs of it
     *  may still be on their way, and may fail).  May be NULL. */
    void (*let_go)(struct engine_match *match, uint32_t from);
};

/* ---- a batch under way ---- */

enum engine_leader_job_kind {
    ENGINE_LEADER_JOB_BRING,
    ENGINE_LEADER_JOB_ASK,
    ENGINE_LEADER_JOB_DOWN,
    ENGINE_LEADER_JOB_SHOW
};

/** It has ended; each item says how.  On the leader's thread; the task is free when it returns. */
typedef void engine_leader_job_fn(struct engine_leader_job *task);

struct engine_leader_job {
    struct engine_message message;
    struct engine_leader *leader;
    struct engine_leader_job *next; /* of the free ones, or of those under way */
    struct engine_match *match;     /* NULL: of none, or it is gone */
    enum engine_leader_job_kind kind;
    uint32_t first; /* of the match's blocks */
    engine_leader_job_fn *ended;
    struct engine_job job;
    struct kvt_error error;     /* of the outcome */
    struct engine_item *items;  /* job.count of them, at most ENGINE_ITEMS_MAX */
    struct kvt_handle *targets; /* held, or none */
    struct kvt_handle *sources; /* held, or none */
    bool again;                 /* refused for now: to be started again */
    bool lowers;                /* DOWN: on the way to the low watermark, not on demand alone */
};

#define ENGINE_LEADER_JOBS 28

/* ---- a match ---- */

struct engine_match {
    struct engine_leader *leader;
    struct engine_match *next, **link; /* among those that are staged; NULL: is not */
    engine_match_fn *changed;
    void *arg;
    bool known;    /* to the leader's thread */
    bool for_peer; /* another instance asks, and is not counted as a find of ours */
    bool peers, objects;
    struct engine_message wake;
    struct engine_timer deadline;
    struct kvbm_label *labels;
    struct kvt_handle *g2;     /* held and registered, or none */
    struct kvt_handle *source; /* of G3, held until it has been brought, or none */
    uint8_t *place;            /* enum engine_place: where each was found */
    uint32_t count;
    uint32_t found;
    uint32_t end;       /* what is behind it will not come, wherever it was found */
    uint32_t at;        /* what is before it is here or on its way */
    uint32_t ready;     /* as in the view */
    uint32_t running;   /* tasks */
    uint32_t asked_for; /* blocks behind `found` that the object tier is known to have */
    unsigned asked;     /* of origins, by bit */
    enum engine_place asking;
    bool waits; /* its search could not be begun: again, please */
    enum engine_mode mode;
    enum engine_state state;                   /* as in the view */
    uint64_t until_ms;                         /* UINT64_MAX: no end */
    uint64_t room_ms;                          /* since when it waits for room; 0: it does not */
    struct engine_session *session;            /* of blocks that a peer has */
    struct engine_responder *responder;        /* whoever it is held for: */
    void (*watch)(struct engine_match *match); /* there is news; on the leader's thread */

    struct { /* behind the leader's lock */
        struct engine_match_view view;
        uint32_t end;   /* of the match, as the view was published */
        uint32_t taken; /* blocks that are the owner's by now */
        bool cancelled, released;
        bool calling; /* `changed` runs */
        bool stage;   /* with these: */
        enum engine_mode mode;
        uint64_t until_ms;
    } shared;
};

/* ---- the leader ---- */

/* A block is shown once in each of its lives: to show it again would hide it from who reads. */
enum engine_shown {
    ENGINE_SHOWN_NOT,
    ENGINE_SHOWN_SOON, /* a job is about it */
    ENGINE_SHOWN_WELL,
    ENGINE_SHOWN_FAILED
};

struct engine_showing {
    uint32_t generation; /* what is said is of this life */
    enum engine_shown shown;
    uint64_t again_ms; /* FAILED: it is so until then; who wants it then has it tried again */
};

struct engine_demotion {
    struct engine_message kick;
    struct engine_timer retry;
    bool lowering;     /* between the watermarks, on the way down */
    uint64_t pause_ms; /* until when it does not try */
    /* Until then nothing may go, or could: who needs room must not wait for it. */
    _Atomic uint64_t stalled_ms;
    _Atomic uint32_t demand;
};

struct engine_leader {
    struct engine_leader_options options;
    const struct engine_origin *origins[ENGINE_PLACE_END];
    char *endpoint; /* a copy; NULL: no peers, and nothing is shown */
    struct engine_match *staging;
    struct engine_timer *timers;
    struct engine_timer again;       /* refused tasks */
    struct engine_leader_job *tasks; /* ENGINE_LEADER_JOBS of them */
    struct engine_leader_job *idle, *busy;
    unsigned under_way[4]; /* by kind */
    struct engine_message arrived;
    struct engine_demotion cascade;
    struct engine_sessions *sessions; /* with other instances */
    struct engine_showing *showing;   /* by block of G2 */
    _Atomic uint64_t pins;
    pthread_t thread, store_thread;
    bool thread_runs;
    struct engine_store_thread *storer; /* NULL: none runs */

    struct {
        pthread_mutex_t lock; /* guards this struct, and `shared` of matches; a leaf */
        pthread_cond_t wake;  /* the thread, */
        pthread_cond_t store; /* ... the storing one, */
        pthread_cond_t moved; /* ... and who waits for a match or for room */
        struct engine_message *first, **last;
        struct kvt_handle *arrivals; /* weak, a ring of ENGINE_ARRIVALS: to be shown, */
        struct kvt_handle *stores;   /* ... and one: to be stored soon */
        size_t arrival_first, arrival_count, store_first, store_count;
        uint64_t sweep_ms; /* when the storing thread looks for what is not stored; UINT64_MAX: no
                              need */
        bool stop, store_stop;
        struct engine_leader_stats stats;
    } shared;
};

/* ---- leader.c ---- */

/** From any thread; the second with the lock held. */
void engine_leader_post(struct engine_leader *leader, struct engine_message *message);
void engine_leader_post_locked(struct engine_leader *leader, struct engine_message *message);
/** (Re)set, and clear; of the leader's thread. */
void engine_leader_at(struct engine_leader *leader, struct engine_timer *timer, uint64_t at_ms);
void engine_leader_not_at(struct engine_timer *timer);
bool engine_leader_is_thread(const struct engine_leader *leader);
/** Add to a counter of the stats, from any thread. */
void engine_leader_count(struct engine_leader *leader, uint64_t *counter, uint64_t by);
/** Registered under its name: a handle of the block of that name, or why not. */
enum kvt_err engine_leader_register(struct kvbm_pool *pool, struct kvt_handle *handle,
                                    const struct kvbm_label *label);

/* ---- arrival.c ---- */

KVT_NODISCARD enum kvt_err engine_arrival_open(struct engine_leader *leader);
/** How far is the showing of this held block? */
enum engine_shown engine_arrival_shown(const struct engine_leader *leader,
                                       struct kvt_handle handle);
/** Blocks that have just been registered in G2 and are held: let peers see them, and store them,
 *  if that is what is done here.  Handles that are none are left out. */
void engine_leader_tell(struct engine_leader *leader, const struct kvt_handle *handles,
                        size_t count, bool store);

/* ---- leader_find.c ---- */

/** What an origin that was searched has: `count` blocks from match->found on; `why` when it was not
 *  KVT_OK that ended it (a peer that says nothing), for the view. */
void engine_match_found(struct engine_match *match, uint32_t count, enum kvt_err why,
                        const char *text);
/** Ask the next place far away, if one is left; else go on with what there is. */
void engine_find_search(struct engine_match *match);
/** Whoever is being asked need not answer. */
void engine_find_give_up(struct engine_match *match);
/** Where everything is, is known, or all that will be. */
void engine_find_know(struct engine_match *match);

/* ---- leader_match.c ---- */

/** For `count` blocks; NULL: out of memory. */
struct engine_match *engine_match_new(struct engine_leader *leader, size_t count);
/** All is known: bring it, or leave it where it is. */
void engine_match_go_on(struct engine_match *match);
/** It is what it will be: what it has is held, and no more is moved. */
void engine_match_settle(struct engine_match *match);
/** Something that was found does not come; the first reason stays. */
void engine_match_note(struct engine_match *match, enum kvt_err why, const char *text);
/** Go on; whatever may have changed. */
void engine_match_pump(struct engine_match *match);
/** What is behind block `end` will not come, for this reason. */
void engine_match_cut(struct engine_match *match, uint32_t end, enum kvt_err why, const char *text);
/** The state, and what else the view has, is published; `changed` is called where it is new. */
void engine_match_publish(struct engine_match *match, enum engine_state state);
/** Publish how many are ready. */
void engine_match_advance(struct engine_match *match);

/* ---- local_origin.c ---- */

/** Hold what G2 and G3 have from match->found on. */
void engine_origin_near(struct engine_match *match);
/** Hold what of its blocks G2 and G3 have and is wanted; the rest is left out, holes and all. */
void engine_origin_scan(struct engine_match *match, engine_scan_fn *wants, void *arg);
extern const struct engine_origin engine_origin_g2;
extern const struct engine_origin engine_origin_g3;
extern const struct engine_origin engine_origin_objects;

/* ---- leader_stage.c ---- */

/** Begin what there are tasks and room for.  True: all has come that will. */
bool engine_stage_step(struct engine_match *match);
/** Let every match that is being staged go on. */
void engine_stage_all(struct engine_leader *leader);

/* ---- leader_job.c ---- */

KVT_NODISCARD enum kvt_err engine_leader_jobs_open(struct engine_leader *leader);
void engine_leader_jobs_close(struct engine_leader *leader);
/** In ENGINE_RETRY_MS what was refused is started again, and who waits for room looked at. */
void engine_leader_jobs_again(struct engine_leader *leader);
/** A free one of this kind, or NULL: some end later, and then engine_stage_all() is called; or the
 *  leader is being closed, and begins nothing. */
struct engine_leader_job *engine_leader_job_take(struct engine_leader *leader,
                                                 enum engine_leader_job_kind kind);
/** Give one back that was not started. */
void engine_leader_job_give(struct engine_leader_job *task);
/** Its job is filled in but for what is said here; `ended` follows, never from within. */
void engine_leader_job_start(struct engine_leader_job *task, enum kvt_priority priority,
                             uint64_t wait_ms, engine_leader_job_fn *ended);

/* ---- demotion.c ---- */

void engine_demotion_open(struct engine_leader *leader);
/** Go on. */
void engine_demotion_step(struct engine_leader *leader);
/** May `count` blocks of G2 be taken?  KVT_OK: they were.  KVT_BUSY: room is being made, and that
 *  is worth waiting for; KVT_AGAIN: all is held.  `since_ms` is the caller's, 0 at first.  Any
 *  thread. */
enum kvt_err engine_demotion_room(struct engine_leader *leader, uint32_t count,
                                  struct kvt_handle *handles, uint64_t *since_ms);

/* ---- leader_objects.c ---- */

/** KVT_OK or KVT_EXISTS. */
bool engine_objects_is_well(enum kvt_err status);
/** Run a job of at most ENGINE_BATCH items until then at the latest; each says how it ended. */
void engine_objects_run(struct engine_leader *leader, struct engine_job *job, uint64_t until_ms,
                        enum kvt_err *statuses);

/* ---- leader_store.c ---- */

/* At most ENGINE_BATCH registered blocks of G2 or G3 that are held. */
struct engine_store_batch {
    enum kvt_tier tier;
    enum kvt_priority priority;
    bool ask; /* first: perhaps it has them */
    uint64_t until_ms;
    const struct kvt_handle *handles;
    size_t count;
};

/** Store a batch under its fences, and note and count what came of each. */
void engine_store_put(struct engine_leader *leader, const struct engine_store_batch *batch,
                      enum kvt_err *statuses);

/* A part of the fence while one thread stores its blocks, batch after batch. */
struct engine_store_turn {
    struct engine_leader *leader;
    uint32_t part;
    bool begun;      /* the fence was asked, with this answer: */
    enum kvt_err rc; /* ... KVT_UNSUPPORTED: it is done without */
    struct engine_lease lease;
    uint64_t longest_ms; /* of its batches */
};

/** Nobody is asked before there is something to store. */
void engine_store_turn_open(struct engine_store_turn *turn, struct engine_leader *leader,
                            uint32_t part);
/** A batch of this part.  `ours`: what was done under the lease, and counts if the turn lasts. */
void engine_store_turn_store(struct engine_store_turn *turn, const struct engine_store_batch *batch,
                             enum kvt_err *statuses, bool *ours);
/** Is there time for another batch? */
bool engine_store_turn_goes_on(const struct engine_store_turn *turn);
/** Once.  False: the part was lost meanwhile, and what was done is to be asked for again. */
bool engine_store_turn_end(struct engine_store_turn *turn);

struct kvbm_pool *engine_store_pool(const struct engine_leader *leader, enum kvt_tier tier);
uint32_t engine_store_part(const struct engine_leader *leader, const struct kvbm_label *label);
/** It is there, or would be refused again: what is wrong is the block, or how it is called. */
bool engine_store_is_settled(enum kvt_err status);
bool engine_store_is_stopped(struct engine_leader *leader);
/** What came of them: pools and counts. */
void engine_store_note(struct engine_leader *leader, const uint64_t *hashes,
                       const enum kvt_err *statuses, size_t count);

/* ---- store_thread.c ---- */

/** Something may be registered that is not stored.  Any thread; the second with the lock held. */
void engine_store_thread_owe(struct engine_leader *leader);
void engine_store_thread_owe_locked(struct engine_leader *leader);
KVT_NODISCARD enum kvt_err engine_store_thread_open(struct engine_leader *leader);
/** Ends the thread. */
void engine_store_thread_close(struct engine_leader *leader);

/* ---- session*.c ---- */

extern const struct engine_origin engine_origin_peer;
KVT_NODISCARD enum kvt_err engine_sessions_open(struct engine_leader *leader,
                                                struct kvt_error *err);
/** Before the leader's thread ends, and behind it. */
void engine_sessions_close(struct engine_leader *leader);
void engine_sessions_free(struct engine_leader *leader);
/** More blocks are shown. */
void engine_responder_shown(struct engine_leader *leader);

#endif /* ENGINE_LEADER_LEADER_INTERNAL_H */
