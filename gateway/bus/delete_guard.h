/*
 * gateway/bus/delete_guard.h -- which blocks of a deletion order may go.
 *
 * Why: a signature shows who gave an order, not that its reason is true.  An advisor that was
 * misled by forged messages, or is wrong, must not be able to empty a store.  So the gateway
 * compares the order's cause with its own catalog:
 *
 *   room    only while the tier's use is above the stop mark, item by item; the one that crosses
 *           the mark is the last.  The mark is a share of the capacity that the gateway itself
 *           keeps, or of the policy's where that is less, and no lower than the gateway's own
 *           mark.  What is on its way out counts as gone.
 *   quota, expire, job    need the policy's version and rule, or the job's id.
 *   other   at most a share of all rows in any hour.
 *
 * Threads:   pure functions on the caller's own values.
 * Limits:    GATEWAY_DELETION_SLOTS minutes are remembered.
 */
#ifndef GATEWAY_BUS_DELETE_GUARD_H
#define GATEWAY_BUS_DELETE_GUARD_H

#include <stdbool.h>
#include <stdint.h>

#include "gateway/catalog/catalog.h"
#include "kvtier/order.h"

/* What the gateway knows by itself when the order is executed. */
struct gateway_delete_facts {
    /* ROOM */
    unsigned tier;     /* the bit of the tier that the cause names; 0: not one of this gateway's */
    uint64_t used;     /* bytes there */
    uint64_t leaving;  /* of them: marked for removal already */
    uint64_t capacity; /* that the gateway keeps of it; 0: none */
    uint32_t mark_ppm; /* of that capacity: no stop mark is lower */
    /* OTHER */
    uint64_t rows;      /* of the catalog */
    uint64_t deleted;   /* rows that such orders deleted in the last hour */
    uint32_t share_ppm; /* of all rows that may go in an hour */
};

struct gateway_delete_guard {
    enum kvt_delete_cause_kind kind;
    unsigned tier;
    uint64_t room; /* ROOM: bytes above the mark; OTHER: rows that may still go */
};

/** Begin an order.  NULL: ask for each of its rows; otherwise why nothing of it may go. */
const char *gateway_delete_guard_begin(struct gateway_delete_guard *guard,
                                       const struct kvt_delete_cause *cause,
                                       const struct gateway_delete_facts *facts);

/** May a row go that counts in these tiers and has so many bytes?  NULL: it may, and counts as gone
 *  from now on; otherwise why it stays. */
const char *gateway_delete_guard_admit(struct gateway_delete_guard *guard, unsigned tiers,
                                       uint64_t bytes);

/** Rows deleted in the hour before `now_ms`, and those later than it: the clock was set back. */
uint64_t gateway_deletions_sum(const struct gateway_deletions *deletions, uint64_t now_ms);

/** So many more at `now_ms`. */
void gateway_deletions_add(struct gateway_deletions *deletions, uint64_t now_ms, uint64_t rows);

#endif /* GATEWAY_BUS_DELETE_GUARD_H */
