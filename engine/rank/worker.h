/*
 * engine/rank/worker.h -- who moves bytes: one rank, in this process or another, or a group of
 * them.
 *
 * Why: a leader decides in names and block numbers and never touches bytes; a worker moves bytes
 * and never decides.  What a leader wants done is a *job*: one verb over many blocks.  Behind this
 * one table stand a rank in this process (engine/rank/rank.h), one in another process
 * (engine/rank/rank_client.h), all ranks of an instance (engine/rank/group.h) and a group in which
 * rank 0 alone stores (engine/replica/replica_group.h); who starts a job cannot tell which.
 *
 * Verbs, beside what others call them:
 *   COPY    tier `from` to tier `to` of the same rank        execute_local_transfer
 *   LOAD    the object tier to `to`                          execute_remote_onboard
 *   PULL    G2 of another instance to `to`                   execute_remote_onboard
 *   STORE   `from` to the object tier                        execute_remote_offload
 *   ASK     which of these has the object tier
 *   SHOW    let other instances read these blocks of G2; they are registered
 *   HIDE    let them no longer
 *
 * Block number n is block n of each rank's memory: a leader of four ranks has one set of numbers.
 * Ranks of one group have one layout but for the rank.
 *
 * Before a rank writes into a block of G2 it hides it, whoever asked for what: a peer that reads
 * what was there finds out (engine/memory/blockset.h).
 *
 * Ownership: a worker belongs to who opened it; jobs and their items are the caller's, and borrowed
 *            from a start that answered KVT_OK until `done` returns.  A worker is closed when none
 *            of its jobs goes on (asserted).
 * Threads:   any.  `done` is called once for each job that was started, on any thread, also on the
 *            starting one before start returns; without a lock.  It may start jobs; it must not
 *            wait.
 * Limits:    ENGINE_ITEMS_MAX items a job, ENGINE_JOBS_MAX jobs at once at one rank,
 *            ENGINE_JOB_WAIT_MAX_MS for a job, whatever was asked for.
 */
#ifndef ENGINE_RANK_WORKER_H
#define ENGINE_RANK_WORKER_H

#include <stddef.h>
#include <stdint.h>

#include "base/core/buffer.h"
#include "kvbm/layout/block_layout.h"
#include "kvbm/pool/block_pool.h"
#include "kvtier/block.h"
#include "kvtier/error.h"
#include "kvtier/transfer.h"

#define ENGINE_ITEMS_MAX       512
#define ENGINE_PEERS_MAX       64
#define ENGINE_JOBS_MAX        256
#define ENGINE_JOB_WAIT_MAX_MS 600000
/* Peers of a replica's ranks, and no others': their own rank 0, and the G1 of it.  PULL of the
 * second is from its block `source` of G1 to G1, device to device, and may be of some layers. */
#define ENGINE_PEER_SELF       UINT64_MAX
#define ENGINE_PEER_G1         (UINT64_MAX - 1)

#define ENGINE_METADATA_MAX (512u << 10) /* bytes of what engine_worker_describe() says */

enum engine_verb {
    ENGINE_COPY = 1,
    ENGINE_LOAD,
    ENGINE_PULL,
    ENGINE_STORE,
    ENGINE_ASK,
    ENGINE_SHOW,
    ENGINE_HIDE,
    ENGINE_VERB_END
};

struct engine_item {
    struct kvbm_label label; /* not looked at by COPY and HIDE */
    uint32_t source;         /* block of `from`; of PULL the peer's; of SHOW and HIDE the block */
    uint32_t target;         /* block of `to` */
    /* Out.  Of several ranks the first that is not KVT_OK, by rank.  ASK: KVT_OK (all ranks have
     * theirs) or KVT_NOTFOUND.  STORE: KVT_EXISTS is well.  PULL: KVT_NOTFOUND is a stale
     * description: the peer has another block there now; no byte of it is left.  What failed has
     * undefined bytes at `target`. */
    enum kvt_err status;
};

