/*
 * kvtier/offload.h -- blocks go down the tiers by themselves, and come up when they are needed.
 *
 * Why: what a tier drops for room should still be found one tier lower, and be back before it is
 * waited for.  An engine that calls kvt_offload_step() once an iteration need not think of it: the
 * call decides what moves and never waits; bytes are moved by the threads of kvtier/transfer.h and
 * kvtier/volume.h.
 *
 *     G1 ──► G2 ──► G3 ──► G4    down: a tier above its high watermark is lowered to its low one,
 *      ▲      ▲      │      │    coldest first; what rests for some iterations is copied ahead of
 *      └──────┴──────┴──────┘    time and stays; what is pushed is copied now
 *                                up: by need, or ahead of it (prefetch), through G2 if it is there
 *
 * Tiers that are not there are skipped; two are enough.  What leaves a tier can be filtered by
 * priority, by position and by a function of the program's.
 *
 * Ownership: pools, storages, volumes and transfer manager are borrowed and outlive the offloader;
 *            options and names are copied.  An onboard is the caller's until kvt_onboard_release().
 * Threads:   kvt_offload_step() and kvt_offload_free() are one thread's; the rest is any thread's.
 *            Callbacks run on the thread that steps, with no lock held; they must not wait, nor
 *            call the offloader.  With `iteration_ms` the offloader has a thread that steps.
 * Limits:    the names below.  A block on its way is held, and so neither evicted nor reused.  What
 *            a lower tier, or a filter, refused for good is set aside until somebody finds it anew.
 *
 * A structure whose first member is `size` may grow at its end; members that are not set are 0.
 */
#ifndef KVTIER_OFFLOAD_H
#define KVTIER_OFFLOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kvtier/block.h"
#include "kvtier/error.h"
#include "kvtier/kvbm.h"

