/*
 * policy/ordering/queue_order.h -- orderings that keep what is in the tier in one line, and let
 * its oldest go.
 *
 * Why: least recently used and first in, first out differ in what a use does.  This is everything
 * else.
 *
 * Ownership: policy_queue_order_free() ends a state.
 * Threads:   none; one owner.
 * Limits:    as kvtier/ordering.h.
 */
#ifndef POLICY_ORDERING_QUEUE_ORDER_H
#define POLICY_ORDERING_QUEUE_ORDER_H

#include <stdint.h>

#include "kvtier/ordering.h"

#include "policy/ordering/block_queues.h"
#include "policy/ordering/tick_stamp.h"

struct policy_queue_order {
    struct policy_block_queues queues; /* queue 0: what is in the tier */
    uint32_t *stamps;                  /* tick at which it came to its place in the line */
    uint32_t known;
};

/* The calls of kvtier/ordering.h. */
enum kvt_err policy_queue_order_init(void **state, const struct kvt_ordering_options *options);
enum kvt_err policy_queue_order_reserve(void *state, uint32_t count);
void policy_queue_order_enter(void *state, const struct kvt_ordering_use *use);
bool policy_queue_order_victim(void *state, uint64_t now, uint32_t *block);
void policy_queue_order_give_back(void *state, uint32_t block);
void policy_queue_order_leave(void *state, uint32_t block);
void policy_queue_order_forget(void *state, uint32_t block);
double policy_queue_order_value(const void *state, uint32_t block, uint64_t now);
size_t policy_queue_order_memory(const void *state);
void policy_queue_order_free(void *state);

/* All but the name, the text and touch. */
#define POLICY_QUEUE_ORDER_CALLS                                                                   \
    .init = policy_queue_order_init, .reserve = policy_queue_order_reserve,                        \
    .enter = policy_queue_order_enter, .victim = policy_queue_order_victim,                        \
    .give_back = policy_queue_order_give_back, .leave = policy_queue_order_leave,                  \
    .forget = policy_queue_order_forget, .value = policy_queue_order_value,                        \
    .memory = policy_queue_order_memory, .free = policy_queue_order_free

#endif /* POLICY_ORDERING_QUEUE_ORDER_H */