/* How a job ended, rank by rank. */
struct engine_outcome {
    enum kvt_err status;                 /* KVT_OK: every item of every rank is well */
    uint32_t ranks;                      /* how many are told of */
    enum kvt_err by_rank[KVT_RANKS_MAX]; /* the first of each that is not */
    struct kvt_error error; /* of the first rank that failed, in words; it names the rank */
};

typedef void engine_done_fn(void *arg, const struct engine_outcome *outcome);

struct engine_job {
    enum engine_verb verb;
    enum kvt_tier from; /* COPY, STORE: G1 to G3 */
    enum kvt_tier to;   /* COPY (another than `from`), LOAD, PULL: G1 to G3 */
    uint32_t layer;     /* COPY, PULL of ENGINE_PEER_G1: layers [layer, layer + layers), */
    uint32_t layers;    /* ... 0: all, and `layer` is 0 */
    uint64_t peer;      /* PULL: as engine_worker_connect() was told; one that is not connected is
                           KVT_UNAVAILABLE, of every item */
    enum kvt_priority priority;
    uint64_t wait_ms; /* what has not ended by then is KVT_TIMEOUT; more than
                         ENGINE_JOB_WAIT_MAX_MS is that */
    struct engine_item *items;
    size_t count;
    engine_done_fn *done;
    void *arg;
    void *private_; /* the worker's, while the job goes on */
};

struct engine_worker;

struct engine_worker_ops {
    const char *kind; /* "rank", "remote", "group", "replica" */
    enum kvt_err (*start)(struct engine_worker *worker, struct engine_job *job);
    /** As start, but on KVT_OK `done` was called when it returns; NULL: start, and a wait. */
    enum kvt_err (*run)(struct engine_worker *worker, struct engine_job *job);
    void (*cancel)(struct engine_worker *worker, struct engine_job *job);
    enum kvt_err (*describe)(struct engine_worker *worker, struct kvt_buffer *out, uint64_t wait_ms,
                             struct kvt_error *err);
    enum kvt_err (*connect)(struct engine_worker *worker, uint64_t peer, const uint8_t *bytes,
                            size_t size, uint64_t wait_ms, struct kvt_error *err);
    void (*disconnect)(struct engine_worker *worker, uint64_t peer);
    /** NULL: KVT_UNSUPPORTED. */
    enum kvt_err (*share)(struct engine_worker *worker, struct kvt_buffer *out, uint64_t wait_ms,
                          struct kvt_error *err);
    void (*close)(struct engine_worker *worker);
};

/* The head of every kind. */
struct engine_worker {
    const struct engine_worker_ops *ops;
    struct kvbm_layout layout;        /* of rank 0 */
    uint32_t ranks;                   /* it stands for */
    uint32_t blocks[KVT_TIER_G4 + 1]; /* by enum kvt_tier; 0: no such tier */
    bool objects;                     /* it has an object tier */
};

/**
 * Begin a job.
 *
 * @return KVT_OK: `done` is called, once.  Else it is not, and nothing was done: KVT_AGAIN (as many
 *         go on as may), KVT_INVALID (a verb, tier or number that cannot be), KVT_UNSUPPORTED (a
 *         way that this worker has not), KVT_NOMEM, KVT_UNAVAILABLE (the process is gone).  Targets
 *         in G2 may be hidden all the same.
 */
KVT_NODISCARD enum kvt_err engine_worker_start(struct engine_worker *worker,
                                               struct engine_job *job);

/** Start, and wait for its end: the outcome's status.  What was not begun is the status of every
 *  item.  `outcome` may be NULL; `job->done` and `job->arg` are used by this. */
enum kvt_err engine_worker_run(struct engine_worker *worker, struct engine_job *job,
                               struct engine_outcome *outcome);

/** Let what has not begun not begin.  `done` is called still, perhaps on this thread before this
 *  returns: what was not done is KVT_CANCELLED.  Nothing happens to a job that has ended, as long
 *  as its memory is no other job's. */
