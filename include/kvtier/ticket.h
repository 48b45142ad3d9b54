/*
 * kvtier/ticket.h -- something that was asked for and goes on by itself.
 *
 * Why: whoever asks for a copy must be able to go on, wait, or change its mind; transfers
 * (kvtier/transfer.h) and volumes (kvtier/volume.h) answer alike.
 *
 * Ownership: a ticket is the caller's until kvt_ticket_release(), which is only legal when it is
 *            finished (asserted) and every other call with it has returned: a cancel, too, still
 *            reads what it found over.
 * Threads:   any.  `done` runs on the thread that ends it (the canceller's for a ticket that was
 *            taken back) with no lock held, and must not wait for tickets.
 * Limits:    none of its own.
 */
#ifndef KVTIER_TICKET_H
#define KVTIER_TICKET_H

#include <stdint.h>

#include "kvtier/error.h"

#ifdef __cplusplus
extern "C" {
#endif

struct kvt_ticket;

/** Every status is written; the ticket is finished right after this returns. */
typedef void kvt_ticket_done_fn(void *arg);

/** Wait up to `wait_ms`: KVT_OK (everything went well), the status of the first that did not,
 *  KVT_CANCELLED, or KVT_TIMEOUT (it is not finished). */
KVT_NODISCARD enum kvt_err kvt_ticket_wait(struct kvt_ticket *ticket, uint64_t wait_ms);

/** Take it back.  KVT_OK: nothing had begun; it is finished as cancelled.  KVT_BUSY: it has begun
 *  or is finished; wait for it.  What it had not come to is KVT_CANCELLED then. */
enum kvt_err kvt_ticket_cancel(struct kvt_ticket *ticket);

/** NULL is allowed. */
void kvt_ticket_release(struct kvt_ticket *ticket);

#ifdef __cplusplus
}
#endif

#endif /* KVTIER_TICKET_H */
