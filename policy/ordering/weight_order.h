/*
 * policy/ordering/weight_order.h -- orderings that give each block a weight and let the lightest
 * go.
 *
 * Why: counting uses, ageing the counts and counting by the byte differ in one formula.  This is
 * everything else: a heap, uses since a block came in, and the weight of what left last, which is
 * what ageing adds to everything that comes later.
 *
 * Ownership: policy_weigh_free() ends a state.
 * Threads:   none; one owner.
 * Limits:    as kvtier/ordering.h.
 */
#ifndef POLICY_ORDERING_WEIGHT_ORDER_H
#define POLICY_ORDERING_WEIGHT_ORDER_H

#include <stdint.h>

#include "kvtier/ordering.h"

#include "policy/ordering/block_heap.h"

struct policy_weigh {
    struct policy_heap heap; /* what is in the tier and was not taken out */
    uint32_t *uses;          /* since it came in; 0: it is cold */
    uint64_t sequence;       /* of the last use: ties go to the older one */
    double floor;            /* the heaviest weight that left */
    struct kvt_ordering_prices prices;
    double (*weight)(const struct policy_weigh *weigh, uint32_t uses, uint64_t bytes);
};

KVT_NODISCARD enum kvt_err policy_weigh_init(void **state,
                                             const struct kvt_ordering_options *options,
                                             double (*weight)(const struct policy_weigh *weigh,
                                                              uint32_t uses, uint64_t bytes));

/* The calls of kvtier/ordering.h. */
enum kvt_err policy_weigh_reserve(void *state, uint32_t count);
void policy_weigh_touch(void *state, const struct kvt_ordering_use *use);
void policy_weigh_enter(void *state, const struct kvt_ordering_use *use);
bool policy_weigh_victim(void *state, uint64_t now, uint32_t *block);
void policy_weigh_give_back(void *state, uint32_t block);
void policy_weigh_leave(void *state, uint32_t block);
void policy_weigh_forget(void *state, uint32_t block);
double policy_weigh_value(const void *state, uint32_t block, uint64_t now);
size_t policy_weigh_memory(const void *state);
void policy_weigh_free(void *state);

/* All but the name, the text and init. */
#define POLICY_WEIGH_CALLS                                                                         \
    .reserve = policy_weigh_reserve, .touch = policy_weigh_touch, .enter = policy_weigh_enter,     \
    .victim = policy_weigh_victim, .give_back = policy_weigh_give_back,                            \
    .leave = policy_weigh_leave, .forget = policy_weigh_forget, .value = policy_weigh_value,       \
    .memory = policy_weigh_memory, .free = policy_weigh_free

#endif /* POLICY_ORDERING_WEIGHT_ORDER_H */