#ifdef __cplusplus
extern "C" {
#endif

#define KVT_OFFLOAD_BATCH     32         /* blocks that move together, at most, ... */
#define KVT_OFFLOAD_BYTES     (8u << 20) /* ... bytes, ... */
#define KVT_OFFLOAD_JOBS      4   /* ... and such batches on one edge, and of onboards, at once */
#define KVT_OFFLOAD_LOOKS     512 /* blocks of a tier that a step looks at for how long they rest */
#define KVT_OFFLOAD_QUEUE_MAX 65536
#define KVT_ONBOARDS_MAX      256   /* at once */
#define KVT_ONBOARD_BLOCKS    65536 /* of one onboard */

struct kvt_storage;  /* kvtier/storage.h */
struct kvt_transfer; /* kvtier/transfer.h */
struct kvt_volumes;  /* kvtier/volume.h */

struct kvt_offload;
struct kvt_onboard;

/** May the block go down from this tier? */
typedef bool kvt_offload_filter_fn(void *arg, enum kvt_tier from, const struct kvt_block_info *info,
                                   uint32_t priority);

/* A tier that is a pool, and what leaves it downwards. */
struct kvt_offload_tier {
    size_t size; /* of this structure */
    struct kvt_pool *pool;
    struct kvt_storage *storage;   /* as many blocks as the pool */
    uint32_t high_ppm;             /* of its blocks in use; 0 = 900000; 1000000: never */
    uint32_t low_ppm;              /* below high_ppm; 0 = high_ppm - 150000, or 0 */
    uint32_t idle_iterations;      /* a block that rests so long is copied down; 0: never */
    uint32_t min_priority;         /* blocks below it stay */
    uint32_t position_from;        /* blocks before this position in their chain stay, ... */
    uint32_t position_to;          /* ... and those from this one on; 0: no end */
    kvt_offload_filter_fn *filter; /* may be NULL */
    void *filter_arg;
};

struct kvt_offload_options {
    size_t size;                       /* of this structure */
    const struct kvt_offload_tier *g1; /* NULL: not there */
    const struct kvt_offload_tier *g2;
    const struct kvt_offload_tier *g3;
    struct kvt_volumes *volumes; /* NULL: there is no G4 */
    uint64_t volume;             /* its number */
    struct kvt_transfer *transfer;
    size_t queue_max;      /* pushed blocks that wait; 0 = 256 */
    uint64_t room_wait_ms; /* how long who needs room waits for the edge below before it evicts */
    uint64_t retry_ms;     /* until an edge that moved nothing tries again; 0 = 500 */
    uint64_t prefill_rate; /* tokens a second that computing makes; 0: nothing is too dear */
    uint32_t block_tokens; /* for prefill_rate; 0 = 16 */
    uint64_t
        iteration_ms; /* 0: the program steps; else a thread does, and an iteration is so long */
};

/**
 * @return KVT_OK; KVT_INVALID (fewer than two tiers, watermarks or sizes that cannot be),
 *         KVT_UNSUPPORTED (members this library does not know), KVT_NOMEM, with *out NULL
 */
KVT_NODISCARD enum kvt_err kvt_offload_new(struct kvt_offload **out,
                                           const struct kvt_offload_options *options,
                                           struct kvt_error *err);

/** Cancels what waits, ends what is under way and gives every block back.  Every onboard was
 *  released.  NULL is allowed. */
void kvt_offload_free(struct kvt_offload *offload);

/** One iteration: note what has arrived, and begin what should.  Never waits, and allocates nothing
 *  but tickets.  Not with `iteration_ms`: asserted. */
void kvt_offload_step(struct kvt_offload *offload);

/** Copy a block of the first tier down now; the offloader holds it, too, until it is there.
 *  KVT_OK, or KVT_AGAIN: the queue stayed full for `wait_ms`. */
KVT_NODISCARD enum kvt_err kvt_offload_push(struct kvt_offload *offload, struct kvt_shared handle,
                                            uint64_t wait_ms);

/** `count` blocks of a tier will be wanted: make that many free, beyond its watermark.  Waits up to
 *  `wait_ms`, but not for a tier that makes no progress. */
void kvt_offload_make_room(struct kvt_offload *offload, enum kvt_tier tier, uint32_t count,
                           uint64_t wait_ms);

/** Until nothing moves and nothing should; where the program steps, this does.  False: time ran
 *  out. */
bool kvt_offload_drain(struct kvt_offload *offload, uint64_t wait_ms);

/* What left a tier downwards. */
struct kvt_offload_stats {
    size_t size;     /* of this structure, in */
    uint64_t blocks; /* moved, bytes and all */
    uint64_t bytes;
    uint64_t present;  /* were there already */
    uint64_t filtered; /* may not go */
    uint64_t failed;   /* not stored: no room, refused, peer away, unreadable */
    uint64_t full;     /* of them, refused for want of room */
    uint64_t corrupt;  /* of them, unreadable at the source, which dropped them */
    uint64_t pushed;   /* asked to go, by kvt_offload_push(), ... */
    uint64_t lowered;  /* ... by a watermark or for room, ... */
    uint64_t idle;     /* ... because they rested */
    uint64_t moving;   /* now */
};

/** KVT_OK, or KVT_NOTFOUND with all zero: nothing leaves this tier. */
enum kvt_err kvt_offload_stats(struct kvt_offload *offload, enum kvt_tier from,
                               struct kvt_offload_stats *stats);

/* ---- up ---- */

/** The onboard is finished.  On the thread that steps. */
typedef void kvt_onboard_done_fn(void *arg);

struct kvt_onboard_request {
    size_t size;                         /* of this structure */
    const struct kvt_block_info *blocks; /* a chain or its part, first one first; copied */
    size_t count;                        /* 1 .. KVT_ONBOARD_BLOCKS */
    enum kvt_tier target;                /* G1 or G2, as far as they are there; 0: the first tier */
    bool prefetch; /* nobody waits yet: it never evicts, gives way to need, and holds nothing */
    uint64_t deadline_ms;      /* from now; what would come later is not begun.  0: none */
    kvt_onboard_done_fn *done; /* may be NULL */
    void *arg;
};

/* What became of one. */
struct kvt_onboard_result {
    size_t size; /* of this structure, in */
    /* KVT_OK: all of them.  The first that is missing ends it: KVT_NOTFOUND (no tier has it),
     * KVT_TIMEOUT (it would come, or came, after the deadline), KVT_RANGE (sooner computed),
     * KVT_AGAIN (no room, or a prefetch under pressure), KVT_CANCELLED, KVT_CORRUPT, KVT_IO ... */
    enum kvt_err status;
    uint32_t arrived; /* blocks, from the first on */
    uint32_t from[5]; /* of them, by the tier (1 to 4) they came from */
};

/**
 * Ask for blocks.  The longest prefix that some tiers have is staged into the target.
 *
 * @return KVT_OK; KVT_AGAIN (KVT_ONBOARDS_MAX are under way), KVT_INVALID, KVT_UNSUPPORTED (members
 *         this library does not know) or KVT_NOMEM, with *out NULL
 */
KVT_NODISCARD enum kvt_err kvt_onboard_start(struct kvt_onboard **out, struct kvt_offload *offload,
                                             const struct kvt_onboard_request *request,
                                             struct kvt_error *err);

/** Wait up to `wait_ms` until it is finished: its status, and `result` (may be NULL) filled in;
 *  else KVT_BUSY.  Where the program steps, 0: nobody else would. */
KVT_NODISCARD enum kvt_err kvt_onboard_wait(struct kvt_onboard *onboard, uint64_t wait_ms,
                                            struct kvt_onboard_result *result);

/** When it is finished, and was no prefetch: the handles of what arrived become the caller's.
 *  Returns how many, which is result.arrived the first time and 0 from then on. */
size_t kvt_onboard_take(struct kvt_onboard *onboard, struct kvt_shared *handles);

/** Begin nothing more of it; it is finished at the next step.  What is under way still arrives in
 *  its tier, held by nobody. */
void kvt_onboard_cancel(struct kvt_onboard *onboard);

/** Gives back what was not taken; one that is not finished is cancelled.  NULL is allowed. */
void kvt_onboard_release(struct kvt_onboard *onboard);

struct kvt_onboard_stats {
    size_t size;       /* of this structure, in */
    uint64_t onboards; /* finished */
    uint64_t blocks;   /* asked for by them */
    uint64_t from[5];  /* arrived, by the tier they came from */
    uint64_t missing;  /* blocks in no tier, or behind one that was not */
    uint64_t late;
    uint64_t dearer;
    uint64_t no_room;
    uint64_t given_up; /* of prefetches: under pressure */
    uint64_t cancelled;
    uint64_t failed;
    uint64_t corrupt; /* of them, failed their check */
    uint64_t used;    /* of prefetched blocks: were found, ... */
    uint64_t unused;  /* ... went before anybody had looked for them */
    uint64_t waiting; /* onboards, now */
};

/** Of onboards by need, or of prefetches. */
void kvt_onboard_stats(struct kvt_offload *offload, bool prefetch, struct kvt_onboard_stats *stats);

#ifdef __cplusplus
}
#endif

#endif /* KVTIER_OFFLOAD_H */
