/*
 * router/deadlines.h -- what is due first, of things that come and go in any order.
 *
 * Why: requests come with ages of their own, so the order they came in is not that of their ends.
 * A binary heap of members that lie in their owners.
 *
 * Ownership: the heap owns its array; members belong to their owners and stay where they are while
 *            they are in it.
 * Threads:   none; one owner.
 * Limits:    memory.
 */
#ifndef ROUTER_DEADLINES_H
#define ROUTER_DEADLINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct router_deadline {
    uint64_t at_ms;
    size_t place; /* the heap's */
};

struct router_deadlines {
    struct router_deadline **heap;
    size_t count;
    size_t capacity;
};

void router_deadlines_release(struct router_deadlines *deadlines);

/** False: no memory, and nothing changed. */
bool router_deadlines_add(struct router_deadlines *deadlines, struct router_deadline *deadline);
/** It is in the heap. */
void router_deadlines_remove(struct router_deadlines *deadlines, struct router_deadline *deadline);
/** It is in the heap; to an earlier or the same time. */
void router_deadlines_advance(struct router_deadlines *deadlines, struct router_deadline *deadline,
                              uint64_t at_ms);
/** The earliest, or NULL. */
struct router_deadline *router_deadlines_first(const struct router_deadlines *deadlines);

#endif /* ROUTER_DEADLINES_H */
