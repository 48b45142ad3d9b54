#include <stdlib.h>
#include <string.h>

#include "base/core/alloc.h"

#include "policy/decide/tier_blocks_private.h"

/* The blocks of a former life are put into the order in which they were used: tens of millions, in
 * pieces, so that whoever does it can be told that nobody wants them any more. */

struct restoring {
    struct policy_tier_blocks *roster;
    policy_tier_blocks_over_fn *is_over; /* NULL: nobody asks */
    const void *arg;
    uint32_t *order; /* NULL: no memory */
    uint32_t *spare; /* as long */
    uint32_t count;
    uint32_t done; /* steps since it was asked last */
    bool over;
};

/* So many blocks were seen to.  False: it is over. */
static bool
go_on(struct restoring *restoring, uint32_t steps)
{
    restoring->done += steps;
    if (restoring->done >= POLICY_TIER_BLOCKS_PIECE && restoring->is_over != NULL &&
        !restoring->over) {
        restoring->done = 0;
        restoring->over = restoring->is_over(restoring->arg);
    }
    return !restoring->over;
}

/* Who was used after its parent was used with it. */
static void
raise_ancestors(struct policy_tier_blocks *roster, uint32_t at)
{
    const uint32_t newest = (uint32_t)roster->newest;
    const uint32_t age = newest - roster->seats[at].stamp;

    while (at != POLICY_NONE && roster->seats[at].block.parent != 0) {
        const struct policy_seat *child = &roster->seats[at];

        at = policy_tier_blocks_find(roster, child->block.ns, child->block.parent);
        if (at == POLICY_NONE || newest - roster->seats[at].stamp <= age)
            return;
        roster->seats[at].stamp = newest - age;
    }
}

/* ---- the order ---- */

static int
older_first(const void *left, const void *right, void *arg)
{
    const struct policy_tier_blocks *roster = arg;
    const struct policy_seat *a = &roster->seats[*(const uint32_t *)left];
    const struct policy_seat *b = &roster->seats[*(const uint32_t *)right];
    const uint32_t a_age = (uint32_t)roster->newest - a->stamp;
    const uint32_t b_age = (uint32_t)roster->newest - b->stamp;

    if (a_age != b_age)
        return a_age > b_age ? -1 : 1;
    if (a->block.position != b->block.position)
        return a->block.position > b->block.position ? -1 : 1;
    if (a->block.hash != b->block.hash)
        return a->block.hash < b->block.hash ? -1 : 1;
    return (a->block.ns > b->block.ns) - (a->block.ns < b->block.ns);
}

/* Two sorted parts of `order`, up to `middle` and up to `to`, become one of `spare`. */
static bool
merge(struct restoring *restoring, uint32_t from, uint32_t middle, uint32_t to)
{
    const uint32_t *order = restoring->order;
    uint32_t left = from;
    uint32_t right = middle;

    for (uint32_t at = from; at < to; at++) {
        const bool is_left =
            right == to ||
            (left < middle && older_first(&order[left], &order[right], restoring->roster) < 0);

        restoring->spare[at] = is_left ? order[left++] : order[right++];
        if (!go_on(restoring, 1))
            return false;
    }
    return true;
}

static uint32_t
at_most(uint64_t value, uint32_t most)
{
    return value < most ? (uint32_t)value : most;
}

/* Pieces by themselves, then twice as long ones of two. */
static bool
sort(struct restoring *restoring)
{
    const uint32_t count = restoring->count;

    for (uint64_t from = 0; from < count; from += POLICY_TIER_BLOCKS_PIECE) {
        const uint32_t size = at_most(count - from, POLICY_TIER_BLOCKS_PIECE);

        qsort_r(restoring->order + from, size, sizeof(*restoring->order), older_first,
                restoring->roster);
        if (!go_on(restoring, size))
            return false;
    }
    for (uint64_t width = POLICY_TIER_BLOCKS_PIECE; width < count; width *= 2) {
        uint32_t *sorted = restoring->spare;

        for (uint64_t from = 0; from < count; from += 2 * width)
            if (!merge(restoring, (uint32_t)from, at_most(from + width, count),
                       at_most(from + 2 * width, count)))
                return false;
        restoring->spare = restoring->order;
        restoring->order = sorted;
    }
    return true;
}

/* ---- all of it ---- */

static bool
collect(struct restoring *restoring)
{
    struct policy_tier_blocks *roster = restoring->roster;

    for (uint32_t at = 0; at < roster->seats_max; at++) {
        if (roster->queues.queue_of[at] != POLICY_TIER_BLOCKS_FREE) {
            raise_ancestors(roster, at);
            if (restoring->order != NULL)
                restoring->order[restoring->count++] = at;
        }
        if (!go_on(restoring, 1))
            return false;
    }
    return true;
}

/* Without memory for an order: by number, all as of now, and time will mend it. */
static bool
pass_on(struct restoring *restoring)
{
    struct policy_tier_blocks *roster = restoring->roster;
    const uint32_t *order = restoring->order;
    const uint32_t count = order != NULL ? restoring->count : roster->seats_max;

    for (uint32_t i = 0; i < count; i++) {
        const uint32_t at = order != NULL ? order[i] : i;
        const struct policy_seat *seat = &roster->seats[at];
        const uint32_t age = order != NULL ? (uint32_t)roster->newest - seat->stamp : 0;
        const struct policy_told told = {.tick = roster->newest - age,
                                         .seat = at,
                                         .position = seat->block.position,
                                         .uses = seat->uses,
                                         .ranks = seat->block.ranks};

        if (roster->queues.queue_of[at] != POLICY_TIER_BLOCKS_FREE)
            policy_tier_blocks_pass_on(roster, &told, KVT_ORDERING_RESTORED);
        if (!go_on(restoring, 1))
            return false;
    }
    return true;
}

enum kvt_err
policy_tier_blocks_restored(struct policy_tier_blocks *roster, policy_tier_blocks_over_fn *is_over,
                            const void *arg)
{
    struct restoring restoring = {.roster = roster, .is_over = is_over, .arg = arg};
    bool sorted;
    bool whole;

    if (!roster->restoring)
        return KVT_OK;
    roster->restoring = false;
    restoring.order = kvt_calloc(roster->known, sizeof(*restoring.order));
    restoring.spare = kvt_calloc(roster->known, sizeof(*restoring.spare));
    if (restoring.order == NULL || restoring.spare == NULL) {
        kvt_free(restoring.order);
        restoring.order = NULL;
    }
    whole =
        collect(&restoring) && (restoring.order == NULL || sort(&restoring)) && pass_on(&restoring);
    roster->now = roster->newest;
    sorted = restoring.order != NULL;
    kvt_free(restoring.order);
    kvt_free(restoring.spare);
    return !whole ? KVT_CANCELLED : sorted ? KVT_OK : KVT_NOMEM;
}
