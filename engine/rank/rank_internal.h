/*
 * engine/rank/rank_internal.h -- what the files of a rank know of each other.
 *
 * Why: rank.c has the book of jobs, their deadlines and ends, rank_move.c transfers and volumes,
 *      rank_pull.c other instances, rank_device.c memory of devices.
 *
 * A job is *carried* by a ticket of somebody else's queue, or *waits* for one of the rank's own
 * threads.  Whoever sets `over`, under the lock, ends it.
 *
 * Ownership: a rank_job is the book's until it is over; then, where a ticket carries it, the
 *            keeper's, who releases the ticket.
 * Threads:   `lock` is a leaf.
 * Limits:    as engine/rank/rank.h.
 */
#ifndef ENGINE_RANK_RANK_INTERNAL_H
#define ENGINE_RANK_RANK_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "kvbm/cuda/cuda_memory.h"
#include "kvbm/layout/layout_walk.h"
#include "kvtier/ticket.h"

#include "engine/memory/blockset_import.h"
#include "engine/rank/rank.h"

struct engine_rank;

struct rank_job {
    struct engine_rank *rank;
    struct engine_job *job;
    struct rank_job *next;
    struct kvt_ticket *ticket; /* that carries it; NULL: none yet */
    uint64_t end_ns;           /* KVT_TIMEOUT from then on; UINT64_MAX: never */
    enum kvt_err early;        /* why it was stopped; KVT_OK: it was not */
    unsigned users;            /* who cancel its ticket */
    bool waits;                /* for a thread of ours */
    bool begun;                /* ... which has it */
    bool lifts;                /* ... and brings blocks through memory */
    bool over;
    _Atomic bool stop; /* what a thread of ours does */
    union {
        struct kvt_copy *copies;
        struct kvt_volume_item *items;
    };
};

struct rank_peer {
    uint64_t number;
    uint32_t users; /* pulls that go on */
    struct kvbm_rank_map map;
    struct engine_import *imports[KVT_RANKS_MAX]; /* by part of the map */
    struct kvbm_storage *device;                  /* ENGINE_PEER_G1's, and nothing else of it */
    uint8_t *description;
    size_t size;
};

struct engine_rank {
    struct engine_worker head;
    struct engine_rank_options options;
    pthread_t keeper; /* deadlines, tickets */
    pthread_t threads[ENGINE_RANK_THREADS];
    unsigned started; /* of all these */
    uint64_t nonce;   /* of this life */

    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t keep;  /* for the keeper, */
    pthread_cond_t work;  /* ... the threads, */
    pthread_cond_t idle;  /* ... and who waits for a peer's pulls */
    bool closing;
    uint64_t wake_ns; /* when the keeper will look again */
    struct rank_job *jobs;
    size_t active; /* of them that are not over */
    struct rank_peer *peers[ENGINE_PEERS_MAX];
    bool shares; /* G1, as */
    struct kvbm_cuda_shared g1;
};

/* rank.c */

/** What peers have read of the targets of a job in G2 is old from now on. */
void engine_rank_hide_targets(struct engine_rank *rank, const struct engine_job *job);

/** As `status`, but for what was cancelled because it was late. */
enum kvt_err engine_rank_status(const struct rank_job *made, enum kvt_err status);

/** A ticket's job has its statuses: the ticket's `done`. */
void engine_rank_carried(struct rank_job *made);

/** Host memory of a block, in the rank's own layout; NULL: it has none. */
void *engine_rank_address(const struct engine_rank *rank, enum kvt_tier tier, uint32_t block);

/* rank_move.c */

/** Room for what the ticket moves.  KVT_OK or KVT_NOMEM. */
KVT_NODISCARD enum kvt_err engine_rank_prepare(struct rank_job *made);
/** Hand a job to its queue. */
KVT_NODISCARD enum kvt_err engine_rank_carry(struct rank_job *made, struct kvt_ticket **ticket);

/** Is it a STORE from a tier that is no memory, which a thread of ours does? */
bool engine_rank_lifts(const struct engine_rank *rank, const struct engine_job *job);
/** On that thread.  Every item gets its status. */
void engine_rank_lift(struct rank_job *made);

/* rank_pull.c */

/** On a thread of ours: PULL, SHOW.  Every item gets its status. */
void engine_rank_work(struct rank_job *made);
enum kvt_err engine_rank_describe(struct engine_worker *worker, struct kvt_buffer *out,
                                  uint64_t wait_ms, struct kvt_error *err);
enum kvt_err engine_rank_connect(struct engine_worker *worker, uint64_t number,
                                 const uint8_t *bytes, size_t size, uint64_t wait_ms,
                                 struct kvt_error *err);
void engine_rank_disconnect(struct engine_worker *worker, uint64_t number);
/** At the end, when nothing goes on. */
void engine_rank_forget_peers(struct engine_rank *rank);

/* rank_device.c */

enum kvt_err engine_rank_share(struct engine_worker *worker, struct kvt_buffer *out,
                               uint64_t wait_ms, struct kvt_error *err);

/** G1 of another rank, by what it shares.  Errors as engine_worker_connect(). */
KVT_NODISCARD enum kvt_err engine_rank_open_device(struct kvbm_storage **out,
                                                   struct engine_rank *rank, const uint8_t *bytes,
                                                   size_t size, struct kvt_error *err);

/** Is it a PULL from device to device? */
bool engine_rank_pulls_device(const struct engine_rank *rank, const struct engine_job *job);
/** On a thread of ours.  Every item gets its status. */
void engine_rank_pull_device(struct rank_job *made, struct kvbm_storage *theirs, uint64_t wait_ms);

#endif /* ENGINE_RANK_RANK_INTERNAL_H */
