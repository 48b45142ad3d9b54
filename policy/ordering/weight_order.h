/*
 * policy/ordering/weight_order.h -- orderings that give each block a weight and let the lightest
 * go.
 *
 * Why: counting uses, ageing the counts and counting by the byte differ in one formula.  This is
 * everything else: a heap, uses since a block came in, and the weight of what left last, which is
 * what ageing adds to everything that comes later.
 *
 * Ownership: policy_weight_order_free() ends a state.
 * Threads:   none; one owner.
 * Limits:    as kvtier/ordering.h.
 */
#ifndef POLICY_ORDERING_WEIGHT_ORDER_H
#define POLICY_ORDERING_WEIGHT_ORDER_H

#include <stdint.h>

#include "kvtier/ordering.h"

#include "policy/ordering/block_heap.h"

struct policy_weight_order {
    struct policy_block_heap heap; /* what is in the tier and was not taken out */
    uint32_t *uses;                /* since it came in; 0: it is cold */
    uint64_t sequence;             /* of the last use: ties go to the older one */
    double floor;                  /* the heaviest weight that left */
    struct kvt_ordering_prices prices;
    double (*weight)(const struct policy_weight_order *weigh, uint32_t uses, uint64_t bytes);
};

KVT_NODISCARD enum kvt_err policy_weight_order_init(
    void **state, const struct kvt_ordering_options *options,
    double (*weight)(const struct policy_weight_order *weigh, uint32_t uses, uint64_t bytes));

/* The calls of kvtier/ordering.h. */
enum kvt_err policy_weight_order_reserve(void *state, uint32_t count);
void policy_weight_order_touch(void *state, const struct kvt_ordering_use *use);
void policy_weight_order_enter(void *state, const struct kvt_ordering_use *use);
bool policy_weight_order_victim(void *state, uint64_t now, uint32_t *block);
void policy_weight_order_give_back(void *state, uint32_t block);
void policy_weight_order_leave(void *state, uint32_t block);
void policy_weight_order_forget(void *state, uint32_t block);
double policy_weight_order_value(const void *state, uint32_t block, uint64_t now);
size_t policy_weight_order_memory(const void *state);
void policy_weight_order_free(void *state);

/* All but the name, the text and init. */
#define POLICY_WEIGHT_ORDER_CALLS                                                                  \
    .reserve = policy_weight_order_reserve, .touch = policy_weight_order_touch,                    \
    .enter = policy_weight_order_enter, .victim = policy_weight_order_victim,                      \
    .give_back = policy_weight_order_give_back, .leave = policy_weight_order_leave,                \
    .forget = policy_weight_order_forget, .value = policy_weight_order_value,                      \
    .memory = policy_weight_order_memory, .free = policy_weight_order_free

#endif /* POLICY_ORDERING_WEIGHT_ORDER_H */
