#include "policy/simulate/tier_simulation.h"

#include <assert.h>
#include <string.h>

#include "base/core/alloc.h"

#include "policy/decide/promotion.h"
#include "policy/ordering/tick_stamp.h"

enum { BLOCKS_FIRST = 1024 };

enum state {
    HOT = 1 << 0,
    STORED = 1 << 1, /* the cold tier has a copy, and keeps it */
};

struct policy_tier_simulation {
    struct policy_tier_simulation_options options;
    void *order;
    uint32_t *uses;      /* by number; 0: not known */
    uint32_t *cold_read; /* tick of the last cold read, plus 1; 0: none.  Only for SECOND */
    uint8_t *states;     /* enum state, by number */
    uint32_t known;
    uint64_t hot_count;
    struct policy_promotion_price price; /* of a place in the hot tier */
    struct policy_tier_simulation_result result;
};

void
policy_tier_simulation_free(struct policy_tier_simulation *simulate)
{
    if (simulate == NULL)
        return;
    simulate->options.ordering->free(simulate->order);
    kvt_free(simulate->uses);
    kvt_free(simulate->cold_read);
    kvt_free(simulate->states);
    kvt_free(simulate);
}

enum kvt_err
policy_tier_simulation_new(struct policy_tier_simulation **out,
                           const struct policy_tier_simulation_options *options)
{
    struct policy_tier_simulation *simulate = kvt_calloc(1, sizeof(*simulate));
    enum kvt_err rc;

    assert(out != NULL && options->ordering != NULL);
    *out = NULL;
    if (simulate == NULL)
        return KVT_NOMEM;
    simulate->options = *options;
    rc = options->ordering->init(&simulate->order, &options->ordering_options);
    if (rc != KVT_OK) {
        policy_tier_simulation_free(simulate);
        return rc;
    }
    *out = simulate;
    return KVT_OK;
}

static enum kvt_err
reserve(struct policy_tier_simulation *simulate, uint32_t count)
{
    uint32_t room = simulate->known == 0 ? BLOCKS_FIRST : simulate->known;
    uint8_t *states; /* enum state, by number */

    if (count <= simulate->known)
        return KVT_OK;
    if (count > KVT_ORDERING_BLOCKS_MAX)
        return KVT_NOMEM;
    while (room < count)
        room *= 2;
    if (policy_tick_stamp_reserve(&simulate->uses, simulate->known, room) != KVT_OK ||
        policy_tick_stamp_reserve(&simulate->cold_read, simulate->known, room) != KVT_OK)
        return KVT_NOMEM;
    states = kvt_realloc(simulate->states, room, sizeof(*states));
    if (states == NULL)
        return KVT_NOMEM;
    simulate->states = states;
    if (simulate->options.ordering->reserve(simulate->order, room) != KVT_OK)
        return KVT_NOMEM;
    memset(states + simulate->known, 0, room - simulate->known);
    simulate->known = room;
    return KVT_OK;
}

static void
leave(struct policy_tier_simulation *simulate, uint32_t block)
{
    const struct kvt_ordering *ordering = simulate->options.ordering;
    const uint64_t now = simulate->result.requests;

    assert((simulate->states[block] & HOT) != 0);
    simulate->result.uploads += (simulate->states[block] & STORED) == 0;
    simulate->states[block] = STORED;
    policy_promotion_left(&simulate->price, ordering->value(simulate->order, block, now));
    simulate->hot_count--;
    simulate->result.demotions++;
    ordering->leave(simulate->order, block);
}

static bool
is_worth_moving(const struct policy_tier_simulation *simulate, const struct kvt_ordering_use *use)
{
    return simulate->hot_count < simulate->options.capacity ||
           policy_promotion_pays(&simulate->price,
                                 &(struct policy_promotion_candidate){
                                     .ordering = simulate->options.ordering,
                                     .state = simulate->order,
                                     .prices = simulate->options.ordering_options.prices,
                                     .block = use->block,
                                     .now = use->now,
                                 });
}

static bool
is_promoted(struct policy_tier_simulation *simulate, const struct kvt_ordering_use *use)
{
    uint32_t *cold_read = &simulate->cold_read[use->block];
    const uint32_t before = *cold_read;

    switch (simulate->options.promotion) {
    case POLICY_PROMOTE_NEVER: return false;
    case POLICY_PROMOTE_SECOND:
        *cold_read = (uint32_t)use->now + 1;
        return before != 0 &&
               policy_tick_stamp_age(before - 1, use->now) <= simulate->options.second_ticks;
    case POLICY_PROMOTE_PRICE: return is_worth_moving(simulate, use);
    case POLICY_PROMOTE_ALWAYS: break;
    }
    return true;
}