void engine_worker_cancel(struct engine_worker *worker, struct engine_job *job);

/** Metadata export: all another instance needs to pull from G2 of this one's ranks, appended to
 *  `out`; at most ENGINE_METADATA_MAX bytes. */
KVT_NODISCARD enum kvt_err engine_worker_describe(struct engine_worker *worker,
                                                  struct kvt_buffer *out, uint64_t wait_ms,
                                                  struct kvt_error *err);

/**
 * Metadata import: from now on `peer` is the instance that described itself so.
 *
 * @return KVT_OK; KVT_EXISTS (that number has another description: disconnect first); KVT_INVALID,
 *         KVT_CORRUPT (no description); KVT_PRECONDITION (its layout cannot be mapped on ours, in
 *         words); KVT_UNAVAILABLE (it cannot be reached); KVT_FULL; KVT_NOMEM.  ENGINE_PEER_G1:
 *         KVT_PRECONDITION is also another machine; KVT_UNSUPPORTED: no device here; KVT_IO: the
 *         driver refuses, as it does when that process is gone
 */
KVT_NODISCARD enum kvt_err engine_worker_connect(struct engine_worker *worker, uint64_t peer,
                                                 const uint8_t *bytes, size_t size,
                                                 uint64_t wait_ms, struct kvt_error *err);

/**
 * Append what ranks on the same machine need to have this rank's G1 where that is a device's memory
 * (CUDA IPC): they connect ENGINE_PEER_G1 by it.  Whoever has these bytes can write that memory, so
 * they are for the ranks of one replica alone.  The same process says the same each time.
 *
 * @return KVT_OK; KVT_UNSUPPORTED (G1 is no device's, or an engine's, or the driver cannot);
 *         KVT_IO; KVT_UNAVAILABLE; KVT_NOMEM
 */
KVT_NODISCARD enum kvt_err engine_worker_share(struct engine_worker *worker, struct kvt_buffer *out,
                                               uint64_t wait_ms, struct kvt_error *err);

/** Pulls of it that go on end first, or fail. */
void engine_worker_disconnect(struct engine_worker *worker, uint64_t peer);

/** NULL is allowed. */
void engine_worker_close(struct engine_worker *worker);

/** "copy", "load", ... */
const char *engine_verb_name(enum engine_verb verb);

/* ---- for those who write a worker ---- */

/** Is it a job this worker can be given?  KVT_OK, or KVT_INVALID in words; the workers' own
 *  start functions begin with it. */
KVT_NODISCARD enum kvt_err engine_job_check(const struct engine_worker *worker,
                                            const struct engine_job *job, struct kvt_error *err);

/** Does it write its targets?  COPY, LOAD, PULL. */
bool engine_job_writes(const struct engine_job *job);

/** Is that a good end of an item?  KVT_OK, KVT_EXISTS of a STORE, KVT_NOTFOUND of an ASK. */
bool engine_item_is_well(enum engine_verb verb, enum kvt_err status);

/** Give every item that status. */
void engine_job_fail(struct engine_job *job, enum kvt_err status);

/** End a job: calls `done`, and touches the job no more.  `outcome` NULL: what its items say, of
 *  the one rank that `worker` is. */
void engine_job_finish(const struct engine_worker *worker, struct engine_job *job,
                       const struct engine_outcome *outcome);

/* A description is a row of records, one a rank in the order of ranks: a group's is those of its
 * ranks one behind the other (a replica's rank 0's alone), and each rank is connected to all of it.
 * What is in a record only ranks know. */

/** Append a record of 1 to ENGINE_METADATA_MAX bytes. */
void engine_record_append(struct kvt_buffer *out, const void *record, size_t size);

/** Take the first record off.  False: there is none; then `*size` is 0 at the end of a description,
 *  and else it is none. */
bool engine_record_next(const uint8_t **bytes, size_t *size, const uint8_t **record,
                        size_t *record_size);

#endif /* ENGINE_RANK_WORKER_H */
