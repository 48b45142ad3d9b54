/*
 * router/prompt_holders.h -- which workers hold a run of blocks, and for how many requests each.
 *
 * Why: most runs are one request's, so one holder lies in the set itself; a run that all workers
 * share is found in one step whichever worker is asked for, and walked in one go, without a place
 * that is empty: a decision walks all holders of what a request shares.
 *
 * Ownership: the set owns its array.
 * Threads:   none; one owner.
 * Limits:    UINT32_MAX requests a holder.
 */
#ifndef ROUTER_PROMPT_HOLDERS_H
#define ROUTER_PROMPT_HOLDERS_H

#include <stdbool.h>
#include <stdint.h>

struct router_prompt_holder {
    uint32_t worker;
    uint32_t requests; /* at least 1 */
};

/* All zero is an empty set. */
struct router_prompt_holders {
    uint32_t count;
    uint32_t capacity; /* of the places behind `many`, a power of two; 0: `one` */
    union {
        struct router_prompt_holder one;
        struct router_prompt_holder
            *many; /* half as many as places, which say where each worker is */
    };
};

void router_prompt_holders_release(struct router_prompt_holders *holders);

/** One request more of this worker.  False: no memory, and nothing changed.
 *  @param[out] first  it was none of the holders */
bool router_prompt_holders_add(struct router_prompt_holders *holders, uint32_t worker, bool *first);
/** One less; it is a holder.  True: it is none any more. */
bool router_prompt_holders_remove(struct router_prompt_holders *holders, uint32_t worker);
/** An empty set becomes the same as another.  False: no memory. */
bool router_prompt_holders_copy(struct router_prompt_holders *to,
                                const struct router_prompt_holders *from);

/** All of them, and in `count` how many. */
static inline const struct router_prompt_holder *
router_prompt_holders_all(const struct router_prompt_holders *holders, uint32_t *count)
{
    *count = holders->count;
    return holders->capacity == 0 ? &holders->one : holders->many;
}

#endif /* ROUTER_PROMPT_HOLDERS_H */
