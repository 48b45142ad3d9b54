/*
 * kvbm/transfer/queue_ticket.h -- the state of something that was asked for: who waits, who took
 * it back, who is done with it.
 *
 * Why: transfers and volumes queue requests in ways of their own, but wait, cancel and release are
 * the same (kvtier/ticket.h).  This is the head of either's ticket.
 *
 * A ticket is queued, then begun by whoever gets there first, its queue's thread or a canceller,
 * who finishes it.
 *
 * Ownership: two owners: the caller, until kvt_ticket_release(), and the queue, until whoever took
 *            the ticket out of it let go.  The last of them frees it.
 * Threads:   any; `shared` is behind its lock, a leaf.
 */
#ifndef KVBM_TRANSFER_QUEUE_TICKET_H
#define KVBM_TRANSFER_QUEUE_TICKET_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "kvtier/ticket.h"

enum kvbm_ticket_state { KVBM_TICKET_QUEUED, KVBM_TICKET_RUNNING, KVBM_TICKET_FINISHED };

struct kvbm_ticket_ops {
    /** A canceller has begun it: say so of every part, and take it out of its queue if that can be;
     *  true: it was, and the queue's share in it is the canceller's to let go. */
    bool (*withdraw)(struct kvt_ticket *ticket);
    /** Nobody owns it any more. */
    void (*destroy)(struct kvt_ticket *ticket);
};

/* Whom to tell. */
struct kvbm_ticket_listener {
    kvt_ticket_done_fn *done; /* may be NULL */
    void *arg;
    int event_fd; /* of eventfd(2); 0: none */
};

struct kvt_ticket {
    const struct kvbm_ticket_ops *ops;
    struct kvbm_ticket_listener listener;
    _Atomic bool unwanted; /* cancelled after it had begun */

    struct {
        pthread_mutex_t lock; /* guards this struct */
        pthread_cond_t finished;
        enum kvbm_ticket_state state;
        enum kvt_err result;
        unsigned owners;
    } shared;
};

/** KVT_OK or KVT_NOMEM; `ticket` is a zeroed head. */
KVT_NODISCARD enum kvt_err kvbm_ticket_init(struct kvt_ticket *ticket,
                                            const struct kvbm_ticket_ops *ops,
                                            const struct kvbm_ticket_listener *listener);

/** The end of what only kvbm_ticket_init() made. */
void kvbm_ticket_fini(struct kvt_ticket *ticket);

/** Queued -> running.  False: somebody else has begun it. */
bool kvbm_ticket_begin(struct kvt_ticket *ticket);

/** Say how it ended, first to `listener` and then to those who wait.  With `let_go` the queue's
 *  share goes at the same time: once a waiter knows, the ticket is the caller's alone. */
void kvbm_ticket_finish(struct kvt_ticket *ticket, enum kvt_err result, bool let_go);

/** Wait for its end, however long that takes, and release it; how it ended.  KVT_TIMEOUT is then
 *  what the work itself said, which kvt_ticket_wait() cannot tell from a wait that was too short.
 */
enum kvt_err kvbm_ticket_end(struct kvt_ticket *ticket);

/** One owner fewer. */
void kvbm_ticket_let_go(struct kvt_ticket *ticket);

#endif /* KVBM_TRANSFER_QUEUE_TICKET_H */
