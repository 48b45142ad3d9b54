#include "policy/decide/promotion.h"

enum { LEAVING_AVERAGE = 256 };

#define STAY_MAX (UINT64_C(1) << 30)

void
policy_promotion_left(struct policy_promotion_price *price, double value)
{
    price->leaving += (value - price->leaving) / LEAVING_AVERAGE;
}

static double
value_at(const struct policy_promotion_candidate *candidate, uint64_t later)
{
    return candidate->ordering->value(candidate->state, candidate->block, candidate->now + later);
}

static double
chance_within(const struct policy_promotion_candidate *candidate, uint64_t window)
{
    return candidate->ordering->chance(candidate->state, candidate->block, candidate->now, window);
}

/* How long the block would stay without a use: until its value falls to what leaves nowadays. */
static uint64_t
stay_of(const struct policy_promotion_candidate *candidate, double leaving)
{
    uint64_t stay = 0;
    uint64_t step = 1;

    while (step < STAY_MAX && value_at(candidate, step) > leaving)
        step *= 2;
    for (; step > 0; step /= 2)
        if (value_at(candidate, stay + step) > leaving)
            stay += step;
    return stay;
}

/* How long it would wait there for its use: what is left waiting, summed up over ever later times,
 * each twice the one before. */
static double
wait_of(const struct policy_promotion_candidate *candidate, uint64_t stay)
{
    double waits_at_end = 1 - chance_within(candidate, stay);
    double ticks = 0;

    for (uint64_t end = stay; end > 0; end /= 2) {
        const uint64_t middle = end / 2; /* rounded down: times are whole ticks */
        const double waits = 1 - chance_within(candidate, middle);

        ticks += (waits + waits_at_end) / 2 * (double)(end - middle);
        waits_at_end = waits;
    }
    return ticks;
}

bool
policy_promotion_pays(const struct policy_promotion_price *price,
                      const struct policy_promotion_candidate *candidate)
{
    const struct kvt_ordering_prices *prices = &candidate->prices;
    double uses;
    uint64_t stay;

    if (candidate->ordering->chance == NULL)
        return true;
    stay = stay_of(candidate, price->leaving);
    uses = chance_within(candidate, stay) - price->leaving * wait_of(candidate, stay);
    return uses * (prices->cold_read - prices->hot_read) > 2 * prices->move;
}
