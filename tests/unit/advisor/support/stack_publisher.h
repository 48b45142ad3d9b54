/*
 * tests/unit/advisor/support/stack_publisher.h -- a publisher on a test's stack.
 *
 * Why: a publisher owns digests of its events.  They are freed where the variable ends.
 */
#ifndef TESTS_UNIT_ADVISOR_SUPPORT_STACK_PUBLISHER_H
#define TESTS_UNIT_ADVISOR_SUPPORT_STACK_PUBLISHER_H

#include "advisor/publisher/own_publisher.h"

static inline void
stack_publisher_release(struct advisor_publisher *publisher)
{
    advisor_seen_events_release(&publisher->seen);
}

static inline void
stack_publisher_replace(struct advisor_publisher *publisher, struct advisor_publisher by)
{
    stack_publisher_release(publisher);
    *publisher = by;
}

#define STACK_PUBLISHER struct advisor_publisher __attribute__((cleanup(stack_publisher_release)))

#endif /* TESTS_UNIT_ADVISOR_SUPPORT_STACK_PUBLISHER_H */