static void
enter(struct policy_tier_simulation *simulate, const struct kvt_ordering_use *use)
{
    const struct kvt_ordering *ordering = simulate->options.ordering;
    uint32_t victim;

    while (simulate->hot_count >= simulate->options.capacity) {
        if (!ordering->victim(simulate->order, use->now, &victim))
            return; /* a tier of no blocks, or an ordering that lets none go */
        leave(simulate, victim);
    }
    simulate->states[use->block] |= HOT;
    simulate->hot_count++;
    ordering->enter(simulate->order, use);
}

static void
read_one(struct policy_tier_simulation *simulate, struct kvt_ordering_use *use)
{
    struct policy_tier_simulation_result *result = &simulate->result;
    const bool hot = (simulate->states[use->block] & HOT) != 0;
    const bool known = simulate->uses[use->block] > 0;

    if (simulate->uses[use->block] < UINT32_MAX)
        simulate->uses[use->block]++;
    use->uses = simulate->uses[use->block];
    use->flags |= hot ? KVT_ORDERING_HOT : 0;
    simulate->options.ordering->touch(simulate->order, use);
    result->known_reads += known;
    result->hot_reads += hot;
    result->blocks += !known;
    if (hot)
        return;
    if (!known) {
        enter(simulate, use);
        if ((simulate->states[use->block] & HOT) == 0) { /* no room: it goes straight down */
            simulate->states[use->block] = STORED;
            result->demotions++;
            result->uploads++;
        }
    } else if (is_promoted(simulate, use)) {
        enter(simulate, use);
        result->promotions += (simulate->states[use->block] & HOT) != 0;
    }
}

static void
demote_due(struct policy_tier_simulation *simulate, uint64_t now)
{
    const struct kvt_ordering *ordering = simulate->options.ordering;
    uint32_t block;

    if (ordering->due == NULL)
        return;
    while (ordering->due(simulate->order, now, &block))
        leave(simulate, block);
}

enum kvt_err
policy_tier_simulation_request(struct policy_tier_simulation *simulate,
                               const struct policy_workload_request *request)
{
    struct policy_tier_simulation_result *result = &simulate->result;
    const uint64_t now = result->requests;
    uint32_t highest = 0;
    uint32_t prefix = 0;

    for (uint32_t i = 0; i < request->count; i++)
        highest = request->blocks[i] >= highest ? request->blocks[i] + 1 : highest;
    if (reserve(simulate, highest) != KVT_OK)
        return KVT_NOMEM;
    demote_due(simulate, now);
    while (prefix < request->count && (simulate->states[request->blocks[prefix]] & HOT) != 0)
        prefix++;
    result->prefix_hits += prefix;
    for (uint32_t i = request->count; i-- > 0;) {
        struct kvt_ordering_use use = {
            .block = request->blocks[i],
            .position = i,
            .flags = i + 1 == request->count ? KVT_ORDERING_LAST : 0,
            .bytes = 1,
            .now = now,
        };

        read_one(simulate, &use);
    }
    assert(simulate->hot_count <= simulate->options.capacity);
    result->requests++;
    result->reads += request->count;
    return KVT_OK;
}

bool
policy_tier_simulation_has(const struct policy_tier_simulation *simulate, uint32_t block)
{
    return block < simulate->known && (simulate->states[block] & HOT) != 0;
}

struct policy_tier_simulation_result
policy_tier_simulation_result(const struct policy_tier_simulation *simulate)
{
    struct policy_tier_simulation_result result = simulate->result;

    result.memory = simulate->options.ordering->memory(simulate->order);
    return result;
}

enum kvt_err
policy_tier_simulation_run(const struct policy_workload *workload,
                           const struct policy_tier_simulation_options *options,
                           struct policy_tier_simulation_result *result)
{
    struct policy_tier_simulation *simulate;
    enum kvt_err rc;

    *result = (struct policy_tier_simulation_result){0};
    rc = policy_tier_simulation_new(&simulate, options);
    for (size_t i = 0; rc == KVT_OK && i < policy_workload_requests(workload); i++) {
        const struct policy_workload_request request = policy_workload_request(workload, i);

        rc = policy_tier_simulation_request(simulate, &request);
    }
    if (rc == KVT_OK)
        *result = policy_tier_simulation_result(simulate);
    policy_tier_simulation_free(simulate);
    return rc;
}

double
policy_tier_simulation_cost(const struct policy_tier_simulation_result *result,
                            const struct kvt_ordering_prices *prices)
{
    return (double)result->hot_reads * prices->hot_read +
           (double)(result->known_reads - result->hot_reads) * prices->cold_read +
           (double)(result->promotions + result->demotions) * prices->move;
}

const char *
policy_promotion_text(enum policy_promotion promotion)
{
    static const char *const texts[] = {
#define X(name, text) [POLICY_PROMOTE_##name] = (text),
        POLICY_PROMOTIONS(X)
#undef X
    };

    return texts[promotion];
}
