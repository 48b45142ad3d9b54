#include "kvbm/transfer/queue_ticket.h"

#include <assert.h>
#include <stdint.h>

#include "base/thread/cond.h"
#include "base/thread/wake.h"

enum kvt_err
kvbm_ticket_init(struct kvt_ticket *ticket, const struct kvbm_ticket_ops *ops,
                 const struct kvbm_ticket_listener *listener)
{
    ticket->ops = ops;
    ticket->listener = *listener;
    ticket->shared.state = KVBM_TICKET_QUEUED;
    ticket->shared.owners = 2;
    if (pthread_mutex_init(&ticket->shared.lock, NULL) != 0)
        return KVT_NOMEM;
    if (kvt_cond_init(&ticket->shared.finished))
        return KVT_OK;
    (void)pthread_mutex_destroy(&ticket->shared.lock);
    return KVT_NOMEM;
}

void
kvbm_ticket_fini(struct kvt_ticket *ticket)
{
    (void)pthread_cond_destroy(&ticket->shared.finished);
    (void)pthread_mutex_destroy(&ticket->shared.lock);
}

bool
kvbm_ticket_begin(struct kvt_ticket *ticket)
{
    bool mine;

    (void)pthread_mutex_lock(&ticket->shared.lock);
    mine = ticket->shared.state == KVBM_TICKET_QUEUED;
    if (mine)
        ticket->shared.state = KVBM_TICKET_RUNNING;
    (void)pthread_mutex_unlock(&ticket->shared.lock);
    return mine;
}

void
kvbm_ticket_finish(struct kvt_ticket *ticket, enum kvt_err result, bool let_go)
{
    unsigned owners;

    if (ticket->listener.done != NULL)
        ticket->listener.done(ticket->listener.arg);
    /* Before those who wait know: then the event's file may be closed already. */
    if (ticket->listener.event_fd > 0)
        kvt_wake_signal(ticket->listener.event_fd);
    (void)pthread_mutex_lock(&ticket->shared.lock);
    ticket->shared.state = KVBM_TICKET_FINISHED;
    ticket->shared.result = result;
    owners = ticket->shared.owners -= let_go ? 1 : 0;
    (void)pthread_cond_broadcast(&ticket->shared.finished);
    (void)pthread_mutex_unlock(&ticket->shared.lock);
    assert(owners > 0); /* it can only be released when it is finished */
}

void
kvbm_ticket_let_go(struct kvt_ticket *ticket)
{
    unsigned owners;

    (void)pthread_mutex_lock(&ticket->shared.lock);
    owners = --ticket->shared.owners;
    (void)pthread_mutex_unlock(&ticket->shared.lock);
    if (owners == 0)
        ticket->ops->destroy(ticket);
}

/* A wait answers at once. */
static bool
is_finished(struct kvt_ticket *ticket)
{
    bool finished;

    (void)pthread_mutex_lock(&ticket->shared.lock);
    finished = ticket->shared.state == KVBM_TICKET_FINISHED;
    (void)pthread_mutex_unlock(&ticket->shared.lock);
    return finished;
}

enum kvt_err
kvt_ticket_wait(struct kvt_ticket *ticket, uint64_t wait_ms)
{
    const struct timespec deadline = kvt_cond_deadline(wait_ms);
    enum kvt_err rc;

    (void)pthread_mutex_lock(&ticket->shared.lock);
    while (ticket->shared.state != KVBM_TICKET_FINISHED &&
           kvt_cond_wait(&ticket->shared.finished, &ticket->shared.lock, &deadline))
        continue;
    rc = ticket->shared.state == KVBM_TICKET_FINISHED ? ticket->shared.result : KVT_TIMEOUT;
    (void)pthread_mutex_unlock(&ticket->shared.lock);
    return rc;
}

enum kvt_err
kvbm_ticket_end(struct kvt_ticket *ticket)
{
    enum kvt_err rc;

    (void)pthread_mutex_lock(&ticket->shared.lock);
    while (ticket->shared.state != KVBM_TICKET_FINISHED)
        (void)pthread_cond_wait(&ticket->shared.finished, &ticket->shared.lock);
    rc = ticket->shared.result;
    (void)pthread_mutex_unlock(&ticket->shared.lock);
    kvbm_ticket_let_go(ticket);
    return rc;
}

enum kvt_err
kvt_ticket_cancel(struct kvt_ticket *ticket)
{
    bool withdrawn;

    if (!kvbm_ticket_begin(ticket)) {
        atomic_store(&ticket->unwanted, true);
        return KVT_BUSY;
    }
    withdrawn = ticket->ops->withdraw(ticket);
    kvbm_ticket_finish(ticket, KVT_CANCELLED, withdrawn);
    return KVT_OK;
}

void
kvt_ticket_release(struct kvt_ticket *ticket)
{
    const bool finished = ticket == NULL || is_finished(ticket);

    assert(finished);
    if (ticket != NULL)
        kvbm_ticket_let_go(ticket);
}
